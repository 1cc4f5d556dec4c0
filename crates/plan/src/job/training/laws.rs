//! Laws of the planner: whatever happens to a job's pods, it settles, counts what is there and ends as it may.

use super::stage::Stage;
use crate::control::Plan;
use crate::control::world::World;
use proptest::prelude::*;
use serde_json::{Value, json};
use volley_api::kubeflow::kinds::{Kind, ROWS, Row};

/// Something that happens to a job from outside.
#[derive(Debug, Clone, Copy)]
enum Happening {
    Starts(usize),
    Ends(usize, i32),
    Evicted(usize),
    Deleted(usize),
    Vanishes(usize),
    RestartsInPlace(usize),
    Suspended(bool),
    Scaled(i32),
    Passes(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    let pod = 0..5usize;
    prop_oneof![
        5 => pod.clone().prop_map(Happening::Starts),
        4 => (pod.clone(), prop_oneof![Just(0), Just(1), Just(137)]).prop_map(|(pod, code)| Happening::Ends(pod, code)),
        1 => pod.clone().prop_map(Happening::Evicted),
        1 => pod.clone().prop_map(Happening::Deleted),
        1 => pod.clone().prop_map(Happening::Vanishes),
        1 => pod.prop_map(Happening::RestartsInPlace),
        1 => any::<bool>().prop_map(Happening::Suspended),
        1 => (1..4i32).prop_map(Happening::Scaled),
        1 => (1..40i64).prop_map(Happening::Passes),
    ]
}

/// A job of any kind and shape.
#[derive(Debug, Clone)]
struct Shape {
    row: &'static Row,
    has_leader: bool,
    is_elastic: bool,
    policy: &'static str,
    restarts_as_whole: bool,
    run_policy: Value,
}

fn job() -> impl Strategy<Value = Shape> {
    let row = prop_oneof![4 => Just(&ROWS[0]), 1 => (1..ROWS.len()).prop_map(|index| &ROWS[index])];
    let policy = prop_oneof![Just("Never"), Just("OnFailure"), Just("Always"), Just("ExitCode")];
    let clean = prop_oneof![Just("None"), Just("Running"), Just("All")];
    let limits = (proptest::option::of(0..3i32), proptest::option::of(20..60i64));
    (row, any::<[bool; 3]>(), policy, clean, limits).prop_map(
        |(row, [has_leader, is_elastic, restarts_as_whole], policy, clean, (backoff, deadline))| {
            let run_policy =
                json!({"cleanPodPolicy": clean, "backoffLimit": backoff, "activeDeadlineSeconds": deadline});
            Shape { row, has_leader, is_elastic, policy, restarts_as_whole, run_policy }
        },
    )
}

fn make(shape: &Shape) -> Stage {
    let mut replicas = vec![("Worker", 2, shape.policy)];
    let needs_leader = matches!(shape.row.kind, Kind::XgBoost | Kind::Mpi);
    let leader = shape.row.leaders.first().filter(|_| shape.has_leader || needs_leader);
    replicas.extend(leader.map(|type_| (*type_, 1, shape.policy)));
    let is_elastic = shape.is_elastic && shape.row.kind == Kind::PyTorch;
    let elastic = if is_elastic { json!({"minReplicas": 1, "maxReplicas": 3}) } else { Value::Null };
    let spec = json!({"runPolicy": shape.run_policy, "elasticPolicy": elastic});
    let mut stage = Stage::of(shape.row.name, &replicas, spec);
    if shape.restarts_as_whole {
        stage.edit(json!({"metadata": {"annotations": {"volley.dev/restart-scope": "job"}}}));
    }
    stage
}

fn happen(stage: &mut Stage, what: Happening) {
    let pods = stage.pods();
    let named = |index: usize| pods.get(index).cloned();
    let phase = |stage: &Stage, pod: &str| stage.pod(pod)["status"]["phase"].as_str().unwrap_or("Pending").to_owned();
    match what {
        Happening::Starts(index) => {
            if let Some(pod) = named(index).filter(|pod| phase(stage, pod) == "Pending") {
                stage.world.run_pod(&pod);
            }
        }
        Happening::Ends(index, code) => {
            if let Some(pod) = named(index).filter(|pod| phase(stage, pod) == "Running") {
                stage.end_as(&pod, if code == 0 { "Succeeded" } else { "Failed" }, Some(code));
            }
        }
        Happening::Evicted(index) => {
            if let Some(pod) = named(index).filter(|pod| phase(stage, pod) == "Running") {
                stage.end_as(&pod, "Failed", None);
            }
        }
        Happening::Deleted(index) => {
            if let Some(pod) = named(index) {
                stage.world.delete("Pod", &pod);
            }
        }
        Happening::Vanishes(index) => {
            if let Some(pod) = named(index) {
                stage.world.objects.remove(&("Pod".to_owned(), pod));
            }
        }
        Happening::RestartsInPlace(index) => {
            if let Some(pod) = named(index).filter(|pod| phase(stage, pod) == "Running") {
                stage.restarted(&pod, 1);
            }
        }
        Happening::Suspended(is_so) => stage.edit(json!({"spec": {"runPolicy": {"suspend": is_so}}})),
        Happening::Scaled(count) => {
            stage.edit(json!({"spec": {stage.row.replica_specs: {"Worker": {"replicas": count}}}}));
        }
        Happening::Passes(seconds) => stage.world.second += seconds,
    }
}

fn is_terminal(stage: &Stage) -> bool {
    stage.conditions().iter().any(|condition| condition == "Succeeded" || condition == "Failed")
}

/// A list of conditions that a client may see.
fn check_conditions(stage: &Stage) {
    let conditions = stage.conditions();
    let has = |word: &str| conditions.iter().any(|condition| condition == word);
    let types: std::collections::BTreeSet<_> = conditions.iter().map(|c| c.split('=').next().unwrap()).collect();
    assert_eq!(types.len(), conditions.len(), "each type once: {conditions:?}");
    assert!(has("Created"), "{conditions:?}");
    assert!(!(has("Running") && has("Restarting")), "{conditions:?}");
    assert!(!(has("Succeeded") && has("Failed")), "{conditions:?}");
    if is_terminal(stage) {
        let last = conditions.last().unwrap();
        assert!(last == "Succeeded" || last == "Failed", "nothing follows the end: {conditions:?}");
        assert!(!has("Running") && !has("Restarting"), "{conditions:?}");
        assert!(!stage.status()["completionTime"].is_null());
    } else {
        assert!(stage.status()["completionTime"].is_null());
    }
}

/// The counters are those of the pods that exist.
fn check_counts(stage: &Stage) {
    if is_terminal(stage) || stage.conditions().iter().any(|condition| condition == "Suspended") {
        return;
    }
    for type_ in stage.row.replica_types {
        let label = type_.to_lowercase();
        let is_of_type = |pod: &&String| {
            stage.pod(pod)["metadata"]["labels"]["training.kubeflow.org/replica-type"] == label.as_str()
        };
        let mut expected = [0, 0, 0];
        for pod in stage.pods().iter().filter(is_of_type) {
            let is_going = !stage.pod(pod)["metadata"]["deletionTimestamp"].is_null();
            match (stage.pod(pod)["status"]["phase"].as_str(), is_going) {
                (Some("Running"), false) => expected[0] += 1,
                (Some("Succeeded"), _) => expected[1] += 1,
                (Some("Running"), true) | (Some("Failed"), _) => expected[2] += 1,
                _ => {}
            }
        }
        assert_eq!(stage.counters(type_), expected, "{type_}: {:?}", stage.pods());
    }
}

/// What is left when times, names made by the server and events are put aside.
fn end_state(stage: &Stage) -> (Vec<String>, Vec<String>, Vec<String>, Value) {
    let restarts = stage.job()["metadata"]["annotations"]["volley.dev/restarts"].clone();
    (stage.conditions(), stage.pods(), stage.world.names("Service"), restarts)
}

/// Applies a plan as far as a controller gets that dies after so many writes.
fn apply_some(world: &mut World, plan: &Plan, writes: usize) {
    let actions = plan.actions.iter().take(writes).cloned().collect();
    world.apply(&Plan { actions, ..Plan::default() });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    // PT-REC-2, PT-CND-8, PT-STA-1, PT-DEC-13
    #[test]
    fn any_sequence_of_pod_events_settles_in_an_allowed_state(
        job in job(),
        happenings in proptest::collection::vec(happening(), 0..24),
    ) {
        let mut stage = make(&job);
        stage.settle();
        let mut end = None;
        for what in happenings {
            happen(&mut stage, what);
            stage.settle();
            check_conditions(&stage);
            check_counts(&stage);
            if let Some(end) = &end {
                prop_assert_eq!(&stage.conditions(), end, "an end is final");
            } else if is_terminal(&stage) {
                end = Some(stage.conditions());
            }
        }
    }

    // PT-REC-3, PT-BKF-5
    #[test]
    fn a_controller_that_dies_after_any_write_changes_nothing_in_the_end(
        job in job(),
        happenings in proptest::collection::vec(happening(), 0..16),
        deaths in proptest::collection::vec(0..4usize, 64),
    ) {
        let mut calm = make(&job);
        let mut shaken = make(&job);
        let mut deaths = deaths.into_iter().cycle();
        calm.settle();
        shaken.settle();
        for what in happenings {
            happen(&mut calm, what);
            calm.settle();
            happen(&mut shaken, what);
            for writes in deaths.by_ref().take(4) {
                let plan = shaken.plan();
                apply_some(&mut shaken.world, &plan, writes);
            }
            shaken.settle();
            prop_assert_eq!(end_state(&shaken), end_state(&calm));
        }
    }

    // PT-REC-1
    #[test]
    fn the_order_in_which_pods_are_seen_does_not_matter(
        job in job(),
        happenings in proptest::collection::vec(happening(), 0..12),
    ) {
        let mut stage = make(&job);
        stage.settle();
        for what in happenings {
            happen(&mut stage, what);
            let forwards = stage.plan();
            let backwards = stage.seen_by(|seen| {
                let pods: Vec<_> = seen.pods.iter().rev().cloned().collect();
                let services: Vec<_> = seen.services.iter().rev().cloned().collect();
                let seen = super::Observed { pods: &pods, services: &services, ..*seen };
                super::plan(stage.row, &seen, &stage.settings, stage.world.now())
            });
            prop_assert_eq!(forwards, backwards);
            stage.settle();
        }
    }
}
