//! What a document says that will not do what was meant, although every key is where it belongs (G-06, G-14 to G-30).

use super::schema::{self, Form};
use super::tree::{Kind, Node};
use super::{Facts, Raw, Severity, moves, pods, queue};
use crate::launch::layers::joined;
use crate::launch::safety::{self, Judge, Policy};
use volley_api::kubeflow;

/// Macros whose values are free text, and no label.
const FREE_TEXT: [&str; 7] =
    ["project_name", "entity_name", "run_name", "author", "queue_name", "job_name", "queue_entity"];
/// Registries that no longer answer.
const RETIRED: [&str; 2] = ["gcr.io/kubeflow-ci/", "k8s.gcr.io/"];

pub fn check(text: &str, root: &Node, facts: &Facts, raws: &mut Vec<Raw>) {
    let (manifest, _) = schema::unwrapped(root);
    placeholders(manifest, "", raws);
    if manifest.text().is_some_and(|text| !text.trim().is_empty()) {
        let message = "this is one piece of text and no document of keys and values; is it a command, or prose?";
        raws.push(Raw::new("G-00", Severity::Error, manifest.span.start, message));
    }
    if matches!(manifest.kind, Kind::List { .. }) {
        let message = "a list stands at the top, and no document of keys and values";
        raws.push(Raw::new("G-00", Severity::Error, manifest.span.start, message));
    }
    launched(text, root, facts, raws);
}

/// What a queue launches, or would.
fn launched(text: &str, root: &Node, facts: &Facts, raws: &mut Vec<Raw>) {
    let (manifest, wrapper) = schema::unwrapped(root);
    if let (Some(key), Some(entry)) = (wrapper, root.entries().first()) {
        let message = format!(
            "the manifest is wrapped in `{key}:`; W&B's agent would run a plain Job with one empty container instead"
        );
        let raw = Raw::new("G-06", Severity::Warning, entry.key_span.start, message).path(key);
        raws.push(raw.suggest("leave the wrapper out").fixes(moves::unwrap(text, root, entry)));
    }
    let (version, kind) = match schema::form(manifest) {
        Form::Object { version, kind, .. } => (version, kind),
        Form::Queue => {
            return queue::within(manifest, facts, raws, |config, facts, raws| launched(text, config, facts, raws));
        }
        Form::Agent(_) | Form::Chart(_) | Form::Other => return,
    };
    let object = Object { version: &version, kind: &kind, root: manifest };
    object.name(raws);
    labels(manifest, "", raws);
    object.gang(raws);
    object.pods(raws);
    object.claims(facts, raws);
    object.policy(raws);
    object.cluster(facts, raws);
}

struct Object<'a> {
    version: &'a str,
    kind: &'a str,
    root: &'a Node,
}

