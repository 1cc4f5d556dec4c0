//! Queues in the schema: how a project leads to them, and what they show.

use super::items::{self, Item, Report};
use super::limits::{RunQueueLimits, RunQueueStatistics, statistics};
use super::line::{self, RunQueuePlace};
use super::load::{self, RunQueueLoad};
use super::{Config, Queue as Record, store};
use crate::agent::{self, graphql::LaunchAgent};
use crate::connection;
use crate::fault::Result;
use crate::graphql::Asked as _;
use crate::graphql::page::{PAGE_DEFAULT, after, cursor, cut, length};
use crate::graphql::scalars::{DateTime, Json, JsonText};
use crate::ids;
use crate::project::Project as ProjectRecord;
use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use jiff::Timestamp;
use std::sync::Arc;
use volley_plan::people::Deed;
use volley_plan::queue::item::{End, State};
use volley_plan::queue::{spec, template};

pub struct ProjectQueues(pub Arc<ProjectRecord>);

#[Object]
impl ProjectQueues {
    async fn run_queue(&self, ctx: &Context<'_>, name: String) -> Result<Option<RunQueue>> {
        let queue = store::by_name(&ctx.shared().database, self.0.id, &name).await?;
        Ok(queue.filter(|queue| queue.is_open_to(ctx.caller(), Deed::See)).map(RunQueue))
    }

