//! Gangs of which only a part was placed: a bind failed, or the process ended between two of them.
//!
//! The shell asks after every placement. A gang that can be completed was completed by the placement itself; what is left
//! here holds nodes and does nothing, so its pods are given back and it starts over whole.

use super::Member;
use super::Placement;
use super::ask::Tally;
use super::objects::{Gang, Key, Phase, Pod, State};
use super::snapshot::Snapshot;
use std::collections::BTreeSet;

/// The pods to give back, of gangs that wait without their minimum or, though they are not among those, are named in
/// `failing`: what is planned for them cannot be carried out.
pub fn torn(snapshot: &Snapshot, placement: &Placement, failing: &BTreeSet<Key>) -> Vec<(Key, Vec<Member>)> {
    let waiting = placement.waiting.iter().filter(|(_, waiting)| !waiting.has_minimum).map(|(key, _)| key);
    let keys: BTreeSet<&Key> = waiting.chain(failing).collect();
    let gangs = keys.into_iter().filter_map(|key| Some(&snapshot.gangs[snapshot.gangs.find(key)?]));
    gangs.filter_map(|gang| Some((gang.key.clone(), placed_part(snapshot, gang)?))).collect()
}

/// What is placed of the gang, if all that it needs was there when the last of that was placed.
///
/// A gang that has lost a pod is not torn: the new pod is younger than the placing of the others, who go on. Neither is
/// one that ran once, whatever was changed about it since.
fn placed_part(snapshot: &Snapshot, gang: &Gang) -> Option<Vec<Member>> {
    let group = gang.group.as_ref().filter(|group| matches!(group.phase, Phase::Pending | Phase::Inqueue))?;
    let pods = || gang.members.iter().map(|pod| &snapshot.pods[*pod]);
    // No group remembers that these ran, only they do.
    let runs = |pod: &Pod| matches!(pod.state, State::Running | State::Succeeded);
    if gang.is_single && pods().any(runs) {
        return None;
    }
    // Pods that ask for nothing are placed whatever becomes of the others (ACT-5).
    let is_part =
        |pod: &&Pod| matches!(pod.state, State::Bound | State::Running) && !snapshot.shapes[pod.shape].is_best_effort;
    let last = pods().filter(is_part).filter_map(|pod| pod.started).max()?;
    let (mut ready, mut whole) = (Tally::default(), Tally::default());
    for pod in pods() {
        if pod.state.is_ready() {
            ready.count(&pod.role, None);
        }
        if pod.state.is_ready() || (pod.state == State::Pending && pod.created <= last) {
            whole.count(&pod.role, None);
        }
    }
    let group = super::objects::Group { divisions: Vec::new(), ..group.clone() };
    let is_torn = ready.lack(&group).is_some() && whole.lack(&group).is_none();
    is_torn.then(|| pods().filter(is_part).map(|pod| Member { key: pod.key.clone(), uid: pod.uid.clone() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::Waiting;
    use crate::gang::policy::Policy;
    use crate::gang::snapshot::Kind;
    use crate::gang::why::WaitingOn;
    use serde_json::json;

    /// A gang of two with these pods, as `node@second made`, and what is given back of it.
    fn given_back(phase: &str, pods: &[(&str, u32, u32)], has_minimum: bool) -> Vec<String> {
        let mut snapshot = Snapshot::new(Policy::default(), &["volcano"], &[]);
        let group = json!({"metadata": {"namespace": "n", "name": "g", "uid": "g"}, "spec": {"minMember": 2}, "status": {"phase": phase}});
        snapshot.see(Kind::PodGroup, &group);
        let time = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
        for (number, (node, made, placed)) in pods.iter().enumerate() {
            let conditions = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": time(*placed)}]);
            let pod = json!({
                "metadata": {"namespace": "n", "name": format!("p{number}"), "uid": format!("u{number}"),
                    "creationTimestamp": time(*made), "annotations": {"scheduling.k8s.io/group-name": "g"}},
                "spec": {"schedulerName": "volcano", "nodeName": node,
                    "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                "status": {"conditions": if node.is_empty() { json!([]) } else { conditions }},
            });
            snapshot.see(Kind::Pod, &pod);
        }
        let key = Key { namespace: "n".into(), name: "g".into() };
        let waiting = Waiting { on: WaitingOn::NoHyperNodes, pods: 1, has_minimum };
        let placement = Placement { waiting: [(key, waiting)].into(), ..Placement::default() };
        let torn = torn(&snapshot, &placement, &BTreeSet::new());
        torn.into_iter().flat_map(|(_, pods)| pods).map(|pod| pod.key.name.to_string()).collect()
    }

    #[test]
    fn running_pods_that_say_themselves_how_many_they_are_are_never_given_back() {
        let mut snapshot = Snapshot::new(Policy::default(), &["volcano"], &[]);
        let labels = json!({"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"});
        let made = "2026-01-01T00:00:01Z";
        for (name, node, phase) in [("runs", "a", "Running"), ("waits", "", "Pending")] {
            let placed =
                json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]);
            let metadata =
                json!({"namespace": "n", "name": name, "uid": name, "creationTimestamp": made, "labels": labels});
            let requests = json!({"requests": {"cpu": "1"}});
            let spec = json!({"schedulerName": "volcano", "nodeName": node, "containers": [{"name": "c", "resources": requests}]});
            let conditions = if node.is_empty() { json!([]) } else { placed };
            let status = json!({"phase": phase, "conditions": conditions});
            snapshot.see(Kind::Pod, &json!({"metadata": metadata, "spec": spec, "status": status}));
        }
        let keys: BTreeSet<Key> = snapshot.gangs.iter().map(|(_, gang)| gang.key.clone()).collect();
        assert_eq!((keys.len(), torn(&snapshot, &Placement::default(), &keys)), (1, Vec::new()));
    }

    // GANG-6
    #[test]
    fn a_gang_that_was_placed_in_part_is_given_back() {
        assert_eq!(given_back("Inqueue", &[("a", 1, 5), ("", 1, 0)], false), ["p0"]);
        assert_eq!(given_back("Inqueue", &[("", 1, 0), ("", 1, 0)], false), [""; 0], "nothing was placed");
        assert_eq!(given_back("Inqueue", &[("a", 1, 5), ("b", 1, 5)], false), [""; 0], "it is whole");
        assert_eq!(given_back("Inqueue", &[("a", 1, 5), ("", 1, 0)], true), [""; 0], "it has what it needs");
        assert_eq!(given_back("Inqueue", &[("a", 1, 5), ("", 6, 0)], false), [""; 0], "a lost pod was replaced");
        assert_eq!(given_back("Running", &[("a", 1, 5), ("", 1, 0)], false), [""; 0], "it ran once");
    }
}