impl Object<'_> {
    fn is_plain_job(&self) -> bool {
        matches!(self.version, "batch/v1" | "batch/v1beta1")
    }

    fn is_volcano(&self) -> bool {
        self.version.starts_with("batch.volcano.sh/")
    }

    /// Whether it is something that a queue launches, and none of the other things that clusters are made of.
    fn is_workload(&self) -> bool {
        let group = self.version.rsplit_once('/').map_or("", |(group, _)| group);
        let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
        self.is_plain_job() || is_custom || (self.version == "v1" && self.kind == "Pod")
    }

    /// Training jobs make services of their names, which begin with a letter.
    fn name(&self, raws: &mut Vec<Raw>) {
        let Some(node) = self.root.at("metadata.name") else { return };
        let Some(name) = node.text() else { return };
        let needs_letter = kubeflow::kinds::row(self.kind).is_some() || self.is_volcano();
        if needs_letter && name.starts_with("${") {
            let start = node.span.start + usize::from(!matches!(node.kind, Kind::Scalar { is_plain: true, .. }));
            let message = format!("`{name}` may begin with a digit, which a {} refuses", self.kind);
            let raw = Raw::new("G-16", Severity::Error, node.span.start, message).path("metadata.name");
            raws.push(raw.suggest(format!("run-{name}")).fix(start..start, "run-"));
        }
        let is_fixed = !name.contains("${") && !name.contains("{{");
        if is_fixed && self.is_workload() && !name.is_empty() {
            let message = format!("every launch would make `{name}` again, and only the first can");
            let raw = Raw::new("L-27", Severity::Note, node.span.start, message).path("metadata.name");
            raws.push(raw.suggest(format!("{name}-${{run_id}}")));
        }
    }

    fn gang(&self, raws: &mut Vec<Raw>) {
        let tasks = self.root.at("spec.tasks").map_or(&[][..], Node::items);
        if !self.is_volcano() || tasks.is_empty() {
            return;
        }
        self.gang_size(tasks, raws);
        let of_job = self.root.at("spec.policies");
        for (index, task) in tasks.iter().enumerate() {
            failure_policy(task, of_job, index, raws);
        }
        working_dirs(tasks, raws);
    }

    fn gang_size(&self, tasks: &[Node], raws: &mut Vec<Raw>) {
        let Some(minimum) = self.root.at("spec.minAvailable") else { return };
        let number = |node: &Node| node.value().as_i64();
        let counts: Vec<Option<i64>> = tasks.iter().map(|task| task.get("replicas").map_or(Some(1), number)).collect();
        let is_template = counts.contains(&None);
        let sum: i64 = counts.into_iter().flatten().sum();
        let Some(least) = number(minimum) else { return };
        if is_template || least < sum {
            let message = match is_template {
                true => {
                    format!("the replicas vary and `minAvailable` is always {least}, so the gang may start in part")
                }
                false => {
                    format!("`minAvailable` is {least} of {sum} pods, so the gang may start in part and wait for ever")
                }
            };
            let raw = Raw::new("G-18", Severity::Warning, minimum.span.start, message).path("spec.minAvailable");
            raws.push(raw.suggest(if is_template {
                "leave it out: all pods are then needed".to_owned()
            } else {
                sum.to_string()
            }));
        }
    }

    fn pods(&self, raws: &mut Vec<Raw>) {
        if !self.is_workload() {
            return;
        }
        let templates = pods::templates(self.root);
        let mut images = Vec::new();
        for (path, template) in &templates {
            volumes(path, template, raws);
            for (path, container) in pods::containers(path, template) {
                self.container(&path, container, raws);
                images.extend(container.get("image").map(|image| (joined(&path, "image"), image)));
            }
        }
        let is_launched = images.iter().any(|(_, image)| image.text().is_some_and(|text| text.contains("image_uri")));
        if let Some((path, image)) = images.first().filter(|_| !is_launched && !self.is_plain_job()) {
            let message = "no container has `${image_uri}`, so the image of the launched job will not be used";
            raws.push(
                Raw::new("G-15", Severity::Warning, image.span.start, message).path(path).suggest("${image_uri}"),
            );
        }
    }

    fn container(&self, path: &str, container: &Node, raws: &mut Vec<Raw>) {
        for key in ["name", "image"].into_iter().filter(|key| container.get(key).is_none()) {
            let raw = match self.is_plain_job() {
                true => Raw::new(
                    "G-14",
                    Severity::Note,
                    container.span.start,
                    format!("the container has no `{key}`; the agent adds it"),
                ),
                false => {
                    let message = format!("the container has no `{key}`, and the agent adds none to a {}", self.kind);
                    Raw::new("G-14", Severity::Error, container.span.start, message)
                }
            };
            raws.push(raw.path(&joined(path, key)));
        }
        if let Some(image) = container.get("image")
            && let Some(retired) =
                image.text().and_then(|text| RETIRED.iter().find(|retired| text.starts_with(**retired)))
        {
            let message = format!("registry `{retired}` is retired; the image cannot be pulled");
            raws.push(Raw::new("K-76", Severity::Warning, image.span.start, message).path(&joined(path, "image")));
        }
        for key in ["command", "args"] {
            let words = container.get(key).map_or(&[][..], Node::items);
            words.iter().for_each(|word| command_word(word, &joined(path, key), raws));
        }
    }

    fn claims(&self, facts: &Facts, raws: &mut Vec<Raw>) {
        let Some(known) = &facts.claims else { return };
        let namespace = self.root.at("metadata.namespace").and_then(Node::text).unwrap_or("default");
        for (path, template) in pods::templates(self.root) {
            for volume in template.at("spec.volumes").map_or(&[][..], Node::items) {
                let Some(node) = volume.at("persistentVolumeClaim.claimName") else { continue };
                let Some(claim) = node.text().filter(|text| !text.contains("${")) else { continue };
                if known.iter().any(|(space, name)| space == namespace && name == claim) {
                    continue;
                }
                let elsewhere: Vec<&str> =
                    known.iter().filter(|(_, name)| name == claim).map(|(space, _)| space.as_str()).collect();
                let hint = if elsewhere.is_empty() {
                    "it is nowhere".to_owned()
                } else {
                    format!("it is in {}", elsewhere.join(", "))
                };
                let message = format!("claim `{claim}` is not in namespace `{namespace}`: {hint}");
                raws.push(
                    Raw::new("G-23", Severity::Error, node.span.start, message).path(&joined(&path, "spec.volumes")),
                );
            }
        }
    }

    fn policy(&self, raws: &mut Vec<Raw>) {
        if !self.is_workload() {
            return;
        }
        let judge = Judge { admin: Policy::Restricted, submitter: Policy::Restricted, queue: None };
        for refusal in safety::check(&self.root.value(), &judge) {
            let at = place(self.root, "", &refusal.path).unwrap_or(self.root.span.start);
            let (message, hint) = match refusal.rule {
                "M-9" => {
                    let message = format!("this {} (M-9); W&B's agent would write its own here (M-8)", refusal.what);
                    (message, refusal.hint)
                }
                rule => {
                    let message = format!(
                        "W&B's agent refuses this ({rule}); ours allows it to a queue's admin, but to no launch"
                    );
                    (message, "leave it out: every container is secured anyway".to_owned())
                }
            };
            raws.push(Raw::new("G-28", Severity::Warning, at, message).path(&refusal.path).suggest(hint));
        }
    }

    fn cluster(&self, facts: &Facts, raws: &mut Vec<Raw>) {
        let at = self.root.get("kind").map_or(self.root.span.start, |node| node.span.start);
        let kind = format!("{}/{}", self.version, self.kind);
        if let (None, Some(near)) = (&facts.kinds, schema::misnamed(self.version, self.kind)) {
            let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let message = format!("`{}` has no kind `{}`{meant}", self.version, self.kind);
            // Others may have brought more kinds of a group with a dot.
            let severity = if self.version.contains('.') { Severity::Warning } else { Severity::Error };
            let raw = Raw::new("G-30", severity, at, message).path("kind");
            raws.push(near.map_or(raw.clone(), |near| raw.suggest(near)));
        }
        if facts.kinds.as_ref().is_some_and(|kinds| !kinds.contains(&kind)) {
            let operator = match self.version.split('/').next().unwrap_or_default() {
                "kubeflow.org" => "Kubeflow's training operator, or `volley operator`",
                "batch.volcano.sh" => "Volcano, or `volley operator`",
                "jobset.x-k8s.io" => "JobSet",
                "ray.io" => "KubeRay",
                _ => "the operator that brings it",
            };
            let message = format!("the cluster has no {kind}: install {operator}");
            raws.push(Raw::new("G-30", Severity::Error, at, message).path("kind"));
        }
        let group = self.version.rsplit_once('/').map_or("", |(group, _)| group);
        if facts.allowed.as_ref().is_some_and(|allowed| !allowed.contains(&format!("{group}/{}", self.kind))) {
            let plural = format!("{}s", self.kind.to_lowercase());
            let message = format!("the agent may not create a {}", self.kind);
            let rule = format!(
                "apiGroups: [\"{group}\"], resources: [\"{plural}\"], verbs: [create, get, list, watch, patch, delete]"
            );
            raws.push(Raw::new("G-29", Severity::Error, at, message).path("kind").suggest(rule));
        }
    }
}

