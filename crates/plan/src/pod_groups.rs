//! PodGroups that are not Volcano's, in Volcano's words: coscheduling's, and Kubernetes' own.
//!
//! Who reads a cluster (the scheduler, `volley why`) translates groups and pods before the snapshot sees them. Theirs have
//! no room for all that ours say, so the status as Volcano's would be stands in an annotation, and what their kind has a
//! field for beside it.

use serde_json::{Map, Value, json};
use std::borrow::Cow;
use volley_api::kube::{at, text};
use volley_api::volcano::{SCHEDULING, keys};

/// The status in Volcano's words.
pub const STATUS: &str = "volley.dev/pod-group-status";
/// The scheduler that is ours alone.
const OWN: &str = "volley";
pub const TOPOLOGY_MODE: &str = "volcano.sh/network-topology-mode";
/// By these a group, or a pod without one, says which queue it is of.
const QUEUES: [&str; 2] = ["scheduling.volcano.sh/queue-name", keys::QUEUE];
/// By these a pod names its group: annotations, then coscheduling's labels, the older one last.
const MARKS: [&str; 2] = [keys::GROUP, "scheduling.volcano.sh/group-name"];
/// Pods with this one say themselves how many they are.
const LIGHT: &str = "pod-group.scheduling.sigs.k8s.io/name";
const LABELS: [&str; 2] = ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"];

/// Whose a PodGroup is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Volcano,
    Coscheduling,
    Kubernetes,
}

/// Where PodGroups are served; Volcano's come first, and of several with one name they count.
pub const SERVED: [(&str, Origin); 4] = [
    (SCHEDULING, Origin::Volcano),
    ("scheduling.x-k8s.io/v1alpha1", Origin::Coscheduling),
    ("scheduling.k8s.io/v1alpha2", Origin::Kubernetes),
    ("scheduling.k8s.io/v1beta1", Origin::Kubernetes),
];

/// The group that a pod says it is of.
pub fn named_by(pod: &Value) -> Option<&str> {
    let own = |kind: &str, key: &str| pod["metadata"][kind][key].as_str().filter(|name| !name.is_empty());
    let marked = MARKS.iter().find_map(|key| own("annotations", key));
    let labelled = || LABELS.iter().find_map(|key| own("labels", key));
    marked.or_else(labelled).or_else(|| reference(pod))
}

/// The gang that a pod says it is of, in whatever way.
pub fn gang_of(pod: &Value) -> Option<String> {
    let light = || pod["metadata"]["labels"][LIGHT].as_str();
    let parts = ["name", "podGroup", "podGroupReplicaKey"].map(|part| text(&pod["spec"]["workloadRef"], part));
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let named = named_by(pod).or_else(light).map(str::to_owned);
    named.or_else(|| (!parts.is_empty()).then(|| parts.join(".")))
}

/// Whether a pod needs no PodGroup, as with Kubernetes' own scheduler: it is made by itself and asked for ours by our own name.
///
/// Users of Volcano's name may look for the group that Volcano makes. An owner may say how many start together, and a
/// topology is a group's.
pub fn stands_alone(pod: &Value) -> bool {
    let mut owners = at(pod, "metadata.ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let is_owned = owners.any(|owner| owner["controller"] == true);
    let has_topology = pod["metadata"]["annotations"][TOPOLOGY_MODE].is_string();
    text(pod, "spec.schedulerName") == OWN && !is_owned && !has_topology && gang_of(pod).is_none()
}

/// The queue that an object names.
pub fn queue_of(object: &Value) -> Option<&str> {
    let own = |kind: &str, key: &str| object["metadata"][kind][key].as_str();
    QUEUES.iter().find_map(|key| own("annotations", key).or_else(|| own("labels", key)))
}

fn reference(pod: &Value) -> Option<&str> {
    Some(text(pod, "spec.schedulingGroup.podGroupName")).filter(|name| !name.is_empty())
}

/// What a pod of ours waits for that is of no gang, because nobody has made what it names.
pub fn missing(pod: &Value) -> Option<String> {
    let workload = || Some(text(pod, "spec.workloadRef.name")).filter(|name| !name.is_empty());
    let (kind, name) = named_by(pod).map(|name| ("PodGroup", name)).or_else(|| Some(("Workload", workload()?)))?;
    Some(format!("{kind} {}/{name} does not exist; the pod waits until it is made", text(pod, "metadata.namespace")))
}

/// The pod with the mark of Volcano's pods, if it names a group of Kubernetes' own.
pub fn pod_in_volcanos_words(pod: &Value) -> Cow<'_, Value> {
    let Some(name) = reference(pod).filter(|name| named_by(pod) == Some(name)) else { return Cow::Borrowed(pod) };
    let mut marked = pod.clone();
    marked["metadata"]["annotations"][keys::GROUP] = json!(name);
    Cow::Owned(marked)
}

