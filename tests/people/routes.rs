//! Every route of the OpenAPI document: that it is there, that strangers do not pass, that nothing leaks, and that the
//! routes for people do what they say.

use crate::http::{Answer, open, send};
use crate::schema::leaks;
use crate::support::{Engine, KEY, Running};
use crate::world::{CANARY, PROJECT, TEAM, World, put, rest, text};
use serde_json::{Value, json};
use std::io::{BufRead as _, Read as _};

struct Route {
    verb: String,
    path: String,
    is_open: bool,
    needs_signature: bool,
    has_query: bool,
}

/// The routes that the server says it has.
fn routes(running: &Running) -> Vec<Route> {
    let document = send(running, "", "GET /api/v1/openapi.json", "").json();
    assert_eq!(document["openapi"], "3.1.0");
    let mut routes = Vec::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for (verb, operation) in operations.as_object().expect("operations") {
            let security = operation["security"].as_array().expect("who may pass");
            let query = operation["parameters"].as_array().expect("parameters").iter();
            routes.push(Route {
                verb: verb.to_uppercase(),
                path: path.clone(),
                is_open: security.is_empty(),
                needs_signature: security.iter().any(|one| one.get("signature").is_some()),
                has_query: query.filter(|one| one["in"] == "query" && one["required"] == true).count() > 0,
            });
        }
    }
    routes
}

impl Route {
    /// A request for something of the team, or of an entity that does not exist.
    fn ask(&self, running: &Running, key: &str, entity: &str) -> Answer {
        let path = self.path.replace("{entity}", entity).replace("{team}", entity).replace("{user}", "olga");
        let path = path.replace("{project}", PROJECT).replace("{run}", "r").replace("{queue}", "q");
        let path = path.replace("{name}", &format!("{CANARY}.txt")).replace("{id}", "1").replace("{kind}", "metrics");
        let path = path.replace("{key}", "files/1/1").replace("{digest}", "00").replace("{region}", "default");
        let path = path.replace("{collection}", "c").replace("{birth}", "x");
        // The numbers that the first of each kind has.
        let path = path.replace("{item}", "UnVuUXVldWVJdGVtOjE%3D").replace("{agent}", "TGF1bmNoQWdlbnQ6MQ%3D%3D");
        assert!(!path.contains('{'), "nobody taught this test a part of {path}");
        let query = if self.has_query { "?token=x&until=1&sign=00" } else { "" };
        let body = json!({ "name": "n", "role": "admin", "username": "eve", "password": "long enough", "query": "{ viewer { id } }",
            "queue": "q", "queues": [], "agent": "TGF1bmNoQWdlbnQ6MQ==", "attempt": 1, "state": "failed", "run": { "name": "x" } });
        send(running, key, &format!("{} {path}{query}", self.verb), &body.to_string())
    }

    /// The stream of events has no end to wait for.
    fn is_endless(&self) -> bool {
        self.path == "/api/v1/events"
    }
}

#[test]
fn every_documented_route_is_there_and_no_other() {
    let world = World::new(Engine::Sqlite);
    let routes = routes(&world.running);
    assert!(routes.len() > 40);
    for route in routes.iter().filter(|route| !route.is_endless()) {
        let told = format!("{} {}", route.verb, route.path);
        let answer = route.ask(&world.running, "", TEAM);
        let expected = match (route.is_open, route.needs_signature, told.as_str()) {
            (_, _, "POST /sdk/otel/v1/{kind}") => 404,
            (_, _, "GET /signin" | "POST /api/v1/session") => 401,
            (_, true, _) => 400,
            (true, _, _) => 200,
            (false, false, _) => 401,
        };
        let is_expected = answer.status == expected || (route.needs_signature && answer.status == 403);
        assert!(is_expected, "{told}: {} {}", answer.status, answer.body);
        assert!(route.path == "/api/v1/openapi.json" || !leaks(&answer.body), "{told}: {}", answer.body);
        let wrong = send(&world.running, KEY, &format!("TRACE {}", route.path.replace(['{', '}'], "")), "");
        assert!(matches!(wrong.status, 404 | 405), "{told}: {}", wrong.status);
    }
    for head in ["GET /", "GET /api/v1", "POST /api/v1/openapi.json", "GET /graphql"] {
        assert!(matches!(send(&world.running, KEY, head, "").status, 404 | 405), "{head}");
    }
}

