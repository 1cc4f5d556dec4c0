//! `volley why` on a cluster with pretended nodes and a real one: what it says of a dozen situations, as text and as JSON.

use crate::pretend::pretend_pod;
use crate::{World, eventually, pod};
use serde_json::{Value, json};

impl World {
    fn why(&self, job: &str) -> Value {
        serde_json::from_str(&self.volley(&["why", job, "-o", "json"])).unwrap()
    }

    /// Waits for the answer with this reason; its sentence is part of what people read.
    #[track_caller]
    fn told(&self, job: &str, reason: &str, part: &str) -> Value {
        let answer = eventually(&format!("{job} is told {reason}, not {}", self.why(job)), || {
            Some(self.why(job)).filter(|answer| answer["reason"] == reason)
        });
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(part), "{message}");
        let text = self.volley(&["why", job]);
        assert!(text.contains(part), "{text}");
        answer
    }
}

fn with(mut object: Value, path: &[&str], value: Value) -> Value {
    let last = path.iter().fold(&mut object, |at, key| &mut at[*key]);
    *last = value;
    object
}

/// A batch Job of one pod on a pretended node.
fn job(name: &str, annotations: &Value, spec: &Value) -> Value {
    let mut template = pretend_pod(name, 1, annotations);
    for (key, value) in spec.as_object().unwrap() {
        template["spec"][key] = value.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"backoffLimit": 0,
        "template": {"metadata": {"annotations": annotations}, "spec": template["spec"]}}})
}

#[test]
fn pods_that_wait_are_told_why_and_what_would_help() {
    let nodes = "2x4gpu,label.gpu-model=h100,1x1gpu,name=kept,label.pool=x,taint.dedicated=ml:NoSchedule";
    let world = World::start(&["--no-node", "--pretend-nodes", nodes]);
    for name in ["one", "two"] {
        world.apply(&pretend_pod(name, 4, &json!({})));
        world.until(&["pod", name], |pod| pod["status"]["phase"] == "Running");
    }
    world.told("pod/one", "Running", "1 of 1 pod on pretend-");

    world.apply(&pretend_pod("short", 2, &json!({})));
    let answer = world.told("pod/short", "Room", "needs 2 nvidia.com/gpu together, 0 free");
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!("volley.dev/v1"), &json!("Why")));
    assert_eq!(answer["waitingOn"]["holders"]["first"].as_array().unwrap().len(), 2);
    assert!(answer["unblock"][1].as_str().unwrap().ends_with("--what-if gpus=+2"), "{answer}");
    for (change, starts) in [("gpus=+2", true), ("gpus=+1", false), ("nodes=+1", true), ("without=one", true)] {
        let words = ["why", "short", "--what-if", change, "-o", "json"];
        let answer: Value = serde_json::from_str(&world.volley(&words)).unwrap();
        assert_eq!(answer["whatIf"]["starts"], starts, "{change}: {answer:#}");
    }
    let text = world.volley(&["why", "short", "--what-if", "without=one"]);
    assert!(
        text.ends_with("with without=one: it would start at once on pretend-0\n") || text.contains("on pretend-1"),
        "{text}"
    );
    assert!(
        world
            .refusal(&["why", "short", "--what-if", "without=nobody"])
            .contains("nothing in namespace default is called nobody")
    );
    assert!(world.refusal(&["why", "nobody"]).contains("there is no job or pod `nobody`"));
    assert!(world.refusal(&["why", "shrot"]).contains("did you mean pod/short?"));
    assert!(
        world
            .refusal(&["why", "pod/short", "-n", "team"])
            .contains("pod/short is in namespace `default`: add -n default")
    );
    let past = world.volley(&["why", "short", "--history"]);
    assert!(past.contains("FailedScheduling") && past.contains("needs 2 nvidia.com/gpu together"), "{past}");

    world.apply(&pretend_pod("large", 8, &json!({})));
    world.told("large", "TooLarge", "one pod needs 8 nvidia.com/gpu, the largest node has 4");
    let typo = json!({"gpu-model": "h1oo"});
    world.apply(&with(pretend_pod("typo", 1, &json!({})), &["spec", "nodeSelector"], typo));
    world.told("typo", "NoSuitableNode", "did you mean gpu-model=h100?");
    world.apply(&with(pretend_pod("taint", 1, &json!({})), &["spec", "nodeSelector"], json!({"pool": "x"})));
    world.told(
        "taint",
        "NoSuitableNode",
        "node kept-0 has taint dedicated=ml:NoSchedule; to go there, add to tolerations",
    );
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    world.apply(&with(pretend_pod("claim", 1, &json!({})), &["spec", "volumes"], volumes));
    world.told("claim", "ClaimMissing", "persistentvolumeclaim \"data\" not found");
    world.apply(&with(
        pretend_pod("gated", 1, &json!({})),
        &["spec", "schedulingGates"],
        json!([{"name": "example.com/g"}]),
    ));
    world.told("gated", "Gates", "1 pod");
    no_storage(&world);
    closed_queue(&world);
}

