//! Nodes, the shell: a placeholder for this machine where no node runs, and pods that no node will ever end.
//!
//! The placeholder says in its Ready condition that nothing runs pods here. What is deleted while bound to it, or to a
//! node that does not exist, has no process to wait for, so its graceful deletion is finished here.

use super::apply::{SyncError, Synced};
use super::queue::{Controller, Key};
use super::{Shell, split};
use crate::node::facts;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_plan::control::node;
use volley_plan::node::devices::Inventory;
use volley_plan::node::machine::{self, LEASE_NAMESPACE, Wanted};
use volley_plan::node::pressure::Pressures;

/// How long a pod on a node that is not there is left alone: upstream's time, in which a node may (re-)register.
const MISSING_NODE_PATIENCE: Duration = Duration::from_secs(40);
/// How long this machine's node, known from an earlier run, has to speak up: longer than its last lease can last.
const SILENCE_MAX: Duration = Duration::from_secs(45);
/// The visit at the end of that time.
const SILENT: &str = "silent";
const PLACEHOLDER: &str = "node-placeholder";

impl Shell {
    /// Shows this machine as a node that is not ready, unless a node that runs here shows it.
    ///
    /// Whether one runs is not known at the start. The object of an earlier run therefore stays as it is, so that a
    /// restart does not make the node flap; it becomes the placeholder only when nobody renews its lease.
    pub async fn sync_own_node(&self, visit: &str) -> Synced {
        let facts = facts::read(&self.home);
        let no_devices = Inventory { devices: Vec::new(), slices: 1 };
        let wanted = Wanted {
            facts: &facts,
            runtime: None,
            amounts: &machine::amounts(&facts, &no_devices),
            device_labels: &BTreeMap::new(),
            pressures: Pressures::default(),
            images: None,
        };
        let failed = |error| SyncError::of(format!("register node `{}`", facts.name), error);
        let Some(node) = self.get::<Value>("nodes", &facts.name) else {
            let created = self.server.local(PLACEHOLDER).create("", "nodes", "", wanted.object(Timestamp::now())).await;
            return match created {
                Err(error) if error.reason != "AlreadyExists" => Err(failed(error)),
                _ => Ok(None),
            };
        };
        if machine::is_placeholder(&node) {
            return Ok(None);
        }
        if visit != SILENT {
            self.queue.add_after(Key::new(Controller::OwnNode, SILENT), SILENCE_MAX);
            return Ok(None);
        }
        let lease = self.get::<Value>("coordination.k8s.io/leases", &format!("{LEASE_NAMESPACE}/{}", facts.name));
        let is_alive = lease.is_some_and(|lease| machine::lease_left_s(&lease, Timestamp::now()).is_some());
        if is_alive {
            return Ok(None);
        }
        self.make_placeholder(&node, &wanted).await.map_err(failed)?;
        Ok(None)
    }

    async fn make_placeholder(&self, node: &Value, wanted: &Wanted<'_>) -> Result<(), ApiError> {
        let (local, name) = (self.server.local(PLACEHOLDER), &wanted.facts.name);
        if let Some(patch) = wanted.status_patch(node, Timestamp::now()) {
            local.patch_status("", "nodes", "", name, patch).await?;
        }
        if let Some(patch) = wanted.metadata_patch(node) {
            local.patch("", "nodes", "", name, patch).await?;
        }
        Ok(())
    }

    /// Keeps new pods away from a node as its conditions demand.
    pub async fn sync_node_taints(&self, name: &str) -> Synced {
        let Some(seen) = self.get::<Value>("nodes", name) else { return Ok(None) };
        self.apply("node-lifecycle-controller", node::plan(&seen, Timestamp::now())).await
    }

    /// Ends a pod whose node cannot: the placeholder at once, a missing node after some patience.
    pub async fn sync_pod_end(&self, key: &str) -> Synced {
        let Some(pod) = self.get::<Value>("pods", key) else { return Ok(None) };
        let node = text(&pod, "spec.nodeName");
        if node.is_empty() {
            return Ok(None);
        }
        let is_deleting = pod["metadata"].get("deletionTimestamp").is_some();
        match self.get::<Value>("nodes", node) {
            Some(found) => {
                self.missing_nodes.lock().remove(node);
                if !is_deleting || !machine::is_placeholder(&found) {
                    return Ok(None);
                }
            }
            None => {
                let since = *self.missing_nodes.lock().entry(node.to_owned()).or_insert_with(Instant::now);
                let left = MISSING_NODE_PATIENCE.saturating_sub(since.elapsed());
                if !left.is_zero() {
                    return Ok(Some(left));
                }
            }
        }
        let uid = text(&pod, "metadata.uid");
        let deleted = self.server.local("pod-garbage-collector").delete_pod_now(split(key), uid).await;
        deleted.map(|()| None).map_err(|error| SyncError::of(format!("end pod `{key}`"), error))
    }
}
