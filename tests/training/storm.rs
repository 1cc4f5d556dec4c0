//! A storm of restarts: an operator that is killed again and again leaves 200 jobs as one that is left in peace does.
//!
//! Each of the two runs has a cluster of its own in a process of its own; on a named cluster (see `site`) they follow one
//! another. `storm_nodes` plays nodes and users on both.

use crate::operator::Operator;
use crate::process::Server;
use crate::site::{Named, Turn, named};
use crate::storm_jobs::{self, COUNT};
use crate::storm_nodes::{Key, Move, Seen, learn};
use futures::StreamExt;
use futures::stream::{self, BoxStream, select_all};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Config, ResourceExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::task::JoinSet;
use volley_api::kube::text;
use volley_api::kubeflow::kinds::ROWS;
use volley_api::{kubeflow, volcano};

/// After this long without any change there will be none.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const SEED: u64 = 4;
const KILLS: usize = 20;
/// A life ends after this many changes, of more than three thousand: from "hardly begun" to one in fifteen.
const CHANGES_PER_LIFE: std::ops::Range<u64> = 1..220;
/// And a little later, so that the moment is not bound to a change.
const AFTERLIFE_MICROSECONDS: std::ops::Range<u64> = 0..8_000;

fn resource(api_version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

struct Run {
    client: Client,
    namespace: String,
    place: Place,
    seen: Arc<Mutex<Seen>>,
    /// Nodes and users, while it lives.
    _players: JoinSet<()>,
}

enum Place {
    Own { folder: TempDir, _server: Server },
    Named(Named),
}

impl Run {
    async fn start() -> Run {
        let (place, client) = match named() {
            None => {
                let folder = tempfile::tempdir().unwrap();
                let server = Server::start(&folder.path().join("home")).await;
                let client = server.client.clone();
                (Place::Own { folder, _server: server }, client)
            }
            Some(path) => {
                let kubeconfig = Kubeconfig::read_from(&path).unwrap();
                let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
                (Place::Named(Named::new(path)), Client::try_from(config).unwrap())
            }
        };
        let namespace = match &place {
            Place::Own { .. } => "default".to_owned(),
            Place::Named(named) => named.namespace.clone(),
        };
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut players = JoinSet::new();
        players.spawn(play(client.clone(), namespace.clone(), seen.clone()));
        let (creator, home) = (client.clone(), namespace.clone());
        players.spawn(async move {
            stream::iter(storm_jobs::all()).for_each_concurrent(4, |job| create(&creator, &home, job)).await;
        });
        Run { client, namespace, place, seen, _players: players }
    }

    fn operator(&self) -> Operator {
        match &self.place {
            Place::Own { folder, .. } => {
                let home = folder.path().join("home");
                Operator::start(&home.join("kubeconfig"), &home.join("operator.log"))
            }
            Place::Named(named) => named.start_operator(),
        }
    }

    fn changes(&self) -> u64 {
        self.seen.lock().unwrap().changes
    }

    /// Waits, for as long as there are changes.
    async fn until(&self, what: &str, holds: impl Fn(&Seen) -> bool) {
        let (mut changes, mut deadline) = (0, Instant::now() + PATIENCE);
        while !holds(&self.seen.lock().unwrap()) {
            if self.changes() != changes {
                (changes, deadline) = (self.changes(), Instant::now() + PATIENCE);
            }
            assert!(Instant::now() < deadline, "in vain: {what}\n{}", self.tell());
            tokio::time::sleep(POLL).await;
        }
    }

    /// The jobs that have not ended, for one who reads of a failure.
    fn tell(&self) -> String {
        let seen = self.seen.lock().unwrap();
        let open = seen.jobs.iter().filter(|(key, _)| !seen.has_ended(key));
        let open: Vec<String> = open.map(|(key, job)| format!("{key:?} {}", job["status"])).collect();
        format!("{} jobs are open\n{}", open.len(), open.join("\n"))
    }

    /// The events that were told more often than what they tell of has happened.
    async fn told_too_often(&self) -> Vec<String> {
        let mut told: BTreeMap<[String; 4], u64> = BTreeMap::new();
        let resource = resource("v1", "Event", "events");
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
        for event in api.list(&Default::default()).await.unwrap() {
            let parts = ["involvedObject.kind", "involvedObject.name", "reason", "message"];
            let key = parts.map(|part| text(&event.data, part).to_owned());
            *told.entry(key).or_default() += event.data["count"].as_u64().unwrap_or(1);
        }
        let seen = self.seen.lock().unwrap();
        let most = |[_, _, reason, message]: &[String; 4]| match message.strip_prefix("Created pod: ") {
            Some(pod) => seen.made.get(pod).map_or(0, BTreeSet::len) as u64,
            // A job ends once.
            None if reason.ends_with("JobSucceeded") || reason.ends_with("JobFailed") => 1,
            None => u64::MAX,
        };
        told.iter().filter(|(key, count)| **count > most(key)).map(|told| format!("{told:?}")).collect()
    }

    /// Everything that is left, without what differs between any two runs: uids and times.
    async fn left(&self) -> BTreeMap<String, Value> {
        let mut left = BTreeMap::new();
        {
            let seen = self.seen.lock().unwrap();
            for ((plural, name), job) in &seen.jobs {
                left.insert(format!("{plural}/{name}"), essence(job));
            }
            for (name, pod) in &seen.pods {
                left.insert(format!("pods/{name}"), pod["status"]["phase"].clone());
            }
            for (name, uids) in &seen.made {
                left.insert(format!("times that {name} was made"), uids.len().into());
            }
        }
        let others = [
            ("v1", "services"),
            ("v1", "configmaps"),
            ("v1", "serviceaccounts"),
            ("networking.k8s.io/v1", "networkpolicies"),
            ("rbac.authorization.k8s.io/v1", "roles"),
            ("rbac.authorization.k8s.io/v1", "rolebindings"),
            (volcano::SCHEDULING, "podgroups"),
            (volcano::BUS, "commands"),
        ];
        for (api_version, plural) in others {
            let resource = resource(api_version, "", plural);
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
            for object in api.list(&Default::default()).await.unwrap() {
                left.insert(format!("{plural}/{}", without_uid(&object.name_any())), Value::Null);
            }
        }
        left
    }
}

/// The name of a group ends in its job's uid.
fn without_uid(name: &str) -> &str {
    let start = name.len().checked_sub(36).filter(|start| uuid::Uuid::parse_str(&name[*start..]).is_ok());
    start.map_or(name, |start| &name[..start])
}

/// What a job's status says, but for times.
fn essence(job: &Value) -> Value {
    let status = &job["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let conditions: Vec<Value> = conditions
        .filter(|condition| condition["type"].is_string())
        .map(|condition| json!([condition["type"], condition["status"], condition["reason"]]))
        .collect();
    let counts = ["pending", "running", "succeeded", "failed", "terminating", "unknown", "retryCount", "version"];
    let counts: Vec<&Value> = counts.iter().map(|count| &status[*count]).collect();
    json!({
        "phase": status["state"]["phase"], "conditions": conditions, "counts": counts,
        "tasks": status["taskStatusCount"], "replicas": status["replicaStatuses"],
        "restarts": job["metadata"]["annotations"]["volley.dev/restarts"],
    })
}

async fn create(client: &Client, namespace: &str, job: storm_jobs::Storming) {
    let path = format!("/apis/{}/namespaces/{namespace}/{}", text(&job.object, "apiVersion"), job.plural);
    call(client, Move { method: http::Method::POST, path, body: job.object }).await;
}

/// What has gone meanwhile, or was replaced, needs nothing.
async fn call(client: &Client, Move { method, path, body }: Move) {
    let content = if method == http::Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = http::Request::builder().method(method).uri(&path).header("Content-Type", content);
    match client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => panic!("{path}: {error}"),
    }
}

/// Follows jobs and pods and does what is to be done about them, in order for each job.
async fn play(client: Client, namespace: String, seen: Arc<Mutex<Seen>>) {
    let mut kinds = vec![resource("v1", "Pod", "pods"), resource(volcano::BATCH, "Job", "jobs")];
    kinds.extend(ROWS.iter().map(|row| resource(kubeflow::API_VERSION, row.name, row.plural)));
    let follow = |kind: ApiResource| -> BoxStream<'static, (String, Event<DynamicObject>)> {
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, &kind);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        events.filter_map(move |event| std::future::ready(event.ok().map(|event| (kind.plural.clone(), event)))).boxed()
    };
    let mut events = select_all(kinds.into_iter().map(follow));
    let mut deeds = JoinSet::new();
    while let Some((plural, event)) = events.next().await {
        let (object, is_gone) = match event {
            Event::Apply(object) | Event::InitApply(object) => (object, false),
            Event::Delete(object) => (object, true),
            Event::Init | Event::InitDone => continue,
        };
        let object = serde_json::to_value(&object).unwrap();
        let moves = {
            let mut seen = seen.lock().unwrap();
            let key: Option<Key> = learn(&mut seen, &plural, object, is_gone);
            key.map(|key| seen.moves(&key)).unwrap_or_default()
        };
        if !moves.is_empty() {
            let client = client.clone();
            deeds.spawn(async move {
                for deed in moves {
                    call(&client, deed).await;
                }
            });
        }
        while let Some(result) = deeds.try_join_next() {
            result.unwrap();
        }
    }
}

