//! Values seen through their shape, as server-side apply sees them: leaves, granular maps, keyed lists.
//!
//! `set` gives the fields that an applied configuration claims, `problems` what is wrong with it.

use super::fields::{Node, element_text, node};
use serde_json::Value;
use std::fmt::Write;
use volley_api::kube::schema::{Field, ListType, Scalar, Shape};

/// How a value takes part in ownership.
pub(super) enum View<'a> {
    /// Owned as one: scalars, null, everything atomic, and whatever does not fit its shape.
    Leaf,
    Map(&'a serde_json::Map<String, Value>),
    List(List<'a>, &'a [Value]),
}

/// A list whose items are owned one by one.
#[derive(Clone, Copy)]
pub(super) struct List<'a> {
    /// None for a set of plain values.
    keys: Option<&'a [Box<str>]>,
    pub items: &'a Shape,
}

pub(super) static UNTYPED: Shape = Shape::Any;

/// How the value takes part in ownership. A list with an item that has no key is a leaf, like everything that does not fit.
pub(super) fn view<'a>(shape: &'a Shape, value: &'a Value) -> View<'a> {
    match value {
        Value::Object(fields) if is_granular_map(shape) => View::Map(fields),
        Value::Array(items) => match granular_list(shape) {
            Some(list) if items.iter().all(|item| list.has_element(item)) => View::List(list, items),
            _ => View::Leaf,
        },
        _ => View::Leaf,
    }
}

pub(super) fn is_granular_map(shape: &Shape) -> bool {
    match shape {
        Shape::Struct(structure) => !structure.get().atomic,
        Shape::Map { atomic, .. } => !atomic,
        Shape::Any => true,
        Shape::Scalar(_) | Shape::List { .. } => false,
    }
}

pub(super) fn granular_list(shape: &Shape) -> Option<List<'_>> {
    match shape {
        Shape::List { items, list: ListType::Set, .. } => Some(List { keys: None, items }),
        Shape::List { items, list: ListType::Map(keys), .. } => Some(List { keys: Some(keys), items }),
        Shape::List { list: ListType::Atomic, .. } => None,
        Shape::Scalar(_) | Shape::Struct(_) | Shape::Map { .. } | Shape::Any => None,
    }
}

/// The shape of a map's entry, and the declared field if the entry is one.
pub(super) fn entry<'a>(shape: &'a Shape, key: &str) -> (&'a Shape, Option<&'a Field>) {
    match shape {
        Shape::Struct(structure) => match structure.get().field(key) {
            Some(field) => (&field.shape, Some(field)),
            None => (&UNTYPED, None),
        },
        Shape::Map { values, .. } => (values, None),
        Shape::Scalar(_) | Shape::List { .. } | Shape::Any => (&UNTYPED, None),
    }
}

impl<'a> List<'a> {
    /// The path element of an item: its keys, completed by their defaults, or its plain value.
    pub fn element(&self, item: &Value) -> Option<String> {
        let Some(keys) = self.keys else {
            return is_plain(item).then(|| format!("v:{item}"));
        };
        let mut names: Vec<&str> = keys.iter().map(AsRef::as_ref).collect();
        names.sort_unstable();
        let mut element = String::from("k:{");
        for name in names {
            if let Some(value) = self.key_value(item, name) {
                let comma = if element.len() > 3 { "," } else { "" };
                // Writing to a String cannot fail. Field names have no control characters, where JSON and Rust differ.
                let _ = write!(element, "{comma}{name:?}:{value}");
            }
        }
        element.push('}');
        (element.len() > 4).then_some(element)
    }

    fn has_element(&self, item: &Value) -> bool {
        match self.keys {
            None => is_plain(item),
            Some(keys) => keys.iter().any(|key| self.key_value(item, key).is_some()),
        }
    }

    /// Whether two items have the same path element, without spelling it out.
    pub fn is_same(&self, a: &Value, b: &Value) -> bool {
        match self.keys {
            None => a == b,
            Some(keys) => keys.iter().all(|key| self.key_value(a, key) == self.key_value(b, key)),
        }
    }

    fn key_value<'b>(&'b self, item: &'b Value, key: &str) -> Option<&'b Value> {
        let fields = item.as_object()?;
        fields.get(key).or_else(|| entry(self.items, key).1.and_then(|field| field.key_default.as_ref()))
    }
}

fn is_plain(item: &Value) -> bool {
    !(item.is_null() || item.is_object() || item.is_array())
}

/// The path element of a map's entry.
pub(super) fn name_element(key: &str) -> String {
    let mut element = String::with_capacity(key.len() + 2);
    element.push_str("f:");
    element.push_str(key);
    element
}