/// Where a path leads, as the other checks write paths.
fn place(node: &Node, path: &str, wanted: &str) -> Option<usize> {
    for entry in node.entries() {
        let below = joined(path, &entry.key);
        if below == wanted {
            return Some(entry.key_span.start);
        }
        if let Some(found) = wanted.starts_with(&below).then(|| place(&entry.value, &below, wanted)).flatten() {
            return Some(found);
        }
    }
    let items = node.items().iter().enumerate();
    items.filter_map(|(index, item)| place(item, &format!("{path}[{index}]"), wanted)).next()
}

/// A crashing pod that is restarted in place never ends the job, unless a policy says so.
fn failure_policy(task: &Node, of_job: Option<&Node>, index: usize, raws: &mut Vec<Raw>) {
    let restarts = task.at("template.spec.restartPolicy").and_then(Node::text) == Some("OnFailure");
    let handles = |list: Option<&Node>| {
        let policies = list.map_or(&[][..], Node::items);
        policies.iter().any(|policy| {
            let events = policy.get("events").map_or(&[][..], Node::items).iter().chain(policy.get("event"));
            events.filter_map(Node::text).any(|event| matches!(event, "PodFailed" | "PodEvicted" | "*"))
        })
    };
    if restarts && !handles(task.get("policies")) && !handles(of_job) {
        let name = task.get("name").and_then(Node::text).unwrap_or("without a name");
        let message = format!(
            "task `{name}` restarts a failed pod in place and has no policy for it, so a pod that keeps crashing never ends the job"
        );
        let raw = Raw::new("G-19", Severity::Warning, task.span.start, message).path(&format!("spec.tasks[{index}]"));
        raws.push(raw.suggest("policies: [{event: PodFailed, action: RestartJob}, {event: PodEvicted, action: RestartJob}] and spec.maxRetry"));
    }
}

