//! `volley image map`.

use crate::{World, stderr};
use serde_json::json;
use std::fs;

#[test]
fn maps_are_kept_the_newest_first_and_hold_in_a_running_process() {
    let world = World::new();
    assert_eq!(world.json(&["image", "map", "-o", "json"]), json!([]));
    world.stdout(&["image", "map", "pytorch/*=host"]);
    world.stdout(&["image", "map", "train=registry.lan:5000/train:7"]);
    let expected = json!([
        {"pattern": "train", "runs": "registry.lan:5000/train:7", "from": "kept"},
        {"pattern": "pytorch/*", "runs": "host", "from": "kept"},
    ]);
    assert_eq!(world.json(&["image", "map", "-o", "json"]), expected);

    world.stdout(&["up", "--listen", "127.0.0.1:0", "--image-map", "a=host"]);
    world.stdout(&["image", "map", "--rm", "pytorch/*", "train=host"]);
    let expected = json!([
        {"pattern": "a", "runs": "host", "from": "start"},
        {"pattern": "train", "runs": "host", "from": "kept"},
    ]);
    assert_eq!(world.json(&["image", "map", "-o", "json"]), expected);
    assert_eq!(fs::read_to_string(world.home().join("image-maps")).unwrap(), "train=host\n");
}

#[test]
fn what_cannot_be_a_map_is_refused_and_changes_nothing() {
    let world = World::new();
    world.stdout(&["image", "map", "a=host"]);
    assert_eq!(world.run(&["image", "map", "b"]).status.code(), Some(2));
    assert_eq!(world.run(&["image", "map", "b=UPPER"]).status.code(), Some(2));
    let absent = world.run(&["image", "map", "--rm", "b"]);
    assert_eq!(absent.status.code(), Some(1));
    assert!(stderr(&absent).starts_with("error: no map of `b` is kept\nhint: "), "{}", stderr(&absent));
    assert_eq!(world.stdout(&["image", "map", "-o", "name"]), "a\n");
}

#[test]
fn a_file_that_was_broken_by_hand_is_told_as_a_whole() {
    let world = World::new();
    world.stdout(&["image", "map", "a=host"]);
    fs::write(world.home().join("image-maps"), "# mine\n\nb\nc=UPPER\nd=host\n").unwrap();
    for arguments in [&["image", "map"][..], &["up", "--listen", "127.0.0.1:0"]] {
        let told = stderr(&world.run(arguments));
        assert!(told.contains("image-maps` cannot be used"), "{told}");
        assert!(told.contains("invalid image map \"b\"") && told.contains("\"UPPER\""), "{told}");
    }
}
