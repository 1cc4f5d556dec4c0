//! Runs in the database.

use super::search::Condition;
use super::{Run, columns, names};
use crate::args;
use crate::database::{Database, Result, Row, Value, Write, places};
use jiff::Timestamp;
use std::collections::HashMap;
use volley_plan::run::state::State;

const RUNS: &str = "SELECT r.*, p.name AS project, p.entity_id, e.name AS entity, u.username FROM runs r \
    JOIN projects p ON p.id = r.project_id JOIN entities e ON e.id = p.entity_id JOIN users u ON u.id = r.user_id";

fn runs(rest: &str) -> sqlx::AssertSqlSafe<String> {
    sqlx::AssertSqlSafe(format!("{RUNS} {rest}"))
}

pub async fn by_name(database: &Database, project: i64, name: &str) -> Result<Option<Run>> {
    let row = database.maybe(runs("WHERE r.project_id = $1 AND r.name = $2"), args![project, name]).await?;
    row.map(|row| run(&row)).transpose()
}

pub async fn by_id(database: &Database, id: i64) -> Result<Option<Run>> {
    database.maybe(runs("WHERE r.id = $1"), args![id]).await?.map(|row| run(&row)).transpose()
}

/// Reads a run inside a transaction, and keeps others from changing it until the transaction ends.
pub async fn lock(write: &mut Write, project: i64, name: &str) -> Result<Option<Run>> {
    // An update of nothing takes the row's lock on either engine.
    let sql = "UPDATE runs SET updated_at = updated_at WHERE project_id = $1 AND name = $2";
    write.run(sql, args![project, name]).await?;
    let row = write.maybe(runs("WHERE r.project_id = $1 AND r.name = $2"), args![project, name]).await?;
    row.map(|row| run(&row)).transpose()
}

/// The same by its number.
pub async fn lock_by_id(write: &mut Write, id: i64) -> Result<Option<Run>> {
    write.run("UPDATE runs SET updated_at = updated_at WHERE id = $1", args![id]).await?;
    write.maybe(runs("WHERE r.id = $1"), args![id]).await?.map(|row| run(&row)).transpose()
}

/// Those of the runs with these numbers that a condition lets through, in that order; its arguments are behind the numbers.
pub async fn with_ids(database: &Database, ids: &[i64], condition: Condition) -> Result<Vec<Run>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let sql = runs(&format!("WHERE r.id IN ({}) AND {}", places(1, ids.len()), condition.sql));
    let args = ids.iter().map(|id| Value::from(*id)).chain(condition.args).collect();
    let mut found: Vec<Run> = database.all(sql, args).await?.iter().map(run).collect::<Result<_>>()?;
    let order: HashMap<i64, usize> = ids.iter().zip(0..).map(|(id, place)| (*id, place)).collect();
    found.sort_by_key(|run| order.get(&run.id).copied());
    Ok(found)
}

/// The same inside a transaction, in any order.
pub async fn with_ids_in(write: &mut Write, ids: &[i64]) -> Result<Vec<Run>> {
    let sql = runs(&format!("WHERE r.id IN ({})", places(1, ids.len())));
    write.all(sql, ids.iter().map(|id| Value::from(*id)).collect()).await?.iter().map(run).collect()
}

/// What a page of runs by age is asked with.
pub struct ByAge {
    pub project: i64,
    pub is_falling: bool,
    /// Only runs behind this one.
    pub after: Option<i64>,
    pub limit: usize,
}

/// How many arguments `page` has before those of its condition.
pub const PAGE_ARGS: usize = 3;

pub async fn page(database: &Database, by: &ByAge, condition: Condition) -> Result<Vec<Run>> {
    // Ids rise with age, so they stand for it.
    let (bound, sign, way) = if by.is_falling { (i64::MAX, "<", "DESC") } else { (0, ">", "") };
    let sql = format!("WHERE r.project_id = $1 AND r.id {sign} $2 AND {} ORDER BY r.id {way} LIMIT $3", condition.sql);
    let args = args![by.project, by.after.unwrap_or(bound), by.limit].into_iter().chain(condition.args).collect();
    database.all(runs(&sql), args).await?.iter().map(run).collect()
}

