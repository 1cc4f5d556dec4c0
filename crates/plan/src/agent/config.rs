//! A launch agent's settings: `launch-config.yaml` as W&B's agent reads it, with our own keys beside.
//!
//! The file is read once, and all that is wrong with it is told at once, each with its line and column. Defaults yield to
//! the file, the file to the environment, the environment to the command line.

use super::capacity::Limit;
use crate::check::source::Lines;
use crate::check::tree::{self, Node};
use crate::check::words;
use crate::launch::demand::Amounts;
use crate::launch::safety::Policy;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use volley_api::kube::quantity::{Quantity, canonical_value};
use volley_api::kube::schema::{Shape, json as schema};

/// Something that is wrong with the file, or odd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub column: usize,
    /// The same place as a byte of the text.
    pub at: usize,
    pub path: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: `{}` {}", self.line, self.column, self.path, self.message)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    pub entity: Option<String>,
    pub queues: Vec<String>,
    pub max_jobs: Limit,
    pub max_schedulers: Limit,
    pub is_secure: bool,
    pub verbosity: u32,
    /// How long a stopped run may end by itself.
    pub stop_grace: SignedDuration,
    /// How long a workload may take to start; none means for ever.
    pub start_timeout: Option<SignedDuration>,
    pub base_url: Option<String>,
    pub builder: Builder,
    /// The cloud, for what needs it.
    pub cloud: Option<Cloud>,
    pub registry_uri: Option<String>,
    pub namespace: Option<String>,
    pub policy: Policy,
    pub submitter_policy: Policy,
    /// The agent's variables that macros may tell.
    pub macro_environment: Vec<String>,
    pub volume_prefixes: Vec<String>,
    pub allows_processes: bool,
    /// What the agent may use of the cluster, where that is less than all.
    pub capacity: Amounts,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cloud {
    pub kind: String,
    pub region: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Builder {
    pub kind: Option<String>,
    pub destination: Option<String>,
    pub platform: Option<String>,
    pub context_store: Option<String>,
    /// Everything else that the section has, for the builder that understands it.
    pub rest: BTreeMap<String, Value>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            entity: None,
            queues: Vec::new(),
            max_jobs: Limit::AtMost(1),
            max_schedulers: Limit::AtMost(1),
            is_secure: false,
            verbosity: 0,
            stop_grace: SignedDuration::from_secs(60),
            start_timeout: Some(SignedDuration::from_mins(30)),
            base_url: None,
            builder: Builder::default(),
            cloud: None,
            registry_uri: None,
            namespace: None,
            policy: Policy::Baseline,
            submitter_policy: Policy::Restricted,
            macro_environment: Vec::new(),
            volume_prefixes: Vec::new(),
            allows_processes: false,
            capacity: Amounts::new(),
        }
    }
}

/// The file as a schema, for the checker; the keys of the sections are those that anybody has documented.
pub fn shape() -> Shape {
    let (text, number, flag) =
        (json!({"type": "string"}), json!({"x-kubernetes-int-or-string": true}), json!({"type": "boolean"}));
    let texts = json!({"type": "array", "items": text});
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    schema::shape(&object(json!({
        "entity": text, "project": text, "queue": text, "queues": texts, "base_url": text,
        "max_jobs": number, "max_schedulers": number, "secure_mode": flag, "verbosity": number,
        "stopped_run_timeout": number, "start_timeout": number, "namespace": text, "policy": text, "submitter_policy": text,
        "environment": object(json!({"type": text, "region": text, "project": text})),
        "registry": object(json!({"type": text, "uri": text, "url": text, "account_id": text, "region": text, "repo_name": text,
            "repository": text, "image-name": text, "project": text})),
        "builder": object(json!({"type": text, "destination": text, "platform": text, "build-context-store": text,
            "build-job-name": text, "secret-name": text, "secret-key": text, "kaniko-image": text,
            "base_image": text, "kaniko-config": {"x-kubernetes-preserve-unknown-fields": true, "type": "object"}})),
        "runner": object(json!({"type": text})),
        "runners": object(json!({"local-process": flag})),
        "macros": object(json!({"env": texts})),
        "volumes": texts,
        "capacity": {"type": "object", "additionalProperties": number},
    })))
}

