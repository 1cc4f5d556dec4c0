//! Who may do what, through the doors: a stranger, a member of another team, a viewer.

use crate::http::{graphql, send};
use crate::support::{Engine, KEY, Running};

struct Cast {
    running: Running,
    bob: String,
    vera: String,
}

/// Alice administers and has a team with work in it; Vera may look at the team, Bob has nothing to do with it.
fn cast(engine: Engine) -> Cast {
    let running = Running::start(engine);
    let user = |name: &str| {
        let made = send(&running, KEY, "POST /api/v1/users", &format!("{{\"username\": \"{name}\"}}"));
        assert_eq!(made.status, 200, "{}", made.body);
        made.json()["key"].as_str().expect("a key").to_owned()
    };
    let (bob, vera) = (user("bob"), user("vera"));
    assert_eq!(send(&running, KEY, "POST /api/v1/teams", "{\"name\": \"team\"}").status, 200);
    let viewer = send(&running, KEY, "PUT /api/v1/teams/team/members/vera", "{\"role\": \"viewer\"}");
    assert_eq!(viewer.status, 200, "{}", viewer.body);
    for query in [
        "mutation { createRunQueue(input: {entityName: \"team\", projectName: \"model-registry\", queueName: \"q\", access: PROJECT}) { queueID } }",
        "mutation { upsertBucket(input: {entityName: \"team\", modelName: \"p\", name: \"r\", host: \"h\"}) { inserted } }",
        PUSH,
    ] {
        let made = graphql(&running, KEY, query);
        assert_eq!(made.status, 200, "{}", made.body);
    }
    Cast { running, bob, vera }
}

const PUSH: &str = r#"mutation { pushToRunQueueByName(input: {entityName: "team", projectName: "model-registry", queueName: "q", runSpec: "{\"resource\":\"local-process\"}"}) { runQueueItemId } }"#;
const POP: &str = r#"mutation { popFromRunQueue(input: {entityName: "team", projectName: "model-registry", queueName: "q"}) { runQueueItemId } }"#;
const LOOK: &str =
    r#"{ entity(name: "team") { id } project(name: "p", entityName: "team") { run(name: "r") { name } } }"#;

