//! How much and how often: each limit has words of its own, and says when to come back.

use crate::http::{graphql, open, send};
use crate::support::{Engine, KEY, Running};
use std::io::Read as _;

#[test]
fn a_request_may_not_ask_without_end() {
    let running = Running::start(Engine::Sqlite);
    let deep = format!("{{ viewer {{ {} id {} }} }}", "teams { edges { node { user {".repeat(12), "} } } }".repeat(12));
    let wide = format!("{{ viewer {{ {} }} }}", (0..3000).map(|n| format!("a{n}: id ")).collect::<String>());
    let long = format!("{{ viewer {{ id }} }} #{}", "x".repeat(300_000));
    let nested = format!("{{ {} }}", "a(b: [".repeat(5000));
    let mut told = Vec::new();
    for (query, status) in [(&deep, 400), (&wide, 400), (&long, 413), (&nested, 400)] {
        let answer = graphql(&running, KEY, query);
        assert_eq!(answer.status, status, "{}", answer.body);
        told.push(answer.body);
    }
    told.dedup();
    assert_eq!(told.len(), 4, "each limit has words of its own: {told:?}");
    let large = send(&running, KEY, "POST /api/v1/keys", &format!("{{\"name\": \"{}\"}}", "x".repeat(2 << 20)));
    assert_eq!(large.status, 413, "{}", large.body);
    assert_eq!(graphql(&running, KEY, "{ viewer { id } }").status, 200, "the server still answers");
}

#[test]
fn one_who_guesses_keys_must_wait_and_one_who_has_a_key_need_not() {
    let running = Running::start(Engine::Sqlite);
    let guess = |n: usize| send(&running, &format!("{n:040}"), "GET /api/v1/session", "").status;
    let limited = (0..200).find(|n| guess(*n) == 429);
    assert!(limited.is_some_and(|n| n >= 20), "a few mistakes are free: {limited:?}");
    let mut text = String::new();
    open(&running, &format!("{:040}", 7), "GET /api/v1/session", "").read_to_string(&mut text).expect("an answer");
    let head = text.to_lowercase();
    assert!(
        head.contains("\r\nretry-after: ") && head.contains("too many failed sign-ins from this address"),
        "{text}"
    );
    assert_eq!(send(&running, KEY, "GET /api/v1/session", "").status, 200, "whoever has a key is not held up");
}

#[test]
fn a_key_that_asks_too_often_is_told_so_and_others_are_not() {
    let rate = volley_plan::people::rate::Rate { per_second: 0.01, burst: 5.0 };
    let rates = volley_server::http::limits::Rates { key: rate, ..Default::default() };
    let running = Running::start_with(Engine::Sqlite, rates);
    let ask = |key: &str| send(&running, key, "GET /api/v1/session", "");
    let made = send(&running, KEY, "POST /api/v1/keys", "{\"name\": \"other\"}").json();
    let other = made["key"].as_str().expect("a key");
    let limited = (0..10).map(|_| ask(KEY)).find(|answer| answer.status == 429).expect("a limit");
    assert!(limited.body.contains("this API key asks too often"), "{}", limited.body);
    assert_eq!(ask(other).status, 200, "another key has a limit of its own");
}
