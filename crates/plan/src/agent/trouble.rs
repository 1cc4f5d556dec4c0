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
    all.extend(around.events.iter().filter_map(|event| of_event(event, now)));
    all.extend(around.group.and_then(|group| of_group(group, now)));
    all.sort_by_key(|trouble| (trouble.cause, trouble.since));
    all.dedup_by_key(|trouble| trouble.cause);
    all
}

fn of_pod(pod: &Value, now: Timestamp) -> Vec<Trouble> {
    let name = text(pod, "metadata.name");
    let began = time::parse(text(pod, "metadata.creationTimestamp")).unwrap_or(now);
    let mut all = Vec::new();
    for status in statuses(pod) {
        let (reason, message) = (text(status, "state.waiting.reason"), text(status, "state.waiting.message"));
        let container = text(status, "name");
        let told = |cause, what: &str| {
            let message = format!("container `{container}` of pod `{name}` {what}: {reason}: {message}");
            let speaker = (cause == Cause::CrashLoop).then(|| (name.to_owned(), container.to_owned()));
            Trouble { speaker, ..Trouble::new(cause, message.trim_end_matches([':', ' ']), began) }
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
    for condition in at(pod, "status.conditions").and_then(Value::as_array).into_iter().flatten() {
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

fn of_event(event: &Value, now: Timestamp) -> Option<Trouble> {
    let message = text(event, "message");
    let cause = match text(event, "reason") {
        "FailedMount" | "FailedAttachVolume" | "FailedMapVolume" => Cause::Volume,
        "FailedCreate" if message.contains("exceeded quota") => Cause::Quota,
        _ => return None,
    };
    let times = ["firstTimestamp", "eventTime", "metadata.creationTimestamp"];
    let since = times.iter().find_map(|path| time::parse(text(event, path))).unwrap_or(now);
    Some(Trouble::new(cause, message, since))
}

fn of_group(group: &Value, now: Timestamp) -> Option<Trouble> {
    let conditions = at(group, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    let latest = conditions.last().filter(|each| each["type"] == "Unschedulable" && each["status"] == "True")?;
    let since = time::parse(text(latest, "lastTransitionTime")).unwrap_or(now);
    Some(Trouble::new(Cause::Gang, text(latest, "message"), since))
}

/// Whether the pod was taken away by the cluster and not by its own end (L-22).
pub fn is_disrupted(pod: &Value) -> bool {
    const REASONS: [&str; 3] = ["EvictionByEvictionAPI", "PreemptionByScheduler", "TerminationByKubelet"];
    let conditions = at(pod, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    let mut targets = conditions.filter(|each| each["type"] == "DisruptionTarget" && each["status"] == "True");
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
            json!({"reason": "FailedMount", "message": "no claim", "firstTimestamp": "1970-01-01T00:00:00Z"}),
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
