//! Every defect of the users' own documents is found at its place; where it can be mended, the mended document is right.

use super::*;
use crate::check::tree::Node;
use serde_json::{Value, json};

fn at(text: &str, line: usize, column: usize, code: &str) -> Finding {
    let report = check(text, &Facts::default());
    let told: Vec<String> =
        report.findings.iter().map(|f| format!("{}:{} {} {}", f.line, f.column, f.code, f.message)).collect();
    let found = report.findings.into_iter().find(|f| (f.line, f.column, f.code) == (line, column, code));
    found.unwrap_or_else(|| panic!("no {code} at {line}:{column} in\n{}", told.join("\n")))
}

fn fixed(text: &str) -> Value {
    let report = check(text, &Facts::default());
    let fixed = report.fixed.expect("something was mended");
    let again = check(&fixed, &Facts::default());
    assert_eq!(again.fixed, None, "mending again changes nothing:\n{fixed}");
    let documents: Vec<Node> =
        tree::parse(&fixed).into_iter().collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e:?}\n{fixed}"));
    documents[0].value()
}

fn codes(text: &str) -> Vec<&'static str> {
    let mut codes: Vec<&str> = check(text, &Facts::default()).findings.iter().map(|finding| finding.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
}

const GPUS: &str = include_str!("seeds/002-gpus.yaml");
const CACHE: &str = include_str!("seeds/002-cache.yaml");
const CACHE_JSON: &str = include_str!("seeds/002-cache.json");

#[test]
fn a_sound_document_has_no_findings() {
    let sound = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: run-${run_id}\nspec:\n  template:\n    spec:\n      \
        containers:\n        - name: a\n          image: ${image_uri}\n      restartPolicy: Never\n";
    assert_eq!(check(sound, &Facts::default()), Report { findings: vec![], fixed: None });
}

// G-18, G-19, G-17, G-08
#[test]
fn seed_000_is_no_gang_and_never_fails() {
    let text = include_str!("seeds/000-volcano.yaml");
    assert_eq!(at(text, 31, 17, "G-18").suggestion.as_deref(), Some("2"));
    at(text, 4, 7, "G-19");
    at(text, 16, 7, "G-19");
    at(text, 23, 15, "G-08");
    assert_eq!(at(text, 36, 19, "G-17").suggestion.as_deref(), Some("${entity_name|label}"));
    at(text, 37, 20, "G-17");
    let json = include_str!("seeds/000-volcano.json");
    assert_eq!(codes(json), codes(text));
    assert!(variants::differences(text, json).is_empty());
}

