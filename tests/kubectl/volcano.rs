//! Volcano's kinds as users of kubectl meet them: names and columns, what is filled in, and every refusal, rule by rule.
//!
//! Tables of broken objects go to the server in one `kubectl create --dry-run=server`, which reports each by its name.

use crate::harness::{Space, for_each_kubectl, for_some_kubectls, squeeze};
use crate::http::{get, patch, post};
use serde_json::{Value, json};

const JOBS: &str = "jobs.batch.volcano.sh";

/// Puts `more` over `base`, field by field; lists and plain values are replaced.
pub fn overlaid(mut base: Value, more: &Value) -> Value {
    match (base.as_object_mut(), more.as_object()) {
        (Some(map), Some(more)) => {
            for (key, value) in more {
                let old = map.get(key).cloned().unwrap_or_default();
                map.insert(key.clone(), overlaid(old, value));
            }
            base
        }
        _ => more.clone(),
    }
}

/// One broken object: its name, and parts of the one line in which its faults are told; none for a good object.
pub type Row<'a> = (&'a str, Value, &'a [&'a str]);

/// Sends all objects in one dry run; `whole` makes an object of a row's name and difference.
#[track_caller]
pub fn check_rows(space: &Space, whole: impl Fn(&str, &Value) -> Value, rows: &[Row]) {
    let objects: Vec<Value> = rows.iter().map(|(name, more, _)| whole(name, more)).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let output = space.run_with(&["create", "--dry-run=server", "-f", "-"], &list.to_string());
    let everything = format!("{}\n{}", output.stdout, output.stderr);
    for (name, _, parts) in rows {
        let refused = output.stderr.lines().find(|line| line.contains(&format!("\"{name}\" is invalid: ")));
        if parts.is_empty() {
            let created = output.stdout.lines().any(|line| line.contains(&format!("/{name} created")));
            assert!(created && refused.is_none(), "{name} should be taken:\n{everything}");
        }
        for part in *parts {
            let line = refused.unwrap_or_else(|| panic!("{name} should be refused:\n{everything}"));
            assert!(line.contains(part), "{name}: no {part:?} in {line}");
        }
    }
}

fn template() -> Value {
    json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}})
}

fn task(more: Value) -> Value {
    overlaid(json!({"name": "t", "replicas": 1, "template": template()}), &more)
}

fn job(name: &str, spec: &Value) -> Value {
    let base = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"tasks": [task(json!({}))]}});
    overlaid(base, &json!({ "spec": spec }))
}

fn queue(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec})
}

// API-1, API-2, API-3
#[test]
fn every_kubectl_knows_short_names_and_columns() {
    for_each_kubectl("vcnames", |space| {
        space.apply(&job("a", &json!({"plugins": {"svc": null}})).to_string());
        let group = json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"},
            "spec": {"minMember": 2, "queue": "default"}});
        space.apply(&group.to_string());
        for alias in ["vcjob", "vj", JOBS] {
            let table = squeeze(&space.ok(&["get", alias, "-o", "wide"]));
            assert_eq!(table[0], "NAME  STATUS  MINAVAILABLE  RUNNINGS  AGE  QUEUE");
            assert!(table[1].starts_with("a  ") && table[1].ends_with("  default"), "{table:?}");
        }
        for alias in ["podgroup", "pg", "podgroup-v1beta1"] {
            let table = squeeze(&space.ok(&["get", alias]));
            assert_eq!(table[0], "NAME  STATUS  MINMEMBER  RUNNINGS  AGE");
            // The scheduler lets it in, and counts, when it has seen it.
            assert!(table[1].starts_with("g  "), "{table:?}");
        }
        for alias in ["queue", "q", "queue-v1beta1"] {
            let table = squeeze(&space.ok(&["get", alias, "default"]));
            assert_eq!(table, ["NAME  PARENT", "default  root"]);
        }
        for alias in ["cronvcjob", "cronvj", "commands.bus.volcano.sh"] {
            space.ok(&["get", alias]);
        }
        // The plain names stay those of Kubernetes' own kinds.
        assert!(space.run(&["get", "jobs,cronjobs"]).stderr.starts_with("No resources found"));
        let explained = space.ok(&["explain", "vcjob.spec.tasks.policies"]);
        assert!(
            explained.contains("exitCode\t<integer>") && explained.contains("GROUP:      batch.volcano.sh"),
            "{explained}"
        );
    });
}

