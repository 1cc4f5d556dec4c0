//! Nodes that are not there, for scale: their objects and leases, and pods bound to them that run without processes.
//!
//! One task follows one watch for all of them. `plan::node::pretended_pods` decides how a pod fares; its status is all
//! that there is of it, so a new process goes on where the old one was.

use crate::apiserver::ApiServer;
use crate::apiserver::object::Stored;
use crate::store::EventKind;
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_plan::node::machine::LEASE_NAMESPACE;
use volley_plan::node::pretended_nodes::{Groups, is_pretended, renewed};
use volley_plan::node::pretended_pods::{live, recall};
use volley_plan::node::seen::Seen;
use volley_plan::node::status::HostFacts;

/// Writes in flight: the store joins them into few syncs, and more would only wait there.
const WRITES_MAX: usize = 64;
/// How long a pod whose status could not be written is left alone.
const RETRY: Duration = Duration::from_secs(1);
/// The address space of carriers' own networks: nothing in a cluster uses it.
const FIRST_ADDRESS: u32 = u32::from_be_bytes([100, 64, 0, 1]);
const ADDRESSES: u32 = (1 << 22) - 2;
const COORDINATION: &str = "coordination.k8s.io";
const CALLER: &str = "volley:node";

/// Makes the nodes that are wished for, takes away those of an earlier run that are not, and starts what keeps them alive.
pub async fn start(
    server: &Arc<ApiServer>,
    groups: Groups,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> Result<(), ApiError> {
    let wanted = groups.nodes(Timestamp::now());
    let names: BTreeSet<String> = wanted.iter().map(|node| text(node, "metadata.name").to_owned()).collect();
    let is_stale = |node: &Value| is_pretended(node) && !names.contains(text(node, "metadata.name"));
    let stale: Vec<Value> = server.local(CALLER).list("", "nodes", "").into_iter().filter(is_stale).collect();
    let gone = futures::stream::iter(stale).map(|node| remove(server, node)).buffer_unordered(WRITES_MAX);
    gone.collect::<Vec<_>>().await.into_iter().collect::<Result<(), _>>()?;
    if wanted.is_empty() {
        return Ok(());
    }
    let made = futures::stream::iter(wanted).map(|node| make(server, node)).buffer_unordered(WRITES_MAX);
    let nodes = made.collect::<Vec<_>>().await.into_iter().collect::<Result<Vec<Value>, _>>()?;
    let hosts = nodes.iter().map(|node| (text(node, "metadata.name").to_owned(), addresses(node))).collect();
    let life = Life { server: server.clone(), hosts, pods: HashMap::new(), dirty: Dirty::default(), issued: 0 };
    tasks.spawn(until(stop.clone(), life.run()));
    tasks.spawn(until(stop.clone(), beat(server.clone(), groups, nodes)));
    Ok(())
}

async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}

fn addresses(node: &Value) -> Vec<String> {
    let all = node["status"]["addresses"].as_array().into_iter().flatten();
    all.filter(|address| address["type"] == "InternalIP").map(|address| text(address, "address").to_owned()).collect()
}

async fn remove(server: &ApiServer, node: Value) -> Result<(), ApiError> {
    let (name, uid) = (text(&node, "metadata.name"), text(&node, "metadata.uid"));
    server.local(CALLER).delete("", "nodes", ("", name), uid, "Background").await
}

async fn make(server: &ApiServer, wanted: Value) -> Result<Value, ApiError> {
    let (local, name) = (server.local(CALLER), text(&wanted, "metadata.name").to_owned());
    match local.get("", "nodes", "", &name) {
        None => local.create("", "nodes", "", wanted).await,
        Some(stored) if !is_pretended(&stored) => {
            let why = "a node of this name is no pretended one; give the group of pretended nodes another name=";
            Err(ApiError::conflict("", "nodes", &name, why))
        }
        Some(mut stored) => {
            let (labels, taints) = (&wanted["metadata"]["labels"], &wanted["spec"]["taints"]);
            let has_labels = labels
                .as_object()
                .into_iter()
                .flatten()
                .all(|(key, value)| stored["metadata"]["labels"].get(key) == Some(value));
            if !has_labels || stored["spec"]["taints"] != *taints {
                let patch = json!({"metadata": {"labels": labels}, "spec": {"taints": taints}});
                stored = local.patch("", "nodes", "", &name, patch).await?;
            }
            match renewed(&stored, &wanted) {
                Some(patch) => local.patch_status("", "nodes", "", &name, patch).await,
                None => Ok(stored),
            }
        }
    }
}

