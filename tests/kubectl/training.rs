//! Kubeflow's training jobs as users of kubectl meet them: served from the start, completed, warned of and refused, rule
//! by rule; the jobs of the tutorials that people copy from; and input that nobody would write.

use crate::harness::{Space, Stage, for_each_kubectl, for_some_kubectls, squeeze, stage};
use crate::http::{delete, get, own, patch, post};
use crate::volcano::{Row, check_rows, overlaid};
use serde_json::{Value, json};

/// Kind, plural, the field of its replicas, a replica type that suffices, and its container.
const KINDS: [(&str, &str, &str, &str, &str); 6] = [
    ("PyTorchJob", "pytorchjobs", "pytorchReplicaSpecs", "Master", "pytorch"),
    ("TFJob", "tfjobs", "tfReplicaSpecs", "Worker", "tensorflow"),
    ("MPIJob", "mpijobs", "mpiReplicaSpecs", "Launcher", "any"),
    ("XGBoostJob", "xgboostjobs", "xgbReplicaSpecs", "Master", "xgboost"),
    ("PaddleJob", "paddlejobs", "paddleReplicaSpecs", "Worker", "paddle"),
    ("JAXJob", "jaxjobs", "jaxReplicaSpecs", "Worker", "jax"),
];
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn template(container: &str) -> Value {
    json!({"spec": {"containers": [{"name": container, "image": "i"}]}})
}

fn replica(replicas: u32, more: Value) -> Value {
    overlaid(json!({"replicas": replicas, "template": template("pytorch")}), &more)
}

