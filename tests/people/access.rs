//! Every field, every mutation and every route, as a stranger, as another team's admin and as a viewer.
//!
//! For one who is not of the team, the answer about the team's things is the answer about things that do not exist.

use crate::http::{Answer, graphql, open, send};
use crate::schema::{Request, Schema, leaks};
use crate::support::{Engine, KEY};
use crate::world::{Names, PROJECT, TEAM, World};
use serde_json::Value;
use std::io::BufRead;

/// Types of which there is nothing in this world: some nothing here ever is; portfolios, tags, parts of uploads and
/// GPU-seconds are decided by what they belong to, which is here.
const NEVER: &[&str] = &[
    "Organization", "RampFeatureFlag", "ServerMessage", "UploadMultipartUrls", "UploadUrlPart", "ArtifactPortfolio",
    "TagConnection", "TagEdge", "AdvancedRegistryFeatures", "View", "ViewEdge", "UserGpuSeconds",
];

/// Mutations that a viewer may send although they change something: those about the viewer's own keys.
const FOR_VIEWERS: &[&str] = &["generateApiKey", "deleteApiKey"];
/// What only who administers the server may send.
const FOR_ADMINISTRATORS: &[&str] = &["createTeam", "createUser"];
/// An answer of which no two are the same: a new key.
const NEVER_THE_SAME: &str = "generateApiKey";

fn check(engine: Engine) {
    let world = World::new(engine);
    let schema = Schema::ask(&world.running, &world.olga);
    let before = seen_by(&world, &world.olga, &schema);
    strangers_find_nothing(&world, &schema);
    others_find_what_is_not_there(&world, &schema);
    viewers_change_nothing(&world, &schema);
    assert_eq!(seen_by(&world, &world.olga, &schema), before, "somebody changed something");
    // Last, because it does change things.
    the_owner_finds_everything(&world, &schema);
}

/// All that somebody finds, without what rises by itself.
fn seen_by(world: &World, key: &str, schema: &Schema) -> Vec<(String, Value)> {
    let answers = schema.queries(&world.names).into_iter().map(|Request { about, text }| {
        let answer = graphql(&world.running, key, &text);
        assert_eq!(answer.status, 200, "{about}: {}\n{text}", answer.body);
        (about, still(answer.json()))
    });
    answers.collect()
}

fn still(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let rises = ["heartbeatAt", "oldestPendingSeconds", "overTime", "runSeconds"];
            let keep = fields.into_iter().filter(|(name, _)| !rises.contains(&name.as_str()));
            Value::Object(keep.map(|(name, value)| (name, still(value))).collect())
        }
        Value::Array(list) => list.into_iter().map(still).collect(),
        // Signed URLs name the time until which they hold.
        Value::String(text) if text.starts_with("http") => Value::Null,
        other => other,
    }
}

/// Queries and mutations.
fn requests(schema: &Schema, names: &Names) -> Vec<Request> {
    schema.queries(names).into_iter().chain(schema.mutations(names)).collect()
}

fn strangers_find_nothing(world: &World, schema: &Schema) {
    for Request { about, text } in requests(schema, &world.names) {
        let answer = graphql(&world.running, "", &text);
        assert!(answer.status == 401 && !leaks(&answer.body), "{about}: {} {}", answer.status, answer.body);
    }
    let unknown = graphql(&world.running, "0000000000000000000000000000000000000000", "{ viewer { id } }");
    assert_eq!(unknown.status, 401);
}

fn others_find_what_is_not_there(world: &World, schema: &Schema) {
    let ghosts = Names::ghosts();
    let mut told_apart = Vec::new();
    for (real, ghost) in requests(schema, &world.names).into_iter().zip(requests(schema, &ghosts)) {
        let found = graphql(&world.running, &world.bob, &real.text);
        assert!(!leaks(&found.body), "{}: {}\n{}", real.about, found.body, real.text);
        let missing = graphql(&world.running, &world.bob, &ghost.text);
        let (found, missing) = (told(&found, &world.names, &ghosts), told(&missing, &world.names, &ghosts));
        if found != missing && real.about != NEVER_THE_SAME {
            told_apart
                .push(format!("{}: {found:?}, but of what does not exist {missing:?}\n{}", real.about, real.text));
        }
    }
    assert!(told_apart.is_empty(), "what exists is told from what does not:\n{}", told_apart.join("\n"));
}

