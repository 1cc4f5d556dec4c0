//! Launch agents, as they present themselves to the server.

pub mod cluster;
pub mod graphql;
pub mod store;

use crate::Shared;
use crate::fault::{Fault, Result};
use crate::ids;
use crate::people::Caller;
use jiff::Timestamp;
use volley_plan::people::Deed;

#[derive(Clone, Debug)]
pub struct Agent {
    pub id: i64,
    pub entity_id: i64,
    pub name: String,
    pub hostname: String,
    /// A JSON list of global ids.
    pub queues: String,
    pub status: String,
    pub is_told_to_stop: bool,
    pub config: Option<String>,
    pub version: Option<String>,
    pub heartbeat_at: i64,
}

/// How stale a heartbeat may be, so that not every look at an agent is a write.
const HEARTBEAT_GRAIN_US: i64 = 5_000_000;

/// Notes that an agent lives, unless that was noted a moment ago.
pub async fn hear(shared: &Shared, agent: &Agent, now: Timestamp) -> Result<()> {
    if agent.heartbeat_at + HEARTBEAT_GRAIN_US < now.as_microsecond() {
        let mut write = shared.database.write().await?;
        store::hear(&mut write, agent.id, None, now).await?;
        write.commit().await?;
    }
    Ok(())
}

pub async fn expect(shared: &Shared, caller: &Caller, deed: Deed, id: &str) -> Result<Agent> {
    let missing = || Fault::missing("the launch agent");
    let number = ids::decode("LaunchAgent", id).ok_or_else(missing)?;
    let agent = store::by_id(&shared.database, number).await?.ok_or_else(missing)?;
    caller.must(deed, agent.entity_id, "the launch agent")?;
    Ok(agent)
}
