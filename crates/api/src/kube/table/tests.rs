//! What `kubectl get` shows for each kind, column by column.

use super::*;
use crate::kube::time;

fn now() -> Timestamp {
    time::parse("2025-06-01T12:00:00Z").unwrap()
}

/// Adds a name and a creation time five minutes ago, so that every age is `5m`.
fn object(mut body: Value) -> Value {
    let mut metadata = json!({"name": "x", "namespace": "ns", "creationTimestamp": "2025-06-01T11:55:00Z"});
    for (key, value) in body.get("metadata").and_then(Value::as_object).into_iter().flatten() {
        metadata[key] = value.clone();
    }
    body["metadata"] = metadata;
    body
}

fn row(group: &str, kind: &str, body: Value) -> Value {
    let cells = cells(group, kind, &object(body), now());
    assert_eq!(cells.len(), columns(group, kind).len(), "one cell per column of {kind}");
    Value::Array(cells)
}

fn headings(group: &str, kind: &str) -> String {
    let heading = |column: &Column| format!("{}{}", column.name, if column.priority == 1 { "*" } else { "" });
    columns(group, kind).iter().map(heading).collect::<Vec<_>>().join(", ")
}

// K-TAB-1
#[test]
fn columns_are_upstreams_in_upstreams_order() {
    let cases = [
        ("", "Pod", "Name, Ready, Status, Restarts, Age, IP*, Node*, Nominated Node*, Readiness Gates*"),
        ("batch", "Job", "Name, Status, Completions, Duration, Age, Containers*, Images*, Selector*"),
        (
            "batch",
            "CronJob",
            "Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, Containers*, Images*, Selector*",
        ),
        ("apps", "Deployment", "Name, Ready, Up-to-date, Available, Age, Containers*, Images*, Selector*"),
        ("apps", "ReplicaSet", "Name, Desired, Current, Ready, Age, Containers*, Images*, Selector*"),
        ("", "ReplicationController", "Name, Desired, Current, Ready, Age, Containers*, Images*, Selector*"),
        ("apps", "StatefulSet", "Name, Ready, Age, Containers*, Images*"),
        (
            "apps",
            "DaemonSet",
            "Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age, Containers*, Images*, Selector*",
        ),
        ("", "Service", "Name, Type, Cluster-IP, External-IP, Port(s), Age, Selector*"),
        ("", "Endpoints", "Name, Endpoints, Age"),
        ("discovery.k8s.io", "EndpointSlice", "Name, AddressType, Ports, Endpoints, Age"),
        (
            "",
            "Node",
            "Name, Status, Roles, Age, Version, Internal-IP*, External-IP*, OS-Image*, Kernel-Version*, Container-Runtime*",
        ),
        ("", "Namespace", "Name, Status, Age"),
        ("", "ConfigMap", "Name, Data, Age"),
        ("", "Secret", "Name, Type, Data, Age"),
        ("", "ServiceAccount", "Name, Age"),
        ("", "Event", "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*"),
        (
            "events.k8s.io",
            "Event",
            "Last Seen, Type, Reason, Object, Subobject*, Source*, Message, First Seen*, Count*, Name*",
        ),
        (
            "",
            "PersistentVolumeClaim",
            "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, VolumeMode*",
        ),
        (
            "",
            "PersistentVolume",
            "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, VolumeMode*",
        ),
        (
            "storage.k8s.io",
            "StorageClass",
            "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
        ),
        ("scheduling.k8s.io", "PriorityClass", "Name, Value, Global-Default, Age, PreemptionPolicy"),
        ("scheduling.k8s.io", "Workload", "Name, Age"),
        ("", "ResourceQuota", "Name, Request, Limit, Age"),
        ("", "LimitRange", "Name, Created At"),
        ("rbac.authorization.k8s.io", "Role", "Name, Created At"),
        ("rbac.authorization.k8s.io", "RoleBinding", "Name, Role, Age, Users*, Groups*, ServiceAccounts*"),
        ("coordination.k8s.io", "Lease", "Name, Holder, Age"),
        ("policy", "PodDisruptionBudget", "Name, Min Available, Max Unavailable, Allowed Disruptions, Age"),
        ("autoscaling", "HorizontalPodAutoscaler", "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age"),
        ("node.k8s.io", "RuntimeClass", "Name, Handler, Age"),
        ("batch.volcano.sh", "Job", "Name, Created At"),
    ];
    for (group, kind, names) in cases {
        assert_eq!(headings(group, kind), names, "{group}/{kind}");
    }
    let name = columns("", "Pod")[0];
    assert_eq!((name.name, name.kind, name.format, name.priority), ("Name", "string", "name", 0));
    assert_eq!(name.description, "Name of the object.");
    assert_eq!(columns("", "LimitRange")[1].kind, "date");
}

