//! Sweeps in the schema.

use super::{Sweep as Record, store};
use crate::connection;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::{after, cursor, cut, length};
use crate::graphql::scalars::{DateTime, JsonText};
use crate::ids;
use crate::project::graphql::Project;
use crate::project::{self, Project as ProjectRecord};
use crate::run::graphql::{Run, RunConnection};
use crate::run::store as runs;
use async_graphql::{Context, ID, Object, SimpleObject};
use std::sync::Arc;
use volley_plan::sweep::{config, search};

pub struct ProjectSweeps(pub Arc<ProjectRecord>);

#[Object]
impl ProjectSweeps {
    async fn sweep(&self, ctx: &Context<'_>, sweep_name: String) -> Result<Option<Sweep>> {
        Ok(store::by_name(&ctx.shared().database, self.0.id, &sweep_name).await?.map(Sweep))
    }

    async fn sweeps(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        #[graphql(name = "after")] from: Option<String>,
        #[graphql(name = "filters")] _filters: Option<JsonText>,
    ) -> Result<Option<SweepConnection>> {
        let length = length(first);
        let rows = store::of_project(&ctx.shared().database, self.0.id, after(from.as_deref()), length + 1).await?;
        let (rows, has_more) = cut(rows, length);
        let nodes = rows.into_iter().map(|row| (cursor(row.id), Sweep(row))).collect();
        Ok(Some(SweepConnection::page(nodes, has_more)))
    }

    async fn total_sweeps(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        let count = store::count(&ctx.shared().database, self.0.id).await?;
        Ok(Some(i32::try_from(count).unwrap_or(i32::MAX)))
    }
}

connection!(SweepConnection, SweepEdge, Sweep);

pub struct Sweep(pub Record);

#[Object]
impl Sweep {
    async fn id(&self) -> ID {
        ids::encode("Sweep", self.0.id)
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn display_name(&self) -> Option<&str> {
        self.0.display_name.as_deref()
    }
    async fn method(&self) -> String {
        let config = super::yaml(&self.0.config).unwrap_or_default();
        config.get("method").and_then(|method| method.as_str()).unwrap_or("custom").to_owned()
    }
    async fn state(&self) -> &str {
        &self.0.state
    }
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }
    async fn best_loss(&self) -> Option<f64> {
        None
    }
    async fn config(&self) -> &str {
        &self.0.config
    }
    async fn controller(&self) -> Option<JsonText> {
        self.0.controller.clone().map(JsonText)
    }
    async fn scheduler(&self) -> Option<JsonText> {
        self.0.scheduler.clone().map(JsonText)
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> Option<DateTime> {
        Some(DateTime(self.0.updated_at))
    }
    async fn heartbeat_at(&self) -> Option<DateTime> {
        self.0.heartbeat_at.map(DateTime)
    }
    async fn run_count(&self, ctx: &Context<'_>) -> Result<i32> {
        let found = runs::of_sweep(&ctx.shared().database, self.0.project_id, &self.0.name).await?;
        Ok(i32::try_from(found.len()).unwrap_or(i32::MAX))
    }
    async fn run_count_expected(&self) -> Option<i32> {
        let config = config::read(&super::yaml(&self.0.config).ok()?).ok()?;
        search::expected(&config).and_then(|count| i32::try_from(count).ok())
    }
    async fn controller_run_name(&self) -> Option<&str> {
        None
    }
    async fn project(&self, ctx: &Context<'_>) -> Result<Project> {
        let project = project::store::by_id(&ctx.shared().database, self.0.project_id).await?;
        project.map(Project::new).ok_or_else(|| Fault::missing("the project"))
    }
    async fn runs(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        #[graphql(name = "after")] from: Option<String>,
        #[graphql(name = "order")] _order: Option<String>,
    ) -> Result<Option<RunConnection>> {
        let mut found = runs::of_sweep(&ctx.shared().database, self.0.project_id, &self.0.name).await?;
        let seen = after(from.as_deref());
        found.retain(|run| run.id > seen);
        let (rows, has_more) = cut(found, length(first));
        let nodes = rows.into_iter().map(|row| (cursor(row.id), Run::new(row))).collect();
        Ok(Some(RunConnection::page(nodes, has_more)))
    }
    async fn agents(&self, ctx: &Context<'_>) -> Result<Option<SweepAgentConnection>> {
        let agents = store::agents_of(&ctx.shared().database, self.0.id).await?;
        let edges = agents.into_iter().map(|agent| SweepAgentEdge { node: Some(Agent(agent)) }).collect();
        Ok(Some(SweepAgentConnection { edges }))
    }
    async fn agent(&self, ctx: &Context<'_>, agent_name: String) -> Result<Option<Agent>> {
        let agents = store::agents_of(&ctx.shared().database, self.0.id).await?;
        Ok(agents.into_iter().find(|agent| agent.name == agent_name).map(Agent))
    }
    async fn early_stop_job_running(&self) -> Option<bool> {
        Some(false)
    }
}

#[derive(SimpleObject)]
pub struct SweepAgentConnection {
    edges: Vec<SweepAgentEdge>,
}

#[derive(SimpleObject)]
pub struct SweepAgentEdge {
    node: Option<Agent>,
}

pub struct Agent(pub store::Agent);

#[Object]
impl Agent {
    async fn id(&self) -> ID {
        ids::encode("Agent", self.0.id)
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn host(&self) -> Option<&str> {
        Some(&self.0.host)
    }
    async fn state(&self) -> Option<&str> {
        Some(&self.0.state)
    }
    async fn total_runs(&self) -> Option<i32> {
        None
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn heartbeat_at(&self) -> Option<DateTime> {
        Some(DateTime(self.0.heartbeat_at))
    }
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn runs(
        &self,
        #[graphql(name = "first")] _first: Option<i32>,
        #[graphql(name = "after")] _after: Option<String>,
        #[graphql(name = "last")] _last: Option<i32>,
        #[graphql(name = "before")] _before: Option<String>,
        #[graphql(name = "order")] _order: Option<String>,
    ) -> Option<RunConnection> {
        None
    }
}
