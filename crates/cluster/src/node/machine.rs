//! The Node object of this machine and its heart-beat: a lease every ten seconds, the status when something changes.
//!
//! The node reads the machine once with `Machine::observe`, calls `register` before it takes pods and leaves `run` to
//! beat. When volley stops, nothing is written: like the kubelet, a node that comes back in time was never away.

use super::facts::{self, Gauges};
use crate::apiserver::ApiServer;
use crate::runtime::Capabilities;
use crate::runtime::spec::Mode;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_plan::node::admission::NodeAmounts;
use volley_plan::node::devices::Inventory;
use volley_plan::node::downward::Surroundings;
use volley_plan::node::machine::{self, Facts, LEASE_NAMESPACE, Runtime, Wanted};
use volley_plan::node::pressure::{Pressures, Reading};
use volley_plan::node::status::HostFacts;

/// Upstream's share of a lease's forty seconds.
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How often a write is worked out again because somebody else changed the object meanwhile.
const RACES_MAX: usize = 8;
const CALLER: &str = "volley:node";
const COORDINATION: &str = "coordination.k8s.io";
const CLUSTER_DOMAIN: &str = "cluster.local";

/// This machine as a node.
#[derive(Debug)]
pub struct Machine {
    pub name: String,
    facts: Facts,
    runtime: Runtime,
    amounts: NodeAmounts,
    device_labels: BTreeMap<String, String>,
    gauges: Gauges,
    pressures: Mutex<Pressures>,
    pressure_changed: Notify,
}

impl Machine {
    /// Reads the machine once. `lacks` is what pods cannot have beyond what the runtime says.
    pub fn observe(
        home: &Path,
        capabilities: &Capabilities,
        lacks: Vec<String>,
        gpu_labels: BTreeMap<String, String>,
        inventory: Inventory,
    ) -> Machine {
        let facts = facts::read(home);
        let mode = match capabilities.mode {
            Mode::Root => "oci",
            Mode::Rootless => "rootless",
            Mode::Process => "process",
        };
        Machine {
            name: facts.name.clone(),
            runtime: Runtime { mode: mode.to_owned(), lacks: [capabilities.lacks.clone(), lacks].concat() },
            amounts: machine::amounts(&facts, &inventory),
            facts,
            device_labels: gpu_labels,
            gauges: Gauges::new(home),
            pressures: Mutex::default(),
            pressure_changed: Notify::new(),
        }
    }

    pub fn amounts(&self) -> NodeAmounts {
        self.amounts.clone()
    }

    pub fn surroundings(&self, pod_addresses: &[String]) -> Surroundings {
        Surroundings {
            host_name: self.name.clone(),
            cluster_domain: CLUSTER_DOMAIN.to_owned(),
            host_addresses: self.addresses(),
            pod_addresses: pod_addresses.to_vec(),
            allocatable: self.amounts.allocatable.clone(),
        }
    }

    pub fn host_facts(&self) -> HostFacts {
        HostFacts { addresses: self.addresses() }
    }

    /// Pods on the machine's network need an address even where the machine has none towards others.
    fn addresses(&self) -> Vec<String> {
        vec![self.facts.address.clone().unwrap_or_else(|| "127.0.0.1".to_owned())]
    }

    /// What is left of the machine now.
    pub fn reading(&self) -> Reading {
        self.gauges.read()
    }

    /// Shows in the Node object what the machine is short of; the taints that follow are the controllers' work.
    /// Whether that is news.
    pub fn set_pressure(&self, pressures: Pressures) -> bool {
        let is_news = std::mem::replace(&mut *self.pressures.lock(), pressures) != pressures;
        if is_news {
            self.pressure_changed.notify_one();
        }
        is_news
    }

    /// Makes the Node object, or brings the stored one up to date in place; what users have set on it stays.
    pub async fn register(&self, server: &ApiServer) -> Result<(), ApiError> {
        self.beat(server, None).await
    }

    /// Beats until `stop`; a Node that somebody deletes is made again with the next beat.
    pub async fn run(
        self: Arc<Self>,
        server: Arc<ApiServer>,
        images: impl Fn() -> Vec<(Vec<String>, u64)> + Send + Sync + 'static,
        stop: CancellationToken,
    ) {
        let mut has_failed = false;
        loop {
            let result = self.beat(&server, Some(&images())).await;
            if let Err(error) = &result
                && !has_failed
            {
                tracing::warn!(
                    node = self.name,
                    message = error.message,
                    "the node's heart-beat failed; it will try again"
                );
            }
            has_failed = result.is_err();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.pressure_changed.notified() => {}
                () = tokio::time::sleep(RENEW_EVERY) => {}
            }
        }
    }

    async fn beat(&self, server: &ApiServer, images: Option<&[(Vec<String>, u64)]>) -> Result<(), ApiError> {
        let wanted = Wanted {
            facts: &self.facts,
            runtime: Some(&self.runtime),
            amounts: &self.amounts,
            device_labels: &self.device_labels,
            pressures: *self.pressures.lock(),
            images,
        };
        let mut races = 0;
        loop {
            let result = match write(server, &wanted).await {
                Ok(node) => renew(server, &node).await,
                Err(error) => Err(error),
            };
            match result {
                // Somebody else wrote, made or deleted it since it was read.
                Err(error) if matches!(error.code, 404 | 409) && races < RACES_MAX => races += 1,
                result => return result,
            }
        }
    }
}

/// Writes what differs from the wish, and returns the node.
async fn write(server: &ApiServer, wanted: &Wanted<'_>) -> Result<Value, ApiError> {
    let (local, name, now) = (server.local(CALLER), &wanted.facts.name, Timestamp::now());
    let Some(mut node) = local.get("", "nodes", "", name) else {
        return local.create("", "nodes", "", wanted.object(now)).await;
    };
    if let Some(patch) = wanted.metadata_patch(&node) {
        node = local.patch("", "nodes", "", name, patch).await?;
    }
    match wanted.status_patch(&node, now) {
        Some(patch) => local.patch_status("", "nodes", "", name, patch).await,
        None => Ok(node),
    }
}

async fn renew(server: &ApiServer, node: &Value) -> Result<(), ApiError> {
    let (local, name) = (server.local(CALLER), text(node, "metadata.name"));
    let wanted = machine::lease(node, Timestamp::now());
    let Some(lease) = local.get(COORDINATION, "leases", LEASE_NAMESPACE, name) else {
        return local.create(COORDINATION, "leases", LEASE_NAMESPACE, wanted).await.map(drop);
    };
    let mut patch = json!({"spec": wanted["spec"]});
    // A lease that still belongs to an earlier Node of this name would be collected with it.
    if lease["metadata"]["ownerReferences"] != wanted["metadata"]["ownerReferences"] {
        patch["metadata"] = json!({"ownerReferences": wanted["metadata"]["ownerReferences"]});
    }
    local.patch(COORDINATION, "leases", LEASE_NAMESPACE, name, patch).await.map(drop)
}
