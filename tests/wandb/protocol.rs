//! The protocol by hand, where W&B's clients show too little of it, or would have to fail on purpose.

use crate::http::{Answer, graphql, open, send};
use crate::support::{Engine, KEY, Running};
use serde_json::{Value, json};
use std::io::Read as _;

/// Sends a document with variables that must succeed; gives its data.
pub fn ask(running: &Running, query: &str, variables: Value) -> Value {
    let answer = send(running, KEY, "POST /graphql", &json!({ "query": query, "variables": variables }).to_string());
    let told = answer.json();
    assert!(answer.status == 200 && told["errors"].is_null(), "{query} {variables}: {told}");
    told["data"].clone()
}

fn refused(running: &Running, query: &str, variables: Value) -> Answer {
    let answer = send(running, KEY, "POST /graphql", &json!({ "query": query, "variables": variables }).to_string());
    assert_ne!(answer.status, 200, "{query} {variables}: {}", answer.body);
    answer
}

fn make_queue(running: &Running, mode: &str, variables: Value) -> String {
    let query = "mutation($variables: JSONString, $mode: RunQueuePrioritizationMode) { upsertRunQueue(input: {entityName: \"alice\", \
        projectName: \"model-registry\", queueName: \"q\", resourceType: \"kubernetes\", resourceConfig: \"{\\\"n\\\": \\\"{{n}}\\\"}\", \
        templateVariables: $variables, prioritizationMode: $mode}) { success configSchemaValidationErrors } }";
    ask(running, query, json!({ "variables": variables.to_string(), "mode": mode }));
    let found = ask(
        running,
        "{ project(name: \"model-registry\", entityName: \"alice\") { runQueue(name: \"q\") { id } } }",
        json!({}),
    );
    found["project"]["runQueue"]["id"].as_str().expect("a queue").to_owned()
}

const PUSH: &str = "mutation($spec: JSONString!, $priority: Int, $values: JSONString) { pushToRunQueueByName(input: {entityName: \"alice\", \
    projectName: \"model-registry\", queueName: \"q\", runSpec: $spec, priority: $priority, templateVariableValues: $values}) \
    { runQueueItemId runSpec } }";
const POP: &str = "mutation { popFromRunQueue(input: {entityName: \"alice\", projectName: \"model-registry\", queueName: \"q\"}) \
    { runQueueItemId runSpec } }";
const ACK: &str =
    "mutation($id: ID!, $run: String!) { ackRunQueueItem(input: {runQueueItemId: $id, runName: $run}) { success } }";
const FAIL: &str = "mutation($id: ID!, $message: String!) { failRunQueueItem(input: {runQueueItemId: $id, message: $message, stage: \"agent\"}) { success } }";

fn item(running: &Running, id: &str) -> Value {
    let query = "query($id: ID!) { project(name: \"model-registry\", entityName: \"alice\") { runQueue(name: \"q\") { runQueueItem(id: $id) \
        { id state priority attempt associatedRunId templateVariableValues runSpec error { message stage filePaths } warnings { message } } } } }";
    ask(running, query, json!({ "id": id }))["project"]["runQueue"]["runQueueItem"].clone()
}

fn push(running: &Running, spec: Value, priority: Option<i64>, values: Value) -> String {
    let pushed =
        ask(running, PUSH, json!({ "spec": spec.to_string(), "priority": priority, "values": values.to_string() }));
    pushed["pushToRunQueueByName"]["runQueueItemId"].as_str().expect("an item").to_owned()
}

/// An image for which the queue fills in the rest.
fn image() -> Value {
    json!({ "entity": "alice", "project": "p", "docker": { "docker_image": "img:1" }, "resource": null })
}

fn one_variable() -> Value {
    json!({ "n": { "schema": { "type": "integer", "minimum": 1, "maximum": 4 } } })
}

