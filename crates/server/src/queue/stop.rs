//! What becomes of an item and its run together: because somebody asked for its end, or because the agent says how it is.

use super::items::{self, Item};
use crate::args;
use crate::database::Write;
use crate::events::{Event, record};
use crate::fault::Result;
use crate::ids;
use crate::run::{self, stream};
use jiff::Timestamp;
use volley_plan::queue::item::{self, Answer, EXIT_STOPPED, End, State};
use volley_plan::run::state::{State as RunState, after_verdict};

/// Asks for an item's end; gives the state that it is in then.
pub async fn ask(write: &mut Write, item: &Item, by: &str, now: Timestamp) -> Result<State> {
    let answer = item::stop(&item.life);
    let Answer::Done(next) = &answer else {
        return Ok(item.life.state);
    };
    let (state, end) = (next.state, next.end());
    let sql = "UPDATE items SET stop_by = $2, exit_code = COALESCE($3, exit_code) WHERE id = $1";
    write.run(sql, args![item.id, by, end.map(|_| EXIT_STOPPED)]).await?;
    if end.is_some() {
        items::set_error(write, item.id, &stopped(by)).await?;
    }
    items::settle(write, item, answer, now).await?;
    if let Some(run) = item.run_id {
        // What W&B's clients in its processes read.
        run::store::stop(write, run, now).await?;
        if end.is_some() {
            end_run(write, run, EXIT_STOPPED, now).await?;
        }
    }
    let id = ids::encode("RunQueueItem", item.id);
    let body = serde_json::json!({ "queue": ids::encode("RunQueue", item.queue_id).as_str(), "by": by });
    record(write, Event { entity: item.audience, kind: "item.stop", subject: &id, body }, now).await?;
    Ok(state)
}

/// What W&B's clients are told of an item that was stopped.
pub fn stopped(by: &str) -> items::Report {
    items::Report { message: format!("stopped by {by}"), stage: "agent".to_owned(), file_paths: Vec::new() }
}

/// What an agent says of an item's end.
pub struct Verdict {
    pub end: End,
    pub exit_code: Option<i64>,
    pub report: Option<items::Report>,
}

/// Ends an item and its run; says whether the one who asked may speak for it.
pub async fn end(write: &mut Write, item: &Item, lease: i64, verdict: Verdict, now: Timestamp) -> Result<bool> {
    let answer = item::end(&item.life, lease, verdict.end);
    if !matches!(answer, Answer::Done(_)) {
        return Ok(items::settle(write, item, answer, now).await?);
    }
    let exit_code = verdict.end.exit_code(verdict.exit_code);
    let by = item.stop_by.as_deref().unwrap_or("its agent");
    let report = match verdict.end {
        End::Finished => None,
        End::Failed => verdict.report,
        End::Stopped => Some(verdict.report.unwrap_or_else(|| stopped(by))),
    };
    if let Some(report) = report {
        items::set_error(write, item.id, &report).await?;
    }
    write.run("UPDATE items SET exit_code = $2 WHERE id = $1", args![item.id, exit_code]).await?;
    items::settle(write, item, answer, now).await?;
    if let Some(run) = item.run_id {
        end_run(write, run, exit_code, now).await?;
    }
    Ok(true)
}

/// Ends the run of an item that has ended.
async fn end_run(write: &mut Write, id: i64, exit_code: i64, now: Timestamp) -> Result<()> {
    let Some(run) = run::store::lock_by_id(write, id).await? else {
        return Ok(());
    };
    let before = RunState::named(&run.state).unwrap_or(RunState::Running);
    let after = after_verdict(before, exit_code);
    run::store::end(write, id, after, exit_code, now).await?;
    if after != before {
        stream::report(write, &run, after, now).await?;
    }
    Ok(())
}

/// The run of an item that runs: a process need not say so itself. One that was taken for dead while its agent was away is not.
pub async fn start_run(write: &mut Write, id: i64, now: Timestamp) -> Result<()> {
    let Some(run) = run::store::lock_by_id(write, id).await? else {
        return Ok(());
    };
    if matches!(RunState::named(&run.state), Some(RunState::Pending | RunState::Crashed)) {
        run::store::begin(write, id, RunState::Running, run.is_stopped, now).await?;
        stream::report(write, &run, RunState::Running, now).await?;
    }
    Ok(())
}

/// The run of an item waits once more, with the item.
pub async fn requeue_run(write: &mut Write, id: i64, now: Timestamp) -> Result<()> {
    if let Some(run) = run::store::lock_by_id(write, id).await? {
        run::store::set_state(write, id, RunState::Pending, now).await?;
        stream::report(write, &run, RunState::Pending, now).await?;
    }
    Ok(())
}
