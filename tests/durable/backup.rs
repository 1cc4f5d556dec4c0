//! A backup is taken while clients write, and a server elsewhere is made from it.

use crate::postgres::Postgres;
use crate::process::{Server, command, key, new_home, told};
use crate::wire::Connection;
use serde_json::{Value, json};
use std::path::Path;

const PUSH: &str = r#"mutation { pushToRunQueueByName(input: {entityName: "volley", projectName: "model-registry", queueName: "q", runSpec: "{\"resource\":\"local-process\"}"}) { runQueueItemId } }"#;
const MAKE_QUEUE: &str = r#"mutation { createRunQueue(input: {entityName: "volley", projectName: "model-registry", queueName: "q", access: PROJECT}) { success } }"#;
const BEGIN: &str =
    r#"mutation { upsertBucket(input: {entityName: "volley", modelName: "p", name: "r"}) { inserted } }"#;
const UPLOAD: &str = r#"mutation { createRunFiles(input: {entityName: "volley", projectName: "p", runName: "r", files: ["model.txt"]}) { files { uploadUrl } } }"#;
const LOOK: &str = r#"{ project(entityName: "volley", name: "p") { run(name: "r") { files(names: ["model.txt"]) { edges { node { directUrl } } } } } queue: project(entityName: "volley", name: "model-registry") { runQueue(name: "q") { runQueueItems(first: 1000) { edges { node { id } } } } } }"#;

async fn ask(connection: &mut Connection, query: &str) -> Value {
    connection.graphql(query, json!({})).await.expect("an answer")
}

/// The path of a URL that the server hands out.
fn path(url: &Value) -> String {
    let url = url.as_str().expect("a URL");
    let (_, rest) = url.split_once("://").expect("a scheme");
    rest.find('/').map(|at| rest[at..].to_owned()).expect("a path")
}

async fn fill(connection: &mut Connection) {
    ask(connection, MAKE_QUEUE).await;
    ask(connection, BEGIN).await;
    let made = ask(connection, UPLOAD).await;
    let upload = path(&made["createRunFiles"]["files"][0]["uploadUrl"]);
    let reply = connection.send(&format!("PUT {upload}"), "weights").await.expect("stored");
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
}

/// How many items there are, and the file's bytes.
async fn found(connection: &mut Connection) -> (usize, String) {
    let seen = ask(connection, LOOK).await;
    let file = &seen["project"]["run"]["files"]["edges"][0]["node"]["directUrl"];
    let reply = connection.send(&format!("GET {}", path(file)), "").await.expect("sent");
    let items = seen["queue"]["runQueue"]["runQueueItems"]["edges"].as_array().expect("items").len();
    (items, String::from_utf8(reply.body).expect("text"))
}

fn run(home: &Path, database: Option<&str>, words: &[&str]) -> (bool, String) {
    let output = command(home, database).args(words).output().expect("volley runs");
    (output.status.success(), told(&output))
}

#[test]
fn a_backup_of_a_busy_server_is_restored_elsewhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let (home, other) = (new_home(folder.path(), "home"), new_home(folder.path(), "other"));
    let copy = folder.path().join("copy").display().to_string();
    let server = Server::start(&home, None);
    let key = key(&home);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (before, after) = runtime.block_on(async {
        let mut connection = Connection::open(&server.address, &key).await.expect("it listens");
        fill(&mut connection).await;
        ask(&mut connection, PUSH).await;
        let backup = tokio::task::spawn_blocking({
            let (home, copy) = (home.clone(), copy.clone());
            move || run(&home, None, &["backup", &copy])
        });
        let mut pushed = 1;
        while !backup.is_finished() {
            ask(&mut connection, PUSH).await;
            pushed += 1;
        }
        let (is_done, said) = backup.await.expect("the backup ends");
        assert!(is_done && said.contains("1 files copied"), "{said}");
        (1, pushed)
    });
    let (is_done, said) = run(&other, None, &["restore", &copy]);
    assert!(is_done, "{said}");
    let restored = Server::start(&other, None);
    runtime.block_on(async {
        let mut connection = Connection::open(&restored.address, &key).await.expect("it listens");
        let (items, bytes) = found(&mut connection).await;
        assert!((before..=after).contains(&items), "{before} <= {items} <= {after}");
        assert_eq!(bytes, "weights");
        ask(&mut connection, PUSH).await;
        assert_eq!(found(&mut connection).await.0, items + 1);
    });
    for (words, hint) in [
        (["restore", copy.as_str()], "restore into a new home"),
        (["backup", copy.as_str()], "is not an empty folder"),
        (["restore", "/nowhere"], "there is no backup"),
    ] {
        let home = if hint == "there is no backup" { folder.path().join("third") } else { other.clone() };
        let (is_done, said) = run(&home, None, &words);
        assert!(!is_done && said.contains(hint), "{said}");
    }
}

#[test]
fn with_postgres_only_the_files_are_copied_and_the_rest_is_told() {
    let postgres = Postgres::start("fsync=off");
    let folder = tempfile::tempdir().expect("a folder");
    let home = new_home(folder.path(), "home");
    let copy = folder.path().join("copy").display().to_string();
    let url = postgres.url();
    let (is_done, said) = run(&home, Some(&url), &["backup", &copy]);
    assert!(!is_done && said.contains("pg_dump"), "{said}");
    let server = Server::start(&home, Some(&url));
    let key = key(&home);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let mut connection = Connection::open(&server.address, &key).await.expect("it listens");
        fill(&mut connection).await;
    });
    let (is_done, said) = run(&home, Some(&url), &["backup", "--only-files", &copy]);
    assert!(is_done && said.contains("1 files copied"), "{said}");
}