fn pod_row(body: Value) -> [String; 3] {
    let row = row("", "Pod", body);
    [1, 2, 3].map(|index| row[index].as_str().unwrap().to_owned())
}

/// A pod with one container in the given state, and how it shows.
fn check_pod(status: Value, ready: &str, word: &str) {
    let pod = json!({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i1"}, {"name": "i2"}]}, "status": status});
    let [shown_ready, shown_word, _] = pod_row(pod.clone());
    assert_eq!((shown_ready.as_str(), shown_word.as_str()), (ready, word), "{pod}");
}

// K-POD-1 K-POD-2
#[test]
fn a_pod_shows_each_moment_of_its_life() {
    let running = json!({"name": "c", "ready": true, "state": {"running": {"startedAt": "2025-06-01T11:56:00Z"}}});
    let waiting = |reason: &str| json!({"name": "c", "state": {"waiting": {"reason": reason}}});
    let ended =
        |code: i64, reason: &str| json!({"name": "c", "state": {"terminated": {"exitCode": code, "reason": reason}}});
    let scheduled = json!({"type": "PodScheduled", "status": "True"});
    check_pod(json!({"phase": "Pending"}), "0/1", "Pending");
    check_pod(json!({"phase": "Pending", "conditions": [scheduled]}), "0/1", "Pending");
    check_pod(
        json!({"phase": "Pending", "containerStatuses": [waiting("ContainerCreating")]}),
        "0/1",
        "ContainerCreating",
    );
    check_pod(json!({"phase": "Running", "containerStatuses": [running]}), "1/1", "Running");
    check_pod(json!({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}), "0/1", "Completed");
    check_pod(json!({"phase": "Failed", "containerStatuses": [ended(1, "Error")]}), "0/1", "Error");
    check_pod(json!({"phase": "Failed", "containerStatuses": [ended(137, "OOMKilled")]}), "0/1", "OOMKilled");
    check_pod(json!({"phase": "Failed", "containerStatuses": [ended(3, "")]}), "0/1", "ExitCode:3");
    check_pod(
        json!({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}),
        "0/1",
        "CrashLoopBackOff",
    );
    check_pod(
        json!({"phase": "Pending", "containerStatuses": [waiting("ErrImageNeverPull")]}),
        "0/1",
        "ErrImageNeverPull",
    );
    check_pod(json!({"phase": "Failed", "reason": "DeadlineExceeded"}), "0/1", "DeadlineExceeded");
    check_pod(json!({"phase": "Failed", "reason": "Evicted"}), "0/1", "Evicted");
    let gated = json!({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"});
    check_pod(json!({"phase": "Pending", "conditions": [gated]}), "0/1", "SchedulingGated");
}

#[test]
fn init_containers_hold_the_status_until_they_are_done() {
    let main = json!([{"name": "c", "state": {"waiting": {"reason": "PodInitializing"}}}]);
    let done = json!({"name": "i1", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}});
    let with =
        |second: Value| json!({"phase": "Pending", "initContainerStatuses": [done, second], "containerStatuses": main});
    check_pod(with(json!({"name": "i2", "state": {"running": {}}})), "0/1", "Init:1/2");
    check_pod(with(json!({"name": "i2", "state": {"waiting": {"reason": "PodInitializing"}}})), "0/1", "Init:1/2");
    check_pod(
        with(json!({"name": "i2", "state": {"waiting": {"reason": "CrashLoopBackOff"}}})),
        "0/1",
        "Init:CrashLoopBackOff",
    );
    check_pod(
        with(json!({"name": "i2", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}})),
        "0/1",
        "Init:Error",
    );
    check_pod(with(json!({"name": "i2", "state": {"terminated": {"exitCode": 2}}})), "0/1", "Init:ExitCode:2");
    check_pod(
        with(json!({"name": "i2", "state": {"terminated": {"exitCode": 2, "signal": 9}}})),
        "0/1",
        "Init:Signal:9",
    );
    check_pod(with(json!({"name": "i2", "state": {"terminated": {"exitCode": 0}}})), "0/1", "PodInitializing");
}

#[test]
fn the_first_container_that_waits_or_ended_names_the_status() {
    let ended = |code: i64, reason: &str| json!({"state": {"terminated": {"exitCode": code, "reason": reason}}});
    let running = json!({"ready": true, "state": {"running": {}}});
    let word = |statuses: Value, ready: &str| {
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let status = json!({"phase": "Running", "conditions": conditions, "containerStatuses": statuses});
        pod_row(json!({"spec": {"containers": [{}, {}]}, "status": status}))[1].clone()
    };
    assert_eq!(word(json!([ended(1, "Error"), ended(2, "OOMKilled")]), "False"), "Error");
    assert_eq!(word(json!([running, ended(0, "Completed")]), "False"), "NotReady");
    assert_eq!(word(json!([running, ended(0, "Completed")]), "True"), "Running");
    assert_eq!(word(json!([ended(0, "Completed"), ended(1, "Error")]), "False"), "Error");
    assert_eq!(word(json!([running, running]), "True"), "Running");
}

#[test]
fn a_pod_that_is_being_deleted_shows_it_unless_it_has_finished() {
    let with = |phase: &str, reason: &str| {
        let metadata = json!({"deletionTimestamp": "2025-06-01T12:00:30Z"});
        pod_row(json!({"metadata": metadata, "status": {"phase": phase, "reason": reason}}))[1].clone()
    };
    assert_eq!(with("Running", ""), "Terminating");
    assert_eq!(with("Running", "NodeLost"), "Unknown");
    assert_eq!(with("Succeeded", ""), "Succeeded");
}

#[test]
fn restarts_are_summed_and_dated() {
    let container = |count: i64, end: &str| json!({"restartCount": count, "ready": true, "state": {"running": {}}, "lastState": {"terminated": {"finishedAt": end}}});
    let status = json!({
        "phase": "Running",
        "initContainerStatuses": [
            {"name": "i", "restartCount": 7, "state": {"terminated": {"exitCode": 0}}},
            {"name": "side", "restartCount": 1, "started": true, "ready": true, "state": {"running": {}}},
        ],
        "containerStatuses": [container(2, "2025-06-01T11:57:00Z"), container(1, "2025-06-01T11:58:30Z")],
    });
    let spec =
        json!({"containers": [{}, {}], "initContainers": [{"name": "i"}, {"name": "side", "restartPolicy": "Always"}]});
    assert_eq!(pod_row(json!({"spec": spec, "status": status})), ["3/3", "Running", "4 (90s ago)"]);
    assert_eq!(pod_row(json!({}))[2], "0");
    let initialising = json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 7, "state": {"running": {}}}]});
    assert_eq!(pod_row(json!({"spec": spec, "status": initialising})), ["0/3", "Init:0/2", "7"]);
}

