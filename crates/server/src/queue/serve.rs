//! What our own agent asks for beyond W&B's operations: many items at once, to give one back, to take over what another
//! left, to say how it went.
//!
//! Whoever holds an older lease is told `{"ok": false}`, and has nothing more to do with the item.

use super::items::{self, Item, Report, Told};
use super::stop::{self, Verdict};
use super::told::Teller;
use super::{Queue, expect_id, expect_item, mutation, store, story};
use crate::agent::{self, Agent};
use crate::args;
use crate::database::Write;
use crate::events::{self, Event};
use crate::fault::{Fault, Result};
use crate::http::auth::Known;
use crate::http::body::Sent;
use crate::people::{self, Caller, tokens};
use crate::project::{self, Path as ProjectPath, Project};
use crate::run::{self, upsert};
use crate::{Shared, ids};
use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use volley_plan::people::{Deed, Role};
use volley_plan::queue::item::{self, Answer, End, State as ItemState};
use volley_plan::run::state::State as RunState;

/// What one agent takes at once; more would only wait in its hands.
const TAKE_MAX: usize = 64;
/// What may be left out at once; each is a parameter of a statement.
const WITHOUT_MAX: usize = 512;
/// So long an agent is reminded of what has ended, which it may have missed.
const REMINDED: SignedDuration = SignedDuration::from_mins(10);

/// The agent's queues: those that it named when it began.
async fn queues(shared: &Shared, caller: &Caller, agent: &Agent) -> Result<Vec<Queue>> {
    let listed: Vec<String> = serde_json::from_str(&agent.queues).unwrap_or_default();
    let mut found = Vec::new();
    for number in listed.iter().filter_map(|id| ids::decode("RunQueue", id)) {
        let queue = store::by_id(&shared.database, number).await?;
        found.extend(queue.filter(|queue| queue.is_open_to(caller, Deed::Serve)));
    }
    Ok(found)
}

#[derive(Deserialize)]
pub struct Detail {
    /// An agent that knows its items already needs no specs again.
    specs: Option<bool>,
}

/// Everything of its queues that an agent has to know; asking is a sign of life.
pub async fn list(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(agent): Path<String>,
    Query(detail): Query<Detail>,
) -> Result<Json<Value>> {
    let agent = agent::expect(&shared, &caller, Deed::Serve, &agent).await?;
    let now = Timestamp::now();
    agent::hear(&shared, &agent, now).await?;
    let mut told = Vec::new();
    for queue in queues(&shared, &caller, &agent).await? {
        let mut teller = Teller::new(&shared.database, &queue, Some(agent.id)).await?;
        for item in items::of_interest(&shared.database, queue.id, agent.id, now - REMINDED, now).await? {
            told.push(match detail.specs {
                Some(false) => teller.to_agent_in_short(&item),
                _ => teller.to_agent(&item).await?,
            });
        }
    }
    Ok(Json(told.into()))
}

#[derive(Deserialize)]
pub struct Serve {
    /// By their ids.
    queues: Vec<String>,
}

/// An agent serves other queues than it did: some were made, or are gone.
pub async fn serve(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(agent): Path<String>,
    Sent(wanted): Sent<Serve>,
) -> Result<Json<Value>> {
    let id = agent;
    let agent = agent::expect(&shared, &caller, Deed::Serve, &id).await?;
    for queue in &wanted.queues {
        expect_id(&shared, &caller, Deed::Serve, queue).await?;
    }
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    agent::store::serve(&mut write, agent.id, &json!(wanted.queues).to_string()).await?;
    let body = json!({ "agent": agent.name, "queues": wanted.queues });
    let event = Event { entity: agent.entity_id, kind: "agent.queues", subject: &id, body };
    events::record(&mut write, event, now).await?;
    finish(&shared, write, true).await
}

#[derive(Deserialize)]
pub struct Take {
    /// By its name, or its id.
    queue: String,
    limit: Option<usize>,
    /// Items that the agent has no room for, by their ids.
    #[serde(default)]
    without: Vec<String>,
}

