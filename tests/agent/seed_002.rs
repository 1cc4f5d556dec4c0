//! The tutorial for a machine with several GPUs, from its queue to its shared cache, with the documents as they are printed.
//!
//! Its machine had 16 cores and 60 GB; where this one is smaller, the templates' processors and memory shrink with it.

use crate::command::{eventually, finish};
use crate::launch::Launch;
use crate::world::World;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_client::items::Item;

const GPUS: &str = include_str!("../../crates/plan/src/check/seeds/002-gpus.yaml");
const CACHE: &str = include_str!("../../crates/plan/src/check/seeds/002-cache.yaml");
const CACHE_JSON: &str = include_str!("../../crates/plan/src/check/seeds/002-cache.json");
/// The seed's variable: an integer from 1 to 4, 1 if nobody says.
const VARIABLE: &str = "gpus=integer,min=1,max=4,default=1";
/// Says which GPUs it has, and runs until it is stopped.
const HOLD: &str = "sh -c 'trap \"exit 0\" TERM; echo gpus=$CUDA_VISIBLE_DEVICES; while :; do sleep 0.05; done'";

fn world() -> World {
    let parts = "cluster,operator,server,agent";
    World::start_parts(parts, &["--server-listen", "127.0.0.1:0", "--fake-gpus", "4"])
}

fn shrunk(text: &str) -> String {
    let yaml = text.replace("cpu: 4", "cpu: 100m").replace("memory: 12Gi", "memory: 64Mi");
    yaml.replace("\"cpu\": 4", "\"cpu\": \"100m\"").replace("\"memory\": \"12Gi\"", "\"memory\": \"64Mi\"")
}

fn make_queue(launch: &Launch<'_>, name: &str, file: &str) {
    launch.world.volley(&["queue", "create", name, "--resource", "kubernetes", "-f", file, "--var", VARIABLE]);
}

fn limit(item: &Item) -> &Value {
    &item.manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]
}