// G-02, G-11, G-14
#[test]
fn seed_001_lost_its_indentation() {
    let text = include_str!("seeds/001-job.yaml");
    at(text, 1, 1, "G-02");
    at(text, 3, 1, "G-11");
    assert_eq!(
        fixed(text),
        json!({"spec": {"template": {"spec": {"containers": [{"env": [{"name": "MY_ENV_VAR", "value": "some-value"}],
            "resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}}}]}}},
            "metadata": {"labels": {"queue": "k8s-test"}, "namespace": "wandb"}})
    );
}

// G-02, G-03, G-06, G-11, G-16, G-20
#[test]
fn seed_001_s_training_job_is_mended_as_a_whole() {
    let text = include_str!("seeds/001-pytorchjob.yaml");
    at(text, 1, 1, "G-03");
    assert!(codes(text).contains(&"G-02"));
    at(text, 1, 51, "G-06");
    at(text, 23, 1, "G-20");
    at(text, 25, 7, "G-16");
    let replica = |count: i64| {
        json!({"replicas": count, "restartPolicy": "Never", "template": {"spec": {"containers": [
            {"name": "pytorch", "image": "${image_uri}", "imagePullPolicy": "Always"}]}}})
    };
    assert_eq!(
        fixed(text),
        json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "run-${run_id}-pytorch-job"},
            "spec": {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(2)},
                "runPolicy": {"ttlSecondsAfterFinished": 600}}})
    );
}

// G-04, G-05, G-07, G-08, G-28
#[test]
fn seed_001_s_security_defaults_are_misspelt_and_misplaced() {
    let text = include_str!("seeds/001-security.yaml");
    at(text, 3, 1, "G-04");
    assert!(
        codes(text).iter().filter(|code| ["G-02", "G-04", "G-05", "G-07", "G-08", "G-28"].contains(code)).count() == 6,
        "{:?}",
        codes(text)
    );
    at(text, 3, 2, "G-07");
    for (line, column) in [(3, 2), (4, 1), (5, 1)] {
        at(text, line, column, "G-08");
    }
    at(text, 6, 27, "G-05");
    at(text, 9, 3, "G-05");
    at(text, 5, 1, "G-28");
    let indented = "spec:\n  template:\n    `backOffLimit`: 0\n    ttlSecondsAfterFinished: 60\n    securityContext:\n      \
        allowPrivilegeEscalation: False,\n      capabilities:\n        drop:\n          - ALL,\n      seccompProfile:\n        \
        type: \"RuntimeDefault\"\n";
    at(indented, 3, 5, "G-04");
    at(indented, 3, 6, "G-07");
    assert_eq!(at(indented, 3, 6, "G-08").suggestion.as_deref(), Some("spec.backoffLimit"));
    assert_eq!(at(indented, 4, 5, "G-08").suggestion.as_deref(), Some("spec.ttlSecondsAfterFinished"));
    assert_eq!(
        at(indented, 5, 5, "G-08").suggestion.as_deref(),
        Some("spec.template.spec.containers[].securityContext")
    );
    let mended = fixed(indented);
    assert_eq!((&mended["spec"]["backoffLimit"], &mended["spec"]["ttlSecondsAfterFinished"]), (&json!(0), &json!(60)));
    assert_eq!(mended["spec"]["template"]["securityContext"]["allowPrivilegeEscalation"], false);
    assert_eq!(mended["spec"]["template"]["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
}

// G-02, G-22
#[test]
fn seed_001_s_agent_settings_are_not_filled_in() {
    let text = include_str!("seeds/001-agent.yaml");
    at(text, 1, 1, "G-02");
    at(text, 2, 3, "G-22");
    at(text, 3, 11, "G-22");
    let values = include_str!("seeds/001-values.yaml");
    at(values, 1, 1, "G-02");
    assert_eq!(codes(values), ["G-02", "G-11", "G-22"]);
    let placeholders = check(values, &Facts::default()).findings.into_iter().filter(|finding| finding.code == "G-22");
    let lines: Vec<usize> = placeholders.map(|finding| finding.line).collect();
    let names = [
        "- <queue name>", "max_jobs: <n", "region: <aws", "uri: <my", "build-context-store: <s3", "gitCreds: |",
        "iam.gke.io", "azure.workload",
    ];
    for name in names {
        let line = values.lines().position(|line| line.starts_with(name)).unwrap() + 1;
        assert!(lines.contains(&line), "{name} in line {line}: {lines:?}");
    }
}

// G-01, G-24, G-14
#[test]
fn seed_002_s_tabs_are_shown_and_mended() {
    at(CACHE, 11, 1, "G-01");
    at(CACHE, 15, 1, "G-01");
    assert_eq!(at(CACHE, 11, 1, "G-01").suggestion.as_deref(), Some("indent with 10 spaces"));
    let mended = fixed(CACHE);
    let pod = &mended["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["volumeMounts"], json!([{"name": "nfs-storage", "mountPath": "/root/.cache"}]));
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "nfs-pvc");
    at(GPUS, 5, 11, "G-14");
    assert_eq!(codes(GPUS), ["G-14"]);
}

// G-08, G-24
#[test]
fn seed_002_s_mounts_are_moved_out_of_the_resources() {
    let finding = at(CACHE_JSON, 14, 15, "G-08");
    assert!(finding.autofix);
    assert_eq!(finding.suggestion.as_deref(), Some("spec.template.spec.containers[0].volumeMounts"));
    at(CACHE_JSON, 26, 21, "G-24");
    let mended = fixed(CACHE_JSON);
    let container = &mended["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["volumeMounts"][0]["name"], "nfs-storage");
    assert_eq!(container["resources"], json!({"limits": {"cpu": 4, "memory": "12Gi", "nvidia.com/gpu": "{{gpus}}"}}));
    let text = check(CACHE_JSON, &Facts::default()).fixed.unwrap();
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "it is JSON still:\n{text}");
}

// G-27
#[test]
fn seed_002_s_variants_differ() {
    let mended = check(CACHE, &Facts::default()).fixed.unwrap();
    let json = check(CACHE_JSON, &Facts::default()).fixed.unwrap();
    let found = variants::differences(&mended, &json);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].message.contains("spec.backoffLimit: 0") && found[0].code == "G-27");
}

// G-22, G-10, G-23
#[test]
fn seed_002_s_volume_has_a_placeholder_and_its_claim_a_namespace() {
    let text = include_str!("seeds/002-volume.yaml");
    at(text, 11, 13, "G-22");
    let misspelt = text.replace("capacity:", "capcity:").replace("      storage: 100Gi", "      stroage: 100Gi");
    assert_eq!(at(&misspelt, 6, 3, "G-10").suggestion.as_deref(), Some("capacity"));
    let facts = Facts { claims: Some(vec![("default".into(), "nfs-pvc".into())]), ..Facts::default() };
    let mended = check(CACHE, &Facts::default()).fixed.unwrap();
    assert!(check(&mended, &facts).findings.iter().all(|finding| finding.code != "G-23"));
    let elsewhere = format!("metadata:\n  namespace: wandb\n{mended}");
    let found = check(&elsewhere, &facts).findings.into_iter().find(|finding| finding.code == "G-23").unwrap();
    assert!(found.message.ends_with("it is in default"), "{}", found.message);
}

// G-03, G-18, G-19, G-15, K-76
#[test]
fn seed_003_has_a_glued_key_and_a_retired_image() {
    let text = include_str!("seeds/003-volcano.yaml");
    assert_eq!(at(text, 1, 1, "G-03").suggestion.as_deref(), Some("apiVersion"));
    assert_eq!(at(text, 6, 17, "G-18").suggestion.as_deref(), Some("3"));
    at(text, 19, 22, "K-76");
    assert!(codes(text).contains(&"G-15"));
    assert_eq!(fixed(text)["apiVersion"], "batch.volcano.sh/v1alpha1");
}

// G-04, G-25, G-26
#[test]
fn seed_004_is_quoted_and_keeps_its_shell_variables() {
    let text = include_str!("seeds/004-args.yaml");
    at(text, 1, 1, "G-04");
    at(text, 2, 1, "G-04");
    let mended = fixed(text);
    assert!(mended["args"][0].as_str().unwrap().contains("--nnodes ${PET_NNODES}"));
    let job = format!(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: a\n    image: ${{image_uri}}\n    args:\n    - {}\n",
        mended["args"][0]
    );
    let found = codes(&job);
    assert!(found.contains(&"G-25") && found.contains(&"G-26"), "{found:?}");
    at("image: host/<TARGET_IMAGE[:TAG]>\n", 1, 8, "G-22");
}

// G-01
#[test]
fn blanks_of_web_pages_do_not_indent() {
    let text = "spec:\n\u{a0}\u{a0}suspend: true\n\u{3000}backoffLimit: 0\n";
    at(text, 2, 1, "G-01");
    at(text, 3, 1, "G-01");
    assert_eq!(fixed(text), json!({"spec": {"suspend": true, "backoffLimit": 0}}));
    let windows = "spec:\r\n\tsuspend: true\r\n";
    at(windows, 2, 1, "G-01");
    assert_eq!(fixed(windows)["spec"]["suspend"], true);
}

// G-22: seed 002 marks shell commands as YAML.
#[test]
fn a_command_is_no_document() {
    let text = "wandb launch -d wandb/job_hello_world:main -p <target-wandb-project> -q <your-queue-name>\n";
    at(text, 1, 1, "G-00");
    at(text, 1, 1, "G-22");
}

// G-12, G-13
#[test]
fn templates_are_quoted_and_typed() {
    let text = "spec:\n  parallelism: {{workers}}\n  template:\n    spec:\n      containers:\n        - name: 한글\n          image: x-{{a}}\n          args: [\"{{b}}\"]\n";
    at(text, 2, 16, "G-12");
    assert_eq!(fixed(text)["spec"]["parallelism"], "{{workers}}");
    let quoted = check(text, &Facts::default()).fixed.unwrap();
    let facts = Facts { variables: BTreeMap::from([("workers".to_owned(), "string".to_owned())]), ..Facts::default() };
    let found: Vec<_> = check(&quoted, &facts).findings.into_iter().filter(|finding| finding.code == "G-13").collect();
    assert_eq!((found.len(), found[0].line, found[0].column), (1, 2, 16));
    assert_eq!(fixed("{\n  \"spec\": {\"parallelism\": {{n}} }\n}\n")["spec"]["parallelism"], "{{n}}");
}

// G-05
#[test]
fn json_with_comments_and_pythons_words_is_mended() {
    let text =
        "// 주석\n{\n  \"spec\": { /* 여기 */\n    \"suspend\": False, // no\n    \"backoffLimit\": 0,\n  },\n}\n";
    // A comment first: it is still JSON.
    let text = text.trim_start_matches("// 주석\n");
    at(text, 2, 13, "G-05");
    at(text, 3, 16, "G-05");
    at(text, 4, 22, "G-05");
    let fixed = check(text, &Facts::default()).fixed.unwrap();
    let value: Value = serde_json::from_str(&fixed).unwrap_or_else(|e| panic!("{e}\n{fixed}"));
    assert_eq!(value, json!({"spec": {"suspend": false, "backoffLimit": 0}}));
}

// G-09, G-10, G-21, G-07
#[test]
fn keys_are_put_right_or_told_where_they_could_be() {
    let text = "namespace: wandb\nspec:\n  Template:\n    spec:\n      volumeMounts: []\n      containers: []\n";
    assert!(at(text, 1, 1, "G-21").autofix);
    assert_eq!(at(text, 3, 3, "G-07").suggestion.as_deref(), Some("template"));
    let mended = fixed(text);
    assert_eq!(mended["metadata"], json!({"namespace": "wandb"}));
    assert!(mended["spec"]["template"].is_object());
    let several = "spec:\n  template:\n    imagePullPolicy: Always\n    nam: x\n";
    assert!(codes(several).iter().any(|code| ["G-08", "G-09"].contains(code)));
    at("spec:\n  nonsense: 1\n", 2, 3, "G-10");
    let both = "metadata:\n  name: run-${run_id}\nnamespace: a\n";
    assert_eq!(fixed(&format!("{both}spec: {{}}\n"))["metadata"], json!({"name": "run-${run_id}", "namespace": "a"}));
}

// G-29, G-30
#[test]
fn what_the_cluster_has_is_asked() {
    let text = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata:\n  name: run-${run_id}\n";
    let facts = Facts { kinds: Some(vec![]), allowed: Some(vec![]), ..Facts::default() };
    let found: Vec<_> = check(text, &facts).findings.into_iter().map(|f| (f.code, f.line, f.column)).collect();
    assert_eq!(found, [("G-29", 2, 7), ("G-30", 2, 7)]);
    let kind = vec!["kubeflow.org/v1/PyTorchJob".to_owned()];
    let facts = Facts { kinds: Some(kind), allowed: Some(vec!["kubeflow.org/PyTorchJob".into()]), ..Facts::default() };
    assert!(check(text, &facts).findings.is_empty());
}

// G-15, G-28, L-27
#[test]
fn rules_about_launches_are_for_what_is_launched() {
    let pod = "spec:\n  template:\n    spec:\n      serviceAccountName: a\n      containers: [{name: a, image: b}]\n";
    let deployment = format!("apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\n{pod}");
    assert!(codes(&deployment).is_empty(), "{:?}", codes(&deployment));
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: a}\n";
    assert!(codes(role).is_empty());
    let custom = format!("apiVersion: example.com/v1\nkind: Thing\nmetadata: {{name: a}}\n{pod}");
    assert_eq!(codes(&custom), ["G-15", "G-28", "L-27"]);
}

