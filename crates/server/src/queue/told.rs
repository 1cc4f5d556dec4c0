//! How an item is told to agents and people, as JSON.

use super::items::{self, Item};
use super::line::Line;
use super::{Config, Queue, store, story};
use crate::database::{Database, Result};
use crate::graphql::scalars::date_text;
use crate::{agent, ids, run};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_plan::people::Deed;
use volley_plan::queue::item::{End, State};
use volley_plan::queue::spec;

/// The run's entity, project and name, once an agent has answered for the item.
pub fn run_of(item: &Item, entity: &str) -> Option<(String, String, String)> {
    let name = item.life.run_name.clone()?;
    let (entity, project) = item.run_home.clone().unwrap_or_else(|| {
        let spec = item.spec();
        let named = |field: &str| spec[field].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
        (named("entity").unwrap_or_else(|| entity.to_owned()), named("project").unwrap_or_default())
    });
    Some((entity, project, name))
}

/// Tells of items, and remembers the configs that many of them share.
pub struct Teller<'a> {
    database: &'a Database,
    entity: String,
    queue: &'a Queue,
    /// For whom: what is its own, and what it may take over.
    agent: Option<i64>,
    configs: BTreeMap<i64, Value>,
    now: Timestamp,
}

impl<'a> Teller<'a> {
    pub async fn new(database: &'a Database, queue: &'a Queue, agent: Option<i64>) -> Result<Teller<'a>> {
        let project = crate::project::store::by_id(database, queue.project_id).await?;
        let entity = project.map(|project| project.entity).unwrap_or_default();
        Ok(Teller { database, entity, queue, agent, configs: BTreeMap::new(), now: Timestamp::now() })
    }

    /// What everybody is told who may see the item.
    fn short(&self, item: &Item) -> Value {
        let life = &item.life;
        let shown = life.shown(self.now);
        let is_held = !matches!(shown, State::Pending | State::Finished | State::Failed);
        let run = run_of(item, &self.entity);
        let run = run.map(|(entity, project, name)| json!({ "entity": entity, "project": project, "name": name }));
        json!({
            "id": ids::encode("RunQueueItem", item.id).as_str(),
            "key": item.key,
            "number": item.id,
            "entity": self.entity,
            "queue": self.queue.name,
            "queue_id": ids::encode("RunQueue", self.queue.id).as_str(),
            "state": shown.name(),
            "end": life.end().map(End::name),
            "attempt": life.attempt + 1,
            "is_mine": is_held && item.agent_id.is_some() && item.agent_id == self.agent,
            "is_orphaned": item.is_orphaned(self.now),
            "stop_asked": life.is_stop_asked,
            "stop_by": item.stop_by,
            "run": run,
            "user": item.author,
            "priority": item.priority,
            "gpus": item.gpus,
            "created": date_text(item.created_at),
            "started": item.started_at.map(date_text),
            "ended": item.ended_at.map(date_text),
            "waiting": item.waiting,
            "exit_code": item.exit_code,
        })
    }

    /// What an agent is told of an item whose spec it knows, or can ask for.
    pub fn to_agent_in_short(&self, item: &Item) -> Value {
        let mut told = self.short(item);
        told["lease"] = ids::encode_lease(item.id, item.life.lease).as_str().into();
        told["site"] = json!(item.site);
        told
    }

    /// What an agent is told. What others have in hand is none of its business beyond that they have it.
    pub async fn to_agent(&mut self, item: &Item) -> Result<Value> {
        let mut told = self.to_agent_in_short(item);
        if told["is_mine"] == true || told["is_orphaned"] == true {
            self.add_spec(&mut told, item, item.spec()).await?;
        }
        Ok(told)
    }

    /// What people are told, and an agent that asks for one item.
    pub async fn in_full(&mut self, caller: &crate::people::Caller, item: &Item) -> Result<Value> {
        let mut told = self.short(item);
        if self.queue.is_open_to(caller, Deed::Serve) {
            told["lease"] = ids::encode_lease(item.id, item.life.lease).as_str().into();
        }
        self.add_spec(&mut told, item, spec::shown(item.spec())).await?;
        let json = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        told["place"] = json!(json(&item.place));
        told["manifest"] = json!(json(&item.manifest));
        told["error"] = json!(item.error());
        told["warnings"] = json!(item.warnings());
        let silence = |heard: i64| (self.now.as_microsecond() - heard).max(0) / 1_000_000;
        told["agent"] =
            json!(item.agent.as_ref().map(|(name, heard)| json!({ "name": name, "silent_s": silence(*heard) })));
        let agents = agent::store::living(self.database, self.queue.id, self.now).await?;
        told["agents"] = agents.iter().map(|(name, host)| json!({ "name": name, "host": host })).collect();
        if item.life.shown(self.now) == State::Pending {
            self.add_wait(&mut told, item).await?;
        }
        if told["exit_code"].is_null()
            && let Some(run) = item.run_id
        {
            let run = run::store::by_id(self.database, run).await?;
            told["exit_code"] = json!(run.and_then(|run| run.exit_code));
        }
        let reason = told["reason"].as_str().or(item.waiting.as_deref());
        told["timeline"] = story::timeline(self.database, item, reason).await?;
        Ok(told)
    }

    /// What waits, with its place and its reason.
    pub async fn waiting(&self, item: &Item) -> Result<Value> {
        let mut told = self.short(item);
        told["name"] = item.spec()["name"].clone();
        self.add_wait(&mut told, item).await?;
        Ok(told)
    }

    async fn add_spec(&mut self, told: &mut Value, item: &Item, resolved: Value) -> Result<()> {
        told["spec"] = spec::pushed(resolved.clone(), item.has_own_args);
        told["resolved_spec"] = resolved;
        told["values"] = serde_json::from_str(&item.template_values).unwrap_or_default();
        told["config"] = match item.config_id {
            Some(id) => self.config(id).await?,
            None => Value::Null,
        };
        Ok(())
    }

    async fn config(&mut self, id: i64) -> Result<Value> {
        if let Some(known) = self.configs.get(&id) {
            return Ok(known.clone());
        }
        let told = store::config_by_id(self.database, id).await?.map_or(Value::Null, config);
        self.configs.insert(id, told.clone());
        Ok(told)
    }

    async fn add_wait(&self, told: &mut Value, item: &Item) -> Result<()> {
        let before = items::before(self.database, item).await?;
        let line = Line::read(self.database, self.queue, self.now).await?;
        told["queue_place"] = json!(before + 1);
        told["estimate_s"] = json!(line.estimate_s(before));
        told["reason"] = json!(line.reason(before, item.waiting.as_deref()));
        Ok(())
    }
}

/// A config as its author wrote it, with its tokens.
pub fn config(config: Config) -> Value {
    let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
    json!({
        "resource": config.resource,
        "resource_args": json(&config.config)["resource_args"][&config.resource],
        "template_variables": json(&config.variables),
    })
}
