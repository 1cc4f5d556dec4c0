//! What is refused in a new Job (spec/volcano.md 2.2): every problem at once, with field paths.
//!
//! The Job has been completed by `defaults`. Whether its queue takes it is told by `queue::takes_jobs`.

use super::arguments::{Arguments, Flag, Kind};
use super::types::{JobSpec, Task, job_spec};
use super::{PLUGINS, policies};
use crate::kube::decode::conform;
use crate::kube::defaults::pod::pod_template as complete_template;
use crate::kube::field::FieldError;
use crate::kube::quantity::Quantity;
use crate::kube::schema::builtin;
use crate::kube::validate::place::{NEGATIVE, Place, problems};
use crate::kube::validate::pod::pod_template;
use crate::kube::{at, names, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const TOPOLOGY_POLICIES: [&str; 4] = ["none", "best-effort", "restricted", "single-numa-node"];
/// Names of the two tasks of an MPI job.
pub const MPI_FLAGS: &[Flag] =
    &[("master", Kind::Text, "master"), ("worker", Kind::Text, "worker"), ("port", Kind::Number, "22")];

/// Everything wrong with a Job that is being created, apart from its metadata.
pub fn job_create(job: &Value) -> Vec<FieldError> {
    match job_spec(job) {
        Ok(spec) => problems(&job["spec"], "spec", |place| check_spec(&spec, text(job, "metadata.name"), place)),
        Err(error) => vec![error],
    }
}

/// Notes everything wrong with a Job's spec; `name` is the name that its pods will begin with.
pub fn check_spec(spec: &JobSpec, name: &str, place: &Place) {
    check_numbers(spec, place);
    check_names(spec, name, place);
    if spec.tasks.is_empty() {
        place.required("tasks", "No task specified in job spec");
    }
    for (task, place) in spec.tasks.iter().zip(place.items("tasks")) {
        check_task(task, &place);
    }
    policies::check(&spec.policies, place);
    check_plugins(spec, place);
    check_volumes(spec, place);
    check_dependencies(spec, place);
    check_topology(&place.field("networkTopology"));
}

/// The rules that also hold after an update (ADM-31).
pub(super) fn check_numbers(spec: &JobSpec, place: &Place) {
    let not_negative = |key: &str, number: i32, detail: &str| place.invalid_if(number < 0, key, number, detail);
    not_negative("minAvailable", spec.min_available, "job 'minAvailable' must be >= 0.");
    not_negative("maxRetry", spec.max_retry, "'maxRetry' cannot be less than zero.");
    let ttl = spec.ttl_seconds_after_finished.unwrap_or(0);
    not_negative("ttlSecondsAfterFinished", ttl, "'ttlSecondsAfterFinished' cannot be less than zero.");
    if let Some(fewest) = spec.min_success {
        place.invalid_if(fewest < 1, "minSuccess", fewest, "must be greater than or equal to 1");
    }
    let detail = "job 'minAvailable' should not be greater than total replicas in tasks";
    place.invalid_if(spec.min_available > spec.replicas(), "minAvailable", spec.min_available, detail);
    for (task, place) in spec.tasks.iter().zip(place.items("tasks")) {
        let name = &task.name;
        let detail = format!("'replicas' < 0 in task: {name}");
        place.invalid_if(task.replicas < 0, "replicas", task.replicas, &detail);
        let detail = match task.min_available {
            Some(fewest) if fewest < 0 => format!("'minAvailable' < 0 in task: {name}"),
            Some(fewest) if fewest > task.replicas => {
                format!("'minAvailable' is greater than 'replicas' in task: {name}")
            }
            Some(_) | None => continue,
        };
        place.invalid("minAvailable", task.min_available, &detail);
    }
}

/// Names of the Job, its tasks and its pods: each becomes the name of an object or of a host.
fn check_names(spec: &JobSpec, name: &str, place: &Place) {
    place.too_long_if(spec.scheduler_name.len() > names::LABEL_MAX, "schedulerName", names::LABEL_MAX);
    // A name that the server is still to make up cannot be judged yet; with `svc` the Job's name becomes a Service's.
    if !name.is_empty() {
        let check = if spec.plugins.contains_key("svc") { names::dns_label } else { names::qualified_name };
        for complaint in check(name) {
            let detail = format!("create job with name {name} validate failed {complaint}");
            place.note(FieldError::invalid("metadata.name", name, &detail));
        }
    }
    let mut seen = BTreeSet::new();
    for (task, place) in spec.tasks.iter().zip(place.items("tasks")) {
        let complaints = names::dns_label(&task.name);
        let is_label = complaints.is_empty();
        place.complain("name", &*task.name, complaints);
        let detail = format!("duplicated task name {}", task.name);
        place.invalid_if(!seen.insert(&task.name), "name", &*task.name, &detail);
        if name.is_empty() || !is_label {
            continue;
        }
        let last = format!("{name}-{}-{}", task.name, task.replicas.saturating_sub(1).max(0));
        for complaint in names::qualified_name(&last) {
            place.invalid("name", &*task.name, &format!("create pod with name {last} validate failed {complaint}"));
        }
    }
}

fn check_task(task: &Task, place: &Place) {
    place.invalid_if(task.max_retry < -1, "maxRetry", task.max_retry, "must be -1 or more");
    policies::check(&task.policies, place);
    check_template(&task.template, place);
    if !matches!(&*task.topology_policy, "" | "none") {
        check_numa(place);
    }
    let Some(partitions) = &task.partition_policy else { return };
    let policy = place.field("partitionPolicy");
    for (key, number) in
        [("totalPartitions", partitions.total_partitions), ("partitionSize", partitions.partition_size)]
    {
        policy.invalid_if(number < 1, key, number, "must be greater than 0");
    }
    check_filled(task, place);
    let needed = partitions.required();
    if let Some(fewest) = task.min_available.filter(|fewest| partitions.min_partitions > 0 && *fewest != needed) {
        let detail = format!("'MinAvailable' is not equal to MinPartitions*PartitionSize in task: {}", task.name);
        place.invalid("minAvailable", fewest, &detail);
    }
    check_topology(&policy.field("networkTopology"));
}

/// A task's partitions are all of its replicas.
pub(super) fn check_filled(task: &Task, place: &Place) {
    let detail = format!("'Replicas' are not equal to TotalPartitions*PartitionSize in task: {}", task.name);
    place.invalid_if(!task.is_filled(), "replicas", task.replicas, &detail);
}

/// A pod template must make a pod that the API server would take (ADM-24).
fn check_template(template: &Value, place: &Place) {
    let mut complete = if template.is_null() { json!({}) } else { template.clone() };
    let shape = builtin::named("io.k8s.api.core.v1.PodTemplateSpec").expect("the table of types has pod templates");
    if let Err(error) = conform(&shape, "PodTemplateSpec", "v1", &mut complete) {
        place.invalid("template", Value::Null, &error);
        return;
    }
    complete_template(&mut complete);
    problems(&complete, &place.path("template"), pod_template).into_iter().for_each(|error| place.note(error));
}

/// Pinned to a NUMA node, a container must ask for whole CPUs (ADM-27).
fn check_numa(place: &Place) {
    place.one_of("topologyPolicy", &TOPOLOGY_POLICIES);
    for key in ["template.spec.containers", "template.spec.initContainers"] {
        for container in place.items(key) {
            let request = at(container.value, "resources.requests.cpu").or(at(container.value, "resources.limits.cpu"));
            let cpus = request.and_then(|value| match value {
                Value::String(text) => Quantity::parse(text).ok(),
                other => Quantity::parse(&other.to_string()).ok(),
            });
            let is_whole = cpus.is_some_and(|cpus| cpus.milli_value() > 0 && cpus.milli_value() % 1000 == 0);
            let value = request.cloned().unwrap_or_default();
            container.invalid_if(!is_whole, "resources.requests.cpu", value, "the cpu request isn't an integer");
        }
    }
}

fn check_plugins(spec: &JobSpec, place: &Place) {
    for (name, plugin) in place.entries("plugins").filter(|(name, _)| !PLUGINS.contains(name)) {
        plugin.invalid("", name, &format!("unable to find job plugin: {name}"));
    }
    let Some(words) = spec.plugins.get("mpi") else { return };
    // A master may do without workers.
    let arguments = Arguments::read(MPI_FLAGS, words);
    let name = arguments.text("master");
    let detail = "The specified mpi master task was not found";
    place.invalid_if(spec.task(name).is_none(), "plugins[mpi]", name, detail);
}

fn check_volumes(spec: &JobSpec, place: &Place) {
    let mut seen = BTreeSet::new();
    for (volume, place) in spec.volumes.iter().zip(place.items("volumes")) {
        let mount = &volume.mount_path;
        if mount.is_empty() {
            place.required("mountPath", "mountPath is required");
        } else if mount.contains(':') {
            place.wrong("mountPath", "must not contain ':'");
        } else if !seen.insert(mount) {
            place.wrong("mountPath", &format!("duplicated mountPath: {mount}"));
        }
        let name = &volume.volume_claim_name;
        match (&volume.volume_claim, name.is_empty()) {
            (None, true) => place.required("", "either VolumeClaim or VolumeClaimName must be specified"),
            (Some(_), false) => {
                let detail = "conflict: If you want to use an existing PVC, just specify VolumeClaimName.If you want to create a new PVC, you do not need to specify VolumeClaimName";
                place.wrong("volumeClaimName", detail);
            }
            (None, false) => {
                for complaint in names::dns_subdomain(name) {
                    place.wrong("volumeClaimName", &format!("invalid VolumeClaimName {name} : {complaint}"));
                }
            }
            (Some(_), true) => {}
        }
    }
}

const NO_DAG: &str = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)";

