//! Queues, runs and their people, as the command line asks for them.

use crate::launch::REGISTRY;
use crate::{Client, Result, part};
use serde_json::{Value, json};

const QUEUE: &str = "id name createdBy access prioritizationMode externalLinks \
    defaultResourceConfig { resource config templateVariables { name description schema } }";
const RUN: &str = "id name displayName state tags group jobType host createdAt heartbeatAt exitcode notes stopped \
    historyLineCount logLineCount user { username } config summaryMetrics";

/// What a queue is made of, as a file has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueSpec {
    pub resource: String,
    pub config: Value,
    /// Names, each with a schema and maybe a description.
    pub variables: Value,
    pub has_priorities: bool,
}

impl Client {
    pub async fn queues(&self, entity: &str) -> Result<Vec<Value>> {
        let query = format!(
            "query Queues($entity: String!) {{ project(name: \"{REGISTRY}\", entityName: $entity) {{ runQueues {{ {QUEUE} }} }} }}"
        );
        let mut answer = self.graphql(&query, json!({ "entity": entity })).await?;
        Ok(list(answer["project"]["runQueues"].take()))
    }

    /// The queues with the agents that serve them, which only our own server tells.
    pub async fn queues_with_agents(&self, entity: &str) -> Result<Vec<Value>> {
        let query = format!(
            "query QueuesWithAgents($entity: String!) {{ project(name: \"{REGISTRY}\", entityName: $entity) {{ runQueues {{ \
             id name defaultResourceConfig {{ resource }} launchAgents {{ id agentStatus heartbeatAt agentConfig }} }} }} }}"
        );
        let mut answer = self.graphql(&query, json!({ "entity": entity })).await?;
        Ok(list(answer["project"]["runQueues"].take()))
    }

    pub async fn queue(&self, entity: &str, name: &str) -> Result<Option<Value>> {
        let queues = self.queues(entity).await?;
        Ok(queues.into_iter().find(|queue| queue["name"] == name))
    }

    pub async fn upsert_queue(&self, entity: &str, name: &str, spec: &QueueSpec) -> Result<()> {
        let query =
            "mutation upsertRunQueue($input: UpsertRunQueueInput!) { upsertRunQueue(input: $input) { success } }";
        let mode = if spec.has_priorities { "V0" } else { "DISABLED" };
        let input = json!({ "entityName": entity, "projectName": REGISTRY, "queueName": name,
            "resourceType": spec.resource, "resourceConfig": spec.config.to_string(),
            "templateVariables": spec.variables.to_string(), "prioritizationMode": mode });
        self.graphql(query, json!({ "input": input })).await.map(drop)
    }

    pub async fn delete_queue(&self, id: &str) -> Result<()> {
        let query = "mutation deleteRunQueues($ids: [ID!]!) { deleteRunQueues(input: {queueIDs: $ids}) { success } }";
        self.graphql(query, json!({ "ids": [id] })).await.map(drop)
    }

    pub async fn runs(&self, entity: &str, project: &str, first: usize) -> Result<Vec<Value>> {
        let query = format!(
            "query Runs($entity: String!, $project: String!, $first: Int!) {{ project(name: $project, entityName: $entity) \
             {{ runs(first: $first, order: \"-created_at\") {{ edges {{ node {{ {RUN} }} }} }} }} }}"
        );
        let mut answer = self.graphql(&query, json!({ "entity": entity, "project": project, "first": first })).await?;
        let edges = list(answer["project"]["runs"]["edges"].take());
        Ok(edges.into_iter().map(|mut edge| edge["node"].take()).collect())
    }

    pub async fn run(&self, entity: &str, project: &str, run: &str) -> Result<Option<Value>> {
        let query = format!(
            "query Run($entity: String!, $project: String!, $run: String!) {{ project(name: $project, entityName: $entity) \
             {{ run(name: $run) {{ {RUN} }} }} }}"
        );
        let mut answer = self.graphql(&query, json!({ "entity": entity, "project": project, "run": run })).await?;
        let run = answer["project"]["run"].take();
        Ok(run.is_object().then_some(run))
    }

    pub async fn stop_run(&self, id: &str) -> Result<()> {
        let query = "mutation stopRun($id: ID!) { stopRun(input: {id: $id}) { success } }";
        self.graphql(query, json!({ "id": id })).await.map(drop)
    }

    pub async fn projects(&self, entity: &str) -> Result<Vec<String>> {
        let query =
            "query Projects($entity: String!) { models(entityName: $entity, first: 1000) { edges { node { name } } } }";
        let mut answer = self.graphql(query, json!({ "entity": entity })).await?;
        let edges = list(answer["models"]["edges"].take());
        Ok(edges.iter().filter_map(|edge| edge["node"]["name"].as_str()).map(str::to_owned).collect())
    }

    /// What waits and runs; with `all`, also what has ended.
    pub async fn items(&self, entity: Option<&str>, queue: Option<&str>, all: bool) -> Result<Vec<Value>> {
        let mut path = format!("/api/v1/items?all={all}");
        for (name, value) in [("entity", entity), ("queue", queue)] {
            if let Some(value) = value {
                path.push_str(&format!("&{name}={}", part(value)));
            }
        }
        self.get(&path).await.map(list)
    }
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        _ => Vec::new(),
    }
}
