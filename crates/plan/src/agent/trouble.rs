//! What keeps a workload's pods from running, found in the pods themselves, their group and the events about them (K-76).
//!
//! Each sort of trouble has a time that it may last. Some never go away by themselves, others are the way of things.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use volley_api::kube::{at, text, time};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    Image,
    ContainerConfig,
    Volume,
    CrashLoop,
    Quota,
    NodeLost,
    Unschedulable,
    Gang,
}

impl Cause {
    /// How long it may last before the item fails by it; none means that it may wait for ever, as for a free GPU.
    pub fn grace(self) -> Option<SignedDuration> {
        match self {
            Cause::Image => Some(SignedDuration::from_mins(5)),
            Cause::ContainerConfig => Some(SignedDuration::from_mins(2)),
            Cause::Volume => Some(SignedDuration::from_mins(10)),
            Cause::CrashLoop | Cause::NodeLost => Some(SignedDuration::from_mins(10)),
            Cause::Quota | Cause::Unschedulable | Cause::Gang => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Cause::Image => "image",
            Cause::ContainerConfig => "configuration",
            Cause::Volume => "volume",
            Cause::CrashLoop => "crash loop",
            Cause::Quota => "quota",
            Cause::NodeLost => "node lost",
            Cause::Unschedulable => "unschedulable",
            Cause::Gang => "gang",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    pub cause: Cause,
    pub message: String,
    pub since: Timestamp,
    /// Pod and container whose last lines say more.
    pub speaker: Option<(String, String)>,
    /// Those lines, once somebody has looked.
    pub last_lines: Vec<String>,
}

impl Trouble {
    fn new(cause: Cause, message: impl Into<String>, since: Timestamp) -> Trouble {
        Trouble { cause, message: message.into(), since, speaker: None, last_lines: Vec::new() }
    }
}

impl Trouble {
    pub fn is_past_grace(&self, now: Timestamp) -> bool {
        self.cause.grace().is_some_and(|grace| now.duration_since(self.since) >= grace)
    }
}

/// What is seen of a workload besides itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around<'a> {
    pub pods: &'a [Value],
    /// Events about the workload and its pods.
    pub events: &'a [Value],
    pub group: Option<&'a Value>,
}

/// All trouble, the worst sort first, one of each sort.
pub fn find(around: &Around<'_>, now: Timestamp) -> Vec<Trouble> {
    let mut all = Vec::new();
    for pod in around.pods.iter().filter(|pod| !matches!(text(pod, "status.phase"), "Succeeded" | "Failed")) {
        all.extend(of_pod(pod, now));
    }
    all.extend(around.events.iter().filter_map(|event| of_event(event, around.pods, now)));
    all.extend(around.group.and_then(|group| of_group(group, now)));
    all.sort_by_key(|trouble| (trouble.cause, trouble.since));
    all.dedup_by_key(|trouble| trouble.cause);
    all
}

fn of_pod(pod: &Value, now: Timestamp) -> Vec<Trouble> {
    let name = text(pod, "metadata.name");
    let began = begun_at(pod).unwrap_or(now);
    let mut all = Vec::new();
    for status in statuses(pod) {
        let (reason, message) = (text(status, "state.waiting.reason"), text(status, "state.waiting.message"));
        let container = text(status, "name");
        let end = last_end(status).filter(|end| begins_trouble(status, reason, *end));
        let since = end.map_or(began, |end| end.max(began));
        let told = |cause, what: &str| {
            let message = format!("container `{container}` of pod `{name}` {what}: {reason}: {message}");
            let speaker = (cause == Cause::CrashLoop).then(|| (name.to_owned(), container.to_owned()));
            Trouble { speaker, ..Trouble::new(cause, message.trim_end_matches([':', ' ']), since) }
        };
        match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" | "ImageInspectError" => {
                all.push(told(Cause::Image, "cannot get its image"));
            }
            "CrashLoopBackOff" => all.push(told(Cause::CrashLoop, "keeps crashing")),
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
                all.push(told(Cause::ContainerConfig, "cannot be made"));
            }
            _ => (),
        }
    }
    for condition in conditions(pod) {
        let since = time::parse(text(condition, "lastTransitionTime")).unwrap_or(began);
        if condition["type"] == "PodScheduled"
            && condition["status"] == "False"
            && condition["reason"] == "Unschedulable"
        {
            let message = format!("pod `{name}` fits on no node: {}", text(condition, "message"));
            all.push(Trouble::new(Cause::Unschedulable, message, since));
        }
        if condition["type"] == "Ready" && condition["reason"] == "NodeStatusUnknown"
            || text(pod, "status.reason") == "NodeLost"
        {
            all.push(Trouble::new(Cause::NodeLost, format!("the node of pod `{name}` is lost"), since));
        }
    }
    all
}

