//! Environment variables of a container, and the references to pod fields that volumes use as well.

use super::path::Path;
use super::read::{complain, given, list, quantity, required_name, string};
use crate::kube::field::FieldError;
use crate::kube::names;
use serde_json::Value;

/// Pod fields that an environment variable may show.
const ENVIRONMENT_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Pod fields that a file in a volume may show.
pub(super) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Every pod field that has a label in v1; those in neither list above are refused in a second step.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "status.phase",
    "spec.host",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// The variables of a container at `path`.
pub(super) fn environment(errors: &mut Vec<FieldError>, container: &Value, path: &Path) {
    let variables = path.field("env");
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = variables.index(index);
        required_name(errors, &variable["name"], &path.field("name"), names::environment_name);
        if let Some(from) = given(variable, "valueFrom") {
            value_from(errors, from, &path.field("valueFrom"), !string(variable, "value").is_empty());
        }
    }
    let sources = path.field("envFrom");
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        environment_from(errors, source, &sources, index);
    }
}

fn value_from(errors: &mut Vec<FieldError>, from: &Value, path: &Path, has_value: bool) {
    let mut sources = 0;
    for key in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(source) = given(from, key) else { continue };
        sources += 1;
        let path = path.field(key);
        match key {
            "fieldRef" => field_selector(errors, source, &path, ENVIRONMENT_FIELDS),
            "resourceFieldRef" => resource_selector(errors, source, &path, false),
            "fileKeyRef" => file_key(errors, source, &path),
            _ => {
                let name = string(source, "name");
                complain(errors, &path.field("name"), name, names::dns_subdomain(name));
                required_name(errors, &source["key"], &path.field("key"), names::config_map_key);
            }
        }
    }
    let problem = match (sources, has_value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, false) => return,
        (_, false) => "may not have more than one field specified at a time",
    };
    errors.push(FieldError::invalid(path, "", problem));
}

fn environment_from(errors: &mut Vec<FieldError>, source: &Value, path: &Path, index: usize) {
    let at = path.index(index);
    let prefix = string(source, "prefix");
    if !prefix.is_empty() {
        complain(errors, &at.field("prefix"), prefix, names::environment_name(prefix));
    }
    let mut sources = 0;
    for key in ["configMapRef", "secretRef"] {
        let Some(reference) = given(source, key) else { continue };
        sources += 1;
        required_name(errors, &reference["name"], &at.field(key).field("name"), |name| {
            super::metadata::NameRule::Subdomain.check(name, true)
        });
    }
    // The reference reports these at the list, without the index.
    match sources {
        0 => errors.push(FieldError::invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")),
        1 => {}
        _ => errors.push(FieldError::invalid(path, "", "may not have more than one field specified at a time")),
    }
}

fn file_key(errors: &mut Vec<FieldError>, source: &Value, path: &Path) {
    required_name(errors, &source["key"], &path.field("key"), names::environment_name);
    required_name(errors, &source["volumeName"], &path.field("volumeName"), names::dns_label);
    required_name(errors, &source["path"], &path.field("path"), |_| Vec::new());
    super::pod_volumes::no_backsteps(errors, string(source, "path"), &path.field("path"));
}

/// A reference to a field of the pod; only labels and annotations can be picked apart by key.
pub(super) fn field_selector(errors: &mut Vec<FieldError>, selector: &Value, path: &Path, supported: &[&str]) {
    let (version, field) = (string(selector, "apiVersion"), string(selector, "fieldPath"));
    for (key, value) in [("apiVersion", version), ("fieldPath", field)] {
        if value.is_empty() {
            errors.push(FieldError::required(path.field(key), ""));
            return;
        }
    }
    let at = path.field("fieldPath");
    let mut refuse = |why: String| {
        errors.push(FieldError::invalid(at, field, &format!("error converting fieldPath: {why}")));
    };
    if version != "v1" {
        return refuse(format!("unsupported pod version: {version}"));
    }
    match subscript(field) {
        Some(("metadata.annotations", key)) => {
            complain(errors, path, key.to_lowercase(), names::qualified_name(&key.to_lowercase()))
        }
        Some(("metadata.labels", key)) => complain(errors, path, key, names::qualified_name(key)),
        Some(_) => refuse(format!("field label does not support subscript: {field}")),
        None if supported.contains(&field) => {}
        None if ENVIRONMENT_FIELDS.contains(&field) || KNOWN_FIELDS.contains(&field) => {
            errors.push(FieldError::not_supported(at, field, supported));
        }
        None => refuse(format!("field label not supported: {field}")),
    }
}

/// `metadata.labels['a']` taken apart.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (path, key) = field.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A reference to a resource of a container; volumes must name the container.
pub(super) fn resource_selector(errors: &mut Vec<FieldError>, selector: &Value, path: &Path, in_volume: bool) {
    let resource = string(selector, "resource");
    let is_huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && string(selector, "containerName").is_empty() {
        errors.push(FieldError::required(path.field("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(path.field("resource"), ""));
    } else if !is_huge && !RESOURCES.contains(&resource) {
        errors.push(FieldError::not_supported(path.field("resource"), resource, RESOURCES));
    }
    divisor(errors, selector, path, resource);
}

fn divisor(errors: &mut Vec<FieldError>, selector: &Value, path: &Path, resource: &str) {
    const SIZES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    if quantity(&selector["divisor"]).is_none_or(|divisor| divisor.is_zero()) {
        return;
    }
    let (values, resource_name) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => ("1m, 1", "cpu"),
        "memory" => (SIZES, "memory"),
        "ephemeral-storage" => (SIZES, "local ephemeral storage"),
        name if name.starts_with("hugepages-") => (SIZES, "hugepages"),
        _ => return,
    };
    let divisor = string(selector, "divisor");
    if !values.split(", ").any(|value| value == divisor) {
        let listed = if resource_name == "cpu" { "1m and 1" } else { values };
        let detail = format!("only divisor's values {listed} are supported with the {resource_name} resource");
        errors.push(FieldError::invalid(path.field("divisor"), resource, &detail));
    }
}