/// Runs the jobs to their ends under an operator that is killed again and again; the last one lives.
async fn storm() -> (Run, Operator) {
    let run = Run::start().await;
    let mut chance = StdRng::seed_from_u64(SEED);
    for kill in 0..KILLS {
        let operator = run.operator();
        let end = run.changes() + chance.random_range(CHANGES_PER_LIFE);
        run.until("the operator does something", |seen| seen.changes >= end || seen.is_over(COUNT)).await;
        tokio::time::sleep(Duration::from_micros(chance.random_range(AFTERLIFE_MICROSECONDS))).await;
        let is_over = run.seen.lock().unwrap().is_over(COUNT);
        assert!(kill > KILLS / 2 || !is_over, "all was over after {kill} deaths");
        drop(operator);
    }
    let operator = run.operator();
    run.until("all jobs end", |seen| seen.is_over(COUNT)).await;
    (run, operator)
}

async fn calm() -> (Run, Operator) {
    let run = Run::start().await;
    let operator = run.operator();
    run.until("all jobs end", |seen| seen.is_over(COUNT)).await;
    (run, operator)
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_jobs_end_alike_however_often_their_operator_is_killed() {
    let _turn = named().map(|_| Turn::take());
    let ((calm, _calm_operator), (storm_run, _storm_operator)) = match named() {
        None => {
            let ((calm, one), (storm, other)) = tokio::join!(calm(), storm());
            ((calm, Some(one)), (storm, other))
        }
        Some(_) => {
            // There is one operator at a time, and it looks after what is left of the first run, too.
            let (calm, _) = calm().await;
            ((calm, None), storm().await)
        }
    };
    // What is cleaned up after a job's end takes its time, too.
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (peace, storm) = (calm.left().await, storm_run.left().await);
        let keys: BTreeSet<&String> = peace.keys().chain(storm.keys()).collect();
        let differing = keys.into_iter().filter(|key| peace.get(*key) != storm.get(*key));
        let told = |key: &String| format!("{key}: {:?} in peace, {:?} in the storm", peace.get(key), storm.get(key));
        let differences: Vec<String> = differing.map(told).collect();
        if differences.is_empty() {
            let phases: BTreeSet<&str> = peace.values().filter_map(|job| job["phase"].as_str()).collect();
            assert_eq!(Vec::from_iter(phases), ["Aborted", "Completed", "Failed", "Terminated"]);
            assert_eq!(storm_run.told_too_often().await, [""; 0]);
            return;
        }
        assert!(Instant::now() < deadline, "{}", differences.join("\n"));
        tokio::time::sleep(POLL).await;
    }
}