/// The values of W&B's Helm chart.
pub fn chart_shape() -> Shape {
    let (text, any) =
        (json!({"type": "string"}), json!({"x-kubernetes-preserve-unknown-fields": true, "type": "object"}));
    let list = json!({"type": "array", "items": any});
    schema::shape(&json!({"type": "object", "properties": {
        "agent": {"type": "object", "properties": {
            "labels": any, "podAnnotations": any, "apiKey": text, "useExternalWandbSecret": {"type": "boolean"},
            "image": text, "imagePullPolicy": text, "resources": any, "nodeSelector": any, "tolerations": list,
            "affinity": any, "startTimeout": {"type": "integer"}, "minAvailable": {"type": "integer"}}},
        "namespace": text, "baseUrl": text, "additionalTargetNamespaces": {"type": "array", "items": text},
        "launchConfig": text, "additionalEnvVars": any, "additionalSecretEnvVars": any, "gitCreds": text,
        "sshAuthSecrets": list, "serviceAccount": {"type": "object", "properties": {"annotations": any}},
        "azureStorageAccessKey": text, "customCABundle": any, "kanikoPvcName": text, "kanikoDockerConfigSecret": text,
        "volcano": {"type": "boolean"}}}))
}

/// A read file: its settings and what is odd about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    pub config: Config,
    pub warnings: Vec<Problem>,
}

/// Reads the file; an empty one says nothing.
pub fn read(text: &str) -> Result<Read, Vec<Problem>> {
    let mut reader = Reader::new(text);
    let mut config = Config::default();
    match tree::parse(text).into_iter().next() {
        None => (),
        Some(Err(problem)) => reader.at(problem.at, "", problem.message),
        Some(Ok(root)) if root.is_empty() => (),
        Some(Ok(root)) if !root.is_map() => reader.at(root.span.start, "", "is not a mapping of settings".to_owned()),
        Some(Ok(root)) => reader.settings(&root, &mut config),
    }
    match reader.problems.is_empty() {
        true => Ok(Read { config, warnings: reader.warnings }),
        false => Err(reader.problems),
    }
}

/// What is wrong with settings that are parsed already, and what is odd about them.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

/// The reader's opinion, for the checker.
pub fn judge(text: &str, root: &Node) -> Judged {
    let mut reader = Reader::new(text);
    reader.settings(root, &mut Config::default());
    Judged { problems: reader.problems, warnings: reader.warnings }
}

