//! Client-side apply: three-way merges, prune, diff, edit, and files with several documents.

use crate::harness::{Space, for_some_kubectls};
use crate::http::{get, patch};
use serde_json::{Value, json};

const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: web}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: web:1
        env: [{name: KEEP, value: '1'}, {name: DROP, value: '2'}]
      - {name: side, image: side:1}
";

fn containers(object: &Value) -> Vec<String> {
    let list = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    list.iter().map(|c| format!("{}={}", c["name"].as_str().unwrap(), c["image"].as_str().unwrap())).collect()
}

fn env(object: &Value) -> Vec<&str> {
    let list = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    list.iter().map(|e| e["name"].as_str().unwrap()).collect()
}

// K-SMP-1 K-SMP-2 K-SMP-3 K-WR-3
#[test]
fn every_kubectl_applies_three_way_differences() {
    for_some_kubectls("apply", |space| {
        assert_eq!(space.apply(DEPLOYMENT), "deployment.apps/d created\n");
        assert_eq!(space.apply(DEPLOYMENT), "deployment.apps/d unchanged\n");
        let foreign = json!({"metadata": {"labels": {"foreign": "1"}}, "spec": {"template": {"spec": {"containers": [
            {"name": "main", "env": [{"name": "FOREIGN", "value": "x"}]}, {"name": "sidecar", "image": "injected"}]}}}});
        patch("strategic", &space.group("apps/v1", "deployments/d"), &foreign).ok();
        let changed = DEPLOYMENT
            .replace("web:1", "web:2")
            .replace(", {name: DROP, value: '2'}", "")
            .replace("      - {name: side, image: side:1}\n", "      - {name: extra, image: extra:1}\n");
        assert_eq!(space.apply(&changed), "deployment.apps/d configured\n");
        let object = space.json(&["get", "deploy", "d"]);
        let mut found = containers(&object);
        found.sort();
        assert_eq!(found, ["extra=extra:1", "main=web:2", "sidecar=injected"]);
        let mut names = env(&object);
        names.sort_unstable();
        assert_eq!(names, ["FOREIGN", "KEEP"]);
        assert_eq!(object["metadata"]["labels"], json!({"app": "web", "foreign": "1"}));
        space.apply(&changed);
        let again = space.json(&["get", "deploy", "d"]);
        assert_eq!(again["metadata"]["generation"], object["metadata"]["generation"], "applying again changes nothing");
        let last = &object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
        assert!(last.as_str().unwrap().contains("\"image\":\"web:2\""), "{last}");
        let viewed = space.ok(&["apply", "view-last-applied", "deploy/d", "-o", "json"]);
        assert!(viewed.contains("\"image\": \"web:2\""), "{viewed}");
    });
}

#[test]
fn every_kubectl_applies_files_with_several_documents() {
    for_some_kubectls("documents", |space| {
        let documents = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: b}\nstringData: {k: v}\n---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}}\n";
        assert_eq!(space.apply(documents), "configmap/a created\nsecret/b created\nconfigmap/c created\n");
        assert_eq!(space.json(&["get", "secret", "b"])["data"]["k"], "dg==");
        assert_eq!(
            space.ok_with(&["delete", "-f", "-", "-o", "name"], documents),
            "configmap/a\nsecret/b\nconfigmap/c\n"
        );
    });
}

#[test]
fn every_kubectl_says_that_an_object_was_not_made_by_apply() {
    for_some_kubectls("annotation", |space| {
        space.ok(&["create", "configmap", "a"]);
        let output = space
            .run_with(&["apply", "-f", "-"], "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n");
        assert_eq!((output.code, output.stdout.as_str()), (0, "configmap/a configured\n"));
        assert!(output.stderr.starts_with("Warning: resource configmaps/a is missing the kubectl.kubernetes.io/last-applied-configuration annotation"), "{}", output.stderr);
    });
}

