//! PodGroups for pods that no Job of ours made (spec/volcano.md 6.1): our scheduler places only pods that have one.

use super::head::{strings, target_of};
use super::volcano::group::{add_pods, texts};
use crate::control::quota::Usage;
use crate::control::{Action, Plan, Propagation};
use crate::pod_groups::{TOPOLOGY_MODE, gang_of, stands_alone};
use serde_json::{Map, Value, json};
use volley_api::kube::{at, text};
use volley_api::volcano::{SCHEDULING, keys};

const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";
const TOPOLOGY_TIER: &str = "volcano.sh/network-topology-highest-tier";
/// Owners that may say how many of their pods start together.
const SIZED: [&str; 4] = ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"];
/// Marks that a pod's own word decides.
const OF_POD: [&str; 5] =
    [keys::PREEMPTABLE, keys::COOLDOWN, keys::REVOCABLE_ZONE, keys::MIN_AVAILABLE, keys::MAX_UNAVAILABLE];

/// A pod, the object that controls it, and the PodGroup that it is to have, if that is there.
#[derive(Debug)]
pub struct Observed<'a> {
    pub pod: &'a Value,
    pub owner: Option<&'a Value>,
    pub group: Option<&'a Value>,
}

/// Gives the pod a group, if our scheduler is to place it and it has none (PGC-1, PGC-6).
pub fn plan(seen: &Observed, schedulers: &[impl AsRef<str>]) -> Plan {
    let mut plan = Plan::default();
    let pod = seen.pod;
    let is_going = !text(pod, "metadata.deletionTimestamp").is_empty();
    // One that names a group of any kind is of that one, whether it is there yet or not.
    let has_group = strings(at(pod, "metadata.annotations")).contains_key(keys::GROUP) || gang_of(pod).is_some();
    let is_asked = schedulers.iter().any(|name| name.as_ref() == text(pod, "spec.schedulerName"));
    if is_going || has_group || !is_asked || stands_alone(pod) {
        return plan;
    }
    let name = group_name(pod);
    if seen.group.is_none() {
        plan.actions.push(Action::Create { object: build(seen, &name), event: None });
    }
    let patch = json!({ "metadata": { "annotations": { keys::GROUP: name } } });
    plan.actions.push(Action::Patch { target: target_of(pod), patch });
    plan
}

/// Keeps the group of an owner in step with it: gone at zero replicas, as large as the owner says (PGC-5).
pub fn plan_owner(owner: &Value, group: Option<&Value>) -> Plan {
    let mut plan = Plan::default();
    let Some(group) = group else { return plan };
    let is_scaled = matches!(text(owner, "kind"), "ReplicaSet" | "StatefulSet");
    if is_scaled && at(owner, "spec.replicas").and_then(Value::as_i64) == Some(0) {
        if text(group, "metadata.deletionTimestamp").is_empty() {
            plan.actions.push(Action::Delete { target: target_of(group), propagation: Propagation::Background });
        }
        return plan;
    }
    let members = min_member(Some(owner));
    if group["spec"]["minMember"] != members {
        let template = at(owner, "spec.template").cloned().unwrap_or_default();
        let spec = json!({ "minMember": members, "minResources": resources(&template, members) });
        plan.actions.push(Action::Patch { target: target_of(group), patch: json!({ "spec": spec }) });
    }
    plan
}

