//! Objects that stand beside a launch's workload: made before it, found by label, gone with it.

use super::environment::{Given, json_text};
use super::kubernetes::{put_labels, unwrapped};
use super::macros::Macros;
use super::names::label as label_value;
use super::order::{Order, Service, Station};
use super::safety::{self, Judge};
use super::secrets::{env_entry, labels};
use super::{Refusal, defaults, label, walk};
use serde_json::{Map, Value, json};
use volley_api::kube::{at, text};

/// A service that is not ready after this fails the launch.
const WAIT_SECONDS: u64 = 300;
const NAME_MAX: usize = 63;

/// One object beside the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Auxiliary {
    pub manifest: Value,
    /// How long its readiness is waited for; not at all if the service says so.
    pub wait_seconds: Option<u64>,
}

pub fn render(
    order: &Order,
    station: &Station,
    macros: &Macros,
    namespace: &str,
) -> Result<Vec<Auxiliary>, Vec<Refusal>> {
    let (mut made, mut refusals) = (Vec::new(), Vec::new());
    for service in &order.spec.services {
        // A service is part of the launch's spec, so all of it is the submitter's.
        let config = macros.expand(&unwrapped(&service.config, None), &mut Vec::new());
        let judge = Judge { admin: station.policy, submitter: station.submitter_policy, queue: None };
        refusals.extend(safety::check(&config, &judge));
        match auxiliary(service, config, order, station, namespace) {
            Ok(auxiliary) => made.push(auxiliary),
            Err(refusal) => refusals.push(refusal),
        }
    }
    if refusals.is_empty() { Ok(made) } else { Err(refusals) }
}

fn auxiliary(
    service: &Service,
    config: Value,
    order: &Order,
    station: &Station,
    namespace: &str,
) -> Result<Auxiliary, Refusal> {
    let waits = config.get("wait_for_ready").is_none_or(safety::is_truthy);
    let seconds = config.get("wait_timeout").and_then(Value::as_u64).unwrap_or(WAIT_SECONDS);
    let mut manifest = config;
    if let Some(members) = manifest.as_object_mut() {
        members.retain(|key, _| !matches!(key.as_str(), "wait_for_ready" | "wait_timeout" | "namespace"));
    }
    for key in ["apiVersion", "kind"] {
        if text(&manifest, key).is_empty() {
            let what = format!("service `{}` has no `{key}`", service.name);
            return Err(Refusal::new("K-60", "additional_services", what, "give its whole manifest"));
        }
    }
    if let Some(refusal) = safety::check_beside(text(&manifest, "apiVersion"), text(&manifest, "kind")) {
        return Err(refusal);
    }
    safe_names(&mut manifest, service)?;
    if text(&manifest, "metadata.name").is_empty() {
        let name = sanitised(&service.name).ok_or_else(|| nameless(service))?;
        manifest["metadata"]["name"] = json!(format!("{name}-{}", order.key));
    }
    manifest["metadata"]["namespace"] = json!(namespace);
    give(&mut manifest, order);
    defaults::security(&mut manifest);
    mark(&mut manifest, order, station);
    Ok(Auxiliary { manifest, wait_seconds: waits.then_some(seconds) })
}

fn nameless(service: &Service) -> Refusal {
    let what = format!("nothing of the name `{}` is left as an object's name", service.name);
    Refusal::new("K-62", "additional_services", what, "use letters and digits")
}

fn give(manifest: &mut Value, order: &Order) {
    let config = Given::Text(json_text(&order.spec.overrides.run_config));
    for place in walk::pod_specs(manifest) {
        let Some(spec) = manifest.pointer_mut(&place.pointer) else { continue };
        for container in walk::containers_mut(spec, &["containers"]) {
            for (name, value) in [("WANDB_CONFIG", &config), ("WANDB_API_KEY", &Given::ApiKey)] {
                super::identity::push(container, "env", env_entry(name, value, order));
            }
        }
    }
}

fn mark(manifest: &mut Value, order: &Order, station: &Station) {
    let mut wanted: Map<String, Value> = labels(order, station);
    let group = format!("aux-{}-{}-{}", order.spec.entity, order.spec.project, order.run_id);
    wanted.insert(label::AUXILIARY.to_owned(), json!(label_value(&group)));
    for template in walk::templates(manifest).into_iter().filter(|template| !template.place.pointer.is_empty()) {
        if let Some(pod) = manifest.pointer_mut(&template.place.pointer) {
            put_labels(pod, &wanted);
        }
    }
    put_labels(manifest, &wanted);
}

/// Lower-case letters, digits and single dashes; nothing if nothing is left.
fn sanitised(name: &str) -> Option<String> {
    let kept = name.replace('_', "-").to_lowercase();
    let kept: String = kept.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-').collect();
    let name = super::names::dns(&kept, NAME_MAX);
    (!name.is_empty()).then_some(name)
}

