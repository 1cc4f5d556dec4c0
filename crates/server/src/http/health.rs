//! Whether the server lives and can answer, and what Prometheus counts.

use crate::Shared;
use crate::args;
use crate::database::Result as Read;
use crate::fault::Fault;
use axum::extract::State;
use axum::response::IntoResponse;
use http::{StatusCode, header};
use std::fmt::Write as _;

pub async fn alive() -> &'static str {
    "ok\n"
}

/// Requests can be answered if the database answers.
pub async fn ready(State(shared): State<Shared>) -> Result<&'static str, Fault> {
    let answer = shared.database.maybe("SELECT 1 AS one", args![]).await;
    answer.map(|_| "ok\n").map_err(|_| Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer"))
}

/// Totals only: a name of a team or a queue would be for everybody to read.
pub async fn metrics(State(shared): State<Shared>) -> Result<impl IntoResponse, Fault> {
    let mut text = String::new();
    let mut head = |name: &str, kind: &str, help: &str| {
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    };
    head("volley_build_info", "gauge", "The version that runs.");
    let _ = writeln!(text, "volley_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    for (name, help, sql) in [
        ("volley_queue_items", "Items of all queues.", "SELECT state, COUNT(*) AS n FROM items GROUP BY state"),
        ("volley_runs", "Runs.", "SELECT state, COUNT(*) AS n FROM runs GROUP BY state"),
        ("volley_agents", "Launch agents.", "SELECT status AS state, COUNT(*) AS n FROM agents GROUP BY status"),
    ] {
        gauge(&shared, &mut text, name, help, sql).await?;
    }
    let events = "SELECT COALESCE(MAX(id), 0) AS n FROM events";
    counter(&mut text, "volley_events_total", "Events that were recorded.", one(&shared, events).await?);
    let refused = i64::try_from(shared.limits.refused()).unwrap_or(i64::MAX);
    counter(&mut text, "volley_requests_limited_total", "Requests refused for coming too often.", refused);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text))
}

async fn gauge(shared: &Shared, text: &mut String, name: &str, help: &str, sql: &'static str) -> Read<()> {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n");
    for row in shared.database.all(sql, args![]).await? {
        let state: String = row.get("state")?;
        let state: String = state.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let _ = writeln!(text, "{name}{{state=\"{}\"}} {}", state.to_lowercase(), row.get::<i64>("n")?);
    }
    Ok(())
}

fn counter(text: &mut String, name: &str, help: &str, value: i64) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}\n");
}

async fn one(shared: &Shared, sql: &'static str) -> Read<i64> {
    shared.database.maybe(sql, args![]).await?.map_or(Ok(0), |row| row.get("n"))
}
