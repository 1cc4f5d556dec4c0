//! Clients that submit, pop, acknowledge, log and stop, and write down what they asked and were told.
//!
//! They know a list of addresses and take turns, as behind the simplest of load balancers. An operation without an answer
//! is written down as such; what W&B's clients would send again (lines, acknowledgements) is sent again.

use crate::checker::{Deed, Kept, Operation, Outcome, Popped};
use crate::wire::Connection;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::RngExt as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The first user's own entity.
const ENTITY: &str = "volley";
const PROJECT: &str = "p";
/// How soon a client knocks again where nobody answers.
const KNOCK: Duration = Duration::from_millis(3);

const MAKE_QUEUE: &str = r#"mutation { createRunQueue(input: {entityName: "volley", projectName: "model-registry", queueName: "q", access: PROJECT, prioritizationMode: V0}) { success } }"#;
const SUBMIT: &str = r#"mutation S($spec: JSONString!, $priority: Int) { pushToRunQueueByName(input: {entityName: "volley", projectName: "model-registry", queueName: "q", runSpec: $spec, priority: $priority}) { runQueueItemId } }"#;
const POP: &str = r#"mutation { popFromRunQueue(input: {entityName: "volley", projectName: "model-registry", queueName: "q"}) { runQueueItemId runSpec } }"#;
const ACKNOWLEDGE: &str =
    "mutation A($id: ID!, $run: String!) { ackRunQueueItem(input: {runQueueItemId: $id, runName: $run}) { success } }";
const BEGIN: &str = r#"mutation B($run: String!) { upsertBucket(input: {entityName: "volley", modelName: "p", name: $run, host: "h"}) { bucket { id } } }"#;
const STOP: &str = "mutation S($id: ID!) { stopRun(input: {id: $id}) { success } }";
const ITEMS: &str = r#"query I($after: String) { project(entityName: "volley", name: "model-registry") { runQueue(name: "q") { runQueueItems(first: 500, after: $after) { edges { node { id state priority associatedRunId runSpec } } pageInfo { endCursor hasNextPage } } } } }"#;
const RUN: &str = r#"query R($run: String!) { project(entityName: "volley", name: "p") { run(name: $run) { stopped history(samples: 1000000, minStep: 0, maxStep: 1000000) } } }"#;

/// What all clients share.
pub struct World {
    pub addresses: watch::Sender<Vec<String>>,
    pub key: String,
    pub begun: Instant,
    /// How many operations were answered.
    pub answered: AtomicUsize,
    pub is_over: AtomicBool,
}

pub struct Client {
    world: Arc<World>,
    number: usize,
    turn: usize,
    connections: BTreeMap<String, Connection>,
    record: Vec<Operation>,
}

impl Client {
    pub fn new(world: Arc<World>, number: usize) -> Client {
        Client { world, number, turn: number, connections: BTreeMap::new(), record: Vec::new() }
    }

    /// Does its work until the world is over; gives what it wrote down.
    pub async fn run(mut self) -> Vec<Operation> {
        match self.number % 8 {
            0..=2 => self.submit_on().await,
            3 | 4 => self.serve_on().await,
            5 | 6 => self.log_on().await,
            _ => self.stop_on().await,
        }
        self.record
    }

    fn is_over(&self) -> bool {
        self.world.is_over.load(Ordering::Relaxed)
    }

    /// The next address' connection; waits until somebody listens there.
    async fn connection(&mut self) -> (String, Connection) {
        loop {
            let addresses = self.world.addresses.borrow().clone();
            self.turn += 1;
            let address = addresses[self.turn % addresses.len()].clone();
            if let Some(open) = self.connections.remove(&address) {
                return (address, open);
            }
            match Connection::open(&address, &self.world.key).await {
                Ok(open) => return (address, open),
                Err(_) => tokio::time::sleep(KNOCK).await,
            }
        }
    }

    /// Asks once; nothing if nobody knows whether it was done. Also gives when it began and ended.
    async fn ask(&mut self, query: &str, variables: Value) -> (Option<Value>, Duration, Duration) {
        let (address, mut connection) = self.connection().await;
        let begin = self.world.begun.elapsed();
        let answer = connection.graphql(query, variables).await;
        (self.settle(address, connection, answer), begin, self.world.begun.elapsed())
    }

    fn settle<T>(&mut self, address: String, connection: Connection, answer: io::Result<T>) -> Option<T> {
        let answer = answer.ok()?;
        self.world.answered.fetch_add(1, Ordering::Relaxed);
        self.connections.insert(address, connection);
        Some(answer)
    }

    fn note(&mut self, (begin, end): (Duration, Duration), deed: Deed) {
        self.record.push(Operation { begin, end, deed });
    }

    /// For what is prepared and not itself looked at.
    async fn insist(&mut self, query: &str, variables: Value) -> Value {
        loop {
            if let (Some(answer), ..) = self.ask(query, variables.clone()).await {
                return answer;
            }
        }
    }

    async fn submit_on(&mut self) {
        let mut count = 0;
        while !self.is_over() {
            let tag = format!("{}-{count}", self.number);
            count += 1;
            let priority = rand::rng().random_range(0..=3);
            let spec = json!({ "resource": "local-process", "tag": tag }).to_string();
            let (answer, begin, end) = self.ask(SUBMIT, json!({ "spec": spec, "priority": priority })).await;
            let item = answer.map(|answer| lease(&answer["pushToRunQueueByName"]["runQueueItemId"]).0);
            self.note((begin, end), Deed::Submit { tag, priority, item });
        }
    }

