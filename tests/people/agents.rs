//! What our own agent asks of the server: every route does what it says, on both databases, beside W&B's operations.

use crate::http::{graphql, send};
use crate::support::Engine;
use crate::world::{PROJECT, TEAM, World, rest, text};
use serde_json::{Value, json};

pub struct Desk {
    pub world: World,
    pub agent: String,
}

impl Desk {
    /// An empty queue `work` of the team, and an agent for it.
    pub fn new(engine: Engine) -> Desk {
        let world = World::new(engine);
        let mut desk = Desk { world, agent: String::new() };
        desk.graphql(&format!(
            r#"mutation {{ upsertRunQueue(input: {{entityName: "{TEAM}", projectName: "{PROJECT}", queueName: "work",
            resourceType: "kubernetes", resourceConfig: "{{\"replicas\":\"{{{{n}}}}\"}}",
            templateVariables: "{{\"n\":{{\"schema\":{{\"type\":\"integer\",\"default\":1}}}}}}"}}) {{ success }} }}"#
        ));
        desk.agent = desk.new_agent();
        desk
    }

    fn queue(&self) -> String {
        let queue = self.graphql(&format!(
            r#"{{ project(name: "{PROJECT}", entityName: "{TEAM}") {{ runQueue(name: "work") {{ id }} }} }}"#
        ));
        text(&queue["project"]["runQueue"]["id"])
    }

    fn new_agent(&self) -> String {
        let queue = self.queue();
        let made = self.graphql(&format!(
            r#"mutation {{ createLaunchAgent(input: {{entityName: "{TEAM}", projectName: "{PROJECT}",
            runQueues: ["{queue}"], hostname: "h"}}) {{ launchAgentId }} }}"#
        ));
        text(&made["createLaunchAgent"]["launchAgentId"])
    }

    pub fn graphql(&self, query: &str) -> Value {
        let answer = graphql(&self.world.running, &self.world.olga, query);
        assert_eq!(answer.status, 200, "{query}: {}", answer.body);
        answer.json()["data"].clone()
    }

    pub fn push(&self, n: i64) -> String {
        let pushed = self.graphql(&format!(
            r#"mutation {{ pushToRunQueueByName(input: {{entityName: "{TEAM}", projectName: "{PROJECT}", queueName: "work",
            runSpec: "{{\"project\":\"p\",\"name\":\"mine\"}}", templateVariableValues: "{{\"n\":{n}}}"}})
            {{ runQueueItemId }} }}"#
        ));
        text(&pushed["pushToRunQueueByName"]["runQueueItemId"])
    }

    pub fn rest(&self, head: &str, body: Value) -> Value {
        rest(&self.world.running, &self.world.olga, &head.replace('=', "%3D"), body)
    }

    pub fn take(&self, limit: usize) -> Vec<Value> {
        let taken =
            self.rest(&format!("POST /api/v1/agents/{}/take", self.agent), json!({ "queue": "work", "limit": limit }));
        taken.as_array().expect("items").clone()
    }

    /// Whether the agent may still speak for the item.
    pub fn tell(&self, lease: &str, deed: &str, body: Value) -> bool {
        let told = self.rest(&format!("POST /api/v1/items/{lease}/{deed}"), body);
        told["ok"].as_bool().expect("an answer")
    }

    pub fn acknowledge(&self, lease: &str, run: &str) -> bool {
        self.tell(lease, "acknowledge", json!({ "run": { "project": "p", "name": run }, "agent": self.agent }))
    }

    pub fn item(&self, id: &str) -> Value {
        self.rest(&format!("GET /api/v1/items/{id}"), json!({}))
    }

    fn run_state(&self, run: &str) -> (String, bool) {
        let told = self.graphql(&format!(
            r#"{{ project(name: "p", entityName: "{TEAM}") {{ run(name: "{run}") {{ state stopped user {{ username }} }} }} }}"#
        ));
        let run = &told["project"]["run"];
        assert_eq!(run["user"]["username"], "olga");
        (text(&run["state"]), run["stopped"] == true)
    }
}

