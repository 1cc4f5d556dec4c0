//! What became of a job and of its pods: ended, suspended, refused, coming up, running.

use super::waits::no_class;
use super::{
    Finding, Observed, State, clock, counts, is_waiting, list, moment, name, namespace_flag, phase, plural, some,
};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;
use volley_api::kube::{at, text};

/// Jobs that will not change any more.
pub fn ended(seen: &Observed, _now: Timestamp) -> Option<Finding> {
    let job = seen.job;
    let volcano = text(job, "status.state.phase");
    let condition = |kinds: &[&str]| {
        let holds = |one: &&Value| kinds.contains(&text(one, "type")) && text(one, "status") == "True";
        list(job, "status.conditions").find(holds)
    };
    let is_pod = seen.kind == "pod";
    let complete = condition(&["Complete", "Succeeded"]);
    if complete.is_some() || volcano == "Completed" || (is_pod && phase(job) == "Succeeded") {
        let at = complete.and_then(|one| moment(one, "lastTransitionTime"));
        let at = at
            .or_else(|| moment(job, "status.completionTime"))
            .or_else(|| moment(job, "status.state.lastTransitionTime"));
        let when = at.map(|at| format!(" at {}", clock(at))).unwrap_or_default();
        let pods = counts(seen.pods);
        let pods =
            if pods.total == 0 { String::new() } else { format!("; {} succeeded", plural(pods.succeeded, "pod")) };
        return Some(Finding::new(State::Finished, "Finished", format!("finished{when}{pods}")).since(at));
    }
    if volcano == "Aborted" {
        let finding = Finding::new(State::Suspended, "Aborted", "was aborted, and its pods were removed");
        return Some(finding.unblock(format!(
            "volley vcjob resume {}{} runs it again",
            name(job),
            namespace_flag(job)
        )));
    }
    let failed = condition(&["Failed"]);
    let has_failed =
        failed.is_some() || matches!(volcano, "Failed" | "Terminated") || (is_pod && phase(job) == "Failed");
    has_failed.then(|| failure(seen, failed))
}

fn failure(seen: &Observed, condition: Option<&Value>) -> Finding {
    let job = seen.job;
    let parts = [
        condition.map_or("", |one| text(one, "reason")),
        condition.map_or("", |one| text(one, "message")),
        text(job, "status.state.reason"),
        text(job, "status.state.message"),
        if seen.kind == "pod" { text(job, "status.message") } else { "" },
    ];
    let told: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    let at = condition.and_then(|one| moment(one, "lastTransitionTime"));
    let dead = seen.pods.iter().find_map(|pod| death(pod).map(|death| (pod, death)));
    let (reason, cause) = match &dead {
        Some((pod, death)) => (death.reason, format!("pod {} {}", name(pod), death.message)),
        None => ("Failed", String::new()),
    };
    let told = told.join(": ");
    let said = match (cause.is_empty(), told.is_empty()) {
        (true, true) => "failed".to_owned(),
        (true, false) => format!("failed: {told}"),
        (false, true) => format!("failed: {cause}"),
        (false, false) => format!("failed: {cause} ({told})"),
    };
    let mut finding = Finding::new(State::Failed, reason, said).since(at);
    if let Some((pod, _)) = dead {
        finding.lines = seen.lines.get(name(pod)).cloned().unwrap_or_default();
    }
    if reason == "OutOfMemory" {
        finding = finding.unblock("raise resources.limits.memory of the container, or use less");
    }
    finding.unblock(format!("volley logs {}/{}{} --tail 50", seen.kind, name(job), namespace_flag(job)))
}

struct Death {
    reason: &'static str,
    message: String,
}

/// How a container of a failed pod ended, if one did.
fn death(pod: &Value) -> Option<Death> {
    if phase(pod) != "Failed" {
        return None;
    }
    let ended = statuses(pod).find_map(|status| {
        let ended = at(status, "state.terminated").filter(|ended| ended["exitCode"] != 0)?;
        Some((text(status, "name"), ended))
    });
    let Some((container, ended)) = ended else {
        let said = [text(pod, "status.reason"), text(pod, "status.message")].join(": ");
        return Some(Death { reason: "Failed", message: format!("failed: {}", said.trim_matches([':', ' '])) });
    };
    let how = ending(ended);
    if text(ended, "reason") == "OOMKilled" {
        return Some(Death { reason: "OutOfMemory", message: format!("container {container} {how}") });
    }
    let on = Some(text(pod, "status.reason")).filter(|reason| !reason.is_empty());
    let on = on.map(|reason| format!(" ({reason})")).unwrap_or_default();
    Some(Death { reason: "Failed", message: format!("container {container} {how}{on}") })
}

