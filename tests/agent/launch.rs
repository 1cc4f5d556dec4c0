//! Submitting to a server, and watching what becomes of it.

use crate::command::{PATIENCE, finish};
use crate::world::World;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use volley_client::Client;
use volley_client::items::Item;
use volley_client::jobs::JobPath;
use volley_client::people::QueueSpec;

const POLL: Duration = Duration::from_millis(20);

pub struct Launch<'a> {
    pub world: &'a World,
    pub client: Client,
    pub url: String,
    pub key: String,
    pub entity: String,
    /// How long an item may take to be as it is expected.
    patience: Duration,
    runtime: tokio::runtime::Runtime,
}

impl<'a> Launch<'a> {
    pub fn on(world: &'a World) -> Launch<'a> {
        let status: Value = serde_json::from_str(&world.volley(&["status", "-o", "json"])).unwrap();
        let server = status["parts"].as_array().unwrap().iter().find(|part| part["name"] == "server").unwrap();
        let url = server["address"].as_str().unwrap().to_owned();
        let key = std::fs::read_to_string(world.home.join("server/api-key")).unwrap().trim().to_owned();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // Another test of this process may have chosen it already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::new(&url, &key).unwrap();
        let (_, entity) = runtime.block_on(client.viewer()).unwrap();
        Launch { world, client, url, key, entity, patience: PATIENCE, runtime }
    }

    /// Waits longer than usual.
    pub fn patiently(self, patience: Duration) -> Launch<'a> {
        Launch { patience, ..self }
    }

    /// Makes a queue of Kubernetes with this config.
    pub fn make_queue(&self, name: &str, config: &Value) {
        self.make_queue_of(name, "kubernetes", config);
    }

    pub fn make_queue_of(&self, name: &str, resource: &str, config: &Value) {
        let spec = QueueSpec {
            resource: resource.to_owned(),
            config: config.clone(),
            variables: json!({}),
            has_priorities: true,
        };
        self.runtime.block_on(self.client.upsert_queue(&self.entity, name, &spec)).unwrap();
    }

    /// Submits a shell script; gives the item's id.
    pub fn push(&self, queue: &str, script: &str) -> String {
        let spec = json!({ "entity": self.entity, "project": "p", "docker": { "docker_image": "host" }, "resource": "kubernetes",
            "overrides": { "entry_point": ["sh", "-c", script] } });
        self.push_spec(queue, &spec)
    }

    /// Submits a shell script as a process.
    pub fn push_process(&self, queue: &str, script: &str) -> String {
        let spec = json!({ "entity": self.entity, "project": "p", "resource": "local-process",
            "overrides": { "entry_point": ["sh", "-c", script], "run_config": { "lr": 0.5 } } });
        self.push_spec(queue, &spec)
    }

    /// Makes a job; gives what it is called.
    pub fn make_job(&self, name: &str, job: &Value) -> String {
        let path = JobPath { entity: &self.entity, project: "p", name };
        let version = self.runtime.block_on(self.client.create_job(path, job, &[])).unwrap();
        format!("{}/p/{name}:v{version}", self.entity)
    }

    pub fn push_spec(&self, queue: &str, spec: &Value) -> String {
        let query =
            "mutation($input: PushToRunQueueByNameInput!) { pushToRunQueueByName(input: $input) { runQueueItemId } }";
        let input = json!({ "entityName": self.entity, "projectName": "model-registry", "queueName": queue,
            "runSpec": spec.to_string() });
        let answer = self.runtime.block_on(self.client.graphql(query, json!({ "input": input }))).unwrap();
        answer["pushToRunQueueByName"]["runQueueItemId"].as_str().unwrap().to_owned()
    }

    fn agents_of(&self, queue: &str) -> Vec<Value> {
        let queues = self.runtime.block_on(self.client.queues_with_agents(&self.entity)).unwrap();
        let found = queues.iter().find(|known| known["name"] == queue);
        found.and_then(|queue| queue["launchAgents"].as_array()).cloned().unwrap_or_default()
    }

    /// How the agents of a queue stand.
    pub fn statuses(&self, queue: &str) -> Vec<Value> {
        self.agents_of(queue).into_iter().map(|mut agent| agent["agentStatus"].take()).collect()
    }

    /// The agents of a queue, each with the queues that it was told.
    pub fn agents(&self, queue: &str) -> Vec<Vec<String>> {
        let agents = self.agents_of(queue);
        let told = |agent: &Value| -> Value { serde_json::from_str(agent["agentConfig"].as_str().unwrap()).unwrap() };
        agents.iter().map(|agent| serde_json::from_value(told(agent)["queues"].clone()).unwrap()).collect()
    }