#[test]
fn another_teams_admin_finds_what_is_not_there() {
    let world = World::new(Engine::Postgres);
    for route in routes(&world.running).iter().filter(|route| !route.is_open && !route.is_endless()) {
        let told = format!("{} {}", route.verb, route.path);
        let real = route.ask(&world.running, &world.bob, TEAM);
        let ghost = route.ask(&world.running, &world.bob, "gone");
        assert!(!leaks(&real.body), "{told}: {}", real.body);
        if ["{item}", "{agent}"].iter().any(|part| route.path.contains(part)) {
            assert_eq!(real.status, 404, "{told}: {}", real.body);
        }
        let is_of_somebody = ["{entity}", "{team}", "{user}"].iter().any(|part| route.path.contains(part));
        if is_of_somebody {
            assert_eq!((real.status, real.body), (ghost.status, ghost.body.replace("gone", TEAM)), "{told}");
            assert!(real.status == 404 || real.status == 403, "{told}: {}", real.status);
        }
    }
}

#[test]
fn a_viewer_reads_and_does_not_write() {
    let world = World::new(Engine::Sqlite);
    let (running, vera) = (&world.running, world.vera.as_str());
    for head in ["file_stream"].map(|end| format!("POST /files/{TEAM}/{PROJECT}/r/{end}")) {
        assert_eq!(send(running, vera, &head, "{}").status, 403);
    }
    for (head, status) in [
        (format!("PUT /api/v1/teams/{TEAM}/members/vera"), 403),
        (format!("DELETE /api/v1/teams/{TEAM}/members/olga"), 403),
        (format!("PUT /api/v1/teams/{TEAM}/quota"), 403),
        (format!("PUT /api/v1/queues/{TEAM}/q/access"), 403),
        ("POST /api/v1/users".to_owned(), 403),
        ("DELETE /api/v1/users/olga".to_owned(), 403),
        ("PATCH /api/v1/users/olga".to_owned(), 404),
        ("POST /api/v1/users/olga/link".to_owned(), 404),
        (format!("GET /api/v1/audit?entity={TEAM}"), 403),
        ("GET /api/v1/audit".to_owned(), 403),
        (format!("GET /api/v1/teams/{TEAM}"), 200),
        (format!("GET /api/v1/queues/{TEAM}/q/history"), 200),
    ] {
        let answer = send(running, vera, &head, "{\"role\": \"admin\", \"username\": \"x\"}");
        assert_eq!(answer.status, status, "{head}: {}", answer.body);
    }
    for route in
        routes(running).iter().filter(|route| ["{item}", "{agent}"].iter().any(|part| route.path.contains(part)))
    {
        let answer = route.ask(running, vera, TEAM);
        let expected = if route.path.ends_with("/{item}") { 200 } else { 403 };
        assert_eq!(answer.status, expected, "{} {}: {}", route.verb, route.path, answer.body);
        assert!(answer.status != 200 || answer.json()["lease"].is_null(), "a viewer holds nothing");
    }
    assert_eq!(send(running, vera, "PATCH /api/v1/users/vera", "{\"admin\": true}").status, 403);
    let console = send(running, vera, &format!("GET /api/v1/runs/{TEAM}/{PROJECT}/r/logs"), "");
    assert!(console.status == 200 && console.body.contains(CANARY), "{}", console.body);
    let file = send(running, vera, &format!("GET /api/v1/runs/{TEAM}/{PROJECT}/r/files/{CANARY}.txt"), "");
    assert_eq!((file.status, file.body.as_str()), (200, CANARY));
}

#[test]
fn the_console_is_followed_until_the_run_ends() {
    let world = World::new(Engine::Sqlite);
    let (running, olga) = (&world.running, world.olga.as_str());
    let mut stream = open(running, olga, &format!("GET /api/v1/runs/{TEAM}/{PROJECT}/r/logs?follow=true&tail=1"), "");
    let mut line = String::new();
    while !line.contains(CANARY) {
        line.clear();
        assert!(stream.read_line(&mut line).expect("a line") > 0);
    }
    let post = |body: Value| rest(running, olga, &format!("POST /files/{TEAM}/{PROJECT}/r/file_stream"), body);
    post(json!({ "files": { "output.log": { "offset": 1, "content": ["the last words\n"] } } }));
    post(json!({ "complete": true, "exitcode": 0 }));
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("the end");
    assert!(rest.contains("the last words\n"), "{rest}");
}

