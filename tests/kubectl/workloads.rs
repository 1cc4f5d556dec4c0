//! What the controllers make of workloads, as clients see it. Pods do not run here, so the tests play the node's part.

use crate::harness::{Space, eventually, for_some_kubectls, squeeze};
use crate::http::{delete, get, patch, post, request};
use serde_json::{Value, json};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: 'web:1'}]}
";

fn pods(space: &Space, selector: &str) -> Vec<Value> {
    get(&space.core(&format!("pods?labelSelector={selector}"))).ok()["items"].as_array().unwrap().clone()
}

fn live(space: &Space, selector: &str) -> Vec<Value> {
    pods(space, selector).into_iter().filter(|pod| pod["metadata"].get("deletionTimestamp").is_none()).collect()
}

/// The node's part: the pod runs and is ready.
fn run(space: &Space, pod: &Value) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let now = pod["metadata"]["creationTimestamp"].clone();
    let status = json!({"phase": "Running", "podIP": "10.1.0.9", "podIPs": [{"ip": "10.1.0.9"}], "conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": now}, {"type": "ContainersReady", "status": "True", "lastTransitionTime": now}]});
    patch("merge", &space.core(&format!("pods/{name}/status")), &json!({"status": status}));
}

fn end(space: &Space, pod: &Value, phase: &str) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    let code = i32::from(phase == "Failed");
    let state = json!({"terminated": {"exitCode": code, "reason": "x", "finishedAt": pod["metadata"]["creationTimestamp"], "startedAt": pod["metadata"]["creationTimestamp"]}});
    let status = json!({"phase": phase, "containerStatuses": [{"name": "c", "state": state, "ready": false, "restartCount": 0, "image": "i", "imageID": "", "lastState": {}}]});
    patch("merge", &space.core(&format!("pods/{name}/status")), &json!({"status": status})).ok();
}

/// Runs every pod of a selection until a question is answered.
fn run_until<T>(space: &Space, selector: &str, what: &str, ask: impl Fn() -> Option<T>) -> T {
    eventually(what, || {
        for pod in live(space, selector).iter().filter(|pod| pod["status"]["phase"] == "Pending") {
            run(space, pod);
        }
        ask()
    })
}

fn deployment(space: &Space) -> Value {
    get(&space.group("apps/v1", "deployments/web")).ok()
}

fn available(space: &Space, count: i64) -> Option<Value> {
    let found = deployment(space);
    let status = &found["status"];
    let done = status["observedGeneration"] == found["metadata"]["generation"]
        && status["updatedReplicas"] == count
        && status["availableReplicas"] == count
        && status["replicas"] == count;
    done.then_some(found)
}