fn items_live_by_the_table(engine: Engine) {
    let running = Running::start(engine);
    let queue = make_queue(&running, "V0", one_variable());
    let low = push(&running, image(), Some(3), json!({ "n": 1 }));
    let high = push(&running, image(), Some(0), json!({ "n": 4 }));
    assert_eq!(item(&running, &high)["runSpec"]["resource_args"], json!({ "kubernetes": { "n": 4 } }));
    assert_eq!(item(&running, &high)["templateVariableValues"], json!({ "n": 4 }));

    let popped = ask(&running, POP, json!({}))["popFromRunQueue"].clone();
    assert_eq!(popped["runQueueItemId"], high);
    assert_eq!(popped["runSpec"]["author"], "alice");
    let ack =
        |id: &str, run: &str| ask(&running, ACK, json!({ "id": id, "run": run }))["ackRunQueueItem"]["success"].clone();
    assert_eq!((ack(&high, "r1"), ack(&high, "r1"), ack(&high, "r2")), (json!(true), json!(true), json!(false)));
    // Who was refused says so; that does not fail the item of the one that was not.
    ask(&running, FAIL, json!({ "id": high, "message": "Error acking run queue item" }));
    assert_eq!(item(&running, &high)["state"], "CLAIMED");
    assert_eq!(
        refused(
            &running,
            "mutation($q: ID!, $id: ID!) { deleteFromRunQueue(input: {queueID: $q, runQueueItemId: $id}) { success } }",
            json!({ "q": queue, "id": high })
        )
        .status,
        409
    );
    ask(&running, FAIL, json!({ "id": high, "message": "no room" }));
    let failed = item(&running, &high);
    assert_eq!((failed["state"].as_str(), failed["error"]["message"].as_str()), (Some("FAILED"), Some("no room")));
    assert_eq!(ack(&high, "r1"), json!(false));

    // After preemption the agent pushes the resolved spec again: priority, values and author stay, a key does not.
    let mut again = popped["runSpec"].clone();
    again["run_id"] = json!("r1");
    again["_resume_count"] = json!(1);
    again["_wandb_api_key"] = json!("secret");
    let second = push(&running, again, None, json!(null));
    let second = item(&running, &second);
    assert_eq!((second["priority"].as_i64(), second["attempt"].as_i64()), (Some(0), Some(1)));
    assert_eq!(second["templateVariableValues"], json!({ "n": 4 }));
    assert!(!second.to_string().contains("secret"), "{second}");

    ask(
        &running,
        "mutation($q: ID!, $id: ID!) { deleteFromRunQueue(input: {queueID: $q, runQueueItemId: $id}) { success } }",
        json!({ "q": queue, "id": low }),
    );
    assert!(item(&running, &low).is_null());
    ask(&running, "mutation($q: ID!) { deleteRunQueues(input: {queueIDs: [$q]}) { success } }", json!({ "q": queue }));
    assert_eq!(refused(&running, POP, json!({})).status, 404);
}

// PUSH-3, PUSH-4, PUSH-6, PUSH-7, PUSH-8, PUSH-9, AGT-7, AGT-9, AGT-10, AGT-11, RQI-2, QUE-10, LA-L-2, LA-L-3, LA-L-4, LA-L-5,
// LA-L-8, LA-D-9, LA-Q-6, LA-T-6
#[test]
fn an_item_lives_by_the_table_and_goes_on_after_preemption() {
    items_live_by_the_table(Engine::Sqlite);
}

// PUSH-9, AGT-7, LA-L-26
#[test]
fn an_item_lives_by_the_table_on_postgres() {
    items_live_by_the_table(Engine::Postgres);
}