/// How a container ended, from its `terminated`.
fn ending(ended: &Value) -> String {
    let code = ended["exitCode"].as_i64().unwrap_or(0);
    match (text(ended, "reason"), text(ended, "message")) {
        ("OOMKilled", _) => "used more memory than its limit and was killed".to_owned(),
        // Its program never ran, so there is no log that would tell.
        ("StartError" | "ContainerCannotRun", told) if !told.is_empty() => format!("could not start: {told}"),
        _ => format!("ended with exit code {code}"),
    }
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    list(pod, "status.initContainerStatuses").chain(list(pod, "status.containerStatuses"))
}

pub fn suspended(seen: &Observed, _now: Timestamp) -> Option<Finding> {
    let path = ["spec.suspend", "spec.runPolicy.suspend"]
        .into_iter()
        .find(|path| at(seen.job, path) == Some(&Value::Bool(true)))?;
    let finding = Finding::new(State::Suspended, "Suspended", format!("is suspended: {path} is true"));
    let patch = match path {
        "spec.suspend" => r#"{"spec":{"suspend":false}}"#,
        _ => r#"{"spec":{"runPolicy":{"suspend":false}}}"#,
    };
    let (kind, job, flag) = (seen.kind, name(seen.job), namespace_flag(seen.job));
    Some(finding.unblock(format!("kubectl patch {kind} {job}{flag} --type merge -p '{patch}'")))
}

/// An object that is on its way out.
pub fn leaving(seen: &Observed, _now: Timestamp) -> Option<Finding> {
    let since = moment(seen.job, "metadata.deletionTimestamp")?;
    let held: Vec<&str> = list(seen.job, "metadata.finalizers").filter_map(Value::as_str).collect();
    let by = if held.is_empty() { String::new() } else { format!("; it is held by finalizer {}", held.join(", ")) };
    let said = format!("is being deleted since {}{by}", clock(since));
    Some(Finding::new(State::Waiting, "Deleting", said).since(Some(since)))
}

/// Pods that the API server does not let be made.
pub fn refused(seen: &Observed, _now: Timestamp) -> Option<Finding> {
    if seen.pods.len() >= wanted(seen) && !seen.pods.is_empty() {
        return None;
    }
    let is_refusal = |event: &&Value| {
        text(event, "type") == "Warning"
            && matches!(
                text(event, "reason"),
                "FailedCreate"
                    | "FailedCreatePod"
                    | "PodGroupError"
                    | "ExecuteActionFailed"
                    | "InvalidSpec"
                    | "FailedValidation"
            )
    };
    let last = seen.events.iter().filter(is_refusal).max_by_key(|event| seen_at(event))?;
    let message = text(last, "message");
    if let Some((quota, rest)) =
        message.split_once("exceeded quota: ").and_then(|(_, rest)| rest.split_once(", requested: "))
    {
        let said = format!("ResourceQuota {quota} refuses its pods: requested {rest}");
        let finding = Finding::new(State::Waiting, "ResourceQuota", said);
        return Some(finding.unblock(format!("free some of it in the namespace, or raise ResourceQuota {quota}")));
    }
    if let Some(class) = between(message, "no PriorityClass with name ", " was found") {
        return Some(no_class(class, seen.snapshot));
    }
    if let Some(account) = between(message, "serviceaccount \"", "\" not found") {
        let finding = Finding::new(
            State::Waiting,
            "ServiceAccountMissing",
            format!("its pods run as ServiceAccount {account}, which does not exist"),
        );
        return Some(finding.unblock(format!(
            "kubectl create serviceaccount {account}{}, or name another in serviceAccountName",
            namespace_flag(seen.job)
        )));
    }
    let finding = Finding::new(State::Waiting, "Refused", format!("its pods cannot be created: {message}"));
    Some(finding.unblock(TRIED_AGAIN))
}

const TRIED_AGAIN: &str = "change what the message names; the controller tries again by itself";

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(inside, _)| inside)
}

fn seen_at(event: &Value) -> Option<Timestamp> {
    ["series.lastObservedTime", "lastTimestamp", "eventTime", "metadata.creationTimestamp"]
        .into_iter()
        .find_map(|path| moment(event, path))
}

