//! `GET /api/v1/events`: server-sent events, resumable by the id of the last one seen.

use crate::Shared;
use crate::args;
use crate::database::Result;
use crate::fault::Fault;
use crate::http::auth::Known;
use crate::people::Lasting;
use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, stream};
use http::HeaderMap;
use serde::Deserialize;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::watch;

/// As many as are read at once; the rest is read when these are sent.
const BATCH: i64 = 256;
/// How often the table is looked at without being woken, for what other replicas wrote.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Deserialize)]
pub struct From {
    /// Events after this one; without it, from now on.
    after: Option<i64>,
}

pub async fn follow(
    State(shared): State<Shared>,
    Known(caller): Known,
    Query(from): Query<From>,
    headers: HeaderMap,
) -> std::result::Result<Sse<impl Stream<Item = std::result::Result<Event, Infallible>>>, Fault> {
    let resumed = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let after = match resumed.or(from.after) {
        Some(id) => id,
        None => latest(&shared).await?,
    };
    let news = shared.news.follow();
    let reader = Reader { shared, caller: Lasting::new(caller), news, after, ready: VecDeque::new() };
    Ok(Sse::new(stream::unfold(reader, Reader::next)).keep_alive(KeepAlive::default()))
}

struct Reader {
    shared: Shared,
    caller: Lasting,
    news: watch::Receiver<u64>,
    after: i64,
    ready: VecDeque<Event>,
}

impl Reader {
    async fn next(mut self) -> Option<(std::result::Result<Event, Infallible>, Reader)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            self.news.mark_unchanged();
            let before = self.after;
            match self.read().await {
                Ok(true) => (),
                // Whoever was shut out in the meantime.
                Ok(false) => return None,
                Err(error) => {
                    tracing::warn!(%error, "failed to read events; the client will come back");
                    return None;
                }
            }
            if self.after == before {
                tokio::select! {
                    () = self.shared.stop.cancelled() => return None,
                    _ = tokio::time::timeout(LOOK, self.news.changed()) => (),
                }
            }
        }
    }

    /// Reads the next events, and keeps those that the caller may see.
    async fn read(&mut self) -> Result<bool> {
        let Some(caller) = self.caller.now(&self.shared.database).await? else {
            return Ok(false);
        };
        let sql = "SELECT * FROM events WHERE id > $1 ORDER BY id LIMIT $2";
        for row in self.shared.database.all(sql, args![self.after, BATCH]).await? {
            self.after = row.get("id")?;
            if !caller.may_see(row.get("entity_id")?) {
                continue;
            }
            let data = serde_json::json!({
                "at": crate::graphql::scalars::date_text(row.get("at")?),
                "kind": row.get::<String>("kind")?,
                "subject": row.get::<String>("subject")?,
                "body": serde_json::from_str::<serde_json::Value>(&row.get::<String>("body")?).unwrap_or_default(),
            });
            let event = Event::default().id(self.after.to_string()).event(row.get::<String>("kind")?);
            self.ready.push_back(event.data(data.to_string()));
        }
        Ok(true)
    }
}

async fn latest(shared: &Shared) -> Result<i64> {
    let row = shared.database.maybe("SELECT COALESCE(MAX(id), 0) AS id FROM events", args![]).await?;
    row.map_or(Ok(0), |row| row.get("id"))
}
