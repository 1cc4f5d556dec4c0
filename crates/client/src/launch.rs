//! What an agent says and asks: it registers, takes items, answers for them, and logs for runs that do not log themselves.
//!
//! The operations are W&B's own, so that the same calls serve their server.

use crate::{Client, Result, part};
use serde_json::{Value, json};

/// The hidden project in which every entity's queues are kept.
pub const REGISTRY: &str = "model-registry";

/// An item that was taken. Its id carries the lease: whoever holds an older one is refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Lease {
    pub item: String,
    pub spec: Value,
}

/// What an agent reports of an item.
#[derive(Clone, Debug, PartialEq)]
pub struct Report<'a> {
    pub message: &'a str,
    /// `agent`, `build`, `run` and so on.
    pub stage: &'a str,
    /// Files of the agent's own run that say more.
    pub file_paths: &'a [String],
}

/// A run by its three names.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunPath<'a> {
    pub entity: &'a str,
    pub project: &'a str,
    pub run: &'a str,
}

impl Client {
    /// The user that the key belongs to, and its own entity.
    pub async fn viewer(&self) -> Result<(String, String)> {
        let answer = self.graphql("query Viewer { viewer { username entity } }", json!({})).await?;
        Ok((text(&answer["viewer"]["username"]), text(&answer["viewer"]["entity"])))
    }

    /// Makes a launch agent for these queues, by their ids.
    pub async fn register_agent(
        &self,
        entity: &str,
        queues: &[String],
        hostname: &str,
        config: &Value,
    ) -> Result<String> {
        let query = "mutation createLaunchAgent($input: CreateLaunchAgentInput!) { createLaunchAgent(input: $input) \
                     { launchAgentId } }";
        let version = env!("CARGO_PKG_VERSION");
        let input = json!({ "entityName": entity, "projectName": REGISTRY, "runQueues": queues, "hostname": hostname,
            "agentConfig": config.to_string(), "version": version });
        let answer = self.graphql(query, json!({ "input": input })).await?;
        Ok(text(&answer["createLaunchAgent"]["launchAgentId"]))
    }

    /// Says that the agent lives; gives whether it is told to stop taking items.
    pub async fn agent_is_told_to_stop(&self, agent: &str) -> Result<bool> {
        let query = "query LaunchAgent($id: ID!) { launchAgent(id: $id) { stopPolling } }";
        let answer = self.graphql(query, json!({ "id": agent })).await?;
        Ok(answer["launchAgent"]["stopPolling"].as_bool().unwrap_or(true))
    }

    /// `POLLING`, `RUNNING` or `KILLED`.
    pub async fn report_agent(&self, agent: &str, status: &str) -> Result<()> {
        let query = "mutation updateLaunchAgent($input: UpdateLaunchAgentInput!) { updateLaunchAgent(input: $input) { success } }";
        self.graphql(query, json!({ "input": { "launchAgentId": agent, "agentStatus": status } })).await.map(drop)
    }

    /// Takes the next item of a queue for a minute, if one waits that may start.
    pub async fn pop(&self, entity: &str, queue: &str, agent: Option<&str>) -> Result<Option<Lease>> {
        let query = "mutation popFromRunQueue($input: PopFromRunQueueInput!) { popFromRunQueue(input: $input) \
                     { runQueueItemId runSpec } }";
        let input =
            json!({ "entityName": entity, "projectName": REGISTRY, "queueName": queue, "launchAgentId": agent });
        let mut answer = self.graphql(query, json!({ "input": input })).await?;
        let mut popped = answer["popFromRunQueue"].take();
        Ok(popped.is_object().then(|| Lease { item: text(&popped["runQueueItemId"]), spec: popped["runSpec"].take() }))
    }

    /// Answers for an item with the name of its run; whether it is still this agent's.
    pub async fn acknowledge(&self, item: &str, run: &str) -> Result<bool> {
        let query =
            "mutation ackRunQueueItem($input: AckRunQueueItemInput!) { ackRunQueueItem(input: $input) { success } }";
        let answer = self.graphql(query, json!({ "input": { "runQueueItemId": item, "runName": run } })).await?;
        Ok(answer["ackRunQueueItem"]["success"].as_bool().unwrap_or(false))
    }

    pub async fn fail(&self, item: &str, report: &Report<'_>) -> Result<()> {
        let query =
            "mutation failRunQueueItem($input: FailRunQueueItemInput!) { failRunQueueItem(input: $input) { success } }";
        self.graphql(query, json!({ "input": report.input(item) })).await.map(drop)
    }

    pub async fn warn(&self, item: &str, report: &Report<'_>) -> Result<()> {
        let query = "mutation updateRunQueueItemWarning($input: UpdateRunQueueItemWarningInput!) \
                     { updateRunQueueItemWarning(input: $input) { success } }";
        self.graphql(query, json!({ "input": report.input(item) })).await.map(drop)
    }

    /// Begins a run, or goes on with it. `fields` are those of `upsertBucket`'s input beside the names.
    pub async fn begin_run(&self, path: RunPath<'_>, fields: &Value) -> Result<String> {
        let query =
            "mutation UpsertBucket($input: UpsertBucketInput!) { upsertBucket(input: $input) { bucket { id } } }";
        let mut input = json!({ "entityName": path.entity, "modelName": path.project, "name": path.run });
        if let (Some(input), Some(fields)) = (input.as_object_mut(), fields.as_object()) {
            input.extend(fields.clone());
        }
        let answer = self.graphql(query, json!({ "input": input })).await?;
        Ok(text(&answer["upsertBucket"]["bucket"]["id"]))
    }

    /// Lines of the console from line `offset` on, which is also a sign of life; whether the run is to stop.
    pub async fn log(&self, path: RunPath<'_>, offset: u64, lines: &[String]) -> Result<bool> {
        let files = json!({ "output.log": { "offset": offset, "content": lines } });
        self.file_stream(path, &json!({ "files": files })).await
    }

    /// The same for one of several who write to the run: what was sent before under the writer's name is passed over, and
    /// a run that has ended stays so.
    pub async fn log_beside(&self, path: RunPath<'_>, writer: &str, offset: u64, lines: &[String]) -> Result<bool> {
        let post = match lines.is_empty() {
            true => json!({}),
            false => json!({ "files": { "output.log": { "offset": offset, "content": lines } } }),
        };
        let fields = [("x-wandb-use-async-filestream", "true"), ("x-wandb-async-client-id", writer)];
        let answer = self.post_with(&file_stream_path(path), &post, &fields).await?;
        Ok(answer["stopped"].as_bool().unwrap_or(false))
    }

    pub async fn end_run(&self, path: RunPath<'_>, exit_code: i64) -> Result<()> {
        self.file_stream(path, &json!({ "complete": true, "exitcode": exit_code })).await.map(drop)
    }

    async fn file_stream(&self, path: RunPath<'_>, post: &Value) -> Result<bool> {
        Ok(self.post(&file_stream_path(path), post).await?["stopped"].as_bool().unwrap_or(false))
    }
}

fn file_stream_path(RunPath { entity, project, run }: RunPath<'_>) -> String {
    format!("/files/{}/{}/{}/file_stream", part(entity), part(project), part(run))
}

impl Report<'_> {
    fn input(&self, item: &str) -> Value {
        json!({ "runQueueItemId": item, "message": self.message, "stage": self.stage, "filePaths": self.file_paths })
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
