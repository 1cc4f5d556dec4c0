//! The values of large projects' runs by field (`plan::run::columns`), so that a search does not read every run.
//!
//! `work` packs runs that have become quiet. Whatever changes a run clears its `is_indexed` in the same statement, and a run
//! without it is a candidate of every search, so that what is found is always what is there.

use super::fields::Fields;
use super::{Run, store};
use crate::Shared;
use crate::args;
use crate::database::{Database, Dialect, Result, Value, Write, places};
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;
use volley_plan::run::columns::{self, Asked, Candidate, Packed};
use volley_plan::run::filter::Filter;

/// In projects with fewer runs than this, reading them all is as fast.
const SMALL_MAX: i64 = 2000;
/// Runs that are packed together.
const PACK: usize = 256;
/// A pack in the midst of which others become quiet may grow to so many times that.
const PACK_GROWTH: usize = 4;
/// A search by more fields reads the runs; the engines take some ten thousands of arguments.
const COLUMNS_MAX: usize = 400;
/// With more runs that are in no pack, reading them in order is as fast.
const UNPACKED_MAX: usize = 5000;
/// A run that has just changed is likely to change again, and one that runs even more so.
const QUIET: SignedDuration = SignedDuration::from_secs(10);
const QUIET_WHILE_RUNNING: SignedDuration = SignedDuration::from_mins(10);
/// How often runs that have become quiet are looked for.
const ROUND: Duration = Duration::from_secs(5);
/// Of replicas that share a database one works at a time. Any number will do.
const POSTGRES_LOCK: i64 = 0x0069_6e64_6578;

/// The runs that may pass, oldest first, with the values of the field that they are sorted by; nothing if the columns cannot say.
pub async fn candidates(
    database: &Database,
    project: i64,
    filter: &Filter,
    order: Option<&str>,
) -> Result<Option<Vec<Candidate>>> {
    let asked = Asked::of(filter.fields().into_iter().chain(order));
    let is_worth_it = filter.fields().into_iter().any(columns::is_value)
        || order.is_some_and(|field| columns::column(field).is_some());
    if !is_worth_it || asked.columns().len() > COLUMNS_MAX || !is_packed(database, project).await? {
        return Ok(None);
    }
    // One statement, so that a run that is packed meanwhile is in either half of the answer.
    let names = places(4, asked.columns().len());
    let sql = format!(
        "SELECT pack AS id, name, cells FROM run_columns WHERE project_id = $1 AND name IN ($3, {names}) UNION ALL \
         SELECT id, name, cells FROM (SELECT id, '' AS name, NULL AS cells FROM runs \
         WHERE project_id = $1 AND is_indexed < 1 LIMIT $2) AS unpacked"
    );
    let names = asked.columns().iter().map(|name| Value::from(name.as_str()));
    let args = args![project, UNPACKED_MAX + 1, columns::RUNS].into_iter().chain(names).collect();
    let rows = database.all(sqlx::AssertSqlSafe(sql), args).await?;
    let (mut packs, mut unpacked): (BTreeMap<i64, BTreeMap<String, String>>, Vec<i64>) = Default::default();
    for row in rows {
        let id = row.get("id")?;
        match row.get::<Option<String>>("cells")? {
            Some(cells) => drop(packs.entry(id).or_default().insert(row.get("name")?, cells)),
            None => unpacked.push(id),
        }
    }
    if unpacked.len() > UNPACKED_MAX {
        return Ok(None);
    }
    let mut found: BTreeMap<i64, Candidate> = BTreeMap::new();
    for pack in packs.values() {
        let Some(candidates) = columns::candidates(&asked, filter, order, pack) else {
            return Ok(None);
        };
        found.extend(candidates.into_iter().map(|candidate| (candidate.id, candidate)));
        // A million runs take a while.
        tokio::task::yield_now().await;
    }
    // What a pack says of these is no longer so.
    found.extend(unpacked.into_iter().map(|id| (id, Candidate { id, is_sure: false, value: None })));
    Ok(Some(found.into_values().collect()))
}

async fn is_packed(database: &Database, project: i64) -> Result<bool> {
    let sql = "SELECT pack FROM run_columns WHERE project_id = $1 AND name = $2 LIMIT 1";
    Ok(database.maybe(sql, args![project, columns::RUNS]).await?.is_some())
}

/// Takes back the pack of a run that is deleted; the others get another one.
pub async fn unpack(write: &mut Write, project: i64, run: i64) -> Result<()> {
    if write.dialect() == Dialect::Postgres {
        // Nobody packs meanwhile. This one has locked no run yet, so that nobody waits in a circle.
        write.all("SELECT pg_advisory_xact_lock($1)", args![POSTGRES_LOCK]).await?;
    }
    let row = write.maybe("SELECT is_indexed FROM runs WHERE id = $1", args![run]).await?;
    let has_pack = row.map(|row| row.get::<i64>("is_indexed")).transpose()?.is_some_and(|is_indexed| is_indexed != 0);
    let Some(pack) = pack_before(write, project, run).await?.filter(|_| has_pack) else {
        return Ok(());
    };
    let sql = "UPDATE runs SET is_indexed = 0 WHERE project_id = $1 AND id >= $2 AND id <= $3 AND is_indexed <> 0";
    write.run(sql, args![project, pack.first, pack.last]).await?;
    write.run("DELETE FROM run_columns WHERE project_id = $1 AND pack = $2", args![project, pack.first]).await?;
    Ok(())
}

