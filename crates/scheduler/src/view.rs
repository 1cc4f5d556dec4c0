//! What the scheduler has seen of the cluster: the snapshot, and what must be remembered beside it.
//!
//! An object never goes back to an older state, in whatever order the watches and the answers to our own writes arrive. A
//! bind is assumed from the moment that it is decided, until the watch confirms it or it fails.

use crate::claims::Claims;
use crate::kinds::{CLAIMS, HYPER_NODES, KINDS, PODS, QUEUES, Row};
use crate::pace::Told;
use crate::realm::Realm;
use crate::watch::News;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;
use volley_api::kube::{at, text};
use volley_plan::gang::Member;
use volley_plan::gang::objects::{Key, Phase};
use volley_plan::gang::snapshot::{Kind, Snapshot};
use volley_plan::pod_groups::pod_in_volcanos_words;
use volley_plan::why::history::Kept;

#[derive(Debug)]
struct Known {
    uid: Arc<str>,
    version: Option<u64>,
    /// Of what placing depends on; a node's heartbeat does not change it.
    essence: u64,
    /// The list that last named it.
    list: u32,
}

/// A pod of ours that has no node yet, as it is written.
#[derive(Debug)]
pub struct Pending {
    pub object: Value,
    pub since: Instant,
    pub told: Option<Told>,
}

#[derive(Debug)]
pub struct View {
    pub snapshot: Snapshot,
    realm: Realm,
    /// Pods of ours that the watch has not shown on a node.
    pub pending: BTreeMap<Key, Pending>,
    known: Vec<HashMap<String, Known>>,
    lists: Vec<u32>,
    unlisted: BTreeSet<Row>,
    is_policy_known: bool,
    /// For those that wait for claims.
    pub claims: watch::Sender<Claims>,
    /// Per uid, the node that the pod is being bound to.
    assumed: HashMap<Arc<str>, Arc<str>>,
    /// Per queue, what its status says that it holds.
    pub told_allocated: BTreeMap<String, Value>,
    /// Per HyperNode, how many nodes its status says that it has.
    pub told_counts: BTreeMap<String, Value>,
    /// Per group, which kind it is of.
    pub groups: BTreeMap<Key, Row>,
    /// Per group, for what it has waited, if it ever has.
    pub histories: BTreeMap<Key, Kept>,
}

impl View {
    pub fn new(mut snapshot: Snapshot, realm: Realm) -> View {
        snapshot.default_queue.clone_from(&realm.default_queue);
        let mut view = View {
            snapshot,
            realm,
            pending: BTreeMap::new(),
            known: KINDS.iter().map(|_| HashMap::new()).collect(),
            lists: vec![0; KINDS.len()],
            unlisted: (0..KINDS.len()).collect(),
            is_policy_known: false,
            claims: watch::Sender::default(),
            assumed: HashMap::new(),
            told_allocated: BTreeMap::new(),
            told_counts: BTreeMap::new(),
            groups: BTreeMap::new(),
            histories: BTreeMap::new(),
        };
        view.keep_default_queue();
        view
    }

    /// Whether everything that there is has been listed once, and how to place is known; nothing is decided before.
    pub fn is_complete(&self) -> bool {
        self.unlisted.is_empty() && self.is_policy_known
    }

    /// Takes the news in; whether the placement may change by it.
    pub fn take(&mut self, news: News) -> bool {
        match news {
            News::Begin(row) => {
                self.lists[row] += 1;
                false
            }
            News::Object(row, object) => self.see(row, &object),
            News::Gone(row, object) => {
                self.forget(row, &place_of(&object), text(&object, "metadata.uid"));
                true
            }
            News::End(row) => {
                let stale = self.known[row].iter().filter(|(_, known)| known.list != self.lists[row]);
                let stale: Vec<_> = stale.map(|(place, known)| (place.clone(), known.uid.clone())).collect();
                stale.iter().for_each(|(place, uid)| self.forget(row, place, uid));
                self.unlisted.remove(&row) || !stale.is_empty()
            }
            News::Policy(policy) => {
                let has_changed = self.snapshot.policy != *policy;
                self.snapshot.policy = *policy;
                !std::mem::replace(&mut self.is_policy_known, true) || has_changed
            }
        }
    }

