//! Which container of a pod a request means, and which of its runs has the log (spec K-LOG-2, K-EXEC-1). Pure.

use serde_json::Value;
use volley_api::kube::status::ApiError;

/// Where a pod lists its containers, and where the status of each is.
const LISTS: &[(&str, &str)] = &[
    ("containers", "containerStatuses"),
    ("initContainers", "initContainerStatuses"),
    ("ephemeralContainers", "ephemeralContainerStatuses"),
];

/// The container that was asked for, or the only one.
pub fn choose<'a>(pod: &'a Value, asked: &'a str) -> Result<&'a str, ApiError> {
    let pod_name = text(&pod["metadata"]["name"]);
    if !asked.is_empty() {
        let is_known = LISTS.iter().any(|(list, _)| names(pod, list).contains(&asked));
        let unknown = || ApiError::bad_request(format!("container {asked} is not valid for pod {pod_name}"));
        return is_known.then_some(asked).ok_or_else(unknown);
    }
    let (containers, init) = (names(pod, "containers"), names(pod, "initContainers"));
    if let [only] = containers[..] {
        return Ok(only);
    }
    let mut message =
        format!("a container name must be specified for pod {pod_name}, choose one of: [{}]", containers.join(" "));
    if !init.is_empty() {
        message += &format!(" or one of the init containers: [{}]", init.join(" "));
    }
    Err(ApiError::bad_request(message))
}

/// One run of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRun<'a> {
    /// Its `containerID`.
    pub id: &'a str,
    /// How many runs were before it; log files are named by it.
    pub attempt: u64,
}

/// The run whose log is meant; a container that never ran has none.
pub fn log_run<'a>(pod: &'a Value, container: &str, previous: bool) -> Result<LogRun<'a>, ApiError> {
    let pod_name = text(&pod["metadata"]["name"]);
    let refused = |text: String| Err(ApiError::bad_request(text));
    let place = format!("container {container:?} in pod {pod_name:?}");
    let Some(status) = status(pod, container) else { return refused(format!("{place} is not available")) };
    let (state, last_run) = (&status["state"], text(&status["lastState"]["terminated"]["containerID"]));
    // The count is that of the newest run, also while its successor waits; then the last run is the newest one itself.
    let newest = status["restartCount"].as_u64().unwrap_or(0);
    if previous {
        let is_newest = state["waiting"].is_object();
        let attempt = if is_newest { newest } else { newest.saturating_sub(1) };
        return match last_run {
            "" => refused(format!("previous terminated {place} not found")),
            id => Ok(LogRun { id, attempt }),
        };
    }
    if state["running"].is_object() {
        return Ok(LogRun { id: text(&status["containerID"]), attempt: newest });
    }
    let ended_run = text(&state["terminated"]["containerID"]);
    let has_ended = state["terminated"].is_object() || status["lastState"]["terminated"].is_object();
    match [ended_run, last_run].into_iter().find(|run| !run.is_empty()) {
        Some(id) => return Ok(LogRun { id, attempt: newest }),
        None if has_ended => return refused(format!("{place} is terminated")),
        None => {}
    }
    refused(match state["waiting"]["reason"].as_str() {
        Some("ErrImagePull") => format!("{place} is waiting to start: image can't be pulled"),
        Some("ImagePullBackOff") => format!("{place} is waiting to start: trying and failing to pull image"),
        Some(reason) => format!("{place} is waiting to start: {reason}"),
        None => format!("{place} is waiting to start - no logs yet"),
    })
}

/// Whether this run of a container is the one that runs.
pub fn is_running(pod: &Value, container: &str, run: &str) -> bool {
    status(pod, container).is_some_and(|status| status["state"]["running"].is_object() && status["containerID"] == run)
}

/// A container as its pod's spec has it.
pub fn spec<'a>(pod: &'a Value, container: &str) -> &'a Value {
    let all = LISTS.iter().filter_map(|(list, _)| pod["spec"][*list].as_array()).flatten();
    all.into_iter().find(|found| found["name"] == container).unwrap_or(&Value::Null)
}

fn status<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let all = LISTS.iter().filter_map(|(_, list)| pod["status"][*list].as_array()).flatten();
    all.into_iter().find(|status| status["name"] == container)
}

fn names<'a>(pod: &'a Value, list: &str) -> Vec<&'a str> {
    pod["spec"][list].as_array().into_iter().flatten().map(|container| text(&container["name"])).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // K-LOG-2 K-EXEC-1
    #[test]
    fn container_is_the_one_asked_for_or_the_only_one() {
        let one = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
        assert_eq!(choose(&one, "").unwrap(), "a");
        assert_eq!(choose(&one, "x").unwrap_err().message, "container x is not valid for pod p");
        let mut two = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let asked_to_choose = "a container name must be specified for pod p, choose one of: [a b]";
        assert_eq!(choose(&two, "").unwrap_err().message, asked_to_choose);
        two["spec"]["initContainers"] = json!([{"name": "i"}]);
        let with_init = format!("{asked_to_choose} or one of the init containers: [i]");
        assert_eq!(choose(&two, "").unwrap_err().message, with_init);
        assert_eq!(choose(&two, "i").unwrap(), "i");
    }

    fn check(state: Value, last_state: Value, previous: bool, expected: Result<(&str, u64), &str>) {
        let status =
            json!([{"name": "c", "containerID": "now", "restartCount": 4, "state": state, "lastState": last_state}]);
        let pod = json!({"metadata": {"name": "p"}, "status": {"containerStatuses": status}});
        let found = log_run(&pod, "c", previous).map_err(|error| error.message);
        assert_eq!(found.map(|run| (run.id, run.attempt)), expected.map_err(str::to_owned));
    }

    // K-LOG-2 K-LOG-3
    #[test]
    fn log_is_that_of_the_run_that_is_meant_or_the_reason_why_there_is_none() {
        let ended = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        let none = || json!({});
        check(json!({"running": {}}), none(), false, Ok(("now", 4)));
        check(ended("now"), none(), false, Ok(("now", 4)));
        check(waiting("CrashLoopBackOff"), ended("before"), false, Ok(("before", 4)));
        check(waiting("CrashLoopBackOff"), ended("before"), true, Ok(("before", 4)));
        check(json!({"running": {}}), ended("before"), true, Ok(("before", 3)));
        let missing = "previous terminated container \"c\" in pod \"p\" not found";
        check(json!({"running": {}}), none(), true, Err(missing));
        check(ended(""), none(), false, Err("container \"c\" in pod \"p\" is terminated"));
        let not_yet = "container \"c\" in pod \"p\" is waiting to start: ";
        check(waiting("ContainerCreating"), none(), false, Err(&format!("{not_yet}ContainerCreating")));
        check(waiting("ErrImagePull"), none(), false, Err(&format!("{not_yet}image can't be pulled")));
        let backing_off = format!("{not_yet}trying and failing to pull image");
        check(waiting("ImagePullBackOff"), none(), false, Err(&backing_off));
        check(none(), none(), false, Err("container \"c\" in pod \"p\" is waiting to start - no logs yet"));
        let bare = json!({"metadata": {"name": "p"}});
        let absent = log_run(&bare, "c", false).unwrap_err().message;
        assert_eq!(absent, "container \"c\" in pod \"p\" is not available");
    }
}
