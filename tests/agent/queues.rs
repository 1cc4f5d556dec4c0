//! Which queues are served: all of the home's owner by `volley up`, those that are named by `volley agent`.

use crate::agents::Agent;
use crate::command::eventually;
use crate::launch::Launch;
use crate::world::World;
use serde_json::json;

fn world() -> World {
    World::start_parts("cluster,operator,server,agent", &["--server-listen", "127.0.0.1:0"])
}

fn make(launch: &Launch<'_>, queue: &str) {
    launch.write(
        "queue.yaml",
        "resource: kubernetes\nconfig: {spec: {template: {spec: {containers: [{name: main}]}}}}\n",
    );
    launch.world.volley(&["queue", "create", queue, "-f", "queue.yaml"]);
}

fn runs(launch: &Launch<'_>, queue: &str) {
    let item = launch.volley(&["-q", queue, "-E", "sh -c 'echo served'"]);
    let item = launch.until_end(&item);
    assert_eq!((item.end.as_deref(), launch.lines(&item)), (Some("finished"), vec!["served".to_owned()]), "{item:#?}");
}

// A-12, L-14
#[test]
fn a_queue_is_served_from_the_moment_it_is_made() {
    let world = world();
    let launch = Launch::on(&world);
    make(&launch, "later");
    runs(&launch, "later");
    // One that is made again is another, and one that is gone holds up nobody.
    world.volley(&["queue", "rm", "later", "--force"]);
    make(&launch, "last");
    runs(&launch, "last");
    make(&launch, "later");
    runs(&launch, "later");
    // What this agent cannot run is left for another, and says so.
    launch.write("cloud.yaml", "resource: sagemaker\nconfig: {}\n");
    world.volley(&["queue", "create", "cloud", "-f", "cloud.yaml"]);
    let item = launch.volley(&["-q", "cloud"]);
    let reason = "no agent serves queue cloud; start one: volley agent -q cloud";
    assert_eq!(launch.item(&item).reason.as_deref(), Some(reason));
    assert!(world.volley(&["why", &item]).contains(reason));
    assert!(world.volley(&["ps"]).contains(reason));
}

//
#[test]
fn an_agent_that_was_told_a_queue_has_it_for_itself() {
    let world = world();
    let launch = Launch::on(&world);
    make(&launch, "shared");
    let held = launch.push("shared", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done");
    launch.until(&held, "it runs", |item| item.state == "RUNNING");
    let agent = Agent::start(&launch, "one");
    // What it holds keeps the first agent listed as one of the queue's; it takes nothing more.
    eventually("the other agent serves the queue", || {
        launch.agents("shared").contains(&vec!["shared".to_owned()]).then_some(())
    });
    let next = eventually("the other agent has what comes next", || {
        let item = launch.until_end(&launch.push("shared", "echo served"));
        (item.agent.as_ref()?.name != launch.item(&held).agent?.name).then_some(item)
    });
    assert_eq!(next.end.as_deref(), Some("finished"), "{next:#?}");
    assert_eq!(launch.item(&held).state, "RUNNING", "what runs stays whose it is");
    launch.stop(&held);
    assert_eq!(launch.until_end(&held).end.as_deref(), Some("stopped"));
    agent.interrupt();
    runs(&launch, "shared");
    let queues = json!(launch.agents("shared"));
    assert!(queues.to_string().contains("*"), "{queues}");
}

// What has started outlives its queue; what waits goes with it.
#[test]
fn a_launch_that_runs_goes_on_when_its_queue_is_deleted() {
    let world = world();
    let launch = Launch::on(&world);
    make(&launch, "brief");
    let held = launch.push("brief", "echo up; exec sleep 1000");
    launch.until(&held, "it runs", |item| item.run.is_some() && launch.lines(item) == ["up"]);
    let told = launch.refused(&["queue", "rm", "brief"]);
    assert!(told.contains("what has started goes on"), "{told}");
    world.volley(&["queue", "rm", "brief", "--force"]);
    assert!(!world.volley(&["queue", "ls"]).contains("brief"));
    // Its name is free, and what is made with it is another queue.
    make(&launch, "brief");
    runs(&launch, "brief");
    assert_eq!(launch.item(&held).state, "RUNNING");
    launch.stop(&held);
    assert_eq!(launch.until_end(&held).end.as_deref(), Some("stopped"));
}

// K-11: work must not run on another cluster than the one that was meant.
#[test]
fn an_agent_whose_cluster_cannot_be_used_does_not_start() {
    let world = world();
    let launch = Launch::on(&world);
    make(&launch, "far");
    for flags in [["--context", "nosuch"], ["--kubeconfig", "/nosuch"]] {
        let told = launch.refused(&[&["agent", "-q", "far"], &flags[..]].concat());
        assert!(told.contains("nosuch"), "{told}");
    }
}

// L-6: an agent without a limit takes all that waits; the scheduler keeps the queue's order.
#[test]
fn the_most_important_launch_is_the_next_that_gets_a_gpu() {
    let world =
        World::start_parts("cluster,operator,server,agent", &["--server-listen", "127.0.0.1:0", "--fake-gpus", "1"]);
    let launch = Launch::on(&world);
    launch.write(
        "gpu.yaml",
        "resource: kubernetes\nprioritization: true\nconfig: {spec: {template: {spec: {restartPolicy: Never, containers: \
         [{name: main, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}\n",
    );
    world.volley(&["queue", "create", "gpu", "-f", "gpu.yaml"]);
    let held = launch.volley(&["-q", "gpu", "-E", "sleep 1000"]);
    launch.until(&held, "it holds the GPU", |item| item.state == "RUNNING");
    let order = ["low", "medium", "critical"].map(|priority| {
        let item = launch.volley(&["-q", "gpu", "--priority", priority, "-E", "sh -c 'date +%s%N'"]);
        launch.until(&item, "it waits for the GPU", |item| item.run.is_some());
        item
    });
    let waiting = || world.kubectl(&["get", "pods", "-A", "--field-selector", "status.phase=Pending", "-o", "name"]);
    eventually("all wait in the cluster", || (waiting().lines().count() == 3).then_some(()));
    launch.stop(&held);
    let at = order.map(|item| {
        let item = launch.until_end(&item);
        launch.lines(&item).concat().parse::<u64>().unwrap()
    });
    assert!(at[2] < at[1] && at[1] < at[0], "low, medium, critical ran at {at:?}");
}
