//! When the machine runs short of memory, disk or process ids: what that is called, and which pod has to go.
//!
//! The node's shell takes a reading every few seconds, shows `Watch::take_in`'s pressures in the Node object and evicts
//! the one pod that `victim` names. Order and words are the kubelet's.

use super::resources::{limits, pod_requests, requests};
use super::seen::Eviction;
use super::{all_containers, name, spec, uid};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use std::cmp::Reverse;
use volley_api::kube::quantity::Quantity;

/// Upstream's default.
const MEMORY_MIN: i64 = 100 << 20;
/// A pressure is shown for so long after it was last felt, so that it does not come and go; upstream's default.
const PRESSURE_S: i64 = 300;
/// How long an evicted pod may take to go before the next one is chosen; upstream's patience.
const EVICTION_S: i64 = 30;
/// Pods from this priority on belong to the system and stay.
const SYSTEM_PRIORITY: i32 = 2_000_000_000;
/// Between the request to stop and the kill of an evicted pod; the machine cannot wait for its own grace.
const GRACE_S: i64 = 1;

/// What the Node object says that the machine is short of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pressures {
    pub memory: bool,
    pub disk: bool,
    pub pids: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    Memory,
    Disk,
    Inodes,
    Pids,
}

/// In the order in which they are relieved.
const SIGNALS: [Signal; 4] = [Signal::Memory, Signal::Disk, Signal::Inodes, Signal::Pids];

/// What is left of something, and how much there is in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    pub available: i64,
    pub capacity: i64,
}

/// One look at the machine; what could not be read is not judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    pub memory: Option<Level>,
    pub disk: Option<Level>,
    pub inodes: Option<Level>,
    pub pids: Option<Level>,
}

#[derive(Debug, Clone, Default)]
pub struct ContainerUsage {
    pub name: String,
    /// The working set: what could not be taken back at once.
    pub memory_bytes: i64,
    /// Its own files and its logs.
    pub disk_bytes: i64,
}

/// What a pod that has not ended uses.
#[derive(Debug, Clone, Default)]
pub struct PodUsage {
    pub pod: Pod,
    pub containers: Vec<ContainerUsage>,
    /// Of its volumes on the node's disk.
    pub volume_bytes: i64,
    pub processes: i64,
}

/// The disk space below which pods are evicted, of a disk of this size.
///
/// The kubelet's 10 % would turn pods away on a laptop or a large disk that is merely well used, so it is 5 % and never more
/// than 4 GiB; but at least 1 GiB (a pull or a checkpoint may take that between two looks), if that is no more than the
/// kubelet's 10 %.
pub fn disk_threshold(capacity: i64) -> i64 {
    const GIB: i64 = 1 << 30;
    (capacity / 20).min(4 * GIB).max((capacity / 10).min(GIB))
}

/// Why the pod has to go: a container whose files outgrow its limit of `ephemeral-storage`.
pub fn storage_over_limit(containers: &[ContainerUsage], pod: &Pod) -> Option<String> {
    let used = |name: &str| containers.iter().find(|usage| usage.name == name).map_or(0, |usage| usage.disk_bytes);
    all_containers(pod).find_map(|(_, container)| {
        let limit = limits(container.resources.as_ref()).get("ephemeral-storage").copied()?;
        let is_over = !limit.is_zero() && used(&container.name) > limit.value();
        // The blank at the end is the kubelet's.
        is_over
            .then(|| format!("Container {} exceeded its local ephemeral storage limit \"{limit}\". ", container.name))
    })
}

impl Signal {
    fn level(self, reading: &Reading) -> Option<Level> {
        match self {
            Signal::Memory => reading.memory,
            Signal::Disk => reading.disk,
            Signal::Inodes => reading.inodes,
            Signal::Pids => reading.pids,
        }
    }

    /// Less than this is too little.
    fn threshold(self, capacity: i64) -> i64 {
        match self {
            Signal::Memory => MEMORY_MIN,
            Signal::Disk => disk_threshold(capacity),
            // Upstream's default for inodes; it has none for process ids, for which the same share is kept.
            Signal::Inodes | Signal::Pids => capacity / 20,
        }
    }

    /// The resource in the words of an eviction.
    fn resource(self) -> &'static str {
        match self {
            Signal::Memory => "memory",
            Signal::Disk => "ephemeral-storage",
            Signal::Inodes => "inodes",
            Signal::Pids => "pids",
        }
    }

    fn amount(self, number: i64) -> Quantity {
        match self {
            Signal::Memory | Signal::Disk => Quantity::bytes(number),
            Signal::Inodes | Signal::Pids => Quantity::whole(number),
        }
    }
}

/// What there is too little of, the most urgent first.
pub fn shortages(reading: &Reading) -> Vec<Signal> {
    let is_short =
        |signal: &Signal| signal.level(reading).is_some_and(|level| level.available < signal.threshold(level.capacity));
    SIGNALS.into_iter().filter(is_short).collect()
}

