//! Configs laid over each other: what a launch changes of its queue's config, and whose each field of the result is.
//!
//! Objects are merged key by key and `null` takes a key away. Lists whose items all have a `name` are merged by it; other
//! lists and plain values are replaced.

use super::Refusal;
use serde_json::{Map, Value};
use std::collections::BTreeSet;

/// How a launch's own config meets the queue's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As W&B's server does it.
    Replace,
    /// As our own clients ask for it.
    Merge,
}

/// Who set a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Queue,
    Template,
    Launch,
    Agent,
}

impl Origin {
    pub fn name(self) -> &'static str {
        match self {
            Origin::Queue => "queue",
            Origin::Template => "template",
            Origin::Launch => "launch override",
            Origin::Agent => "agent default",
        }
    }
}

/// The config that a launch gets: its own if it gives one, or the queue's.
pub fn effective(queue: &Value, own: Option<&Value>, mode: Mode) -> Value {
    match (own.filter(|own| own.as_object().is_some_and(|own| !own.is_empty())), mode) {
        (None, _) => queue.clone(),
        (Some(own), Mode::Replace) => own.clone(),
        (Some(own), Mode::Merge) => merge(queue, own),
    }
}

/// Where a launch would put a plain value or a list over an object, and so take away all that is in it.
pub fn check(under: &Value, over: &Value) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    check_at(under, over, "", &mut refusals);
    refusals
}

fn check_at(under: &Value, over: &Value, path: &str, refusals: &mut Vec<Refusal>) {
    match (under, over) {
        (Value::Object(_), Value::Null) => (),
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                if let Some(below) = below.get(key) {
                    check_at(below, value, &joined(path, key), refusals);
                }
            }
        }
        (Value::Array(below), Value::Array(above)) if is_named(below) && is_named(above) => {
            for (index, item) in above.iter().enumerate() {
                if let Some(below) = counterpart(item, index, Some(under)) {
                    check_at(below, item, &format!("{path}[{index}]"), refusals);
                }
            }
        }
        (Value::Object(_), _) => {
            let hint = "name what is different in it, or write `null` to take it away";
            refusals.push(Refusal::new("Q-8", path, format!("the queue has an object there, not {over}"), hint));
        }
        _ => (),
    }
}

pub fn merge(under: &Value, over: &Value) -> Value {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => Value::Object(merge_objects(under, over)),
        (Value::Array(below), Value::Array(above)) if !above.is_empty() && is_named(below) && is_named(above) => {
            merge_named(below, above)
        }
        (_, over) => without_nulls(over),
    }
}

fn merge_objects(under: &Map<String, Value>, over: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = under.clone();
    for (key, value) in over {
        match (value, under.get(key)) {
            (Value::Null, _) => drop(merged.remove(key)),
            (value, Some(below)) => drop(merged.insert(key.clone(), merge(below, value))),
            (value, None) => drop(merged.insert(key.clone(), without_nulls(value))),
        }
    }
    merged
}

fn merge_named(below: &[Value], above: &[Value]) -> Value {
    let mut merged = below.to_vec();
    for item in above {
        match merged.iter_mut().find(|other| other["name"] == item["name"]) {
            Some(other) => *other = merge(other, item),
            None => merged.push(without_nulls(item)),
        }
    }
    Value::Array(merged)
}

/// A `null` takes away what is below it; with nothing below, nothing is left of it.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        other => other.clone(),
    }
}

fn is_named(items: &[Value]) -> bool {
    items.iter().all(|item| item.get("name").is_some_and(Value::is_string))
}

/// The value that another tree has where this one has `key` or item `index`: lists of named items meet by name.
pub fn counterpart<'a>(item: &Value, index: usize, other: Option<&'a Value>) -> Option<&'a Value> {
    let items = other?.as_array()?;
    match item.get("name").and_then(Value::as_str) {
        Some(name) => items.iter().find(|candidate| candidate["name"] == name),
        None => items.get(index).filter(|candidate| candidate.get("name").is_none()),
    }
}

