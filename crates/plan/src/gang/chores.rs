//! What else a scheduler owes: what its queues hold, and when to look again though nothing changes.

use super::amounts::{Amounts, add, get};
use super::ask::waits_since;
use super::objects::{Group, Phase};
use super::queues::ROOT;
use super::snapshot::Snapshot;
use super::why::WaitingOn;
use super::{Placement, Waiting};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Trees are refused at the door when they are deeper; a ring of parents must not be followed for ever.
const LEVELS_MAX: usize = 16;

/// Per queue what its pods, and those of the queues below it, hold, as a ResourceList.
pub fn allocated(snapshot: &Snapshot) -> BTreeMap<Arc<str>, Value> {
    let mut sums: BTreeMap<&Arc<str>, Amounts> = snapshot.queues.keys().map(|name| (name, Amounts::new())).collect();
    for (_, gang) in snapshot.gangs.iter() {
        let mut queue = gang.group.as_ref().map(|group| group.queue.clone());
        for _ in 0..LEVELS_MAX {
            let Some(name) = queue else { break };
            let Some(sum) = sums.get_mut(&name) else { break };
            add(sum, &gang.allocated);
            let parent = snapshot.queues.get(&name).and_then(|queue| queue.parent.clone());
            queue = parent.or_else(|| (&*name != ROOT).then(|| ROOT.into()));
        }
    }
    let names = &snapshot.names;
    let list = |amounts: Amounts| -> Value {
        let held = (0..names.width()).filter(|number| get(&amounts, *number) > 0);
        let entries =
            held.map(|number| (names.name(number).to_owned(), names.show(number, get(&amounts, number)).into()));
        Value::Object(entries.collect::<Map<_, _>>())
    };
    sums.into_iter().map(|(name, amounts)| (name.clone(), list(amounts))).collect()
}

/// The next second at which time alone may change the placement.
pub fn next_look(snapshot: &Snapshot, placement: &Placement, now: i64) -> Option<i64> {
    if placement.waiting.is_empty() {
        return None;
    }
    let policy = &snapshot.policy;
    let mut seconds: Vec<i64> = Vec::new();
    for (key, waiting) in &placement.waiting {
        seconds.extend(named(waiting));
        let gang = snapshot.gangs.find(key).map(|gang| &snapshot.gangs[gang]);
        let group = gang.and_then(|gang| gang.group.as_ref());
        seconds.extend(
            group.into_iter().flat_map(|group| [patience_ends(snapshot, group), waits_long(snapshot, group)]).flatten(),
        );
        seconds.extend(gang.zip(group).map(|(gang, group)| waits_since(snapshot, gang, group) + policy.ripe_after));
    }
    let is_spared = |spared: i64| spared > 0;
    for (_, pod) in snapshot.pods.iter().filter(|(_, pod)| pod.node.is_some()) {
        let spared = pod.cooldown.max(policy.victims.runtime_min);
        seconds.extend(pod.started.filter(|_| is_spared(spared)).map(|started| started + spared));
    }
    seconds.into_iter().filter(|second| *second > now).min()
}

/// The time that the reason itself names.
fn named(waiting: &Waiting) -> Option<i64> {
    let when = match &waiting.on {
        WaitingOn::Room { when, .. } | WaitingOn::Leaving { when, .. } | WaitingOn::Behind { when, .. } => *when,
        _ => None,
    };
    when.map(|when| when.as_second())
}

fn patience_ends(snapshot: &Snapshot, group: &Group) -> Option<i64> {
    let patience = group.patience.or(snapshot.policy.patience).filter(|_| group.phase == Phase::Pending)?;
    Some(group.created + patience)
}

fn waits_long(snapshot: &Snapshot, group: &Group) -> Option<i64> {
    let after = snapshot.policy.reserve_after;
    (after > 0).then(|| group.created + after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::place;
    use crate::gang::policy::Policy;
    use crate::gang::snapshot::Kind;
    use jiff::Timestamp;
    use serde_json::json;

    fn world(pod_node: &str) -> Snapshot {
        let mut snapshot = Snapshot::new(Policy::default(), &["volcano"], &[]);
        for (name, parent) in [("root", ""), ("team", "root"), ("child", "team")] {
            snapshot.see(Kind::Queue, &json!({"metadata": {"name": name}, "spec": {"parent": parent}}));
        }
        let mark = json!({"volcano.sh/sla-waiting-time": "30s"});
        let group = json!({"metadata": {"namespace": "n", "name": "g", "annotations": mark, "creationTimestamp": "1970-01-01T00:00:10Z"},
            "spec": {"minMember": 1, "queue": "child", "minResources": {"cpu": "4"}}});
        snapshot.see(Kind::PodGroup, &group);
        let pod = json!({
            "metadata": {"namespace": "n", "name": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"schedulerName": "volcano", "nodeName": pod_node, "containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
        });
        snapshot.see(Kind::Pod, &pod);
        snapshot
    }

    //
    #[test]
    fn a_queue_holds_what_its_pods_and_those_below_it_hold() {
        let held = allocated(&world("a"));
        for queue in ["root", "team", "child"] {
            assert_eq!(held[queue], json!({"cpu": "4", "pods": "1"}), "{queue}");
        }
        assert_eq!(allocated(&world(""))["team"], json!({}));
    }

    // API-3
    #[test]
    fn a_hyper_node_counts_its_nodes_and_those_of_all_below_it() {
        let mut snapshot = world("");
        let counted = |snapshot: &Snapshot| place(&mut snapshot.clone(), Timestamp::UNIX_EPOCH).node_counts;
        assert!(counted(&snapshot).is_empty());
        for name in ["a-1", "a-2", "b-1"] {
            let ready = json!([{"type": "Ready", "status": "True"}]);
            snapshot.see(Kind::Node, &json!({"metadata": {"name": name}, "status": {"conditions": ready}}));
        }
        let member = |kind: &str, how: &str, value: Value| json!({"type": kind, "selector": {how: value}});
        let exact = |name: &str| json!({"name": name});
        for (name, tier, members) in [
            ("leaf", 1, json!([member("Node", "regexMatch", json!({"pattern": "^a-"}))])),
            (
                "top",
                2,
                json!([member("HyperNode", "exactMatch", exact("leaf")), member("Node", "exactMatch", exact("b-1"))]),
            ),
            ("bare", 1, json!([member("Node", "exactMatch", exact("gone"))])),
        ] {
            let spec = json!({"tier": tier, "members": members});
            snapshot.see(Kind::HyperNode, &json!({"metadata": {"name": name}, "spec": spec}));
        }
        let counts = counted(&snapshot);
        assert_eq!(["leaf", "top", "bare"].map(|name| counts[name]), [2, 3, 0]);
    }

    #[test]
    fn there_is_another_look_when_a_gangs_patience_ends() {
        let snapshot = world("");
        let look = |second: i64| {
            let now = Timestamp::from_second(second).unwrap();
            next_look(&snapshot, &place(&mut snapshot.clone(), now), second)
        };
        assert_eq!(look(20), Some(40));
        assert_eq!(look(40), Some(10 + 86_400), "then when it has waited too long");
        let idle = Snapshot::new(Policy::default(), &["volcano"], &[]);
        assert_eq!(next_look(&idle, &Placement::default(), 20), None);
    }
}
