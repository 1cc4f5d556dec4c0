//! `upsertBucket`: a run begins, begins again, or is edited.

use super::sharing::merged;
use super::store::{self, Edit, NewRun};
use super::{Run, branch, names, stream};
use crate::Shared;
use crate::database::Write;
use crate::fault::{Fault, Result};
use crate::people::Caller;
use crate::project::{self, Path, Project};
use crate::{events, people, queue};
use jiff::Timestamp;
use serde_json::Value;
use volley_plan::people::Deed;
use volley_plan::run::lenient;
use volley_plan::run::state::State;

/// A client may name its run anything that fits in a URL and in a Kubernetes label.
const NAME_MAX: usize = 128;

pub struct Begin<'a> {
    pub path: Path<'a>,
    pub name: Option<&'a str>,
    pub state: Option<&'a str>,
    pub edit: Edit,
    /// One of several processes that share the run, so it does not take away what the others said of it.
    pub is_shared: bool,
    /// For whom a service account starts the run.
    pub on_behalf_of: Option<&'a str>,
}

/// An edit by id changes neither the state nor the heartbeat: nobody runs because somebody renamed it.
pub async fn edit(shared: &Shared, caller: &Caller, id: &str, edit: Edit) -> Result<Run> {
    let run = super::expect_id(shared, caller, Deed::Log, id).await?;
    let mut write = shared.database.write().await?;
    store::edit(&mut write, run.id, edit, Timestamp::now()).await?;
    write.commit().await?;
    shared.news.announce();
    reload(shared, run.id).await
}

/// `wandb.init`, and what the client sends after it: gives the run, and whether it is new.
pub async fn begin(shared: &Shared, caller: &Caller, begin: Begin<'_>) -> Result<(Run, bool)> {
    let wanted = match begin.state {
        Some(name) => Some(State::named(name).ok_or_else(|| Fault::bad(format!("`{name}` is no state of a run")))?),
        None => None,
    };
    let project = project::ensure(shared, caller, begin.path).await?;
    let name = match begin.name.filter(|name| !name.is_empty()) {
        Some(name) if is_name(name) => name.to_owned(),
        Some(name) => {
            return Err(Fault::bad(format!(
                "`{name}` cannot name a run; hint: 1 to {NAME_MAX} characters without `/\\#?%:`"
            )));
        }
        None => names::new_id(),
    };
    caller.must_log(&project, &name)?;
    let now = Timestamp::now();
    let fork = branch::fork_of(shared, project.id, &name, begin.edit.config.as_deref()).await?;
    let user = owner(shared, caller, &project, begin.on_behalf_of).await?;
    let mut write = shared.database.write().await?;
    let state = wanted.unwrap_or(State::Running);
    let label = begin.edit.display_name.as_deref();
    let is_new =
        store::insert(&mut write, &NewRun { project: project.id, name: &name, label, state, user }, now).await?;
    let how = How { is_new, is_shared: begin.is_shared, wanted };
    let id = settle(&mut write, &project, &name, how, begin.edit, now).await?;
    if let Some(fork) = fork.filter(|_| is_new) {
        branch::graft(&mut write, id, fork).await?;
    }
    write.commit().await?;
    shared.news.announce();
    Ok((reload(shared, id).await?, is_new))
}

struct How {
    is_new: bool,
    is_shared: bool,
    wanted: Option<State>,
}

/// Who a run belongs to: the caller, or the member of the entity for whom a service account speaks.
async fn owner(shared: &Shared, caller: &Caller, project: &Project, named: Option<&str>) -> Result<i64> {
    let Some(name) = named.filter(|name| !name.is_empty() && caller.user.is_service) else {
        return Ok(caller.user.id);
    };
    let Some(user) = people::store::user_by_name(&shared.database, name).await? else {
        return Ok(caller.user.id);
    };
    let entities = people::store::entities_of(&shared.database, &user).await?;
    let is_member = entities.iter().any(|entity| entity.id == project.entity_id);
    Ok(if is_member { user.id } else { caller.user.id })
}

async fn settle(
    write: &mut Write,
    project: &Project,
    name: &str,
    How { is_new, is_shared, wanted }: How,
    mut edit: Edit,
    now: Timestamp,
) -> Result<i64> {
    let run = store::lock(write, project.id, name).await?.ok_or_else(|| Fault::missing("the run"))?;
    let before = State::named(&run.state).unwrap_or(State::Running);
    // Only the first message of a process says where it runs; later ones bring its config.
    let is_init = edit.host.is_some() || before.has_ended();
    if is_shared && !is_new {
        edit.config = edit.config.map(|config| merged(&run.config, &config));
        edit.display_name = None;
    }
    let item = edit.config.as_deref().and_then(trace_id);
    store::edit(write, run.id, edit, now).await?;
    let state = wanted.unwrap_or(if is_init || before == State::Pending { State::Running } else { before });
    let is_stopped = run.is_stopped && !is_init;
    store::begin(write, run.id, state, is_stopped, now).await?;
    if let Some(item) = item {
        queue::items::link_run(write, &item, &run, now).await?;
    }
    if is_new {
        let body = serde_json::json!({ "run": run.path(), "state": state.name() });
        let id = run.global_id();
        events::record(write, events::Event { entity: run.entity_id, kind: "run.created", subject: &id, body }, now)
            .await?;
    } else if state != before {
        stream::report(write, &run, state, now).await?;
    }
    Ok(run.id)
}

/// The queue item that a process was started for, which its client puts into the config.
fn trace_id(config: &str) -> Option<String> {
    let config = lenient::parse(config)?;
    let id = config.pointer("/_wandb/value/launch_trace_id").and_then(Value::as_str)?;
    Some(id.to_owned())
}

async fn reload(shared: &Shared, id: i64) -> Result<Run> {
    store::by_id(&shared.database, id).await?.ok_or_else(|| Fault::missing("the run"))
}

pub fn is_name(name: &str) -> bool {
    let length = name.chars().count();
    (1..=NAME_MAX).contains(&length) && !name.chars().any(|c| c.is_control() || "/\\#?%:".contains(c))
}
