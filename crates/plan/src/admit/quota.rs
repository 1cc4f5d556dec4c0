//! Resource quotas at admission: what an object costs, and whether its namespace can afford it (spec K-ADM-5).

use crate::control::quota::{Usage, covers, usage};
use k8s_openapi::api::core::v1::ResourceQuotaSpec;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::text;

/// The quotas whose `status.used` changes, by position, with the new `used`.
pub type Charges = Vec<(usize, Value)>;

/// Compute resources that a pod must name when a quota limits them.
const COMPUTE: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

/// Charges a new object to the quotas of its namespace, or says which one it would exceed.
pub fn charge(quotas: &[Value], group: &str, resource: &str, object: &Value) -> Result<Charges, String> {
    let usage = usage(group, resource, object);
    let mut charges = Vec::new();
    let counts = |quota: &Value| {
        let spec = serde_json::from_value::<ResourceQuotaSpec>(quota["spec"].clone());
        spec.is_ok_and(|spec| covers(&spec, group, resource, object))
    };
    for (position, quota) in quotas.iter().enumerate().filter(|(_, quota)| counts(quota)) {
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
        let over: Vec<&String> =
            after.iter().filter(|(name, amount)| **amount > of(&hard, name)).map(|(n, _)| n).collect();
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
    entries.filter_map(|(name, amount)| Some((name.clone(), Quantity::parse(amount.as_str()?).ok()?))).collect()
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
    use proptest::prelude::*;

    fn quota(hard: Value, used: Value) -> Value {
        json!({"metadata": {"name": "q"}, "spec": {"hard": hard}, "status": {"used": used}})
    }

    // K-ADM-5
    #[test]
    fn an_object_is_charged_or_refused_with_the_numbers() {
        let run = |quota: Value, pod: &Value| charge(&[quota], "", "pods", pod);
        let pod = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}});
        let roomy = quota(json!({"pods": "3"}), json!({"pods": "1"}));
        assert_eq!(run(roomy, &pod), Ok(vec![(0, json!({"pods": "2"}))]));
        let tight = quota(json!({"requests.cpu": "1"}), json!({}));
        assert_eq!(
            run(tight.clone(), &pod),
            Err("exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1".into())
        );
        let silent = json!({"spec": {"containers": [{"name": "c"}]}});
        assert_eq!(run(tight, &silent), Err("failed quota: q: must specify requests.cpu for: c".into()));
        assert_eq!(charge(&[], "", "pods", &pod), Ok(vec![]));
        let maps = quota(json!({"configmaps": "1"}), json!({"configmaps": "1"}));
        assert!(charge(&[maps], "", "configmaps", &json!({})).is_err());
    }

    fn pod(millicores: u64) -> Value {
        let cpu = format!("{millicores}m");
        json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        // K-ADM-5
        #[test]
        fn what_is_used_is_the_sum_of_what_was_admitted_and_never_over_the_limit(
            limit in 0..6000u64, pods in 0..12u64, wanted in proptest::collection::vec(0..2500u64, 0..20)
        ) {
            let mut quotas = [
                quota(json!({"requests.cpu": format!("{limit}m")}), json!({})),
                quota(json!({"pods": pods.to_string()}), json!({})),
            ];
            let (mut cpu, mut count) = (0, 0);
            for amount in wanted {
                let fits = cpu + amount <= limit && count < pods;
                let charged = charge(&quotas, "", "pods", &pod(amount));
                prop_assert_eq!(charged.is_ok(), fits);
                for (position, used) in charged.unwrap_or_default() {
                    quotas[position]["status"]["used"] = used;
                }
                if fits {
                    cpu += amount;
                    count += 1;
                }
                let used = |quota: &Value, name: &str| of(&amounts(&quota["status"]["used"]), name);
                prop_assert_eq!(used(&quotas[0], "requests.cpu"), Quantity::parse(&format!("{cpu}m")).unwrap());
                prop_assert_eq!(used(&quotas[1], "pods"), Quantity::parse(&count.to_string()).unwrap());
            }
        }
    }
}
