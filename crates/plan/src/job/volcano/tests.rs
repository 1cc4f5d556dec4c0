//! Cases of the Volcano Job's life, one rule or a few each, on a pretend cluster.

use super::phase::{Deed, Kill, Phase, Step, step};
use super::world::{Cluster, task, template};
use serde_json::{Value, json};

fn gang() -> Value {
    json!({"tasks": [task("master", 1), task("worker", 2)]})
}

fn with_policy(policy: Value) -> Value {
    let mut spec = gang();
    spec["policies"] = json!([policy]);
    spec
}

// CTL-10, CTL-11, CTL-12, CTL-13, CTL-15, POD-1, POD-7, SM-50
#[test]
fn a_job_gets_its_status_its_objects_its_group_and_then_its_pods() {
    let mut spec = gang();
    spec["plugins"] = json!({"svc": []});
    spec["volumes"] = json!([{"mountPath": "/data", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]);
    let mut cluster = Cluster::new(spec);
    cluster.step();
    assert_eq!(cluster.status()["state"]["phase"], "Pending");
    assert_eq!(cluster.count("minAvailable"), 3);
    assert_eq!(cluster.status()["conditions"].as_array().unwrap().len(), 1);
    cluster.step();
    let made: Vec<String> = {
        let plan = cluster.plan();
        cluster.apply(&plan);
        let kind = |action: &crate::control::Action| match action {
            crate::control::Action::Create { object, .. } => object["kind"].as_str().unwrap().to_owned(),
            other => format!("{other:?}").split(' ').next().unwrap().to_owned(),
        };
        plan.actions.iter().map(kind).collect()
    };
    assert_eq!(made, ["Service", "ConfigMap", "NetworkPolicy", "PersistentVolumeClaim", "PodGroup", "PatchStatus"]);
    assert_eq!(cluster.pods(), Vec::<String>::new());
    cluster.settle();
    cluster.admit();
    cluster.step();
    assert_eq!(cluster.pods(), ["j-master-0", "j-worker-0", "j-worker-1"]);
    assert_eq!((cluster.count("pending"), cluster.phase()), (3, "Pending"));
    cluster.run_all();
    cluster.settle();
    assert_eq!((cluster.count("running"), cluster.phase()), (3, "Running"));
    cluster.pods().iter().for_each(|name| cluster.end(name, 0));
    cluster.settle();
    assert_eq!(cluster.phases, ["Pending", "Running", "Completed"]);
    assert_eq!(cluster.count("succeeded"), 3);
}
