//! Items as our own server tells them: what our agent asks for beyond W&B's operations, and what people ask of one item.

use crate::launch::{REGISTRY, RunPath};
use crate::{Client, Result, part};
use bytes::BytesMut;
use reqwest::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// An item of a queue. What somebody may not know, or need not, is null.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Item {
    pub id: String,
    /// Stands for the item in labels and names on a cluster.
    pub key: Option<String>,
    /// By which people call it.
    pub number: i64,
    /// The id with the lease, which every answer for the item names.
    pub lease: String,
    pub entity: String,
    pub queue: String,
    pub queue_id: String,
    /// `PENDING`, `LEASED`, `CLAIMED`, `RUNNING`, `FINISHED`, `FAILED`.
    pub state: String,
    /// `finished`, `failed` or `stopped`, once it has ended.
    pub end: Option<String>,
    /// Counted from 1.
    pub attempt: u32,
    pub is_mine: bool,
    pub is_orphaned: bool,
    /// The cluster or machine that it was begun on, for agents.
    pub site: Option<String>,
    pub stop_asked: bool,
    pub stop_by: Option<String>,
    /// As it was pushed.
    pub spec: Value,
    /// With the queue's arguments, its variables filled in: what W&B's agent gets.
    pub resolved_spec: Value,
    pub config: Option<Config>,
    pub values: Value,
    pub run: Option<Run>,
    pub user: String,
    pub priority: i64,
    pub gpus: i64,
    pub created: String,
    pub started: Option<String>,
    pub ended: Option<String>,
    pub waiting: Option<String>,
    pub exit_code: Option<i64>,
    /// The rest only of a single item.
    pub place: Value,
    pub manifest: Value,
    pub error: Option<Trouble>,
    pub warnings: Vec<Trouble>,
    /// 1 is the next; null of what does not wait.
    pub queue_place: Option<i64>,
    pub estimate_s: Option<i64>,
    /// Why it waits in the queue.
    pub reason: Option<String>,
    pub agent: Option<Keeper>,
    /// Those that live and serve its queue.
    pub agents: Vec<Value>,
}

/// A queue's config as its author wrote it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Config {
    pub resource: String,
    pub resource_args: Value,
    pub template_variables: Value,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Run {
    pub entity: String,
    pub project: String,
    pub name: String,
}

impl Run {
    pub fn path(&self) -> RunPath<'_> {
        RunPath { entity: &self.entity, project: &self.project, run: &self.name }
    }
}

/// What an agent reported.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Trouble {
    pub message: String,
    pub stage: String,
    pub file_paths: Vec<String>,
}

/// The agent that has an item.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Keeper {
    pub name: String,
    pub silent_s: i64,
}

/// Who answers for an item, and on which cluster or machine it runs, where that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct By<'a> {
    pub agent: &'a str,
    pub site: Option<&'a str>,
}

/// How an item's work ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct End<'a> {
    /// `finished`, `failed` or `stopped`.
    pub state: &'a str,
    /// `agent`, `build` or `run`.
    pub stage: &'a str,
    pub message: Option<&'a str>,
    pub exit_code: Option<i64>,
}

/// What is going on with an item; what is left out stays as it was noted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Note {
    /// Why it waits; `Some(None)` when it no longer does.
    pub waiting: Option<Option<String>>,
    pub is_running: bool,
    /// Rank → pod → node → GPUs.
    pub place: Option<Value>,
    /// What was submitted, without secrets.
    pub manifest: Option<Value>,
}