pub(super) fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    ["status.initContainerStatuses", "status.containerStatuses"]
        .into_iter()
        .filter_map(|path| at(pod, path).and_then(Value::as_array))
        .flatten()
}

/// When a scheduler gave it its node.
pub(super) fn placed_at(pod: &Value) -> Option<Timestamp> {
    let mut placed = conditions(pod).filter(|each| each["type"] == "PodScheduled" && each["status"] == "True");
    placed.find_map(|each| time::parse(text(each, "lastTransitionTime")))
}

/// When its containers could begin: the wait for a node is not theirs, nor is the work of those that come before.
fn begun_at(pod: &Value) -> Option<Timestamp> {
    let initial = at(pod, "status.initContainerStatuses").and_then(Value::as_array).into_iter().flatten();
    let ends = initial.filter_map(|status| time::parse(text(status, "state.terminated.finishedAt")));
    let placed = placed_at(pod).or_else(|| time::parse(text(pod, "metadata.creationTimestamp")));
    ends.chain(placed).max()
}

fn last_end(status: &Value) -> Option<Timestamp> {
    time::parse(text(status, "lastState.terminated.finishedAt"))
}

/// Whether what is wrong with a container began with its last end, and not with the pod. A start that fails is an end, too,
/// so that it counts only after a run as long as makes the kubelet begin its pauses anew; crashes count from the last one
/// also while they are fewer than in a loop of that time (with pauses of 10 s, 20 s, and so on up to 5 min).
fn begins_trouble(status: &Value, reason: &str, end: Timestamp) -> bool {
    const RUN_WELL: SignedDuration = SignedDuration::from_mins(10);
    const LOOP_RESTARTS: i64 = 6;
    let begun = time::parse(text(status, "lastState.terminated.startedAt"));
    let has_run_well = begun.is_some_and(|begun| end.duration_since(begun) >= RUN_WELL);
    let restarts = at(status, "restartCount").and_then(Value::as_i64).unwrap_or(0);
    match reason {
        "CrashLoopBackOff" => has_run_well || restarts < LOOP_RESTARTS,
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => has_run_well,
        _ => true,
    }
}

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    at(object, "status.conditions").and_then(Value::as_array).into_iter().flatten()
}

/// Volumes are there before the first container starts, so that what was said of them until then is over.
fn waits_for_volumes(event: &Value, pods: &[Value]) -> bool {
    let about = &event["involvedObject"];
    let is_it = |pod: &&Value| {
        let metadata = &pod["metadata"];
        metadata["name"] == about["name"] && (about["uid"].is_null() || metadata["uid"] == about["uid"])
    };
    let has_started = |status: &Value| {
        ["state.running", "state.terminated", "lastState.terminated"].iter().any(|path| at(status, path).is_some())
    };
    let waits = |pod: &Value| text(pod, "status.phase") == "Pending" && !statuses(pod).any(has_started);
    about["kind"] == "Pod" && pods.iter().find(is_it).is_some_and(waits)
}

