//! What holds whatever happens: planning again is empty, counts are the pods, phases follow the table, crashes do not show.

use super::world::{Cluster, task};
use proptest::prelude::*;
use serde_json::{Value, json};
use volley_api::kube::text;

/// Something that the world does to a Job.
#[derive(Debug, Clone)]
enum Turn {
    Admit,
    Run(usize),
    End(usize, i32),
    Evict(usize),
    Reap,
    Wait(i64),
    Restarts(usize),
    Unknown,
    Command(&'static str),
}

fn turn() -> impl Strategy<Value = Turn> {
    let actions = ["AbortJob", "ResumeJob", "RestartJob", "TerminateJob", "CompleteJob", "RestartPod", "SyncJob"];
    prop_oneof![
        4 => Just(Turn::Admit),
        6 => (0..4usize).prop_map(Turn::Run),
        4 => ((0..4usize), prop_oneof![Just(0), Just(1), Just(7)]).prop_map(|(pod, code)| Turn::End(pod, code)),
        2 => (0..4usize).prop_map(Turn::Evict),
        4 => Just(Turn::Reap),
        2 => (1..90i64).prop_map(Turn::Wait),
        1 => (0..4usize).prop_map(Turn::Restarts),
        1 => Just(Turn::Unknown),
        1 => proptest::sample::select(actions.to_vec()).prop_map(Turn::Command),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    let events = ["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed", "Unknown", "PodPending"];
    let actions = ["AbortJob", "RestartJob", "RestartTask", "RestartPod", "TerminateJob", "CompleteJob", "ResumeJob"];
    let policy = (proptest::sample::select(events.to_vec()), proptest::sample::select(actions.to_vec()), any::<bool>());
    let policies = proptest::collection::vec(policy, 0..4);
    (policies, 1..4i32, proptest::option::of(1..3i32), any::<bool>()).prop_map(|(policies, min, success, waits)| {
        let mut seen = std::collections::BTreeSet::new();
        let policies: Vec<Value> = policies
            .into_iter()
            .filter(|(event, ..)| seen.insert(*event))
            .map(|(event, action, is_late)| {
                let mut policy = json!({"event": event, "action": action});
                if is_late {
                    policy["timeout"] = json!("60s");
                }
                policy
            })
            .collect();
        let mut spec = json!({"tasks": [task("a", 1), task("b", 2)], "minAvailable": min, "policies": policies, "plugins": {"svc": []}});
        if let Some(success) = success {
            spec["minSuccess"] = json!(success);
        }
        if waits {
            spec["tasks"][1]["dependsOn"] = json!({"name": ["a"]});
        }
        spec
    })
}

fn happen(cluster: &mut Cluster, turn: &Turn) {
    let names = ["j-a-0", "j-b-0", "j-b-1", "j-b-2"];
    let phase = |cluster: &Cluster, name: &str| {
        let pod = cluster.world.objects.get(&("Pod".to_owned(), name.to_owned()))?;
        let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
        Some((text(pod, "status.phase").to_owned(), is_going))
    };
    match turn {
        Turn::Admit => cluster.admit(),
        Turn::Run(index) => {
            if phase(cluster, names[*index]).is_some_and(|(phase, is_going)| phase.is_empty() && !is_going) {
                cluster.world.run_pod(names[*index]);
            }
        }
        Turn::End(index, code) => {
            if phase(cluster, names[*index]).is_some_and(|(phase, _)| phase == "Running") {
                cluster.end(names[*index], *code);
            }
        }
        Turn::Evict(index) => {
            if phase(cluster, names[*index]).is_some() {
                cluster.evict(names[*index]);
            }
        }
        Turn::Reap => cluster.reap(),
        Turn::Wait(seconds) => cluster.world.second += seconds,
        Turn::Restarts(index) => {
            if phase(cluster, names[*index]).is_some_and(|(phase, is_going)| phase == "Running" && !is_going) {
                let state = json!({"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 3});
                cluster.world.edit("Pod", names[*index], json!({"status": {"containerStatuses": [state]}}));
            }
        }
        Turn::Unknown => {
            for group in cluster.world.names("PodGroup") {
                cluster.world.edit("PodGroup", &group, json!({"status": {"phase": "Unknown"}}));
            }
        }
        Turn::Command(action) => cluster.command(action),
    }
}

/// Which phases may follow which, as written.
fn may_follow(from: &str, to: &str) -> bool {
    let stops = ["Restarting", "Aborting", "Completing", "Terminating"];
    match from {
        "Pending" => to == "Running" || stops.contains(&to),
        "Running" => matches!(to, "Pending" | "Completed" | "Failed") || stops.contains(&to),
        "Restarting" => matches!(to, "Pending" | "Failed") || stops.contains(&to),
        "Aborting" => matches!(to, "Aborted" | "Restarting"),
        "Aborted" => to == "Restarting",
        "Completing" => to == "Completed",
        "Terminating" => to == "Terminated",
        _ => false,
    }
}

fn check_phases(cluster: &Cluster) -> Result<(), TestCaseError> {
    for pair in cluster.phases.windows(2) {
        prop_assert!(may_follow(&pair[0], &pair[1]), "{:?}", cluster.phases);
    }
    Ok(())
}

/// Counts are those of the pods; only successes are remembered beyond their pods, and ends beyond the end.
fn check_counts(cluster: &Cluster) -> Result<(), TestCaseError> {
    let mut pods = std::collections::BTreeMap::new();
    for pod in cluster.world.of_kind("Pod") {
        let is_going = !pod["metadata"]["deletionTimestamp"].is_null();
        let phase = match text(&pod, "status.phase") {
            _ if is_going => "terminating",
            "" | "Pending" => "pending",
            "Running" => "running",
            "Succeeded" => "succeeded",
            _ => "failed",
        };
        *pods.entry(phase).or_insert(0) += 1;
    }
    let counted = |name: &str| pods.get(name).copied().unwrap_or(0);
    for name in ["pending", "running", "terminating"] {
        prop_assert_eq!(cluster.count(name), counted(name), "{} {}", name, cluster.status());
    }
    prop_assert!(cluster.count("succeeded") >= counted("succeeded"));
    prop_assert!(cluster.count("failed") >= counted("failed"));
    if !matches!(cluster.phase(), "Completed" | "Failed" | "Terminated") {
        prop_assert_eq!(cluster.count("failed"), counted("failed"));
    }
    let tasks = cluster.status()["taskStatusCount"].as_object().cloned().unwrap_or_default();
    for (name, phase) in
        [("pending", "Pending"), ("running", "Running"), ("succeeded", "Succeeded"), ("failed", "Failed")]
    {
        let sum: i64 = tasks.values().filter_map(|task| task["phase"][phase].as_i64()).sum();
        prop_assert_eq!(sum, cluster.count(name), "{}", phase);
    }
    Ok(())
}

/// What is left in the end, without what differs between two runs of the same story.
fn outcome(cluster: &Cluster) -> (Value, Vec<String>) {
    let mut status = cluster.status().clone();
    status["conditions"] = Value::Null;
    // Which commands were carried out is forgotten with the next write, whenever that is.
    let memory = status["controlledResources"]["volley.sh/memory"].as_str().unwrap_or("{}");
    let mut memory: Value = serde_json::from_str(memory).unwrap();
    memory["commands"] = Value::Null;
    status["controlledResources"]["volley.sh/memory"] = memory;
    let told = |((kind, name), object): (&(String, String), &Value)| {
        let going = if object["metadata"]["deletionTimestamp"].is_null() { "" } else { " (going)" };
        let version = &object["metadata"]["annotations"]["volcano.sh/job-version"];
        format!("{kind} {name} {version} {}{going}", text(object, "status.phase"))
    };
    (status, cluster.world.objects.iter().filter(|((kind, _), _)| kind != "Command").map(told).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn planning_settles_counts_are_the_pods_and_phases_follow_the_table(
        spec in spec(), turns in proptest::collection::vec(turn(), 0..40), is_strict in any::<bool>(),
    ) {
        let mut cluster = if is_strict { Cluster::strict(spec) } else { Cluster::new(spec) };
        cluster.settle();
        for turn in &turns {
            happen(&mut cluster, turn);
            // Settling panics unless a plan comes out empty.
            cluster.settle();
            check_counts(&cluster)?;
        }
        check_phases(&cluster)?;
    }

    // SM-65, CMD-10
    #[test]
    fn a_controller_that_dies_between_any_two_writes_comes_to_the_same_end(
        spec in spec(), turns in proptest::collection::vec((turn(), proptest::collection::vec(0..6usize, 0..4)), 0..30),
    ) {
        let mut calm = Cluster::new(spec.clone());
        let mut stormy = Cluster::new(spec);
        calm.settle();
        stormy.settle();
        for (turn, crashes) in &turns {
            happen(&mut calm, turn);
            happen(&mut stormy, turn);
            for actions in crashes {
                let plan = stormy.plan();
                stormy.apply_part(&plan, *actions);
            }
            calm.settle();
            stormy.settle();
            prop_assert_eq!(outcome(&calm), outcome(&stormy), "after {:?} with crashes {:?}", turn, crashes);
        }
        check_phases(&stormy)?;
        prop_assert_eq!(&calm.phases, &stormy.phases);
    }
}