/// Dependencies name tasks of the Job and lead nowhere in a circle (ADM-26).
fn check_dependencies(spec: &JobSpec, place: &Place) {
    let mut waits: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (task, place) in spec.tasks.iter().zip(place.items("tasks")) {
        let Some(depends) = &task.depends_on else { continue };
        for name in &depends.name {
            if spec.task(name).is_none() {
                place.invalid("dependsOn.name", name.as_str(), &format!("there is no such task: {NO_DAG}"));
            } else {
                waits.entry(&task.name).or_default().insert(name);
            }
        }
        if !depends.iteration.is_empty() {
            place.one_of("dependsOn.iteration", &["all", "any"]);
        }
    }
    // Take away tasks that wait for nobody until none is left; those that remain wait for each other.
    while let Some(free) = waits.iter().find(|(_, others)| others.iter().all(|name| !waits.contains_key(name))) {
        let free = *free.0;
        waits.remove(free);
    }
    if let Some((name, _)) = waits.first_key_value() {
        place.invalid("tasks", *name, NO_DAG);
    }
}

/// The two ways to name a tier exclude each other (ADM-29).
pub(super) fn check_topology(topology: &Place) {
    let is_both = topology.has("highestTierAllowed") && !topology.text("highestTierName").is_empty();
    let detail = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously";
    topology.wrong_if(is_both, "highestTierName", detail);
    let is_negative = topology.integer("highestTierAllowed").is_some_and(|tier| tier < 0);
    topology.wrong_if(is_negative, "highestTierAllowed", NEGATIVE);
    if !topology.text("mode").is_empty() {
        topology.one_of("mode", &["hard", "soft"]);
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