#[test]
fn every_kubectl_prunes_what_left_the_files() {
    for_some_kubectls("prune", |space| {
        let both = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, labels: {set: one}}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, labels: {set: one}}\n";
        let first = both.split("---").next().unwrap();
        let args = ["apply", "--prune", "-l", "set=one", "--prune-allowlist=core/v1/ConfigMap", "-f", "-"];
        assert_eq!(space.ok_with(&args, both), "configmap/a created\nconfigmap/b created\n");
        assert_eq!(space.ok_with(&args, first), "configmap/a unchanged\nconfigmap/b pruned\n");
        assert_eq!(get(&space.core("configmaps/b")).code, 404);
    });
}

// K-WR-6
#[test]
fn every_kubectl_diffs() {
    for_some_kubectls("diff", |space| {
        space.apply(DEPLOYMENT);
        let same = space.run_with(&["diff", "-f", "-"], DEPLOYMENT);
        assert_eq!((same.code, same.stdout.as_str()), (0, ""), "{}", same.stderr);
        let changed = space.run_with(&["diff", "-f", "-"], &DEPLOYMENT.replace("web:1", "web:2"));
        assert_eq!(changed.code, 1, "{}", changed.stderr);
        let lines: Vec<&str> =
            changed.stdout.lines().filter(|l| l.starts_with(['+', '-']) && l.contains("image")).collect();
        assert_eq!(lines, ["-        image: web:1", "+        image: web:2"]);
        let server = space.run_with(&["diff", "--server-side", "-f", "-"], DEPLOYMENT);
        assert!(server.code <= 1, "{}", server.stderr);
        let new = space.run_with(&["diff", "-f", "-"], "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\n");
        assert!(new.code == 1 && new.stdout.contains("+  name: new"), "{}{}", new.stdout, new.stderr);
        assert!(space.run_with(&["diff", "-f", "-"], "apiVersion: v1\nkind: Nope\nmetadata: {name: n}\n").code >= 1);
    });
}

#[test]
fn every_kubectl_edits_with_a_scripted_editor() {
    for_some_kubectls("edit", |space| {
        space.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: before}\n");
        let edit = |script: &str| {
            let mut command = space.command(&["edit", "cm", "a"]);
            let output = command.env("KUBE_EDITOR", script).output().unwrap();
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
            )
        };
        assert_eq!(edit("sed -i s/before/after/"), (Some(0), "configmap/a edited\n".into()));
        assert_eq!(space.ok(&["get", "cm", "a", "-o", "jsonpath={.data.k}"]), "after");
        assert_eq!(edit("true"), (Some(0), "Edit cancelled, no changes made.\n".into()));
    });
}

// K-NS-3
#[test]
fn applying_into_a_missing_namespace_names_it() {
    for_some_kubectls("missing", |space| {
        let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: no-such-space}\n";
        let output = space.run_with(&["apply", "-n", "no-such-space", "-f", "-"], yaml);
        assert_eq!(
            output.stderr,
            "Error from server (NotFound): error when creating \"STDIN\": namespaces \"no-such-space\" not found\n"
        );
        let output = space
            .run_with(&["apply", "-f", "-"], "apiVersion: nope.example.com/v1\nkind: Thing\nmetadata: {name: a}\n");
        let text = "error: resource mapping not found for name: \"a\" namespace: \"\" from \"STDIN\": no matches for kind \"Thing\" in version \"nope.example.com/v1\"\nensure CRDs are installed first\n";
        assert_eq!(output.stderr, text);
    });
}

#[test]
fn kustomizations_are_applied() {
    let space = Space::new("kustomize");
    space.file(
        "kustomization.yaml",
        "namePrefix: pre-\nresources: [cm.yaml]\nconfigMapGenerator:\n- name: gen\n  literals: [a=b]\n",
    );
    space.file("cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    let printed = space.ok(&["apply", "-k", "."]);
    assert!(printed.contains("configmap/pre-a created\n") && printed.contains("configmap/pre-gen-"), "{printed}");
}
