//! Cases of what is filled into queues and refused in them.

use super::*;
use serde_json::json;

fn queue(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

#[track_caller]
fn checked(queue: &Value, old: Option<&Value>, queues: &[Value], expected: &[&str]) {
    let errors = check(queue, old, queues);
    let paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(paths, expected, "{errors:#?}");
}

// ADM-40
#[test]
fn a_queue_is_completed() {
    let mut bare = queue("q", json!({"weight": 0}));
    bare["metadata"]["annotations"] = json!({keys::HIERARCHY: "a/b", keys::HIERARCHY_WEIGHTS: "2/3"});
    complete(&mut bare);
    assert_eq!(bare["spec"], json!({"weight": 1, "reclaimable": true}));
    assert_eq!(bare["metadata"]["annotations"], json!({keys::HIERARCHY: "root/a/b", keys::HIERARCHY_WEIGHTS: "1/2/3"}));
    let again = bare.clone();
    complete(&mut bare);
    assert_eq!(bare, again);
}

// ADM-41, ADM-42
#[test]
fn amounts_stand_in_order() {
    let plain = |spec: Value, expected: &[&str]| checked(&queue("q", spec), None, &[], expected);
    plain(
        json!({"weight": 1, "capability": {"cpu": "4"}, "deserved": {"cpu": 2}, "guarantee": {"resource": {"cpu": "1"}}}),
        &[],
    );
    plain(json!({"weight": 0}), &["spec.weight"]);
    plain(json!({"capability": {"cpu": "-1"}}), &["spec.capability[cpu]"]);
    plain(json!({"guarantee": {"resource": {"cpu": "1"}}}), &["spec.deserved[cpu]"]);
    let said =
        |spec: Value| check(&queue("q", spec), None, &[]).into_iter().map(|error| error.text).collect::<Vec<_>>();
    let none = json!({"guarantee": {"resource": {"cpu": "1"}}});
    assert_eq!(said(none), [r#"Invalid value: "<nil>": deserved[cpu] must be >= guarantee[cpu]=1"#]);
    let less = json!({"deserved": {"memory": "1Gi"}, "guarantee": {"resource": {"memory": "3Gi"}}});
    assert_eq!(said(less), [r#"Invalid value: "1Gi": deserved[memory]=1Gi must be >= guarantee[memory]=3Gi"#]);
    let more = json!({"capability": {"cpu": "1"}, "deserved": {"cpu": "2"}});
    assert_eq!(said(more), [r#"Invalid value: "2": deserved[cpu]=2 must be <= capability[cpu]=1"#]);
    plain(json!({"capability": {"cpu": "1"}, "deserved": {"cpu": "2", "memory": "9Gi"}}), &["spec.deserved[cpu]"]);
    let mut stated = queue("q", json!({}));
    stated["status"] = json!({"state": "Closing"});
    checked(&stated, None, &[], &["status.state"]);
    checked(&stated, Some(&stated), &[], &[]);
}

// ADM-43
#[test]
fn paths_have_weights_and_do_not_contain_each_other() {
    let marked = |name: &str, path: &str, weights: &str| {
        let mut queue = queue(name, json!({}));
        queue["metadata"]["annotations"] = json!({keys::HIERARCHY: path, keys::HIERARCHY_WEIGHTS: weights});
        queue
    };
    let path = format!("metadata.annotations[{}]", keys::HIERARCHY);
    let weights = format!("metadata.annotations[{}]", keys::HIERARCHY_WEIGHTS);
    let others = [marked("o", "root/a/b", "1/1/1")];
    checked(&marked("q", "root/a/c", "1/2/3.5"), None, &others, &[]);
    checked(&marked("q", "root/a", "1"), None, &others, &[&path]);
    checked(&marked("q", "root/x", "1/0"), None, &others, &[&weights]);
    checked(&marked("q", "root/a", "1/1"), None, &others, &[&path]);
    checked(&marked("q", "root/a/b/c", "1/1/1/1"), None, &others, &[&path]);
}

// ADM-44
#[test]
fn a_queue_fits_into_its_tree() {
    let root = queue("root", json!({"capability": {"cpu": "8"}}));
    let team = queue("team", json!({"capability": {"cpu": "4"}, "deserved": {"cpu": "3"}}));
    let tree = [root.clone(), team.clone(), queue("a", json!({"parent": "team", "deserved": {"cpu": "2"}}))];
    checked(
        &queue("b", json!({"parent": "team", "capability": {"cpu": "4"}, "deserved": {"cpu": "1"}})),
        None,
        &tree,
        &[],
    );
    checked(&queue("b", json!({"parent": "b"})), None, &tree, &["spec.parent"]);
    checked(&queue("b", json!({"parent": "none"})), None, &tree, &["spec.parent"]);
    checked(&queue("b", json!({"parent": "team", "capability": {"cpu": "5"}})), None, &tree, &["spec.capability[cpu]"]);
    checked(&queue("b", json!({"parent": "team", "deserved": {"cpu": "2"}})), None, &tree, &["spec.deserved[cpu]"]);
    checked(&queue("b", json!({"capability": {"cpu": "9"}})), None, &tree, &["spec.capability[cpu]"]);
    // A parent does not shrink below its children.
    checked(&queue("team", json!({"deserved": {"cpu": "1"}})), Some(&team), &tree, &["spec.deserved[cpu]"]);
    checked(&queue("root", json!({"capability": {"cpu": "9"}})), Some(&root), &tree, &["spec.capability"]);
    // Nobody becomes a parent with pods of its own.
    let mut busy = queue("busy", json!({}));
    busy["status"] = json!({"allocated": {"pods": "3"}});
    checked(&queue("b", json!({"parent": "busy"})), None, &[busy.clone()], &["spec.parent"]);
    // Those of a parent are its children's.
    checked(&queue("b", json!({"parent": "busy"})), None, &[busy, queue("a", json!({"parent": "busy"}))], &[]);
    // What is wrong with the tree is told to those who change the tree.
    let late = queue("late", json!({"parent": "team", "deserved": {"cpu": "9"}}));
    let mut heavier = late.clone();
    heavier["spec"]["weight"] = json!(5);
    checked(&heavier, Some(&late), &tree, &[]);
    let mut deep = vec![root];
    for level in 1..=5 {
        let parent = if level == 1 { "root".to_owned() } else { format!("l{}", level - 1) };
        deep.push(queue(&format!("l{level}"), json!({ "parent": parent })));
    }
    checked(&queue("x", json!({"parent": "l4"})), None, &deep, &[]);
    checked(&queue("x", json!({"parent": "l5"})), None, &deep, &["spec.parent"]);
}

// ADM-45
#[test]
fn queues_that_others_need_stay() {
    let tree = [queue("team", json!({})), queue("a", json!({"parent": "team"}))];
    for name in ["default", "root", "team"] {
        assert!(check_delete(name, &tree).is_err(), "{name}");
    }
    let told = "queue team can not be deleted because it has 1 child queues: a";
    assert_eq!(check_delete("team", &tree), Err(told.to_owned()));
    assert_eq!(check_delete("a", &tree), Ok(()));
}