/// The same command starts in different folders.
fn working_dirs(tasks: &[Node], raws: &mut Vec<Raw>) {
    let containers = || tasks.iter().filter_map(|task| task.at("template.spec.containers")).flat_map(Node::items);
    if containers().all(|container| container.get("workingDir").is_some()) {
        return;
    }
    for entry in containers().filter_map(|container| container.entry("workingDir")) {
        let message =
            "only some tasks have a `workingDir`; a relative entry point is found by these and not by the others";
        raws.push(Raw::new("G-08", Severity::Note, entry.key_span.start, message).path("workingDir"));
    }
}

/// Volumes and their mounts must have each other.
fn volumes(path: &str, template: &Node, raws: &mut Vec<Raw>) {
    let spec = joined(path, "spec");
    let Some(pod) = template.get("spec") else { return };
    let named = |list: Option<&'_ Node>| -> Vec<(String, usize)> {
        let items = list.map_or(&[][..], Node::items).iter();
        items
            .filter_map(|item| item.get("name").and_then(|name| Some((name.text()?.to_owned(), name.span.start))))
            .collect()
    };
    let declared = named(pod.get("volumes"));
    let containers = ["initContainers", "containers"].into_iter().filter_map(|key| pod.get(key)).flat_map(Node::items);
    let mounts: Vec<(String, usize)> = containers.flat_map(|container| named(container.get("volumeMounts"))).collect();
    for (name, at) in declared.iter().filter(|(name, _)| !mounts.iter().any(|(other, _)| other == name)) {
        let message = format!("volume `{name}` is declared but mounted by no container");
        raws.push(Raw::new("G-24", Severity::Warning, *at, message).path(&joined(&spec, "volumes")));
    }
    for (name, at) in mounts.iter().filter(|(name, _)| !declared.iter().any(|(other, _)| other == name)) {
        let message = format!("volume `{name}` is mounted but not declared in `{spec}.volumes`");
        raws.push(Raw::new("G-24", Severity::Error, *at, message).path(&joined(&spec, "containers")));
    }
}

