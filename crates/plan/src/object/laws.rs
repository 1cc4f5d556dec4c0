//! Laws of patches and ownership, over random objects of a small type.

use super::apply::apply;
use super::fields::Fields;
use super::managed::{Manager, Tracked, updated};
use super::{merge, strategic};
use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use volley_api::kube::schema::{StructRef, json::root};

fn shape() -> StructRef {
    let item = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "value": {"type": "string"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}}});
    root(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "size": {"type": "integer"},
            "texts": {"type": "object", "additionalProperties": {"type": "string"}},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
            "items": {"type": "array", "items": item,
                "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}}}}}),
        "",
    )
}

fn texts() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-c]", "[0-2]", 1..3).prop_map(|texts| json!(texts))
}

fn items() -> impl Strategy<Value = Value> {
    let tags = proptest::option::of(proptest::collection::btree_set("[x-z]", 1..3));
    let item = (proptest::option::of("[0-2]"), tags);
    proptest::collection::btree_map("[a-d]", item, 1..4).prop_flat_map(|items| {
        let list: Vec<Value> = items
            .into_iter()
            .map(|(name, (value, tags))| without_nulls(json!({"name": name, "value": value, "tags": tags})))
            .collect();
        Just(list).prop_shuffle().prop_map(Value::Array)
    })
}

fn without_nulls(mut object: Value) -> Value {
    if let Value::Object(fields) = &mut object {
        fields.retain(|_, value| !value.is_null());
    }
    object
}

/// An object with some fields of every sort.
fn object() -> impl Strategy<Value = Value> {
    let option = proptest::option::of::<BoxedStrategy<Value>>;
    let size = (0..3).prop_map(|size| json!(size)).boxed();
    (option(size), option(texts().boxed()), option(texts().boxed()), option(items().boxed())).prop_map(
        |(size, texts, whole, items)| {
            let spec = without_nulls(json!({"size": size, "texts": texts, "whole": whole, "items": items}));
            json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": spec})
        },
    )
}

fn manager(name: &str, second: i64) -> Manager<'_> {
    let now = Timestamp::from_second(second).expect("in range");
    Manager { name, api_version: "v1", subresource: None, tracked: Tracked::ExceptStatus, now }
}

fn forced(live: Option<&Value>, config: &Value, name: &str, second: i64) -> Value {
    apply(&shape(), live, config, &manager(name, second), true).expect("a forced apply of a valid object")
}

fn fields(object: &Value, name: &str) -> Fields {
    let list = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let entry = list.into_iter().find(|entry| entry["manager"] == name);
    entry.map_or_else(Fields::default, |entry| Fields::parse(&entry["fieldsV1"]).expect("our own"))
}

/// The fields that the same configuration claims when nobody else is there.
fn claimed(config: &Value) -> Fields {
    fields(&forced(None, config, "alone", 0), "alone")
}

