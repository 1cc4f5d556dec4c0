//! What is known of an item when it is rendered: its run spec (section 3 of the specification), the job that it names,
//! the image that will run, and the station: the agent that will run it and what it allows.

use super::safety::Policy;
use super::{Refusal, fields};
use crate::queue::template;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Runs of a launch that names no project are kept there, as W&B's clients do it.
pub const PROJECT_DEFAULT: &str = "uncategorized";

/// One attempt of one item.
#[derive(Debug, Clone, PartialEq)]
pub struct Order {
    pub item: String,
    /// Stands for the item in names and labels; no two servers have one in common.
    pub key: String,
    /// Counted from 1; later ones follow a preemption.
    pub attempt: u32,
    pub queue: String,
    pub queue_entity: String,
    pub priority: i64,
    pub run_id: String,
    pub spec: RunSpec,
    /// The resource's part of `resource_args`, template values in place.
    pub config: Value,
    /// The same part as the queue's admin wrote it, with the item's template values in place; it tells whose each field
    /// is. Without it everything counts as the submitter's.
    pub queue_config: Option<Value>,
    /// The queue's config with its `{{tokens}}` still in it, and what the submitter chose for them.
    pub template: Option<Template>,
    pub image: Option<String>,
    /// `image` is the job's own, not a base image with the code beside it.
    pub is_image_job: bool,
    pub job: Option<Job>,
    pub code: Option<Code>,
}

/// A config and the values of its template variables.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    pub raw: Value,
    pub values: BTreeMap<String, Value>,
}

/// The job that a spec names, as far as running it needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Job {
    /// `entity/project/name:version`.
    pub reference: String,
    pub name: String,
    pub version: String,
    pub entry_point: Vec<String>,
}

/// Code that is brought into the container instead of being built into an image (K-40).
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    pub source: CodeSource,
    /// Nobody chose the base image, so what the code requires is installed before it starts (K-43).
    pub is_default_base: bool,
    /// A volume that has the code already: claim and folder in it (K-41).
    pub claim: Option<(String, String)>,
    pub fetcher: Fetcher,
}

/// What brings code into a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fetcher {
    pub image: String,
    /// Where our own program is in that image; without it the image has git and W&B's client.
    pub program: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CodeSource {
    /// `reference` is `entity/project/name:version`, where somebody has looked it up.
    Artifact {
        id: String,
        reference: Option<String>,
    },
    Repository {
        remote: String,
        commit: String,
    },
    Other(String),
}

/// The agent, as far as what it submits depends on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    pub agent: String,
    pub base_url: String,
    /// The namespace of work that names none.
    pub namespace: Option<String>,
    /// What a queue's admin may ask for.
    pub policy: Policy,
    /// What a submitter may ask for beyond the queue's config.
    pub submitter_policy: Policy,
    pub is_secure: bool,
    /// The agent's variables that macros may read, by name, and which names those are.
    pub environment: BTreeMap<String, String>,
    pub environment_allowed: Vec<String>,
    /// A pull secret is made from the registry's credentials.
    pub has_registry_credentials: bool,
    /// Host folders below which an admin's Docker queue may mount volumes.
    pub volume_prefixes: Vec<String>,
    pub allows_processes: bool,
}

impl Default for Station {
    fn default() -> Station {
        Station {
            agent: String::new(),
            base_url: String::new(),
            namespace: None,
            policy: Policy::Baseline,
            submitter_policy: Policy::Restricted,
            is_secure: false,
            environment: BTreeMap::new(),
            environment_allowed: Vec::new(),
            has_registry_credentials: false,
            volume_prefixes: Vec::new(),
            allows_processes: false,
        }
    }
}

/// What an item says beside its run spec.
#[derive(Debug, Clone)]
pub struct Ticket<'a> {
    pub item: &'a str,
    pub key: String,
    pub attempt: u32,
    pub queue: &'a str,
    pub queue_entity: &'a str,
    pub priority: i64,
    pub run_id: String,
    pub template: Option<Template>,
}

impl Order {
    /// The order for a spec that was read from `written`; a job is added by `add_job`.
    pub fn new(ticket: Ticket<'_>, spec: RunSpec, written: &Value) -> Order {
        let Ticket { item, key, attempt, queue, queue_entity, priority, run_id, template } = ticket;
        Order {
            item: item.to_owned(),
            key,
            attempt,
            queue: queue.to_owned(),
            queue_entity: queue_entity.to_owned(),
            priority,
            run_id,
            config: config_of(written, &spec.resource),
            queue_config: template.as_ref().map(|own| template::render(&own.raw, &own.values)),
            template,
            image: spec.image.clone(),
            is_image_job: spec.image.is_some(),
            job: None,
            code: None,
            spec,
        }
    }
}

/// A run spec, read once. Fields that rendering does not need stay in the item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunSpec {
    pub entity: String,
    /// Lower-cased, as W&B's agent does it.
    pub project: String,
    pub job: Option<String>,
    pub image: Option<String>,
    pub resource: String,
    pub overrides: Overrides,
    pub name: Option<String>,
    pub run_id: Option<String>,
    pub author: Option<String>,
    pub sweep: Option<String>,
    pub services: Vec<Service>,
    /// How often it was preempted before it came here; W&B's own counter.
    pub resumes: u32,
    /// Whoever a built image runs as.
    pub user: Option<u64>,
    /// The spec brought its own credential, which then stands for its author.
    pub has_api_key: bool,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    pub args: Vec<String>,
    pub entry_point: Vec<String>,
    pub run_config: Map<String, Value>,
    pub files: Map<String, Value>,
    pub artifacts: Map<String, Value>,
    pub working_dir: Option<String>,
    /// A file of the source to build the image by.
    pub dockerfile: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    pub name: String,
    pub config: Value,
}

