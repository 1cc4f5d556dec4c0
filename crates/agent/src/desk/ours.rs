//! Our own server: items in batches, told apart by whose they are, and every end in one call.

use super::{End, guarded, stage};
use crate::attempt::values;
use crate::item::{Item, RunName, Told};
use crate::runner::Failure;
use serde_json::json;
use volley_client::{Client, Error, items};
use volley_plan::agent::life::Standing;
use volley_plan::launch::order::config_of;

pub struct Ours {
    pub client: Client,
    pub agent: String,
}

impl Ours {
    pub async fn items(&self) -> Result<Vec<Item>, Failure> {
        Ok(self.client.agent_items(&self.agent).await?.into_iter().map(read).collect())
    }

    pub async fn take(&self, queue: &str, limit: usize) -> Result<Vec<Item>, Failure> {
        Ok(self.client.take(&self.agent, queue, limit).await?.into_iter().map(read).collect())
    }

    pub async fn acknowledge(&self, item: &Item, run: &RunName) -> Result<(), Failure> {
        held(self.client.acknowledge_item(&item.lease, &self.agent, Some(&run.project), &run.name).await)
    }

    pub async fn release(&self, item: &Item) -> Result<(), Failure> {
        held(self.client.release(&item.lease).await)
    }

    pub async fn adopt(&self, item: &Item) -> Result<Item, Failure> {
        let adopted = self.client.adopt(&item.lease, &self.agent).await.map_err(guarded)?;
        adopted.map(read).ok_or(Failure::Lost)
    }

    pub async fn requeue(&self, item: &Item, reason: &str) -> Result<(), Failure> {
        held(self.client.requeue(&item.lease, item.attempt, reason).await)
    }

    pub async fn end(&self, item: &Item, end: &End, exit_code: Option<i64>) -> Result<(), Failure> {
        let (state, at, message) = match end {
            End::Finished => ("finished", "run", None),
            End::Stopped => ("stopped", "run", None),
            End::Failed { stage: at, reason } => ("failed", stage(*at), Some(reason.as_str())),
        };
        held(self.client.end_item(&item.lease, &items::End { state, stage: at, message, exit_code }).await)
    }

    pub async fn note(&self, item: &Item, told: &Told) -> Result<(), Failure> {
        let note = items::Note {
            waiting: Some(told.waiting.clone()),
            is_running: told.is_running,
            place: Some(told.place.clone()).filter(|place| !place.is_null()),
            manifest: None,
        };
        held(self.client.note(&item.lease, &note).await)
    }
}

/// An answer that is not taken means that somebody else speaks for the item now.
fn held(answer: Result<bool, Error>) -> Result<(), Failure> {
    match answer.map_err(guarded)? {
        true => Ok(()),
        false => Err(Failure::Lost),
    }
}

fn read(item: items::Item) -> Item {
    let standing = match item.state.as_str() {
        "PENDING" => Standing::Pending,
        "LEASED" => Standing::Leased,
        "CLAIMED" | "RUNNING" => Standing::Claimed,
        _ => Standing::Ended,
    };
    let template = item.config.map(|config| {
        // W&B's clients keep a config below the resource's name.
        let is_wrapped = config.resource_args.get(&config.resource).is_some();
        let raw = match is_wrapped {
            true => config_of(&json!({ "resource_args": config.resource_args }), &config.resource),
            false => config.resource_args,
        };
        (raw, values(&item.values))
    });
    Item {
        id: item.id,
        lease: item.lease,
        entity: item.entity,
        queue: item.queue,
        standing,
        is_mine: item.is_mine,
        is_orphaned: item.is_orphaned,
        attempt: item.attempt.max(1),
        is_stop_asked: item.stop_asked,
        is_over: item.end.as_deref() == Some("stopped"),
        spec: if item.resolved_spec.is_object() { item.resolved_spec } else { item.spec },
        template,
        run: item.run.map(|run| RunName { entity: run.entity, project: run.project, name: run.name }),
        user: Some(item.user).filter(|user| !user.is_empty()),
        priority: item.priority,
    }
}