// G-06
#[test]
fn wrappers_within_wrappers_are_taken_off() {
    let text = "{\"resource_args\": {\"kubernetes\": {\"spec\": {\"backOffLimit\": 0}}}}\n";
    at(text, 1, 2, "G-06");
    at(text, 1, 44, "G-07");
    assert_eq!(fixed(text), json!({"spec": {"backoffLimit": 0}}));
}

// G-28
#[test]
fn what_is_forbidden_is_told_where_it_stands() {
    let text = "spec:\n  template:\n    spec:\n      hostNetwork: true\n      containers:\n        - name: a\n          securityContext: {}\n";
    at(text, 4, 7, "G-28");
    at(text, 7, 11, "G-28");
}

#[test]
fn several_documents_are_all_looked_at_and_a_broken_one_is_told() {
    let text = "spec:\n  bakoffLimit: 0\n---\na: [1\n---\nspec:\n  suspended: true\n";
    at(text, 2, 3, "G-10");
    at(text, 7, 3, "G-10");
    assert!(codes(text).contains(&"G-00"));
}

#[test]
fn no_document_at_all_is_told() {
    for text in ["", "\n\n", "# only\n# this\n", "---\n", "null\n", "- a: 1\n", "[]\n", "\u{feff}"] {
        let report = check(text, &Facts::default());
        assert!(report.has_errors() && codes(text).contains(&"G-00"), "{text:?}: {report:?}");
    }
    for text in ["spec: {}\n---\n", "---\nspec: {}\n...\n", "---\n---\nspec: {}\n---\n# end\n", "{}\n"] {
        assert!(codes(text).is_empty(), "{text:?}: {:?}", codes(text));
    }
}