fn of_kind(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// A job with a Master, and more of the spec.
fn job(name: &str, more: &Value) -> Value {
    let spec = overlaid(json!({"pytorchReplicaSpecs": {"Master": replica(1, json!({}))}}), more);
    of_kind("PyTorchJob", name, &spec)
}

fn with_worker(more: Value) -> Value {
    json!({"pytorchReplicaSpecs": {"Worker": replica(2, more)}})
}

// PT-RES-1, PT-RES-3, PT-RES-4
#[test]
fn every_kubectl_knows_all_kinds_from_the_first_request_on() {
    for_each_kubectl("ptnames", |space| {
        for (kind, plural, specs, type_, container) in KINDS {
            let spec = json!({specs: {type_: {"replicas": 1, "template": template(container)}}});
            let name = plural.trim_end_matches('s');
            assert_eq!(space.apply(&of_kind(kind, "a", &spec).to_string()), format!("{name}.kubeflow.org/a created\n"));
            let status =
                r#"{"status":{"conditions":[{"type":"Created","status":"True"},{"type":"Running","status":"False"}]}}"#;
            space.ok(&["patch", plural, "a", "--subresource=status", "--type=merge", "-p", status]);
            let table = squeeze(&space.ok(&["get", name]));
            assert_eq!(table[0], "NAME  STATE  AGE");
            assert!(table[1].starts_with("a  Running  "), "{table:?}");
            let condition = format!("crd/{plural}.kubeflow.org");
            space.ok(&["wait", "--for=condition=Established", &condition, "--timeout=60s"]);
        }
        let explained = space.ok(&["explain", "pytorchjob.spec"]);
        assert!(explained.contains("pytorchReplicaSpecs\t<map[string]Object> -required-"), "{explained}");
        let container = space.ok(&["explain", "pytorchjob.spec.pytorchReplicaSpecs.template.spec.containers.env"]);
        assert!(container.contains("valueFrom"), "{container}");
        let crds = space.ok(&["get", "crd"]);
        let ours = |line: &&str| line.contains(".volcano.sh ") || line.contains(".kubeflow.org ");
        assert_eq!(crds.lines().filter(ours).count(), 12, "{crds}");
        assert!(space.ok(&["delete", "pytorchjob", "a"]).contains("pytorchjob.kubeflow.org \"a\" deleted"));
    });
}

// PT-ADM-1, PT-ADM-2, PT-ADM-3, PT-ADM-4, PT-ADM-5, PT-ADM-6, PT-ADM-7, PT-ADM-7a, PT-ADM-8, PT-ADM-9, PT-ADM-10,
// PT-ADM-11, PT-ADM-13, PT-ADM-14, PT-ADM-15, PT-ADM-16, PT-DEC-7
#[test]
fn a_pytorch_job_is_refused_for_every_fault() {
    let space = Space::new("ptrefused");
    let master = |spec: Value| json!({"pytorchReplicaSpecs": {"Master": spec}});
    let containers = |list: Value| master(json!({"template": {"spec": {"containers": list}}}));
    let policy = |more: Value| json!({ "runPolicy": more });
    let elastic = |more: Value| json!({ "elasticPolicy": more });
    let long = "n".repeat(54);
    let at = "spec.pytorchReplicaSpecs";
    let inside = |rest: &str| format!("{at}[Master].template.spec.containers{rest}");
    let (no_pytorch, no_image) = (
        inside(": Required value: must have at least one container with name pytorch"),
        inside("[0].image: Required value: must be required"),
    );
    let none = inside(": Required value: must be specified");
    let env = |name: &str| json!({"name": name, "value": "v"});
    let rows: &[Row] = &[
        ("good", json!({}), &[]),
        ("1digit", json!({}), &[]),
        ("with.dot", json!({}), &["metadata.name: Invalid value: \"with.dot\": should match: "]),
        (&long, with_worker(json!({"replicas": 11})), &["metadata.name: Invalid value", "shorten the job's name by 1"]),
        (
            "type",
            json!({"pytorchReplicaSpecs": {"Chief": replica(1, json!({}))}}),
            &[
                "spec.pytorchReplicaSpecs[Chief]: Unsupported value: \"Chief\": supported values: \"Master\", \"Worker\"",
            ],
        ),
        (
            "case",
            json!({"pytorchReplicaSpecs": {"worker": replica(1, json!({}))}}),
            &["spec.pytorchReplicaSpecs[worker]: Unsupported value: \"worker\""],
        ),
        ("null", json!({"pytorchReplicaSpecs": {"Master": null}}), &[&none]),
        ("nobody", json!({"pytorchReplicaSpecs": null}), &["spec.pytorchReplicaSpecs: Required value"]),
        ("empty", containers(json!([])), &[&none, &no_pytorch]),
        ("image", containers(json!([{"name": "pytorch"}])), &[&no_image]),
        ("name", containers(json!([{"name": "other", "image": "i"}])), &[&no_pytorch]),
        ("second", containers(json!([{"name": "side", "image": "i"}, {"name": "pytorch", "image": "i"}])), &[]),
        (
            "twomasters",
            master(json!({"replicas": 2})),
            &["spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1"],
        ),
        (
            "unsaid",
            json!({"pytorchReplicaSpecs": {"Master": {"template": template("pytorch"), "replicas": null}}}),
            &[],
        ),
        (
            "idle",
            with_worker(json!({"replicas": 0})),
            &["spec.pytorchReplicaSpecs[Worker].replicas: Forbidden: must be at least 1"],
        ),
        (
            "lonely",
            elastic(json!({})),
            &["spec.pytorchReplicaSpecs[Worker]: Required value: must be configured if elastic policy is used"],
        ),
        (
            "bothprocs",
            overlaid(with_worker(json!({})), &json!({"elasticPolicy": {"nProcPerNode": 1}, "nprocPerNode": "1"})),
            &["spec.elasticPolicy.nProcPerNode: Forbidden: must not be used with spec.nprocPerNode"],
        ),
        (
            "manager",
            policy(json!({"managedBy": "me"})),
            &[
                "spec.runPolicy.managedBy: Unsupported value: \"me\": supported values: \"kubeflow.org/training-operator\", \"kueue.x-k8s.io/multikueue\"",
            ],
        ),
        (
            "negative",
            policy(json!({"backoffLimit": -1, "ttlSecondsAfterFinished": -2})),
            &[
                "spec.runPolicy.backoffLimit: Invalid value: -1",
                "spec.runPolicy.ttlSecondsAfterFinished: Invalid value: -2",
            ],
        ),
        (
            "word",
            policy(json!({"cleanPodPolicy": "Some"})),
            &[
                "spec.runPolicy.cleanPodPolicy: Unsupported value: \"Some\": supported values: \"None\", \"Running\", \"All\"",
            ],
        ),
        (
            "restart",
            master(json!({"restartPolicy": "Sometimes"})),
            &["spec.pytorchReplicaSpecs[Master].restartPolicy: Unsupported value: \"Sometimes\""],
        ),
        (
            "number",
            json!({"nprocPerNode": 4}),
            &[
                "spec.nprocPerNode: Invalid value: \"integer\": spec.nprocPerNode in body must be of type string: \"integer\"",
            ],
        ),
        (
            "env",
            containers(json!([{"name": "pytorch", "image": "i", "env": [env("A"), env("A")]}])),
            &["env[1]: Duplicate value: {\"name\":\"A\"}"],
        ),
    ];
    check_rows(&space, job, rows);
    let nothing = of_kind("PyTorchJob", "x", &json!({}));
    let said = space.fails_with(&["create", "-f", "-"], &nothing.to_string());
    assert!(said.contains("* spec.pytorchReplicaSpecs: Required value"), "{said}");
}

// PT-RES-2
#[test]
fn an_unknown_field_is_an_error_for_kubectl_and_a_warning_for_others() {
    for_some_kubectls("ptunknown", |space| {
        let odd = job("a", &json!({"colour": "red"})).to_string();
        let said = space.fails_with(&["create", "-f", "-"], &odd);
        assert!(said.contains("unknown field \"spec.colour\""), "{said}");
        let path = space.group("kubeflow.org/v1", "pytorchjobs");
        let made = post(&path, &serde_json::from_str(&odd).unwrap());
        assert_eq!(made.code, 201, "{}", made.body);
        assert_eq!(made.header("warning"), "299 - \"unknown field \\\"spec.colour\\\"\"");
        assert!(made.json()["spec"].get("colour").is_none());
    });
}

// PT-ADM-10, PT-ADM-12, PT-DEC-6, PT-DEC-8, PT-DEF-1, PT-DEF-3, PT-DEF-6
#[test]
fn fields_of_the_first_generation_are_honoured_with_a_warning() {
    for_some_kubectls("ptlegacy", |space| {
        let warning =
            "Warning: spec.ttlSecondsAfterFinished is deprecated, use spec.runPolicy.ttlSecondsAfterFinished instead\n";
        let old = job("a", &json!({"ttlSecondsAfterFinished": 600})).to_string();
        let made = space.run_with(&["apply", "-f", "-"], &old);
        assert_eq!((made.code, &*made.stdout, &*made.stderr), (0, "pytorchjob.kubeflow.org/a created\n", warning));
        let stored = space.json(&["get", "pytorchjob", "a"]);
        assert_eq!(stored["spec"]["runPolicy"], json!({"suspend": false, "ttlSecondsAfterFinished": 600}));
        assert_eq!(space.run_with(&["apply", "-f", "-"], &old).stdout, "pytorchjob.kubeflow.org/a unchanged\n");
        space.run_with(&["replace", "-f", "-"], &old);
        assert_eq!(space.json(&["get", "pytorchjob", "a"])["metadata"]["generation"], 1);
        // A changed legacy field moves the copy; a run policy of one's own wins.
        space.apply(&job("a", &json!({"ttlSecondsAfterFinished": 60})).to_string());
        let policy = |name: &str| space.json(&["get", "pytorchjob", name])["spec"]["runPolicy"].clone();
        assert_eq!(policy("a")["ttlSecondsAfterFinished"], 60);
        let both = json!({"ttlSecondsAfterFinished": 1, "runPolicy": {"ttlSecondsAfterFinished": 2}});
        let applied = ["apply", "--server-side", "-f", "-"];
        let output = space.run_with(&applied, &job("both", &both).to_string());
        assert_eq!((output.code, &*output.stderr), (0, warning));
        assert_eq!(policy("both")["ttlSecondsAfterFinished"], 2);
        // Nothing else is written into the spec: the rest has its defaults when it is read.
        space.apply(&job("bare", &json!({})).to_string());
        let bare = space.json(&["get", "pytorchjob", "bare"]);
        let expected =
            json!({"pytorchReplicaSpecs": {"Master": replica(1, json!({}))}, "runPolicy": {"suspend": false}});
        assert_eq!(bare["spec"], expected);
        let elastic =
            overlaid(with_worker(json!({})), &json!({"elasticPolicy": {"nProcPerNode": 2, "minReplicas": 1}}));
        let warned =
            space.run_with(&["create", "--dry-run=server", "-f", "-"], &job("el", &elastic).to_string()).stderr;
        assert!(
            warned.contains("spec.elasticPolicy.nProcPerNode is deprecated, use spec.nprocPerNode instead"),
            "{warned}"
        );
        assert!(warned.contains("an elastic job should have no Master"), "{warned}");
    });
}

// PT-ADM-11, PT-ADM-11a, PT-ADM-17, PT-RES-3, PT-DEC-17
#[test]
fn changes_are_judged_and_deletion_never_is() {
    for_some_kubectls("ptupdate", |space| {
        let worker = overlaid(with_worker(json!({})), &json!({"runPolicy": {"schedulingPolicy": {"queue": "q"}}}));
        space.apply(&job("a", &worker).to_string());
        let merge = |patch: &str| space.run(&["patch", "pytorchjob", "a", "--type=merge", "-p", patch]);
        let managed = merge(r#"{"spec":{"runPolicy":{"managedBy":"kueue.x-k8s.io/multikueue"}}}"#).stderr;
        assert!(managed.contains("field is immutable"), "{managed}");
        let queue = merge(r#"{"spec":{"runPolicy":{"schedulingPolicy":{"queue":"other"}}}}"#).stderr;
        assert!(queue.contains("spec.runPolicy.schedulingPolicy.queue is immutable"), "{queue}");
        assert_eq!(merge(r#"{"spec":{"runPolicy":{"suspend":true}}}"#).code, 0);
        assert_eq!(space.ok(&["scale", "pytorchjob", "a", "--replicas=5"]), "pytorchjob.kubeflow.org/a scaled\n");
        let idle = space.fails(&["scale", "pytorchjob", "a", "--replicas=0"]);
        assert!(idle.contains("spec.pytorchReplicaSpecs[Worker].replicas: Forbidden: must be at least 1"), "{idle}");
        let replicas = "jsonpath={.spec.pytorchReplicaSpecs.Worker.replicas}";
        assert_eq!(space.ok(&["get", "pytorchjob", "a", "-o", replicas]), "5");
        space.apply(&job("lone", &json!({})).to_string());
        assert!(!space.fails(&["scale", "pytorchjob", "lone", "--replicas=2"]).is_empty());
        // Whoever writes the status is not asked about the spec.
        let status = r#"{"status":{"conditions":[{"type":"Failed","status":"True"}]}}"#;
        space.ok(&["patch", "pytorchjob", "a", "--subresource=status", "--type=merge", "-p", status]);
        space.ok(&["delete", "pytorchjob", "--all"]);
    });
}

// PT-ADM-2, PT-ADM-3, PT-ADM-6, PT-ADM-7
#[test]
fn the_siblings_have_their_own_rules() {
    let space = Space::new("ptsiblings");
    let replicas = |types: &[&str], count: i32, container: &str| -> Value {
        let one = json!({"replicas": count, "template": template(container)});
        types.iter().map(|name| ((*name).to_owned(), one.clone())).collect::<serde_json::Map<_, _>>().into()
    };
    let rows: &[(&str, Row)] = &[
        (
            "TFJob",
            ("tf", json!({"tfReplicaSpecs": replicas(&["Chief", "PS", "worker", "Evaluator"], 1, "tensorflow")}), &[]),
        ),
        (
            "TFJob",
            (
                "tf-two",
                json!({"tfReplicaSpecs": replicas(&["Chief", "Master"], 1, "tensorflow")}),
                &["spec.tfReplicaSpecs: Forbidden: must not have more than 1 Chief or Master role"],
            ),
        ),
        (
            "TFJob",
            (
                "tf-name",
                json!({"tfReplicaSpecs": replicas(&["Worker"], 1, "pytorch")}),
                &["must have at least one container with name tensorflow"],
            ),
        ),
        (
            "MPIJob",
            (
                "mpi",
                json!({"mpiReplicaSpecs": replicas(&["Launcher", "Worker"], 1, "any"), "cleanPodPolicy": "Running"}),
                &[],
            ),
        ),
        (
            "MPIJob",
            (
                "mpi-none",
                json!({"mpiReplicaSpecs": replicas(&["Worker"], 1, "any")}),
                &["spec.mpiReplicaSpecs[Launcher]: Required value: must be present"],
            ),
        ),
        (
            "MPIJob",
            (
                "mpi-two",
                json!({"mpiReplicaSpecs": replicas(&["Launcher"], 2, "any")}),
                &["spec.mpiReplicaSpecs[Launcher].replicas: Forbidden: must be 1"],
            ),
        ),
        (
            "XGBoostJob",
            (
                "xgb-none",
                json!({"xgbReplicaSpecs": replicas(&["Worker"], 1, "xgboost")}),
                &["spec.xgbReplicaSpecs[Master]: Required value: must be present"],
            ),
        ),
        ("PaddleJob", ("paddle", json!({"paddleReplicaSpecs": replicas(&["Worker"], 0, "paddle")}), &[])),
        (
            "PaddleJob",
            (
                "paddle-name",
                json!({"paddleReplicaSpecs": replicas(&["Worker"], 1, "c")}),
                &["must have at least one container with name paddle"],
            ),
        ),
        (
            "JAXJob",
            (
                "jax-type",
                json!({"jaxReplicaSpecs": replicas(&["Master"], 1, "jax")}),
                &["spec.jaxReplicaSpecs[Master]: Unsupported value: \"Master\": supported values: \"Worker\""],
            ),
        ),
    ];
    let kind_of = |name: &str| rows.iter().find(|(_, row)| row.0 == name).unwrap().0;
    let plain: Vec<Row> = rows.iter().map(|(_, row)| row.clone()).collect();
    check_rows(&space, |name, spec| of_kind(kind_of(name), name, spec), &plain);
}

// PT-ADM-14, PT-DEC-7
#[test]
fn a_job_named_by_a_run_gets_services_of_its_name() {
    let space = Space::new("ptdigit");
    let made = post(&space.group("kubeflow.org/v1", "pytorchjobs"), &job("7x3k9q2a-pytorch-job", &json!({}))).ok();
    let owner = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": made["metadata"]["name"],
        "uid": made["metadata"]["uid"], "controller": true});
    let spec = json!({"clusterIP": "None", "ports": [{"port": 23456}]});
    let mut service = json!({"metadata": {"name": "7x3k9q2a-pytorch-job-master-0"}, "spec": spec});
    assert_eq!(post(&space.core("services"), &service).code, 422);
    service["metadata"]["ownerReferences"] = json!([owner]);
    post(&space.core("services"), &service).ok();
    let path = space.core("services/7x3k9q2a-pytorch-job-master-0");
    patch("merge", &path, &json!({"metadata": {"labels": {"a": "b"}}})).ok();
}

const SEED_003: &str = include_str!("seeds/003.yaml");
const SEED_000: &str = include_str!("seeds/000.yaml");
const SEED_001: &str = include_str!("seeds/001.yaml");
const SEED_004: &str = include_str!("seeds/004.yaml");

#[test]
fn the_jobs_of_the_tutorials_are_refused_as_printed_and_taken_when_repaired() {
    for_some_kubectls("seeds", |space| {
        let create = ["create", "--dry-run=server", "-f", "-"];
        // Its first line begins with the name of its language.
        let printed = space.fails_with(&create, &SEED_003.replacen("apiVersion", "yamlapiVersion", 1));
        assert!(printed.contains("apiVersion not set"), "{printed}");
        assert_eq!(space.ok_with(&create, SEED_003), "job.batch.volcano.sh/pytorch-job created (server dry run)\n");
        // A template of the launch queue: its macros are filled in by the agent.
        let printed = space.fails_with(&create, &SEED_000.replace("  namespace: wandb\n", ""));
        assert!(printed.contains("metadata.name: Invalid value: \"wandb-job-${run_id}\""), "{printed}");
        let filled = |text: &str| {
            let text = text.replace("${image_uri}", "example.com/train:1").replace("${run_id}", "7x3k9q2a");
            text.replace("${entity_name}", "team")
                .replace("${project_name}", "mnist")
                .replace("namespace: wandb", &format!("namespace: {}", space.name))
        };
        assert_eq!(
            space.ok_with(&create, &filled(SEED_000)),
            "job.batch.volcano.sh/wandb-job-7x3k9q2a created (server dry run)\n"
        );
        // Wrapped in the name of the resource, as the queue's page shows it, it is no object.
        let wrapped: String = SEED_001.lines().fold("kubernetes:\n".to_owned(), |text, line| text + "  " + line + "\n");
        let printed = space.fails_with(&create, &wrapped);
        assert!(printed.contains("apiVersion not set") || printed.contains("kind not set"), "{printed}");
        let taken = space.run_with(&create, &filled(SEED_001));
        assert_eq!(taken.stdout, "pytorchjob.kubeflow.org/7x3k9q2a-pytorch-job created (server dry run)\n");
        assert!(taken.stderr.starts_with("Warning: spec.ttlSecondsAfterFinished is deprecated"), "{}", taken.stderr);
        assert_eq!(
            space.ok_with(&create, SEED_004),
            "pytorchjob.kubeflow.org/mnist-distributed created (server dry run)\n"
        );
    });
}

#[test]
fn a_definition_is_made_again_at_the_next_start_and_a_change_of_it_stays() {
    let home = stage().home.join("defined");
    let first = Stage::start(&home);
    let at = |address: &str, method: &str, name: &str| own(method, &format!("{CRDS}/{name}")).at(address);
    let change = json!({"spec": {"names": {"categories": ["ml"]}}});
    let changed = at(&first.address, "PATCH", "tfjobs.kubeflow.org")
        .body("application/merge-patch+json", change.to_string())
        .send();
    assert_eq!(changed.code, 200, "{}", changed.body);
    let older =
        json!({"metadata": {"annotations": {"volley.sh/edition": null}}, "spec": {"names": {"categories": ["ml"]}}});
    at(&first.address, "PATCH", "jaxjobs.kubeflow.org")
        .body("application/merge-patch+json", older.to_string())
        .send()
        .ok();
    let deleted = at(&first.address, "DELETE", "queues.scheduling.volcano.sh").send();
    assert_eq!(deleted.code, 200, "{}", deleted.body);
    crate::harness::eventually("the end of the definition", || {
        (at(&first.address, "GET", "queues.scheduling.volcano.sh").send().code == 404).then_some(())
    });
    first.stop();
    let second = Stage::start(&home);
    let queue = own("GET", "/apis/scheduling.volcano.sh/v1beta1/queues/default").at(&second.address).send().ok();
    assert_eq!(queue["status"]["state"], "Open");
    let categories =
        |name: &str| at(&second.address, "GET", name).send().ok()["spec"]["names"].get("categories").cloned();
    assert_eq!(categories("tfjobs.kubeflow.org"), Some(json!(["ml"])));
    assert_eq!(categories("jaxjobs.kubeflow.org"), None);
    second.stop();
}

fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), all)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, value)| pointers(value, &format!("{at}/{i}"), all))
        }
        _ => {}
    }
    all.push(at.to_owned());
}

