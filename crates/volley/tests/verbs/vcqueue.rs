//! `volley vcqueue`, word for word as vcctl's users know it.

use crate::World;
use serde_json::{Value, json};

fn commands(world: &World) -> Vec<(Value, Value, Value)> {
    let all = world.get(&["commands.bus.volcano.sh", "-n", "default"]);
    let parts = |it: &Value| (it["action"].clone(), it["target"]["name"].clone(), it["target"]["kind"].clone());
    all["items"].as_array().unwrap().iter().map(parts).collect()
}

// CLI-3
#[test]
fn queues_are_made_shown_operated_and_deleted() {
    let world = World::start(&["--no-node"]);
    assert_eq!(world.volley(&["vcqueue", "create"]), "");
    assert_eq!(world.get(&["queues.scheduling.volcano.sh", "test"])["spec"]["weight"], 1);
    world.volley(&["vcqueue", "create", "-n", "research", "-w", "4"]);
    let group = |name: &str| {
        json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name, "namespace": "kube-system"}, "spec": {"minMember": 1, "queue": "default"}})
    };
    // The scheduler lets in what waits.
    for name in ["a", "b"] {
        world.apply(&group(name));
        world.until(&["podgroup", name, "-n", "kube-system"], |group| group["status"]["phase"] == "Inqueue");
    }
    let table = world.volley(&["vcqueue", "get", "-n", "default"]);
    let expected = "\
Name                     Weight  State   Parent  Inqueue Pending Running Unknown Completed
default                  1       Open    root    2       0       0       0       0
";
    assert_eq!(table, expected);
    let lines: Vec<&str> = expected.lines().collect();
    let listed = world.volley(&["vcqueue", "list"]);
    assert!(listed.starts_with(lines[0]) && listed.contains(lines[1]) && listed.contains("\ntest "), "{listed}");
    assert!(world.volley(&["vcqueue", "list", "-o", "name"]).contains("queue.scheduling.volcano.sh/research\n"));
    let shown: Value = serde_json::from_str(&world.volley(&["vcqueue", "get", "research", "-o", "json"])).unwrap();
    assert_eq!(shown["metadata"]["name"], "research");

    world.volley(&["vcqueue", "operate", "-n", "research", "-a", "close"]);
    world.volley(&["vcqueue", "operate", "research", "-a", "open"]);
    world.volley(&["vcqueue", "create", "later", "-S", "Closed"]);
    let made = |action: &str, queue: &str| (json!(action), json!(queue), json!("Queue"));
    for expected in [made("CloseQueue", "research"), made("OpenQueue", "research"), made("CloseQueue", "later")] {
        assert!(commands(&world).contains(&expected), "{expected:?}");
    }
    world.volley(&["vcqueue", "operate", "research", "-a", "update", "-w", "9"]);
    assert_eq!(world.get(&["queues.scheduling.volcano.sh", "research"])["spec"]["weight"], 9);

    for (words, told) in [
        (&["operate", "research"][..], "action can not be null"),
        (&["operate", "-a", "open"], "queue name must be specified"),
        (&["operate", "research", "-a", "stop"], "action stop invalid, valid actions are open, close and update"),
        (
            &["operate", "research", "-a", "update"],
            "when update queue research, weight must be specified, the value must be greater than 0",
        ),
        (&["get"], "name is mandatory to get the particular queue details"),
        (&["get", "absent"], "queues.scheduling.volcano.sh \"absent\" not found"),
        (&["delete"], "queue name must be specified"),
    ] {
        let refusal = world.refusal(&[&["vcqueue"], words].concat());
        assert!(refusal.contains(told), "{words:?}: {refusal}");
    }
    assert_eq!(world.volley(&["vcqueue", "delete", "-n", "test"]), "");
    assert!(!world.volley(&["vcqueue", "list", "-o", "name"]).contains("/test\n"));
}