pub async fn take(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(agent): Path<String>,
    Sent(wanted): Sent<Take>,
) -> Result<Json<Value>> {
    let agent = agent::expect(&shared, &caller, Deed::Serve, &agent).await?;
    let served = queues(&shared, &caller, &agent).await?;
    let is_wanted =
        |queue: &&Queue| queue.name == wanted.queue || ids::encode("RunQueue", queue.id).as_str() == wanted.queue;
    let queue = served.iter().find(is_wanted).ok_or_else(|| Fault::missing(format!("queue `{}`", wanted.queue)))?;
    let limit = wanted.limit.unwrap_or(1).min(TAKE_MAX);
    let numbers = wanted.without.iter().filter_map(|id| ids::decode_item(id)).map(|(number, _)| number);
    let without: Vec<i64> = numbers.take(WITHOUT_MAX).collect();
    let now = Timestamp::now();
    let mut taken = Vec::new();
    if items::is_anything_waiting(&shared.database, queue.id, now).await? {
        let mut write = shared.database.write().await?;
        agent::store::hear(&mut write, agent.id, None, now).await?;
        while taken.len() < limit {
            let Some(popped) = mutation::pop(&mut write, queue, Some(agent.id), &without, now).await? else {
                break;
            };
            taken.push(popped.id);
        }
        write.commit().await?;
        shared.news.announce();
    }
    let mut teller = Teller::new(&shared.database, queue, Some(agent.id)).await?;
    let mut told = Vec::new();
    for id in taken {
        if let Some(item) = items::by_id(&shared.database, id).await? {
            told.push(teller.to_agent(&item).await?);
        }
    }
    Ok(Json(told.into()))
}

#[derive(Deserialize)]
pub struct Acknowledge {
    run: RunNames,
    agent: Option<String>,
    /// The cluster or the machine that it will run on.
    site: Option<String>,
}

#[derive(Deserialize)]
pub struct RunNames {
    project: Option<String>,
    name: String,
}

/// The agent starts on the item, and answers for it until its end. Its run is made with it, and belongs to the submitter.
pub async fn acknowledge(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<String>,
    Sent(asked): Sent<Acknowledge>,
) -> Result<Json<Value>> {
    let (item, lease, queue) = expect_item(&shared, &caller, Deed::Serve, &id).await?;
    let agent = match &asked.agent {
        Some(id) => Some(agent::expect(&shared, &caller, Deed::Serve, id).await?.id),
        None => item.agent_id,
    };
    let name = asked.run.name.as_str();
    if !upsert::is_name(name) {
        return Err(Fault::bad(format!("`{name}` cannot name a run; hint: up to 128 characters without `/\\#?%:`")));
    }
    let project = home(&shared, &caller, &item, &queue, asked.run.project.as_deref()).await?;
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    let now = Timestamp::now();
    let answer = item::acknowledge(&item.life, lease, name);
    if answer == Answer::Refused {
        return ok(false);
    }
    let run = make_run(&mut write, &project, &item, name, now).await?;
    let sql = "UPDATE items SET keeper = 'agent', agent_id = $2, run_id = $3, site = $4 WHERE id = $1";
    write.run(sql, args![item.id, agent, run, asked.site]).await?;
    items::settle(&mut write, &item, answer, now).await?;
    finish(&shared, write, true).await
}

/// Where an item's run goes: as its spec says, if whoever submitted it may log there.
async fn home(shared: &Shared, caller: &Caller, item: &Item, queue: &Queue, project: Option<&str>) -> Result<Project> {
    let spec = item.spec();
    let named = |field: &str| spec[field].as_str().filter(|name| !name.is_empty());
    let own = project::store::by_id(&shared.database, queue.project_id).await?;
    let own = own.map(|project| project.entity).unwrap_or_default();
    let entity = named("entity").unwrap_or(&own);
    let project = project.or_else(|| named("project")).filter(|name| !name.is_empty()).unwrap_or(project::DEFAULT);
    let project = project::ensure(shared, caller, ProjectPath::of(entity, project)).await?;
    if project.entity_id != queue.entity_id {
        let role = people::store::role_in(&shared.database, project.entity_id, item.user_id).await?;
        let may_log = role.is_some_and(|role| role >= Role::Member);
        may_log.then_some(()).ok_or_else(|| Fault::missing(format!("entity `{entity}`")))?;
    }
    Ok(project)
}

/// The run of an item; made, unless it is there already.
async fn make_run(write: &mut Write, project: &Project, item: &Item, name: &str, now: Timestamp) -> Result<i64> {
    let spec = item.spec();
    let label = spec["name"].as_str().filter(|label| !label.is_empty());
    let new = run::store::NewRun { project: project.id, name, label, state: RunState::Pending, user: item.user_id };
    let is_new = run::store::insert(write, &new, now).await?;
    let run = run::store::lock(write, project.id, name).await?.ok_or_else(|| Fault::missing("the run"))?;
    if is_new {
        let body = json!({ "run": run.path(), "state": RunState::Pending.name() });
        let id = run.global_id();
        let event = Event { entity: run.entity_id, kind: "run.created", subject: &id, body };
        events::record(write, event, now).await?;
    }
    Ok(run.id)
}

