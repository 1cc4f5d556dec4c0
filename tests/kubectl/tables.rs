//! What `kubectl get` shows: the columns of every kind, and the texts in their cells.

use crate::harness::{Space, squeeze};
use crate::http::{get, patch, post, request};
use serde_json::{Value, json};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// Columns by path; those that only `-o wide` shows are in brackets.
const COLUMNS: &[(&str, &str)] = &[
    ("/api/v1/pods", "Name, Ready, Status, Restarts, Age, [IP], [Node], [Nominated Node], [Readiness Gates]"),
    ("/apis/batch/v1/jobs", "Name, Status, Completions, Duration, Age, [Containers], [Images], [Selector]"),
    (
        "/apis/batch/v1/cronjobs",
        "Name, Schedule, Timezone, Suspend, Active, Last Schedule, Age, [Containers], [Images], [Selector]",
    ),
    ("/apis/apps/v1/deployments", "Name, Ready, Up-to-date, Available, Age, [Containers], [Images], [Selector]"),
    ("/apis/apps/v1/replicasets", "Name, Desired, Current, Ready, Age, [Containers], [Images], [Selector]"),
    ("/api/v1/replicationcontrollers", "Name, Desired, Current, Ready, Age, [Containers], [Images], [Selector]"),
    ("/apis/apps/v1/statefulsets", "Name, Ready, Age, [Containers], [Images]"),
    (
        "/apis/apps/v1/daemonsets",
        "Name, Desired, Current, Ready, Up-to-date, Available, Node Selector, Age, [Containers], [Images], [Selector]",
    ),
    ("/api/v1/services", "Name, Type, Cluster-IP, External-IP, Port(s), Age, [Selector]"),
    ("/api/v1/endpoints", "Name, Endpoints, Age"),
    ("/apis/discovery.k8s.io/v1/endpointslices", "Name, AddressType, Ports, Endpoints, Age"),
    (
        "/api/v1/nodes",
        "Name, Status, Roles, Age, Version, [Internal-IP], [External-IP], [OS-Image], [Kernel-Version], [Container-Runtime]",
    ),
    ("/api/v1/namespaces", "Name, Status, Age"),
    ("/api/v1/configmaps", "Name, Data, Age"),
    ("/api/v1/secrets", "Name, Type, Data, Age"),
    ("/api/v1/serviceaccounts", "Name, Age"),
    (
        "/api/v1/events",
        "Last Seen, Type, Reason, Object, [Subobject], [Source], Message, [First Seen], [Count], [Name]",
    ),
    (
        "/apis/events.k8s.io/v1/events",
        "Last Seen, Type, Reason, Object, [Subobject], [Source], Message, [First Seen], [Count], [Name]",
    ),
    (
        "/api/v1/persistentvolumeclaims",
        "Name, Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, [VolumeMode]",
    ),
    (
        "/api/v1/persistentvolumes",
        "Name, Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age, [VolumeMode]",
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        "Name, Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
    ),
    ("/apis/scheduling.k8s.io/v1/priorityclasses", "Name, Value, Global-Default, Age, PreemptionPolicy"),
    ("/apis/scheduling.k8s.io/v1alpha1/workloads", "Name, Age"),
    ("/api/v1/resourcequotas", "Name, Request, Limit, Age"),
    ("/api/v1/limitranges", "Name, Created At"),
    ("/apis/rbac.authorization.k8s.io/v1/roles", "Name, Created At"),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "Name, Created At"),
    ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "Name, Created At"),
    ("/apis/rbac.authorization.k8s.io/v1/rolebindings", "Name, Role, Age, [Users], [Groups], [ServiceAccounts]"),
    ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "Name, Role, Age, [Users], [Groups], [ServiceAccounts]"),
    ("/apis/coordination.k8s.io/v1/leases", "Name, Holder, Age"),
    ("/apis/policy/v1/poddisruptionbudgets", "Name, Min Available, Max Unavailable, Allowed Disruptions, Age"),
    ("/apis/autoscaling/v2/horizontalpodautoscalers", "Name, Reference, Targets, MinPods, MaxPods, Replicas, Age"),
    ("/apis/node.k8s.io/v1/runtimeclasses", "Name, Handler, Age"),
];

