//! Agents that die and come back, and agents that share a queue.

use crate::command::eventually;
use crate::launch::Launch;
use crate::world::World;
use serde_json::json;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// `volley agent` as a process.
pub struct Agent(Child);

impl Agent {
    pub fn start(launch: &Launch<'_>, home: &str) -> Agent {
        Agent::start_at(launch, home, &launch.url)
    }

    fn start_at(launch: &Launch<'_>, home: &str, url: &str) -> Agent {
        Agent::start_with(launch, home, &["-q", "shared", "-j", "8", "--url", url])
    }

    pub fn start_with(launch: &Launch<'_>, home: &str, args: &[&str]) -> Agent {
        let home = launch.world.folder.path().join(home);
        let mut command = Command::new(env!("CARGO_BIN_EXE_volley"));
        command.arg("--home").arg(&home).arg("agent").args(args);
        command.env("VOLLEY_API_KEY", &launch.key).env("KUBECONFIG", launch.world.home.join("kubeconfig"));
        command.env("HOME", &home).env_remove("WANDB_API_KEY").env_remove("WANDB_BASE_URL").env_remove("WANDB_ENTITY");
        Agent(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Ctrl-C, after which it says goodbye.
    pub fn interrupt(mut self) {
        self.signal("-INT");
        self.0.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap().success());
    }

    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn world() -> World {
    World::start_parts("cluster,server", &["--server-listen", "127.0.0.1:0"])
}

/// Where workloads write what they do, beyond their own file system.
fn ledger(launch: &Launch<'_>) -> PathBuf {
    let folder = launch.world.folder.path().join("ledger");
    fs::create_dir(&folder).unwrap();
    let volume = json!({ "name": "ledger", "hostPath": { "path": folder } });
    let container = json!({ "image": "${image_uri}", "volumeMounts": [{ "name": "ledger", "mountPath": "/ledger" }] });
    let config = json!({ "kind": "Job", "apiVersion": "batch/v1",
        "spec": { "template": { "spec": { "containers": [container], "volumes": [volume] } } } });
    launch.make_queue("shared", &config);
    folder
}

/// An agent that lets an admin's queue mount folders of the machine.
fn allow_volumes(launch: &Launch<'_>, homes: &[&str]) {
    for home in homes {
        let folder = launch.world.folder.path().join(home).join(".config/wandb");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("launch-config.yaml"), "policy: privileged\n").unwrap();
    }
}

// L-33, A-34
#[test]
fn an_agent_that_was_killed_goes_on_where_it_was() {
    let world = world();
    let launch = Launch::on(&world);
    let folder = ledger(&launch);
    allow_volumes(&launch, &["one"]);
    let agent = Agent::start(&launch, "one");
    let script =
        "echo began >>/ledger/$WANDB_RUN_ID; echo first; while ! test -e /ledger/go; do sleep 0.05; done; echo last";
    let ids: Vec<String> = (0..3).map(|_| launch.push("shared", script)).collect();
    for id in &ids {
        launch.until(id, "its first line is there", |item| item.run.is_some() && launch.lines(item) == ["first"]);
    }
    agent.kill();
    let waiting = launch.push("shared", "echo began >>/ledger/$WANDB_RUN_ID");
    fs::write(folder.join("go"), "").unwrap();
    let _agent = Agent::start(&launch, "one");
    for id in &ids {
        let item = launch.until_end(id);
        assert_eq!((item.end.as_deref(), item.attempt), (Some("finished"), 1), "{item:#?}");
        assert_eq!(launch.lines(&item), ["first", "last"]);
        let began = fs::read_to_string(folder.join(&item.run.unwrap().name)).unwrap();
        assert_eq!(began, "began\n", "nothing runs twice");
    }
    assert_eq!(launch.until_end(&waiting).end.as_deref(), Some("finished"));
}

// L-32, L-33
#[test]
fn an_agent_that_stops_leaves_its_work_or_waits_for_it_or_ends_it() {
    let world = world();
    let launch = Launch::on(&world);
    let folder = ledger(&launch);
    allow_volumes(&launch, &["one"]);
    let start = |how: &str| {
        let args = ["-q", "shared", "-j", "8", "--url", &launch.url, "--on-stop", how];
        Agent::start_with(&launch, "one", &args)
    };
    let begin = |go: &str| {
        let script =
            format!("trap 'exit 0' TERM; echo up; while ! test -e /ledger/{go}; do sleep 0.05; done; echo last");
        let id = launch.push("shared", &script);
        launch.until(&id, "its line is there", |item| item.run.is_some() && launch.lines(item) == ["up"]);
        id
    };
    let ended = |mut agent: Agent| eventually("it has ended", move || agent.has_ended().then_some(()));

    let agent = start("drain");
    let (one, left) = (begin("one"), begin("left"));
    agent.signal("-TERM");
    let later = launch.push("shared", "echo later");
    fs::write(folder.join("one"), "").unwrap();
    assert_eq!(launch.until_end(&one).end.as_deref(), Some("finished"));
    let agent = {
        let mut agent = agent;
        assert!(!agent.has_ended(), "it waits for the other");
        agent
    };
    assert_eq!(launch.item(&later).state, "PENDING", "nothing more is taken");
    agent.signal("-TERM");
    ended(agent);
    assert_eq!(launch.item(&left).state, "RUNNING", "the second signal leaves what runs");

    let agent = start("drain");
    assert_eq!(launch.until_end(&later).end.as_deref(), Some("finished"));
    agent.signal("-INT");
    fs::write(folder.join("left"), "").unwrap();
    let item = launch.until_end(&left);
    assert_eq!((item.end.as_deref(), item.attempt), (Some("finished"), 1), "{item:#?}");
    assert_eq!(launch.lines(&item), ["up", "last"]);
    ended(agent);

    let agent = start("kill");
    let id = begin("never");
    agent.signal("-TERM");
    ended(agent);
    let item = launch.until_end(&id);
    assert_eq!((item.end.as_deref(), item.attempt), (Some("stopped"), 1), "{item:#?}");
}

#[test]
fn an_idle_agent_that_said_goodbye_is_known_to_be_back() {
    let world = world();
    let launch = Launch::on(&world);
    ledger(&launch);
    allow_volumes(&launch, &["one"]);
    let agent = Agent::start(&launch, "one");
    launch.until_end(&launch.push("shared", "true"));
    agent.interrupt();
    assert_eq!(launch.statuses("shared"), ["KILLED"]);
    let _agent = Agent::start(&launch, "one");
    eventually("it is back", || (launch.statuses("shared") == ["POLLING"]).then_some(()));
}

// A-18, L-4
#[test]
fn two_agents_of_one_queue_never_share_an_item() {
    let world = world();
    let launch = Launch::on(&world);
    let folder = ledger(&launch);
    allow_volumes(&launch, &["one", "two"]);
    let _agents = [Agent::start(&launch, "one"), Agent::start(&launch, "two")];
    let ids: Vec<String> = (0..24).map(|_| launch.push("shared", "echo began >>/ledger/$WANDB_RUN_ID")).collect();
    for id in &ids {
        let item = launch.until_end(id);
        assert_eq!((item.end.as_deref(), item.attempt), (Some("finished"), 1), "{item:#?}");
        let began = fs::read_to_string(folder.join(&item.run.unwrap().name)).unwrap();
        assert_eq!(began, "began\n");
    }
    eventually("all is let go", || {
        world
            .kubectl(&["get", "secrets", "-A", "-l", "wandb.ai/created-by=launch-agent", "-o", "name"])
            .is_empty()
            .then_some(())
    });
}

/// The server without what only ours has, as W&B's would be.
fn plain_server(launch: &Launch<'_>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = launch.url.strip_prefix("http://").unwrap().to_owned();
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let server = server.clone();
            std::thread::spawn(move || pass_on(client, &server));
        }
    });
    address
}