#[test]
fn a_byte_order_mark_is_no_part_of_the_first_key() {
    for text in ["\u{feff}apiVersion: v1\nkind: Service\n", "\u{feff}{\"spec\": {}}\n", "\u{feff}```\nspec: {}\n```\n"]
    {
        assert_eq!(codes(text), ["G-04"], "{text:?}");
        assert!(!check(text, &Facts::default()).has_errors(), "{text:?}");
    }
    assert_eq!(fixed("\u{feff}spec:\n  backOffLimit: 0\n"), json!({"spec": {"backoffLimit": 0}}));
}

#[test]
fn what_a_merge_key_takes_over_is_there() {
    let pod = |first: &str, second: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - &one\n    name: a\n    image: ${{image_uri}}\n    \
             {first}\n  - <<: *one\n    name: b\n    {second}\n"
        )
    };
    assert!(codes(&pod("tty: true", "stdin: true")).is_empty(), "{:?}", codes(&pod("tty: true", "stdin: true")));
    // It is told where it is written, and mended there once.
    let misspelt = pod("TTY: true", "Stdin: true");
    at(&misspelt, 8, 5, "G-07");
    at(&misspelt, 11, 5, "G-07");
    assert_eq!(fixed(&misspelt)["spec"]["containers"][1]["tty"], true);
    // What others have, too, is not moved away from them.
    let shared = "x: &x {namespace: a}\nspec: {}\n<<: *x\n";
    assert!(!at(shared, 1, 8, "G-21").autofix);
}

