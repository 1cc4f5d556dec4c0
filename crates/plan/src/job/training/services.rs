//! One headless service per pod, of the pod's name, so that every rank has an address (spec PT 7).

use super::round::{REPLICA_INDEX, REPLICA_TYPE, Round};
use crate::control::Action;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_api::kube::{at, text};
use volley_api::kubeflow::job::Replica;
use volley_api::kubeflow::kinds::Kind;

/// Makes the services that are missing and deletes those beyond the replica type's count.
pub fn sync(round: &mut Round, replica: &Replica) {
    if round.job.row.kind == Kind::Mpi {
        return;
    }
    let type_ = replica.type_.to_lowercase();
    let label = |service: &Value, key: &str| {
        let labels = at(service, "metadata.labels");
        labels.and_then(|labels| labels.get(key)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let of_type = round.services.values().copied().filter(|service| label(service, REPLICA_TYPE) == type_);
    let beyond =
        |service: &&Value| label(service, REPLICA_INDEX).parse().is_ok_and(|index: i32| index >= replica.count);
    let surplus: Vec<_> = of_type.filter(beyond).collect();
    surplus.into_iter().for_each(|service| round.delete_service(service));
    for index in 0..replica.count {
        let name = round.job.pod_name(replica.type_, index);
        if round.services.contains_key(name.as_str()) {
            continue;
        }
        let object = build(round, replica, index, &name);
        let event = round.voice.normal("SuccessfulCreateService", "Created service: {name}");
        round.plan.actions.push(Action::Create { object, event: Some(event) });
    }
}

fn build(round: &Round, replica: &Replica, index: i32, name: &str) -> Value {
    let mut labels = round.labels(replica);
    labels.insert(REPLICA_INDEX, index.to_string());
    let mut metadata = round.head.owned(name);
    metadata["labels"] = json!(labels);
    let ports = ports(round, replica);
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata,
        "spec": { "clusterIP": "None", "selector": labels, "ports": ports },
    })
}

/// The ports of the container that trains; the reference's copies of unnamed ones are refused (PT-SVC-2a).
fn ports(round: &Round, replica: &Replica) -> Vec<Value> {
    let container = replica.main_container(round.job.row).map(|index| &replica.containers()[index]);
    let listed = container.and_then(|container| container.get("ports")).and_then(Value::as_array);
    let listed = listed.map(Vec::as_slice).unwrap_or_default();
    let mut seen = BTreeSet::new();
    let mut ports = Vec::new();
    for port in listed {
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or_default();
        if round.settings.is_strict {
            ports.push(json!({ "name": text(port, "name"), "port": number }));
            continue;
        }
        let protocol = Some(text(port, "protocol")).filter(|name| !name.is_empty()).unwrap_or("TCP");
        let name = Some(text(port, "name").to_owned()).filter(|name| !name.is_empty());
        let name = name.unwrap_or_else(|| format!("port-{number}"));
        if seen.insert((number, protocol)) && !ports.iter().any(|other: &Value| other["name"] == name.as_str()) {
            ports.push(json!({ "name": name, "port": number, "protocol": protocol }));
        }
    }
    ports
}
