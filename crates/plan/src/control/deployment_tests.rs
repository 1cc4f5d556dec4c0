//! Rollouts played on a pretend server, with the ReplicaSet controller and a node that starts pods at once.

use super::deployment::{Observed, plan};
use super::world::World;
use super::{Plan, pods, replicaset};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::{Value, json};

fn world(spec: Value) -> World {
    let mut world = World::default();
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "w", "uid": "w"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "a"}}, "progressDeadlineSeconds": 600,
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "1"}]}}},
    });
    json_patch::merge(&mut deployment["spec"], &spec);
    world.add(deployment);
    world
}

fn planned(world: &World) -> Plan {
    let observed = Observed {
        deployment: &world.get::<Deployment>("w"),
        replica_sets: &world.list::<ReplicaSet>(),
        pods: &world.list::<Pod>(),
    };
    plan(&observed, world.now())
}

fn replica_sets_step(world: &mut World) -> bool {
    let mut changed = false;
    for set in world.list::<ReplicaSet>() {
        let observed = replicaset::Observed { replica_set: &set, pods: &world.list::<Pod>(), create_failure: None };
        let plan = replicaset::plan(&observed, world.now());
        changed |= !plan.is_empty();
        world.apply(&plan);
    }
    changed
}

/// Lets every controller work until all are content; `starts` says which pods the node can start.
fn settle(world: &mut World, starts: &dyn Fn(&Pod) -> bool) -> Plan {
    for _ in 0..80 {
        let plan = planned(world);
        world.apply(&plan);
        let mut changed = !plan.is_empty() | replica_sets_step(world);
        for pod in world.list::<Pod>() {
            let name = pod.metadata.name.clone().unwrap();
            if pods::is_terminating(&pod) {
                world.end_pod(&name, 0);
                changed = true;
            } else if pods::is_active(&pod) && !pods::is_ready(&pod) && starts(&pod) {
                world.run_pod(&name);
                changed = true;
            }
        }
        if !changed {
            return plan;
        }
    }
    panic!("the rollout does not settle");
}

fn image_is(image: &'static str) -> impl Fn(&Pod) -> bool {
    move |pod| pod.spec.as_ref().unwrap().containers[0].image.as_deref() == Some(image)
}

fn set_image(world: &mut World, image: &str) {
    let containers = json!([{"name": "c", "image": image}]);
    world.edit("Deployment", "w", json!({"spec": {"template": {"spec": {"containers": containers}}}}));
}

fn status(world: &World) -> &Value {
    &world.raw("Deployment", "w")["status"]
}

fn condition(world: &World, kind: &str) -> String {
    let conditions = status(world)["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.map_or(String::new(), |c| {
        let text = |key: &str| c[key].as_str().unwrap().to_owned();
        format!("{} {}: {}", text("status"), text("reason"), text("message"))
    })
}

fn sizes(world: &World) -> Vec<i32> {
    let mut sets = world.list::<ReplicaSet>();
    sets.sort_by_key(|set| set.metadata.annotations.as_ref().unwrap()["deployment.kubernetes.io/revision"].clone());
    sets.iter().map(|set| set.spec.as_ref().unwrap().replicas.unwrap()).collect()
}

// K-DEP-1
#[test]
fn a_new_deployment_makes_one_replica_set_and_becomes_available() {
    let mut world = world(json!({}));
    world.apply(&planned(&world));
    let name = world.names("ReplicaSet").remove(0);
    assert_eq!(
        condition(&world, "Progressing"),
        format!("True NewReplicaSetCreated: Created new replica set \"{name}\"")
    );
    assert_eq!(
        condition(&world, "Available"),
        "False MinimumReplicasUnavailable: Deployment does not have minimum availability."
    );
    assert_eq!(world.events, [format!("ScalingReplicaSet Scaled up replica set {name} from 0 to 4")]);
    settle(&mut world, &|_| true);
    let set = world.raw("ReplicaSet", &name);
    let hash = name.strip_prefix("w-").unwrap();
    assert!(hash.bytes().all(|letter| b"bcdfghjklmnpqrstvwxz2456789".contains(&letter)), "{hash}");
    for labels in [&set["metadata"]["labels"], &set["spec"]["selector"]["matchLabels"]] {
        assert_eq!(labels, &json!({"app": "a", "pod-template-hash": hash}));
    }
    assert_eq!(
        set["metadata"]["annotations"],
        json!({"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "4",
            "deployment.kubernetes.io/max-replicas": "5"})
    );
    let deployment = world.raw("Deployment", "w");
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    for key in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
        assert_eq!(status(&world)[key], 4, "{key}");
    }
    assert_eq!(status(&world)["unavailableReplicas"], Value::Null);
    assert_eq!(
        condition(&world, "Progressing"),
        format!("True NewReplicaSetAvailable: ReplicaSet \"{name}\" has successfully progressed.")
    );
    assert_eq!(condition(&world, "Available"), "True MinimumReplicasAvailable: Deployment has minimum availability.");
}

// K-DEP-1
#[test]
fn a_rolling_update_keeps_within_surge_and_availability() {
    let mut world = world(json!({}));
    settle(&mut world, &|_| true);
    set_image(&mut world, "2");
    for _ in 0..60 {
        world.apply(&planned(&world));
        replica_sets_step(&mut world);
        let pods = world.list::<Pod>();
        let active: Vec<&Pod> = pods.iter().filter(|pod| pods::is_active(pod)).collect();
        assert!(active.len() <= 5, "{} pods", active.len());
        assert!(active.iter().filter(|pod| pods::is_ready(pod)).count() >= 3);
        for pod in pods.iter().filter(|pod| !pods::is_ready(pod) || pods::is_terminating(pod)) {
            let name = pod.metadata.name.as_deref().unwrap();
            if pods::is_terminating(pod) { world.end_pod(name, 0) } else { world.run_pod(name) }
        }
    }
    assert_eq!(sizes(&world), [0, 4]);
    assert!(planned(&world).is_empty());
}

