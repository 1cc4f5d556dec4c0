//! The credential of a launch: it logs to its run, reads what that needs, and opens nothing else.

use crate::agents::{Desk, ENGINES};
use crate::http::{Answer, graphql, send};
use crate::support::Engine;
use crate::world::{PROJECT, TEAM, text};
use serde_json::json;

/// A launch that was started on: its item, its lease, and its credential.
fn started(desk: &Desk, run: &str) -> (String, String, String) {
    let id = desk.push(1);
    let lease = text(&desk.take(1)[0]["lease"]);
    assert!(desk.acknowledge(&lease, run));
    let token = text(&desk.rest(&format!("POST /api/v1/items/{lease}/token"), json!({}))["token"]);
    (id, lease, token)
}

fn post(desk: &Desk, token: &str, run: &str) -> u16 {
    send(&desk.world.running, token, &format!("POST /files/{TEAM}/p/{run}/file_stream"), "{}").status
}

fn begin(desk: &Desk, token: &str, project: &str, run: &str) -> Answer {
    let begin = format!(
        r#"mutation {{ upsertBucket(input: {{entityName: "{TEAM}", modelName: "{project}", name: "{run}", host: "h"}})
        {{ bucket {{ name user {{ username }} }} }} }}"#
    );
    graphql(&desk.world.running, token, &begin)
}

// K-39, L-23
#[test]
fn a_launch_logs_to_its_own_run_until_its_attempt_is_over() {
    for desk in ENGINES.map(Desk::new) {
        let (_, lease, token) = started(&desk, "r1");
        started(&desk, "r2");
        let begun = begin(&desk, &token, "p", "r1");
        assert_eq!(begun.json()["data"]["upsertBucket"]["bucket"]["user"]["username"], "olga", "{}", begun.body);
        assert_eq!(post(&desk, &token, "r1"), 200);
        let viewer = graphql(&desk.world.running, &token, "{ viewer { username entity admin } }");
        assert_eq!(viewer.json()["data"]["viewer"]["username"], "olga", "{}", viewer.body);
        let files = format!(
            r#"mutation {{ createRunFiles(input: {{entityName: "{TEAM}", projectName: "p", runName: "r1", files: ["a.txt"]}})
            {{ files {{ uploadUrl }} }} }}"#
        );
        assert_eq!(graphql(&desk.world.running, &token, &files).status, 200);
        assert_eq!((post(&desk, &token, "r2"), post(&desk, &token, "r3")), (403, 403), "other runs");
        assert_eq!(begin(&desk, &token, "p", "r2").status, 403);
        assert_eq!(begin(&desk, &token, "p", "new").status, 403);
        assert_eq!(begin(&desk, &token, PROJECT, "r1").status, 403, "the same name in another project");
        assert_eq!(begin(&desk, &token, "no-such-project", "r1").status, 403);
        assert_eq!(graphql(&desk.world.running, &token, &files.replace("r1", "r2")).status, 403);
        // The next attempt has a credential of its own, and both end with the item.
        assert!(desk.tell(&lease, "requeue", json!({ "attempt": 1 })));
        assert_eq!(post(&desk, &token, "r1"), 401);
        let lease = text(&desk.take(1)[0]["lease"]);
        assert!(desk.acknowledge(&lease, "r1"));
        let next = text(&desk.rest(&format!("POST /api/v1/items/{lease}/token"), json!({}))["token"]);
        assert_eq!((post(&desk, &next, "r1"), post(&desk, &token, "r1")), (200, 401));
        assert!(desk.tell(&lease, "end", json!({ "state": "finished" })));
        assert_eq!(post(&desk, &next, "r1"), 401);
        assert!(!desk.tell(&lease, "token", json!({})), "an ended item is given none");
    }
}

// K-39, AUTH-7
#[test]
fn a_launch_opens_no_door_of_people_queues_or_keys() {
    let desk = Desk::new(Engine::Sqlite);
    let (id, lease, token) = started(&desk, "r1");
    let running = &desk.world.running;
    for head in [
        "GET /api/v1/session".to_owned(),
        "GET /api/v1/keys".to_owned(),
        "POST /api/v1/keys".to_owned(),
        "GET /api/v1/users".to_owned(),
        "PUT /api/v1/users/olga/password".to_owned(),
        "POST /api/v1/users/olga/link".to_owned(),
        "GET /api/v1/events".to_owned(),
        "GET /api/v1/items".to_owned(),
        format!("POST /api/v1/agents/{}/take", desk.agent),
        format!("POST /api/v1/items/{lease}/token"),
        format!("POST /api/v1/items/{lease}/end"),
        format!("POST /api/v1/items/{id}/stop"),
    ] {
        let answer = send(running, &token, &head.replace('=', "%3D"), "{\"name\": \"x\", \"queue\": \"work\"}");
        assert_eq!(answer.status, 403, "{head}: {}", answer.body);
    }
    let signed_in = send(running, "", "POST /api/v1/session", &json!({ "key": token }).to_string());
    assert_eq!(signed_in.status, 401, "{}", signed_in.body);
    for mutation in [
        r#"generateApiKey(input: {description: "x"}) { apiKey { name } }"#.to_owned(),
        format!(
            r#"upsertRunQueue(input: {{entityName: "{TEAM}", projectName: "{PROJECT}", queueName: "work", resourceType: "kubernetes",
            resourceConfig: "{{}}"}}) {{ success }}"#
        ),
        format!(
            r#"pushToRunQueueByName(input: {{entityName: "{TEAM}", projectName: "{PROJECT}", queueName: "work", runSpec: "{{}}"}})
            {{ runQueueItemId }}"#
        ),
        format!(
            r#"popFromRunQueue(input: {{entityName: "{TEAM}", projectName: "{PROJECT}", queueName: "work"}}) {{ runQueueItemId }}"#
        ),
        format!(r#"upsertModel(input: {{entityName: "{TEAM}", name: "fresh"}}) {{ inserted }}"#),
        format!(
            r#"renameProject(input: {{entityName: "{TEAM}", oldProjectName: "p", newProjectName: "q"}}) {{ inserted }}"#
        ),
        format!(r#"createInvite(input: {{entityName: "{TEAM}", email: "bob", admin: true}}) {{ invite {{ id }} }}"#),
    ] {
        let answer = graphql(running, &token, &format!("mutation {{ {mutation} }}"));
        let is_refused = answer.status == 403 || answer.status == 404;
        assert!(is_refused, "{mutation}: {} {}", answer.status, answer.body);
    }
    let keys = graphql(running, &token, "{ viewer { email apiKeys { edges { node { id } } } } }");
    assert!(keys.json()["data"]["viewer"]["apiKeys"].is_null(), "{}", keys.body);
}
