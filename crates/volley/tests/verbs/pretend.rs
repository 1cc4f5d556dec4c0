//! Nodes that are not there: pods on them run for their time without processes, and real pods beside them.

use crate::{World, pod};
use serde_json::{Value, json};
use volley_plan::node::pretended_pods::{EXIT_CODE, RUN_SECONDS, STOP_SECONDS};

/// A pod that a pretended node takes: no real one has such GPUs.
pub fn pretend_pod(name: &str, gpus: u32, annotations: &Value) -> Value {
    let resources = json!({"limits": {"nvidia.com/gpu": gpus.to_string()}});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "any:1", "resources": resources}]}})
}

fn phase(pod: &Value) -> &str {
    pod["status"]["phase"].as_str().unwrap_or_default()
}

#[test]
fn pods_on_pretended_nodes_run_for_their_time_and_real_ones_beside_them() {
    let world = World::start(&["--gpus", "none", "--pretend-nodes", "300x8gpu,label.zone=a,2x4gpu,name=small"]);
    let nodes = world.get(&["nodes", "-l", "volley.dev/pretend=true"]);
    let nodes = nodes["items"].as_array().unwrap();
    assert_eq!(nodes.len(), 302);
    let is_ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().unwrap();
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
    };
    assert!(nodes.iter().all(is_ready), "all are ready from the start");
    assert_eq!(world.get(&["nodes", "pretend-007"])["status"]["allocatable"]["nvidia.com/gpu"], "8");
    world.until(&["leases", "-n", "kube-node-lease"], |leases| leases["items"].as_array().unwrap().len() >= 302);

    world.apply(&pretend_pod("brief", 8, &json!({RUN_SECONDS: "1"})));
    world.apply(&pretend_pod("fails", 8, &json!({RUN_SECONDS: "1", EXIT_CODE: "7"})));
    world.apply(&pretend_pod("stays", 8, &json!({STOP_SECONDS: "1"})));
    let stays = world.until(&["pod", "stays"], |pod| phase(pod) == "Running");
    assert!(stays["spec"]["nodeName"].as_str().unwrap().starts_with("pretend-"));
    assert!(stays["status"]["podIP"].as_str().unwrap().starts_with("100."));
    assert_eq!(stays["status"]["containerStatuses"][0]["ready"], true);
    world.until(&["pod", "brief"], |pod| phase(pod) == "Succeeded");
    let failed = world.until(&["pod", "fails"], |pod| phase(pod) == "Failed");
    assert_eq!(failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 7);
    // What has no process says nothing, for as long as it runs.
    world.apply(&pretend_pod("silent", 8, &json!({RUN_SECONDS: "2"})));
    world.until(&["pod", "silent"], |pod| phase(pod) == "Running");
    assert_eq!(world.kubectl(&["logs", "-f", "silent"]), "");
    assert_eq!(phase(&world.get(&["pod", "silent"])), "Succeeded");
    assert_eq!(world.kubectl(&["logs", "stays"]), "");

    let mut real = pod("real", "echo here");
    real["spec"]["nodeSelector"] = json!({"node-role.kubernetes.io/control-plane": ""});
    world.apply(&real);
    world.until(&["pod", "real"], |pod| phase(pod) == "Succeeded");
    assert_eq!(world.volley(&["logs", "pod/real"]), "here\n");
    world.kubectl(&["delete", "pod", "stays"]);
    world.until(&["pods"], |pods| {
        pods["items"].as_array().unwrap().iter().all(|pod| pod["metadata"]["name"] != "stays")
    });
}

#[test]
fn a_restart_adopts_pretended_pods_and_takes_away_nodes_that_are_not_wished_for() {
    let world = World::start(&["--no-node", "--pretend-nodes", "3x8gpu"]);
    let mut pod = pretend_pod("long", 8, &json!({RUN_SECONDS: "2"}));
    // The last of three nodes will not be there after the restart.
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "pretend-0"});
    world.apply(&pod);
    let before = world.until(&["pod", "long"], |pod| phase(pod) == "Running");
    world.volley(&["down"]);
    world.up(&["--only", "cluster", "--listen", "127.0.0.1:0", "--no-node", "--pretend-nodes", "2x8gpu"]);
    let after = world.until(&["pod", "long"], |pod| phase(pod) == "Succeeded");
    assert_eq!(after["status"]["startTime"], before["status"]["startTime"]);
    assert_eq!(after["status"]["podIP"], before["status"]["podIP"]);
    world.until(&["nodes", "-l", "volley.dev/pretend=true"], |nodes| nodes["items"].as_array().unwrap().len() == 2);
}

#[test]
fn pretended_nodes_that_cannot_be_are_refused() {
    let world = World::empty();
    for wrong in ["many", "3x8tpu", "3x8gpu,cores=4"] {
        let output = world.run(&["up", "--only", "cluster", "--pretend-nodes", wrong]);
        assert_eq!(output.code, 2, "{wrong}: {}", output.stderr);
        assert!(output.stderr.contains("--pretend-nodes"), "{}", output.stderr);
    }
}
