//! Which logs there are to read: one per container that has run, of the pods that are meant.
//!
//! While a job is followed this is asked again and again. What was read before and has ended is passed over; a container
//! that restarted is a new source.

use super::ranks::{self, Rank};
use serde_json::Value;
use std::collections::BTreeSet;

const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";

/// What the user wants to read.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Any of them; all when there is none.
    pub ranks: Vec<String>,
    pub container: Option<String>,
    /// The run before the present one.
    pub previous: bool,
}

/// One run of one container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    pub pod_uid: String,
    pub container: String,
    pub restarts: u64,
}

/// A log to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    pub run: Run,
    pub pod: String,
    /// Whether the run is over and another one has begun.
    pub is_previous: bool,
    /// Whether it may write more.
    pub is_running: bool,
    /// What its lines begin with.
    pub label: String,
}

/// How the log of a run is read now, its container having run on: of those that are there, `present` are the last.
/// Nothing when it can no longer be read, because the one after it has ended, too.
pub fn reach(source: &Source, present: &[Source]) -> Option<Source> {
    let is_same =
        |other: &&Source| (&other.run.pod_uid, &other.run.container) == (&source.run.pod_uid, &source.run.container);
    let restarts = present.iter().filter(is_same).map(|other| other.run.restarts).max().unwrap_or(0);
    match restarts.saturating_sub(source.run.restarts) {
        0 => Some(source.clone()),
        1 => Some(Source { is_previous: true, is_running: false, ..source.clone() }),
        _ => None,
    }
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// In order of ranks.
    pub sources: Vec<Source>,
    /// Containers without a log, and why.
    pub waiting: Vec<String>,
    /// What all pods are called, whether meant or not.
    pub labels: Vec<String>,
}

/// Finds the logs of a job's pods that are wanted and were not read to their end before.
pub fn find(job: &Value, pods: &[Value], wanted: &Wanted, read: &BTreeSet<Run>) -> Found {
    let mut ranked: Vec<(Rank, &Value)> = pods.iter().map(|pod| (ranks::rank(job, pod), pod)).collect();
    ranked.sort_by_key(|(rank, _)| (rank.number.unwrap_or(u64::MAX), rank.label.clone(), rank.pod.clone()));
    let mut found = Found { labels: ranked.iter().map(|(rank, _)| rank.label.clone()).collect(), ..Found::default() };
    for (rank, pod) in ranked {
        let is_meant = wanted.ranks.is_empty() || wanted.ranks.iter().any(|word| rank.is_called(word));
        if is_meant {
            look(&rank, pod, wanted, read, &mut found);
        }
    }
    found
}

/// Adds what one pod has.
fn look(rank: &Rank, pod: &Value, wanted: &Wanted, read: &BTreeSet<Run>, found: &mut Found) {
    let names = containers(pod, wanted);
    for name in &names {
        let label = if names.len() > 1 { format!("{}/{name}", rank.label) } else { rank.label.clone() };
        let status = status_of(pod, name);
        let run = |restarts| Run {
            pod_uid: pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned(),
            container: name.clone(),
            restarts,
        };
        let source = |restarts, is_previous| Source {
            run: run(restarts),
            pod: rank.pod.clone(),
            is_previous,
            is_running: !is_previous && status["state"]["running"].is_object(),
            label: label.clone(),
        };
        let restarts = status["restartCount"].as_u64().unwrap_or(0);
        let has_ended_before = status["lastState"]["terminated"].is_object();
        let mut candidates = Vec::new();
        if wanted.previous {
            match has_ended_before {
                true => candidates.push(source(restarts.saturating_sub(1), true)),
                false => found.waiting.push(format!("{label} has not been restarted")),
            }
        } else if let Some(reason) = reason_of_silence(pod, &status) {
            found.waiting.push(format!("{label} has not started: {reason}"));
        } else {
            let read_last = read.range(run(0)..=run(u64::MAX)).next_back().map(|read| read.restarts);
            // Of runs that began and ended between two looks, only the last can still be read.
            if read_last.is_some_and(|last| last + 1 < restarts) && has_ended_before {
                candidates.push(source(restarts - 1, true));
            }
            candidates.push(source(restarts, false));
        }
        let is_unread = |source: &Source| source.is_running || !read.contains(&source.run);
        found.sources.extend(candidates.into_iter().filter(is_unread));
    }
}

/// The containers of a pod that are meant: the named one, the pod's default, or all that are not there to prepare it.
fn containers(pod: &Value, wanted: &Wanted) -> Vec<String> {
    let named = |field: &str| {
        let containers = pod["spec"][field].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let own = named("containers");
    if let Some(name) = &wanted.container {
        let all = [own, named("initContainers"), named("ephemeralContainers")].concat();
        return all.into_iter().filter(|container| container == name).collect();
    }
    let default = pod["metadata"]["annotations"][DEFAULT_CONTAINER].as_str().unwrap_or_default();
    match own.iter().any(|name| name == default) {
        true => vec![default.to_owned()],
        false => own,
    }
}

fn status_of(pod: &Value, container: &str) -> Value {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod["status"][*list].as_array()).flatten();
    statuses.into_iter().find(|status| status["name"] == container).cloned().unwrap_or_default()
}