struct Reader<'a> {
    lines: Lines<'a>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Reader<'a> {
        Reader { lines: Lines::new(text), problems: Vec::new(), warnings: Vec::new() }
    }

    fn problem(&self, at: usize, path: &str, message: String) -> Problem {
        let (line, column) = self.lines.place(at);
        Problem { line, column, at, path: path.to_owned(), message }
    }

    fn at(&mut self, at: usize, path: &str, message: String) {
        let problem = self.problem(at, path, message);
        self.problems.push(problem);
    }

    fn settings(&mut self, root: &Node, config: &mut Config) {
        let mut seen: Vec<&str> = Vec::new();
        for entry in root.entries() {
            if seen.contains(&entry.key.as_str()) {
                self.at(entry.key_span.start, &entry.key, "stands there twice".to_owned());
            }
            seen.push(&entry.key);
            self.setting(&entry.key, entry.key_span.start, &entry.value, config);
        }
        // A queue named by itself is one more.
        config.queues.dedup();
    }

    fn setting(&mut self, key: &str, at: usize, node: &Node, config: &mut Config) {
        match key {
            "entity" => config.entity = self.text(key, node),
            "base_url" => config.base_url = self.text(key, node),
            "namespace" => config.namespace = self.text(key, node),
            "queue" => config.queues.extend(self.text(key, node)),
            "queues" => config.queues.splice(0..0, self.texts(key, node)).for_each(drop),
            "max_jobs" => config.max_jobs = self.limit(key, node).unwrap_or(config.max_jobs),
            "max_schedulers" => config.max_schedulers = self.limit(key, node).unwrap_or(config.max_schedulers),
            "secure_mode" => config.is_secure = self.flag(key, node),
            "verbosity" => {
                config.verbosity = self.number(key, node).and_then(|number| number.try_into().ok()).unwrap_or(0)
            }
            "stopped_run_timeout" => {
                let seconds = self.number(key, node).unwrap_or(60);
                config.stop_grace = SignedDuration::from_secs(seconds.max(0));
            }
            "start_timeout" => {
                let seconds = self.number(key, node).unwrap_or(1800);
                config.start_timeout = (seconds > 0).then(|| SignedDuration::from_secs(seconds));
            }
            "policy" => config.policy = self.policy(key, node).unwrap_or(config.policy),
            "submitter_policy" => config.submitter_policy = self.policy(key, node).unwrap_or(config.submitter_policy),
            "environment" => config.cloud = self.cloud(node),
            "registry" => config.registry_uri = self.registry(node),
            "builder" => config.builder = self.builder(node),
            "macros" => {
                self.section(key, node, &["env"]);
                config.macro_environment = node.get("env").map_or(Vec::new(), |list| self.texts("macros.env", list));
            }
            "runners" => {
                self.section(key, node, &["local-process", "kubernetes", "local-container"]);
                config.allows_processes =
                    node.get("local-process").is_some_and(|flag| self.flag("runners.local-process", flag));
            }
            "volumes" => config.volume_prefixes = self.texts(key, node),
            "capacity" => config.capacity = self.amounts(node),
            // Read by older agents; our runs' project is in their items, and our runner is the queue's.
            "project" | "runner" => {
                let told = self.problem(at, key, "is accepted and has no effect".to_owned());
                self.warnings.push(told);
            }
            _ => self.unknown(key, at),
        }
    }

    fn unknown(&mut self, key: &str, at: usize) {
        let known = crate::check::schema::keys(&shape());
        let near = words::nearest(key, known.iter().map(String::as_str));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        self.at(at, key, format!("is no setting of a launch agent{hint}"));
    }

    /// Unknown keys of a section are told and left alone, as W&B's agent does.
    fn section(&mut self, name: &str, node: &Node, known: &[&str]) {
        for entry in node.entries().iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let near = words::nearest(&entry.key, known.iter().copied());
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let path = format!("{name}.{}", entry.key);
            let told = self.problem(entry.key_span.start, &path, format!("is unknown and has no effect{hint}"));
            self.warnings.push(told);
        }
    }

    fn text(&mut self, path: &str, node: &Node) -> Option<String> {
        let text = node.text().filter(|_| !node.is_empty());
        if text.is_none() && !node.is_empty() {
            self.at(node.span.start, path, format!("must be a text, but is {}", node.value()));
        }
        text.map(str::to_owned)
    }

    fn texts(&mut self, path: &str, node: &Node) -> Vec<String> {
        if node.is_map() || node.text().is_some_and(|_| !node.is_empty()) {
            self.at(node.span.start, path, format!("must be a list, but is {}", node.value()));
        }
        node.items().iter().filter_map(|item| self.text(path, item)).collect()
    }

    fn flag(&mut self, path: &str, node: &Node) -> bool {
        node.value().as_bool().unwrap_or_else(|| {
            self.at(node.span.start, path, format!("must be true or false, but is {}", node.value()));
            false
        })
    }

    fn number(&mut self, path: &str, node: &Node) -> Option<i64> {
        let number = node.text().and_then(|text| text.trim().parse().ok());
        if number.is_none() {
            self.at(node.span.start, path, format!("must be a whole number, but is {}", node.value()));
        }
        number
    }

    fn limit(&mut self, path: &str, node: &Node) -> Option<Limit> {
        match self.number(path, node)? {
            -1 => Some(Limit::Unlimited),
            number => {
                let limit = u32::try_from(number).ok().map(Limit::AtMost);
                if limit.is_none() {
                    self.at(node.span.start, path, format!("must be -1 (unlimited), 0 or more, but is {number}"));
                }
                limit
            }
        }
    }

    fn policy(&mut self, path: &str, node: &Node) -> Option<Policy> {
        let policy = Policy::named(node.text().unwrap_or_default());
        if policy.is_none() {
            self.at(
                node.span.start,
                path,
                format!("must be restricted, baseline or privileged, but is {}", node.value()),
            );
        }
        policy
    }

    fn choice(&mut self, path: &str, node: Option<&Node>, known: &[&str]) -> Option<String> {
        let node = node?;
        let text = self.text(path, node)?;
        if !known.contains(&text.as_str()) {
            self.at(node.span.start, path, format!("must be one of {}, but is `{text}`", known.join(", ")));
        }
        Some(text)
    }

    fn cloud(&mut self, node: &Node) -> Option<Cloud> {
        self.section("environment", node, &["type", "region", "project"]);
        let kind = self.choice("environment.type", node.get("type"), &["aws", "gcp", "azure", "local"])?;
        let region = node.get("region").and_then(|region| self.text("environment.region", region));
        if matches!(kind.as_str(), "aws" | "gcp") && region.is_none() {
            self.at(node.span.start, "environment.region", format!("is needed for {kind}"));
        }
        (kind != "local").then_some(Cloud { kind, region })
    }

    fn registry(&mut self, node: &Node) -> Option<String> {
        let known = ["type", "uri", "url", "account_id", "region", "repo_name", "repository", "image-name", "project"];
        self.section("registry", node, &known);
        self.choice("registry.type", node.get("type"), &["ecr", "acr", "gcr", "local"]);
        let uri = node.get("uri").or_else(|| node.get("url"))?;
        self.destination("registry.uri", uri)
    }

    fn builder(&mut self, node: &Node) -> Builder {
        let known = [
            "type", "destination", "platform", "build-context-store", "build-job-name", "secret-name", "secret-key",
            "kaniko-image", "kaniko-config", "base_image",
        ];
        self.section("builder", node, &known);
        let kind = self.choice("builder.type", node.get("type"), &["docker", "kaniko", "noop", "buildkit"]);
        let platform = self.choice("builder.platform", node.get("platform"), &["linux/amd64", "linux/arm64"]);
        let destination = node.get("destination").and_then(|node| self.destination("builder.destination", node));
        let context_store = node.get("build-context-store").and_then(|node| self.store(node));
        if node.get("secret-name").is_some() != node.get("secret-key").is_some() {
            let message = "needs both `secret-name` and `secret-key`, or neither".to_owned();
            self.at(node.span.start, "builder", message);
        }
        let is_rest = |key: &str| !matches!(key, "type" | "destination" | "platform" | "build-context-store");
        let rest = node.entries().iter().filter(|entry| is_rest(&entry.key));
        let rest = rest.map(|entry| (entry.key.clone(), entry.value.value())).collect();
        Builder { kind, destination, platform, context_store, rest }
    }

    /// An image repository without a tag: the agent makes the tags.
    fn destination(&mut self, path: &str, node: &Node) -> Option<String> {
        let text = self.text(path, node)?;
        let uri = text.trim_start_matches("https://").trim_end_matches('/').to_owned();
        let last = uri.rsplit('/').next().unwrap_or_default();
        let is_known = uri.contains(".dkr.ecr.") || uri.contains("-docker.pkg.dev") || uri.contains(".azurecr.io");
        if uri.contains('/') && last.contains(':') {
            self.at(node.span.start, path, format!("must not have a tag, but is `{text}`"));
        } else if is_known && !uri.contains('/') {
            self.at(node.span.start, path, format!("must name a repository, but is `{text}`"));
        } else if !is_known {
            let told = self.problem(
                node.span.start,
                path,
                "is a registry that is not known here; that images can be pushed there is up to you".to_owned(),
            );
            self.warnings.push(told);
        }
        Some(uri)
    }

    fn store(&mut self, node: &Node) -> Option<String> {
        let text = self.text("builder.build-context-store", node)?;
        let is_azure = text.starts_with("https://") && text.contains(".blob.core.windows.net/");
        if !text.starts_with("s3://") && !text.starts_with("gs://") && !is_azure {
            let message = format!("must be `s3://…`, `gs://…` or an Azure blob URL, but is `{text}`");
            self.at(node.span.start, "builder.build-context-store", message);
        }
        Some(text)
    }

    fn amounts(&mut self, node: &Node) -> Amounts {
        let mut amounts = Amounts::new();
        for entry in node.entries() {
            match canonical_value(&entry.value.value()).and_then(|text| Quantity::parse(&text)) {
                Ok(amount) => drop(amounts.insert(entry.key.clone(), amount)),
                Err(why) => self.at(
                    entry.value.span.start,
                    &format!("capacity.{}", entry.key),
                    format!("is no quantity: {why}"),
                ),
            }
        }
        amounts
    }
}

