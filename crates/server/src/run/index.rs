//! The values of the fields that people search large projects by, so that a search for few runs reads few.
//!
//! A field is learned when it is first searched by; that search still reads all runs. From then on `work` keeps its values
//! beside those of the project's other fields. Whatever changes a run clears its `is_indexed` in the same statement, and a run
//! without it is a candidate of every search, so that what is found is always what is there.

use super::fields::Fields;
use super::{Run, store};
use crate::Shared;
use crate::args;
use crate::database::{Database, Dialect, Result, Row, Value, Write, places};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;
use volley_plan::run::filter::Filter;
use volley_plan::run::index::{self, Range};

/// In projects with fewer runs than this, reading them all is as fast.
const SMALL_MAX: usize = 2000;
/// Fields of a project that are kept; others are searched by reading.
const FIELDS_MAX: usize = 64;
/// Candidates that are looked at one by one; with more, reading the runs in order soon finds those that pass.
const CANDIDATES_MAX: usize = 5000;
/// A field that nobody has searched by for this long is forgotten.
const UNUSED_MAX: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How exactly it is noted when a field was last used.
const USE_NOTED_EVERY: SignedDuration = SignedDuration::from_hours(24);
/// A run that has just changed is likely to change again.
const QUIET: SignedDuration = SignedDuration::from_secs(10);
/// How often runs that have become quiet are looked for.
const ROUND: Duration = Duration::from_secs(5);
/// Runs whose values are written together: others wait meanwhile.
const BATCH: usize = 100;
/// Values that are deleted together.
const FORGOTTEN_MAX: usize = 5000;
/// Parts and ranges of a filter; the engines take some hundreds, and some ten thousands of arguments.
const LEAVES_MAX: usize = 32;
const RANGES_MAX: usize = 5000;
/// Of replicas that share a database one works at a time. Any number will do.
const POSTGRES_LOCK: i64 = 0x0069_6e64_6578;
/// All runs that have values have this field's.
const DONE: i64 = i64::MAX;

/// The fields of a project whose values are kept.
pub struct Index {
    project: i64,
    fields: Vec<Field>,
}

struct Field {
    id: i64,
    project: i64,
    name: String,
    done_to: i64,
    used_at: i64,
}

impl Index {
    /// What is known of the fields by which this filter searches; mostly there are none.
    pub async fn behind(filter: &Filter, database: &Database, project: i64) -> Result<Index> {
        match index::fields(filter).is_empty() {
            true => Ok(Index { project, fields: Vec::new() }),
            false => Index::of(database, project).await,
        }
    }

    async fn of(database: &Database, project: i64) -> Result<Index> {
        let rows = database.all("SELECT * FROM search_fields WHERE project_id = $1", args![project]).await?;
        Ok(Index { project, fields: rows.iter().map(field).collect::<Result<_>>()? })
    }

    /// The runs that may pass, oldest first; nothing if they are too many or the index does not know.
    pub async fn candidates(&self, database: &Database, filter: &Filter) -> Result<Option<Vec<i64>>> {
        let Some(set) = index::Set::of(filter, &|name| self.ready(name).is_some()) else {
            return Ok(None);
        };
        let leaves = set.leaves();
        if leaves.len() > LEAVES_MAX || leaves.iter().map(|(_, ranges)| ranges.len()).sum::<usize>() > RANGES_MAX {
            return Ok(None);
        }
        // Sets are put together whole, so one that holds most runs costs more than it saves.
        let mut are_small = vec![true; leaves.len()];
        if leaves.len() > 1 {
            for ((name, ranges), is_small) in leaves.into_iter().zip(&mut are_small) {
                *is_small = self.is_small(database, name, ranges).await?;
            }
        }
        let Some(set) = set.keep(&mut are_small.into_iter()) else {
            return Ok(None);
        };
        let mut args = Vec::new();
        let set = self.select(&set, &mut args);
        args.extend(args![self.project, CANDIDATES_MAX + 1]);
        let (project, limit) = (args.len() - 1, args.len());
        let unindexed = format!("SELECT id AS run_id FROM runs WHERE project_id = ${project} AND is_indexed = 0");
        let sql = format!("SELECT run_id FROM ({set}) AS found UNION ALL {unindexed} LIMIT ${limit}");
        let rows = database.all(sqlx::AssertSqlSafe(sql), args).await?;
        // A field that was forgotten meanwhile had no values any more.
        let now = Index::of(database, self.project).await?;
        let are_all_there =
            self.fields.iter().all(|field| field.done_to != DONE || now.ready(&field.name) == Some(field.id));
        if rows.len() > CANDIDATES_MAX || !are_all_there {
            return Ok(None);
        }
        let mut ids: Vec<i64> = rows.iter().map(|row| row.get("run_id")).collect::<Result<_>>()?;
        ids.sort_unstable();
        ids.dedup();
        Ok(Some(ids))
    }

