//! On small worlds: a gang is placed if and only if there is a way to place it.

use super::laws::config;
use super::world::{GPU, World};
use crate::gang::snapshot::Kind;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What the gang's pods ask of each other, or of the pod that stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Nothing,
    /// No two on one node, in one zone.
    ApartByNode,
    ApartByZone,
    /// All in one zone; all in the zone of the other pod.
    Together,
    NearOther,
    /// The other pod keeps them out of its zone.
    KeptApart,
    /// Zones may differ by one.
    Spread,
    /// One port of the machine.
    Port,
    /// Zones are HyperNodes of the only tier that is allowed.
    HardTier,
    /// Zones are HyperNodes below one of a second tier, which is allowed too; or which all would like to be in.
    WideTier,
    SoftTier,
}

#[derive(Debug, Clone, Copy)]
struct PodCase {
    gpus: i64,
    zone: Option<usize>,
    task: usize,
    /// It bears the taint that some nodes have.
    is_tolerant: bool,
}

#[derive(Debug, Clone)]
struct Case {
    /// GPUs, zone, and whether it is tainted.
    nodes: Vec<(i64, usize, bool)>,
    /// Another gang's pod, of one GPU, on the first node.
    has_other: bool,
    pods: Vec<PodCase>,
    min: usize,
    /// How many of the first task must be among them.
    task_min: usize,
    wish: Wish,
}

const TASKS: [&str; 2] = ["a", "b"];

fn case() -> impl Strategy<Value = Case> {
    use Wish::{
        ApartByNode, ApartByZone, HardTier, KeptApart, NearOther, Nothing, Port, SoftTier, Spread, Together, WideTier,
    };
    let nodes = prop::collection::vec((0..6_i64, 0..2_usize, prop::bool::weighted(0.15)), 1..5);
    let pod = (1..5_i64, prop::option::weighted(0.25, 0..2_usize), 0..2_usize, any::<bool>());
    let pod = pod.prop_map(|(gpus, zone, task, is_tolerant)| PodCase { gpus, zone, task, is_tolerant });
    let pods = prop::collection::vec(pod, 1..6);
    let wish = select(vec![
        Nothing, Nothing, ApartByNode, ApartByZone, Together, NearOther, KeptApart, Spread, Spread, Port, HardTier,
        WideTier, SoftTier,
    ]);
    (nodes, any::<bool>(), pods, 1..6_usize, 0..3_usize, wish).prop_map(
        |(nodes, has_other, pods, min, task_min, wish)| {
            let min = min.min(pods.len());
            let has_other = has_other && nodes[0].0 > 0;
            Case { nodes, has_other, pods, min, task_min: task_min.min(min), wish }
        },
    )
}

/// Where each pod is.
type State = Vec<Option<usize>>;

