//! Sweep agents: an agent says what its runs do, and is told what to run next.

use super::store::{self, Agent as Record, Given};
use super::{Sweep, early, graphql::Agent};
use crate::Shared;
use crate::database::Write;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::scalars::JsonText;
use crate::ids;
use crate::people::Caller;
use crate::project::{self, Path};
use crate::run::{self, names};
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use jiff::Timestamp;
use rand::RngExt as _;
use serde_json::{Map, Value, json};
use volley_plan::people::Deed;
use volley_plan::run::state::State;
use volley_plan::sweep::agent::{self, Absent, Standing};
use volley_plan::sweep::config::{self, Config};
use volley_plan::sweep::search::{self, Tried};

#[derive(InputObject)]
pub struct CreateAgentInput {
    host: String,
    sweep: String,
    entity_name: Option<String>,
    project_name: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateAgentPayload {
    agent: Agent,
}

#[derive(InputObject)]
pub struct AgentHeartbeatInput {
    id: ID,
    metrics: Option<JsonText>,
    run_state: Option<JsonText>,
}

#[derive(SimpleObject)]
pub struct AgentHeartbeatPayload {
    agent: Option<Agent>,
    commands: Option<JsonText>,
}

#[derive(Default)]
pub struct SweepAgentMutation;

#[Object]
impl SweepAgentMutation {
    async fn create_agent(&self, ctx: &Context<'_>, input: CreateAgentInput) -> Result<Option<CreateAgentPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let missing = || Fault::missing(format!("sweep `{}`", input.sweep));
        let path = Path { entity: input.entity_name.as_deref(), project: input.project_name.as_deref() };
        let project = project::expect(shared, caller, Deed::Curate, path).await?;
        // A client names it by its name, or by its global id.
        let sweep = match ids::decode("Sweep", &input.sweep) {
            Some(id) => store::by_id(&shared.database, id).await?.filter(|sweep| sweep.project_id == project.id),
            None => store::by_name(&shared.database, project.id, &input.sweep).await?,
        };
        let sweep = sweep.ok_or_else(missing)?;
        let mut write = shared.database.write().await?;
        let id = store::add_agent(&mut write, sweep.id, &names::new_id(), &input.host, Timestamp::now()).await?;
        write.commit().await?;
        let agent = store::agent_by_id(&shared.database, id).await?.ok_or_else(missing)?;
        Ok(Some(CreateAgentPayload { agent: Agent(agent) }))
    }

    async fn agent_heartbeat(
        &self,
        ctx: &Context<'_>,
        input: AgentHeartbeatInput,
    ) -> Result<Option<AgentHeartbeatPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let (agent, sweep) = expect(shared, caller, &input.id).await?;
        let runs: Map<String, Value> = match &input.run_state {
            Some(text) => serde_json::from_str(&text.0).unwrap_or_default(),
            None => Map::new(),
        };
        let commands = commands(shared, &agent, &sweep, &runs).await?;
        let commands = Some(JsonText(Value::Array(commands).to_string()));
        Ok(Some(AgentHeartbeatPayload { agent: Some(Agent(agent)), commands }))
    }
}

async fn expect(shared: &Shared, caller: &Caller, id: &str) -> Result<(Record, Sweep)> {
    let missing = || Fault::missing("the sweep agent");
    let number = ids::decode("Agent", id).ok_or_else(missing)?;
    let agent = store::agent_by_id(&shared.database, number).await?.ok_or_else(missing)?;
    let sweep = store::by_id(&shared.database, agent.sweep_id).await?.ok_or_else(missing)?;
    caller.must(Deed::Curate, sweep.entity_id, "the sweep agent")?;
    Ok((agent, sweep))
}

