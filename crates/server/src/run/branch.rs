//! Rewinding a run to an earlier step, and forking a new one off another; `plan::run::branch` says what is kept.

use super::lines::{self, Stream};
use super::{Run, store};
use crate::Shared;
use crate::database::Write;
use crate::fault::{Fault, Result};
use crate::people::Caller;
use crate::project::Path;
use jiff::Timestamp;
use volley_plan::people::Deed;
use volley_plan::run::branch::{Trunk, branch_point, trunk};
use volley_plan::run::lenient;
use volley_plan::run::state::State;

/// Forgets what a run logged behind a step, and lets it go on from there.
pub async fn rewind(shared: &Shared, caller: &Caller, path: Path<'_>, name: &str, step: i64) -> Result<Run> {
    let run = super::expect(shared, caller, Deed::Log, path, name).await?;
    let history = lines::read_all(&shared.database, run.id, Stream::History).await?;
    let trunk = trunk(history.iter().map(String::as_str), step);
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let run = store::lock(&mut write, run.project_id, &run.name).await?.ok_or_else(|| Fault::missing("the run"))?;
    lines::cut(&mut write, (run.id, Stream::History), count(trunk.lines)).await?;
    note(&mut write, run.id, &trunk).await?;
    store::begin(&mut write, run.id, State::Running, false, now).await?;
    super::stream::report(&mut write, &run, State::Running, now).await?;
    write.commit().await?;
    shared.news.announce();
    store::by_id(&shared.database, run.id).await?.ok_or_else(|| Fault::missing("the run"))
}

/// What a new run takes over from the one that its config names.
pub struct Fork {
    lines: Vec<String>,
    trunk: Trunk,
}

/// Reads what a run that begins with this config goes on from; nothing if it is not a fork.
pub async fn fork_of(shared: &Shared, project: i64, name: &str, config: Option<&str>) -> Result<Option<Fork>> {
    let point = config.and_then(lenient::parse).as_ref().and_then(branch_point);
    let Some((parent, step)) = point.filter(|(parent, _)| parent != name) else {
        return Ok(None);
    };
    let parent = store::by_name(&shared.database, project, &parent)
        .await?
        .ok_or_else(|| Fault::missing(format!("run `{parent}`, from which `{name}` should be forked,")))?;
    let mut lines = lines::read_all(&shared.database, parent.id, Stream::History).await?;
    let trunk = trunk(lines.iter().map(String::as_str), step);
    lines.truncate(trunk.lines);
    Ok(Some(Fork { lines, trunk }))
}

pub async fn graft(write: &mut Write, run: i64, fork: Fork) -> Result<()> {
    note(write, run, &fork.trunk).await?;
    lines::write(write, (run, Stream::History), 0, 0, &fork.lines).await?;
    Ok(())
}

async fn note(write: &mut Write, run: i64, trunk: &Trunk) -> Result<()> {
    let keys = serde_json::to_string(&trunk.keys).map_err(Fault::internal)?;
    let summary = serde_json::to_string(&trunk.summary).map_err(Fault::internal)?;
    Ok(store::set_history(write, run, count(trunk.lines), &keys, &summary).await?)
}

fn count(lines: usize) -> i64 {
    i64::try_from(lines).unwrap_or(i64::MAX)
}
