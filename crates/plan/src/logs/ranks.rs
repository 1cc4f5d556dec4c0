//! What a pod is called among the ranks of its job: `master-0`, `worker-1`, with the number that the training program knows.

use serde_json::Value;
use volley_api::kubeflow::kinds as kubeflow;
use volley_api::volcano::keys;

const REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
const REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// Where a launcher's variables put a program's rank, the surest source first.
const RANK_VARIABLES: [&str; 2] = ["RANK", "PET_NODE_RANK"];

/// A pod among the others of its job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rank {
    /// What its lines begin with.
    pub label: String,
    /// `master`, `worker`, a task's name; empty when its pods have no parts to play.
    pub role: String,
    /// Counted over all roles.
    pub number: Option<u64>,
    pub pod: String,
}

impl Rank {
    /// Whether this is the pod that the user means: a number, a label, a role or the pod's own name.
    pub fn is_called(&self, word: &str) -> bool {
        if let Ok(number) = word.parse::<u64>() {
            return self.number == Some(number);
        }
        let is_role = !self.role.is_empty() && self.role.eq_ignore_ascii_case(word);
        is_role || self.label.eq_ignore_ascii_case(word) || self.pod == word
    }
}

/// The rank of a pod of this job.
pub fn rank(job: &Value, pod: &Value) -> Rank {
    let meta = &pod["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    let text = |key: &str| meta["labels"][key].as_str().or_else(|| meta["annotations"][key].as_str());
    let number = |key: &str| text(key).and_then(|index| index.parse::<u64>().ok());
    let role = text(REPLICA_TYPE).or_else(|| text(keys::TASK)).unwrap_or_default().to_owned();
    let index = number(REPLICA_INDEX).or_else(|| number(keys::INDEX));
    let own = number(COMPLETION_INDEX).or_else(|| number(POD_INDEX));
    let label = match (index, number(COMPLETION_INDEX)) {
        (Some(index), _) if !role.is_empty() => format!("{role}-{index}"),
        (_, Some(index)) => format!("{}-{index}", job["metadata"]["name"].as_str().unwrap_or_default()),
        _ => name.to_owned(),
    };
    let counted = || index.zip(pods_before(job, &role)).map(|(index, before)| before + index);
    Rank { label, number: told_rank(pod).or(own).or_else(counted), role, pod: name.to_owned() }
}

/// The rank that the pod's program is told, if it is a number in the open.
fn told_rank(pod: &Value) -> Option<u64> {
    let containers = pod["spec"]["containers"].as_array()?;
    let value = |name: &str| {
        let variables = containers.iter().filter_map(|container| container["env"].as_array()).flatten();
        variables.filter(|variable| variable["name"] == name).find_map(|it| it["value"].as_str()?.parse().ok())
    };
    RANK_VARIABLES.into_iter().find_map(value)
}

/// How many pods of the job's other roles come before those of this one.
fn pods_before(job: &Value, role: &str) -> Option<u64> {
    let mut before = 0;
    for (name, replicas) in roles(job) {
        if name.eq_ignore_ascii_case(role) {
            return Some(before);
        }
        before += replicas;
    }
    None
}

/// The roles of a job with their numbers of pods, in the order of its ranks.
fn roles(job: &Value) -> Vec<(String, u64)> {
    let count = |replicas: &Value| replicas.as_u64().unwrap_or(1);
    if let Some(row) = kubeflow::ROWS.iter().find(|row| job["kind"] == row.name) {
        let specs = &job["spec"][row.replica_specs];
        let present = row.replica_types.iter().filter(|kind| specs[**kind].is_object());
        return present.map(|kind| ((*kind).to_owned(), count(&specs[*kind]["replicas"]))).collect();
    }
    let tasks = job["spec"]["tasks"].as_array().into_iter().flatten();
    tasks.map(|task| (task["name"].as_str().unwrap_or_default().to_owned(), count(&task["replicas"]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(labels: Value) -> Value {
        json!({"metadata": {"name": "p", "labels": labels}})
    }

    #[test]
    fn a_volcano_jobs_ranks_are_counted_over_its_tasks() {
        let job = json!({"kind": "Job", "spec": {"tasks": [
            {"name": "ps", "replicas": 2}, {"name": "chief"}, {"name": "worker", "replicas": 3}]}});
        let of = |task: &str, index: &str| {
            rank(&job, &pod(json!({"volcano.sh/task-spec": task, "volcano.sh/task-index": index})))
        };
        let worker = of("worker", "1");
        assert_eq!((worker.label.as_str(), worker.number), ("worker-1", Some(4)));
        assert_eq!((of("chief", "0").number, of("ps", "1").number), (Some(2), Some(1)));
        assert_eq!(of("gone", "0").number, None);
        for word in ["4", "worker", "worker-1", "p", "Worker-1"] {
            assert!(worker.is_called(word), "{word}");
        }
        for word in ["1", "worker-2", "work", "chief", ""] {
            assert!(!worker.is_called(word), "{word}");
        }
    }

    #[test]
    fn a_training_jobs_master_comes_before_its_workers() {
        let specs = json!({"Worker": {"replicas": 2}, "Master": {}});
        let job = json!({"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": specs}});
        let of = |kind: &str, index: &str| {
            let labels =
                json!({"training.kubeflow.org/replica-type": kind, "training.kubeflow.org/replica-index": index});
            rank(&job, &pod(labels))
        };
        assert_eq!((of("master", "0").number, of("worker", "1").number), (Some(0), Some(2)));
        assert_eq!(of("worker", "1").label, "worker-1");
    }

    #[test]
    fn the_rank_that_the_program_is_told_is_its_rank() {
        let job = json!({"kind": "Job", "spec": {"tasks": [{"name": "worker"}, {"name": "master"}]}});
        let mut pod = pod(json!({"volcano.sh/task-spec": "master", "volcano.sh/task-index": "0"}));
        assert_eq!(rank(&job, &pod).number, Some(1));
        pod["spec"] = json!({"containers": [{"name": "sidecar"}, {"env": [
            {"name": "PET_NODE_RANK", "value": "7"}, {"name": "RANK", "value": "0"}]}]});
        assert_eq!(rank(&job, &pod).number, Some(0));
    }

    #[test]
    fn other_pods_are_called_by_their_index_or_their_name() {
        let job = json!({"kind": "Job", "metadata": {"name": "sweep"}, "spec": {}});
        let indexed = rank(&job, &pod(json!({"batch.kubernetes.io/job-completion-index": "3"})));
        assert_eq!((indexed.label.as_str(), indexed.number), ("sweep-3", Some(3)));
        let plain = rank(&job, &pod(json!({})));
        assert_eq!((plain.label.as_str(), plain.role.as_str(), plain.number), ("p", "", None));
    }
}
