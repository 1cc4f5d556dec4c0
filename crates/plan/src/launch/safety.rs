//! What a config may ask of the machine that it runs on, and who may ask for it.
//!
//! A field that stands in the queue's config is its admin's and is held to the agent's policy; all else is the
//! submitter's and is held to the queue's, which is `restricted` unless somebody chose otherwise.

use super::layers::{counterpart, joined};
use super::{Refusal, macros, walk};
use serde_json::Value;

/// How much is allowed, after the Pod Security Standards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Nothing that concerns the pod's security may be set.
    Restricted,
    /// The pod's own security and service account may be set, but nothing that reaches the machine.
    Baseline,
    /// Anything.
    Privileged,
}

impl Policy {
    pub fn named(name: &str) -> Option<Policy> {
        [Policy::Restricted, Policy::Baseline, Policy::Privileged].into_iter().find(|policy| policy.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Policy::Restricted => "restricted",
            Policy::Baseline => "baseline",
            Policy::Privileged => "privileged",
        }
    }
}

/// Under what a field is refused.
#[derive(Clone, Copy)]
enum When {
    Present,
    Truthy,
    NotEmpty,
    Equals(&'static str),
}

impl When {
    fn holds(self, value: &Value) -> bool {
        match self {
            When::Present => true,
            When::Truthy => is_truthy(value),
            When::NotEmpty => !matches!(value, Value::Null) && value.as_str() != Some(""),
            When::Equals(text) => value.as_str() == Some(text),
        }
    }
}

struct Row {
    key: &'static str,
    when: When,
    rule: &'static str,
    /// The least policy that allows it.
    needs: Policy,
}

const fn row(rule: &'static str, key: &'static str, when: When, needs: Policy) -> Row {
    Row { key, when, rule, needs }
}

const ROWS: &[Row] = &[
    row("K-1", "securityContext", When::Present, Policy::Baseline),
    row("K-1", "hostPath", When::Present, Policy::Privileged),
    row("K-1", "serviceAccountToken", When::Present, Policy::Baseline),
    row("K-2", "hostPID", When::Truthy, Policy::Privileged),
    row("K-2", "hostIPC", When::Truthy, Policy::Privileged),
    row("K-2", "hostNetwork", When::Truthy, Policy::Privileged),
    row("K-2", "hostUsers", When::Truthy, Policy::Baseline),
    row("K-2", "hostPort", When::Truthy, Policy::Privileged),
    row("K-2", "shareProcessNamespace", When::Truthy, Policy::Baseline),
    row("K-2", "automountServiceAccountToken", When::Truthy, Policy::Baseline),
    row("K-3", "serviceAccountName", When::NotEmpty, Policy::Baseline),
    row("K-3", "serviceAccount", When::NotEmpty, Policy::Baseline),
    row("K-4", "mountPropagation", When::Equals("Bidirectional"), Policy::Privileged),
];

/// Fields of a security context that reach beyond the container, whoever sets them.
const CONTEXT_ROWS: &[Row] = &[
    row("K-7", "privileged", When::Truthy, Policy::Privileged),
    row("K-7", "procMount", When::Equals("Unmasked"), Policy::Privileged),
    row("K-7", "windowsOptions", When::Present, Policy::Privileged),
    row("K-7", "sysctls", When::Present, Policy::Privileged),
];

/// Capabilities that Pod Security's baseline lets a container add.
const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
];

/// `true`, a number other than zero, or a text that means it.
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Bool(is_on) => *is_on,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => matches!(text.to_lowercase().as_str(), "1" | "true" | "yes"),
        Value::Null | Value::Array(_) | Value::Object(_) => false,
    }
}

/// Two policies and what is the admin's.
#[derive(Debug, Clone, Copy)]
pub struct Judge<'a> {
    pub admin: Policy,
    pub submitter: Policy,
    /// The config as the queue has it.
    pub queue: Option<&'a Value>,
}

/// Everything in a config that is not allowed to whoever wrote it.
pub fn check(config: &Value, judge: &Judge<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    search(config, judge.queue, &Place { judge, path: String::new(), is_context: false }, &mut refusals);
    refusals
}