/// What the command line says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    pub entity: Option<String>,
    pub max_jobs: Option<i64>,
    pub queues: Vec<String>,
    pub verbosity: Option<u32>,
}

/// File, environment and command line together; later ones win.
pub fn settle(mut config: Config, environment: &BTreeMap<String, String>, flags: &Flags) -> Result<Config, String> {
    let limit = |source: &str, number: i64| match number {
        -1 => Ok(Limit::Unlimited),
        number => u32::try_from(number)
            .map(Limit::AtMost)
            .map_err(|_| format!("{source} must be -1, 0 or more, but is {number}")),
    };
    let whole = |name: &str| -> Result<Option<i64>, String> {
        let text = environment.get(name).filter(|text| !text.is_empty());
        text.map(|text| text.parse().map_err(|_| format!("{name} must be a whole number, but is `{text}`"))).transpose()
    };
    config.entity = environment.get("WANDB_ENTITY").cloned().or(config.entity);
    config.base_url = environment.get("WANDB_BASE_URL").cloned().or(config.base_url);
    if let Some(number) = whole("WANDB_LAUNCH_MAX_JOBS")? {
        config.max_jobs = limit("WANDB_LAUNCH_MAX_JOBS", number)?;
    }
    if let Some(seconds) = whole("WANDB_LAUNCH_START_TIMEOUT")? {
        config.start_timeout = (seconds > 0).then(|| SignedDuration::from_secs(seconds));
    }
    config.entity = flags.entity.clone().or(config.entity);
    if let Some(number) = flags.max_jobs {
        config.max_jobs = limit("--max-jobs", number)?;
    }
    if !flags.queues.is_empty() {
        config.queues.clone_from(&flags.queues);
    }
    config.verbosity = flags.verbosity.unwrap_or(config.verbosity);
    match config.queues.is_empty() {
        true => Err("no queue is named; hint: give `--queue NAME`, or `queues:` in launch-config.yaml".to_owned()),
        false => Ok(config),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
