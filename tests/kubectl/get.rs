//! `kubectl get` in every output form, and the rules of lists.

use crate::harness::{Space, for_some_kubectls, squeeze};
use crate::http::{delete, get, post, request};
use serde_json::{Value, json};

fn three(space: &Space) {
    for (name, label, value) in [("alpha", "x", "3"), ("beta", "y", "1"), ("gamma", "z", "2")] {
        let mut labels = json!({"group": label});
        if name == "gamma" {
            labels["extra"] = "1".into();
        }
        let body = json!({"metadata": {"name": name, "labels": labels}, "data": {"v": value}});
        assert_eq!(post(&space.core("configmaps"), &body).code, 201);
    }
}

fn own(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.contains("kube-root-ca.crt")).collect()
}

// K-TAB-1 K-TAB-2
#[test]
fn every_kubectl_prints_every_form() {
    for_some_kubectls("forms", |space| {
        three(space);
        let wide = space.ok(&["get", "cm", "-o", "wide", "-l", "group"]);
        assert_eq!(squeeze(&wide)[0], "NAME  DATA  AGE");
        assert_eq!(space.ok(&["get", "cm", "alpha", "beta", "-o", "name"]), "configmap/alpha\nconfigmap/beta\n");
        assert_eq!(space.ok(&["get", "cm", "alpha", "-o", "jsonpath={.data.v}"]), "3");
        assert_eq!(
            space.ok(&["get", "cm", "-l", "group", "-o", "jsonpath={.items[*].metadata.name}"]),
            "alpha beta gamma"
        );
        let columns = space.ok(&["get", "cm", "-l", "group", "-o", "custom-columns=NAME:.metadata.name,V:.data.v"]);
        assert_eq!(columns, "NAME    V\nalpha   3\nbeta    1\ngamma   2\n");
        let template = "{{range .items}}{{.metadata.name}}={{.data.v}};{{end}}";
        assert_eq!(
            space.ok(&["get", "cm", "-l", "group", "-o", &format!("go-template={template}")]),
            "alpha=3;beta=1;gamma=2;"
        );
        let sorted = space.ok(&["get", "cm", "-l", "group", "--sort-by=.data.v", "--no-headers"]);
        let names: Vec<&str> = sorted.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(names, ["beta", "gamma", "alpha"]);
        let labelled = squeeze(&space.ok(&["get", "cm", "gamma", "-L", "group,extra"]));
        assert_eq!(labelled[0], "NAME  DATA  AGE  GROUP  EXTRA");
        assert!(labelled[1].ends_with("z  1"), "{labelled:?}");
        let labels = squeeze(&space.ok(&["get", "cm", "gamma", "--show-labels"]));
        assert!(labels[0].ends_with("LABELS") && labels[1].ends_with("extra=1,group=z"), "{labels:?}");
        let kinds = squeeze(&space.ok(&["get", "cm/alpha", "--show-kind"]));
        assert!(kinds[1].starts_with("configmap/alpha  1"), "{kinds:?}");
        let everywhere = squeeze(&space.ok(&["get", "cm", "-A", "-l", "group=x"]));
        assert_eq!(everywhere[0], "NAMESPACE  NAME  DATA  AGE");
        let yaml = space.ok(&["get", "cm", "alpha", "-o", "yaml"]);
        let start = "apiVersion: v1\ndata:\n  v: \"3\"\nkind: ConfigMap\nmetadata:\n  creationTimestamp: \"";
        assert!(yaml.starts_with(start), "{yaml}");
        assert!(!yaml.contains("managedFields"), "{yaml}");
        let list = space.json(&["get", "cm", "-l", "group"]);
        assert_eq!((&list["kind"], list["items"].as_array().unwrap().len()), (&json!("List"), 3));
        assert_eq!(list["items"][0]["kind"], "ConfigMap");
    });
}

// K-LIST-3 K-LIST-4
#[test]
fn every_kubectl_pages_through_a_list() {
    for_some_kubectls("chunk", |space| {
        three(space);
        let printed = space.ok(&["get", "cm", "--chunk-size=1", "-o", "name"]);
        assert_eq!(own(&printed), ["configmap/alpha", "configmap/beta", "configmap/gamma"]);
        assert_eq!(squeeze(&space.ok(&["get", "cm", "--chunk-size=2", "-l", "group"])).len(), 4);
    });
}