// K-TAB-1 K-TAB-5
#[test]
fn every_kind_has_its_columns() {
    for (path, expected) in COLUMNS {
        let table = request("GET", &format!("{path}?limit=1")).header("Accept", TABLE).send().ok();
        let columns: Vec<String> = table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| {
                if c["priority"] == 0 {
                    c["name"].as_str().unwrap().to_owned()
                } else {
                    format!("[{}]", c["name"].as_str().unwrap())
                }
            })
            .collect();
        assert_eq!(columns.join(", "), *expected, "{path}");
        let cells = table["rows"].as_array().unwrap().first().map(|row| row["cells"].as_array().unwrap().len());
        assert!(cells.is_none_or(|cells| cells == columns.len()), "{path}: cells for all columns");
    }
}

/// The cells of one object, ages left out.
fn cells(path: &str) -> Vec<Value> {
    let table = request("GET", path).header("Accept", TABLE).send().ok();
    let ages: Vec<bool> = table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"] == "Age").collect();
    let cells = table["rows"][0]["cells"].as_array().unwrap().iter().cloned();
    cells.zip(ages).filter(|(_, age)| !age).map(|(cell, _)| cell).collect()
}

fn pod(space: &Space, name: &str, spec: Value, status: Value) -> Vec<Value> {
    let mut spec = spec;
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
    }
    // Nobody but this test schedules or ends these pods.
    spec["schedulerName"] = "nobody".into();
    let path = space.core("pods");
    let account = space.core("serviceaccounts/default");
    crate::harness::eventually("the default account", || (get(&account).code == 200).then_some(()));
    post(&path, &json!({"metadata": {"name": name}, "spec": spec})).ok();
    let item = format!("{path}/{name}");
    patch("merge", &format!("{item}/status"), &json!({"status": status})).ok();
    cells(&item)[1..4].to_vec()
}

fn state(name: &str, state: Value, more: Value) -> Value {
    let mut status = json!({"name": name, "state": state, "ready": false, "restartCount": 0, "image": "i", "imageID": "", "lastState": {}});
    status.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    status
}

// K-TAB-1 K-TAB-3
#[test]
fn pods_show_what_they_are_up_to() {
    let space = Space::new("pods");
    let two = json!({"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]});
    let init = json!({"initContainers": [{"name": "i1", "image": "i"}, {"name": "i2", "image": "i"}]});
    let running =
        |name: &str| state(name, json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}}), json!({"ready": true}));
    let waiting = |reason: &str| state("c", json!({"waiting": {"reason": reason}}), json!({}));
    let ended = |name: &str, reason: &str, code: i64| {
        state(name, json!({"terminated": {"reason": reason, "exitCode": code}}), json!({}))
    };
    let ready = json!([{"type": "Ready", "status": "True"}, {"type": "Initialized", "status": "True"}]);
    let cases: &[(&str, Value, Value, [&str; 3])] = &[
        ("pending", json!({}), json!({}), ["0/1", "Pending", "0"]),
        (
            "creating",
            json!({}),
            json!({"containerStatuses": [waiting("ContainerCreating")]}),
            ["0/1", "ContainerCreating", "0"],
        ),
        (
            "running",
            json!({}),
            json!({"phase": "Running", "conditions": ready, "containerStatuses": [running("c")]}),
            ["1/1", "Running", "0"],
        ),
        (
            "crash",
            json!({}),
            json!({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}),
            ["0/1", "CrashLoopBackOff", "0"],
        ),
        (
            "done",
            json!({}),
            json!({"phase": "Succeeded", "containerStatuses": [ended("c", "Completed", 0)]}),
            ["0/1", "Completed", "0"],
        ),
        (
            "failed",
            json!({}),
            json!({"phase": "Failed", "containerStatuses": [ended("c", "Error", 1)]}),
            ["0/1", "Error", "0"],
        ),
        (
            "killed",
            json!({}),
            json!({"phase": "Failed", "containerStatuses": [ended("c", "", 137)]}),
            ["0/1", "ExitCode:137", "0"],
        ),
        ("evicted", json!({}), json!({"phase": "Failed", "reason": "Evicted"}), ["0/1", "Evicted", "0"]),
        (
            "image",
            json!({}),
            json!({"containerStatuses": [waiting("ImagePullBackOff")]}),
            ["0/1", "ImagePullBackOff", "0"],
        ),
        (
            "half",
            two.clone(),
            json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}], "containerStatuses": [running("c"), ended("d", "Completed", 0)]}),
            ["1/2", "NotReady", "0"],
        ),
        (
            "both",
            two,
            json!({"phase": "Running", "conditions": ready, "containerStatuses": [running("c"), running("d")]}),
            ["2/2", "Running", "0"],
        ),
        (
            "init",
            init.clone(),
            json!({"initContainerStatuses": [ended("i1", "Completed", 0), state("i2", json!({"running": {}}), json!({}))]}),
            ["0/1", "Init:1/2", "0"],
        ),
        ("initfail", init, json!({"initContainerStatuses": [ended("i1", "Error", 1)]}), ["0/1", "Init:Error", "0"]),
    ];
    for (name, spec, status, expected) in cases {
        assert_eq!(pod(&space, name, spec.clone(), status.clone()), expected.map(Value::from), "{name}");
    }
    let row = squeeze(&space.ok(&["get", "pod", "pending", "-o", "wide"]));
    assert_eq!(row[0], "NAME  READY  STATUS  RESTARTS  AGE  IP  NODE  NOMINATED NODE  READINESS GATES");
    assert!(row[1].ends_with("<none>  <none>  <none>  <none>"), "{row:?}");
}

