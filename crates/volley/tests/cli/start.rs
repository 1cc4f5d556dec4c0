//! How a start is told what to do, and how everything ends.

use crate::{World, signal, stderr};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_settings_file_that_is_wrong_is_told_line_by_line_by_up() {
    let world = World::new();
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("config.yaml"), "gpu: 0\nruntime: docker\n").unwrap();
    let output = world.run(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(output.status.code(), Some(1));
    let told = stderr(&output);
    assert!(told.contains("  line 1: `gpu` is no setting; `gpus` is\n  line 2: invalid value 'docker'"), "{told}");
    assert!(told.contains("\nhint: its keys are the options of `volley up`: listen, "), "{told}");
    assert!(!world.home().join("volley.pid").exists());
}

#[test]
fn settings_reach_the_background_process_from_the_file_and_the_command_line() {
    let world = World::new();
    fs::create_dir_all(world.home()).unwrap();
    fs::write(world.home().join("config.yaml"), "listen: 127.0.0.1:0\nno-node: true\n").unwrap();
    let status: serde_json::Value = world.json(&["up", "-o", "json"]);
    assert!(!status["parts"][0]["address"].as_str().unwrap().ends_with(":6443"));
    assert!(status["node"].is_null());
    let gpus = world.run(&["gpus"]);
    assert!(stderr(&gpus).contains("runs without a node\nhint: start it without --no-node"), "{}", stderr(&gpus));
}

#[test]
fn real_and_pretended_gpus_exclude_each_other() {
    let world = World::new();
    let output = world.run(&["up", "--gpus", "all", "--fake-gpus", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
}

#[test]
fn the_shim_is_a_verb_that_nobody_sees() {
    let world = World::new();
    let output = world.run(&["shim"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).starts_with("usage: shim run|probe FOLDER"), "{}", stderr(&output));
    assert!(!world.stdout(&["--help"]).contains("shim"));
    assert!(!world.stdout(&["completions", "bash"]).contains("shim"));
}

#[test]
fn an_interrupt_ends_a_foreground_start() {
    let world = World::new();
    let mut command = world.command(&["cluster", "--no-node", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(log.any(|line| line.contains("ready")));
    signal("INT", &child.id().to_string());
    let rest: Vec<String> = log.collect();
    assert!(rest.iter().any(|line| line.contains("stopping, pods too")), "{rest:?}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn purge_removes_the_home_whether_or_not_something_runs() {
    let world = World::new();
    world.up();
    world.stdout(&["down", "--purge"]);
    assert!(!world.home().exists());
    let again = world.run(&["down", "--purge", "--yes"]);
    assert!(again.status.success(), "{}", stderr(&again));
    assert!(!world.home().exists());
    world.up();
    world.stdout(&["down", "--grace", "0"]);
    world.stdout(&["down", "--purge"]);
    assert!(!world.home().exists());
}

#[test]
fn purge_leaves_a_folder_alone_that_is_not_only_volleys_and_stops_nothing() {
    let world = World::new();
    world.up();
    fs::write(world.home().join("thesis.tex"), "precious").unwrap();
    let refused = world.run(&["down", "--purge"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("holds what is not volley's: thesis.tex"), "{}", stderr(&refused));
    assert_eq!(world.json(&["status", "-o", "json"])["running"], true);
    let other = world.run(&["--home", world.folder.path().to_str().unwrap(), "down", "--purge"]);
    assert!(stderr(&other).contains("is not a home of volley"), "{}", stderr(&other));
    assert!(world.home().join("thesis.tex").exists());
}

#[test]
fn down_where_nothing_ever_was_makes_nothing() {
    let world = World::new();
    let output = world.run(&["down"]);
    assert!(output.status.success());
    assert!(stderr(&output).starts_with("volley does not run in "), "{}", stderr(&output));
    assert!(!world.home().exists());
}
