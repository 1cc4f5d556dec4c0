//! What becomes of a submitted run spec: the queue's part is filled in, so that an agent gets something complete.
//!
//! Both ways to push use `resolve`, because W&B's client tries the second when the first was refused.

use super::template::{self, Problem, Variable};
use crate::launch::{self, fields};
use serde_json::{Map, Value};

/// Whether a launch is a sweep's scheduler, as W&B's client words one (A-16).
pub fn is_scheduler(spec: &Value) -> bool {
    spec["uri"].as_str().is_some_and(|uri| uri.contains("placeholder-uri-scheduler"))
}

/// What a queue brings.
#[derive(Clone, Debug, Default)]
pub struct Template {
    pub resource: Option<String>,
    /// `{"resource_args": {"<resource>": {…}}}`.
    pub config: Value,
    pub variables: Vec<Variable>,
    pub has_priorities: bool,
}

/// What somebody pushes.
#[derive(Clone, Debug)]
pub struct Push<'a> {
    /// JSON text of an object.
    pub spec: &'a str,
    /// JSON text of an object, or nothing.
    pub values: Option<&'a str>,
    pub priority: Option<i64>,
    pub author: &'a str,
    /// Whether the submitter manages the queue, and may therefore replace what its template fixes.
    pub may_override: bool,
    /// The item whose process was preempted and for which this one goes on.
    pub prior: Option<Prior>,
}

/// What an item that goes on for another takes over from it, whatever its own spec says.
#[derive(Clone, Debug)]
pub struct Prior {
    pub spec: Value,
    pub values: Value,
    pub priority: i64,
    /// Which attempt it was, counted from 0.
    pub attempt: i64,
    pub has_own_args: bool,
}

/// The run that a spec goes on with after its process was preempted; an agent counts how often that was.
pub fn resumed_run(spec: &str) -> Option<String> {
    let spec: Value = serde_json::from_str(spec).ok()?;
    spec.get("_resume_count").and_then(Value::as_i64).filter(|count| *count > 0)?;
    spec.get("run_id").and_then(Value::as_str).map(str::to_owned)
}

#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub spec: Value,
    pub values: Value,
    pub priority: i64,
    /// What items are taken by; the same for all where the queue has no priorities.
    pub rank: i64,
    pub attempt: i64,
    /// The resource arguments were pushed, and are not the queue's.
    pub has_own_args: bool,
}

/// Critical, high, medium, low.
const PRIORITIES: std::ops::RangeInclusive<i64> = 0..=3;
pub const PRIORITY_DEFAULT: i64 = 2;

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Refusal {
    #[error("the run spec is not a JSON object: {0}")]
    Spec(String),
    #[error("the template variable values are not a JSON object: {0}")]
    Values(String),
    #[error(
        "the queue has no resource configuration and the run spec names no resource; hint: give the queue a config, or launch with --resource"
    )]
    Resource,
    #[error(
        "this queue has template variables, so `resource_args` cannot be given; hint: set the variables, or ask who manages the queue"
    )]
    Override,
    #[error("priority {0} is not one of 0 (critical), 1 (high), 2 (medium) and 3 (low)")]
    Priority(i64),
    #[error("this queue has no priorities; hint: leave the priority out, or enable prioritization on the queue")]
    NoPriorities,
    #[error("{}", sentences(.0))]
    Fields(Vec<launch::Refusal>),
    #[error("{}", sentences(.0))]
    Template(Vec<Problem>),
}

impl Refusal {
    /// Each thing that stands against it, in a sentence of its own.
    pub fn all(&self) -> Vec<String> {
        match self {
            Refusal::Fields(problems) => problems.iter().map(ToString::to_string).collect(),
            Refusal::Template(problems) => problems.iter().map(ToString::to_string).collect(),
            Refusal::Spec(_)
            | Refusal::Values(_)
            | Refusal::Resource
            | Refusal::Override
            | Refusal::Priority(_)
            | Refusal::NoPriorities => vec![self.to_string()],
        }
    }
}