    /// The number of a field that all indexed runs have their values of.
    fn ready(&self, name: &str) -> Option<i64> {
        self.fields.iter().find(|field| field.name == name && field.done_to == DONE).map(|field| field.id)
    }

    async fn is_small(&self, database: &Database, name: &str, ranges: &[Range]) -> Result<bool> {
        let mut args = Vec::new();
        let set = self.within(name, ranges, &mut args);
        args.extend(args![CANDIDATES_MAX]);
        let skip = args.len();
        let sql = format!("SELECT run_id FROM ({set}) AS found LIMIT 1 OFFSET ${skip}");
        Ok(database.maybe(sqlx::AssertSqlSafe(sql), args).await?.is_none())
    }

    /// A statement that selects the runs of a set.
    fn select(&self, set: &index::Set, args: &mut Vec<Value>) -> String {
        let (inner, word) = match set {
            index::Set::Within(name, ranges) => return self.within(name, ranges, args),
            index::Set::All(inner) => (inner, " INTERSECT "),
            index::Set::Any(inner) => (inner, " UNION "),
        };
        let select = |set| format!("SELECT run_id FROM ({}) AS found", self.select(set, args));
        inner.iter().map(select).collect::<Vec<_>>().join(word)
    }

    fn within(&self, name: &str, ranges: &[Range], args: &mut Vec<Value>) -> String {
        args.extend(args![self.ready(name).unwrap_or_default()]);
        let field = args.len();
        let mut place = |key: &[u8]| {
            args.extend(args![key.to_vec()]);
            format!("${}", args.len())
        };
        let (single, wide): (Vec<_>, Vec<_>) = ranges.iter().partition(|Range(first, last)| first == last);
        let mut parts: Vec<String> = Vec::new();
        if !single.is_empty() {
            let keys = single.iter().map(|Range(key, _)| place(key)).collect::<Vec<_>>().join(", ");
            parts.push(format!("value IN ({keys})"));
        }
        for Range(first, last) in wide {
            parts.push(format!("value BETWEEN {} AND {}", place(first), place(last)));
        }
        let select = |part| format!("SELECT run_id FROM search_values WHERE field_id = ${field} AND {part}");
        parts.into_iter().map(select).collect::<Vec<_>>().join(" UNION ALL ")
    }

    /// Notes by which fields somebody has searched.
    pub async fn learn(&self, shared: &Shared, filter: &Filter) {
        if let Err(error) = self.note(shared, filter).await {
            // The search itself has its answer.
            tracing::warn!(error = &error as &dyn std::error::Error, "failed to note what runs were searched by");
        }
    }

    async fn note(&self, shared: &Shared, filter: &Filter) -> Result<()> {
        let now = Timestamp::now();
        let (mut news, mut room) = (Vec::new(), FIELDS_MAX.saturating_sub(self.fields.len()));
        for name in index::fields(filter) {
            match self.fields.iter().find(|field| field.name == name) {
                Some(field) if field.used_at >= (now - USE_NOTED_EVERY).as_microsecond() => (),
                Some(_) => news.push(name),
                None if room == 0 => (),
                None => {
                    room -= 1;
                    news.push(name);
                }
            }
        }
        if news.is_empty() || !self.is_worth_it(&shared.database).await? {
            return Ok(());
        }
        let mut write = shared.database.write().await?;
        for name in news {
            learn(&mut write, self.project, name, now).await?;
        }
        write.commit().await?;
        shared.searched.notify_one();
        Ok(())
    }

