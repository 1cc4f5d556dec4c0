//! Admission and reading of training jobs, by rule.

use super::job::{RestartPolicy, TrainingJob};
use super::kinds::{ROWS, row};
use super::{Rules, admit, fill, validate};
use serde_json::{Value, json};

const LENIENT: Rules = Rules { is_strict: false, accepts_digit_names: true };
const STRICT: Rules = Rules { is_strict: true, accepts_digit_names: false };
const FOREIGN: Rules = Rules { is_strict: false, accepts_digit_names: false };

fn replica(count: i32) -> Value {
    json!({"replicas": count, "template": {"spec": {"containers": [{"name": "pytorch", "image": "i"}]}}})
}

fn job(spec: Value) -> Value {
    let mut job = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": "x", "namespace": "d", "uid": "u"},
        "spec": {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(2)}}});
    merge(&mut job["spec"], spec);
    job
}

/// A merge that keeps nulls, so that a test can send one.
fn merge(target: &mut Value, patch: Value) {
    match (target, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(target.entry(key).or_insert(Value::Null), value);
            }
        }
        (target, patch) => *target = patch,
    }
}

fn of_kind(kind: &str, replicas: Value) -> Value {
    let row = row(kind).unwrap();
    json!({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {row.replica_specs: replicas}})
}

fn problems_under(object: &Value, old: Option<&Value>, rules: Rules) -> Vec<String> {
    let row = fill::row_of(object).unwrap();
    validate::validate(row, object, old, rules).iter().map(ToString::to_string).collect()
}

fn problems(object: &Value) -> Vec<String> {
    problems_under(object, None, LENIENT)
}

fn with_container(name: &str) -> Value {
    json!({"replicas": 1, "template": {"spec": {"containers": [{"name": name, "image": "i"}]}}})
}

fn read(object: &Value) -> TrainingJob {
    TrainingJob::read(fill::row_of(object).unwrap(), object, LENIENT).unwrap()
}

// PT-ADM-1, PT-ADM-14, PT-DEC-7
#[test]
fn a_name_is_a_label_and_may_start_with_a_digit_where_services_may() {
    let named = |name: &str| {
        let mut job = job(json!({}));
        job["metadata"]["name"] = json!(name);
        job
    };
    assert_eq!(problems(&named("x")), Vec::<String>::new());
    assert_eq!(problems(&named("7abc-pytorch-job")), Vec::<String>::new());
    let complaint = "metadata.name: Invalid value: \"7abc\": should match: a DNS-1035 label must consist of lower case \
        alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character \
        (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
    assert_eq!(problems_under(&named("7abc"), None, FOREIGN), [complaint]);
    assert_eq!(problems_under(&named("7abc"), None, STRICT), [complaint]);
    assert!(problems(&named("a.b"))[0].starts_with("metadata.name: Invalid value: \"a.b\": should match: "));
    assert!(problems(&named(""))[0].starts_with("metadata.name: Invalid value: \"\""));
}

// PT-ADM-2, PT-ADM-3, PT-ADM-4, PT-ADM-5, PT-ADM-6, PT-ADM-15
#[test]
fn replicas_are_there_of_known_types_and_have_the_container_that_trains() {
    let check = |specs: Value, expected: &[&str]| {
        let mut job = job(json!({}));
        job["spec"]["pytorchReplicaSpecs"] = specs;
        assert_eq!(problems(&job), expected, "{job}");
    };
    check(json!({"Master": replica(1)}), &[]);
    check(Value::Null, &["spec.pytorchReplicaSpecs: Required value: must be required"]);
    check(
        json!({"master": replica(1)}),
        &["spec.pytorchReplicaSpecs[master]: Unsupported value: \"master\": supported values: \"Master\", \"Worker\""],
    );
    let at = "spec.pytorchReplicaSpecs[Worker].template.spec.containers";
    let missing = format!("{at}: Required value: must be specified");
    let unnamed = format!("{at}: Required value: must have at least one container with name pytorch");
    check(json!({"Worker": {"template": {"spec": {"containers": []}}}}), &[&missing, &unnamed]);
    check(json!({"Worker": null}), &[&missing, &unnamed]);
    let image = format!("{at}[1].image: Required value: must be required");
    let two = json!([{"name": "a", "image": "i"}, {"name": "b", "image": ""}]);
    check(json!({"Worker": {"template": {"spec": {"containers": two}}}}), &[&image, &unnamed]);
}