/// What is remembered from look to look.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    memory_felt_at: Option<Timestamp>,
    disk_felt_at: Option<Timestamp>,
    pids_felt_at: Option<Timestamp>,
    /// The pod that was evicted last, and when.
    evicted: Option<(String, Timestamp)>,
}

impl Watch {
    /// Folds what is short now into what the node shows.
    pub fn take_in(&mut self, shortages: &[Signal], now: Timestamp) -> Pressures {
        for shortage in shortages {
            let felt_at = match shortage {
                Signal::Memory => &mut self.memory_felt_at,
                Signal::Disk | Signal::Inodes => &mut self.disk_felt_at,
                Signal::Pids => &mut self.pids_felt_at,
            };
            *felt_at = Some(now);
        }
        let is_felt = |felt_at: Option<Timestamp>| {
            felt_at.is_some_and(|felt_at| now.as_second() - felt_at.as_second() < PRESSURE_S)
        };
        Pressures {
            memory: is_felt(self.memory_felt_at),
            disk: is_felt(self.disk_felt_at),
            pids: is_felt(self.pids_felt_at),
        }
    }

    /// The pod to evict for the most urgent shortage: one at a time, and the next when that has gone or takes too long.
    pub fn victim(&mut self, reading: &Reading, pods: &[PodUsage], now: Timestamp) -> Option<(String, Eviction)> {
        let signal = *shortages(reading).first()?;
        if let Some((evicted, since)) = &self.evicted {
            let is_still_there = pods.iter().any(|usage| uid(&usage.pod) == evicted);
            if is_still_there && now.as_second() - since.as_second() < EVICTION_S {
                return None;
            }
        }
        let last = self.evicted.as_ref().map(|(uid, _)| uid.as_str());
        let candidates = pods.iter().filter(|usage| priority(&usage.pod) < SYSTEM_PRIORITY);
        let candidates = candidates.filter(|usage| Some(uid(&usage.pod)) != last);
        let chosen = candidates.min_by_key(|usage| rank(signal, usage))?;
        let uid = uid(&chosen.pod).to_owned();
        self.evicted = Some((uid.clone(), now));
        let message = message(signal, signal.level(reading)?, chosen);
        Some((uid, Eviction { message, grace_seconds: GRACE_S }))
    }
}

fn priority(pod: &Pod) -> i32 {
    spec(pod).and_then(|spec| spec.priority).unwrap_or(0)
}

/// Who goes first: those above their request, the less important, and of these the greediest; at last the name decides.
fn rank(signal: Signal, usage: &PodUsage) -> (bool, i32, Reverse<i64>, &str) {
    let used: i64 = match signal {
        Signal::Memory => usage.containers.iter().map(|container| container.memory_bytes).sum(),
        Signal::Disk | Signal::Inodes => {
            usage.containers.iter().map(|container| container.disk_bytes).sum::<i64>() + usage.volume_bytes
        }
        Signal::Pids => return (false, priority(&usage.pod), Reverse(usage.processes), name(&usage.pod)),
    };
    let resource = if signal == Signal::Memory { "memory" } else { "ephemeral-storage" };
    let above = used - pod_requests(&usage.pod).get(resource).map_or(0, |amount| amount.value());
    (above <= 0, priority(&usage.pod), Reverse(above), name(&usage.pod))
}