/// For every field of the result its path and who set it.
///
/// `queue` is the queue's config with template values in place, `raw` the same before; `launch` is what the launch gave.
pub fn explain(result: &Value, raw: &Value, queue: &Value, launch: Option<&Value>) -> Vec<(String, Origin)> {
    let mut told = Vec::new();
    let layers = Layers { raw: Some(raw), queue: Some(queue), launch };
    tell(result, &layers, String::new(), &mut told);
    told
}

struct Layers<'a> {
    raw: Option<&'a Value>,
    queue: Option<&'a Value>,
    launch: Option<&'a Value>,
}

impl<'a> Layers<'a> {
    fn map(&self, step: impl Fn(Option<&'a Value>) -> Option<&'a Value>) -> Layers<'a> {
        Layers { raw: step(self.raw), queue: step(self.queue), launch: step(self.launch) }
    }

    fn origin(&self, value: &Value) -> Origin {
        match self {
            Layers { launch: Some(own), .. } if *own == value => Origin::Launch,
            Layers { queue: Some(own), raw, .. } if *own == value => {
                if *raw == Some(value) {
                    Origin::Queue
                } else {
                    Origin::Template
                }
            }
            _ => Origin::Agent,
        }
    }
}

fn tell(value: &Value, layers: &Layers<'_>, path: String, told: &mut Vec<(String, Origin)>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (key, value) in members {
                let below = layers.map(|layer| layer.and_then(|layer| layer.get(key)));
                tell(value, &below, joined(&path, key), told);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, item) in items.iter().enumerate() {
                let below = layers.map(|layer| counterpart(item, index, layer));
                tell(item, &below, format!("{path}[{index}]"), told);
            }
        }
        leaf => told.push((path, layers.origin(leaf))),
    }
}

/// A path with one more key; keys with dots are put in brackets.
pub fn joined(path: &str, key: &str) -> String {
    match (path, key.contains('.')) {
        (_, true) => format!("{path}[{key}]"),
        ("", false) => key.to_owned(),
        (_, false) => format!("{path}.{key}"),
    }
}

