//! The page about Launch on Kubernetes: a training job whose text lost its shape, a plain Job with its security defaults, and
//! an agent's file of settings.

use crate::agents::Agent;
use crate::command::{eventually, finish};
use crate::launch::Launch;
use crate::world::World;
use base64::Engine as _;
use serde_json::{Value, json};
use std::fs;

const JOB: &str = include_str!("../../crates/plan/src/check/seeds/001-job.yaml");
const PYTORCHJOB: &str = include_str!("../../crates/plan/src/check/seeds/001-pytorchjob.yaml");
/// The page's file of settings with its indentation, and with its placeholders filled in.
const SETTINGS: &str = "\
queues:
  - shared
max_jobs: 2
environment:
  type: aws
  region: us-east-1
registry:
  type: ecr
  uri: 123456789012.dkr.ecr.us-east-1.amazonaws.com/launch
builder:
  type: kaniko
  build-context-store: s3://bucket/launch
";
/// A job of the fifth text, whose results stay in its container.
const CHECKPOINT: &str = "\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: 'run-${run_id}'}
spec:
  nprocPerNode: '1'
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      restartPolicy: Never
      template:
        spec:
          containers:
            - name: pytorch
              image: ${image_uri}
              command: [sh, -c]
              args: ['echo nodes=${PET_NNODES} image=${image_uri} --checkpoint_path /tmp/checkpoints/mnist.pt']
              volumeMounts: [{name: data, mountPath: /mnt/data}]
          volumes: [{name: data, emptyDir: {}}]
";

fn security() -> Value {
    json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] },
        "seccompProfile": { "type": "RuntimeDefault" } })
}

/// Checks a document, mends it, and makes a queue of it; gives what was said at first.
fn make_queue(launch: &Launch<'_>, name: &str, text: &str) -> String {
    let file = format!("{name}.yaml");
    launch.write(&file, text);
    let told = finish(launch.world.volley_command(&["check", &file]), "").stdout;
    launch.world.volley(&["check", "--fix", &file]);
    launch.world.volley(&["queue", "create", name, "--resource", "kubernetes", "-f", &file]);
    told
}

fn has_codes(told: &str, codes: &[&str]) {
    for code in codes {
        assert!(told.contains(&format!("[{code}]")), "{code}: {told}");
    }
}

fn run(launch: &Launch<'_>, args: &[&str]) -> volley_client::items::Item {
    let item = launch.until_end(&launch.volley(args));
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    item
}

// G-02, G-03, G-06, G-16, G-20, G-25, G-26, M-10, K-32, K-75
#[test]
fn a_training_job_runs_once_its_text_is_mended() {
    let parts = "cluster,operator,server,agent";
    let world = World::start_parts(parts, &["--server-listen", "127.0.0.1:0"]);
    let launch = Launch::on(&world);
    let told = make_queue(&launch, "pytorch", PYTORCHJOB);
    has_codes(&told, &["G-02", "G-03", "G-06", "G-16", "G-20"]);
    let item = run(&launch, &["-q", "pytorch", "-E", "sh -c 'echo rank $RANK of $WORLD_SIZE'"]);
    let name = format!("run-{}-pytorch-job", item.run.as_ref().unwrap().name);
    assert_eq!((&item.manifest["kind"], &item.manifest["metadata"]["name"]), (&json!("PyTorchJob"), &json!(name)));
    assert!(launch.lines(&item).contains(&"[master-0] rank 0 of 3".to_owned()), "{:?}", launch.lines(&item));
    let replicas = &item.manifest["spec"]["pytorchReplicaSpecs"];
    for part in ["Master", "Worker"] {
        assert_eq!(replicas[part]["template"]["spec"]["containers"][0]["securityContext"], security());
    }
    assert_eq!(item.manifest["spec"]["runPolicy"]["ttlSecondsAfterFinished"], 600);

    // A shell's own variables are left to the shell, and results that a volume would keep are told of.
    let told = make_queue(&launch, "shell", CHECKPOINT);
    has_codes(&told, &["G-25", "G-26"]);
    let item = run(&launch, &["-q", "shell"]);
    assert_eq!(launch.lines(&item), ["nodes=1 image=host --checkpoint_path /tmp/checkpoints/mnist.pt"]);

    let told = make_queue(&launch, "plain", JOB);
    has_codes(&told, &["G-02"]);
    let item = run(&launch, &["-q", "plain", "-E", "sh -c 'echo $MY_ENV_VAR; grep CapBnd /proc/self/status'"]);
    assert_eq!(launch.lines(&item), ["some-value", "CapBnd:\t0000000000000000"]);
    let (meta, spec) = (&item.manifest["metadata"], &item.manifest["spec"]);
    assert_eq!((&meta["namespace"], &meta["labels"]["queue"]), (&json!("wandb"), &json!("k8s-test")));
    assert_eq!((&spec["backoffLimit"], &spec["ttlSecondsAfterFinished"]), (&json!(0), &json!(60)));
    assert_eq!(spec["template"]["spec"]["containers"][0]["securityContext"], security());
}

// A-6, A-13, K-25, L-36
#[test]
fn an_agent_is_told_by_the_pages_file_and_pulls_with_the_credentials_of_docker() {
    let flags = ["--server-listen", "127.0.0.1:0", "--image-map", "registry.example:5000/*=host"];
    let world = World::start_parts("cluster,operator,server", &flags);
    let launch = Launch::on(&world);
    launch.make_queue("shared", &json!({}));
    let home = world.folder.path().join("one");
    fs::create_dir_all(home.join(".docker")).unwrap();
    let auths = json!({ "auths": { "registry.example:5000": { "auth": "bWU6aGlkZGVu" }, "other.example": { "auth": "eDp5" } } });
    fs::write(home.join(".docker/config.json"), auths.to_string()).unwrap();
    launch.write("launch-config.yaml", SETTINGS);
    world.volley(&["check", "launch-config.yaml"]);
    let settings = world.folder.path().join("launch-config.yaml").display().to_string();
    let _agent = Agent::start_with(&launch, "one", &["-c", &settings, "--url", &launch.url]);
    let script = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let spec = json!({ "entity": launch.entity, "project": "p", "resource": "kubernetes",
        "docker": { "docker_image": "registry.example:5000/team/train:1" }, "overrides": { "entry_point": ["sh", "-c", script] } });
    let id = launch.push_spec("shared", &spec);
    let item = launch.until(&id, "it runs", |item| item.state == "RUNNING");
    let secret = format!("regcred-{}", item.run.as_ref().unwrap().name);
    assert_eq!(item.manifest["spec"]["template"]["spec"]["imagePullSecrets"], json!([{ "name": secret }]));
    let read = || world.run(&["get", "secret", &secret, "-o", r"jsonpath={.data.\.dockerconfigjson}"]);
    // In base64: only the registry that it needs.
    let wanted = json!({ "auths": { "registry.example:5000": { "auth": "bWU6aGlkZGVu" } } }).to_string();
    assert_eq!(read().stdout, base64::engine::general_purpose::STANDARD.encode(wanted));
    launch.stop(&id);
    assert_eq!(launch.until_end(&id).end.as_deref(), Some("stopped"));
    eventually("its pull secret is gone", || (read().code != 0).then_some(()));
}
