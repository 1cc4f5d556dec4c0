//! Deployments, replica sets, stateful sets, daemon sets and their older relatives: selectors, strategies, updates.

use super::Rule;
use super::claim::claim_spec;
use super::compare::{is_empty, matches, same};
use super::metadata::{label_selector, labels};
use super::place::Place;
use super::pod::pod_template;
use super::rollout::{daemon_strategy, deployment_strategy, stateful_strategy};
use crate::kube::{names, text};
use serde_json::{Value, json};

const SELECTOR: &[&str] = &["spec.selector"];

pub(super) const RULES: &[Rule] = &[
    Rule::of("apps", "Deployment", deployment).fixed(SELECTOR),
    Rule::of("apps", "ReplicaSet", |set| replica_set(&set.field("spec"))).fixed(SELECTOR),
    Rule::of("apps", "DaemonSet", daemon_set).fixed(SELECTOR),
    Rule::of("apps", "StatefulSet", stateful_set).on_create(stateful_set_create).on_update(stateful_set_update),
    Rule::of("apps", "ControllerRevision", |revision| revision.not_negative(&["revision"]))
        .on_create(controller_revision_create)
        .fixed(&["data"]),
    Rule::of("", "ReplicationController", replication_controller),
];

fn deployment(deployment: &Place) {
    let spec = deployment.field("spec");
    replica_set(&spec);
    spec.not_negative(&["revisionHistoryLimit", "progressDeadlineSeconds"]);
    deployment_strategy(&spec.field("strategy"));
    let least = spec.integer("minReadySeconds").unwrap_or(0);
    let is_short = spec.integer("progressDeadlineSeconds").is_some_and(|seconds| seconds <= least);
    spec.wrong_if(is_short, "progressDeadlineSeconds", "must be greater than minReadySeconds");
}

fn replica_set(spec: &Place) {
    spec.not_negative(&["replicas", "minReadySeconds"]);
    selector(spec, "deployment");
    template(spec, "ReplicaSet");
}

fn daemon_set(daemon_set: &Place) {
    let spec = daemon_set.field("spec");
    spec.not_negative(&["minReadySeconds", "revisionHistoryLimit"]);
    // The reference does not ask for a selector here: an absent one simply matches no labels.
    if spec.has("selector") {
        selector(&spec, "daemonset");
    }
    template(&spec, "DaemonSet");
    daemon_strategy(&spec.field("updateStrategy"));
}

fn stateful_set(stateful_set: &Place) {
    const RETENTION: &[&str] = &["Retain", "Delete"];
    let spec = stateful_set.field("spec");
    spec.not_negative(&["replicas", "minReadySeconds", "ordinals.start"]);
    spec.one_of_if_given("persistentVolumeClaimRetentionPolicy.whenDeleted", RETENTION);
    spec.one_of_if_given("persistentVolumeClaimRetentionPolicy.whenScaled", RETENTION);
    let policy = spec.text("podManagementPolicy");
    let is_known = matches!(policy, "OrderedReady" | "Parallel");
    spec.invalid_if(!is_known, "podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'");
    stateful_strategy(&spec.field("updateStrategy"));
    selector(&spec, "statefulset");
    template(&stateful_set.stand_in("spec", &with_claim_volumes(spec.value)), "StatefulSet");
}

fn stateful_set_create(stateful_set: &Place) {
    let spec = stateful_set.field("spec");
    spec.named_unless_empty("serviceName", names::dns_label);
    spec.items("volumeClaimTemplates").for_each(|claim| claim_spec(&claim.field("spec")));
}

/// The spec as its pods will have it: claims stand in for volumes, and the controller sets the host name.
fn with_claim_volumes(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let claims = spec["volumeClaimTemplates"].as_array().into_iter().flatten();
    let claims: Vec<String> = claims.map(|claim| text(claim, "metadata.name").to_owned()).collect();
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

fn stateful_set_update(new: &Place, old: &Value) {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let rest = |set: &Value| {
        let mut spec = set["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            MUTABLE.iter().for_each(|key| drop(map.remove(*key)));
        }
        spec
    };
    let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    new.forbidden_if(!same(&rest(new.value), &rest(old)), "spec", detail);
}

fn replication_controller(controller: &Place) {
    let spec = controller.field("spec");
    spec.not_negative(&["replicas", "minReadySeconds"]);
    spec.needs(&["selector"]);
    if !spec.has("template") {
        return spec.required("template", "");
    }
    labels(&spec.field("selector"));
    let as_selector = json!({"template": spec.get("template"), "selector": {"matchLabels": spec.get("selector")}});
    template(&controller.stand_in("spec", &as_selector), "ReplicationController");
}

fn controller_revision_create(revision: &Place) {
    match revision.get("data") {
        Value::Null => revision.required("data", "data is mandatory"),
        Value::Object(_) => {}
        _ => revision.required("data", "data must be a valid JSON object"),
    }
}

/// Checks `spec.selector`; `kind` is the word that the reference uses, which is not always the kind's own.
fn selector(spec: &Place, kind: &str) {
    let Some(selector) = spec.given("selector") else { return spec.required("selector", "") };
    let noted_before = selector.noted();
    label_selector(&selector);
    let is_broken = selector.noted() > noted_before;
    selector.wrong_if(is_broken && kind == "deployment", "", "invalid label selector");
    let is_empty = ["matchLabels", "matchExpressions"].iter().all(|key| is_empty(selector.get(key)));
    selector.wrong_if(is_empty, "", &format!("empty selector is invalid for {kind}"));
}

/// Checks the template of pods that run for ever, and that the selector finds them.
fn template(spec: &Place, kind: &str) {
    const LABELS: &str = "template.metadata.labels";
    const POLICY: &str = "template.spec.restartPolicy";
    const DEADLINE: &str = "template.spec.activeDeadlineSeconds";
    let selector = spec.get("selector");
    let is_broken = kind == "ReplicaSet" && !super::problems(selector, "", label_selector).is_empty();
    let is_missed = !is_broken && (selector.is_null() || !matches(selector, spec.get(LABELS)));
    spec.wrong_if(is_missed, LABELS, "`selector` does not match template `labels`");
    pod_template(&spec.field("template"));
    spec.one_of(POLICY, &["Always"]);
    spec.forbidden_if(spec.has(DEADLINE), DEADLINE, &format!("activeDeadlineSeconds in {kind} is not Supported"));
}
