//! What the operator has seen of the cluster: objects by kind, by name and by the uid of who controls them.
//!
//! `watch` fills it, and `apply` puts in what its writes returned. An object never goes back to an older state and does
//! not come back once it is gone, in whatever order the two arrive.

use crate::kinds::{KINDS, Kind};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use volley_api::kube::{at, text};

/// Uids that are remembered as gone: news of them that is still under way is a few seconds old at most.
const GONE_MAX: usize = 8192;

/// What an object was and is.
#[derive(Debug, Clone)]
pub struct Change {
    pub kind: &'static Kind,
    pub old: Option<Arc<Value>>,
    pub new: Option<Arc<Value>>,
}

#[derive(Debug, Default)]
struct Shelf {
    objects: BTreeMap<String, Arc<Value>>,
    owned: HashMap<String, BTreeSet<String>>,
}

#[derive(Debug, Default)]
struct State {
    shelves: Vec<Shelf>,
    gone: HashSet<String>,
    gone_order: VecDeque<String>,
}

#[derive(Debug)]
pub struct Cache {
    state: Mutex<State>,
}

impl Default for Cache {
    fn default() -> Self {
        let shelves = KINDS.iter().map(|_| Shelf::default()).collect();
        Cache { state: Mutex::new(State { shelves, ..State::default() }) }
    }
}