/// Whether a way from nothing to enough can be walked pod by pod, each step allowed.
fn exists(case: &Case) -> bool {
    let mut seen: BTreeSet<State> = BTreeSet::new();
    let mut open = vec![vec![None; case.pods.len()]];
    while let Some(state) = open.pop() {
        if is_enough(case, &state) {
            return true;
        }
        for pod in (0..case.pods.len()).filter(|pod| state[*pod].is_none()) {
            for node in (0..case.nodes.len()).filter(|node| may_go(case, &state, pod, *node)) {
                let mut next = state.clone();
                next[pod] = Some(node);
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
    }
    false
}

fn is_enough(case: &Case, state: &State) -> bool {
    let placed = || case.pods.iter().zip(state).filter(|(_, node)| node.is_some());
    placed().count() >= case.min && placed().filter(|(pod, _)| pod.task == 0).count() >= case.task_min
}

fn may_go(case: &Case, state: &State, pod: usize, node: usize) -> bool {
    let zone_of = |node: usize| case.nodes[node].1;
    let own = &case.pods[pod];
    let placed = || state.iter().enumerate().filter_map(|(pod, node)| Some((pod, (*node)?)));
    let used: i64 = placed().filter(|(_, at)| *at == node).map(|(pod, _)| case.pods[pod].gpus).sum();
    let other = i64::from(case.has_other && node == 0);
    if used + other + own.gpus > case.nodes[node].0 || own.zone.is_some_and(|zone| zone != zone_of(node)) {
        return false;
    }
    if case.nodes[node].2 && !own.is_tolerant {
        return false;
    }
    let in_zone = |zone: usize| placed().filter(|(_, at)| zone_of(*at) == zone).count();
    match case.wish {
        Wish::Nothing | Wish::WideTier | Wish::SoftTier => true,
        Wish::ApartByNode | Wish::Port => placed().all(|(_, at)| at != node),
        Wish::ApartByZone => in_zone(zone_of(node)) == 0,
        Wish::Together | Wish::HardTier => placed().all(|(_, at)| zone_of(at) == zone_of(node)),
        Wish::NearOther => case.has_other && zone_of(0) == zone_of(node),
        Wish::KeptApart => !case.has_other || zone_of(0) != zone_of(node),
        Wish::Spread => {
            let suits = |zone: usize| own.zone.is_none_or(|own| own == zone);
            let zones = case.nodes.iter().map(|(_, zone, _)| *zone).filter(|zone| suits(*zone));
            in_zone(zone_of(node)) + 1 - zones.map(in_zone).min().unwrap_or(0) <= 1
        }
    }
}

fn required(which: &str, app: &str, key: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key});
    json!({which: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

fn spec_of(case: &Case, pod: &PodCase) -> Value {
    let mut spec = json!({});
    if let Some(zone) = pod.zone {
        spec["nodeSelector"] = json!({"zone": zone.to_string()});
    }
    if pod.is_tolerant {
        spec["tolerations"] = json!([{"key": "kept", "operator": "Exists"}]);
    }
    match case.wish {
        Wish::Nothing | Wish::KeptApart | Wish::HardTier | Wish::WideTier | Wish::SoftTier => {}
        Wish::ApartByNode => spec["affinity"] = required("podAntiAffinity", "g", "kubernetes.io/hostname"),
        Wish::ApartByZone => spec["affinity"] = required("podAntiAffinity", "g", "zone"),
        Wish::Together => spec["affinity"] = required("podAffinity", "g", "zone"),
        Wish::NearOther => spec["affinity"] = required("podAffinity", "o", "zone"),
        Wish::Spread => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "g"}}}]);
        }
        Wish::Port => {
            let requests = json!({GPU: pod.gpus.to_string()});
            spec["containers"] = json!([{"name": "c", "resources": {"requests": requests},
                "ports": [{"containerPort": 80, "hostPort": 80}]}]);
        }
    }
    spec
}

fn build(case: &Case) -> World {
    let mut world = World::new();
    for (at, (gpus, zone, is_tainted)) in case.nodes.iter().enumerate() {
        let mut more = json!({"metadata": {"labels": {"zone": zone.to_string()}}});
        if *is_tainted {
            more["spec"] = json!({"taints": [{"key": "kept", "effect": "NoSchedule"}]});
        }
        world.node(&format!("n{at}"), *gpus, more);
    }
    if case.has_other {
        world.group("o", 1, json!({"status": {"phase": "Running"}}));
        let keeps = if case.wish == Wish::KeptApart { required("podAntiAffinity", "g", "zone") } else { json!({}) };
        let more = json!({"spec": {"nodeName": "n0", "affinity": keeps}, "status": {"phase": "Running"},
            "metadata": {"annotations": {"volcano.sh/preemptable": "false"}}});
        world.pod("o-0", "o", 1, more);
    }
    let mut group = json!({"spec": {"minTaskMember": {"a": case.task_min}}});
    if matches!(case.wish, Wish::HardTier | Wish::WideTier | Wish::SoftTier) {
        for zone in 0..2 {
            let members =
                json!([{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"zone": zone.to_string()}}}}]);
            let name = format!("s{zone}");
            world.see(Kind::HyperNode, &json!({"metadata": {"name": name}, "spec": {"tier": 1, "members": members}}));
        }
        let below = json!([{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "s[01]"}}}]);
        world.see(Kind::HyperNode, &json!({"metadata": {"name": "top"}, "spec": {"tier": 2, "members": below}}));
        group["spec"]["networkTopology"] = match case.wish {
            Wish::HardTier => json!({"mode": "hard", "highestTierAllowed": 1}),
            Wish::WideTier => json!({"mode": "hard", "highestTierAllowed": 2}),
            _ => json!({"mode": "soft"}),
        };
    }
    world.group("g", case.min, group);
    for (at, pod) in case.pods.iter().enumerate() {
        let marks = json!({"annotations": {"volcano.sh/task-spec": TASKS[pod.task]}});
        world.pod(&format!("g-{at}"), "g", pod.gpus, json!({"metadata": marks, "spec": spec_of(case, pod)}));
    }
    world
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn a_gang_is_placed_exactly_when_there_is_a_way(case in case()) {
        let placement = build(&case).place();
        prop_assert_eq!(!placement.bind.is_empty(), exists(&case), "{:?}", placement.waiting);
        prop_assert!(placement.bind.is_empty() || placement.bind.len() >= case.min);
    }
}
