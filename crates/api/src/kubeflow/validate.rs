//! Everything that is wrong with a training job, at once, in the reference's words (PT-ADM).
//!
//! Works on the object as it was sent, after the schema of its definition has passed it. The planner asks the same questions when it reads a job, because on a foreign
//! cluster nobody else does.

use super::job::{CleanPodPolicy, RestartPolicy};
use super::kinds::{Kind, Row};
use super::{MANAGED_BY_KUEUE, MANAGED_HERE, Rules};
use crate::kube::field::FieldError;
use crate::kube::{at, names, text};
use serde_json::{Map, Value};

/// The problems of a job that is created, or updated from `old`. Deleting is never refused (PT-ADM-17).
pub fn validate(row: &Row, object: &Value, old: Option<&Value>, rules: Rules) -> Vec<FieldError> {
    let mut errors = Vec::new();
    name(row, object, rules, &mut errors);
    run_policy(object, old, rules, &mut errors);
    elastic_policy(row, object, &mut errors);
    let path = format!("spec.{}", row.replica_specs);
    match at(object, &path) {
        // The reference takes a job of nothing and leaves it alone for ever.
        Some(Value::Object(specs)) if rules.is_strict || !specs.is_empty() => {
            replica_specs(&Place { row, path: &path, rules }, specs, &mut errors)
        }
        None | Some(_) => errors.push(FieldError::required(&path, "must be required")),
    }
    errors
}

/// What is accepted but should be written otherwise; `fill` warns of the legacy fields.
pub fn warnings(row: &Row, object: &Value, rules: Rules) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(policy) = at(object, "spec.elasticPolicy").filter(|policy| policy.is_object()) else {
        return warnings;
    };
    let is_set = |field: &str| policy.get(field).is_some_and(|value| !value.is_null());
    if is_set("nProcPerNode") {
        warnings.push("spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead".to_owned());
    }
    let has_master = at(object, &format!("spec.{}.Master", row.replica_specs)).is_some();
    if has_master && row.kind == Kind::PyTorch && (is_set("minReplicas") || is_set("maxReplicas")) && !rules.is_strict {
        warnings.push(
            "spec.elasticPolicy: an elastic job should have no Master: minReplicas and maxReplicas count workers, \
             and the Master joins them"
                .to_owned(),
        );
    }
    warnings
}

fn name(row: &Row, object: &Value, rules: Rules, errors: &mut Vec<FieldError>) {
    let name = text(object, "metadata.name");
    let check = if rules.accepts_digit_names && !rules.is_strict { names::dns_label } else { names::dns1035_label };
    let complaints = check(name);
    if !complaints.is_empty() {
        let detail = format!("should match: {}", complaints.join(","));
        errors.push(FieldError::invalid("metadata.name", name, &detail));
    }
    if rules.is_strict || !complaints.is_empty() {
        return;
    }
    let specs = at(object, &format!("spec.{}", row.replica_specs)).and_then(Value::as_object);
    let longest = specs.into_iter().flatten().map(|(type_, spec)| {
        let last = spec.get("replicas").and_then(Value::as_i64).unwrap_or(1).max(1) - 1;
        format!("{name}-{}-{last}", type_.to_lowercase())
    });
    if let Some(longest) = longest.max_by_key(String::len).filter(|pod| pod.len() > names::LABEL_MAX) {
        let over = longest.len() - names::LABEL_MAX;
        let detail = format!(
            "the pod and service {longest} would have a name of more than {} characters; shorten the job's name by {over}",
            names::LABEL_MAX
        );
        errors.push(FieldError::invalid("metadata.name", name, &detail));
    }
}

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Numbers that mean nothing below zero; the reference stores them.
const AMOUNTS: [&str; 5] = [
    "spec.runPolicy.ttlSecondsAfterFinished",
    "spec.runPolicy.activeDeadlineSeconds",
    "spec.runPolicy.backoffLimit",
    "spec.runPolicy.schedulingPolicy.minAvailable",
    "spec.runPolicy.schedulingPolicy.scheduleTimeoutSeconds",
];

fn run_policy(object: &Value, old: Option<&Value>, rules: Rules, errors: &mut Vec<FieldError>) {
    let path = "spec.runPolicy.managedBy";
    let manager = at(object, path).filter(|manager| !manager.is_null());
    if let Some(old) = old.filter(|_| !rules.is_strict)
        && at(old, path).filter(|manager| !manager.is_null()) != manager
    {
        errors.push(FieldError::invalid(path, manager.cloned().unwrap_or_default(), "field is immutable"));
    }
    if let Some(manager) = manager.filter(|manager| *manager != MANAGED_HERE && *manager != MANAGED_BY_KUEUE) {
        errors.push(FieldError::not_supported(path, manager.clone(), &[MANAGED_HERE, MANAGED_BY_KUEUE]));
    }
    if rules.is_strict {
        return;
    }
    errors.extend(AMOUNTS.iter().filter_map(|path| negative(path, at(object, path))));
    for path in ["spec.runPolicy.cleanPodPolicy", "spec.cleanPodPolicy"] {
        let word = text(object, path);
        if !word.is_empty() && CleanPodPolicy::parse(word).is_none() {
            errors.push(FieldError::not_supported(path, word, &CleanPodPolicy::NAMES));
        }
    }
}

