//! `volley simulate`, as a user types it: own and public traces, two policies side by side, a plot, a live cluster; and the
//! commands of the guides.

use crate::pretend::pretend_pod;
use crate::{World, finish};
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};
use std::{fs, io::Write};

const GUIDE: &str = include_str!("../../../../docs/guides/simulate.md");
const WHY_GUIDE: &str = include_str!("../../../../docs/guides/why.md");

impl World {
    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    fn simulated(&self, arguments: &[&str]) -> Value {
        let words = [&["simulate"], arguments, &["-o", "json"]].concat();
        serde_json::from_str(&self.volley(&words)).unwrap()
    }
}

/// The content of the guide's block that begins with a line that names the file.
fn block<'a>(guide: &'a str, name: &str) -> &'a str {
    let start = guide.find(&format!("# {name}\n")).unwrap_or_else(|| panic!("the guide shows {name}"));
    let rest = &guide[start..];
    &rest[..rest.find("```").unwrap()]
}

/// What the guide says to type: lines that begin with `$ volley`.
fn commands(guide: &str) -> Vec<Vec<&str>> {
    let typed = guide.lines().filter_map(|line| line.strip_prefix("$ volley "));
    typed.map(|line| line.split(" #").next().unwrap().split_whitespace().collect()).collect()
}

#[test]
fn every_command_of_the_guide_works_as_it_shows() {
    let world = World::empty();
    let folder = world.folder.path();
    for name in ["jobs.yaml", "jobs.csv", "fcfs.yaml"] {
        world.file(name, block(GUIDE, name));
    }
    let typed = commands(GUIDE);
    assert!(typed.len() >= 4);
    for words in typed.iter().filter(|words| !words.contains(&"--from-cluster")) {
        let mut command = world.command(words);
        command.current_dir(folder);
        let output = finish(command, "");
        assert_eq!(output.code, 0, "{words:?}: {}", output.stderr);
        if words == &["simulate", "jobs.yaml"] {
            assert!(GUIDE.contains(&output.stdout), "the guide shows\n{}", output.stdout);
        }
    }
    let plot = fs::read_to_string(folder.join("jobs.svg")).unwrap();
    assert!(plot.starts_with("<svg ") && plot.contains("prefers-color-scheme:dark"));
}

#[test]
fn every_command_of_the_guide_to_why_works() {
    let world = World::start(&["--no-node", "--pretend-nodes", "1x8gpu"]);
    world.apply(&pretend_pod("other", 4, &json!({})));
    world.until(&["pod", "other"], |pod| pod["status"]["phase"] == "Running");
    world.kubectl_with(&["apply", "-f", "-"], block(WHY_GUIDE, "train.yaml"));
    for words in commands(WHY_GUIDE).iter().filter(|words| words[0] == "why") {
        let output = world.run(words);
        let is_known = output.code == 0 || output.stderr.contains("has no PodGroup");
        assert!(is_known, "{words:?}: {}", output.stderr);
    }
    let text = world.volley(&["why", "train"]);
    for line in text.lines() {
        let told: String = line.split(" (").next().unwrap().to_owned();
        assert!(WHY_GUIDE.contains(told.trim()), "the guide does not show\n{line}");
    }
    let live = world.simulated(&["--from-cluster"]);
    assert_eq!((&live["format"], &live["jobs"]), (&json!("live cluster"), &json!(2)));
}