/// The GPUs that an item's process sees, once it has said so.
fn gpus(launch: &Launch<'_>, item: &str) -> BTreeSet<String> {
    let has_said = |item: &Item| item.state == "RUNNING" && launch.lines(item).len() == 1;
    let item = launch.until(item, "it says which GPUs it has", has_said);
    let line = launch.lines(&item).remove(0);
    let list = line.strip_prefix("gpus=").unwrap_or_else(|| panic!("{line}"));
    list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Of these items, those that run, and those that wait for GPUs and say so.
fn settled(launch: &Launch<'_>, items: &[String], running: usize) -> (Vec<String>, Vec<String>) {
    eventually("as many run as there are GPUs, and the others say what they wait for", || {
        let told: Vec<Item> = items.iter().map(|item| launch.item(item)).collect();
        let waits = |item: &Item| item.waiting.as_ref().is_some_and(|why| why.contains("Insufficient nvidia.com/gpu"));
        let (runs, rest): (Vec<Item>, Vec<Item>) = told.into_iter().partition(|item| item.state == "RUNNING");
        let number = |item: &Item| item.number.to_string();
        let is_so = runs.len() == running && rest.iter().all(waits);
        is_so.then(|| (runs.iter().map(number).collect(), rest.iter().map(number).collect()))
    })
}

// T-4, T-5, T-8, T-14, L-11, L-16, L-31, K-76
#[test]
fn jobs_share_four_gpus_and_those_that_wait_say_for_what() {
    let world = world();
    let launch = Launch::on(&world);
    launch.write("gpus.yaml", &shrunk(GPUS));
    world.volley(&["check", "gpus.yaml"]);
    // A variable that nobody declared is told when the queue is made.
    let undeclared = launch.refused(&["queue", "create", "gpus", "--resource", "kubernetes", "-f", "gpus.yaml"]);
    assert!(undeclared.contains("no template variable `gpus` is declared"), "{undeclared}");
    make_queue(&launch, "gpus", "gpus.yaml");
    for (value, why) in [
        ("gpus=0", "template variable `gpus` must be at least 1, but got 0"),
        ("gpus=5", "template variable `gpus` must be at most 4, but got 5"),
        ("gpus=two", "template variable `gpus` must be of type integer, but got \"two\""),
        ("cards=1", "the queue has no template variable `cards`"),
    ] {
        let told = launch.refused(&["launch", "-d", "host", "-p", "p", "-q", "gpus", "-v", value]);
        assert!(told.contains(why), "{value}: {told}");
        assert!(!launch.push_refused("gpus", value).is_empty(), "by the server too");
    }
    assert_eq!(world.volley(&["ps", "-a", "-o", "json"]).trim(), "[]", "nothing was queued");

    let items: Vec<String> = (0..4).map(|_| launch.volley(&["-q", "gpus", "-v", "gpus=2", "-E", HOLD])).collect();
    let (running, waiting) = settled(&launch, &items, 2);
    for item in &items {
        assert_eq!(limit(&launch.item(item)), &json!(2), "a number, not a text");
    }
    let [first, second] = [gpus(&launch, &running[0]), gpus(&launch, &running[1])];
    assert!((first.len(), second.len()) == (2, 2) && first.is_disjoint(&second), "{first:?} {second:?}");
    for item in &waiting {
        assert!(world.volley(&["why", item]).contains("Insufficient nvidia.com/gpu"));
    }
    assert!(world.volley(&["ps"]).contains("Insufficient nvidia.com/gpu"));

    world.volley(&["stop", &running[0]]);
    let stopped = launch.until_end(&running[0]);
    let is_over = |pod: &Value| matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    assert!(launch.pods(&stopped).iter().all(is_over), "its pods had ended before it was said");
    assert_eq!(stopped.end.as_deref(), Some("stopped"));
    let rest: Vec<String> = items.iter().filter(|item| **item != running[0]).cloned().collect();
    let (running_now, waiting_now) = settled(&launch, &rest, 2);
    assert_eq!(waiting_now.len(), 1);
    let next = running_now.iter().find(|item| **item != running[1]).unwrap();
    assert_eq!(gpus(&launch, next), first, "it has what the other gave back");
    // One that says nothing has one; what waits can be stopped, too.
    world.volley(&["stop", &waiting_now[0], next]);
    assert_eq!(launch.until_end(&waiting_now[0]).end.as_deref(), Some("stopped"));
    let single = launch.volley(&["-q", "gpus", "-E", "sh -c 'echo gpus=$CUDA_VISIBLE_DEVICES'"]);
    let single = launch.until_end(&single);
    assert_eq!((limit(&single), single.end.as_deref()), (&json!(1), Some("finished")), "{single:#?}");
}

/// Checks a document, mends it, and gives what was said at first.
fn mended(launch: &Launch<'_>, file: &str, text: &str) -> String {
    launch.write(file, text);
    let told = launch.refused(&["check", file]);
    let fixed = finish(launch.world.volley_command(&["check", "--fix", file]), "");
    assert_eq!(fixed.code, 0, "{}{}", fixed.stdout, fixed.stderr);
    launch.world.volley(&["check", file]);
    launch.write(file, &shrunk(&launch.read(file)));
    told
}

// G-01, G-08, G-24, K-76
#[test]
fn the_cache_is_shared_once_its_documents_are_mended() {
    let world = world();
    let launch = Launch::on(&world);
    let told = mended(&launch, "cache.yaml", CACHE);
    assert!(told.contains("cache.yaml:11:1: error[G-01]") && told.contains("cache.yaml:15:1: error[G-01]"), "{told}");
    let told = mended(&launch, "cache.json", CACHE_JSON);
    assert!(told.contains("cache.json:14:15:") && told.contains("[G-08]"), "{told}");
    make_queue(&launch, "yaml", "cache.yaml");
    make_queue(&launch, "json", "cache.json");

    let download =
        "sh -c '[ -e /root/.cache/model ] && echo cached || { echo downloads; echo weights >/root/.cache/model; }'";
    let first = launch.volley(&["-q", "yaml", "-E", download]);
    // The claim is not there yet, and whoever asks is told.
    launch.until(&first, "it says that its claim is missing", |item| {
        item.waiting.as_ref().is_some_and(|why| why.contains("persistentvolumeclaim \"nfs-pvc\" not found"))
    });
    // The node's own storage in place of an NFS server.
    world.apply(
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: nfs-pvc}\nspec:\n  accessModes: [ReadWriteMany]\n  \
         resources: {requests: {storage: 1Gi}}\n",
    );
    for (item, line) in [(Some(first), "downloads"), (None, "cached")] {
        let item = launch.until_end(&item.unwrap_or_else(|| launch.volley(&["-q", "json", "-E", download])));
        assert_eq!((item.end.as_deref(), launch.lines(&item)), (Some("finished"), vec![line.to_owned()]), "{item:#?}");
        let pod = &item.manifest["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/root/.cache");
        assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "nfs-pvc");
    }
}