/// A credential for the workload of an item that the agent has started on. It opens the item's run until this attempt is
/// over, and is shown this once: an agent that lost it asks for another.
pub async fn token(State(shared): State<Shared>, Known(caller): Known, Path(id): Path<String>) -> Result<Json<Value>> {
    let lease = expect_item(&shared, &caller, Deed::Serve, &id).await?.1;
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    let is_held = item.life.lease == lease && matches!(item.life.state, item::State::Claimed | item::State::Running);
    if !is_held || item.run_id.is_none() {
        return ok(false);
    }
    let token = tokens::make(&mut write, item.id, item.life.attempt, Timestamp::now()).await?;
    write.commit().await?;
    Ok(Json(json!({ "ok": true, "token": token })))
}

/// It did not fit: it waits at its old place.
pub async fn release(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<String>,
) -> Result<Json<Value>> {
    let lease = expect_item(&shared, &caller, Deed::Serve, &id).await?.1;
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    let done = items::settle(&mut write, &item, item::release(&item.life, lease), Timestamp::now()).await?;
    finish(&shared, write, done).await
}

#[derive(Deserialize)]
pub struct Adopt {
    agent: String,
    site: Option<String>,
}

/// Another agent is gone: this one takes its item over, with the next lease.
pub async fn adopt(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<String>,
    Sent(asked): Sent<Adopt>,
) -> Result<Json<Value>> {
    let (_, lease, queue) = expect_item(&shared, &caller, Deed::Serve, &id).await?;
    let agent = agent::expect(&shared, &caller, Deed::Serve, &asked.agent).await?;
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    let now = Timestamp::now();
    let is_own = item.agent_id == Some(agent.id);
    if !item::is_in_reach(item.site.as_deref(), asked.site.as_deref()) {
        return Err(Fault::conflict("the item runs on a cluster or a machine that this agent does not use"));
    }
    let answer = item::adopt(&item.life, lease, item.is_orphaned(now) && !is_own);
    if !items::settle(&mut write, &item, answer, now).await? {
        return Err(Fault::conflict("the item is not left alone: its agent lives, or another has taken it over"));
    }
    let sql = "UPDATE items SET agent_id = $2, site = $3 WHERE id = $1";
    write.run(sql, args![item.id, agent.id, asked.site]).await?;
    items::tell(&mut write, item.told(item.life.state), now).await?;
    write.commit().await?;
    shared.news.announce();
    let item = items::by_id(&shared.database, item.id).await?.ok_or_else(|| Fault::missing("the item"))?;
    let mut teller = Teller::new(&shared.database, &queue, Some(agent.id)).await?;
    Ok(Json(teller.to_agent(&item).await?))
}

#[derive(Deserialize)]
pub struct Requeue {
    /// Which was preempted, counted from 1.
    attempt: i64,
    #[serde(default)]
    reason: String,
}

/// Its work was preempted: it waits at its old place for the next attempt.
pub async fn requeue(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<String>,
    Sent(asked): Sent<Requeue>,
) -> Result<Json<Value>> {
    let lease = expect_item(&shared, &caller, Deed::Serve, &id).await?.1;
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    let now = Timestamp::now();
    let answer = item::requeue(&item.life, lease, asked.attempt - 1);
    if let Answer::Done(next) = &answer {
        if next.end().is_some() {
            let verdict = Verdict { end: End::Stopped, exit_code: None, report: None };
            let done = stop::end(&mut write, &item, lease, verdict, now).await?;
            return finish(&shared, write, done).await;
        }
        if let Some(run) = item.run_id {
            stop::requeue_run(&mut write, run, now).await?;
        }
    }
    let is_done = matches!(answer, Answer::Done(_));
    let done = items::settle(&mut write, &item, answer, now).await?;
    if is_done {
        let sql = "UPDATE items SET waiting = $2, place = NULL WHERE id = $1";
        let reason = Some(asked.reason).filter(|reason| !reason.is_empty());
        if reason.is_some() {
            let told = Told { attempt: asked.attempt, ..item.told(ItemState::Pending) };
            story::add(&mut write, &told, reason.as_deref(), now).await?;
        }
        write.run(sql, args![item.id, reason]).await?;
    }
    finish(&shared, write, done).await
}

#[derive(Deserialize)]
pub struct Ended {
    /// `finished`, `failed` or `stopped`.
    state: String,
    stage: Option<String>,
    message: Option<String>,
    exit_code: Option<i64>,
    #[serde(default)]
    file_paths: Vec<String>,
}

