//! Gangs that lose their nodes, end to end: a drain under real pods, and a node that goes under pretended ones.

use crate::pretend::pretend_pod;
use crate::{World, eventually, pod_spec};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A Volcano job of two workers with two GPUs each, which start together.
fn pair(template: &Value) -> Value {
    json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "pair"},
        "spec": {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": template}]},
    })
}

impl World {
    fn start_training(flags: &[&str]) -> World {
        let world = World::empty();
        world.up(&[&["--only", "cluster,operator", "--listen", "127.0.0.1:0"], flags].concat());
        world
    }

    /// Waits until both workers run; their uids and nodes by name.
    #[track_caller]
    fn until_both_run(&self) -> BTreeMap<String, (String, String)> {
        let part = |pod: &Value, path: &str| pod.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        eventually("both workers run", || {
            let pods = self.get(&["pods"]);
            let pods: Vec<&Value> = pods["items"].as_array().unwrap().iter().collect();
            let runs =
                |pod: &&Value| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null();
            let running = pods.into_iter().filter(runs);
            let found: BTreeMap<_, _> = running
                .map(|pod| (part(pod, "/metadata/name"), (part(pod, "/metadata/uid"), part(pod, "/spec/nodeName"))))
                .collect();
            (found.len() == 2).then_some(found)
        })
    }

    /// Waits until the pair waits, and gives the sentence.
    #[track_caller]
    fn until_pair_waits(&self, part: &str) -> String {
        eventually(&format!("the pair waits for `{part}`"), || {
            let told: Value = serde_json::from_str(&self.volley(&["why", "pair", "-o", "json"])).unwrap();
            let message = told["message"].as_str().unwrap_or_default().to_owned();
            (told["state"] == "waiting" && message.contains(part)).then_some(message)
        })
    }
}

#[test]
fn a_drain_sends_a_gang_away_whole_and_it_starts_anew_when_the_node_is_back() {
    let world = World::start_training(&["--fake-gpus", "4"]);
    let mut spec = pod_spec("sleep 1000");
    spec["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": "2"}});
    world.apply(&pair(&json!({"spec": spec})));
    let before = world.until_both_run();
    let node = before.values().next().unwrap().1.clone();
    world.kubectl(&["drain", &node, "--force", "--delete-emptydir-data", "--ignore-daemonsets"]);
    world.until_pair_waits("unschedulable");
    world.kubectl(&["uncordon", &node]);
    let after = world.until_both_run();
    assert!(after.iter().all(|(name, (uid, _))| before[name].0 != *uid), "{before:?} {after:?}");
    let past = world.volley(&["why", "pair", "--history"]);
    assert!(past.contains("Placed"), "{past}");
}

#[test]
fn a_gang_whose_node_is_lost_goes_on_and_gets_another_place_for_the_lost_pod() {
    let world = World::start_training(&["--no-node", "--pretend-nodes", "3x2gpu"]);
    world.kubectl(&["cordon", "pretend-2"]);
    let annotations = json!({"volley.dev/run-seconds": "1000"});
    let template = pretend_pod("w", 2, &annotations);
    world.apply(&pair(&json!({"metadata": {"annotations": annotations}, "spec": template["spec"]})));
    let before = world.until_both_run();
    world.kubectl(&["delete", "node", "pretend-1"]);
    let (lost, _) = before.iter().find(|(_, (_, node))| node == "pretend-1").unwrap();
    let (kept, _) = before.iter().find(|(_, (_, node))| node == "pretend-0").unwrap();
    // As one does for a machine that will not come back.
    world.kubectl(&["delete", "pod", lost, "--force", "--grace-period=0"]);
    world.until_pair_waits("nvidia.com/gpu");
    world.kubectl(&["uncordon", "pretend-2"]);
    let after = world.until_both_run();
    assert_eq!(after[kept], before[kept], "it was left alone");
    assert_eq!(after[lost].1, "pretend-2");
}

// API-3
#[test]
fn a_hyper_node_shows_how_many_nodes_it_has() {
    let world = World::start_training(&["--no-node", "--pretend-nodes", "3x8gpu,name=rack"]);
    let member = |selector: Value| json!([{"type": "Node", "selector": selector}]);
    for (name, selector) in
        [("all", json!({"regexMatch": {"pattern": "^rack-"}})), ("one", json!({"exactMatch": {"name": "rack-1"}}))]
    {
        world.apply(
            &json!({"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name},
            "spec": {"tier": 1, "members": member(selector)}}),
        );
    }
    for (name, count) in [("all", 3), ("one", 1)] {
        world.until(&["hypernode", name], |object| object["status"]["nodeCount"] == count);
    }
    world.kubectl(&["delete", "node", "rack-1"]);
    world.until(&["hypernode", "all"], |object| object["status"]["nodeCount"] == 2);
}
