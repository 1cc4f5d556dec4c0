//! `svc`: a headless Service, a ConfigMap with everybody's names, and a wall around the Job (spec/volcano.md 5.1).

use super::{Place, hosts};
use crate::job::template::{each_container, push, put_variable};
use crate::job::volcano::resources::{Life, Wanted};
use crate::job::volcano::round::Round;
use serde_json::{Map, Value, json};
use volley_api::kube::text;
use volley_api::volcano::arguments::{Arguments, Flag, Kind};
use volley_api::volcano::keys;

pub const FLAGS: &[Flag] = &[
    ("publish-not-ready-addresses", Kind::Switch, "false"),
    ("disable-network-policy", Kind::Switch, "false"),
    ("inject-hosts-env", Kind::Switch, "true"),
];

fn map_name(round: &Round) -> String {
    format!("{}-svc", round.head.name())
}

fn selector(round: &Round) -> Value {
    json!({ keys::JOB: round.head.name(), keys::NAMESPACE: round.head.namespace() })
}

pub fn wanted(round: &Round, arguments: &Arguments) -> Vec<Wanted> {
    // SVC-8: names that vanish between two tries cost the second one minutes, so they live as long as the Job.
    let life = if round.settings.is_strict { Life::Version } else { Life::Job };
    let name = round.head.name();
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": round.head.owned(name),
        "spec": {
            "clusterIP": "None", "selector": selector(round),
            "publishNotReadyAddresses": arguments.is_on("publish-not-ready-addresses"),
        },
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": round.head.owned(&map_name(round)), "data": data(round),
    });
    let mut wanted =
        vec![Wanted { object: service, life, kept: None }, Wanted { object: map, life, kept: Some("data") }];
    if !arguments.is_on("disable-network-policy") {
        let pods = json!({ "matchLabels": selector(round) });
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": round.head.owned(name),
            "spec": { "podSelector": pods, "ingress": [{ "from": [{ "podSelector": pods }] }], "policyTypes": ["Ingress"] },
        });
        wanted.push(Wanted { object: policy, life, kept: None });
    }
    wanted
}

/// The variables about a task: who, and how many.
fn variables(task: &str) -> [String; 2] {
    let name = task.replace('-', "_").to_uppercase();
    [format!("VC_{name}_HOSTS"), format!("VC_{name}_NUM")]
}

fn data(round: &Round) -> Value {
    let mut data = Map::new();
    for task in &round.spec.tasks {
        let hosts = hosts(round, task);
        let [list, number] = variables(&task.name);
        data.insert(format!("{}.host", task.name.replace('-', "_")), json!(hosts.join("\n")));
        data.insert(list, json!(hosts.join(",")));
        data.insert(number, json!(hosts.len().to_string()));
    }
    data.into()
}

pub fn edit(place: &Place, pod: &mut Value) -> Result<(), String> {
    let round = place.round;
    let map = map_name(round);
    let name = text(pod, "metadata.name").to_owned();
    let spec = &mut pod["spec"];
    for (key, value) in [("hostname", &*name), ("subdomain", round.head.name())] {
        if text(spec, key).is_empty() {
            spec[key] = json!(value);
        }
    }
    push(spec, "volumes", json!({ "name": map, "configMap": { "name": map } }));
    each_container(pod, |container| {
        push(container, "volumeMounts", json!({ "name": map, "mountPath": "/etc/volcano" }));
        if !place.arguments.is_on("inject-hosts-env") {
            return;
        }
        for key in round.spec.tasks.iter().flat_map(|task| variables(&task.name)) {
            let source = json!({ "configMapKeyRef": { "name": map, "key": key } });
            put_variable(container, json!({ "name": key, "valueFrom": source }));
        }
    });
    Ok(())
}