/// An answer with the names of ghosts and of real things made the same.
fn told(answer: &Answer, real: &Names, ghosts: &Names) -> (u16, Value) {
    let mut body = answer.body.clone();
    for (real, ghost) in real.all().into_iter().zip(ghosts.all()) {
        body = body.replace(ghost, real);
    }
    let mut body: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
    // Where in the request an error is depends on how long its names are.
    for error in body["errors"].as_array_mut().into_iter().flatten() {
        error["locations"] = Value::Null;
    }
    (answer.status, still(body))
}

fn viewers_change_nothing(world: &World, schema: &Schema) {
    let mut taken = Vec::new();
    for Request { about, text } in schema.mutations(&world.names) {
        let answer = graphql(&world.running, &world.vera, &text);
        // 501 is for everybody: the server has no such thing.
        let is_refused = matches!(answer.status, 403 | 501);
        if is_refused == FOR_VIEWERS.contains(&about.as_str()) {
            taken.push(format!("{about}: {} {}", answer.status, answer.body));
        }
    }
    assert!(taken.is_empty(), "a viewer is not refused:\n{}", taken.join("\n"));
    for Request { about, text } in schema.queries(&world.names) {
        let answer = graphql(&world.running, &world.vera, &text);
        assert_eq!(answer.status, 200, "{about}: {}", answer.body);
        assert!(!answer.body.contains("canary@"), "{about} tells an address to a viewer: {}", answer.body);
        for link in links(&answer.json()).iter().filter(|link| link.contains("/blobs/")) {
            let put = send(&world.running, "", &format!("PUT {}", &link[world.running.url.len()..]), "x");
            assert_eq!(put.status, 403, "{about} hands a viewer a link to write by: {link}");
        }
    }
}

fn links(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields.values().flat_map(links).collect(),
        Value::Array(list) => list.iter().flat_map(links).collect(),
        Value::String(text) if text.starts_with("http") => vec![text.clone()],
        _ => Vec::new(),
    }
}

/// Without this the rest would prove nothing: the requests are right, and there is something to find.
fn the_owner_finds_everything(world: &World, schema: &Schema) {
    let unreached = schema.unreached(&world.names);
    assert!(unreached.iter().all(|kind| NEVER.contains(&kind.as_str())), "nothing leads to {unreached:?}");
    let found = seen_by(world, &world.olga, schema);
    let empty: Vec<&str> =
        found.iter().filter(|(_, answer)| is_empty(&answer["data"])).map(|(about, _)| about.as_str()).collect();
    assert!(empty.iter().all(|about| NEVER.contains(about)), "there is none of these in this world: {empty:?}");
    let mut mutations = schema.mutations(&world.names);
    let mut failed = Vec::new();
    // What holds others goes after them. There is one collection, and both ways to delete it are the same.
    const HOLDERS: [&str; 3] = ["deleteArtifactSequence", "deleteModel", "deleteRunQueues"];
    mutations.retain(|request| request.about != "deleteArtifactPortfolio");
    mutations.sort_by_key(|request| (request.about.starts_with("delete"), HOLDERS.contains(&request.about.as_str())));
    for Request { about, text } in mutations {
        let answer = graphql(&world.running, &world.olga, &text);
        let is_refused = matches!(answer.status, 401 | 403 | 404 | 500);
        if is_refused != FOR_ADMINISTRATORS.contains(&about.as_str()) {
            failed.push(format!("{about}: {} {}\n{text}", answer.status, answer.body));
        }
    }
    assert!(failed.is_empty(), "the owner does not find what is there:\n{}", failed.join("\n"));
}

/// Whether the way ended in nothing before it came to the fields.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.iter().all(is_empty),
        Value::Object(fields) if fields.len() == 1 => fields.values().all(is_empty),
        _ => false,
    }
}

// AUTH-7
#[test]
fn nothing_is_told_or_changed_without_the_right_to_it() {
    check(Engine::Sqlite);
}

// AUTH-7
#[test]
fn nothing_is_told_or_changed_without_the_right_to_it_on_postgres() {
    check(Engine::Postgres);
}