    async fn is_worth_it(&self, database: &Database) -> Result<bool> {
        let sql = "SELECT id FROM runs WHERE project_id = $1 ORDER BY id LIMIT 1 OFFSET $2";
        Ok(database.maybe(sql, args![self.project, SMALL_MAX]).await?.is_some())
    }
}

async fn learn(write: &mut Write, project: i64, name: &str, now: Timestamp) -> Result<()> {
    let sql = "INSERT INTO search_fields (project_id, name, done_to, used_at) VALUES ($1, $2, 0, $3) \
               ON CONFLICT (project_id, name) DO UPDATE SET used_at = excluded.used_at";
    write.run(sql, args![project, name, now]).await?;
    Ok(())
}

/// Keeps the values of all learned fields up to date, until the server stops.
pub async fn work(shared: Shared) {
    loop {
        let began = std::time::Instant::now();
        let pause = match round(&shared.database, Timestamp::now()).await {
            // Writers get their turns in between.
            Ok(true) => began.elapsed(),
            Ok(false) => ROUND,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a round over runs to be indexed failed");
                ROUND
            }
        };
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = shared.searched.notified() => (),
            () = tokio::time::sleep(pause) => (),
        }
    }
}

/// Does a part of what is to be done; says whether there was anything.
async fn round(database: &Database, now: Timestamp) -> Result<bool> {
    let rows = database.all("SELECT * FROM search_fields ORDER BY id", args![]).await?;
    let mut projects: BTreeMap<i64, Vec<Field>> = BTreeMap::new();
    for row in &rows {
        let field = field(row)?;
        projects.entry(field.project).or_default().push(field);
    }
    let mut has_worked = false;
    for (project, fields) in projects {
        for field in &fields {
            if field.used_at < (now - UNUSED_MAX).as_microsecond() {
                has_worked |= forget(database, field).await?;
            } else if field.done_to != DONE {
                has_worked |= extend(database, field).await?;
            }
        }
        has_worked |= refresh(database, project, now).await?;
    }
    Ok(has_worked)
}

/// Takes a field back, its values first.
async fn forget(database: &Database, field: &Field) -> Result<bool> {
    let Some(mut write) = turn(database).await? else {
        return Ok(false);
    };
    write.run("UPDATE search_fields SET done_to = 0 WHERE id = $1", args![field.id]).await?;
    let sql = "DELETE FROM search_values WHERE field_id = $1 AND run_id IN \
               (SELECT run_id FROM search_values WHERE field_id = $1 LIMIT $2)";
    if write.run(sql, args![field.id, FORGOTTEN_MAX]).await? == 0 {
        write.run("DELETE FROM search_fields WHERE id = $1", args![field.id]).await?;
    }
    write.commit().await?;
    Ok(true)
}

/// A transaction of the only one that works; nothing if another does.
async fn turn(database: &Database) -> Result<Option<Write>> {
    let mut write = database.write().await?;
    if write.dialect() == Dialect::Postgres {
        let sql = "SELECT 1 AS mine WHERE pg_try_advisory_xact_lock($1)";
        if write.maybe(sql, args![POSTGRES_LOCK]).await?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(write))
}

