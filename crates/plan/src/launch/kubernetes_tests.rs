//! Cases of manifests: what a Job and what any other kind is given.

use super::super::fixtures::{order, station};
use super::super::order::{Code, CodeSource, Fetcher, Job};
use super::*;

fn rendered(order: &Order, station: &Station) -> (Manifests, Vec<Note>) {
    let mut notes = Vec::new();
    let manifests = render(order, station, &mut notes).unwrap();
    (manifests, notes)
}

fn of(config: Value) -> Value {
    rendered(&order(config), &station()).0.workload
}

fn refused(config: Value) -> Refusal {
    render(&order(config), &station(), &mut Vec::new()).unwrap_err().remove(0)
}

fn env<'a>(container: &'a Value, name: &str) -> Vec<&'a Value> {
    container["env"].as_array().unwrap().iter().filter(|entry| entry["name"] == name).collect()
}

// LA-Q-10, LA-Q-11, K-10, K-11, K-13
#[test]
fn keys_for_the_agent_are_taken_out_of_the_manifest() {
    let config = json!({"configFile": "/k", "context": "c", "namespace": "ns", "builder": {}, "wait_for_ready": true,
        "wait_timeout": 3, "kind": "Job"});
    assert_eq!(refused(config.clone()).path, "configFile", "a launch does not choose its cluster");
    let mut queued = order(config.clone());
    queued.queue_config = Some(config);
    let (manifests, _) = rendered(&queued, &station());
    assert_eq!((manifests.config_file.as_deref(), manifests.context.as_deref()), (Some("/k"), Some("c")));
    assert_eq!(manifests.namespace, "ns");
    let keys: Vec<_> = manifests.workload.as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["apiVersion", "kind", "metadata", "spec"]);
    assert_eq!(of(json!({"namespace": "a", "metadata": {"namespace": "b"}}))["metadata"]["namespace"], "b");
    let mut elsewhere = station();
    elsewhere.namespace = Some("wandb".into());
    assert_eq!(rendered(&order(json!({})), &elsewhere).0.namespace, "wandb");
    assert_eq!(rendered(&order(json!({})), &station()).0.namespace, "default");
}

// LA-Q-12, LA-Q-13, G-06
#[test]
fn a_needless_wrapper_is_taken_off() {
    let inner = json!({"kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1", "metadata": {"name": "x"}});
    for wrapped in [json!({"kubernetes": inner}), json!({"resource_args": {"kubernetes": inner}})] {
        let (manifests, notes) = rendered(&order(wrapped), &station());
        assert_eq!(manifests.workload["kind"], "PyTorchJob");
        assert!(notes.iter().any(|note| note.rule == "G-06"));
    }
}

// K-26, K-36, K-37
#[test]
fn kinds_are_completed_or_refused() {
    assert_eq!(of(json!({"apiVersion": "batch/v1beta1", "kind": "Job"}))["apiVersion"], "batch/v1");
    assert_eq!(refused(json!({"kind": "CronJob"})).rule, "K-26");
    assert_eq!(of(json!({"kind": "TFJob"}))["apiVersion"], "kubeflow.org/v1");
    assert_eq!(of(json!({"group": "ray.io", "version": "v1", "kind": "RayJob"}))["apiVersion"], "ray.io/v1");
    assert_eq!(refused(json!({"kind": "RayJob"})).rule, "K-36");
    assert_eq!(refused(json!({"apiVersion": "ray.io/v1"})).rule, "K-36");
    let pod = of(json!({"kind": "Pod", "spec": {"containers": [{"name": "a", "image": "${image_uri}"}]}}));
    assert_eq!(
        (pod["apiVersion"].as_str(), pod["spec"]["containers"][0]["image"].as_str()),
        (Some("v1"), Some("repo/img:v1"))
    );
    assert_eq!(env(&pod["spec"]["containers"][0], "WANDB_RUN_ID").len(), 1);
    assert!(pod["spec"].get("backoffLimit").is_none());
}