/// Renews the leases one after the other, evenly over the time that each may take.
async fn beat(server: Arc<ApiServer>, groups: Groups, nodes: Vec<Value>) {
    let period = Duration::from_secs(u64::try_from(groups.renew_seconds()).unwrap_or(u64::MAX));
    let pause = period / u32::try_from(nodes.len()).unwrap_or(u32::MAX).max(1);
    let is_first = |node: &Value| {
        server.local(CALLER).get(COORDINATION, "leases", LEASE_NAMESPACE, text(node, "metadata.name")).is_none()
    };
    let first: Vec<&Value> = nodes.iter().filter(|node| is_first(node)).collect();
    for some in first.chunks(WRITES_MAX) {
        join_all(some.iter().map(|node| renew(&server, &groups, node))).await;
    }
    loop {
        for node in &nodes {
            renew(&server, &groups, node).await;
            tokio::time::sleep(pause).await;
        }
    }
}

async fn renew(server: &ApiServer, groups: &Groups, node: &Value) {
    let (local, name) = (server.local(CALLER), text(node, "metadata.name"));
    let lease = groups.lease(node, Timestamp::now());
    let written = match local.get(COORDINATION, "leases", LEASE_NAMESPACE, name) {
        // Owners too: a lease of an earlier node of this name would go with it.
        Some(_) => local.patch(COORDINATION, "leases", LEASE_NAMESPACE, name, lease).await,
        None => local.create(COORDINATION, "leases", LEASE_NAMESPACE, lease).await,
    };
    if let Err(error) = written {
        tracing::debug!(node = name, message = error.message, "a pretended node's lease was not renewed");
    }
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
    spec: HeadSpec,
}

#[derive(Deserialize)]
struct HeadMeta {
    uid: String,
}

#[derive(Deserialize)]
struct HeadSpec {
    #[serde(default, rename = "nodeName")]
    node: String,
}

/// Whom to look at next, each once.
#[derive(Default)]
struct Dirty {
    order: VecDeque<String>,
    members: BTreeSet<String>,
    /// By time; looked at again then.
    later: BTreeSet<(Timestamp, String)>,
}

impl Dirty {
    fn add(&mut self, uid: &str) {
        if self.members.insert(uid.to_owned()) {
            self.order.push_back(uid.to_owned());
        }
    }

    fn take(&mut self) -> Option<String> {
        let uid = self.order.pop_front()?;
        self.members.remove(&uid);
        Some(uid)
    }

    /// Moves those whose time has come.
    fn wake(&mut self, now: Timestamp) {
        while self.later.first().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, uid)) = self.later.pop_first() {
                self.add(&uid);
            }
        }
    }

    /// How long until the time of the next one.
    fn pause(&self, now: Timestamp) -> Option<Duration> {
        let (at, _) = self.later.first()?;
        Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
    }
}

/// What is known of a pod beside its object, which is read from the store when the pod is looked at: of tens of thousands
/// of pods a second copy is too much.
struct Known {
    key: Box<str>,
    seen: Seen,
    /// A write is in flight: the pod is looked at again when it is done.
    is_busy: bool,
}

/// The uid, and whether the pod goes on.
type Written = (String, Result<bool, ApiError>);

/// All pods on pretended nodes.
struct Life {
    server: Arc<ApiServer>,
    /// Nodes with their addresses.
    hosts: BTreeMap<String, Vec<String>>,
    pods: HashMap<String, Known>,
    dirty: Dirty,
    /// How many addresses were given away.
    issued: u32,
}

impl Life {
    async fn run(mut self) {
        let store = self.server.store.clone();
        let mut writes: FuturesUnordered<BoxFuture<'static, Written>> = FuturesUnordered::new();
        loop {
            let (listing, mut events) = store.list_and_watch(&store.bucket("pods"), "");
            self.pods.retain(|_, known| known.is_busy);
            listing.entries.iter().for_each(|stored| self.take(stored));
            loop {
                self.dirty.wake(Timestamp::now());
                while writes.len() < WRITES_MAX
                    && let Some(uid) = self.dirty.take()
                {
                    writes.extend(self.look(&uid));
                }
                let next = self.dirty.pause(Timestamp::now());
                tokio::select! {
                    found = events.next() => {
                        let Ok(found) = found else { break };
                        for event in found {
                            match event.kind {
                                EventKind::Deleted => self.lose(&event.entry),
                                EventKind::Created | EventKind::Updated => self.take(&event.entry),
                            }
                        }
                    }
                    Some(written) = writes.next() => self.settle(written),
                    () = tokio::time::sleep(next.unwrap_or(Duration::MAX)), if next.is_some() => {}
                }
            }
            tracing::warn!("the pretended nodes fell behind and look at all pods again");
        }
    }

