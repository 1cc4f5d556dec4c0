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
use crate::kube::validate::path::Path;
use crate::kube::validate::pod::pod_template;
use crate::kube::validate::read::{given, list};
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
        Ok(spec) => check_spec(&spec, text(job, "metadata.name"), &Path::new("spec")),
        Err(error) => vec![error],
    }
}

/// Everything wrong with a Job's spec at `path`; `name` is the name that its pods will begin with.
pub fn check_spec(spec: &JobSpec, name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_numbers(&mut errors, spec, path);
    check_names(&mut errors, spec, name, path);
    let tasks = path.field("tasks");
    if spec.tasks.is_empty() {
        errors.push(FieldError::required(tasks, "No task specified in job spec"));
    }
    for (index, task) in spec.tasks.iter().enumerate() {
        check_task(&mut errors, task, &tasks.index(index));
    }
    policies::check(&mut errors, &spec.policies, &path.field("policies"));
    check_plugins(&mut errors, spec, &path.field("plugins"));
    check_volumes(&mut errors, spec, &path.field("volumes"));
    check_dependencies(&mut errors, spec, &tasks);
    check_topology(&mut errors, spec.network_topology.as_ref(), &path.field("networkTopology"));
    errors
}

/// The rules that also hold after an update (ADM-31).
pub(super) fn check_numbers(errors: &mut Vec<FieldError>, spec: &JobSpec, path: &Path) {
    let mut not_negative = |field: &str, number: i32, detail: &str| {
        if number < 0 {
            errors.push(FieldError::invalid(path.field(field), number, detail));
        }
    };
    not_negative("minAvailable", spec.min_available, "job 'minAvailable' must be >= 0.");
    not_negative("maxRetry", spec.max_retry, "'maxRetry' cannot be less than zero.");
    let ttl = spec.ttl_seconds_after_finished.unwrap_or(0);
    not_negative("ttlSecondsAfterFinished", ttl, "'ttlSecondsAfterFinished' cannot be less than zero.");
    if let Some(fewest) = spec.min_success.filter(|fewest| *fewest < 1) {
        errors.push(FieldError::invalid(path.field("minSuccess"), fewest, "must be greater than or equal to 1"));
    }
    if spec.min_available > spec.replicas() {
        let detail = "job 'minAvailable' should not be greater than total replicas in tasks";
        errors.push(FieldError::invalid(path.field("minAvailable"), spec.min_available, detail));
    }
    for (index, task) in spec.tasks.iter().enumerate() {
        let tasks = path.field("tasks");
        let path = tasks.index(index);
        let name = &task.name;
        if task.replicas < 0 {
            let detail = format!("'replicas' < 0 in task: {name}");
            errors.push(FieldError::invalid(path.field("replicas"), task.replicas, &detail));
        }
        let detail = match task.min_available {
            Some(fewest) if fewest < 0 => format!("'minAvailable' < 0 in task: {name}"),
            Some(fewest) if fewest > task.replicas => {
                format!("'minAvailable' is greater than 'replicas' in task: {name}")
            }
            Some(_) | None => continue,
        };
        errors.push(FieldError::invalid(path.field("minAvailable"), task.min_available, &detail));
    }
}

/// Names of the Job, its tasks and its pods: each becomes the name of an object or of a host.
fn check_names(errors: &mut Vec<FieldError>, spec: &JobSpec, name: &str, path: &Path) {
    if spec.scheduler_name.len() > names::LABEL_MAX {
        errors.push(FieldError::too_long(path.field("schedulerName"), names::LABEL_MAX));
    }
    // A name that the server is still to make up cannot be judged yet; with `svc` the Job's name becomes a Service's.
    if !name.is_empty() {
        let check = if spec.plugins.contains_key("svc") { names::dns_label } else { names::qualified_name };
        let complaints = check(name).into_iter().map(|complaint| {
            FieldError::invalid(
                "metadata.name",
                name,
                &format!("create job with name {name} validate failed {complaint}"),
            )
        });
        errors.extend(complaints);
    }
    let tasks = path.field("tasks");
    let mut seen = BTreeSet::new();
    for (index, task) in spec.tasks.iter().enumerate() {
        let path = tasks.index(index);
        let path = path.field("name");
        let complaints = names::dns_label(&task.name);
        errors.extend(complaints.iter().map(|complaint| FieldError::invalid(path, &*task.name, complaint)));
        if !seen.insert(&task.name) {
            let detail = format!("duplicated task name {}", task.name);
            errors.push(FieldError::invalid(path, &*task.name, &detail));
        }
        let last = format!("{name}-{}-{}", task.name, (task.replicas - 1).max(0));
        let complaints =
            if name.is_empty() || !complaints.is_empty() { Vec::new() } else { names::qualified_name(&last) };
        errors.extend(complaints.iter().map(|complaint| {
            FieldError::invalid(path, &*task.name, &format!("create pod with name {last} validate failed {complaint}"))
        }));
    }
}

