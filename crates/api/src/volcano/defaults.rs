//! What is filled into a new Job (spec/volcano.md 2.1): by the API server, or by the controller in memory.
//!
//! Nothing that the user has set is changed, and filling in twice changes nothing the second time.

use crate::kube::defaults::rows::Fill::{NotZero, Number, Text};
use crate::kube::defaults::rows::{Row, fill_row, fill_rows, make_map, map_at};
use crate::kube::{at, items_mut, text};
use serde_json::{Value, json};

/// Plugins that need others: the first is given the rest.
const IMPLIED: [(&str, &[&str]); 4] =
    [("pytorch", &["svc"]), ("tensorflow", &["svc"]), ("mpi", &["svc", "ssh"]), ("ray", &["svc"])];

const ROWS: &[Row] = &[("queue", Text("default")), ("maxRetry", NotZero(3)), ("tasks[].maxRetry", NotZero(3))];

/// Completes a Job that is being created.
pub fn job(job: &mut Value, scheduler: &str) {
    make_map(job, "spec");
    job.get_mut("spec").into_iter().for_each(|spec| job_spec(spec, scheduler));
}

/// Completes a Job that is being changed, as it was when it was made.
///
/// `kubectl apply` sends the whole list of tasks as the user wrote it. The reference then finds that what it had filled in is
/// gone, and refuses. A gang of nobody, asked for by number, is left as it is.
pub fn job_again(job: &mut Value, scheduler: &str) {
    let is_nobody = at(job, "spec.minAvailable") == Some(&json!(0));
    self::job(job, scheduler);
    if is_nobody {
        job["spec"]["minAvailable"] = json!(0);
    }
}

/// Completes a Job's spec, wherever it stands (a CronJob holds one too).
pub fn job_spec(spec: &mut Value, scheduler: &str) {
    if !spec.is_object() {
        return;
    }
    fill_rows(spec, ROWS);
    if text(spec, "schedulerName").is_empty() {
        spec["schedulerName"] = json!(scheduler);
    }
    for (index, task) in items_mut(spec, "tasks").enumerate().filter(|(_, task)| task.is_object()) {
        complete_task(task, index);
    }
    let counts = items_mut(spec, "tasks").map(|task| integer(task, "minAvailable"));
    let required = counts.fold(0, i64::saturating_add);
    fill_row(spec, "minAvailable", NotZero(required));
    for (plugin, others) in IMPLIED {
        let Some(plugins) = map_at(spec, "plugins").filter(|plugins| plugins.contains_key(plugin)) else { continue };
        for other in others {
            plugins.entry(*other).or_insert(json!([]));
        }
    }
}

fn complete_task(task: &mut Value, index: usize) {
    if text(task, "name").is_empty() {
        task["name"] = json!(format!("default{index}"));
    }
    let replicas = integer(task, "replicas");
    let partitions =
        integer(task, "partitionPolicy.minPartitions").saturating_mul(integer(task, "partitionPolicy.partitionSize"));
    fill_row(task, "minAvailable", Number(if partitions > 0 { partitions } else { replicas }));
    if at(task, "template.spec.hostNetwork") == Some(&Value::Bool(true)) {
        fill_row(task, "template.spec.dnsPolicy", Text("ClusterFirstWithHostNet"));
    }
}

fn integer(object: &Value, path: &str) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
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
        let tasks: Vec<_> = spec["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|t| (&t["name"], &t["minAvailable"], &t["maxRetry"]))
            .collect();
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

    #[test]
    fn what_is_no_job_at_all_is_left_for_the_checks() {
        for broken in [json!(3), json!("x"), json!({"tasks": 1}), json!({"tasks": [null, 1]}), json!({"plugins": []})] {
            let mut object = json!({ "spec": broken });
            job(&mut object, "volcano");
            assert_eq!(object["spec"]["tasks"], broken["tasks"]);
        }
    }

    // ADM-8
    #[test]
    fn a_changed_job_is_completed_too_but_keeps_its_zero() {
        let mut again = json!({"spec": {"minAvailable": 0, "tasks": [{"replicas": 2}]}});
        job_again(&mut again, "volcano");
        assert_eq!(
            (&again["spec"]["minAvailable"], &again["spec"]["tasks"][0]["minAvailable"]),
            (&json!(0), &json!(2))
        );
        again["spec"] = json!(7);
        job_again(&mut again, "volcano");
        assert_eq!(again["spec"], 7);
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
