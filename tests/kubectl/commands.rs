//! The rest of what people type: describe, label, wait, drain, run, expose, config and so on.

use crate::harness::{Space, eventually, for_each_kubectl, for_some_kubectls, squeeze};
use crate::http::{get, patch, post};
use serde_json::json;

fn ready(space: &Space) {
    let account = space.core("serviceaccounts/default");
    eventually("the default account", || (get(&account).code == 200).then_some(()));
}

const SOME: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: x}}
spec: {schedulerName: nobody, containers: [{name: c, image: 'i:1', ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: x}, ports: [{port: 80}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data: {key: value}
---
apiVersion: v1
kind: Secret
metadata: {name: x}
stringData: {key: value}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec: {replicas: 0, selector: {matchLabels: {app: other}}, template: {metadata: {labels: {app: other}}, spec: {containers: [{name: c, image: i}]}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: v}
spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";

#[test]
fn every_kubectl_describes_the_common_kinds() {
    for_some_kubectls("describe", |space| {
        ready(space);
        space.apply(SOME);
        let event = json!({"metadata": {"name": "e"}, "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": space.name,
            "uid": get(&space.core("pods/p")).ok()["metadata"]["uid"]}, "reason": "Tested", "message": "an event", "type": "Normal",
            "source": {"component": "tester"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1});
        post(&space.core("events"), &event).ok();
        let ns = space.name.clone();
        let expected: &[(&[&str], &[&str])] = &[
            (
                &["pod", "p"],
                &[
                    "Name: p\n", "Service Account: default\n", "Status: Pending\n", "QoS Class: BestEffort\n",
                    "an event",
                ],
            ),
            (&["svc", "s"], &["Name: s\n", "Selector: app=x\n", "Port: <unset> 80/TCP\n", "IP Families: IPv4\n"]),
            (&["job", "j"], &["Name: j\n", "Parallelism: 1\n", "Completions: 1\n"]),
            (&["cm", "m"], &["Name: m\n", "key:\n----\nvalue\n"]),
            (&["secret", "x"], &["Type: Opaque\n", "key: 5 bytes\n"]),
            (&["deploy", "d"], &["Name: d\n", "Replicas: 0 desired", "StrategyType: RollingUpdate\n"]),
            (&["pvc", "v"], &["Name: v\n", "StorageClass: none\n", "Status: Pending\n", "VolumeMode: Filesystem\n"]),
            (&["ns", &ns], &["Status: Active\n", "No resource quota.\n"]),
            (&["sa", "default"], &["Name: default\n"]),
            (&["sc", "standard"], &["IsDefaultClass: Yes\n"]),
        ];
        for (args, texts) in expected {
            // How far the columns are padded differs between versions.
            let described = space.ok(&[&["describe"], *args].concat());
            let described: String =
                described.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n").collect();
            for text in *texts {
                assert!(described.contains(text), "{args:?} should say {text:?}:\n{described}");
            }
        }
        let node = get("/api/v1/nodes").ok()["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
        let described = space.ok(&["describe", "node", &node]);
        assert!(described.contains("Capacity:\n") && described.contains("Conditions:\n"), "{described}");
    });
}

#[test]
fn every_kubectl_labels_and_annotates() {
    for_some_kubectls("label", |space| {
        let annotated = if space.kubectl.minor < 28 { "annotate" } else { "annotated" };
        space.ok(&["create", "configmap", "a"]);
        assert_eq!(space.ok(&["label", "cm", "a", "x=1"]), "configmap/a labeled\n");
        assert!(
            space.fails(&["label", "cm", "a", "x=2"]).contains("'x' already has a value (1), and --overwrite is false")
        );
        assert_eq!(space.ok(&["label", "cm", "a", "x=2", "--overwrite"]), "configmap/a labeled\n");
        assert_eq!(space.ok(&["label", "cm", "a", "x-"]), "configmap/a unlabeled\n");
        assert_eq!(space.ok(&["annotate", "cm", "a", "n=1"]), format!("configmap/a {annotated}\n"));
        assert_eq!(space.ok(&["annotate", "cm", "a", "n-"]), format!("configmap/a {annotated}\n"));
        let metadata = space.json(&["get", "cm", "a"])["metadata"].clone();
        assert_eq!((metadata.get("labels"), metadata.get("annotations")), (None, None));
    });
}

// K-WATCH-4
#[test]
fn every_kubectl_waits() {
    for_each_kubectl("wait", |space| {
        space.ok(&["create", "configmap", "a", "--from-literal=k=1"]);
        let value = space.start(&["wait", "--for=jsonpath={.data.k}=2", "cm/a", "--timeout=20s"]);
        patch("merge", &space.core("configmaps/a"), &json!({"data": {"k": "2"}})).ok();
        assert_eq!(value.line(), "configmap/a condition met");
        assert_eq!(value.end(), 0);
        let gone = space.start(&["wait", "--for=delete", "cm/a", "--timeout=20s"]);
        crate::http::delete(&space.core("configmaps/a")).ok();
        assert_eq!(gone.end(), 0);
        space.ok(&["create", "configmap", "b"]);
        let said = space.fails(&["wait", "--for=condition=Ready", "cm/b", "--timeout=1ms"]);
        assert!(said.contains("timed out waiting for the condition"), "{said}");
    });
}

#[test]
fn every_kubectl_runs_exposes_and_autoscales() {
    for_some_kubectls("run", |space| {
        ready(space);
        assert_eq!(space.ok(&["run", "p", "--image=i", "--labels=app=x", "--port=80", "--env=A=b"]), "pod/p created\n");
        assert_eq!(space.ok(&["expose", "pod", "p", "--port=80", "--target-port=8080"]), "service/p exposed\n");
        assert_eq!(get(&space.core("services/p")).ok()["spec"]["selector"], json!({"app": "x"}));
        space.ok(&["create", "deployment", "d", "--image=i", "--replicas=0"]);
        let printed = space.ok(&["autoscale", "deployment", "d", "--max=3", "--cpu-percent=50"]);
        assert_eq!(printed, "horizontalpodautoscaler.autoscaling/d autoscaled\n");
        let scaler = get(&space.group("autoscaling/v2", "horizontalpodautoscalers/d")).ok();
        assert_eq!(scaler["spec"]["maxReplicas"], 3);
        assert_eq!(
            scaler["spec"]["metrics"][0]["resource"]["target"],
            json!({"type": "Utilization", "averageUtilization": 50})
        );
        let older = get(&space.group("autoscaling/v1", "horizontalpodautoscalers/d")).ok();
        assert_eq!(older["spec"]["targetCPUUtilizationPercentage"], 50);
        space.ok(&["delete", "pod", "p", "--now", "--wait=false"]);
    });
}

#[test]
fn nodes_are_cordoned_tainted_and_drained() {
    let space = Space::new("drain");
    ready(&space);
    let node = space.name.as_str();
    post("/api/v1/nodes", &json!({"metadata": {"name": node}})).ok();
    assert_eq!(space.ok(&["cordon", node]), format!("node/{node} cordoned\n"));
    assert!(squeeze(&space.ok(&["get", "node", node]))[1].contains("SchedulingDisabled"));
    assert_eq!(space.ok(&["uncordon", node]), format!("node/{node} uncordoned\n"));
    assert_eq!(space.ok(&["taint", "node", node, "k=v:NoSchedule"]), format!("node/{node} tainted\n"));
    assert_eq!(space.ok(&["taint", "node", node, "k-"]), format!("node/{node} untainted\n"));
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}});
    post(&space.core("pods"), &pod).ok();
    let drained = space.ok(&["drain", node, "--force", "--timeout=20s"]);
    assert!(
        drained.contains(&format!("evicting pod {}/p\npod/p evicted\nnode/{node} drained\n", space.name)),
        "{drained}"
    );
    assert_eq!(get(&space.core("pods/p")).code, 404);
    let shown = squeeze(&space.ok(&["get", "node", node]));
    assert_eq!(shown[0], "NAME  STATUS  ROLES  AGE  VERSION");
    assert!(shown[1].starts_with(&format!("{node}  Unknown,SchedulingDisabled  <none>  ")), "{shown:?}");
    crate::http::delete(&format!("/api/v1/nodes/{node}")).ok();
}

#[test]
fn the_kubeconfig_is_one_that_config_view_shows() {
    let space = Space::new("config");
    let viewed = space.ok(&["config", "view"]);
    assert!(viewed.starts_with("apiVersion: v1\nclusters:\n- cluster:\n"), "{viewed}");
    assert!(viewed.contains(&format!("    server: https://{}\n", crate::harness::stage().address)), "{viewed}");
    assert!(viewed.contains("DATA+OMITTED") || viewed.contains("REDACTED"), "{viewed}");
    let context = space.ok(&["config", "current-context"]);
    assert!(!context.trim().is_empty());
    assert_eq!(space.ok(&["config", "get-contexts", "-o", "name"]), context);
}
