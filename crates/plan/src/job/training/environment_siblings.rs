//! The variables of TFJob, XGBoostJob, PaddleJob and JAXJob (spec PT 22).

use super::environment::{Variable, own};
use super::round::Round;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use volley_api::kubeflow::job::{Replica, TrainingJob};

/// `TF_CONFIG`, in the order of fields that the reference writes.
#[derive(Serialize)]
struct Config {
    cluster: Cluster,
    task: Task,
    #[serde(skip_serializing_if = "Option::is_none")]
    environment: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Cluster {
    Whole(BTreeMap<String, Vec<String>>),
    /// With dynamic workers each knows itself and the parameter servers only.
    Sparse {
        worker: BTreeMap<i32, String>,
        ps: Vec<String>,
    },
}

#[derive(Serialize)]
struct Task {
    #[serde(rename = "type")]
    type_: String,
    index: i32,
}

pub fn tensorflow(round: &Round, replica: &Replica, index: i32) -> Vec<Variable> {
    let job = round.job;
    if job.total() <= 1 {
        return Vec::new();
    }
    let domain = round.settings.cluster_domain.as_deref().map(|domain| format!(".{domain}")).unwrap_or_default();
    let address = |of: &Replica, index: i32| {
        let port = of.port.unwrap_or_default();
        format!("{}.{}.svc{domain}:{port}", job.pod_name(of.type_, index), job.namespace)
    };
    let addresses = |of: &Replica| (0..of.count).map(|index| address(of, index)).collect::<Vec<_>>();
    let cluster = if job.has_dynamic_workers {
        let is_worker = replica.type_ == "Worker";
        let worker = is_worker.then(|| (index, address(replica, index))).into_iter().collect();
        Cluster::Sparse { worker, ps: job.replica("PS").map(addresses).unwrap_or_default() }
    } else {
        // An evaluator watches; it is no part of the cluster.
        let members = job.replicas.iter().filter(|of| of.type_ != "Evaluator");
        Cluster::Whole(members.map(|of| (of.type_.to_lowercase(), addresses(of))).collect())
    };
    let task = Task { type_: replica.type_.to_lowercase(), index };
    let environment = (!job.has_dynamic_workers).then_some("cloud");
    let config = serde_json::to_string(&Config { cluster, task, environment });
    vec![own("TF_CONFIG", config.expect("texts and numbers under texts make JSON"))]
}

pub fn xgboost(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<Variable> {
    let port_of = |type_: &str| job.replica(type_).and_then(|of| of.port).unwrap_or_default();
    let rank = if replica.type_ == "Master" { 0 } else { index + 1 };
    let mut variables = vec![
        own("MASTER_PORT", port_of("Master")),
        own("MASTER_ADDR", job.pod_name("Master", 0)),
        own("WORLD_SIZE", job.total()),
        own("RANK", rank),
        own("PYTHONUNBUFFERED", 1),
    ];
    let workers = job.replica("Worker").map_or(0, |worker| worker.count);
    if job.total() > 1 {
        let addresses: Vec<_> = (0..workers).map(|index| job.pod_name("Worker", index)).collect();
        variables.extend([own("WORKER_PORT", port_of("Worker")), own("WORKER_ADDRS", addresses.join(","))]);
    }
    variables
}

pub fn paddle(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<Variable> {
    let meeting = job.leader().or(job.replica("Worker"));
    let (type_, port) = meeting.map_or(("Worker", 0), |of| (of.type_, of.port.unwrap_or_default()));
    let mut variables =
        vec![own("PYTHONUNBUFFERED", 1), own("PADDLE_JOB_ID", &job.name), own("PADDLE_NNODES", job.total())];
    if replica.type_ == type_ && index == 0 {
        // The meeting point's own name may not resolve yet where it is needed first.
        let source = json!({ "fieldRef": { "fieldPath": "status.podIP" } });
        let mut address = own("POD_IP_DUMMY", "");
        address.entry = json!({ "name": "POD_IP_DUMMY", "valueFrom": source });
        variables.extend([address, own("PADDLE_MASTER", format!("$(POD_IP_DUMMY):{port}"))]);
    } else {
        variables.push(own("PADDLE_MASTER", format!("{}:{port}", job.pod_name(type_, 0))));
    }
    if job.leader().is_some() {
        let name = if replica.type_ == "Master" { "PADDLE_SERVER_NUM" } else { "PADDLE_TRAINER_NUM" };
        variables.push(own(name, 1));
    }
    variables
}

pub fn jax(job: &TrainingJob, replica: &Replica, index: i32) -> Vec<Variable> {
    vec![
        own("PYTHONUNBUFFERED", 1),
        own("COORDINATOR_PORT", replica.port.unwrap_or_default()),
        own("COORDINATOR_ADDRESS", job.pod_name("Worker", 0)),
        own("NUM_PROCESSES", job.total()),
        own("PROCESS_ID", index),
    ]
}