/// The origins that occur in an explanation.
pub fn origins(told: &[(String, Origin)]) -> BTreeSet<Origin> {
    told.iter().map(|(_, origin)| *origin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn container(name: &str, rest: Value) -> Value {
        merge(&json!({"name": name}), &rest)
    }

    // LA-Q-8
    #[test]
    fn a_launch_changes_only_what_it_names() {
        let queue = json!({"spec": {"replicas": 1, "args": ["a", "b"], "ttl": 60, "containers": [
            container("main", json!({"env": [{"name": "A", "value": "1"}]})), container("side", json!({}))]}});
        let own = json!({"spec": {"replicas": 4, "args": ["c"], "ttl": null, "containers": [
            container("main", json!({"env": [{"name": "B", "value": "2"}]})), container("new", json!({"x": null}))]}});
        assert_eq!(
            effective(&queue, Some(&own), Mode::Merge),
            json!({"spec": {"replicas": 4, "args": ["c"], "containers": [
                container("main", json!({"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]})),
                container("side", json!({})), container("new", json!({}))]}})
        );
    }

    // LA-Q-8
    #[test]
    fn an_object_is_not_lost_to_a_plain_value() {
        let queue = json!({"spec": {"ttl": 60, "template": {"spec": {}}, "containers": [container("main", json!({"resources": {}}))]}});
        for fine in [
            json!({}),
            json!({"spec": null}),
            json!({"spec": {"ttl": [1], "template": null, "new": 1}}),
            json!({"spec": {"containers": [container("new", json!({"resources": 1}))]}}),
            json!({"spec": {"containers": []}}),
        ] {
            assert_eq!(check(&queue, &fine), [], "{fine}");
        }
        let paths = |own: Value| check(&queue, &own).into_iter().map(|refusal| refusal.path).collect::<Vec<_>>();
        assert_eq!(paths(json!({"spec": "x"})), ["spec"]);
        assert_eq!(
            paths(json!({"spec": {"template": [], "containers": [container("main", json!({"resources": 1}))]}})),
            ["spec.containers[0].resources", "spec.template"]
        );
        assert_eq!(
            check(&queue, &json!({"spec": "x"}))[0].to_string(),
            "`spec`: the queue has an object there, not \"x\"; hint: name what is different in it, or write `null` to take it away"
        );
    }

    // LA-Q-6, LA-Q-8
    #[test]
    fn w_and_bs_clients_replace_the_whole_config() {
        let (queue, own) = (json!({"a": 1}), json!({"b": 2}));
        assert_eq!(effective(&queue, Some(&own), Mode::Replace), own);
        assert_eq!(effective(&queue, Some(&json!({})), Mode::Replace), queue);
        assert_eq!(effective(&queue, None, Mode::Merge), queue);
    }

    // LA-Q-8
    #[test]
    fn every_field_says_who_set_it() {
        let raw = json!({"spec": {"gpus": "{{gpus}}", "ttl": 5, "replicas": 1}});
        let queue = json!({"spec": {"gpus": 2, "ttl": 5, "replicas": 1}});
        let own = json!({"spec": {"replicas": 3}});
        let mut result = merge(&queue, &own);
        result["metadata"] = json!({"labels": {"wandb.ai/run-id": "x"}});
        let told = explain(&result, &raw, &queue, Some(&own));
        let origin = |path: &str| told.iter().find(|(other, _)| other == path).unwrap().1;
        assert_eq!(origin("spec.gpus").name(), "template");
        assert_eq!(origin("spec.ttl").name(), "queue");
        assert_eq!(origin("spec.replicas").name(), "launch override");
        assert_eq!(origin("metadata.labels[wandb.ai/run-id]").name(), "agent default");
        assert_eq!(origins(&told).len(), 4);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            (0i64..4).prop_map(Value::from),
            "[ab]".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 16, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]|name", inner, 0..3)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn any_object() -> impl Strategy<Value = Value> {
        prop::collection::btree_map("[a-c]", any_json(), 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
    }

    fn is_named_list(value: &Value) -> bool {
        value.as_array().is_some_and(|list| !list.is_empty() && is_named(list))
    }

    proptest! {
        // Laying a config over itself, or over the result again, changes nothing more.
        #[test]
        fn merging_again_changes_nothing(under in any_json(), over in any_json()) {
            let once = merge(&under, &over);
            prop_assert_eq!(merge(&once, &over), once.clone());
            prop_assert_eq!(merge(&Value::Null, &once), once);
        }

        // LA-Q-8: a patch changes what it names and nothing else, and a `null` takes away.
        #[test]
        fn a_patch_changes_what_it_names_and_nothing_else(
            under in any_object(), over in any_object(), gone in prop::collection::btree_set("[a-c]", 0..3),
        ) {
            prop_assert_eq!(merge(&under, &json!({})), under.clone());
            let mut patch = over.clone();
            for key in &gone {
                patch[key.as_str()] = Value::Null;
            }
            let merged = merge(&under, &patch);
            for key in ["a", "b", "c", "name"] {
                match patch.get(key) {
                    None => prop_assert_eq!(merged.get(key), under.get(key)),
                    Some(Value::Null) => prop_assert_eq!(merged.get(key), None),
                    Some(value) if value.is_object() && under.get(key).is_some_and(Value::is_object) => {
                        prop_assert_eq!(&merged[key], &merge(&under[key], value));
                    }
                    Some(value) if is_named_list(value) => (),
                    Some(value) => prop_assert_eq!(&merged[key], &without_nulls(value)),
                }
            }
            prop_assert!(!merged.to_string().contains("null"), "no `null` is left: {merged}");
        }

        // LA-Q-8: of a list by name, every item of both is there once, those of the queue in their places.
        #[test]
        fn a_list_by_name_keeps_its_order_and_loses_nobody(
            below in prop::collection::btree_map("[a-e]", any_object(), 1..4), above in prop::collection::btree_map("[a-e]", any_object(), 1..4),
        ) {
            let list = |members: &std::collections::BTreeMap<String, Value>| -> Value {
                members.iter().map(|(name, value)| { let mut item = value.clone(); item["name"] = json!(name); item }).collect()
            };
            let merged = merge(&list(&below), &list(&above));
            let names: Vec<&str> = merged.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
            let added = above.keys().filter(|name| !below.contains_key(*name));
            let expected: Vec<&str> = below.keys().chain(added).map(String::as_str).collect();
            prop_assert_eq!(names, expected);
        }
    }
}
