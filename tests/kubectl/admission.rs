//! What admission adds and refuses: accounts, tolerations, priorities, quotas and limits.

use crate::harness::{Space, eventually, for_some_kubectls};
use crate::http::{get, patch, post};
use serde_json::{Value, json};

fn space(theme: &str) -> Space {
    let space = Space::new(theme);
    ready(&space);
    space
}

fn ready(space: &Space) {
    let account = space.core("serviceaccounts/default");
    eventually("the default account", || (get(&account).code == 200).then_some(()));
}

fn pod(name: &str, more: Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

fn refused(space: &Space, body: &Value) -> String {
    let answer = post(&space.core("pods"), body);
    assert_eq!((answer.code, answer.status().1.as_str()), (403, "Forbidden"), "{}", answer.body);
    answer.status().2
}

// K-ADM-2
#[test]
fn a_missing_account_is_named() {
    for_some_kubectls("account", |space| {
        ready(space);
        let yaml = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {serviceAccountName: nope, containers: [{name: c, image: i}]}\n";
        let text = format!(
            "Error from server (Forbidden): error when creating \"STDIN\": pods \"p\" is forbidden: error looking up service account {}/nope: serviceaccount \"nope\" not found\n",
            space.name
        );
        assert_eq!(space.fails_with(&["create", "-f", "-"], yaml), text);
    });
}

// K-ADM-2 K-ADM-3
#[test]
fn tokens_and_tolerations_can_be_declined() {
    let space = space("declined");
    let toleration = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let made = post(
        &space.core("pods?dryRun=All"),
        &pod("p", json!({"automountServiceAccountToken": false, "tolerations": [toleration]})),
    )
    .ok();
    assert_eq!(made["spec"].get("volumes"), None);
    let tolerations = made["spec"]["tolerations"].as_array().unwrap();
    assert_eq!((tolerations.len(), &tolerations[0]["tolerationSeconds"]), (2, &json!(5)));
    assert_eq!(tolerations[1]["key"], "node.kubernetes.io/unreachable");
}

// K-ADM-4
#[test]
fn priorities_come_from_classes() {
    let space = space("priority");
    let class = json!({"metadata": {"name": space.name}, "value": 77, "preemptionPolicy": "Never"});
    post("/apis/scheduling.k8s.io/v1/priorityclasses", &class).ok();
    let made = post(&space.core("pods?dryRun=All"), &pod("p", json!({"priorityClassName": space.name}))).ok();
    assert_eq!((&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]), (&json!(77), &json!("Never")));
    assert_eq!(
        refused(&space, &pod("p", json!({"priorityClassName": "nope"}))),
        "pods \"p\" is forbidden: no PriorityClass with name nope was found"
    );
    let text = "pods \"p\" is forbidden: the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name";
    assert_eq!(refused(&space, &pod("p", json!({"priority": 5}))), text);
    let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{}", space.name);
    let answer = patch("merge", &path, &json!({"value": 78}));
    let text = format!(
        "PriorityClass.scheduling.k8s.io \"{}\" is invalid: value: Forbidden: may not be changed in an update.",
        space.name
    );
    assert_eq!(answer.status(), (422, "Invalid".into(), text));
}

// K-ADM-1 K-ADM-5
#[test]
fn quotas_count_pods_as_they_are_made() {
    for_some_kubectls("quota", |space| {
        ready(space);
        space.ok(&["create", "quota", "q", "--hard=pods=1"]);
        eventually("the quota's status", || {
            (get(&space.core("resourcequotas/q")).ok()["status"]["hard"]["pods"] == "1").then_some(())
        });
        let run = |name: &str| space.run(&["run", name, "--image=i", "--restart=Never"]);
        assert_eq!(run("one").stdout, "pod/one created\n");
        let text = "Error from server (Forbidden): pods \"two\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1\n";
        assert_eq!(run("two").stderr, text);
        assert_eq!(get(&space.core("resourcequotas/q")).ok()["status"]["used"]["pods"], "1");
        space.ok(&["delete", "pod", "one", "--now"]);
        eventually("the release", || {
            (get(&space.core("resourcequotas/q")).ok()["status"]["used"]["pods"] == "0").then_some(())
        });
        assert_eq!(run("two").stdout, "pod/two created\n");
    });
}

// K-ADM-5
#[test]
fn compute_quotas_want_requests() {
    let space = space("compute");
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.cpu": "1", "configmaps": "2"}}});
    post(&space.core("resourcequotas"), &quota).ok();
    eventually("the quota's status", || {
        get(&space.core("resourcequotas/q")).ok()["status"]["hard"].is_object().then_some(())
    });
    assert_eq!(
        refused(&space, &pod("p", json!({}))),
        "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
    let large = pod("p", json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}));
    assert_eq!(
        refused(&space, &large),
        "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1"
    );
    eventually("the count of the namespace's own map", || {
        (get(&space.core("resourcequotas/q")).ok()["status"]["used"]["configmaps"] == "1").then_some(())
    });
    assert_eq!(post(&space.core("configmaps"), &json!({"metadata": {"name": "a"}})).code, 201);
    let over = post(&space.core("configmaps"), &json!({"metadata": {"name": "b"}}));
    assert_eq!(
        over.status().2,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
    );
}

#[test]
fn limit_ranges_fill_and_bound() {
    let space = space("limits");
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}}]}});
    post(&space.core("limitranges"), &range).ok();
    let made = post(&space.core("pods?dryRun=All"), &pod("p", json!({}))).ok();
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}})
    );
    let annotation = made["metadata"]["annotations"]["kubernetes.io/limit-ranger"].as_str().unwrap();
    assert!(annotation.starts_with("LimitRanger plugin set: "), "{annotation}");
    let large = pod("p", json!({"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "3"}}}]}));
    let text = refused(&space, &large);
    assert!(text.contains("maximum cpu usage per Container is 1, but limit is 3"), "{text}");
}

// K-HTTP-9
#[test]
fn doubtful_pods_and_kept_kinds_are_warned_about() {
    let space = space("warnings");
    let env = json!([{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]);
    let answer = post(
        &space.core("pods?dryRun=All"),
        &pod("p", json!({"containers": [{"name": "c", "image": "i", "env": env}]})),
    );
    let text = r#"299 - "spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when using apply""#;
    assert_eq!(answer.headers("warning").collect::<Vec<_>>(), [text]);
    let output = space.run(&["create", "ingress", "i", "--rule=example.com/=s:80"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, "ingress.networking.k8s.io/i created\n"));
    assert!(output.stderr.contains("nothing acts on it here"), "{}", output.stderr);
}

// K-POD-5
#[test]
fn most_of_a_pod_is_fixed() {
    let space = space("fixed");
    post(&space.core("pods"), &pod("p", json!({"schedulerName": "nobody"}))).ok();
    let path = space.core("pods/p");
    let change = |body: Value| patch("strategic", &path, &body);
    assert_eq!(change(json!({"spec": {"containers": [{"name": "c", "image": "j"}], "activeDeadlineSeconds": 60}, "metadata": {"labels": {"a": "b"}}})).code, 200);
    let answer = change(json!({"spec": {"hostname": "h"}}));
    assert_eq!(answer.code, 422);
    assert!(
        answer
            .status()
            .2
            .starts_with("Pod \"p\" is invalid: spec: Forbidden: pod updates may not change fields other than "),
        "{}",
        answer.body
    );
}