// PT-ADM-7, PT-ADM-7a, PT-ADM-8
#[test]
fn there_is_one_master_and_at_least_one_worker() {
    let check = |type_: &str, count: Value, expected: &[&str]| {
        let job = job(json!({"pytorchReplicaSpecs": {type_: {"replicas": count}}}));
        assert_eq!(problems(&job), expected, "{job}");
    };
    check("Master", json!(1), &[]);
    check("Master", json!(2), &["spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1"]);
    check("Master", json!(0), &["spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1"]);
    check("Master", Value::Null, &[]);
    check("Worker", Value::Null, &[]);
    check("Worker", json!(0), &["spec.pytorchReplicaSpecs[Worker].replicas: Forbidden: must be at least 1"]);
    let unset = job(json!({"pytorchReplicaSpecs": {"Master": {"replicas": null}}}));
    let refused = "spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1";
    assert_eq!(problems_under(&unset, None, STRICT), [refused]);
}

// PT-ADM-9, PT-ADM-10, PT-ENV-8
#[test]
fn an_elastic_policy_needs_workers_and_one_spelling_of_processes() {
    let mut lonely = job(json!({"elasticPolicy": {}}));
    lonely["spec"]["pytorchReplicaSpecs"].as_object_mut().unwrap().remove("Worker");
    let required = "spec.pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used";
    assert_eq!(problems(&lonely), [required]);
    let both = job(json!({"elasticPolicy": {"nProcPerNode": 2}, "nprocPerNode": "2"}));
    let forbidden = "spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode";
    assert_eq!(problems(&both), [forbidden]);
    let row = row("PyTorchJob").unwrap();
    let deprecated = "spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead";
    assert_eq!(validate::warnings(row, &both, LENIENT), [deprecated]);
    let bounded = job(json!({"elasticPolicy": {"minReplicas": 1}}));
    assert!(validate::warnings(row, &bounded, LENIENT)[0].contains("should have no Master"));
    assert!(validate::warnings(row, &bounded, STRICT).is_empty());
    let upside_down = job(json!({"elasticPolicy": {"minReplicas": 3, "maxReplicas": 2}}));
    assert_eq!(problems(&upside_down).len(), 1);
}

// PT-ADM-11, PT-ADM-11a, PT-DEC-17
#[test]
fn the_manager_is_known_and_does_not_change() {
    let managed = |by: Value| job(json!({"runPolicy": {"managedBy": by}}));
    let kueue = managed(json!("kueue.x-k8s.io/multikueue"));
    let ours = managed(json!("kubeflow.org/training-operator"));
    assert!(problems(&kueue).is_empty() && problems(&ours).is_empty());
    assert_eq!(
        problems(&managed(json!("me"))),
        ["spec.runPolicy.managedBy: Unsupported value: \"me\": supported values: \
            \"kubeflow.org/training-operator\", \"kueue.x-k8s.io/multikueue\""]
    );
    let immutable = "spec.runPolicy.managedBy: Invalid value: \"kueue.x-k8s.io/multikueue\": field is immutable";
    assert_eq!(problems_under(&kueue, Some(&ours), LENIENT), [immutable]);
    assert_eq!(problems_under(&kueue, Some(&managed(Value::Null)), LENIENT), [immutable]);
    assert!(problems_under(&kueue, Some(&kueue), LENIENT).is_empty());
    assert!(problems_under(&kueue, Some(&ours), STRICT).is_empty(), "the reference compares the job with itself");
}

