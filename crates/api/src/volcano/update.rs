//! What may change in a Job (ADM-30 to ADM-32): how many, how important, and nothing else of its spec.

use super::types::job_spec;
use super::validate::{check_filled, check_numbers};
use crate::kube::field::FieldError;
use crate::kube::items_mut;
use crate::kube::validate::place::{Place, problems};
use serde_json::Value;
use std::collections::BTreeSet;

const FIXED: &str = "job updates may not change fields other than `minAvailable`, `tasks[*].replicas`, `tasks[*].minAvailable`, `priorityClassName` under spec";

/// Everything wrong with replacing `old` by `new`; their metadata and status are not looked at.
pub fn job_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let spec = match job_spec(new) {
        Ok(spec) => spec,
        Err(error) => return vec![error],
    };
    problems(&new["spec"], "spec", |place| {
        check_numbers(&spec, place);
        for (task, place) in spec.tasks.iter().zip(place.items("tasks")) {
            check_filled(task, &place);
        }
        check_fixed(place, &old["spec"]);
    })
}

fn check_fixed(place: &Place, old: &Value) {
    let tasks = old["tasks"].as_array().map_or(0, Vec::len);
    if place.list("tasks").len() != tasks {
        place.forbidden("tasks", "job updates may not add or remove tasks");
        return;
    }
    let (new, old) = (fixed_part(place.value), fixed_part(old));
    let keys = new.as_object().into_iter().chain(old.as_object()).flat_map(|map| map.keys());
    let changed: BTreeSet<&String> = keys.filter(|key| new.get(key) != old.get(key)).collect();
    changed.iter().for_each(|key| place.forbidden(key, FIXED));
}

/// The spec without what may change and without what means the same as nothing.
fn fixed_part(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let drop = |value: &mut Value, keys: &[&str]| {
        if let Some(map) = value.as_object_mut() {
            keys.iter().for_each(|key| drop(map.remove(*key)));
        }
    };
    drop(&mut spec, &["minAvailable", "priorityClassName"]);
    items_mut(&mut spec, "tasks").for_each(|task| drop(task, &["replicas", "minAvailable"]));
    for volume in items_mut(&mut spec, "volumes").filter(|volume| !volume["volumeClaim"].is_null()) {
        drop(volume, &["volumeClaimName"]);
    }
    without_empty(&mut spec);
    spec
}

fn without_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(without_empty);
            map.retain(|_, value| !(value.is_null() || *value == "" || value.as_array().is_some_and(Vec::is_empty)));
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job() -> Value {
        json!({"spec": {"minAvailable": 1, "queue": "default", "plugins": {"svc": []}, "tasks": [{"name": "a", "replicas": 2}],
            "volumes": [{"mountPath": "/d", "volumeClaim": {}}, {"mountPath": "/e", "volumeClaimName": "x"}]}})
    }

    // ADM-30, ADM-31, ADM-32
    #[test]
    fn only_numbers_and_importance_may_change() {
        let check = |patch: &[(&str, Value)], expected: &[&str]| {
            let mut new = job();
            for (pointer, value) in patch {
                *new.pointer_mut(pointer).unwrap() = value.clone();
            }
            let texts: Vec<String> = job_update(&new, &job()).iter().map(ToString::to_string).collect();
            assert_eq!(texts.len(), expected.len(), "{texts:?}");
            texts.iter().zip(expected).for_each(|(text, part)| assert!(text.contains(part), "{text}: {part}"));
        };
        check(&[], &[]);
        check(&[("/spec/minAvailable", json!(5)), ("/spec/tasks/0/replicas", json!(5))], &[]);
        check(&[("/spec/volumes/0", json!({"mountPath": "/d", "volumeClaim": {}, "volumeClaimName": "made"}))], &[]);
        check(
            &[("/spec/tasks/0/replicas", json!(0))],
            &["spec.minAvailable: Invalid value: 1: job 'minAvailable' should not"],
        );
        check(&[("/spec/tasks/0/replicas", json!(-1))], &["spec.minAvailable", "spec.tasks[0].replicas"]);
        check(
            &[("/spec/queue", json!("q")), ("/spec/tasks/0/name", json!("b"))],
            &["spec.queue: Forbidden: job updates may not", "spec.tasks"],
        );
        check(&[("/spec/volumes/1/volumeClaimName", json!("y"))], &["spec.volumes"]);
        check(&[("/spec/tasks", json!([]))], &["minAvailable", "job updates may not add or remove tasks"]);
    }

    // ADM-31
    #[test]
    fn a_partitioned_task_keeps_its_size() {
        let with = |replicas: i32| json!({"spec": {"tasks": [{"name": "a", "replicas": replicas, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}]}});
        assert_eq!(job_update(&with(4), &with(4)), []);
        assert_eq!(job_update(&with(6), &with(4)).len(), 1);
    }
}