fn negative(path: &str, value: Option<&Value>) -> Option<FieldError> {
    let number = value?.as_i64().filter(|number| *number < 0)?;
    Some(FieldError::invalid(path, number, NOT_NEGATIVE))
}

fn elastic_policy(row: &Row, object: &Value, errors: &mut Vec<FieldError>) {
    let Some(policy) = at(object, "spec.elasticPolicy").filter(|policy| policy.is_object()) else {
        return;
    };
    let specs = format!("spec.{}", row.replica_specs);
    if row.kind == Kind::PyTorch && at(object, &format!("{specs}.Worker")).is_none() {
        let detail = "must be configured if elastic policy is used";
        errors.push(FieldError::required(format!("{specs}[Worker]"), detail));
    }
    let is_set = |path: &str| at(object, path).is_some_and(|value| !value.is_null());
    if is_set("spec.elasticPolicy.nProcPerNode") && is_set("spec.nprocPerNode") {
        let detail = "must not be used with spec.nprocPerNode";
        errors.push(FieldError::forbidden("spec.elasticPolicy.nProcPerNode", detail));
    }
    for field in ["minReplicas", "maxReplicas", "maxRestarts"] {
        errors.extend(negative(&format!("spec.elasticPolicy.{field}"), policy.get(field)));
    }
    let bound = |field: &str| policy.get(field).and_then(Value::as_i64);
    if let (Some(low), Some(high)) = (bound("minReplicas"), bound("maxReplicas"))
        && low > high
    {
        let detail = "must be greater than or equal to minReplicas";
        errors.push(FieldError::invalid("spec.elasticPolicy.maxReplicas", high, detail));
    }
}

/// Where the replicas stand that are looked at.
struct Place<'a> {
    row: &'a Row,
    path: &'a str,
    rules: Rules,
}

fn replica_specs(place: &Place, specs: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let row = place.row;
    for (type_, spec) in specs {
        let path = format!("{}[{type_}]", place.path);
        // TFJob's webhook looks at no type, and its controller folds their case (PT-DEF-2).
        let is_known = match row.kind {
            Kind::TensorFlow => row.replica_type(type_).is_some(),
            Kind::PyTorch | Kind::Mpi | Kind::XgBoost | Kind::Paddle | Kind::Jax => {
                row.replica_types.contains(&type_.as_str())
            }
        };
        if !is_known {
            errors.push(FieldError::not_supported(&path, type_.as_str(), row.replica_types));
        }
        containers(place, &path, spec, errors);
        replica_count(place, type_, spec, errors);
        let policy = text(spec, "restartPolicy");
        if !policy.is_empty() && RestartPolicy::parse(policy).is_none() {
            errors.push(FieldError::not_supported(format!("{path}.restartPolicy"), policy, &RestartPolicy::NAMES));
        }
    }
    let types = specs.keys().filter_map(|type_| row.replica_type(type_));
    let leaders = types.filter(|type_| row.leaders.contains(type_)).count();
    match row.kind {
        Kind::TensorFlow if leaders > 1 => {
            errors.push(FieldError::forbidden(place.path, "must not have more than 1 Chief or Master role"));
        }
        Kind::XgBoost | Kind::Mpi if leaders == 0 => {
            errors.push(FieldError::required(format!("{}[{}]", place.path, row.leaders[0]), "must be present"));
        }
        Kind::PyTorch | Kind::TensorFlow | Kind::Mpi | Kind::XgBoost | Kind::Paddle | Kind::Jax => {}
    }
}

fn replica_count(place: &Place, type_: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = format!("{}[{type_}].replicas", place.path);
    let count = spec.get("replicas").and_then(Value::as_i64);
    let needs_one = match place.row.kind {
        Kind::PyTorch | Kind::XgBoost | Kind::Mpi => place.row.leaders.contains(&type_),
        Kind::TensorFlow | Kind::Paddle | Kind::Jax => false,
    };
    if needs_one {
        // The reference also refuses a missing number, except of MPI's launcher (PT-ADM-7a).
        let may_be_missing = !place.rules.is_strict || place.row.kind == Kind::Mpi;
        if count.map_or(!may_be_missing, |count| count != 1) {
            errors.push(FieldError::forbidden(path, "must be 1"));
        }
    } else if place.row.kind == Kind::PyTorch && count.is_some_and(|count| count < 1) {
        errors.push(FieldError::forbidden(path, "must be at least 1"));
    } else {
        errors.extend(negative(&path, spec.get("replicas")));
    }
}

fn containers(place: &Place, path: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.template.spec.containers");
    let containers = at(spec, "template.spec.containers").and_then(Value::as_array);
    let containers = containers.map(Vec::as_slice).unwrap_or_default();
    if containers.is_empty() {
        errors.push(FieldError::required(&path, "must be specified"));
    }
    for (index, container) in containers.iter().enumerate() {
        if text(container, "image").is_empty() {
            errors.push(FieldError::required(format!("{path}[{index}].image"), "must be required"));
        }
    }
    if let Some(name) = place.row.container
        && !containers.iter().any(|container| text(container, "name") == name)
    {
        errors.push(FieldError::required(&path, &format!("must have at least one container with name {name}")));
    }
}
