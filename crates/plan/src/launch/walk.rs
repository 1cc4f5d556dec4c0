//! Finds pods in any manifest, whatever its kind: by shape, not by schema.
//!
//! A pod template is an object with a `spec` that has `containers`; a pod's spec is an object with a list of containers
//! of some sort. Volcano's tasks, Kubeflow's replicas, JobSets and Ray clusters are all found that way.

use super::layers::joined;
use serde_json::Value;

/// A manifest nested deeper than this is no manifest.
const DEPTH_MAX: usize = 40;
const LISTS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// Replica types and task names that lead; the first pod template does where there are none.
const LEADERS: [&str; 4] = ["master", "chief", "launcher", "head"];

/// A place in a manifest: as a JSON pointer, and as a path for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub pointer: String,
    pub path: String,
}

/// A pod template, what its pods are called in their job, and how many there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    pub place: Place,
    /// The task's or replica type's name; empty where there is only one sort of pod.
    pub role: String,
    pub replicas: u64,
    /// Its first pod speaks for the job.
    pub leads: bool,
}

/// All pod templates, the leading one marked, in the manifest's order.
pub fn templates(manifest: &Value) -> Vec<Template> {
    let mut found = Vec::new();
    let root = Place { pointer: String::new(), path: String::new() };
    gather(manifest, root, &Above { role: "", replicas: None }, 0, &mut found);
    let leader = LEADERS.iter().find_map(|name| found.iter().position(|found| found.role.eq_ignore_ascii_case(name)));
    if let Some(template) = found.get_mut(leader.unwrap_or(0)) {
        template.leads = true;
    }
    found
}

/// What the objects around a template say of it.
struct Above<'a> {
    role: &'a str,
    replicas: Option<u64>,
}

fn gather(value: &Value, place: Place, above: &Above<'_>, depth: usize, found: &mut Vec<Template>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            if value.get("spec").is_some_and(has_containers) {
                let (role, replicas) = (above.role.to_owned(), above.replicas.unwrap_or(1));
                found.push(Template { place: place.clone(), role, replicas, leads: false });
            }
            for (key, member) in members.iter().filter(|(key, _)| !is_skipped(key)) {
                let is_named_part = member.get("template").is_some();
                let role = if is_named_part { role_of(key, member, above.role) } else { above.role };
                let replicas = above.times(member);
                gather(member, below(&place, key), &Above { role, replicas }, depth + 1, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let role = item.get("name").and_then(Value::as_str).unwrap_or(above.role);
                let replicas = above.times(item);
                gather(item, item_of(&place, index), &Above { role, replicas }, depth + 1, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// A part's own name, or the key that it stands under; `spec` and `template` are no names.
fn role_of<'a>(key: &'a str, member: &'a Value, above: &'a str) -> &'a str {
    match member.get("name").and_then(Value::as_str) {
        Some(name) => name,
        None if matches!(key, "spec" | "template" | "jobTemplate") => above,
        None => key,
    }
}

impl Above<'_> {
    /// A part's own number, as often as the part around it is there (a JobSet has both).
    fn times(&self, part: &Value) -> Option<u64> {
        match replicas_of(part) {
            Some(own) => Some(own.saturating_mul(self.replicas.unwrap_or(1))),
            None => self.replicas,
        }
    }
}

fn replicas_of(part: &Value) -> Option<u64> {
    let number = |key: &str| part.get(key).and_then(Value::as_u64);
    number("replicas").or_else(|| number("parallelism")).or_else(|| number("numNodes"))
}

/// Everything with a list of containers.
pub fn pod_specs(manifest: &Value) -> Vec<Place> {
    let mut found = Vec::new();
    gather_specs(manifest, Place { pointer: String::new(), path: String::new() }, 0, &mut found);
    found
}

