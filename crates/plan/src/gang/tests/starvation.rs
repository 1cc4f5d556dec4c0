//! Nobody waits for ever: a gang that fits an empty cluster runs in bounded steps, whatever arrives later.

use super::land::{GangPlan, Land, NodePlan, QueuePlan, Story};
use super::laws::{config, told};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write;

const LARGE: usize = 2;
/// A gang that has waited for so many rounds goes before more important ones.
const RIPE: usize = 4;
const LENGTH_MAX: usize = 3;
/// It ripens; those that came before it, each once more after it was evicted, and it itself wait for one that runs.
const ROUNDS_MAX: usize = LARGE + RIPE + 2 * (LARGE + 2) * LENGTH_MAX;

#[derive(Debug, Clone)]
struct Rush {
    nodes: Vec<i64>,
    /// GPUs of each of its pods, queue and class of the large gang.
    large: (i64, usize, usize),
    /// One in each round: GPUs, rounds that it runs, queue and class.
    others: Vec<(i64, usize, usize, usize)>,
    declares: bool,
}

fn rush() -> impl Strategy<Value = Rush> {
    let other = (1..4_i64, 1..=LENGTH_MAX, 0..2_usize, 0..3_usize);
    let others = prop::collection::vec(other, ROUNDS_MAX);
    (prop::collection::vec(1..5_i64, 1..4), (1..5_i64, 0..2_usize, 0..3_usize), others, any::<bool>())
        .prop_map(|(nodes, large, others, declares)| Rush { nodes, large, others, declares })
}

fn plan(pods: usize, gpus: i64, queue: usize, class: usize) -> GangPlan {
    let (other, zone) = (None, None);
    GangPlan {
        pods,
        min: pods,
        gpus,
        other,
        queue,
        class,
        is_preemptable: true,
        is_pending: false,
        zone,
        is_apart: false,
    }
}

fn empty(rush: &Rush) -> Land {
    let deserved = rush.nodes.iter().sum::<i64>() / 2;
    let queue = QueuePlan { weight: 1, capability: None, guarantee: 0, is_reclaimable: true, deserved };
    let mut land = Land::new(&Story {
        nodes: rush.nodes.iter().map(|gpus| NodePlan { gpus: *gpus, cpus: 64 }).collect(),
        queues: vec![queue.clone(), queue.clone(), queue],
        declares: rush.declares,
        family: None,
        quota: None,
        makes_again: false,
        standing: Vec::new(),
        cordoned: None,
        turns: Vec::new(),
    });
    land.snapshot.policy.ripe_after = 10 * i64::try_from(RIPE).unwrap();
    land
}

/// Whether the large gang runs; what was decided is told.
fn runs(rush: &Rush, tale: &mut String) -> bool {
    let mut land = empty(rush);
    let (size, queue, class) = rush.large;
    let size = 1 + size % rush.nodes.iter().max().unwrap();
    let pods = usize::try_from(rush.nodes.iter().map(|gpus| gpus / size).sum::<i64>()).unwrap();
    let mut lengths: BTreeMap<String, usize> = BTreeMap::new();
    let mut ends: BTreeMap<String, usize> = BTreeMap::new();
    let mut large = None;
    for (round, (gpus, length, queue_of, class_of)) in rush.others.iter().enumerate() {
        land.now += 10;
        lengths.insert(land.arrive(&plan(1, *gpus, *queue_of, *class_of)), *length);
        if round == LARGE {
            large = Some(land.arrive(&plan(pods, size, queue, class)));
        }
        let placement = land.place();
        let _ = writeln!(tale, "round {round}\n{}", told(&placement));
        for bind in &placement.bind {
            if Some(&*bind.gang.name) == large.as_deref() {
                return true;
            }
            ends.insert(bind.gang.name.to_string(), round + lengths[&*bind.gang.name]);
        }
        land.apply(&placement);
        land.let_go(true);
        for evict in &placement.evict {
            ends.remove(&*evict.gang.name);
        }
        let over: Vec<String> = ends.iter().filter(|(_, end)| **end <= round).map(|(gang, _)| gang.clone()).collect();
        for gang in over {
            ends.remove(&gang);
            land.end(&gang);
        }
    }
    false
}

proptest! {
    #![proptest_config(config(10_000))]

    #[test]
    fn law_a_gang_that_fits_an_empty_cluster_runs_in_bounded_steps(rush in rush()) {
        let mut tale = String::new();
        prop_assert!(runs(&rush, &mut tale), "the large gang still waits:\n{}", tale);
    }
}