// K-TAB-1
#[test]
fn wide_pod_cells_say_where_it_runs() {
    let pod = json!({
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
        "status": {"podIPs": [{"ip": "10.1.0.2"}, {"ip": "fd00::2"}], "conditions": [{"type": "a", "status": "True"}]},
    });
    assert_eq!(row("", "Pod", pod), json!(["x", "0/0", "", "0", "5m", "10.1.0.2", "n1", "<none>", "1/2"]));
    assert_eq!(row("", "Pod", json!({})), json!(["x", "0/0", "", "0", "5m", "<none>", "<none>", "<none>", "<none>"]));
}

#[test]
fn finished_pods_carry_a_row_condition() {
    let of = |phase: &str| row_conditions("", "Pod", &json!({"status": {"phase": phase}}));
    assert_eq!(of("Running"), None);
    let condition = json!({"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."});
    assert_eq!(of("Failed"), Some(json!([condition])));
    assert_eq!(of("Succeeded").unwrap()[0]["reason"], "Succeeded");
    assert_eq!(row_conditions("apps", "Deployment", &json!({"status": {"phase": "Failed"}})), None);
}

fn template() -> Value {
    json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}})
}

#[test]
fn job_rows() {
    let status =
        |conditions: Value| json!({"succeeded": 1, "startTime": "2025-06-01T11:58:00Z", "conditions": conditions});
    let selector = json!({"matchLabels": {"k": "v"}});
    let job =
        json!({"spec": {"completions": 2, "template": template(), "selector": selector}, "status": status(json!([]))});
    assert_eq!(row("batch", "Job", job), json!(["x", "Running", "1/2", "2m", "5m", "a,b", "i:1,j", "k=v"]));
    let word = |conditions: Value| row("batch", "Job", json!({"status": status(conditions)}))[1].clone();
    for kind in ["Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"] {
        assert_eq!(word(json!([{"type": kind, "status": "True"}])), kind);
    }
    assert_eq!(
        word(json!([{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}])),
        "Complete"
    );
    assert_eq!(word(json!([{"type": "Suspended", "status": "False"}])), "Running");
    let deleting = json!({"metadata": {"deletionTimestamp": "2025-06-01T12:00:00Z"}});
    assert_eq!(row("batch", "Job", deleting)[1], "Terminating");
    let done = json!({"spec": {"parallelism": 3}, "status": {"startTime": "2025-06-01T11:00:00Z", "completionTime": "2025-06-01T11:00:07Z"}});
    assert_eq!(row("batch", "Job", done), json!(["x", "Running", "0/1 of 3", "7s", "5m", "", "", "<none>"]));
    assert_eq!(row("batch", "Job", json!({}))[2], "0/1");
    assert_eq!(row("batch", "Job", json!({}))[3], "");
}