/// A merge patch that turns one value into the other.
fn merge_difference(from: &Value, to: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (from, to) else { return to.clone() };
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new.iter().filter(|(key, value)| old.get(*key) != Some(value)) {
        let change = old.get(key).map_or_else(|| value.clone(), |old| merge_difference(old, value));
        patch.insert(key.clone(), change);
    }
    Value::Object(patch)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    // K-PATCH-2
    #[test]
    fn merge_patch_of_a_difference_gives_the_other(a in object(), b in object()) {
        prop_assert_eq!(merge::merge(&a, &merge_difference(&a, &b)), Ok(b));
    }

    // K-SMP-1
    #[test]
    fn an_empty_strategic_patch_changes_nothing(a in object()) {
        prop_assert_eq!(strategic::strategic(&shape(), &a, &json!({})), Ok(a));
    }

    // K-SMP-1 K-SMP-3
    #[test]
    fn a_strategic_patch_without_directives_is_idempotent(a in object(), patch in object()) {
        let once = strategic::strategic(&shape(), &a, &patch).expect("valid");
        prop_assert_eq!(strategic::strategic(&shape(), &once, &patch), Ok(once));
    }

    // K-SSA-3
    #[test]
    fn field_sets_survive_being_written_and_read(a in object()) {
        let set = claimed(&a);
        prop_assert_eq!(Fields::parse(&set.clone().into_value()), Some(set));
    }

    // K-SSA-3
    #[test]
    fn field_sets_obey_set_algebra(a in object(), b in object()) {
        let (a, b) = (claimed(&a), claimed(&b));
        let mut union = a.clone();
        union.unite(&b);
        prop_assert!(union.contains(&a) && union.contains(&b));
        let common = a.intersection(&b);
        prop_assert!(a.contains(&common) && b.contains(&common));
        let mut rest = a.clone();
        rest.subtract(&b);
        prop_assert!(rest.intersection(&b).is_empty());
        rest.unite(&common);
        prop_assert_eq!(rest, a);
    }

    // K-SSA-10
    #[test]
    fn applying_twice_is_applying_once(live in object(), config in object()) {
        let mut stored = live.clone();
        updated(&shape(), None, &mut stored, &manager("creator", 0));
        let once = forced(Some(&stored), &config, "me", 1);
        prop_assert_eq!(forced(Some(&once), &config, "me", 2), once);
    }

    // K-SSA-4
    #[test]
    fn a_forced_apply_gets_its_values_and_owns_them(live in object(), config in object()) {
        let mut stored = live.clone();
        updated(&shape(), None, &mut stored, &manager("creator", 0));
        let after = forced(Some(&stored), &config, "me", 1);
        prop_assert_eq!(fields(&after, "me"), claimed(&config));
        // Whoever applies the same to the result finds it done already.
        let again = forced(Some(&after), &config, "witness", 2);
        prop_assert_eq!(&again["spec"], &after["spec"]);
    }

    // K-SSA-4
    #[test]
    fn fields_are_shared_only_at_equal_values(a in object(), b in object()) {
        let first = forced(None, &a, "one", 0);
        let second = forced(Some(&first), &b, "two", 1);
        let shared = fields(&second, "one").intersection(&fields(&second, "two"));
        prop_assert!(claimed(&a).contains(&shared) && claimed(&b).contains(&shared));
        // Without force the same apply is refused exactly if it takes something away.
        let unforced = apply(&shape(), Some(&first), &b, &manager("two", 1), false);
        prop_assert_eq!(unforced.is_ok(), fields(&second, "one") == fields(&first, "one"));
    }

    // K-SSA-4
    #[test]
    fn dropped_fields_go_unless_others_own_them(a in object(), b in object()) {
        let first = forced(None, &a, "one", 0);
        let second = forced(Some(&first), &b, "two", 1);
        let nothing = json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "t"}});
        let after = forced(Some(&second), &nothing, "one", 2);
        prop_assert!(fields(&after, "one").is_empty());
        prop_assert_eq!(fields(&after, "two"), fields(&second, "two"));
        let alone = forced(None, &b, "two", 1);
        prop_assert_eq!(sorted(after["spec"].clone()), sorted(alone.get("spec").cloned().unwrap_or(Value::Null)));
    }

    // K-SSA-5
    #[test]
    fn after_an_update_every_field_has_an_owner(a in object(), b in object()) {
        let mut old = a.clone();
        updated(&shape(), None, &mut old, &manager("one", 0));
        let mut new = b.clone();
        new["metadata"]["managedFields"] = old["metadata"]["managedFields"].clone();
        updated(&shape(), Some(&old), &mut new, &manager("two", 1));
        let mut owned = fields(&new, "one");
        prop_assert!(owned.intersection(&fields(&new, "two")).is_empty());
        owned.unite(&fields(&new, "two"));
        prop_assert!(owned.contains(&claimed(&b)));
    }
}

/// Lists in the order of their text, for comparing what is there and not where; an empty object is as good as none.
fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(fields) if fields.is_empty() => Value::Null,
        Value::Object(fields) => Value::Object(fields.into_iter().map(|(key, value)| (key, sorted(value))).collect()),
        scalar => scalar,
    }
}