fn gather_specs(value: &Value, place: Place, depth: usize, found: &mut Vec<Place>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(members) => {
            if LISTS.iter().any(|list| is_container_list(value.get(*list))) {
                found.push(place.clone());
            }
            for (key, member) in members.iter().filter(|(key, _)| !is_skipped(key)) {
                gather_specs(member, below(&place, key), depth + 1, found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                gather_specs(item, item_of(&place, index), depth + 1, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// Nothing below these is a pod, and lists of containers hold no further pods.
fn is_skipped(key: &str) -> bool {
    key == "status" || key == "metadata" || LISTS.contains(&key)
}

fn has_containers(spec: &Value) -> bool {
    is_container_list(spec.get("containers"))
}

/// A list of something else may be called `containers` too.
fn is_container_list(list: Option<&Value>) -> bool {
    list.and_then(Value::as_array).is_some_and(|items| items.iter().all(Value::is_object))
}

/// Every list of containers of a pod's spec, to be changed.
pub fn containers_mut<'a>(spec: &'a mut Value, lists: &[&str]) -> Vec<&'a mut Value> {
    let Some(members) = spec.as_object_mut() else { return Vec::new() };
    let wanted = members.iter_mut().filter(|(key, _)| lists.contains(&key.as_str()));
    wanted.filter_map(|(_, list)| list.as_array_mut()).flatten().filter(|item| item.is_object()).collect()
}

/// All three sorts of containers.
pub const ALL_LISTS: [&str; 3] = LISTS;

fn below(place: &Place, key: &str) -> Place {
    let escaped = key.replace('~', "~0").replace('/', "~1");
    Place { pointer: format!("{}/{escaped}", place.pointer), path: joined(&place.path, key) }
}

fn item_of(place: &Place, index: usize) -> Place {
    Place { pointer: format!("{}/{index}", place.pointer), path: format!("{}[{index}]", place.path) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pods(manifest: &Value) -> Vec<(String, String, u64, bool)> {
        templates(manifest).into_iter().map(|t| (t.place.path, t.role, t.replicas, t.leads)).collect()
    }

    fn pod() -> Value {
        json!({"spec": {"containers": [{"name": "a"}]}})
    }

    // K-30, K-31, K-33
    #[test]
    fn pods_are_found_in_any_kind() {
        assert_eq!(
            pods(&json!({"spec": {"template": pod(), "parallelism": 2}})),
            [("spec.template".into(), String::new(), 2, true)]
        );
        let volcano = json!({"spec": {"tasks": [
            {"name": "worker", "replicas": 3, "template": pod()}, {"name": "master", "template": pod()}]}});
        assert_eq!(
            pods(&volcano),
            [
                ("spec.tasks[0].template".into(), "worker".into(), 3, false),
                ("spec.tasks[1].template".into(), "master".into(), 1, true)
            ]
        );
        let kubeflow = json!({"spec": {"pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "template": pod()}, "Worker": {"replicas": 2, "template": pod()}}}});
        assert_eq!(
            pods(&kubeflow).into_iter().map(|(_, role, replicas, leads)| (role, replicas, leads)).collect::<Vec<_>>(),
            [("Master".to_owned(), 1, true), ("Worker".to_owned(), 2, false)]
        );
        let set = json!({"spec": {"replicatedJobs": [{"name": "w", "replicas": 2,
            "template": {"spec": {"parallelism": 4, "template": pod()}}}]}});
        assert_eq!(pods(&set), [("spec.replicatedJobs[0].template.spec.template".into(), "w".into(), 8, true)]);
        let mut bare = pod();
        bare["kind"] = json!("Pod");
        assert_eq!(pods(&bare), [(String::new(), String::new(), 1, true)]);
    }

    // K-32, K-34
    #[test]
    fn what_only_looks_like_a_pod_is_passed_over() {
        let manifest = json!({"status": pod(), "metadata": pod(), "data": {"spec": {"containers": ["a", "b"]}},
            "x": {"initContainers": [{}]}, "y/z": {"ephemeralContainers": [{}]}});
        assert!(templates(&manifest).is_empty());
        let paths: Vec<_> = pod_specs(&manifest).into_iter().map(|place| (place.pointer, place.path)).collect();
        assert_eq!(paths, [("/x".to_owned(), "x".to_owned()), ("/y~1z".to_owned(), "y/z".to_owned())]);
        let mut deep = pod();
        for _ in 0..100 {
            deep = json!({"a": deep});
        }
        assert!(templates(&deep).is_empty());
    }
}
