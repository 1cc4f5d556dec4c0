//! `volley check` as a user meets it: findings with their places, mended files, exit codes.

use super::{World, stderr};
use std::fs;
use std::io::Write;
use std::process::Stdio;

const TABBED: &str = "spec:\n\tbackOffLimit: 0\n\tttlSecondsAfterFinished: 60\n";

// G-01, G-07
#[test]
fn a_file_is_checked_and_mended_in_place() {
    let world = World::new();
    let file = world.folder.path().join("큐.yaml");
    fs::write(&file, TABBED).unwrap();
    let path = file.to_str().unwrap();
    let output = world.run(&["check", path]);
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.starts_with(&format!("{path}:2:1: error[G-01]: a tab is used")), "{told}");
    assert!(told.contains(":2:2: error[G-07]: `backOffLimit`"), "{told}");
    assert_eq!(fs::read_to_string(&file).unwrap(), TABBED, "nothing is changed unasked");
    let output = world.run(&["check", path, "--fix", "-o", "json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report[0]["findings"][0]["code"], "G-01");
    assert_eq!(fs::read_to_string(&file).unwrap(), "spec:\n  backoffLimit: 0\n  ttlSecondsAfterFinished: 60\n");
    assert_eq!(world.stdout(&["check", path]), "");
}

#[test]
fn standard_input_is_mended_onto_standard_output() {
    let world = World::new();
    let mut command = world.command(&["check", "-", "--fix"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(TABBED.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "spec:\n  backoffLimit: 0\n  ttlSecondsAfterFinished: 60\n");
    assert!(stderr(&output).contains("-:2:1: error[G-01]"), "{}", stderr(&output));
}

// G-27
#[test]
fn two_variants_are_compared() {
    let world = World::new();
    let file = |name: &str, text: &str| {
        let path = world.folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let yaml = file("a.yaml", "spec:\n  suspend: true\n");
    let json = file("a.json", "{\"spec\": {\"suspend\": true, \"backoffLimit\": 0}}\n");
    let told = world.stdout(&["check", &yaml, "--against", &json, "-o", "name"]);
    assert_eq!(told, "G-27\n");
    let missing = world.run(&["check", "/nowhere.yaml"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(stderr(&missing).contains("/nowhere.yaml"));
}
