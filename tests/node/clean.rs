//! What is left on the machine: nothing of a deleted pod, nothing of a volley that is down.

use crate::command::eventually;
use crate::made::{BUSYBOX, load_busybox};
use crate::world::{Say, World, container, pod};
use serde_json::json;

/// Pods that use everything the machine has to give.
fn busy(world: &World) {
    load_busybox(world);
    let volumes = json!([{"name": "m", "emptyDir": {"medium": "Memory"}}, {"name": "d", "emptyDir": {}}]);
    let mounts = json!([{"name": "m", "mountPath": "/m"}, {"name": "d", "mountPath": "/d"}]);
    let limits = json!({"limits": {"memory": "64Mi", "cpu": "500m"}});
    let given = json!({"volumeMounts": mounts, "resources": limits});
    let script = "(setsid sleep 2000 &); echo up; exec sleep 1000";
    world.create(
        &pod("plain", script).main(given.clone()).spec(json!({ "volumes": volumes, "restartPolicy": "Always" })),
    );
    world.create(
        &pod("oci", script)
            .main(given)
            .main(json!({"image": BUSYBOX}))
            .spec(json!({ "volumes": volumes, "restartPolicy": "Always" })),
    );
    world.create(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"a": "b"}, "ports": [{"port": 80}]}}));
    for name in ["plain", "oci"] {
        world.until_logged(name, "up");
    }
}

#[test]
fn nothing_of_a_deleted_pod_is_left() {
    let world = World::start(&[]);
    busy(&world);
    world.note();
    let others = world.traces().processes().iter().filter(|process| process.command == "sleep").count();
    assert_eq!(others, 4, "{:?}", world.traces().processes());
    assert!(!world.traces().cgroups().is_empty(), "the pods have cgroups");
    assert_eq!(world.traces().bridges().len(), 1, "the pods have a bridge");
    for name in ["plain", "oci"] {
        world.delete(name, 0);
        world.until_gone(name);
    }
    eventually("only volley itself is left", || {
        let processes = world.traces().processes();
        processes.iter().all(|process| process.command == "volley").then_some(())
    });
    eventually("no folder is left", || {
        (std::fs::read_dir(world.home.join("node/pods")).unwrap().count() == 0).then_some(())
    });
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let own = mounts.lines().filter(|line| line.contains(world.home.to_str().unwrap()));
    assert_eq!(own.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn nothing_of_a_volley_that_is_down_is_left() {
    let mut world = World::start(&[]);
    busy(&world);
    world.note();
    world.down();
    eventually("nothing is left", || world.traces().left().is_empty().then_some(()));
    world.up();
    let again = world.until_ready("oci");
    assert!(container(&again)["state"]["running"].is_object(), "the pods that were to run run again");
    world.down();
    world.volley(&["down", "--purge"]);
    assert!(!world.home.exists(), "the home is gone");
}

#[test]
fn two_volleys_do_not_disturb_each_other() {
    let worlds = [World::start(&[]), World::start(&[])];
    for world in &worlds {
        busy(world);
    }
    let [mut first, second] = worlds;
    let before = container(&second.until_ready("oci"))["containerID"].clone();
    first.down();
    assert_eq!(second.exec("oci", "echo well").stdout, "well\n");
    let after = second.until_ready("oci");
    assert_eq!((&container(&after)["containerID"], &container(&after)["restartCount"]), (&before, &json!(0)));
}

#[test]
fn after_a_death_without_return_down_cleans_up() {
    let world = World::start(&[]);
    busy(&world);
    world.note();
    world.kill();
    world.volley(&["down"]);
    eventually("nothing is left", || world.traces().left().is_empty().then_some(()));
}
