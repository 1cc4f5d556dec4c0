//! `pytorch`: the address book of `torch.distributed` (spec/volcano.md 5.4).

use super::{Place, first_host};
use crate::job::template::{add_port, containers, init_containers, push, set_variable};
use serde_json::{Value, json};
use volley_api::volcano::arguments::{Flag, Kind};

pub const FLAGS: &[Flag] = &[
    ("master", Kind::Text, "master"),
    ("worker", Kind::Text, "worker"),
    ("port", Kind::Number, "23456"),
    ("wait-master-enabled", Kind::Switch, "false"),
    ("wait-master-timeout", Kind::Number, "300"),
    ("wait-master-image", Kind::Text, "busybox:1.36.1"),
    // Volley's own (PT-12): also what `torchrun` reads.
    ("nproc-per-node", Kind::Text, ""),
];
const GATE: &str = "wait-for-master";

pub fn edit(place: &Place, pod: &mut Value) -> Result<(), String> {
    let (round, arguments) = (place.round, &place.arguments);
    let (master_name, worker_name) = (arguments.text("master"), arguments.text("worker"));
    let Some(master) = round.spec.task(master_name) else {
        return Ok(());
    };
    let workers = round.spec.task(worker_name).map_or(0, |task| task.replicas);
    let address = first_host(round, master);
    let port = arguments.number("port");
    let world = master.replicas + workers;
    // PT-9: upstream calls every master 0, and workers from 1 on.
    let (first_masters, first_worker) =
        if round.settings.is_strict { (0, 1) } else { (place.index, master.replicas.max(1)) };
    let rank = match &*place.task.name {
        name if name == master_name => Some(first_masters),
        name if name == worker_name => Some(first_worker + place.index),
        _ => None,
    };
    if place.task.name == worker_name && arguments.is_on("wait-master-enabled") {
        add_gate(place, &address, pod);
    }
    let mut variables =
        vec![("MASTER_ADDR", address), ("MASTER_PORT", port.to_string()), ("WORLD_SIZE", world.to_string())];
    variables.extend(rank.map(|rank| ("RANK", rank.to_string())));
    let processes = arguments.text("nproc-per-node");
    if let Some(rank) = rank.filter(|_| !processes.is_empty()) {
        let (address, port) = (variables[0].1.clone(), variables[1].1.clone());
        variables.extend([
            ("PET_NNODES", world.to_string()),
            ("PET_NPROC_PER_NODE", processes.to_owned()),
            ("PET_NODE_RANK", rank.to_string()),
            ("PET_MASTER_ADDR", address),
            ("PET_MASTER_PORT", port),
        ]);
    }
    for container in containers(pod) {
        for (name, value) in &variables {
            set_variable(container, name, value);
        }
        add_port(container, "pytorchjob-port", port);
    }
    Ok(())
}

/// Holds a worker back until the master's port answers (PT-10).
fn add_gate(place: &Place, address: &str, pod: &mut Value) {
    if init_containers(pod).any(|container| container["name"] == GATE) {
        return;
    }
    let arguments = &place.arguments;
    let (port, timeout) = (arguments.number("port"), arguments.number("wait-master-timeout"));
    let script = format!(
        "left={timeout}\nuntil nc -z -w 2 {address} {port}; do\n  left=$((left - 2))\n  if [ \"$left\" -le 0 ]; then echo \"no answer from {address}:{port} after {timeout} s\"; exit 1; fi\n  sleep 2\ndone\n"
    );
    let gate = json!({ "name": GATE, "image": arguments.text("wait-master-image"), "command": ["sh", "-c", script] });
    push(&mut pod["spec"], "initContainers", gate);
}
