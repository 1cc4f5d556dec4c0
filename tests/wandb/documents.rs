//! Every GraphQL document that W&B's package can send is one that the schema knows, or is excused with a reason.

use crate::http::send;
use crate::support::{Client, Engine, KEY, Running, repository};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A name that no document has: the server then validates all of a document and executes nothing of it.
const NOBODY: &str = "nobody";

/// Operations by name, with the reason why they are not served; of a name that ends with `*`, all that begin so.
fn excused() -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(repository().join("tests/wandb/excused.txt")).expect("the list of excuses");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pair = |line: &str| line.split_once(": ").map(|(name, why)| (name.to_owned(), why.to_owned()));
    lines.map(|line| pair(line).unwrap_or_else(|| panic!("`{line}` has no reason"))).collect()
}

/// What is wrong with a document; nothing if it is fit to be executed.
fn fault(running: &Running, text: &str) -> Option<String> {
    let body = json!({ "query": text, "operationName": NOBODY }).to_string();
    let answer = send(running, KEY, "POST /graphql", &body).json();
    let message = answer["errors"][0]["message"].as_str().unwrap_or_default().to_owned();
    (!message.contains(NOBODY)).then_some(message)
}

// GQL-1, GQL-3, GQL-4, FEAT-2, FEAT-3
#[test]
fn every_document_of_the_clients_is_known_or_excused() {
    let running = Running::start(Engine::Sqlite);
    let excused = excused();
    let mut used = BTreeSet::new();
    let mut unknown = Vec::new();
    for client in [Client::Newest, Client::Older] {
        let documents = running.script_of(client, "documents.py");
        let documents: Vec<Value> = documents.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert!(documents.len() > 150, "{client:?} has only {} documents", documents.len());
        for document in documents {
            let name = document["name"].as_str().unwrap_or_default();
            let text = document["text"].as_str().unwrap_or_default();
            let Some(fault) = fault(&running, text) else {
                continue;
            };
            // What is put together at run time is seen by the tests that use it, if it is not whole here.
            let is_torn = fault.contains("-->") || fault.contains("required but not provided");
            let is_unreadable = document["is_partial"] == true && is_torn;
            let excuse = excused.keys().find(|known| match known.strip_suffix('*') {
                Some(begin) => name.starts_with(begin),
                None => name == *known,
            });
            match excuse {
                _ if is_unreadable => (),
                Some(known) => drop(used.insert(known.clone())),
                None => unknown.push(format!("{client:?} {} {name}: {fault}", document["where"])),
            }
        }
    }
    assert!(unknown.is_empty(), "the schema does not know:\n{}", unknown.join("\n"));
    let needless: Vec<&String> = excused.keys().filter(|name| !used.contains(*name)).collect();
    assert!(needless.is_empty(), "these are served and need no excuse: {needless:?}");
}