// K-DEP-1
#[test]
fn going_back_to_an_old_template_reuses_its_replica_set() {
    let mut world = world(json!({}));
    settle(&mut world, &|_| true);
    let first = world.names("ReplicaSet").remove(0);
    set_image(&mut world, "2");
    settle(&mut world, &|_| true);
    set_image(&mut world, "1");
    settle(&mut world, &|_| true);
    assert_eq!(world.names("ReplicaSet").len(), 2);
    let annotations = &world.raw("ReplicaSet", &first)["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(annotations["deployment.kubernetes.io/revision-history"], "1");
    let annotations = &world.raw("Deployment", "w")["metadata"]["annotations"];
    assert_eq!(annotations["deployment.kubernetes.io/revision"], "3");
    assert_eq!(sizes(&world), [0, 4]);
}

// K-DEP-1
#[test]
fn recreate_ends_all_old_pods_before_it_starts_new_ones() {
    let mut world = world(json!({"strategy": {"type": "Recreate"}}));
    settle(&mut world, &|_| true);
    set_image(&mut world, "2");
    for _ in 0..6 {
        world.apply(&planned(&world));
        replica_sets_step(&mut world);
    }
    assert_eq!(world.names("ReplicaSet").len(), 1, "old pods are still terminating");
    settle(&mut world, &|_| true);
    assert_eq!(sizes(&world), [0, 4]);
    assert_eq!(world.names("Pod").len(), 4);
}

// K-DEP-1
#[test]
fn a_rollout_that_is_stuck_says_so_after_the_deadline() {
    let mut world = world(json!({}));
    settle(&mut world, &|_| true);
    set_image(&mut world, "2");
    assert_eq!(settle(&mut world, &image_is("1")).requeue_after, Some(601));
    // A quarter of four may be missing, so one old pod went and two new ones wait in vain.
    assert_eq!(sizes(&world), [3, 2]);
    world.second = 601;
    settle(&mut world, &image_is("1"));
    let stuck = condition(&world, "Progressing");
    assert!(stuck.starts_with("False ProgressDeadlineExceeded: ReplicaSet \"w-"), "{stuck}");
    assert!(stuck.ends_with("\" has timed out progressing."), "{stuck}");
}

#[test]
fn scaling_in_the_middle_of_a_rollout_shares_the_difference() {
    let mut world = world(json!({}));
    settle(&mut world, &|_| true);
    set_image(&mut world, "2");
    settle(&mut world, &image_is("1"));
    assert_eq!(sizes(&world), [3, 2]);
    world.edit("Deployment", "w", json!({"spec": {"replicas": 8}}));
    world.apply(&planned(&world));
    assert_eq!(sizes(&world), [6, 4]);
}

#[test]
fn a_paused_deployment_scales_but_does_not_roll() {
    let mut world = world(json!({}));
    settle(&mut world, &|_| true);
    world.edit("Deployment", "w", json!({"spec": {"paused": true, "replicas": 2}}));
    set_image(&mut world, "2");
    settle(&mut world, &|_| true);
    assert_eq!(sizes(&world), [2]);
    assert_eq!(condition(&world, "Progressing"), "Unknown DeploymentPaused: Deployment is paused");
    world.edit("Deployment", "w", json!({"spec": {"paused": false}}));
    settle(&mut world, &|_| true);
    assert_eq!(sizes(&world), [0, 2]);
}

#[test]
fn only_so_many_old_revisions_are_kept() {
    let mut world = world(json!({"revisionHistoryLimit": 1}));
    for image in ["1", "2", "3", "4"] {
        set_image(&mut world, image);
        settle(&mut world, &|_| true);
    }
    assert_eq!(sizes(&world), [0, 4]);
}

#[test]
fn a_name_that_is_taken_counts_as_a_collision() {
    let mut world = world(json!({}));
    let plan = planned(&world);
    let super::Action::Create { object, .. } =
        plan.actions.iter().find(|a| matches!(a, super::Action::Create { .. })).unwrap()
    else {
        unreachable!()
    };
    let name = object["metadata"]["name"].as_str().unwrap();
    let selector = json!({"matchLabels": {"app": "b"}});
    let template = json!({"metadata": {"labels": {"app": "b"}}});
    world.add(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": 0, "selector": selector, "template": template}}));
    world.apply(&planned(&world));
    assert_eq!(status(&world)["collisionCount"], 1);
    assert_eq!(world.names("ReplicaSet").len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    // K-DEP-1
    #[test]
    fn any_history_of_changes_settles_on_the_last_template(
        is_recreate: bool,
        changes in proptest::collection::vec((0..3usize, 0..5i32), 1..5),
    ) {
        let strategy = if is_recreate { "Recreate" } else { "RollingUpdate" };
        let mut world = world(json!({"strategy": {"type": strategy}}));
        for (image, replicas) in changes {
            set_image(&mut world, ["1", "2", "3"][image]);
            world.edit("Deployment", "w", json!({"spec": {"replicas": replicas}}));
            world.apply(&planned(&world));
            replica_sets_step(&mut world);
        }
        settle(&mut world, &|_| true);
        let wanted = world.raw("Deployment", "w")["spec"]["replicas"].as_i64().unwrap();
        prop_assert_eq!(world.names("Pod").len(), usize::try_from(wanted).unwrap());
        prop_assert_eq!(status(&world)["updatedReplicas"].as_i64().unwrap_or(0), wanted);
    }
}