    /// Takes in the answer to a write of ours, of an object that is still there; whether it is a group that waits again to
    /// be let in, of which the watch brings nothing new.
    pub fn learn(&mut self, row: Row, object: &Value) -> bool {
        let known = self.known[row].get(&place_of(object));
        if known.is_none_or(|known| *known.uid != *text(object, "metadata.uid")) {
            return false;
        }
        let was_in = self.is_in(object);
        self.see(row, object);
        KINDS[row].seen_as == Kind::PodGroup && was_in && !self.is_in(object)
    }

    fn is_in(&self, group: &Value) -> bool {
        let gang = self.snapshot.gangs.find(&key_of(group)).map(|id| &self.snapshot.gangs[id]);
        gang.and_then(|gang| gang.group.as_ref()).is_some_and(|group| group.phase != Phase::Pending)
    }

    /// From now on the pod counts as bound.
    pub fn assume(&mut self, pod: &Member, node: &Arc<str>) {
        self.assumed.insert(pod.uid.clone(), node.clone());
        self.show_pending(&pod.key);
    }

    /// It was not bound after all, or nobody knows.
    pub fn give_up(&mut self, pod: &Member) {
        self.assumed.remove(&pod.uid);
        self.show_pending(&pod.key);
    }

    fn see(&mut self, row: Row, object: &Value) -> bool {
        let (place, uid) = (place_of(object), text(object, "metadata.uid"));
        let version = text(object, "metadata.resourceVersion").parse().ok();
        let essence = essence(KINDS[row].seen_as, object);
        let list = self.lists[row];
        let mut is_same = false;
        if let Some(known) = self.known[row].get_mut(&place).filter(|known| *known.uid == *uid) {
            known.list = list;
            // Versions that cannot be compared are those of a server that is not Kubernetes' own; the last word counts.
            if version.is_some() && known.version.is_some() && version <= known.version {
                return false;
            }
            is_same = known.essence == essence;
            (known.version, known.essence) = (version, essence);
        } else {
            self.known[row].insert(place, Known { uid: uid.into(), version, essence, list });
        }
        if row == PODS {
            return self.see_pod(object, is_same);
        }
        if row == QUEUES {
            let allocated = at(object, "status.allocated").cloned().unwrap_or_default();
            self.told_allocated.insert(text(object, "metadata.name").to_owned(), allocated);
        }
        if row == HYPER_NODES {
            let count = at(object, "status.nodeCount").cloned().unwrap_or_default();
            self.told_counts.insert(text(object, "metadata.name").to_owned(), count);
        }
        if KINDS[row].seen_as == Kind::PodGroup {
            return !is_same && self.see_group(row, object);
        }
        if is_same {
            return false;
        }
        match KINDS[row].seen_as {
            Kind::Node if !self.realm.has_node(object) => {
                self.snapshot.forget(Kind::Node, "", text(object, "metadata.name"));
            }
            kind => self.snapshot.see(kind, object),
        }
        if row == CLAIMS {
            self.show_claim(&key_of(object));
        }
        true
    }

    /// Lets those hear of the claim who wait for it.
    fn show_claim(&self, key: &Key) {
        let claim = self.snapshot.claims.get(&(key.namespace.to_string(), key.name.to_string()));
        self.claims.send_modify(|claims| {
            match claim {
                Some(claim) => claims.insert(key.clone(), !claim.volume.is_empty()),
                None => claims.remove(key),
            };
        });
    }

    fn see_group(&mut self, row: Row, object: &Value) -> bool {
        let key = key_of(object);
        // Of two groups with one name the first kind in the table counts.
        if self.groups.get(&key).is_some_and(|known| *known < row) {
            return false;
        }
        self.groups.insert(key.clone(), row);
        match Kept::of(object) {
            Some(kept) => drop(self.histories.insert(key, kept)),
            None => drop(self.histories.remove(&key)),
        }
        self.snapshot.see(Kind::PodGroup, &KINDS[row].origin().in_volcanos_words(object));
        true
    }