fn of_event(event: &Value, pods: &[Value], now: Timestamp) -> Option<Trouble> {
    let message = text(event, "message");
    let cause = match text(event, "reason") {
        "FailedMount" | "FailedAttachVolume" | "FailedMapVolume" if waits_for_volumes(event, pods) => Cause::Volume,
        "FailedCreate" if message.contains("exceeded quota") => Cause::Quota,
        _ => return None,
    };
    let times = ["firstTimestamp", "eventTime", "metadata.creationTimestamp"];
    let since = times.iter().find_map(|path| time::parse(text(event, path))).unwrap_or(now);
    Some(Trouble::new(cause, message, since))
}

fn of_group(group: &Value, now: Timestamp) -> Option<Trouble> {
    let latest = conditions(group).last().filter(|each| each["type"] == "Unschedulable" && each["status"] == "True")?;
    let since = time::parse(text(latest, "lastTransitionTime")).unwrap_or(now);
    Some(Trouble::new(Cause::Gang, text(latest, "message"), since))
}

/// Whether the pod was taken away by the cluster and not by its own end (L-22).
pub fn is_disrupted(pod: &Value) -> bool {
    const REASONS: [&str; 3] = ["EvictionByEvictionAPI", "PreemptionByScheduler", "TerminationByKubelet"];
    let mut targets = conditions(pod).filter(|each| each["type"] == "DisruptionTarget" && each["status"] == "True");
    targets.any(|each| REASONS.contains(&text(each, "reason")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at_second(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn waiting(reason: &str) -> Value {
        json!({"metadata": {"name": "p", "creationTimestamp": "1970-01-01T00:00:10Z"}, "status": {"phase": "Pending",
            "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": reason, "message": "why"}}}]}})
    }

    // K-76, L-11
    #[test]
    fn pods_tell_what_keeps_them() {
        for (reason, cause) in [
            ("ErrImagePull", Cause::Image),
            ("ImagePullBackOff", Cause::Image),
            ("CrashLoopBackOff", Cause::CrashLoop),
            ("CreateContainerConfigError", Cause::ContainerConfig),
        ] {
            let pods = [waiting(reason)];
            let found = find(&Around { pods: &pods, ..Around::default() }, at_second(100));
            assert_eq!(found.iter().map(|trouble| trouble.cause).collect::<Vec<_>>(), [cause]);
            assert!(
                found[0].message.contains("`c` of pod `p`") && found[0].message.ends_with(&format!("{reason}: why"))
            );
            let crashed = (cause == Cause::CrashLoop).then(|| ("p".to_owned(), "c".to_owned()));
            assert_eq!(found[0].speaker, crashed, "only what runs has something to say");
            assert!(!found[0].is_past_grace(at_second(10)) && found[0].is_past_grace(at_second(10 + 600)));
        }
        assert!(find(&Around { pods: &[waiting("ContainerCreating")], ..Around::default() }, at_second(0)).is_empty());
    }

    // K-76
    #[test]
    fn what_waits_for_room_may_wait() {
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes: Insufficient nvidia.com/gpu"}]}});
        let group =
            json!({"status": {"conditions": [{"type": "Unschedulable", "status": "True", "message": "2/3 fit"}]}});
        let events = [
            json!({"reason": "FailedCreate", "message": "exceeded quota: q"}),
            json!({"reason": "FailedMount", "message": "no claim", "firstTimestamp": "1970-01-01T00:00:00Z",
                "involvedObject": {"kind": "Pod", "name": "p"}}),
            json!({"reason": "Scheduled"}),
        ];
        let pods = [pod];
        let found = find(&Around { pods: &pods, events: &events, group: Some(&group) }, at_second(0));
        let causes: Vec<_> = found.iter().map(|trouble| trouble.cause.name()).collect();
        assert_eq!(causes, ["volume", "quota", "unschedulable", "gang"]);
        let far = at_second(10_000_000);
        assert_eq!(
            found.iter().map(|trouble| trouble.is_past_grace(far)).collect::<Vec<_>>(),
            [true, false, false, false]
        );
        assert!(found[2].message.contains("nvidia.com/gpu"));
    }

    fn causes(pod: &Value, events: &[Value]) -> Vec<(Cause, i64)> {
        let pods = [pod.clone()];
        let found = find(&Around { pods: &pods, events, group: None }, at_second(9000));
        found.into_iter().map(|trouble| (trouble.cause, trouble.since.as_second())).collect()
    }

    // K-76
    #[test]
    fn a_volume_that_came_late_is_no_trouble_of_what_runs() {
        let mut pod = json!({"metadata": {"name": "p", "uid": "1"}, "status": {"phase": "Pending"}});
        let mut event = json!({"reason": "FailedMount", "firstTimestamp": "1970-01-01T00:00:07Z",
            "involvedObject": {"kind": "Pod", "name": "p", "uid": "1"}});
        assert_eq!(causes(&pod, std::slice::from_ref(&event)), [(Cause::Volume, 7)]);
        pod["status"]["initContainerStatuses"] = json!([{"name": "i", "state": {"running": {}}}]);
        assert_eq!(causes(&pod, std::slice::from_ref(&event)), [], "it got past it");
        pod["status"] = json!({"phase": "Running"});
        assert_eq!(causes(&pod, std::slice::from_ref(&event)), []);
        pod["status"] = json!({"phase": "Pending"});
        event["involvedObject"]["uid"] = json!("0");
        assert_eq!(causes(&pod, &[event]), [], "of a pod that had its name before");
    }

    // K-76
    #[test]
    fn what_is_wrong_with_a_container_is_counted_from_when_it_could_begin() {
        let mut pod = waiting("ErrImagePull");
        pod["status"]["conditions"] =
            json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T01:00:00Z"}]);
        assert_eq!(causes(&pod, &[]), [(Cause::Image, 3600)], "not from its creation, an hour before");
        pod["status"]["initContainerStatuses"] =
            json!([{"name": "i", "state": {"terminated": {"finishedAt": "1970-01-01T01:30:00Z"}}}]);
        assert_eq!(causes(&pod, &[]), [(Cause::Image, 5400)]);
        let mut pod = waiting("CrashLoopBackOff");
        let ran = |from: &str| json!({"terminated": {"startedAt": from, "finishedAt": "1970-01-01T02:00:00Z"}});
        let mut crashed = |from: &str, restarts: i64| {
            let status = &mut pod["status"]["containerStatuses"][0];
            (status["lastState"], status["restartCount"]) = (ran(from), json!(restarts));
            causes(&pod, &[])
        };
        assert_eq!(crashed("1970-01-01T00:01:00Z", 9), [(Cause::CrashLoop, 7200)], "it had run for long");
        assert_eq!(crashed("1970-01-01T01:59:59Z", 2), [(Cause::CrashLoop, 7200)], "it may come right yet");
        assert_eq!(crashed("1970-01-01T01:59:59Z", 6), [(Cause::CrashLoop, 10)]);
        let mut pod = waiting("RunContainerError");
        pod["status"]["containerStatuses"][0]["lastState"] = ran("1970-01-01T02:00:00Z");
        assert_eq!(causes(&pod, &[]), [(Cause::ContainerConfig, 10)], "each try is an end");
    }

    // L-22
    #[test]
    fn a_pod_that_the_cluster_took_is_told_from_one_that_failed() {
        let pod = |reason: &str| json!({"status": {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}});
        for reason in ["EvictionByEvictionAPI", "PreemptionByScheduler", "TerminationByKubelet"] {
            assert!(is_disrupted(&pod(reason)));
        }
        assert!(!is_disrupted(&pod("Other")) && !is_disrupted(&json!({})));
    }
}
