//! Who may use a queue, and what it was before: W&B's schema has no words for either.

use super::items::{self, Item};
use super::{Queue, expect, line, store, told};
use crate::Shared;
use crate::events::audit;
use crate::fault::{Fault, Result};
use crate::graphql::scalars::date_text;
use crate::http::auth::Known;
use crate::http::body::Sent;
use crate::ids;
use crate::people::{self, Caller};
use crate::project::{self, Path as ProjectPath};
use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_plan::people::{Deed, Role, UserId};
use volley_plan::queue::item::{End, State as ItemState};

const LIMIT_DEFAULT: usize = 20;
const LIMIT_ITEMS: usize = 200;
const LIMIT_MAX: usize = 1000;

/// What somebody may do with a queue is called by deeds, and kept as roles.
const LEVELS: [(&str, Role); 3] = [("see", Role::Viewer), ("submit", Role::Member), ("manage", Role::Admin)];

pub async fn access(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((entity, queue)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let queue = find(&shared, &caller, Deed::See, &entity, &queue).await?;
    told(&shared, &queue).await.map(Json)
}

#[derive(Deserialize)]
pub struct Access {
    private: Option<bool>,
    /// Names and `see`, `submit` or `manage`; whoever is left out has what the role in the entity gives.
    people: Option<BTreeMap<String, String>>,
}

pub async fn set_access(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((entity, queue)): Path<(String, String)>,
    Sent(wanted): Sent<Access>,
) -> Result<Json<Value>> {
    let mut queue = find(&shared, &caller, Deed::ManageQueue, &entity, &queue).await?;
    if let Some(is_private) = wanted.private {
        queue.access = if is_private { "USER" } else { "PROJECT" }.to_owned();
    }
    if let Some(people) = wanted.people {
        queue.grants.clear();
        for (name, level) in people {
            let (user, role) = grant(&shared, &queue, &entity, &name, &level).await?;
            queue.grants.insert(user, role);
        }
    }
    let mut write = shared.database.write().await?;
    store::set_access(&mut write, &queue).await?;
    audit(&mut write, &caller, "queue.access", &format!("{entity}/{}", queue.name), Timestamp::now()).await?;
    write.commit().await?;
    told(&shared, &queue).await.map(Json)
}

async fn grant(shared: &Shared, queue: &Queue, entity: &str, name: &str, level: &str) -> Result<(UserId, Role)> {
    let role = LEVELS.iter().find(|(word, _)| *word == level).map(|(_, role)| *role);
    let role = role.ok_or_else(|| Fault::bad(format!("`{level}` is nothing to allow; hint: see, submit or manage")))?;
    let outside =
        || Fault::bad(format!("`{name}` is not in `{entity}`; hint: `volley team add {entity} {name} viewer` first"));
    let user = people::store::user_by_name(&shared.database, name).await?.ok_or_else(outside)?;
    people::store::role_in(&shared.database, queue.entity_id, user.id).await?.ok_or_else(outside)?;
    Ok((UserId(user.id), role))
}

async fn told(shared: &Shared, queue: &Queue) -> Result<Value> {
    let mut people = Map::new();
    for (UserId(user), role) in &queue.grants {
        let level = LEVELS.iter().find(|(_, known)| known == role).map(|(word, _)| *word);
        if let Some(user) = people::store::user_by_id(&shared.database, *user).await? {
            people.insert(user.username, level.into());
        }
    }
    Ok(json!({ "queue": queue.name, "private": queue.is_private(), "owner": queue.maker, "people": people }))
}

#[derive(Deserialize)]
pub struct Page {
    limit: Option<usize>,
}

/// Newest first; the first is what the queue is now.
pub async fn history(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((entity, queue)): Path<(String, String)>,
    Query(page): Query<Page>,
) -> Result<Json<Value>> {
    let queue = find(&shared, &caller, Deed::See, &entity, &queue).await?;
    let limit = page.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let mut told = Vec::new();
    for past in store::history(&shared.database, queue.id, limit).await? {
        let config = match past.config_id {
            Some(id) => store::config_by_id(&shared.database, id).await?,
            None => None,
        };
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        told.push(json!({
            "version": past.id,
            "at": date_text(past.at),
            "user": past.username,
            "prioritization": past.mode,
            "resource": config.as_ref().map(|config| config.resource.clone()),
            "config": config.as_ref().map(|config| json(&config.config)["resource_args"][&config.resource].clone()),
            "template_variables": config.as_ref().map(|config| json(&config.variables)),
        }));
    }
    Ok(Json(told.into()))
}

#[derive(Deserialize)]
pub struct Wanted {
    entity: Option<String>,
    queue: Option<String>,
    /// Also what has ended.
    #[serde(default)]
    all: bool,
    limit: Option<usize>,
    /// Those of this run, newest first; a name, or a path with its entity and project.
    run: Option<String>,
}

/// What waits and runs in the queues that the caller may see, in the order in which it goes; with `all`, newest first.
pub async fn items(
    State(shared): State<Shared>,
    Known(caller): Known,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    let entities = match &wanted.entity {
        Some(name) => people::store::entity_by_name(&shared.database, name).await?.into_iter().collect(),
        None => people::store::entities_of(&shared.database, &caller.user).await?,
    };
    let limit = wanted.limit.unwrap_or(LIMIT_ITEMS).min(LIMIT_MAX);
    let now = Timestamp::now();
    let mut told = Vec::new();
    for entity in entities.iter().filter(|entity| caller.may_see(entity.id)) {
        for queue in store::of_entity(&shared.database, entity.id).await? {
            let is_named = wanted.queue.as_ref().is_none_or(|name| *name == queue.name);
            if is_named && queue.is_open_to(&caller, Deed::See) {
                let found = match &wanted.run {
                    Some(run) => items::of_run_name(&shared.database, queue.id, last_part(run), limit).await?,
                    None => items::listed(&shared.database, queue.id, wanted.all, limit).await?,
                };
                let waits = found.iter().any(|item| item.life.shown(now) == ItemState::Pending);
                let places = match waits {
                    true => line::places(&shared.database, &queue, LIMIT_MAX, now).await?,
                    false => Vec::new(),
                };
                let reasons: BTreeMap<String, String> =
                    places.into_iter().map(|place| (place.item_id.0, place.reason)).collect();
                told.extend(found.into_iter().map(|item| of_item(&entity.name, &queue, &reasons, item)));
            }
        }
    }
    if let Some(run) = &wanted.run {
        let is_path = run.contains('/');
        told.retain(|item| !is_path || item["run"] == run.as_str());
        told.sort_by_key(|item| std::cmp::Reverse(item["number"].as_i64()));
    }
    told.truncate(limit);
    Ok(Json(told.into()))
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `reasons` are why items wait in their queue, by id; what waits on a cluster has noted why.
fn of_item(entity: &str, queue: &Queue, reasons: &BTreeMap<String, String>, item: Item) -> Value {
    let state = item.life.shown(Timestamp::now());
    let id = ids::encode("RunQueueItem", item.id);
    let waiting = reasons.get(id.as_str()).or(item.waiting.as_ref());
    let run = told::run_of(&item, entity).map(|(entity, project, run)| format!("{entity}/{project}/{run}"));
    json!({
        "id": id.as_str(),
        "number": item.id,
        "entity": entity,
        "queue": queue.name,
        "state": state.name(),
        "run": run,
        "user": item.author,
        "priority": item.priority,
        "gpus": item.gpus,
        "attempt": item.life.attempt + 1,
        "created": date_text(item.created_at),
        "waiting": waiting,
        "stop_asked": item.life.is_stop_asked,
        "end": item.life.end().map(End::name),
        "error": item.error().map(|error| error.message),
    })
}

async fn find(shared: &Shared, caller: &Caller, deed: Deed, entity: &str, queue: &str) -> Result<Queue> {
    expect(shared, caller, deed, ProjectPath::of(entity, project::REGISTRY), queue).await
}