// PUSH-1, PUSH-2, PUSH-5, QUE-4, ERR-1, ERR-2, ERR-4, LA-Q-4, LA-Q-5, LA-Q-8, LA-D-2, LA-D-10, LA-Z-3, LA-R-1
#[test]
fn both_ways_to_push_refuse_the_same() {
    let running = Running::start(Engine::Sqlite);
    let queue = make_queue(&running, "DISABLED", one_variable());
    let by_id = "mutation($queue: ID!, $spec: JSONString!, $values: JSONString, $priority: Int) { pushToRunQueue(input: {queueID: $queue, \
        runSpec: $spec, templateVariableValues: $values, priority: $priority}) { runQueueItemId } }";
    let job = json!({ "job": "alice/p/nothing:latest", "entity": "alice", "project": "p" });
    for (spec, values, priority, words) in [
        (image(), json!({ "n": 9 }), None, "at most 4"),
        (image(), json!({ "n": "2" }), None, "integer"),
        (image(), json!({}), None, "needs a value"),
        (image(), json!({ "n": 1, "m": 1 }), None, "`m`"),
        (image(), json!({ "n": 1 }), Some(0), "no priorities"),
        (job, json!({ "n": 1 }), None, "was not found"),
        (json!([]), json!({ "n": 1 }), None, "not a JSON object"),
    ] {
        let variables =
            json!({ "queue": queue, "spec": spec.to_string(), "values": values.to_string(), "priority": priority });
        let (first, second) = (refused(&running, PUSH, variables.clone()), refused(&running, by_id, variables));
        assert_eq!(
            (first.status, &first.body.contains(words)),
            (second.status, &true),
            "{} {}",
            first.body,
            second.body
        );
        assert_eq!(first.json()["errors"][0]["message"], second.json()["errors"][0]["message"]);
        assert!((400..500).contains(&first.status), "{}", first.body);
    }
    // What a launch brings replaces the queue's, once the queue has no template.
    make_queue_plain(&running);
    let own = json!({ "resource": "kubernetes", "resource_args": { "kubernetes": { "mine": 1 } }, "docker": { "docker_image": "i" } });
    let pushed = ask(&running, PUSH, json!({ "spec": own.to_string() }));
    let spec = pushed["pushToRunQueueByName"]["runSpec"].as_str().expect("text");
    let spec: Value = serde_json::from_str(spec).expect("JSON");
    assert_eq!(spec["resource_args"], json!({ "kubernetes": { "mine": 1 } }));
    let wrong = PUSH.replace("\"q\"", "\"other\"");
    assert_eq!(refused(&running, &wrong, json!({ "spec": own.to_string() })).status, 404);
    let long = "x".repeat(65);
    let make = format!(
        "mutation {{ createRunQueue(input: {{entityName: \"alice\", projectName: \"model-registry\", queueName: \"{long}\", access: PROJECT}}) {{ success }} }}"
    );
    assert_eq!(refused(&running, &make, json!({})).status, 400);
}

fn make_queue_plain(running: &Running) {
    let query = "mutation { upsertRunQueue(input: {entityName: \"alice\", projectName: \"model-registry\", queueName: \"q\", \
        resourceType: \"kubernetes\", resourceConfig: \"{}\", externalLinks: \"{\\\"links\\\": [{\\\"label\\\": \\\"l\\\", \\\"url\\\": \\\"u\\\"}]}\"}) { success } }";
    ask(running, query, json!({}));
    let read = "{ project(name: \"model-registry\", entityName: \"alice\") { runQueue(name: \"q\") { externalLinks access createdBy \
        defaultResourceConfig { templateVariables { name } } } } }";
    let queue = ask(running, read, json!({}))["project"]["runQueue"].clone();
    assert_eq!(queue["externalLinks"], json!({ "links": [{ "label": "l", "url": "u" }] }));
    assert_eq!(queue["defaultResourceConfig"]["templateVariables"], json!([]));
}