struct Place<'a> {
    judge: &'a Judge<'a>,
    path: String,
    /// Somewhere below a `securityContext`.
    is_context: bool,
}

impl Place<'_> {
    /// Refuses the value unless its author's policy allows it.
    fn hold(&self, row: &Row, path: String, value: &Value, queued: Option<&Value>) -> Option<Refusal> {
        let is_admins = queued == Some(value);
        let policy = if is_admins { self.judge.admin } else { self.judge.submitter };
        if policy >= row.needs {
            return None;
        }
        let hint = if is_admins {
            format!("who runs the agent can allow it to queues with policy `{}`", row.needs.name())
        } else {
            "leave it out, or ask the queue's admin to put it into the queue's config".to_owned()
        };
        let author = if is_admins { "a queue's config" } else { "a launch" };
        let what = format!("is not allowed to {author} under policy `{}`", policy.name());
        Some(Refusal::new(row.rule, &path, what, hint))
    }
}

fn search(value: &Value, queued: Option<&Value>, place: &Place<'_>, refusals: &mut Vec<Refusal>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let counterpart = queued.and_then(|queued| queued.get(key));
                let path = joined(&place.path, key);
                let rows = ROWS.iter().chain(CONTEXT_ROWS.iter().filter(|_| place.is_context));
                let broken = rows.filter(|row| row.key == key && row.when.holds(member));
                refusals.extend(broken.filter_map(|row| place.hold(row, path.clone(), member, counterpart)));
                refusals.extend(special(key, member, counterpart, place, &path));
                let is_context = place.is_context || key == "securityContext";
                search(member, counterpart, &Place { judge: place.judge, path, is_context }, refusals);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let below = Place { path: format!("{}[{index}]", place.path), ..*place };
                search(item, counterpart(item, index, queued), &below, refusals);
            }
        }
        Value::String(text) if queued != Some(value) && !macros::is_command(&place.path) => {
            refusals.extend(macros::secret_in(text).map(|name| secret(name, &place.path)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// A launch asks for a secret of whoever runs it. In a command it is the shell's, which has the workload's own.
fn secret(name: &str, path: &str) -> Refusal {
    let what = format!("asks for `{name}`, and no macro tells a secret");
    Refusal::new("M-9", path, what, "the workload's own credential is in its environment; others are Secrets")
}

/// Rules that look at more than one key.
fn special(key: &str, value: &Value, queued: Option<&Value>, place: &Place<'_>, path: &str) -> Vec<Refusal> {
    let hold = |row: &Row, path: String, value: &Value, queued: Option<&Value>| place.hold(row, path, value, queued);
    match (key, value) {
        ("annotations", Value::Object(annotations)) => {
            let is_loose = |(name, text): &(&String, &Value)| {
                let name = name.to_lowercase();
                let text = text.as_str().unwrap_or_default().to_lowercase();
                (name.contains("apparmor") || name.contains("seccomp")) && text.contains("unconfined")
            };
            let unconfined = row("K-5", "annotations", When::Present, Policy::Privileged);
            let broken = annotations.iter().filter(is_loose);
            let refuse = |(name, text): (&String, &Value)| {
                hold(&unconfined, joined(path, name), text, queued.and_then(|queued| queued.get(name)))
            };
            broken.filter_map(refuse).collect()
        }
        ("add", Value::Array(added)) if place.is_context => {
            let is_safe = |name: &Value| name.as_str().is_some_and(|name| CAPABILITIES.contains(&name));
            let capabilities = row("K-7", "add", When::Present, Policy::Privileged);
            let is_broken = !added.iter().all(is_safe);
            is_broken.then(|| hold(&capabilities, path.to_owned(), value, queued)).flatten().into_iter().collect()
        }
        ("type", Value::String(kind)) if place.is_context && kind == "Unconfined" => {
            let unconfined = row("K-7", "type", When::Present, Policy::Privileged);
            hold(&unconfined, path.to_owned(), value, queued).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Kinds of Kubernetes itself that only run something; others grant rights, hold secrets or change the cluster.
const WORKLOADS: [(&str, &str); 5] = [
    ("batch/v1", "Job"),
    ("v1", "Pod"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "ReplicaSet"),
];
/// Kinds that may stand beside a workload. No Secret: one of the right type makes a token of any service account.
const BESIDE: [(&str, &str); 5] = [
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "PersistentVolumeClaim"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("networking.k8s.io/v1", "Ingress"),
];
/// Namespaces of the cluster's own parts.
const SYSTEM_NAMESPACES: [&str; 4] = ["kube-system", "kube-public", "kube-node-lease", "volley-system"];

fn is_workload(version: &str, kind: &str) -> bool {
    let group = version.rsplit_once('/').map_or("", |(group, _)| group);
    let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
    is_custom || WORKLOADS.contains(&(version, kind))
}

/// Whether an object of this kind may stand beside a submitter's workload.
pub fn check_beside(version: &str, kind: &str) -> Option<Refusal> {
    let is_fine = is_workload(version, kind) || BESIDE.contains(&(version, kind));
    let what = format!("a {kind} of {version} may not stand beside a launch");
    let hint = "let whoever runs the cluster make it";
    (!is_fine).then(|| Refusal::new("K-7", "additional_services", what, hint))
}

/// What is to be made, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    pub version: String,
    pub kind: String,
    pub namespace: String,
    pub config_file: Option<String>,
    pub context: Option<String>,
}

/// A submitter makes only what runs something, where the queue has it; `queue` is the target of the queue's own config.
pub fn check_target(target: &Target, queue: Option<&Target>, judge: &Judge<'_>) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    let place = Place { judge, path: String::new(), is_context: false };
    let mut hold = |path: &str, ours: &str, theirs: Option<&str>, is_wrong: bool| {
        let privileged = row("K-7", "", When::Present, Policy::Privileged);
        let (ours, theirs) = (Value::from(ours), theirs.map(Value::from));
        refusals.extend(place.hold(&privileged, path.to_owned(), &ours, theirs.as_ref()).filter(|_| is_wrong));
    };
    let kind = |target: &Target| format!("{} {}", target.version, target.kind);
    let is_workload = is_workload(&target.version, &target.kind);
    hold("kind", &kind(target), queue.map(kind).as_deref(), !is_workload);
    let space = queue.map(|queue| queue.namespace.as_str());
    let is_moved = space.is_some_and(|space| space != target.namespace);
    let is_system = SYSTEM_NAMESPACES.contains(&target.namespace.as_str());
    hold("metadata.namespace", &target.namespace, space, is_moved || is_system);
    let given = [("configFile", &target.config_file), ("context", &target.context)];
    let queued =
        [queue.and_then(|queue| queue.config_file.as_deref()), queue.and_then(|queue| queue.context.as_deref())];
    for ((path, ours), theirs) in given.into_iter().zip(queued) {
        if let Some(ours) = ours {
            hold(path, ours, theirs, theirs != Some(ours));
        }
    }
    refusals
}

/// What secure mode refuses besides, in every pod that the config makes.
pub fn check_secure(config: &Value, overrides_entry_point: bool) -> Vec<Refusal> {
    const HINT: &str = "this agent runs in secure mode: leave it out, or use a queue of another agent";
    let mut refusals = Vec::new();
    for spec in walk::pod_specs(config) {
        let pod = config.pointer(&spec.pointer).unwrap_or(&Value::Null);
        for key in ["hostPID", "hostIPC", "hostNetwork", "initContainers"] {
            if pod.get(key).is_some() {
                refusals.push(Refusal::new("A-30", &joined(&spec.path, key), "is refused in secure mode", HINT));
            }
        }
        let containers = pod.get("containers").and_then(Value::as_array).into_iter().flatten();
        for (index, _) in containers.enumerate().filter(|(_, container)| container.get("command").is_some()) {
            let path = format!("{}[{index}].command", joined(&spec.path, "containers"));
            refusals.push(Refusal::new("A-30", &path, "is refused in secure mode", HINT));
        }
    }
    if overrides_entry_point {
        refusals.push(Refusal::new("A-30", "overrides.entry_point", "is refused in secure mode", HINT));
    }
    refusals
}

#[cfg(test)]
#[path = "safety_tests.rs"]
mod tests;