// K-21, K-22, K-23
#[test]
fn only_the_main_container_gets_the_command_and_nothing_is_there_twice() {
    let config = json!({"spec": {"template": {"spec": {"initContainers": [{"name": "i", "image": "b"}],
        "imagePullSecrets": [{"name": "own"}], "containers": [
        {"name": "side", "image": "proxy", "env": [{"name": "WANDB_RUN_ID", "value": "fake"}, {"name": "WANDB_NAME", "value": "n"}]},
        {"name": "main", "image": "${image_uri}"}]}}}});
    let mut order = order(config);
    order.spec.overrides.args = vec!["--a".into()];
    order.spec.name = Some("ours".into());
    order.job = Some(Job { entry_point: vec!["python".into()], ..Job::default() });
    let mut station = station();
    station.has_registry_credentials = true;
    let pod = rendered(&order, &station).0.workload["spec"]["template"]["spec"].clone();
    let [side, main] = [&pod["containers"][0], &pod["containers"][1]];
    assert!(side.get("args").is_none() && side.get("command").is_none() && side["image"] == "proxy");
    assert_eq!((&main["args"], &main["command"]), (&json!(["--a"]), &json!(["python"])));
    assert_eq!(env(side, "WANDB_RUN_ID"), [&json!({"name": "WANDB_RUN_ID", "value": "ab12cd34"})]);
    assert_eq!(env(side, "WANDB_NAME"), [&json!({"name": "WANDB_NAME", "value": "n"})]);
    assert!(pod["initContainers"][0].get("env").is_none());
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "own"}, {"name": "regcred-ab12cd34"}]));
    let named = json!({"metadata": {"annotations": {"volley.dev/main-container": "b"}},
        "spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "x"}]}}}});
    order.config = named;
    let pod = rendered(&order, &station).0.workload["spec"]["template"]["spec"].clone();
    assert_eq!(
        (pod["containers"][1]["image"].as_str(), &pod["containers"][1]["args"]),
        (Some("repo/img:v1"), &json!(["--a"]))
    );
    assert!(pod["containers"][0].get("args").is_none());
}

// LA-Q-1, K-6, K-7
#[test]
fn what_a_macro_brings_in_is_judged_too() {
    let mut order = order(json!({"spec": {"template": {"spec": {"hostPID": "${author}"}}}}));
    order.spec.author = Some("true".into());
    assert_eq!(render(&order, &station(), &mut Vec::new()).unwrap_err()[0].rule, "K-2");
    order.queue_config = Some(order.config.clone());
    let mut open = station();
    open.policy = safety::Policy::Privileged;
    assert!(render(&order, &open, &mut Vec::new()).is_ok(), "the queue's admin wrote it");
    let mut secure = station();
    secure.is_secure = true;
    order.config = json!({"spec": {"template": {"spec": {"containers": [{"command": ["sh"]}]}}}});
    assert_eq!(render(&order, &secure, &mut Vec::new()).unwrap_err()[0].rule, "A-30");
}

// K-7: the security defaults of seed 001, around what an admin has set.
#[test]
fn every_container_is_secured_as_far_as_nobody_may_loosen_it() {
    let config = json!({"spec": {"template": {"spec": {"initContainers": [{"name": "i"}], "containers": [
        {"name": "a", "securityContext": {"runAsUser": 1, "capabilities": {"add": ["CHOWN"]}}},
        {"name": "b", "securityContext": {"privileged": true}}]}}}});
    let mut order = order(config.clone());
    order.queue_config = Some(config);
    let mut open = station();
    open.policy = safety::Policy::Privileged;
    let pod = rendered(&order, &open).0.workload["spec"]["template"]["spec"].clone();
    let profile = json!({"type": "RuntimeDefault"});
    assert_eq!(
        pod["initContainers"][0]["securityContext"],
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "seccompProfile": profile})
    );
    assert_eq!(
        pod["containers"][0]["securityContext"],
        json!({"runAsUser": 1, "allowPrivilegeEscalation": false, "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]},
            "seccompProfile": profile})
    );
    assert!(pod["containers"][1]["securityContext"].get("allowPrivilegeEscalation").is_none());
}

// K-20, K-27, G-16, G-17
#[test]
fn names_and_labels_fit_or_are_told() {
    let refusal = refused(json!({"metadata": {"name": "A_${run_id}"}}));
    assert!(refusal.rule == "K-20" && refusal.to_string().contains("|dns"), "{refusal}");
    let started = of(json!({"metadata": {"generateName": "train-"}}));
    assert!(started["metadata"]["name"].as_str().unwrap().starts_with("train-"));
    assert!(started["metadata"].get("generateName").is_none());
    let mut order = order(json!({"metadata": {"labels": {"p": "${project_name}"}}}));
    order.spec.project = "my project".into();
    let (manifests, notes) = rendered(&order, &station());
    assert_eq!(manifests.workload["metadata"]["labels"]["p"], "my-project");
    assert!(notes.iter().any(|note| note.rule == "G-17"));
}