// K-LIST-8 K-LIST-9
#[test]
fn every_kubectl_selects_by_labels_and_fields() {
    for_some_kubectls("select", |space| {
        three(space);
        let names = |args: &[&str]| {
            let printed = space.ok(&[&["get", "cm", "-o", "name"], args].concat());
            own(&printed).into_iter().map(|n| n.replace("configmap/", "")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(&["-l", "group in (x,y),!extra"]), "alpha beta");
        assert_eq!(names(&["-l", "group notin (x,y)"]), "gamma");
        assert_eq!(names(&["-l", "group!=x,group"]), "beta gamma");
        assert_eq!(names(&["-l", "extra"]), "gamma");
        assert_eq!(names(&["-l", "extra>0"]), "gamma");
        assert_eq!(names(&["--field-selector", "metadata.name!=alpha"]), "beta gamma");
        assert_eq!(names(&["--field-selector", "metadata.name=alpha,metadata.namespace=nope"]), "");
        let said = space.fails(&["get", "pods", "--field-selector", "foo=bar"]);
        let text = "Error from server (BadRequest): Unable to find \"/v1, Resource=pods\" that match label selector \"\", field selector \"foo=bar\": field label not supported: foo\n";
        assert_eq!(said, text);
    });
}

// K-LIST-1
#[test]
fn lists_have_kind_version_and_sorted_items() {
    let space = Space::new("list");
    let other = Space::new("list-other");
    three(&space);
    three(&other);
    let list = get(&space.core("configmaps?labelSelector=group")).ok();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert!(list["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    let names: Vec<&Value> = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["alpha", "beta", "gamma"]);
    assert!(list["items"][0].get("kind").is_none() && list["items"][0].get("apiVersion").is_none());
    let all = get("/api/v1/configmaps?labelSelector=group").ok();
    let places: Vec<String> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            format!(
                "{} {}",
                item["metadata"]["namespace"].as_str().unwrap(),
                item["metadata"]["name"].as_str().unwrap()
            )
        })
        .collect();
    let mut sorted = places.clone();
    sorted.sort();
    assert_eq!(places, sorted);
}

// K-LIST-2 K-LIST-11
#[test]
fn a_missing_namespace_lists_as_empty() {
    let list = get("/api/v1/namespaces/no-such-namespace/pods").ok();
    assert_eq!((&list["kind"], &list["items"]), (&json!("PodList"), &json!([])));
    let space = Space::new("empty");
    let output = space.run(&["get", "pods"]);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""));
    assert_eq!(output.stderr, format!("No resources found in {} namespace.\n", space.name));
    let output = space.run(&["get", "pods", "-A", "-l", "nothing=has-this"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, "No resources found\n"));
}

// K-LIST-3 K-LIST-4
#[test]
fn pages_are_one_snapshot() {
    let space = Space::new("pages");
    three(&space);
    let path = space.core("configmaps?labelSelector=group&limit=1");
    let first = get(&path).ok();
    assert_eq!(first["items"].as_array().unwrap().len(), 1);
    assert_eq!(first["metadata"].get("remainingItemCount"), None, "with a selector the rest is not counted");
    assert_eq!(
        post(&space.core("configmaps"), &json!({"metadata": {"name": "beta2", "labels": {"group": "new"}}})).code,
        201
    );
    assert_eq!(delete(&space.core("configmaps/gamma")).code, 200);
    let mut names = vec![first["items"][0]["metadata"]["name"].clone()];
    let mut page = first.clone();
    while let Some(token) = page["metadata"].get("continue").and_then(Value::as_str).map(str::to_owned) {
        page = get(&format!("{path}&continue={token}")).ok();
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()));
    }
    assert_eq!(names, ["alpha", "beta", "gamma"]);
    let unselected = get(&space.core("configmaps?limit=1")).ok();
    let all = get(&space.core("configmaps")).ok();
    let rest = all["items"].as_array().unwrap().len() - 1;
    assert_eq!(unselected["metadata"]["remainingItemCount"], rest);
}

