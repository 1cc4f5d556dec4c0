//! Why a workload failed, in one sentence that names the cause: memory, eviction, a crash with its last lines, a deadline.

use super::trouble::statuses;
use serde_json::Value;
use volley_api::kube::{at, text};

/// Lines of a crashed container that are told; more are in its log.
const LINES_MAX: usize = 10;

/// The cause, read off the pods and the workload. `last_lines` gives a container's last output, by pod and container.
pub fn reason(workload: &Value, pods: &[Value], last_lines: impl Fn(&str, &str) -> Vec<String>) -> String {
    let ended = pods.iter().flat_map(|pod| statuses(pod).map(move |status| (pod, status)));
    let mut crashes: Vec<(&Value, &Value, &Value)> = ended
        .filter_map(|(pod, status)| {
            let now = at(status, "state.terminated");
            let ended = now.or_else(|| at(status, "lastState.terminated"))?;
            (ended["exitCode"] != 0).then_some((pod, status, ended))
        })
        .collect();
    // Others often fall because the first one fell.
    crashes.sort_by_key(|(_, _, ended)| text(ended, "finishedAt").to_owned());
    if let Some((pod, status, ended)) = crashes.iter().find(|(_, _, ended)| ended["reason"] == "OOMKilled") {
        return out_of_memory(pod, text(status, "name"), ended);
    }
    if let Some(pod) = pods.iter().find(|pod| text(pod, "status.reason") == "Evicted") {
        return format!("pod `{}` was evicted: {}", text(pod, "metadata.name"), text(pod, "status.message"));
    }
    if let Some((pod, status, ended)) = crashes.first() {
        return crash(text(pod, "metadata.name"), text(status, "name"), ended, &last_lines);
    }
    let mut told = at(workload, "status.conditions").and_then(Value::as_array).into_iter().flatten();
    let failed = told.rfind(|each| each["type"] == "Failed" && each["status"] == "True");
    let told = failed.map(|each| (text(each, "reason"), text(each, "message")));
    let (reason, message) =
        told.unwrap_or((text(workload, "status.state.reason"), text(workload, "status.state.message")));
    match (reason, message) {
        ("", "") => "it failed, and its status does not say why".to_owned(),
        ("", message) => message.to_owned(),
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

/// The exit code of the job: of the first container that failed, or 0 when all that ended did so well.
pub fn exit_code(pods: &[Value]) -> Option<i64> {
    let ended = pods.iter().flat_map(statuses).filter_map(|status| at(status, "state.terminated"));
    let code = |ended: &Value| ended["exitCode"].as_i64();
    let mut all: Vec<&Value> = ended.collect();
    all.sort_by_key(|ended| text(ended, "finishedAt").to_owned());
    let failed = all.iter().find_map(|ended| code(ended).filter(|code| *code != 0));
    failed.or_else(|| all.iter().find_map(|ended| code(ended)))
}

fn out_of_memory(pod: &Value, container: &str, ended: &Value) -> String {
    let containers = at(pod, "spec.containers").and_then(Value::as_array).into_iter().flatten();
    let own = containers.filter(|each| text(each, "name") == container);
    let limit = own.filter_map(|each| at(each, "resources.limits.memory")).next();
    let limit = limit.map(|limit| limit.as_str().map_or_else(|| limit.to_string(), str::to_owned));
    let limit = limit.map(|limit| format!(", whose limit is {limit}")).unwrap_or_default();
    format!(
        "container `{container}` of pod `{}` ran out of memory{limit} (exit code {})",
        text(pod, "metadata.name"),
        ended["exitCode"]
    )
}

fn crash(pod: &str, container: &str, ended: &Value, last_lines: &impl Fn(&str, &str) -> Vec<String>) -> String {
    // The runtime's own words, where there are any: a program that is not there leaves no lines.
    let words = match (text(ended, "reason"), text(ended, "message")) {
        (_, "") | ("Error" | "Completed", _) => String::new(),
        (reason, message) => format!(" ({reason}: {message})"),
    };
    let sentence = format!("container `{container}` of pod `{pod}` ended with exit code {}{words}", ended["exitCode"]);
    with_last_lines(sentence, &last_lines(pod, container))
}

/// What happened, and what was said last before it did.
pub(super) fn with_last_lines(mut sentence: String, lines: &[String]) -> String {
    let shown = &lines[lines.len().saturating_sub(LINES_MAX)..];
    if !shown.is_empty() {
        sentence += &format!("; its last lines:\n{}", shown.join("\n"));
    }
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, reason: &str, code: i64, finished: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "1Gi"}}}]},
            "status": {"containerStatuses": [{"name": "c", "state": {"terminated":
                {"reason": reason, "exitCode": code, "finishedAt": finished}}}]}})
    }

    fn lines(pod: &str, _: &str) -> Vec<String> {
        (0..12).map(|number| format!("{pod} line {number}")).collect()
    }

    // K-76
    #[test]
    fn the_exit_code_is_that_of_the_first_failure() {
        assert_eq!(exit_code(&[]), None);
        assert_eq!(exit_code(&[pod("a", "Completed", 0, "1")]), Some(0));
        let pods = [pod("a", "Completed", 0, "1"), pod("b", "Error", 7, "3"), pod("c", "Error", 9, "2")];
        assert_eq!(exit_code(&pods), Some(9));
    }

    // K-76, K-78
    #[test]
    fn the_cause_is_named() {
        let failed = json!({"status": {"conditions": [
            {"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too long"}]}});
        assert_eq!(reason(&failed, &[], lines), "DeadlineExceeded: too long");
        let memory = [pod("a", "Error", 1, "2"), pod("b", "OOMKilled", 137, "1")];
        assert_eq!(
            reason(&failed, &memory, lines),
            "container `c` of pod `b` ran out of memory, whose limit is 1Gi (exit code 137)"
        );
        let crashed =
            [pod("late", "Error", 1, "2026-01-01T00:00:02Z"), pod("first", "Error", 3, "2026-01-01T00:00:01Z")];
        let told = reason(&failed, &crashed, lines);
        assert!(
            told.starts_with("container `c` of pod `first` ended with exit code 3; its last lines:\nfirst line 2\n")
        );
        let mut mistyped = pod("m", "StartError", 128, "1");
        let end = &mut mistyped["status"]["containerStatuses"][0]["state"]["terminated"];
        end["message"] = json!("exec: \"pyhton\": executable file not found in $PATH");
        assert_eq!(
            reason(&failed, &[mistyped], |_, _| Vec::new()),
            "container `c` of pod `m` ended with exit code 128 (StartError: exec: \"pyhton\": executable file not found in $PATH)"
        );
        let evicted = [json!({"metadata": {"name": "e"}, "status": {"reason": "Evicted", "message": "low on disk"}})];
        assert_eq!(reason(&failed, &evicted, lines), "pod `e` was evicted: low on disk");
        assert_eq!(
            reason(&json!({}), &[pod("fine", "Completed", 0, "1")], lines),
            "it failed, and its status does not say why"
        );
    }
}