/// How many runs an exact condition lets through.
pub async fn count_passing(database: &Database, project: i64, condition: Condition) -> Result<i64> {
    let sql = format!(
        "SELECT COUNT(*) AS n FROM runs r JOIN users u ON u.id = r.user_id WHERE r.project_id = $1 AND {}",
        condition.sql
    );
    let args = args![project].into_iter().chain(condition.args).collect();
    database.maybe(sqlx::AssertSqlSafe(sql), args).await?.map_or(Ok(0), |row| row.get("n"))
}

pub async fn count(database: &Database, project: i64) -> Result<i64> {
    let row = database.maybe("SELECT COUNT(*) AS n FROM runs WHERE project_id = $1", args![project]).await?;
    row.map_or(Ok(0), |row| row.get("n"))
}

pub async fn of_sweep(database: &Database, project: i64, sweep: &str) -> Result<Vec<Run>> {
    let sql = runs("WHERE r.project_id = $1 AND r.sweep_name = $2 ORDER BY r.id");
    database.all(sql, args![project, sweep]).await?.iter().map(run).collect()
}

pub struct NewRun<'a> {
    pub project: i64,
    pub name: &'a str,
    /// One is made up when none is given.
    pub label: Option<&'a str>,
    pub state: State,
    pub user: i64,
}

/// Adds a run unless its name is taken; says whether it did.
pub async fn insert(write: &mut Write, new: &NewRun<'_>, now: Timestamp) -> Result<bool> {
    let sql = "INSERT INTO runs (project_id, name, display_name, tags, config, summary, state, is_stopped, user_id, \
               created_at, updated_at, heartbeat_at, history_lines, event_lines, log_lines, history_keys, system_metrics) \
               VALUES ($1, $2, $3, '[]', '{}', '{}', $4, 0, $5, $6, $6, $6, 0, 0, 0, '', '{}') \
               ON CONFLICT (project_id, name) DO NOTHING";
    let args = args![new.project, new.name, new.label.unwrap_or_default(), new.state.name(), new.user, now];
    if write.run(sql, args).await? == 0 {
        return Ok(false);
    }
    let number = next_number(write, new.project).await?;
    if new.label.is_none() {
        let sql = "UPDATE runs SET display_name = $3 WHERE project_id = $1 AND name = $2";
        write.run(sql, args![new.project, new.name, names::new_label(number)]).await?;
    }
    Ok(true)
}

/// The number of a new run in its project, which no other has had.
async fn next_number(write: &mut Write, project: i64) -> Result<i64> {
    let sql = "INSERT INTO run_counters (project_id, begun) VALUES ($1, 1) \
               ON CONFLICT (project_id) DO UPDATE SET begun = run_counters.begun + 1 RETURNING begun";
    write.one(sql, args![project]).await?.get("begun")
}

/// What a client may change of a run; what is left out stays.
#[derive(Default)]
pub struct Edit {
    pub display_name: Option<String>,
    pub description: Option<String>,
    pub notes: Option<String>,
    pub tags: Option<String>,
    pub config: Option<String>,
    pub summary: Option<String>,
    pub group_name: Option<String>,
    pub job_type: Option<String>,
    pub commit_hash: Option<String>,
    pub host: Option<String>,
    pub program: Option<String>,
    pub repo: Option<String>,
    pub sweep_name: Option<String>,
}