/// A claim whose volume would be made by a driver that tells how large one can be.
fn no_storage(world: &World) {
    let storage = "storage.k8s.io/v1";
    let driver = "local.example.com";
    world.apply(
        &json!({"apiVersion": storage, "kind": "StorageClass", "metadata": {"name": "made"}, "provisioner": driver,
        "volumeBindingMode": "WaitForFirstConsumer"}),
    );
    world.apply(&json!({"apiVersion": storage, "kind": "CSIDriver", "metadata": {"name": driver},
        "spec": {"storageCapacity": true}}));
    let capacity = |size: &str| {
        json!({"apiVersion": storage, "kind": "CSIStorageCapacity", "metadata": {"name": "all"}, "storageClassName": "made",
            "nodeTopology": {}, "capacity": size})
    };
    world.apply(&capacity("5Gi"));
    world.apply(&json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "scratch"},
        "spec": {"storageClassName": "made", "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}}}}));
    let volumes = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "scratch"}}]);
    world.apply(&with(pretend_pod("writes", 0, &json!({})), &["spec", "volumes"], volumes));
    let answer =
        world.told("writes", "NoStorage", "did not have enough free storage; the largest that can be made has 5Gi");
    assert_eq!(answer["unblock"][0], "free storage of class made on a node, or ask for less in claim scratch");
    world.apply(&capacity("20Gi"));
    world.until(&["pvc", "scratch"], |claim| {
        claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].is_string()
    });
}

/// A gang in a queue that takes nobody.
fn closed_queue(world: &World) {
    let group = "scheduling.volcano.sh/v1beta1";
    world
        .apply(&json!({"apiVersion": group, "kind": "Queue", "metadata": {"name": "research"}, "spec": {"weight": 1}}));
    world.apply(&json!({"apiVersion": group, "kind": "PodGroup", "metadata": {"name": "gang"},
        "spec": {"minMember": 1, "queue": "research"}}));
    // After the group: a closed queue takes no new ones.
    world.kubectl(&[
        "patch",
        "queue.scheduling.volcano.sh",
        "research",
        "--subresource=status",
        "--type=merge",
        "-p",
        "{\"status\":{\"state\":\"Closed\"}}",
    ]);
    let annotations = json!({"scheduling.k8s.io/group-name": "gang"});
    world.apply(&with(pretend_pod("member", 1, &annotations), &["spec", "schedulerName"], json!("volcano")));
    let answer = world.told("podgroup/gang", "QueueClosed", "queue research is closed");
    assert_eq!(answer["queue"], "research");
    assert_eq!(answer["unblock"][0], "open it: volley vcqueue operate research -a open");
    let past =
        || serde_json::from_str::<Value>(&world.volley(&["why", "podgroup/gang", "--history", "-o", "json"])).unwrap();
    let reasons = || past()["history"].as_array().unwrap().iter().map(|one| one["reason"].clone()).collect::<Vec<_>>();
    eventually("it is remembered", || reasons().contains(&json!("ClosedQueue")).then_some(()));
    assert!(world.volley(&["why", "podgroup/gang", "--history"]).contains("queue research is closed"));
}

#[test]
fn jobs_are_told_how_they_fare() {
    let world = World::start(&["--no-node", "--pretend-nodes", "1x8gpu"]);
    world.apply(&with(job("held", &json!({}), &json!({})), &["spec", "suspend"], json!(true)));
    world.told("held", "Suspended", "is suspended: spec.suspend is true");
    world.apply(&job("done", &json!({"volley.dev/run-seconds": "0"}), &json!({})));
    world.told("job/done", "Finished", "finished at ");
    world.apply(&job("broken", &json!({"volley.dev/run-seconds": "0", "volley.dev/exit-code": "3"}), &json!({})));
    world.told("broken", "Failed", "ended with exit code 3");
    world.apply(&job("nobody", &json!({}), &json!({"serviceAccountName": "bot"})));
    world.told("nobody", "ServiceAccountMissing", "ServiceAccount bot, which does not exist");
    world.apply(&job("urgent", &json!({}), &json!({"priorityClassName": "urgent"})));
    world.told("urgent", "PriorityClassMissing", "PriorityClass urgent does not exist");
    world.apply(&json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "0"}}}));
    eventually("the quota counts", || {
        world.get(&["resourcequota", "team"])["status"]["hard"].is_object().then_some(())
    });
    world.apply(&job("over", &json!({}), &json!({})));
    world.told("over", "ResourceQuota", "ResourceQuota team refuses its pods: requested requests.nvidia.com/gpu=1");
    world.apply(&crate::job("alone", 2));
    world.told("vcjob/alone", "NoController", "nothing has acted on vcjob alone yet");
}

#[test]
fn real_pods_that_do_not_come_up_are_told_with_the_registrys_words_and_their_last_lines() {
    let world = World::start(&["--gpus", "none"]);
    let mut image = pod("image", "true");
    image["spec"]["containers"] = json!([{"name": "main", "image": "localhost:1/none:1"}]);
    world.apply(&image);
    world.told("image", "Image", "image localhost:1/none:1 of pod image cannot be had: ");
    let mut crash = pod("crash", "echo no torch here; exit 3");
    crash["spec"]["restartPolicy"] = json!("Always");
    world.apply(&crash);
    let answer =
        world.told("crash", "CrashLoop", "container main of pod crash ended with exit code 3 and was restarted");
    assert_eq!(answer["lines"], json!(["no torch here"]));
    assert!(world.volley(&["why", "crash"]).contains("  | no torch here\n"));
}
