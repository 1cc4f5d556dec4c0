//! What happened: the event stream that our own clients follow, and the audit log.
//!
//! An event is a row, written in the transaction of what it tells of. Its id rises in the order in which transactions
//! become visible, so that whoever has seen event N and asks for what follows misses nothing.

pub mod feed;
pub mod progress;
pub mod stream;
pub mod window;

use crate::args;
use crate::database::{Dialect, Result, Write};
use crate::people::Caller;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::watch;

/// Held from the insertion of an event to its commit, so that ids become visible in order. Any number will do.
const POSTGRES_LOCK: i64 = 0x6576_656e_7473;

/// Wakes the one who reads events for all, after a commit. What they then read is the table.
#[derive(Clone)]
pub struct News(watch::Sender<u64>);

impl Default for News {
    fn default() -> News {
        News(watch::Sender::new(0))
    }
}

impl News {
    pub fn announce(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// Of a refusal; the item has all of it.
const DETAIL_MAX: usize = 2000;

pub struct Event<'a> {
    /// Whose members may see it; below zero, a private queue.
    pub entity: i64,
    /// A noun and what became of it: `item.leased`.
    pub kind: &'a str,
    /// The global id of what it is about.
    pub subject: &'a str,
    pub body: Value,
}

/// Writes an event. It should be the last statement of its transaction: on PostgreSQL it makes others wait.
pub async fn record(write: &mut Write, event: Event<'_>, now: Timestamp) -> Result<()> {
    if write.dialect() == Dialect::Postgres {
        write.all("SELECT pg_advisory_xact_lock($1)", args![POSTGRES_LOCK]).await?;
    }
    let sql = "INSERT INTO events (at, entity_id, kind, subject, body) VALUES ($1, $2, $3, $4, $5)";
    write.run(sql, args![now, event.entity, event.kind, event.subject, event.body.to_string()]).await?;
    Ok(())
}

/// Notes what somebody submitted that an agent would not run, and why.
pub async fn audit_refusal(write: &mut Write, user: i64, subject: &str, why: &str, now: Timestamp) -> Result<()> {
    let sql =
        "INSERT INTO audit (at, user_id, deed, subject, detail, address) VALUES ($1, $2, 'item.refuse', $3, $4, NULL)";
    let why: String = why.chars().take(DETAIL_MAX).collect();
    write.run(sql, args![now, user, subject, why]).await?;
    Ok(())
}

/// Notes who did what, for deeds that change what others may do or find.
pub async fn audit(write: &mut Write, caller: &Caller, deed: &str, subject: &str, now: Timestamp) -> Result<()> {
    let sql = "INSERT INTO audit (at, user_id, deed, subject, detail, address) VALUES ($1, $2, $3, $4, '', $5)";
    let address = caller.address.map(|address| address.to_string());
    write.run(sql, args![now, caller.user.id, deed, subject, address]).await?;
    Ok(())
}
