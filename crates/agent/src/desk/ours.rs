//! Our own server: items in batches, told apart by whose they are, and every end in one call.

use super::{End, guarded, stage};
use crate::attempt::values;
use crate::item::{Item, Told, Whereabouts};
use crate::runner::Failure;
use serde_json::{Value, json};
use std::sync::Arc;
use volley_client::items::{self, By, Run};
use volley_client::{Client, Error};
use volley_plan::agent::life::Standing;
use volley_plan::launch::order::config_of;

pub struct Ours {
    pub client: Client,
    pub agent: String,
}

impl Ours {
    pub async fn items(&self, is_full: bool) -> Result<Vec<Item>, Failure> {
        Ok(self.client.agent_items(&self.agent, is_full).await?.into_iter().map(read).collect())
    }

    /// The item with what lists leave out.
    pub async fn fill(&self, item: &Item) -> Result<Item, Failure> {
        let full = read(self.client.item(&item.id).await.map_err(guarded)?);
        Ok(Item { spec: full.spec, template: full.template, run: full.run, ..item.clone() })
    }

    pub async fn take(&self, queue: &str, limit: usize, without: &[String]) -> Result<Vec<Item>, Failure> {
        Ok(self.client.take(&self.agent, queue, limit, without).await?.into_iter().map(read).collect())
    }

    pub async fn acknowledge(&self, item: &Item, run: &Run, site: Option<&str>) -> Result<(), Failure> {
        let by = By { agent: &self.agent, site };
        let answer = self.client.acknowledge_item(&item.lease, by, Some(&run.project), &run.name).await;
        match answer {
            // Such as a project that the submitter may not log to: the item fails by it.
            Err(Error::Refused { status, message, .. }) if matches!(status.as_u16(), 400 | 403 | 404) => {
                Err(Failure::Refused(format!("its run cannot be made: {message}")))
            }
            answer => held(answer),
        }
    }

    pub async fn credential(&self, item: &Item) -> Result<String, Failure> {
        self.client.run_token(&item.lease).await.map_err(guarded)?.ok_or(Failure::Lost)
    }

    pub async fn release(&self, item: &Item) -> Result<(), Failure> {
        held(self.client.release(&item.lease).await)
    }

    pub async fn adopt(&self, item: &Item, site: Option<&str>) -> Result<Item, Failure> {
        let by = By { agent: &self.agent, site };
        let adopted = self.client.adopt(&item.lease, by).await.map_err(guarded)?;
        adopted.map(read).ok_or(Failure::Lost)
    }

    pub async fn whereabouts(&self, item: &Item) -> Result<Option<Whereabouts>, Failure> {
        match self.client.item(&item.id).await {
            Ok(told) => Ok(item.whereabouts(&read(told))),
            Err(error) if error.is_missing() => Ok(Some(Whereabouts::Over)),
            Err(error) if error.is_passing() => Err(error.into()),
            Err(error) => {
                tracing::debug!(item = item.id, %error, "the server does not say what became of an item");
                Ok(None)
            }
        }
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

    pub async fn note(&self, item: &Item, told: &Told, manifest: Option<&Value>) -> Result<(), Failure> {
        let note = items::Note {
            waiting: Some(told.waiting.clone()),
            is_running: told.is_running,
            place: Some(told.place.clone()).filter(|place| !place.is_null()),
            manifest: manifest.cloned(),
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
        Arc::new((raw, values(&item.values)))
    });
    Item {
        id: item.id,
        key: item.key,
        lease: item.lease,
        entity: item.entity,
        queue: item.queue,
        standing,
        is_mine: item.is_mine,
        is_orphaned: item.is_orphaned,
        site: item.site,
        attempt: item.attempt.max(1),
        is_stop_asked: item.stop_asked,
        is_over: item.end.as_deref() == Some("stopped"),
        spec: Arc::new(if item.resolved_spec.is_object() { item.resolved_spec } else { item.spec }),
        template,
        run: item.run,
        user: Some(item.user).filter(|user| !user.is_empty()),
        priority: item.priority,
    }
}