#[test]
fn a_kind_that_nobody_knows_is_told_with_the_nearest() {
    let pod = "spec:\n  containers: [{name: a, image: b}]\n";
    for (version, kind, near) in [
        ("v1", "Pods", Some("Pod")),
        ("batch/v1", "job", Some("Job")),
        ("v1", "Thing", None),
        ("kubeflow.org/v1", "PyTorchjobs", Some("PyTorchJob")),
        ("batch.volcano.sh/v1alpha1", "Jobs", Some("Job")),
    ] {
        let text = format!("apiVersion: {version}\nkind: {kind}\n");
        assert_eq!(at(&text, 2, 7, "G-30").suggestion.as_deref(), near, "{text}");
    }
    assert_eq!(codes(&format!("apiVersion: v1\nkind: Pods\n{pod}")), ["G-30"]);
    assert_eq!(codes(&format!("apiVersion: v1\nkind: Thing\n{pod}")), ["G-30"]);
    for text in [
        "apiVersion: v1\nkind: List\n",
        "apiVersion: kubeflow.org/v1\nkind: Notebook\n",
        "apiVersion: a.b/v1\nkind: Pods\n",
    ] {
        assert!(codes(text).is_empty(), "{text}: {:?}", codes(text));
    }
}

#[test]
fn a_macro_that_asks_for_a_secret_is_not_what_wandb_refuses() {
    let text = "spec:\n  template:\n    spec:\n      containers:\n      - name: a\n        image: b\n        env:\n        \
        - {name: KEY, value: \"${WANDB_API_KEY}\"}\n";
    let told = at(text, 8, 23, "G-28");
    assert!(told.message.contains("`WANDB_API_KEY`") && !told.message.contains("refuses"), "{}", told.message);
    assert!(told.suggestion.unwrap().contains("Secrets"));
}