fn sentences(problems: &[impl ToString]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

pub fn resolve(template: &Template, push: &Push<'_>) -> Result<Resolved, Refusal> {
    let mut spec: Map<String, Value> =
        serde_json::from_str(push.spec).map_err(|error| Refusal::Spec(error.to_string()))?;
    if let Some(prior) = &push.prior {
        return Ok(resumed(template, push, prior, spec));
    }
    let wrong = fields::wrong(&spec);
    if !wrong.is_empty() {
        return Err(Refusal::Fields(wrong));
    }
    let priority = priority(template, push.priority)?;
    let given = given(push.values)?;
    let values = template::values(&template.variables, &given).map_err(Refusal::Template)?;

    let resource = match spec.get("resource").and_then(Value::as_str).filter(|name| !name.is_empty()) {
        Some(own) => own.to_owned(),
        None => template.resource.clone().ok_or(Refusal::Resource)?,
    };
    spec.insert("resource".to_owned(), Value::from(resource));

    let has_own_args = spec.get("resource_args").and_then(Value::as_object).is_some_and(|args| !args.is_empty());
    if has_own_args && !template.variables.is_empty() && !push.may_override {
        return Err(Refusal::Override);
    }
    if !has_own_args {
        let args = template.config.get("resource_args").cloned().unwrap_or_else(|| Value::Object(Map::new()));
        spec.insert("resource_args".to_owned(), template::render(&args, &values));
    }
    let has_author = spec.get("author").and_then(Value::as_str).is_some_and(|author| !author.is_empty());
    if !has_author {
        spec.insert("author".to_owned(), Value::from(push.author));
    }
    let rank = rank(template, priority);
    let values = Value::from_iter(values);
    Ok(Resolved { spec: Value::Object(spec), values, priority, rank, attempt: 0, has_own_args })
}

/// The same work once more: as it was resolved before, and without a key that may have been in the spec.
fn resumed(template: &Template, push: &Push<'_>, prior: &Prior, mut spec: Map<String, Value>) -> Resolved {
    spec.remove("_wandb_api_key");
    for kept in ["resource", "resource_args", "author"] {
        if let Some(value) = prior.spec.get(kept) {
            spec.insert(kept.to_owned(), value.clone());
        }
    }
    let asked = push.priority.filter(|priority| template.has_priorities && PRIORITIES.contains(priority));
    let priority = asked.unwrap_or(prior.priority);
    Resolved {
        spec: Value::Object(spec),
        values: prior.values.clone(),
        priority,
        rank: rank(template, priority),
        attempt: prior.attempt + 1,
        has_own_args: prior.has_own_args,
    }
}

fn rank(template: &Template, priority: i64) -> i64 {
    if template.has_priorities { priority } else { PRIORITY_DEFAULT }
}

fn priority(template: &Template, given: Option<i64>) -> Result<i64, Refusal> {
    match given.unwrap_or(PRIORITY_DEFAULT) {
        other if !PRIORITIES.contains(&other) => Err(Refusal::Priority(other)),
        other if other != PRIORITY_DEFAULT && !template.has_priorities => Err(Refusal::NoPriorities),
        priority => Ok(priority),
    }
}

fn given(text: Option<&str>) -> Result<Map<String, Value>, Refusal> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(Map::new());
    };
    let values: Option<Map<String, Value>> =
        serde_json::from_str(text).map_err(|error| Refusal::Values(error.to_string()))?;
    Ok(values.unwrap_or_default())
}

/// A spec without what the queue filled in: its resource arguments, unless they are its own.
pub fn pushed(mut spec: Value, has_own_args: bool) -> Value {
    if let (Some(fields), false) = (spec.as_object_mut(), has_own_args) {
        fields.remove("resource_args");
    }
    spec
}

