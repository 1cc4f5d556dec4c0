//! The CRDs of the training jobs, held against the rules for CRDs and against jobs.

use super::stage::Stage;
use crate::custom::definition as crd;
use crate::custom::schema::Schema;
use serde_json::{Value, json};
use volley_api::kubeflow::definition::definition;
use volley_api::kubeflow::kinds::{ROWS, row};
use volley_api::kubeflow::types::{ElasticPolicy, JobStatus, RunPolicy};
use volley_api::kubeflow::{Rules, validate};

const LENIENT: Rules = Rules { is_strict: false, accepts_digit_names: true };
const STRICT: Rules = Rules { is_strict: true, accepts_digit_names: false };

fn schema(kind: &str, rules: Rules) -> Schema {
    let definition = definition(row(kind).unwrap(), rules);
    Schema::compile(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap()
}

fn texts(errors: Vec<volley_api::kube::field::FieldError>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

// PT-RES-1, PT-RES-3
#[test]
fn every_definition_is_a_good_one() {
    for row in &ROWS {
        for rules in [LENIENT, STRICT] {
            let mut made = definition(row, rules);
            let sent = made.clone();
            crd::fill(&mut made);
            assert_eq!(texts(crd::check(&made)), Vec::<String>::new(), "{}", row.name);
            assert!(crd::warnings(&made, None).is_empty(), "{:?}", crd::warnings(&made, None));
            assert_eq!(sent["metadata"]["name"], format!("{}.kubeflow.org", row.plural));
            let version = &made["spec"]["versions"][0];
            assert_eq!(version["additionalPrinterColumns"][0]["jsonPath"], ".status.conditions[-1:].type");
            assert_eq!(version["subresources"].get("scale").is_some(), row.has_scale);
            // The objects of etcd have at most a megabyte and a half, an annotation of kubectl apply a quarter.
            assert!(sent.to_string().len() < 256 * 1024, "{} has {} bytes", row.name, sent.to_string().len());
        }
    }
}

fn full_policies() -> (Value, Value) {
    let run = json!({"cleanPodPolicy": "All", "ttlSecondsAfterFinished": 1, "activeDeadlineSeconds": 2, "backoffLimit": 3,
        "suspend": true, "managedBy": "kubeflow.org/training-operator", "schedulingPolicy": {"minAvailable": 1,
        "queue": "q", "minResources": {"cpu": "1"}, "priorityClass": "p", "scheduleTimeoutSeconds": 4}});
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let elastic = json!({"minReplicas": 1, "maxReplicas": 2, "rdzvBackend": "c10d", "rdzvPort": 1, "rdzvHost": "h",
        "rdzvId": "i", "rdzvConf": [{"key": "k", "value": "v"}], "standalone": true, "nProcPerNode": 2,
        "maxRestarts": 3, "metrics": [metric]});
    (run, elastic)
}

// PT-RES-2
#[test]
fn the_schema_knows_every_field_of_the_types_and_no_other() {
    let (run, elastic) = full_policies();
    assert_eq!(serde_json::to_value(serde_json::from_value::<RunPolicy>(run.clone()).unwrap()).unwrap(), run);
    assert_eq!(
        serde_json::to_value(serde_json::from_value::<ElasticPolicy>(elastic.clone()).unwrap()).unwrap(),
        elastic
    );
    let mut stage = Stage::torch(2, "ExitCode", json!({"runPolicy": {"suspend": false, "ttlSecondsAfterFinished": 9}}));
    stage.settle();
    stage.run_all();
    stage.end("x-worker-0", 137);
    let mut job = stage.job().clone();
    json_patch::merge(&mut job["spec"], &json!({"runPolicy": run, "elasticPolicy": elastic, "nprocPerNode": "2"}));
    let status: JobStatus = serde_json::from_value(job["status"].clone()).unwrap();
    assert_eq!(status.replica_statuses.len(), 2);
    let schema = schema("PyTorchJob", LENIENT);
    let mut pruned = job.clone();
    assert_eq!(schema.prune(&mut pruned), Vec::<String>::new());
    assert_eq!(pruned, job);
    assert_eq!(texts(schema.validate(&job)), Vec::<String>::new());
    let mut odd = job.clone();
    odd["spec"]["pytorchReplicaSpecs"]["Worker"]["oddity"] = json!(1);
    odd["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"] =
        json!({"creationTimestamp": null, "labels": {"a": "b"}});
    let dropped = schema.prune(&mut odd);
    assert!(dropped.iter().any(|path| path.ends_with("oddity")), "{dropped:?}");
    assert_eq!(odd["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["metadata"], json!({"labels": {"a": "b"}}));
}

// PT-ADM-12, PT-DEF-6
#[test]
fn legacy_fields_are_kept_and_a_run_policy_is_always_there() {
    let job = Stage::torch(1, "Never", json!({"ttlSecondsAfterFinished": 600})).job().clone();
    let mut kept = job.clone();
    let lenient = schema("PyTorchJob", LENIENT);
    assert!(lenient.prune(&mut kept).is_empty());
    lenient.default(&mut kept);
    assert_eq!(kept["spec"]["runPolicy"], json!({"suspend": false}));
    let mut dropped = job;
    let strict = schema("PyTorchJob", STRICT);
    assert_eq!(strict.prune(&mut dropped).len(), 1);
    strict.default(&mut dropped);
    assert_eq!(dropped["spec"]["runPolicy"], Value::Null);
}

// PT-ADM-16
#[test]
fn a_container_names_each_variable_once() {
    let mut job = Stage::torch(1, "Never", json!({})).job().clone();
    let schema = schema("PyTorchJob", LENIENT);
    let env = json!([{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A"}]);
    job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"] = env;
    let errors = texts(schema.validate(&job));
    let path = "spec.pytorchReplicaSpecs[Master].template.spec.containers[0].env[2]: Duplicate value";
    assert!(errors.len() == 1 && errors[0].starts_with(path), "{errors:?}");
    let number = Stage::torch(1, "Never", json!({"nprocPerNode": 4})).job().clone();
    assert_eq!(schema.validate(&number)[0].path, "spec.nprocPerNode", "it is a text");
}

// PT-ADM-11, PT-ADM-11a
#[test]
fn what_may_not_change_is_held_by_rules_of_the_schema() {
    let job = |policy: Value| Stage::torch(1, "Never", json!({ "runPolicy": policy })).job().clone();
    let schema = schema("PyTorchJob", LENIENT);
    let queue = |name: &str| job(json!({"schedulingPolicy": {"queue": name}}));
    let errors = texts(schema.check(&queue("b"), Some(&queue("a"))));
    let path = "spec.runPolicy.schedulingPolicy.queue";
    assert!(
        errors.len() == 1 && errors[0].starts_with(path) && errors[0].ends_with(&format!("{path} is immutable")),
        "{errors:?}"
    );
    let ours = job(json!({"managedBy": "kubeflow.org/training-operator"}));
    let kueue = job(json!({"managedBy": "kueue.x-k8s.io/multikueue"}));
    for (new, old) in [(&kueue, &ours), (&ours, &job(json!({}))), (&job(json!({})), &ours)] {
        let errors = texts(schema.check(new, Some(old)));
        assert!(errors.len() == 1 && errors[0].ends_with("field is immutable"), "{errors:?}");
    }
    assert!(schema.check(&ours, Some(&ours)).is_empty());
    let somebody = job(json!({"managedBy": "me"}));
    let expected = validate::validate(row("PyTorchJob").unwrap(), &somebody, None, LENIENT);
    assert_eq!(texts(schema.validate(&somebody)), texts(expected), "as admission says it");
    assert_eq!(self::schema("PyTorchJob", STRICT).validate(&somebody).len(), 1);
    assert!(self::schema("PyTorchJob", STRICT).check(&kueue, Some(&ours)).is_empty());
}
