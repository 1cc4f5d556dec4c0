//! What is wrong with a document, and what would be submitted for a launch: for the page, and for `volley launch --dry-run`.
//!
//! Nothing is queued, and nothing secret is shown. `plan::check` and `plan::launch` decide.

use super::{expect, job, push};
use crate::Shared;
use crate::fault::{Fault, Result};
use crate::http::auth::Known;
use crate::http::body::Sent;
use crate::project::{self, Path};
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_plan::check;
use volley_plan::launch::order;
use volley_plan::launch::preview::{Asked, preview as rendered};
use volley_plan::people::Deed;
use volley_plan::queue::spec::{Push, Template, resolve};
use volley_plan::queue::template;

#[derive(Deserialize)]
pub struct Text {
    text: String,
    /// The template variables' types, by name.
    #[serde(default)]
    variables: BTreeMap<String, String>,
}

pub async fn check(Known(_): Known, Sent(asked): Sent<Text>) -> Json<Value> {
    let facts = check::Facts { variables: asked.variables, ..check::Facts::default() };
    Json(json!(check::check(&asked.text, &facts)))
}

#[derive(Deserialize)]
pub struct Wanted {
    entity: Option<String>,
    /// A queue that there is.
    queue: Option<String>,
    /// Or what one would be made of.
    config: Option<Draft>,
    spec: Option<Value>,
    values: Option<Value>,
    priority: Option<i64>,
}

#[derive(Deserialize)]
pub struct Draft {
    resource: String,
    #[serde(default)]
    config: Value,
    #[serde(default)]
    template_variables: Value,
    #[serde(default)]
    prioritization: bool,
}

impl Draft {
    fn template(&self) -> Result<Template> {
        let variables = if self.template_variables.is_null() { json!({}) } else { self.template_variables.clone() };
        let told = |problems: Vec<template::Problem>| {
            Fault::bad(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
        };
        let config = match self.config.get("resource_args") {
            Some(_) => self.config.clone(),
            None => json!({ "resource_args": { &self.resource: self.config } }),
        };
        let variables = template::declare(&variables.to_string()).map_err(told)?;
        Ok(Template { resource: Some(self.resource.clone()), config, variables, has_priorities: self.prioritization })
    }
}

pub async fn preview(
    State(shared): State<Shared>,
    Known(caller): Known,
    Sent(wanted): Sent<Wanted>,
) -> Result<Json<Value>> {
    let entity = wanted.entity.as_deref().filter(|name| !name.is_empty()).unwrap_or(&caller.user.entity);
    let (name, own, may_override) = match (&wanted.queue, &wanted.config) {
        (Some(name), None) => {
            let path = Path::of(entity, project::REGISTRY);
            let queue = expect(&shared, &caller, Deed::See, path, name).await?;
            (name.as_str(), push::template_of(&shared, &queue).await?, queue.is_open_to(&caller, Deed::ManageQueue))
        }
        (None, Some(draft)) => ("draft", draft.template()?, true),
        (Some(_), Some(_)) | (None, None) => return Err(Fault::bad("either a `queue` or a `config` is looked at")),
    };
    // A queue is looked at before anybody has chosen an image for it.
    let spec = wanted.spec.unwrap_or_else(|| json!({ "docker": { "docker_image": "image" } })).to_string();
    let values = match (wanted.values, &wanted.config) {
        (given, Some(_)) => {
            let given = given.as_ref().and_then(Value::as_object).cloned().unwrap_or_default();
            Some(Value::from(template::samples(&own.variables, &given)))
        }
        (given, None) => given,
    };
    let values = values.map(|values| values.to_string());
    let asked = Push {
        spec: &spec,
        values: values.as_deref(),
        priority: wanted.priority,
        author: &caller.user.username,
        may_override,
        prior: None,
    };
    let resolved = match resolve(&own, &asked) {
        Ok(resolved) => resolved,
        Err(refusal) => return Ok(Json(json!({ "objects": [], "notes": [], "problems": refusal.all() }))),
    };
    job::check(&shared, &caller, &resolved.spec).await?;
    let document = job::document(&shared, &caller, &resolved.spec).await?;
    let chosen: Map<String, Value> = resolved.values.as_object().cloned().unwrap_or_default();
    let resource = own.resource.clone().unwrap_or_default();
    let raw = (!resolved.has_own_args).then(|| order::config_of(&own.config, &resource));
    let asked = Asked {
        spec: &resolved.spec,
        template: raw.map(|raw| order::Template { raw, values: chosen.into_iter().collect() }),
        queue: name,
        entity,
        priority: resolved.priority,
        job: document.as_ref(),
        base_url: &shared.public_url,
    };
    Ok(Json(match rendered(&asked) {
        Ok(shown) => json!({ "objects": shown.objects, "notes": shown.notes, "problems": [] }),
        Err(refusals) => {
            let problems: Vec<String> = refusals.iter().map(ToString::to_string).collect();
            json!({ "objects": [], "notes": [], "problems": problems })
        }
    }))
}