/// The fields that an applied value claims. Containers are claimed through their contents, except for list items, for
/// entries of plain maps, and for what is empty.
pub(super) fn set(shape: &Shape, value: &Value) -> Option<Node> {
    match view(shape, value) {
        View::Map(fields) => node(false, entries_set(shape, fields, |_| true)),
        View::List(list, items) => {
            let mut below = Node::new();
            for item in items {
                let Some(element) = list.element(item) else { continue };
                let item_node = node(true, set(list.items, item).unwrap_or_default());
                // Of items with one key, none can be told apart: they are claimed together, as one leaf.
                let is_duplicate = below.contains_key(&element);
                below.insert(element, Value::Object(item_node.filter(|_| !is_duplicate).unwrap_or_default()));
            }
            node(false, below)
        }
        View::Leaf if value.is_null() && !matches!(shape, Shape::Scalar(_)) => None,
        View::Leaf => Some(Node::new()),
    }
}

/// The fields that some entries of a map claim.
pub(super) fn entries_set(
    shape: &Shape,
    fields: &serde_json::Map<String, Value>,
    is_wanted: impl Fn(&str) -> bool,
) -> Node {
    let mut below = Node::new();
    for (key, value) in fields.iter().filter(|(key, _)| is_wanted(key)) {
        let (shape, declared) = entry(shape, key);
        let is_empty = value.is_null() || value.as_object().is_some_and(|fields| fields.is_empty());
        let inner = set(shape, value);
        // A leaf is a member already; marking it again would turn it into a container.
        let inner = match inner {
            Some(inner) if inner.is_empty() => Some(inner),
            inner => node(is_empty || declared.is_none(), inner.unwrap_or_default()),
        };
        if let Some(inner) = inner {
            below.insert(name_element(key), Value::Object(inner));
        }
    }
    below
}

/// What is wrong with an applied value, each problem as (path, text).
pub(super) fn problems(shape: &Shape, value: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    if value.is_null() {
        return found;
    }
    match shape {
        Shape::Any => {}
        Shape::Scalar(scalar) => found.extend(scalar_problem(*scalar, value).map(|text| (String::new(), text))),
        Shape::Struct(_) | Shape::Map { .. } => map_problems(shape, value, &mut found),
        Shape::List { .. } => list_problems(shape, value, &mut found),
    }
    found
}

fn map_problems(shape: &Shape, value: &Value, found: &mut Vec<(String, String)>) {
    let Value::Object(fields) = value else {
        found.push((String::new(), format!("expected map, got &{{{}}}", plain_text(value))));
        return;
    };
    let is_closed = matches!(shape, Shape::Struct(structure) if !structure.get().open);
    for (key, value) in fields {
        let (shape, declared) = entry(shape, key);
        if is_closed && declared.is_none() {
            found.push((format!(".{key}"), "field not declared in schema".to_owned()));
            return;
        }
        found.extend(problems(shape, value).into_iter().map(|(path, text)| (format!(".{key}{path}"), text)));
    }
}

fn list_problems(shape: &Shape, value: &Value, found: &mut Vec<(String, String)>) {
    let Value::Array(items) = value else {
        found.push((String::new(), format!("expected list, got &{{{}}}", plain_text(value))));
        return;
    };
    let list = granular_list(shape);
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let element = match &list {
            None => format!("i:{index}"),
            Some(list) => match list.element(item) {
                Some(element) => element,
                None => {
                    found.push((String::new(), format!("element {index}: {}", list.why_no_element(item))));
                    return;
                }
            },
        };
        let items = if let Shape::List { items, .. } = shape { items } else { &UNTYPED };
        let below = problems(items, item);
        if !below.is_empty() {
            let text = element_text(&element);
            found.extend(below.into_iter().map(|(path, problem)| (format!("{text}{path}"), problem)));
        }
        if let Some(element) = seen.replace(element) {
            found.push((String::new(), format!("duplicate entries for key {}", element_text(&element))));
        }
    }
}

impl List<'_> {
    fn why_no_element(&self, item: &Value) -> String {
        let fixed = match (self.keys, item) {
            (Some(_), Value::Null) => "associative list with keys may not have a null element",
            (Some(keys), Value::Object(_)) => {
                let keys = keys.iter().map(|key| format!("\"{key}\"")).collect::<Vec<_>>().join(" ");
                return format!(
                    "associative list with keys has an element that omits all key fields [{keys}] \
                     (and doesn't have default values for any key fields)"
                );
            }
            (Some(_), _) => "associative list with keys may not have non-map elements",
            (None, Value::Null) => "associative list without keys has an element that's an explicit null",
            (None, Value::Object(_)) => "associative list without keys has an element that's a map type",
            (None, _) => "not supported: associative list with lists as elements",
        };
        fixed.to_owned()
    }
}

fn scalar_problem(scalar: Scalar, value: &Value) -> Option<String> {
    match scalar {
        Scalar::Int32 | Scalar::Int64 | Scalar::Number => {
            (!value.is_number()).then(|| format!("expected numeric (int or float), got {}", go_type(value)))
        }
        Scalar::Boolean => (!value.is_boolean()).then(|| format!("expected boolean, got &{{{}}}", plain_text(value))),
        Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Duration => (!value.is_string())
            .then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", plain_text(value))),
        Scalar::Quantity | Scalar::IntOrString => {
            (!is_plain(value)).then(|| format!("expected any scalar, got &{{{}}}", plain_text(value)))
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn plain_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