/// How many pods the job's spec asks for, as far as it says.
fn wanted(seen: &Observed) -> usize {
    let spec = &seen.job["spec"];
    let number = |value: &Value| value.as_u64().map(|number| number as usize);
    let tasks: usize = list(seen.job, "spec.tasks").map(|task| number(&task["replicas"]).unwrap_or(1)).sum();
    let replicas = spec.as_object().into_iter().flatten().filter(|(key, _)| key.ends_with("ReplicaSpecs"));
    let replicas: usize = replicas
        .flat_map(|(_, specs)| specs.as_object().into_iter().flatten())
        .map(|(_, spec)| number(&spec["replicas"]).unwrap_or(1))
        .sum();
    let plain = number(&spec["replicas"]).or_else(|| number(&spec["parallelism"])).unwrap_or(1);
    [tasks, replicas].into_iter().find(|count| *count > 0).unwrap_or(plain)
}

/// Pods that have a node and do not run yet, the worst first.
pub fn starting(seen: &Observed, _now: Timestamp) -> Option<Finding> {
    let mut found: Vec<(usize, Finding)> = Vec::new();
    for pod in seen.pods.iter().filter(|pod| !text(pod, "spec.nodeName").is_empty()) {
        for status in statuses(pod) {
            found.extend(trouble(seen, pod, status));
        }
    }
    let worst = found.into_iter().min_by_key(|(rank, _)| *rank);
    if let Some((_, finding)) = worst {
        return Some(finding);
    }
    let is_coming = |pod: &&Value| phase(pod) == "Pending" && !is_waiting(pod);
    let coming: Vec<&Value> = seen.pods.iter().filter(is_coming).collect();
    let first = coming.first()?;
    let is_trouble = |event: &&Value| {
        text(event, "type") == "Warning"
            && text(event, "involvedObject.name") == name(first)
            && text(event, "reason") != "FailedScheduling"
    };
    let event = seen.events.iter().filter(is_trouble).max_by_key(|event| seen_at(event));
    let since = moment(first, "status.startTime");
    if let Some(event) = event {
        let said =
            format!("pod {} comes up on {}: {}", name(first), text(first, "spec.nodeName"), text(event, "message"));
        let finding = Finding::new(State::Starting, "Starting", said).since(since);
        return Some(finding.unblock(format!("kubectl describe pod {}{}", name(first), namespace_flag(first))));
    }
    let said = format!("{} of {} is coming up on its node", coming.len(), plural(seen.pods.len(), "pod"));
    let said =
        if coming.len() == 1 { said } else { said.replace("is coming up on its node", "are coming up on their nodes") };
    Some(Finding::new(State::Starting, "Starting", said).since(since))
}

/// What keeps a container from running, and how grave it is.
fn trouble(seen: &Observed, pod: &Value, status: &Value) -> Option<(usize, Finding)> {
    let waiting = at(status, "state.waiting")?;
    let (reason, message) = (text(waiting, "reason"), text(waiting, "message"));
    let (image, container) = (text(status, "image"), text(status, "name"));
    let alike = |reason: &str| {
        let is_so = |pod: &&Value| statuses(pod).any(|one| text(one, "state.waiting.reason") == reason);
        seen.pods.iter().filter(is_so).count()
    };
    let who = match alike(reason) {
        0 | 1 => format!("pod {}", name(pod)),
        more => format!("pod {} and {} more", name(pod), more - 1),
    };
    match reason {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" => {
            let cause = if reason == "ImagePullBackOff" { pull_error(seen, pod).unwrap_or(message) } else { message };
            let said = format!("image {image} of {who} cannot be had: {cause}");
            let finding = Finding::new(State::Starting, "Image", said);
            Some((
                0,
                finding.unblock(format!(
                    "see that image {image} exists and that its registry may be read (imagePullSecrets)"
                )),
            ))
        }
        "InvalidImageName" => {
            let said = format!("image \"{image}\" of {who} is no valid name: {message}");
            Some((0, Finding::new(State::Starting, "Image", said).unblock("correct the image's name")))
        }
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            let finding = Finding::new(
                State::Starting,
                "Container",
                format!("container {container} of {who} cannot start: {message}"),
            );
            Some((1, finding.unblock("create or correct what the message names; it is tried again by itself")))
        }
        "CrashLoopBackOff" => Some((2, crash_loop(seen, pod, status, &who))),
        "ContainerCreating" | "PodInitializing" | "" => None,
        other => {
            let said = format!("container {container} of {who} waits: {other}: {message}");
            Some((3, Finding::new(State::Starting, "Container", said)))
        }
    }
}