pub const ENGINES: [Engine; 2] = [Engine::Sqlite, Engine::Postgres];

#[test]
fn an_agent_takes_many_at_once_and_gets_what_it_renders_from() {
    for desk in ENGINES.map(Desk::new) {
        let ids = [1, 2, 3].map(|n| desk.push(n));
        let taken = desk.take(2);
        assert_eq!(taken.iter().map(|item| text(&item["id"])).collect::<Vec<_>>(), ids[..2]);
        let first = &taken[0];
        assert_eq!(
            (&first["state"], &first["attempt"], &first["is_mine"]),
            (&json!("LEASED"), &json!(1), &json!(true))
        );
        assert_eq!(first["values"], json!({ "n": 1 }));
        assert_eq!(first["spec"].get("resource_args"), None);
        assert_eq!(first["resolved_spec"]["resource_args"]["kubernetes"]["replicas"], 1);
        assert_eq!(first["config"]["resource_args"], json!({ "replicas": "{{n}}" }));
        assert_eq!(first["config"]["template_variables"]["n"]["schema"]["type"], "integer");
        let listed = desk.rest(&format!("GET /api/v1/agents/{}/items", desk.agent), json!({}));
        let listed: Vec<(String, bool)> = listed
            .as_array()
            .expect("items")
            .iter()
            .map(|item| (text(&item["state"]), item["is_mine"] == true))
            .collect();
        assert_eq!(listed, [("LEASED".into(), true), ("LEASED".into(), true), ("PENDING".into(), false)]);
        // What did not fit is the first again, unless whoever asks has no room for it (A-19).
        assert!(desk.tell(&text(&taken[0]["lease"]), "release", json!({})));
        let path = format!("POST /api/v1/agents/{}/take", desk.agent);
        let left = desk.rest(&path, json!({ "queue": "work", "limit": 64, "without": [ids[0], ids[2]] }));
        assert_eq!(left, json!([]));
        let again = desk.take(64);
        assert_eq!(again.iter().map(|item| text(&item["id"])).collect::<Vec<_>>(), [ids[0].clone(), ids[2].clone()]);
        assert!(!desk.acknowledge(&text(&taken[0]["lease"]), "r1"), "the old lease is over");
        assert!(desk.acknowledge(&text(&again[0]["lease"]), "r1"));
    }
}

#[test]
fn an_agent_hears_of_the_queues_that_it_says_it_serves() {
    for desk in ENGINES.map(Desk::new) {
        let id = desk.push(1);
        let path = format!("PUT /api/v1/agents/{}/queues", desk.agent);
        let heard = || desk.rest(&format!("GET /api/v1/agents/{}/items", desk.agent), json!({}));
        assert!(desk.item(&id)["reason"].as_str().is_some_and(|why| why.starts_with("it is the next")));
        // The list says the same, of each.
        desk.push(1);
        let waits = || -> Vec<String> {
            let listed = desk.rest("GET /api/v1/items", json!({}));
            let of_queue = listed.as_array().expect("items").iter().filter(|item| item["queue"] == "work");
            of_queue.map(|item| text(&item["waiting"])).collect()
        };
        let next = "it is the next of queue work, and waits for an agent to have room";
        assert_eq!(waits(), [next, "1 before it in queue work"]);
        desk.rest(&path, json!({ "queues": [] }));
        assert_eq!(heard(), json!([]));
        assert!(desk.item(&id)["reason"].as_str().is_some_and(|why| why.starts_with("no agent serves queue work")));
        assert!(waits()[0].starts_with("no agent serves queue work"));
        desk.rest(&path, json!({ "queues": [desk.queue()] }));
        assert_eq!(heard().as_array().map(Vec::len), Some(2));
        let missing = send(
            &desk.world.running,
            &desk.world.olga,
            &path.replace('=', "%3D"),
            r#"{"queues": ["UnVuUXVldWU6OTk="]}"#,
        );
        assert_eq!(missing.status, 404, "{}", missing.body);
    }
}