/// Where an object stands: `namespace/name`, `/name` for those without a namespace.
pub fn place(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

pub fn place_of(object: &Value) -> String {
    place(text(object, "metadata.namespace"), text(object, "metadata.name"))
}

/// The owner that controls an object.
pub fn controller(object: &Value) -> Option<&Value> {
    let owners = at(object, "metadata.ownerReferences").and_then(Value::as_array)?;
    owners.iter().find(|owner| owner["controller"] == true)
}

fn controller_uid(object: &Value) -> &str {
    controller(object).map_or("", |owner| text(owner, "uid"))
}

fn is_newer(object: &Value, than: &Value) -> bool {
    let version = |object: &Value| text(object, "metadata.resourceVersion").parse::<u64>().ok();
    match (version(object), version(than)) {
        (Some(new), Some(old)) => new > old,
        // Versions that cannot be compared are those of a server that is not Kubernetes' own; the last word counts.
        _ => true,
    }
}

impl Cache {
    /// Takes an object in, unless what is known is newer.
    pub fn put(&self, kind: &'static Kind, object: Value) -> Option<Change> {
        let mut state = self.state.lock();
        let uid = text(&object, "metadata.uid");
        if state.gone.contains(uid) {
            return None;
        }
        let place = place_of(&object);
        let shelf = &mut state.shelves[kind.id];
        let old = shelf.objects.get(&place).cloned();
        if let Some(old) = &old
            && !is_newer(&object, old)
        {
            return None;
        }
        let object = Arc::new(object);
        shelf.insert(place, object.clone());
        Some(Change { kind, old, new: Some(object) })
    }

    /// Takes an object out for good.
    pub fn remove(&self, kind: &'static Kind, place: &str, uid: &str) -> Option<Change> {
        let mut state = self.state.lock();
        state.bury(uid);
        let shelf = &mut state.shelves[kind.id];
        let old = shelf.objects.get(place).filter(|object| text(object, "metadata.uid") == uid)?.clone();
        shelf.remove(place);
        Some(Change { kind, old: Some(old), new: None })
    }

    /// The uids of a kind's objects by place.
    pub fn uids(&self, kind: &'static Kind) -> BTreeMap<String, String> {
        let state = self.state.lock();
        let objects = state.shelves[kind.id].objects.iter();
        objects.map(|(place, object)| (place.clone(), text(object, "metadata.uid").to_owned())).collect()
    }

    pub fn get(&self, kind: &'static Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.state.lock().shelves[kind.id].objects.get(&place(namespace, name)).cloned()
    }

    /// All objects of a kind, or those of a namespace.
    pub fn list(&self, kind: &'static Kind, namespace: Option<&str>) -> Vec<Arc<Value>> {
        match namespace {
            Some(namespace) => self.starting_with(kind, namespace, ""),
            None => self.state.lock().shelves[kind.id].objects.values().cloned().collect(),
        }
    }

    /// Whether there is such an object.
    pub fn has(&self, kind: &'static Kind, is_meant: impl Fn(&Value) -> bool) -> bool {
        self.state.lock().shelves[kind.id].objects.values().any(|object| is_meant(object))
    }

    /// The objects of a namespace whose names start so.
    pub fn starting_with(&self, kind: &'static Kind, namespace: &str, start: &str) -> Vec<Arc<Value>> {
        let start = place(namespace, start);
        let state = self.state.lock();
        let objects = state.shelves[kind.id].objects.range(start.clone()..);
        objects.take_while(|(place, _)| place.starts_with(&start)).map(|(_, object)| object.clone()).collect()
    }

    /// The objects that the one with this uid controls.
    pub fn owned(&self, kind: &'static Kind, uid: &str) -> Vec<Arc<Value>> {
        let state = self.state.lock();
        let shelf = &state.shelves[kind.id];
        let places = shelf.owned.get(uid).into_iter().flatten();
        places.filter_map(|place| shelf.objects.get(place)).cloned().collect()
    }
}

impl Shelf {
    fn insert(&mut self, place: String, object: Arc<Value>) {
        self.remove(&place);
        let uid = controller_uid(&object);
        if !uid.is_empty() {
            self.owned.entry(uid.to_owned()).or_default().insert(place.clone());
        }
        self.objects.insert(place, object);
    }

    fn remove(&mut self, place: &str) {
        let Some(old) = self.objects.remove(place) else { return };
        let uid = controller_uid(&old);
        if let Some(places) = self.owned.get_mut(uid) {
            places.remove(place);
            if places.is_empty() {
                self.owned.remove(uid);
            }
        }
    }
}

impl State {
    fn bury(&mut self, uid: &str) {
        if uid.is_empty() || !self.gone.insert(uid.to_owned()) {
            return;
        }
        self.gone_order.push_back(uid.to_owned());
        if self.gone_order.len() > GONE_MAX
            && let Some(oldest) = self.gone_order.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::own;
    use serde_json::json;

    fn pod(uid: &str, version: u64, owner: &str) -> Value {
        let owners = json!([{"uid": owner, "controller": true}]);
        json!({"metadata": {"namespace": "n", "name": "p", "uid": uid, "resourceVersion": version.to_string(), "ownerReferences": owners}})
    }

    #[test]
    fn a_view_never_goes_back() {
        let cache = Cache::default();
        assert!(cache.put(own::pod(), pod("u", 5, "a")).is_some());
        assert!(cache.put(own::pod(), pod("u", 4, "b")).is_none());
        assert_eq!(cache.owned(own::pod(), "a").len(), 1);
        assert!(cache.put(own::pod(), pod("u", 10, "b")).is_some(), "versions are numbers, not words");
        assert_eq!((cache.owned(own::pod(), "a").len(), cache.owned(own::pod(), "b").len()), (0, 1));
    }

    #[test]
    fn what_is_gone_does_not_come_back_and_its_successor_does_come() {
        let cache = Cache::default();
        cache.put(own::pod(), pod("u", 5, "a"));
        assert!(cache.remove(own::pod(), "n/p", "u").is_some());
        assert!(cache.put(own::pod(), pod("u", 6, "a")).is_none(), "this was under way when it went");
        assert!(cache.put(own::pod(), pod("v", 7, "a")).is_some());
        assert!(cache.remove(own::pod(), "n/p", "u").is_none(), "it was another that went");
        assert!(cache.get(own::pod(), "n", "p").is_some());
    }

    #[test]
    fn names_are_found_by_how_they_start() {
        let cache = Cache::default();
        for name in ["a", "a-0", "a-1", "ab-0"] {
            cache.put(own::pod(), json!({"metadata": {"namespace": "n", "name": name, "uid": name}}));
        }
        assert_eq!(cache.starting_with(own::pod(), "n", "a-").len(), 2);
        assert_eq!(cache.list(own::pod(), Some("n")).len(), 4);
        assert_eq!(cache.list(own::pod(), Some("m")).len(), 0);
    }
}