struct Pack {
    /// Its name: the run from which on it takes runs in.
    first: i64,
    last: i64,
    length: usize,
}

/// The last pack that begins at a run or before it.
async fn pack_before(write: &mut Write, project: i64, run: i64) -> Result<Option<Pack>> {
    let sql = "SELECT pack, cells FROM run_columns WHERE project_id = $1 AND name = $2 AND pack <= $3 \
               ORDER BY pack DESC LIMIT 1";
    let Some(row) = write.maybe(sql, args![project, columns::RUNS, run]).await? else {
        return Ok(None);
    };
    let (first, runs) = (row.get("pack")?, columns::runs(&row.get::<String>("cells")?).unwrap_or_default());
    Ok(Some(Pack { first, last: runs.last().copied().unwrap_or(first), length: runs.len() }))
}

/// Packs runs until the server stops.
pub async fn work(shared: Shared) {
    loop {
        let began = std::time::Instant::now();
        let pause = match round(&shared.database, Timestamp::now()).await {
            // Writers get their turns in between.
            Ok(true) => began.elapsed(),
            Ok(false) => ROUND,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "a round over runs to be packed failed");
                ROUND
            }
        };
        tokio::select! {
            () = shared.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => (),
        }
    }
}

/// Makes a pack of each large project that has runs for one; says whether there was any.
async fn round(database: &Database, now: Timestamp) -> Result<bool> {
    let sql = "SELECT project_id FROM run_counters WHERE begun > $1 ORDER BY project_id";
    let mut has_worked = false;
    for row in database.all(sql, args![SMALL_MAX]).await? {
        has_worked |= pack(database, row.get("project_id")?, PACK, now).await?;
    }
    Ok(has_worked)
}

/// Packs the oldest run that is quiet, together with those around it; says whether there was one.
async fn pack(database: &Database, project: i64, length: usize, now: Timestamp) -> Result<bool> {
    const IS_QUIET: &str = "updated_at <= $2 AND (is_indexed = 0 OR updated_at <= $3 \
                            OR state NOT IN ('pending', 'running', 'preempting'))";
    let quiet = || args![project, now - QUIET, now - QUIET_WHILE_RUNNING];
    let sql =
        format!("SELECT id FROM runs WHERE project_id = $1 AND is_indexed < 1 AND {IS_QUIET} ORDER BY id LIMIT 1");
    let Some(row) = database.maybe(sqlx::AssertSqlSafe(sql), quiet()).await? else {
        return Ok(false);
    };
    let Some(mut write) = turn(database).await? else {
        return Ok(false);
    };
    let part = part_for(&mut write, project, row.get("id")?, length).await?;
    // Nobody changes these until they are packed.
    let lock = write.dialect().lock();
    let sql = format!(
        "SELECT id FROM runs WHERE project_id = $1 AND id >= $4 AND id <= $5 AND (is_indexed = 1 OR ({IS_QUIET})) \
         ORDER BY id LIMIT $6 {lock}"
    );
    let args = quiet().into_iter().chain(args![part.first, part.end, part.limit]).collect();
    let rows = write.all(sqlx::AssertSqlSafe(sql), args).await?;
    let ids: Vec<i64> = rows.iter().map(|row| row.get("id")).collect::<Result<_>>()?;
    let Some(last) = ids.last().copied() else {
        return Ok(false);
    };
    put(&mut write, project, part.first, &ids).await?;
    let sql = format!("UPDATE runs SET is_indexed = 1 WHERE id IN ({}) AND is_indexed < 1", places(1, ids.len()));
    write.run(sqlx::AssertSqlSafe(sql), ids.iter().map(|id| Value::from(*id)).collect()).await?;
    if last < part.last_before {
        // Those that have no room any more get another pack.
        let sql = "UPDATE runs SET is_indexed = 0 WHERE project_id = $1 AND id > $2 AND id <= $3 AND is_indexed <> 0";
        write.run(sql, args![project, last, part.last_before]).await?;
    }
    write.commit().await?;
    Ok(true)
}

/// What is packed because of a run.
struct Part {
    /// From this run on.
    first: i64,
    /// To this one, and so many of them.
    end: i64,
    limit: usize,
    /// The last one that the pack had before.
    last_before: i64,
}