fn check_task(errors: &mut Vec<FieldError>, task: &Task, path: &Path) {
    if task.max_retry < -1 {
        errors.push(FieldError::invalid(path.field("maxRetry"), task.max_retry, "must be -1 or more"));
    }
    policies::check(errors, &task.policies, &path.field("policies"));
    check_template(errors, &task.template, &path.field("template"));
    if !matches!(&*task.topology_policy, "" | "none") {
        check_numa(errors, task, path);
    }
    let Some(partitions) = &task.partition_policy else { return };
    let policy = path.field("partitionPolicy");
    for (field, number) in
        [("totalPartitions", partitions.total_partitions), ("partitionSize", partitions.partition_size)]
    {
        if number < 1 {
            errors.push(FieldError::invalid(policy.field(field), number, "must be greater than 0"));
        }
    }
    if partitions.total_partitions * partitions.partition_size != task.replicas {
        let detail = "'replicas' must be equal to 'totalPartitions' * 'partitionSize'";
        errors.push(FieldError::invalid(path.field("replicas"), task.replicas, detail));
    }
    let needed = partitions.min_partitions * partitions.partition_size;
    if let Some(fewest) = task.min_available.filter(|fewest| partitions.min_partitions > 0 && *fewest != needed) {
        let detail = "'minAvailable' must be equal to 'minPartitions' * 'partitionSize'";
        errors.push(FieldError::invalid(path.field("minAvailable"), fewest, detail));
    }
    check_topology(errors, partitions.network_topology.as_ref(), &policy.field("networkTopology"));
}

/// A pod template must make a pod that the API server would take (ADM-24).
fn check_template(errors: &mut Vec<FieldError>, template: &Value, path: &Path) {
    let mut complete = if template.is_null() { json!({}) } else { template.clone() };
    let shape = builtin::named("io.k8s.api.core.v1.PodTemplateSpec").expect("the table of types has pod templates");
    if let Err(error) = conform(&shape, "PodTemplateSpec", "v1", &mut complete) {
        errors.push(FieldError::invalid(path, Value::Null, &error));
        return;
    }
    complete_template(&mut complete);
    errors.extend(pod_template(&complete, path));
}

/// Pinned to a NUMA node, a container must ask for whole CPUs (ADM-27).
fn check_numa(errors: &mut Vec<FieldError>, task: &Task, path: &Path) {
    if !TOPOLOGY_POLICIES.contains(&&*task.topology_policy) {
        let supported =
            FieldError::not_supported(path.field("topologyPolicy"), &*task.topology_policy, &TOPOLOGY_POLICIES);
        errors.push(supported);
    }
    let spec = path.field("template.spec");
    for key in ["containers", "initContainers"] {
        for (index, container) in list(&task.template["spec"], key).iter().enumerate() {
            let request = at(container, "resources.requests.cpu").or(at(container, "resources.limits.cpu"));
            let cpus = request.and_then(|value| match value {
                Value::String(text) => Quantity::parse(text).ok(),
                other => Quantity::parse(&other.to_string()).ok(),
            });
            let is_whole = cpus.is_some_and(|cpus| cpus.milli_value() > 0 && cpus.milli_value() % 1000 == 0);
            if !is_whole {
                let path = spec.field(key);
                let path = path.index(index);
                let value = request.cloned().unwrap_or_default();
                errors.push(FieldError::invalid(
                    path.field("resources.requests.cpu"),
                    value,
                    "the cpu request isn't an integer",
                ));
            }
        }
    }
}