#[test]
fn public_traces_and_their_lists_of_machines_are_replayed() {
    let world = World::empty();
    let swf = world.file("a.swf", "; MaxNodes: 2\n; MaxProcs: 8\n1 0 0 100 8 -1 -1 8 200 -1 1 1 1 1 1 1 -1 -1\n2 10 0 50 4 -1 -1 4 60 -1 1 1 1 1 1 1 -1 -1\n");
    let shown = world.simulated(&[&swf]);
    assert_eq!((&shown["format"], &shown["nodes"]), (&json!("Standard Workload Format"), &json!(2)));
    assert_eq!(shown["reports"][0]["all"]["max"], 90);
    assert_eq!(shown["reports"][0]["resource"], "cpu");
    let machines = world.file("machines.csv", "machineId, number of GPUs, single GPU mem\nm0,2,12GB\nm1,8,24GB\n");
    let log = r#"[{"status": "Pass", "vc": "a", "jobid": "x", "user": "u", "submitted_time": "2017-10-07 01:39:22", "attempts": [
        {"start_time": "2017-10-07 01:40:00", "end_time": "2017-10-07 01:50:00", "detail": [{"ip": "m", "gpus": ["0", "1"]}]}]}]"#;
    let philly = world.file("cluster_job_log", log);
    let shown = world.simulated(&[&philly, "--nodes", &machines]);
    assert_eq!((&shown["reports"][0]["total"], &shown["reports"][0]["makespanSeconds"]), (&json!(10), &json!(600)));
    let told = world.refusal(&["simulate", &world.file("bad.csv", "name,submit,duration\na,0,soon\n")]);
    assert!(told.contains("line 2, field duration: `soon` is no time"), "{told}");
    let yaml = world.file("bad.yaml", "nodes: 1x8gpu\njobs:\n- {gpus: 1, duration: 5}\n- {gpus: x, duration: 5}\n");
    assert!(world.refusal(&["simulate", &yaml]).contains("line 4, field gpus: `x` is no whole number"));
    let none = world.file("none.csv", "submit,duration\n0,5\n");
    assert!(world.refusal(&["simulate", &none]).contains("hint: --nodes 64x8gpu"));
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_compressed_trace_is_read_as_if_it_were_not_and_an_archive_is_told() {
    let world = World::empty();
    let text = "submit,duration,gpus\n0,5,8\n1,5,8\n2,5,4\n";
    let plain = world.file("jobs.csv", text);
    let file = world.path("jobs.csv.gz");
    let (first, second) = text.split_at(30);
    let halves = [packed(first.as_bytes()), packed(second.as_bytes())].concat();
    for bytes in [packed(text.as_bytes()), halves] {
        fs::write(&file, bytes).unwrap();
        let shown = world.simulated(&[&file, "--nodes", "1x8gpu"]);
        assert_eq!(shown["jobs"], 3);
        assert_eq!(shown["reports"], world.simulated(&[&plain, "--nodes", "1x8gpu"])["reports"]);
    }
    let whole = packed(text.as_bytes());
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    assert!(world.refusal(&["simulate", &file, "--nodes", "1x8gpu"]).contains("failed to read"));
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_path_with_name(&plain, "jobs.csv").unwrap();
    fs::write(&file, packed(&archive.into_inner().unwrap())).unwrap();
    let told = world.refusal(&["simulate", &file, "--nodes", "1x8gpu"]);
    assert!(told.contains("is no text") && told.contains("unpack it first"), "{told}");
}

#[test]
fn nodes_as_the_openb_trace_writes_them_have_gpus() {
    let world = World::empty();
    let node = |name: &str, gpus: &str| {
        let amounts = format!(
            "{{alibabacloud.com/gpu-count: {gpus}, alibabacloud.com/gpu-milli: '1000', cpu: 64000m, memory: 262144Mi, pods: '1001'}}"
        );
        format!(
            "apiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\nstatus: {{allocatable: {amounts}, capacity: {amounts}}}\n"
        )
    };
    let nodes = world.file("nodes.yaml", &[node("openb-node-0000", "'2'"), node("openb-node-0001", "8")].join("---\n"));
    let pods = world.file("pods.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n\
        openb-pod-0000,12000,16384,8,1000,,LS,Running,0,100,0\n");
    let shown = world.simulated(&[&pods, "--nodes", &nodes]);
    assert_eq!((&shown["nodes"], &shown["reports"][0]["total"]), (&json!(2), &json!(10)));
    assert_eq!(shown["reports"][0]["all"]["started"], 1, "{shown}");
}
