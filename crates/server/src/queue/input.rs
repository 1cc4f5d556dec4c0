//! What clients send to change queues and items, and what they get back.

use super::graphql::{RunQueueAccessType, RunQueuePrioritizationMode};
use crate::graphql::scalars::{Json, JsonText};
use async_graphql::{ID, InputObject, SimpleObject};

#[derive(InputObject)]
pub struct CreateDefaultResourceConfigInput {
    pub entity_name: String,
    pub resource: String,
    pub config: JsonText,
    pub template_variables: Option<JsonText>,
}

#[derive(SimpleObject)]
pub struct CreateDefaultResourceConfigPayload {
    #[graphql(name = "defaultResourceConfigID")]
    pub config_id: ID,
    pub success: bool,
}

#[derive(InputObject)]
pub struct CreateRunQueueInput {
    pub entity_name: String,
    pub project_name: String,
    pub queue_name: String,
    pub access: RunQueueAccessType,
    pub prioritization_mode: Option<RunQueuePrioritizationMode>,
    #[graphql(name = "defaultResourceConfigID")]
    pub config_id: Option<ID>,
    pub client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateRunQueuePayload {
    pub success: Option<bool>,
    #[graphql(name = "queueID")]
    pub queue_id: Option<ID>,
}

#[derive(InputObject)]
pub struct UpsertRunQueueInput {
    pub entity_name: String,
    pub project_name: String,
    pub queue_name: String,
    pub resource_type: String,
    pub resource_config: JsonText,
    pub template_variables: Option<JsonText>,
    pub prioritization_mode: Option<RunQueuePrioritizationMode>,
    pub external_links: Option<JsonText>,
    pub client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct UpsertRunQueuePayload {
    pub success: Option<bool>,
    pub config_schema_validation_errors: Option<Vec<String>>,
}

#[derive(InputObject)]
pub struct DeleteRunQueuesInput {
    #[graphql(name = "queueIDs")]
    pub queue_ids: Vec<ID>,
    pub client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct PushToRunQueueInput {
    #[graphql(name = "queueID")]
    pub queue_id: ID,
    pub run_spec: JsonText,
    pub template_variable_values: Option<JsonText>,
    pub priority: Option<i32>,
}

#[derive(SimpleObject)]
pub struct PushToRunQueuePayload {
    pub run_queue_item_id: ID,
}

#[derive(InputObject)]
pub struct PushToRunQueueByNameInput {
    pub entity_name: String,
    pub project_name: String,
    pub queue_name: String,
    pub run_spec: JsonText,
    pub priority: Option<i32>,
    pub template_variable_values: Option<JsonText>,
}

#[derive(SimpleObject)]
pub struct PushToRunQueueByNamePayload {
    pub run_queue_item_id: ID,
    pub run_spec: Option<JsonText>,
}

#[derive(InputObject)]
pub struct PopFromRunQueueInput {
    pub entity_name: String,
    pub project_name: String,
    pub queue_name: String,
    pub launch_agent_id: Option<ID>,
}

#[derive(SimpleObject)]
pub struct PopFromRunQueuePayload {
    pub run_queue_item_id: ID,
    pub run_spec: Json,
}

#[derive(InputObject)]
pub struct AckRunQueueItemInput {
    pub run_queue_item_id: ID,
    pub run_name: String,
}

#[derive(InputObject)]
pub struct FailRunQueueItemInput {
    pub run_queue_item_id: ID,
    pub message: String,
    pub stage: String,
    pub file_paths: Option<Vec<String>>,
}

#[derive(InputObject)]
pub struct UpdateRunQueueItemWarningInput {
    pub run_queue_item_id: ID,
    pub message: String,
    pub stage: String,
    pub file_paths: Option<Vec<String>>,
}

#[derive(InputObject)]
pub struct DeleteFromRunQueueInput {
    #[graphql(name = "queueID")]
    pub queue_id: ID,
    pub run_queue_item_id: ID,
    pub client_mutation_id: Option<String>,
}