/// The work is over: the item ends, and its run with it.
pub async fn end(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<String>,
    Sent(asked): Sent<Ended>,
) -> Result<Json<Value>> {
    let (_, lease, queue) = expect_item(&shared, &caller, Deed::Serve, &id).await?;
    let wrong = || Fault::bad(format!("`{}` is no end; hint: finished, failed or stopped", asked.state));
    let end = End::named(&asked.state).ok_or_else(wrong)?;
    let stage = asked.stage.unwrap_or_else(|| "run".to_owned());
    let report = asked.message.map(|message| Report { message, stage, file_paths: asked.file_paths });
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    let now = Timestamp::now();
    let refusal = report.as_ref().filter(|report| end == End::Failed && report.stage == "agent");
    let refusal = refusal.filter(|_| !item.life.state.is_final()).map(|report| report.message.clone());
    let verdict = Verdict { end, exit_code: asked.exit_code, report };
    let done = stop::end(&mut write, &item, lease, verdict, now).await?;
    if let Some(refusal) = refusal.filter(|_| done) {
        let entity = people::store::entity_by_id(&shared.database, queue.entity_id).await?;
        let entity = entity.map(|entity| entity.name).unwrap_or_default();
        let subject = format!("{entity}/{}/{}", queue.name, ids::encode("RunQueueItem", item.id).as_str());
        events::audit_refusal(&mut write, item.user_id, &subject, &refusal, now).await?;
    }
    finish(&shared, write, done).await
}

/// What is left out stays, what is null is forgotten.
#[derive(Deserialize)]
pub struct Note {
    #[serde(default, deserialize_with = "given")]
    waiting: Option<Option<String>>,
    /// `running`, when the work runs.
    state: Option<String>,
    /// Rank → pod → node → GPUs.
    #[serde(default, deserialize_with = "given")]
    place: Option<Option<Value>>,
    /// What was submitted.
    #[serde(default, deserialize_with = "given")]
    manifest: Option<Option<Value>>,
}

fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Option<T>>, D::Error> {
    Option::deserialize(from).map(Some)
}

/// What is going on with it, for people.
pub async fn note(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<String>,
    Sent(note): Sent<Note>,
) -> Result<Json<Value>> {
    let lease = expect_item(&shared, &caller, Deed::Serve, &id).await?.1;
    if note.state.as_ref().is_some_and(|state| state != "running") {
        return Err(Fault::bad("only `running` can be noted as a state; hint: an end is told by `end`"));
    }
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    if item.life.lease != lease || item.life.state.is_final() {
        return ok(false);
    }
    let now = Timestamp::now();
    if note.state.is_some() {
        items::settle(&mut write, &item, item::start(&item.life, lease), now).await?;
        if let Some(run) = item.run_id {
            stop::start_run(&mut write, run, now).await?;
        }
    }
    let body = json!({ "waiting": note.waiting, "has_place": note.place.is_some() });
    if let Some(waiting) = note.waiting {
        if waiting.is_some() && waiting != item.waiting {
            // What became of its state just now is a step of its own.
            let state = if note.state.is_some() { ItemState::Running } else { item.life.state };
            story::add(&mut write, &item.told(state), waiting.as_deref(), now).await?;
        }
        write.run("UPDATE items SET waiting = $2 WHERE id = $1", args![item.id, waiting]).await?;
    }
    let text = |value: Option<Value>| value.map(|value| value.to_string());
    if let Some(place) = note.place {
        write.run("UPDATE items SET place = $2 WHERE id = $1", args![item.id, text(place)]).await?;
    }
    if let Some(manifest) = note.manifest {
        write.run("UPDATE items SET manifest = $2 WHERE id = $1", args![item.id, text(manifest)]).await?;
    }
    let subject = ids::encode("RunQueueItem", item.id);
    let event = Event { entity: item.audience, kind: "item.note", subject: &subject, body };
    events::record(&mut write, event, now).await?;
    finish(&shared, write, true).await
}

/// Somebody wants it to end.
pub async fn stop(State(shared): State<Shared>, Known(caller): Known, Path(id): Path<String>) -> Result<Json<Value>> {
    let (item, _, queue) = expect_item(&shared, &caller, Deed::See, &id).await?;
    queue.must_command(&caller, item.user_id)?;
    let (mut write, item) = mutation::lock(&shared, &id).await?;
    let now = Timestamp::now();
    let state = stop::ask(&mut write, &item, &caller.user.username, now).await?;
    let subject = format!("{}/{}", queue.name, ids::encode("RunQueueItem", item.id).as_str());
    events::audit(&mut write, &caller, "item.stop", &subject, now).await?;
    write.commit().await?;
    shared.news.announce();
    Ok(Json(json!({ "state": state.name() })))
}

pub async fn show(State(shared): State<Shared>, Known(caller): Known, Path(id): Path<String>) -> Result<Json<Value>> {
    let (item, _, queue) = expect_item(&shared, &caller, Deed::See, &id).await?;
    let mut teller = Teller::new(&shared.database, &queue, None).await?;
    Ok(Json(teller.in_full(&caller, &item).await?))
}

async fn finish(shared: &Shared, write: Write, done: bool) -> Result<Json<Value>> {
    write.commit().await?;
    shared.news.announce();
    ok(done)
}

fn ok(done: bool) -> Result<Json<Value>> {
    Ok(Json(json!({ "ok": done })))
}