    fn see_pod(&mut self, object: &Value, is_same: bool) -> bool {
        let (key, node) = (key_of(object), text(object, "spec.nodeName"));
        let scheduler = text(object, "spec.schedulerName");
        let is_ours =
            self.snapshot.schedulers.iter().chain(&self.snapshot.plain_schedulers).any(|name| name == scheduler);
        if is_ours && node.is_empty() {
            let known =
                self.pending.remove(&key).filter(|known| known.object["metadata"]["uid"] == object["metadata"]["uid"]);
            let (since, told) = known.map_or_else(|| (Instant::now(), None), |known| (known.since, known.told));
            self.pending.insert(key.clone(), Pending { object: object.clone(), since, told });
            if !is_same {
                self.show_pending(&key);
            }
            return !is_same;
        }
        self.pending.remove(&key);
        let assumed = self.assumed.remove(text(object, "metadata.uid"));
        if !is_same {
            self.snapshot.see(Kind::Pod, &pod_in_volcanos_words(object));
        }
        // What has come as it was assumed is no news.
        let is_expected =
            assumed.is_some_and(|assumed| *assumed == *node) && text(object, "metadata.deletionTimestamp").is_empty();
        !is_same && !is_expected
    }

    /// Has the snapshot see a pending pod, on the node that it is being bound to.
    fn show_pending(&mut self, key: &Key) {
        let Some(pending) = self.pending.get(key) else { return };
        let mut pod = pod_in_volcanos_words(&pending.object);
        if let Some(node) = self.assumed.get(text(&pending.object, "metadata.uid")) {
            pod.to_mut()["spec"]["nodeName"] = (**node).into();
        }
        self.snapshot.see(Kind::Pod, &pod);
    }

    fn forget(&mut self, row: Row, place: &str, uid: &str) {
        if row == PODS {
            self.assumed.remove(uid);
        }
        if self.known[row].get(place).is_none_or(|known| *known.uid != *uid) {
            return;
        }
        self.known[row].remove(place);
        let (namespace, name) = place.split_once('/').unwrap_or(("", place));
        let key = Key { namespace: namespace.into(), name: name.into() };
        if KINDS[row].seen_as == Kind::PodGroup {
            if self.groups.get(&key) != Some(&row) {
                return;
            }
            self.groups.remove(&key);
            self.histories.remove(&key);
        }
        self.snapshot.forget(KINDS[row].seen_as, namespace, name);
        if row == PODS {
            self.pending.remove(&key);
        }
        if row == CLAIMS {
            self.show_claim(&key);
        }
        if row == HYPER_NODES {
            self.told_counts.remove(name);
        }
        if row == QUEUES {
            self.told_allocated.remove(name);
            self.keep_default_queue();
        }
    }

    /// The queue of pods that name none is as good as there before its object is made (QC-1).
    fn keep_default_queue(&mut self) {
        let name = self.realm.default_queue.as_str();
        if !self.snapshot.queues.contains_key(name) {
            self.snapshot.see(Kind::Queue, &json!({"metadata": {"name": name}}));
        }
    }
}