fn owners(pod: &Value) -> &[Value] {
    at(pod, "metadata.ownerReferences").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The group that a pod without one is to have: its owner's, or its own.
pub fn group_name(pod: &Value) -> String {
    let controller = owners(pod).iter().find(|owner| owner["controller"] == true);
    group_of(controller.map_or_else(|| text(pod, "metadata.uid"), |owner| text(owner, "uid")))
}

/// The group of the pods that the object with this uid controls.
pub fn group_of(uid: &str) -> String {
    format!("podgroup-{uid}")
}

fn min_member(owner: Option<&Value>) -> i32 {
    let owner = owner.filter(|owner| SIZED.contains(&text(owner, "kind")));
    let marks = owner.map(|owner| strings(at(owner, "metadata.annotations"))).unwrap_or_default();
    marks.get(MIN_MEMBER).and_then(|text| text.parse().ok()).filter(|members| *members > 0).unwrap_or(1)
}

fn resources(pod: &Value, members: i32) -> Value {
    let mut total = Usage::new();
    add_pods(&mut total, pod, members);
    texts(&total)
}

fn build(seen: &Observed, name: &str) -> Value {
    let pod = seen.pod;
    let marks = strings(at(pod, "metadata.annotations"));
    let members = min_member(seen.owner);
    let mut spec = json!({
        "minMember": members, "minResources": resources(pod, members),
        "queue": marks.get(QUEUE).map_or("default", String::as_str),
    });
    if !text(pod, "spec.priorityClassName").is_empty() {
        spec["priorityClassName"] = pod["spec"]["priorityClassName"].clone();
    }
    if let Some(topology) = topology(&marks) {
        spec["networkTopology"] = topology;
    }
    let itself = json!({
        "apiVersion": "v1", "kind": "Pod", "name": text(pod, "metadata.name"), "uid": text(pod, "metadata.uid"),
        "controller": true, "blockOwnerDeletion": true,
    });
    let owners = if owners(pod).is_empty() { json!([itself]) } else { json!(owners(pod)) };
    let inherited = seen.owner.map(|owner| strings(at(owner, "metadata.annotations"))).unwrap_or_default();
    let mut annotations: Map<String, Value> = inherited
        .into_iter()
        .filter(|(key, _)| key.starts_with("volcano.sh/"))
        .map(|(key, value)| (key, json!(value)))
        .collect();
    for key in OF_POD {
        if let Some(value) = marks.get(key) {
            annotations.insert(key.to_owned(), json!(value));
        }
    }
    let pod_labels = strings(at(pod, "metadata.labels"));
    let kept = [keys::PREEMPTABLE, keys::COOLDOWN];
    let labels: Map<String, Value> = pod_labels
        .into_iter()
        .filter(|(key, _)| kept.contains(&&**key))
        .map(|(key, value)| (key, json!(value)))
        .collect();
    let metadata = json!({
        "name": name, "namespace": text(pod, "metadata.namespace"), "ownerReferences": owners,
        "annotations": annotations, "labels": labels,
    });
    json!({ "apiVersion": SCHEDULING, "kind": "PodGroup", "metadata": metadata, "spec": spec, "status": { "phase": "Pending" } })
}

/// PGC-4; a tier that is no number is left out.
fn topology(marks: &std::collections::BTreeMap<String, String>) -> Option<Value> {
    let mode = marks.get(TOPOLOGY_MODE).filter(|mode| matches!(mode.as_str(), "hard" | "soft"));
    let tier = marks.get(TOPOLOGY_TIER).and_then(|tier| tier.parse::<i64>().ok());
    let mut topology = json!({ "mode": mode.map_or("hard", String::as_str) });
    if let Some(tier) = tier {
        topology["highestTierAllowed"] = json!(tier);
    }
    (mode.is_some() || tier.is_some()).then_some(topology)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::world::World;

    fn pod(metadata: Value) -> Value {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "p", "namespace": "d"},
            "spec": {"schedulerName": "volcano", "priorityClassName": "high", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        json_patch::merge(&mut pod["metadata"], &metadata);
        pod
    }

    fn set(annotations: Value, replicas: i32) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "uid": "r", "annotations": annotations},
            "spec": {"replicas": replicas, "template": {"spec": pod(json!({}))["spec"]}}})
    }

    fn owned(annotations: Value) -> Value {
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
        pod(json!({"ownerReferences": owner, "annotations": annotations}))
    }

    fn made(pod: &Value, owner: Option<&Value>) -> (Value, World) {
        let mut world = World::default();
        world.add(pod.clone());
        let planned = |world: &World| {
            let groups = world.of_kind("PodGroup");
            plan(&Observed { pod: world.raw("Pod", "p"), owner, group: groups.first() }, &["volcano"])
        };
        world.settle(planned);
        let group = world.of_kind("PodGroup").first().cloned().unwrap_or_default();
        (group, world)
    }

    // PGC-1, PGC-2
    #[test]
    fn a_lone_pod_gets_a_group_of_its_own() {
        let (group, world) = made(&pod(json!({"annotations": {QUEUE: "q"}})), None);
        assert_eq!(world.raw("Pod", "p")["metadata"]["annotations"][keys::GROUP], "podgroup-p");
        assert_eq!(group["metadata"]["name"], "podgroup-p");
        assert_eq!(
            (&group["metadata"]["ownerReferences"][0]["kind"], &group["status"]["phase"]),
            (&json!("Pod"), &json!("Pending"))
        );
        let spec = &group["spec"];
        assert_eq!(
            (&spec["minMember"], &spec["queue"], &spec["priorityClassName"]),
            (&json!(1), &json!("q"), &json!("high"))
        );
        assert_eq!((&spec["minResources"]["cpu"], &spec["minResources"]["pods"]), (&json!("1"), &json!("1")));
    }

    // PGC-2, PGC-3, PGC-4
    #[test]
    fn an_owners_pods_share_a_group_as_large_as_it_says() {
        let owner =
            set(json!({MIN_MEMBER: "3", "volcano.sh/preemptable": "true", "volcano.sh/x": "1", "other": "2"}), 3);
        let pod = owned(json!({"volcano.sh/preemptable": "false", TOPOLOGY_MODE: "soft", TOPOLOGY_TIER: "2"}));
        let (group, _) = made(&pod, Some(&owner));
        assert_eq!((&group["metadata"]["name"], &group["spec"]["minMember"]), (&json!("podgroup-r"), &json!(3)));
        assert_eq!(group["spec"]["minResources"]["cpu"], "3");
        assert_eq!(group["metadata"]["annotations"], json!({"volcano.sh/preemptable": "false", "volcano.sh/x": "1"}));
        assert_eq!(group["spec"]["networkTopology"], json!({"mode": "soft", "highestTierAllowed": 2}));
        assert_eq!(group["metadata"]["ownerReferences"][0]["uid"], "r");
    }

    // PGC-5
    #[test]
    fn a_group_follows_its_owner() {
        let (group, _) = made(&owned(json!({})), Some(&set(json!({}), 2)));
        let groups = [group];
        assert!(plan_owner(&set(json!({}), 2), groups.first()).is_empty());
        assert!(matches!(plan_owner(&set(json!({}), 0), groups.first()).actions[..], [Action::Delete { .. }]));
        let larger = plan_owner(&set(json!({MIN_MEMBER: "2"}), 2), groups.first());
        let Action::Patch { patch, .. } = &larger.actions[0] else { panic!("{larger:?}") };
        assert_eq!((&patch["spec"]["minMember"], &patch["spec"]["minResources"]["cpu"]), (&json!(2), &json!("2")));
    }

    // PGC-6
    #[test]
    fn other_pods_are_left_alone() {
        let mut other = pod(json!({}));
        other["spec"]["schedulerName"] = json!("default-scheduler");
        let theirs = pod(json!({"labels": {"scheduling.x-k8s.io/pod-group": "theirs"}}));
        let mut member = pod(json!({}));
        member["spec"]["workloadRef"] = json!({"name": "w", "podGroup": "g"});
        let mut alone = pod(json!({}));
        alone["spec"]["schedulerName"] = json!("volley");
        let is_left =
            |pod: &Value| plan(&Observed { pod, owner: None, group: None }, &["volcano", "volley"]).is_empty();
        for pod in [other, pod(json!({"annotations": {keys::GROUP: "mine"}})), theirs, member, alone] {
            assert!(is_left(&pod));
        }
        let mut of_set = owned(json!({}));
        of_set["spec"]["schedulerName"] = json!("volley");
        assert!(!is_left(&of_set), "an owner may say how many start together");
    }
}