/// Writes the values of runs that have changed and are quiet now.
async fn refresh(database: &Database, project: i64, now: Timestamp) -> Result<bool> {
    const CHANGED: &str =
        "SELECT id FROM runs WHERE project_id = $1 AND is_indexed = 0 AND updated_at <= $2 ORDER BY id LIMIT $3";
    if database.all(CHANGED, args![project, now - QUIET, 1]).await?.is_empty() {
        return Ok(false);
    }
    let Some(mut write) = turn(database).await? else {
        return Ok(false);
    };
    // Who is being changed right now is for later; nobody changes the others until their values are written.
    let skip = write.dialect().skip_locked();
    let rows = write.all(sqlx::AssertSqlSafe(format!("{CHANGED} {skip}")), args![project, now - QUIET, BATCH]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
    if ids.is_empty() {
        return Ok(false);
    }
    let (places, args) = (places(1, ids.len()), || ids.iter().map(|id| Value::from(*id)).collect());
    let sql = format!("UPDATE runs SET is_indexed = 1 WHERE id IN ({places})");
    write.run(sqlx::AssertSqlSafe(sql), args()).await?;
    let sql = format!("DELETE FROM search_values WHERE run_id IN ({places})");
    write.run(sqlx::AssertSqlSafe(sql), args()).await?;
    let rows = write.all("SELECT * FROM search_fields WHERE project_id = $1", args![project]).await?;
    let fields: Vec<Field> = rows.iter().map(field).collect::<Result<_>>()?;
    let runs = store::with_ids_in(&mut write, &ids).await?;
    put(&mut write, &runs, &fields).await?;
    write.commit().await?;
    Ok(true)
}

/// Writes a new field's values of the next runs that have those of others.
async fn extend(database: &Database, field: &Field) -> Result<bool> {
    let Some(mut write) = turn(database).await? else {
        return Ok(false);
    };
    let sql = "SELECT id FROM runs WHERE project_id = $1 AND id > $2 AND is_indexed = 1 ORDER BY id LIMIT $3";
    let rows = write.all(sql, args![field.project, field.done_to, BATCH]).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
    if !ids.is_empty() {
        let runs = store::with_ids_in(&mut write, &ids).await?;
        put(&mut write, &runs, std::slice::from_ref(field)).await?;
    }
    let done_to = ids.last().filter(|_| ids.len() == BATCH).copied().unwrap_or(DONE);
    write.run("UPDATE search_fields SET done_to = $2 WHERE id = $1", args![field.id, done_to]).await?;
    write.commit().await?;
    Ok(true)
}

async fn put(write: &mut Write, runs: &[Run], fields: &[Field]) -> Result<()> {
    /// Three arguments each, of which the engines take some ten thousands.
    const ROWS: usize = 1000;
    let mut values = Vec::new();
    for run in runs {
        let seen = Fields::of(run);
        for field in fields {
            let keys = seen.get(&field.name).map(|value| index::keys(&value)).unwrap_or_default();
            values.extend(keys.into_iter().map(|key| (run.id, field.id, key)));
        }
    }
    for rows in values.chunks(ROWS) {
        let places = (0..rows.len()).map(|row| format!("(${}, ${}, ${})", 3 * row + 1, 3 * row + 2, 3 * row + 3));
        let places = places.collect::<Vec<_>>().join(", ");
        let sql = format!("INSERT INTO search_values (run_id, field_id, value) VALUES {places} ON CONFLICT DO NOTHING");
        let args = rows.iter().flat_map(|(run, field, key)| args![*run, *field, key.clone()]).collect();
        write.run(sqlx::AssertSqlSafe(sql), args).await?;
    }
    Ok(())
}

fn field(row: &Row) -> Result<Field> {
    Ok(Field {
        id: row.get("id")?,
        project: row.get("project_id")?,
        name: row.get("name")?,
        done_to: row.get("done_to")?,
        used_at: row.get("used_at")?,
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Learns fields as a search in a large project does, without writing their values.
    pub async fn learned(database: &Database, project: i64, names: &[&str]) {
        let mut write = database.write().await.unwrap();
        for name in names {
            learn(&mut write, project, name, Timestamp::now()).await.unwrap();
        }
        write.commit().await.unwrap();
    }

    /// Works until nothing is left to be done.
    pub async fn settled(database: &Database) {
        while round(database, Timestamp::now() + QUIET).await.unwrap() {}
    }

    #[tokio::test]
    async fn a_field_that_nobody_searches_by_is_forgotten_with_its_values() {
        let (_folder, database) = crate::run::graphql::project::tests::filled().await;
        learned(&database, 1, &["config.lr", "tags"]).await;
        settled(&database).await;
        let count = async || {
            let row = database.maybe("SELECT COUNT(*) AS n FROM search_values", args![]).await.unwrap().unwrap();
            row.get::<i64>("n").unwrap()
        };
        assert!(count().await > 100);
        while round(&database, Timestamp::now() + UNUSED_MAX + QUIET).await.unwrap() {}
        assert_eq!((Index::of(&database, 1).await.unwrap().fields.len(), count().await), (0, 0));
    }
}
