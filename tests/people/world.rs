//! A team with one of everything in it, and people around it.
//!
//! Whatever only the team may know has the word CANARY in it; names that anybody could guess do not.

use crate::http::{graphql, send};
use crate::support::{Engine, KEY, Running};
use serde_json::{Value, json};

pub const CANARY: &str = "canary";
pub const TEAM: &str = "ours";
/// As long as the team's name, so that answers about the two can be compared.
pub const GHOST: &str = "gone";
pub const PROJECT: &str = "model-registry";

pub struct World {
    pub running: Running,
    /// Administers the team.
    pub olga: String,
    /// May look at the team.
    pub vera: String,
    /// Administers another team.
    pub bob: String,
    pub names: Names,
}

/// What requests call things by.
#[derive(Clone, Debug)]
pub struct Names {
    pub entity: String,
    pub project_id: String,
    pub queue_id: String,
    pub item: String,
    pub run_id: String,
    pub agent: String,
    pub artifact: String,
    pub manifest: String,
    pub collection: String,
    pub client_id: String,
    pub file: String,
    pub config: String,
    pub sweep: String,
    pub sweep_agent: String,
    pub sweep_agent_name: String,
    /// A member of the team.
    pub member: String,
    /// An API key of the team's admin.
    pub key: String,
}

impl Names {
    /// The same kinds of names for what does not exist, in the same order as `all`.
    pub fn ghosts() -> Names {
        let id = |kind: &str| base64(&format!("{kind}:999999"));
        Names {
            entity: GHOST.to_owned(),
            project_id: id("Project"),
            queue_id: id("RunQueue"),
            item: id("RunQueueItem"),
            run_id: base64(&format!("Run:v1:r:{PROJECT}:{GHOST}")),
            agent: id("LaunchAgent"),
            artifact: id("Artifact"),
            manifest: id("ArtifactManifest"),
            collection: id("ArtifactCollection"),
            client_id: "no-such-client".to_owned(),
            file: id("File"),
            config: id("DefaultResourceConfig"),
            sweep: "nosweep".to_owned(),
            sweep_agent: id("Agent"),
            sweep_agent_name: "noagent".to_owned(),
            member: id("User"),
            key: id("ApiKey"),
        }
    }

    pub fn all(&self) -> Vec<&str> {
        vec![
            &self.entity, &self.project_id, &self.queue_id, &self.item, &self.run_id, &self.agent, &self.artifact,
            &self.manifest, &self.collection, &self.client_id, &self.file, &self.config, &self.sweep,
            &self.sweep_agent, &self.sweep_agent_name, &self.member, &self.key,
        ]
    }
}

impl World {
    pub fn new(engine: Engine) -> World {
        let running = Running::start(engine);
        let user = |name: &str| text(&rest(&running, KEY, "POST /api/v1/users", json!({ "username": name }))["key"]);
        let (olga, vera, bob) = (user("olga"), user("vera"), user("bob"));
        for (team, user, role) in [
            (TEAM, "olga", "admin"),
            (TEAM, "vera", "viewer"),
            ("theirs", "bob", "admin"),
            ("theirs", "vera", "viewer"),
        ] {
            let _ = send(&running, KEY, "POST /api/v1/teams", &json!({ "name": team }).to_string());
            rest(&running, KEY, &format!("PUT /api/v1/teams/{team}/members/{user}"), json!({ "role": role }));
        }
        rest(&running, &olga, "PATCH /api/v1/users/olga", json!({ "email": format!("{CANARY}@x") }));
        let names = furnish(&running, &olga);
        World { running, olga, vera, bob, names }
    }
}

