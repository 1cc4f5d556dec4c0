//! `kill -9` of volley at bad moments, again and again: what runs goes on, nothing is started twice, nothing is left.

use crate::command::eventually;
use crate::made::{Image, Packing, busybox_layer};
use crate::registry::Registry;
use crate::world::{Say, World, container, pod};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const KILLS: u32 = 30;
const PODS: u32 = 50;

fn seed() -> u64 {
    let chosen = std::env::var("CRASH_SEED").ok().and_then(|text| text.parse().ok());
    chosen.unwrap_or_else(rand::random)
}

/// What must not change for a pod that goes on.
fn identity(pod: &Value) -> (String, String, Value) {
    let status = container(pod);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&status["containerID"]), text(&status["state"]["running"]["startedAt"]), status["restartCount"].clone())
}

fn identities(world: &World) -> BTreeMap<String, (String, String, Value)> {
    let steady = |pod: &&Value| pod["metadata"]["labels"]["kind"] == "steady";
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    world.pods().iter().filter(steady).map(|pod| (name(pod), identity(pod))).collect()
}

/// The processes of the steady pods.
fn sleepers(world: &World) -> BTreeSet<u32> {
    let is_steady =
        |pid: &u32| std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x00100000\x00");
    world.traces().processes().iter().map(|process| process.pid).filter(is_steady).collect()
}

/// An image that nobody has pulled yet, on a base that is shared.
fn fresh_image(number: u32) -> Image {
    let top = crate::layer::Layer::default().file("word", format!("image {number}\n")).tar();
    Image::new(&[(busybox_layer().tar(), Packing::Gzip), (top, Packing::Gzip)], json!({"Env": ["PATH=/bin"]}))
}

#[test]
fn running_pods_outlive_thirty_deaths_of_volley() {
    let seed = seed();
    println!("CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let registry = Registry::open();
    let mut world = World::start(&[]);
    let label = json!({"labels": {"kind": "steady"}});
    for number in 0..PODS {
        world.create(&pod(&format!("steady-{number}"), "exec sleep 100000").meta(label.clone()));
    }
    let counts = "n=0; while :; do n=$((n + 1)); echo $n; sleep 0.05; done";
    world.create(&pod("counts", counts).meta(label));
    for number in 0..PODS {
        world.until_ready(&format!("steady-{number}"));
    }
    world.until_ready("counts");
    let before = identities(&world);
    // A shell that runs is ready, and becomes the process that is looked for a moment later.
    let pids = eventually("all steady pods sleep", || {
        Some(sleepers(&world)).filter(|pids| pids.len() == usize::try_from(PODS).unwrap())
    });
    for round in 0..KILLS {
        let name = format!("round-{round}");
        let work = match random.random_range(0..3) {
            0 => pod(&name, "cat /word")
                .main(json!({"image": registry.push(&format!("round:{round}"), &fresh_image(round))})),
            1 => pod(&name, "echo started"),
            _ => pod(&name, "sleep 0.1; echo slept; exit 5"),
        };
        world.create(&work);
        // From "not looked at yet" to "has ended".
        std::thread::park_timeout(Duration::from_millis(random.random_range(0..500)));
        world.kill();
        world.up();
        assert_eq!(identities(&world), before, "round {round}");
    }
    for round in 0..KILLS {
        let name = format!("round-{round}");
        let ended = world.until_pod(&name, "ended", |pod| {
            ["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
        });
        let state = &container(&ended)["state"]["terminated"];
        let logs = world.logs(&name);
        assert!([0, 5].contains(&state["exitCode"].as_i64().unwrap()), "{name}: {state}");
        assert_eq!(logs.lines().count(), 1, "{name} ran once: {logs:?}");
        assert_eq!(container(&ended)["restartCount"], 0);
    }
    assert_eq!(identities(&world), before);
    assert_eq!(sleepers(&world), pids, "the same processes go on");
    let numbers: Vec<u32> = world.logs("counts").lines().map(|line| line.parse().unwrap()).collect();
    assert!(
        numbers.iter().copied().eq(1..=u32::try_from(numbers.len()).unwrap()),
        "the log has no gap and no repetition"
    );
    assert!(numbers.len() > 30, "{numbers:?}");
}

#[test]
fn a_volley_that_is_asked_to_end_leaves_its_pods() {
    let mut world = World::start(&[]);
    world.create(&pod("stays", "echo up; exec sleep 1000"));
    let before = identity(&world.until_ready("stays"));
    world.end("-TERM");
    assert!(world.traces().processes().iter().any(|process| process.command == "sleep"));
    world.up();
    assert_eq!(identity(&world.until_ready("stays")), before);
    assert_eq!(world.exec("stays", "echo well").stdout, "well\n");
}

#[test]
fn an_end_that_nobody_saw_is_not_lost() {
    let mut world = World::start(&[]);
    let shared = world.folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let volumes = json!([{"name": "v", "hostPath": {"path": shared}}]);
    let mounts = json!([{"name": "v", "mountPath": "/v"}]);
    let waits = |name: &str, end: &str, policy: &str| {
        let script =
            format!("echo run >> /v/{name}.runs; until [ -e /v/go ]; do sleep 0.05; done; echo last words; {end}");
        pod(name, &script)
            .main(json!({ "volumeMounts": mounts }))
            .spec(json!({"volumes": volumes, "restartPolicy": policy}))
    };
    world.create(&waits("fails", "exit 7", "Never"));
    world.create(&waits("ends", "exit 0", "Never"));
    world.create(&waits("again", "[ $(wc -l < /v/again.runs) = 2 ]", "OnFailure"));
    for name in ["fails", "ends", "again"] {
        world.until_ready(name);
    }
    world.kill();
    std::fs::write(shared.join("go"), "").unwrap();
    eventually("the scripts have ended", || {
        (!world.traces().processes().iter().any(|process| process.command == "sh")).then_some(())
    });
    world.up();
    let failed = world.until_phase("fails", "Failed");
    assert_eq!(container(&failed)["state"]["terminated"]["exitCode"], 7);
    assert_eq!(world.logs("fails"), "last words\n");
    world.until_phase("ends", "Succeeded");
    let again = world.until_phase("again", "Succeeded");
    assert_eq!(container(&again)["restartCount"], 1);
}

#[test]
fn streams_break_with_volley_and_work_again_after_it() {
    let mut world = World::start(&[]);
    world.create(&pod("talks", "n=0; while :; do n=$((n + 1)); echo $n; sleep 0.05; done"));
    world.until_logged("talks", "3\n");
    let follows = world.start_kubectl(&["logs", "-f", "talks"]);
    assert_eq!(follows.line(), "1");
    world.kill();
    drop(follows);
    world.up();
    let follows = world.start_kubectl(&["logs", "-f", "talks", "--tail=1"]);
    let first: u32 = follows.line().parse().unwrap();
    assert_eq!(follows.line().parse::<u32>().unwrap(), first + 1);
    assert_eq!(world.exec("talks", "echo beside").stdout, "beside\n");
}

#[test]
fn pods_deleted_while_volley_was_dead_are_ended_when_it_is_back() {
    let mut world = World::start(&[]);
    world.create(
        &pod("goes", "trap '' TERM; echo up; while :; do sleep 0.05; done")
            .spec(json!({"terminationGracePeriodSeconds": 2})),
    );
    world.until_logged("goes", "up");
    world.delete("goes", 2);
    world.kill();
    world.up();
    world.until_gone("goes");
    eventually("its processes are gone", || {
        (!world.traces().processes().iter().any(|process| process.command == "sh")).then_some(())
    });
}
