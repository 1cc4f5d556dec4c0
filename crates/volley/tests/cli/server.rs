//! The control plane beside the cluster, and the verbs that speak to it.

use crate::{World, stderr};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};

/// Variables by which a server is chosen must not come from whoever runs the tests.
pub fn verb(world: &World, arguments: &[&str]) -> Command {
    let mut command = world.command(arguments);
    for name in ["VOLLEY_SERVER", "VOLLEY_API_KEY", "WANDB_BASE_URL", "WANDB_API_KEY", "WANDB_ENTITY", "WANDB_PROJECT"]
    {
        command.env_remove(name);
    }
    command.env("USER", "alice");
    command
}

pub fn done(mut command: Command) -> (String, String) {
    let output = command.output().expect("the program under test runs");
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    (String::from_utf8(output.stdout.clone()).expect("UTF-8"), stderr(&output))
}

pub fn run(world: &World, arguments: &[&str]) -> String {
    done(verb(world, arguments)).0
}

pub fn json(world: &World, arguments: &[&str]) -> Value {
    serde_json::from_str(&run(world, arguments)).expect("-o json prints JSON")
}

pub fn with_input(world: &World, arguments: &[&str], input: &str) -> Output {
    let mut command = verb(world, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program under test runs");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("input is taken");
    child.wait_with_output().expect("the program under test ends")
}

pub const UP: &[&str] =
    &["up", "--only", "cluster,server", "--no-node", "--listen", "127.0.0.1:0", "--server-listen", "127.0.0.1:0"];

#[test]
fn a_first_start_makes_an_admin_and_the_verbs_find_the_server() {
    let world = World::new();
    let (_, told) = done(verb(&world, UP));
    assert!(told.contains("/signin?token=") && told.contains("volley login --env"), "{told}");
    let status = json(&world, &["status", "-o", "json"]);
    let part =
        status["parts"].as_array().expect("parts").iter().find(|part| part["name"] == "server").expect("a server");
    assert_eq!(part["health"], "ok");
    let url = part["address"].as_str().expect("an address").to_owned();

    let exports = run(&world, &["login", "--env"]);
    assert!(exports.starts_with(&format!("export WANDB_BASE_URL={url} WANDB_API_KEY=")), "{exports}");
    let users = json(&world, &["user", "ls", "-o", "json"]);
    assert_eq!((&users[0]["username"], &users[0]["admin"]), (&"alice".into(), &true.into()));

    let key = run(&world, &["user", "create", "bob"]).trim().to_owned();
    assert_eq!(key.len(), 40);
    let elsewhere = World::new();
    let refused = with_input(&elsewhere, &["login", &url], "0000000000000000000000000000000000000000\n");
    assert!(!refused.status.success() && stderr(&refused).contains("does not let you in"), "{}", stderr(&refused));
    let signed_in = with_input(&elsewhere, &["login", &url], &format!("{key}\n"));
    assert!(signed_in.status.success() && stderr(&signed_in).contains("as bob"), "{}", stderr(&signed_in));
    let kept = elsewhere.home().join("login.json");
    assert_eq!(fs::metadata(&kept).expect("a file").permissions().mode() & 0o777, 0o600);
    let mine = json(&elsewhere, &["user", "ls", "-o", "json"]);
    assert_eq!(mine.as_array().map(Vec::len), Some(1), "who does not administer sees himself: {mine}");

    let (_, again) = {
        run(&world, &["down"]);
        done(verb(&world, UP))
    };
    assert!(!again.contains("/signin?token="), "only a new server has a link: {again}");
    assert_eq!(json(&world, &["user", "ls", "-o", "json"]).as_array().map(Vec::len), Some(2), "people stay");
}

#[test]
fn queues_are_made_edited_shared_and_deleted() {
    let world = World::new();
    done(verb(&world, UP));
    let queue = "resource: local-process\nconfig: {n: '{{n}}'}\ntemplate_variables:\n  n: {schema: {type: integer, default: 1}}\n";
    let made = with_input(&world, &["queue", "create", "q", "-f", "-"], queue);
    assert!(made.status.success(), "{}", stderr(&made));
    let twice = with_input(&world, &["queue", "create", "q", "-f", "-"], queue);
    assert!(
        stderr(&twice).contains("exists already") && stderr(&twice).contains("hint: `volley queue edit q`"),
        "{}",
        stderr(&twice)
    );
    assert_eq!(run(&world, &["queue", "ls", "-o", "name"]), "q\n");
    let shown = json(&world, &["queue", "show", "q", "-o", "json"]);
    assert_eq!(shown["template_variables"]["n"]["schema"]["default"], 1);

    let mut edit = verb(&world, &["queue", "edit", "q"]);
    edit.env("EDITOR", "sed -i 's/default: 1/default: 2/'").env_remove("VISUAL");
    let (difference, told) = done(edit);
    assert!(difference.lines().any(|line| line.starts_with('-') && line.contains("default: 1")), "{difference}");
    assert!(difference.lines().any(|line| line.starts_with('+') && line.contains("default: 2")), "{difference}");
    assert!(told.contains("queue history q"), "{told}");
    let same = with_input(&world, &["queue", "edit", "q", "-f", "-"], &run(&world, &["queue", "show", "q"]));
    assert!(stderr(&same).contains("nothing changed"), "{}", stderr(&same));
    let wrong = with_input(&world, &["queue", "edit", "q", "-f", "-"], "kind: Job");
    assert!(!wrong.status.success() && stderr(&wrong).contains("`kind` is not known here"), "{}", stderr(&wrong));
    assert_eq!(json(&world, &["queue", "history", "q", "-o", "json"]).as_array().map(Vec::len), Some(2));

    let shared = json(&world, &["queue", "share", "q", "--private", "-o", "json"]);
    assert_eq!(shared["private"], true);
    run(&world, &["queue", "rm", "q"]);
    let gone = verb(&world, &["queue", "show", "q"]).output().expect("it runs");
    assert!(stderr(&gone).contains("there is no queue `q` in `alice`\nhint: `volley queue ls`"), "{}", stderr(&gone));
}

#[test]
fn what_happens_is_shown_as_it_happens() {
    let world = World::new();
    done(verb(&world, UP));
    run(&world, &["queue", "create", "q", "--resource", "local-process"]);
    let mut watch = verb(&world, &["ps", "-w", "-o", "json"]);
    let mut child = Ended(watch.stdout(Stdio::piped()).spawn().expect("it runs"));
    let mut lines = BufReader::new(child.0.stdout.take().expect("a pipe")).lines();
    let client = client(&world);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let push = "mutation { pushToRunQueueByName(input: {entityName: \"alice\", projectName: \"model-registry\", queueName: \"q\", \
                runSpec: \"{}\"}) { runQueueItemId } }";
    let mut state = || {
        let line = lines.next().expect("a line").expect("a line");
        let item: Value = serde_json::from_str(&line).expect("JSON");
        item["state"].as_str().expect("a state").to_owned()
    };
    runtime.block_on(client.graphql(push, Value::Null)).expect("it is pushed");
    assert_eq!(state(), "PENDING");
    let lease = runtime.block_on(client.pop("alice", "q", None)).expect("an answer").expect("an item");
    assert_eq!(state(), "LEASED");
    assert!(runtime.block_on(client.acknowledge(&lease.item, "r")).expect("an answer"));
    assert_eq!(state(), "CLAIMED");
}

/// Another hand on the world's server.
pub fn client(world: &World) -> volley_client::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exports = run(world, &["login", "--env"]);
    let word = |name: &str| {
        exports
            .split_once(&format!("{name}="))
            .expect("an export")
            .1
            .split_whitespace()
            .next()
            .expect("a value")
            .to_owned()
    };
    volley_client::Client::new(&word("WANDB_BASE_URL"), &word("WANDB_API_KEY")).expect("a client")
}

/// A process that ends with the test, whether it passed or not.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_that_is_not_there_is_told_so() {
    let world = World::new();
    let nowhere = verb(&world, &["ps"]).output().expect("it runs");
    assert!(stderr(&nowhere).contains("no server is known\nhint: `volley login URL`"), "{}", stderr(&nowhere));
    let mut gone = verb(&world, &["ps", "--server", "http://127.0.0.1:1"]);
    let gone = gone.env("VOLLEY_API_KEY", "k").output().expect("it runs");
    assert!(stderr(&gone).contains("failed to reach the server at http://127.0.0.1:1"), "{}", stderr(&gone));
    let open =
        verb(&world, &["up", "--server-listen", "0.0.0.0:0", "--listen", "127.0.0.1:0"]).output().expect("it runs");
    assert!(!open.status.success() && stderr(&open).contains("keys would travel unencrypted"), "{}", stderr(&open));
}
