//! One pod of a Job: name, marks and spec (spec/volcano.md 3.4), before and after the plugins had it.

use super::round::Round;
use super::{group, plugins};
use crate::job::members::Slot;
use crate::job::template::{containers, each_container, new_pod, push, set_mark};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_api::kube::text;
use volley_api::volcano::keys;
use volley_api::volcano::types::Task;

pub fn name(round: &Round, (task, index): &Slot) -> String {
    format!("{}-{task}-{index}", round.head.name())
}

/// The pod as it is sent to the server; the error is a plugin's.
pub fn build(round: &Round, task: &Task, index: i32) -> Result<Value, String> {
    let mut pod = new_pod(&round.head, &task.template, &name(round, &(task.name.clone(), index)));
    set_marks(round, task, index, &mut pod);
    let spec = &mut pod["spec"];
    for (key, value) in
        [("schedulerName", &round.spec.scheduler_name), ("priorityClassName", &round.spec.priority_class_name)]
    {
        if text(spec, key).is_empty() && !value.is_empty() {
            spec[key] = json!(value);
        }
    }
    mount_volumes(round, &mut pod);
    plugins::edit(round, task, index, &mut pod)?;
    Ok(pod)
}

fn set_marks(round: &Round, task: &Task, index: i32, pod: &mut Value) {
    let head = &round.head;
    let number = index.to_string();
    let both =
        [(keys::JOB, head.name()), (keys::TASK, &task.name), (keys::INDEX, &number), (keys::QUEUE, &round.spec.queue)];
    for (key, value) in both {
        set_mark(pod, "labels", key, value);
        set_mark(pod, "annotations", key, value);
    }
    set_mark(pod, "labels", keys::NAMESPACE, head.namespace());
    if let Some(partition) = task.partition(index) {
        set_mark(pod, "labels", keys::PARTITION, partition.to_string());
    }
    let annotations = [
        (keys::VERSION, round.status.version.to_string()),
        (keys::RETRY, round.status.retry_count.to_string()),
        (keys::TEMPLATE, format!("{}-{}", head.name(), task.name)),
        (keys::GROUP, group::name(round)),
    ];
    for (key, value) in annotations {
        set_mark(pod, "annotations", key, value);
    }
    if !task.topology_policy.is_empty() {
        set_mark(pod, "annotations", keys::NUMA_POLICY, &*task.topology_policy);
    }
    copy_marks(round, pod);
}

/// What the Job says about eviction holds for its pods; of the two budgets the lower bound wins.
fn copy_marks(round: &Round, pod: &mut Value) {
    for key in [keys::PREEMPTABLE, keys::COOLDOWN] {
        if let Some(value) = round.head.labels.get(key) {
            set_mark(pod, "labels", key, value);
        }
    }
    let budgets = [keys::MIN_AVAILABLE, keys::MAX_UNAVAILABLE];
    let budget = budgets.into_iter().find(|key| round.head.annotations.contains_key(*key));
    for key in [keys::PREEMPTABLE, keys::COOLDOWN, keys::REVOCABLE_ZONE].into_iter().chain(budget) {
        if let Some(value) = round.head.annotations.get(key) {
            set_mark(pod, "annotations", key, value);
        }
    }
}

/// Mounts the Job's claims; one that is listed twice is mounted at its first place only (POD-5).
fn mount_volumes(round: &Round, pod: &mut Value) {
    let mut mounted = BTreeSet::new();
    for (index, volume) in round.spec.volumes.iter().enumerate() {
        let claim = super::volumes::claim_name(round, index);
        if !mounted.insert(claim.clone()) {
            continue;
        }
        let name = format!("volcano-volume-{index}");
        push(&mut pod["spec"], "volumes", json!({ "name": name, "persistentVolumeClaim": { "claimName": claim } }));
        let mount = json!({ "name": name, "mountPath": volume.mount_path });
        let add = |container: &mut Value| push(container, "volumeMounts", mount.clone());
        if round.settings.is_strict {
            containers(pod).for_each(add);
        } else {
            each_container(pod, add);
        }
    }
}
