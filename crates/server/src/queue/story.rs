//! What happened to an item, step by step, and the timeline that people are shown of it; `plan::queue::timeline` tells it.

use super::items::{self, Item, Told};
use super::store;
use super::told::Teller;
use crate::args;
use crate::database::{Database, Result, Write};
use crate::http::auth::Known;
use crate::project::Path as ProjectPath;
use crate::run::{self, Run};
use crate::{Shared, fault};
use axum::Json;
use axum::extract::{Path, State as Extracted};
use jiff::Timestamp;
use serde_json::{Value, json};
use volley_plan::people::Deed;
use volley_plan::queue::item::State;
use volley_plan::queue::timeline::{self, Bounds, Name, Stage, Step, Timeline};
use volley_plan::run::state::State as RunState;

/// Steps that are kept of one item: one that is put back again and again must not grow without end.
const STEPS_MAX: usize = 200;

/// Notes a step; one that may come again and again makes room for itself.
pub async fn add(write: &mut Write, told: &Told, waiting: Option<&str>, now: Timestamp) -> Result<()> {
    let sql = "INSERT INTO item_steps (item_id, at, state, attempt, waiting) VALUES ($1, $2, $3, $4, $5)";
    write.run(sql, args![told.item, now, told.state.name(), told.attempt, waiting]).await?;
    if told.state == State::Pending || waiting.is_some() {
        let sql = "DELETE FROM item_steps WHERE item_id = $1 AND id <= \
                   (SELECT id FROM item_steps WHERE item_id = $1 ORDER BY id DESC LIMIT 1 OFFSET $2)";
        write.run(sql, args![told.item, STEPS_MAX]).await?;
    }
    Ok(())
}

async fn steps(database: &Database, item: i64) -> Result<Vec<Step>> {
    let rows = database.all("SELECT * FROM item_steps WHERE item_id = $1 ORDER BY id", args![item]).await?;
    let mut steps = Vec::new();
    for row in rows {
        steps.push(Step {
            at: time(row.get("at")?),
            state: State::named(&row.get::<String>("state")?).unwrap_or(State::Failed),
            attempt: row.get("attempt")?,
            waiting: row.get("waiting")?,
        });
    }
    Ok(steps)
}

/// `reason` is why it waits now.
pub async fn timeline(database: &Database, item: &Item, reason: Option<&str>) -> Result<Value> {
    let bounds = Bounds {
        created: time(item.created_at),
        ended: item.life.end().zip(item.ended_at.map(time)),
        reason: reason.map(str::to_owned),
    };
    Ok(tell(&timeline::of(&bounds, &steps(database, item.id).await?)))
}

fn time(microseconds: i64) -> Timestamp {
    Timestamp::from_microsecond(microseconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Waits are often shorter than a second.
fn exact(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn tell(timeline: &Timeline) -> Value {
    let stage = |stage: &Stage| {
        json!({ "name": stage.name.word(), "from": exact(stage.from), "until": stage.until.map(exact),
            "reason": stage.reason, "attempt": stage.attempt })
    };
    let end = timeline.end.map(|(end, at)| json!({ "name": end.name(), "at": exact(at) }));
    json!({ "stages": timeline.stages.iter().map(stage).collect::<Value>(), "end": end })
}

/// The story of a run: the item that it was launched from, if it was launched, and its timeline.
pub async fn of_run(
    Extracted(shared): Extracted<Shared>,
    Known(caller): Known,
    Path((entity, project, run)): Path<(String, String, String)>,
) -> fault::Result<Json<Value>> {
    let run = run::expect(&shared, &caller, Deed::See, ProjectPath::of(&entity, &project), &run).await?;
    let item = items::latest_of_run(&shared.database, run.id).await?;
    let queue = match &item {
        Some(item) => store::by_id(&shared.database, item.queue_id).await?,
        None => None,
    };
    let seen = item.zip(queue.filter(|queue| queue.is_open_to(&caller, Deed::See)));
    let Some((item, queue)) = seen else {
        return Ok(Json(json!({ "item": null, "timeline": alone(&run) })));
    };
    let mut told = Teller::new(&shared.database, &queue, None).await?.in_full(&caller, &item).await?;
    let timeline = told["timeline"].take();
    Ok(Json(json!({ "item": told, "timeline": timeline })))
}

/// A run that somebody started by hand: it ran from its beginning until it was last heard of.
fn alone(run: &Run) -> Value {
    let (from, heard) = (time(run.created_at), exact(time(run.heartbeat_at)));
    let has_ended = RunState::named(&run.state).is_none_or(RunState::has_ended);
    let stage = Stage { name: Name::Running, from, until: None, reason: None, attempt: 1 };
    let mut told = tell(&Timeline { stages: vec![stage], end: None });
    if has_ended {
        told["stages"][0]["until"] = json!(heard);
        told["end"] = json!({ "name": run.state, "at": heard });
    }
    told
}
