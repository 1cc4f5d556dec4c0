//! Which policy answers an event (SM-10, SM-11): the task's first, then the Job's; in each the first that matches.

use volley_api::volcano::policies::ANY;
use volley_api::volcano::types::{JobSpec, Policy, Task};

/// The policy for an event; `exit_code` is that of the container that failed.
pub fn find<'s>(spec: &'s JobSpec, task: Option<&'s Task>, event: &str, exit_code: Option<i32>) -> Option<&'s Policy> {
    let own = task.map_or(&[][..], |task| &task.policies);
    own.iter().chain(&spec.policies).find(|policy| matches(policy, event, exit_code))
}

fn matches(policy: &Policy, event: &str, exit_code: Option<i32>) -> bool {
    let is_named = policy.events().any(|named| named == event || named == ANY);
    // A pod that is merely new is no reason to act at once.
    let is_ready = event != "PodPending" || policy.delay().is_some();
    (is_named && is_ready) || (policy.exit_code.is_some() && policy.exit_code == exit_code)
}