fn place(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn place_of(object: &Value) -> String {
    place(text(object, "metadata.namespace"), text(object, "metadata.name"))
}

pub fn key_of(object: &Value) -> Key {
    Key { namespace: text(object, "metadata.namespace").into(), name: text(object, "metadata.name").into() }
}

/// A number that differs when something differs that placing or reporting depends on.
fn essence(kind: Kind, object: &Value) -> u64 {
    const METADATA: [&str; 5] =
        ["metadata.labels", "metadata.annotations", "metadata.deletionTimestamp", "metadata.creationTimestamp", "spec"];
    let of_status: &[&str] = match kind {
        Kind::Pod => &["status.phase", "status.nominatedNodeName", "status.startTime"],
        Kind::Node => &["status.allocatable"],
        Kind::Queue => &["status.state"],
        Kind::HyperNode | Kind::CsiDriver => &[],
        Kind::StorageCapacity => &["storageClassName", "nodeTopology", "capacity", "maximumVolumeSize"],
        Kind::StorageClass | Kind::PriorityClass => {
            &["value", "globalDefault", "volumeBindingMode", "allowedTopologies", "provisioner"]
        }
        Kind::PodGroup
        | Kind::DisruptionBudget
        | Kind::Claim
        | Kind::Volume
        | Kind::Namespace
        | Kind::ResourceQuota
        | Kind::Numatopology
        | Kind::CsiNode
        | Kind::Workload => &["status"],
    };
    let told: &[&str] = match kind {
        Kind::Pod => &["PodScheduled", "PodResizePending"],
        Kind::Node => &["Ready"],
        _ => &[],
    };
    let mut digest = Digest(DefaultHasher::new());
    for path in METADATA.iter().chain(of_status) {
        if let Some(value) = at(object, path) {
            // Hashing does not fail.
            let _ = serde_json::to_writer(&mut digest, value);
        }
        digest.0.write_u8(0);
    }
    // What a container has while it is resized.
    let statuses = at(object, "status.containerStatuses").and_then(Value::as_array).filter(|_| kind == Kind::Pod);
    for status in statuses.into_iter().flatten() {
        for part in ["resources", "allocatedResources"].map(|part| status.get(part)).into_iter().flatten() {
            let _ = serde_json::to_writer(&mut digest, part);
        }
    }
    let conditions = at(object, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    for found in conditions.filter(|found| told.contains(&text(found, "type"))) {
        for part in ["status", "reason", "message", "lastTransitionTime"] {
            digest.0.write(text(found, part).as_bytes());
        }
    }
    digest.0.finish()
}

struct Digest(DefaultHasher);

impl Write for Digest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::GROUPS;
    use volley_plan::gang::policy::Policy;

    fn view() -> View {
        within(Realm::default())
    }

    fn within(realm: Realm) -> View {
        View::new(Snapshot::new(Policy::default(), &["volcano"], &["default-scheduler"]), realm)
    }

    fn pod(version: u64, node: &str) -> Value {
        json!({"metadata": {"namespace": "n", "name": "p", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"schedulerName": "default-scheduler", "nodeName": node, "containers": [{"name": "c"}]}})
    }

    fn node_of(view: &View) -> Option<String> {
        let pod = &view.snapshot.pods[view.snapshot.pods.find(&key_of(&pod(0, "")))?];
        pod.node.map(|node| view.snapshot.nodes[node].name.to_string())
    }

    #[test]
    fn a_bind_is_assumed_until_it_is_confirmed_or_fails() {
        let mut view = view();
        assert!(view.take(News::Object(PODS, pod(1, ""))));
        let member = Member { key: key_of(&pod(1, "")), uid: "u".into() };
        view.assume(&member, &"a".into());
        assert_eq!(node_of(&view).as_deref(), Some("a"));
        let mut told = pod(2, "");
        told["status"] = json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "m"}]});
        view.take(News::Object(PODS, told));
        assert_eq!(node_of(&view).as_deref(), Some("a"), "an older word does not undo it");
        view.give_up(&member);
        assert_eq!(node_of(&view), None);
        view.assume(&member, &"b".into());
        assert!(!view.take(News::Object(PODS, pod(3, "b"))), "as it was assumed");
        assert!(view.pending.is_empty());
        assert_eq!(node_of(&view).as_deref(), Some("b"));
    }

    #[test]
    fn nothing_goes_back_and_what_a_list_does_not_name_is_gone() {
        let mut view = view();
        view.take(News::Begin(PODS));
        view.take(News::Object(PODS, pod(5, "a")));
        assert!(!view.take(News::Object(PODS, pod(4, ""))));
        assert!(view.take(News::End(PODS)), "it was the first list");
        assert_eq!(node_of(&view).as_deref(), Some("a"));
        view.take(News::Begin(PODS));
        assert!(view.take(News::End(PODS)));
        assert_eq!(view.snapshot.pods.len(), 0);
        assert!(!view.learn(PODS, &pod(9, "a")));
        assert_eq!(view.snapshot.pods.len(), 0, "an answer does not bring back what is gone");
    }

    #[test]
    fn nothing_is_decided_before_the_policy_is_known() {
        let mut view = view();
        (0..KINDS.len()).for_each(|row| assert!(view.take(News::End(row))));
        assert!(!view.is_complete());
        assert!(view.take(News::Policy(Box::default())), "though it is as it was");
        assert!(view.is_complete());
        assert!(!view.take(News::Policy(Box::default())));
    }

    #[test]
    fn who_waits_for_a_claim_hears_when_it_has_its_volume_or_is_gone() {
        let mut view = view();
        let claim = |version: u64, phase: &str| {
            json!({"metadata": {"namespace": "n", "name": "c", "uid": "c", "resourceVersion": version.to_string()},
                "spec": {"volumeName": "v"}, "status": {"phase": phase}})
        };
        let heard = |view: &View| view.claims.borrow().values().next().copied();
        view.take(News::Object(CLAIMS, claim(1, "Pending")));
        assert_eq!(heard(&view), Some(false));
        view.take(News::Object(CLAIMS, claim(2, "Bound")));
        assert_eq!(heard(&view), Some(true));
        view.take(News::Gone(CLAIMS, claim(2, "Bound")));
        assert_eq!(heard(&view), None);
    }

    #[test]
    fn what_placing_does_not_depend_on_is_no_news() {
        let mut view = view();
        let node = |version: u64, beat: &str, ready: &str| {
            json!({"metadata": {"name": "a", "uid": "a", "resourceVersion": version.to_string()}, "status": {
                "conditions": [{"type": "Ready", "status": ready, "lastHeartbeatTime": beat}]}})
        };
        let row = KINDS.iter().position(|kind| kind.seen_as == Kind::Node).unwrap();
        assert!(view.take(News::Object(row, node(1, "1", "True"))));
        assert!(!view.take(News::Object(row, node(2, "2", "True"))));
        assert!(view.take(News::Object(row, node(3, "2", "False"))));
        let group = json!({"metadata": {"namespace": "n", "name": "g", "uid": "g", "resourceVersion": "7"}});
        assert!(view.take(News::Object(GROUPS, group.clone())));
        assert!(!view.take(News::Object(GROUPS, group)));
    }

    // CFG-5
    #[test]
    fn nodes_beyond_the_realm_are_not_there_and_its_queue_is_that_of_groups_without() {
        let nodes = vec![("pool".to_owned(), "train".to_owned()), ("pool".to_owned(), "spare".to_owned())];
        let mut view = within(Realm { nodes, default_queue: "research".to_owned(), ..Realm::default() });
        let row = KINDS.iter().position(|kind| kind.seen_as == Kind::Node).unwrap();
        let node = |name: &str, version: u64, pool: &str| json!({"metadata": {"name": name, "uid": name, "resourceVersion": version.to_string(), "labels": {"pool": pool}}});
        let here = |view: &View| -> Vec<String> {
            let nodes = view.snapshot.nodes.iter().filter(|(_, node)| node.is_here);
            nodes.map(|(_, node)| node.name.to_string()).collect()
        };
        for (name, pool) in [("a", "train"), ("b", "web"), ("c", "spare")] {
            view.take(News::Object(row, node(name, 1, pool)));
        }
        assert_eq!(here(&view), ["a", "c"]);
        assert!(view.take(News::Object(row, node("a", 2, "web"))));
        assert!(view.take(News::Object(row, node("b", 2, "train"))));
        assert_eq!(here(&view), ["b", "c"]);
        assert!(view.snapshot.queues.contains_key("research"));
        view.take(News::Object(GROUPS, json!({"metadata": {"namespace": "n", "name": "g", "uid": "g"}})));
        let gang = view.snapshot.gangs.find(&Key { namespace: "n".into(), name: "g".into() }).unwrap();
        assert_eq!(&*view.snapshot.gangs[gang].group.as_ref().unwrap().queue, "research");
    }

    #[test]
    fn the_default_queue_is_always_there() {
        let mut view = view();
        assert!(view.snapshot.queues.contains_key("default"));
        let queue = json!({"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 7}});
        view.take(News::Object(QUEUES, queue.clone()));
        assert_eq!(view.snapshot.queues["default"].weight, 7);
        view.take(News::Gone(QUEUES, queue));
        assert_eq!(view.snapshot.queues["default"].weight, 1);
    }

    #[test]
    fn of_two_groups_with_one_name_volcanos_counts() {
        let mut view = view();
        let row = |api_version: &str| {
            KINDS.iter().position(|kind| kind.name == "PodGroup" && kind.api_version() == api_version).unwrap()
        };
        let theirs = row("scheduling.x-k8s.io/v1alpha1");
        let group = |uid: &str, least: u32| json!({"metadata": {"namespace": "n", "name": "g", "uid": uid}, "spec": {"minMember": least}});
        let least = |view: &View| {
            let gangs = &view.snapshot.gangs;
            gangs[gangs.find(&key_of(&group("", 0))).unwrap()].group.as_ref().unwrap().members_min
        };
        assert!(view.take(News::Object(theirs, group("t", 3))));
        assert_eq!((least(&view), view.groups.values().next()), (3, Some(&theirs)));
        assert!(view.take(News::Object(GROUPS, group("v", 2))));
        assert!(!view.take(News::Object(theirs, group("u", 4))));
        view.take(News::Gone(theirs, group("u", 4)));
        assert_eq!((least(&view), view.groups.values().next()), (2, Some(&GROUPS)));
        view.take(News::Gone(GROUPS, group("v", 2)));
        assert!(view.groups.is_empty() && view.snapshot.gangs.len() == 0);
    }
}
