//! Limit ranges: defaults for containers that name no resources, and bounds for those that do (spec K-ADM-6).

use serde_json::{Map, Value, json};
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{items_mut, text};

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Fills a pod's resources from the namespace's ranges, then checks their bounds.
pub fn pod(pod: &mut Value, ranges: &[Value]) -> Result<(), String> {
    for range in ranges {
        let items = || range["spec"]["limits"].as_array().into_iter().flatten();
        for item in items().filter(|item| text(item, "type") == "Container") {
            fill(pod, item);
        }
        let mut problems = Vec::new();
        for item in items() {
            match text(item, "type") {
                "Container" => {
                    for container in containers(pod) {
                        problems.extend(check(item, &container["resources"], "Container"));
                    }
                }
                "Pod" => problems.extend(check(item, &total(pod), "Pod")),
                _ => {}
            }
        }
        match problems.as_slice() {
            [] => {}
            [one] => return Err(one.clone()),
            many => return Err(format!("[{}]", many.join(", "))),
        }
    }
    Ok(())
}

/// Checks a claim's size against the namespace's ranges.
pub fn claim(claim: &Value, ranges: &[Value]) -> Result<(), String> {
    let items = ranges.iter().flat_map(|range| range["spec"]["limits"].as_array().into_iter().flatten());
    for item in items.filter(|item| text(item, "type") == "PersistentVolumeClaim") {
        if let Some(problem) = check(item, &claim["spec"]["resources"], "PersistentVolumeClaim").into_iter().next() {
            return Err(problem);
        }
    }
    Ok(())
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    let list = |name: &str| pod["spec"][name].as_array().into_iter().flatten();
    list("initContainers").chain(list("containers"))
}

fn fill(pod: &mut Value, item: &Value) {
    let mut told = Vec::new();
    for (list, word) in [("spec.containers", "container"), ("spec.initContainers", "init container")] {
        for container in items_mut(pod, list) {
            let requests = fill_map(container, "requests", &item["defaultRequest"]);
            let limits = fill_map(container, "limits", &item["default"]);
            let name = text(container, "name");
            for (what, names) in [("request", requests), ("limit", limits)] {
                if !names.is_empty() {
                    told.push(format!("{} {what} for {word} {name}", names.join(", ")));
                }
            }
        }
    }
    if !told.is_empty() {
        pod["metadata"]["annotations"][ANNOTATION] = format!("LimitRanger plugin set: {}", told.join("; ")).into();
    }
}

/// Names that were missing and are now filled.
fn fill_map(container: &mut Value, list: &str, defaults: &Value) -> Vec<String> {
    let mut added = Vec::new();
    for (name, amount) in defaults.as_object().into_iter().flatten() {
        if container["resources"][list].get(name).is_none() {
            container["resources"][list][name] = amount.clone();
            added.push(name.clone());
        }
    }
    added
}

/// Sums over a pod's containers; a resource counts only where every container names it.
fn total(pod: &Value) -> Value {
    let mut sums = json!({"requests": {}, "limits": {}});
    for list in ["requests", "limits"] {
        let mut map = Map::new();
        let all: Vec<&Value> = pod["spec"]["containers"].as_array().into_iter().flatten().collect();
        let names =
            all.iter().flat_map(|c| c["resources"][list].as_object().into_iter().flatten().map(|(name, _)| name));
        for name in names {
            let sum = all
                .iter()
                .filter_map(|c| amount(&c["resources"][list], name))
                .fold(Quantity::default(), |sum, amount| sum + amount);
            map.insert(name.clone(), sum.to_string().into());
        }
        sums[list] = Value::Object(map);
    }
    sums
}

fn amount(map: &Value, name: &str) -> Option<Quantity> {
    Quantity::parse(map.get(name)?.as_str()?).ok()
}

fn check(item: &Value, resources: &Value, kind: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let (requests, limits) = (&resources["requests"], &resources["limits"]);
    for (name, bound) in item["min"].as_object().into_iter().flatten() {
        let Some(least) = bound.as_str().and_then(|b| Quantity::parse(b).ok()) else { continue };
        match amount(requests, name) {
            None => problems.push(format!("minimum {name} usage per {kind} is {least}.  No request is specified")),
            Some(asked) if asked < least => {
                problems.push(format!("minimum {name} usage per {kind} is {least}, but request is {asked}"));
            }
            Some(_) => {}
        }
    }
    for (name, bound) in item["max"].as_object().into_iter().flatten() {
        let Some(most) = bound.as_str().and_then(|b| Quantity::parse(b).ok()) else { continue };
        // Storage has no limit, only a request.
        let (asked, word) = match kind {
            "PersistentVolumeClaim" => (amount(requests, name), "request"),
            _ => (amount(limits, name), "limit"),
        };
        match asked {
            None => problems.push(format!("maximum {name} usage per {kind} is {most}.  No {word} is specified")),
            Some(asked) if asked > most => {
                problems.push(format!("maximum {name} usage per {kind} is {most}, but {word} is {asked}"));
            }
            Some(_) => {}
        }
    }
    for (name, bound) in item["maxLimitRequestRatio"].as_object().into_iter().flatten() {
        let Some(most) = bound.as_str().and_then(|b| Quantity::parse(b).ok()) else { continue };
        let (asked, limit) = (amount(requests, name), amount(limits, name));
        let start = format!("{name} max limit to request ratio per {kind} is {most}");
        match (asked, limit) {
            (Some(asked), Some(limit)) if !asked.is_zero() => {
                let ratio = limit.milli_value() as f64 / asked.milli_value() as f64;
                if ratio > most.milli_value() as f64 / 1000.0 {
                    problems.push(format!("{start}, but provided ratio is {ratio:.6}"));
                }
            }
            _ => problems.push(format!("{start}, but no request is specified or request is 0")),
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-ADM-6
    #[test]
    fn containers_get_defaults_and_keep_to_the_bounds() {
        let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"},
            "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "1"}}]}});
        let mut silent = json!({"spec": {"containers": [{"name": "c"}]}});
        pod(&mut silent, std::slice::from_ref(&range)).expect("defaults fit");
        assert_eq!(
            silent["spec"]["containers"][0]["resources"],
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}})
        );
        assert_eq!(
            silent["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
        );
        let mut greedy = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "3"}}}]}});
        let error = pod(&mut greedy, &[range]).expect_err("over the bound");
        assert_eq!(error, "maximum cpu usage per Container is 1, but limit is 3");
    }

    // K-ADM-6
    #[test]
    fn a_limit_keeps_its_distance_to_the_request() {
        let range = json!({"spec": {"limits": [{"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}]}});
        let asking = |request: &str| {
            let resources = json!({"requests": {"cpu": request}, "limits": {"cpu": "1"}});
            let mut asked = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
            pod(&mut asked, std::slice::from_ref(&range))
        };
        assert_eq!(asking("500m"), Ok(()));
        let text = "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000";
        assert_eq!(asking("250m"), Err(text.to_owned()));
    }

    #[test]
    fn claims_keep_to_the_bounds() {
        let range = json!({"spec": {"limits": [{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}]}});
        let claim_of = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        assert_eq!(claim(&claim_of("1Gi"), std::slice::from_ref(&range)), Ok(()));
        assert!(claim(&claim_of("2Gi"), &[range]).is_err());
    }
}
