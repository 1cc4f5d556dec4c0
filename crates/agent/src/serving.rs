//! Which queues there are, and which of them this agent takes from; `plan::agent::serving` decides.
//!
//! A queue that is let go stays in the server's list for as long as something of it runs here, as that list is also what
//! the agent hears of.

use crate::desk::Desk;
use crate::runner::Failure;
use crate::shell::Shell;
use jiff::Timestamp;
use serde_json::Value;
use volley_client::events::Event;
use volley_client::{Client, Result};
use volley_plan::agent::serving::{self, Known, Other, Served, Wanted};

/// The queues of an entity; with their agents only where it matters whose they are.
pub async fn known(client: &Client, wanted: &Wanted, entity: &str) -> Result<Vec<Known>> {
    let queues = match wanted {
        Wanted::Named(_) => client.queues(entity).await?,
        Wanted::All(_) => client.queues_with_agents(entity).await?,
    };
    Ok(queues.iter().map(read).collect())
}

pub fn served(wanted: &Wanted, known: &[Known]) -> Vec<Served> {
    serving::served(wanted, known, Timestamp::now())
}

pub fn ids(served: &[Served]) -> Vec<String> {
    served.iter().map(|queue| queue.id.clone()).collect()
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn read(queue: &Value) -> Known {
    let agents = queue["launchAgents"].as_array().map(Vec::as_slice).unwrap_or_default();
    Known {
        id: text(&queue["id"]).unwrap_or_default().to_owned(),
        name: text(&queue["name"]).unwrap_or_default().to_owned(),
        resource: text(&queue["defaultResourceConfig"]["resource"]).map(str::to_owned),
        agents: agents.iter().map(read_agent).collect(),
    }
}

fn read_agent(agent: &Value) -> Other {
    let config: Value =
        text(&agent["agentConfig"]).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let wanted = config["queues"].as_array().map(Vec::as_slice).unwrap_or_default();
    Other {
        status: text(&agent["agentStatus"]).unwrap_or_default().to_owned(),
        heartbeat: text(&agent["heartbeatAt"]).and_then(|time| time.parse().ok()).unwrap_or_default(),
        wanted: wanted.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    }
}

impl Shell {
    /// Whether an event may make a difference to the queues that are served.
    pub fn changes_queues(&self, event: &Event) -> bool {
        match event.kind.as_str() {
            "queue.created" | "queue.changed" | "queue.deleted" => true,
            "agent.created" | "agent.status" => matches!(self.wanted, Wanted::All(_)) && event.subject != self.agent,
            _ => false,
        }
    }

    /// Sees which queues there are, and tells the server which of them are served; what is new is asked at once.
    pub async fn look_at_queues(&self) -> std::result::Result<(), Failure> {
        let client = &self.bench.client;
        let known = known(client, &self.wanted, &self.entity).await?;
        let served = served(&self.wanted, &known);
        if matches!(self.desk, Desk::Ours(_)) {
            let held = self.table.held();
            let mut told = ids(&served);
            let is_held =
                |queue: &&Known| held.iter().any(|item| item.queue == queue.name) && !told.contains(&queue.id);
            let kept: Vec<String> = known.iter().filter(is_held).map(|queue| queue.id.clone()).collect();
            told.extend(kept);
            told.sort();
            if self.told_queues.lock().as_ref() != Some(&told) {
                client.serve_queues(&self.agent, &told).await?;
                *self.told_queues.lock() = Some(told);
            }
        }
        let is_news = std::mem::replace(&mut *self.queues.lock(), served.clone()) != served;
        if is_news {
            tracing::info!(queues = ?served.iter().map(|queue| &queue.name).collect::<Vec<_>>(), "serves these queues");
            self.taking.notify_one();
        }
        Ok(())
    }
}
