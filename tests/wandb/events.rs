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
