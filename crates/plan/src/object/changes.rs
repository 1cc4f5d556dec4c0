//! What a write changed: old and new object compared in one walk, as field sets.
//!
//! Nothing is allocated for what is equal. `managed` and `apply` take ownership from it.

use super::fields::{Fields, Node, node};
use super::managed::Tracked;
use super::typed::{List, View, entry, name_element, view};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use volley_api::kube::schema::{Field, Shape, StructRef};

type Object = Map<String, Value>;

/// The fields that a write set (changed or added) and the fields that it removed.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub set: Fields,
    pub removed: Fields,
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

/// Compares the tracked parts of two objects; no old object means that the new one is being created.
pub(super) fn changes(shape: &StructRef, old: Option<&Value>, new: &Value, tracked: Tracked) -> Changes {
    let empty = Object::new();
    let old = old.and_then(Value::as_object).unwrap_or(&empty);
    let new = new.as_object().unwrap_or(&empty);
    let shape = Shape::Struct(shape.clone());
    let mut diff = Diff::default();
    diff.entries(&shape, (old, new), |key| key != "metadata" && tracked.has_part(key));
    let metadata = (metadata(old).unwrap_or(&empty), metadata(new).unwrap_or(&empty));
    let mut below = Diff::default();
    below.entries(entry(&shape, "metadata").0, metadata, |key| tracked.has_metadata(key));
    diff.insert(|| name_element("metadata"), below);
    Changes { set: Fields::trusted(diff.set), removed: Fields::trusted(diff.removed) }
}

fn metadata(object: &Object) -> Option<&Object> {
    object.get("metadata").and_then(Value::as_object)
}

/// The two sides of a comparison at one place: nodes of the sets, `.` included.
#[derive(Default)]
struct Diff {
    set: Node,
    removed: Node,
    is_set: bool,
    is_removed: bool,
}

impl Diff {
    fn set(below: Node) -> Diff {
        Diff { set: below, is_set: true, ..Diff::default() }
    }

    fn removed(below: Node) -> Diff {
        Diff { removed: below, is_removed: true, ..Diff::default() }
    }

    /// Hangs what was found below a path element under this place. The element is spelt only if there is something.
    fn insert(&mut self, element: impl FnOnce() -> String, below: Diff) {
        let set = node(below.is_set, below.set);
        let removed = node(below.is_removed, below.removed);
        match (set, removed) {
            (None, None) => {}
            (Some(set), None) => drop(self.set.insert(element(), Value::Object(set))),
            (None, Some(removed)) => drop(self.removed.insert(element(), Value::Object(removed))),
            (Some(set), Some(removed)) => {
                let element = element();
                self.set.insert(element.clone(), Value::Object(set));
                self.removed.insert(element, Value::Object(removed));
            }
        }
    }

    /// Compares two maps entry by entry; both are sorted, so one pass over the two is enough.
    fn entries(&mut self, shape: &Shape, (old, new): (&Object, &Object), is_wanted: impl Fn(&str) -> bool) {
        let (mut olds, mut news) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let key = match (olds.peek(), news.peek()) {
                (None, None) => return,
                (Some((old, _)), None) => *old,
                (None, Some((new, _))) => *new,
                (Some((old, _)), Some((new, _))) => std::cmp::min(*old, *new),
            };
            let old = olds.next_if(|(old, _)| *old == key).map(|(_, value)| value);
            let new = news.next_if(|(new, _)| *new == key).map(|(_, value)| value);
            if is_wanted(key) {
                let (shape, field) = entry(shape, key);
                self.insert(|| name_element(key), compare(shape, field, old, new));
            }
        }
    }

    fn items(&mut self, list: List<'_>, old: &[Value], new: &[Value]) {
        let is_aligned = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| list.is_same(old, new));
        if is_aligned {
            let pairs = old.iter().zip(new).map(|(old, new)| (new, both(list.items, old, new)));
            let changed: Vec<_> = pairs.filter(|(_, diff)| !diff.is_nothing()).collect();
            let is_unique = |item: &Value| new.iter().filter(|other| list.is_same(item, other)).count() == 1;
            if changed.iter().all(|(item, _)| is_unique(item)) {
                for (item, diff) in changed {
                    self.insert(|| list.element(item).unwrap_or_default(), diff);
                }
                return;
            }
        }
        let mut sides: BTreeMap<String, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            sides.entry(list.element(item).unwrap_or_default()).or_default().0.push(item);
        }
        for item in new {
            sides.entry(list.element(item).unwrap_or_default()).or_default().1.push(item);
        }
        for (element, (old, new)) in sides {
            self.insert(|| element, same_element(list, &old, &new));
        }
    }

    fn is_nothing(&self) -> bool {
        !self.is_set && !self.is_removed && self.set.is_empty() && self.removed.is_empty()
    }
}

