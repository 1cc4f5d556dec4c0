//! Resource names and amounts, wherever they stand; requests and limits of containers and of whole pods.

use super::place::{NEGATIVE, Place, quantity};
use crate::kube::defaults::pod::container_totals;
use crate::kube::field::Problem;
use crate::kube::names;
use crate::kube::quantity::Quantity;
use std::collections::BTreeSet;

/// Who asks for the resources: it decides which names are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asker {
    Container,
    Pod,
}

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Resources that come in whole objects: no fractions.
const COUNTED: [&str; 9] = [
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
];

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Names without a domain that a container may ask for.
pub(super) fn is_container_resource(name: &str) -> bool {
    COMPUTE.contains(&name) || is_huge_page(name)
}

/// Names without a domain that a quota knows.
pub(super) fn is_quota_resource(name: &str) -> bool {
    let compute = name.strip_prefix("requests.").or(name.strip_prefix("limits.")).unwrap_or(name);
    let is_huge = is_huge_page(name) || name.starts_with("requests.hugepages-");
    COMPUTE.contains(&compute) || COUNTED.contains(&name) || name == "requests.storage" || is_huge
}

/// Names that Kubernetes itself gives meaning to.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// A device or the like, for example `nvidia.com/gpu`: whole numbers, and never more requested than limited.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

pub(super) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// The name of a resource, noted at its amount; says whether it has the right shape.
pub(super) fn resource_name(amount: &Place, name: &str) -> bool {
    let noted_before = amount.noted();
    amount.complain("", name, names::qualified_name(name));
    let is_known = name.contains('/') || is_quota_resource(name) || name == "storage";
    let is_shaped = amount.noted() == noted_before;
    amount.invalid_if(is_shaped && !is_known, "", name, "must be a standard resource type or fully qualified");
    is_shaped && is_known
}

/// A quantity that is not negative, and whole where the resource is counted.
pub(super) fn resource_amount(amount: &Place, name: &str) {
    let Some(value) = quantity(amount.value) else { return };
    amount.wrong_if(value.is_negative(), "", NEGATIVE);
    let is_whole = COUNTED.contains(&name) || is_extended(name);
    amount.wrong_if(is_whole && value.milli_value() % 1000 != 0, "", "must be an integer");
}

/// `resources` of a container or a pod; `claims` are the names in the pod's `resourceClaims`.
pub(super) fn resources(resources: &Place, asker: Asker, claims: &[&str]) {
    let mut has_compute = false;
    let mut has_huge_pages = false;
    for key in ["limits", "requests"] {
        for (name, amount) in resources.entries(key) {
            allowed_name(&amount, name, asker);
            let Some(value) = quantity(amount.value) else { continue };
            resource_amount(&amount, name);
            has_compute |= matches!(name, "cpu" | "memory");
            has_huge_pages |= is_huge_page(name);
            if is_huge_page(name) && !is_page_multiple(name, value) {
                amount.wrong("", &format!("{value} is not positive integer multiple of {name}"));
            }
        }
    }
    for (name, request) in resources.entries("requests") {
        request_against_limit(resources, name, &request);
    }
    resources.forbidden_if(has_huge_pages && !has_compute, "", "HugePages require cpu or memory");
    claim_names(resources, claims);
}

fn allowed_name(amount: &Place, name: &str, asker: Asker) {
    let is_good = resource_name(amount, name);
    let is_plain = !name.contains('/');
    match asker {
        Asker::Container => {
            let is_other = is_plain && !is_container_resource(name);
            amount.invalid_if(is_other, "", name, "must be a standard resource for containers");
            let is_odd = !is_native(name) && !is_extended(name);
            amount.invalid_if(is_odd, "", name, "doesn't follow extended resource name standard");
        }
        Asker::Pod => {
            if is_good && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
                amount.not_supported("", name, &["cpu", "hugepages-", "memory"]);
            }
        }
    }
}

fn is_page_multiple(name: &str, amount: Quantity) -> bool {
    let size = name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok());
    size.is_some_and(|size| {
        size > Quantity::ZERO && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0
    })
}

fn request_against_limit(resources: &Place, name: &str, request: &Place) {
    let Some(wanted) = quantity(request.value) else { return };
    let limit = resources.get("limits").get(name);
    let Some((limit_text, limit)) = limit.and_then(|limit| Some((limit.as_str()?, quantity(limit)?))) else {
        if !may_overcommit(name) {
            resources.required("limits", "Limit must be set for non overcommitable resources");
        }
        return;
    };
    let relation = if wanted != limit && !may_overcommit(name) {
        "equal to"
    } else if wanted > limit {
        "less than or equal to"
    } else {
        return;
    };
    let detail = format!("must be {relation} {name} limit of {limit_text}");
    resources.invalid("requests", request.value.clone(), &detail);
}

fn claim_names(resources: &Place, known: &[&str]) {
    let mut seen = BTreeSet::new();
    for claim in resources.items("claims") {
        let (name, request) = (claim.text("name"), claim.text("request"));
        if name.is_empty() {
            claim.required("", "");
            continue;
        }
        claim.named_unless_empty("request", names::dns_label);
        let overlaps = seen.contains(&(name, "")) || seen.contains(&(name, request));
        let covers = request.is_empty() && seen.iter().any(|(other, _)| *other == name);
        claim.duplicate_if(overlaps || covers, "", name);
        seen.insert((name, request));
        if !known.contains(&name) {
            let mut sorted = known.to_vec();
            sorted.sort_unstable();
            let list =
                if sorted.is_empty() { " which is empty".to_owned() } else { format!(": {}", sorted.join(", ")) };
            let text = format!("Not found: \"{name}\": must be one of the names in pod.spec.resourceClaims{list}");
            claim.worded("", Problem::NotFound, text);
        }
    }
}

/// `spec.resources` of a pod, which must cover what its containers ask for.
pub(super) fn pod_level(spec: &Place) {
    let Some(level) = spec.given("resources") else { return };
    level.forbidden_if(level.has("claims"), "claims", "claims may not be set for Resources at pod-level");
    resources(&level, Asker::Pod, &[]);
    let totals = container_totals(spec.value, "requests");
    for (name, request) in level.entries("requests") {
        let Some((own, total)) = quantity(request.value).zip(totals.get(name)) else { continue };
        let detail = format!("must be greater than or equal to aggregate container requests of {total}");
        request.invalid_if(*total > own, "", own.to_string(), &detail);
    }
    for (index, container) in spec.items("containers").enumerate() {
        for (name, own) in container.entries("resources.limits") {
            let limit = level.get("limits").get(name).and_then(quantity);
            let Some(limit) = limit.filter(|limit| quantity(own.value).is_some_and(|own| own > *limit)) else {
                continue;
            };
            let place = format!("containers[{index}][{name}].limits");
            let detail = format!("must be less than or equal to pod limits of {limit}");
            level.invalid(&place, own.value.clone(), &detail);
        }
    }
}
