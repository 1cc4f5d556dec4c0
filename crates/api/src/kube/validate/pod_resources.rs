//! Resource requests and limits, of containers and of whole pods, and the claims that they name.

use super::path::Path;
use super::quota::COUNTED;
use super::read::{NEGATIVE, complain, entries, given, list, quantity, string};
use crate::kube::defaults::pod::container_totals;
use crate::kube::field::{FieldError, Problem};
use crate::kube::names;
use crate::kube::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeSet;

/// Who asks for the resources: it decides which names are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    Container,
    Pod,
}

/// Names without a domain that mean something in some resource list.
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Names that Kubernetes itself gives meaning to.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A device or the like, for example `nvidia.com/gpu`: whole numbers, and never more requested than limited.
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// `resources` of a container or a pod; `claims` are the names in the pod's `resourceClaims`.
pub(super) fn resources(errors: &mut Vec<FieldError>, resources: &Value, path: &Path, asker: Asker, claims: &[&str]) {
    let mut has_compute = false;
    let mut has_huge_pages = false;
    for key in ["limits", "requests"] {
        let list_path = path.field(key);
        for (name, value) in entries(resources, key) {
            let at = list_path.key(name);
            resource_name(errors, name, &at, asker);
            let Some(amount) = quantity(value) else { continue };
            quantity_value(errors, name, value, &at);
            has_compute |= matches!(name, "cpu" | "memory");
            has_huge_pages |= is_huge_page(name);
            if is_huge_page(name) && !is_page_multiple(name, amount) {
                let detail = format!("{amount} is not positive integer multiple of {name}");
                errors.push(FieldError::invalid(at, value.clone(), &detail));
            }
        }
    }
    for (name, value) in entries(resources, "requests") {
        request_against_limit(errors, resources, name, value, path);
    }
    if has_huge_pages && !has_compute {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    claim_names(errors, list(resources, "claims"), &path.field("claims"), claims);
}

fn resource_name(errors: &mut Vec<FieldError>, name: &str, path: &Path, asker: Asker) {
    let errors_before = errors.len();
    complain(errors, path, name, names::qualified_name(name));
    let is_plain = !name.contains('/');
    let is_standard = STANDARD.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-");
    if errors.len() == errors_before && is_plain && !is_standard {
        errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    match asker {
        Asker::Container => {
            let is_container = matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name);
            if is_plain && !is_container {
                errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
            } else if !is_plain && !is_native(name) && !is_extended(name) {
                errors.push(FieldError::invalid(path, name, "doesn't follow extended resource name standard"));
            }
        }
        Asker::Pod => {
            let is_pod = matches!(name, "cpu" | "memory") || is_huge_page(name);
            if errors.len() == errors_before && !is_pod {
                errors.push(FieldError::not_supported(path, name, &["cpu", "hugepages-", "memory"]));
            }
        }
    }
}

/// A quantity that is not negative, and whole where the resource is counted.
pub fn quantity_value(errors: &mut Vec<FieldError>, name: &str, value: &Value, path: &Path) {
    let Some(amount) = quantity(value) else { return };
    if amount.is_negative() {
        errors.push(FieldError::invalid(path, value.clone(), NEGATIVE));
    }
    if (COUNTED.contains(&name) || is_extended(name)) && amount.milli_value() % 1000 != 0 {
        errors.push(FieldError::invalid(path, value.clone(), "must be an integer"));
    }
}

fn is_page_multiple(name: &str, amount: Quantity) -> bool {
    let size = name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok());
    size.is_some_and(|size| {
        size > Quantity::ZERO && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0
    })
}

fn request_against_limit(errors: &mut Vec<FieldError>, resources: &Value, name: &str, value: &Value, path: &Path) {
    let Some(request) = quantity(value) else { return };
    let limit = resources["limits"].get(name);
    let Some((limit_text, limit)) = limit.and_then(|limit| Some((limit.as_str()?, quantity(limit)?))) else {
        if !may_overcommit(name) {
            let detail = "Limit must be set for non overcommitable resources";
            errors.push(FieldError::required(path.field("limits"), detail));
        }
        return;
    };
    let relation = if request != limit && !may_overcommit(name) {
        "equal to"
    } else if request > limit {
        "less than or equal to"
    } else {
        return;
    };
    let detail = format!("must be {relation} {name} limit of {limit_text}");
    errors.push(FieldError::invalid(path.field("requests"), value.clone(), &detail));
}

fn claim_names(errors: &mut Vec<FieldError>, claims: &[Value], path: &Path, known: &[&str]) {
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (string(claim, "name"), string(claim, "request"));
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        if !request.is_empty() {
            complain(errors, &path.field("request"), request, names::dns_label(request));
        }
        let overlaps = seen.contains(&(name, "")) || seen.contains(&(name, request));
        let covers = request.is_empty() && seen.iter().any(|(other, _)| *other == name);
        if overlaps || covers {
            errors.push(FieldError::duplicate(path, name));
        }
        seen.insert((name, request));
        if !known.contains(&name) {
            let mut sorted = known.to_vec();
            sorted.sort_unstable();
            let list =
                if sorted.is_empty() { " which is empty".to_owned() } else { format!(": {}", sorted.join(", ")) };
            let text = format!("Not found: \"{name}\": must be one of the names in pod.spec.resourceClaims{list}");
            errors.push(FieldError::new(path, Problem::NotFound, text));
        }
    }
}

/// `spec.resources` of a pod, which must cover what its containers ask for.
pub(super) fn pod_level(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    let Some(level) = given(spec, "resources") else { return };
    let path = path.field("resources");
    if given(level, "claims").is_some() {
        errors.push(FieldError::forbidden(path.field("claims"), "claims may not be set for Resources at pod-level"));
    }
    resources(errors, level, &path, Asker::Pod, &[]);
    let requests = path.field("requests");
    for (name, total) in container_totals(spec, "requests") {
        if let Some(request) = level["requests"].get(&name).and_then(quantity).filter(|request| total > *request) {
            let detail = format!("must be greater than or equal to aggregate container requests of {total}");
            errors.push(FieldError::invalid(requests.key(&name), request.to_string(), &detail));
        }
    }
    let containers = path.field("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        let at = containers.index(index);
        for (name, value) in entries(&container["resources"], "limits") {
            let Some(limit) = level["limits"].get(name).and_then(quantity) else { continue };
            if quantity(value).is_some_and(|own| own > limit) {
                let detail = format!("must be less than or equal to pod limits of {limit}");
                errors.push(FieldError::invalid(at.key(name).field("limits"), value.clone(), &detail));
            }
        }
    }
}