#[test]
fn a_kept_item_lives_and_ends_with_its_run() {
    for desk in ENGINES.map(Desk::new) {
        let id = desk.push(1);
        assert_eq!(desk.item(&id)["queue_place"], 1);
        let lease = text(&desk.take(1)[0]["lease"]);
        assert!(desk.acknowledge(&lease, "r1") && desk.acknowledge(&lease, "r1"));
        assert_eq!(desk.run_state("r1"), ("pending".into(), false));
        assert!(desk.tell(&lease, "note", json!({ "waiting": "waiting for 2 GPUs", "place": { "0": "node-a" } })));
        assert_eq!(desk.item(&id)["waiting"], "waiting for 2 GPUs");
        assert!(desk.tell(
            &lease,
            "note",
            json!({ "waiting": null, "state": "running", "manifest": { "kind": "Job" } })
        ));
        let item = desk.item(&id);
        assert_eq!(
            (&item["state"], &item["waiting"], &item["place"]["0"]),
            (&json!("RUNNING"), &json!(null), &json!("node-a"))
        );
        assert_eq!(item["run"], json!({ "entity": TEAM, "project": "p", "name": "r1" }));
        // One rank says that the run is over; the agent sees that the others still work.
        let stream = format!("POST /files/{TEAM}/p/r1/file_stream");
        desk.rest(&stream, json!({ "complete": true, "exitcode": 0 }));
        assert_eq!((desk.item(&id)["state"].clone(), desk.run_state("r1").0), (json!("RUNNING"), "finished".into()));
        let failed = json!({ "state": "failed", "stage": "run", "message": "rank 1 was killed", "exit_code": 137 });
        assert!(desk.tell(&lease, "end", failed.clone()) && desk.tell(&lease, "end", failed));
        let item = desk.item(&id);
        assert_eq!((&item["end"], &item["exit_code"]), (&json!("failed"), &json!(137)));
        assert_eq!(item["error"]["message"], "rank 1 was killed");
        assert_eq!(desk.run_state("r1").0, "failed");
    }
}

#[test]
fn every_wait_of_a_launch_has_its_name_and_its_length() {
    for desk in ENGINES.map(Desk::new) {
        desk.push(1);
        let lease = text(&desk.take(1)[0]["lease"]);
        assert!(desk.acknowledge(&lease, "r1"));
        for reason in ["needs 8 GPUs together, 6 free", "needs 8 GPUs together, 6 free", "pulls its image"] {
            assert!(desk.tell(&lease, "note", json!({ "waiting": reason })));
        }
        assert!(desk.tell(&lease, "note", json!({ "waiting": null, "state": "running" })));
        let story = || desk.rest(&format!("GET /api/v1/runs/{TEAM}/p/r1/story"), json!({}));
        let told = |story: &Value| -> Vec<String> {
            let stages = story["timeline"]["stages"].as_array().expect("stages").iter();
            stages.map(|stage| format!("{} {}", text(&stage["name"]), stage["reason"])).collect()
        };
        let running = story();
        let expected = [
            "queued null",
            "starting \"needs 8 GPUs together, 6 free\"",
            "starting \"pulls its image\"",
            "running null",
        ];
        assert_eq!(told(&running), expected);
        assert!(running["timeline"]["end"].is_null() && running["timeline"]["stages"][3]["until"].is_null());
        assert_eq!(running["item"]["queue"], "work");
        assert!(desk.tell(&lease, "end", json!({ "state": "finished" })));
        let ended = story();
        assert_eq!(
            (told(&ended), &ended["timeline"]["end"]["name"]),
            (expected.map(str::to_owned).into(), &json!("finished"))
        );
        assert_eq!(ended["timeline"]["stages"][3]["until"], ended["timeline"]["end"]["at"]);
        // A run that nobody launched has a story, too.
        let alone = desk.rest(&format!("GET /api/v1/runs/{TEAM}/{PROJECT}/r/story"), json!({}));
        assert_eq!((&alone["item"], told(&alone)), (&json!(null), vec!["running null".to_owned()]));
    }
}