/// What a writer may do and others may not.
fn writes() -> Vec<(&'static str, String)> {
    let item = "UnVuUXVldWVJdGVtOjE=";
    let queue = "UnVuUXVldWU6MQ==";
    let run = "UnVuOnYxOnI6cDp0ZWFt";
    let mutation = |text: &str| text.to_owned();
    vec![
        ("push", mutation(PUSH)),
        ("pop", mutation(POP)),
        (
            "push by id",
            format!(
                r#"mutation {{ pushToRunQueue(input: {{queueID: "{queue}", runSpec: "{{}}"}}) {{ runQueueItemId }} }}"#
            ),
        ),
        (
            "ack",
            format!(
                r#"mutation {{ ackRunQueueItem(input: {{runQueueItemId: "{item}", runName: "x"}}) {{ success }} }}"#
            ),
        ),
        (
            "fail",
            format!(
                r#"mutation {{ failRunQueueItem(input: {{runQueueItemId: "{item}", message: "m", stage: "run"}}) {{ success }} }}"#
            ),
        ),
        ("delete queue", format!(r#"mutation {{ deleteRunQueues(input: {{queueIDs: ["{queue}"]}}) {{ success }} }}"#)),
        (
            "delete item",
            format!(
                r#"mutation {{ deleteFromRunQueue(input: {{queueID: "{queue}", runQueueItemId: "{item}"}}) {{ success }} }}"#
            ),
        ),
        ("stop run", format!(r#"mutation {{ stopRun(input: {{id: "{run}"}}) {{ success }} }}"#)),
        (
            "begin run",
            mutation(
                r#"mutation { upsertBucket(input: {entityName: "team", modelName: "p", name: "r2"}) { inserted } }"#,
            ),
        ),
        (
            "make project",
            mutation(r#"mutation { upsertModel(input: {entityName: "team", name: "new"}) { inserted } }"#),
        ),
        (
            "upload",
            mutation(
                r#"mutation { createRunFiles(input: {entityName: "team", projectName: "p", runName: "r", files: ["f"]}) { runID } }"#,
            ),
        ),
        (
            "artifact",
            mutation(
                r#"mutation { createArtifact(input: {entityName: "team", projectName: "p", artifactTypeName: "t", artifactCollectionName: "c", digest: "d", digestAlgorithm: MANIFEST_MD5}) { artifact { id } } }"#,
            ),
        ),
        (
            "sweep",
            mutation(
                r#"mutation { upsertSweep(input: {entityName: "team", projectName: "p", config: "method: grid"}) { sweep { name } } }"#,
            ),
        ),
        (
            "agent",
            mutation(
                r#"mutation { createLaunchAgent(input: {entityName: "team", projectName: "model-registry", runQueues: [], hostname: "h"}) { launchAgentId } }"#,
            ),
        ),
    ]
}

// AUTH-7
#[test]
fn a_stranger_finds_nothing_and_a_viewer_changes_nothing() {
    let Cast { running, bob, vera } = cast(Engine::Sqlite);
    assert_eq!(graphql(&running, "no key at all", LOOK).status, 401);
    let seen = graphql(&running, &bob, LOOK).json();
    assert_eq!(seen["data"], serde_json::json!({ "entity": null, "project": null }));
    let seen = graphql(&running, &vera, LOOK).json();
    assert_eq!(seen["data"]["project"]["run"]["name"], "r");
    for (what, query) in writes() {
        let bobs = graphql(&running, &bob, &query);
        assert_eq!(bobs.status, 404, "{what}: {}", bobs.body);
        let veras = graphql(&running, &vera, &query);
        assert_eq!(veras.status, 403, "{what}: {}", veras.body);
    }
    let post = |key| send(&running, key, "POST /files/team/p/r/file_stream", "{}").status;
    assert_eq!((post(bob.as_str()), post(vera.as_str()), post(KEY)), (404, 403, 200));
    for head in ["POST /api/v1/users", "POST /api/v1/teams"] {
        let body = "{\"username\": \"eve\", \"name\": \"eve\"}";
        assert_eq!(send(&running, &vera, head, body).status, 403, "{head}");
    }
    assert_eq!(send(&running, &bob, "PUT /api/v1/teams/team/members/bob", "{\"role\": \"admin\"}").status, 404);
}

#[test]
fn a_member_may_write_until_the_role_or_the_key_is_taken_away() {
    let Cast { running, bob, .. } = cast(Engine::Postgres);
    let member = |role: &str| {
        let set = send(&running, KEY, "PUT /api/v1/teams/team/members/bob", &format!("{{\"role\": \"{role}\"}}"));
        assert_eq!(set.status, 200, "{}", set.body);
    };
    member("member");
    assert_eq!(graphql(&running, &bob, PUSH).status, 200);
    let popped = graphql(&running, &bob, POP).json();
    assert_eq!(popped["data"]["popFromRunQueue"]["runQueueItemId"], "UnVuUXVldWVJdGVtOjE=");
    member("viewer");
    assert_eq!(graphql(&running, &bob, PUSH).status, 403);
    assert_eq!(send(&running, KEY, "DELETE /api/v1/teams/team/members/bob", "").status, 200);
    assert_eq!(graphql(&running, &bob, PUSH).status, 404);

    let second = send(&running, &bob, "POST /api/v1/keys", "{\"name\": \"laptop\"}").json();
    let key = second["key"].as_str().expect("a key");
    assert_eq!(graphql(&running, key, LOOK).status, 200);
    assert_eq!(send(&running, &bob, &format!("DELETE /api/v1/keys/{}", second["id"]), "").status, 200);
    assert_eq!(graphql(&running, key, LOOK).status, 401);
}

#[test]
fn a_request_may_not_ask_without_end() {
    let running = Running::start(Engine::Sqlite);
    let deep = format!("{{ viewer {{ {} id {} }} }}", "teams { edges { node { user {".repeat(12), "} } } }".repeat(12));
    assert_eq!(graphql(&running, KEY, &deep).status, 400);
    let wide = format!("{{ viewer {{ {} }} }}", (0..3000).map(|n| format!("a{n}: id ")).collect::<String>());
    assert_eq!(graphql(&running, KEY, &wide).status, 400);
}