/// Makes one of everything in the team.
fn furnish(running: &Running, key: &str) -> Names {
    let (run_id, file) = make_run(running, key);
    let (artifact, manifest, collection) = make_artifact(running, key);
    let (queue_id, config, item) = make_queue(running, key);
    let agent = make_agent(running, key, &queue_id);
    let (sweep, sweep_agent, sweep_agent_name) = make_sweep(running, key);
    let client_id = format!("{CANARY}-client");
    let made = ask(running, key, r#"mutation { generateApiKey(input: {description: "spare"}) { apiKey { id } } }"#);
    let spare = text(&made["generateApiKey"]["apiKey"]["id"]);
    let team = ask(running, key, r#"{ entity(name: "$E") { members { id username } } }"#);
    let members = team["entity"]["members"].as_array().expect("members").iter();
    let member = members.filter(|member| member["username"] == "vera").map(|member| text(&member["id"])).next();
    let project = ask(running, key, r#"{ project(name: "$P", entityName: "$E") { id } }"#);
    Names {
        entity: TEAM.to_owned(),
        project_id: text(&project["project"]["id"]),
        queue_id,
        item,
        run_id,
        agent,
        artifact,
        manifest,
        collection,
        client_id,
        file,
        config,
        sweep,
        sweep_agent,
        sweep_agent_name,
        member: member.expect("vera is in the team"),
        key: spare,
    }
}

/// A request that succeeds, with the names of things in it: `$E`, `$P` and the word `$C`.
fn ask(running: &Running, key: &str, query: &str) -> Value {
    let answer = graphql(running, key, &query.replace("$E", TEAM).replace("$P", PROJECT).replace("$C", CANARY));
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    answer.json()["data"].clone()
}

fn make_run(running: &Running, key: &str) -> (String, String) {
    let run = ask(
        running,
        key,
        r#"mutation { upsertBucket(input: {entityName: "$E", modelName: "$P", name: "r", host: "$C",
        displayName: "$C", description: "$C", tags: ["$C"], config: "{\"$C\":{\"value\":1}}", groupName: "$C", jobType: "$C",
        notes: "$C", commit: "$C", jobProgram: "$C", jobRepo: "$C", summaryMetrics: "{\"$C\":1}"}) { bucket { id } } }"#,
    );
    let lines = json!({ "files": {
        "wandb-history.jsonl": { "offset": 0, "content": [format!("{{\"_step\":0,\"{CANARY}\":1}}")] },
        "wandb-events.jsonl": { "offset": 0, "content": [format!("{{\"{CANARY}\":1}}")] },
        "output.log": { "offset": 0, "content": [format!("2026-01-01T00:00:00 {CANARY}")] },
    }});
    rest(running, key, &format!("POST /files/{TEAM}/{PROJECT}/r/file_stream"), lines);
    let uploads = ask(
        running,
        key,
        r#"mutation { createRunFiles(input: {entityName: "$E", projectName: "$P", runName: "r",
        files: ["$C.txt"]}) { files { uploadUrl } } }"#,
    );
    put(running, &text(&uploads["createRunFiles"]["files"][0]["uploadUrl"]), CANARY);
    let files = ask(
        running,
        key,
        r#"{ project(name: "$P", entityName: "$E") { run(name: "r") { files { edges { node { id } } } } } }"#,
    );
    let file = text(&files["project"]["run"]["files"]["edges"][0]["node"]["id"]);
    (text(&run["upsertBucket"]["bucket"]["id"]), file)
}

fn make_artifact(running: &Running, key: &str) -> (String, String, String) {
    let made = ask(
        running,
        key,
        r#"mutation { createArtifact(input: {entityName: "$E", projectName: "$P", artifactTypeName: "t",
        artifactCollectionName: "c", digest: "d", digestAlgorithm: MANIFEST_MD5, runName: "r", clientID: "$C-client",
        description: "$C", metadata: "{\"$C\":1}", aliases: [{artifactCollectionName: "c", alias: "$C"}],
        tags: [{tagName: "$C"}]}) { artifact { id artifactSequence { id } } } }"#,
    );
    let artifact = &made["createArtifact"]["artifact"];
    let id = text(&artifact["id"]);
    let made = ask(
        running,
        key,
        &format!(
            r#"mutation {{ createArtifactManifest(input: {{artifactID: "{id}", name: "wandb_manifest.json", digest: "d",
        entityName: "$E", projectName: "$P", runName: "r"}}) {{ artifactManifest {{ id file {{ uploadUrl }} }} }} }}"#
        ),
    );
    let manifest = &made["createArtifactManifest"]["artifactManifest"];
    let entry = json!({ "digest": "1B2M2Y8AsgTpgAmY7PhCfg==", "ref": format!("s3://{CANARY}"), "size": 3 });
    let contents = json!({ "version": 1, "storagePolicy": "wandb-storage-policy-v1", "storagePolicyConfig": {},
        "contents": { format!("{CANARY}.bin"): entry } });
    put(running, &text(&manifest["file"]["uploadUrl"]), &contents.to_string());
    ask(
        running,
        key,
        &format!(r#"mutation {{ commitArtifact(input: {{artifactID: "{id}"}}) {{ artifact {{ id }} }} }}"#),
    );
    ask(
        running,
        key,
        &format!(
            r#"mutation {{ useArtifact(input: {{artifactID: "{id}", entityName: "$E", projectName: "$P", runName: "r"}})
        {{ artifact {{ id }} }} }}"#
        ),
    );
    (id, text(&manifest["id"]), text(&artifact["artifactSequence"]["id"]))
}

