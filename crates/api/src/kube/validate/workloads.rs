//! Deployments, replica sets, stateful sets, daemon sets and their older relatives: selectors, strategies, updates.

use super::Rule;
use super::claim::claim_spec;
use super::label_selector::{check_selector, matches, selects_nothing_special};
use super::metadata::labels;
use super::path::Path;
use super::pod::pod_template;
use super::rollout::{check_daemon_strategy, check_deployment_strategy, check_stateful_strategy};
use super::rows::{Row, check, check_update as fixed, is_empty, items, named, number, same, set_at};
use crate::kube::field::FieldError;
use crate::kube::{at, names, text};
use serde_json::{Value, json};

pub const RULES: &[Rule] = &[
    Rule {
        group: "apps",
        kind: "Deployment",
        is_namespaced: true,
        create: check_deployment,
        update: check_deployment_update,
    },
    Rule {
        group: "apps",
        kind: "ReplicaSet",
        is_namespaced: true,
        create: check_replica_set,
        update: check_replica_set_update,
    },
    Rule {
        group: "apps",
        kind: "DaemonSet",
        is_namespaced: true,
        create: check_daemon_set,
        update: check_daemon_set_update,
    },
    Rule {
        group: "apps",
        kind: "StatefulSet",
        is_namespaced: true,
        create: check_stateful_set,
        update: check_stateful_set_update,
    },
    Rule {
        group: "apps",
        kind: "ControllerRevision",
        is_namespaced: true,
        create: check_controller_revision,
        update: check_controller_revision_update,
    },
    Rule {
        group: "",
        kind: "ReplicationController",
        is_namespaced: true,
        create: check_replication_controller,
        update: |new, _| check_replication_controller(new),
    },
];

const SELECTOR_FIXED: &[Row] = &[Row::Fixed("selector")];

pub fn check_deployment(deployment: &Value) -> Vec<FieldError> {
    const ROWS: &[Row] = &[
        Row::NotNegative("replicas"),
        Row::NotNegative("minReadySeconds"),
        Row::NotNegative("revisionHistoryLimit"),
        Row::NotNegative("progressDeadlineSeconds"),
    ];
    let spec = &deployment["spec"];
    let mut errors = check(spec, "spec", ROWS);
    errors.extend(check_selector_field(spec, "deployment"));
    errors.extend(check_template(spec, "ReplicaSet"));
    errors.extend(check_deployment_strategy(&spec["strategy"], "spec.strategy"));
    let deadline = number(spec, "progressDeadlineSeconds");
    if let Some(deadline) = deadline.filter(|seconds| *seconds <= number(spec, "minReadySeconds").unwrap_or(0)) {
        let detail = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid("spec.progressDeadlineSeconds", deadline, detail));
    }
    errors
}

pub fn check_deployment_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_deployment(new);
    errors.extend(fixed(&new["spec"], &old["spec"], "spec", SELECTOR_FIXED));
    errors
}

pub fn check_replica_set(replica_set: &Value) -> Vec<FieldError> {
    let spec = &replica_set["spec"];
    let mut errors = check(spec, "spec", &[Row::NotNegative("replicas"), Row::NotNegative("minReadySeconds")]);
    errors.extend(check_selector_field(spec, "deployment"));
    errors.extend(check_template(spec, "ReplicaSet"));
    errors
}

pub fn check_replica_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_replica_set(new);
    errors.extend(fixed(&new["spec"], &old["spec"], "spec", SELECTOR_FIXED));
    errors
}

pub fn check_daemon_set(daemon_set: &Value) -> Vec<FieldError> {
    let spec = &daemon_set["spec"];
    let rows = &[Row::NotNegative("minReadySeconds"), Row::NotNegative("revisionHistoryLimit")];
    let mut errors = check(spec, "spec", rows);
    // The reference does not ask for a selector here: an absent one simply matches no labels.
    if set_at(spec, "selector").is_some() {
        errors.extend(check_selector_field(spec, "daemonset"));
    }
    errors.extend(check_template(spec, "DaemonSet"));
    errors.extend(check_daemon_strategy(&spec["updateStrategy"], "spec.updateStrategy"));
    errors
}

pub fn check_daemon_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_daemon_set(new);
    errors.extend(fixed(&new["spec"], &old["spec"], "spec", SELECTOR_FIXED));
    errors
}

pub fn check_stateful_set(stateful_set: &Value) -> Vec<FieldError> {
    let spec = &stateful_set["spec"];
    let mut errors = check_stateful_spec(spec);
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        errors.extend(named(service, "spec.serviceName", names::dns_label));
    }
    let templates = Path::new("spec.volumeClaimTemplates");
    for (index, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
        claim_spec(&mut errors, &claim["spec"], &templates.index(index).field("spec"));
    }
    errors
}