pub async fn edit(write: &mut Write, id: i64, edit: Edit, now: Timestamp) -> Result<()> {
    let sql = "UPDATE runs SET display_name = COALESCE($3, display_name), description = COALESCE($4, description), \
               notes = COALESCE($5, notes), tags = COALESCE($6, tags), config = COALESCE($7, config), \
               summary = COALESCE($8, summary), group_name = COALESCE($9, group_name), job_type = COALESCE($10, job_type), \
               commit_hash = COALESCE($11, commit_hash), host = COALESCE($12, host), program = COALESCE($13, program), \
               repo = COALESCE($14, repo), sweep_name = COALESCE($15, sweep_name), updated_at = $2, \
               is_indexed = -ABS(is_indexed) WHERE id = $1";
    let args = args![
        id, now, edit.display_name, edit.description, edit.notes, edit.tags, edit.config, edit.summary,
        edit.group_name, edit.job_type, edit.commit_hash, edit.host, edit.program, edit.repo, edit.sweep_name
    ];
    write.run(sql, args).await?;
    Ok(())
}

/// A process began, or began again, or spoke: it is alive.
pub async fn begin(write: &mut Write, id: i64, state: State, is_stopped: bool, now: Timestamp) -> Result<()> {
    let sql = "UPDATE runs SET state = $2, is_stopped = $3, heartbeat_at = $4, exit_code = NULL, \
               is_indexed = -ABS(is_indexed) WHERE id = $1";
    write.run(sql, args![id, state.name(), is_stopped, now]).await?;
    Ok(())
}

/// What a run's history is after it was cut or taken over from another.
pub async fn set_history(write: &mut Write, id: i64, lines: i64, keys: &str, summary: &str) -> Result<()> {
    let sql = "UPDATE runs SET history_lines = $2, history_keys = $3, summary = $4, is_indexed = -ABS(is_indexed) \
               WHERE id = $1";
    write.run(sql, args![id, lines, keys, summary]).await?;
    Ok(())
}

/// How many lines of a stream a process that shares a run has sent, if it has sent any.
pub async fn lines_sent(write: &mut Write, run: i64, client: &str, stream: &str) -> Result<Option<i64>> {
    let sql = "SELECT lines FROM writers WHERE run_id = $1 AND client = $2 AND stream = $3";
    write.maybe(sql, args![run, client, stream]).await?.map(|row| row.get("lines")).transpose()
}

pub async fn note_lines_sent(write: &mut Write, run: i64, (client, stream): (&str, &str), lines: i64) -> Result<()> {
    let sql = "INSERT INTO writers (run_id, client, stream, lines) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (run_id, client, stream) DO UPDATE SET lines = excluded.lines";
    write.run(sql, args![run, client, stream, lines]).await?;
    Ok(())
}

pub async fn set_state(write: &mut Write, id: i64, state: State, now: Timestamp) -> Result<()> {
    let sql = "UPDATE runs SET state = $2, updated_at = $3, is_indexed = -ABS(is_indexed) WHERE id = $1";
    write.run(sql, args![id, state.name(), now]).await?;
    Ok(())
}

/// The agent that saw all of its processes says how they ended.
pub async fn end(write: &mut Write, id: i64, state: State, exit_code: i64, now: Timestamp) -> Result<()> {
    let sql = "UPDATE runs SET state = $2, exit_code = $3, updated_at = $4, heartbeat_at = $4, \
               is_indexed = -ABS(is_indexed) WHERE id = $1";
    write.run(sql, args![id, state.name(), exit_code, now]).await?;
    Ok(())
}

pub async fn stop(write: &mut Write, id: i64, now: Timestamp) -> Result<()> {
    write.run("UPDATE runs SET is_stopped = 1, updated_at = $2 WHERE id = $1", args![id, now]).await?;
    Ok(())
}

pub async fn delete(write: &mut Write, project: i64, id: i64) -> Result<()> {
    columns::unpack(write, project, id).await?;
    write.run("DELETE FROM runs WHERE id = $1", args![id]).await?;
    Ok(())
}

/// What a post to the file stream changes.
pub struct Posted {
    pub state: State,
    pub exit_code: Option<i64>,
    pub summary: Option<String>,
    pub system_metrics: Option<String>,
    pub history_keys: Option<String>,
    pub history_lines: i64,
    pub event_lines: i64,
    pub log_lines: i64,
}