fn limits_hold(engine: Engine) {
    let running = Running::start(engine);
    let queue = make_queue(&running, "DISABLED", one_variable());
    let limit = "mutation($q: ID!, $running: Int, $pending: Int) { updateRunQueueLimits(input: {queueID: $q, runningMax: $running, pendingMax: $pending}) \
        { queue { limits { runningMax pendingMax } statistics { pending leased waitSeconds { count p50 } oldestPendingSeconds } } } }";
    ask(&running, limit, json!({ "q": queue, "running": 1, "pending": 2 }));
    for _ in 0..2 {
        push(&running, image(), None, json!({ "n": 1 }));
    }
    let full = refused(&running, PUSH, json!({ "spec": image().to_string(), "values": "{\"n\": 1}" }));
    assert!(full.status == 409 && full.body.contains("is full"), "{}", full.body);
    let first =
        ask(&running, POP, json!({}))["popFromRunQueue"]["runQueueItemId"].as_str().expect("an item").to_owned();
    assert!(ask(&running, POP, json!({}))["popFromRunQueue"].is_null());
    ask(&running, ACK, json!({ "id": first, "run": "r" }));
    let now = ask(&running, limit, json!({ "q": queue }))["updateRunQueueLimits"]["queue"].clone();
    assert_eq!(now["limits"], json!({ "runningMax": null, "pendingMax": null }));
    assert_eq!(
        (now["statistics"]["pending"].as_i64(), now["statistics"]["waitSeconds"]["count"].as_i64()),
        (Some(1), Some(1))
    );
    assert!(now["statistics"]["oldestPendingSeconds"].as_f64().is_some_and(|age| age >= 0.0), "{now}");
    assert!(!ask(&running, POP, json!({}))["popFromRunQueue"].is_null());
}

#[test]
fn a_queues_limits_hold_and_its_statistics_tell() {
    limits_hold(Engine::Sqlite);
}

#[test]
fn a_queues_limits_hold_on_postgres() {
    limits_hold(Engine::Postgres);
}

fn begin(running: &Running, name: &str) -> Value {
    let query = "mutation($name: String) { upsertBucket(input: {entityName: \"alice\", modelName: \"P\", name: $name, host: \"h\", \
        config: \"{\\\"a\\\": {\\\"value\\\": NaN}, \\\"_wandb\\\": {\\\"value\\\": {\\\"t\\\": {}}}}\"}) { inserted bucket { id name displayName config \
        historyLineCount sweepName project { id name entity { id name } } wandbConfig(keys: [\"t\"]) } serverSettings { serverMessages { plainText } } } }";
    ask(running, query, json!({ "name": name, "undeclared": 1 }))["upsertBucket"].clone()
}

fn post(running: &Running, run: &str, body: &str) -> Answer {
    send(running, KEY, &format!("POST /files/alice/P/{run}/file_stream"), body)
}

fn state(running: &Running, run: &str) -> Value {
    let query = "query($name: String!) { project(name: \"p\", entityName: \"alice\") { internalId run(name: $name) \
        { state stopped projectId historyLineCount summaryMetrics systemMetrics config historyKeys logLines(last: 5) { edges { node { number line level } } } } } }";
    ask(running, query, json!({ "name": run }))["project"].clone()
}

