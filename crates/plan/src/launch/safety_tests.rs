//! Cases of the safety rules.

use super::*;
use serde_json::json;

fn rules(config: &Value, judge: &Judge<'_>) -> Vec<(&'static str, String)> {
    check(config, judge).into_iter().map(|refusal| (refusal.rule, refusal.path)).collect()
}

fn submitted(config: &Value) -> Vec<(&'static str, String)> {
    rules(config, &Judge { admin: Policy::Baseline, submitter: Policy::Restricted, queue: None })
}

// K-1, K-2, K-3, K-4, K-5
#[test]
fn a_submitter_may_loosen_nothing_at_any_depth() {
    assert!(submitted(&json!({"spec": {"containers": [{"image": "a"}]}})).is_empty());
    for (config, rule, path) in [
        (json!({"spec": {"securityContext": {}}}), "K-1", "spec.securityContext"),
        (json!({"volumes": [{"hostPath": null}]}), "K-1", "volumes[0].hostPath"),
        (json!({"a": [{"b": {"serviceAccountToken": {}}}]}), "K-1", "a[0].b.serviceAccountToken"),
        (json!({"hostPID": true}), "K-2", "hostPID"),
        (json!({"hostIPC": "Yes"}), "K-2", "hostIPC"),
        (json!({"hostNetwork": 1}), "K-2", "hostNetwork"),
        (json!({"shareProcessNamespace": "TRUE"}), "K-2", "shareProcessNamespace"),
        (json!({"hostUsers": true}), "K-2", "hostUsers"),
        (json!({"automountServiceAccountToken": true}), "K-2", "automountServiceAccountToken"),
        (json!({"ports": [{"hostPort": 80}]}), "K-2", "ports[0].hostPort"),
        (json!({"serviceAccountName": "root"}), "K-3", "serviceAccountName"),
        (json!({"serviceAccount": "root"}), "K-3", "serviceAccount"),
        (json!({"mountPropagation": "Bidirectional"}), "K-4", "mountPropagation"),
        (
            json!({"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/x": "Unconfined"}}}),
            "K-5",
            "metadata.annotations[container.apparmor.security.beta.kubernetes.io/x]",
        ),
    ] {
        assert_eq!(submitted(&config), [(rule, path.to_owned())], "{config}");
    }
    let harmless = json!({"hostPID": false, "hostIPC": 0, "hostNetwork": "no", "serviceAccountName": "",
        "mountPropagation": "None", "annotations": {"seccomp": "runtime/default"}});
    assert!(submitted(&harmless).is_empty());
}

// M-9
#[test]
fn a_launch_that_asks_for_a_secret_of_the_agents_is_refused() {
    let asked = |value: &str| json!({"containers": [{"env": [{"name": "X", "value": value}]}]});
    let place = "containers[0].env[0].value".to_owned();
    assert_eq!(submitted(&asked("a ${WANDB_API_KEY} b")), [("M-9", place.clone())]);
    assert_eq!(submitted(&asked("${run_id} ${aws_secret:-none}")), [("M-9", place)]);
    assert!(submitted(&asked("${run_id} $(WANDB_API_KEY)")).is_empty());
    let shell = json!({"containers": [{"command": ["sh", "-c", "curl -u api:${WANDB_API_KEY} x"]}]});
    assert!(submitted(&shell).is_empty(), "the shell's own");
    let queue = asked("${REGISTRY_TOKEN}");
    let judge = Judge { admin: Policy::Baseline, submitter: Policy::Restricted, queue: Some(&queue) };
    assert!(rules(&queue, &judge).is_empty(), "an admin's is told as a note, and stays as it is");
}

// K-6, K-7
#[test]
fn what_the_admin_wrote_is_held_to_the_agents_policy() {
    let queue = json!({"spec": {"serviceAccountName": "train", "containers": [
        {"name": "a", "securityContext": {"runAsUser": 1000, "capabilities": {"add": ["CHOWN"]}}}],
        "volumes": [{"name": "host", "hostPath": {"path": "/data"}}]}});
    let judged = |admin, config: &Value| {
        let judge = Judge { admin, submitter: Policy::Restricted, queue: Some(&queue) };
        rules(config, &judge).into_iter().map(|(_, path)| path).collect::<Vec<_>>()
    };
    assert!(judged(Policy::Privileged, &queue).is_empty());
    assert_eq!(judged(Policy::Baseline, &queue), ["spec.volumes[0].hostPath"]);
    assert_eq!(
        judged(Policy::Restricted, &queue),
        ["spec.containers[0].securityContext", "spec.serviceAccountName", "spec.volumes[0].hostPath"]
    );
    let mut changed = queue.clone();
    changed["spec"]["serviceAccountName"] = json!("admin");
    changed["spec"]["containers"].as_array_mut().unwrap().insert(0, json!({"name": "b", "securityContext": {}}));
    assert_eq!(
        judged(Policy::Privileged, &changed),
        ["spec.containers[0].securityContext", "spec.serviceAccountName"],
        "what a submitter changes or adds is the submitter's"
    );
    let refusals =
        check(&changed, &Judge { admin: Policy::Privileged, submitter: Policy::Restricted, queue: Some(&queue) });
    assert!(refusals[0].to_string().contains("admin"), "{}", refusals[0]);
}

