//! Requests and limits as numbers for the kernel: cgroup values and OOM scores, as the kubelet computes them.

use super::{Role, all_containers, main_containers, spec};
use k8s_openapi::api::core::v1::{Container, Pod, ResourceRequirements};
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;

pub type Amounts = BTreeMap<String, Quantity>;
type WireAmounts = BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>;

const SHARES_MIN: u64 = 2;
const SHARES_MAX: u64 = 262_144;
pub const CPU_PERIOD_US: u64 = 100_000;
/// The kernel takes no smaller quota.
const CPU_QUOTA_MIN_US: u64 = 1000;

const OOM_SCORE_GUARANTEED: i64 = -997;
const OOM_SCORE_BEST_EFFORT: i64 = 1000;
const NODE_CRITICAL_PRIORITY: i32 = 2_000_001_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qos {
    Guaranteed,
    Burstable,
    BestEffort,
}

/// What one cgroup is limited to; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cgroup {
    /// For cgroup v1.
    pub cpu_shares: u64,
    /// For cgroup v2.
    pub cpu_weight: u64,
    /// Of each `CPU_PERIOD_US`.
    pub cpu_quota_us: Option<u64>,
    pub memory_bytes: Option<u64>,
    pub pids: Option<u64>,
}

/// Amounts from the wire; the server has checked them, so what does not parse is left out.
pub fn amounts(wire: Option<&WireAmounts>) -> Amounts {
    let pairs = wire.into_iter().flatten();
    pairs.filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(&amount.0).ok()?))).collect()
}

pub fn requests(resources: Option<&ResourceRequirements>) -> Amounts {
    amounts(resources.and_then(|resources| resources.requests.as_ref()))
}

pub fn limits(resources: Option<&ResourceRequirements>) -> Amounts {
    amounts(resources.and_then(|resources| resources.limits.as_ref()))
}

/// What the pod takes from the node: its main containers and sidecars together, but at least what any init container
/// needs beside the sidecars started before it; then the pod's own numbers, and its overhead.
pub fn pod_requests(pod: &Pod) -> Amounts {
    let mut total = pod_total(pod, requests);
    add(&mut total, &overhead(pod));
    total
}

/// The same for limits; overhead raises a limit only where there is one.
pub fn pod_limits(pod: &Pod) -> Amounts {
    let mut total = pod_total(pod, limits);
    let mut overhead = overhead(pod);
    overhead.retain(|name, _| total.contains_key(name));
    add(&mut total, &overhead);
    total
}

fn overhead(pod: &Pod) -> Amounts {
    amounts(spec(pod).and_then(|spec| spec.overhead.as_ref()))
}

fn pod_total(pod: &Pod, part: fn(Option<&ResourceRequirements>) -> Amounts) -> Amounts {
    let (mut total, mut sidecars, mut init_peak) = (Amounts::new(), Amounts::new(), Amounts::new());
    for (role, container) in all_containers(pod) {
        let own = part(container.resources.as_ref());
        match role {
            Role::Main | Role::Ephemeral => add(&mut total, &own),
            Role::Sidecar => {
                add(&mut total, &own);
                add(&mut sidecars, &own);
            }
            Role::Init => {
                let mut peak = own;
                add(&mut peak, &sidecars);
                raise(&mut init_peak, &peak);
            }
        }
    }
    raise(&mut total, &init_peak);
    total.extend(part(spec(pod).and_then(|spec| spec.resources.as_ref())));
    total
}

pub fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_default() += *amount;
    }
}

fn raise(total: &mut Amounts, floor: &Amounts) {
    for (name, amount) in floor {
        let entry = total.entry(name.clone()).or_default();
        *entry = (*entry).max(*amount);
    }
}

/// The class of service that the pod's requests and limits amount to.
pub fn qos(pod: &Pod) -> Qos {
    let mut has_any = false;
    let mut is_guaranteed = true;
    let own = spec(pod).and_then(|spec| spec.resources.as_ref()).filter(|own| **own != ResourceRequirements::default());
    let of_containers = || all_containers(pod).map(|(_, container)| container.resources.as_ref()).collect();
    let parts: Vec<Option<&ResourceRequirements>> = own.map_or_else(of_containers, |own| vec![Some(own)]);
    for part in parts {
        let (requests, limits) = (requests(part), limits(part));
        for name in ["cpu", "memory"] {
            let positive = |amounts: &Amounts| amounts.get(name).copied().filter(|amount| !amount.is_zero());
            let (request, limit) = (positive(&requests), positive(&limits));
            has_any |= request.is_some() || limit.is_some();
            is_guaranteed &= limit.is_some() && request.is_none_or(|request| Some(request) == limit);
        }
    }
    match (has_any, is_guaranteed) {
        (false, _) => Qos::BestEffort,
        (true, true) => Qos::Guaranteed,
        (true, false) => Qos::Burstable,
    }
}

