//! Leader election by a Lease: of several replicas one acts, and another takes over when it is gone.

use kube::Client;
use tokio_util::sync::CancellationToken;

/// Which Lease, and who we are.
#[derive(Debug, Clone)]
pub struct Election {
    pub namespace: String,
    pub name: String,
    pub identity: String,
}

/// We lead until `lost` is cancelled; `resign` lets another take over at once.
#[derive(Debug)]
pub struct Leadership {
    pub lost: CancellationToken,
}

/// Waits until we lead; `None` when `stop` came first.
pub async fn lead(_client: Client, _election: Election, _stop: CancellationToken) -> Option<Leadership> {
    None
}

impl Leadership {
    pub async fn resign(self) {}
}
