//! Resource quotas at admission: what an object costs, and whether its namespace can afford it (spec K-ADM-5).

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::text;

/// Amounts by resource name, as quotas count them.
pub type Usage = BTreeMap<String, Quantity>;

/// The quotas whose `status.used` changes, by position, with the new `used`.
pub type Charges = Vec<(usize, Value)>;

/// Compute resources that a pod must name when a quota limits them.
const COMPUTE: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Charges a new object to the quotas of its namespace, or says which one it would exceed.
pub fn charge(quotas: &[Value], object: &Value, usage: &Usage) -> Result<Charges, String> {
    let mut charges = Vec::new();
    for (position, quota) in quotas.iter().enumerate().filter(|(_, quota)| in_scope(quota, object)) {
        let hard = amounts(&quota["spec"]["hard"]);
        let wanted: Usage =
            usage.iter().filter(|(name, _)| hard.contains_key(*name)).map(|(k, v)| (k.clone(), *v)).collect();
        if let Some(missing) = unnamed(&hard, object) {
            return Err(format!("failed quota: {}: must specify {missing}", text(quota, "metadata.name")));
        }
        if wanted.is_empty() {
            continue;
        }
        let used = amounts(&quota["status"]["used"]);
        let after: Usage = wanted.iter().map(|(name, amount)| (name.clone(), of(&used, name) + *amount)).collect();
        let over: Vec<&String> = after.iter().filter(|(name, amount)| **amount > of(&hard, name)).map(|(n, _)| n).collect();
        if !over.is_empty() {
            let list = |from: &Usage| {
                over.iter().map(|name| format!("{name}={}", of(from, name))).collect::<Vec<_>>().join(",")
            };
            return Err(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                text(quota, "metadata.name"),
                list(&wanted),
                list(&used),
                list(&hard)
            ));
        }
        charges.push((position, with(&used, &after)));
    }
    Ok(charges)
}

/// What the quotas of a namespace use once an object is gone.
pub fn refund(quotas: &[Value], object: &Value, usage: &Usage) -> Charges {
    let mut charges = Vec::new();
    for (position, quota) in quotas.iter().enumerate().filter(|(_, quota)| in_scope(quota, object)) {
        let used = amounts(&quota["status"]["used"]);
        let less = |name: &String, amount: &Quantity| {
            let left = of(&used, name) - *amount;
            if left.is_negative() { Quantity::default() } else { left }
        };
        let after: Usage = usage
            .iter()
            .filter(|(name, amount)| used.contains_key(*name) && !amount.is_zero())
            .map(|(name, amount)| (name.clone(), less(name, amount)))
            .collect();
        if !after.is_empty() {
            charges.push((position, with(&used, &after)));
        }
    }
    charges
}

/// Whether a quota counts this object: scopes choose among pods only.
fn in_scope(quota: &Value, object: &Value) -> bool {
    let scopes = quota["spec"]["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let selectors = quota["spec"]["scopeSelector"]["matchExpressions"].as_array().into_iter().flatten();
    let is_pod = object["spec"].get("containers").is_some();
    let mut scopes = scopes.peekable();
    let mut selectors = selectors.peekable();
    if scopes.peek().is_none() && selectors.peek().is_none() {
        return true;
    }
    is_pod && scopes.all(|scope| pod_has(scope, object)) && selectors.all(|s| selector_holds(s, object))
}

fn pod_has(scope: &str, pod: &Value) -> bool {
    let terminating = pod["spec"].get("activeDeadlineSeconds").is_some();
    let best_effort = text(pod, "status.qosClass") == "BestEffort";
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => best_effort,
        "NotBestEffort" => !best_effort,
        _ => false,
    }
}

fn selector_holds(selector: &Value, pod: &Value) -> bool {
    let class = text(pod, "spec.priorityClassName");
    let values = || selector["values"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if text(selector, "scopeName") != "PriorityClass" {
        return pod_has(text(selector, "scopeName"), pod);
    }
    match text(selector, "operator") {
        "In" => values().any(|value| value == class),
        "NotIn" => values().all(|value| value != class),
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        _ => false,
    }
}

/// Containers that leave out a compute resource which the quota limits: `requests.cpu for: main`.
fn unnamed(hard: &Usage, object: &Value) -> Option<String> {
    let containers = object["spec"]["containers"].as_array()?;
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in COMPUTE.iter().filter(|name| hard.contains_key(**name)) {
        let (list, resource) = match name.split_once('.') {
            Some((list, resource)) => (list, resource),
            None => ("requests", *name),
        };
        for container in containers.iter().filter(|c| c["resources"][list].get(resource).is_none()) {
            missing.entry(name).or_default().push(text(container, "name"));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let parts: Vec<String> = missing.iter().map(|(name, who)| format!("{name} for: {}", who.join(","))).collect();
    Some(parts.join("; "))
}

fn of(usage: &Usage, name: &str) -> Quantity {
    usage.get(name).copied().unwrap_or_default()
}

fn amounts(map: &Value) -> Usage {
    let entries = map.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?)))
        .collect()
}

fn with(used: &Usage, changed: &Usage) -> Value {
    let mut map = Map::new();
    for (name, amount) in used.iter().chain(changed) {
        map.insert(name.clone(), json!(amount.to_string()));
    }
    Value::Object(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"used": used}})
    }

    fn usage(entries: &[(&str, &str)]) -> Usage {
        entries.iter().map(|(k, v)| ((*k).to_owned(), Quantity::parse(v).expect("a quantity"))).collect()
    }

    // K-ADM-5
    #[test]
    fn an_object_is_charged_or_refused_with_the_numbers() {
        let pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        let cost = usage(&[("pods", "1"), ("requests.cpu", "2")]);
        let roomy = [quota(json!({"pods": "3"}), json!({"pods": "1"}))];
        assert_eq!(charge(&roomy, &pod, &cost), Ok(vec![(0, json!({"pods": "2"}))]));
        let tight = [quota(json!({"requests.cpu": "1"}), json!({}))];
        assert_eq!(
            charge(&tight, &pod, &cost),
            Err("exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1".into())
        );
        let silent = json!({"spec": {"containers": [{"name": "c"}]}});
        assert_eq!(
            charge(&tight, &silent, &usage(&[("pods", "1")])),
            Err("failed quota: q: must specify requests.cpu for: c".into())
        );
        assert_eq!(charge(&[], &pod, &cost), Ok(vec![]));
    }

    #[test]
    fn a_refund_undoes_a_charge() {
        let pod = json!({"spec": {"containers": []}});
        let cost = usage(&[("pods", "1")]);
        let before = quota(json!({"pods": "3"}), json!({"pods": "1"}));
        let after = charge(std::slice::from_ref(&before), &pod, &cost).expect("fits").remove(0).1;
        let refunded = refund(&[quota(json!({"pods": "3"}), after)], &pod, &cost).remove(0).1;
        assert_eq!(refunded, before["status"]["used"]);
    }
}