impl Client {
    /// Whether the server is ours; W&B's does not know these paths.
    pub async fn is_volley(&self) -> Result<bool> {
        match self.get("/api/v1/openapi.json").await {
            Ok(document) => Ok(document["paths"]["/api/v1/agents/{agent}/take"].is_object()),
            // Some proxies answer a page to whatever they do not know.
            Err(crate::Error::Strange { .. }) => Ok(false),
            Err(error) if error.is_passing() => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// All of the agent's queues that it has to know of; a sign of life.
    pub async fn agent_items(&self, agent: &str, with_specs: bool) -> Result<Vec<Item>> {
        let told = self.get(&format!("/api/v1/agents/{}/items?specs={with_specs}", part(agent))).await?;
        self.read(told)
    }

    /// The agent serves these queues from now on, by their ids.
    pub async fn serve_queues(&self, agent: &str, queues: &[String]) -> Result<()> {
        let path = format!("/api/v1/agents/{}/queues", part(agent));
        self.put(&path, &json!({ "queues": queues })).await.map(drop)
    }

    /// Takes up to `limit` items of a queue, by its name or id, for a minute; none of those `without`.
    pub async fn take(&self, agent: &str, queue: &str, limit: usize, without: &[String]) -> Result<Vec<Item>> {
        let path = format!("/api/v1/agents/{}/take", part(agent));
        let told = self.post(&path, &json!({ "queue": queue, "limit": limit, "without": without })).await?;
        self.read(told)
    }

    /// How the agent sees its cluster, for people.
    pub async fn tell_cluster(&self, agent: &str, cluster: &str, picture: &Value) -> Result<()> {
        let body = json!({ "cluster": cluster, "picture": picture });
        self.put(&format!("/api/v1/agents/{}/cluster", part(agent)), &body).await.map(drop)
    }

    /// A credential for the item's run, to be given to its workload; nothing when the item is no longer this agent's.
    pub async fn run_token(&self, lease: &str) -> Result<Option<String>> {
        let told = self.post(&format!("/api/v1/items/{}/token", part(lease)), &json!({})).await?;
        Ok(told["token"].as_str().map(str::to_owned))
    }

    /// Starts on an item under a run's name, which is made; whether it is still this agent's.
    pub async fn acknowledge_item(&self, lease: &str, by: By<'_>, project: Option<&str>, run: &str) -> Result<bool> {
        let body = json!({ "run": { "project": project, "name": run }, "agent": by.agent, "site": by.site });
        self.answer(lease, "acknowledge", &body).await
    }

    /// Gives back what did not fit.
    pub async fn release(&self, lease: &str) -> Result<bool> {
        self.answer(lease, "release", &json!({})).await
    }

    /// Takes over an orphaned item; nothing if somebody else did, or its agent came back.
    pub async fn adopt(&self, lease: &str, by: By<'_>) -> Result<Option<Item>> {
        match self.post(&path(lease, "/adopt"), &json!({ "agent": by.agent, "site": by.site })).await {
            Ok(told) => self.read(told).map(Some),
            Err(crate::Error::Refused { status, .. }) if status.as_u16() == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Puts back what was preempted in this attempt.
    pub async fn requeue(&self, lease: &str, attempt: u32, reason: &str) -> Result<bool> {
        self.answer(lease, "requeue", &json!({ "attempt": attempt, "reason": reason })).await
    }

    /// Ends an item and its run; doing it again changes nothing.
    pub async fn end_item(&self, lease: &str, end: &End<'_>) -> Result<bool> {
        let body =
            json!({ "state": end.state, "stage": end.stage, "message": end.message, "exit_code": end.exit_code });
        self.answer(lease, "end", &body).await
    }

    pub async fn note(&self, lease: &str, note: &Note) -> Result<bool> {
        let mut body = json!({});
        if let Some(waiting) = &note.waiting {
            body["waiting"] = json!(waiting);
        }
        if note.is_running {
            body["state"] = json!("running");
        }
        for (name, value) in [("place", &note.place), ("manifest", &note.manifest)] {
            if let Some(value) = value {
                body[name] = value.clone();
            }
        }
        self.answer(lease, "note", &body).await
    }

    /// Asks for an item's end; gives the state that it is in now.
    pub async fn stop_item(&self, id: &str) -> Result<String> {
        let told = self.post(&path(id, "/stop"), &json!({})).await?;
        Ok(told["state"].as_str().unwrap_or_default().to_owned())
    }

    pub async fn item(&self, id: &str) -> Result<Item> {
        let told = self.get(&path(id, "")).await?;
        self.read(told)
    }

    /// Puts work into a queue. The same key within a day is the same submission, so sending it again is safe.
    pub async fn submit(&self, entity: &str, queue: &str, work: &Submission<'_>) -> Result<String> {
        let query = "mutation pushToRunQueueByName($input: PushToRunQueueByNameInput!) { pushToRunQueueByName(input: $input) \
                     { runQueueItemId } }";
        let values = work.values.filter(|values| values.as_object().is_some_and(|values| !values.is_empty()));
        let input = json!({ "entityName": entity, "projectName": REGISTRY, "queueName": queue,
            "runSpec": work.spec.to_string(), "priority": work.priority,
            "templateVariableValues": values.map(Value::to_string) });
        let body = json!({ "query": query, "variables": { "input": input } });
        let told = self.post_with("/graphql", &body, &[("idempotency-key", work.key)]).await?;
        let id = &told["data"]["pushToRunQueueByName"]["runQueueItemId"];
        Ok(id.as_str().unwrap_or_default().to_owned())
    }

    /// What would be submitted; `objects`, `notes` and `problems`.
    pub async fn preview(&self, entity: &str, queue: &str, work: &Submission<'_>) -> Result<Value> {
        let body = json!({ "entity": entity, "queue": queue, "spec": work.spec, "values": work.values,
            "priority": work.priority });
        self.post("/api/v1/preview", &body).await
    }

    /// The items that ran under a run's name or path, newest first.
    pub async fn items_of_run(&self, run: &str) -> Result<Vec<Value>> {
        let told = self.get(&format!("/api/v1/items?run={}", part(run))).await?;
        self.read(told)
    }

    /// A run's console from a line on; with `follow` until the run ends.
    pub async fn console(&self, run: &Run, from: u64, tail: Option<u64>, follow: bool) -> Result<Lines> {
        let Run { entity, project, name } = run;
        let tail = tail.map(|tail| format!("&tail={tail}")).unwrap_or_default();
        let path = format!(
            "/api/v1/runs/{}/{}/{}/logs?from={from}&follow={follow}{tail}",
            part(entity),
            part(project),
            part(name)
        );
        let answer = self.stream(&path, &[]).await?;
        let first = answer.headers().get("x-volley-line").and_then(|line| line.to_str().ok()?.parse().ok());
        Ok(Lines { first: first.unwrap_or(from), answer, url: self.url.clone(), unread: BytesMut::new() })
    }

    async fn answer(&self, lease: &str, deed: &str, body: &Value) -> Result<bool> {
        let told = self.post(&path(lease, &format!("/{deed}")), body).await?;
        Ok(told["ok"].as_bool().unwrap_or(false))
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, told: Value) -> Result<T> {
        let strange =
            |error: serde_json::Error| crate::Error::Strange { url: self.url().to_owned(), what: error.to_string() };
        serde_json::from_value(told).map_err(strange)
    }
}

/// What is put into a queue.
#[derive(Clone, Copy, Debug)]
pub struct Submission<'a> {
    pub spec: &'a Value,
    pub values: Option<&'a Value>,
    pub priority: Option<i64>,
    pub key: &'a str,
}

/// Lines as they come.
pub struct Lines {
    /// The number of the first, counted from 0.
    pub first: u64,
    answer: Response,
    url: String,
    unread: BytesMut,
}

impl Lines {
    /// The next line without its end; nothing when there are no more.
    pub async fn next(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line = self.unread.split_to(end + 1);
                return Ok(Some(String::from_utf8_lossy(&line[..end]).into_owned()));
            }
            let lost =
                |source: reqwest::Error| crate::Error::Connect { url: self.url.clone(), source: source.without_url() };
            match self.answer.chunk().await.map_err(lost)? {
                Some(bytes) => self.unread.extend_from_slice(&bytes),
                None if self.unread.is_empty() => return Ok(None),
                None => self.unread.extend_from_slice(b"\n"),
            }
        }
    }
}

fn path(id: &str, rest: &str) -> String {
    format!("/api/v1/items/{}{rest}", part(id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_another_agent_has_comes_without_its_spec() {
        let told =
            json!({ "id": "i", "lease": "l", "state": "CLAIMED", "attempt": 1, "run": null, "stop_asked": true });
        let item: Item = serde_json::from_value(told).unwrap();
        assert!(item.spec.is_null() && item.run.is_none() && item.stop_asked);
    }
}
