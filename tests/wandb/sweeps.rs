//! Sweep agents by hand: answers that get lost, and agents that wait for each other.

use crate::protocol::ask;
use crate::support::{Engine, Running};
use serde_json::{Value, json};

fn make_sweep(running: &Running, config: Value) -> String {
    let query = "mutation($config: String) { upsertSweep(input: {entityName: \"alice\", projectName: \"p\", config: $config}) \
        { sweep { name } } }";
    let made = ask(running, query, json!({ "config": config.to_string() }));
    made["upsertSweep"]["sweep"]["name"].as_str().expect("a name").to_owned()
}

fn make_agent(running: &Running, sweep: &str) -> String {
    let query = "mutation($sweep: String!) { createAgent(input: {host: \"h\", sweep: $sweep, entityName: \"alice\", projectName: \"p\"}) \
        { agent { id } } }";
    let made = ask(running, query, json!({ "sweep": sweep }));
    made["createAgent"]["agent"]["id"].as_str().expect("an id").to_owned()
}

/// What an agent is told that has these runs, as W&B's clients say so.
fn beat(running: &Running, agent: &str, runs: &[&str]) -> Value {
    let query = "mutation($id: ID!, $runs: JSONString) { agentHeartbeat(input: {id: $id, metrics: \"{}\", runState: $runs}) \
        { commands } }";
    let said: serde_json::Map<_, _> = runs.iter().map(|run| ((*run).to_owned(), json!(true))).collect();
    let answer = ask(running, query, json!({ "id": agent, "runs": Value::Object(said).to_string() }));
    let commands = &answer["agentHeartbeat"]["commands"];
    commands.as_str().map_or_else(|| commands.clone(), |text| serde_json::from_str(text).expect("a list"))
}

/// The run that an agent is given, and its point.
fn given(commands: &Value) -> (String, i64) {
    let command = &commands[0];
    assert_eq!(command["type"], "run", "{commands}");
    (command["run_id"].as_str().expect("a name").to_owned(), command["args"]["x"]["value"].as_i64().expect("a number"))
}

fn appear(running: &Running, run: &str) {
    let query = "mutation($run: String) { upsertBucket(input: {entityName: \"alice\", modelName: \"p\", name: $run}) { inserted } }";
    ask(running, query, json!({ "run": run }));
}

fn state(running: &Running, sweep: &str) -> Value {
    let query =
        "query($sweep: String!) { project(name: \"p\", entityName: \"alice\") { sweep(sweepName: $sweep) { state } } }";
    ask(running, query, json!({ "sweep": sweep }))["project"]["sweep"]["state"].clone()
}

fn check(engine: Engine) {
    let running = Running::start(engine);
    let sweep = make_sweep(&running, json!({ "method": "grid", "parameters": { "x": { "values": [1, 2, 3] } } }));
    let (one, other) = (make_agent(&running, &sweep), make_agent(&running, &sweep));
    let (lost, first) = given(&beat(&running, &one, &[]));
    // The answer did not arrive, so the agent asks again and has nothing.
    let (run, again) = given(&beat(&running, &one, &[]));
    assert!(first == 1 && again == 1 && run != lost, "{first} {again}");
    // As long as it has one, it is given no other.
    assert_eq!(beat(&running, &one, &[&run]), json!([]));
    appear(&running, &run);
    assert_eq!(beat(&running, &one, &[&run]), json!([]));
    let (second, two) = given(&beat(&running, &one, &[]));
    let (third, three) = given(&beat(&running, &other, &[]));
    assert_eq!((two, three), (2, 3));
    appear(&running, &third);
    // Nobody knows yet whether the second was lost, so the other waits, and the sweep goes on.
    assert_eq!(beat(&running, &other, &[]), json!([]));
    assert_eq!(state(&running, &sweep), "RUNNING");
    assert_eq!(beat(&running, &one, &[&second]), json!([]));
    // Now it is known to run. Whoever has nothing may go, and whoever runs is not disturbed.
    assert_eq!(beat(&running, &other, &[]), json!([{ "type": "exit" }]));
    assert_eq!(state(&running, &sweep), "FINISHED");
    assert_eq!(beat(&running, &one, &[&second]), json!([]));
    appear(&running, &second);
    assert_eq!(beat(&running, &one, &[]), json!([{ "type": "exit" }]));
}

// SWP-3
#[test]
fn a_lost_answer_loses_no_point_of_a_grid() {
    check(Engine::Sqlite);
}

// SWP-3
#[test]
fn a_lost_answer_loses_no_point_of_a_grid_on_postgres() {
    check(Engine::Postgres);
}