#[test]
fn lines_are_read_by_ranges_and_found_by_words_rank_and_failure() {
    for desk in ENGINES.map(Desk::new) {
        let lines: Vec<String> = (0..3000)
            .map(|number| match number {
                2500 => "2026-01-31T12:00:00.000000 [worker-1] RuntimeError: CUDA out of memory".to_owned(),
                _ => format!("2026-01-31T12:00:00.000000 [worker-{}] Step {number} error: 0.5", number % 2),
            })
            .collect();
        let stream = format!("POST /files/{TEAM}/{PROJECT}/r2/file_stream");
        desk.graphql(&format!(
            r#"mutation {{ upsertBucket(input: {{entityName: "{TEAM}", modelName: "{PROJECT}", name: "r2"}}) {{ inserted }} }}"#
        ));
        desk.rest(&stream, json!({ "files": { "output.log": { "offset": 0, "content": lines } } }));
        let ask = |rest: &str| rest_plain(&desk, &format!("GET /api/v1/runs/{TEAM}/{PROJECT}/r2/lines{rest}"));
        let range = ask("?from=2499&count=2");
        assert_eq!((&range["total"], &range["lines"][0]["text"]), (&json!(3000), &json!("Step 2499 error: 0.5")));
        let failed: Vec<bool> =
            range["lines"].as_array().expect("lines").iter().map(|line| line["is_failure"] == true).collect();
        assert_eq!(failed, [false, true]);
        assert_eq!(range["lines"][1]["label"], "worker-1");
        assert_eq!(ask("/search?failure=true&limit=1")["numbers"], json!([2500]));
        let own = ask("/search?label=worker-1&text=step%2029");
        assert_eq!(own["numbers"].as_array().map(Vec::len), Some(56), "29, 290 to 299 and 2900 to 2999, the odd ones");
        assert!(own["next"].is_null());
        let first = ask("/search?text=step&limit=10");
        assert_eq!((&first["numbers"][9], &first["next"]), (&json!(9), &json!(10)));
    }
}

/// For queries, in which `=` stands for itself.
fn rest_plain(desk: &Desk, head: &str) -> Value {
    rest(&desk.world.running, &desk.world.olga, head, json!({}))
}

#[test]
fn a_cluster_is_shown_once_to_those_who_may_see_it_and_names_only_what_they_may_see() {
    for desk in ENGINES.map(Desk::new) {
        let id = desk.push(1);
        let lease = text(&desk.take(1)[0]["lease"]);
        assert!(desk.acknowledge(&lease, "r1"));
        let key = text(&desk.item(&id)["key"]);
        let pod = |name: &str, key: &str| json!({ "namespace": "ml", "pod": name, "item": key, "gpus": 2 });
        let picture = json!({ "nodes": [{ "name": "n1", "pods": [pod("own", &key), pod("other", "unknown")] }],
            "waiting": [], "events": [{ "about": "Pod own", "item": key }, { "about": "Pod other", "item": "unknown" },
            { "about": "Node n1", "item": null }] });
        let second = desk.new_agent();
        for agent in [&desk.agent, &second] {
            let told = desk
                .rest(&format!("PUT /api/v1/agents/{agent}/cluster"), json!({ "cluster": "uid", "picture": picture }));
            assert_eq!(told["ok"], true);
        }
        let seen = rest_plain(&desk, &format!("GET /api/v1/clusters?entity={TEAM}"));
        assert_eq!(seen["clusters"].as_array().map(Vec::len), Some(1), "{seen}");
        let cluster = &seen["clusters"][0];
        assert_eq!((&cluster["is_live"], cluster["agents"].as_array().map(Vec::len)), (&json!(true), Some(2)));
        let pods = &cluster["picture"]["nodes"][0]["pods"];
        assert_eq!((&pods[0]["work"]["run"]["name"], &pods[0]["work"]["user"]), (&json!("r1"), &json!("olga")));
        assert_eq!(pods[1], json!({ "is_hidden": true, "gpus": 2, "pods": null, "since": null }));
        assert_eq!(cluster["picture"]["events"].as_array().map(Vec::len), Some(2));
        desk.push(2);
        let waits = rest_plain(&desk, &format!("GET /api/v1/clusters?entity={TEAM}"));
        // Another queue of the team has something that waits, too.
        let own = waits["queued"].as_array().expect("items").iter().find(|item| item["queue"] == "work");
        assert_eq!(own.map(|item| &item["queue_place"]), Some(&json!(1)), "{waits}");
        let stranger = send(&desk.world.running, &desk.world.bob, &format!("GET /api/v1/clusters?entity={TEAM}"), "");
        assert_eq!(stranger.json(), json!({ "clusters": [], "queued": [] }));
    }
}

