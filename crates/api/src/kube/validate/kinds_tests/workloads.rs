//! Jobs, cron jobs, deployments, sets.

use super::{check, check_change, job, template, workload};
use serde_json::{Value, json};

// K-JOB-5
#[test]
fn broken_jobs() {
    for (spec, expected) in [
        (
            json!({"parallelism": -1, "completions": -1, "backoffLimit": -1, "activeDeadlineSeconds": -1, "ttlSecondsAfterFinished": -1}),
            &[
                "spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
                "spec.completions: Invalid value: -1: must be greater than or equal to 0",
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0",
            ][..],
        ),
        (
            json!({"template": template()}),
            &[r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#],
        ),
        (
            json!({"selector": {"matchLabels": {"app": "other"}}}),
            &[
                r#"spec.selector: Invalid value: {"matchLabels":{"app":"other","batch.kubernetes.io/controller-uid":"u1"}}: `selector` not auto-generated"#,
                "spec.template.metadata.labels: Invalid value: {…",
            ],
        ),
        (
            json!({"completionMode": "Sorted"}),
            &[r#"spec.completionMode: Unsupported value: "Sorted": supported values: "NonIndexed", "Indexed""#],
        ),
        (
            json!({"completionMode": "Indexed", "parallelism": 2}),
            &["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 1}),
            &[
                "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode",
            ],
        ),
        (
            json!({"completionMode": "Indexed", "completions": 2, "maxFailedIndexes": 3}),
            &[
                "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified",
                "spec.maxFailedIndexes: Invalid value: 3: must be less than or equal to completions",
            ],
        ),
        (
            json!({"podReplacementPolicy": "Always"}),
            &[
                r#"spec.podReplacementPolicy: Unsupported value: "Always": supported values: "Failed", "TerminatingOrFailed""#,
            ],
        ),
        (
            json!({"managedBy": "me"}),
            &[r#"spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")"#],
        ),
    ] {
        check("batch", "Job", job(spec), expected);
    }
    let mut long = job(json!({"completionMode": "Indexed", "completions": 1}));
    long["metadata"] = json!({"name": "a".repeat(63)});
    check(
        "batch",
        "Job",
        long,
        &[&format!(
            r#"metadata.name: Invalid value: "{0}": will not able to create pod with invalid DNS label: {0}-0"#,
            "a".repeat(63)
        )],
    );
}

#[test]
fn broken_job_policies() {
    let failure = |rules: Value| job(json!({"podFailurePolicy": {"rules": rules}}));
    let rule = "spec.podFailurePolicy.rules[0]";
    check(
        "batch",
        "Job",
        failure(json!([{"action": "Stop", "onExitCodes": {"operator": "In", "values": [3, 0, 3]}}])),
        &[
            &format!(
                r#"{rule}.action: Unsupported value: "Stop": supported values: "Count", "FailIndex", "FailJob", "Ignore""#
            ),
            &format!("{rule}.onExitCodes.values: Invalid value: [3,0,3]: must be ordered"),
            &format!("{rule}.onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator"),
            &format!("{rule}.onExitCodes.values[2]: Duplicate value: 3"),
        ],
    );
    check(
        "batch",
        "Job",
        failure(json!([{"action": "FailIndex"}])),
        &[
            &format!("{rule}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required"),
            &format!(r#"{rule}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set"#),
        ],
    );
    check(
        "batch",
        "Job",
        failure(json!([{"onExitCodes": {"containerName": "z", "values": []}}])),
        &[
            &format!(r#"{rule}.action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#),
            &format!(
                r#"{rule}.onExitCodes.containerName: Invalid value: "z": must be one of the container or initContainer names in the pod template"#
            ),
            &format!(r#"{rule}.onExitCodes.operator: Required value: valid values: ["In" "NotIn"]"#),
            &format!("{rule}.onExitCodes.values: Invalid value: []: at least one value is required"),
        ],
    );
    let success =
        |rules: Value| job(json!({"completionMode": "Indexed", "completions": 3, "successPolicy": {"rules": rules}}));
    let rule = "spec.successPolicy.rules[0]";
    check(
        "batch",
        "Job",
        success(json!([{"succeededIndexes": "0-1", "succeededCount": 3}])),
        &[&format!(
            "{rule}.succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)"
        )],
    );
    check(
        "batch",
        "Job",
        success(json!([{"succeededIndexes": "1,5"}])),
        &[&format!(
            r#"{rule}.succeededIndexes: Invalid value: "1,5": error parsing succeededIndexes: too large index: "5""#
        )],
    );
    check(
        "batch",
        "Job",
        success(json!([])),
        &[
            "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy is specified",
        ],
    );
}

// K-JOB-5
#[test]
fn a_job_may_change_in_some_fields_only() {
    let base = || job(json!({"completions": 2, "parallelism": 1}));
    let mutable = job(
        json!({"completions": 2, "parallelism": 5, "suspend": true, "backoffLimit": 1, "activeDeadlineSeconds": 9, "ttlSecondsAfterFinished": 9}),
    );
    check_change("batch", "Job", base(), mutable, &[]);
    let more = job(json!({"completions": 3, "parallelism": 1}));
    check_change("batch", "Job", base(), more, &["spec.completions: Invalid value: 3: field is immutable"]);
    let indexed = |count: u32, parallelism: u32| {
        job(json!({"completionMode": "Indexed", "completions": count, "parallelism": parallelism}))
    };
    check_change("batch", "Job", indexed(2, 2), indexed(3, 3), &[]);
    check_change(
        "batch",
        "Job",
        indexed(2, 2),
        indexed(3, 2),
        &["spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism"],
    );
    let mut image = base();
    image["spec"]["template"]["spec"]["containers"][0]["image"] = "other".into();
    check_change("batch", "Job", base(), image, &["spec.template: Invalid value: {…"]);
}

// K-JOB-5
#[test]
fn a_suspended_job_may_be_rescheduled_until_it_starts() {
    let suspended = || job(json!({"suspend": true}));
    let mut moved = suspended();
    moved["spec"]["template"]["spec"]["nodeSelector"] = json!({"gpu": "yes"});
    moved["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "a", "operator": "Exists"}]);
    moved["spec"]["template"]["metadata"]["annotations"] = json!({"a": "b"});
    check_change("batch", "Job", suspended(), moved.clone(), &[]);
    let mut started = suspended();
    started["status"] = json!({"startTime": "2026-01-01T00:00:00Z"});
    check_change("batch", "Job", started, moved.clone(), &["spec.template: Invalid value: {…"]);
    check_change("batch", "Job", job(json!({})), moved, &["spec.template: Invalid value: {…"]);
}

#[test]
fn broken_cron_jobs() {
    let cron = |spec: Value| {
        let mut object = json!({"spec": {"schedule": "* * * * *", "jobTemplate": job(json!({}))}});
        object["spec"].as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
        object
    };
    for (spec, expected) in [
        (json!({"schedule": ""}), "spec.schedule: Required value"),
        (
            json!({"schedule": "61 * * * *"}),
            r#"spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61"#,
        ),
        (
            json!({"schedule": "TZ=UTC 0 * * * *"}),
            r#"spec.schedule: Invalid value: "TZ=UTC 0 * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#,
        ),
        (json!({"timeZone": ""}), r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#),
        (json!({"timeZone": "a b"}), r#"spec.timeZone: Invalid value: "a b": unknown time zone a b"#),
        (
            json!({"concurrencyPolicy": "Queue"}),
            r#"spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace""#,
        ),
        (
            json!({"startingDeadlineSeconds": -1}),
            "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
        ),
        (
            json!({"jobTemplate": job(json!({"selector": {}}))}),
            "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
        ),
        (
            json!({"jobTemplate": job(json!({"manualSelector": true}))}),
            r#"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#,
        ),
        (
            json!({"jobTemplate": {"spec": {"template": template()}}}),
            r#"spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#,
        ),
    ] {
        check("batch", "CronJob", cron(spec), &[expected]);
    }
    let mut long = cron(json!({}));
    long["metadata"] = json!({"name": "a".repeat(53)});
    check(
        "batch",
        "CronJob",
        long,
        &[&format!(r#"metadata.name: Invalid value: "{}": must be no more than 52 characters"#, "a".repeat(53))],
    );
}

#[test]
fn broken_deployments() {
    let mismatch =
        r#"spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`"#;
    for (more, expected) in [
        (json!({"selector": null}), &["spec.selector: Required value", mismatch][..]),
        (json!({"selector": {}}), &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"]),
        (json!({"selector": {"matchLabels": {"app": "b"}}}), &[mismatch]),
        (json!({"replicas": -1}), &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        (
            json!({"minReadySeconds": 600}),
            &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
        ),
        (
            json!({"strategy": {"type": "Foo"}}),
            &[
                r#"spec.strategy: Unsupported value: {"Type":"Foo","RollingUpdate":null}: supported values: "Recreate", "RollingUpdate""#,
            ],
        ),
        (
            json!({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}),
            &["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}}),
            &[r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0"#],
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxUnavailable": "120%"}}}),
            &[r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "120%": must not be greater than 100%"#],
        ),
        (
            json!({"strategy": {"rollingUpdate": {"maxSurge": "x"}}}),
            &[
                r#"spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"#,
            ],
        ),
    ] {
        check("apps", "Deployment", workload(more), expected);
    }
    let mut never = workload(json!({}));
    never["spec"]["template"]["spec"]["restartPolicy"] = "Never".into();
    never["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(5);
    check(
        "apps",
        "Deployment",
        never,
        &[
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported",
            r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
        ],
    );
    let mut other = workload(json!({"selector": {"matchLabels": {"app": "b"}}}));
    other["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    let expected = r#"spec.selector: Invalid value: {"matchLabels":{"app":"b"}}: field is immutable"#;
    for kind in ["Deployment", "ReplicaSet", "DaemonSet"] {
        check_change("apps", kind, workload(json!({})), other.clone(), &[expected]);
    }
}

#[test]
fn broken_sets() {
    check(
        "apps",
        "DaemonSet",
        workload(json!({"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}})),
        &[
            "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero",
        ],
    );
    check(
        "apps",
        "DaemonSet",
        workload(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 0}}})),
        &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
    );
    check(
        "apps",
        "StatefulSet",
        workload(json!({"podManagementPolicy": "Any", "serviceName": "A"})),
        &[
            r#"spec.podManagementPolicy: Invalid value: "Any": must be 'OrderedReady' or 'Parallel'"#,
            r#"spec.serviceName: Invalid value: "A": a lowercase RFC 1123 label…"#,
        ],
    );
    check(
        "apps",
        "StatefulSet",
        workload(json!({"updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 1}}})),
        &[
            r#"spec.updateStrategy.rollingUpdate: Invalid value: {"Partition":1,"MaxUnavailable":null}: only allowed for updateStrategy 'RollingUpdate'"#,
        ],
    );
    check(
        "apps",
        "ControllerRevision",
        json!({"revision": -1}),
        &["data: Required value: data is mandatory", "revision: Invalid value: -1: must be greater than or equal to 0"],
    );
    check(
        "",
        "ReplicationController",
        json!({"spec": {"replicas": -1}}),
        &[
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            "spec.selector: Required value",
            "spec.template: Required value",
        ],
    );
}

#[test]
fn a_stateful_set_mounts_its_claims_and_keeps_them() {
    let claims = json!([{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]);
    let mut set = workload(json!({"volumeClaimTemplates": claims}));
    set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/d"}]);
    check("apps", "StatefulSet", set.clone(), &[]);
    let mut grown = set.clone();
    grown["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = "2Gi".into();
    check_change(
        "apps",
        "StatefulSet",
        set.clone(),
        grown,
        &[
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden",
        ],
    );
    let mut scaled = set.clone();
    scaled["spec"]["replicas"] = json!(3);
    check_change("apps", "StatefulSet", set, scaled, &[]);
}
