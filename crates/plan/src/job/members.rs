//! Which pods are a job's own: by task and index, counted by phase, with what their containers say of their end.

use super::head::Head;
use crate::control::{name_of, pods};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use std::collections::BTreeMap;

/// A place in a job: replica `index` of a task (Volcano) or replica type (Kubeflow).
pub type Slot = (String, i32);

/// The keys of a pod's labels, or annotations, that tell its slot.
#[derive(Debug, Clone, Copy)]
pub struct SlotKeys {
    pub task: &'static str,
    pub index: &'static str,
}

/// The pods that a job controls, and those of others that stand in the way of a name.
#[derive(Debug, Default)]
pub struct Members<'a> {
    pub own: BTreeMap<Slot, &'a Pod>,
    pub foreign: BTreeMap<&'a str, &'a Pod>,
}

impl<'a> Members<'a> {
    /// Sorts the pods of a namespace; a controlled pod without a slot is nobody's replica and is left out.
    pub fn of(head: &Head, seen: &'a [Pod], keys: SlotKeys) -> Self {
        let mut members = Members::default();
        for pod in seen {
            if !head.controls(&pod.metadata) {
                members.foreign.insert(name_of(&pod.metadata), pod);
            } else if let Some(slot) = slot(pod, keys) {
                members.own.insert(slot, pod);
            }
        }
        members
    }

    pub fn of_task(&self, task: &str) -> impl Iterator<Item = (i32, &'a Pod)> {
        let slots = self.own.range((task.to_owned(), i32::MIN)..=(task.to_owned(), i32::MAX));
        slots.map(|((_, index), pod)| (*index, *pod))
    }
}

/// The value of a key among the pod's labels, or else its annotations.
pub fn mark<'p>(pod: &'p Pod, key: &str) -> Option<&'p str> {
    let metadata = &pod.metadata;
    let maps = [metadata.labels.as_ref(), metadata.annotations.as_ref()];
    maps.into_iter().flatten().find_map(|map| map.get(key)).map(String::as_str)
}

fn slot(pod: &Pod, keys: SlotKeys) -> Option<Slot> {
    let index = mark(pod, keys.index)?.parse().ok().filter(|index| *index >= 0)?;
    Some((mark(pod, keys.task)?.to_owned(), index))
}

/// How many pods are in which phase; one that is being deleted counts only as terminating.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub pending: i32,
    pub running: i32,
    pub succeeded: i32,
    pub failed: i32,
    pub terminating: i32,
    pub unknown: i32,
}

impl Counts {
    pub fn add(&mut self, pod: &Pod) {
        if pods::is_being_deleted(pod) {
            self.terminating += 1;
        } else {
            *self.of_phase(pods::phase(pod)) += 1;
        }
    }

    /// The counter of a pod phase; phases that Kubernetes does not have count as unknown.
    pub fn of_phase(&mut self, phase: &str) -> &mut i32 {
        match phase {
            "Pending" => &mut self.pending,
            "Running" => &mut self.running,
            "Succeeded" => &mut self.succeeded,
            "Failed" => &mut self.failed,
            _ => &mut self.unknown,
        }
    }
}

/// Restarts of all containers of a pod, init containers too.
pub fn restarts(pod: &Pod) -> i32 {
    let statuses = pods::container_statuses(pod).iter().chain(pods::init_container_statuses(pod));
    statuses.map(|status| status.restart_count).sum()
}

/// The container that failed first, with its end; sidecars that ended well do not hide it.
pub fn first_failure(pod: &Pod) -> Option<(&str, &ContainerStateTerminated)> {
    let statuses = pods::container_statuses(pod).iter().chain(pods::init_container_statuses(pod));
    let ends = statuses.filter_map(|status| Some((&*status.name, status.state.as_ref()?.terminated.as_ref()?)));
    let failures = ends.filter(|(_, end)| end.exit_code != 0);
    failures.min_by_key(|(_, end)| (end.finished_at.is_none(), end.finished_at.clone()))
}
