//! The variables by which a job's processes find each other: PyTorch's, and the way all kinds' get into pods (PT 8, 9).

use super::environment_siblings as siblings;
use super::round::Round;
use crate::job::template::{push, put_variable};
use serde_json::{Value, json};
use volley_api::kube::items_mut;
use volley_api::kubeflow::job::{Replica, TrainingJob};
use volley_api::kubeflow::kinds::Kind;
use volley_api::kubeflow::types::ElasticPolicy;

/// A variable, whole; one that yields leaves the user's own value alone (PT-ENV-0).
pub struct Variable {
    pub entry: Value,
    yields: bool,
}

pub fn own(name: &str, value: impl ToString) -> Variable {
    Variable { entry: json!({ "name": name, "value": value.to_string() }), yields: false }
}

fn offered(name: &str, value: impl ToString) -> Variable {
    Variable { yields: true, ..own(name, value) }
}

/// Adds the kind's variables to the pod's containers, not to its init containers.
pub fn add(round: &Round, replica: &Replica, index: i32, pod: &mut Value) {
    let job = round.job;
    let is_strict = round.settings.is_strict;
    let variables = match job.row.kind {
        Kind::PyTorch => torch(job, replica, index, is_strict),
        Kind::TensorFlow => siblings::tensorflow(round, replica, index),
        Kind::XgBoost => siblings::xgboost(job, replica, index),
        Kind::Paddle => siblings::paddle(job, replica, index),
        Kind::Jax => siblings::jax(job, replica, index),
        // Only the launcher has some, with its scripts.
        Kind::Mpi => Vec::new(),
    };
    let only = (job.row.kind == Kind::TensorFlow).then(|| replica.main_container(job.row)).flatten();
    for (position, container) in items_mut(pod, "spec.containers").enumerate() {
        if only.is_some_and(|only| only != position) {
            continue;
        }
        for variable in &variables {
            let is_set = items_mut(container, "env").any(|known| known["name"] == variable.entry["name"]);
            match (is_set && variable.yields, is_strict) {
                (true, _) => {}
                (false, true) => push(container, "env", variable.entry.clone()),
                (false, false) => put_variable(container, variable.entry.clone()),
            }
        }
    }
}

fn torch(job: &TrainingJob, replica: &Replica, index: i32, is_strict: bool) -> Vec<Variable> {
    let mut variables = vec![own("PYTHONUNBUFFERED", 1)];
    let worker_port = job.replica("Worker").and_then(|worker| worker.port).unwrap_or_default();
    let mut meeting = None;
    if let Some(master) = job.leader() {
        let rank = if replica.type_ == master.type_ { 0 } else { index + 1 };
        let address = job.pod_name(master.type_, 0);
        let port = master.port.unwrap_or_default();
        variables.extend(ranks(job, &address, port, rank));
        meeting = Some((address, port));
    } else if job.elastic.is_none() && !is_strict {
        // The reference sets nothing, and such a job never finds itself (PT-ENV-9).
        let address = job.pod_name("Worker", 0);
        variables
            .extend(ranks(job, &address, worker_port, index).map(|variable| Variable { yields: true, ..variable }));
        meeting = Some((address, worker_port));
    }
    let elastic_processes = job.elastic.as_ref().and_then(|policy| policy.n_proc_per_node);
    let processes = elastic_processes.map(|count| count.to_string()).or(job.nproc_per_node.clone());
    variables.push(own("PET_NPROC_PER_NODE", processes.unwrap_or_default()));
    match &job.elastic {
        Some(policy) => variables.extend(elastic(job, policy, worker_port, is_strict)),
        None => {
            variables.push(own("PET_NNODES", job.total()));
            if let Some((address, port)) = meeting.filter(|_| !is_strict) {
                // What torchrun assumes when nothing is set, spelt out for command lines that name it (PT-RDZV-3).
                variables.push(offered("PET_RDZV_BACKEND", "static"));
                variables.push(offered("PET_RDZV_ENDPOINT", format!("{address}:{port}")));
                variables.push(offered("PET_RDZV_ID", &job.uid));
            }
        }
    }
    variables
}

fn ranks(job: &TrainingJob, address: &str, port: i32, rank: i32) -> impl Iterator<Item = Variable> {
    let processes: i32 = job.nproc_per_node.as_deref().and_then(|text| text.parse().ok()).unwrap_or(1);
    let size = i64::from(job.total()) * i64::from(processes);
    [
        own("MASTER_PORT", port),
        own("PET_MASTER_PORT", port),
        own("MASTER_ADDR", address),
        own("PET_MASTER_ADDR", address),
        own("WORLD_SIZE", size),
        own("RANK", rank),
        own("PET_NODE_RANK", rank),
    ]
    .into_iter()
}

/// The fewest and the most workers of an elastic job: each bound stands in for the other, the count for both.
pub fn bounds(job: &TrainingJob, policy: &ElasticPolicy) -> (i32, i32) {
    let workers = job.replica("Worker").map_or(0, |worker| worker.count);
    let low = policy.min_replicas.or(policy.max_replicas).unwrap_or(workers);
    let high = policy.max_replicas.or(policy.min_replicas).unwrap_or(workers);
    (low, high)
}

fn elastic(job: &TrainingJob, policy: &ElasticPolicy, worker_port: i32, is_strict: bool) -> Vec<Variable> {
    let (low, high) = bounds(job, policy);
    let is_counted = policy.min_replicas.is_none() && policy.max_replicas.is_none();
    // The master joins the group too; where the user gave no bounds, they count it (PT-ENV-8).
    let master = job.leader().filter(|_| is_counted && !is_strict).map_or(0, |master| master.count);
    let host = policy.rdzv_host.clone().unwrap_or_else(|| job.pod_name("Worker", 0));
    let port = policy.rdzv_port.unwrap_or(worker_port);
    let mut variables = vec![
        own("PET_NNODES", format!("{}:{}", low + master, high + master)),
        own("PET_RDZV_ENDPOINT", format!("{host}:{port}")),
        own("PET_RDZV_BACKEND", policy.rdzv_backend.as_deref().unwrap_or("c10d")),
    ];
    match &policy.rdzv_id {
        Some(id) => variables.push(own("PET_RDZV_ID", id)),
        // A uid, not the name: a job made again must not find the old one's state (PT-RDZV-2).
        None if !is_strict => variables.push(offered("PET_RDZV_ID", &job.uid)),
        None => {}
    }
    let settings: Vec<String> =
        policy.rdzv_conf.iter().flatten().map(|setting| format!("{}={}", setting.key, setting.value)).collect();
    if !settings.is_empty() {
        variables.push(own("PET_RDZV_CONF", settings.join(",")));
    }
    if let Some(restarts) = policy.max_restarts {
        variables.push(own("PET_MAX_RESTARTS", restarts));
    }
    if policy.standalone == Some(true) {
        // The reference's empty text is no number, and torchrun wants one (PT-ENV-6).
        variables.push(own("PET_STANDALONE", if is_strict { "" } else { "1" }));
    }
    variables
}
