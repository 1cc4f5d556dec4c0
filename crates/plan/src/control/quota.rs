//! What objects use of a namespace's quota (K-ADM-5): admission adds one object's usage, the controller sums all.

use super::Plan;
use k8s_openapi::api::core::v1::{
    ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopedResourceSelectorRequirement,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{at, text};

pub type Usage = BTreeMap<String, Quantity>;

/// Core kinds whose plural alone is a quota name.
const COUNTED_BY_PLURAL: [&str; 7] =
    ["configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "resourcequotas", "secrets", "services"];

/// What one object counts for, by quota name. `resource` is the plural; every kind has `count/<resource>[.<group>]`.
pub fn usage(group: &str, resource: &str, object: &Value) -> Usage {
    let dot = if group.is_empty() { "" } else { "." };
    let mut usage = Usage::from([(format!("count/{resource}{dot}{group}"), Quantity::whole(1))]);
    if !group.is_empty() || !COUNTED_BY_PLURAL.contains(&resource) {
        return usage;
    }
    if resource == "pods" && has_ended(object) {
        return usage;
    }
    usage.insert(resource.to_owned(), Quantity::whole(1));
    match resource {
        "pods" => add_pod(object, &mut usage),
        "services" => add_service(object, &mut usage),
        "persistentvolumeclaims" => add_claim(object, &mut usage),
        _ => {}
    }
    usage
}

fn has_ended(pod: &Value) -> bool {
    matches!(text(pod, "status.phase"), "Succeeded" | "Failed")
}

fn add_service(service: &Value, usage: &mut Usage) {
    let ports = at(service, "spec.ports").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let ports_of_nodes = match text(service, "spec.type") {
        "NodePort" => ports.len(),
        "LoadBalancer" => {
            usage.insert("services.loadbalancers".to_owned(), Quantity::whole(1));
            let has_node_ports = at(service, "spec.allocateLoadBalancerNodePorts") != Some(&Value::Bool(false));
            let is_given = |port: &&Value| port.get("nodePort").and_then(Value::as_i64).unwrap_or(0) != 0;
            if has_node_ports { ports.len() } else { ports.iter().filter(is_given).count() }
        }
        _ => return,
    };
    usage.insert("services.nodeports".to_owned(), Quantity::whole(i64::try_from(ports_of_nodes).unwrap_or(i64::MAX)));
}

fn add_claim(claim: &Value, usage: &mut Usage) {
    let storage = amounts(at(claim, "spec.resources.requests")).get("storage").copied();
    let class = text(claim, "spec.storageClassName");
    let prefixes = [String::new(), format!("{class}.storageclass.storage.k8s.io/")];
    for prefix in &prefixes[..if class.is_empty() { 1 } else { 2 }] {
        usage.insert(format!("{prefix}persistentvolumeclaims"), Quantity::whole(1));
        if let Some(storage) = storage {
            usage.insert(format!("{prefix}requests.storage"), storage);
        }
    }
}

fn add_pod(pod: &Value, usage: &mut Usage) {
    for (name, amount) in pod_total(pod, "requests") {
        let is_plain =
            matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
        if is_plain {
            usage.insert(name.clone(), amount);
        }
        usage.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in pod_total(pod, "limits") {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
}

/// What a pod asks for as a whole: its containers and sidecars together, or its greediest init step, plus overhead.
fn pod_total(pod: &Value, which: &str) -> Usage {
    let list = |path: &str| at(pod, path).and_then(Value::as_array).cloned().unwrap_or_default();
    let of = |container: &Value| {
        let asked = amounts(container.get("resources").and_then(|resources| resources.get(which)));
        if which == "requests" { with_resize(pod, container, asked) } else { asked }
    };
    let mut running = Usage::new();
    for container in list("spec.containers") {
        add(&mut running, &of(&container));
    }
    let mut sidecars = Usage::new();
    let mut largest = Usage::new();
    for container in list("spec.initContainers") {
        let mut step = of(&container);
        if text(&container, "restartPolicy") == "Always" {
            add(&mut running, &step);
            add(&mut sidecars, &step);
            step = sidecars.clone();
        } else {
            add(&mut step, &sidecars);
        }
        raise(&mut largest, &step);
    }
    raise(&mut running, &largest);
    // Resources given for the whole pod take the place of its containers' sums.
    running.extend(amounts(at(pod, "spec.resources").and_then(|resources| resources.get(which))));
    if which == "requests" || !running.is_empty() {
        add(&mut running, &amounts(at(pod, "spec.overhead")));
    }
    running
}

/// While a container's size is being changed, the larger of what it is to have and what it has counts; what its node
/// cannot give it does not.
fn with_resize(pod: &Value, container: &Value, asked: Usage) -> Usage {
    let list = |path: &str| at(pod, path).and_then(Value::as_array).into_iter().flatten();
    let statuses = list("status.containerStatuses").chain(list("status.initContainerStatuses"));
    let Some(status) = statuses.into_iter().find(|status| text(status, "name") == text(container, "name")) else {
        return asked;
    };
    let has = [at(status, "resources.requests"), at(status, "allocatedResources")];
    if has.iter().all(Option::is_none) {
        return asked;
    }
    let is_refused =
        |condition: &Value| text(condition, "type") == "PodResizePending" && text(condition, "reason") == "Infeasible";
    let mut total = if list("status.conditions").any(is_refused) { Usage::new() } else { asked };
    has.into_iter().for_each(|has| raise(&mut total, &amounts(has)));
    total
}

fn amounts(map: Option<&Value>) -> Usage {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    let amount = |value: &Value| match value {
        Value::String(text) => Quantity::parse(text).ok(),
        other => Quantity::parse(&other.to_string()).ok(),
    };
    entries.filter_map(|(name, value)| Some((name.clone(), amount(value)?))).collect()
}

fn add(total: &mut Usage, more: &Usage) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_insert(Quantity::ZERO) += *amount;
    }
}

fn raise(total: &mut Usage, floor: &Usage) {
    for (name, amount) in floor {
        let entry = total.entry(name.clone()).or_insert(*amount);
        if *entry < *amount {
            *entry = *amount;
        }
    }
}

/// Whether a quota counts the object: one with scopes counts only the pods that all of its scopes match.
pub fn covers(quota: &ResourceQuotaSpec, group: &str, resource: &str, object: &Value) -> bool {
    let plain = quota.scopes.iter().flatten().map(|scope| ScopedResourceSelectorRequirement {
        scope_name: scope.clone(),
        operator: "Exists".to_owned(),
        values: None,
    });
    let selected =
        quota.scope_selector.iter().flat_map(|selector| selector.match_expressions.clone().unwrap_or_default());
    let mut requirements = plain.chain(selected).peekable();
    if requirements.peek().is_none() {
        return true;
    }
    let is_pod = group.is_empty() && resource == "pods";
    is_pod && requirements.all(|requirement| matches_scope(&requirement, object))
}

fn matches_scope(requirement: &ScopedResourceSelectorRequirement, pod: &Value) -> bool {
    let ends_by_itself = at(pod, "spec.activeDeadlineSeconds").and_then(Value::as_i64).is_some();
    let compute = |which: &str| pod_total(pod, which).keys().any(|name| name == "cpu" || name == "memory");
    let is_best_effort = !compute("requests") && !compute("limits");
    match requirement.scope_name.as_str() {
        "Terminating" => ends_by_itself,
        "NotTerminating" => !ends_by_itself,
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => matches_class(requirement, text(pod, "spec.priorityClassName")),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(at(pod, "spec.affinity")),
        _ => false,
    }
}

fn matches_class(requirement: &ScopedResourceSelectorRequirement, class: &str) -> bool {
    let is_listed = requirement.values.iter().flatten().any(|value| value == class);
    match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        _ => false,
    }
}

/// Whether any affinity term names namespaces, wherever in the tree it stands.
fn reaches_other_namespaces(affinity: Option<&Value>) -> bool {
    match affinity {
        Some(Value::Object(map)) => map.iter().any(|(key, value)| match key.as_str() {
            "namespaces" => value.as_array().is_some_and(|list| !list.is_empty()),
            "namespaceSelector" => !value.is_null(),
            _ => reaches_other_namespaces(Some(value)),
        }),
        Some(Value::Array(list)) => list.iter().any(|value| reaches_other_namespaces(Some(value))),
        Some(_) | None => false,
    }
}

/// Adds up what the quota counts of the objects, each given as group, plural and object.
pub fn used<'a>(quota: &ResourceQuota, objects: impl Iterator<Item = (&'a str, &'a str, &'a Value)>) -> Usage {
    let mut total = Usage::new();
    let Some(spec) = quota.spec.as_ref() else {
        return total;
    };
    for (group, resource, object) in objects {
        if covers(spec, group, resource, object) {
            add(&mut total, &usage(group, resource, object));
        }
    }
    let hard = spec.hard.as_ref();
    total.retain(|name, _| hard.is_some_and(|hard| hard.contains_key(name)));
    total
}