// K-LIST-5
#[test]
fn resource_versions_of_a_list_are_understood() {
    let space = Space::new("rv");
    three(&space);
    let current = get(&space.core("configmaps")).ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let code = |query: &str| get(&space.core(&format!("configmaps?{query}"))).code;
    assert_eq!(code("resourceVersion=0"), 200);
    assert_eq!(code("resourceVersion=0&resourceVersionMatch=NotOlderThan"), 200);
    assert_eq!(code(&format!("resourceVersion={current}")), 200);
    assert_eq!(code(&format!("resourceVersion={current}&resourceVersionMatch=Exact")), 200);
    let refused = |query: &str| get(&space.core(&format!("configmaps?{query}"))).status();
    let forbidden = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    assert_eq!(refused("resourceVersionMatch=Exact"), (422, "Invalid".into(), forbidden.into()));
    let exact = "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    assert_eq!(refused("resourceVersion=0&resourceVersionMatch=Exact"), (422, "Invalid".into(), exact.into()));
    let (code, reason, text) = refused("resourceVersion=abc");
    assert_eq!((code, reason.as_str()), (400, "BadRequest"));
    assert!(text.to_lowercase().contains("invalid resource version"), "{text}");
    let future = get(&space.core("configmaps?resourceVersion=99999999"));
    assert_eq!((future.code, future.status().1.as_str()), (504, "Timeout"));
    assert!(
        future.status().2.starts_with("Timeout: Too large resource version: 99999999, current: "),
        "{}",
        future.body
    );
    assert_eq!(future.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
}

// K-LIST-7
#[test]
fn continue_tokens_are_checked() {
    let space = Space::new("token");
    three(&space);
    let token = get(&space.core("configmaps?limit=1")).ok()["metadata"]["continue"].as_str().unwrap().to_owned();
    let answer = get(&space.core(&format!("configmaps?limit=1&continue={token}&resourceVersion=5")));
    let text = "specifying resource version is not allowed when using continue";
    assert_eq!(answer.status(), (400, "BadRequest".into(), text.into()));
    let answer = get(&space.core("configmaps?limit=1&continue=nonsense"));
    assert_eq!((answer.code, answer.status().1.as_str()), (400, "BadRequest"), "{}", answer.body);
}

// K-LIST-8
#[test]
fn label_selectors_parse_as_documented() {
    let space = Space::new("labels");
    three(&space);
    let names = |selector: &str| {
        let list = get(&space.core(&format!("configmaps?labelSelector={selector}"))).ok();
        let names =
            list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name != "kube-root-ca.crt").collect::<Vec<_>>().join(" ")
    };
    for (selector, expected) in [
        ("group", "alpha beta gamma"),
        ("!extra", "alpha beta"),
        ("group=x", "alpha"),
        ("group==x", "alpha"),
        ("group!=x", "beta gamma"),
        ("extra!=1", "alpha beta"),
        ("group%20in%20(x,z)", "alpha gamma"),
        ("extra%20notin%20(1)", "alpha beta"),
        ("extra%3E0", "gamma"),
        ("extra%3C1", ""),
        ("group=x,extra=1", ""),
    ] {
        assert_eq!(names(selector), expected, "{selector}");
    }
    for bad in ["a=b=c", "a%20in%20x", "(a", "a,,b", "-a=b", "a%3Eb"] {
        let answer = get(&space.core(&format!("configmaps?labelSelector={bad}")));
        assert_eq!((answer.code, answer.status().1.as_str()), (400, "BadRequest"), "{bad}: {}", answer.body);
    }
    let answer = get(&space.core("configmaps?labelSelector=a%20b"));
    assert!(answer.status().2.starts_with("unable to parse requirement: "), "{}", answer.body);
}

// K-LIST-9 K-LIST-10
#[test]
fn field_selectors_name_what_they_do_not_know() {
    let space = Space::new("fields");
    let refused = |path: &str| get(&format!("{path}?fieldSelector=foo%3Dbar")).status();
    for kind in ["pods", "events", "secrets", "services"] {
        assert_eq!(
            refused(&space.core(kind)),
            (400, "BadRequest".into(), "field label not supported: foo".into()),
            "{kind}"
        );
    }
    for path in ["/api/v1/nodes", "/api/v1/namespaces"] {
        assert_eq!(refused(path), (400, "BadRequest".into(), "field label not supported: foo".into()), "{path}");
    }
    let text = "field label \"foo\" not supported for Job";
    assert_eq!(refused(&space.group("batch/v1", "jobs")), (400, "BadRequest".into(), text.into()));
    let text = "\"foo\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    for path in [space.core("configmaps"), space.group("apps/v1", "deployments")] {
        assert_eq!(refused(&path), (400, "BadRequest".into(), text.into()), "{path}");
    }
    for query in ["involvedObject.namespace%3D", "involvedObject.name!%3D"] {
        assert_eq!(get(&space.core(&format!("events?fieldSelector={query}"))).code, 200, "{query}");
    }
    assert_eq!(get("/api/v1/pods?fieldSelector=spec.nodeName!%3D").code, 200);
    let phase = "spec.nodeName%3Dn,status.phase!%3DSucceeded,status.phase!%3DFailed";
    assert_eq!(get(&format!("/api/v1/pods?fieldSelector={phase}")).code, 200);
}

// K-TAB-1 K-TAB-2 K-TAB-5
#[test]
fn tables_carry_definitions_cells_and_metadata() {
    let space = Space::new("table");
    three(&space);
    let table = |query: &str| {
        request("GET", &space.core(query)).header("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").send().ok()
    };
    let one = table("configmaps/alpha");
    assert_eq!((&one["kind"], &one["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let names: Vec<&Value> = one["columnDefinitions"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["Name", "Data", "Age"]);
    assert_eq!(one["columnDefinitions"][0]["format"], "name");
    assert_eq!(one["columnDefinitions"][0]["priority"], 0);
    let cells = one["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(cells[..2], [json!("alpha"), json!(1)]);
    assert_eq!(one["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(one["rows"][0]["object"]["metadata"]["labels"]["group"], "x");
    assert_eq!(table("configmaps/alpha?includeObject=Object")["rows"][0]["object"]["data"]["v"], "3");
    assert_eq!(table("configmaps/alpha?includeObject=None")["rows"][0].get("object").filter(|o| !o.is_null()), None);
    let empty = table("configmaps?labelSelector=nope");
    assert_eq!((empty["columnDefinitions"].as_array().unwrap().len(), &empty["rows"]), (3, &json!([])));
}
