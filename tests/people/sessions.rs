//! Signing in and out, and what a cookie may do.

use crate::http::{graphql, send};
use crate::support::{Engine, KEY, PATIENCE, Running};
use crate::world::{rest, text};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn field(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The cookie as a browser would send it back.
    fn cookie(&self) -> String {
        self.field("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned()
    }
}

/// A request without a key, with these header fields.
fn request(running: &Running, head: &str, fields: &[(&str, &str)], body: &Value) -> Answer {
    let mut stream =
        TcpStream::connect(running.url.strip_prefix("http://").expect("plain HTTP")).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let fields: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    let text = format!(
        "{head} HTTP/1.1\r\nHost: volley\r\n{fields}Content-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

fn link(running: &Running, user: &str) -> String {
    let made = rest(running, KEY, &format!("POST /api/v1/users/{user}/link"), json!({}));
    text(&made["url"])[running.url.len()..].to_owned()
}

fn check(engine: Engine) {
    let running = Running::start(engine);
    let path = link(&running, "alice");
    let signed_in = request(&running, &format!("GET {path}"), &[], &Value::Null);
    assert_eq!((signed_in.status, signed_in.field("location")), (303, Some("/")), "{}", signed_in.body);
    let set = signed_in.field("set-cookie").expect("a cookie").to_owned();
    assert!(set.contains("; HttpOnly") && set.contains("; SameSite=Lax") && !set.contains("Secure"), "{set}");
    let cookie = signed_in.cookie();
    assert_eq!(request(&running, &format!("GET {path}"), &[], &Value::Null).status, 401, "a link works once");

    let me = request(&running, "GET /api/v1/session", &[("Cookie", &cookie)], &Value::Null);
    assert!(me.status == 200 && me.body.contains("\"alice\""), "{}", me.body);
    let query = json!({ "query": "{ viewer { username } }" });
    let page = ("X-Volley-Page", "1");
    let ask = |fields: &[(&str, &str)]| request(&running, "POST /graphql", fields, &query).status;
    assert_eq!(ask(&[("Cookie", &cookie)]), 403, "a form of another page has the cookie too");
    assert_eq!(ask(&[("Cookie", &cookie), page]), 200);
    assert_eq!(ask(&[("Cookie", &cookie), page, ("Origin", "http://evil.example")]), 403);
    assert_eq!(ask(&[("Cookie", &cookie), page, ("Origin", "http://volley")]), 200);
    assert_eq!(ask(&[("Cookie", "volley_session=made-up"), page]), 401);

    assert_eq!(request(&running, "DELETE /api/v1/session", &[("Cookie", &cookie), page], &Value::Null).status, 200);
    assert_eq!(ask(&[("Cookie", &cookie), page]), 401);
}

#[test]
fn a_link_signs_in_once_and_the_cookie_is_only_our_pages() {
    check(Engine::Sqlite);
}

#[test]
fn a_link_signs_in_once_and_the_cookie_is_only_our_pages_on_postgres() {
    check(Engine::Postgres);
}

#[test]
fn a_password_signs_in_where_one_was_set() {
    let running = Running::start(Engine::Sqlite);
    rest(&running, KEY, "POST /api/v1/users", json!({ "username": "bob" }));
    let sign_in = |user: &str, password: &str| {
        let body = json!({ "username": user, "password": password });
        request(&running, "POST /api/v1/session", &[], &body)
    };
    assert_eq!(sign_in("bob", "").status, 401, "without a password there is none that fits");
    assert_eq!(send(&running, KEY, "PUT /api/v1/users/bob/password", "{\"password\": \"short\"}").status, 400);
    rest(&running, KEY, "PUT /api/v1/users/bob/password", json!({ "password": "correct horse" }));
    let (wrong, nobody) = (sign_in("bob", "wrong horse"), sign_in("nobody", "wrong horse"));
    assert_eq!((wrong.status, &wrong.body), (nobody.status, &nobody.body), "who has an account is not told");
    let signed_in = sign_in("bob", "correct horse");
    assert_eq!(signed_in.status, 200, "{}", signed_in.body);
    let (cookie, page) = (signed_in.cookie(), ("X-Volley-Page", "1"));

    let change = |current: Value, password: &str| {
        let body = json!({ "password": password, "current": current });
        request(&running, "PUT /api/v1/users/bob/password", &[("Cookie", &cookie), page], &body).status
    };
    assert_eq!(change(Value::Null, "another horse"), 403, "an open session is not enough");
    let other = sign_in("bob", "correct horse").cookie();
    assert_eq!(change("correct horse".into(), "another horse"), 200);
    let is_open =
        |cookie: &str| request(&running, "GET /api/v1/session", &[("Cookie", cookie)], &Value::Null).status == 200;
    assert!(is_open(&cookie) && !is_open(&other), "other sessions end with the old password");
    assert_eq!(sign_in("bob", "correct horse").status, 401);
}

#[test]
fn who_is_deleted_is_gone_at_once_and_the_last_admin_stays() {
    let running = Running::start(Engine::Postgres);
    let key = text(&rest(&running, KEY, "POST /api/v1/users", json!({ "username": "bob" }))["key"]);
    let path = link(&running, "bob");
    let cookie = request(&running, &format!("GET {path}"), &[], &Value::Null).cookie();
    let unused = link(&running, "bob");
    assert_eq!(graphql(&running, &key, "{ viewer { id } }").status, 200);
    rest(&running, KEY, "DELETE /api/v1/users/bob", json!({}));
    assert_eq!(graphql(&running, &key, "{ viewer { id } }").status, 401);
    assert_eq!(request(&running, "GET /api/v1/session", &[("Cookie", &cookie)], &Value::Null).status, 401);
    assert_eq!(request(&running, &format!("GET {unused}"), &[], &Value::Null).status, 401);
    assert_eq!(send(&running, KEY, "POST /api/v1/users", "{\"username\": \"bob\"}").status, 409, "a name is for ever");
    for (head, body) in [("DELETE /api/v1/users/alice", "{}"), ("PATCH /api/v1/users/alice", "{\"admin\": false}")] {
        let refused = send(&running, KEY, head, body);
        assert!(refused.status == 409 && refused.body.contains("nobody else administers"), "{}", refused.body);
    }
}

#[test]
fn one_who_is_shut_out_does_not_go_on_listening() {
    let running = Running::start(Engine::Sqlite);
    let made = rest(&running, KEY, "POST /api/v1/keys", json!({ "name": "listener" }));
    let mut stream = crate::http::open(&running, &text(&made["key"]), "GET /api/v1/events", "");
    let mut head = String::new();
    while head != "\r\n" {
        head.clear();
        assert!(std::io::BufRead::read_line(&mut stream, &mut head).expect("a head") > 0);
    }
    rest(&running, KEY, &format!("DELETE /api/v1/keys/{}", made["id"]), json!({}));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the stream ends");
}

#[test]
fn keys_have_names_ends_and_a_last_use() {
    let running = Running::start(Engine::Postgres);
    let made = rest(&running, KEY, "POST /api/v1/keys", json!({ "name": "ci", "expires_days": 30 }));
    let key = text(&made["key"]);
    let listed = |name: &str| {
        let keys = rest(&running, KEY, "GET /api/v1/keys", json!({}));
        let keys = keys.as_array().expect("a list").clone();
        keys.into_iter().find(|one| one["name"] == name).unwrap_or_default()
    };
    assert!(listed("ci")["used"].is_null() && listed("ci")["expires"].is_string());
    assert!(!listed("ci").to_string().contains(&key), "a key is shown once");
    assert_eq!(graphql(&running, &key, "{ viewer { id } }").status, 200);
    assert!(listed("ci")["used"].is_string());
    for wrong in [
        json!({ "name": "" }),
        json!({ "name": "x", "expires_days": 0 }),
        json!({ "name": "x", "expires_days": 99999 }),
    ] {
        assert_eq!(send(&running, KEY, "POST /api/v1/keys", &wrong.to_string()).status, 400, "{wrong}");
    }
    rest(&running, KEY, "POST /api/v1/users", json!({ "username": "ci-bot", "service": true }));
    rest(&running, KEY, "POST /api/v1/keys", json!({ "name": "prod", "user": "ci-bot" }));
    let theirs = rest(&running, KEY, "GET /api/v1/keys?user=ci-bot", json!({}));
    assert_eq!(theirs.as_array().map(Vec::len), Some(2));
    assert_eq!(send(&running, &key, &format!("DELETE /api/v1/keys/{}", made["id"]), "").status, 200);
    assert_eq!(graphql(&running, &key, "{ viewer { id } }").status, 401);
}