// PT-ADM-12, PT-DEC-6, PT-WB-5
#[test]
fn fields_of_the_first_generation_are_honoured_with_a_warning() {
    let row = row("PyTorchJob").unwrap();
    let fill_in = |object: &mut Value, old: Option<&Value>| fill::fill(row, object, old, LENIENT);
    let mut first = job(json!({"ttlSecondsAfterFinished": 600}));
    let warning = "spec.ttlSecondsAfterFinished is deprecated, use spec.runPolicy.ttlSecondsAfterFinished instead";
    assert_eq!(fill_in(&mut first, None), [warning]);
    assert_eq!(first["spec"]["runPolicy"], json!({"suspend": false, "ttlSecondsAfterFinished": 600}));
    let mut both = job(json!({"backoffLimit": 1, "runPolicy": {"backoffLimit": 2}}));
    fill_in(&mut both, None);
    assert_eq!(both["spec"]["runPolicy"]["backoffLimit"], 2, "the run policy wins");
    let mut changed = first.clone();
    changed["spec"]["ttlSecondsAfterFinished"] = json!(60);
    fill_in(&mut changed, Some(&first));
    assert_eq!(changed["spec"]["runPolicy"]["ttlSecondsAfterFinished"], 60, "a copy follows its original");
    let unfilled = job(json!({"activeDeadlineSeconds": 5, "cleanPodPolicy": "All"}));
    let policy = read(&unfilled).run_policy;
    assert_eq!((policy.active_deadline_seconds, policy.clean_pod_policy.as_deref()), (Some(5), Some("All")));
    let strict = TrainingJob::read(row, &unfilled, STRICT).unwrap();
    assert_eq!(strict.run_policy.active_deadline_seconds, None);
}

// PT-ADM-13
#[test]
fn a_name_leaves_room_for_the_names_of_pods() {
    let mut long = job(json!({"pytorchReplicaSpecs": {"Worker": {"replicas": 11}}}));
    long["metadata"]["name"] = json!("a".repeat(53));
    assert_eq!(problems(&long), Vec::<String>::new());
    long["metadata"]["name"] = json!("a".repeat(54));
    assert!(problems(&long)[0].ends_with("more than 63 characters; shorten the job's name by 1"), "{long}");
    assert!(problems_under(&long, None, STRICT).is_empty());
}

#[test]
fn words_and_numbers_without_a_meaning_are_refused() {
    let check = |spec: Value, expected: &[&str]| assert_eq!(problems(&job(spec)), expected);
    check(json!({"runPolicy": {"backoffLimit": 0, "activeDeadlineSeconds": 0, "cleanPodPolicy": "Running"}}), &[]);
    let negative = "spec.runPolicy.backoffLimit: Invalid value: -1: must be greater than or equal to 0";
    check(json!({"runPolicy": {"backoffLimit": -1}}), &[negative]);
    let word =
        "spec.runPolicy.cleanPodPolicy: Unsupported value: \"Some\": supported values: \"None\", \"Running\", \"All\"";
    check(json!({"runPolicy": {"cleanPodPolicy": "Some"}}), &[word]);
    let policy = "spec.pytorchReplicaSpecs[Worker].restartPolicy: Unsupported value: \"Sometimes\": supported values: \
        \"Always\", \"OnFailure\", \"Never\", \"ExitCode\"";
    check(json!({"pytorchReplicaSpecs": {"Worker": {"restartPolicy": "Sometimes"}}}), &[policy]);
}