    async fn serve_on(&mut self) {
        while !self.is_over() {
            let (answer, begin, end) = self.ask(POP, json!({})).await;
            let popped = match answer.map(|mut answer| answer["popFromRunQueue"].take()) {
                None => Popped::Unknown,
                Some(Value::Null) => Popped::Nothing,
                Some(given) => {
                    let (item, lease) = lease(&given["runQueueItemId"]);
                    let tag = given["runSpec"]["tag"].as_str().expect("the spec as it was submitted").to_owned();
                    Popped::Leased { item, lease, tag }
                }
            };
            self.note((begin, end), Deed::Pop(popped.clone()));
            if let Popped::Leased { item, lease, .. } = popped {
                self.acknowledge(item, lease).await;
            }
        }
    }

    async fn acknowledge(&mut self, item: i64, lease: i64) {
        let run = format!("run-{item}-{lease}");
        let id = match lease {
            1 => STANDARD.encode(format!("RunQueueItem:{item}")),
            _ => STANDARD.encode(format!("RunQueueItem:{item}:{lease}")),
        };
        let mut granted = None;
        while granted.is_none() && !self.is_over() {
            let (answer, begin, end) = self.ask(ACKNOWLEDGE, json!({ "id": id, "run": run })).await;
            granted = answer.map(|answer| answer["ackRunQueueItem"]["success"].as_bool().expect("yes or no"));
            self.note((begin, end), Deed::Acknowledge { item, lease, run: run.clone(), granted });
        }
    }

    async fn log_on(&mut self) {
        let run = format!("log-{}", self.number);
        self.insist(BEGIN, json!({ "run": run })).await;
        let head = format!("POST /files/{ENTITY}/{PROJECT}/{run}/file_stream");
        let (mut offset, mut lines) = (0, Vec::new());
        while !self.is_over() {
            if lines.is_empty() {
                let count = rand::rng().random_range(1..=20);
                lines = (offset..offset + count).map(|step| json!({ "_step": step, "of": run }).to_string()).collect();
            }
            let post = json!({ "files": { "wandb-history.jsonl": { "offset": offset, "content": lines } } });
            let (address, mut connection) = self.connection().await;
            let begin = self.world.begun.elapsed();
            let reply = connection.send(&head, &post.to_string()).await;
            let end = self.world.begun.elapsed();
            let is_kept = self.settle(address, connection, reply).is_some_and(|reply| {
                assert!(reply.status == 200 || reply.status >= 500, "{}", String::from_utf8_lossy(&reply.body));
                reply.status == 200
            });
            self.note((begin, end), Deed::Log { run: run.clone(), offset, lines: lines.clone(), is_kept });
            if is_kept {
                offset += std::mem::take(&mut lines).len();
            }
        }
    }

    async fn stop_on(&mut self) {
        let mut count = 0;
        while !self.is_over() {
            let run = format!("stop-{}-{count}", self.number);
            count += 1;
            let begun = self.insist(BEGIN, json!({ "run": run })).await;
            let id = begun["upsertBucket"]["bucket"]["id"].clone();
            let (answer, begin, end) = self.ask(STOP, json!({ "id": id })).await;
            self.note((begin, end), Deed::Stop { run, is_done: answer.is_some() });
        }
    }

    pub async fn make_queue(&mut self) {
        let made = self.insist(MAKE_QUEUE, json!({})).await;
        assert_eq!(made["createRunQueue"]["success"], true, "{made}");
    }

    /// Reads what is there in the end.
    pub async fn outcome(&mut self, operations: &[Operation]) -> Outcome {
        let mut outcome = Outcome::default();
        let mut after = Value::Null;
        loop {
            let page = self.insist(ITEMS, json!({ "after": after })).await;
            let page = &page["project"]["runQueue"]["runQueueItems"];
            for edge in page["edges"].as_array().expect("items") {
                let node = &edge["node"];
                let text = |field: &str| node[field].as_str().map(str::to_owned);
                let kept = Kept {
                    tag: node["runSpec"]["tag"].as_str().expect("a tag").to_owned(),
                    priority: node["priority"].as_i64().expect("a priority"),
                    state: text("state").expect("a state"),
                    run: text("associatedRunId"),
                };
                outcome.items.insert(lease(&node["id"]).0, kept);
            }
            if page["pageInfo"]["hasNextPage"] != true {
                break;
            }
            after = page["pageInfo"]["endCursor"].clone();
        }
        for run in runs(operations) {
            let found = self.insist(RUN, json!({ "run": run })).await;
            let found = &found["project"]["run"];
            if found["stopped"] == true {
                outcome.stopped.insert(run.clone());
            }
            let lines = found["history"].as_array().into_iter().flatten();
            let lines: Vec<String> = lines.map(|line| line.as_str().expect("a line").to_owned()).collect();
            if !lines.is_empty() {
                outcome.logs.insert(run, lines);
            }
        }
        outcome
    }
}

fn runs(operations: &[Operation]) -> std::collections::BTreeSet<String> {
    let run = |operation: &Operation| match &operation.deed {
        Deed::Log { run, .. } | Deed::Stop { run, .. } => Some(run.clone()),
        Deed::Submit { .. } | Deed::Pop(_) | Deed::Acknowledge { .. } => None,
    };
    operations.iter().filter_map(run).collect()
}

/// An item and its lease, from the id that agents are given.
fn lease(id: &Value) -> (i64, i64) {
    let text = STANDARD.decode(id.as_str().expect("an id")).expect("base64");
    let text = String::from_utf8(text).expect("text");
    let numbers = text.strip_prefix("RunQueueItem:").expect("an item's id");
    let (item, lease) = numbers.split_once(':').unwrap_or((numbers, "1"));
    (item.parse().expect("a number"), lease.parse().expect("a number"))
}