#[test]
fn cron_job_rows() {
    let cron = json!({
        "spec": {"schedule": "*/5 * * * *", "suspend": false, "jobTemplate": {"spec": {"template": template()}}},
        "status": {"active": [{}], "lastScheduleTime": "2025-06-01T11:59:50Z"},
    });
    let expected = json!(["x", "*/5 * * * *", "<none>", "False", 1, "10s", "5m", "a,b", "i:1,j", "<none>"]);
    assert_eq!(row("batch", "CronJob", cron), expected);
    assert_eq!(row("batch", "CronJob", json!({"spec": {"timeZone": "Etc/UTC"}}))[2], "Etc/UTC");
    assert_eq!(row("batch", "CronJob", json!({}))[5], "<none>");
}

#[test]
fn rows_of_kinds_with_replicas() {
    let selector =
        json!({"matchLabels": {"k": "v"}, "matchExpressions": [{"key": "l", "operator": "In", "values": ["b", "a"]}]});
    let spec = json!({"replicas": 3, "selector": selector, "template": template()});
    let status = json!({"replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1});
    let body = json!({"spec": spec, "status": status});
    assert_eq!(
        row("apps", "Deployment", body.clone()),
        json!(["x", "2/3", 3, 1, "5m", "a,b", "i:1,j", "k=v,l in (a,b)"])
    );
    assert_eq!(row("apps", "ReplicaSet", body.clone()), json!(["x", 3, 3, 2, "5m", "a,b", "i:1,j", "k=v,l in (a,b)"]));
    assert_eq!(row("apps", "StatefulSet", body), json!(["x", "2/3", "5m", "a,b", "i:1,j"]));
    let controller = json!({"spec": {"replicas": 1, "selector": {"k": "v"}, "template": template()}});
    assert_eq!(row("", "ReplicationController", controller), json!(["x", 1, 0, 0, "5m", "a,b", "i:1,j", "k=v"]));
    let daemon = json!({"spec": {"selector": {"matchLabels": {"k": "v"}}, "template": template()}, "status": {"desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberReady": 1}});
    assert_eq!(row("apps", "DaemonSet", daemon), json!(["x", 1, 1, 1, 0, 0, "<none>", "5m", "a,b", "i:1,j", "k=v"]));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": true}]);
    let revision = json!({"metadata": {"ownerReferences": owner}, "revision": 4});
    assert_eq!(row("apps", "ControllerRevision", revision), json!(["x", "statefulset.apps/web", 4, "5m"]));
}

#[test]
fn autoscaler_rows() {
    let spec = json!({"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "minReplicas": 1, "maxReplicas": 5, "targetCPUUtilizationPercentage": 80});
    let older = json!({"spec": spec, "status": {"currentReplicas": 2}});
    assert_eq!(
        row("autoscaling", "HorizontalPodAutoscaler", older),
        json!(["x", "Deployment/d", "cpu: <unknown>/80%", "1", 5, 2, "5m"])
    );
    let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let pods = json!({"type": "Pods", "pods": {"target": {"type": "AverageValue", "averageValue": "10"}}});
    let external = json!({"type": "External", "external": {"target": {"type": "AverageValue", "averageValue": "30"}}});
    let measured = json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 20}}}]);
    let targets = |metrics: Value| {
        let body = json!({"spec": {"metrics": metrics}, "status": {"currentMetrics": measured}});
        row("autoscaling", "HorizontalPodAutoscaler", body)[2].clone()
    };
    assert_eq!(targets(json!([cpu, pods])), "cpu: 20%/50%, <unknown>/10");
    assert_eq!(targets(json!([cpu, external])), "cpu: 20%/50%, <unknown>/30 (avg)");
    assert_eq!(targets(json!([cpu, pods, external])), "cpu: 20%/50%, <unknown>/10 + 1 more...");
    assert_eq!(targets(json!([])), "<none>");
}

