//! `volley launch` and what can be asked of an item, with the test as the agent.

use crate::server::{Ended, UP, client, done, json, run, verb, with_input};
use crate::{World, stderr};
use serde_json::{Value, json as value};
use std::io::{BufRead, BufReader, Read as _};
use std::process::{Child, Stdio};
use volley_client::Client;
use volley_client::items::{By, End, Item, Note};
use volley_client::launch::RunPath;

const QUEUE: &str = "\
resource: kubernetes
config:
  kind: Job
  spec:
    template:
      spec:
        containers:
          - name: main
            resources: {limits: {nvidia.com/gpu: '{{gpus}}'}}
template_variables:
  gpus: {schema: {type: integer, minimum: 1, maximum: 4, default: 1}}
";

fn world() -> World {
    let world = World::new();
    done(verb(&world, UP));
    let made = with_input(&world, &["queue", "create", "gpu", "-f", "-"], QUEUE);
    assert!(made.status.success(), "{}", stderr(&made));
    world
}

fn refusal(world: &World, arguments: &[&str]) -> String {
    let output = verb(world, arguments).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
    stderr(&output)
}

/// An agent of the queue, made by hand.
struct Agent {
    client: Client,
    id: String,
    runtime: tokio::runtime::Runtime,
}

impl Agent {
    fn new(world: &World) -> Agent {
        let (client, runtime) = (client(world), tokio::runtime::Runtime::new().expect("a runtime"));
        let id = runtime.block_on(async {
            let queue = client.queue("alice", "gpu").await.expect("an answer").expect("a queue");
            let queues = [queue["id"].as_str().expect("an id").to_owned()];
            client.register_agent("alice", &queues, "here", &value!({})).await.expect("an agent")
        });
        Agent { client, id, runtime }
    }