impl Origin {
    pub fn in_volcanos_words(self, group: &Value) -> Cow<'_, Value> {
        let count = |path: &str| at(group, path).and_then(Value::as_i64).unwrap_or(1).max(1);
        let mut spec = match self {
            Origin::Volcano => return Cow::Borrowed(group),
            Origin::Coscheduling => {
                json!({"minMember": count("spec.minMember"), "minResources": group["spec"]["minResources"]})
            }
            // A group that is no gang is as good as single pods.
            Origin::Kubernetes => json!({
                "minMember": count("spec.schedulingPolicy.gang.minCount"),
                "priorityClassName": group["spec"]["priorityClassName"],
            }),
        };
        let own = |kind: &str, key: &str| group["metadata"][kind][key].as_str();
        spec["queue"] = json!(queue_of(group).unwrap_or("default"));
        let kept = own("annotations", STATUS).and_then(|kept| serde_json::from_str::<Map<String, Value>>(kept).ok());
        // There is no door before their pods, so they are always in.
        let status = kept.map_or_else(|| json!({"phase": "Inqueue"}), Value::Object);
        Cow::Owned(json!({"kind": "PodGroup", "metadata": group["metadata"], "spec": spec, "status": status}))
    }

    /// What of a status in Volcano's words the group's own has a field for.
    pub fn own_status(self, status: &Value) -> Value {
        match self {
            Origin::Volcano => status.clone(),
            Origin::Coscheduling => {
                let phase = match text(status, "phase") {
                    "Completed" => "Finished",
                    "Running" => "Running",
                    "Unknown" => "Unknown",
                    _ => "Pending",
                };
                let [running, succeeded, failed] = ["running", "succeeded", "failed"].map(|key| &status[key]);
                json!({"phase": phase, "running": running, "succeeded": succeeded, "failed": failed})
            }
            Origin::Kubernetes => json!({"conditions": condition(status).into_iter().collect::<Vec<_>>()}),
        }
    }
}

/// `PodGroupScheduled`, the one condition of Kubernetes' own groups that tells of their waiting.
fn condition(status: &Value) -> Option<Value> {
    let all = status["conditions"].as_array().into_iter().flatten();
    let told = all.into_iter().find(|one| text(one, "status") == "True")?;
    let (is_true, reason) = match text(told, "type") {
        "Scheduled" => ("True", "Scheduled"),
        _ => ("False", "Unschedulable"),
    };
    Some(json!({"type": "PodGroupScheduled", "status": is_true, "reason": reason, "message": told["message"],
        "lastTransitionTime": told["lastTransitionTime"]}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Origin::{Coscheduling, Kubernetes, Volcano};

    #[test]
    fn groups_of_others_say_what_volcanos_would() {
        let metadata = json!({"namespace": "n", "name": "g", "labels": {"volcano.sh/queue-name": "q"}});
        let read = |origin: Origin, spec: Value| {
            origin.in_volcanos_words(&json!({"metadata": metadata, "spec": spec})).into_owned()
        };
        let group =
            read(Coscheduling, json!({"minMember": 3, "minResources": {"cpu": "6"}, "scheduleTimeoutSeconds": 9}));
        assert_eq!(group["spec"], json!({"minMember": 3, "minResources": {"cpu": "6"}, "queue": "q"}));
        assert_eq!((&group["status"], &group["metadata"]), (&json!({"phase": "Inqueue"}), &metadata));
        let gang = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"});
        assert_eq!(read(Kubernetes, gang)["spec"], json!({"minMember": 2, "priorityClassName": "high", "queue": "q"}));
        assert_eq!(read(Kubernetes, json!({"schedulingPolicy": {"basic": {}}}))["spec"]["minMember"], 1);
        assert_eq!(read(Volcano, json!({"minMember": 0}))["spec"], json!({"minMember": 0}));
    }

    #[test]
    fn what_was_told_is_read_again_and_their_own_fields_follow() {
        let waiting = json!({"type": "Unschedulable", "status": "True", "message": "m", "lastTransitionTime": "t"});
        let past = json!({"type": "Scheduled", "status": "False"});
        let status =
            json!({"phase": "Inqueue", "running": 0, "succeeded": 0, "failed": 0, "conditions": [past, waiting]});
        let group = json!({"metadata": {"annotations": {STATUS: status.to_string()}}, "spec": {}});
        assert_eq!(Coscheduling.in_volcanos_words(&group)["status"], status);
        assert_eq!(
            Coscheduling.own_status(&status),
            json!({"phase": "Pending", "running": 0, "succeeded": 0, "failed": 0})
        );
        let told = json!({"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": "m", "lastTransitionTime": "t"});
        assert_eq!(Kubernetes.own_status(&status), json!({"conditions": [told]}));
        assert_eq!(Kubernetes.own_status(&json!({"phase": "Inqueue"})), json!({"conditions": []}));
    }

    #[test]
    fn a_pod_names_its_group_in_one_of_four_ways() {
        let pod = |metadata: Value, spec: Value| json!({"metadata": metadata, "spec": spec});
        let native = json!({"schedulingGroup": {"podGroupName": "d"}});
        for (metadata, name) in [
            (json!({"annotations": {keys::GROUP: "a"}, "labels": {LABELS[0]: "b"}}), "a"),
            (json!({"labels": {LABELS[0]: "b", LABELS[1]: "c"}}), "b"),
            (json!({"labels": {LABELS[1]: "c"}}), "c"),
            (json!({}), "d"),
        ] {
            let pod = pod(metadata, native.clone());
            assert_eq!(named_by(&pod), Some(name));
            assert_eq!(named_by(&pod_in_volcanos_words(&pod)), Some(name));
        }
        let marked = pod(json!({}), native);
        assert_eq!(pod_in_volcanos_words(&marked)["metadata"]["annotations"][keys::GROUP], "d");
        assert_eq!(named_by(&pod(json!({}), json!({}))), None);
        let words = |spec: Value| missing(&pod(json!({"namespace": "n"}), spec));
        let of_workload = words(json!({"workloadRef": {"name": "w", "podGroup": "p"}}));
        assert_eq!(of_workload.as_deref(), Some("Workload n/w does not exist; the pod waits until it is made"));
        assert_eq!(words(json!({})), None);
        assert_eq!(gang_of(&json!({"metadata": {"labels": {LIGHT: "l"}}})).as_deref(), Some("l"));
        assert_eq!(gang_of(&json!({"spec": {"workloadRef": {"name": "w", "podGroup": "p"}}})).as_deref(), Some("w.p"));
        assert_eq!(gang_of(&json!({})), None);
    }
}