// K-TAB-1
#[test]
fn services_show_addresses_and_ports() {
    let space = Space::new("services");
    let service = |name: &str, spec: Value| {
        post(&space.core("services"), &json!({"metadata": {"name": name}, "spec": spec})).ok();
        cells(&space.core(&format!("services/{name}")))
    };
    let text = |cells: Vec<Value>| cells.iter().map(|c| c.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let plain = text(service(
        "plain",
        json!({"selector": {"a": "b"}, "ports": [{"name": "a", "port": 80}, {"name": "b", "port": 53, "protocol": "UDP"}]}),
    ));
    assert_eq!([&plain[1], &plain[3], &plain[4], &plain[5]], ["ClusterIP", "<none>", "80/TCP,53/UDP", "a=b"]);
    assert!(plain[2].starts_with("10."));
    let headless = text(service("headless", json!({"clusterIP": "None", "ports": [{"port": 80}]})));
    assert_eq!(headless[1..], ["ClusterIP", "None", "<none>", "80/TCP", "<none>"]);
    let node = text(service("node", json!({"type": "NodePort", "ports": [{"port": 443, "nodePort": 30443}]})));
    assert_eq!((node[1].as_str(), node[4].as_str()), ("NodePort", "443:30443/TCP"));
    let balanced = text(service("balanced", json!({"type": "LoadBalancer", "ports": [{"port": 80}]})));
    assert_eq!((balanced[1].as_str(), balanced[3].as_str()), ("LoadBalancer", "<pending>"));
    let outside = text(service("outside", json!({"type": "ExternalName", "externalName": "example.com"})));
    assert_eq!(outside[1..5], ["ExternalName", "<none>", "example.com", "<none>"]);
}

// K-TAB-1
#[test]
fn workloads_show_counts_and_images() {
    let space = Space::new("workloads");
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "j:2"}]}});
    let body = json!({"metadata": {"name": "x"}, "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}});
    post(&space.group("apps/v1", "deployments"), &body).ok();
    let shown = cells(&space.group("apps/v1", "deployments/x"));
    assert_eq!(shown, [json!("x"), json!("0/0"), json!(0), json!(0), json!("c,d"), json!("i:1,j:2"), json!("a=b")]);
    let job = json!({"metadata": {"name": "j"}, "spec": {"suspend": true, "completions": 3, "parallelism": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    post(&space.group("batch/v1", "jobs"), &job).ok();
    crate::harness::eventually("the suspension", || {
        (cells(&space.group("batch/v1", "jobs/j"))[1] == "Suspended").then_some(())
    });
    let shown = cells(&space.group("batch/v1", "jobs/j"));
    assert_eq!(shown[..5], [json!("j"), json!("Suspended"), json!("0/3"), json!(""), json!("c")]);
    let cron = json!({"metadata": {"name": "c"}, "spec": {"schedule": "0 0 1 1 *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": {"template": job["spec"]["template"]}}}});
    post(&space.group("batch/v1", "cronjobs"), &cron).ok();
    let shown = cells(&space.group("batch/v1", "cronjobs/c"));
    assert_eq!(
        shown[..6],
        [json!("c"), json!("0 0 1 1 *"), json!("Etc/UTC"), json!("False"), json!(0), json!("<none>")]
    );
}

// K-TAB-1
#[test]
fn small_kinds_show_their_cells() {
    let space = Space::new("small");
    post(
        &space.core("configmaps"),
        &json!({"metadata": {"name": "m"}, "data": {"a": "1"}, "binaryData": {"b": "AA=="}}),
    )
    .ok();
    assert_eq!(cells(&space.core("configmaps/m")), [json!("m"), json!(2)]);
    post(&space.core("secrets"), &json!({"metadata": {"name": "s"}, "stringData": {"a": "1"}})).ok();
    assert_eq!(cells(&space.core("secrets/s")), [json!("s"), json!("Opaque"), json!(1)]);
    let quota =
        json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "2", "requests.cpu": "1", "limits.cpu": "2"}}});
    post(&space.core("resourcequotas"), &quota).ok();
    let shown = crate::harness::eventually("the quota's status", || {
        Some(cells(&space.core("resourcequotas/q"))).filter(|cells| cells[1] != "")
    });
    assert_eq!(shown, [json!("q"), json!("pods: 0/2, requests.cpu: 0/1"), json!("limits.cpu: 0/2")]);
    let binding = json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [
        {"kind": "User", "name": "u"}, {"kind": "Group", "name": "g"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
    post(&space.group("rbac.authorization.k8s.io/v1", "rolebindings"), &binding).ok();
    assert_eq!(
        cells(&space.group("rbac.authorization.k8s.io/v1", "rolebindings/b")),
        [json!("b"), json!("ClusterRole/view"), json!("u"), json!("g"), json!("n/s")]
    );
    post(
        &space.group("coordination.k8s.io/v1", "leases"),
        &json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
    )
    .ok();
    assert_eq!(cells(&space.group("coordination.k8s.io/v1", "leases/l")), [json!("l"), json!("me")]);
    assert_eq!(cells("/apis/storage.k8s.io/v1/storageclasses/standard")[0], "standard (default)");
    assert_eq!(
        cells("/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical"),
        [json!("system-node-critical"), json!(2_000_001_000), json!(false), json!("PreemptLowerPriority")]
    );
    let pdb = json!({"metadata": {"name": "p"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    post(&space.group("policy/v1", "poddisruptionbudgets"), &pdb).ok();
    assert_eq!(
        cells(&space.group("policy/v1", "poddisruptionbudgets/p")),
        [json!("p"), json!("1"), json!("N/A"), json!(0)]
    );
}

// K-TAB-3 K-TAB-4
#[test]
fn ages_are_human_durations() {
    let space = Space::new("ages");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let event = |name: &str, seconds: u64| {
        let time = timestamp(now - seconds);
        let body = json!({"metadata": {"name": name}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": space.name},
            "reason": "R", "message": " m ", "type": "Normal", "lastTimestamp": time, "firstTimestamp": time});
        post(&space.core("events"), &body).ok();
        cells(&space.core(&format!("events/{name}")))
    };
    for (seconds, expected) in [
        (90, "90s"),
        (150, "2m30s"),
        (300, "5m"),
        (3600, "60m"),
        (3 * 3600 + 120, "3h2m"),
        (30 * 3600, "30h"),
        (3 * 86400, "3d"),
        (400 * 86400, "400d"),
        (1100 * 86400, "3y5d"),
    ] {
        let shown = event(&format!("e{seconds}"), seconds)[0].as_str().unwrap().to_owned();
        // The clock may tick between writing and reading.
        assert!(
            shown == expected || (seconds < 3600 && shown.len() == expected.len() || shown.starts_with(expected)),
            "{seconds}: {shown}"
        );
    }
    let cells = event("whole", 60);
    assert_eq!(cells[1..4], [json!("Normal"), json!("R"), json!("pod/p")]);
    assert_eq!(cells[6], "m");
    let young = squeeze(&space.ok(&["get", "ns", &space.name]));
    assert!(young[1].ends_with('s'), "{young:?}");
}

/// RFC 3339 for a moment, whole seconds, by way of days since the epoch.
fn timestamp(seconds: u64) -> String {
    let (mut days, rest) = (seconds / 86400, seconds % 86400);
    let mut year = 1970;
    let is_leap = |year: u64| (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400);
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}T{:02}:{:02}:{:02}Z", month + 1, days + 1, rest / 3600, rest / 60 % 60, rest % 60)
}
