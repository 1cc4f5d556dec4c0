//! The PodGroup by which a gang scheduler places a job's pods together (spec PT 16).

use super::owned::{changes, own};
use super::round::Round;
use super::{Gang, environment};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{at, text};
use volley_api::kubeflow::job::Replica;
use volley_api::kubeflow::types::SchedulingPolicy;

pub fn scheduler(gang: &Gang) -> &str {
    match gang {
        Gang::Volcano => "volcano",
        Gang::Plugins(name) => name,
    }
}

/// Keeps the PodGroup as the job asks, and says whether its pods must wait for it.
pub fn holds_back(round: &mut Round) -> bool {
    let Some(gang) = &round.settings.gang else {
        return false;
    };
    let mut wanted = spec(round, gang);
    let group = own(round, round.seen.pod_group);
    match group {
        None => create(round, gang, wanted),
        Some(group) => {
            // A group stays in the queue where it waits.
            if let (Some(queue), true) = (at(group, "spec.queue"), wanted.contains_key("queue")) {
                wanted.insert("queue".to_owned(), queue.clone());
            }
            let patch = changes(group.get("spec"), wanted);
            patch.into_iter().for_each(|patch| round.patch(group, json!({ "spec": patch })));
        }
    }
    match gang {
        Gang::Volcano => matches!(group.map_or("", |group| text(group, "status.phase")), "" | "Pending"),
        Gang::Plugins(_) => false,
    }
}

pub fn remove(round: &mut Round) {
    let Some(group) = own(round, round.seen.pod_group) else {
        return;
    };
    if round.delete(group) {
        let message = format!("Deleted PodGroup: {}", text(group, "metadata.name"));
        let told = [
            round.voice.normal("JobTerminated", "Job has been terminated. Deleting PodGroup"),
            round.voice.normal("SuccessfulDeletePodGroup", message),
        ];
        round.plan.events.extend(told);
    }
}

fn create(round: &mut Round, gang: &Gang, spec: Map<String, Value>) {
    let version = match gang {
        Gang::Volcano => "scheduling.volcano.sh/v1beta1",
        Gang::Plugins(_) => "scheduling.x-k8s.io/v1alpha1",
    };
    let mut metadata = round.head.owned(&round.job.name);
    if !round.head.annotations.is_empty() {
        metadata["annotations"] = json!(round.head.annotations);
    }
    round.create(json!({ "apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec }));
}

fn spec(round: &Round, gang: &Gang) -> Map<String, Value> {
    let policy = round.job.run_policy.scheduling_policy.clone().unwrap_or_default();
    let members = policy.min_available.unwrap_or_else(|| members_min(round));
    let resources = match &policy.min_resources {
        Some(given) => json!(given),
        None => json!(resources(round, members)),
    };
    let mut spec = Map::from_iter([("minMember".to_owned(), json!(members)), ("minResources".to_owned(), resources)]);
    match gang {
        Gang::Volcano => {
            let SchedulingPolicy { queue, priority_class, .. } = policy;
            let queue = queue.filter(|queue| !queue.is_empty()).unwrap_or_else(|| "default".to_owned());
            spec.insert("queue".to_owned(), json!(queue));
            spec.extend(priority_class.map(|class| ("priorityClassName".to_owned(), json!(class))));
        }
        Gang::Plugins(_) => {
            let timeout = policy.schedule_timeout_seconds;
            spec.extend(timeout.map(|seconds| ("scheduleTimeoutSeconds".to_owned(), json!(seconds))));
        }
    }
    spec
}

/// All pods, or as few as an elastic job can start with (PT-GNG-7).
fn members_min(round: &Round) -> i32 {
    let job = round.job;
    match job.elastic.as_ref().filter(|_| !round.settings.is_strict) {
        Some(policy) => {
            let (low, _) = environment::bounds(job, policy);
            low.min(job.replica("Worker").map_or(0, |worker| worker.count))
                + job.leader().map_or(0, |leader| leader.count)
        }
        None => job.total(),
    }
}

/// What the first pods of the gang ask for, those of higher priority first (PT-GNG-2).
fn resources(round: &Round, members: i32) -> BTreeMap<String, String> {
    let priority = |replica: &Replica| {
        round.seen.priorities.get(text(&replica.template, "spec.priorityClassName")).copied().unwrap_or(0)
    };
    let mut replicas: Vec<&Replica> = round.job.replicas.iter().collect();
    replicas.sort_by_key(|replica| Reverse(priority(replica)));
    let mut left = members;
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    for replica in replicas {
        for _ in 0..replica.count.min(left.max(0)) {
            left -= 1;
            replica.containers().iter().for_each(|container| add_requests(&mut sums, container));
        }
    }
    sums.into_iter().map(|(name, amount)| (name, amount.to_string())).collect()
}

fn add_requests(sums: &mut BTreeMap<String, Quantity>, container: &Value) {
    let amounts = |key: &str| at(container, &format!("resources.{key}")).and_then(Value::as_object);
    let requests = amounts("requests").filter(|requests| !requests.is_empty()).or(amounts("limits"));
    for (name, amount) in requests.into_iter().flatten() {
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        // The API server has refused what is no quantity.
        let amount = Quantity::parse(&text).unwrap_or(Quantity::ZERO);
        sums.entry(name.clone()).and_modify(|sum| *sum += amount).or_insert(amount);
    }
}
