//! Sweeps in the database.

use super::Sweep;
use crate::args;
use crate::database::{Database, Result, Row, Write};
use jiff::Timestamp;

const SWEEPS: &str = "SELECT s.*, p.entity_id FROM sweeps s JOIN projects p ON p.id = s.project_id";

fn sweeps(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{SWEEPS} {rest}"))
}

pub async fn by_name(database: &Database, project: i64, name: &str) -> Result<Option<Sweep>> {
    let row = database.maybe(sweeps("WHERE s.project_id = $1 AND s.name = $2"), args![project, name]).await?;
    row.map(|row| sweep(&row)).transpose()
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Sweep>> {
    database.maybe(sweeps("WHERE s.id = $1"), args![id]).await?.map(|row| sweep(&row)).transpose()
}

pub async fn of_project(database: &Database, project: i64, after: i64, limit: usize) -> Result<Vec<Sweep>> {
    let sql = sweeps("WHERE s.project_id = $1 AND s.id > $2 ORDER BY s.id LIMIT $3");
    database.all(sql, args![project, after, limit]).await?.iter().map(sweep).collect()
}

pub async fn count(database: &Database, project: i64) -> Result<i64> {
    let row = database.maybe("SELECT COUNT(*) AS n FROM sweeps WHERE project_id = $1", args![project]).await?;
    row.map_or(Ok(0), |row| row.get("n"))
}

/// How many runs say that they are of the sweep.
pub async fn run_count(database: &Database, sweep: &Sweep) -> Result<i64> {
    let sql = "SELECT COUNT(*) AS n FROM runs WHERE project_id = $1 AND sweep_name = $2";
    database.maybe(sql, args![sweep.project_id, &sweep.name]).await?.map_or(Ok(0), |row| row.get("n"))
}

/// The summaries of those runs: JSON texts.
pub async fn summaries(database: &Database, sweep: &Sweep) -> Result<Vec<String>> {
    let sql = "SELECT summary FROM runs WHERE project_id = $1 AND sweep_name = $2";
    database.all(sql, args![sweep.project_id, &sweep.name]).await?.iter().map(|row| row.get("summary")).collect()
}

/// What a client says of a sweep; what is left out stays.
#[derive(Default)]
pub struct Edit<'a> {
    pub config: Option<&'a str>,
    pub display_name: Option<&'a str>,
    pub description: Option<&'a str>,
    pub controller: Option<&'a str>,
    pub scheduler: Option<&'a str>,
    pub state: Option<&'a str>,
}

pub async fn insert(write: &mut Write, project: i64, name: &str, user: i64, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO sweeps (project_id, name, state, config, user_id, created_at, updated_at) \
               VALUES ($1, $2, 'PENDING', '', $3, $4, $4) RETURNING id";
    write.one(sql, args![project, name, user, now]).await?.get("id")
}

pub async fn edit(write: &mut Write, id: i64, edit: &Edit<'_>, now: Timestamp) -> Result<()> {
    let sql = "UPDATE sweeps SET config = COALESCE($2, config), display_name = COALESCE($3, display_name), \
               description = COALESCE($4, description), controller = COALESCE($5, controller), \
               scheduler = COALESCE($6, scheduler), state = COALESCE($7, state), updated_at = $8 WHERE id = $1";
    let args =
        args![id, edit.config, edit.display_name, edit.description, edit.controller, edit.scheduler, edit.state, now];
    write.run(sql, args).await?;
    Ok(())
}

fn sweep(row: &Row) -> Result<Sweep> {
    Ok(Sweep {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        entity_id: row.get("entity_id")?,
        name: row.get("name")?,
        display_name: row.get("display_name")?,
        state: row.get("state")?,
        description: row.get("description")?,
        config: row.get("config")?,
        controller: row.get("controller")?,
        scheduler: row.get("scheduler")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        heartbeat_at: row.get("heartbeat_at")?,
    })
}