// RUN-1, RUN-3, RUN-4, RUN-5, RUN-13, RUN-14, FS-1, FS-2, FS-3, FS-4, FS-5, FS-6, FS-7, FS-8, FS-10, FS-11, GQL-2, GQL-7, GQL-8, ID-3,
// ID-4, ID-7, ERR-6, LA-L-28
#[test]
fn a_run_speaks_by_posts_that_may_come_twice() {
    let running = Running::start(Engine::Sqlite);
    let made = begin(&running, "r");
    assert_eq!((made["inserted"].as_bool(), made["bucket"]["historyLineCount"].as_i64()), (Some(true), Some(0)));
    assert!(made["bucket"]["config"].as_str().is_some_and(|config| config.contains("NaN")), "{made}");
    assert!(made["bucket"]["displayName"].as_str().is_some_and(|label| !label.is_empty()));
    let lines = r#"{"files": {"wandb-history.jsonl": {"offset": 0, "content": ["{\"_step\":0,\"x\":NaN}", "{\"_step\":1,\"x\":2}"]},
        "wandb-events.jsonl": {"offset": 0, "content": ["{\"system.cpu\": 5}"]}, "wandb-summary.json": {"offset": 0, "content": ["{\"x\":1}", "{\"x\":2}"]},
        "output.log": {"offset": 1, "content": ["ERROR 2026-01-01T00:00:00.000000 plain\n", "{\"level\":\"error\",\"content\":\"json\"}"]}}, "dropped": 0}"#;
    for body in ["{}", lines, lines] {
        let answer = post(&running, "r", body);
        assert_eq!((answer.status, answer.json()["stopped"].as_bool()), (200, Some(false)), "{}", answer.body);
    }
    let now = state(&running, "r")["run"].clone();
    assert_eq!((now["state"].as_str(), now["historyLineCount"].as_i64()), (Some("running"), Some(2)));
    assert_eq!(
        (now["summaryMetrics"].as_str(), now["systemMetrics"].as_str()),
        (Some("{\"x\":2}"), Some("{\"system.cpu\": 5}"))
    );
    assert_eq!(now["historyKeys"]["lastStep"], 1);
    let console: Vec<&Value> =
        now["logLines"]["edges"].as_array().expect("lines").iter().map(|edge| &edge["node"]).collect();
    assert_eq!(
        (console.len(), console[1]["line"].as_str(), console[2]["line"].as_str()),
        (3, Some("plain"), Some("json"))
    );

    let id = made["bucket"]["id"].as_str().expect("an id");
    ask(&running, "mutation($id: ID!) { stopRun(input: {id: $id}) { success } }", json!({ "id": id }));
    assert_eq!(post(&running, "r", "{}").json()["stopped"], true);
    assert_eq!(state(&running, "r")["run"]["stopped"], true);
    post(&running, "r", r#"{"complete": true, "exitcode": 255}"#);
    assert_eq!(state(&running, "r")["run"]["state"], "failed");
    post(&running, "r", "{}");
    assert_eq!(state(&running, "r")["run"]["state"], "running");
    assert_eq!(begin(&running, "r")["inserted"], false);
    assert_eq!(state(&running, "r")["run"]["stopped"], false);
    assert_eq!(post(&running, "nobody", "{}").status, 404);
    let project = state(&running, "r");
    assert_eq!(project["internalId"].as_str().map(str::to_owned), Some(project["run"]["projectId"].to_string()));
}

// HTTP-1, HTTP-4, HTTP-5, HTTP-6, HTTP-8, AUTH-5, GQL-5, ERR-3, FEAT-1, FEAT-4, FEAT-5, ID-6
#[test]
fn the_doors_answer_as_clients_expect() {
    let running = Running::start(Engine::Sqlite);
    assert_eq!(send(&running, KEY, "POST /sdk/otel/v1/metrics", "").status, 404);
    let unknown = send(&running, KEY, "GET /nowhere", "");
    assert!(unknown.status == 404 && unknown.json()["error"].is_string(), "{}", unknown.body);
    let told = ask(
        &running,
        "{ __type(name: \"CreateArtifactInput\") { inputFields { name } } __schema { queryType { name } } \
        serverInfo { cliVersionInfo features { name isEnabled } latestLocalVersionInfo { outOfDate } } \
        viewer { id entity username email flags teams { edges { node { name } } } } entity(name: \"alice\") { organization { coreWeaveOrganizationId } isTeam } \
        registry: project(name: \"model-registry\", entityName: \"alice\") { name runQueues { id } } missing: project(name: \"x\", entityName: \"alice\") { id } \
        strangers: project(name: \"x\", entityName: \"nobody\") { id } }",
        json!({}),
    );
    assert!(told["__type"]["inputFields"].as_array().is_some_and(|fields| fields.len() > 15), "{told}");
    assert_eq!(told["serverInfo"]["cliVersionInfo"]["max_cli_version"], "99.0.0");
    assert_eq!((&told["missing"], &told["strangers"]), (&Value::Null, &Value::Null));
    assert_eq!(
        (told["viewer"]["entity"].as_str(), told["registry"]["name"].as_str()),
        (Some("alice"), Some("model-registry"))
    );
    assert_eq!(told["viewer"]["teams"]["edges"], json!([{ "node": { "name": "alice" } }]));
    let refused = graphql(&running, KEY, "{ viewer { nothing } }");
    assert!(
        refused.status == 400 && refused.body.contains("Cannot query field \\\"nothing\\\" on type \\\"User\\\"."),
        "{}",
        refused.body
    );
    begin(&running, "r");
    let files = ask(
        &running,
        "mutation { createRunFiles(input: {entityName: \"alice\", projectName: \"p\", runName: \"r\", files: [\"a b/é%.txt\", \"b\"]}) \
        { runID uploadHeaders files { name uploadUrl } } }",
        json!({}),
    );
    let url = files["createRunFiles"]["files"][0]["uploadUrl"].as_str().expect("a URL");
    let path = url.strip_prefix(&running.url).expect("an absolute URL of this server");
    let mut answer = String::new();
    open(&running, KEY, &format!("OPTIONS {path}"), "").read_to_string(&mut answer).expect("an answer");
    assert!(answer.to_ascii_lowercase().contains("access-control-allow-origin: *"), "{answer}");
}