/// A spec as it is shown to people: whatever secret it carries is masked.
pub fn shown(mut spec: Value) -> Value {
    if let Some(key) = spec.get_mut("_wandb_api_key") {
        *key = Value::from("<redacted>");
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SPEC: &str =
        r#"{"entity":"alice","project":"p","docker":{"docker_image":"img:1"},"resource":null,"odd":{"kept":1}}"#;

    fn queue(variables: &str) -> Template {
        Template {
            resource: Some("kubernetes".into()),
            config: json!({"resource_args": {"kubernetes": {"replicas": "{{n}}", "name": "${run_id}"}}}),
            variables: template::declare(variables).unwrap(),
            has_priorities: false,
        }
    }

    fn push(spec: &str) -> Push<'_> {
        Push { spec, values: None, priority: None, author: "alice", may_override: false, prior: None }
    }

    // PUSH-3, PUSH-4, PUSH-7, QUE-11
    #[test]
    fn the_queue_fills_in_resource_config_values_and_author() {
        let queue = queue(r#"{"n": {"schema": {"type": "integer", "default": 1}}}"#);
        let resolved = resolve(&queue, &Push { values: Some(r#"{"n": 4}"#), ..push(SPEC) }).unwrap();
        assert_eq!(resolved.spec["resource"], "kubernetes");
        assert_eq!(resolved.spec["resource_args"], json!({"kubernetes": {"replicas": 4, "name": "${run_id}"}}));
        assert_eq!(resolved.spec["author"], "alice");
        assert_eq!(resolved.spec["odd"], json!({"kept": 1}));
        assert_eq!(resolved.values, json!({"n": 4}));
        assert_eq!((resolved.priority, resolved.rank), (2, 2));
    }

    // PUSH-3, LA-Q-5, LA-Q-7, LA-Q-8
    #[test]
    fn own_arguments_replace_the_queues_but_not_those_of_a_template() {
        let spec = r#"{"resource_args":{"kubernetes":{"x":1}},"author":"bob","resource":"kubernetes"}"#;
        let resolved = resolve(&queue("{}"), &push(spec)).unwrap();
        assert_eq!(resolved.spec["resource_args"], json!({"kubernetes": {"x": 1}}));
        assert_eq!(resolved.spec["author"], "bob");
        let templated = queue(r#"{"n": {"schema": {"type": "integer", "default": 1}}}"#);
        assert_eq!(resolve(&templated, &push(spec)), Err(Refusal::Override));
        assert!(resolve(&templated, &Push { may_override: true, ..push(spec) }).is_ok());
    }

    // PUSH-9, LA-L-25, LA-L-26
    #[test]
    fn what_goes_on_after_preemption_keeps_priority_values_and_author() {
        let queue = Template { has_priorities: true, ..queue(r#"{"n": {"schema": {"type": "integer"}}}"#) };
        let first = Push { values: Some(r#"{"n": 4}"#), priority: Some(0), ..push(SPEC) };
        let first = resolve(&queue, &first).unwrap();
        let prior = Prior {
            spec: first.spec.clone(),
            values: first.values.clone(),
            priority: 0,
            attempt: 0,
            has_own_args: false,
        };
        // As an agent pushes it: the resolved spec, its run, its count, perhaps with a key in it.
        let mut again = first.spec.clone();
        again["run_id"] = json!("r1");
        again["_resume_count"] = json!(1);
        again["_wandb_api_key"] = json!("secret");
        again["author"] = json!("agent");
        let text = again.to_string();
        assert_eq!(resumed_run(&text).as_deref(), Some("r1"));
        assert_eq!(resumed_run(SPEC), None);
        let second = resolve(&queue, &Push { prior: Some(prior), author: "agent", ..push(&text) }).unwrap();
        assert_eq!((second.priority, second.rank, second.attempt), (0, 0, 1));
        assert_eq!((&second.values, &second.spec["resource_args"]), (&first.values, &first.spec["resource_args"]));
        assert_eq!((&second.spec["author"], second.spec.get("_wandb_api_key")), (&json!("alice"), None));
    }

    // PUSH-3
    #[test]
    fn without_any_resource_nothing_can_run() {
        assert_eq!(resolve(&Template::default(), &push(SPEC)), Err(Refusal::Resource));
        let own = resolve(&Template::default(), &push(r#"{"resource":"local-process"}"#)).unwrap();
        assert_eq!(own.spec["resource_args"], json!({}));
    }

    // PUSH-5, LA-L-6
    #[test]
    fn priorities_need_a_queue_that_has_them() {
        let plain = queue("{}");
        assert_eq!(resolve(&plain, &Push { priority: Some(0), ..push(SPEC) }), Err(Refusal::NoPriorities));
        assert!(resolve(&plain, &Push { priority: Some(2), ..push(SPEC) }).is_ok());
        let ranked = Template { has_priorities: true, ..plain };
        assert_eq!(resolve(&ranked, &Push { priority: Some(0), ..push(SPEC) }).unwrap().rank, 0);
        assert_eq!(resolve(&ranked, &Push { priority: Some(7), ..push(SPEC) }), Err(Refusal::Priority(7)));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for spec in ["", "[]", "nonsense"] {
            assert!(matches!(resolve(&queue("{}"), &push(spec)), Err(Refusal::Spec(_))), "{spec}");
        }
        assert!(matches!(resolve(&queue("{}"), &Push { values: Some("[]"), ..push(SPEC) }), Err(Refusal::Values(_))));
        assert!(resolve(&queue("{}"), &Push { values: Some("null"), ..push(SPEC) }).is_ok());
    }

    // R-2
    #[test]
    fn what_is_of_a_wrong_type_is_refused_all_at_once() {
        let spec = r#"{"name":5,"resource_args":[],"overrides":{"run_config":[1]},"odd":1}"#;
        let refusal = resolve(&queue("{}"), &push(spec)).unwrap_err();
        let paths: Vec<String> =
            refusal.all().iter().filter_map(|told| told.split('`').nth(1)).map(str::to_owned).collect();
        assert_eq!(paths, ["name", "resource_args", "overrides.run_config"]);
    }

    // LA-R-6
    #[test]
    fn a_secret_is_not_shown() {
        assert_eq!(shown(json!({"_wandb_api_key": "abc", "x": 1})), json!({"_wandb_api_key": "<redacted>", "x": 1}));
    }
}