pub fn container_cgroup(container: &Container) -> Cgroup {
    let (requests, limits) = (requests(container.resources.as_ref()), limits(container.resources.as_ref()));
    let shares = cpu_shares(milli(&requests, "cpu").or(milli(&limits, "cpu")).unwrap_or(0));
    Cgroup {
        cpu_shares: shares,
        cpu_weight: cpu_weight(shares),
        cpu_quota_us: milli(&limits, "cpu").and_then(cpu_quota),
        memory_bytes: bytes(&limits, "memory"),
        pids: None,
    }
}

/// The cgroup around a pod's containers. It is limited in what all of them are limited in.
pub fn pod_cgroup(pod: &Pod, pids: Option<u64>) -> Cgroup {
    let (requests, limits) = (pod_requests(pod), pod_limits(pod));
    let own = self::limits(spec(pod).and_then(|spec| spec.resources.as_ref()));
    let is_declared = |name: &str| {
        let has = |amounts: &Amounts| amounts.get(name).is_some_and(|amount| !amount.is_zero());
        has(&own) || all_containers(pod).all(|(_, container)| has(&self::limits(container.resources.as_ref())))
    };
    let shares =
        if qos(pod) == Qos::BestEffort { SHARES_MIN } else { cpu_shares(milli(&requests, "cpu").unwrap_or(0)) };
    Cgroup {
        cpu_shares: shares,
        cpu_weight: cpu_weight(shares),
        cpu_quota_us: milli(&limits, "cpu").filter(|_| is_declared("cpu")).and_then(cpu_quota),
        memory_bytes: bytes(&limits, "memory").filter(|_| is_declared("memory")),
        pids,
    }
}

fn milli(amounts: &Amounts, name: &str) -> Option<u64> {
    amounts.get(name).map(|amount| u64::try_from(amount.milli_value()).unwrap_or(0))
}

fn bytes(amounts: &Amounts, name: &str) -> Option<u64> {
    amounts.get(name).map(|amount| u64::try_from(amount.value()).unwrap_or(0)).filter(|bytes| *bytes > 0)
}

fn cpu_shares(milli: u64) -> u64 {
    (milli.saturating_mul(1024) / 1000).clamp(SHARES_MIN, SHARES_MAX)
}

fn cpu_quota(milli: u64) -> Option<u64> {
    (milli > 0).then(|| (milli.saturating_mul(CPU_PERIOD_US) / 1000).max(CPU_QUOTA_MIN_US))
}

/// Shares (2 to 262144) as weight (1 to 10000), by the curve through minimum, default and maximum that runc and crun
/// use, so that 1024 shares become the default weight of 100.
fn cpu_weight(shares: u64) -> u64 {
    match shares {
        0..=2 => 1,
        SHARES_MAX.. => 10_000,
        _ => {
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            10f64.powf(exponent).ceil() as u64
        }
    }
}

/// How readily the kernel kills the container's processes when memory runs out: the less it asked for, the sooner.
pub fn oom_score_adj(pod: &Pod, container: &Container, memory_capacity_bytes: u64) -> i64 {
    let is_critical =
        spec(pod).and_then(|spec| spec.priority).is_some_and(|priority| priority >= NODE_CRITICAL_PRIORITY);
    match qos(pod) {
        _ if is_critical => return OOM_SCORE_GUARANTEED,
        Qos::Guaranteed => return OOM_SCORE_GUARANTEED,
        Qos::BestEffort => return OOM_SCORE_BEST_EFFORT,
        Qos::Burstable => {}
    }
    let capacity = i64::try_from(memory_capacity_bytes).unwrap_or(i64::MAX).max(1);
    let request = |container: &Container| requests(container.resources.as_ref()).get("memory").map_or(0, |m| m.value());
    let spare = spare_memory_per_container(pod);
    let score = |memory: i64| {
        let part = i128::from(memory.saturating_add(spare)).saturating_mul(1000) / i128::from(capacity);
        1000 - i64::try_from(part).unwrap_or(i64::MAX)
    };
    let mut adjust = score(request(container));
    let is_sidecar = all_containers(pod).any(|(role, other)| role == Role::Sidecar && other.name == container.name);
    if is_sidecar {
        // A sidecar does not die before the containers that it serves.
        let least = main_containers(pod).iter().map(request).min().unwrap_or(0);
        adjust = adjust.min(score(least));
    }
    adjust.clamp(1000 + OOM_SCORE_GUARANTEED, OOM_SCORE_BEST_EFFORT - 1)
}

