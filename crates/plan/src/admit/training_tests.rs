//! Laws of admission: whatever JSON stands in whatever place is refused or taken, and filling in again changes nothing.

use super::*;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use volley_api::kubeflow::kinds::ROWS;

fn template(container: &str) -> Value {
    let container = json!({"name": container, "image": "i", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 1}]});
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"restartPolicy": "Never", "containers": [container]}})
}

fn volcano_job() -> Value {
    let task = |name: &str, waits_for: &[&str]| {
        json!({"name": name, "replicas": 2, "minAvailable": 2, "maxRetry": 1, "topologyPolicy": "none",
            "policies": [{"event": "PodFailed", "action": "RestartTask", "timeout": "1s"}, {"exitCode": 3, "action": "AbortJob"}],
            "dependsOn": {"name": waits_for, "iteration": "any"}, "template": template("c"),
            "partitionPolicy": {"totalPartitions": 1, "partitionSize": 2, "minPartitions": 1, "networkTopology": {"mode": "hard"}}})
    };
    json!({"queue": "q", "schedulerName": "volcano", "minAvailable": 1, "minSuccess": 1, "maxRetry": 2, "ttlSecondsAfterFinished": 1,
        "plugins": {"svc": [], "mpi": ["--master=a", "--worker=b"], "pytorch": null}, "tasks": [task("a", &[]), task("b", &["a"])],
        "volumes": [{"mountPath": "/d", "volumeClaimName": "c"}, {"mountPath": "/e", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}}],
        "policies": [{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}], "networkTopology": {"highestTierAllowed": 1}})
}

/// An object of each kind with rules that says as much as it can.
fn objects() -> Vec<(Hook, Value)> {
    let amounts = json!({"cpu": "4", "memory": 1});
    let queue = json!({"weight": 1, "parent": "p", "capability": amounts, "deserved": amounts, "guarantee": {"resource": amounts}});
    let mut objects = vec![
        (Hook::Job, volcano_job()),
        (
            Hook::CronJob,
            json!({"schedule": "@daily", "timeZone": "UTC", "suspend": true, "jobTemplate": {"spec": volcano_job()}}),
        ),
        (
            Hook::PodGroup,
            json!({"minMember": 1, "queue": "q", "networkTopology": {"mode": "soft"}, "subGroupPolicy": [{"name": "s"}]}),
        ),
        (Hook::Queue, queue),
    ];
    for row in &ROWS {
        let replica =
            json!({"replicas": 1, "restartPolicy": "Never", "template": template(row.container.unwrap_or("c"))});
        // Only one of them may lead.
        let types = row.replica_types.iter().filter(|name| !row.leaders[1.min(row.leaders.len())..].contains(name));
        let specs: serde_json::Map<_, _> = types.map(|name| (name.to_string(), replica.clone())).collect();
        let policy = json!({"cleanPodPolicy": "All", "backoffLimit": 1, "managedBy": "kubeflow.org/training-operator",
            "schedulingPolicy": {"minAvailable": 1}});
        let spec = json!({row.replica_specs: specs, "runPolicy": policy, "ttlSecondsAfterFinished": 1, "nprocPerNode": "1",
            "elasticPolicy": {"minReplicas": 1, "maxReplicas": 2, "nProcPerNode": 1}});
        objects.push((Hook::Training(row), spec));
    }
    let annotations = json!({"volcano.sh/hierarchy": "a/b", "volcano.sh/hierarchy-weights": "1/2"});
    let named = |spec: Value| json!({"metadata": {"name": "x", "annotations": annotations}, "spec": spec, "status": {"state": "Open"}});
    objects.into_iter().map(|(hook, spec)| (hook, named(spec))).collect()
}

fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| {
                let key = key.replace('~', "~0").replace('/', "~1");
                pointers(value, &format!("{at}/{key}"), all);
            });
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| pointers(value, &format!("{at}/{index}"), all));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn odd_values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(i32::MAX),
        json!(i32::MIN),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1.5),
        json!(""),
        json!("é\u{0}"),
        json!("-"),
        json!("9".repeat(300)),
        json!([]),
        json!({}),
        json!([null]),
        json!([[]]),
        json!({"": null}),
        json!({"a": {"b": []}}),
        json!(["a", 1]),
        json!("root"),
        json!("-1e99"),
    ]
}

/// An object with up to three odd values somewhere in it.
fn odd_object() -> impl Strategy<Value = (Hook, Value)> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), select(odd_values())), 1..4);
    (select(objects()), changes).prop_map(|((hook, mut object), changes)| {
        for (place, value) in changes {
            let mut all = Vec::new();
            pointers(&object, "", &mut all);
            if let Some(found) = object.pointer_mut(place.get(&all[1.min(all.len() - 1)..]).as_str()) {
                *found = value;
            }
        }
        (hook, object)
    })
}

// ADM-8, PT-ADM-15
#[test]
fn a_full_object_of_each_kind_is_taken() {
    let queues =
        || vec![json!({"metadata": {"name": "q"}, "status": {"state": "Open"}}), json!({"metadata": {"name": "p"}})];
    for (hook, mut object) in objects() {
        if let Hook::Training(_) = hook {
            object["spec"]["nprocPerNode"].take();
        }
        hook.fill(&mut object, None, RULES);
        assert_eq!(hook.check(&object, None, RULES, queues), [], "{hook:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn odd_values_are_refused_or_taken_and_filling_in_again_changes_nothing(
        (hook, mut object) in odd_object(), (_, old) in odd_object(),
    ) {
        hook.fill(&mut object, None, RULES);
        let once = object.clone();
        hook.fill(&mut object, None, RULES);
        prop_assert_eq!(&object, &once);
        let queues = || vec![old.clone(), json!({"metadata": {"name": "q"}})];
        let _ = hook.check(&object, None, RULES, queues);
        let _ = hook.warnings(&object, RULES);
        hook.fill(&mut object, Some(&old), RULES);
        let _ = hook.check(&object, Some(&old), RULES, queues);
    }
}