#[test]
fn service_rows() {
    let ports = json!([{"port": 80, "protocol": "TCP"}, {"port": 443, "nodePort": 30443, "protocol": "TCP"}]);
    let service = |spec: Value| row("", "Service", json!({"spec": spec}));
    assert_eq!(
        service(
            json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "ports": ports, "selector": {"b": "2", "a": "1"}})
        ),
        json!(["x", "ClusterIP", "10.0.0.1", "<none>", "80/TCP,443:30443/TCP", "5m", "a=1,b=2"])
    );
    assert_eq!(
        service(json!({"type": "ClusterIP", "clusterIPs": ["None"]})),
        json!(["x", "ClusterIP", "None", "<none>", "<none>", "5m", "<none>"])
    );
    assert_eq!(service(json!({"type": "LoadBalancer", "clusterIP": "10.0.0.2"}))[3], "<pending>");
    assert_eq!(service(json!({"type": "NodePort", "externalIPs": ["1.2.3.4"]}))[3], "1.2.3.4");
    assert_eq!(
        service(json!({"type": "ExternalName", "externalName": "db.example.com"})),
        json!(["x", "ExternalName", "<none>", "db.example.com", "<none>", "5m", "<none>"])
    );
    let balanced = json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"hostname": "h"}, {"ip": "9.9.9.9"}]}}});
    assert_eq!(row("", "Service", balanced)[3], "9.9.9.9,h");
}

#[test]
fn endpoint_rows() {
    let addresses: Vec<Value> = (1..=4).map(|i| json!({"ip": format!("10.0.0.{i}")})).collect();
    let endpoints = |subsets: Value| row("", "Endpoints", json!({"subsets": subsets}))[1].clone();
    assert_eq!(endpoints(json!([])), "<none>");
    assert_eq!(endpoints(json!([{"addresses": &addresses[..1], "ports": [{"port": 80}]}])), "10.0.0.1:80");
    assert_eq!(
        endpoints(json!([{"addresses": addresses, "ports": [{"port": 80}]}])),
        "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 1 more..."
    );
    assert_eq!(endpoints(json!([{"addresses": [{"ip": "fd00::1"}], "ports": [{"port": 80}]}])), "[fd00::1]:80");
    assert_eq!(endpoints(json!([{"addresses": [{"ip": "10.0.0.9"}]}])), "10.0.0.9");
    let slice = json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "any"}, {}], "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}]});
    assert_eq!(
        row("discovery.k8s.io", "EndpointSlice", slice),
        json!(["x", "IPv4", "80,any,*", "10.0.0.1,10.0.0.2", "5m"])
    );
    assert_eq!(row("discovery.k8s.io", "EndpointSlice", json!({}))[2], "<unset>");
}

#[test]
fn ingress_and_policy_rows() {
    let ingress = json!({"spec": {"ingressClassName": "nginx", "rules": [{"host": "a.b"}], "tls": [{}]}});
    assert_eq!(row("networking.k8s.io", "Ingress", ingress), json!(["x", "nginx", "a.b", "", "80, 443", "5m"]));
    assert_eq!(row("networking.k8s.io", "Ingress", json!({})), json!(["x", "<none>", "*", "", "80", "5m"]));
    let class = json!({"spec": {"controller": "c", "parameters": {"apiGroup": "g", "kind": "K", "name": "p"}}});
    assert_eq!(row("networking.k8s.io", "IngressClass", class), json!(["x", "c", "K.g/p", "5m"]));
    assert_eq!(
        row("networking.k8s.io", "NetworkPolicy", json!({"spec": {"podSelector": {}}})),
        json!(["x", "<none>", "5m"])
    );
}