/// Shell variables, and results that are written where they are lost.
fn command_word(word: &Node, path: &str, raws: &mut Vec<Raw>) {
    let Some(text) = word.text() else { return };
    let mut rest = text;
    let mut shell = Vec::new();
    while let Some(at) = rest.find("${") {
        rest = &rest[at + 2..];
        let Some(end) = rest.find('}') else { break };
        let name = &rest[..end];
        let is_shell = !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '_');
        if is_shell && !shell.contains(&name) {
            shell.push(name);
        }
    }
    if !shell.is_empty() {
        let names: Vec<String> = shell.iter().map(|name| format!("`${{{name}}}`")).collect();
        let message =
            format!("{} are left for the shell; macros look the same, and `$${{` makes sure of it", names.join(", "));
        raws.push(Raw::new("G-25", Severity::Note, word.span.start, message).path(path));
    }
    let words: Vec<&str> = text.split(|letter: char| letter.is_whitespace() || letter == '=').collect();
    let keeps = |flag: &str| ["checkpoint", "output", "log", "save", "ckpt"].iter().any(|part| flag.contains(part));
    for pair in
        words.windows(2).filter(|pair| pair[0].starts_with("--") && keeps(pair[0]) && pair[1].starts_with("/tmp/"))
    {
        let message = format!("`{} {}` is inside the container and goes with it", pair[0], pair[1]);
        let raw = Raw::new("G-26", Severity::Note, word.span.start, message).path(path);
        raws.push(raw.suggest("a path on a mounted volume"));
    }
}

/// Values that somebody was meant to fill in.
pub fn placeholders(node: &Node, path: &str, raws: &mut Vec<Raw>) {
    let is_command = path.ends_with("command") || path.ends_with("args");
    if let (Some(text), false) = (node.text(), is_command)
        && let Some(found) = placeholder(text)
    {
        let message = format!("`{found}` is a placeholder that was not filled in");
        raws.push(Raw::new("G-22", Severity::Error, node.span.start, message).path(path));
    }
    for entry in node.entries() {
        let below = joined(path, &entry.key);
        let is_block = matches!(&entry.value.kind, Kind::Scalar { is_block: true, text, .. } if text.trim().is_empty());
        let is_annotation = path.ends_with("annotations") || entry.key.contains('/');
        if is_block || (entry.value.is_empty() && is_annotation) {
            let message = format!("`{}` has no value", entry.key);
            raws.push(Raw::new("G-22", Severity::Warning, entry.key_span.start, message).path(&below));
        }
        placeholders(&entry.value, &below, raws);
    }
    node.items().iter().enumerate().for_each(|(index, item)| placeholders(item, &format!("{path}[{index}]"), raws));
}

/// Something in angle brackets, or a reminder to write it.
fn placeholder(text: &str) -> Option<&str> {
    let reminder = text.find("TODO").map(|at| &text[at..at + 4]);
    let open = text.find('<')?;
    let inside = text[open + 1..].split('>').next().filter(|_| text[open..].contains('>'))?;
    let is_word =
        inside.starts_with(|letter: char| letter.is_alphabetic()) && !inside.ends_with(' ') && !inside.contains('<');
    if is_word { Some(&text[open..open + inside.len() + 2]) } else { reminder }
}

/// A label whose value is whatever a project or a person is called.
fn labels(node: &Node, path: &str, raws: &mut Vec<Raw>) {
    for entry in node.entries() {
        let below = joined(path, &entry.key);
        if entry.key == "labels" {
            for label in entry.value.entries() {
                let text = label.value.text().unwrap_or_default();
                let free = FREE_TEXT.iter().find(|name| text.contains(&format!("${{{name}}}")));
                if let Some(name) = free {
                    let message = format!("`${{{name}}}` may hold what no label may");
                    let raw = Raw::new("G-17", Severity::Warning, label.value.span.start, message)
                        .path(&joined(&below, &label.key));
                    raws.push(raw.suggest(format!("${{{name}|label}}")));
                }
            }
        }
        labels(&entry.value, &below, raws);
    }
    node.items().iter().enumerate().for_each(|(index, item)| labels(item, &format!("{path}[{index}]"), raws));
}
