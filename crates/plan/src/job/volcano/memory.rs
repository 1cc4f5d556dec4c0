//! What must not be forgotten between two looks at a Job, kept in its status so that it is written with the phase.
//!
//! It stands as one entry of `controlledResources`, the one free map of the status that every release's schema keeps:
//! a restarted controller knows which pods there were, which had succeeded, what it is taking away and what is due.

use crate::control::job_indexes::{self, Indexes};
use crate::job::members::{Slot, mark};
use k8s_openapi::api::core::v1::Pod;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use volley_api::volcano::keys;
use volley_api::volcano::types::JobStatus;

const KEY: &str = "volley.sh/memory";
/// No task has so many replicas; a range beyond it was not written by us.
const INDEX_MAX: i32 = 1_000_000;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// Indexes by task of the pods that have been seen: one that is gone without our doing was evicted.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    known: BTreeMap<String, String>,
    /// Indexes by task that have succeeded: losing such a pod loses no work.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    done: BTreeMap<String, String>,
    /// What a restart is taking away.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<Victims>,
    /// Delayed actions by the name of the pod that caused them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub timers: BTreeMap<String, Timer>,
    /// Uids of commands that have been carried out and are yet to be deleted.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub commands: BTreeSet<String>,
}

/// Pods that a restart takes away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Victims {
    All,
    /// All but those that have ended.
    Unended,
    Task(String),
    Partition(String, i32),
    Pod(String, i32),
}

/// An action that waits for its time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timer {
    pub action: String,
    pub event: String,
    pub task: String,
    pub index: i32,
    /// Seconds since the epoch.
    pub due: i64,
}

impl Memory {
    pub fn of(status: &JobStatus) -> Memory {
        let text = status.controlled_resources.get(KEY);
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub fn keep(&self, status: &mut JobStatus) {
        if *self == Memory::default() {
            status.controlled_resources.remove(KEY);
        } else {
            let text = serde_json::to_string(self).expect("a memory's keys are strings");
            status.controlled_resources.insert(KEY.to_owned(), text);
        }
    }

    pub fn known(&self, task: &str) -> Indexes {
        read(&self.known, task)
    }

    pub fn set_known(&mut self, task: &str, indexes: &Indexes) {
        write(&mut self.known, task, indexes);
    }

    pub fn done(&self, task: &str) -> Indexes {
        read(&self.done, task)
    }

    pub fn set_done(&mut self, task: &str, indexes: &Indexes) {
        write(&mut self.done, task, indexes);
    }

    /// Forgets all but the commands that were carried out.
    pub fn forget_pods(&mut self) {
        *self = Memory { commands: std::mem::take(&mut self.commands), ..Memory::default() };
    }

    /// Forgets a slot whose pod we take away ourselves.
    pub fn forget(&mut self, (task, index): &Slot) {
        for map in [&mut self.known, &mut self.done] {
            let mut indexes = read(map, task);
            indexes.remove(index);
            write(map, task, &indexes);
        }
    }
}

fn read(map: &BTreeMap<String, String>, task: &str) -> Indexes {
    map.get(task).map(|text| job_indexes::parse(text, INDEX_MAX)).unwrap_or_default()
}

fn write(map: &mut BTreeMap<String, String>, task: &str, indexes: &Indexes) {
    if indexes.is_empty() {
        map.remove(task);
    } else {
        map.insert(task.to_owned(), job_indexes::text(indexes));
    }
}

impl Victims {
    /// Whether the pod is one of those; `partition` is its task's partition.
    ///
    /// A pod that was made since carries the new version, or the new number of retries, and is spared.
    pub fn include(&self, slot: &Slot, pod: &Pod, partition: Option<i32>, status: &JobStatus) -> bool {
        let is_old = number(pod, keys::VERSION).unwrap_or(0) < status.version;
        let is_earlier_try = number(pod, keys::RETRY).unwrap_or(0) < status.retry_count;
        match self {
            Victims::All => is_old,
            Victims::Unended => is_old && !crate::control::pods::is_terminal(pod),
            Victims::Task(task) => *task == slot.0 && is_earlier_try,
            Victims::Partition(task, id) => *task == slot.0 && partition == Some(*id) && is_earlier_try,
            Victims::Pod(task, index) => (task, index) == (&slot.0, &slot.1) && is_earlier_try,
        }
    }
}

/// A number among the pod's marks.
pub fn number(pod: &Pod, key: &str) -> Option<i32> {
    mark(pod, key)?.parse().ok()
}
