//! `volley logs` of what has been written: ranks, order, excerpts, odd lines.

use crate::{World, job, pod, pod_spec};
use serde_json::{Value, json};

/// A batch Job of three ranks, each of which writes its lines and ends.
fn sweep(script: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sweep"},
        "spec": {"completions": 3, "parallelism": 3, "completionMode": "Indexed", "template": {"spec": pod_spec(script)}},
    })
}

fn is_complete(job: &Value) -> bool {
    job["status"]["succeeded"] == 3
}

/// The lines of one rank, without what stands before them.
fn of<'a>(text: &'a str, label: &str) -> Vec<&'a str> {
    text.lines().filter_map(|line| line.strip_prefix(label)?.trim_start().strip_prefix("| ")).collect()
}

#[test]
fn all_ranks_of_a_job_are_told_in_order_of_time() {
    let world = World::start(&[]);
    let script =
        "for n in 1 2 3 4 5 6 7 8 9; do echo $JOB_COMPLETION_INDEX says $n; sleep 0.0$JOB_COMPLETION_INDEX; done";
    world.apply(&sweep(script));
    world.until(&["job", "sweep"], is_complete);
    let text = world.volley(&["logs", "sweep", "--timestamps"]);
    assert_eq!(text.lines().count(), 27, "{text}");
    let times: Vec<jiff::Timestamp> =
        text.lines().map(|line| line.split_whitespace().nth(2).unwrap().parse().unwrap()).collect();
    assert!(times.is_sorted(), "{text}");
    let plain = world.volley(&["logs", "job/sweep"]);
    for rank in 0..3 {
        let expected: Vec<String> = (1..10).map(|number| format!("{rank} says {number}")).collect();
        assert_eq!(of(&plain, &format!("sweep-{rank}")), expected);
    }

    assert_eq!(of(&world.volley(&["logs", "sweep", "--rank", "1,2", "--tail", "1"]), "sweep-1"), ["1 says 9"]);
    let pods = world.get(&["pods", "-l", "batch.kubernetes.io/job-completion-index=0"]);
    let pod = crate::name(&pods["items"][0]);
    let words = ["logs", "sweep", "--rank", "sweep-0", "--no-prefix"];
    assert_eq!(world.volley(&words), world.kubectl(&["logs", &pod]));
    assert_eq!(world.volley(&["logs", &format!("pod/{pod}")]), world.kubectl(&["logs", &pod]), "a pod needs no prefix");
    assert_eq!(world.volley(&["logs", "sweep", "--since-time", "2100-01-01T00:00:00Z"]), "");
    let told = world.refusal(&["logs", "sweep", "--rank", "7"]);
    assert!(told.contains("job/sweep has no rank `7`\nhint: its ranks are sweep-0, sweep-1, sweep-2"), "{told}");
    let told = world.refusal(&["logs", "sweep", "--previous"]);
    assert!(told.contains("sweep-0 has not been restarted"), "{told}");
}

#[test]
fn ranks_of_a_volcano_job_are_called_by_their_tasks() {
    let world = World::start(&[]);
    let mut train = job("train", 2);
    let master = json!({"name": "master", "replicas": 1, "template": {"spec": pod_spec("true")}});
    train["spec"]["tasks"].as_array_mut().unwrap().insert(0, master);
    world.apply(&train);
    let told = world.refusal(&["logs", "train"]);
    assert!(told.contains("vcjob/train has no pods\nhint: -f waits for them"), "{told}");
    let uid = world.get(&["jobs.batch.volcano.sh", "train"])["metadata"]["uid"].clone();
    for (task, index) in [("worker", 1), ("worker", 0), ("master", 0)] {
        let name = format!("train-{task}-{index}");
        let mut made = pod(&name, &format!("echo I am {task} {index}"));
        made["metadata"]["labels"] = json!({"volcano.sh/job-name": "train", "volcano.sh/task-spec": task,
            "volcano.sh/task-index": index.to_string()});
        made["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid}]);
        world.apply(&made);
        world.until(&["pod", &name], |pod| pod["status"]["phase"] == "Succeeded");
    }
    let expected = "worker-1 | I am worker 1\nworker-0 | I am worker 0\nmaster-0 | I am master 0\n";
    assert_eq!(world.volley(&["logs", "train"]), expected, "they ran one after the other");
    assert_eq!(world.volley(&["logs", "vcjob/train", "--rank", "2"]), "worker-1 | I am worker 1\n");
    assert_eq!(world.volley(&["logs", "vj/train", "--rank", "master"]), "master-0 | I am master 0\n");

    world.apply(&pod("train", "echo another"));
    let told = world.refusal(&["logs", "train"]);
    assert!(told.contains("`train` may be vcjob/train or pod/train in namespace `default`"), "{told}");
}

#[test]
fn odd_lines_come_out_whole() {
    let world = World::start(&[]);
    let script =
        "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo; printf 'a\\rb\\n'; printf '\\377\\n'; printf 'no end'";
    let mut odd = pod("odd", script);
    let second = json!({"name": "second", "image": "host", "command": ["sh", "-c", "echo beside it"]});
    odd["spec"]["containers"].as_array_mut().unwrap().push(second);
    world.apply(&odd);
    world.until(&["pod", "odd"], |pod| pod["status"]["phase"] == "Succeeded");
    let output = world.command(&["logs", "odd", "-c", "main"]).output().unwrap();
    let bytes = output.stdout;
    assert_eq!(bytes.iter().filter(|byte| **byte == b'x').count(), 1_000_000);
    assert!(bytes.ends_with(b"\n\na\rb\n\xff\nno end\n"), "{:?}", &bytes[bytes.len().saturating_sub(40)..]);
    let both = world.command(&["logs", "odd"]).output().unwrap().stdout;
    let both = String::from_utf8_lossy(&both);
    assert!(both.lines().all(|line| line.starts_with("odd/main   | ") || line.starts_with("odd/second | ")), "{both}");
    assert_eq!(of(&both, "odd/second"), ["beside it"]);
}

#[test]
fn a_deployments_pods_are_ranks_too() {
    let world = World::start(&[]);
    let labels = json!({"app": "web"});
    let mut spec = pod_spec("echo up; exec sleep 1000");
    spec["restartPolicy"] = json!("Always");
    world.apply(&json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec}},
    }));
    let text = crate::eventually("both have spoken", || {
        let output = world.run(&["logs", "deploy/web"]);
        (output.stdout.lines().count() == 2).then_some(output.stdout)
    });
    assert!(text.lines().all(|line| line.starts_with("web-") && line.ends_with(" | up")), "{text}");
}