// LA-L-25, LA-L-26
#[test]
fn a_preempted_item_goes_back_once_for_each_attempt() {
    for desk in ENGINES.map(Desk::new) {
        let id = desk.push(4);
        let lease = text(&desk.take(1)[0]["lease"]);
        desk.acknowledge(&lease, "r1");
        let preempted = json!({ "attempt": 1, "reason": "node-a was drained" });
        assert!(desk.tell(&lease, "requeue", preempted.clone()) && desk.tell(&lease, "requeue", preempted.clone()));
        let item = desk.item(&id);
        assert_eq!(
            (&item["state"], &item["attempt"], &item["waiting"]),
            (&json!("PENDING"), &json!(2), &json!("node-a was drained"))
        );
        let taken = desk.take(2);
        assert_eq!((taken.len(), &taken[0]["values"], &taken[0]["run"]["name"]), (1, &json!({ "n": 4 }), &json!("r1")));
        assert!(!desk.tell(&lease, "requeue", preempted));
        assert!(desk.acknowledge(&text(&taken[0]["lease"]), "r1"));
    }
}

#[test]
fn only_what_an_agent_left_alone_is_taken_over() {
    for mut desk in ENGINES.map(Desk::new) {
        let id = desk.push(1);
        let lease = text(&desk.take(1)[0]["lease"]);
        desk.acknowledge(&lease, "r1");
        let first = std::mem::take(&mut desk.agent);
        desk.agent = desk.new_agent();
        let adopt = format!("POST /api/v1/items/{lease}/adopt").replace('=', "%3D");
        let body = json!({ "agent": desk.agent }).to_string();
        let refused = send(&desk.world.running, &desk.world.olga, &adopt, &body);
        assert_eq!(refused.status, 409, "{}", refused.body);
        desk.graphql(&format!(
            r#"mutation {{ updateLaunchAgent(input: {{launchAgentId: "{first}", agentStatus: "KILLED"}}) {{ success }} }}"#
        ));
        let listed = desk.rest(&format!("GET /api/v1/agents/{}/items", desk.agent), json!({}));
        assert_eq!((&listed[0]["is_orphaned"], &listed[0]["values"]), (&json!(true), &json!({ "n": 1 })));
        let adopted = desk.rest(&adopt.replace("%3D", "="), json!({ "agent": desk.agent }));
        assert_eq!((&adopted["is_mine"], &adopted["state"]), (&json!(true), &json!("CLAIMED")));
        assert!(!desk.tell(&lease, "end", json!({ "state": "failed" })), "the old agent is heard no more");
        assert!(desk.tell(&text(&adopted["lease"]), "end", json!({ "state": "finished" })));
        assert_eq!((desk.item(&id)["end"].clone(), desk.run_state("r1").0), (json!("finished"), "finished".into()));
    }
}

