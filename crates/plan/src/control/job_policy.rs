//! What a failed pod means under `podFailurePolicy`, and when `successPolicy` is met; asked by the Job controller.

use super::job_indexes::{self, Indexes};
use super::{name_of, pods};
use k8s_openapi::api::batch::v1::{
    PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyOnPodConditionsPattern, SuccessPolicy,
};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};

/// What the policy says about one failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Counts towards the limits: the rule says so, no rule matches, or there is no policy.
    Count,
    Ignore,
    FailIndex,
    /// The whole Job fails, with this message.
    FailJob(String),
}

pub fn judge(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Verdict {
    for (index, rule) in policy.iter().flat_map(|policy| &policy.rules).enumerate() {
        let Some(finding) = finding(rule.on_exit_codes.as_ref(), rule.on_pod_conditions.as_deref(), pod) else {
            continue;
        };
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignore,
            "Count" => return Verdict::Count,
            "FailIndex" => return Verdict::FailIndex,
            "FailJob" => return Verdict::FailJob(format!("{finding} matching FailJob rule at index {index}")),
            // An action of a later version: the next rules decide, as upstream's do.
            _ => {}
        }
    }
    Verdict::Count
}

/// The beginning of the failure message if the rule matches the pod.
fn finding(
    codes: Option<&PodFailurePolicyOnExitCodesRequirement>,
    patterns: Option<&[PodFailurePolicyOnPodConditionsPattern]>,
    pod: &Pod,
) -> Option<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let name = name_of(&pod.metadata);
    if let Some(codes) = codes {
        let statuses = pods::container_statuses(pod).iter().chain(pods::init_container_statuses(pod));
        let (container, code) = statuses.filter_map(|status| failure(status, codes)).next()?;
        return Some(format!("Container {container} for pod {namespace}/{name} failed with exit code {code}"));
    }
    let conditions = pod.status.as_ref()?.conditions.as_deref().unwrap_or_default();
    let matches = |condition: &&PodCondition| {
        patterns.unwrap_or_default().iter().any(|pattern| {
            condition.type_ == pattern.type_ && condition.status == pattern.status.as_deref().unwrap_or("True")
        })
    };
    let condition = conditions.iter().find(matches)?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
}

/// The container's name and exit code if it failed with a code that the requirement names.
fn failure<'a>(
    status: &'a ContainerStatus,
    requirement: &PodFailurePolicyOnExitCodesRequirement,
) -> Option<(&'a str, i32)> {
    let code = status.state.as_ref()?.terminated.as_ref()?.exit_code;
    let is_named = requirement.container_name.as_ref().is_none_or(|name| *name == status.name);
    let is_listed = requirement.values.contains(&code);
    let matches = match requirement.operator.as_str() {
        "In" => is_listed,
        "NotIn" => !is_listed,
        _ => false,
    };
    (code != 0 && is_named && matches).then_some((status.name.as_str(), code))
}

/// The message of the first success rule that the succeeded indexes satisfy.
pub fn success(policy: Option<&SuccessPolicy>, completions: i32, succeeded: &Indexes) -> Option<String> {
    let rules = &policy?.rules;
    let index = rules.iter().position(|rule| {
        let wanted = rule.succeeded_indexes.as_deref().map(|text| job_indexes::parse(text, completions));
        let matched = match &wanted {
            Some(wanted) => wanted.intersection(succeeded).count(),
            None => succeeded.len(),
        };
        match (rule.succeeded_count, &wanted) {
            (Some(count), _) => matched >= usize::try_from(count).unwrap_or(0),
            (None, Some(wanted)) => matched == wanted.len(),
            (None, None) => false,
        }
    })?;
    Some(format!("Matched rules at index {index}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn failed_pod(code: i32) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"namespace": "d", "name": "p"},
            "status": {
                "phase": "Failed",
                "conditions": [{"type": "DisruptionTarget", "status": "True"}],
                "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": code}}}],
            },
        }))
        .unwrap()
    }

    // K-JOB-3
    #[test]
    fn the_first_matching_rule_decides() {
        let check = |rules: Value, expected: Verdict| {
            let policy: PodFailurePolicy = serde_json::from_value(json!({ "rules": rules })).unwrap();
            assert_eq!(judge(Some(&policy), &failed_pod(42)), expected);
        };
        let exit = |action: &str, operator: &str, codes: &[i32]| json!({"action": action, "onExitCodes": {"operator": operator, "values": codes}});
        let disrupted = |action: &str| json!({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]});
        check(json!([]), Verdict::Count);
        check(json!([exit("Ignore", "In", &[1])]), Verdict::Count);
        check(json!([exit("FailIndex", "In", &[42]), exit("Ignore", "In", &[42])]), Verdict::FailIndex);
        check(json!([exit("Ignore", "NotIn", &[1])]), Verdict::Ignore);
        check(json!([disrupted("Count")]), Verdict::Count);
        let message = "Container c for pod d/p failed with exit code 42 matching FailJob rule at index 1";
        check(json!([exit("Ignore", "In", &[1]), exit("FailJob", "In", &[42])]), Verdict::FailJob(message.into()));
        let message = "Pod d/p has condition DisruptionTarget matching FailJob rule at index 0";
        check(json!([disrupted("FailJob")]), Verdict::FailJob(message.into()));
    }

    // K-JOB-3
    #[test]
    fn success_rules_count_indexes() {
        let check = |rules: Value, expected: Option<&str>| {
            let policy: SuccessPolicy = serde_json::from_value(json!({ "rules": rules })).unwrap();
            let met = success(Some(&policy), 5, &[0, 2].into_iter().collect());
            assert_eq!(met.as_deref(), expected, "{policy:?}");
        };
        check(json!([{"succeededIndexes": "0,2"}]), Some("Matched rules at index 0"));
        check(json!([{"succeededIndexes": "0-2"}]), None);
        check(json!([{"succeededCount": 3}, {"succeededCount": 2}]), Some("Matched rules at index 1"));
        check(json!([{"succeededIndexes": "0-3", "succeededCount": 2}]), Some("Matched rules at index 0"));
        check(json!([{"succeededIndexes": "3-4", "succeededCount": 1}]), None);
    }
}