#[derive(Clone, Debug)]
pub struct Agent {
    pub id: i64,
    pub sweep_id: i64,
    pub name: String,
    pub host: String,
    pub state: String,
    pub created_at: i64,
    pub heartbeat_at: i64,
}

pub async fn add_agent(write: &mut Write, sweep: i64, name: &str, host: &str, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO sweep_agents (sweep_id, name, host, state, created_at, heartbeat_at) \
               VALUES ($1, $2, $3, 'RUNNING', $4, $4) RETURNING id";
    write.one(sql, args![sweep, name, host, now]).await?.get("id")
}

pub async fn agent_by_id(database: &Database, id: i64) -> Result<Option<Agent>> {
    database.maybe("SELECT * FROM sweep_agents WHERE id = $1", args![id]).await?.map(|row| agent(&row)).transpose()
}

pub async fn agents_of(database: &Database, sweep: i64) -> Result<Vec<Agent>> {
    let sql = "SELECT * FROM sweep_agents WHERE sweep_id = $1 ORDER BY id";
    database.all(sql, args![sweep]).await?.iter().map(agent).collect()
}

/// Notes that an agent was heard of, and keeps others from choosing the sweep's next run until the transaction ends.
pub async fn hear(write: &mut Write, agent: &Agent, now: Timestamp) -> Result<()> {
    write.run("UPDATE sweeps SET heartbeat_at = $2 WHERE id = $1", args![agent.sweep_id, now]).await?;
    write.run("UPDATE sweep_agents SET heartbeat_at = $2 WHERE id = $1", args![agent.id, now]).await?;
    Ok(())
}

/// The state of a run of which its agent has not spoken yet.
const GIVEN_OUT: &str = "given";

/// A run that a sweep has given out, as far as it has come.
#[derive(Clone, Debug)]
pub struct Given {
    pub run_name: String,
    /// 0 of a run that was there before the sweep.
    pub agent_id: i64,
    /// JSON text.
    pub params: String,
    /// Whether its agent has spoken of it.
    pub is_confirmed: bool,
    /// How often these parameters were given out.
    pub times: i64,
    /// When its agent was heard of.
    pub heard_at: i64,
    /// The rest is nothing until its process calls `wandb.init`.
    pub run_id: Option<i64>,
    pub state: Option<String>,
    pub history_lines: Option<i64>,
    /// Only where it is asked for; summaries may be large.
    pub summary: Option<String>,
}

impl Given {
    /// Whether it was there before the sweep, which neither gave it to an agent nor will.
    pub fn is_prior(&self) -> bool {
        self.agent_id == 0
    }
}

const GIVEN: &str = "SELECT s.run_name, s.agent_id, s.params, s.state AS progress, s.times, COALESCE(a.heartbeat_at, 0) AS heard_at, \
               r.id AS run_id, r.state, r.history_lines, CASE WHEN $3 = 1 THEN r.summary END AS summary FROM sweep_runs s LEFT JOIN sweep_agents a ON a.id = s.agent_id \
               LEFT JOIN runs r ON r.project_id = $2 AND r.name = s.run_name WHERE s.sweep_id = $1 ORDER BY r.id, s.run_name";

/// All runs that the sweep has given out, oldest first, without their summaries.
pub async fn given(database: &Database, sweep: &Sweep) -> Result<Vec<Given>> {
    database.all(GIVEN, args![sweep.id, sweep.project_id, false]).await?.iter().map(read_given).collect()
}

/// The same, as a transaction sees it that chooses the next, with their summaries if those are heeded.
pub async fn given_locked(write: &mut Write, sweep: &Sweep, with_summaries: bool) -> Result<Vec<Given>> {
    write.all(GIVEN, args![sweep.id, sweep.project_id, with_summaries]).await?.iter().map(read_given).collect()
}