fn make_queue(running: &Running, key: &str) -> (String, String, String) {
    let variables = format!(r#"{{\"{CANARY}\":{{\"schema\":{{\"type\":\"integer\",\"default\":1}}}}}}"#);
    ask(
        running,
        key,
        &format!(
            r#"mutation {{ upsertRunQueue(input: {{entityName: "$E", projectName: "$P", queueName: "q", resourceType: "kubernetes",
        resourceConfig: "{{\"$C\":\"{{{{$C}}}}\"}}", templateVariables: "{variables}", externalLinks: "{{\"$C\":1}}"}})
        {{ success }} }}"#
        ),
    );
    let made = ask(
        running,
        key,
        r#"{ project(name: "$P", entityName: "$E") { runQueue(name: "q") { id defaultResourceConfigID } } }"#,
    );
    let queue = &made["project"]["runQueue"];
    let push = |_| {
        let pushed = ask(
            running,
            key,
            r#"mutation { pushToRunQueueByName(input: {entityName: "$E", projectName: "$P",
            queueName: "q", runSpec: "{\"$C\":1}"}) { runQueueItemId } }"#,
        );
        text(&pushed["pushToRunQueueByName"]["runQueueItemId"])
    };
    let items: Vec<String> = (0..2).map(push).collect();
    let report = r#"message: "$C", stage: "run", filePaths: ["$C"]"#;
    for (deed, item) in [("updateRunQueueItemWarning", &items[1]), ("failRunQueueItem", &items[1])] {
        ask(
            running,
            key,
            &format!(r#"mutation {{ {deed}(input: {{runQueueItemId: "{item}", {report}}}) {{ success }} }}"#),
        );
    }
    (text(&queue["id"]), text(&queue["defaultResourceConfigID"]), items[1].clone())
}

fn make_agent(running: &Running, key: &str, queue: &str) -> String {
    let agent = ask(
        running,
        key,
        &format!(
            r#"mutation {{ createLaunchAgent(input: {{entityName: "$E", projectName: "$P", runQueues: ["{queue}"], hostname: "$C",
        agentConfig: "{{\"$C\":1}}"}}) {{ launchAgentId }} }}"#
        ),
    );
    text(&agent["createLaunchAgent"]["launchAgentId"])
}

fn make_sweep(running: &Running, key: &str) -> (String, String, String) {
    let sweep = ask(
        running,
        key,
        r#"mutation { upsertSweep(input: {entityName: "$E", projectName: "$P",
        config: "{\"method\":\"random\",\"parameters\":{\"$C\":{\"values\":[1,2]}}}", description: "$C"}) { sweep { name } } }"#,
    );
    let sweep = text(&sweep["upsertSweep"]["sweep"]["name"]);
    let agent = ask(
        running,
        key,
        &format!(
            r#"mutation {{ createAgent(input: {{host: "$C", sweep: "{sweep}", entityName: "$E", projectName: "$P"}})
        {{ agent {{ id name }} }} }}"#
        ),
    );
    let agent = &agent["createAgent"]["agent"];
    (sweep, text(&agent["id"]), text(&agent["name"]))
}

/// A request that succeeds.
pub fn rest(running: &Running, key: &str, head: &str, body: Value) -> Value {
    let answer = send(running, key, head, &body.to_string());
    assert_eq!(answer.status, 200, "{head}: {}", answer.body);
    answer.json()
}

/// Uploads to a signed URL.
pub fn put(running: &Running, url: &str, body: &str) {
    let path = url.strip_prefix(&running.url).expect("a URL of this server");
    let answer = send(running, "", &format!("PUT {path}"), body);
    assert_eq!(answer.status, 200, "{}", answer.body);
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(text)
}
