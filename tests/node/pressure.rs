//! Pods that behave badly: a memory hog, a fork bomb, a flood of log lines. The node and the other pods stay well.

use crate::http;
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, container, pod};
use serde_json::json;
use std::path::Path;

/// A world with a neighbour that serves a page.
fn world() -> (World, String) {
    let world = World::start(&[]);
    load_busybox(&world);
    let script = "mkdir /www; echo well > /www/x; exec httpd -f -p 8080 -h /www";
    let probe = json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1});
    world.create(&pod("neighbour", script).main(json!({"image": BUSYBOX, "readinessProbe": probe})));
    let address = world.until_ready("neighbour")["status"]["podIP"].as_str().unwrap().to_owned();
    (world, format!("{address}:8080"))
}

fn is_well(world: &World, address: &str) {
    assert_eq!(http::get(address, "/x").unwrap().text(), "well\n");
    assert_eq!(world.exec("neighbour", "echo well").stdout, "well\n");
    let neighbour = world.pod("neighbour");
    assert_eq!((&container(&neighbour)["restartCount"], &container(&neighbour)["ready"]), (&json!(0), &json!(true)));
}

#[test]
fn a_memory_hog_is_killed_alone() {
    let (world, address) = world();
    let limits = json!({"limits": {"memory": "32Mi"}});
    let hog = pod("hog", "tail /dev/zero").main(json!({"image": BUSYBOX, "resources": limits}));
    world.create(&hog);
    let killed = world.until_phase("hog", "Failed");
    let state = &container(&killed)["state"]["terminated"];
    assert_eq!((&state["reason"], &state["exitCode"]), (&json!("OOMKilled"), &json!(137)), "{state}");
    assert_eq!(world.word("hog"), "OOMKilled");
    is_well(&world, &address);
}

#[test]
fn a_fork_bomb_stays_in_its_pod() {
    let (world, address) = world();
    // The memory limit is the bomb's wall even where the machine cannot limit the number of processes.
    let limits = json!({"limits": {"memory": "64Mi", "cpu": "500m"}});
    let bomb = pod("bomb", "echo lit; bomb() { bomb | bomb & }; bomb; sleep 1000")
        .main(json!({"image": BUSYBOX, "resources": limits}));
    world.create(&bomb);
    world.until_logged("bomb", "lit");
    for _ in 0..10 {
        is_well(&world, &address);
    }
    world.delete("bomb", 1);
    world.until_gone("bomb");
    is_well(&world, &address);
}

fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(
            |entry| {
                if entry.path().is_dir() {
                    size_of(&entry.path())
                } else {
                    entry.metadata().map_or(0, |file| file.len())
                }
            },
        )
        .sum()
}

// K-LOG-1
#[test]
fn a_flood_of_log_lines_is_rotated_while_others_answer() {
    let (world, address) = world();
    let line = "x".repeat(1023);
    let flood = format!("yes {line} | head -c 1073741824; echo the end");
    world.create(&pod("flood", &flood).main(json!({"image": BUSYBOX})));
    let flooding = || world.pod("flood")["status"]["phase"] != "Succeeded";
    let mut rounds = 0;
    let deadline = std::time::Instant::now() + 2 * crate::command::PATIENCE;
    while flooding() || rounds == 0 {
        is_well(&world, &address);
        rounds += 1;
        assert!(std::time::Instant::now() < deadline, "the flood does not end: {}", world.pod("flood")["status"]);
    }
    assert_eq!(world.logs_of("flood", "tailLines=1"), "the end\n");
    let uid = world.pod("flood")["metadata"]["uid"].as_str().unwrap().to_owned();
    let size = size_of(&world.home.join("node/pods").join(uid).join("logs"));
    assert!(size < 128 << 20, "1 GiB was printed and {size} bytes are kept");
    is_well(&world, &address);
}