fn check_plugins(errors: &mut Vec<FieldError>, spec: &JobSpec, path: &Path) {
    for name in spec.plugins.keys().filter(|name| !PLUGINS.contains(&name.as_str())) {
        errors.push(FieldError::invalid(path.key(name), &**name, &format!("unable to find job plugin: {name}")));
    }
    if let Some(words) = spec.plugins.get("mpi") {
        let arguments = Arguments::read(MPI_FLAGS, words);
        for role in ["master", "worker"] {
            let name = arguments.text(role);
            if spec.task(name).is_none() {
                let detail = format!("The specified mpi {role} task was not found");
                errors.push(FieldError::invalid(path.key("mpi"), name, &detail));
            }
        }
    }
}

fn check_volumes(errors: &mut Vec<FieldError>, spec: &JobSpec, path: &Path) {
    let mut seen = BTreeSet::new();
    for (index, volume) in spec.volumes.iter().enumerate() {
        let path = path.index(index);
        let mount = &volume.mount_path;
        if mount.is_empty() {
            errors.push(FieldError::required(path.field("mountPath"), "mountPath is required"));
        } else if mount.contains(':') {
            errors.push(FieldError::invalid(path.field("mountPath"), &**mount, "must not contain ':'"));
        } else if !seen.insert(mount) {
            errors.push(FieldError::invalid(
                path.field("mountPath"),
                &**mount,
                &format!("duplicated mountPath: {mount}"),
            ));
        }
        let name = &volume.volume_claim_name;
        match (&volume.volume_claim, name.is_empty()) {
            (None, true) => {
                errors.push(FieldError::required(path, "either VolumeClaim or VolumeClaimName must be specified"));
            }
            (Some(_), false) => {
                let detail = "conflict: If you want to use an existing PVC, just specify VolumeClaimName.If you want to create a new PVC, you do not need to specify VolumeClaimName";
                errors.push(FieldError::invalid(path.field("volumeClaimName"), &**name, detail));
            }
            (None, false) => {
                let complaints = names::dns_subdomain(name).into_iter();
                errors.extend(complaints.map(|complaint| {
                    let detail = format!("invalid VolumeClaimName {name} : {complaint}");
                    FieldError::invalid(path.field("volumeClaimName"), &**name, &detail)
                }));
            }
            (Some(_), true) => {}
        }
    }
}

/// Dependencies name tasks of the Job and lead nowhere in a circle (ADM-26).
fn check_dependencies(errors: &mut Vec<FieldError>, spec: &JobSpec, path: &Path) {
    let mut waits: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (index, task) in spec.tasks.iter().enumerate() {
        let Some(depends) = &task.depends_on else { continue };
        let path = path.index(index);
        for name in &depends.name {
            if spec.task(name).is_none() {
                errors.push(FieldError::not_found(path.field("dependsOn.name"), &**name));
            } else {
                waits.entry(&task.name).or_default().insert(name);
            }
        }
        if !matches!(&*depends.iteration, "" | "any" | "all") {
            let path = path.field("dependsOn.iteration");
            errors.push(FieldError::not_supported(path, &*depends.iteration, &["all", "any"]));
        }
    }
    // Take away tasks that wait for nobody until none is left; those that remain wait for each other.
    while let Some(free) = waits.iter().find(|(_, others)| others.iter().all(|name| !waits.contains_key(name))) {
        let free = *free.0;
        waits.remove(free);
    }
    if let Some((name, _)) = waits.first_key_value() {
        let detail = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)";
        errors.push(FieldError::invalid(path, *name, detail));
    }
}

/// The two ways to name a tier exclude each other (ADM-29).
pub(super) fn check_topology(errors: &mut Vec<FieldError>, topology: Option<&Value>, path: &Path) {
    let Some(topology) = topology else { return };
    let tier = given(topology, "highestTierAllowed");
    if let Some(name) = given(topology, "highestTierName").filter(|name| *name != "")
        && tier.is_some()
    {
        let detail = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously";
        errors.push(FieldError::invalid(path.field("highestTierName"), name.clone(), detail));
    }
    if let Some(tier) = tier.and_then(Value::as_i64).filter(|tier| *tier < 0) {
        errors.push(FieldError::invalid(path.field("highestTierAllowed"), tier, "must be greater than or equal to 0"));
    }
    let mode = text(topology, "mode");
    if !matches!(mode, "" | "hard" | "soft") {
        errors.push(FieldError::not_supported(path.field("mode"), mode, &["hard", "soft"]));
    }
}

#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;
