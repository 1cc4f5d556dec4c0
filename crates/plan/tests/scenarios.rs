//! Replays `tests/scenarios/*.txt` and compares what is decided with what is written there.
//!
//! A line with `$` is something that happens; the lines below it are what the scheduler then decides. With
//! `VOLLEY_UPDATE=1` the files are written anew: read the difference before you keep it.

#![expect(clippy::disallowed_methods, reason = "the transcripts are files, and the variable is for the writer's hand")]
#![expect(clippy::panic, reason = "a transcript with an unknown word cannot be replayed")]

use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use volley_plan::gang::policy::Policy;
use volley_plan::gang::snapshot::{Kind, Snapshot};
use volley_plan::gang::{Placement, place};

const GPU: &str = "nvidia.com/gpu";

/// The pretend cluster of one transcript.
struct Stage {
    snapshot: Snapshot,
    nodes: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    groups: BTreeMap<String, Value>,
    now: i64,
}

/// `name key=value …` after the command's word.
struct Words<'a> {
    name: &'a str,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn read(rest: &'a str) -> Words<'a> {
        let mut words = rest.split_whitespace();
        let name = words.next().unwrap_or("");
        Words { name, options: words.filter_map(|word| word.split_once('=')).collect() }
    }

    fn get(&self, key: &str) -> Option<&'a str> {
        self.options.get(key).copied()
    }

    fn number(&self, key: &str, default: i64) -> i64 {
        self.get(key).map_or(default, |value| value.parse().expect("a whole number"))
    }
}

fn time(second: i64) -> Value {
    json!(Timestamp::from_second(second).expect("a time of our days").to_string())
}

impl Stage {
    fn new() -> Stage {
        let snapshot = Snapshot::new(Policy::default(), &["volcano", "volley"], &["default-scheduler"]);
        let mut stage =
            Stage { snapshot, nodes: BTreeMap::new(), pods: BTreeMap::new(), groups: BTreeMap::new(), now: 1_000_000 };
        stage.queue(&Words::read("default"));
        stage
    }

    fn happen(&mut self, command: &str) -> String {
        let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
        let words = Words::read(rest);
        self.now += 1;
        match verb {
            "node" => self.node(&words),
            "hypernode" => self.hyper_node(&words),
            "queue" => self.queue(&words),
            "class" => {
                let class = json!({"metadata": {"name": words.name}, "value": words.number("value", 0)});
                self.snapshot.see(Kind::PriorityClass, &class);
            }
            "job" => self.job(&words),
            "pod" => self.pod(words.name, "", &words),
            "end" => self.end(words.name),
            "drain" => self.drain(words.name),
            "lose" => self.lose(words.name),
            "pass" => self.now += words.name.parse::<i64>().expect("seconds"),
            "gone" => self.gone(),
            "step" => return self.step(),
            other => panic!("no such command: {other}"),
        }
        String::new()
    }