    /// The next item, once somebody has put one in.
    fn take(&self) -> Item {
        self.runtime.block_on(async {
            loop {
                if let Some(item) = self.client.take(&self.id, "gpu", 1, &[]).await.expect("an answer").pop() {
                    return item;
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
    }

    fn start(&self, item: &Item, run: &str) {
        let place = value!([{"rank": 0, "role": "master", "pod": "a", "node": "n1"}, {"rank": 1, "role": "worker", "pod": "b", "node": "n2"}]);
        let note = Note { is_running: true, place: Some(place), ..Note::default() };
        self.runtime.block_on(async {
            let by = By { agent: &self.id, site: None };
            assert!(self.client.acknowledge_item(&item.lease, by, Some("p"), run).await.expect("an answer"));
            assert!(self.client.note(&item.lease, &note).await.expect("an answer"));
        });
    }

    fn log(&self, run: &str, offset: u64, lines: &[&str]) {
        let lines: Vec<String> = lines.iter().map(|line| format!("2026-01-31T12:00:00.000000 {line}\n")).collect();
        let path = RunPath { entity: "alice", project: "p", run };
        self.runtime.block_on(self.client.log(path, offset, &lines)).expect("it is logged");
    }

    fn end(&self, item: &Item, state: &str, message: Option<&str>, exit_code: Option<i64>) {
        let end = End { state, stage: "run", message, exit_code };
        assert!(self.runtime.block_on(self.client.end_item(&item.lease, &end)).expect("an answer"));
    }
}

fn followed(world: &World, arguments: &[&str]) -> (Ended, impl FnMut(&str) + use<>) {
    let mut command = verb(world, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Ended(command.spawn().expect("it runs"));
    let mut lines = BufReader::new(child.0.stderr.take().expect("a pipe")).lines();
    let until = move |words: &str| {
        let mut seen = Vec::new();
        let is_said = lines.by_ref().map_while(Result::ok).any(|line| {
            seen.push(line);
            seen.last().is_some_and(|line| line.contains(words))
        });
        assert!(is_said, "`{words}` was not said: {seen:?}");
    };
    (child, until)
}

fn output_of(child: &mut Child) -> (String, Option<i32>) {
    let mut text = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut text).expect("UTF-8");
    (text, child.wait().expect("it ends").code())
}

// LA-T-4, LA-T-14
#[test]
fn everything_that_stands_against_a_launch_is_told_at_once() {
    let world = world();
    let all =
        refusal(&world, &["launch", "-q", "gpu", "-v", "gpus=0", "--set-var", "colour=red", "--priority", "high"]);
    for told in [
        "4 things stand against this launch",
        "template variable `gpus` must be at least 1, but got 0",
        "the queue has no template variable `colour`",
        "this queue has no priorities",
        "nothing says what runs",
    ] {
        assert!(all.contains(told), "{told}: {all}");
    }
    let more = refusal(&world, &["launch", "-d", "img", "-q", "gpu", "-v", "gpus=5"]);
    assert!(more.contains("template variable `gpus` must be at most 4, but got 5"), "{more}");
    let word = refusal(&world, &["launch", "-d", "img", "-q", "gpu", "-v", "gpus=two"]);
    assert!(word.contains("template variable `gpus` must be of type integer, but got \"two\""), "{word}");
    let none = refusal(&world, &["launch", "-d", "img"]);
    assert!(none.contains("there is no queue `default` in `alice`\nhint: there is gpu"), "{none}");
    let twice = refusal(&world, &["launch", "-d", "img", "-j", "train", "-q", "gpu"]);
    assert!(twice.contains("more than one thing says what runs"), "{twice}");
    assert_eq!(json(&world, &["ps", "-a", "-o", "json"]), value!([]), "nothing was queued");
}

#[test]
fn a_dry_run_shows_what_would_be_submitted_and_no_secret() {
    let world = world();
    let shown =
        run(&world, &["launch", "-d", "img:1", "-q", "gpu", "-p", "p", "-v", "gpus=2", "--dry-run", "--", "--lr", "1"]);
    for told in ["kind: Job", "image: img:1", "kind: Secret", "<hidden>", "- --lr"] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let objects = json(&world, &["launch", "-d", "img:1", "-q", "gpu", "-v", "gpus=2", "--dry-run", "-o", "json"]);
    let job = objects.as_array().and_then(|all| all.last()).expect("a job");
    let limits = &job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits["nvidia.com/gpu"].to_string().trim_matches('"'), "2");
    assert_eq!(json(&world, &["ps", "-a", "-o", "json"]), value!([]));
}

#[test]
fn what_waits_says_why_and_is_stopped() {
    let world = world();
    let launch = ["launch", "-d", "img:1", "-q", "gpu", "-p", "p", "--idempotency-key", "once"];
    let (number, told) = done(verb(&world, &launch));
    let number = number.trim();
    assert!(told.contains(&format!("queued in `gpu` as item {number}")), "{told}");
    assert_eq!(run(&world, &launch).trim(), number, "the same key is the same submission");
    let why = run(&world, &["why", number]);
    assert!(
        why.contains("number 1 in queue `gpu`")
            && why.contains("no agent serves queue gpu; start one: volley agent -q gpu"),
        "{why}"
    );
    let agent = Agent::new(&world);
    let why = run(&world, &["why", number]);
    assert!(why.contains("it is the next of queue gpu"), "{why}");
    let table = run(&world, &["ps"]);
    assert!(table.starts_with("ITEM") && table.contains("PENDING"), "{table}");
    let (_, told) = done(verb(&world, &["stop", number]));
    assert!(told.contains(&format!("item {number} was stopped")), "{told}");
    assert!(run(&world, &["ps", "-a"]).contains("STOPPED"));
    let why = json(&world, &["why", number, "-o", "json"]);
    assert_eq!((&why["end"], &why["reasons"][1]), (&value!("stopped"), &value!("stopped by alice (stage: agent)")));
    assert!(agent.runtime.block_on(agent.client.take(&agent.id, "gpu", 1, &[])).expect("an answer").is_empty());
    let again = done(verb(&world, &["stop", number])).1;
    assert!(again.contains("has ended already: stopped"), "{again}");
    assert!(refusal(&world, &["why", "999"]).contains("there is no item `999`"));
}

#[test]
fn a_launch_is_followed_through_all_ranks_to_the_jobs_exit_code() {
    let world = world();
    let (mut child, mut until) = followed(&world, &["launch", "-d", "img:1", "-q", "gpu", "-p", "p", "--follow"]);
    until("is number 1 in queue `gpu`");
    let agent = Agent::new(&world);
    let item = agent.take();
    agent.start(&item, "r1");
    until("is running");
    agent.log("r1", 0, &["[master-0] begun", "[worker-0] begun too"]);
    agent.log("r1", 2, &["[worker-0] out of memory"]);
    agent.end(&item, "failed", Some("worker-0 was killed for memory"), Some(137));
    until("failed: worker-0 was killed for memory");
    let (text, code) = output_of(&mut child.0);
    assert_eq!(code, Some(137));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines, ["master-0 | begun", "worker-0 | begun too", "worker-0 | out of memory"]);

    for written in ["p/r1", "r1", "alice/p/r1"] {
        let text = run(&world, &["logs", written, "--rank", "1"]);
        assert_eq!(text, "worker-0 | begun too\nworker-0 | out of memory\n", "{written}");
    }
    assert_eq!(run(&world, &["logs", "p/r1", "--tail", "1"]), "worker-0 | out of memory\n");
    let why = run(&world, &["why", "p/r1"]);
    assert!(why.contains("failed with exit code 137") && why.contains("worker-0 was killed for memory"), "{why}");
    let shown = json(&world, &["run", "show", "p/r1", "-o", "json"]);
    let what: Vec<&str> =
        shown["timeline"].as_array().expect("a timeline").iter().filter_map(|one| one["what"].as_str()).collect();
    assert_eq!((what.len(), what[0]), (3, "queued in gpu by alice"));
    assert!(what[2].starts_with("failed: worker-0"), "{what:?}");
    assert_eq!((&shown["state"], &shown["exitcode"]), (&value!("failed"), &value!(137)));
}

#[test]
fn an_interrupt_detaches_and_says_how_to_come_back() {
    let world = world();
    let agent = Agent::new(&world);
    let (mut child, mut until) = followed(&world, &["launch", "-d", "img:1", "-q", "gpu", "-p", "p", "--follow"]);
    let item = agent.take();
    agent.start(&item, "r1");
    until("is running");
    let process = rustix::process::Pid::from_child(&child.0);
    rustix::process::kill_process(process, rustix::process::Signal::INT).expect("it is there");
    until("detached from item");
    until("volley logs -f");
    assert_eq!(output_of(&mut child.0).1, Some(0));
    // It is still there, and is followed again; a stop reaches the agent.
    let (mut child, mut until) = followed(&world, &["logs", "-f", &item.number.to_string()]);
    until("is running");
    done(verb(&world, &["stop", "p/r1"]));
    until("is being stopped");
    let seen = agent.runtime.block_on(agent.client.agent_items(&agent.id, true)).expect("an answer");
    assert!(seen.iter().any(|seen| seen.id == item.id && seen.stop_asked));
    agent.end(&item, "stopped", None, None);
    until("was stopped");
    assert_eq!(output_of(&mut child.0).1, Some(255));
}

#[test]
fn a_job_of_a_repository_is_pinned_and_a_file_gives_what_flags_do_not() {
    let world = world();
    let refused = refusal(&world, &["launch", "-u", "file:///etc", "-E", "python x.py", "-q", "gpu"]);
    assert!(refused.contains("no repository that agents may fetch"), "{refused}");
    let commit = "0123456789012345678901234567890123456789";
    let git = [
        "launch", "-u", "https://example.org/train.git", "-g", commit, "-E", "python 'a b.py'", "-B", "base:1", "-p",
        "p", "-q", "gpu",
    ];
    let (_, told) = done(verb(&world, &git));
    assert!(told.contains(&format!("job `alice/p/job-train:v0` at commit {commit}")), "{told}");
    let job = json(&world, &["job", "show", "job-train", "-p", "p", "-o", "json"]);
    assert_eq!(job["source"]["entrypoint"], value!(["python", "a b.py"]));
    assert_eq!(job["source"]["git"]["commit"], commit);

    let file = world.home().join("spec.yaml");
    let spec = "project: from-file\nname: nice\ndocker: {docker_image: 'img:2'}\noverrides: {run_config: {lr: 0.1}, args: [a]}\ntemplate_variables: {gpus: 3}\n";
    std::fs::write(&file, spec).expect("a file");
    let path = file.display().to_string();
    let item = json(&world, &["launch", "-q", "gpu", "-c", &path, "-d", "-o", "json", "--", "b"]);
    assert_eq!((&item["spec"]["project"], &item["spec"]["name"]), (&value!("from-file"), &value!("nice")));
    assert_eq!(item["spec"]["overrides"], value!({"run_config": {"lr": 0.1}, "args": ["b"]}));
    assert_eq!(item["values"], value!({"gpus": 3}));
    let args: &Value =
        &item["resolved_spec"]["resource_args"]["kubernetes"]["spec"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(args["limits"]["nvidia.com/gpu"], 3);
}
