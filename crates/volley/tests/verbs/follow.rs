//! `volley logs -f`: what is written while it reads, by whoever comes, until the job ends.

use crate::command::Running;
use crate::{World, job, pod};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

impl World {
    /// A pod that says `line N` when the file of that number is there, and ends after the last.
    fn talker(&self, name: &str, lines: u32) -> Value {
        let folder = self.path("signals");
        fs::create_dir_all(&folder).unwrap();
        let wait = format!("until [ -e {folder}/{name}-$n ]; do sleep 0.05; done");
        let mut pod = pod(name, &format!("n=0; while [ $n -lt {lines} ]; do {wait}; echo line $n; n=$((n+1)); done"));
        pod["spec"]["volumes"] = json!([{"name": "signals", "hostPath": {"path": folder}}]);
        pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "signals", "mountPath": folder}]);
        pod
    }

    fn signal(&self, name: &str, number: u32) {
        fs::write(self.path(&format!("signals/{name}-{number}")), "").unwrap();
    }
}

/// Makes a pod a worker of the Volcano job `train`.
fn worker(mut pod: Value, uid: &Value, index: u32) -> Value {
    pod["metadata"]["labels"] = json!({"volcano.sh/job-name": "train", "volcano.sh/task-spec": "worker",
        "volcano.sh/task-index": index.to_string()});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid}]);
    pod
}

#[test]
fn pods_that_come_later_are_followed_too_and_the_jobs_end_is_the_end() {
    let world = World::start(&[]);
    world.apply(&job("train", 2));
    let uid = world.get(&["jobs.batch.volcano.sh", "train"])["metadata"]["uid"].clone();
    let following = Running::start(world.command(&["logs", "-f", "train"]));
    world.apply(&worker(world.talker("first", 2), &uid, 0));
    world.signal("first", 0);
    assert_eq!(following.line(), "worker-0 | line 0");
    world.apply(&worker(world.talker("second", 5), &uid, 1));
    world.signal("second", 0);
    assert_eq!(following.line(), "worker-1 | line 0");
    world.signal("first", 1);
    assert_eq!(following.line(), "worker-0 | line 1");
    // The second still runs, as pods may that nobody cleans up.
    let ended = json!({"status": {"state": {"phase": "Completed"}}}).to_string();
    world.kubectl(&["patch", "jobs.batch.volcano.sh", "train", "--subresource=status", "--type=merge", "-p", &ended]);
    assert_eq!(following.end(), 0);
}

#[test]
fn a_container_that_restarts_goes_on_under_the_same_name() {
    let world = World::start(&[]);
    let mut pod = world.talker("again", 1);
    pod["spec"]["restartPolicy"] = json!("OnFailure");
    let flag = world.path("signals/failed");
    let script = pod["spec"]["containers"][0]["command"][2].as_str().unwrap().to_owned();
    // It fails only when it is being followed: a reader that comes later sees the second run alone.
    let fails =
        format!("echo it begins; until [ -e {flag}-now ]; do sleep 0.05; done; touch {flag}; echo it fails; exit 3");
    let script = format!("[ -e {flag} ] || {{ {fails}; }}; {script}");
    pod["spec"]["containers"][0]["command"][2] = json!(script);
    world.apply(&pod);
    let following = Running::start(world.command(&["logs", "-f", "again"]));
    assert_eq!(following.line(), "it begins");
    fs::write(format!("{flag}-now"), "").unwrap();
    assert_eq!(following.line(), "it fails");
    world.signal("again", 0);
    assert_eq!(following.line(), "line 0");
    assert_eq!(following.end(), 0);
    assert_eq!(world.volley(&["logs", "again"]), "line 0\n");
    assert_eq!(world.volley(&["logs", "again", "--previous"]), "it begins\nit fails\n");
}

#[test]
fn a_server_that_comes_back_is_read_on_without_a_line_lost_or_told_twice() {
    let world = World::empty();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    world.up(&["--only", "cluster", "--listen", &listen]);
    world.apply(&world.talker("long", 3));
    world.signal("long", 0);
    let following = Running::start(world.command(&["logs", "-f", "pod/long"]));
    assert_eq!(following.line(), "line 0");
    let pid = fs::read_to_string(world.home().join("volley.pid")).unwrap();
    assert!(Command::new("kill").args(["-9", pid.trim()]).status().unwrap().success());
    world.signal("long", 1);
    world.up(&["--only", "cluster", "--listen", &listen]);
    assert_eq!(following.line(), "line 1");
    world.signal("long", 2);
    assert_eq!(following.line(), "line 2");
    assert_eq!(following.end(), 0);
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let world = World::start(&[]);
    world.apply(&pod("busy", "while true; do echo again; sleep 0.05; done"));
    world.until(&["pod", "busy"], |pod| pod["status"]["phase"] == "Running");
    let mut command = world.command(&["logs", "-f", "busy"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "again\n");
    drop(reader);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