#[test]
fn a_private_queue_is_its_makers_until_it_is_shared() {
    let world = World::new(Engine::Sqlite);
    let running = &world.running;
    let queue = format!("/api/v1/queues/{TEAM}/q/access");
    let look =
        format!("{{ project(name: \"{PROJECT}\", entityName: \"{TEAM}\") {{ runQueue(name: \"q\") {{ name }} }} }}");
    let push = format!(
        "mutation {{ pushToRunQueueByName(input: {{entityName: \"{TEAM}\", projectName: \"{PROJECT}\", queueName: \"q\", \
         runSpec: \"{{}}\"}}) {{ runQueueItemId }} }}"
    );
    let access = |key: &str, body: &str| send(running, key, &format!("PUT {queue}"), body).status;
    let sees = |key: &str| graphql(running, key, &look).json()["data"]["project"]["runQueue"]["name"] == "q";
    assert!(sees(&world.vera));
    assert_eq!(access(&world.vera, "{\"private\": true}"), 403);
    assert_eq!(access(&world.bob, "{\"private\": true}"), 404);
    assert_eq!(access(&world.olga, "{\"private\": true}"), 200);
    assert!(!sees(&world.vera) && sees(&world.olga) && sees(KEY));
    assert_eq!(send(running, &world.vera, &format!("GET {queue}"), "").status, 404);
    assert_eq!(access(&world.olga, "{\"people\": {\"vera\": \"see\"}}"), 200);
    assert!(sees(&world.vera));
    assert_eq!(graphql(running, &world.vera, &push).status, 403);
    assert_eq!(access(&world.olga, "{\"people\": {\"vera\": \"submit\"}}"), 200);
    assert_eq!(graphql(running, &world.vera, &push).status, 200);
    assert_eq!(access(&world.vera, "{\"people\": {}}"), 403);
    assert_eq!(access(&world.olga, "{\"people\": {\"vera\": \"manage\"}}"), 200);
    assert_eq!(access(&world.vera, "{\"people\": {}}"), 200);
    assert!(!sees(&world.vera));
    let outsider = send(running, &world.olga, &format!("PUT {queue}"), "{\"people\": {\"bob\": \"see\"}}");
    assert!(outsider.status == 400 && outsider.body.contains("`bob` is not in `ours`"), "{}", outsider.body);
}

/// The kind of the next event.
fn next_kind(stream: &mut impl BufRead) -> String {
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).expect("a line") > 0, "the stream ended");
        if let Some(kind) = line.trim_end().strip_prefix("event: ") {
            return kind.to_owned();
        }
    }
}

#[test]
fn events_of_a_private_queue_are_for_those_it_is_shared_with() {
    let world = World::new(Engine::Sqlite);
    let running = &world.running;
    let access = format!("PUT /api/v1/queues/{TEAM}/q/access");
    let push = format!(
        "mutation {{ pushToRunQueueByName(input: {{entityName: \"{TEAM}\", projectName: \"{PROJECT}\", queueName: \"q\", \
         runSpec: \"{{}}\"}}) {{ runQueueItemId }} }}"
    );
    let begin = |run: &str| {
        let query = format!(
            "mutation {{ upsertBucket(input: {{entityName: \"{TEAM}\", modelName: \"{PROJECT}\", name: \"{run}\"}}) {{ inserted }} }}"
        );
        assert_eq!(graphql(running, &world.olga, &query).status, 200);
    };
    assert_eq!(send(running, &world.olga, &access, "{\"private\": true}").status, 200);
    let mut vera = open(running, &world.vera, "GET /api/v1/events", "");
    let mut olga = open(running, &world.olga, "GET /api/v1/events", "");
    // Their heads have come, so they listen.
    for stream in [&mut vera, &mut olga] {
        stream.read_line(&mut String::new()).expect("a head");
    }
    assert_eq!(graphql(running, &world.olga, &push).status, 200);
    begin("seen-by-all");
    assert_eq!((next_kind(&mut olga).as_str(), next_kind(&mut olga).as_str()), ("item.state", "run.created"));
    assert_eq!(next_kind(&mut vera), "run.created", "not what happened in the queue");
    let shared = send(running, &world.olga, &access, "{\"private\": true, \"people\": {\"vera\": \"see\"}}");
    assert_eq!(shared.status, 200, "{}", shared.body);
    assert_eq!(graphql(running, &world.olga, &push).status, 200);
    while next_kind(&mut vera) != "item.state" {}
}