    /// `volley launch` in this home; gives the item's number.
    #[track_caller]
    pub fn volley(&self, args: &[&str]) -> String {
        self.world.volley(&[&["launch", "-p", "p", "-d", "host"], args].concat()).trim().to_owned()
    }

    /// What a `volley` that fails says.
    #[track_caller]
    pub fn refused(&self, args: &[&str]) -> String {
        let output = finish(self.world.volley_command(args), "");
        assert_ne!(output.code, 0, "volley {}: {}{}", args.join(" "), output.stdout, output.stderr);
        format!("{}{}", output.stdout, output.stderr)
    }

    /// Writes a file where `volley` runs.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.world.folder.path().join(name), text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.world.folder.path().join(name)).unwrap()
    }

    /// What the server says to a submission with this value of a template variable, without any client's own check.
    pub fn push_refused(&self, queue: &str, value: &str) -> String {
        let (name, value) = value.split_once('=').unwrap();
        let value: Value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        let spec = json!({ "entity": self.entity, "project": "p", "docker": { "docker_image": "host" } });
        let query =
            "mutation($input: PushToRunQueueByNameInput!) { pushToRunQueueByName(input: $input) { runQueueItemId } }";
        let input = json!({ "entityName": self.entity, "projectName": "model-registry", "queueName": queue,
            "runSpec": spec.to_string(), "templateVariableValues": json!({ name: value }).to_string() });
        let answer = self.runtime.block_on(self.client.graphql(query, json!({ "input": input })));
        answer.expect_err("it is refused").to_string()
    }

    /// The names of a project's runs.
    pub fn runs(&self, project: &str) -> Vec<String> {
        let runs = self.runtime.block_on(self.client.runs(&self.entity, project, 100)).unwrap();
        runs.iter().map(|run| run["name"].as_str().unwrap().to_owned()).collect()
    }

    pub fn item(&self, id: &str) -> Item {
        self.runtime.block_on(self.client.item(id)).unwrap()
    }

    pub fn stop(&self, id: &str) {
        self.runtime.block_on(self.client.stop_item(id)).unwrap();
    }

    #[track_caller]
    pub fn until(&self, id: &str, what: &str, is_so: impl Fn(&Item) -> bool) -> Item {
        let deadline = Instant::now() + self.patience;
        loop {
            let item = self.item(id);
            if is_so(&item) {
                return item;
            }
            let pods = self.world.kubectl(&["get", "pods", "-A", "-o", "wide"]);
            assert!(Instant::now() < deadline, "{what} in vain: {item:#?}\n{pods}\n{}", self.world.log());
            std::thread::park_timeout(POLL);
        }
    }

    #[track_caller]
    pub fn until_end(&self, id: &str) -> Item {
        self.until(id, "it ends", |item| item.end.is_some())
    }

    /// The lines of an item's run, each with whose it is.
    pub fn lines(&self, item: &Item) -> Vec<String> {
        let run = item.run.as_ref().expect("it has a run");
        let query = "query($entity: String!, $project: String!, $run: String!) { project(name: $project, entityName: $entity) \
            { run(name: $run) { state logLines(first: 10000) { edges { node { label line } } } } } }";
        let variables = json!({ "entity": run.entity, "project": run.project, "run": run.name });
        let answer = self.runtime.block_on(self.client.graphql(query, variables)).unwrap();
        let edges = answer["project"]["run"]["logLines"]["edges"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let line = |edge: &Value| match text(&edge["node"]["label"]).as_str() {
            "" => text(&edge["node"]["line"]),
            label => format!("[{label}] {}", text(&edge["node"]["line"])),
        };
        edges.iter().map(line).collect()
    }

    pub fn run_state(&self, item: &Item) -> String {
        let run = item.run.as_ref().expect("it has a run");
        let run = self.runtime.block_on(self.client.run(&run.entity, &run.project, &run.name)).unwrap().unwrap();
        run["state"].as_str().unwrap().to_owned()
    }

    /// As W&B's page stops a run.
    pub fn stop_run(&self, item: &Item) {
        let run = item.run.as_ref().expect("it has a run");
        let run = self.runtime.block_on(self.client.run(&run.entity, &run.project, &run.name)).unwrap().unwrap();
        self.runtime.block_on(self.client.stop_run(run["id"].as_str().unwrap())).unwrap();
    }

    /// The pods of an item, wherever they are.
    pub fn pods(&self, item: &Item) -> Vec<Value> {
        let list = self.world.kubectl(&["get", "pods", "-A", "-l", &selector(item), "-o", "json"]);
        let list: Value = serde_json::from_str(&list).unwrap();
        list["items"].as_array().unwrap().clone()
    }
}

/// Finds what was made for an item on a cluster.
pub fn selector(item: &Item) -> String {
    format!("volley.dev/item={}", item.key.as_deref().expect("our server gives every item a key"))
}
