//! `ray`: a head that serves three ports and workers that join it (spec/volcano.md 5.7).

use super::{Place, first_host};
use crate::job::template::{add_port, containers};
use crate::job::volcano::resources::{Life, Wanted};
use crate::job::volcano::round::Round;
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_api::volcano::arguments::{Arguments, Flag, Kind};
use volley_api::volcano::keys;

pub const FLAGS: &[Flag] = &[
    ("head", Kind::Text, "head"),
    ("headContainer", Kind::Text, "head"),
    ("worker", Kind::Text, "worker"),
    ("workerContainer", Kind::Text, "worker"),
    ("port", Kind::Number, "6379"),
    ("dashboardPort", Kind::Number, "8265"),
    ("clientPort", Kind::Number, "10001"),
];
/// Names of the head's ports and the flags that hold their numbers.
const PORTS: [(&str, &str); 3] = [("gcs", "port"), ("dashboard", "dashboardPort"), ("client-server", "clientPort")];

pub fn wanted(round: &Round, arguments: &Arguments) -> Wanted {
    let name = format!("{}-head-svc", round.head.name());
    let port = |(name, flag): (&str, &str)| {
        let number = arguments.number(flag);
        json!({ "name": name, "port": number, "targetPort": number, "protocol": "TCP" })
    };
    let selector = json!({
        keys::JOB: round.head.name(), keys::NAMESPACE: round.head.namespace(), keys::TASK: arguments.text("head"),
    });
    let spec = json!({ "type": "ClusterIP", "ports": PORTS.map(port), "selector": selector });
    let object = json!({ "apiVersion": "v1", "kind": "Service", "metadata": round.head.owned(&name), "spec": spec });
    let life = if round.settings.is_strict { Life::Version } else { Life::Job };
    Wanted { object, life, kept: None }
}

pub fn edit(place: &Place, pod: &mut Value) -> Result<(), String> {
    let arguments = &place.arguments;
    let Some(head) = place.round.spec.task(arguments.text("head")) else {
        return Err(format!("ray: there is no task named {}", arguments.text("head")));
    };
    let [port, dashboard, client] = PORTS.map(|(_, flag)| arguments.number(flag));
    let is_head = place.task.name == head.name;
    let (container_name, command) = if is_head {
        let ports = format!("--port={port} --dashboard-port={dashboard} --ray-client-server-port={client}");
        (arguments.text("headContainer"), format!("ray start --head --block --dashboard-host=0.0.0.0 {ports}"))
    } else if place.task.name == arguments.text("worker") {
        let address = first_host(place.round, head);
        (arguments.text("workerContainer"), format!("ray start --block --address={address}:{port}"))
    } else {
        return Ok(());
    };
    for container in containers(pod).filter(|container| text(container, "name") == container_name) {
        container["command"] = json!(["sh", "-c", command]);
        if is_head {
            PORTS.iter().for_each(|(name, flag)| add_port(container, name, arguments.number(flag)));
        }
    }
    Ok(())
}
