//! Durable submits and pops per second, by so many clients, each waiting for its answer before it asks again.

use super::server::{Launch, Store};
use crate::measure::per_second_while;
use crate::reference;
use crate::table::{Row, Table};
use crate::wire::Protocol;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

const CLIENTS: [usize; 3] = [1, 8, 64];
const MAKE: &str = r#"mutation M($queue: String!) { createRunQueue(input: {entityName: "volley", projectName: "model-registry", queueName: $queue, access: PROJECT, prioritizationMode: V0}) { success } }"#;
const SUBMIT: &str = r#"mutation S($queue: String!, $spec: JSONString!, $priority: Int) { pushToRunQueueByName(input: {entityName: "volley", projectName: "model-registry", queueName: $queue, runSpec: $spec, priority: $priority}) { runQueueItemId } }"#;
const POP: &str = r#"mutation P($queue: String!) { popFromRunQueue(input: {entityName: "volley", projectName: "model-registry", queueName: $queue}) { runQueueItemId runSpec } }"#;
/// As large as what `wandb launch` sends of a small job.
const SPEC: &str = r#"{"resource":"kubernetes","resource_args":{"kubernetes":{"metadata":{"name":"train"}}},"docker":{"docker_image":"registry/train:1"},"overrides":{"args":["--epochs","10"],"run_config":{"lr":0.1,"layers":12}},"entity":"volley","project":"bench","name":"train"}"#;

pub async fn submits_and_pops(launch: &Launch, folder: &Path, table: &mut Table) -> Result<()> {
    for clients in CLIENTS {
        let queue = format!("q{clients}");
        launch.connect().await?.graphql(MAKE, json!({ "queue": queue })).await?;
        let scale = format!("{clients} clients, {}", launch.store.name());
        let reference = match launch.store {
            Store::Sqlite => ("append + fdatasync, one writer", reference::synced_appends_per_second(folder, 512)?),
            Store::Postgres => ("pgbench, one insert each", pgbench(launch, clients, folder)?),
        };
        let submit = rate(launch, clients, SUBMIT, json!({ "queue": queue, "spec": SPEC, "priority": 1 })).await?;
        table.add(Row { figure: "durable submits", scale: scale.clone(), value: submit, unit: "/s", reference });
        let pop = rate(launch, clients, POP, json!({ "queue": queue })).await?;
        table.add(Row { figure: "durable pops", scale, value: pop, unit: "/s", reference });
    }
    Ok(())
}

async fn rate(launch: &Launch, clients: usize, query: &'static str, variables: Value) -> Result<f64> {
    let body = Bytes::from(json!({ "query": query, "variables": variables }).to_string());
    let request = move |_| (Method::POST, "/graphql".to_owned(), body.clone());
    per_second_while(&launch.access, Protocol::Http1, clients, request, move |answer| {
        let is_done = answer.windows(14).any(|window| window == b"runQueueItemId");
        // An empty queue is no pop.
        ensure!(is_done || query == POP, "{}", String::from_utf8_lossy(answer));
        Ok(is_done)
    })
    .await
}

/// PostgreSQL's own measure of the same number of clients that insert one row each time.
fn pgbench(launch: &Launch, clients: usize, folder: &Path) -> Result<f64> {
    let postgres = launch.postgres.as_ref().context("it runs on PostgreSQL")?;
    let script = folder.join("insert.sql");
    std::fs::write(&script, format!("INSERT INTO bench_rows (body) VALUES ('{}');\n", "x".repeat(512)))?;
    let psql = |words: &[&str]| -> Result<String> {
        let output = Command::new(words[0]).args(&words[1..]).arg(postgres.url()).output()?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    psql(&["psql", "-qc", "CREATE TABLE IF NOT EXISTS bench_rows (id BIGSERIAL PRIMARY KEY, body TEXT)"])?;
    let (number, threads) = (clients.to_string(), clients.min(2).to_string());
    let script = script.display().to_string();
    let said = psql(&["pgbench", "-n", "-c", &number, "-j", &threads, "-T", "3", "-f", &script])?;
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    Ok(rate.unwrap_or(0.0))
}