#[test]
fn what_runs_on_a_cluster_is_taken_over_by_agents_of_that_cluster_only() {
    for mut desk in ENGINES.map(Desk::new) {
        let id = desk.push(1);
        let lease = text(&desk.take(1)[0]["lease"]);
        let run = json!({ "project": "p", "name": "r1" });
        assert!(desk.tell(&lease, "acknowledge", json!({ "run": run, "agent": desk.agent, "site": "a" })));
        let first = std::mem::take(&mut desk.agent);
        desk.agent = desk.new_agent();
        let list = format!("GET /api/v1/agents/{}/items", desk.agent);
        assert_eq!(desk.rest(&list, json!({})), json!([]), "what another agent has is none of its business");
        desk.graphql(&format!(
            r#"mutation {{ updateLaunchAgent(input: {{launchAgentId: "{first}", agentStatus: "KILLED"}}) {{ success }} }}"#
        ));
        let listed = desk.rest(&list, json!({}));
        assert_eq!((&listed[0]["is_orphaned"], &listed[0]["site"]), (&json!(true), &json!("a")));
        let adopt = format!("POST /api/v1/items/{lease}/adopt");
        for site in [json!("b"), json!(null)] {
            let body = json!({ "agent": desk.agent, "site": site }).to_string();
            let refused = send(&desk.world.running, &desk.world.olga, &adopt.replace('=', "%3D"), &body);
            assert_eq!(refused.status, 409, "{}", refused.body);
        }
        let adopted = desk.rest(&adopt, json!({ "agent": desk.agent, "site": "a" }));
        assert_eq!((&adopted["is_mine"], &adopted["site"]), (&json!(true), &json!("a")));
        // Preempted, it may go on anywhere.
        let lease = text(&adopted["lease"]);
        assert!(desk.tell(&lease, "requeue", json!({ "attempt": 1 })));
        assert_eq!((&desk.take(1)[0]["id"], &desk.item(&id)["attempt"]), (&json!(id), &json!(2)));
        assert_eq!(desk.rest(&list, json!({}))[0]["site"], json!(null));
    }
}

#[test]
fn a_stop_ends_what_waits_and_asks_for_the_end_of_the_rest() {
    for desk in ENGINES.map(Desk::new) {
        let waiting = desk.push(1);
        assert_eq!(desk.rest(&format!("POST /api/v1/items/{waiting}/stop"), json!({}))["state"], "FAILED");
        let item = desk.item(&waiting);
        assert_eq!((&item["end"], &item["error"]["message"]), (&json!("stopped"), &json!("stopped by olga")));
        let running = desk.push(1);
        let lease = text(&desk.take(1)[0]["lease"]);
        desk.acknowledge(&lease, "r1");
        assert_eq!(desk.rest(&format!("POST /api/v1/items/{running}/stop"), json!({}))["state"], "CLAIMED");
        assert_eq!(desk.item(&running)["stop_asked"], true);
        assert_eq!(desk.run_state("r1"), ("pending".into(), true));
        assert!(desk.tell(&lease, "end", json!({ "state": "stopped" })));
        assert_eq!((desk.item(&running)["end"].clone(), desk.run_state("r1").0), (json!("stopped"), "failed".into()));
    }
}