/// Writes `status.hard` and `status.used` if they differ; what nobody uses is `0`.
pub fn plan(quota: &ResourceQuota, used: &Usage) -> Plan {
    let mut plan = Plan::default();
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
    let amount = |name: &String| {
        let value = used.get(name).copied().unwrap_or(Quantity::ZERO);
        (name.clone(), WireQuantity(value.to_string()))
    };
    let used = hard.keys().map(amount).collect();
    let status = ResourceQuotaStatus { hard: Some(hard), used: Some(used) };
    plan.status(quota, quota.status.as_ref(), &status);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(usage: &Usage) -> Vec<String> {
        usage.iter().map(|(name, amount)| format!("{name}={amount}")).collect()
    }

    // K-ADM-5
    #[test]
    fn a_pod_counts_for_what_its_containers_ask() {
        let resources = json!({"requests": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "2"},
            "limits": {"cpu": 1, "nvidia.com/gpu": "2"}});
        let init = json!({"requests": {"cpu": "2"}});
        let sidecar = json!({"requests": {"memory": "256Mi"}});
        let pod = json!({"spec": {
            "initContainers": [{"resources": sidecar, "restartPolicy": "Always"}, {"resources": init}],
            "containers": [{"resources": resources}, {}]}});
        assert_eq!(
            shown(&usage("", "pods", &pod)),
            [
                "count/pods=1", "cpu=2", "limits.cpu=1", "memory=1280Mi", "pods=1", "requests.cpu=2",
                "requests.memory=1280Mi", "requests.nvidia.com/gpu=2"
            ]
        );
    }

    // K-ADM-5
    #[test]
    fn ended_pods_count_only_as_objects() {
        let pod =
            json!({"spec": {"containers": [{"resources": {"requests": {"cpu": 1}}}]}, "status": {"phase": "Failed"}});
        assert_eq!(shown(&usage("", "pods", &pod)), ["count/pods=1"]);
    }

    #[test]
    fn a_container_that_is_resized_counts_for_the_larger_of_both() {
        let cpu = |asked: &str, has: Value, conditions: Value| {
            let pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": asked}}}]},
                "status": {"containerStatuses": [has], "conditions": conditions}});
            usage("", "pods", &pod)["requests.cpu"].to_string()
        };
        let has = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        assert_eq!(cpu("1", json!({"name": "c"}), json!([])), "1");
        assert_eq!(cpu("2", has("1"), json!([])), "2");
        assert_eq!(cpu("1", has("2"), json!([])), "2", "it is not smaller yet");
        assert_eq!(cpu("1", json!({"name": "c", "allocatedResources": {"cpu": "3"}}), json!([])), "3");
        let refused = json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
        assert_eq!(cpu("9", has("2"), refused), "2", "it never gets more");
    }

    // K-ADM-5
    #[test]
    fn other_kinds_count_by_number_and_by_what_they_hold() {
        assert_eq!(shown(&usage("batch", "jobs", &json!({}))), ["count/jobs.batch=1"]);
        assert_eq!(shown(&usage("", "configmaps", &json!({}))), ["configmaps=1", "count/configmaps=1"]);
        let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}});
        assert_eq!(
            shown(&usage("", "persistentvolumeclaims", &claim)),
            [
                "count/persistentvolumeclaims=1",
                "fast.storageclass.storage.k8s.io/persistentvolumeclaims=1",
                "fast.storageclass.storage.k8s.io/requests.storage=5Gi",
                "persistentvolumeclaims=1",
                "requests.storage=5Gi"
            ]
        );
        let service = json!({"spec": {"type": "NodePort", "ports": [{}, {}]}});
        assert_eq!(shown(&usage("", "services", &service)), ["count/services=1", "services=1", "services.nodeports=2"]);
    }

    // K-ADM-5
    #[test]
    fn the_status_shows_use_and_is_written_once() {
        let mut quota: ResourceQuota = serde_json::from_value(json!({"metadata": {"name": "q"},
            "spec": {"hard": {"pods": "5", "requests.cpu": "4", "secrets": "1"}}}))
        .unwrap();
        let pod = json!({"spec": {"containers": [{"resources": {"requests": {"cpu": "1500m"}}}]}});
        let objects = [("", "pods", &pod), ("", "pods", &pod)];
        let plan_now = |quota: &ResourceQuota| plan(quota, &used(quota, objects.into_iter()));
        let super::super::Action::PatchStatus { patch, .. } = &plan_now(&quota).actions[0] else { unreachable!() };
        assert_eq!(patch["status"]["used"], json!({"pods": "2", "requests.cpu": "3", "secrets": "0"}));
        quota.status = serde_json::from_value(patch["status"].clone()).unwrap();
        assert!(plan_now(&quota).is_empty());
    }

    // K-ADM-5
    #[test]
    fn scopes_limit_which_pods_count() {
        let best_effort = json!({"spec": {"containers": [{}]}});
        let short = json!({"spec": {"activeDeadlineSeconds": 5, "priorityClassName": "high",
            "containers": [{"resources": {"limits": {"cpu": 1}}}]}});
        let check = |spec: Value, expected: [bool; 2]| {
            let spec: ResourceQuotaSpec = serde_json::from_value(spec).unwrap();
            let found = [&best_effort, &short].map(|pod| covers(&spec, "", "pods", pod));
            assert_eq!(found, expected, "{spec:?}");
        };
        check(json!({}), [true, true]);
        check(json!({"scopes": ["BestEffort"]}), [true, false]);
        check(json!({"scopes": ["NotBestEffort", "Terminating"]}), [false, true]);
        check(json!({"scopes": ["NotTerminating"]}), [true, false]);
        let of_class = json!([{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]);
        check(json!({"scopeSelector": {"matchExpressions": of_class}}), [false, true]);
        let scoped: ResourceQuotaSpec = serde_json::from_value(json!({"scopes": ["BestEffort"]})).unwrap();
        assert!(!covers(&scoped, "", "configmaps", &json!({})));
    }
}