#[test]
fn names_do_not_lead_out_of_their_place() {
    let world = World::new(Engine::Sqlite);
    let (running, olga) = (&world.running, world.olga.as_str());
    for name in ["../../x", "/etc/passwd", "a/../../b", "..", "a\\u0000b", ""] {
        let upload = format!(
            "mutation {{ createRunFiles(input: {{entityName: \"{TEAM}\", projectName: \"{PROJECT}\", runName: \"r\", \
             files: [\"{name}\"]}}) {{ runID }} }}"
        );
        assert_eq!(crate::http::graphql(running, olga, &upload).status, 400, "{name}");
    }
    for path in ["..%2f..%2fvolley.db", "%2e%2e/%2e%2e/x", "%2fetc%2fpasswd", "a/..%2f..%2fb"] {
        let file = send(running, olga, &format!("GET /api/v1/runs/{TEAM}/{PROJECT}/r/files/{path}"), "");
        assert!(matches!(file.status, 400 | 404), "{path}: {}", file.status);
        let blob = send(running, "", &format!("PUT /blobs/{path}?until=99999999999&sign=00"), "x");
        assert_eq!(blob.status, 403, "{path}");
    }
    for name in ["..", ".", "a/b", "", "a b"] {
        let user = send(running, KEY, "POST /api/v1/users", &json!({ "username": name }).to_string());
        assert_eq!(user.status, 400, "{name}");
    }
    let artifact = format!(
        "mutation {{ createArtifact(input: {{entityName: \"{TEAM}\", projectName: \"{PROJECT}\", artifactTypeName: \"t\", \
         artifactCollectionName: \"c\", digest: \"d2\", digestAlgorithm: MANIFEST_MD5}}) {{ artifact {{ id }} }} }}"
    );
    let id = text(&crate::http::graphql(running, olga, &artifact).json()["data"]["createArtifact"]["artifact"]["id"]);
    // Those who download an artifact write its files to their disk.
    for name in ["../evil", "/evil", "a/../../evil"] {
        let made = crate::http::graphql(
            running,
            olga,
            &format!(
                "mutation {{ createArtifactFiles(input: {{artifactFiles: [{{artifactID: \"{id}\", name: \"{name}\", \
                 md5: \"1B2M2Y8AsgTpgAmY7PhCfg==\"}}]}}) {{ files {{ edges {{ node {{ name }} }} }} }} }}"
            ),
        );
        assert_eq!(made.status, 400, "{name}: {}", made.body);
    }
}

#[test]
fn health_and_counts_are_for_everybody_and_have_no_names() {
    let world = World::new(Engine::Postgres);
    for path in ["/healthz", "/readyz", "/ready"] {
        assert_eq!(send(&world.running, "", &format!("GET {path}"), "").body.trim(), "ok");
    }
    let metrics = send(&world.running, "", "GET /metrics", "").body;
    assert!(metrics.contains("volley_queue_items{state=\"pending\"} 1\n"), "{metrics}");
    assert!(metrics.contains("volley_runs{state=\"running\"} 1\n"), "{metrics}");
    assert!(!metrics.contains(TEAM) && !leaks(&metrics));
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(name.starts_with("volley_") && value.parse::<f64>().is_ok(), "{line}");
    }
}

#[test]
fn a_queue_remembers_what_it_was() {
    let world = World::new(Engine::Sqlite);
    let (running, olga) = (&world.running, world.olga.as_str());
    let upsert = format!(
        "mutation {{ upsertRunQueue(input: {{entityName: \"{TEAM}\", projectName: \"{PROJECT}\", queueName: \"q\", \
         resourceType: \"local-process\", resourceConfig: \"{{\\\"a\\\":1}}\", prioritizationMode: V0}}) {{ success }} }}"
    );
    assert_eq!(crate::http::graphql(running, olga, &upsert).status, 200);
    let history = rest(running, olga, &format!("GET /api/v1/queues/{TEAM}/q/history"), json!({}));
    let history = history.as_array().expect("a list");
    assert_eq!(history.len(), 2);
    assert_eq!((&history[0]["config"]["a"], &history[0]["prioritization"]), (&json!(1), &json!("V0")));
    assert_eq!(history[0]["user"], "olga");
    assert!(history[1]["config"][CANARY].is_string(), "{history:?}");
}

#[test]
fn a_signed_link_is_for_one_thing_and_one_deed() {
    let world = World::new(Engine::Sqlite);
    let (running, olga) = (&world.running, world.olga.as_str());
    let look = format!(
        "{{ project(name: \"{PROJECT}\", entityName: \"{TEAM}\") {{ run(name: \"r\") {{ files {{ edges {{ node {{ directUrl uploadUrl }} }} }} }} }} }}"
    );
    let node =
        crate::http::graphql(running, olga, &look).json()["data"]["project"]["run"]["files"]["edges"][0]["node"].take();
    let (read, write) = (text(&node["directUrl"]), text(&node["uploadUrl"]));
    let path = |url: &str| url[running.url.len()..].to_owned();
    put(running, &write, "new bytes");
    assert_eq!(send(running, "", &format!("GET {}", path(&read)), "").body, "new bytes");
    assert_eq!(send(running, "", &format!("PUT {}", path(&read)), "x").status, 403);
    assert_eq!(send(running, "", &format!("GET {}", path(&write)), "").status, 403);
    let other = path(&read).replace("/blobs/files/1/1", "/blobs/files/1/2");
    assert_eq!(send(running, "", &format!("GET {other}"), "").status, 403);
}