#[test]
fn node_rows() {
    let node = json!({
        "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/control-plane": "", "kubernetes.io/role": "gpu"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "192.168.0.2"}],
            "nodeInfo": {"kubeletVersion": "v1.35.8", "osImage": "Linux", "kernelVersion": "6.1", "containerRuntimeVersion": "volley://1"},
        },
    });
    assert_eq!(
        row("", "Node", node),
        json!([
            "x", "Ready,SchedulingDisabled", "control-plane,gpu,worker", "5m", "v1.35.8", "192.168.0.2", "<none>",
            "Linux", "6.1", "volley://1"
        ])
    );
    assert_eq!(
        row("", "Node", json!({})),
        json!(["x", "Unknown", "<none>", "5m", "", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>"])
    );
    let unready = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
    assert_eq!(row("", "Node", unready)[1], "NotReady");
}

#[test]
fn rows_of_small_kinds() {
    assert_eq!(row("", "Namespace", json!({"status": {"phase": "Active"}})), json!(["x", "Active", "5m"]));
    assert_eq!(
        row("", "ConfigMap", json!({"data": {"a": "", "b": ""}, "binaryData": {"c": ""}})),
        json!(["x", 3, "5m"])
    );
    assert_eq!(row("", "Secret", json!({"type": "Opaque", "data": {"a": ""}})), json!(["x", "Opaque", 1, "5m"]));
    assert_eq!(row("", "ServiceAccount", json!({})), json!(["x", "5m"]));
    assert_eq!(
        row("coordination.k8s.io", "Lease", json!({"spec": {"holderIdentity": "me"}})),
        json!(["x", "me", "5m"])
    );
    assert_eq!(row("node.k8s.io", "RuntimeClass", json!({"handler": "h"})), json!(["x", "h", "5m"]));
    let template = json!({"template": {"metadata": {"labels": {"k": "v"}}, "spec": template()["spec"]}});
    assert_eq!(row("", "PodTemplate", template), json!(["x", "a,b", "i:1,j", "k=v"]));
    let healthy = json!({"conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]});
    assert_eq!(row("", "ComponentStatus", healthy), json!(["x", "Healthy", "ok", ""]));
    assert_eq!(row("", "LimitRange", json!({})), json!(["x", "2025-06-01T11:55:00Z"]));
    assert_eq!(
        row("apiextensions.k8s.io", "CustomResourceDefinition", json!({})),
        json!(["x", "2025-06-01T11:55:00Z"])
    );
    let webhooks = json!({"webhooks": [{}, {}]});
    assert_eq!(row("admissionregistration.k8s.io", "MutatingWebhookConfiguration", webhooks), json!(["x", 2, "5m"]));
}

#[test]
fn event_rows_of_both_groups() {
    let core = json!({
        "type": "Normal", "reason": "Started", "message": " Started container \n", "count": 3,
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.containers{c}"},
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2025-06-01T11:59:00Z", "lastTimestamp": "2025-06-01T11:59:50Z",
    });
    let expected = json!([
        "10s", "Normal", "Started", "pod/p", "spec.containers{c}", "kubelet, n1", "Started container", "60s", 3, "x"
    ]);
    assert_eq!(row("", "Event", core), expected);
    let single = json!({
        "type": "Normal", "reason": "Scheduled", "note": "Assigned", "regarding": {"kind": "Pod", "name": "p"},
        "reportingController": "default-scheduler", "reportingInstance": "h", "eventTime": "2025-06-01T11:59:30.000001Z",
    });
    let expected =
        json!(["29s", "Normal", "Scheduled", "pod/p", "", "default-scheduler, h", "Assigned", "29s", 1, "x"]);
    assert_eq!(row("events.k8s.io", "Event", single.clone()), expected);
    let mut series = single;
    series["series"] = json!({"count": 7, "lastObservedTime": "2025-06-01T11:59:58.000000Z"});
    let row = row("events.k8s.io", "Event", series);
    assert_eq!((&row[0], &row[8]), (&json!("2s"), &json!(7)));
}

// K-VOL-1 K-VOL-2
#[test]
fn storage_rows() {
    let claim = |volume: &str| {
        json!({
            "spec": {"volumeName": volume, "storageClassName": "standard", "volumeMode": "Filesystem"},
            "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"]},
        })
    };
    assert_eq!(
        row("", "PersistentVolumeClaim", claim("pv1")),
        json!(["x", "Bound", "pv1", "1Gi", "RWO,RWX", "standard", "<unset>", "5m", "Filesystem"])
    );
    assert_eq!(row("", "PersistentVolumeClaim", claim(""))[3], "");
    let volume = json!({
        "metadata": {"deletionTimestamp": "2025-06-01T12:00:00Z"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {"namespace": "ns", "name": "c"}, "storageClassName": "standard",
        },
        "status": {"phase": "Bound"},
    });
    assert_eq!(
        row("", "PersistentVolume", volume),
        json!(["x", "1Gi", "RWOP", "Delete", "Terminating", "ns/c", "standard", "<unset>", "", "5m", "<unset>"])
    );
    let class = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}, "provisioner": "p"});
    assert_eq!(
        row("storage.k8s.io", "StorageClass", class),
        json!(["x (default)", "p", "Delete", "Immediate", false, "5m"])
    );
    assert_eq!(row("storage.k8s.io", "CSINode", json!({})), json!(["x", 0, "5m"]));
    let attachment = json!({"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}, "status": {"attached": true}});
    assert_eq!(row("storage.k8s.io", "VolumeAttachment", attachment), json!(["x", "a", "v", "n", true, "5m"]));
}

#[test]
fn rows_of_drivers_and_devices() {
    let driver = json!({"spec": {"podInfoOnMount": true, "volumeLifecycleModes": ["Persistent", "Ephemeral"]}});
    assert_eq!(
        row("storage.k8s.io", "CSIDriver", driver),
        json!(["x", true, true, false, "<unset>", false, "Persistent,Ephemeral", "5m"])
    );
    let capacity = json!({"storageClassName": "fast", "capacity": "1Gi"});
    assert_eq!(row("storage.k8s.io", "CSIStorageCapacity", capacity), json!(["x", "fast", "1Gi"]));
    let state = |body: Value| row("resource.k8s.io", "ResourceClaim", body)[1].clone();
    assert_eq!(state(json!({})), "pending");
    assert_eq!(state(json!({"status": {"allocation": {}, "reservedFor": [{}]}})), "allocated,reserved");
    assert_eq!(state(json!({"metadata": {"deletionTimestamp": "2025-06-01T12:00:00Z"}})), "deleted");
    let slice = json!({"spec": {"nodeName": "n", "driver": "d", "pool": {"name": "p"}}});
    assert_eq!(row("resource.k8s.io", "ResourceSlice", slice), json!(["x", "n", "d", "p", "5m"]));
    assert_eq!(row("resource.k8s.io", "DeviceClass", json!({})), json!(["x", "5m"]));
}

#[test]
fn rows_of_limits_and_bindings() {
    let class = json!({"value": 1000, "globalDefault": true});
    assert_eq!(
        row("scheduling.k8s.io", "PriorityClass", class),
        json!(["x", 1000, true, "5m", "PreemptLowerPriority"])
    );
    let quota = json!({"status": {"hard": {"requests.cpu": "1", "pods": "2", "limits.cpu": "4"}, "used": {"pods": "1", "requests.cpu": "500m"}}});
    assert_eq!(
        row("", "ResourceQuota", quota),
        json!(["x", "pods: 1/2, requests.cpu: 500m/1", "limits.cpu: 0/4", "5m"])
    );
    let budget = json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 1}});
    assert_eq!(row("policy", "PodDisruptionBudget", budget), json!(["x", "50%", "N/A", 1, "5m"]));
    let subjects = json!([
        {"kind": "User", "name": "ann"}, {"kind": "User", "name": "bob"}, {"kind": "Group", "name": "g"},
        {"kind": "ServiceAccount", "name": "s", "namespace": "ns"},
    ]);
    let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "edit"}, "subjects": subjects});
    assert_eq!(
        row("rbac.authorization.k8s.io", "RoleBinding", binding),
        json!(["x", "ClusterRole/edit", "5m", "ann, bob", "g", "ns/s"])
    );
}

// K-TAB-3
#[test]
fn an_object_without_a_creation_time_has_an_unknown_age() {
    assert_eq!(
        cells("", "ServiceAccount", &json!({"metadata": {"name": "x"}}), now()),
        [json!("x"), json!("<unknown>")]
    );
}