/// Uploads the manifest of a file and of something far away, and commits; a second time changes nothing.
fn commit_with_manifest(running: &Running, artifact: &str, md5: &str) {
    let manifest = json!({ "version": 1, "contents": { "big.bin": { "digest": md5, "size": 11 }, "far": { "digest": "e", "ref": "s3://b/k" } } });
    let made = ask(
        running,
        "mutation($id: ID!) { createArtifactManifest(input: {artifactID: $id, name: \"wandb_manifest.json\", digest: \"\", entityName: \"alice\", \
        projectName: \"p\", runName: \"r\"}) { artifactManifest { file { uploadUrl } } } }",
        json!({ "id": artifact }),
    );
    let url = made["createArtifactManifest"]["artifactManifest"]["file"]["uploadUrl"].as_str().expect("a URL");
    assert_eq!(
        send(running, KEY, &format!("PUT {}", url.strip_prefix(&running.url).expect("ours")), &manifest.to_string())
            .status,
        200
    );
    let commit = "mutation($id: ID!) { commitArtifact(input: {artifactID: $id}) { artifact { id versionIndex size fileCount } } }";
    for _ in 0..2 {
        let done = ask(running, commit, json!({ "id": artifact }))["commitArtifact"]["artifact"].clone();
        assert_eq!(
            (done["versionIndex"].as_i64(), done["size"].as_i64(), done["fileCount"].as_i64()),
            (Some(0), Some(11), Some(2))
        );
    }
}