/// What an agent is told: which of its runs to stop, what to run next, or that there is nothing more.
async fn commands(shared: &Shared, agent: &Record, sweep: &Sweep, runs: &Map<String, Value>) -> Result<Vec<Value>> {
    let now = Timestamp::now();
    let running: Vec<&String> = runs.iter().filter(|(_, said)| agent::is_had(said)).map(|(run, _)| run).collect();
    let value = super::yaml(&sweep.config)?;
    let config = config::read(&value).map_err(|error| Fault::bad(error.to_string()))?;
    let given = if running.is_empty() { Vec::new() } else { store::given(&shared.database, sweep).await? };
    // Histories are long; they are read before others have to wait for this.
    let case = early::Case { sweep: sweep.id, config: &config, given: &given };
    let stopped = shared.judge.to_stop(&shared.database, &case, now).await?;
    let stop = |run: &String| json!({ "type": "stop", "run_id": run });
    let mut write = shared.database.write().await?;
    store::hear(&mut write, agent, now).await?;
    for given in given.iter().filter(|given| !given.is_confirmed && running.contains(&&given.run_name)) {
        store::confirm(&mut write, sweep.id, &given.run_name).await?;
    }
    let commands = match sweep.state.as_str() {
        "PAUSED" => Vec::new(),
        "CANCELED" | "CANCELLED" => running.into_iter().map(stop).chain([json!({ "type": "exit" })]).collect(),
        // An agent that is told to exit kills what it runs, and what runs may end.
        _ if !running.is_empty() => running.into_iter().filter(|run| stopped.contains(run)).map(stop).collect(),
        "FINISHED" | "STOPPED" | "CRASHED" => vec![json!({ "type": "exit" })],
        _ => next(&mut write, agent, sweep, &config, now).await?.into_iter().collect(),
    };
    write.commit().await?;
    shared.news.announce();
    Ok(commands)
}

/// A run that was preempted goes on, and one that was lost begins again, before a new one begins. Nothing for an agent that
/// should wait, because others may have lost theirs.
async fn next(
    write: &mut Write,
    agent: &Record,
    sweep: &Sweep,
    config: &Config,
    now: Timestamp,
) -> Result<Option<Value>> {
    let given = store::given_locked(write, sweep, config.heeds_outcomes()).await?;
    let command = |kind: &str, run: &str, args: Value| {
        Ok(Some(json!({ "type": kind, "run_id": run, "program": config.program, "args": args })))
    };
    if let Some(given) =
        given.iter().find(|given| !given.is_prior() && given.state.as_deref() == Some(State::Preempted.name()))
        && let Some(run) = given.run_id
    {
        // Until its process begins again it is nobody else's to take.
        run::store::set_state(write, run, State::Pending, now).await?;
        store::hand_over(write, sweep.id, &given.run_name, agent.id).await?;
        return command("resume", &given.run_name, parameters(given));
    }
    let stands = |wanted: Standing| given.iter().find(|given| standing(agent, given, now) == wanted);
    let run = names::new_id();
    if let Some(lost) = stands(Standing::Lost) {
        store::give_again(write, agent, &lost.run_name, &run).await?;
        return command("run", &run, parameters(lost));
    }
    let tried: Vec<Tried> = given.iter().map(|given| early::tried(config, given)).collect();
    match search::next(config, &tried, &mut || rand::rng().random()) {
        Some(args) => {
            store::add_run(write, agent, &run, &args.to_string()).await?;
            store::set_state(write, sweep.id, "RUNNING", now).await?;
            command("run", &run, args)
        }
        None if stands(Standing::Unsure).is_some() => Ok(None),
        None => {
            store::set_state(write, sweep.id, "FINISHED", now).await?;
            Ok(Some(json!({ "type": "exit" })))
        }
    }
}

fn parameters(given: &Given) -> Value {
    serde_json::from_str(&given.params).unwrap_or_default()
}

fn standing(agent: &Record, given: &Given, now: Timestamp) -> Standing {
    if given.run_id.is_some() || given.is_prior() {
        return Standing::Tried;
    }
    let absent = Absent {
        is_own: given.agent_id == agent.id,
        is_confirmed: given.is_confirmed,
        heard: Timestamp::from_microsecond(given.heard_at).unwrap_or(now),
        times: given.times,
    };
    agent::standing(&absent, now)
}