// PT-DEF-1, PT-DEF-2, PT-DEF-3, PT-DEF-4, PT-DEF-5
#[test]
fn a_job_is_read_with_its_defaults() {
    let mut object = job(json!({}));
    object["spec"]["pytorchReplicaSpecs"] =
        json!({"Worker": with_container("pytorch"), "Master": with_container("pytorch")});
    object["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{"name": "pytorchjob-port", "containerPort": 8080}]);
    let job = read(&object);
    let types: Vec<_> = job.replicas.iter().map(|replica| (replica.type_, replica.count, replica.port)).collect();
    assert_eq!(types, [("Master", 1, Some(23456)), ("Worker", 1, Some(8080))]);
    assert!(job.replicas.iter().all(|replica| replica.restart_policy == RestartPolicy::OnFailure));
    let ports = &job.replicas[0].containers()[0]["ports"];
    assert_eq!(*ports, json!([{"name": "pytorchjob-port", "containerPort": 23456}]));
    assert_eq!(job.nproc_per_node.as_deref(), Some("auto"));
    assert_eq!(row("PyTorchJob").unwrap().replica_type("wORKER"), Some("Worker"));
    let elastic = read(&self::job(json!({"elasticPolicy": {"nProcPerNode": 4}})));
    assert_eq!(elastic.nproc_per_node, None);
}

// PT-DEF-6, PT-DEC-8, PT-SDK-2
#[test]
fn a_stored_job_always_has_a_run_policy() {
    let row = row("PyTorchJob").unwrap();
    for sent in [job(json!({})), job(json!({"runPolicy": null})), job(json!({"runPolicy": {}}))] {
        let mut stored = sent.clone();
        assert!(fill::fill(row, &mut stored, None, LENIENT).is_empty());
        assert_eq!(stored["spec"]["runPolicy"], json!({"suspend": false}));
        let mut as_reference = sent.clone();
        fill::fill(row, &mut as_reference, None, STRICT);
        assert_eq!(as_reference, sent);
    }
}

// PT-ADM-3, PT-ADM-6, PT-ADM-7
#[test]
fn siblings_are_judged_by_their_rows() {
    let check = |kind: &str, replicas: Value, expected: &[&str]| {
        assert_eq!(problems(&of_kind(kind, replicas)), expected, "{kind}");
    };
    check("TFJob", json!({"Chief": with_container("tensorflow"), "PS": with_container("tensorflow")}), &[]);
    check(
        "TFJob",
        json!({"Chief": with_container("tensorflow"), "Master": with_container("tensorflow")}),
        &["spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role"],
    );
    check("TFJob", json!({"worker": with_container("tensorflow")}), &[]);
    check(
        "XGBoostJob",
        json!({"Worker": with_container("xgboost")}),
        &["spec.xgbReplicaSpecs[Master]: Required value: must be present"],
    );
    check("MPIJob", json!({"Launcher": with_container("any"), "Worker": with_container("any")}), &[]);
    let two = json!({"replicas": 2, "template": {"spec": {"containers": [{"name": "m", "image": "i"}]}}});
    check("MPIJob", json!({"Launcher": two}), &["spec.mpiReplicaSpecs[Launcher].replicas: Forbidden: must be 1"]);
    check("PaddleJob", json!({"Master": {"replicas": 2, "template": with_container("paddle")["template"]}}), &[]);
    check(
        "JAXJob",
        json!({"Master": with_container("jax")}),
        &["spec.jaxReplicaSpecs[Master]: Unsupported value: \"Master\": supported values: \"Worker\""],
    );
    let job = read(&of_kind("MPIJob", json!({"Launcher": with_container("m"), "Worker": with_container("m")})));
    assert_eq!((job.pod_name("Launcher", 0), job.pod_name("Worker", 3)), ("x-launcher".into(), "x-worker-3".into()));
    assert_eq!(job.replicas[0].restart_policy, RestartPolicy::Never);
}

// PT-RES-1, PT-RES-3
#[test]
fn every_kind_prints_its_state_and_some_can_be_scaled() {
    for row in &ROWS {
        assert_eq!(row.columns().map(|column| column.0), ["State", "Age"]);
        assert_eq!(row.plural, format!("{}s", row.name.to_lowercase()));
        assert_eq!(row.singular, row.name.to_lowercase());
    }
    let scalable: Vec<_> = ROWS.iter().filter(|row| row.scale().is_some()).map(|row| row.name).collect();
    assert_eq!(scalable, ["PyTorchJob", "PaddleJob", "JAXJob"]);
    let [spec, active, selector] = row("PyTorchJob").unwrap().scale().unwrap();
    assert_eq!(spec, ".spec.pytorchReplicaSpecs.Worker.replicas");
    assert_eq!(active, ".status.replicaStatuses.Worker.active");
    assert_eq!(selector, ".status.replicaStatuses.Worker.selector");
}

// PT-ADM-10, PT-ADM-12
#[test]
fn admission_fills_in_warns_and_refuses_at_once() {
    let mut sent = job(json!({"backoffLimit": -1, "elasticPolicy": {"nProcPerNode": 1}}));
    let admission = admit(row("PyTorchJob").unwrap(), &mut sent, None, LENIENT);
    assert_eq!(admission.warnings.len(), 2);
    assert_eq!(admission.errors[0].path, "spec.runPolicy.backoffLimit", "a copied value is judged where it stands");
    assert_eq!(sent["spec"]["runPolicy"]["suspend"], false);
}

#[test]
fn what_cannot_be_read_is_told_with_its_path() {
    let row = row("PyTorchJob").unwrap();
    let errors = TrainingJob::read(row, &job(json!({"nprocPerNode": 4})), LENIENT).unwrap_err();
    assert_eq!(errors[0].path, "spec.nprocPerNode");
    let nulls = job(json!({}));
    let mut nulls = nulls;
    nulls["status"] = json!({"conditions": null, "replicaStatuses": null});
    assert!(read(&nulls).status.conditions.is_empty());
}
