//! One reader of the table for everybody who follows: each event is read and worded once, and handed to all.
//!
//! What is handed out is kept in a ring of fixed size. Whoever is too slow for it, or begins further back, reads the
//! table until it has caught up, so nobody misses anything and nobody costs memory by being slow.

use super::News;
use crate::args;
use crate::database::{Database, Result};
use bytes::{BufMut as _, Bytes, BytesMut};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

/// As many events as are read at once.
const BATCH: i64 = 128;
/// Batches in the ring: with events of some hundred bytes a few megabytes at most.
const RING: usize = 128;
/// How often the table is looked at without being woken, for what other replicas wrote, or whose writer went away.
const LOOK: Duration = Duration::from_millis(500);
/// How long to wait after the database failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Consecutive events, worded for the wire.
#[derive(Clone)]
pub struct Batch {
    /// The event before the first of these.
    pub after: i64,
    /// The last of these.
    pub upto: i64,
    pub events: Vec<Told>,
    /// All of them in one piece.
    pub whole: Bytes,
}

#[derive(Clone)]
pub struct Told {
    pub id: i64,
    pub entity: i64,
    pub frame: Bytes,
}

pub struct Feed {
    sender: broadcast::Sender<Arc<Batch>>,
    arrival: Notify,
}

impl Default for Feed {
    fn default() -> Feed {
        Feed { sender: broadcast::Sender::new(RING), arrival: Notify::new() }
    }
}

impl Feed {
    pub fn follow(&self) -> broadcast::Receiver<Arc<Batch>> {
        let receiver = self.sender.subscribe();
        self.arrival.notify_one();
        receiver
    }

    /// Reads and hands out until the server stops.
    pub async fn run(&self, database: &Database, news: &News, stop: &CancellationToken) {
        let mut news = news.follow();
        let mut at = None;
        while !stop.is_cancelled() {
            if self.sender.receiver_count() == 0 {
                at = None;
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.arrival.notified() => continue,
                }
            }
            news.mark_unchanged();
            match self.step(database, &mut at).await {
                Ok(true) => (),
                Ok(false) => tokio::select! {
                    () = stop.cancelled() => return,
                    _ = news.changed() => (),
                    () = tokio::time::sleep(LOOK) => (),
                },
                Err(error) => {
                    tracing::warn!(%error, "failed to read events");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Hands out the next events; says whether there were any.
    async fn step(&self, database: &Database, at: &mut Option<i64>) -> Result<bool> {
        let Some(after) = *at else {
            let latest = latest(database).await?;
            *at = Some(latest);
            // Without events, but whoever has seen less than this now knows that there is more.
            let batch = Batch { after: latest, upto: latest, events: Vec::new(), whole: Bytes::new() };
            let _ = self.sender.send(Arc::new(batch));
            return Ok(true);
        };
        let batch = read(database, after).await?;
        let has_any = batch.upto > after;
        if has_any {
            *at = Some(batch.upto);
            // Nobody may be left to hear it.
            let _ = self.sender.send(Arc::new(batch));
        }
        Ok(has_any)
    }
}

/// The events after one, as many as fit into a batch.
pub async fn read(database: &Database, after: i64) -> Result<Batch> {
    let sql = "SELECT * FROM events WHERE id > $1 ORDER BY id LIMIT $2";
    let mut events = Vec::new();
    let mut whole = BytesMut::new();
    for row in database.all(sql, args![after, BATCH]).await? {
        let (id, kind): (i64, String) = (row.get("id")?, row.get("kind")?);
        let data = serde_json::json!({
            "at": crate::graphql::scalars::date_text(row.get("at")?),
            "kind": kind,
            "subject": row.get::<String>("subject")?,
            "body": serde_json::from_str::<serde_json::Value>(&row.get::<String>("body")?).unwrap_or_default(),
        });
        // JSON has no line breaks of its own, so one line of data is enough.
        let frame = Bytes::from(format!("id: {id}\nevent: {kind}\ndata: {data}\n\n"));
        whole.put_slice(&frame);
        events.push(Told { id, entity: row.get("entity_id")?, frame });
    }
    let upto = events.last().map_or(after, |event| event.id);
    Ok(Batch { after, upto, events, whole: whole.freeze() })
}

pub async fn latest(database: &Database) -> Result<i64> {
    let row = database.maybe("SELECT COALESCE(MAX(id), 0) AS id FROM events", args![]).await?;
    row.map_or(Ok(0), |row| row.get("id"))
}