/// The share of each container in what the pod itself asks for beyond its containers.
fn spare_memory_per_container(pod: &Pod) -> i64 {
    let own = requests(spec(pod).and_then(|spec| spec.resources.as_ref()));
    let Some(own) = own.get("memory") else { return 0 };
    let containers = all_containers(pod).filter(|(role, _)| *role != Role::Init);
    let (mut count, mut asked) = (0i64, Quantity::ZERO);
    for (_, container) in containers {
        count += 1;
        asked += requests(container.resources.as_ref()).get("memory").copied().unwrap_or_default();
    }
    (*own - asked).value().max(0) / count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn make(spec: Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec })).unwrap()
    }

    fn container(name: &str, requests: Value, limits: Value) -> Value {
        json!({"name": name, "resources": {"requests": requests, "limits": limits}})
    }

    fn texts(amounts: &Amounts) -> Vec<String> {
        amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    #[test]
    fn cpu_becomes_shares_weight_and_quota() {
        let cases = [(0, 2, 1), (100, 102, 17), (1000, 1024, 100), (4000, 4096, 303), (1_000_000, SHARES_MAX, 10_000)];
        for (milli, shares, weight) in cases {
            assert_eq!((cpu_shares(milli), cpu_weight(cpu_shares(milli))), (shares, weight), "{milli}m");
        }
        assert_eq!((cpu_quota(0), cpu_quota(5), cpu_quota(1500)), (None, Some(1000), Some(150_000)));
    }

    #[test]
    fn a_container_is_limited_as_it_says() {
        let pod =
            make(json!({"containers": [container("c", json!({"cpu": "500m"}), json!({"cpu": "2", "memory": "1Gi"}))]}));
        let cgroup = container_cgroup(&main_containers(&pod)[0]);
        assert_eq!((cgroup.cpu_shares, cgroup.cpu_quota_us, cgroup.memory_bytes), (512, Some(200_000), Some(1 << 30)));
    }

    #[test]
    fn a_pod_takes_the_most_that_it_needs_at_any_time() {
        let sidecar = json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        let init = container("i", json!({"cpu": "5", "memory": "1Gi"}), json!({}));
        let mains = [container("a", json!({"cpu": "2"}), json!({})), container("b", json!({"cpu": "2"}), json!({}))];
        let pod = make(json!({"initContainers": [sidecar, init], "containers": mains, "overhead": {"cpu": "100m"}}));
        // The init container needs 5 beside the sidecar's 1; later the three together need only 5.
        assert_eq!(texts(&pod_requests(&pod)), ["cpu=6100m", "memory=1Gi"]);
        assert_eq!(texts(&pod_limits(&pod)), Vec::<String>::new());
    }

    #[test]
    fn a_pod_is_limited_only_where_all_its_containers_are() {
        let both = container("a", json!({}), json!({"cpu": "1", "memory": "1Gi"}));
        let memory = container("b", json!({}), json!({"memory": "1Gi"}));
        let cgroup = pod_cgroup(&make(json!({"containers": [both, memory]})), Some(1024));
        assert_eq!((cgroup.cpu_quota_us, cgroup.memory_bytes, cgroup.pids), (None, Some(2 << 30), Some(1024)));
    }

    #[test]
    fn classes_of_service_and_their_oom_scores() {
        let full = json!({"cpu": "1", "memory": "1Gi"});
        let guaranteed = make(json!({"containers": [container("c", full.clone(), full.clone())]}));
        let burstable = make(json!({"containers": [container("c", json!({"memory": "4Gi"}), json!({}))]}));
        let nothing = make(json!({"containers": [{"name": "c"}]}));
        let score = |pod: &Pod| (qos(pod), oom_score_adj(pod, &main_containers(pod)[0], 16 << 30));
        assert_eq!(score(&guaranteed), (Qos::Guaranteed, -997));
        assert_eq!(score(&burstable), (Qos::Burstable, 750));
        assert_eq!(score(&nothing), (Qos::BestEffort, 1000));
        let cpu_only = make(json!({"containers": [container("c", json!({"cpu": "1"}), json!({}))]}));
        assert_eq!(score(&cpu_only), (Qos::Burstable, 999));
        let greedy = make(json!({"containers": [container("c", json!({"memory": "16Gi"}), json!({}))]}));
        assert_eq!(score(&greedy), (Qos::Burstable, 3));
    }
}