pub async fn note_post(write: &mut Write, id: i64, posted: Posted, now: Timestamp) -> Result<()> {
    let sql = "UPDATE runs SET state = $3, exit_code = $4, summary = COALESCE($5, summary), \
               system_metrics = COALESCE($6, system_metrics), history_keys = COALESCE($7, history_keys), \
               history_lines = $8, event_lines = $9, log_lines = $10, heartbeat_at = $2, updated_at = $2, \
               is_indexed = CASE WHEN $5 IS NULL AND state = $3 THEN is_indexed ELSE -ABS(is_indexed) END WHERE id = $1";
    let args: Vec<Value> = args![
        id,
        now,
        posted.state.name(),
        posted.exit_code,
        posted.summary,
        posted.system_metrics,
        posted.history_keys,
        posted.history_lines,
        posted.event_lines,
        posted.log_lines
    ];
    write.run(sql, args).await?;
    Ok(())
}

/// Runs that have said nothing themselves since `before`, but which an agent that was heard of since `heard` sees running.
pub async fn vouched_for(database: &Database, before: Timestamp, heard: Timestamp, limit: usize) -> Result<Vec<i64>> {
    let sql = "SELECT r.id FROM runs r JOIN items i ON i.run_id = r.id JOIN agents a ON a.id = i.agent_id \
               WHERE r.state = 'running' AND r.heartbeat_at < $1 AND i.state = 'RUNNING' AND i.keeper = 'agent' \
               AND a.heartbeat_at > $2 ORDER BY r.heartbeat_at LIMIT $3";
    let rows = database.all(sql, args![before, heard, limit]).await?;
    rows.iter().map(|row| row.get("id")).collect()
}

/// They are alive. Who is being changed right now need not be told.
pub async fn hear(write: &mut Write, ids: &[i64], now: Timestamp) -> Result<()> {
    let skip = write.dialect().skip_locked();
    let places = places(1, ids.len());
    let at = ids.len() + 1;
    let sql = format!(
        "UPDATE runs SET heartbeat_at = ${at} WHERE id IN (SELECT id FROM runs WHERE id IN ({places}) ORDER BY id {skip})"
    );
    let args = ids.iter().map(|id| Value::from(*id)).chain([Value::from(now)]).collect();
    write.run(sqlx::AssertSqlSafe(sql), args).await?;
    Ok(())
}

/// Runs that should have spoken since `before`.
pub async fn silent(database: &Database, before: Timestamp, limit: usize) -> Result<Vec<Run>> {
    let sql =
        runs("WHERE r.state IN ('running', 'preempting') AND r.heartbeat_at < $1 ORDER BY r.heartbeat_at LIMIT $2");
    database.all(sql, args![before, limit]).await?.iter().map(run).collect()
}

pub fn run(row: &Row) -> Result<Run> {
    Ok(Run {
        id: row.get("id")?,
        project_id: row.get("project_id")?,
        project: row.get("project")?,
        entity_id: row.get("entity_id")?,
        entity: row.get("entity")?,
        name: row.get("name")?,
        display_name: row.get("display_name")?,
        description: row.get("description")?,
        notes: row.get("notes")?,
        tags: row.get("tags")?,
        config: row.get("config")?,
        summary: row.get("summary")?,
        group_name: row.get("group_name")?,
        job_type: row.get("job_type")?,
        commit_hash: row.get("commit_hash")?,
        host: row.get("host")?,
        program: row.get("program")?,
        repo: row.get("repo")?,
        sweep_name: row.get("sweep_name")?,
        state: row.get("state")?,
        is_stopped: row.is("is_stopped")?,
        exit_code: row.get("exit_code")?,
        user_id: row.get("user_id")?,
        username: row.get("username")?,
        created_at: row.get("created_at")?,
        updated_at: row.get("updated_at")?,
        heartbeat_at: row.get("heartbeat_at")?,
        history_lines: row.get("history_lines")?,
        event_lines: row.get("event_lines")?,
        log_lines: row.get("log_lines")?,
        history_keys: row.get("history_keys")?,
        system_metrics: row.get("system_metrics")?,
    })
}