// K-DEP-1
#[test]
fn deployments_roll_out_and_back() {
    let space = Space::new("rollout");
    space.apply(DEPLOYMENT);
    let ready = run_until(&space, "app%3Dweb", "two pods are available", || available(&space, 2));
    let condition = |kind: &str| {
        let found =
            ready["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == kind).unwrap().clone();
        format!("{} {}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
    };
    assert_eq!(condition("Available"), "True MinimumReplicasAvailable");
    assert_eq!(condition("Progressing"), "True NewReplicaSetAvailable");
    assert_eq!(space.ok(&["rollout", "status", "deploy/web"]), "deployment \"web\" successfully rolled out\n");
    let sets = get(&space.group("apps/v1", "replicasets")).ok();
    let set = &sets["items"][0];
    let hash = set["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    let annotations = json!({"deployment.kubernetes.io/revision": "1", "deployment.kubernetes.io/desired-replicas": "2", "deployment.kubernetes.io/max-replicas": "3"});
    assert_eq!(set["metadata"]["annotations"], annotations);
    assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "Deployment");
    let status = space.start(&["rollout", "status", "deploy/web", "--timeout=20s"]);
    assert_eq!(status.line(), "deployment \"web\" successfully rolled out");
    space.ok(&["set", "image", "deploy/web", "c=web:2"]);
    run_until(&space, "app%3Dweb", "the new image is out", || available(&space, 2));
    let history = squeeze(&space.ok(&["rollout", "history", "deploy/web"]));
    assert_eq!(history[..4], ["deployment.apps/web", "REVISION  CHANGE-CAUSE", "1  <none>", "2  <none>"]);
    assert_eq!(space.ok(&["rollout", "undo", "deploy/web"]), "deployment.apps/web rolled back\n");
    run_until(&space, "app%3Dweb", "the old image is back", || available(&space, 2));
    assert_eq!(deployment(&space)["spec"]["template"]["spec"]["containers"][0]["image"], "web:1");
    assert_eq!(space.ok(&["rollout", "restart", "deploy/web"]), "deployment.apps/web restarted\n");
    assert_eq!(space.ok(&["rollout", "pause", "deploy/web"]), "deployment.apps/web paused\n");
    assert_eq!(space.ok(&["rollout", "resume", "deploy/web"]), "deployment.apps/web resumed\n");
    run_until(&space, "app%3Dweb", "the restart is out", || available(&space, 2));
    let shown = squeeze(&space.ok(&["get", "deploy", "web"]));
    assert_eq!(shown[0], "NAME  READY  UP-TO-DATE  AVAILABLE  AGE");
    assert!(shown[1].starts_with("web  2/2  2  2  "), "{shown:?}");
}

// K-SUB-1
#[test]
fn every_kubectl_scales() {
    for_some_kubectls("scale", |space| {
        space.apply(&DEPLOYMENT.replace("replicas: 2", "replicas: 1"));
        assert_eq!(space.ok(&["scale", "deploy/web", "--replicas=0"]), "deployment.apps/web scaled\n");
        let scale = get(&space.group("apps/v1", "deployments/web/scale")).ok();
        assert_eq!((&scale["kind"], &scale["apiVersion"]), (&json!("Scale"), &json!("autoscaling/v1")));
        assert_eq!((&scale["spec"], &scale["status"]["selector"]), (&json!({}), &json!("app=web")), "zero is left out");
        let said = space.fails(&["scale", "deploy/web", "--current-replicas=3", "--replicas=1"]);
        assert!(said.contains("Expected replicas to be 3, was 0"), "{said}");
        let said = space.fails(&[
            "patch", "deploy", "web", "--subresource=scale", "--type=merge", "-p", r#"{"spec":{"replicas":-1}}"#,
        ]);
        assert!(said.contains("spec.replicas: Invalid value: -1: must be greater than or equal to 0"), "{said}");
    });
}

// K-DEL-4 K-GC-1 K-GC-3
#[test]
fn deployments_are_deleted_in_three_ways() {
    let space = Space::new("cascade");
    let sets = || get(&space.group("apps/v1", "replicasets")).ok()["items"].as_array().unwrap().clone();
    for cascade in ["background", "foreground", "orphan"] {
        space.apply(DEPLOYMENT);
        eventually("two pods", || (live(&space, "app%3Dweb").len() == 2).then_some(()));
        space.ok(&["delete", "deploy", "web", &format!("--cascade={cascade}")]);
        assert_eq!(get(&space.group("apps/v1", "deployments/web")).code, 404);
        if cascade == "orphan" {
            let left = eventually("the reference goes", || {
                sets().into_iter().find(|set| set["metadata"].get("ownerReferences").is_none())
            });
            assert_eq!(live(&space, "app%3Dweb").len(), 2);
            let name = left["metadata"]["name"].as_str().unwrap();
            space.ok(&["delete", "rs", name]);
        } else if cascade == "foreground" {
            assert!(sets().is_empty(), "dependants went first");
        }
        eventually("everything goes", || (sets().is_empty() && pods(&space, "app%3Dweb").is_empty()).then_some(()));
    }
}

// K-GC-1 K-GC-3
#[test]
fn dependants_follow_their_last_owner() {
    let space = Space::new("owners");
    let make = |name: &str, owners: &[&Value]| {
        let references: Vec<Value> = owners.iter().map(|o| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": o["metadata"]["name"], "uid": o["metadata"]["uid"]})).collect();
        post(&space.core("configmaps"), &json!({"metadata": {"name": name, "ownerReferences": references}})).ok()
    };
    let (one, two) = (make("one", &[]), make("two", &[]));
    make("of-one", &[&one]);
    make("of-both", &[&one, &two]);
    delete(&space.core("configmaps/one")).ok();
    eventually("the dependant goes", || (get(&space.core("configmaps/of-one")).code == 404).then_some(()));
    let both = eventually("the dead reference goes", || {
        let found = get(&space.core("configmaps/of-both")).ok();
        (found["metadata"]["ownerReferences"].as_array().unwrap().len() == 1).then_some(found)
    });
    assert_eq!(both["metadata"]["ownerReferences"][0]["name"], "two");
    let ghost = json!({"metadata": {"name": "ghost", "uid": "00000000-0000-0000-0000-000000000000"}});
    make("of-nobody", &[&ghost]);
    eventually("an owner that never was counts as dead", || {
        (get(&space.core("configmaps/of-nobody")).code == 404).then_some(())
    });
}

fn job(space: &Space, name: &str, more: Value) -> Value {
    let mut spec = json!({"template": {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(&space.group("batch/v1", "jobs"), &json!({"metadata": {"name": name}, "spec": spec})).ok()
}

// K-JOB-2 K-JOB-3 K-JOB-4
#[test]
fn jobs_run_to_completion() {
    let space = Space::new("jobs");
    job(&space, "j", json!({"completions": 2, "parallelism": 2, "completionMode": "Indexed"}));
    let found = eventually("two pods", || Some(pods(&space, "job-name%3Dj")).filter(|pods| pods.len() == 2));
    for (index, pod) in found.iter().enumerate() {
        let name = pod["metadata"]["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("j-{index}-")), "{name}");
        assert_eq!(pod["spec"]["hostname"], format!("j-{index}"));
        assert_eq!(pod["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
        assert_eq!(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"], index.to_string());
        assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"], index.to_string());
        let owner = &pod["metadata"]["ownerReferences"][0];
        assert_eq!(
            (&owner["kind"], &owner["controller"], &owner["blockOwnerDeletion"]),
            (&json!("Job"), &json!(true), &json!(true))
        );
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        assert!(env.iter().any(|e| e["name"] == "JOB_COMPLETION_INDEX"), "{env:?}");
    }
    let status = eventually("active pods", || {
        Some(get(&space.group("batch/v1", "jobs/j")).ok()["status"].clone()).filter(|s| s["active"] == 2)
    });
    assert_eq!((&status["terminating"], &status["uncountedTerminatedPods"]), (&json!(0), &json!({})));
    assert!(status["startTime"].is_string());
    let waiting = space.start(&["wait", "--for=condition=complete", "job/j", "--timeout=20s"]);
    for pod in &found {
        end(&space, pod, "Succeeded");
    }
    assert_eq!(waiting.line(), "job.batch/j condition met");
    assert_eq!(waiting.end(), 0);
    let done = get(&space.group("batch/v1", "jobs/j")).ok()["status"].clone();
    let conditions: Vec<String> = done["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            format!(
                "{} {} {}",
                c["type"].as_str().unwrap(),
                c["reason"].as_str().unwrap(),
                c["message"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        conditions,
        [
            "SuccessCriteriaMet CompletionsReached Reached expected number of succeeded pods",
            "Complete CompletionsReached Reached expected number of succeeded pods"
        ]
    );
    assert_eq!((&done["succeeded"], &done["completedIndexes"]), (&json!(2), &json!("0,1")));
    assert!(done["completionTime"].is_string());
    eventually("the finalizers go", || {
        pods(&space, "job-name%3Dj").iter().all(|pod| pod["metadata"].get("finalizers").is_none()).then_some(())
    });
    let reasons = eventually("the events", || {
        let events = get(&space.core("events?fieldSelector=involvedObject.name%3Dj")).ok();
        let reasons: Vec<String> =
            events["items"].as_array().unwrap().iter().map(|e| e["reason"].as_str().unwrap().to_owned()).collect();
        (reasons.iter().filter(|r| *r == "SuccessfulCreate").count() == 2 && reasons.contains(&"Completed".to_owned()))
            .then_some(events)
    });
    assert!(
        reasons["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|e| e["source"]["component"] == "job-controller" || e["reportingComponent"] == "job-controller")
    );
    let shown = squeeze(&space.ok(&["get", "job", "j"]));
    assert_eq!(shown[0], "NAME  STATUS  COMPLETIONS  DURATION  AGE");
    assert!(shown[1].starts_with("j  Complete  2/2  "), "{shown:?}");
}

// K-JOB-3 K-JOB-5
#[test]
fn jobs_fail_suspend_and_are_mostly_fixed() {
    let space = Space::new("failing");
    job(&space, "f", json!({"backoffLimit": 0}));
    let pod = eventually("a pod", || pods(&space, "job-name%3Df").first().cloned());
    let name = pod["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("f-") && name.len() == 7, "{name}");
    end(&space, &pod, "Failed");
    assert_eq!(space.ok(&["wait", "--for=condition=failed", "job/f", "--timeout=20s"]), "job.batch/f condition met\n");
    let status = get(&space.group("batch/v1", "jobs/f")).ok()["status"].clone();
    let conditions: Vec<String> = status["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            format!(
                "{} {} {}",
                c["type"].as_str().unwrap(),
                c["reason"].as_str().unwrap(),
                c["message"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        conditions,
        [
            "FailureTarget BackoffLimitExceeded Job has reached the specified backoff limit",
            "Failed BackoffLimitExceeded Job has reached the specified backoff limit"
        ]
    );
    assert_eq!((&status["failed"], status.get("completionTime")), (&json!(1), None));
    job(&space, "s", json!({"suspend": true}));
    let status = eventually("the suspension", || {
        Some(get(&space.group("batch/v1", "jobs/s")).ok()["status"].clone())
            .filter(|s| s["conditions"][0]["type"] == "Suspended")
    });
    assert_eq!(
        (&status["conditions"][0]["reason"], &status["conditions"][0]["message"], status.get("startTime")),
        (&json!("JobSuspended"), &json!("Job suspended"), None)
    );
    let path = space.group("batch/v1", "jobs/s");
    let scheduling = json!({"spec": {"parallelism": 1, "template": {"spec": {"nodeSelector": {"a": "b"}}}}});
    assert_eq!(patch("merge", &path, &scheduling).code, 200, "a suspended job's template may be steered");
    for fixed in [
        json!({"spec": {"completions": 5}}),
        json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "other"}]}}}}),
    ] {
        let answer = patch("merge", &path, &fixed);
        assert!(answer.code == 422 && answer.status().2.ends_with("field is immutable"), "{}", answer.body);
    }
}

// K-DEL-4
#[test]
fn a_job_deleted_without_a_policy_leaves_its_pods_and_warns() {
    let space = Space::new("orphaned");
    job(&space, "j", json!({}));
    eventually("a pod", || pods(&space, "job-name%3Dj").first().cloned());
    let answer = delete(&space.group("batch/v1", "jobs/j"));
    let text = r#"299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning""#;
    assert_eq!((answer.code, answer.header("warning")), (200, text));
    eventually("the job goes", || (get(&space.group("batch/v1", "jobs/j")).code == 404).then_some(()));
    assert_eq!(live(&space, "job-name%3Dj").len(), 1);
    job(&space, "k", json!({}));
    eventually("a pod", || pods(&space, "job-name%3Dk").first().cloned());
    space.ok(&["delete", "job", "k"]);
    eventually("kubectl takes the pods along", || pods(&space, "job-name%3Dk").is_empty().then_some(()));
}

// K-SVC-2
#[test]
fn services_get_slices_and_endpoints() {
    let space = Space::new("endpoints");
    let service = json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "None", "selector": {"app": "x"}, "ports": [{"name": "web", "port": 80, "targetPort": 8080}]}});
    post(&space.core("services"), &service).ok();
    eventually("the default account", || (get(&space.core("serviceaccounts/default")).code == 200).then_some(()));
    let pod = json!({"metadata": {"name": "p", "labels": {"app": "x"}}, "spec": {"hostname": "h", "subdomain": "s", "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}});
    run(&space, &post(&space.core("pods"), &pod).ok());
    let slice = eventually("a slice with the pod", || {
        let list =
            get(&space.group("discovery.k8s.io/v1", "endpointslices?labelSelector=kubernetes.io/service-name%3Ds"))
                .ok();
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(|slice| slice["endpoints"][0]["conditions"]["ready"] == true)
            .cloned()
    });
    assert!(slice["metadata"]["name"].as_str().unwrap().starts_with("s-"));
    let labels = &slice["metadata"]["labels"];
    assert_eq!(labels["endpointslice.kubernetes.io/managed-by"], "endpointslice-controller.k8s.io");
    assert_eq!(labels["service.kubernetes.io/headless"], "");
    assert_eq!(slice["metadata"]["ownerReferences"][0]["name"], "s");
    let endpoint = &slice["endpoints"][0];
    assert_eq!(
        (&endpoint["addresses"], &endpoint["hostname"], &endpoint["nodeName"]),
        (&json!(["10.1.0.9"]), &json!("h"), &json!("n1"))
    );
    assert_eq!(endpoint["conditions"], json!({"ready": true, "serving": true, "terminating": false}));
    assert_eq!((&endpoint["targetRef"]["kind"], &endpoint["targetRef"]["name"]), (&json!("Pod"), &json!("p")));
    assert_eq!(slice["ports"], json!([{"name": "web", "port": 8080, "protocol": "TCP"}]));
    let endpoints = eventually("the endpoints", || {
        Some(get(&space.core("endpoints/s")))
            .filter(|answer| answer.code == 200 && answer.json().get("subsets").is_some())
    })
    .json();
    assert_eq!(endpoints["subsets"][0]["addresses"][0]["ip"], "10.1.0.9");
    request("DELETE", &space.core("pods/p?gracePeriodSeconds=0")).send();
}

// K-VOL-1 K-VOL-2
#[test]
fn claims_are_bound() {
    let space = Space::new("claims");
    let claim = |name: &str, class: Value| {
        let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        if !class.is_null() {
            spec["storageClassName"] = class;
        }
        post(&space.core("persistentvolumeclaims"), &json!({"metadata": {"name": name}, "spec": spec})).ok()
    };
    assert_eq!(claim("made", Value::Null)["spec"]["storageClassName"], "standard");
    assert_eq!(
        space.ok(&["wait", "--for=jsonpath={.status.phase}=Bound", "pvc/made", "--timeout=20s"]),
        "persistentvolumeclaim/made condition met\n"
    );
    let bound = get(&space.core("persistentvolumeclaims/made")).ok();
    assert_eq!(bound["metadata"]["annotations"]["pv.kubernetes.io/bind-completed"], "yes");
    let volume = bound["spec"]["volumeName"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/persistentvolumes/{volume}");
    let found = get(&path).ok();
    assert_eq!((&found["spec"]["claimRef"]["name"], &found["status"]["phase"]), (&json!("made"), &json!("Bound")));
    let shown = squeeze(&space.ok(&["get", "pvc", "made"]));
    assert_eq!(shown[0], "NAME  STATUS  VOLUME  CAPACITY  ACCESS MODES  STORAGECLASS  VOLUMEATTRIBUTESCLASS  AGE");
    assert!(shown[1].starts_with(&format!("made  Bound  {volume}  1Gi  RWO  standard  <unset>  ")), "{shown:?}");
    delete(&space.core("persistentvolumeclaims/made")).ok();
    eventually("the volume goes with its claim", || (get(&path).code == 404).then_some(()));
    let name = format!("{}-pv", space.name);
    let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "2Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": space.name, "hostPath": {"path": "/x"}}});
    post("/api/v1/persistentvolumes", &volume).ok();
    claim("fixed", json!(space.name));
    eventually("the static volume is bound", || {
        (get(&space.core("persistentvolumeclaims/fixed")).ok()["spec"]["volumeName"] == name.as_str()).then_some(())
    });
    delete(&space.core("persistentvolumeclaims/fixed")).ok();
    eventually("a retained volume is released", || {
        (get(&format!("/api/v1/persistentvolumes/{name}")).ok()["status"]["phase"] == "Released").then_some(())
    });
}

// K-NS-1
#[test]
fn every_kubectl_deletes_a_namespace_with_all_in_it() {
    for_some_kubectls("whole", |space| {
        let name = format!("{}-inner", space.name);
        space.ok(&["create", "ns", &name]);
        let inner = |plural: &str| format!("/api/v1/namespaces/{name}/{plural}");
        let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
        post(&inner("configmaps"), &held).ok();
        post(&inner("secrets"), &json!({"metadata": {"name": "s"}})).ok();
        let deleting = space.start(&["delete", "ns", &name]);
        let terminating = eventually("the namespace ends", || {
            Some(get(&format!("/api/v1/namespaces/{name}")).ok()).filter(|ns| ns["status"]["phase"] == "Terminating")
        });
        assert!(terminating["metadata"]["deletionTimestamp"].is_string());
        let refused = post(&inner("secrets"), &json!({"metadata": {"name": "late"}}));
        let text = format!(
            "secrets \"late\" is forbidden: unable to create new content in namespace {name} because it is being terminated"
        );
        assert_eq!(refused.status(), (403, "Forbidden".into(), text));
        let cause = &refused.json()["details"]["causes"][0];
        assert_eq!((&cause["reason"], &cause["field"]), (&json!("NamespaceTerminating"), &json!("metadata.namespace")));
        eventually("the secret goes", || (get(&inner("secrets/s")).code == 404).then_some(()));
        patch("merge", &inner("configmaps/held"), &json!({"metadata": {"finalizers": null}})).ok();
        assert_eq!(deleting.end(), 0);
        assert_eq!(get(&format!("/api/v1/namespaces/{name}")).code, 404);
    });
}

// K-POD-DEL-2 K-POD-DEL-3 K-SUB-2
#[test]
fn pods_are_bound_once_and_deleted_gracefully() {
    let space = Space::new("binding");
    eventually("the default account", || (get(&space.core("serviceaccounts/default")).code == 200).then_some(()));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}]}});
    post(&space.core("pods"), &pod).ok();
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "far-away"}});
    let bound = post(&space.core("pods/p/binding"), &binding);
    assert_eq!((bound.code, &bound.json()["status"]), (201, &json!("Success")));
    let found = get(&space.core("pods/p")).ok();
    assert_eq!(found["spec"]["nodeName"], "far-away");
    assert!(
        found["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["type"] == "PodScheduled" && c["status"] == "True"),
        "{found}"
    );
    let again = post(&space.core("pods/p/binding"), &binding);
    let text = "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"far-away\"";
    assert_eq!(again.status(), (409, "Conflict".into(), text.into()));
    let deleting = delete(&space.core("pods/p")).ok();
    assert_eq!((&deleting["metadata"]["deletionGracePeriodSeconds"], &deleting["kind"]), (&json!(30), &json!("Pod")));
    assert!(squeeze(&space.ok(&["get", "pod", "p"]))[1].contains("  Terminating  "));
    let shorter = delete(&space.core("pods/p?gracePeriodSeconds=5")).ok();
    assert_eq!(shorter["metadata"]["deletionGracePeriodSeconds"], 5);
    let longer = delete(&space.core("pods/p?gracePeriodSeconds=60")).ok();
    assert_eq!(longer["metadata"]["deletionGracePeriodSeconds"], 5, "a second deletion can only shorten");
    assert!(space.ok(&["delete", "pod", "p", "--grace-period=0", "--force"]).starts_with("pod \"p\" force deleted"));
    assert_eq!(get(&space.core("pods/p")).code, 404);
}