/// Why a container has written nothing yet; `None` when it has run.
fn reason_of_silence(pod: &Value, status: &Value) -> Option<String> {
    let state = &status["state"];
    let has_run = state["running"].is_object()
        || state["terminated"]["containerID"].is_string()
        || status["lastState"]["terminated"].is_object();
    if has_run {
        return None;
    }
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let unscheduled = conditions.filter(|it| it["type"] == "PodScheduled" && it["status"] == "False");
    let told = [
        &state["waiting"]["reason"],
        &state["terminated"]["reason"],
        &pod["status"]["reason"],
        unscheduled.map(|it| &it["message"]).next().unwrap_or(&Value::Null),
        &pod["status"]["phase"],
    ];
    let reason = told.into_iter().find_map(|value| value.as_str().filter(|text| !text.is_empty()));
    Some(reason.unwrap_or("Pending").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, index: u64, status: Value) -> Value {
        json!({
            "metadata": {"name": name, "uid": format!("uid-{name}"),
                "labels": {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": index.to_string()}},
            "spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "gate"}]},
            "status": {"phase": "Running", "containerStatuses": [status]}
        })
    }

    fn running(restarts: u64) -> Value {
        let last = if restarts > 0 { json!({"terminated": {"exitCode": 1}}) } else { json!({}) };
        json!({"name": "main", "restartCount": restarts, "state": {"running": {}}, "lastState": last})
    }

    fn job() -> Value {
        json!({"kind": "Job", "spec": {"tasks": [{"name": "worker", "replicas": 20}]}})
    }

    fn labels(found: &Found) -> Vec<&str> {
        found.sources.iter().map(|source| source.label.as_str()).collect()
    }

    #[test]
    fn no_pods_are_no_sources() {
        assert_eq!(find(&job(), &[], &Wanted::default(), &BTreeSet::new()), Found::default());
    }

    #[test]
    fn ranks_are_in_order_of_their_numbers_and_those_that_wait_say_why() {
        let waiting = json!({"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}});
        let mut unbound = pod("d", 3, Value::Null);
        unbound["status"] = json!({"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available"}]});
        let pods = [pod("a", 10, running(0)), pod("b", 9, running(0)), pod("c", 1, waiting), unbound];
        let found = find(&job(), &pods, &Wanted::default(), &BTreeSet::new());
        assert_eq!(labels(&found), ["worker-9", "worker-10"]);
        assert_eq!(
            found.waiting,
            ["worker-1 has not started: ImagePullBackOff", "worker-3 has not started: 0/1 nodes are available"]
        );
        assert_eq!(found.labels, ["worker-1", "worker-3", "worker-9", "worker-10"]);
    }

    #[test]
    fn only_the_wanted_ranks_and_containers_are_read() {
        let mut pods = [pod("a", 0, running(0)), pod("b", 1, running(0))];
        let one = Wanted { ranks: vec!["1".into()], ..Wanted::default() };
        assert_eq!(labels(&find(&job(), &pods, &one, &BTreeSet::new())), ["worker-1"]);
        pods[0]["spec"]["containers"] = json!([{"name": "main"}, {"name": "sidecar"}]);
        pods[0]["status"]["containerStatuses"] = json!([running(0), {"name": "sidecar", "state": {"running": {}}}]);
        let all = find(&job(), &pods, &Wanted::default(), &BTreeSet::new());
        assert_eq!(labels(&all), ["worker-0/main", "worker-0/sidecar", "worker-1"]);
        pods[0]["metadata"]["annotations"] = json!({DEFAULT_CONTAINER: "main"});
        assert_eq!(labels(&find(&job(), &pods, &Wanted::default(), &BTreeSet::new())), ["worker-0", "worker-1"]);
        let sidecar = Wanted { container: Some("sidecar".into()), ..Wanted::default() };
        assert_eq!(labels(&find(&job(), &pods, &sidecar, &BTreeSet::new())), ["worker-0"]);
    }

    #[test]
    fn a_run_is_read_until_it_ends_and_a_restart_is_another() {
        let mut read = BTreeSet::new();
        let mut look = |status: Value| {
            let found = find(&job(), &[pod("a", 0, status)], &Wanted::default(), &read);
            read.extend(found.sources.iter().map(|source| source.run.clone()));
            found.sources.iter().map(|source| (source.run.restarts, source.is_previous)).collect::<Vec<_>>()
        };
        assert_eq!(look(running(3)), [(3, false)], "what was before the first look is not asked for");
        assert_eq!(look(running(3)), [(3, false)]);
        let ended = json!({"name": "main", "restartCount": 3, "state": {"terminated": {"containerID": "x"}}});
        assert_eq!(look(ended), []);
        assert_eq!(look(running(4)), [(4, false)]);
        assert_eq!(look(running(6)), [(5, true), (6, false)]);
    }

    #[test]
    fn a_log_that_was_cut_goes_on_in_its_own_run_and_never_in_the_next() {
        let present =
            |restarts| find(&job(), &[pod("a", 0, running(restarts))], &Wanted::default(), &BTreeSet::new()).sources;
        let first = present(0).remove(0);
        assert_eq!(reach(&first, &present(0)), Some(first.clone()));
        let last = reach(&first, &present(1)).unwrap();
        assert_eq!((last.run.restarts, last.is_previous, last.is_running), (0, true, false));
        assert_eq!(reach(&first, &present(2)), None);
        assert_eq!(reach(&first, &[]), Some(first.clone()), "the pod may be gone, which the cluster will say");
    }

    #[test]
    fn the_run_before_is_told_when_there_was_one() {
        let previous = Wanted { previous: true, ..Wanted::default() };
        let found = find(&job(), &[pod("a", 0, running(2)), pod("b", 1, running(0))], &previous, &BTreeSet::new());
        assert_eq!(found.sources.iter().map(|it| (it.run.restarts, it.is_previous)).collect::<Vec<_>>(), [(1, true)]);
        assert_eq!(found.waiting, ["worker-1 has not been restarted"]);
    }

    #[test]
    fn a_container_that_waits_to_be_restarted_has_a_log() {
        let backoff = json!({"name": "main", "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1}}});
        let found = find(&job(), &[pod("a", 0, backoff)], &Wanted::default(), &BTreeSet::new());
        assert_eq!(found.sources.len(), 1);
    }
}
