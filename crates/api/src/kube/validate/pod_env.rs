//! Environment variables of a container, and the references to pod fields that volumes use as well.

use super::metadata::NameRule;
use super::place::{Place, quantity};
use crate::kube::names;

/// Pod fields that an environment variable may show.
const ENVIRONMENT_FIELDS: &[&str] = &[
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
];

/// Pod fields that a file in a volume may show.
pub(super) const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Further pod fields that have a label in v1; they are refused in a second step.
const KNOWN_FIELDS: &[&str] = &[
    "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host",
];

const RESOURCES: &[&str] = &[
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage",
    "requests.memory",
];

const TOO_MANY: &str = "may not have more than one field specified at a time";

pub(super) fn environment(container: &Place) {
    for variable in container.items("env") {
        variable.needs_name("name", names::environment_name);
        if let Some(from) = variable.given("valueFrom") {
            value_from(&from, !variable.text("value").is_empty());
        }
    }
    for source in container.items("envFrom") {
        source.named_unless_empty("prefix", names::environment_name);
        let references = ["configMapRef", "secretRef"];
        for reference in references.iter().filter_map(|key| source.given(key)) {
            reference.needs_name("name", |name| NameRule::Subdomain.check(name, true));
        }
        // The reference reports these at the list, without the index.
        match references.iter().filter(|key| source.has(key)).count() {
            0 => container.invalid("envFrom", "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => container.invalid("envFrom", "", TOO_MANY),
        }
    }
}

fn value_from(from: &Place, has_value: bool) {
    let mut sources = 0;
    for key in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(source) = from.given(key) else { continue };
        sources += 1;
        match key {
            "fieldRef" => field_selector(&source, ENVIRONMENT_FIELDS),
            "resourceFieldRef" => resource_selector(&source, false),
            "fileKeyRef" => {
                source.needs_name("key", names::environment_name);
                source.needs_name("volumeName", names::dns_label);
                source.needs(&["path"]);
                source.no_backsteps("path");
            }
            _ => {
                source.named("name", names::dns_subdomain);
                source.needs_name("key", names::config_map_key);
            }
        }
    }
    let problem = match (sources, has_value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (_, true) => "may not be specified when `value` is not empty",
        (1, false) => return,
        (_, false) => TOO_MANY,
    };
    from.invalid("", "", problem);
}

/// A reference to a field of the pod; only labels and annotations can be picked apart by key.
pub(super) fn field_selector(selector: &Place, supported: &[&str]) {
    let (version, field) = (selector.text("apiVersion"), selector.text("fieldPath"));
    for (key, value) in [("apiVersion", version), ("fieldPath", field)] {
        if value.is_empty() {
            return selector.required(key, "");
        }
    }
    let refuse = |why: &str| selector.wrong("fieldPath", &format!("error converting fieldPath: {why}"));
    if version != "v1" {
        return refuse(&format!("unsupported pod version: {version}"));
    }
    match subscript(field) {
        Some(("metadata.annotations", key)) => {
            selector.complain("", key.to_lowercase(), names::qualified_name(&key.to_lowercase()))
        }
        Some(("metadata.labels", key)) => selector.complain("", key, names::qualified_name(key)),
        Some(_) => refuse(&format!("field label does not support subscript: {field}")),
        None if supported.contains(&field) => {}
        None if ENVIRONMENT_FIELDS.contains(&field) || KNOWN_FIELDS.contains(&field) => {
            selector.not_supported("fieldPath", field, supported);
        }
        None => refuse(&format!("field label not supported: {field}")),
    }
}

/// `metadata.labels['a']` taken apart.
fn subscript(field: &str) -> Option<(&str, &str)> {
    let (path, key) = field.strip_suffix("']")?.split_once("['")?;
    (!path.is_empty()).then_some((path, key))
}

/// A reference to a resource of a container; volumes must name the container.
pub(super) fn resource_selector(selector: &Place, in_volume: bool) {
    const SIZES: &str = "1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei";
    let (resource, divisor) = (selector.text("resource"), selector.text("divisor"));
    let is_huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && selector.text("containerName").is_empty() {
        selector.required("containerName", "");
    } else if resource.is_empty() {
        selector.required("resource", "");
    } else if !is_huge {
        selector.one_of("resource", RESOURCES);
    }
    if quantity(selector.get("divisor")).is_none_or(|divisor| divisor.is_zero()) {
        return;
    }
    let (values, listed, name) = match resource.split_once('.').map_or("", |(_, name)| name) {
        "cpu" => ("1m, 1", "1m and 1", "cpu"),
        "memory" => (SIZES, SIZES, "memory"),
        "ephemeral-storage" => (SIZES, SIZES, "local ephemeral storage"),
        name if name.starts_with("hugepages-") => (SIZES, SIZES, "hugepages"),
        _ => return,
    };
    let is_known = values.split(", ").any(|value| value == divisor);
    let detail = format!("only divisor's values {listed} are supported with the {name} resource");
    selector.invalid_if(!is_known, "divisor", resource, &detail);
}
