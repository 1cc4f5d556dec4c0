//! What is deleted because its time is over: finished Jobs (K-JOB-5).

use super::{Plan, Target, job, seconds_since};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;

/// Deletes a finished Job, and in the background its pods, once `ttlSecondsAfterFinished` has passed.
pub fn plan_job(finished: &Job, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let ttl = finished.spec.as_ref().and_then(|spec| spec.ttl_seconds_after_finished);
    let (Some(ttl), Some(ended), None) = (ttl, job::finished_at(finished), &finished.metadata.deletion_timestamp)
    else {
        return plan;
    };
    let left = i64::from(ttl) - seconds_since(ended, now);
    if left > 0 {
        plan.requeue(left);
    } else {
        plan.delete(Target::of(finished));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::super::world::at;
    use super::*;
    use serde_json::json;

    // K-JOB-5
    #[test]
    fn a_job_goes_when_its_time_to_live_is_over() {
        let ended = json!([{"type": "Failed", "status": "True", "lastTransitionTime": at(0).to_string()}]);
        let job: Job = serde_json::from_value(json!({"metadata": {"name": "j"},
            "spec": {"ttlSecondsAfterFinished": 60, "template": {}}, "status": {"conditions": ended}}))
        .unwrap();
        assert_eq!(plan_job(&job, at(20)).requeue_after, Some(40));
        assert_eq!(plan_job(&job, at(60)).actions.len(), 1);
        assert!(plan_job(&Job { status: None, ..job }, at(60)).is_empty());
    }
}