    fn node(&mut self, words: &Words) {
        let node = json!({"metadata": {"name": words.name, "labels": {"kubernetes.io/hostname": words.name}}, "spec": {},
            "status": {"allocatable": {GPU: words.get("gpus").unwrap_or("0"), "cpu": "64", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        self.snapshot.see(Kind::Node, &node);
        self.nodes.insert(words.name.to_owned(), node);
    }

    fn hyper_node(&mut self, words: &Words) {
        let of = |kind: &str, name: &str| json!({"type": kind, "selector": {"exactMatch": {"name": name}}});
        let named = |key: &str| words.get(key).into_iter().flat_map(|list| list.split(','));
        let nodes = named("nodes").map(|name| of("Node", name));
        let members: Vec<Value> = nodes.chain(named("below").map(|name| of("HyperNode", name))).collect();
        let spec = json!({"tier": words.number("tier", 1), "members": members});
        self.snapshot.see(Kind::HyperNode, &json!({"metadata": {"name": words.name}, "spec": spec}));
    }

    fn queue(&mut self, words: &Words) {
        let mut spec = json!({"weight": words.number("weight", 1), "reclaimable": true});
        for bound in ["capability", "deserved"] {
            if let Some(gpus) = words.get(bound) {
                spec[bound] = json!({GPU: gpus});
            }
        }
        let queue = json!({"metadata": {"name": words.name}, "spec": spec, "status": {"state": "Open"}});
        self.snapshot.see(Kind::Queue, &queue);
    }

    fn job(&mut self, words: &Words) {
        let pods = words.number("pods", 1);
        let mut spec = json!({"minMember": words.number("min", pods), "queue": words.get("queue").unwrap_or("default"),
            "priorityClassName": words.get("class").unwrap_or("")});
        if let Some(tier) = words.get("tier") {
            spec["networkTopology"] =
                json!({"mode": "hard", "highestTierAllowed": tier.parse::<i64>().expect("a tier")});
        }
        let group = json!({"metadata": {"name": words.name, "namespace": "d", "uid": words.name,
            "creationTimestamp": time(self.now)}, "spec": spec, "status": {"phase": "Inqueue"}});
        self.snapshot.see(Kind::PodGroup, &group);
        self.groups.insert(words.name.to_owned(), group);
        for index in 0..pods {
            self.pod(&format!("{}-{index}", words.name), words.name, words);
        }
    }

    fn pod(&mut self, name: &str, job: &str, words: &Words) {
        let node = words.get("node");
        let pod = json!({"metadata": {"name": name, "namespace": "d", "uid": name, "creationTimestamp": time(self.now),
                "labels": {"job": job}, "annotations": {"scheduling.k8s.io/group-name": job}},
            "spec": {"schedulerName": words.get("scheduler").unwrap_or("volcano"), "nodeName": node, "containers": [
                {"name": "c", "resources": {"requests": {GPU: words.get("gpus").unwrap_or("1"), "cpu": "1"}}}]},
            "status": {"phase": if node.is_some() { "Running" } else { "Pending" }}});
        self.show(name, pod);
    }

    fn show(&mut self, name: &str, pod: Value) {
        self.snapshot.see(Kind::Pod, &pod);
        self.pods.insert(name.to_owned(), pod);
    }

    fn named(&self, is_meant: impl Fn(&Value) -> bool) -> Vec<String> {
        self.pods.iter().filter(|(_, pod)| is_meant(pod)).map(|(name, _)| name.clone()).collect()
    }

    fn end(&mut self, job: &str) {
        for pod in self.named(|pod| pod["metadata"]["labels"]["job"] == job) {
            self.pods.remove(&pod);
            self.snapshot.forget(Kind::Pod, "d", &pod);
        }
        self.groups.remove(job);
        self.snapshot.forget(Kind::PodGroup, "d", job);
    }

    /// Its controller makes the pod again.
    fn renew(&mut self, name: &str) {
        let mut pod = self.pods[name].clone();
        pod["spec"]["nodeName"] = Value::Null;
        pod["metadata"]["deletionTimestamp"] = Value::Null;
        pod["status"] = json!({"phase": "Pending"});
        self.show(name, pod);
    }

    /// Nothing new comes onto the node, and its pods are made again elsewhere.
    fn drain(&mut self, node: &str) {
        let mut object = self.nodes[node].clone();
        object["spec"]["unschedulable"] = json!(true);
        self.snapshot.see(Kind::Node, &object);
        self.named(|pod| pod["spec"]["nodeName"] == node).iter().for_each(|pod| self.renew(pod));
    }

    fn lose(&mut self, node: &str) {
        self.snapshot.forget(Kind::Node, "", node);
        self.named(|pod| pod["spec"]["nodeName"] == node).iter().for_each(|pod| self.renew(pod));
    }

    /// Pods that were evicted have gone and are made again.
    fn gone(&mut self) {
        self.named(|pod| pod["metadata"]["deletionTimestamp"].is_string()).iter().for_each(|pod| self.renew(pod));
    }

    fn step(&mut self) -> String {
        let placement = place(&mut self.snapshot, Timestamp::from_second(self.now).expect("a time of our days"));
        let told = told(&placement);
        for bind in placement.bind.iter().chain(&placement.nominate) {
            let mut pod = self.pods[&*bind.pod.key.name].clone();
            if placement.bind.contains(bind) {
                pod["spec"]["nodeName"] = json!(*bind.node);
                pod["status"] = json!({"phase": "Running", "startTime": time(self.now)});
            } else {
                pod["status"]["nominatedNodeName"] = json!(*bind.node);
            }
            self.show(&bind.pod.key.name, pod);
        }
        for evict in &placement.evict {
            let mut pod = self.pods[&*evict.pod.key.name].clone();
            pod["metadata"]["deletionTimestamp"] = time(self.now + 30);
            self.show(&evict.pod.key.name, pod);
        }
        told
    }
}

fn told(placement: &Placement) -> String {
    let mut lines: Vec<String> =
        placement.bind.iter().map(|bind| format!("{} goes to {}", bind.pod.key.name, bind.node)).collect();
    lines.extend(placement.domains.iter().map(|(gang, domain)| format!("{} keeps to {domain}", gang.name)));
    lines.extend(placement.evict.iter().map(|evict| {
        format!("{} is evicted for {} ({:?})", evict.pod.key.name, evict.for_gang.name, evict.cause).to_lowercase()
    }));
    lines.extend(placement.waiting.iter().map(|(gang, waiting)| format!("{} waits: {}", gang.name, waiting.on)));
    if lines.is_empty() {
        lines.push("nothing to do".to_owned());
    }
    lines.join("\n") + "\n"
}

fn replay(text: &str) -> String {
    let mut stage = Stage::new();
    let mut out = String::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            out += &format!("{line}\n{}", stage.happen(command));
        } else if line.is_empty() || line.starts_with('#') {
            out += &format!("{line}\n");
        }
    }
    out
}

#[test]
fn every_transcript_tells_what_is_decided() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    let mut paths: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 8);
    for path in paths {
        let written = std::fs::read_to_string(&path).unwrap();
        let decided = replay(&written);
        if std::env::var_os("VOLLEY_UPDATE").is_some() {
            std::fs::write(&path, decided).unwrap();
        } else {
            assert_eq!(written, decided, "{}", path.display());
        }
    }
}
