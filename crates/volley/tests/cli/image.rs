//! `volley image`, with a running process and without one.

use crate::registry::{self, SECRET};
use crate::{World, archive, stderr};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::process::{Output, Stdio};

impl World {
    pub fn load(&self, name: &str, content: &str) {
        let file = archive::write(self.folder.path(), name, content);
        assert_eq!(self.stdout(&["image", "load", file.to_str().expect("test paths are UTF-8")]), format!("{name}\n"));
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().expect("test paths are UTF-8").to_owned()
    }

    fn image_names(&self) -> String {
        self.stdout(&["image", "ls", "-o", "name"])
    }

    fn load_stdin(&self, bytes: &[u8]) -> Output {
        let mut command = self.command(&["image", "load", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program under test runs");
        child.stdin.take().expect("it is a pipe").write_all(bytes).expect("the program reads it all");
        child.wait_with_output().expect("the program ends")
    }
}

/// The whole life of an image.
fn check_life(world: &World) {
    assert_eq!(world.image_names(), "");
    world.load("my/app:1", "hello");
    let listed = world.json(&["image", "ls", "-o", "json"]);
    assert_eq!(listed[0]["name"], "my/app:1");
    assert_eq!((&listed[0]["repository"], &listed[0]["tag"]), (&json!("my/app"), &json!("1")));
    assert_eq!(listed[0]["usedBy"], json!([]));
    let table = world.stdout(&["image", "ls"]);
    assert!(table.starts_with("REPOSITORY   TAG   DIGEST"), "{table}");
    assert!(table.lines().nth(1).is_some_and(|row| row.starts_with("my/app       1     ")), "{table}");

    for format in ["docker", "oci"] {
        let (file, other) = (world.path(&format!("{format}.tar")), World::new());
        let saved = world.stdout(&["image", "save", "my/app:1", "-o", &file, "--format", format]);
        assert_eq!(saved, format!("{file}\n"));
        assert_eq!(other.stdout(&["image", "load", &file]), "my/app:1\n");
        assert_eq!(other.json(&["image", "ls", "-o", "json"])[0]["id"], listed[0]["id"]);
    }

    let compressed = archive::gzip(&archive::bytes("my/app:2", "hello again"));
    let loaded = world.load_stdin(&compressed);
    assert!(loaded.status.success(), "{}", stderr(&loaded));
    assert_eq!(world.image_names(), "my/app:1\nmy/app:2\n");

    assert_eq!(world.stdout(&["image", "rm", "my/app:1"]), "my/app:1\n");
    let again = world.run(&["image", "rm", "my/app:1", "my/app:2"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(stderr(&again), "error: `my/app:1` is not here\nhint: `volley image ls` lists what is\n");
    assert_eq!(String::from_utf8_lossy(&again.stdout), "my/app:2\n", "one that is not here does not keep the others");
    assert_eq!(world.image_names(), "");
    let left = fs::read_dir(world.home().join("images/blobs/sha256"));
    assert_eq!(left.map_or(0, Iterator::count), 0, "what no image needs is gone");
}

#[test]
fn an_image_is_loaded_listed_saved_and_removed_without_a_process() {
    check_life(&World::new());
}

#[test]
fn an_image_is_loaded_listed_saved_and_removed_by_a_process() {
    let world = World::new();
    world.up();
    check_life(&world);
}

/// A pull with the user's own credentials, and one without.
fn check_pull(world: &World) {
    let host = registry::start(&archive::build("from afar"));
    let image = format!("{host}/app:1");
    let refused = world.run(&["image", "pull", &image]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(&format!("hint: `docker login {host}` first")), "{}", stderr(&refused));

    fs::create_dir_all(world.folder.path().join(".docker")).expect("the test's folder can be written to");
    let config = json!({"auths": {&host: {"auth": SECRET}}});
    fs::write(world.folder.path().join(".docker/config.json"), config.to_string()).expect("the folder is there");
    let pulled = world.run(&["image", "pull", &image]);
    assert!(pulled.status.success(), "{}", stderr(&pulled));
    assert_eq!(String::from_utf8_lossy(&pulled.stdout), format!("{image}\n"));
    assert!(stderr(&pulled).contains(" done ("), "{}", stderr(&pulled));
    assert_eq!(world.image_names(), format!("{image}\n"));

    let absent = world.run(&["image", "pull", &format!("{host}/app:2"), &image, "-o", "json"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(stderr(&absent).contains("not found"), "{}", stderr(&absent));
    let printed: Value = serde_json::from_slice(&absent.stdout).expect("-o json prints JSON");
    assert_eq!(printed[0]["name"], image);
}

#[test]
fn an_image_is_pulled_without_a_process() {
    check_pull(&World::new());
}

#[test]
fn an_image_is_pulled_by_a_process() {
    let world = World::new();
    world.up();
    check_pull(&world);
}

#[test]
fn what_cannot_be_done_is_told_with_what_to_do() {
    let world = World::new();
    let text = world.path("text");
    fs::write(&text, "this is not an archive, but long enough to be looked at".repeat(20)).unwrap();
    let nowhere = world.path("nowhere.tar");
    let cases: [(&[&str], &str); 6] = [
        (&["image", "load", &text], "hint: it must be what `docker save` or another builder writes"),
        (&["image", "load", &nowhere], "No such file or directory"),
        (
            &["image", "save", "my/app", "-o", &nowhere],
            "caused by: `my/app:latest` is not here\nhint: `volley image ls`",
        ),
        (&["image", "rm", "host"], "`host` is no image but this machine itself\nhint: "),
        (&["image", "pull", "My/App"], "must be lowercase"),
        (&["image", "pull", "127.0.0.1:1/app"], "connection refused"),
    ];
    for (arguments, expected) in cases {
        let output = world.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    assert!(!fs::exists(&nowhere).unwrap());
}

#[test]
fn a_saved_file_survives_a_save_that_fails_and_devices_are_left_alone() {
    let world = World::new();
    world.load("my/app:1", "hello");
    let file = world.path("kept.tar");
    fs::write(&file, "precious").unwrap();
    assert!(!world.run(&["image", "save", "my/app:1", "my/app:2", "-o", &file]).status.success());
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    let refused = world.run(&["image", "save", "my/app:1", "-o", "/dev/null"]);
    assert!(stderr(&refused).contains("it is not a file"), "{}", stderr(&refused));
    assert!(fs::exists("/dev/null").unwrap());
}

#[test]
fn an_image_stays_while_pods_of_a_dead_process_may_run_from_it() {
    let world = World::new();
    world.load("my/app:1", "hello");
    let pod = world.home().join("node/pods/uid");
    fs::create_dir_all(pod.join("sandbox-0")).unwrap();
    let refused = world.run(&["image", "rm", "my/app:1"]);
    assert!(stderr(&refused).contains("may still run from it\nhint: `volley up` adopts them"), "{}", stderr(&refused));
    fs::remove_dir_all(pod).unwrap();
    world.stdout(&["image", "rm", "my/app:1"]);
}
