//! What is filled into a new Job (spec/volcano.md 2.1): by the API server, or by the controller in memory.
//!
//! Nothing that the user has set is changed, and filling in twice changes nothing the second time.

use crate::kube::defaults::{inner, items, section, set, set_zero};
use crate::kube::validate::read::{integer, list};
use serde_json::{Value, json};

/// Plugins that need others: the first is given the rest.
const IMPLIED: [(&str, &[&str]); 4] =
    [("pytorch", &["svc"]), ("tensorflow", &["svc"]), ("mpi", &["svc", "ssh"]), ("ray", &["svc"])];

/// Completes a Job that is being created.
pub fn job(job: &mut Value, scheduler: &str) {
    if let Some(spec) = section(job, "spec") {
        job_spec(spec, scheduler);
    }
}

/// Completes a Job's spec, wherever it stands (a CronJob holds one too).
pub fn job_spec(spec: &mut Value, scheduler: &str) {
    set_zero(spec, "queue", "default");
    set_zero(spec, "schedulerName", scheduler);
    set_zero(spec, "maxRetry", 3);
    for (index, task) in items(spec, "tasks").enumerate() {
        complete_task(task, index);
    }
    let required: i64 = list(spec, "tasks").iter().map(|task| integer(task, "minAvailable").unwrap_or(0)).sum();
    set_zero(spec, "minAvailable", required);
    for (plugin, others) in IMPLIED {
        if spec["plugins"].get(plugin).is_some() {
            others.iter().for_each(|other| set(&mut spec["plugins"], other, json!([])));
        }
    }
}

fn complete_task(task: &mut Value, index: usize) {
    set_zero(task, "name", format!("default{index}"));
    set_zero(task, "maxRetry", 3);
    let replicas = integer(task, "replicas").unwrap_or(0);
    let policy = &task["partitionPolicy"];
    let partitions = integer(policy, "minPartitions").unwrap_or(0) * integer(policy, "partitionSize").unwrap_or(0);
    set(task, "minAvailable", if partitions > 0 { partitions } else { replicas });
    if let Some(spec) = inner(task, "template").and_then(|template| inner(template, "spec"))
        && spec["hostNetwork"] == true
    {
        set_zero(spec, "dnsPolicy", "ClusterFirstWithHostNet");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(mut spec: Value) -> Value {
        job_spec(&mut spec, "volcano");
        spec
    }

    // ADM-2, ADM-3, ADM-5, ADM-6
    #[test]
    fn a_bare_job_is_completed() {
        let spec = filled(
            json!({"tasks": [{"replicas": 2}, {"name": "w", "replicas": 4, "partitionPolicy": {"minPartitions": 1, "partitionSize": 2}}, {}]}),
        );
        assert_eq!(
            (&spec["queue"], &spec["schedulerName"], &spec["maxRetry"], &spec["minAvailable"]),
            (&json!("default"), &json!("volcano"), &json!(3), &json!(4))
        );
        let tasks: Vec<_> =
            list(&spec, "tasks").iter().map(|t| (&t["name"], &t["minAvailable"], &t["maxRetry"])).collect();
        let (two, zero, three) = (json!(2), json!(0), json!(3));
        assert_eq!(
            tasks,
            [(&json!("default0"), &two, &three), (&json!("w"), &two, &three), (&json!("default2"), &zero, &three)]
        );
    }

    // ADM-4
    #[test]
    fn a_pod_on_the_hosts_network_asks_the_cluster_for_names() {
        let policy = |template: Value| {
            filled(json!({"tasks": [{"template": template}]}))["tasks"][0]["template"]["spec"]["dnsPolicy"].clone()
        };
        assert_eq!(policy(json!({"spec": {"hostNetwork": true}})), "ClusterFirstWithHostNet");
        assert_eq!(policy(json!({"spec": {"hostNetwork": true, "dnsPolicy": "None"}})), "None");
        assert_eq!(policy(json!({"spec": {}})), Value::Null);
    }

    // ADM-7, PT-1
    #[test]
    fn plugins_bring_those_that_they_need() {
        let plugins = |given: Value| filled(json!({"plugins": given}))["plugins"].clone();
        assert_eq!(plugins(json!({"pytorch": []})), json!({"pytorch": [], "svc": []}));
        assert_eq!(plugins(json!({"mpi": []})), json!({"mpi": [], "svc": [], "ssh": []}));
        assert_eq!(plugins(json!({"ray": [], "svc": ["--x"]})), json!({"ray": [], "svc": ["--x"]}));
        assert_eq!(plugins(json!({"env": []})), json!({"env": []}));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        // ADM-8
        #[test]
        fn what_is_set_stays_and_filling_in_again_changes_nothing(min in 1..9i64, retry in 1..9i64, replicas in 0..5i64) {
            let given = json!({"minAvailable": min, "maxRetry": retry, "queue": "q", "schedulerName": "s",
                "tasks": [{"name": "n", "replicas": replicas, "minAvailable": 0, "maxRetry": retry}]});
            let once = filled(given.clone());
            prop_assert_eq!(&once, &given);
            prop_assert_eq!(filled(once.clone()), once);
        }
    }
}
