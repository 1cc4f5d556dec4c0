//! The namespace controller: empties a namespace that is being deleted, says what holds it up, then lets it go.
//!
//! Pods go first and everything else after the last of them, so that what pods need to end well is still there.

use super::{Action, Plan, Target, wire_time};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition, NamespaceStatus};
use serde_json::json;
use std::collections::BTreeMap;

const FINALIZER: &str = "kubernetes";
/// How long to wait for content to end before looking again, should no change be seen.
const WAIT_SECONDS: i64 = 5;

/// One object of the namespace, of any kind.
#[derive(Debug, Clone)]
pub struct Content {
    pub target: Target,
    pub group: String,
    /// The plural, as in paths.
    pub resource: String,
    pub finalizers: Vec<String>,
    pub is_deleting: bool,
}

/// A namespace and, if it is being deleted, everything in it.
#[derive(Debug)]
pub struct Observed<'a> {
    pub namespace: &'a Namespace,
    pub contents: &'a [Content],
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let namespace = seen.namespace;
    if namespace.metadata.deletion_timestamp.is_none() {
        return plan;
    }
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default();
    let old = namespace.status.clone().unwrap_or_default();
    let mut status = NamespaceStatus { phase: Some("Terminating".to_owned()), ..old };
    if seen.contents.is_empty() {
        plan.status(namespace, namespace.status.as_ref(), &status);
        if finalizers.iter().any(|name| name == FINALIZER) {
            let kept: Vec<&String> = finalizers.iter().filter(|name| *name != FINALIZER).collect();
            let patch = json!({ "spec": { "finalizers": kept } });
            plan.actions.push(Action::Finalize { target: Target::of(namespace), patch });
        }
        return plan;
    }
    let is_pod = |content: &&Content| content.resource == "pods" && content.group.is_empty();
    let has_pods = seen.contents.iter().any(|content| is_pod(&content));
    for content in seen.contents.iter().filter(|content| !has_pods || is_pod(content)) {
        if !content.is_deleting {
            plan.delete(content.target.clone());
        }
    }
    for (kind, said) in remaining(seen.contents) {
        set(&mut status, kind, said, now);
    }
    plan.status(namespace, namespace.status.as_ref(), &status);
    plan.requeue(WAIT_SECONDS);
    plan
}

struct Said {
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// The conditions that upstream keeps on a namespace that is slow to go, in its order (K-NS-4).
fn remaining(contents: &[Content]) -> [(&'static str, Said); 5] {
    let mut resources: BTreeMap<String, usize> = BTreeMap::new();
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for content in contents {
        *resources.entry(format!("{}.{}", content.resource, content.group)).or_default() += 1;
        for finalizer in &content.finalizers {
            *finalizers.entry(finalizer).or_default() += 1;
        }
    }
    let fine = |reason, message: &str| Said { status: "False", reason, message: message.to_owned() };
    let listed: Vec<String> =
        resources.iter().map(|(name, count)| format!("{name} has {count} resource instances")).collect();
    let content = Said {
        status: "True",
        reason: "SomeResourcesRemain",
        message: format!("Some resources are remaining: {}", listed.join(", ")),
    };
    let listed: Vec<String> =
        finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")).collect();
    let held = if listed.is_empty() {
        fine("ContentHasNoFinalizers", "All content-preserving finalizers finished")
    } else {
        let message = format!("Some content in the namespace has finalizers remaining: {}", listed.join(", "));
        Said { status: "True", reason: "SomeFinalizersRemain", message }
    };
    [
        ("NamespaceDeletionDiscoveryFailure", fine("ResourcesDiscovered", "All resources successfully discovered")),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            fine("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        (
            "NamespaceDeletionContentFailure",
            fine("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        ("NamespaceContentRemaining", content),
        ("NamespaceFinalizersRemaining", held),
    ]
}

fn set(status: &mut NamespaceStatus, kind: &str, said: Said, now: Timestamp) {
    let conditions = status.conditions.get_or_insert_default();
    let known = conditions.iter().position(|condition| condition.type_ == kind);
    let same_status = known.filter(|at| conditions[*at].status == said.status);
    let since = same_status.and_then(|at| conditions[at].last_transition_time.clone());
    let condition = NamespaceCondition {
        type_: kind.to_owned(),
        status: said.status.to_owned(),
        reason: Some(said.reason.to_owned()),
        message: Some(said.message),
        last_transition_time: Some(since.unwrap_or_else(|| wire_time(now))),
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;
    use serde_json::Value;

    fn world() -> World {
        let mut world = World::default();
        world.add(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"},
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}));
        for (kind, name) in [("Pod", "p"), ("Pod", "q"), ("ConfigMap", "c")] {
            world.add(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}));
        }
        world
    }

    fn contents(world: &World) -> Vec<Content> {
        let content = |((kind, name), object): (&(String, String), &Value)| Content {
            target: Target {
                api_version: "v1".into(),
                kind: kind.clone(),
                namespace: Some("n".into()),
                name: name.clone(),
                uid: String::new(),
            },
            group: String::new(),
            resource: format!("{}s", kind.to_lowercase()),
            finalizers: serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default(),
            is_deleting: !object["metadata"]["deletionTimestamp"].is_null(),
        };
        world.objects.iter().filter(|((kind, _), _)| kind != "Namespace").map(content).collect()
    }

    fn planned(world: &World) -> Plan {
        plan(&Observed { namespace: &world.get("n"), contents: &contents(world) }, world.now())
    }

    fn delete(world: &mut World) {
        world.edit(
            "Namespace",
            "n",
            json!({"metadata": {"deletionTimestamp": world.now().to_string(), "finalizers": ["x"]}}),
        );
    }

    // K-NS-1
    #[test]
    fn a_living_namespace_is_left_alone() {
        assert_eq!(planned(&world()), Plan::default());
    }

    // K-NS-1
    #[test]
    fn pods_go_first_then_the_rest_then_the_finalizer() {
        let mut world = world();
        delete(&mut world);
        let first = planned(&world);
        let deleted: Vec<&str> = first
            .actions
            .iter()
            .filter_map(
                |action| if let Action::Delete { target, .. } = action { Some(target.name.as_str()) } else { None },
            )
            .collect();
        assert_eq!(deleted, ["p", "q"]);
        world.settle(planned);
        assert_eq!(world.raw("Namespace", "n")["spec"]["finalizers"], json!([]));
        assert_eq!(world.raw("Namespace", "n")["status"]["phase"], "Terminating");
        assert_eq!(world.objects.len(), 1);
    }

    // K-NS-4
    #[test]
    fn what_holds_a_namespace_up_is_counted() {
        let mut world = world();
        world.edit("ConfigMap", "c", json!({"metadata": {"finalizers": ["example.com/held"]}}));
        delete(&mut world);
        world.settle(planned);
        let conditions = world.raw("Namespace", "n")["status"]["conditions"].as_array().unwrap();
        let messages: Vec<_> = conditions.iter().map(|condition| condition["message"].as_str().unwrap()).collect();
        assert_eq!(messages[3], "Some resources are remaining: configmaps. has 1 resource instances");
        assert_eq!(
            messages[4],
            "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances"
        );
        assert_eq!(world.raw("Namespace", "n")["spec"]["finalizers"], json!(["kubernetes"]));
    }
}
