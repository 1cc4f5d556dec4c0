//! Who did what, when and from where; and that neither the log nor any error has a key in it.

use crate::http::{graphql, send};
use crate::support::{Engine, KEY, Running};
use crate::world::{TEAM, World, rest, text};
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex};

fn deeds(entries: &Value) -> Vec<&str> {
    entries.as_array().expect("a list").iter().filter_map(|entry| entry["deed"].as_str()).collect()
}

fn check(engine: Engine) {
    let world = World::new(engine);
    let running = &world.running;
    let all = rest(running, KEY, "GET /api/v1/audit?limit=1000", json!({}));
    for deed in ["user.create", "team.create", "member.set", "queue.created", "user.edit"] {
        assert!(deeds(&all).contains(&deed), "{deed} is missing: {all}");
    }
    let first = &all[0];
    assert!(first["user"].is_string() && first["at"].is_string(), "{first}");
    assert_eq!(first["address"], "127.0.0.1");
    let ours = rest(running, &world.olga, &format!("GET /api/v1/audit?entity={TEAM}"), json!({}));
    assert!(deeds(&ours).contains(&"queue.created"), "{ours}");
    let subjects = ours.as_array().expect("a list").iter().map(|entry| text(&entry["subject"]));
    assert!(subjects.into_iter().all(|subject| subject.starts_with(TEAM)), "{ours}");
    let made = rest(running, KEY, "GET /api/v1/audit?deed=user.create&user=alice", json!({}));
    assert_eq!(deeds(&made), ["user.create"; 3]);
    let older = rest(running, KEY, &format!("GET /api/v1/audit?limit=1&before={}", all[0]["id"]), json!({}));
    assert_eq!(older[0]["id"], all[1]["id"]);
}

#[test]
fn the_audit_log_says_who_did_what_when_and_from_where() {
    check(Engine::Sqlite);
}

#[test]
fn the_audit_log_says_who_did_what_when_and_from_where_on_postgres() {
    check(Engine::Postgres);
}

/// What was logged, for as long as the test runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The only test of this binary that looks at the log: there is one for the whole process.
#[test]
fn no_secret_is_logged_or_told_in_an_error() {
    let log = Log::default();
    let made = log.clone();
    let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || made.clone());
    subscriber.try_init().expect("nobody else listens");
    let running = Running::start(Engine::Sqlite);
    let key = text(&rest(&running, KEY, "POST /api/v1/users", json!({ "username": "bob" }))["key"]);
    let second = text(&rest(&running, KEY, "POST /api/v1/keys", json!({ "name": "ci" }))["key"]);
    let password = "correct horse battery";
    rest(&running, KEY, "PUT /api/v1/users/bob/password", json!({ "password": password }));
    let link = text(&rest(&running, KEY, "POST /api/v1/users/bob/link", json!({}))["url"]);
    let token = link.split_once("token=").expect("a token").1;
    let unknown = "ffffffffffffffffffffffffffffffffffffffff";
    let answers = [
        send(&running, unknown, "GET /api/v1/session", ""),
        send(&running, "", "POST /api/v1/session", &json!({ "username": "bob", "password": password }).to_string()),
        send(&running, "", "POST /api/v1/session", &json!({ "key": unknown }).to_string()),
        send(&running, "", &format!("GET /signin?token={token}"), ""),
        send(&running, "", &format!("GET /signin?token={token}"), ""),
        graphql(&running, &key, "{ nonsense }"),
        send(&running, &second, "POST /graphql", "not json"),
        send(&running, &key, "POST /api/v1/keys", "{\"name\": 3}"),
    ];
    for answer in &answers {
        for secret in [KEY, &key, &second, password, token, unknown] {
            assert!(!answer.body.contains(secret), "{}", answer.body);
        }
    }
    drop(running);
    let log = String::from_utf8_lossy(&log.0.lock().expect("not poisoned")).into_owned();
    assert!(!log.is_empty());
    for secret in [KEY, &key, &second, password, token, unknown] {
        assert!(!log.contains(secret), "`{secret}` is in the log");
    }
}