const QUEUE: &str = "resource: kubernetes\nconfig:\n  spec:\n    backOffLimit: \"{{limit}}\"\ntemplate_variables:\n  \
    limit: {schema: {type: string}}\n";

#[test]
fn a_queues_file_is_looked_into() {
    let told = at(QUEUE, 4, 5, "G-07");
    assert_eq!((told.path.as_str(), told.autofix), ("config.spec.backOffLimit", true));
    let report = check(QUEUE, &Facts::default());
    assert_eq!(report.fixed.as_deref(), Some(&*QUEUE.replace("backOff", "backoff")));
    assert_eq!(at(&report.fixed.unwrap(), 4, 19, "G-13").path, "config.spec.backoffLimit");
    at("{\"resource\": \"kubernetes\", \"config\": {\"spec\": {\"backOffLimit\": 0}}}\n", 1, 48, "G-07");
    // The file itself.
    let misspelt = QUEUE.replace("config:", "confg:");
    let told = at(&misspelt, 2, 1, "G-10");
    assert_eq!((told.suggestion.as_deref(), told.severity), (Some("config"), Severity::Error));
    assert_eq!(at(&QUEUE.replace("string", "integr"), 6, 26, "T-3").suggestion.as_deref(), Some("integer"));
    let limits = at(&QUEUE.replace("string", "integer, minimum: 2, default: 1"), 6, 3, "T-3");
    assert!(limits.message.starts_with("the default of template variable `limit`"), "{}", limits.message);
    let bare = at(&QUEUE.replace("{schema: {type: string}}", "{type: string}"), 6, 3, "T-3");
    assert!(bare.message.ends_with("missing field `schema`"), "{}", bare.message);
}

#[test]
fn only_what_is_a_manifest_is_held_against_kinds() {
    for text in [
        "resource: kubernetes\nconfig: {spec: {backoffLimit: 0}}\nprioritization: true\n",
        "resource: vertex\nconfig: {spec: {worker_pool_specs: []}, run: {}}\n",
        "resource: local-process\nconfig: {ulimit: [nofile=4096]}\n",
        "{\"resource\": \"kubernetes\", \"job\": \"a/b/c:v0\", \"project\": \"p\"}\n",
    ] {
        assert!(codes(text).is_empty(), "{text}: {:?}", check(text, &Facts::default()).findings);
    }
    let wrapped = "resource: kubernetes\nconfig:\n  kubernetes:\n    spec:\n      backoffLimit: 0\n";
    assert_eq!(at(wrapped, 3, 3, "G-06").path, "config.kubernetes");
    assert_eq!(fixed(wrapped), json!({"resource": "kubernetes", "config": {"spec": {"backoffLimit": 0}}}));
    let tabbed = "resource: kubernetes\nconfig:\n\tnamespace: a\n\tspec: {}\n";
    at(tabbed, 3, 2, "G-21");
    assert_eq!(fixed(tabbed)["config"], json!({"metadata": {"namespace": "a"}, "spec": {}}));
}

