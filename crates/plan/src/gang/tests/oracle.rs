//! On small worlds: a gang is placed if and only if there is a way to place it; and nobody waits for ever.

use super::world::World;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::json;

#[derive(Debug, Clone)]
struct Case {
    /// GPUs and zone.
    nodes: Vec<(i64, usize)>,
    /// GPUs and, for some, the zone that the pod must be in.
    pods: Vec<(i64, Option<usize>)>,
    min: usize,
    is_apart: bool,
}

fn case() -> impl Strategy<Value = Case> {
    let nodes = prop::collection::vec((0..6_i64, 0..2_usize), 1..5);
    let pod = (1..5_i64, prop::option::weighted(0.3, 0..2_usize));
    let pods = prop::collection::vec(pod, 1..7);
    (nodes, pods, 1..7_usize, prop::bool::weighted(0.2)).prop_map(|(nodes, pods, min, is_apart)| {
        let min = min.min(pods.len());
        Case { nodes, pods, min, is_apart }
    })
}

/// Whether at least `left` of the pods from `at` on can be placed.
fn exists(case: &Case, at: usize, left: usize, free: &mut Vec<i64>, used: &mut Vec<bool>) -> bool {
    if left == 0 {
        return true;
    }
    if case.pods.len() - at < left {
        return false;
    }
    let (gpus, zone) = case.pods[at];
    for node in 0..free.len() {
        let is_wanted = zone.is_none_or(|zone| zone == case.nodes[node].1);
        if is_wanted && free[node] >= gpus && !(case.is_apart && used[node]) {
            let was = used[node];
            free[node] -= gpus;
            used[node] = true;
            let found = exists(case, at + 1, left - 1, free, used);
            free[node] += gpus;
            used[node] = was;
            if found {
                return true;
            }
        }
    }
    exists(case, at + 1, left, free, used)
}

fn build(case: &Case) -> World {
    let mut world = World::new();
    for (at, (gpus, zone)) in case.nodes.iter().enumerate() {
        world.node(&format!("n{at}"), *gpus, json!({"metadata": {"labels": {"zone": zone.to_string()}}}));
    }
    world.group("g", case.min, json!({}));
    for (at, (gpus, zone)) in case.pods.iter().enumerate() {
        let mut more = json!({"spec": {}});
        if let Some(zone) = zone {
            more["spec"]["nodeSelector"] = json!({"zone": zone.to_string()});
        }
        if case.is_apart {
            let term = json!({"labelSelector": {"matchLabels": {"app": "g"}}, "topologyKey": "kubernetes.io/hostname"});
            more["spec"]["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        }
        world.pod(&format!("g-{at}"), "g", *gpus, more);
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(5), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_gang_is_placed_exactly_when_there_is_a_way(case in case()) {
        let mut free: Vec<i64> = case.nodes.iter().map(|node| node.0).collect();
        let is_possible = exists(&case, 0, case.min, &mut free, &mut vec![false; case.nodes.len()]);
        let placement = build(&case).place();
        prop_assert_eq!(!placement.bind.is_empty(), is_possible, "{:?}", placement.waiting);
        prop_assert!(placement.bind.is_empty() || placement.bind.len() >= case.min);
    }

    /// Small gangs keep coming and each runs for a few rounds; the large one runs once those before it have ended.
    #[test]
    fn a_gang_that_fits_an_empty_cluster_runs_in_bounded_time(
        nodes in prop::collection::vec(1..5_i64, 1..4), size in 1..5_i64, queue in prop::sample::select(vec!["default", "x"]),
        small in prop::collection::vec((1..3_i64, 1..4_usize), 30),
    ) {
        let mut world = World::new();
        world.queue("x", json!({}));
        for (at, gpus) in nodes.iter().enumerate() {
            world.node(&format!("n{at}"), *gpus, json!({}));
        }
        let places: i64 = nodes.iter().map(|gpus| gpus / size).sum();
        let pods = usize::try_from(places).unwrap();
        prop_assume!(pods > 0);
        let mut ends: Vec<(usize, String)> = Vec::new();
        for (round, (gpus, _)) in small.iter().enumerate() {
            world.now += 10;
            let name = format!("s{round}");
            world.gang(&name, 1, 1, *gpus, json!({}));
            if round == 5 {
                world.gang("big", pods, pods, size, json!({"spec": {"queue": queue}}));
            }
            let placement = world.place();
            for gang in placement.bind.iter().map(|bind| bind.gang.name.to_string()) {
                let length = gang[1..].parse::<usize>().map_or(1000, |at| small[at].1);
                ends.push((round + length, gang));
            }
            world.apply(&placement);
            world.let_go();
            if ends.iter().any(|(_, gang)| gang == "big") {
                return Ok(());
            }
            let is_over = |(end, gang): &(usize, String)| if *end <= round { Some(gang.clone()) } else { None };
            let over: Vec<String> = ends.iter().filter_map(is_over).collect();
            over.iter().for_each(|gang| world.end(gang));
            ends.retain(|(end, _)| *end > round);
        }
        prop_assert!(false, "the large gang still waits: {}", world.why("big"));
    }
}
