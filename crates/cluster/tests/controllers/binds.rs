//! Binds that fail: the scheduler over an API that refuses some of them, or from which a pod goes in between.

use crate::gangs::{GROUPS, NODES, PODS, node, pod};
use crate::world::{World, condition};
use http::{Method, Request};
use kube::Client;
use kube::client::Body;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::{CancellationToken, DropGuard};
use volley_api::kube::text;
use volley_cluster::apiserver::ApiServer;
use volley_cluster::apiserver::serve::InProcess;
use volley_plan::access::User;

const CLAIMS: (&str, &str) = ("", "persistentvolumeclaims");

/// What happens to a bind of one pod, by how many were asked for before it.
type Deed = fn(usize) -> Fate;

#[derive(Clone, Copy)]
enum Fate {
    Lands,
    Refused,
    /// The pod is deleted just before.
    Orphaned,
}

impl World {
    /// A node without the taint of new ones, which a controller would take away.
    async fn ready_node(&self, name: &str, gpus: u32) {
        self.create(NODES, node(name, gpus)).await;
        self.patch(NODES, name, json!({"spec": {"taints": null}})).await;
    }
}

/// A scheduler whose binds of pod `name` fare so.
fn start(server: &Arc<ApiServer>, name: &'static str, deed: Deed) -> (DropGuard, Arc<AtomicUsize>) {
    let user = User::authenticated("system:volley:scheduler", ["system:masters".to_owned()]);
    let (client, server) = (InProcess::new(server.clone(), user).client(), server.clone());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = asked.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, server, asked) = (client.clone(), server.clone(), asked.clone());
        async move {
            let is_bind =
                request.method() == Method::POST && request.uri().path().ends_with(&format!("/{name}/binding"));
            let fate = if is_bind { deed(asked.fetch_add(1, Ordering::SeqCst)) } else { Fate::Lands };
            if !matches!(fate, Fate::Lands) {
                until_bound(&server, "g-0").await;
            }
            match fate {
                Fate::Lands => {}
                Fate::Refused => return Ok(refusal()),
                Fate::Orphaned => server.local("test").delete_gracefully(("default", name), 0).await.unwrap(),
            }
            client.send(request).await
        }
    });
    let stop = CancellationToken::new();
    let options = volley_scheduler::Options { is_only_scheduler: true, ..Default::default() };
    tokio::spawn(volley_scheduler::run(Client::new(service, "default"), options, stop.clone()));
    (stop.drop_guard(), counted)
}

/// Binds go out side by side, so this one lands, too.
async fn until_bound(server: &ApiServer, name: &str) {
    let is_bound = || {
        server.local("test").get("", "pods", "default", name).is_none_or(|pod| !text(&pod, "spec.nodeName").is_empty())
    };
    let mut changes = server.store.watch_all(server.store.revision()).unwrap();
    while !is_bound() {
        changes.next().await.unwrap();
    }
}

fn refusal() -> http::Response<Body> {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "the disk is full", "code": 500});
    let answer = http::Response::builder().status(500).header("Content-Type", "application/json");
    answer.body(Body::from(status.to_string().into_bytes())).unwrap()
}

// SCH-40
#[tokio::test]
async fn a_gang_of_which_one_bind_fails_once_is_completed() {
    let world = World::without_controllers().await;
    world.ready_node("a", 4).await;
    world.gang("g", json!({"minMember": 2, "queue": "default"}), 2, 2).await;
    let (_scheduler, asked) =
        start(&world.server, "g-1", |before| if before == 0 { Fate::Refused } else { Fate::Lands });
    world.until_placed(&["g-0", "g-1"]).await;
    world.until_phase("g", "Running").await;
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

// SCH-40, GANG-6
#[tokio::test]
async fn a_gang_of_which_one_bind_always_fails_is_given_back_whole() {
    let world = World::without_controllers().await;
    world.ready_node("a", 6).await;
    world.gang("g", json!({"minMember": 3, "queue": "default"}), 3, 2).await;
    let (_scheduler, _) = start(&world.server, "g-1", |_| Fate::Refused);
    let rejected = || {
        let pod = world.get(PODS, "g-1")?;
        let told = condition(&pod, "PodScheduled")?;
        (text(told, "message") == "binding rejected: the disk is full").then(|| text(told, "reason").to_owned())
    };
    assert_eq!(world.until("the refusal is told", rejected).await, "SchedulerError");
    world.until_true("what was bound goes", || world.is_going("g-0")).await;
    let is_free = |pod: &str| world.node_of(pod).is_none() || world.is_going(pod);
    world.until_true("all of it", || is_free("g-1") && is_free("g-2")).await;
    assert_ne!(world.phase("g"), "Running");
}

// GANG-6
#[tokio::test]
async fn a_pod_that_goes_between_leaves_none_of_its_gang_bound() {
    let world = World::without_controllers().await;
    world.ready_node("a", 4).await;
    world.gang("g", json!({"minMember": 2, "queue": "default"}), 2, 2).await;
    let (_scheduler, _) = start(&world.server, "g-1", |_| Fate::Orphaned);
    world.until_gone(PODS, "g-1").await;
    world.until_true("the other goes", || world.is_going("g-0")).await;
    world.until_told("g-0", "Evict: gang default/g could be placed only in part").await;
    assert_ne!(world.phase("g"), "Running");
}

#[tokio::test]
async fn a_gang_whose_binds_are_refused_leaves_its_room_to_others_and_hears_why() {
    let world = World::without_controllers().await;
    world.ready_node("a", 2).await;
    world.gang("denied", json!({"minMember": 1, "queue": "default"}), 1, 2).await;
    let (_scheduler, _) = start(&world.server, "denied-0", |_| Fate::Refused);
    let is_told = || {
        let group = world.get(GROUPS, "denied").unwrap_or_default();
        condition(&group, "Unschedulable").is_some_and(|told| text(told, "message").contains("the disk is full"))
    };
    world.until_true("the group hears of the refusal", is_told).await;
    world.gang("other", json!({"minMember": 1, "queue": "default"}), 1, 2).await;
    world.until_placed(&["other-0"]).await;
}

#[tokio::test]
async fn a_claim_hears_of_its_node_and_its_pod_is_bound_once_it_has_a_volume() {
    let world = World::without_controllers().await;
    world.ready_node("a", 1).await;
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
        "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"});
    world.create(("storage.k8s.io", "storageclasses"), class).await;
    let spec = json!({"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let claim =
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "disk"}, "spec": spec});
    world.create(CLAIMS, claim).await;
    let mut asks = pod("p", "default-scheduler", 1);
    asks["spec"]["volumes"] = json!([{"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}}]);
    world.create(PODS, asks).await;
    let (_scheduler, asked) = start(&world.server, "p", |_| Fate::Lands);
    let is_told = || {
        let claim = world.get(CLAIMS, "disk").unwrap_or_default();
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "a"
    };
    world.until_true("the claim hears of the node", is_told).await;
    assert_eq!(asked.load(Ordering::SeqCst), 0, "nobody could use the pod on its node yet");
    world.patch(CLAIMS, "disk", json!({"spec": {"volumeName": "v"}})).await;
    world.patch_status(CLAIMS, "disk", json!({"phase": "Bound"})).await;
    world.until_placed(&["p"]).await;
}
