//! Where items come from and are answered for: our own server (`ours`), or one that speaks only W&B's operations (`theirs`).
//!
//! Every call is safe to repeat, and guarded by the item's lease: whoever holds an older one is told so (`Failure::Lost`).

mod ours;
mod theirs;

use crate::item::{Item, Told, Whereabouts};
use crate::runner::Failure;
use ours::Ours;
use serde_json::Value;
use std::path::Path;
use theirs::Theirs;
use volley_client::items::Run;
use volley_client::{Client, Error};
use volley_plan::agent::life::Stage;
use volley_plan::queue::item;

/// How an item ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Finished,
    Failed { stage: Stage, reason: String },
    Stopped,
}

impl End {
    pub fn kind(&self) -> item::End {
        match self {
            End::Finished => item::End::Finished,
            End::Failed { .. } => item::End::Failed,
            End::Stopped => item::End::Stopped,
        }
    }
}

pub enum Desk {
    Ours(Ours),
    Theirs(Theirs),
}

impl Desk {
    /// Finds out which sort of server this is.
    pub async fn open(client: &Client, agent: &str, entity: &str, folder: &Path) -> Result<Desk, Failure> {
        let (client, agent, entity) = (client.clone(), agent.to_owned(), entity.to_owned());
        Ok(match client.is_volley().await? {
            true => Desk::Ours(Ours { client, agent }),
            false => Desk::Theirs(Theirs::open(client, agent, entity, folder)?),
        })
    }

    /// All items that concern this agent; asking is a sign of life. Unless the list is to be full, specs may be left out.
    pub async fn items(&self, is_full: bool) -> Result<Vec<Item>, Failure> {
        match self {
            Desk::Ours(desk) => desk.items(is_full).await,
            Desk::Theirs(desk) => desk.items().await,
        }
    }

    /// The item with its spec, which lists may leave out.
    pub async fn fill(&self, item: &Item) -> Result<Item, Failure> {
        match self {
            Desk::Ours(desk) if item.spec.is_null() => desk.fill(item).await,
            Desk::Ours(_) | Desk::Theirs(_) => Ok(item.clone()),
        }
    }

    /// Whether it hands out what is behind items that are not wanted.
    pub fn can_leave_out(&self) -> bool {
        matches!(self, Desk::Ours(_))
    }

    pub async fn take(&self, queue: &str, limit: usize, without: &[String]) -> Result<Vec<Item>, Failure> {
        match self {
            Desk::Ours(desk) => desk.take(queue, limit, without).await,
            Desk::Theirs(desk) => desk.take(queue, limit).await,
        }
    }

    /// `site` is the cluster or the machine that it will run on.
    pub async fn acknowledge(&self, item: &Item, run: &Run, site: Option<&str>) -> Result<(), Failure> {
        match self {
            Desk::Ours(desk) => desk.acknowledge(item, run, site).await,
            Desk::Theirs(desk) => desk.acknowledge(item, run).await,
        }
    }

    /// What the workload is known to the server by. Ours makes a credential for this one run; of W&B's there is the spec's
    /// own key, else the agent's.
    pub async fn credential(&self, item: &Item, key: &str) -> Result<String, Failure> {
        match self {
            Desk::Ours(desk) => desk.credential(item).await,
            Desk::Theirs(_) => {
                let own = item.spec["_wandb_api_key"].as_str().filter(|own| !own.is_empty());
                Ok(own.unwrap_or(key).to_owned())
            }
        }
    }

    /// Gives back what does not fit; nothing has been started.
    pub async fn release(&self, item: &Item) -> Result<(), Failure> {
        match self {
            Desk::Ours(desk) => desk.release(item).await,
            // A lease that is not acknowledged goes back by itself (L-3).
            Desk::Theirs(_) => Ok(()),
        }
    }

    pub async fn adopt(&self, item: &Item, site: Option<&str>) -> Result<Item, Failure> {
        match self {
            Desk::Ours(desk) => desk.adopt(item, site).await,
            Desk::Theirs(_) => Err(Failure::Lost),
        }
    }

    /// What became of an item that the list lacks; nothing where the server does not say, as to one who lost a right.
    pub async fn whereabouts(&self, item: &Item) -> Result<Option<Whereabouts>, Failure> {
        match self {
            Desk::Ours(desk) => desk.whereabouts(item).await,
            // What is listed is what is kept in files.
            Desk::Theirs(_) => Ok(Some(Whereabouts::Over)),
        }
    }

    /// The next attempt waits in the queue.
    pub async fn requeue(&self, item: &Item, run: &Run, reason: &str) -> Result<(), Failure> {
        match self {
            Desk::Ours(desk) => desk.requeue(item, reason).await,
            Desk::Theirs(desk) => desk.requeue(item, run).await,
        }
    }

    pub async fn end(&self, item: &Item, run: &Run, end: &End, exit_code: Option<i64>) -> Result<(), Failure> {
        match self {
            Desk::Ours(desk) => desk.end(item, end, exit_code).await,
            Desk::Theirs(desk) => desk.end(item, run, end, exit_code).await,
        }
    }

    /// What people see of it while it lasts; `manifest` is what was submitted, which holds no secrets.
    pub async fn note(&self, item: &Item, told: &Told, manifest: Option<&Value>) -> Result<(), Failure> {
        match self {
            Desk::Ours(desk) => desk.note(item, told, manifest).await,
            Desk::Theirs(desk) => desk.note(item, told).await,
        }
    }
}

/// A refusal that concerns the lease means that the item is somebody else's by now.
fn guarded(error: Error) -> Failure {
    match error {
        Error::Refused { status, .. } if matches!(status.as_u16(), 404 | 409 | 410) => Failure::Lost,
        other => Failure::Server(other),
    }
}

fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Agent => "agent",
        Stage::Build => "build",
        Stage::Run => "run",
    }
}