// ADM-1, ADM-2, ADM-3, ADM-4, ADM-5, ADM-6, ADM-7, ADM-8
#[test]
fn a_bare_job_is_completed_once() {
    for_some_kubectls("vcfill", |space| {
        let tasks = json!([
            {"replicas": 2, "template": {"spec": {"hostNetwork": true, "containers": [{"name": "c", "image": "i"}]}}},
            {"name": "w", "replicas": 4, "maxRetry": 7, "template": template(),
                "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 1}},
        ]);
        let bare = job("a", &json!({"plugins": {"pytorch": ["--port=1"]}, "tasks": tasks}));
        let dry = space.ok_with(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &bare.to_string());
        assert_eq!(serde_json::from_str::<Value>(&dry).unwrap()["spec"]["queue"], "default");
        assert_eq!(space.apply(&bare.to_string()), "job.batch.volcano.sh/a created\n");
        // kubectl sends the tasks as they were written; the server finds nothing new in them.
        assert_eq!(space.apply(&bare.to_string()), "job.batch.volcano.sh/a configured\n");
        let made = space.json(&["get", "vcjob", "a"]);
        let spec = &made["spec"];
        assert_eq!([&spec["queue"], &spec["schedulerName"]], ["default", "volcano"]);
        assert_eq!((&spec["maxRetry"], &spec["minAvailable"]), (&json!(3), &json!(4)));
        assert_eq!(spec["plugins"], json!({"pytorch": ["--port=1"], "svc": []}));
        let first = &spec["tasks"][0];
        assert_eq!(
            (&first["name"], &first["minAvailable"], &first["maxRetry"]),
            (&json!("default0"), &json!(2), &json!(3))
        );
        assert_eq!(first["template"]["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
        assert_eq!((&spec["tasks"][1]["minAvailable"], &spec["tasks"][1]["maxRetry"]), (&json!(2), &json!(7)));
        assert_eq!(made["metadata"]["generation"], 1);
        let applied = ["apply", "--server-side", "--field-manager=me", "-f", "-"];
        let mine = job("ssa", &json!({"minAvailable": 1}));
        assert_eq!(space.ok_with(&applied, &mine.to_string()), "job.batch.volcano.sh/ssa serverside-applied\n");
        assert_eq!(space.json(&["get", "vj", "ssa"])["spec"]["queue"], "default");
        let mut unnamed = job("", &json!({"plugins": {"svc": []}}));
        unnamed["metadata"] = json!({"generateName": "run-"});
        let created = space.ok_with(&["create", "-f", "-"], &unnamed.to_string());
        assert!(created.starts_with("job.batch.volcano.sh/run-"), "{created}");
    });
}

// ADM-10, ADM-11, ADM-12, ADM-13, ADM-14, ADM-15, ADM-16, ADM-17, ADM-18, ADM-19
#[test]
fn a_job_is_refused_for_every_fault_of_its_numbers_names_policies_and_plugins() {
    let space = Space::new("vcrefused");
    let policies = |list: Value| json!({ "policies": list });
    let one = |more: Value| json!({"tasks": [task(more)]});
    let long = "n".repeat(60);
    let rows: &[Row] = &[
        ("good", json!({}), &[]),
        ("notask", json!({"tasks": []}), &["spec.tasks: Required value: No task specified in job spec"]),
        ("minneg", json!({"minAvailable": -1}), &["spec.minAvailable: Invalid value: -1"]),
        ("retryneg", json!({"maxRetry": -1}), &["spec.maxRetry: Invalid value: -1"]),
        ("ttlneg", json!({"ttlSecondsAfterFinished": -1}), &["spec.ttlSecondsAfterFinished: Invalid value: -1"]),
        ("replneg", one(json!({"replicas": -1})), &["spec.tasks[0].replicas: Invalid value: -1"]),
        ("taskneg", one(json!({"minAvailable": -1})), &["spec.tasks[0].minAvailable: Invalid value: -1"]),
        ("success", json!({"minSuccess": 0}), &["spec.minSuccess: Invalid value: 0"]),
        (
            "minmuch",
            json!({"minAvailable": 2}),
            &[
                "spec.minAvailable: Invalid value: 2: job 'minAvailable' should not be greater than total replicas in tasks",
            ],
        ),
        (
            "taskmuch",
            one(json!({"minAvailable": 2})),
            &["spec.tasks[0].minAvailable: Invalid value: 2: 'minAvailable' is greater than 'replicas' in task: t"],
        ),
        (
            "twice",
            json!({"tasks": [task(json!({})), task(json!({}))]}),
            &["spec.tasks[1].name: Invalid value: \"t\": duplicated task name t"],
        ),
        (
            "tname",
            one(json!({"name": "T_1"})),
            &["spec.tasks[0].name: Invalid value: \"T_1\": spec.tasks[0].name in body should match '^[a-z0-9]"],
        ),
        (
            &long,
            json!({}),
            &[
                "spec.tasks[0].name: Invalid value: \"t\": create pod with name",
                "validate failed name part must be no more than 63",
            ],
        ),
        ("with.dot", json!({}), &[]),
        (
            "svc.dot",
            json!({"plugins": {"svc": []}}),
            &["metadata.name: Invalid value: \"svc.dot\": create job with name svc.dot validate failed"],
        ),
        (
            "neither",
            policies(json!([{"action": "RestartJob"}])),
            &["spec.policies[0]: Required value: either event and exitCode should be specified"],
        ),
        (
            "both",
            policies(json!([{"action": "RestartJob", "event": "PodFailed", "exitCode": 1}])),
            &["spec.policies[0].exitCode: Invalid value: 1: must not specify event and exitCode simultaneously"],
        ),
        (
            "inner",
            policies(json!([{"action": "RestartJob", "event": "OutOfSync"}])),
            &["spec.policies[0].event: Invalid value: \"OutOfSync\": invalid policy event"],
        ),
        (
            "action",
            policies(json!([{"action": "Dance", "exitCode": 3}])),
            &["spec.policies[0].action: Invalid value: \"Dance\": invalid policy action"],
        ),
        (
            "again",
            policies(
                json!([{"action": "RestartJob", "event": "PodFailed"}, {"action": "AbortJob", "events": ["PodFailed"]}]),
            ),
            &["spec.policies[1].event: Invalid value: \"PodFailed\": duplicate event PodFailed"],
        ),
        (
            "any",
            policies(json!([{"action": "RestartJob", "event": "*"}, {"action": "AbortJob", "event": "PodFailed"}])),
            &["spec.policies: Invalid value: \"*\": if there's * here, no other policy should be here"],
        ),
        (
            "zero",
            policies(json!([{"action": "RestartJob", "exitCode": 0}])),
            &["spec.policies[0].exitCode: Invalid value: 0: 0 is not a valid error code"],
        ),
        (
            "codes",
            one(policies(json!([{"action": "RestartJob", "exitCode": 3}, {"action": "AbortJob", "exitCode": 3}]))),
            &["spec.tasks[0].policies[1].exitCode: Invalid value: 3: duplicate exitCode 3"],
        ),
        ("pending", policies(json!([{"action": "RestartJob", "event": "PodPending"}])), &[]),
        (
            "plugin",
            json!({"plugins": {"torch": []}}),
            &["spec.plugins[torch]: Invalid value: \"torch\": unable to find job plugin: torch"],
        ),
        (
            "mpi",
            json!({"plugins": {"mpi": ["--master=m", "--worker=t"]}}),
            &["spec.plugins[mpi]: Invalid value: \"m\": The specified mpi master task was not found"],
        ),
        ("alone", json!({"plugins": {"mpi": ["--master=t"]}}), &[]),
    ];
    check_rows(&space, job, rows);
}

// ADM-20, ADM-21, ADM-22, ADM-23, ADM-24, ADM-25, ADM-26, ADM-27, ADM-28, ADM-29
#[test]
fn a_job_is_refused_for_every_fault_of_its_volumes_templates_queue_and_order() {
    let space = Space::new("vcmore");
    let volumes = |list: Value| json!({ "volumes": list });
    let one = |more: Value| json!({"tasks": [task(more)]});
    let container = |more: Value| {
        one(json!({"template": {"spec": {"containers": [overlaid(json!({"name": "c", "image": "i"}), &more)]}}}))
    };
    let (parent, child) = (format!("{}-p", space.name), format!("{}-c", space.name));
    space.ok_with(&["create", "-f", "-"], &queue(&parent, &json!({})).to_string());
    space.ok_with(&["create", "-f", "-"], &queue(&child, &json!({"parent": parent})).to_string());
    let shut = format!("{}-shut", space.name);
    space.ok_with(&["create", "-f", "-"], &queue(&shut, &json!({})).to_string());
    space.ok(&["patch", "q", &shut, "--subresource=status", "--type=merge", "-p", r#"{"status":{"state":"Closed"}}"#]);
    let waits = |name: &str, other: &str| task(json!({"name": name, "dependsOn": {"name": [other]}}));
    let numa = |cpu: &str| {
        overlaid(
            container(json!({"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}))["tasks"][0].clone(),
            &json!({"topologyPolicy": "restricted"}),
        )
    };
    let parts = |more: Value| {
        one(overlaid(json!({"replicas": 4, "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}), &more))
    };
    let closed = format!("can only submit job to queue with state `Open`, queue `{shut}` status is `Closed`");
    let leaf = format!("can only submit job to leaf queue, queue `{parent}` has 1 child queues");
    let rows: &[Row] = &[
        (
            "mount",
            volumes(json!([{"volumeClaimName": "c"}])),
            &["spec.volumes[0].mountPath: Required value: mountPath is required"],
        ),
        (
            "mounts",
            volumes(json!([{"mountPath": "/a", "volumeClaimName": "c"}, {"mountPath": "/a", "volumeClaimName": "d"}])),
            &["spec.volumes[1].mountPath: Invalid value: \"/a\": duplicated mountPath: /a"],
        ),
        (
            "noclaim",
            volumes(json!([{"mountPath": "/a"}])),
            &["spec.volumes[0]: Required value: either VolumeClaim or VolumeClaimName must be specified"],
        ),
        (
            "claims",
            volumes(
                json!([{"mountPath": "/a", "volumeClaimName": "c", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}]),
            ),
            &[
                "spec.volumes[0].volumeClaimName: Invalid value: \"c\": conflict: If you want to use an existing PVC, just specify VolumeClaimName.",
            ],
        ),
        (
            "claim",
            volumes(json!([{"mountPath": "/a", "volumeClaimName": "C_1"}])),
            &["spec.volumes[0].volumeClaimName: Invalid value: \"C_1\": invalid VolumeClaimName C_1"],
        ),
        (
            "colon",
            volumes(json!([{"mountPath": "/a:b", "volumeClaimName": "c"}])),
            &[
                "spec.volumes[0].mountPath: Invalid value: \"/a:b\": spec.volumes[0].mountPath in body should match '^[^:]+$'",
            ],
        ),
        (
            "pull",
            container(json!({"imagePullPolicy": "Maybe"})),
            &["spec.tasks[0].template.spec.containers[0].imagePullPolicy: Unsupported value: \"Maybe\""],
        ),
        (
            "limits",
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            &[
                "spec.tasks[0].template.spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ],
        ),
        (
            "image",
            container(json!({"image": ""})),
            &["spec.tasks[0].template.spec.containers[0].image: Required value"],
        ),
        (
            "lost",
            json!({"queue": "nowhere"}),
            &[
                "spec.queue: Invalid value: \"nowhere\": unable to find job queue: queues.scheduling.volcano.sh \"nowhere\" not found",
            ],
        ),
        ("root", json!({"queue": "root"}), &["spec.queue: Invalid value: \"root\": can not submit job to root queue"]),
        ("closed", json!({"queue": shut}), &[&closed]),
        ("leaf", json!({"queue": parent}), &[&leaf]),
        ("child", json!({"queue": child}), &[]),
        (
            "order",
            json!({"tasks": [waits("t", "other")]}),
            &["spec.tasks[0].dependsOn.name: Invalid value: \"other\": there is no such task: job has dependencies"],
        ),
        (
            "circle",
            json!({"tasks": [waits("a", "b"), waits("b", "a")]}),
            &[
                "spec.tasks: Invalid value: \"a\": job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)",
            ],
        ),
        (
            "numa",
            json!({"tasks": [numa("1500m")]}),
            &[
                "spec.tasks[0].template.spec.containers[0].resources.requests.cpu: Invalid value: \"1500m\": the cpu request isn't an integer",
            ],
        ),
        ("whole", json!({"tasks": [numa("2")]}), &[]),
        ("parts", parts(json!({})), &[]),
        (
            "partsize",
            parts(json!({"partitionPolicy": {"partitionSize": 0}})),
            &["spec.tasks[0].partitionPolicy.partitionSize: Invalid value: 0"],
        ),
        (
            "partsum",
            parts(json!({"replicas": 5})),
            &[
                "spec.tasks[0].replicas: Invalid value: 5: 'Replicas' are not equal to TotalPartitions*PartitionSize in task: t",
            ],
        ),
        (
            "partmin",
            parts(json!({"minAvailable": 3, "partitionPolicy": {"minPartitions": 1}})),
            &[
                "spec.tasks[0].minAvailable: Invalid value: 3: 'MinAvailable' is not equal to MinPartitions*PartitionSize in task: t",
            ],
        ),
        (
            "tiers",
            overlaid(
                parts(
                    json!({"partitionPolicy": {"networkTopology": {"highestTierAllowed": 1, "highestTierName": "r"}}}),
                ),
                &json!({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "r"}}),
            ),
            &[
                "spec.networkTopology.highestTierName",
                "spec.tasks[0].partitionPolicy.networkTopology.highestTierName: Invalid value: \"r\": must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously",
            ],
        ),
    ];
    check_rows(&space, job, rows);
}

// ADM-30, ADM-31, ADM-32
#[test]
fn only_numbers_and_importance_of_a_job_may_change() {
    for_some_kubectls("vcupdate", |space| {
        space.apply(&job("a", &json!({"plugins": {"svc": []}})).to_string());
        let merge = |patch: &str| space.run(&["patch", "vcjob", "a", "--type=merge", "-p", patch]);
        let scaled = r#"[{"op":"replace","path":"/spec/tasks/0/replicas","value":3},{"op":"replace","path":"/spec/minAvailable","value":2}]"#;
        assert_eq!(space.ok(&["patch", "vcjob", "a", "--type=json", "-p", scaled]), "job.batch.volcano.sh/a patched\n");
        assert_eq!(merge(r#"{"spec":{"priorityClassName":"high"}}"#).code, 0);
        assert_eq!(space.ok(&["label", "vcjob", "a", "x=y"]), "job.batch.volcano.sh/a labeled\n");
        assert_eq!(space.json(&["get", "vcjob", "a"])["metadata"]["generation"], 3);
        let fixed = "Forbidden: job updates may not change fields other than `minAvailable`, `tasks[*].replicas`, `tasks[*].minAvailable`, `priorityClassName` under spec";
        let both = merge(r#"{"spec":{"queue":"other","maxRetry":9}}"#);
        let text = format!("The Job \"a\" is invalid: \n* spec.maxRetry: {fixed}\n* spec.queue: {fixed}\n");
        assert_eq!((both.code, both.stderr), (1, text));
        let much = merge(r#"{"spec":{"minAvailable":9}}"#).stderr;
        assert!(much.contains("spec.minAvailable: Invalid value: 9: job 'minAvailable' should not be greater than total replicas in tasks"), "{much}");
        let gone = merge(r#"{"spec":{"tasks":[]}}"#).stderr;
        assert!(gone.contains("spec.tasks: Forbidden: job updates may not add or remove tasks"), "{gone}");
        let status = r#"{"status":{"state":{"phase":"Running"},"running":2,"minAvailable":2}}"#;
        space.ok(&["patch", "vcjob", "a", "--subresource=status", "--type=merge", "-p", status]);
        let table = squeeze(&space.ok(&["get", "vcjob"]));
        assert!(table[1].starts_with("a  Running  2  2  "), "{table:?}");
    });
}

// ADM-40, ADM-41, ADM-42, ADM-43, ADM-44
#[test]
fn a_queue_is_completed_and_refused_for_every_fault() {
    let space = Space::new("queues");
    let own = |name: &str| format!("{}-{name}", space.name);
    let made = space.ok_with(
        &["create", "-o", "json", "-f", "-"],
        &queue(&own("p"), &json!({"capability": {"cpu": "4"}, "deserved": {"cpu": "2"}})).to_string(),
    );
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!((&made["spec"]["reclaimable"], &made["spec"]["weight"]), (&json!(true), &json!(1)));
    let below = |more: Value| overlaid(json!({"parent": own("p")}), &more);
    let guaranteed = |amount: &str, rest: Value| overlaid(json!({"guarantee": {"resource": {"cpu": amount}}}), &rest);
    let marked = |path: &str, weights: &str| json!({"annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}});
    let whole = |name: &str, more: &Value| match more.get("annotations") {
        Some(_) => overlaid(queue(name, &json!({})), &json!({ "metadata": more })),
        None => queue(name, more),
    };
    let (more, together) = (
        format!("than 4, the capability of queue {}", own("p")),
        format!("children of queue {} have 3 of cpu together, more than its 2", own("p")),
    );
    let rows: &[Row] = &[
        ("vq-good", below(json!({"capability": {"cpu": "4"}})), &[]),
        ("vq-weight", json!({"weight": -1}), &["spec.weight: Invalid value: -1"]),
        (
            "vq-less",
            json!({"capability": {"cpu": "-1"}}),
            &["spec.capability[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        ),
        (
            "vq-lone",
            guaranteed("1", json!({})),
            &["spec.deserved[cpu]: Invalid value: \"<nil>\": deserved[cpu] must be >= guarantee[cpu]=1"],
        ),
        (
            "vq-guar",
            guaranteed("3", json!({"deserved": {"cpu": "2"}})),
            &["spec.deserved[cpu]: Invalid value: \"2\": deserved[cpu]=2 must be >= guarantee[cpu]=3"],
        ),
        (
            "vq-des",
            json!({"deserved": {"cpu": "3"}, "capability": {"cpu": 2}}),
            &["spec.deserved[cpu]: Invalid value: \"3\": deserved[cpu]=3 must be <= capability[cpu]=2"],
        ),
        (
            "vq-half",
            marked("root/a", "1"),
            &["volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights"],
        ),
        ("vq-bare", marked("a", ""), &["every weight must be larger than 0"]),
        ("vq-zero", marked("a/b", "1/0"), &["every weight must be larger than 0"]),
        ("vq-marked", marked("a/b", "1/2"), &[]),
        (
            "vq-self",
            json!({"parent": "vq-self"}),
            &["spec.parent: Invalid value: \"vq-self\": queue vq-self cannot use itself as parent"],
        ),
        ("vq-lost", json!({"parent": "nobody"}), &["spec.parent: Not found: \"nobody\""]),
        ("vq-more", below(json!({"capability": {"cpu": "5"}})), &[&more]),
        ("vq-sum", below(json!({"deserved": {"cpu": "3"}})), &[&together]),
    ];
    check_rows(&space, whole, rows);
    let mut above = own("p");
    for level in 2..=5 {
        let name = own(&format!("l{level}"));
        space.ok_with(&["create", "-f", "-"], &queue(&name, &json!({"parent": above})).to_string());
        above = name;
    }
    let deep = space.fails_with(&["create", "-f", "-"], &queue(&own("l6"), &json!({"parent": above})).to_string());
    assert!(deep.contains("exceeds the maximum allowed depth of 5"), "{deep}");
    let used = own("l5");
    space.ok(&[
        "patch",
        "q",
        &used,
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"allocated":{"pods":"1"}}}"#,
    ]);
    let root = space.fails(&["patch", "q", "root", "--type=merge", "-p", r#"{"spec":{"capability":{"cpu":"1"}}}"#]);
    assert!(root.contains("spec.capability: Forbidden: root queue's resources can not be changed"), "{root}");
}

// ADM-45, QC-1
#[test]
fn queues_that_others_need_stay() {
    for_some_kubectls("vcstay", |space| {
        for name in ["default", "root"] {
            assert_eq!(space.ok(&["get", "queue", name, "-o", "jsonpath={.status.state}"]), "Open");
            let said = space.fails(&["delete", "queue", name]);
            let text = format!(
                "Error from server (Forbidden): queues.scheduling.volcano.sh \"{name}\" is forbidden: `{name}` queue can not be deleted\n"
            );
            assert!(said.ends_with(&text), "{said}");
        }
        let (parent, child) = (format!("{}-p", space.name), format!("{}-c", space.name));
        space.apply(&queue(&parent, &json!({})).to_string());
        space.apply(&queue(&child, &json!({"parent": parent})).to_string());
        let said = space.fails(&["delete", "queue", &parent]);
        assert!(
            said.contains(&format!("queue {parent} can not be deleted because it has 1 child queues: {child}")),
            "{said}"
        );
        space.ok(&["delete", "queue", &child]);
        space.ok(&["delete", "queue", &parent]);
    });
}

// ADM-50, ADM-54, API-4
#[test]
fn groups_and_cron_jobs_are_checked_too() {
    let space = Space::new("vcothers");
    let group = |name: &str, spec: &Value| json!({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec});
    let rows: &[Row] = &[
        ("none", json!({"minMember": 1}), &[]),
        ("lost", json!({"queue": "nowhere"}), &["spec.queue: Invalid value: \"nowhere\": unable to find job queue"]),
        (
            "tiers",
            json!({"networkTopology": {"highestTierAllowed": 1, "highestTierName": "r"}}),
            &[
                "spec.networkTopology.highestTierName: Invalid value: \"r\": must not specify 'highestTierAllowed' and 'highestTierName'",
            ],
        ),
    ];
    check_rows(&space, group, rows);
    let cron = |name: &str, spec: &Value| {
        let template = json!({"spec": {"tasks": [task(json!({}))]}});
        let base = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "CronJob", "metadata": {"name": name}});
        overlaid(base, &json!({"spec": overlaid(json!({"schedule": "@daily", "jobTemplate": template}), spec)}))
    };
    let long = "n".repeat(53);
    let rows: &[Row] = &[
        ("good", json!({"timeZone": "Asia/Seoul"}), &[]),
        ("every", json!({"schedule": "@every 1m"}), &[]),
        ("never", json!({"schedule": ""}), &["spec.schedule: Required value: schedule is required, but got empty"]),
        (
            "often",
            json!({"schedule": "often"}),
            &["spec.schedule: Invalid value: \"often\": schedule is not a valid cron expression"],
        ),
        (
            "zone",
            json!({"schedule": "TZ=UTC 0 0 * * *"}),
            &["spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": schedule should not contain TZ or CRON_TZ"],
        ),
        ("local", json!({"timeZone": "Local"}), &["spec.timeZone: Invalid value: \"Local\""]),
        ("nowhere", json!({"timeZone": "Amerrica/New_York"}), &["spec.timeZone: Invalid value: \"Amerrica/New_York\""]),
        (&long, json!({}), &["metadata.name: Invalid value", "must be no more than 52 characters"]),
        (
            "inside",
            json!({"jobTemplate": {"spec": {"tasks": []}}}),
            &["spec.jobTemplate.spec.tasks: Required value: No task specified in job spec"],
        ),
    ];
    check_rows(&space, cron, rows);
    // A group's status is written with the group, and a status alone is never refused.
    let path = space.group("scheduling.volcano.sh/v1beta1", "podgroups");
    post(&path, &group("g", &json!({"queue": "default"}))).ok();
    let written = patch("merge", &format!("{path}/g"), &json!({"status": {"phase": "Running"}})).ok();
    assert_eq!(written["status"]["phase"], "Running");
    assert_eq!(get(&format!("{path}/g/status")).code, 404);
}
