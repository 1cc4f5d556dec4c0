//! Claims that get their volume where their pod goes: a volume is set aside for them, or they are told of the node so that
//! one is made there. The pod is bound once they have it.

use crate::calls::{Calls, Refusal};
use crate::kinds::{CLAIMS, VOLUMES};
use futures::future::try_join_all;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use volley_plan::gang::objects::Key;
use volley_plan::gang::volumes::{SELECTED_NODE, Way};

/// As long as Kubernetes' own scheduler waits; then another node is tried.
const VOLUME_WAIT: Duration = Duration::from_secs(600);

/// By claim, whether it has its volume, as the view sees it.
pub type Claims = BTreeMap<Key, bool>;

/// Of claims that several pods share the first says where.
pub type Wishes = BTreeMap<Key, (Way, Arc<str>)>;

/// Gives or tells each claim what it is to have and waits until all have their volumes.
pub async fn settle(
    wishes: &Wishes,
    calls: &Calls,
    permits: &Semaphore,
    mut seen: watch::Receiver<Claims>,
) -> Result<(), Refusal> {
    try_join_all(wishes.iter().map(|(key, (way, node))| async move {
        // It is never closed.
        let _permit = permits.acquire().await;
        match way {
            Way::Told => Ok(()),
            Way::Tell => {
                let patch = json!({"metadata": {"annotations": {SELECTED_NODE: **node}}});
                calls.patch(CLAIMS, key, &patch).await.map(drop)
            }
            Way::Give { volume, patch } => {
                let volume = Key { namespace: "".into(), name: volume.clone() };
                calls.patch(VOLUMES, &volume, patch).await.map(drop)
            }
        }
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