// PT-ADM-15
#[test]
fn nothing_that_is_sent_breaks_the_server() {
    let space = Space::new("odd");
    let odd = [json!(null), json!(-1), json!(i64::MAX), json!("x"), json!(["a", null]), json!({"a": {}})];
    let task = json!({"name": "t", "replicas": 1, "template": template("c"), "policies": [{"event": "*", "action": "AbortJob"}]});
    let vcjob = json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "x", "labels": {"a": "b"}},
        "spec": {"tasks": [task], "plugins": {"svc": []}, "volumes": [{"mountPath": "/a", "volumeClaimName": "c"}]}});
    let training = job(
        "x",
        &overlaid(
            with_worker(json!({})),
            &json!({"runPolicy": {"backoffLimit": 1}, "backoffLimit": 2, "elasticPolicy": {"minReplicas": 1}}),
        ),
    );
    let paths = [space.group("batch.volcano.sh/v1alpha1", "jobs"), space.group("kubeflow.org/v1", "pytorchjobs")];
    for (path, whole) in paths.iter().zip([vcjob, training]) {
        let mut all = Vec::new();
        pointers(&whole, "", &mut all);
        for pointer in &all {
            for value in &odd {
                let mut body = whole.clone();
                *body.pointer_mut(pointer).unwrap() = value.clone();
                let answer = post(&format!("{path}?dryRun=All"), &body);
                assert!(answer.code < 500, "{pointer} = {value}: {}", answer.body);
            }
        }
        let named = |name: &str| overlaid(whole.clone(), &json!({"metadata": {"name": name}}));
        assert_eq!(post(path, &named(&"n".repeat(5000))).code, 422);
        assert_eq!(delete(&format!("{path}/none")).code, 404);
        assert_eq!(get(path).code, 200);
    }
}
