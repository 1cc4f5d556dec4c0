//! Where the reference's agent does otherwise, on the whole program; docs/notes/agent.md says which test is for which row of the
//! specification's table.

use crate::site::{Site, until};
use serde_json::{Value, json};
use volley_client::items::Item;

fn site(queues: &[(&str, Value)]) -> Site {
    let mut site = Site::start();
    for (name, config) in queues {
        site.make_queue(name, config.clone());
    }
    let names: Vec<&str> = queues.iter().map(|(name, _)| *name).collect();
    let url = site.client.url().to_owned();
    site.add_agent(&names, &url);
    site
}

fn job(container: Value) -> Value {
    json!({ "kind": "Job", "apiVersion": "batch/v1", "spec": { "template": { "spec": { "containers": [container] } } } })
}

fn failed(item: &Item) -> String {
    assert_eq!(item.end.as_deref(), Some("failed"), "{item:#?}");
    item.error.as_ref().expect("why").message.clone()
}

const LONG: &str = "echo up; while :; do sleep 0.05; done";

// K-76, K-77, K-28, L-11
#[test]
fn a_launch_that_cannot_run_says_why_and_one_that_is_deleted_says_so() {
    let mut unknown = job(json!({ "image": "${image_uri}" }));
    unknown["spec"]["template"]["spec"]["restartPolicies"] = json!("Never");
    let site = site(&[
        ("broken", job(json!({ "image": "${image_uri}", "imagePullPolicy": "Always" }))),
        ("unknown", unknown),
        ("fine", job(json!({ "image": "${image_uri}" }))),
    ]);
    let spec =
        json!({ "docker": { "docker_image": "127.0.0.1:1/no/such:image" }, "overrides": { "entry_point": ["true"] } });
    let waiting = site.submit_with("broken", "broken", &spec);
    let item = site.until_item(&waiting, "it says what it waits for", |item| item.waiting.is_some());
    assert!(item.waiting.as_ref().unwrap().contains("cannot get its image"), "{item:#?}");
    assert_ne!(item.state, "RUNNING");
    site.stop(&waiting);
    assert_eq!(site.until_end(&waiting).end.as_deref(), Some("stopped"));
    let message = failed(&site.until_end(&site.submit("unknown", "unknown", "true")));
    assert!(message.contains("restartPolicies"), "{message}");
    let deleted = site.submit("fine", "deleted", LONG);
    let item = site.until_item(&deleted, "it runs", |item| item.state == "RUNNING");
    let selector = crate::launch::selector(&item);
    site.kubectl(&["delete", "jobs", "-n", &site.namespace, "-l", &selector, "--wait=false"], "");
    assert_eq!(failed(&site.until_end(&deleted)), "deleted externally");
    site.until_no_secret();
}

// K-37, K-13
#[test]
fn a_bare_pod_and_services_beside_a_launch_run_and_go_with_it() {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "bare-${run_id}" },
        "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "${image_uri}" }] } });
    let site = site(&[("pods", pod), ("jobs", job(json!({ "image": "${image_uri}" })))]);
    let item = site.until_end(&site.submit("pods", "bare", "echo from a pod"));
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    until("its line is there", || (site.lines(&item) == ["from a pod"]).then_some(()));
    // L-36, K-63: what stands beside a Job is ready before it, and gone after it.
    let service = json!({ "name": "beside", "config": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "beside-${run_id}" },
        "spec": { "terminationGracePeriodSeconds": 0, "containers": [{ "name": "main", "image": "host", "command": ["sleep", "1000"] }] } } });
    let spec = json!({ "overrides": { "entry_point": ["sh", "-c", "echo with a service"] }, "additional_services": [service] });
    let id = site.submit_with("jobs", "services", &spec);
    let item = site.until_end(&id);
    assert_eq!(item.end.as_deref(), Some("finished"), "{item:#?}");
    let names = ["get", "pods", "-n", &site.namespace, "-o", "name"];
    until("the service is gone", || (!site.kubectl(&names, "").contains("beside")).then_some(()));
    site.until_no_secret();
}

// L-18, L-19
#[test]
fn a_failure_is_told_also_when_the_run_is_of_another_entity_than_the_agents() {
    let site = site(&[("jobs", job(json!({ "image": "${image_uri}" })))]);
    site.runtime.block_on(site.client.post("/api/v1/teams", &json!({ "name": "others" }))).unwrap();
    let spec = json!({ "entity": "others", "overrides": { "entry_point": ["sh", "-c", "echo gone wrong; exit 7"] } });
    let item = site.until_end(&site.submit_with("jobs", "others", &spec));
    assert_eq!(item.run.as_ref().map(|run| run.entity.as_str()), Some("others"), "{item:#?}");
    let message = failed(&item);
    assert!(item.exit_code == Some(7) && message.contains("gone wrong"), "{message}");
    assert_eq!(site.lines(&item), ["gone wrong"]);
}

// L-16, K-71
#[test]
fn many_launches_are_taken_together_and_share_one_watch() {
    let gang = json!({ "kind": "Job", "apiVersion": "batch.volcano.sh/v1alpha1", "metadata": { "name": "gang-${run_id}" },
        "spec": { "minAvailable": 1, "schedulerName": "volcano", "tasks": [{ "name": "rank", "replicas": 1,
            "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "${image_uri}" }] } } }] } });
    let site = site(&[("gangs", gang)]);
    let script = "echo up; trap 'exit 0' TERM; while :; do sleep 0.05; done";
    let watches = || {
        let text = site.kubectl(&["get", "--raw", "/metrics"], "");
        let own = text.lines().find(|line| line.starts_with("apiserver_longrunning_requests{")).expect("it is counted");
        own.rsplit(' ').next().and_then(|number| number.parse::<f64>().ok()).expect("a number")
    };
    let first = site.submit("gangs", "gang-0", script);
    site.until_item(&first, "it runs", |item| item.state == "RUNNING");
    let before = watches();
    let mut ids: Vec<String> = (1..8).map(|number| site.submit("gangs", &format!("gang-{number}"), script)).collect();
    // All run at once, which one item per pass and ten seconds between two would take more than a minute for.
    for id in &ids {
        site.until_item(id, "it runs", |item| item.state == "RUNNING");
    }
    assert!(watches() <= before, "seven more launches need no more watches than {before}");
    ids.push(first);
    for id in &ids {
        site.stop(id);
    }
    for id in &ids {
        assert_eq!(site.until_end(id).end.as_deref(), Some("stopped"));
    }
}
