//! Claims whose volume is made where their pod goes: they are told of the node, and the pod is bound once they have it.

use crate::calls::{Calls, Refusal};
use crate::kinds::CLAIMS;
use futures::future::try_join_all;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use volley_plan::gang::fit::{OpenClaim, SELECTED_NODE};
use volley_plan::gang::objects::Key;

/// As long as Kubernetes' own scheduler waits; then another node is tried.
const VOLUME_WAIT: Duration = Duration::from_secs(600);

/// By claim, whether it has its volume, as the view sees it.
pub type Claims = BTreeMap<Key, bool>;

/// Of claims that several pods share the first says where.
pub type Wishes = BTreeMap<Key, (OpenClaim, Arc<str>)>;

/// Tells each claim of its node and waits until all have their volumes.
pub async fn settle(
    wishes: &Wishes,
    calls: &Calls,
    permits: &Semaphore,
    mut seen: watch::Receiver<Claims>,
) -> Result<(), Refusal> {
    let untold = wishes.iter().filter(|(_, (claim, _))| !claim.is_told);
    try_join_all(untold.map(|(key, (_, node))| async move {
        // It is never closed.
        let _permit = permits.acquire().await;
        let patch = json!({"metadata": {"annotations": {SELECTED_NODE: **node}}});
        calls.patch(CLAIMS, key, &patch).await
    }))
    .await?;
    let is_over = |seen: &Claims| wishes.keys().all(|key| seen.get(key).copied().unwrap_or(true));
    // Whether it ends in time or not, what is there then counts.
    let _ = tokio::time::timeout(VOLUME_WAIT, seen.wait_for(is_over)).await;
    let seen = seen.borrow();
    match wishes.keys().find(|key| seen.get(*key) != Some(&true)) {
        None => Ok(()),
        Some(key) => Err(refusal(key, seen.contains_key(key))),
    }
}

fn refusal(claim: &Key, is_there: bool) -> Refusal {
    let name = &claim.name;
    match is_there {
        true => Refusal {
            code: 0,
            words: format!("persistentvolumeclaim \"{name}\" has got no volume within {VOLUME_WAIT:?}"),
        },
        false => Refusal { code: 404, words: format!("persistentvolumeclaim \"{name}\" not found") },
    }
}