/// A run in the midst of a pack is taken into it. One behind it fills it up, or begins the next.
async fn part_for(write: &mut Write, project: i64, run: i64, length: usize) -> Result<Part> {
    let sql = "SELECT MIN(pack) AS next FROM run_columns WHERE project_id = $1 AND name = $2 AND pack > $3";
    let next: Option<i64> = write.one(sql, args![project, columns::RUNS, run]).await?.get("next")?;
    let end = next.map_or(i64::MAX, |next| next - 1);
    Ok(match pack_before(write, project, run).await? {
        Some(pack) if run <= pack.last => {
            Part { first: pack.first, end: pack.last, limit: length * PACK_GROWTH, last_before: pack.last }
        }
        Some(pack) if pack.length < length => Part { first: pack.first, end, limit: length, last_before: pack.last },
        _ => Part { first: run, end, limit: length, last_before: run },
    })
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

/// Writes the columns of a pack.
async fn put(write: &mut Write, project: i64, pack: i64, ids: &[i64]) -> Result<()> {
    /// Two arguments each, of which the engines take some ten thousands.
    const ROWS: usize = 500;
    let mut runs = store::with_ids_in(write, ids).await?;
    runs.sort_by_key(|run| run.id);
    let columns: Vec<_> = columns_of(&runs).into_iter().collect();
    write.run("DELETE FROM run_columns WHERE project_id = $1 AND pack = $2", args![project, pack]).await?;
    for columns in columns.chunks(ROWS) {
        let row = |row| format!("($1, $2, ${}, ${})", 2 * row + 3, 2 * row + 4);
        let rows = (0..columns.len()).map(row).collect::<Vec<_>>().join(", ");
        let sql = format!("INSERT INTO run_columns (project_id, pack, name, cells) VALUES {rows}");
        let cells = columns.iter().flat_map(|(name, cells)| args![name.as_str(), cells.as_str()]);
        write.run(sqlx::AssertSqlSafe(sql), args![project, pack].into_iter().chain(cells).collect()).await?;
    }
    Ok(())
}

fn columns_of(runs: &[Run]) -> BTreeMap<String, String> {
    let fields: Vec<Fields> = runs.iter().map(Fields::of).collect();
    let readers: Vec<_> = fields.iter().map(Fields::reader).collect();
    let packed = fields.iter().zip(&readers).map(|(fields, get)| {
        let (config, summary) = (fields.config(), fields.summary());
        Packed { id: fields.run.id, config, summary, get }
    });
    columns::pack(&packed.collect::<Vec<_>>())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::run::graphql::project::tests::filled;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};
    use std::collections::BTreeSet;

    /// Packs of so many runs, until all are in one.
    pub async fn packed(database: &Database, length: usize) {
        while pack(database, 1, length, Timestamp::now() + QUIET_WHILE_RUNNING).await.unwrap() {}
    }

    /// The runs of each pack.
    async fn packs(database: &Database) -> Vec<Vec<i64>> {
        let sql = "SELECT cells FROM run_columns WHERE name = '' ORDER BY pack";
        let rows = database.all(sql, args![]).await.unwrap();
        rows.iter().map(|row| columns::runs(&row.get::<String>("cells").unwrap()).unwrap()).collect()
    }

    // PUB-2
    #[tokio::test]
    async fn every_run_is_in_one_pack_whenever_it_becomes_quiet_or_goes() {
        const LENGTH: usize = 5;
        let (_folder, database) = filled().await;
        let now = Timestamp::now();
        let (mut random, mut there) = (StdRng::seed_from_u64(7), BTreeSet::from_iter(1..=120));
        for step in 0..400 {
            let mut write = database.write().await.unwrap();
            let id = random.random_range(1..=120);
            // Some are busy from now on, others become quiet, and few go.
            match random.random_range(0..20) {
                0 => {
                    store::delete(&mut write, 1, id).await.unwrap();
                    there.remove(&id);
                }
                1..10 => {
                    let at = if random.random() { now } else { now - QUIET };
                    store::edit(&mut write, id, store::Edit::default(), at).await.unwrap();
                }
                _ => (),
            }
            write.commit().await.unwrap();
            pack(&database, 1, LENGTH, now).await.unwrap();
            let rows = database.all("SELECT id, is_indexed FROM runs", args![]).await.unwrap();
            let states: BTreeMap<i64, i64> =
                rows.iter().map(|row| (row.get("id").unwrap(), row.get("is_indexed").unwrap())).collect();
            let packed: Vec<i64> = packs(&database).await.concat();
            assert!(packed.is_sorted_by(|one, other| one < other), "step {step}: {packed:?}");
            for (id, state) in states {
                let is_packed = packed.contains(&id);
                assert!(state != 1 || is_packed, "step {step}: {id} would be hidden");
                assert!(state != 0 || !is_packed, "step {step}: {id} would stay when it goes");
            }
            assert!(packed.iter().all(|id| there.contains(id)), "step {step}: one is gone");
        }
        packed(&database, LENGTH).await;
        let packs = packs(&database).await;
        assert_eq!(packs.concat(), Vec::from_iter(there.iter().copied()));
        assert!(packs.len() <= 2 * there.len().div_ceil(LENGTH), "packs do not crumble: {packs:?}");
    }
}
