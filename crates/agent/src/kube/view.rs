//! What a cluster has of our items, as the watches tell it: workloads, their pods, secrets, groups and events.
//!
//! Everything is found by the label `volley.dev/item`; a change gives the keys of the items that must be looked at.

use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::text;
use volley_plan::agent::trouble;
use volley_plan::launch::label;

/// Objects that events are kept of; beyond that, those of objects that are not ours go.
const EVENTS_MAX: usize = 4096;
/// Events kept of one object: the last ones say what is wrong.
const EVENTS_EACH: usize = 8;
const GROUP: &str = "scheduling.k8s.io/group-name";

/// What a watched kind is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    Workload,
    Pod,
    /// A Secret, without its contents.
    Helper,
    Group,
    Event,
}

/// A row, `apiVersion/kind`, namespace and name.
pub type Place = (Row, String, String, String);

/// What there is of one item.
#[derive(Debug, Clone, Default)]
pub struct Around {
    pub workloads: Vec<Value>,
    pub pods: Vec<Value>,
    pub helpers: Vec<Value>,
    pub events: Vec<Value>,
    pub group: Option<Value>,
    /// Attempts of which the cluster took a pod; the pod itself may be gone.
    pub disrupted: BTreeSet<u32>,
}

/// An object as text, which takes a tenth of the memory that its parts would, and what it is found by.
#[derive(Debug)]
struct Kept {
    text: Box<str>,
    uid: Value,
    version: Option<u64>,
    key: Option<String>,
    /// The group that a pod says it is of.
    group: Option<String>,
}

impl Kept {
    fn of(object: &Value) -> Kept {
        Kept {
            text: object.to_string().into(),
            uid: object["metadata"]["uid"].clone(),
            version: version(object),
            key: key_of(object).map(str::to_owned),
            group: object["metadata"]["annotations"][GROUP].as_str().map(str::to_owned),
        }
    }

    fn object(&self) -> Value {
        serde_json::from_str(&self.text).expect("a value's own text is JSON")
    }
}

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Place, Kept>,
    /// The places of each item.
    items: BTreeMap<String, BTreeSet<Place>>,
    disrupted: BTreeMap<String, BTreeSet<u32>>,
    /// By namespace and name of what they are about.
    events: BTreeMap<(String, String), Vec<Value>>,
}

#[derive(Debug, Default)]
pub struct View {
    state: Mutex<State>,
}

pub fn place(row: Row, object: &Value) -> Place {
    let kind = format!("{}/{}", text(object, "apiVersion"), text(object, "kind"));
    (row, kind, text(object, "metadata.namespace").to_owned(), text(object, "metadata.name").to_owned())
}

pub fn key_of(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][label::ITEM].as_str()
}