/// The registry's own words: back-off hides them in the status, the event has them.
fn pull_error<'a>(seen: &'a Observed, pod: &Value) -> Option<&'a str> {
    let is_pull = |event: &&Value| {
        text(event, "involvedObject.name") == name(pod)
            && text(event, "reason") == "Failed"
            && text(event, "message").starts_with("Failed to pull image")
    };
    let event = seen.events.iter().filter(is_pull).max_by_key(|event| seen_at(event))?;
    text(event, "message").split_once(": ").map(|(_, cause)| cause)
}

fn crash_loop(seen: &Observed, pod: &Value, status: &Value, who: &str) -> Finding {
    let ended = at(status, "lastState.terminated").cloned().unwrap_or_default();
    let restarts = status["restartCount"].as_u64().unwrap_or(0);
    let how = ending(&ended);
    let times = if restarts == 1 { "once".to_owned() } else { format!("{restarts} times") };
    let container = text(status, "name");
    let mut finding = Finding::new(
        State::Starting,
        "CrashLoop",
        format!("container {container} of {who} {how} and was restarted {times}"),
    );
    finding.lines = seen.lines.get(name(pod)).cloned().unwrap_or_default();
    finding.unblock(format!("volley logs {}/{}{} --previous", seen.kind, name(seen.job), namespace_flag(seen.job)))
}

pub fn running(seen: &Observed, _now: Timestamp) -> Option<Finding> {
    let pods: Vec<&Value> = seen.pods.iter().filter(|pod| phase(pod) == "Running").collect();
    let first = pods.first()?;
    let since = pods.iter().filter_map(|pod| moment(pod, "status.startTime")).min();
    let nodes: BTreeSet<&str> = pods.iter().map(|pod| text(pod, "spec.nodeName")).collect();
    let at = since.map(|since| format!(" since {}", clock(since))).unwrap_or_default();
    let said =
        format!("runs{at}: {} of {} on {}", pods.len(), plural(seen.pods.len(), "pod"), some(nodes.iter().copied()));
    let deadline = at_deadline(first);
    let mut finding = Finding::new(State::Running, "Running", said).since(since);
    finding.when = deadline;
    finding.nodes = nodes.into_iter().map(str::to_owned).collect();
    Some(finding)
}

/// When a pod's time is over, if it has a limit.
fn at_deadline(pod: &Value) -> Option<Timestamp> {
    let seconds = at(pod, "spec.activeDeadlineSeconds").and_then(Value::as_i64)?;
    let started = moment(pod, "status.startTime")?;
    Timestamp::from_second(started.as_second() + seconds).ok()
}

/// Nobody has done anything with it, or could; then there is a warning.
pub fn untouched(seen: &Observed) -> Finding {
    if let Some(pod) = seen.pods.iter().find(|pod| is_waiting(pod)) {
        return unplaced(pod);
    }
    let is_warning =
        |event: &&Value| text(event, "type") == "Warning" && text(event, "involvedObject.name") == name(seen.job);
    if let Some(event) = seen.events.iter().filter(is_warning).max_by_key(|event| seen_at(event)) {
        let said = format!("has no pods: {}: {}", text(event, "reason"), text(event, "message"));
        return Finding::new(State::Waiting, "Refused", said).unblock(TRIED_AGAIN);
    }
    let said = format!("nothing has acted on {} {} yet: it has no pods", seen.kind, name(seen.job));
    let hint = match seen.kind {
        "job" | "pod" | "deployment" | "statefulset" | "daemonset" | "replicaset" => {
            "see that the cluster's controllers run".to_owned()
        }
        kind => {
            format!("see that an operator for {kind}s runs: `volley operator`, or `volley up` on the embedded cluster")
        }
    };
    Finding::new(State::Waiting, "NoController", said).unblock(hint)
}

/// A pod that waits for a node, though nothing that is known here keeps it from one.
fn unplaced(pod: &Value) -> Finding {
    let told = list(pod, "status.conditions").find(|one| text(one, "type") == "PodScheduled");
    let told = told.map_or("", |one| text(one, "message"));
    let why = match (moment(pod, "metadata.deletionTimestamp"), told) {
        (Some(since), _) => format!(": it is being deleted since {}", clock(since)),
        (None, "") => String::new(),
        (None, told) => format!(": {told}"),
    };
    let who = text(pod, "spec.schedulerName");
    let finding = Finding::new(State::Waiting, "NoNode", format!("pod {} has no node yet{why}", name(pod)));
    finding.unblock(format!("if it stays so, see that scheduler {who} runs"))
}