/// Answers one request of a connection: those for our own paths are not known, all others are the server's.
fn pass_on(client: TcpStream, server: &str) -> Option<()> {
    let mut reader = BufReader::new(client.try_clone().ok()?);
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
        if !lower.starts_with("connection:") {
            head += &line;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut client = client;
    if head.lines().next()?.contains(" /api/v1/") {
        return client.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok();
    }
    let mut server = TcpStream::connect(server).ok()?;
    server.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).ok()?;
    server.write_all(&body).ok()?;
    std::io::copy(&mut server, &mut client).ok().map(drop)
}

// L-28, A-14
#[test]
fn an_agent_serves_a_server_that_speaks_only_wandbs_operations() {
    let world = world();
    let launch = Launch::on(&world);
    ledger(&launch);
    allow_volumes(&launch, &["one"]);
    let server = plain_server(&launch);
    let _agent = Agent::start_at(&launch, "one", &server);
    let good = launch.push("shared", "echo fine");
    let bad = launch.push("shared", "echo broken; exit 4");
    let stopped = launch.push("shared", "trap 'exit 0' TERM; while :; do sleep 0.05; done");
    let item = launch.until_end(&good);
    assert_eq!(item.state, "FINISHED", "{item:#?}");
    assert_eq!((launch.lines(&item), launch.run_state(&item)), (vec!["fine".to_owned()], "finished".to_owned()));
    let item = launch.until_end(&bad);
    assert!(item.error.as_ref().is_some_and(|error| error.message.contains("exit code 4")), "{item:#?}");
    let item = launch.until(&stopped, "it runs", |item| item.state == "RUNNING" || item.run.is_some());
    launch.stop_run(&item);
    let item = launch.until_end(&stopped);
    assert!(
        launch.pods(&item).iter().all(|pod| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed")))
    );
}