// ART-6, ART-7, ART-8, ART-13, ART-14, ART-15
#[test]
fn a_large_file_comes_in_parts_and_is_one_file() {
    let running = Running::start(Engine::Sqlite);
    let made = ask(
        &running,
        "mutation { createArtifact(input: {entityName: \"alice\", projectName: \"p\", artifactTypeName: \"t\", \
        artifactCollectionName: \"big\", digest: \"d\", digestAlgorithm: MANIFEST_MD5, clientID: \"c1\"}) { artifact { id state } } }",
        json!({}),
    );
    let artifact = made["createArtifact"]["artifact"]["id"].as_str().expect("an id").to_owned();
    // The MD5 of "hello world", as clients send it.
    let md5 = "XrY7u+Ae7tCTyyK7j1rNww==";
    let spec = |parts: Value| json!({ "files": [{ "artifactID": artifact, "name": "big.bin", "md5": md5, "uploadPartsInput": parts }] });
    let create = "mutation($files: [CreateArtifactFileSpecInput!]!) { createArtifactFiles(input: {artifactFiles: $files}) { files { edges { node \
        { storagePath uploadUrl uploadMultipartUrls { uploadID uploadUrlParts { partNumber uploadUrl } } artifact { id } } } } } }";
    let files =
        ask(&running, create, spec(json!([{ "partNumber": 1, "hexMD5": "" }, { "partNumber": 2, "hexMD5": "" }])));
    let node = files["createArtifactFiles"]["files"]["edges"][0]["node"].clone();
    let upload = node["uploadMultipartUrls"]["uploadID"].as_str().expect("an upload").to_owned();
    let complete = "mutation($artifact: ID!, $path: String!, $upload: String!, $parts: [UploadPartsInput!]!) { completeMultipartUploadArtifact(input: \
        {completeMultipartAction: COMPLETE, artifactID: $artifact, storagePath: $path, uploadID: $upload, completedParts: $parts}) { digest } }";
    let ending = json!({ "artifact": artifact, "path": node["storagePath"], "upload": upload,
        "parts": [{ "partNumber": 1, "hexMD5": "x" }, { "partNumber": 2, "hexMD5": "y" }] });
    let put = |at: usize, text: &str| {
        let url = node["uploadMultipartUrls"]["uploadUrlParts"][at]["uploadUrl"].as_str().expect("a URL");
        let path = url.strip_prefix(&running.url).expect("of this server").to_owned();
        let mut answer = String::new();
        open(&running, "no key", &format!("PUT {path}"), text).read_to_string(&mut answer).expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.to_ascii_lowercase().contains("etag:"), "{answer}");
    };
    put(0, "hello ");
    assert_eq!(refused(&running, complete, ending.clone()).status, 400, "a part is missing");
    put(1, "word!");
    assert_eq!(refused(&running, complete, ending.clone()).status, 400, "the bytes are others");
    put(1, "world");
    ask(&running, complete, ending.clone());
    ask(&running, complete, ending);
    let known = ask(&running, create, spec(json!(null)));
    assert!(known["createArtifactFiles"]["files"]["edges"][0]["node"]["uploadUrl"].is_null(), "{known}");

    commit_with_manifest(&running, &artifact, md5);
    let read = ask(&running, "query($id: ID!) { artifact(id: $id) { currentManifest { file { directUrl } } files { edges { node { name directUrl } } } } }",
        json!({ "id": artifact }))["artifact"].clone();
    let entries = read["files"]["edges"].as_array().expect("entries");
    assert_eq!((entries.len(), &entries[1]["node"]["directUrl"]), (2, &json!("s3://b/k")));
    let path = entries[0]["node"]["directUrl"]
        .as_str()
        .and_then(|url| url.strip_prefix(&running.url))
        .expect("ours")
        .to_owned();
    assert_eq!(send(&running, "", &format!("GET {path}"), "").body, "hello world");
}

// ART-9
#[test]
fn all_runs_that_use_an_artifact_are_told() {
    let running = Running::start(Engine::Sqlite);
    let query = "mutation { createArtifact(input: {entityName: \"alice\", projectName: \"P\", artifactTypeName: \"t\", \
        artifactCollectionName: \"used\", digest: \"d\", digestAlgorithm: MANIFEST_MD5}) { artifact { id } } }";
    let artifact = ask(&running, query, json!({}))["createArtifact"]["artifact"]["id"].clone();
    for number in 0..101 {
        let run = format!("r{number}");
        begin(&running, &run);
        let query = "mutation($id: ID!, $run: String!) { useArtifact(input: {artifactID: $id, entityName: \"alice\", \
            projectName: \"P\", runName: $run}) { artifact { id } } }";
        ask(&running, query, json!({ "id": artifact, "run": run }));
    }
    let query = "query($id: ID!) { artifact(id: $id) { all: usedBy { edges { node { name } } pageInfo { hasNextPage } } \
        some: usedBy(first: 2) { edges { node { name } } pageInfo { hasNextPage } } } }";
    let told = ask(&running, query, json!({ "id": artifact }))["artifact"].clone();
    for (list, count, has_more) in [("all", 101, false), ("some", 2, true)] {
        assert_eq!(told[list]["edges"].as_array().map(Vec::len), Some(count), "{told}");
        assert_eq!(told[list]["pageInfo"]["hasNextPage"], has_more);
    }
}