// K-7
#[test]
fn a_baseline_admin_still_reaches_no_machine() {
    let queue = json!({"containers": [{"name": "a", "securityContext": {
        "privileged": true, "procMount": "Unmasked", "capabilities": {"add": ["SYS_ADMIN"]},
        "seccompProfile": {"type": "Unconfined"}}}]});
    let judge = Judge { admin: Policy::Baseline, submitter: Policy::Restricted, queue: Some(&queue) };
    let paths: Vec<_> = rules(&queue, &judge).into_iter().map(|(_, path)| path).collect();
    assert_eq!(
        paths,
        [
            "containers[0].securityContext.capabilities.add",
            "containers[0].securityContext.privileged",
            "containers[0].securityContext.procMount",
            "containers[0].securityContext.seccompProfile.type",
        ]
    );
}

//
#[test]
fn secure_mode_looks_into_every_pod() {
    let pod = json!({"hostPID": false, "initContainers": [], "containers": [{}, {"command": ["sh"]}]});
    let config = json!({"spec": {"tasks": [{"name": "a", "template": {"spec": pod}}]}});
    let paths: Vec<_> = check_secure(&config, true).into_iter().map(|refusal| refusal.path).collect();
    assert_eq!(
        paths,
        [
            "spec.tasks[0].template.spec.hostPID",
            "spec.tasks[0].template.spec.initContainers",
            "spec.tasks[0].template.spec.containers[1].command",
            "overrides.entry_point",
        ]
    );
    assert!(check_secure(&json!({"spec": {"template": {"spec": {"containers": [{}]}}}}), false).is_empty());
}

// K-7
#[test]
fn policies_have_names() {
    for policy in [Policy::Restricted, Policy::Baseline, Policy::Privileged] {
        assert_eq!(Policy::named(policy.name()), Some(policy));
    }
    assert_eq!(Policy::named("loose"), None);
}

fn target(version: &str, kind: &str, namespace: &str) -> Target {
    Target { version: version.into(), kind: kind.into(), namespace: namespace.into(), ..Target::default() }
}

// K-7
#[test]
fn a_submitter_makes_only_what_runs_something_where_the_queue_has_it() {
    let judge = Judge { admin: Policy::Baseline, submitter: Policy::Restricted, queue: None };
    let paths = |target: &Target, queue: Option<&Target>| -> Vec<String> {
        check_target(target, queue, &judge).into_iter().map(|refusal| refusal.path).collect()
    };
    let job = target("batch/v1", "Job", "wandb");
    assert!(paths(&job, None).is_empty() && paths(&job, Some(&job)).is_empty());
    assert!(paths(&target("kubeflow.org/v1", "PyTorchJob", "wandb"), Some(&job)).is_empty());
    for (version, kind) in [
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("apps/v1", "DaemonSet"),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ] {
        assert_eq!(paths(&target(version, kind, "wandb"), Some(&job)), ["kind"], "{kind}");
    }
    assert_eq!(paths(&target("batch/v1", "Job", "other"), Some(&job)), ["metadata.namespace"]);
    assert_eq!(paths(&target("batch/v1", "Job", "kube-system"), None), ["metadata.namespace"]);
    let far = Target { config_file: Some("/root/.kube/config".into()), context: Some("prod".into()), ..job.clone() };
    assert_eq!(paths(&far, Some(&job)), ["configFile", "context"]);
    assert!(paths(&far, Some(&far)).is_empty(), "the queue's admin chose it");
}

// K-7, K-60
#[test]
fn only_harmless_objects_stand_beside_a_launch() {
    assert_eq!(check_beside("v1", "Service"), None);
    assert_eq!(check_beside("apps/v1", "Deployment"), None);
    assert!(check_beside("v1", "Secret").is_some() && check_beside("v1", "Namespace").is_some());
}
