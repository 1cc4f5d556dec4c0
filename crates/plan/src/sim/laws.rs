//! The laws that planners of jobs keep, whatever the world does and whoever dies; each kind of job tells its own story.
//!
//! A failure panics with what was seen: proptest then looks for the shortest story that fails.

use super::{Cluster, Disturbance, Run, Turn};
use crate::control::Plan;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::Value;
use std::collections::BTreeSet;

/// A world that means well ends any job within so many rounds: every retry of every pod fits in.
const WELL_MAX: usize = 40;

pub type Planner = Box<dyn Fn(&Cluster) -> Plan>;

/// A job, and what may be seen of it.
pub trait Story {
    /// The job as it was just made.
    fn begin(&self) -> Run<Planner>;

    /// What holds whenever the planner has come to rest.
    fn check(&self, run: &Run<Planner>);

    /// Whether a watcher may see one state of the job after another; the first follows none.
    fn check_step(&self, before: Option<&Value>, after: &Value);

    /// What must not depend on how often the controller died: all that a user can rely on.
    fn outcome(&self, cluster: &Cluster) -> Value;

    /// The words by which a job says that it is over, or at rest until somebody wants it to go on; none otherwise.
    fn rest(&self, job: &Value) -> Option<String>;
}

/// So many stories, the same ones each time: chance must not decide whether a build passes.
///
/// `PROPTEST_RNG_SEED` and `PROPTEST_CASES` in the environment hunt through others.
pub fn stories(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match asked.rng_seed {
        RngSeed::Fixed(_) => asked,
        RngSeed::Random => ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), ..asked },
    }
}

fn settle(run: &mut Run<Planner>) {
    let settled = run.settle().unwrap_or_else(|still| panic!("{still}"));
    settled.unwrap_or_else(|refusal| panic!("a plan from a fresh view was refused: {refusal}"));
}

fn check(story: &impl Story, run: &Run<Planner>) {
    let mut slots = BTreeSet::new();
    for pod in run.cluster.of_kind("Pod") {
        let labels = &pod["metadata"]["labels"];
        let slot = ["volcano.sh/task-spec", "volcano.sh/task-index", "replica-type", "replica-index"].map(|key| {
            let key = if key.starts_with("replica") { format!("training.kubeflow.org/{key}") } else { key.to_owned() };
            labels[key].to_string()
        });
        assert!(slots.insert(slot.clone()), "two pods are {slot:?}");
    }
    if run.watched().is_some() {
        story.check(run);
    }
}

fn check_sightings(story: &impl Story, run: &Run<Planner>) {
    let mut before = None;
    for after in &run.sightings {
        story.check_step(before, after);
        before = Some(after);
    }
}

/// Any sequence of events settles, in a state that is allowed, by steps that are allowed.
pub fn settles(story: &impl Story, turns: &[Turn]) {
    let mut run = story.begin();
    settle(&mut run);
    check(story, &run);
    for turn in turns {
        run.turn(turn).expect("a turn makes sense or changes nothing");
        settle(&mut run);
        check(story, &run);
    }
    check_sightings(story, &run);
}

/// A controller that dies between any two writes, or sees late what there is, comes to the same end as one that does not.
pub fn survives(story: &impl Story, turns: &[(Turn, Vec<Disturbance>)]) {
    let (mut calm, mut shaken) = (story.begin(), story.begin());
    settle(&mut calm);
    settle(&mut shaken);
    for (turn, disturbances) in turns {
        for run in [&mut calm, &mut shaken] {
            run.turn(turn).expect("a turn makes sense or changes nothing");
        }
        disturbances.iter().for_each(|disturbance| shaken.disturbed(disturbance));
        settle(&mut calm);
        settle(&mut shaken);
        check(story, &shaken);
        let (expected, found) = (story.outcome(&calm.cluster), story.outcome(&shaken.cluster));
        assert_eq!(found, expected, "after {turn:?} with {disturbances:?}");
    }
    check_sightings(story, &shaken);
}

/// Whatever has happened, a job comes to its end once the world means well, or says what it waits for.
pub fn ends(story: &impl Story, turns: &[Turn]) {
    let mut run = story.begin();
    settle(&mut run);
    for turn in turns {
        run.turn(turn).expect("a turn makes sense or changes nothing");
        settle(&mut run);
    }
    for _ in 0..WELL_MAX {
        if run.watched().is_none_or(|job| story.rest(job).is_some()) {
            return;
        }
        run.go_well().expect("a world that means well is not refused");
        settle(&mut run);
    }
    panic!("no end in sight: {:#?}", run.watched());
}

/// Deaths and late views, a few in a row.
pub fn disturbances() -> impl Strategy<Value = Vec<Disturbance>> {
    let death = (0..8usize).prop_map(Disturbance::Dies);
    let lag = proptest::collection::vec(0..5usize, 1..5).prop_map(Disturbance::Lags);
    proptest::collection::vec(prop_oneof![death, lag], 0..6)
}

/// What happens to pods, of whatever job.
pub fn pod_turn() -> impl Strategy<Value = Turn> {
    let pod = || 0..5usize;
    let code = prop_oneof![3 => Just(0), 2 => Just(1), 1 => Just(7), 1 => Just(137)];
    prop_oneof![
        8 => pod().prop_map(Turn::Start),
        5 => (pod(), code).prop_map(|(pod, code)| Turn::End(pod, code)),
        1 => pod().prop_map(Turn::Fall),
        1 => pod().prop_map(Turn::PutOut),
        1 => (pod(), 1..4i32).prop_map(|(pod, times)| Turn::RestartInPlace(pod, times)),
        1 => pod().prop_map(Turn::Delete),
        2 => pod().prop_map(Turn::Vanish),
        4 => Just(Turn::Reap),
        2 => (1..90i64).prop_map(Turn::Pass),
    ]
}
