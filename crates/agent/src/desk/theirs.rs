//! A server that speaks W&B's operations only: items are popped one by one, their ends are those of their runs.
//!
//! Such a server does not tell an agent which items it holds, so they are kept in files of the agent's folder until they
//! are settled.

use super::{End, stage};
use crate::item::{Item, Told};
use crate::runner::Failure;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volley_client::Client;
use volley_client::items::Run;
use volley_client::launch::{Lease, Report};
use volley_plan::agent::life::Standing;
use volley_plan::launch::order::config_of;

pub struct Theirs {
    client: Client,
    agent: String,
    entity: String,
    folder: PathBuf,
    items: Mutex<BTreeMap<String, Item>>,
    /// What was told already, so that a reason is told once.
    warned: Mutex<BTreeMap<String, String>>,
}

impl Theirs {
    pub fn open(client: Client, agent: String, entity: String, folder: &Path) -> Result<Theirs, Failure> {
        let folder = folder.join("items");
        fs::create_dir_all(&folder)?;
        let mut items = BTreeMap::new();
        for file in fs::read_dir(&folder)? {
            let text = fs::read_to_string(file?.path())?;
            match serde_json::from_str::<Item>(&text) {
                // Only what was acknowledged is kept.
                Ok(item) => drop(items.insert(item.key(), Item { standing: Standing::Claimed, ..item })),
                Err(error) => tracing::warn!(%error, "an item that was kept cannot be read"),
            }
        }
        Ok(Theirs { client, agent, entity, folder, items: Mutex::new(items), warned: Mutex::default() })
    }

    fn path(&self, item: &Item) -> PathBuf {
        self.folder.join(format!("{}.json", item.key()))
    }

    fn forget(&self, item: &Item) -> Result<(), Failure> {
        self.items.lock().remove(&item.key());
        self.warned.lock().remove(&item.key());
        match fs::remove_file(self.path(item)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Those that are held, each with whether its run is told to stop.
    pub async fn items(&self) -> Result<Vec<Item>, Failure> {
        let mut items: Vec<Item> = self.items.lock().values().cloned().collect();
        let status = if items.is_empty() { "POLLING" } else { "RUNNING" };
        self.client.report_agent(&self.agent, status).await?;
        for item in items.iter_mut().filter(|item| !item.is_stop_asked) {
            let Some(run) = item.run.clone() else { continue };
            let query = "query RunStoppedStatus($entity: String!, $project: String!, $run: String!) \
                { project(name: $project, entityName: $entity) { run(name: $run) { stopped } } }";
            let variables = json!({ "entity": run.entity, "project": run.project, "run": run.name });
            let answer = self.client.graphql(query, variables).await?;
            item.is_stop_asked = answer["project"]["run"]["stopped"].as_bool().unwrap_or(false);
        }
        Ok(items)
    }

    pub async fn take(&self, queue: &str, limit: usize) -> Result<Vec<Item>, Failure> {
        let mut taken = Vec::new();
        while taken.len() < limit {
            let Some(lease) = self.client.pop(&self.entity, queue, Some(&self.agent)).await? else { break };
            taken.push(lease);
        }
        if taken.is_empty() {
            return Ok(Vec::new());
        }
        let known = self.client.queue(&self.entity, queue).await?.unwrap_or_default();
        Ok(taken.into_iter().map(|lease| self.item(queue, &known, lease)).collect())
    }

    /// The item, with the queue's config as its admin wrote it. Where that has variables their values are not told, and
    /// everything counts as the submitter's.
    fn item(&self, queue: &str, known: &Value, Lease { item, spec }: Lease) -> Item {
        let stored = &known["defaultResourceConfig"];
        let config = match &stored["config"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            other => other.clone(),
        };
        let has_variables = stored["templateVariables"].as_array().is_some_and(|all| !all.is_empty());
        let config = config_of(&config, spec["resource"].as_str().unwrap_or_default());
        let is_known = config.as_object().is_some_and(|config| !config.is_empty()) && !has_variables;
        let resumes = spec["_resume_count"].as_u64().and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
        Item {
            id: item.clone(),
            key: None,
            lease: item,
            entity: spec["queue_entity"].as_str().unwrap_or(&self.entity).to_owned(),
            queue: queue.to_owned(),
            standing: Standing::Leased,
            is_mine: true,
            is_orphaned: false,
            site: None,
            attempt: resumes + 1,
            is_stop_asked: false,
            is_over: false,
            template: is_known.then(|| Arc::new((config, BTreeMap::new()))),
            run: None,
            user: spec["author"].as_str().map(str::to_owned),
            priority: spec["priority"].as_i64().unwrap_or(2),
            spec: Arc::new(spec),
        }
    }

    pub async fn acknowledge(&self, item: &Item, run: &Run) -> Result<(), Failure> {
        // Kept first: an item that was acknowledged and forgotten would never end.
        let kept = Item { standing: Standing::Claimed, run: Some(run.clone()), ..item.clone() };
        fs::write(self.path(item), serde_json::to_vec(&kept).map_err(std::io::Error::other)?)?;
        if !self.client.acknowledge(&item.lease, &run.name).await? {
            self.forget(item)?;
            return Err(Failure::Lost);
        }
        self.items.lock().insert(item.key(), kept);
        Ok(())
    }

    /// A copy of the spec goes to the same queue, with the same run (L-23), its priority and author (L-26).
    pub async fn requeue(&self, item: &Item, run: &Run) -> Result<(), Failure> {
        let mut spec = Value::clone(&item.spec);
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("run_id".to_owned(), json!(run.name));
            spec.insert("_resume_count".to_owned(), json!(item.attempt));
            spec.remove("sweep_id");
            spec.remove("_wandb_api_key");
        }
        let query = "mutation pushToRunQueueByName($input: PushToRunQueueByNameInput!) \
            { pushToRunQueueByName(input: $input) { runQueueItemId } }";
        let input = json!({ "entityName": item.entity, "projectName": volley_client::launch::REGISTRY,
            "queueName": item.queue, "runSpec": spec.to_string(), "priority": item.priority });
        self.client.graphql(query, json!({ "input": input })).await?;
        self.forget(item)
    }

    pub async fn end(&self, item: &Item, run: &Run, end: &End, exit_code: Option<i64>) -> Result<(), Failure> {
        if let End::Failed { stage: at, reason } = end {
            let report = Report { message: reason, stage: stage(*at), file_paths: &[] };
            self.client.fail(&item.lease, &report).await?;
        }
        // A run that ended by itself stays as it is.
        let state = self.client.run(&run.entity, &run.project, &run.name).await?.map(|mut run| run["state"].take());
        if matches!(state.as_ref().and_then(Value::as_str), Some("pending" | "running")) {
            self.client.end_run(run.path(), end.kind().exit_code(exit_code)).await?;
        }
        self.forget(item)
    }

    pub async fn note(&self, item: &Item, told: &Told) -> Result<(), Failure> {
        let Some(waiting) = &told.waiting else { return Ok(()) };
        let is_new = self.warned.lock().insert(item.key(), waiting.clone()).as_ref() != Some(waiting);
        if is_new {
            let report = Report { message: waiting, stage: "Kubernetes", file_paths: &[] };
            self.client.warn(&item.lease, &report).await?;
        }
        Ok(())
    }
}