// K-35, K-38, K-39
#[test]
fn of_several_pods_one_begins_the_run_and_the_others_join() {
    let pod = json!({"spec": {"containers": [{"name": "pytorch", "image": "${image_uri}"}]}});
    let config = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {
        "Master": {"replicas": 1, "template": pod}, "Worker": {"replicas": 2, "template": pod}}}});
    let job = of(config);
    let container = |role: &str| job["spec"]["pytorchReplicaSpecs"][role]["template"]["spec"]["containers"][0].clone();
    for role in ["Master", "Worker"] {
        let container = container(role);
        assert_eq!(env(&container, "WANDB_RUN_ID")[0]["value"], "ab12cd34");
        assert_eq!(env(&container, "WANDB_API_KEY")[0]["valueFrom"]["secretKeyRef"]["name"], "wandb-api-key-ab12cd34");
        assert_eq!(env(&container, "VOLLEY_ROLE")[0]["value"], role);
        assert_eq!(env(&container, "VOLLEY_REPLICA")[0]["valueFrom"]["fieldRef"]["fieldPath"], "metadata.name");
        assert_eq!(env(&container, "WANDB_X_PRIMARY")[0]["value"], if role == "Master" { "true" } else { "false" });
    }
    assert!(job["metadata"]["name"].as_str().unwrap().starts_with("launch-team-proj-1-"));
    assert!(job["spec"].get("ttlSecondsAfterFinished").is_none());
    let bare = json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": {
        "Master": {"template": {"spec": {"containers": [{"name": "pytorch"}]}}}}}});
    let job = of(bare);
    assert!(job.pointer("/spec/pytorchReplicaSpecs/Master/template/spec/containers/0/image").is_none());
    let (_, notes) = rendered(&order(json!({"apiVersion": "trainer.kubeflow.org/v1", "kind": "TrainJob"})), &station());
    assert!(notes.iter().any(|note| note.rule == "K-31"));
}