    async fn run_queues(&self, ctx: &Context<'_>) -> Result<Vec<RunQueue>> {
        let queues = store::of_project(&ctx.shared().database, self.0.id).await?;
        Ok(queues.into_iter().filter(|queue| queue.is_open_to(ctx.caller(), Deed::See)).map(RunQueue).collect())
    }
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum RunQueueAccessType {
    Project,
    User,
}

impl RunQueueAccessType {
    pub fn name(self) -> &'static str {
        match self {
            RunQueueAccessType::Project => "PROJECT",
            RunQueueAccessType::User => "USER",
        }
    }
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum RunQueuePrioritizationMode {
    Disabled,
    V0,
}

impl RunQueuePrioritizationMode {
    pub fn name(self) -> &'static str {
        match self {
            RunQueuePrioritizationMode::Disabled => "DISABLED",
            RunQueuePrioritizationMode::V0 => "V0",
        }
    }
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum RunQueueItemState {
    Pending,
    Leased,
    Claimed,
    Running,
    Finished,
    Failed,
}

impl From<State> for RunQueueItemState {
    fn from(state: State) -> RunQueueItemState {
        match state {
            State::Pending => RunQueueItemState::Pending,
            State::Leased => RunQueueItemState::Leased,
            State::Claimed => RunQueueItemState::Claimed,
            State::Running => RunQueueItemState::Running,
            State::Finished => RunQueueItemState::Finished,
            State::Failed => RunQueueItemState::Failed,
        }
    }
}

pub struct RunQueue(pub Record);

#[Object]
impl RunQueue {
    async fn id(&self) -> ID {
        ids::encode("RunQueue", self.0.id)
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn created_by(&self) -> Option<&str> {
        Some(&self.0.maker)
    }
    async fn access(&self) -> RunQueueAccessType {
        match self.0.access.as_str() {
            "USER" => RunQueueAccessType::User,
            _ => RunQueueAccessType::Project,
        }
    }
    async fn prioritization_mode(&self) -> RunQueuePrioritizationMode {
        match self.0.has_priorities() {
            true => RunQueuePrioritizationMode::V0,
            false => RunQueuePrioritizationMode::Disabled,
        }
    }
    #[graphql(name = "defaultResourceConfigID")]
    async fn config_id(&self) -> Option<ID> {
        self.0.config_id.map(|id| ids::encode("DefaultResourceConfig", id))
    }
    async fn default_resource_config(&self, ctx: &Context<'_>) -> Result<Option<DefaultResourceConfig>> {
        match self.0.config_id {
            Some(id) => DefaultResourceConfig::of_entity(ctx, self.0.entity_id, id).await,
            None => Ok(None),
        }
    }
    async fn external_links(&self) -> Option<Json> {
        serde_json::from_str(&self.0.links).ok().map(Json)
    }
    /// How much of its work there may be at once. Not in W&B's schema.
    async fn limits(&self) -> RunQueueLimits {
        self.0.limits.into()
    }
    /// What it came to in the last hours, a week if none are named. Not in W&B's schema.
    async fn statistics(&self, ctx: &Context<'_>, hours: Option<i32>) -> Result<RunQueueStatistics> {
        statistics(&ctx.shared().database, self.0.id, hours.unwrap_or(24 * 7), Timestamp::now()).await
    }
    /// How it was used in the last hours, a week if none are named: over time, and by person. Not in W&B's schema.
    async fn load(&self, ctx: &Context<'_>, hours: Option<i32>, points: Option<i32>) -> Result<RunQueueLoad> {
        load::load(&ctx.shared().database, self.0.id, load::Window { hours, points }, Timestamp::now()).await
    }
    /// The first of those that wait, in their order. Not in W&B's schema.
    async fn places(&self, ctx: &Context<'_>, first: Option<i32>) -> Result<Vec<RunQueuePlace>> {
        line::places(&ctx.shared().database, &self.0, length(first), Timestamp::now()).await
    }
    /// Whether the caller may launch into it. Not in W&B's schema, nor is what follows.
    async fn may_submit(&self, ctx: &Context<'_>) -> bool {
        self.0.is_open_to(ctx.caller(), Deed::Submit)
    }
    /// Whether the caller may change or delete it.
    async fn may_manage(&self, ctx: &Context<'_>) -> bool {
        self.0.is_open_to(ctx.caller(), Deed::ManageQueue)
    }
    /// The agents that said they serve this queue, those heard of last first.
    async fn launch_agents(&self, ctx: &Context<'_>) -> Result<Vec<LaunchAgent>> {
        let id = ids::encode("RunQueue", self.0.id);
        let agents = agent::store::of_queue(&ctx.shared().database, self.0.project_id, &id, PAGE_DEFAULT).await?;
        Ok(agents.into_iter().map(LaunchAgent::new).collect())
    }
    async fn run_queue_item(&self, ctx: &Context<'_>, id: ID) -> Result<Option<RunQueueItem>> {
        let Some((number, _)) = ids::decode_lease(&id) else {
            return Ok(None);
        };
        let item = items::by_id(&ctx.shared().database, number).await?;
        Ok(item.filter(|item| item.queue_id == self.0.id).map(RunQueueItem))
    }
    async fn run_queue_items(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        #[graphql(name = "after")] from: Option<String>,
    ) -> Result<RunQueueItemConnection> {
        let length = length(first);
        let rows = items::page(&ctx.shared().database, self.0.id, after(from.as_deref()), length + 1).await?;
        let (rows, has_more) = cut(rows, length);
        let nodes = rows.into_iter().map(|row| (cursor(row.id), RunQueueItem(row))).collect();
        Ok(RunQueueItemConnection::page(nodes, has_more))
    }
}

connection!(RunQueueItemConnection, RunQueueItemEdge, RunQueueItem);

pub struct RunQueueItem(pub Item);

#[Object]
impl RunQueueItem {
    async fn id(&self) -> ID {
        ids::encode("RunQueueItem", self.0.id)
    }
    async fn state(&self) -> RunQueueItemState {
        self.0.life.shown(Timestamp::now()).into()
    }
    async fn associated_run_id(&self) -> Option<&str> {
        self.0.life.run_name.as_deref()
    }
    async fn launch_agent_id(&self) -> Option<ID> {
        self.0.agent_id.map(|id| ids::encode("LaunchAgent", id))
    }
    async fn priority(&self) -> Option<i32> {
        i32::try_from(self.0.priority).ok()
    }
    /// What it waits for, in one sentence: a quota, or what its agent noted. Not in W&B's schema.
    async fn waiting_for(&self) -> Option<&str> {
        self.0.waiting.as_deref()
    }
    /// As many GPUs as it asks for. Not in W&B's schema.
    async fn gpus(&self) -> i32 {
        i32::try_from(self.0.gpus).unwrap_or(i32::MAX)
    }
    async fn run_spec(&self) -> Json {
        Json(spec::shown(self.0.spec()))
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    /// When an agent began with it. Not in W&B's schema, like the three that follow.
    async fn started_at(&self) -> Option<DateTime> {
        self.0.started_at.map(DateTime)
    }
    async fn ended_at(&self) -> Option<DateTime> {
        self.0.ended_at.map(DateTime)
    }
    /// How often it was put back after its process was preempted.
    async fn attempt(&self) -> i32 {
        i32::try_from(self.0.life.attempt).unwrap_or(i32::MAX)
    }
    /// How it ended: `finished`, `failed`, or `stopped`, which W&B's clients are told as failed.
    async fn end(&self) -> Option<&str> {
        self.0.life.end().map(End::name)
    }
    /// Whether somebody asked for its end, which has not come yet.
    async fn stop_asked(&self) -> bool {
        self.0.life.is_stop_asked && self.0.life.end().is_none()
    }
    async fn template_variable_values(&self) -> Option<Json> {
        serde_json::from_str(&self.0.template_values).ok().map(Json)
    }
    async fn error(&self) -> Option<RunQueueItemError> {
        let Report { message, stage, file_paths } = self.0.error()?;
        Some(RunQueueItemError { message, stage, file_paths: Some(file_paths) })
    }
    async fn warnings(&self) -> Option<Vec<RunQueueItemWarning>> {
        let told = |Report { message, stage, file_paths }| RunQueueItemWarning {
            message,
            stage,
            file_paths: Some(file_paths),
        };
        Some(self.0.warnings().into_iter().map(told).collect())
    }
}

#[derive(SimpleObject)]
pub struct RunQueueItemError {
    message: String,
    stage: String,
    file_paths: Option<Vec<String>>,
}

#[derive(SimpleObject)]
pub struct RunQueueItemWarning {
    message: String,
    stage: String,
    file_paths: Option<Vec<String>>,
}

pub struct DefaultResourceConfig(Config);

impl DefaultResourceConfig {
    pub async fn of_entity(ctx: &Context<'_>, entity: i64, id: i64) -> Result<Option<DefaultResourceConfig>> {
        let config = store::config_by_id(&ctx.shared().database, id).await?;
        Ok(config.filter(|config| config.entity_id == entity).map(DefaultResourceConfig))
    }

    pub async fn all_of_entity(ctx: &Context<'_>, entity: i64) -> Result<Vec<DefaultResourceConfig>> {
        let configs = store::configs_of(&ctx.shared().database, entity, PAGE_DEFAULT).await?;
        Ok(configs.into_iter().map(DefaultResourceConfig).collect())
    }
}

#[Object]
impl DefaultResourceConfig {
    async fn id(&self) -> ID {
        ids::encode("DefaultResourceConfig", self.0.id)
    }
    async fn resource(&self) -> &str {
        &self.0.resource
    }
    async fn config(&self) -> Json {
        Json(serde_json::from_str(&self.0.config).unwrap_or_default())
    }
    async fn template_variables(&self) -> Vec<TemplateVariable> {
        let variables = template::declare(&self.0.variables).unwrap_or_default();
        let told = |variable: template::Variable| TemplateVariable {
            name: variable.name,
            description: variable.description,
            schema: JsonText(variable.text),
        };
        variables.into_iter().map(told).collect()
    }
}

#[derive(SimpleObject)]
pub struct TemplateVariable {
    name: String,
    description: Option<String>,
    schema: JsonText,
}