pub fn attempt_of(object: &Value) -> u32 {
    object["metadata"]["labels"][label::ATTEMPT].as_str().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A pod that is a workload itself carries the item's id.
fn is_workload_itself(pod: &Value) -> bool {
    pod["metadata"]["annotations"][label::ITEM].is_string()
}

/// Namespace and name of what an event is about.
fn about(event: &Value) -> (String, String) {
    (text(event, "involvedObject.namespace").to_owned(), text(event, "involvedObject.name").to_owned())
}

fn version(object: &Value) -> Option<u64> {
    text(object, "metadata.resourceVersion").parse().ok()
}

impl View {
    /// Takes in an object as it is now; gives the items that it concerns.
    pub fn learn(&self, row: Row, object: Value) -> Vec<String> {
        let mut state = self.state.lock();
        if row == Row::Event {
            return state.note_event(object);
        }
        let place = place(row, &object);
        // An answer to a call may be newer than what the watch still has to tell.
        let kept = Kept::of(&object);
        let is_old = |known: &Kept| known.version.zip(kept.version).is_some_and(|(known, new)| new < known);
        if state.objects.get(&place).is_some_and(|known| known.uid == kept.uid && is_old(known)) {
            return Vec::new();
        }
        if row == Row::Group {
            let keys = state.in_group(&place.2, &place.3);
            state.objects.insert(place, kept);
            return keys;
        }
        let Some(key) = kept.key.clone() else { return Vec::new() };
        if row == Row::Pod {
            state.note_disruption(&key, &object);
        }
        state.items.entry(key.clone()).or_default().insert(place.clone());
        state.objects.insert(place, kept);
        vec![key]
    }

    /// As `learn`, for an object that is gone.
    pub fn forget(&self, place: &Place, last: Option<&Value>) -> Vec<String> {
        let mut state = self.state.lock();
        if let (Row::Event, Some(event)) = (place.0, last) {
            return state.forget_event(event);
        }
        let known = state.objects.remove(place);
        let Some(object) = last.cloned().or_else(|| Some(known?.object())) else { return Vec::new() };
        let Some(key) = key_of(&object).map(str::to_owned) else { return Vec::new() };
        if place.0 == Row::Pod {
            state.note_disruption(&key, &object);
        }
        state.events.remove(&(place.2.clone(), place.3.clone()));
        if let Some(places) = state.items.get_mut(&key) {
            places.remove(place);
            if places.is_empty() {
                state.items.remove(&key);
            }
        }
        vec![key]
    }

    /// All events are about to be listed anew; those that are not in the list are gone.
    pub fn forget_events(&self) {
        self.state.lock().events.clear();
    }

    /// Places of a kind, to find what a new list no longer has.
    pub fn places(&self, row: Row, kind: &str) -> BTreeSet<Place> {
        let state = self.state.lock();
        state.objects.keys().filter(|place| place.0 == row && place.1 == kind).cloned().collect()
    }

    pub fn around(&self, key: &str) -> Around {
        let state = self.state.lock();
        let mut around =
            Around { disrupted: state.disrupted.get(key).cloned().unwrap_or_default(), ..Around::default() };
        for place in state.items.get(key).into_iter().flatten() {
            let Some(kept) = state.objects.get(place) else { continue };
            let object = kept.object();
            around.events.extend(state.events.get(&(place.2.clone(), place.3.clone())).into_iter().flatten().cloned());
            match place.0 {
                Row::Workload => around.workloads.push(object),
                Row::Helper => around.helpers.push(object),
                Row::Pod => {
                    if is_workload_itself(&object) {
                        around.workloads.push(object.clone());
                    }
                    around.group = around.group.or_else(|| state.group(&place.2, kept.group.as_deref()?));
                    around.pods.push(object);
                }
                Row::Group | Row::Event => (),
            }
        }
        around
    }

    /// Kinds that an item's pods belong to, by `apiVersion` and `kind`: one of them may be its workload's.
    pub fn owners(&self, key: &str) -> BTreeSet<(String, String)> {
        let pods = self.around(key).pods;
        let all = pods.iter().filter_map(|pod| pod["metadata"]["ownerReferences"].as_array()).flatten();
        all.map(|owner| (text(owner, "apiVersion").to_owned(), text(owner, "kind").to_owned())).collect()
    }

    /// An item is settled, and what was remembered of it beside its objects goes.
    pub fn settle(&self, key: &str) {
        self.state.lock().disrupted.remove(key);
    }

    pub fn has(&self, key: &str) -> bool {
        self.state.lock().items.contains_key(key)
    }
}

impl State {
    fn note_disruption(&mut self, key: &str, pod: &Value) {
        if trouble::is_disrupted(pod) {
            self.disrupted.entry(key.to_owned()).or_default().insert(attempt_of(pod));
        }
    }

    fn group(&self, namespace: &str, name: &str) -> Option<Value> {
        let is_it = |place: &&Place| place.0 == Row::Group && place.2 == namespace && place.3 == name;
        let groups = (Row::Group, String::new(), String::new(), String::new())..;
        let place = self.objects.range(groups).map(|(place, _)| place).find(is_it)?;
        self.objects.get(place).map(Kept::object)
    }

    fn in_group(&self, namespace: &str, name: &str) -> Vec<String> {
        let pods = self.objects.iter().filter(|(place, _)| place.0 == Row::Pod && place.2 == namespace);
        let own = pods.filter(|(_, pod)| pod.group.as_deref() == Some(name));
        let keys: BTreeSet<&String> = own.filter_map(|(_, pod)| pod.key.as_ref()).collect();
        keys.into_iter().cloned().collect()
    }

    fn note_event(&mut self, event: Value) -> Vec<String> {
        let about = about(&event);
        let keys: Vec<String> = self.owners(&about);
        if self.events.len() >= EVENTS_MAX && !self.events.contains_key(&about) {
            let known: BTreeSet<(String, String)> =
                self.objects.keys().map(|place| (place.2.clone(), place.3.clone())).collect();
            self.events.retain(|about, _| known.contains(about));
        }
        let kept = self.events.entry(about).or_default();
        kept.retain(|other| other["metadata"]["uid"] != event["metadata"]["uid"]);
        kept.push(event);
        if kept.len() > EVENTS_EACH {
            kept.remove(0);
        }
        keys
    }

    fn forget_event(&mut self, event: &Value) -> Vec<String> {
        let about = about(event);
        if let Some(kept) = self.events.get_mut(&about) {
            kept.retain(|other| other["metadata"]["uid"] != event["metadata"]["uid"]);
            if kept.is_empty() {
                self.events.remove(&about);
            }
        }
        self.owners(&about)
    }

    fn owners(&self, about: &(String, String)) -> Vec<String> {
        let is_about = |place: &Place| place.2 == about.0 && place.3 == about.1;
        let own = self.items.iter().filter(|(_, places)| places.iter().any(is_about));
        own.map(|(key, _)| key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(kind: &str, name: &str, version: u64) -> Value {
        json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name, "namespace": "n", "uid": name,
            "resourceVersion": version.to_string(), "labels": { label::ITEM: "k", label::ATTEMPT: "2" } } })
    }

    // L-22
    #[test]
    fn a_pod_that_was_taken_is_remembered_when_it_is_gone() {
        let view = View::default();
        assert_eq!(view.learn(Row::Pod, object("Pod", "p", 1)), ["k"]);
        let mut taken = object("Pod", "p", 2);
        taken["status"]["conditions"] =
            json!([{ "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler" }]);
        view.forget(&place(Row::Pod, &taken), Some(&taken));
        let around = view.around("k");
        assert!(around.pods.is_empty() && around.disrupted.contains(&2));
        view.settle("k");
        assert!(view.around("k").disrupted.is_empty() && !view.has("k"));
    }

    // L-33
    #[test]
    fn the_kind_of_a_workload_is_found_by_its_pods() {
        let view = View::default();
        let mut pod = object("Pod", "p", 1);
        pod["metadata"]["ownerReferences"] = json!([{ "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob" }]);
        view.learn(Row::Pod, pod);
        let kinds: Vec<_> = view.owners("k").into_iter().collect();
        assert_eq!(kinds, [("kubeflow.org/v1".to_owned(), "PyTorchJob".to_owned())]);
        assert!(view.owners("other").is_empty());
    }

    #[test]
    fn what_a_call_answered_is_not_undone_by_an_older_event() {
        let view = View::default();
        view.learn(Row::Workload, object("Job", "j", 5));
        assert!(view.learn(Row::Workload, object("Job", "j", 4)).is_empty());
        assert_eq!(view.around("k").workloads[0]["metadata"]["resourceVersion"], "5");
        let mut another = object("Job", "j", 3);
        another["metadata"]["uid"] = json!("other");
        assert_eq!(view.learn(Row::Workload, another), ["k"], "a new object of the same name is news");
    }

    // K-76
    #[test]
    fn events_and_groups_are_found_with_the_pods_that_they_are_about() {
        let view = View::default();
        let mut pod = object("Pod", "p", 1);
        pod["metadata"]["annotations"] = json!({ GROUP: "g" });
        view.learn(Row::Pod, pod);
        let group = json!({ "apiVersion": "s/v1", "kind": "PodGroup", "metadata": { "name": "g", "namespace": "n" } });
        assert_eq!(view.learn(Row::Group, group), ["k"]);
        let about = json!({ "kind": "Pod", "namespace": "n", "name": "p" });
        for number in 0..20 {
            let event = json!({ "kind": "Event", "metadata": { "uid": number }, "involvedObject": about });
            assert_eq!(view.learn(Row::Event, event), ["k"]);
        }
        let around = view.around("k");
        assert_eq!(around.events.len(), EVENTS_EACH);
        assert!(around.group.is_some());
        let last = json!({ "kind": "Event", "metadata": { "uid": 19 }, "involvedObject": about });
        assert_eq!(view.forget(&place(Row::Event, &last), Some(&last)), ["k"], "what expired is no longer so");
        assert_eq!(view.around("k").events.len(), EVENTS_EACH - 1);
        view.forget_events();
        assert!(view.around("k").events.is_empty());
    }
}
