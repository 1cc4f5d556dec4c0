//! `kill -9` between the binds of gangs, a hundred times in all: after each recovery a gang is whole or not there, and no node
//! has more than it can hold.
//!
//! The nodes are objects only, so nothing of a pod runs; the test ends what is evicted, as a node would.

use crate::process::Server;
use futures::{StreamExt, future};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const GPU: &str = "nvidia.com/gpu";
const NODES: usize = 4;
const GPUS_PER_NODE: i64 = 30;
/// More than are bound side by side, so that there is a moment in between; and more than half of the GPUs.
const MEMBERS: usize = 80;
const KILLS_PER_TEST: usize = 50;
/// And a little after a bind was seen, so that the moment is not bound to an answer.
const AFTERLIFE_MICROSECONDS: std::ops::Range<u64> = 0..4_000;
/// On a slow machine a life ends without its binds.
const LIFE_MAX: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(60);

/// Who else wants the nodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rivals {
    None,
    /// Pods of a higher priority, each as large as a node: when they come first after a crash, a gang cannot be completed.
    Large,
}

fn custom(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

async fn make<K>(api: &Api<K>, object: Value)
where
    K: Clone + serde::de::DeserializeOwned + serde::Serialize + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        Err(error) => panic!("{error}"),
    }
}

fn groups(client: &Client) -> Api<DynamicObject> {
    Api::default_namespaced_with(client.clone(), &custom("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups"))
}

async fn furnish(client: &Client) {
    let nodes: Api<Node> = Api::all(client.clone());
    for number in 0..NODES {
        let allocatable = json!({"cpu": "64", "memory": "64Gi", "pods": "110", GPU: GPUS_PER_NODE.to_string()});
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let status = json!({"capacity": allocatable, "allocatable": allocatable, "conditions": ready});
        make(&nodes, json!({"metadata": {"name": format!("pretend-{number}")}, "status": status})).await;
    }
    let class = json!({"metadata": {"name": "above"}, "value": 1000});
    make(&Api::<k8s_openapi::api::scheduling::v1::PriorityClass>::all(client.clone()), class).await;
}

fn pod(name: &str, scheduler: &str, gpus: i64) -> Value {
    let resources = json!({"requests": {GPU: gpus.to_string()}, "limits": {GPU: gpus.to_string()}});
    let container = json!({"name": "c", "image": "i", "resources": resources});
    json!({"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [container]}})
}

fn member(gang: &str, number: usize) -> Value {
    let mut pod = pod(&format!("{gang}-{number}"), "volcano", 1);
    pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": gang});
    pod["metadata"]["labels"] = json!({ "gang": gang });
    pod
}

/// Makes a gang whose last pod sets the binds off, and kills the server when so many of them have been seen.
async fn live(mut server: Server, gang: &str, rivals: Rivals, random: &mut StdRng) {
    let client = server.client.clone();
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": gang},
        "spec": {"minMember": MEMBERS, "queue": "default"}});
    make(&groups(&client), group).await;
    let version = pods.list(&ListParams::default().limit(1)).await.unwrap().metadata.resource_version.unwrap();
    let mut events = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    future::join_all((1..MEMBERS).map(|number| make(&pods, member(gang, number)))).await;
    let wanted = random.random_range(0..=MEMBERS);
    let after = Duration::from_micros(random.random_range(AFTERLIFE_MICROSECONDS));
    let last = async {
        if rivals == Rivals::Large {
            for number in 0..2 {
                let mut rival = pod(&format!("{gang}-rival-{number}"), "default-scheduler", GPUS_PER_NODE);
                rival["spec"]["priorityClassName"] = json!("above");
                // It may die with the server.
                let _ = pods.create(&PostParams::default(), &serde_json::from_value(rival).unwrap()).await;
            }
        }
        let last = serde_json::from_value(member(gang, 0)).unwrap();
        let _ = pods.create(&PostParams::default(), &last).await;
        future::pending::<()>().await;
    };
    let bound = async {
        let mut bound = std::collections::BTreeSet::new();
        while bound.len() < wanted {
            let Some(Ok(WatchEvent::Modified(pod))) = events.next().await else { continue };
            if pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some()) {
                bound.insert(pod.name_any());
            }
        }
    };
    tokio::select! {
        () = last => {}
        _ = tokio::time::timeout(LIFE_MAX, bound) => {}
    }
    tokio::time::sleep(after).await;
    server.kill();
}

/// Per gang how many of its pods are on nodes to stay; what is to go is ended on the way.
async fn look(pods: &Api<Pod>) -> BTreeMap<String, usize> {
    let mut placed: BTreeMap<String, usize> = BTreeMap::new();
    let mut held: BTreeMap<String, i64> = BTreeMap::new();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let spec = pod.spec.as_ref().unwrap();
        let node = spec.node_name.clone();
        if let Some(node) = &node {
            let amount = |container: &k8s_openapi::api::core::v1::Container| {
                container.resources.as_ref()?.requests.as_ref()?.get(GPU)?.0.parse::<i64>().ok()
            };
            *held.entry(node.clone()).or_default() += spec.containers.iter().filter_map(amount).sum::<i64>();
        }
        let is_going = pod.metadata.deletion_timestamp.is_some();
        if is_going {
            // A node would end it.
            let _ = pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await;
        }
        if let Some(gang) = pod.labels().get("gang") {
            *placed.entry(gang.clone()).or_default() += usize::from(node.is_some() && !is_going);
        }
    }
    for (node, gpus) in &held {
        assert!(*gpus <= GPUS_PER_NODE, "{node} was given {gpus} GPUs");
    }
    placed
}

async fn recover(client: &Client, gang: &str) {
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let began = Instant::now();
    loop {
        let placed = look(&pods).await;
        if placed.values().all(|count| *count == 0 || *count == MEMBERS) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{gang} stays in part after a crash: {placed:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The next gang finds the nodes empty.
    let all = pods.list(&ListParams::default()).await.unwrap();
    let now = DeleteParams::default().grace_period(0);
    future::join_all(all.iter().map(|pod| {
        let (pods, name, now) = (pods.clone(), pod.name_any(), now.clone());
        async move { drop(pods.delete(&name, &now).await) }
    }))
    .await;
    drop(groups(client).delete(gang, &DeleteParams::default()).await);
}

/// How many pods were bound in this life of the server.
async fn bound(client: &Client) -> usize {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix("volcano_schedule_attempts_total{result=\"scheduled\"} "));
    line.unwrap().parse().unwrap()
}

/// In how many lives a part of a gang was left to the next one.
async fn die_again_and_again(rivals: Rivals, seed: u64) -> usize {
    let mut parts = 0;
    let mut random = StdRng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let mut server = Server::start(&home).await;
    furnish(&server.client).await;
    for life in 0..KILLS_PER_TEST {
        let gang = format!("g{life}");
        live(server, &gang, rivals, &mut random).await;
        server = Server::start(&home).await;
        recover(&server.client, &gang).await;
        parts += usize::from((1..MEMBERS).contains(&bound(&server.client).await));
    }
    parts
}

// GANG-6, SCH-40
#[tokio::test(flavor = "multi_thread")]
async fn no_gang_stays_in_part_after_fifty_deaths_during_its_binds() {
    let parts = die_again_and_again(Rivals::None, 5).await;
    assert!(parts > 0, "no death came between two binds, so this shows nothing");
}

// GANG-6, SCH-40
#[tokio::test(flavor = "multi_thread")]
async fn no_gang_stays_in_part_after_fifty_deaths_when_others_take_its_room() {
    die_again_and_again(Rivals::Large, 7).await;
}