// RUN-13
#[test]
fn a_run_that_is_stopped_by_wandb_stops_its_item() {
    for desk in ENGINES.map(Desk::new) {
        let id = desk.push(1);
        let lease = text(&desk.take(1)[0]["lease"]);
        desk.acknowledge(&lease, "r1");
        let run =
            desk.graphql(&format!(r#"{{ project(name: "p", entityName: "{TEAM}") {{ run(name: "r1") {{ id }} }} }}"#));
        let run = text(&run["project"]["run"]["id"]);
        desk.graphql(&format!(r#"mutation {{ stopRun(input: {{id: "{run}"}}) {{ success }} }}"#));
        let item = desk.item(&id);
        assert_eq!(
            (&item["stop_asked"], &item["stop_by"], &item["state"]),
            (&json!(true), &json!("olga"), &json!("CLAIMED"))
        );
        // A stop wins over a preemption that comes with it.
        assert!(desk.tell(&lease, "requeue", json!({ "attempt": 1 })));
        assert_eq!(desk.item(&id)["end"], "stopped");
    }
}

#[test]
fn an_item_of_wandbs_agent_follows_its_run_as_ever_and_is_never_taken_over() {
    for desk in ENGINES.map(Desk::new) {
        let id = desk.push(1);
        let popped = desk.graphql(&format!(
            r#"mutation {{ popFromRunQueue(input: {{entityName: "{TEAM}", projectName: "{PROJECT}", queueName: "work",
            launchAgentId: "{}"}}) {{ runQueueItemId }} }}"#,
            desk.agent
        ));
        let lease = text(&popped["popFromRunQueue"]["runQueueItemId"]);
        desk.graphql(&format!(
            r#"mutation {{ ackRunQueueItem(input: {{runQueueItemId: "{lease}", runName: "w"}}) {{ success }} }}"#
        ));
        desk.graphql(&format!(
            r#"mutation {{ updateLaunchAgent(input: {{launchAgentId: "{}", agentStatus: "KILLED"}}) {{ success }} }}"#,
            desk.agent
        ));
        assert_eq!(desk.item(&id)["is_orphaned"], false);
        let config = format!(r#"{{\"_wandb\":{{\"value\":{{\"launch_trace_id\":\"{lease}\"}}}}}}"#);
        desk.graphql(&format!(
            r#"mutation {{ upsertBucket(input: {{entityName: "{TEAM}", modelName: "p", name: "w", host: "h", config: "{config}"}})
            {{ bucket {{ id }} }} }}"#
        ));
        desk.rest(&format!("POST /files/{TEAM}/p/w/file_stream"), json!({ "complete": true, "exitcode": 3 }));
        let item = desk.item(&id);
        assert_eq!((&item["end"], &item["exit_code"]), (&json!("failed"), &json!(3)));
    }
}

#[test]
fn only_the_submitter_and_who_manages_the_queue_stop_an_item() {
    let desk = Desk::new(Engine::Sqlite);
    let id = desk.push(1);
    let head = format!("POST /api/v1/items/{id}/stop").replace('=', "%3D");
    assert_eq!(send(&desk.world.running, &desk.world.vera, &head, "").status, 403);
    assert_eq!(send(&desk.world.running, &desk.world.bob, &head, "").status, 404);
    assert_eq!(desk.item(&id)["state"], "PENDING");
    assert!(text(&desk.item(&id)["reason"]).starts_with("it is the next of queue work"));
}

#[test]
fn a_preview_is_for_those_who_see_the_queue_and_queues_nothing() {
    let desk = Desk::new(Engine::Sqlite);
    let asked = json!({ "entity": TEAM, "queue": "work", "values": { "n": 3 }, "spec": { "docker": { "docker_image": "img:1" } } });
    let look = |key: &str, asked: &Value| send(&desk.world.running, key, "POST /api/v1/preview", &asked.to_string());
    assert_eq!(look(&desk.world.bob, &asked).status, 404);
    let shown = look(&desk.world.vera, &asked);
    assert_eq!(shown.status, 200, "{}", shown.body);
    let objects = shown.json()["objects"].as_array().expect("objects").clone();
    assert_eq!(objects.last().expect("a workload")["kind"], "Job", "{}", shown.body);
    let wrong = json!({ "values": { "n": "x", "m": 1 }, "entity": TEAM, "queue": "work" });
    let problems = look(&desk.world.olga, &wrong).json()["problems"].as_array().expect("problems").len();
    assert_eq!(problems, 2);
    let draft = json!({ "config": { "resource": "kubernetes", "config": { "kind": "Job", "spec": { "parallelism": "{{n}}" } },
        "template_variables": { "n": { "schema": { "type": "integer", "default": 2 } } } } });
    let shown = look(&desk.world.olga, &draft);
    assert_eq!(
        shown.json()["objects"].as_array().expect("objects").last().expect("a workload")["spec"]["parallelism"],
        2
    );
    assert!(desk.take(1).is_empty());
}

#[test]
fn a_document_is_checked_at_its_lines_and_columns() {
    let desk = Desk::new(Engine::Sqlite);
    let report = desk.rest("POST /api/v1/check", json!({ "text": "a:\n\tb: 1\n" }));
    let finding = &report["findings"][0];
    assert_eq!((&finding["code"], &finding["line"]), (&json!("G-01"), &json!(2)), "{report}");
    assert!(report["fixed"].is_string(), "{report}");
}
