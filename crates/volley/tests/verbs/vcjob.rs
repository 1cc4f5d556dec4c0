//! `volley vcjob`, word for word as vcctl's users know it.

use crate::command::{Running, finish};
use crate::{World, job, name};
use serde_json::{Value, json};
use std::fs;

// CLI-1
#[test]
fn a_job_made_of_options_is_the_one_that_vcctl_makes() {
    let world = World::start(&["--no-node"]);
    assert_eq!(world.volley(&["vcjob", "list"]), "No resources found\n");
    assert_eq!(world.volley(&["vcjob", "run", "-N", "first"]), "run job first successfully\n");
    let made = world.get(&["jobs.batch.volcano.sh", "first"]);
    let (spec, task) = (&made["spec"], &made["spec"]["tasks"][0]);
    assert_eq!(
        (&spec["minAvailable"], &spec["schedulerName"], &task["replicas"]),
        (&json!(1), &json!("volcano"), &json!(1))
    );
    assert_eq!(task["template"]["metadata"]["labels"], json!({"job.volcano.sh": "first"}));
    assert_eq!(task["template"]["spec"]["restartPolicy"], "Never");
    let container = &task["template"]["spec"]["containers"][0];
    assert_eq!((&container["name"], &container["image"]), (&json!("first"), &json!("busybox")));
    assert_eq!(container["imagePullPolicy"], "IfNotPresent");
    let amounts = json!({"cpu": "1000m", "memory": "100Mi"});
    assert_eq!(container["resources"], json!({"requests": amounts, "limits": amounts}));

    let words = [
        "vcjob", "run", "-N", "second", "-i", "host", "-r", "3", "-m", "2", "-R", "cpu=1", "-L", "cpu=2", "-S", "other",
    ];
    assert_eq!(
        world.volley(&[&words[..], &["-o", "name", "--", "sleep", "1"]].concat()),
        "job.batch.volcano.sh/second\n"
    );
    let made = world.get(&["jobs.batch.volcano.sh", "second"]);
    let task = &made["spec"]["tasks"][0];
    assert_eq!((&made["spec"]["minAvailable"], &task["replicas"]), (&json!(2), &json!(3)));
    assert_eq!(task["template"]["spec"]["containers"][0]["command"], json!(["sleep", "1"]));

    let day = &made["metadata"]["creationTimestamp"].as_str().unwrap()[..10];
    let expected = format!(
        "Name     Creation       Phase       JobType     Replicas    Min   Pending   Running   Succeeded   Failed    Unknown     RetryCount\n\
         second   {day}                 Batch       3           2     0         0         0           0         0           0\n"
    );
    assert_eq!(world.volley(&["vcjob", "list", "-S", "other"]), expected);
    assert_eq!(world.volley(&["vcjob", "ls", "--selector", "irs", "-o", "name"]), "job.batch.volcano.sh/first\n");
    assert_eq!(world.volley(&["vcjob", "list", "-q", "absent"]), "No resources found\n");
    assert!(world.volley(&["vcjob", "list", "-A"]).starts_with("Namespace   Name     Creation "));
    let listed: Value = serde_json::from_str(&world.volley(&["vcjob", "list", "-o", "json"])).unwrap();
    assert_eq!(listed["items"].as_array().unwrap().iter().map(name).collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(listed["items"][0]["kind"], "Job");

    let told = world.refusal(&["vcjob", "run", "-N", "first"]);
    assert!(told.contains("jobs.batch.volcano.sh \"first\" already exists"), "{told}");
    let told = world.refusal(&["vcjob", "run"]);
    assert!(told.starts_with("error: job name cannot be left blank"), "{told}");
    assert_eq!(world.volley(&["vcjob", "delete", "-N", "first"]), "delete job first successfully\n");
    let told = world.refusal(&["vcjob", "delete", "first"]);
    assert!(told.contains("jobs.batch.volcano.sh \"first\" not found"), "{told}");
    let told = world.refusal(&["vcjob", "delete"]);
    assert!(told.contains("job name is mandatory to delete a particular job"), "{told}");
}

#[test]
fn a_file_is_run_or_refused_with_the_place_of_what_is_wrong() {
    let world = World::start(&["--no-node"]);
    let file = world.path("job.yaml");
    let run = |text: &str, more: &[&str]| {
        fs::write(&file, text).unwrap();
        world.run(&[&["vcjob", "run", "-f", &file], more].concat())
    };
    let (one, two) = (job("one", 1).to_string(), job("two", 1).to_string());
    let both = run(&format!("{one}\n---\n{two}\n"), &[]);
    assert_eq!(both.stdout, "run job one successfully\nrun job two successfully\n", "{}", both.stderr);
    assert_eq!(
        finish(world.command(&["vcjob", "run", "-f", "-", "-N", "three"]), &one).stdout,
        "run job three successfully\n"
    );

    let broken = run("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x\nspec: }\n", &[]);
    assert!(broken.stderr.contains("/job.yaml:4:"), "{}", broken.stderr);
    let mut misspelt = job("four", 1);
    misspelt["spec"]["minAvaliable"] = json!(3);
    let refused = run(&misspelt.to_string(), &[]);
    assert!(refused.stderr.contains("the job in `"), "{}", refused.stderr);
    assert!(refused.stderr.contains("unknown field \"spec.minAvaliable\""), "{}", refused.stderr);
    let mut elsewhere = job("five", 1);
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    let refused = run(&elsewhere.to_string(), &["-n", "default"]);
    assert!(refused.stderr.contains("\"kube-system\" does not match the namespace \"default\""), "{}", refused.stderr);
    assert_eq!(run(&elsewhere.to_string(), &[]).code, 0);
    assert_eq!(world.volley(&["vcjob", "list", "-n", "kube-system", "-o", "name"]), "job.batch.volcano.sh/five\n");
}

// CLI-2
#[test]
fn suspend_and_resume_are_commands_to_the_jobs_controller() {
    let world = World::start(&["--no-node"]);
    world.apply(&job("train", 1));
    let uid = world.get(&["jobs.batch.volcano.sh", "train"])["metadata"]["uid"].clone();
    for (word, action) in [("suspend", "AbortJob"), ("resume", "ResumeJob")] {
        assert_eq!(world.volley(&["vcjob", word, "-N", "train", "-n", "default"]), "");
        let commands = world.get(&["commands.bus.volcano.sh"]);
        let found = commands["items"].as_array().unwrap().iter().find(|command| command["action"] == action).unwrap();
        assert_eq!(found["metadata"]["generateName"], format!("train-{}-", action.to_lowercase()));
        let reference = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": uid,
            "controller": true, "blockOwnerDeletion": true});
        assert_eq!(found["target"], reference);
        assert_eq!(found["metadata"]["ownerReferences"], json!([reference]));
        let told = world.refusal(&["vcjob", word]);
        assert!(told.contains(&format!("job name is mandatory to {word} a particular job")), "{told}");
        let told = world.refusal(&["vcjob", word, "absent"]);
        assert!(told.contains("jobs.batch.volcano.sh \"absent\" not found"), "{told}");
    }
}

