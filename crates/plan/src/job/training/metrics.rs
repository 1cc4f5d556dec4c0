//! What a written status means for the operator's counters: one step per real transition (PT-MET-1).

use serde_json::Value;
use volley_api::kubeflow::types::JobStatus;

/// A condition that comes true, and the counter that it moves.
const COUNTERS: [(&str, &str); 4] = [
    ("Created", "training_operator_jobs_created_total"),
    ("Succeeded", "training_operator_jobs_successful_total"),
    ("Failed", "training_operator_jobs_failed_total"),
    ("Restarting", "training_operator_jobs_restarted_total"),
];
/// Moved when a job is seen to be gone, whoever deleted it.
pub const DELETED: &str = "training_operator_jobs_deleted_total";

/// The counters to move after a job's status was written; `old` and `new` are the job before and after.
pub fn transitions(old: &Value, new: &Value) -> Vec<&'static str> {
    let (old, new) = (status(old), status(new));
    let came_true = |type_: &str| super::conditions::is_true(&new, type_) && !super::conditions::is_true(&old, type_);
    COUNTERS.iter().filter(|(type_, _)| came_true(type_)).map(|(_, counter)| *counter).collect()
}

fn status(job: &Value) -> JobStatus {
    job.get("status").and_then(|status| serde_json::from_value(status.clone()).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::training::stage::Stage;
    use serde_json::json;

    // PT-MET-1
    #[test]
    fn each_transition_counts_once() {
        let mut stage = Stage::torch(1, "ExitCode", json!({"runPolicy": {"backoffLimit": 2}}));
        let mut counted: Vec<&str> = Vec::new();
        let mut settle = |stage: &mut Stage| {
            for _ in 0..12 {
                let before = stage.job().clone();
                stage.step();
                counted.extend(transitions(&before, stage.job()));
            }
        };
        settle(&mut stage);
        for _ in 0..2 {
            stage.world.run_pod("x-worker-0");
            settle(&mut stage);
            stage.end_as("x-worker-0", "Failed", Some(137));
            settle(&mut stage);
        }
        let short: Vec<_> = counted.iter().map(|name| name.trim_start_matches("training_operator_jobs_")).collect();
        assert_eq!(short, ["created_total", "restarted_total", "failed_total"]);
    }
}
