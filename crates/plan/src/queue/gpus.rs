//! How many GPUs a submitted run spec asks for, for quotas and statistics.
//!
//! Manifests are walked without knowing their kind: containers have `resources`, and whatever says how many of itself
//! there are (`replicas` of a task or a role, `parallelism` of a Job) multiplies what is below it.

use serde_json::{Map, Value};

/// Deeper than any manifest; what is below counts nothing.
const DEPTH_MAX: usize = 32;

pub fn asked(spec: &Value) -> i64 {
    let Some(arguments) = spec.get("resource_args").and_then(Value::as_object) else {
        return 0;
    };
    arguments.values().map(|config| of_options(config).saturating_add(walk(config, 1, DEPTH_MAX))).sum()
}

/// `gpus` as Docker's option has it: a number, or `all`, which is at least one.
fn of_options(config: &Value) -> i64 {
    match config.get("gpus") {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0).max(0),
        Some(Value::String(text)) => text.parse().unwrap_or_else(|_| i64::from(!text.is_empty())),
        _ => 0,
    }
}

fn walk(value: &Value, times: i64, depth: usize) -> i64 {
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    match value {
        Value::Array(list) => list.iter().map(|one| walk(one, times, depth)).fold(0, i64::saturating_add),
        Value::Object(object) => {
            let times = times.saturating_mul(copies(object));
            let own = object.get("resources").map_or(0, of_container).saturating_mul(times);
            // Init containers run before the others and give back what they had.
            let below = object.iter().filter(|(key, _)| *key != "resources" && *key != "initContainers");
            below.map(|(_, one)| walk(one, times, depth)).fold(own, i64::saturating_add)
        }
        _ => 0,
    }
}

fn copies(object: &Map<String, Value>) -> i64 {
    let number = |key: &str| object.get(key).and_then(Value::as_i64);
    number("replicas").or_else(|| number("parallelism")).unwrap_or(1).max(0)
}

/// A container's GPUs, of any vendor; a limit without a request is the request.
fn of_container(resources: &Value) -> i64 {
    let part = |part: &str| -> i64 {
        let Some(amounts) = resources.get(part).and_then(Value::as_object) else { return 0 };
        amounts.iter().filter(|(name, _)| name.ends_with("/gpu")).map(|(_, amount)| whole(amount)).sum()
    };
    part("limits").max(part("requests"))
}

fn whole(amount: &Value) -> i64 {
    let number = amount.as_i64().or_else(|| amount.as_str()?.parse().ok());
    number.unwrap_or(0).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(gpus: Value) -> Value {
        json!({"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]})
    }

    fn of(config: Value) -> i64 {
        asked(&json!({"resource": "kubernetes", "resource_args": {"kubernetes": config}}))
    }

    #[test]
    fn a_spec_without_manifest_asks_for_none() {
        assert_eq!(asked(&json!({})), 0);
        assert_eq!(of(json!({"spec": {"template": {"spec": {"containers": [{"name": "main"}]}}}})), 0);
    }

    #[test]
    fn a_job_asks_for_what_its_pods_ask_for_at_a_time() {
        let template = json!({"spec": container(json!(2))});
        assert_eq!(of(json!({"spec": {"parallelism": 3, "template": template}})), 6);
        assert_eq!(of(json!({"spec": {"template": {"spec": container(json!("4"))}}})), 4);
    }

    #[test]
    fn the_roles_of_a_training_job_add_up() {
        let role = |replicas: i64| json!({"replicas": replicas, "template": {"spec": container(json!(1))}});
        assert_eq!(of(json!({"spec": {"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(7)}}})), 8);
        let task = json!({"replicas": 4, "template": {"spec": container(json!(8))}});
        assert_eq!(of(json!({"spec": {"minAvailable": 4, "tasks": [task]}})), 32);
    }

    #[test]
    fn dockers_option_counts_and_init_containers_do_not() {
        assert_eq!(asked(&json!({"resource_args": {"local-container": {"gpus": "all"}}})), 1);
        assert_eq!(asked(&json!({"resource_args": {"local-container": {"gpus": 2}}})), 2);
        let init = json!([{"resources": {"limits": {"nvidia.com/gpu": 8}}}]);
        assert_eq!(of(json!({"spec": {"initContainers": init}})), 0);
    }

    #[test]
    fn nonsense_asks_for_none() {
        assert_eq!(of(json!({"spec": container(json!("many"))})), 0);
        assert_eq!(of(json!({"replicas": -3, "spec": container(json!(1))})), 0);
    }
}