/// Compares the items with one path element. Several of them cannot be told apart, so they count as one leaf.
fn same_element(list: List<'_>, old: &[&Value], new: &[&Value]) -> Diff {
    match (old, new) {
        ([], []) => Diff::default(),
        ([old], [new]) => both(list.items, old, new),
        ([], [new]) => Diff::set(everything(list.items, new)),
        ([old], []) => Diff::removed(everything(list.items, old)),
        ([], _) => Diff::set(Node::new()),
        (_, []) => Diff::removed(Node::new()),
        ([old], _) => Diff { set: Node::new(), is_set: true, removed: everything(list.items, old), is_removed: false },
        (_, [new]) => Diff::set(everything(list.items, new)),
        (old, new) if old == new => Diff::default(),
        _ => Diff::set(Node::new()),
    }
}

fn compare(shape: &Shape, field: Option<&Field>, old: Option<&Value>, new: Option<&Value>) -> Diff {
    match (old, new) {
        (None, None) => Diff::default(),
        (Some(old), Some(new)) => both(shape, old, new),
        (Some(old), None) => Diff::removed(everything(shape, old)),
        (None, Some(new)) if field.is_some_and(is_always_there) => filled(shape, new),
        // A plain field that is empty and still there is one that Go prints always; it was there before, too.
        (None, Some(new)) if is_zero(new) && field.is_some_and(is_plain) => Diff::default(),
        (None, Some(new)) => Diff::set(everything(shape, new)),
    }
}

/// Go structs hold their plain struct fields, and print fields that are not optional, even when nothing is set. The
/// reference compares such objects, so these containers never count as added: `f:spec` and `f:containers` have no `.`.
fn is_always_there(field: &Field) -> bool {
    field.proto.is_some_and(|proto| field.required || (matches!(field.shape, Shape::Struct(_)) && !proto.pointer))
}

fn is_plain(field: &Field) -> bool {
    field.proto.is_some_and(|proto| !proto.pointer)
}

/// A container that was there all along gets contents.
fn filled(shape: &Shape, new: &Value) -> Diff {
    let mut diff = Diff::default();
    if is_zero(new) {
        return diff;
    }
    match view(shape, new) {
        View::Map(fields) => diff.entries(shape, (&Object::new(), fields), |_| true),
        View::List(list, items) if !items.is_empty() => diff.items(list, &[], items),
        View::List(..) | View::Leaf => return Diff::set(Node::new()),
    }
    diff
}

/// What a Go field holds before anybody sets it.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(true) => false,
    }
}

fn both(shape: &Shape, old: &Value, new: &Value) -> Diff {
    let mut diff = Diff::default();
    let nothing = Object::new();
    match (view(shape, old), view(shape, new)) {
        (View::Leaf, View::Leaf) => diff.is_set = old != new,
        (View::Map(old), View::Map(new)) => diff.entries(shape, (old, new), |_| true),
        (View::List(list, old), View::List(_, new)) => diff.items(list, old, new),
        // Null is a container without contents.
        (View::Leaf, View::Map(new)) if old.is_null() && !new.is_empty() => {
            diff.entries(shape, (&nothing, new), |_| true);
        }
        (View::Map(old), View::Leaf) if new.is_null() && !old.is_empty() => {
            diff.entries(shape, (old, &nothing), |_| true);
        }
        (View::Leaf, View::List(list, new)) if old.is_null() && !new.is_empty() => diff.items(list, &[], new),
        (View::List(list, old), View::Leaf) if new.is_null() && !old.is_empty() => diff.items(list, old, &[]),
        (View::Leaf, View::Map(_) | View::List(..)) => return Diff::set(everything(shape, new)),
        (View::Map(_) | View::List(..), View::Leaf | View::Map(_) | View::List(..)) => {
            diff.is_set = true;
            diff.removed = everything(shape, old);
        }
    }
    diff
}

/// Every path at and below a value that appeared or went as a whole; the caller marks the value's own path.
fn everything(shape: &Shape, value: &Value) -> Node {
    let mut below = Node::new();
    match view(shape, value) {
        View::Leaf => {}
        View::Map(fields) => {
            for (key, value) in fields {
                let inner = node(true, everything(entry(shape, key).0, value)).unwrap_or_default();
                below.insert(name_element(key), Value::Object(inner));
            }
        }
        View::List(list, items) => {
            for item in items {
                let Some(element) = list.element(item) else { continue };
                let is_duplicate = below.contains_key(&element);
                let inner = if is_duplicate { None } else { node(true, everything(list.items, item)) };
                below.insert(element, Value::Object(inner.unwrap_or_default()));
            }
        }
    }
    below
}