#[test]
fn an_agents_settings_are_judged_as_the_agent_does() {
    use Severity::{Error, Warning};
    for (text, line, column, code, severity) in [
        ("queues: [q]\nmax_jobs: many\n", 2, 11, "A-7", Error),
        ("queues: [q]\nmax_jobs: -2\n", 2, 11, "A-7", Error),
        ("queues: [q]\nbuilder:\n  type: foo\n", 3, 9, "A-7", Error),
        ("queues: [q]\nenvironment: {type: moon}\n", 2, 21, "A-7", Error),
        ("queues: [q]\nsecure_mode: maybe\n", 2, 14, "A-7", Error),
        ("queues: [q]\nmax_job: 1\n", 2, 1, "G-10", Error),
        ("queues: [q]\nMax_Jobs: 1\n", 2, 1, "G-07", Error),
        ("queues: [q]\nbuilder: {typ: noop}\n", 2, 11, "G-10", Warning),
        ("queues: [q]\nproject: p\n", 2, 1, "A-7", Warning),
        ("queues: [q]\nqueues: [r]\n", 2, 1, "G-11", Error),
    ] {
        let findings = check(text, &Facts::default()).findings;
        let told: Vec<_> = findings.iter().map(|f| (f.line, f.column, f.code, f.severity)).collect();
        assert_eq!(told, [(line, column, code, severity)], "{text}{findings:?}");
        let refused = crate::agent::config::read(text).err().into_iter().flatten().next();
        assert_eq!(refused.is_some(), severity == Error, "{text}");
        let same = refused.is_none_or(|refused| (refused.line, refused.column) == (line, column));
        assert!(same, "{text}");
    }
    assert_eq!(
        at("queues: [q]\nmax_job: 1\n", 2, 1, "G-10").message,
        "`max_job` is no setting of a launch agent; did you mean `max_jobs`?"
    );
    assert!(codes("queues: [q]\nrunners: {kubernetes: true}\n").is_empty());
}

mod laws {
    use super::*;
    use proptest::prelude::*;

    const SEEDS: [&str; 5] = [
        include_str!("seeds/000-volcano.yaml"),
        include_str!("seeds/001-pytorchjob.yaml"),
        include_str!("seeds/001-security.yaml"),
        CACHE,
        CACHE_JSON,
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        // Whatever is typed into a document, the checker answers, and its places are in the text.
        #[test]
        fn any_text_is_answered(seed in 0..SEEDS.len(), cut in 0usize..900, put in "[ \t\n{}:>`한\\-\"#,|&*\\[\\]$<]{0,6}") {
            let mut text = SEEDS[seed].to_owned();
            let cut = (0..=cut.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.insert_str(cut, &put);
            let report = check(&text, &Facts::default());
            let lines = text.split('\n').count();
            for finding in &report.findings {
                prop_assert!(finding.line >= 1 && finding.line <= lines && finding.column >= 1, "{finding:?}");
            }
        }
    }
}

#[test]
fn a_finding_can_be_mended_alone() {
    let told = at("spec:\n  replicas: {{n}}\n  backOffLimit: 0\n", 2, 13, "G-12");
    assert_eq!(told.edits, [Change { from: (2, 13), to: (2, 18), text: "\"{{n}}\"".to_owned() }]);
    // What stands in a text that was mended first can only be mended with it.
    let later = check("spec:\n\ttemplate: {}\n  backOffLimit: 0\n", &Facts::default());
    assert!(later.findings.iter().filter(|found| found.code == "G-07").all(|found| found.edits.is_empty()));
}