#[test]
fn view_shows_the_job_its_pods_and_its_events() {
    let world = World::start(&["--no-node"]);
    world.apply(&job("train", 2));
    let job = world.get(&["jobs.batch.volcano.sh", "train"]);
    let told = world.volley(&["vcjob", "view", "-N", "train"]);
    assert!(told.contains("\nPods:  <none>\nEvents:  <none>\n"), "{told}");
    let mut pod = crate::pod("train-worker-0", "true");
    pod["metadata"]["labels"] = json!({"volcano.sh/job-name": "train"});
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": job["apiVersion"], "kind": "Job", "name": "train", "uid": job["metadata"]["uid"]}]);
    world.apply(&pod);
    world.apply(&json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "train.1", "namespace": "default"},
        "involvedObject": {"kind": "Job", "name": "train", "namespace": "default", "uid": job["metadata"]["uid"]},
        "type": "Warning", "reason": "PodGroupPending", "message": "nothing is free", "source": {"component": "test"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
    }));
    let told = world.volley(&["vcjob", "view", "train"]);
    assert!(told.starts_with("Name:         train\nNamespace:    default\n"), "{told}");
    assert!(told.contains("\n  Min Available:  1\n"), "{told}");
    assert!(told.contains("\n    - Name:  worker\n"), "{told}");
    assert!(
        told.contains(
            "\nPods:\n  NAME             READY   STATUS    RESTARTS   AGE\n  train-worker-0   0/1     Pending "
        ),
        "{told}"
    );
    let events = told.split("\nEvents:\n").nth(1).unwrap();
    let words: Vec<Vec<&str>> = events.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["Type", "Reason", "Age", "From", "Message"]);
    assert_eq!((words[2][0], words[2][1], words[2][3]), ("Warning", "PodGroupPending", "test"));
    assert!(told.ends_with("nothing is free\n"), "{told}");
    assert_eq!(world.volley(&["vcjob", "view", "train", "-o", "name"]), "job.batch.volcano.sh/train\n");
    let shown: Value = serde_json::from_str(&world.volley(&["vcjob", "view", "train", "-o", "json"])).unwrap();
    assert_eq!(shown["metadata"]["uid"], job["metadata"]["uid"]);
}

#[test]
fn delete_waits_until_the_job_is_gone() {
    let world = World::start(&["--no-node"]);
    let mut held = job("held", 1);
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.apply(&held);
    let told = world.refusal(&["vcjob", "delete", "held", "--wait", "--timeout", "1ms"]);
    assert!(told.contains("the job is being deleted, and still is not gone"), "{told}");
    let waiting = Running::start(world.command(&["vcjob", "delete", "held", "--wait"]));
    let free = "{\"metadata\":{\"finalizers\":null}}";
    world.kubectl(&["patch", "jobs.batch.volcano.sh", "held", "--type=merge", "-p", free]);
    // It finds the end of the job, or nothing to delete if the job was gone before it looked.
    waiting.end();
    assert_eq!(world.volley(&["vcjob", "list"]), "No resources found\n");
    world.apply(&job("free", 1));
    assert_eq!(world.volley(&["vcjob", "delete", "free", "--wait"]), "delete job free successfully\n");
    assert_eq!(world.volley(&["vcjob", "list"]), "No resources found\n");
}