fn check_stateful_spec(spec: &Value) -> Vec<FieldError> {
    const RETENTION: &[&str] = &["Retain", "Delete"];
    const ROWS: &[Row] = &[
        Row::NotNegative("replicas"),
        Row::NotNegative("minReadySeconds"),
        Row::NotNegative("ordinals.start"),
        Row::OneOf("persistentVolumeClaimRetentionPolicy.whenDeleted", RETENTION),
        Row::OneOf("persistentVolumeClaimRetentionPolicy.whenScaled", RETENTION),
    ];
    let mut errors = check(spec, "spec", ROWS);
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", policy, detail));
    }
    errors.extend(check_stateful_strategy(&spec["updateStrategy"], "spec.updateStrategy"));
    errors.extend(check_selector_field(spec, "statefulset"));
    errors.extend(check_template(&with_claim_volumes(spec), "StatefulSet"));
    errors
}

/// The spec as its pods will have it: claims stand in for volumes, and the controller sets the host name.
fn with_claim_volumes(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let claims: Vec<String> =
        items(&spec, "volumeClaimTemplates").iter().map(|claim| text(claim, "metadata.name").to_owned()).collect();
    let Some(pod) = spec.pointer_mut("/template/spec").and_then(Value::as_object_mut) else { return spec };
    pod.remove("subdomain");
    pod.remove("hostname");
    if !claims.is_empty() {
        let own = pod.remove("volumes").and_then(|volumes| volumes.as_array().cloned()).unwrap_or_default();
        let own = own.into_iter().filter(|volume| !claims.iter().any(|claim| claim == text(volume, "name")));
        let from_claim = |name: &String| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
        // Own volumes go first, so that errors name them by the place where the user wrote them.
        let volumes: Vec<Value> = own.chain(claims.iter().map(from_claim)).collect();
        pod.insert("volumes".to_owned(), volumes.into());
    }
    spec
}

pub fn check_stateful_set_update(new: &Value, old: &Value) -> Vec<FieldError> {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let mut errors = check_stateful_spec(&new["spec"]);
    let rest = |set: &Value| {
        let mut spec = set["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            MUTABLE.iter().for_each(|key| drop(map.remove(*key)));
        }
        spec
    };
    if !same(Some(&rest(new)), Some(&rest(old))) {
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", detail));
    }
    errors
}

pub fn check_replication_controller(controller: &Value) -> Vec<FieldError> {
    let spec = &controller["spec"];
    let mut errors = check(spec, "spec", &[Row::NotNegative("replicas"), Row::NotNegative("minReadySeconds")]);
    if is_empty(spec.get("selector")) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    if set_at(spec, "template").is_none() {
        errors.push(FieldError::required("spec.template", ""));
        return errors;
    }
    labels(&mut errors, spec, "selector", &Path::new("spec"));
    let as_selector = json!({"template": spec["template"], "selector": {"matchLabels": spec["selector"]}});
    errors.extend(check_template(&as_selector, "ReplicationController"));
    errors
}

pub fn check_controller_revision(revision: &Value) -> Vec<FieldError> {
    let mut errors = check(revision, "", &[Row::NotNegative("revision")]);
    match set_at(revision, "data") {
        None => errors.push(FieldError::required("data", "data is mandatory")),
        Some(data) if !data.is_object() => {
            errors.push(FieldError::required("data", "data must be a valid JSON object"))
        }
        Some(_) => {}
    }
    errors
}

pub fn check_controller_revision_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check(new, "", &[Row::NotNegative("revision")]);
    errors.extend(fixed(new, old, "", &[Row::Fixed("data")]));
    errors
}

/// Checks `spec.selector`; `kind` is the word that the reference uses, which is not always the kind's own.
fn check_selector_field(spec: &Value, kind: &str) -> Vec<FieldError> {
    let Some(selector) = set_at(spec, "selector") else { return vec![FieldError::required("spec.selector", "")] };
    let mut errors = check_selector(Some(selector), "spec.selector");
    if !errors.is_empty() && kind == "deployment" {
        errors.push(FieldError::invalid("spec.selector", selector.clone(), "invalid label selector"));
    }
    if selects_nothing_special(selector) {
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid("spec.selector", selector.clone(), &detail));
    }
    errors
}

/// Checks the template of pods that run for ever, and that the selector finds them.
fn check_template(spec: &Value, kind: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let selector = set_at(spec, "selector");
    let labels = at(spec, "template.metadata.labels");
    let is_broken = kind == "ReplicaSet" && !check_selector(selector, "").is_empty();
    if !is_broken && selector.is_none_or(|selector| !matches(selector, labels)) {
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels.cloned().unwrap_or_default(), detail));
    }
    errors.extend(pod_template(&spec["template"], &Path::new("spec.template")));
    let policy = text(spec, "template.spec.restartPolicy");
    if policy != "Always" {
        errors.push(FieldError::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    if set_at(spec, "template.spec.activeDeadlineSeconds").is_some() {
        let detail = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", &detail));
    }
    errors
}