/// Every text under a key `name` is made a name, but labels and selectors are left alone (K-62).
fn safe_names(value: &mut Value, service: &Service) -> Result<(), Refusal> {
    match value {
        Value::Object(members) => {
            for (key, member) in members.iter_mut() {
                match (key.as_str(), &*member) {
                    ("labels" | "matchLabels" | "selector" | "annotations" | "env", _) => (),
                    ("name", Value::String(name)) => {
                        *member = json!(sanitised(name).ok_or_else(|| nameless(service))?);
                    }
                    _ => safe_names(member, service)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| safe_names(item, service)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Whether an object that was made is ready (K-61); `endpoints` counts the ready addresses behind a Service.
pub fn is_ready(object: &Value, endpoints: usize, age_seconds: i64) -> bool {
    /// Whatever has no readiness of its own is given this long.
    const PATIENCE_SECONDS: i64 = 5;
    match text(object, "kind") {
        "Deployment" | "StatefulSet" | "ReplicaSet" => {
            let number = |path: &str| at(object, path).and_then(Value::as_i64);
            number("status.readyReplicas").unwrap_or(0) >= number("spec.replicas").unwrap_or(1)
        }
        "Service" => endpoints > 0,
        "Pod" => {
            let statuses = at(object, "status.containerStatuses").and_then(Value::as_array);
            let all_ready = statuses.is_some_and(|all| all.iter().all(|status| status["ready"] == true));
            text(object, "status.phase") == "Running" && all_ready
        }
        _ => age_seconds >= PATIENCE_SECONDS,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{order, station};
    use super::super::kubernetes::macros;
    use super::*;

    fn rendered(service: Value) -> Result<Vec<Auxiliary>, Vec<Refusal>> {
        let mut order = order(json!({}));
        order.spec.services = vec![Service { name: "My_DB".into(), config: service }];
        let macros = macros(&order, &station());
        render(&order, &station(), &macros, "wandb")
    }

    // K-60, K-62, K-63
    #[test]
    fn a_service_is_named_labelled_and_secured() {
        let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "DB_${run_id}!"},
            "wait_timeout": 7, "spec": {"selector": {"matchLabels": {"name": "DB_1"}}, "template": {
            "metadata": {"labels": {"name": "DB_1"}}, "spec": {"containers": [{"name": "Red_Is", "image": "redis"}]}}}});
        let made = rendered(config).unwrap().remove(0);
        let manifest = made.manifest;
        assert_eq!(made.wait_seconds, Some(7));
        assert_eq!(manifest["metadata"]["name"], "db-ab12cd34");
        assert_eq!(manifest["metadata"]["namespace"], "wandb");
        assert_eq!(manifest["metadata"]["labels"]["wandb.ai/auxiliary-resource"], "aux-team-proj_1-ab12cd34");
        assert_eq!(manifest["metadata"]["labels"]["wandb.ai/created-by"], "launch-agent");
        let pod = &manifest["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"]["wandb.ai/run-id"], "ab12cd34");
        assert_eq!(pod["metadata"]["labels"]["name"], "DB_1");
        assert_eq!(manifest["spec"]["selector"]["matchLabels"]["name"], "DB_1");
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["name"], "red-is");
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(container["env"][1]["valueFrom"]["secretKeyRef"]["key"], "password");
        assert!(manifest.get("wait_timeout").is_none());
    }

    // K-60, K-62
    #[test]
    fn a_service_is_judged_as_its_submitters() {
        let pod = |spec: Value| json!({"apiVersion": "v1", "kind": "Pod", "spec": spec, "wait_for_ready": false});
        let made = rendered(pod(json!({"containers": [{"image": "a"}]}))).unwrap().remove(0);
        assert_eq!(made.wait_seconds, None);
        assert!(made.manifest["metadata"]["name"].as_str().unwrap().starts_with("my-db-"));
        assert_eq!(rendered(pod(json!({"hostNetwork": true}))).unwrap_err()[0].rule, "K-2");
        assert_eq!(rendered(json!({"kind": "Pod"})).unwrap_err()[0].rule, "K-60");
        let nameless = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "한글"}});
        assert_eq!(rendered(nameless).unwrap_err()[0].rule, "K-62");
    }

    // K-61
    #[test]
    fn readiness_is_judged_by_kind() {
        let deployment = json!({"kind": "Deployment", "spec": {"replicas": 2}, "status": {"readyReplicas": 1}});
        assert!(!is_ready(&deployment, 0, 100));
        assert!(is_ready(&json!({"kind": "Deployment", "status": {"readyReplicas": 1}}), 0, 0));
        assert!(is_ready(&json!({"kind": "Service"}), 1, 0) && !is_ready(&json!({"kind": "Service"}), 0, 100));
        let pod =
            |ready| json!({"kind": "Pod", "status": {"phase": "Running", "containerStatuses": [{"ready": ready}]}});
        assert!(is_ready(&pod(true), 0, 0) && !is_ready(&pod(false), 0, 100));
        assert!(!is_ready(&json!({"kind": "ConfigMap"}), 0, 4) && is_ready(&json!({"kind": "ConfigMap"}), 0, 5));
    }
}
