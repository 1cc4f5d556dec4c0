//! `tensorflow`, `mpi` and `hcclrank`: each tells pods where the others are, in its framework's way.

use super::{Place, hosts};
use crate::job::template::{add_port, containers, each_container, set_mark, set_variable};
use serde_json::{Map, Value, json};
use volley_api::kube::{at, text};
use volley_api::volcano::arguments::{Flag, Kind};

pub const TENSORFLOW: &[Flag] = &[
    ("ps", Kind::Text, "ps"),
    ("worker", Kind::Text, "worker"),
    ("chief", Kind::Text, "chief"),
    ("evaluator", Kind::Text, "evaluator"),
    ("port", Kind::Number, "2222"),
];
pub const HCCL: &[Flag] = &[("master", Kind::Text, "master"), ("worker", Kind::Text, "worker")];
const RANK_INDEX: &str = "hccl/rankIndex";

/// `TF_CONFIG` (TF-1); a lone pod trains alone and needs none (TF-2).
pub fn tensorflow(place: &Place, pod: &mut Value) -> Result<(), String> {
    let spec = &place.round.spec;
    if spec.tasks.len() == 1 && spec.tasks[0].replicas == 1 {
        return Ok(());
    }
    let port = place.arguments.number("port");
    let mut cluster = Map::new();
    let mut role_here = &*place.task.name;
    for role in ["ps", "worker", "chief", "evaluator"] {
        let Some(task) = spec.task(place.arguments.text(role)) else { continue };
        let list: Vec<String> = hosts(place.round, task).iter().map(|host| format!("{host}:{port}")).collect();
        cluster.insert(role.to_owned(), json!(list));
        if task.name == place.task.name {
            role_here = role;
        }
    }
    let config = json!({ "cluster": cluster, "task": { "type": role_here, "index": place.index } }).to_string();
    containers(pod).for_each(|container| set_variable(container, "TF_CONFIG", &*config));
    Ok(())
}

/// Tells the master who its workers are (MPI-1) and opens the port that they answer on (MPI-2).
pub fn mpi(place: &Place, pod: &mut Value) -> Result<(), String> {
    let arguments = &place.arguments;
    let is_master = place.task.name == arguments.text("master");
    let workers = place.round.spec.task(arguments.text("worker"));
    if let Some(workers) = workers.filter(|_| is_master) {
        let list = hosts(place.round, workers).join(",");
        each_container(pod, |container| set_variable(container, "MPI_HOST", &*list));
    } else if is_master {
        return Ok(());
    }
    each_container(pod, |container| add_port(container, "mpijob-port", arguments.number("port")));
    Ok(())
}

/// The rank of the pod as an annotation (HCCL-1): `RANK` if a plugin or the user has set it, else by its place.
pub fn hccl_rank(place: &Place, pod: &mut Value) -> Result<(), String> {
    if at(pod, "metadata.annotations").is_some_and(|marks| marks.get(RANK_INDEX).is_some()) {
        return Ok(());
    }
    let rank_of = |container: &mut Value| {
        let variables = container["env"].as_array()?;
        let rank = variables.iter().find(|variable| variable["name"] == "RANK")?;
        Some(text(rank, "value").to_owned()).filter(|rank| !rank.is_empty())
    };
    let spec = &place.round.spec;
    let (master, worker) = (place.arguments.text("master"), place.arguments.text("worker"));
    let by_place = match &*place.task.name {
        name if name == master => Some(place.index),
        name if name == worker => Some(spec.task(master).map_or(0, |task| task.replicas) + place.index),
        _ => None,
    };
    let rank = containers(pod).find_map(rank_of).or_else(|| by_place.map(|rank| rank.to_string()));
    if let Some(rank) = rank {
        set_mark(pod, "annotations", RANK_INDEX, rank);
    }
    Ok(())
}
