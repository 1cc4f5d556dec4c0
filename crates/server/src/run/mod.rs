//! Runs: what a process that calls `wandb.init` sends is kept here and served back.

pub mod branch;
pub mod chart;
pub mod columns;
pub mod fields;
pub mod find;
pub mod graphql;
pub mod lines;
pub mod names;
pub mod rest;
pub mod search;
pub mod sharing;
pub mod store;
pub mod stream;
pub mod upsert;

use crate::Shared;
use crate::fault::{Fault, Result};
use crate::ids;
use crate::people::Caller;
use crate::project::{self, Path};
use async_graphql::ID;
use volley_plan::people::Deed;

#[derive(Clone, Debug)]
pub struct Run {
    pub id: i64,
    pub project_id: i64,
    pub project: String,
    pub entity_id: i64,
    pub entity: String,
    pub name: String,
    pub display_name: String,
    pub description: Option<String>,
    pub notes: Option<String>,
    /// A JSON list of texts.
    pub tags: String,
    pub config: String,
    pub summary: String,
    pub group_name: Option<String>,
    pub job_type: Option<String>,
    pub commit_hash: Option<String>,
    pub host: Option<String>,
    pub program: Option<String>,
    pub repo: Option<String>,
    pub sweep_name: Option<String>,
    pub state: String,
    pub is_stopped: bool,
    pub exit_code: Option<i64>,
    pub user_id: i64,
    pub username: String,
    pub created_at: i64,
    pub updated_at: i64,
    pub heartbeat_at: i64,
    pub history_lines: i64,
    pub event_lines: i64,
    pub log_lines: i64,
    pub history_keys: String,
    pub system_metrics: String,
}

impl Run {
    pub fn global_id(&self) -> ID {
        ids::run(&self.name, &self.project, &self.entity)
    }

    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.entity, self.project, self.name)
    }

    pub fn tag_list(&self) -> Vec<String> {
        serde_json::from_str(&self.tags).unwrap_or_default()
    }
}

/// The run of this name, if it exists and the caller may see it.
pub async fn find(shared: &Shared, caller: &Caller, path: Path<'_>, name: &str) -> Result<Option<Run>> {
    let Some(project) = project::find(shared, caller, path).await? else {
        return Ok(None);
    };
    Ok(store::by_name(&shared.database, project.id, name).await?)
}

/// The run for a deed; 404 if it is missing or hidden, 403 if it may only be looked at.
pub async fn expect(shared: &Shared, caller: &Caller, deed: Deed, path: Path<'_>, name: &str) -> Result<Run> {
    let run = find(shared, caller, path, name).await?;
    let run = run.ok_or_else(|| Fault::missing(format!("run `{name}`")))?;
    caller.must_for(deed, &run)?;
    Ok(run)
}

/// The same, by a global id.
pub async fn expect_id(shared: &Shared, caller: &Caller, deed: Deed, id: &str) -> Result<Run> {
    let path = ids::decode_run(id).ok_or_else(|| Fault::missing("the run"))?;
    expect(shared, caller, deed, Path::of(&path.entity, &path.project), &path.run).await
}
