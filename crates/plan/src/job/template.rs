//! Pods made from a template, as JSON: fields that we do not know are carried along.
//!
//! `new_pod` copies the template; the rest are the edits that job kinds and plugins make to it.

use super::head::Head;
use serde_json::{Map, Value, json};
use volley_api::kube::items_mut;

/// A pod of the job with the template's spec, labels, annotations and finalizers.
pub fn new_pod(head: &Head, template: &Value, name: &str) -> Value {
    let mut metadata = head.owned(name);
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(given) = template["metadata"].get(key).filter(|value| !value.is_null()) {
            metadata[key] = given.clone();
        }
    }
    let spec = template.get("spec").filter(|spec| spec.is_object()).cloned();
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec.unwrap_or_else(|| json!({})) })
}

/// Sets a label (`labels`) or an annotation (`annotations`) of a new object.
pub fn set_mark(object: &mut Value, map: &str, key: &str, value: impl Into<String>) {
    let metadata = &mut object["metadata"];
    if !metadata[map].is_object() {
        metadata[map] = Value::Object(Map::new());
    }
    metadata[map][key] = Value::String(value.into());
}

pub fn containers(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    items_mut(pod, "spec.containers")
}

pub fn init_containers(pod: &mut Value) -> impl Iterator<Item = &mut Value> {
    items_mut(pod, "spec.initContainers")
}

/// Calls `edit` on every container, init containers first.
pub fn each_container(pod: &mut Value, edit: impl Fn(&mut Value)) {
    init_containers(pod).for_each(&edit);
    containers(pod).for_each(&edit);
}

/// Puts an item at the end of a list field, which is made if it is not there.
pub fn push(object: &mut Value, list: &str, item: Value) {
    if !object[list].is_array() {
        object[list] = json!([]);
    }
    if let Some(items) = object[list].as_array_mut() {
        items.push(item);
    }
}

/// Gives a container a variable; the user's own of that name is replaced, since the last one would win anyway.
pub fn set_variable(container: &mut Value, name: &str, value: impl Into<String>) {
    put_variable(container, json!({ "name": name, "value": value.into() }));
}

/// As `set_variable`, for a variable that is complete already (`valueFrom`).
pub fn put_variable(container: &mut Value, variable: Value) {
    if let Some(known) = items_mut(container, "env").find(|known| known["name"] == variable["name"]) {
        *known = variable;
        return;
    }
    push(container, "env", variable);
}

/// Names a port of a container, unless it lists that number already.
pub fn add_port(container: &mut Value, name: &str, port: i64) {
    let is_listed = items_mut(container, "ports").any(|known| known["containerPort"] == port);
    if !is_listed {
        push(container, "ports", json!({ "name": name, "containerPort": port }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_takes_the_place_of_the_users_and_a_port_is_listed_once() {
        let mut container =
            json!({"name": "c", "env": [{"name": "A", "valueFrom": {}}, {"name": "B", "value": "$(A)"}]});
        set_variable(&mut container, "A", "1");
        set_variable(&mut container, "C", "2");
        add_port(&mut container, "p", 80);
        add_port(&mut container, "q", 80);
        let env = json!([{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}, {"name": "C", "value": "2"}]);
        assert_eq!(container, json!({"name": "c", "env": env, "ports": [{"name": "p", "containerPort": 80}]}));
    }

    #[test]
    fn a_pod_keeps_every_field_of_its_template() {
        let job = json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "j", "namespace": "n", "uid": "u"}});
        let template =
            json!({"metadata": {"labels": {"a": "b"}, "name": "ignored"}, "spec": {"containers": [], "novel": 1}});
        let pod = new_pod(&Head::of(&job), &template, "j-0");
        assert_eq!(pod["spec"], template["spec"]);
        assert_eq!(pod["metadata"]["name"], "j-0");
        assert_eq!(pod["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "u");
    }
}
