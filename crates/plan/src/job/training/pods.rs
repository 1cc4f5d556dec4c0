//! A job's pods: which are missing or too many, and what a new one looks like (spec PT 6, 10).

use super::round::{REPLICA_INDEX, Round};
use super::{Gang, Gate, environment, group, mpi, restart};
use crate::control::{Action, Target, pods};
use crate::job::template::{self, push, set_mark};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_api::kubeflow::job::Replica;
use volley_api::kubeflow::kinds::Kind;

/// The gate that holds a worker until its master runs.
pub(super) const GATE: &str = "volley.dev/master-running";
const JOB_ROLE: &str = "training.kubeflow.org/job-role";

/// Fills the empty slots of a replica type and deletes the pods beyond its count (PT-POD-7).
pub fn sync(round: &mut Round, replica: &Replica) {
    let existing = round.pods_of(replica.type_);
    for (_, pod) in existing.iter().filter(|(index, pod)| *index >= replica.count && !pods::is_being_deleted(pod)) {
        round.delete_pod(pod);
    }
    if restart::holds_creation(round) {
        return;
    }
    let missing: Vec<i32> =
        (0..replica.count).filter(|index| !existing.iter().any(|(other, _)| other == index)).collect();
    if missing.is_empty() {
        return;
    }
    warn_of_template(round, replica);
    for index in missing {
        let object = build(round, replica, index);
        let event = round.voice.normal("SuccessfulCreatePod", "Created pod: {name}");
        round.plan.actions.push(Action::Create { object, event: Some(event) });
    }
}

fn warn_of_template(round: &mut Round, replica: &Replica) {
    if !text(&replica.template, "spec.restartPolicy").is_empty() {
        let message = "Restart policy in pod template will be overwritten by restart policy in replica spec";
        round.plan.events.push(round.voice.warning("SetPodTemplateRestartPolicy", message));
    }
    let scheduler = text(&replica.template, "spec.schedulerName");
    if round.settings.gang.as_ref().is_some_and(|gang| !scheduler.is_empty() && scheduler != group::scheduler(gang)) {
        let message = "Another scheduler is specified when gang-scheduling is enabled and it will not be overwritten";
        round.plan.events.push(round.voice.warning("SetPodTemplateSchedulerName", message));
    }
}

pub fn build(round: &Round, replica: &Replica, index: i32) -> Value {
    let mut pod = template::new_pod(&round.head, &replica.template, &round.job.pod_name(replica.type_, index));
    for (key, value) in round.labels(replica) {
        set_mark(&mut pod, "labels", key, value);
    }
    set_mark(&mut pod, "labels", REPLICA_INDEX, index.to_string());
    if leads(round, replica, index) {
        set_mark(&mut pod, "labels", JOB_ROLE, "master");
    }
    pod["spec"]["restartPolicy"] = json!(replica.restart_policy.of_pod());
    environment::add(round, replica, index, &mut pod);
    add_gate(round, replica, &mut pod);
    if let Some(gang) = &round.settings.gang {
        join(round, gang, replica, &mut pod);
    }
    if round.job.row.kind == Kind::Mpi {
        mpi::equip(round, replica, &mut pod);
    }
    pod
}

fn leads(round: &Round, replica: &Replica, index: i32) -> bool {
    let row = round.job.row;
    match round.job.leader() {
        Some(_) => row.leaders.contains(&replica.type_),
        None => row.worker_zero_leads && replica.type_ == "Worker" && index == 0,
    }
}

/// Only PyTorch's workers need their master first.
fn add_gate(round: &Round, replica: &Replica, pod: &mut Value) {
    let Some(master) = round.job.leader().filter(|leader| leader.type_ != replica.type_) else {
        return;
    };
    if round.job.row.kind != Kind::PyTorch {
        return;
    }
    match &round.settings.gate {
        Gate::Scheduling if round.settings.gang.is_none() => {
            push(&mut pod["spec"], "schedulingGates", json!({ "name": GATE }));
        }
        Gate::InitContainers(containers) => {
            let address = round.job.pod_name(master.type_, 0);
            containers
                .iter()
                .for_each(|container| push(&mut pod["spec"], "initContainers", addressed(container, &address)));
        }
        Gate::Scheduling | Gate::None => {}
    }
}

/// The value with the master's address put into all of its texts.
fn addressed(value: &Value, address: &str) -> Value {
    match value {
        Value::String(text) => json!(text.replace("{{.MasterAddr}}", address)),
        Value::Array(items) => items.iter().map(|item| addressed(item, address)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), addressed(value, address))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Makes the pod a member of the job's gang (spec PT 16).
fn join(round: &Round, gang: &Gang, replica: &Replica, pod: &mut Value) {
    if text(pod, "spec.schedulerName").is_empty() {
        pod["spec"]["schedulerName"] = json!(group::scheduler(gang));
    }
    match gang {
        Gang::Volcano => {
            set_mark(pod, "annotations", "scheduling.k8s.io/group-name", &round.job.name);
            set_mark(pod, "annotations", "volcano.sh/task-spec", replica.type_.to_lowercase());
        }
        Gang::Plugins(_) => set_mark(pod, "labels", "scheduling.x-k8s.io/pod-group", &round.job.name),
    }
}

/// Lets the workers go once their master has started; a worker without a master to wait for goes too.
///
/// A short master may have ended before anybody saw it run.
pub fn open_gates(round: &mut Round) {
    let has_begun = |pod: &Pod| matches!(pods::phase(pod), "Running" | "Succeeded" | "Failed");
    let has_begun = round.leader_pod().is_some_and(|pod| has_begun(pod) && !pods::is_being_deleted(pod));
    let is_held_by_us =
        round.job.leader().is_some() && round.settings.gate == Gate::Scheduling && round.settings.gang.is_none();
    if is_held_by_us && !has_begun {
        return;
    }
    let wanted = round.job.replicas.iter().flat_map(|replica| round.slots(replica));
    let wanted: Vec<&Pod> = wanted.map(|(_, pod)| pod).filter(|pod| !pods::is_being_deleted(pod)).collect();
    for pod in wanted {
        let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_deref()).unwrap_or_default();
        if !gates.iter().any(|gate| gate.name == GATE) {
            continue;
        }
        let kept: Vec<_> = gates.iter().filter(|gate| gate.name != GATE).collect();
        let patch = json!({
            "metadata": {"resourceVersion": pod.metadata.resource_version}, "spec": {"schedulingGates": kept},
        });
        round.plan.actions.push(Action::Patch { target: Target::of(pod), patch });
    }
}
