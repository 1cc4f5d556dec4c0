//! Cases of the pretend cluster: its guards are those of a server, and a disturbed controller is seen to be disturbed.

use super::{Cluster, Disturbance, Refusal, Run, Turn};
use crate::control::{Action, Plan, Propagation, Target};
use crate::job::head::target_of;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::rc::Rc;

fn pod(name: &str, owner: &str) -> Value {
    let owners = json!([{"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": owner, "controller": true, "blockOwnerDeletion": true}]);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn thing() -> Value {
    json!({"apiVersion": "x.example/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "t"}, "spec": {"size": 2}})
}

fn cluster() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.insert(thing()).unwrap();
    cluster
}

fn target(cluster: &Cluster) -> Target {
    target_of(cluster.find("Thing", "t").unwrap())
}

#[test]
fn a_write_on_an_old_version_or_another_object_is_refused() {
    let mut cluster = cluster();
    let conflict = Err(Refusal::Conflict("Thing".into(), "t".into()));
    let patch = json!({"metadata": {"resourceVersion": "1"}, "status": {"a": 1}});
    let write = Action::PatchStatus { target: target(&cluster), patch };
    assert_eq!(cluster.act(&write), Ok(()));
    assert_eq!(cluster.act(&write), conflict, "the version has moved on");
    let other = Target { uid: "other".into(), ..target(&cluster) };
    let propagation = Propagation::Background;
    assert_eq!(cluster.act(&Action::Delete { target: other.clone(), propagation }), conflict);
    assert_eq!(cluster.act(&Action::Patch { target: other, patch: json!({}) }), conflict);
    let missing = Target { name: "u".into(), ..target(&cluster) };
    assert_eq!(
        cluster.act(&Action::Delete { target: missing, propagation }),
        Err(Refusal::NotFound("Thing".into(), "u".into()))
    );
    let create = Action::Create { object: thing(), event: None };
    assert_eq!(cluster.act(&create), Err(Refusal::AlreadyExists("Thing".into(), "t".into())));
}

#[test]
fn a_status_and_the_rest_are_written_apart() {
    let mut cluster = cluster();
    let patch = json!({"spec": {"size": 3}, "status": {"a": 1}});
    cluster.act(&Action::PatchStatus { target: target(&cluster), patch: patch.clone() }).unwrap();
    let thing = cluster.find("Thing", "t").unwrap();
    assert_eq!((&thing["spec"]["size"], &thing["status"]["a"]), (&json!(2), &json!(1)));
    assert_eq!(thing["metadata"]["generation"], 1);
    let patch = json!({"spec": {"size": 3}, "status": {"a": 2}});
    cluster.act(&Action::Patch { target: target(&cluster), patch }).unwrap();
    let thing = cluster.find("Thing", "t").unwrap();
    assert_eq!((&thing["spec"]["size"], &thing["status"]["a"]), (&json!(3), &json!(1)));
    assert_eq!(thing["metadata"]["generation"], 2);
}

#[test]
fn what_is_owned_goes_with_its_owner() {
    for (propagation, is_first) in [(Propagation::Background, false), (Propagation::Foreground, true)] {
        let mut cluster = cluster();
        cluster.insert(pod("p", "t")).unwrap();
        cluster.insert(pod("stranger", "somebody")).unwrap();
        cluster.start_pod("p").unwrap();
        cluster.delete("Thing", "t", propagation).unwrap();
        cluster.collect_garbage();
        assert_eq!(cluster.find("Thing", "t").is_some(), is_first, "in the foreground, pods go first");
        assert_eq!(cluster.names("Pod"), ["p"], "a pod that runs takes its time; one of no owner is gone");
        cluster.happen(&Turn::Reap).unwrap();
        cluster.collect_garbage();
        assert!(cluster.objects.is_empty());
    }
}

#[test]
fn pods_move_as_pods_do() {
    let mut cluster = cluster();
    cluster.insert(pod("p", "t")).unwrap();
    let phase = |cluster: &Cluster| cluster.find("Pod", "p").map(|pod| pod["status"]["phase"].clone());
    cluster.happen(&Turn::End(0, 0)).unwrap();
    assert_eq!(phase(&cluster), Some(Value::Null), "what does not run does not end");
    cluster.edit("Pod", "p", &json!({"spec": {"schedulingGates": [{"name": "g"}]}})).unwrap();
    cluster.happen(&Turn::Start(0)).unwrap();
    assert_eq!(phase(&cluster), Some(Value::Null), "nor starts what is held");
    cluster.edit("Pod", "p", &json!({"spec": {"schedulingGates": []}})).unwrap();
    cluster.happen(&Turn::Start(0)).unwrap();
    cluster.happen(&Turn::Start(7)).unwrap();
    cluster.happen(&Turn::Delete(0)).unwrap();
    assert_eq!(phase(&cluster), Some(json!("Running")), "it is asked to go");
    cluster.happen(&Turn::End(0, 3)).unwrap();
    assert_eq!(phase(&cluster), None, "and has gone with its end");
}

/// Makes as many pods as the thing has size, and writes how many it saw.
fn planner(cluster: &Cluster) -> Plan {
    let thing = cluster.find("Thing", "t").unwrap();
    let seen = cluster.names("Pod");
    let wanted = (0..thing["spec"]["size"].as_i64().unwrap()).map(|index| format!("p-{index}"));
    let missing = wanted.filter(|name| !seen.contains(name));
    let mut actions: Vec<Action> =
        missing.map(|name| Action::Create { object: pod(&name, "t"), event: None }).collect();
    if thing["status"]["pods"] != json!(seen.len()) {
        let patch = json!({"metadata": {"resourceVersion": thing["metadata"]["resourceVersion"]}, "status": {"pods": seen.len()}});
        actions.push(Action::PatchStatus { target: target(cluster), patch });
    }
    Plan { actions, ..Plan::default() }
}

#[test]
fn a_planner_comes_to_rest_and_one_that_does_not_is_told() {
    let mut run = Run::new(cluster(), "Thing", "t", planner);
    assert!(run.settle().unwrap().is_ok() && run.plan().is_empty());
    assert_eq!(run.cluster.names("Pod"), ["p-0", "p-1"]);
    assert_eq!(run.sightings.last().unwrap()["status"]["pods"], 2);
    let restless = |cluster: &Cluster| {
        let patch =
            json!({"status": {"at": cluster.objects[&("Thing".into(), "t".into())]["metadata"]["resourceVersion"]}});
        Plan { actions: vec![Action::PatchStatus { target: target(cluster), patch }], ..Plan::default() }
    };
    assert!(Run::new(cluster(), "Thing", "t", restless).settle().is_err());
}

#[test]
fn a_controller_that_dies_has_done_only_its_first_actions() {
    let mut run = Run::new(cluster(), "Thing", "t", planner);
    run.disturbed(&Disturbance::Dies(1));
    assert_eq!(run.cluster.names("Pod"), ["p-0"]);
    assert!(run.sightings.iter().all(|thing| thing["status"].is_null()));
}

#[test]
fn a_view_lags_kind_by_kind_and_never_goes_back() {
    let views = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&views);
    let mut run = Run::new(cluster(), "Thing", "t", move |cluster: &Cluster| {
        noted
            .borrow_mut()
            .push((cluster.names("Pod").len(), cluster.find("Thing", "t").unwrap()["spec"]["size"].clone()));
        Plan::default()
    });
    run.turn(&Turn::Make(pod("a", "t"))).unwrap();
    run.turn(&Turn::Make(pod("b", "t"))).unwrap();
    run.turn(&Turn::Edit { kind: "Thing".into(), name: "t".into(), patch: json!({"spec": {"size": 9}}) }).unwrap();
    // Kinds stand in the order of their names: pods, then things.
    for behind in [vec![3, 0], vec![1, 3], vec![2, 1], vec![0, 0]] {
        run.disturbed(&Disturbance::Lags(behind));
    }
    let expected = [(0, json!(9)), (2, json!(9)), (2, json!(9)), (2, json!(9))];
    assert_eq!(*views.borrow(), expected);
}

#[test]
fn what_a_late_plan_makes_twice_is_made_once() {
    let mut run = Run::new(cluster(), "Thing", "t", planner);
    run.disturbed(&Disturbance::Dies(2));
    run.disturbed(&Disturbance::Lags(vec![9]));
    assert!(run.settle().unwrap().is_ok());
    assert_eq!(run.cluster.names("Pod"), ["p-0", "p-1"]);
}
