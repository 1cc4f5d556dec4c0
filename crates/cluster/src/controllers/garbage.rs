//! The garbage collector, the shell: the graph in `observe` says what must go, this carries it out.

use super::Shell;
use super::apply::{SyncError, Synced};

const NAME: &str = "generic-garbage-collector";
/// Writes of one round: enough to fill the store's commits, few enough to see new decisions soon.
const ACTIONS_MAX: usize = 256;

impl Shell {
    /// Works the graph's decisions off until there are none (K-GC-1, K-GC-3).
    pub async fn collect_garbage(&self) -> Synced {
        let mut before = Vec::new();
        loop {
            let plan = self.look().graph.plan(ACTIONS_MAX);
            if plan.actions.is_empty() {
                return Ok(None);
            }
            if plan.actions == before {
                // What was asked for was accepted and yet nothing changed; asking in a tight loop would not help.
                return Err(SyncError::Stale { action: format!("settle {} dependants", before.len()) });
            }
            before = plan.actions.clone();
            self.apply_each(NAME, plan.actions).await?;
        }
    }
}
