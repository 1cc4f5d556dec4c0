//! Launch agents, as they present themselves to the server.

pub mod graphql;
pub mod store;

use crate::Shared;
use crate::fault::{Fault, Result};
use crate::ids;
use crate::people::Caller;
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

pub async fn expect(shared: &Shared, caller: &Caller, deed: Deed, id: &str) -> Result<Agent> {
    let missing = || Fault::missing("the launch agent");
    let number = ids::decode("LaunchAgent", id).ok_or_else(missing)?;
    let agent = store::by_id(&shared.database, number).await?.ok_or_else(missing)?;
    caller.must(deed, agent.entity_id, "the launch agent")?;
    Ok(agent)
}
