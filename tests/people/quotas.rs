//! What is over a quota waits with a reason, and goes when there is room.

use crate::http::{graphql, send};
use crate::support::{Engine, KEY, Running};
use crate::world::{rest, text};
use serde_json::{Value, json};

const QUEUE: &str = "entityName: \"team\", projectName: \"model-registry\", queueName: \"q\"";

fn push(running: &Running, key: &str, gpus: i64) -> String {
    let spec = json!({ "resource": "kubernetes", "resource_args": { "kubernetes": { "spec": { "template": { "spec": {
        "containers": [{ "resources": { "limits": { "nvidia.com/gpu": gpus } } }] } } } } } });
    let spec = Value::from(spec.to_string());
    let query =
        format!("mutation {{ pushToRunQueueByName(input: {{{QUEUE}, runSpec: {spec}}}) {{ runQueueItemId }} }}");
    let answer = graphql(running, key, &query);
    assert_eq!(answer.status, 200, "{}", answer.body);
    text(&answer.json()["data"]["pushToRunQueueByName"]["runQueueItemId"])
}

fn pop(running: &Running) -> Option<String> {
    let answer =
        graphql(running, KEY, &format!("mutation {{ popFromRunQueue(input: {{{QUEUE}}}) {{ runQueueItemId }} }}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["data"]["popFromRunQueue"]["runQueueItemId"].as_str().map(str::to_owned)
}

fn reason(running: &Running, item: &str) -> Option<String> {
    let query = format!(
        "{{ project(name: \"model-registry\", entityName: \"team\") {{ runQueue(name: \"q\") {{ runQueueItem(id: \"{item}\") {{ waitingFor gpus }} }} }} }}"
    );
    let answer = graphql(running, KEY, &query).json();
    answer["data"]["project"]["runQueue"]["runQueueItem"]["waitingFor"].as_str().map(str::to_owned)
}

fn fail(running: &Running, item: &str) {
    let query = format!(
        "mutation {{ failRunQueueItem(input: {{runQueueItemId: \"{item}\", message: \"m\", stage: \"run\"}}) {{ success }} }}"
    );
    assert_eq!(graphql(running, KEY, &query).status, 200);
}

fn check(engine: Engine) {
    let running = Running::start(engine);
    let user = |name: &str| text(&rest(&running, KEY, "POST /api/v1/users", json!({ "username": name }))["key"]);
    let (bob, eve) = (user("bob"), user("eve"));
    rest(&running, KEY, "POST /api/v1/teams", json!({ "name": "team" }));
    for name in ["bob", "eve"] {
        rest(&running, KEY, &format!("PUT /api/v1/teams/team/members/{name}"), json!({ "role": "member" }));
    }
    let make = format!("mutation {{ createRunQueue(input: {{{QUEUE}, access: PROJECT}}) {{ success }} }}");
    assert_eq!(graphql(&running, KEY, &make).status, 200);
    rest(&running, KEY, "PUT /api/v1/users/bob/quota", json!({ "gpus": 4 }));

    let first = push(&running, &bob, 3);
    assert_eq!(reason(&running, &first), None);
    assert_eq!(pop(&running).as_deref(), Some(first.as_str()));
    let second = push(&running, &bob, 2);
    let told = "the quota of user bob is 4 GPUs, 3 are in use, and this needs 2";
    assert_eq!(reason(&running, &second).as_deref(), Some(told), "told when it is submitted");
    let small = push(&running, &bob, 1);
    let other = push(&running, &eve, 8);
    assert_eq!(pop(&running).as_deref(), Some(small.as_str()), "what fits goes before what does not");
    assert_eq!(pop(&running).as_deref(), Some(other.as_str()), "the quota of one is not that of another");
    assert_eq!(pop(&running), None);
    assert!(reason(&running, &second).is_some_and(|told| told.contains("4 are in use")));
    fail(&running, &first);
    assert_eq!(pop(&running).as_deref(), Some(second.as_str()), "there is room again");
    assert_eq!(reason(&running, &second), None);

    rest(&running, KEY, "PUT /api/v1/teams/team/quota", json!({ "jobs": 3 }));
    let late = push(&running, &eve, 0);
    let told = "the quota of team team is 3 running jobs, and 3 run";
    assert_eq!((pop(&running), reason(&running, &late).as_deref()), (None, Some(told)));
    rest(&running, KEY, "PUT /api/v1/teams/team/quota", json!({}));
    assert_eq!(reason(&running, &late), None);
    assert_eq!(pop(&running).as_deref(), Some(late.as_str()));
    assert_eq!(send(&running, KEY, "PUT /api/v1/users/bob/quota", "{\"jobs\": -1}").status, 400);
    assert_eq!(send(&running, &bob, "PUT /api/v1/users/bob/quota", "{}").status, 403, "nobody raises his own");
}

#[test]
fn what_is_over_a_quota_waits_with_a_reason() {
    check(Engine::Sqlite);
}

#[test]
fn what_is_over_a_quota_waits_with_a_reason_on_postgres() {
    check(Engine::Postgres);
}
