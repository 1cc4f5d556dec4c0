//! Runs in the schema.

pub mod mutation;
pub mod project;
mod reading;

use super::Run as Record;
use crate::artifact::graphql::run::RunArtifacts;
use crate::connection;
use crate::fault::Result;
use crate::file::graphql::RunFiles;
use crate::graphql::Asked as _;
use crate::graphql::scalars::{DateTime, JsonText};
use crate::people::graphql::User;
use crate::project::graphql::Project;
use crate::{people, project as projects};
use async_graphql::{Context, ID, MergedObject, Object, SimpleObject};
use reading::RunReading;
use serde_json::{Map, Value};
use std::sync::Arc;
use volley_plan::run::lenient;

#[derive(MergedObject)]
pub struct Run(RunItself, RunReading, RunFiles, RunArtifacts);

impl Run {
    pub fn new(record: Record) -> Run {
        let record = Arc::new(record);
        Run(RunItself(record.clone()), RunReading(record.clone()), RunFiles(record.clone()), RunArtifacts(record))
    }
}

connection!(RunConnection, RunEdge, Run);

pub struct RunItself(Arc<Record>);

#[Object]
impl RunItself {
    async fn id(&self) -> ID {
        self.0.global_id()
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn project_id(&self) -> i32 {
        i32::try_from(self.0.project_id).unwrap_or(i32::MAX)
    }
    async fn project(&self, ctx: &Context<'_>) -> Result<Option<Project>> {
        Ok(projects::store::by_id(&ctx.shared().database, self.0.project_id).await?.map(Project::new))
    }
    async fn display_name(&self) -> Option<&str> {
        Some(&self.0.display_name)
    }
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }
    async fn notes(&self) -> Option<&str> {
        self.0.notes.as_deref()
    }
    async fn tags(&self) -> Option<Vec<String>> {
        Some(self.0.tag_list())
    }
    async fn state(&self) -> Option<&str> {
        Some(&self.0.state)
    }
    async fn stopped(&self) -> Option<bool> {
        Some(self.0.is_stopped)
    }
    async fn config(&self) -> Option<JsonText> {
        Some(JsonText(self.0.config.clone()))
    }
    /// What the client keeps for itself in the config, or the keys of it that are asked for.
    async fn wandb_config(&self, keys: Option<Vec<String>>) -> Option<JsonText> {
        let config = lenient::parse(&self.0.config).unwrap_or_default();
        let mut own = match config.pointer("/_wandb/value") {
            Some(Value::Object(own)) => own.clone(),
            _ => Map::new(),
        };
        if let Some(keys) = keys {
            own.retain(|key, _| keys.contains(key));
        }
        Some(JsonText(Value::Object(own).to_string()))
    }
    async fn summary_metrics(&self) -> Option<JsonText> {
        Some(JsonText(self.0.summary.clone()))
    }
    async fn system_metrics(&self) -> Option<JsonText> {
        Some(JsonText(self.0.system_metrics.clone()))
    }
    async fn group(&self) -> Option<&str> {
        self.0.group_name.as_deref()
    }
    async fn job_type(&self) -> Option<&str> {
        self.0.job_type.as_deref()
    }
    async fn commit(&self) -> Option<&str> {
        self.0.commit_hash.as_deref()
    }
    async fn host(&self) -> Option<&str> {
        self.0.host.as_deref()
    }
    async fn read_only(&self) -> Option<bool> {
        Some(false)
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> Option<DateTime> {
        Some(DateTime(self.0.updated_at))
    }
    async fn heartbeat_at(&self) -> Option<DateTime> {
        Some(DateTime(self.0.heartbeat_at))
    }
    async fn sweep_name(&self) -> Option<&str> {
        self.0.sweep_name.as_deref()
    }
    async fn user(&self, ctx: &Context<'_>) -> Result<Option<User>> {
        Ok(people::store::user_by_id(&ctx.shared().database, self.0.user_id).await?.map(User))
    }
    async fn job_repo(&self) -> Option<&str> {
        self.0.repo.as_deref()
    }
    async fn run_info(&self) -> Option<RunInfo> {
        Some(RunInfo::of(&self.0))
    }
    async fn patch(&self) -> Option<&str> {
        None
    }
    async fn exitcode(&self) -> Option<i32> {
        self.0.exit_code.and_then(|code| i32::try_from(code).ok())
    }
    async fn should_stop(&self) -> Option<bool> {
        Some(self.0.is_stopped)
    }
    async fn failed(&self) -> Option<bool> {
        Some(matches!(self.0.state.as_str(), "failed" | "crashed"))
    }
    async fn running(&self) -> Option<bool> {
        Some(self.0.state == "running")
    }
}

/// Where and how a run's process was started, as its client says in the config.
#[derive(SimpleObject, Default)]
pub struct RunInfo {
    program: Option<String>,
    args: Option<Vec<String>>,
    os: Option<String>,
    python: Option<String>,
    colab: Option<String>,
    executable: Option<String>,
    code_saved: Option<bool>,
    cpu_count: Option<i32>,
    gpu_count: Option<i32>,
    gpu: Option<String>,
    git: Option<RunGit>,
}

#[derive(SimpleObject)]
pub struct RunGit {
    remote: Option<String>,
    commit: Option<String>,
}

impl RunInfo {
    fn of(run: &Record) -> RunInfo {
        let config = lenient::parse(&run.config).unwrap_or_default();
        // One entry for each process that wrote the run; they were started alike.
        let told = config.pointer("/_wandb/value/e").and_then(|told| told.as_object()?.values().next().cloned());
        let told = told.unwrap_or_default();
        let text = |key: &str| told.get(key).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| told.get(key).and_then(Value::as_i64).and_then(|number| i32::try_from(number).ok());
        let args = told.get("args").and_then(Value::as_array);
        let git = run.repo.is_some() || run.commit_hash.is_some();
        RunInfo {
            program: run.program.clone().or_else(|| text("program")),
            args: args.map(|args| args.iter().filter_map(|arg| arg.as_str().map(str::to_owned)).collect()),
            os: text("os"),
            python: text("python"),
            colab: text("colab"),
            executable: text("executable"),
            code_saved: Some(text("codePath").is_some()),
            cpu_count: number("cpu_count"),
            gpu_count: number("gpu_count"),
            gpu: text("gpu"),
            git: git.then(|| RunGit { remote: run.repo.clone(), commit: run.commit_hash.clone() }),
        }
    }
}