impl RunSpec {
    pub fn read(spec: &Value) -> Result<RunSpec, Vec<Refusal>> {
        let mut problems = spec.as_object().map(fields::wrong).unwrap_or_default();
        let text = |key: &str| spec.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
        let overrides = spec.get("overrides").unwrap_or(&Value::Null);
        let image = spec.pointer("/docker/docker_image").and_then(Value::as_str).filter(|text| !text.is_empty());
        let read = RunSpec {
            entity: text("entity").unwrap_or_default(),
            project: text("project").unwrap_or_default().to_lowercase(),
            job: text("job"),
            image: image.map(str::to_owned).or_else(|| text("image_uri")),
            resource: text("resource").unwrap_or_default(),
            overrides: Overrides {
                args: words(overrides, "args"),
                entry_point: words(overrides, "entry_point"),
                run_config: object(overrides, "run_config"),
                files: object(overrides, "files"),
                artifacts: object(overrides, "artifacts"),
                working_dir: overrides.get("working_dir").and_then(Value::as_str).map(str::to_owned),
                dockerfile: overrides.get("dockerfile").and_then(Value::as_str).map(str::to_owned),
            },
            name: text("name"),
            run_id: text("run_id"),
            author: text("author"),
            sweep: text("sweep_id"),
            services: services(spec),
            resumes: spec.get("_resume_count").and_then(Value::as_u64).unwrap_or(0).try_into().unwrap_or(u32::MAX),
            user: spec.pointer("/docker/user_id").and_then(Value::as_u64),
            has_api_key: text("_wandb_api_key").is_some(),
        };
        problems.extend(source_problem(&read, text("uri").is_some()));
        if problems.is_empty() { Ok(read) } else { Err(problems) }
    }
}

/// Exactly one of job and image says what runs; sweep schedulers have a placeholder in `uri` instead, and a process of the
/// agent's machine may be a command alone.
fn source_problem(spec: &RunSpec, has_uri: bool) -> Option<Refusal> {
    let hint = "launch with either `--job` or `--docker-image`";
    let is_command = spec.resource == "local-process" && !spec.overrides.entry_point.is_empty();
    match (&spec.job, &spec.image) {
        (Some(_), Some(_)) => Some(Refusal::new("R-1", "job", "both a job and an image are given", hint)),
        (None, None) if !has_uri && !is_command => {
            Some(Refusal::new("R-1", "job", "neither a job nor an image is given", hint))
        }
        _ => None,
    }
}

fn words(overrides: &Value, key: &str) -> Vec<String> {
    let word = |item: &Value| match item {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    overrides.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(word).collect()
}

fn object(value: &Value, key: &str) -> Map<String, Value> {
    value.get(key).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn services(spec: &Value) -> Vec<Service> {
    let given = spec.get("additional_services").and_then(Value::as_array).into_iter().flatten();
    let service = |entry: &Value| {
        let name = entry.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Service { name, config: entry.get("config").filter(|config| config.is_object())?.clone() })
    };
    given.filter_map(service).collect()
}

/// The part of `resource_args` that is for this resource, with what W&B has called it over the years.
pub fn config_of(spec: &Value, resource: &str) -> Value {
    let names: &[&str] = match resource {
        "" | "local" | "local-container" => &["local-container", "docker", "local"],
        other => &[other],
    };
    let args = spec.get("resource_args");
    let found = names.iter().find_map(|name| args.and_then(|args| args.get(*name)));
    found.filter(|config| config.is_object()).cloned().unwrap_or_else(|| Value::Object(Map::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    //
    #[test]
    fn a_spec_is_read_once_and_all_problems_are_told() {
        let spec = json!({
            "entity": "team", "project": "Proj_1", "docker": {"docker_image": "repo/img:v1"}, "resource": "kubernetes",
            "overrides": {"args": ["--a", 1], "run_config": {"lr": 0.1}}, "_resume_count": 2, "_wandb_api_key": "k",
        });
        let read = RunSpec::read(&spec).unwrap();
        assert_eq!((read.project.as_str(), read.image.as_deref()), ("proj_1", Some("repo/img:v1")));
        assert_eq!(read.overrides.args, ["--a", "1"]);
        assert_eq!((read.resumes, read.has_api_key), (2, true));
        let wrong = json!({"job": "a/b/c:v0", "image_uri": "x", "overrides": {"args": "--a", "entry_point": [[]]}});
        let rules: Vec<_> = RunSpec::read(&wrong).unwrap_err().iter().map(|refusal| refusal.rule).collect();
        assert_eq!(rules, ["R-2", "R-2", "R-1"]);
        assert_eq!(RunSpec::read(&json!({})).unwrap_err().len(), 1);
        assert!(RunSpec::read(&json!({"uri": "placeholder"})).is_ok());
        assert!(RunSpec::read(&json!({"resource": "local-process", "overrides": {"entry_point": ["true"]}})).is_ok());
        assert!(RunSpec::read(&json!({"resource": "kubernetes", "overrides": {"entry_point": ["true"]}})).is_err());
    }

    #[test]
    fn the_config_of_a_resource_has_had_several_names() {
        let spec = json!({"resource_args": {"docker": {"gpus": 1}, "kubernetes": {"kind": "Job"}}});
        assert_eq!(config_of(&spec, "local-container"), json!({"gpus": 1}));
        assert_eq!(config_of(&spec, "kubernetes"), json!({"kind": "Job"}));
        assert_eq!(config_of(&json!({"resource_args": {"kubernetes": 3}}), "kubernetes"), json!({}));
    }
}