fn read_given(row: &Row) -> Result<Given> {
    Ok(Given {
        run_name: row.get("run_name")?,
        agent_id: row.get("agent_id")?,
        params: row.get("params")?,
        is_confirmed: row.get::<String>("progress")? != GIVEN_OUT,
        times: row.get("times")?,
        heard_at: row.get("heard_at")?,
        run_id: row.get("run_id")?,
        state: row.get("state")?,
        history_lines: row.get("history_lines")?,
        summary: row.get("summary")?,
    })
}

/// The names of the runs that an agent was given.
pub async fn runs_of_agent(database: &Database, agent: i64) -> Result<Vec<String>> {
    let sql = "SELECT run_name FROM sweep_runs WHERE agent_id = $1";
    database.all(sql, args![agent]).await?.iter().map(|row| row.get("run_name")).collect()
}

/// Its agent has spoken of a run.
pub async fn confirm(write: &mut Write, sweep: i64, run: &str) -> Result<()> {
    let sql = "UPDATE sweep_runs SET state = 'running' WHERE sweep_id = $1 AND run_name = $2";
    write.run(sql, args![sweep, run]).await?;
    Ok(())
}

/// Gives the parameters of a run that never came to another, under a new name.
pub async fn give_again(write: &mut Write, agent: &Agent, lost: &str, run: &str) -> Result<()> {
    let sql = "UPDATE sweep_runs SET run_name = $3, agent_id = $4, state = $5, times = times + 1 \
               WHERE sweep_id = $1 AND run_name = $2";
    write.run(sql, args![agent.sweep_id, lost, run, agent.id, GIVEN_OUT]).await?;
    Ok(())
}

/// Another agent goes on with a run.
pub async fn hand_over(write: &mut Write, sweep: i64, run: &str, agent: i64) -> Result<()> {
    let sql = "UPDATE sweep_runs SET agent_id = $3 WHERE sweep_id = $1 AND run_name = $2";
    write.run(sql, args![sweep, run, agent]).await?;
    Ok(())
}

pub async fn add_run(write: &mut Write, agent: &Agent, run: &str, params: &str) -> Result<()> {
    let sql = "INSERT INTO sweep_runs (sweep_id, run_name, agent_id, params, state) VALUES ($1, $2, $3, $4, $5)";
    write.run(sql, args![agent.sweep_id, run, agent.id, params, GIVEN_OUT]).await?;
    Ok(())
}

/// Puts a run that was there before the sweep among its runs, unless it is of another.
pub async fn add_prior_run(write: &mut Write, sweep: &Sweep, prior: &Prior, now: Timestamp) -> Result<()> {
    let sql = "UPDATE runs SET sweep_name = $2, updated_at = $3, is_indexed = -ABS(is_indexed) \
               WHERE id = $1 AND sweep_name IS NULL";
    if write.run(sql, args![prior.run_id, &sweep.name, now]).await? == 0 {
        return Ok(());
    }
    let sql = "INSERT INTO sweep_runs (sweep_id, run_name, agent_id, params, state) VALUES ($1, $2, 0, $3, 'prior') \
               ON CONFLICT DO NOTHING";
    write.run(sql, args![sweep.id, &prior.run_name, &prior.params]).await?;
    Ok(())
}

/// A run from before a sweep.
pub struct Prior {
    pub run_id: i64,
    pub run_name: String,
    /// JSON text: what it was run with of what the sweep searches.
    pub params: String,
}

pub async fn set_state(write: &mut Write, sweep: i64, state: &str, now: Timestamp) -> Result<()> {
    write.run("UPDATE sweeps SET state = $2, updated_at = $3 WHERE id = $1", args![sweep, state, now]).await?;
    Ok(())
}

fn agent(row: &Row) -> Result<Agent> {
    Ok(Agent {
        id: row.get("id")?,
        sweep_id: row.get("sweep_id")?,
        name: row.get("name")?,
        host: row.get("host")?,
        state: row.get("state")?,
        created_at: row.get("created_at")?,
        heartbeat_at: row.get("heartbeat_at")?,
    })
}