//
#[test]
fn a_teams_secret_is_referred_to() {
    let config = json!({"spec": {"template": {"spec": {"containers": [{"env": [
        {"name": "HF", "value": "secret://hf_token"},
        {"name": "OWN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}]}}}});
    let (manifests, _) = rendered(&order(config), &station());
    let container = manifests.workload.pointer("/spec/template/spec/containers/0").unwrap().clone();
    let name = manifests.secrets[1].name().to_owned();
    assert_eq!(env(&container, "HF")[0]["valueFrom"]["secretKeyRef"], json!({"name": name, "key": "hf_token"}));
    assert_eq!(env(&container, "OWN")[0]["valueFrom"]["secretKeyRef"], json!({"name": "s", "key": "k"}));
}

//
#[test]
fn long_inputs_are_mounted() {
    let mut order = order(json!({}));
    order.spec.overrides.run_config.insert("x".into(), json!("y".repeat(10_000)));
    let pod = rendered(&order, &station()).0.workload["spec"]["template"]["spec"].clone();
    assert_eq!(env(&pod["containers"][0], "VOLLEY_CONFIG_FILE")[0]["value"], "/etc/volley/inputs/config.json");
    assert_eq!(pod["volumes"][0]["name"], pod["containers"][0]["volumeMounts"][0]["name"]);
}

fn with_code(source: CodeSource, claim: Option<(String, String)>) -> Order {
    let mut order = order(json!({}));
    order.is_image_job = false;
    order.job = Some(Job { entry_point: vec!["python".into(), "a.py".into()], ..Job::default() });
    let fetcher = Fetcher { image: "volley/agent:1".into(), program: None };
    order.code = Some(Code { source, is_default_base: true, claim, fetcher });
    order.spec.overrides.working_dir = Some("sub/".into());
    order
}

// K-40, K-42, K-43
#[test]
fn code_is_fetched_and_its_requirements_installed() {
    let git = CodeSource::Repository { remote: "https://host/x.git".into(), commit: "abc".into() };
    let pod = rendered(&with_code(git, None), &station()).0.workload["spec"]["template"]["spec"].clone();
    let fetcher = &pod["initContainers"][0];
    assert_eq!(
        (fetcher["name"].as_str(), fetcher["image"].as_str()),
        (Some("wandb-source-code-init"), Some("volley/agent:1"))
    );
    let words: Vec<&str> =
        fetcher["command"].as_array().unwrap().iter().rev().take(2).filter_map(Value::as_str).collect();
    assert_eq!(words, ["abc", "https://host/x.git"]);
    assert!(env(fetcher, "WANDB_API_KEY")[0].get("valueFrom").is_some());
    let main = &pod["containers"][0];
    assert_eq!(main["workingDir"], "/mnt/wandb/sub");
    assert_eq!(main["volumeMounts"][0]["mountPath"], "/mnt/wandb");
    let command: Vec<&str> = main["command"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!((command[0], &command[4..]), ("sh", &["python", "a.py"][..]));
    assert_eq!(pod["volumes"][0]["emptyDir"], json!({}));
}

// K-41, K-44, J-7
#[test]
fn code_comes_from_a_claim_or_is_refused() {
    let claim = Some(("code".to_owned(), "job:v1".to_owned()));
    let pod = rendered(&with_code(CodeSource::Artifact { id: "a".into(), reference: None }, claim), &station())
        .0
        .workload["spec"]["template"]["spec"]
        .clone();
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "code");
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["subPath"], "job:v1");
    assert!(pod.get("initContainers").is_none());
    let refused = |source| render(&with_code(source, None), &station(), &mut Vec::new()).unwrap_err()[0].rule;
    assert_eq!(refused(CodeSource::Other("image".into())), "K-44");
    for remote in ["file:///etc", "ext::sh -c x", "--upload-pack=x", "http://x", "git@host", "a b@c:d"] {
        let source = CodeSource::Repository { remote: remote.into(), commit: "c".into() };
        assert_eq!(refused(source), "J-7", "{remote}");
    }
    let unpinned = CodeSource::Repository { remote: "https://h/x".into(), commit: "main".into() };
    assert_eq!(refused(unpinned), "J-7");
    for remote in ["https://h/x", "ssh://git@h/x", "git@github.com:a/b.git"] {
        assert!(code::is_allowed_remote(remote), "{remote}");
    }
}

// K-31, L-33
#[test]
fn the_workload_and_its_pods_are_found_again_by_their_labels() {
    let job = of(json!({"metadata": {"finalizers": ["own"], "labels": {"a": "b"}}}));
    for labels in [&job["metadata"]["labels"], &job["spec"]["template"]["metadata"]["labels"]] {
        for (key, value) in
            [("wandb.ai/monitor", "true"), ("wandb.ai/agent", "agent-abc"), ("wandb.ai/run-id", "ab12cd34")]
        {
            assert_eq!(labels[key], value);
        }
        assert_eq!(labels[label::ITEM], "k1k2k3k4k5k6");
    }
    assert_eq!(job["metadata"]["labels"]["a"], "b");
    assert_eq!(job["metadata"]["annotations"][label::ITEM], "RQI1");
    assert_eq!(job["metadata"]["finalizers"], json!(["own", label::FINALIZER]));
}

// K-7
#[test]
fn a_launch_cannot_become_something_else() {
    let mut order = order(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding"}));
    order.queue_config = Some(json!({"metadata": {"namespace": "wandb"}}));
    let paths: Vec<String> =
        render(&order, &station(), &mut Vec::new()).unwrap_err().into_iter().map(|refusal| refusal.path).collect();
    assert_eq!(paths, ["kind", "metadata.namespace"]);
}

// K-42
#[test]
fn an_artifact_is_fetched_by_its_name_or_by_our_own_program() {
    let source = CodeSource::Artifact { id: "QQ==".into(), reference: Some("t/p/code:v1".into()) };
    let mut order = with_code(source, None);
    let fetches = |order: &Order| -> Vec<String> {
        let pod = rendered(order, &station()).0.workload["spec"]["template"]["spec"].clone();
        let words = pod["initContainers"][0]["command"].as_array().unwrap().clone();
        words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    assert_eq!(fetches(&order).last().unwrap(), "t/p/code:v1");
    order.code.as_mut().unwrap().fetcher.program = Some("/bin/volley".into());
    assert_eq!(fetches(&order), ["/bin/volley", "fetch", "/mnt/wandb", "artifact", "QQ=="]);
}
