//! What happens is told to whoever follows, and nothing is missed between two connections.

use crate::http;
use crate::support::{Engine, KEY, Running};
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;

fn follow(running: &Running, after: i64) -> BufReader<TcpStream> {
    http::open(running, KEY, &format!("GET /api/v1/events?after={after}"), "")
}

/// The next event's number and kind.
fn next_event(stream: &mut BufReader<TcpStream>) -> (i64, String) {
    let (mut id, mut kind) = (None, None);
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the stream ended");
        let line = line.trim_end();
        if let Some(text) = line.strip_prefix("id: ") {
            id = text.parse().ok();
        } else if let Some(text) = line.strip_prefix("event: ") {
            kind = Some(text.to_owned());
        } else if line.is_empty()
            && let (Some(id), Some(kind)) = (id, kind.take())
        {
            return (id, kind);
        }
    }
}

fn push(running: &Running) {
    let spec = r#"{\"resource\":\"local-process\",\"docker\":{\"docker_image\":\"x\"}}"#;
    let pushed = http::graphql(
        running,
        KEY,
        &format!(
            "mutation {{ pushToRunQueueByName(input: {{entityName: \"alice\", projectName: \"model-registry\", \
             queueName: \"q\", runSpec: \"{spec}\"}}) {{ runQueueItemId }} }}"
        ),
    )
    .json();
    assert!(pushed["data"]["pushToRunQueueByName"]["runQueueItemId"].is_string(), "{pushed}");
}

fn check(engine: Engine) {
    let running = Running::start(engine);
    let made = http::graphql(
        &running,
        KEY,
        "mutation { createRunQueue(input: {entityName: \"alice\", projectName: \"model-registry\", queueName: \"q\", \
         access: PROJECT}) { success } }",
    )
    .json();
    assert_eq!(made["data"]["createRunQueue"]["success"], true, "{made}");
    let mut stream = follow(&running, 0);
    let (first, kind) = next_event(&mut stream);
    assert_eq!(kind, "queue.created");
    push(&running);
    let (second, kind) = next_event(&mut stream);
    assert_eq!(kind, "item.state");
    assert!(second > first);
    drop(stream);
    push(&running);
    let mut resumed = follow(&running, second);
    let (third, kind) = next_event(&mut resumed);
    assert_eq!(kind, "item.state");
    assert!(third > second);
}

#[test]
fn events_are_resumed_where_they_broke_off() {
    check(Engine::Sqlite);
}

#[test]
fn events_are_resumed_where_they_broke_off_on_postgres() {
    check(Engine::Postgres);
}

/// What the next event of this kind tells.
fn next_body(stream: &mut BufReader<TcpStream>, kind: &str) -> serde_json::Value {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the stream ended");
        let data = line.strip_prefix("data: ").and_then(|data| serde_json::from_str::<serde_json::Value>(data).ok());
        if let Some(data) = data.filter(|data| data["kind"] == kind) {
            return data["body"].clone();
        }
    }
}

#[test]
fn a_run_tells_how_far_it_has_come_but_not_of_every_line() {
    let running = Running::start(Engine::Sqlite);
    let begin = "mutation { upsertBucket(input: {entityName: \"alice\", modelName: \"p\", name: \"r\"}) { inserted } }";
    assert_eq!(http::graphql(&running, KEY, begin).status, 200);
    let mut stream = follow(&running, 0);
    const POSTS: i64 = 40;
    for line in 0..POSTS {
        let post = serde_json::json!({ "files": { "wandb-history.jsonl": { "offset": line, "content": [format!("{{\"_step\":{line}}}")] } } });
        assert_eq!(http::send(&running, KEY, "POST /files/alice/p/r/file_stream", &post.to_string()).status, 200);
    }
    // The last line is told, however many were not.
    let mut told = 1;
    while next_body(&mut stream, "run.progress")["history"] != POSTS {
        told += 1;
    }
    assert!(told < POSTS, "{told} events of {POSTS} posts");
}
