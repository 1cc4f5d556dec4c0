//! Sweeps in the schema.

use super::{Sweep as Record, early, store};
use crate::connection;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::scalars::{DateTime, JsonText, date_text};
use crate::graphql::search::{self, Search};
use crate::ids;
use crate::project::graphql::Project;
use crate::project::{self, Project as ProjectRecord};
use crate::run::fields::Fields;
use crate::run::graphql::{Run, RunConnection};
use crate::run::{Run as RunRecord, store as runs};
use async_graphql::{Context, ID, Object, SimpleObject};
use serde_json::Value;
use std::sync::Arc;
use volley_plan::sweep::{config, search as plan};

/// A project with more sweeps than this is not searched to its end.
const SWEEPS_MAX: usize = 10_000;

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
        after: Option<String>,
        filters: Option<JsonText>,
    ) -> Result<Option<SweepConnection>> {
        let search = Search::read(filters.as_ref(), None)?;
        let all = store::of_project(&ctx.shared().database, self.0.id, 0, SWEEPS_MAX).await?;
        let (rows, has_more) = search.apply(all, field, |sweep| (sweep.id, 0)).page(first, after.as_deref());
        let nodes = rows.into_iter().map(|(cursor, row)| (cursor, Sweep(row))).collect();
        Ok(Some(SweepConnection::page(nodes, has_more)))
    }

    async fn total_sweeps(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        let count = store::count(&ctx.shared().database, self.0.id).await?;
        Ok(Some(i32::try_from(count).unwrap_or(i32::MAX)))
    }
}

/// A sweep as filters see it.
fn field(sweep: &Record, field: &str) -> Option<Value> {
    let date = |at: i64| Some(Value::from(date_text(at)));
    match field {
        "name" => Some(Value::from(sweep.name.as_str())),
        "displayName" | "display_name" => sweep.display_name.as_deref().map(Value::from),
        "description" => sweep.description.as_deref().map(Value::from),
        "state" => Some(Value::from(sweep.state.as_str())),
        "method" => Some(Value::from(method(sweep))),
        "createdAt" | "created_at" => date(sweep.created_at),
        "updatedAt" | "updated_at" => date(sweep.updated_at),
        _ => None,
    }
}

fn method(sweep: &Record) -> String {
    let config = super::yaml(&sweep.config).unwrap_or_default();
    config.get("method").and_then(Value::as_str).unwrap_or("custom").to_owned()
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
        method(&self.0)
    }
    async fn state(&self) -> &str {
        &self.0.state
    }
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }
    async fn best_loss(&self, ctx: &Context<'_>) -> Result<Option<f64>> {
        let config = super::yaml(&self.0.config).ok().and_then(|value| config::read(&value).ok());
        let Some(metric) = config.and_then(|config| config.metric) else {
            return Ok(None);
        };
        let summaries = store::summaries(&ctx.shared().database, &self.0).await?;
        let losses = summaries.iter().filter_map(|summary| early::outcome_of(&metric, summary));
        Ok(losses.map(|value| metric.loss(value)).min_by(f64::total_cmp).map(|loss| metric.loss(loss)))
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
        let count = store::run_count(&ctx.shared().database, &self.0).await?;
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    }
    async fn run_count_expected(&self) -> Option<i32> {
        let config = config::read(&super::yaml(&self.0.config).ok()?).ok()?;
        plan::expected(&config).and_then(|count| i32::try_from(count).ok())
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
        after: Option<String>,
        order: Option<String>,
    ) -> Result<Option<RunConnection>> {
        let found = runs::of_sweep(&ctx.shared().database, self.0.project_id, &self.0.name).await?;
        page(found, order.as_deref(), first, after.as_deref()).map(Some)
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

fn page(runs: Vec<RunRecord>, order: Option<&str>, first: Option<i32>, after: Option<&str>) -> Result<RunConnection> {
    let field = |run: &RunRecord, field: &str| Fields::of(run).get(field);
    let found = Search::read(None, order)?.apply(runs, field, |run| (run.id, 0));
    let (rows, has_more) = found.page(first, after);
    let nodes = rows.into_iter().map(|(cursor, row)| (cursor, Run::new(row))).collect();
    Ok(RunConnection::page(nodes, has_more))
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
    async fn total_runs(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        let given = store::runs_of_agent(&ctx.shared().database, self.0.id).await?;
        Ok(Some(search::total(&given)))
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
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        #[graphql(name = "last")] _last: Option<i32>,
        #[graphql(name = "before")] _before: Option<String>,
        order: Option<String>,
    ) -> Result<Option<RunConnection>> {
        let database = &ctx.shared().database;
        let Some(sweep) = store::by_id(database, self.0.sweep_id).await? else {
            return Ok(None);
        };
        let given = store::runs_of_agent(database, self.0.id).await?;
        let mut found = runs::of_sweep(database, sweep.project_id, &sweep.name).await?;
        found.retain(|run| given.contains(&run.name));
        page(found, order.as_deref(), first, after.as_deref()).map(Some)
    }
}
