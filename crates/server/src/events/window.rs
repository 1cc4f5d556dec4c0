//! Forgets events that nobody will come back for, a batch at a time, and knows up to which they are gone.

use super::feed;
use crate::args;
use crate::database::{Database, Result};
use jiff::Timestamp;
use volley_plan::news::Window;

/// Events that one transaction deletes: others wait for it.
const BATCH: usize = 2000;
/// The setting that holds the id of the last event that is gone.
const PRUNED: &str = "events_pruned";

pub async fn prune(database: &Database, window: Window, now: Timestamp) -> Result<()> {
    loop {
        let newest = feed::latest(database).await?;
        let rows = database.all("SELECT id, at FROM events ORDER BY id LIMIT $1", args![BATCH]).await?;
        let mut oldest = Vec::with_capacity(rows.len());
        for row in &rows {
            oldest.push((row.get("id")?, Timestamp::from_microsecond(row.get("at")?).unwrap_or(now)));
        }
        let Some(upto) = window.outdated(&oldest, newest, now) else {
            return Ok(());
        };
        let mut write = database.write().await?;
        let sql = "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        write.run(sql, args![PRUNED, upto.to_string()]).await?;
        write.run("DELETE FROM events WHERE id <= $1", args![upto]).await?;
        write.commit().await?;
    }
}

/// The last event that is gone.
pub async fn pruned(database: &Database) -> Result<i64> {
    let row = database.maybe("SELECT value FROM settings WHERE name = $1", args![PRUNED]).await?;
    let value = row.map(|row| row.get::<String>("value")).transpose()?;
    Ok(value.and_then(|value| value.parse().ok()).unwrap_or(0))
}