    fn take(&mut self, stored: &Stored) {
        let Ok(head) = serde_json::from_slice::<Head>(&stored.value) else { return };
        if !self.hosts.contains_key(&head.spec.node) {
            return;
        }
        let uid = head.metadata.uid;
        if !self.pods.contains_key(&uid) {
            let Ok(pod) = serde_json::from_slice::<Pod>(&stored.value) else { return };
            let seen = recall(&pod);
            self.note_addresses(&seen);
            self.pods.insert(uid.clone(), Known { key: stored.key.clone(), seen, is_busy: false });
        }
        self.dirty.add(&uid);
    }

    /// What an earlier process gave away is not given again.
    fn note_addresses(&mut self, seen: &Seen) {
        let given = seen.addresses.iter().filter_map(|address| address.parse::<Ipv4Addr>().ok());
        let place = |address: Ipv4Addr| u32::from(address).wrapping_sub(FIRST_ADDRESS);
        let last = given.map(place).filter(|place| *place < ADDRESSES).max();
        self.issued = self.issued.max(last.map_or(0, |last| last + 1));
    }

    fn lose(&mut self, stored: &Stored) {
        if let Ok(head) = serde_json::from_slice::<Head>(&stored.value) {
            self.pods.remove(&head.metadata.uid);
        }
    }

    /// Lets a pod live until now; what is to be written of it.
    fn look(&mut self, uid: &str) -> Option<BoxFuture<'static, Written>> {
        let known = self.pods.get_mut(uid).filter(|known| !known.is_busy)?;
        let stored = self.server.store.get(&self.server.store.bucket("pods"), &known.key);
        let pod = stored.and_then(|stored| serde_json::from_slice::<Pod>(&stored.value).ok());
        // Another one of its name may have come after it.
        let Some(pod) = pod.filter(|pod| pod.metadata.uid.as_deref() == Some(uid)) else {
            self.pods.remove(uid);
            return None;
        };
        let node = pod.spec.as_ref()?.node_name.clone().unwrap_or_default();
        let host = HostFacts { addresses: self.hosts.get(&node).cloned().unwrap_or_default() };
        let address = Ipv4Addr::from(FIRST_ADDRESS + self.issued % ADDRESSES).to_string();
        let step = live(&pod, &mut known.seen, &host, &address, Timestamp::now());
        self.issued += u32::from(known.seen.addresses.first() == Some(&address));
        if let Some(at) = step.next_at {
            self.dirty.later.insert((at, uid.to_owned()));
        }
        if step.patch.is_none() && !step.is_over {
            return None;
        }
        known.is_busy = true;
        let place = (pod.metadata.namespace?, pod.metadata.name?);
        let (server, uid) = (self.server.clone(), uid.to_owned());
        Some(Box::pin(async move {
            let written = write(&server, &place, &uid, step.patch, step.is_over).await;
            (uid, written)
        }))
    }

    fn settle(&mut self, (uid, written): Written) {
        let Some(known) = self.pods.get_mut(&uid) else { return };
        known.is_busy = false;
        match written {
            Ok(true) => self.dirty.add(&uid),
            Ok(false) => drop(self.pods.remove(&uid)),
            // Somebody else wrote or deleted it: the next look sees what is there now.
            Err(error) if matches!(error.code, 404 | 409) => self.dirty.add(&uid),
            Err(error) => {
                tracing::warn!(pod = uid, message = error.message, "a pretended pod's status was not written");
                let again = Timestamp::now().saturating_add(RETRY).unwrap_or(Timestamp::MAX);
                self.dirty.later.insert((again, uid));
            }
        }
    }
}

async fn write(
    server: &ApiServer,
    (namespace, name): &(String, String),
    uid: &str,
    patch: Option<Value>,
    is_over: bool,
) -> Result<bool, ApiError> {
    let local = server.local("kubelet");
    if let Some(patch) = patch {
        local.patch_status("", "pods", namespace, name, patch).await?;
    }
    if is_over {
        local.delete_pod_now((namespace, name), uid).await?;
    }
    Ok(!is_over)
}
