//! What a workload asks of a cluster in all, so that an agent takes only what fits.

use super::walk;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::quantity::{Quantity, canonical_value};

/// Amounts by resource name, and `pods` by their number.
pub type Amounts = BTreeMap<String, Quantity>;

/// The sum over all pods of a manifest. What cannot be read asks for nothing: the cluster will say so.
pub fn of(manifest: &Value) -> Amounts {
    let mut total = Amounts::new();
    for template in walk::templates(manifest) {
        let spec = manifest.pointer(&format!("{}/spec", template.place.pointer)).unwrap_or(&Value::Null);
        let pod = pod(spec);
        for _ in 0..template.replicas.min(REPLICAS_MAX) {
            pod.iter().for_each(|(name, amount)| add(&mut total, name, *amount));
            add(&mut total, "pods", Quantity::whole(1));
        }
    }
    total
}

/// Beyond this a job fits nowhere that we know of, whatever its pods ask for.
const REPLICAS_MAX: u64 = 10_000;

fn pod(spec: &Value) -> Amounts {
    let mut pod = Amounts::new();
    for container in spec.get("containers").and_then(Value::as_array).into_iter().flatten() {
        for (name, amount) in asked(container) {
            add(&mut pod, &name, amount);
        }
    }
    // Init containers run one after another, before the others.
    for container in spec.get("initContainers").and_then(Value::as_array).into_iter().flatten() {
        for (name, amount) in asked(container) {
            let own = pod.entry(name).or_insert_with(|| Quantity::whole(0));
            if *own < amount {
                *own = amount;
            }
        }
    }
    pod
}

/// Requests, and limits where a resource has no request.
fn asked(container: &Value) -> Amounts {
    let mut asked = Amounts::new();
    for list in ["/resources/limits", "/resources/requests"] {
        let amounts = container.pointer(list).and_then(Value::as_object).into_iter().flatten();
        let read = |(name, value): (&String, &Value)| {
            let text = canonical_value(value).ok()?;
            Some((name.clone(), Quantity::parse(&text).ok()?))
        };
        asked.extend(amounts.filter_map(read));
    }
    asked
}

fn add(total: &mut Amounts, name: &str, amount: Quantity) {
    let sum = total.entry(name.to_owned()).or_insert_with(|| Quantity::whole(0));
    *sum += amount;
}

/// The resources of which more is asked than is free; a resource that nobody counts is not short.
pub fn short(asked: &Amounts, free: &Amounts) -> Vec<String> {
    let lacks = |(name, amount): &(&String, &Quantity)| free.get(*name).is_some_and(|free| free < amount);
    let told =
        |(name, amount): (&String, &Quantity)| format!("{amount} of {name} is asked for and {} is free", free[name]);
    asked.iter().filter(lacks).map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    //
    #[test]
    fn a_workload_asks_for_the_sum_of_its_pods() {
        let pod = json!({"spec": {
            "initContainers": [{"resources": {"requests": {"cpu": "3", "memory": "1Mi"}}}],
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": 2, "cpu": 4}, "requests": {"cpu": "500m"}}}, {}]}});
        let job =
            json!({"spec": {"tasks": [{"name": "m", "template": pod}, {"name": "w", "replicas": 3, "template": pod}]}});
        let told: Vec<String> = of(&job).iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        assert_eq!(told, ["cpu=12", "memory=4Mi", "nvidia.com/gpu=8", "pods=4"]);
        assert!(of(&json!({"kind": "TrainJob"})).is_empty());
    }

    //
    #[test]
    fn what_does_not_fit_is_told_with_numbers() {
        let amounts = |gpus: i64| Amounts::from([("nvidia.com/gpu".to_owned(), Quantity::whole(gpus))]);
        assert!(short(&amounts(2), &amounts(2)).is_empty());
        assert_eq!(short(&amounts(3), &amounts(2)), ["3 of nvidia.com/gpu is asked for and 2 is free"]);
        assert!(short(&amounts(3), &Amounts::new()).is_empty());
    }
}