fn message(signal: Signal, level: Level, usage: &PodUsage) -> String {
    let resource = signal.resource();
    let (threshold, available) = (signal.amount(signal.threshold(level.capacity)), signal.amount(level.available));
    let mut message =
        format!("The node was low on resource: {resource}. Threshold quantity: {threshold}, available: {available}. ");
    for container in &usage.containers {
        let used = match signal {
            Signal::Memory => container.memory_bytes,
            Signal::Disk => container.disk_bytes,
            Signal::Inodes | Signal::Pids => continue,
        };
        let Some((_, own)) = all_containers(&usage.pod).find(|(_, own)| own.name == container.name) else { continue };
        let request = requests(own.resources.as_ref()).get(resource).copied().unwrap_or_default();
        let used = Quantity::bytes(used);
        if used > request {
            message += &format!(
                "Container {} was using {used}, request is {request}, has larger consumption of {resource}. ",
                container.name
            );
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const MIB: i64 = 1 << 20;
    const GIB: i64 = 1 << 30;

    fn short_of_memory() -> Reading {
        Reading { memory: Some(Level { available: 95 * MIB, capacity: 8 * GIB }), ..Reading::default() }
    }

    fn pod(name: &str, priority: i32, request: &str, used_mib: i64) -> PodUsage {
        let spec = json!({"priority": priority, "containers": [{"name": "c",
            "resources": {"requests": {"memory": request, "ephemeral-storage": request}}}]});
        let object = json!({"metadata": {"name": name, "uid": name}, "spec": spec});
        let (memory_bytes, disk_bytes) = (used_mib * MIB, used_mib * MIB);
        PodUsage {
            pod: serde_json::from_value(object).unwrap(),
            containers: vec![ContainerUsage { name: "c".to_owned(), memory_bytes, disk_bytes }],
            volume_bytes: 0,
            processes: used_mib,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_disk_is_short_by_a_share_that_suits_its_size() {
        let cases = [(500 * MIB, 50 * MIB), (8 * GIB, 8 * GIB / 10), (15 * GIB, GIB), (60 * GIB, 3 * GIB)];
        for (capacity, threshold) in cases.into_iter().chain([(250 * GIB, 4 * GIB), (4096 * GIB, 4 * GIB)]) {
            assert_eq!(disk_threshold(capacity), threshold, "{capacity}");
        }
    }

    #[test]
    fn a_shortage_is_felt_at_its_threshold_and_shown_for_a_while() {
        let level = |available, capacity| Some(Level { available, capacity });
        let reading =
            Reading { memory: level(100 * MIB, GIB), disk: level(GIB, 100 * GIB), inodes: None, pids: level(10, 1000) };
        assert_eq!(shortages(&reading), [Signal::Disk, Signal::Pids]);
        let mut watch = Watch::default();
        let shown = watch.take_in(&shortages(&reading), at(0));
        assert_eq!(shown, Pressures { memory: false, disk: true, pids: true });
        assert_eq!(watch.take_in(&[], at(299)), shown);
        assert_eq!(watch.take_in(&[], at(300)), Pressures::default());
    }

    #[test]
    fn those_above_their_request_go_first_then_the_less_important_then_the_greediest() {
        let mut pods = vec![
            pod("modest", 0, "1Gi", 1000),
            pod("important", 5, "1Mi", 900),
            pod("greedy", 0, "1Mi", 300),
            pod("greedier", 0, "1Mi", 400),
            pod("system", SYSTEM_PRIORITY, "0", 4000),
        ];
        let mut order = Vec::new();
        let mut watch = Watch::default();
        while let Some((uid, _)) = watch.victim(&short_of_memory(), &pods, at(0)) {
            pods.retain(|usage| usage.pod.metadata.uid.as_deref() != Some(&uid));
            order.push(uid);
        }
        assert_eq!(order, ["greedier", "greedy", "important", "modest"]);
    }

    #[test]
    fn an_eviction_says_the_numbers_as_the_kubelet_does() {
        let (_, eviction) = Watch::default().victim(&short_of_memory(), &[pod("p", 0, "0", 300)], at(0)).unwrap();
        let expected = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 95Mi. \
            Container c was using 300Mi, request is 0, has larger consumption of memory. ";
        assert_eq!((eviction.message.as_str(), eviction.grace_seconds), (expected, 1));
        let full = Reading { disk: Some(Level { available: GIB, capacity: 100 * GIB }), ..Reading::default() };
        let (_, eviction) = Watch::default().victim(&full, &[pod("p", 0, "400Mi", 300)], at(0)).unwrap();
        let expected = "The node was low on resource: ephemeral-storage. Threshold quantity: 4Gi, available: 1Gi. ";
        assert_eq!(eviction.message, expected);
    }

    #[test]
    fn a_container_that_outgrows_its_storage_is_named_with_its_limit() {
        let spec = json!({"containers": [{"name": "c", "resources": {"limits": {"ephemeral-storage": "10Mi"}}}]});
        let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        let used = |mib: i64| [ContainerUsage { name: "c".to_owned(), memory_bytes: 0, disk_bytes: mib * MIB }];
        assert_eq!(storage_over_limit(&used(10), &pod), None);
        let text = "Container c exceeded its local ephemeral storage limit \"10Mi\". ";
        assert_eq!(storage_over_limit(&used(11), &pod).as_deref(), Some(text));
    }

    #[test]
    fn one_pod_goes_at_a_time() {
        let pods = [pod("a", 0, "0", 300), pod("b", 0, "0", 200)];
        let mut watch = Watch::default();
        let mut victim =
            |pods: &[PodUsage], second| watch.victim(&short_of_memory(), pods, at(second)).map(|(uid, _)| uid);
        assert_eq!(victim(&pods, 0).as_deref(), Some("a"));
        assert_eq!(victim(&pods, 10), None, "it is still ending");
        assert_eq!(victim(&pods, 30).as_deref(), Some("b"), "it takes too long");
        assert_eq!(victim(&pods[..1], 40), Some("a".to_owned()), "it is asked again rather than nobody");
        assert_eq!(Watch::default().victim(&Reading::default(), &pods, at(0)), None);
    }
}
