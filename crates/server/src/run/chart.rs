//! Rows of the history for a chart: evenly picked from those that have its keys.
//!
//! First the segments' presence is read, which is small, and rows are picked by it; then only the segments are opened in
//! which picked rows are. Unpacking takes a while, so it is done beside the tasks that answer requests.

use super::lines;
use crate::args;
use crate::database::{Database, Row, Value as Argument, places};
use crate::fault::{Fault, Result};
use http::StatusCode;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_plan::run::history::{Spec, select};
use volley_plan::run::lines as plan;
use volley_plan::run::presence::{Presence, spread};

/// Segments that are opened together, so that a large answer does not hold all of the history in memory.
const BATCH: usize = 64;

/// The picked rows, with the spec's keys only.
pub async fn rows(database: &Database, run: i64, spec: Spec) -> Result<Vec<Value>> {
    let shape = Spec { samples: None, min_step: None, max_step: None, ..spec.clone() };
    gather(database, run, spec, move |line, rows| rows.extend(select(&shape, std::iter::once(line)))).await
}

/// The picked rows as they were written.
pub async fn lines(database: &Database, run: i64, spec: Spec) -> Result<Vec<String>> {
    gather(database, run, spec, |line, lines| lines.push(line.to_owned())).await
}

async fn gather<T: Send + 'static>(
    database: &Database,
    run: i64,
    spec: Spec,
    take: impl Fn(&str, &mut Vec<T>) + Clone + Send + 'static,
) -> Result<Vec<T>> {
    let samples = spec.samples.unwrap_or(usize::MAX);
    let candidates = candidates(database, run, spec).await?;
    let counts: Vec<usize> = candidates.iter().map(|(_, lines)| lines.len()).collect();
    let mut wanted: Vec<(i64, Vec<usize>)> = Vec::new();
    for ((first, lines), ordinals) in candidates.into_iter().zip(spread(&counts, samples)) {
        if !ordinals.is_empty() {
            wanted.push((first, ordinals.into_iter().map(|ordinal| lines[ordinal]).collect()));
        }
    }
    let mut all = Vec::new();
    for batch in wanted.chunks(BATCH) {
        let bodies = bodies(database, run, batch.iter().map(|(first, _)| *first)).await?;
        let (batch, take) = (batch.to_vec(), take.clone());
        all.extend(blocking(move || opened(&batch, &bodies, take)).await?);
    }
    Ok(all)
}

fn opened<T>(batch: &[(i64, Vec<usize>)], bodies: &BTreeMap<i64, Vec<u8>>, take: impl Fn(&str, &mut Vec<T>)) -> Vec<T> {
    let mut taken = Vec::new();
    for (first, wanted) in batch {
        let bytes = bodies.get(first).map(|body| lines::unpacked(body)).unwrap_or_default();
        let mut wanted = wanted.iter().peekable();
        for (at, line) in plan::decoded(&bytes).enumerate() {
            if wanted.next_if(|wanted| **wanted == at).is_some() {
                take(&String::from_utf8_lossy(line), &mut taken);
            }
        }
    }
    taken
}

/// The lines of each segment that have the keys and the steps of a spec.
async fn candidates(database: &Database, run: i64, spec: Spec) -> Result<Vec<(i64, Vec<usize>)>> {
    let sql = "SELECT first, presence FROM segments WHERE run_id = $1 AND stream = 'history' \
               AND ($2 = 0 OR high IS NULL OR (high >= $3 AND low <= $4)) ORDER BY first";
    let is_ranged = spec.min_step.is_some() || spec.max_step.is_some();
    let (min, max) = (spec.min_step.unwrap_or(i64::MIN), spec.max_step.unwrap_or(i64::MAX));
    let rows = database.all(sql, args![run, is_ranged, min, max]).await?;
    let segment = |row: &Row| Ok((row.get("first")?, row.get::<Option<Vec<u8>>>("presence")?));
    let segments: Vec<(i64, Option<Vec<u8>>)> = rows.iter().map(segment).collect::<crate::database::Result<_>>()?;
    let asked = spec.clone();
    let mut known = blocking(move || {
        let lines = |presence: Option<Vec<u8>>| {
            Presence::decode(&presence?)?.lines(&asked.keys, asked.min_step, asked.max_step)
        };
        segments.into_iter().map(|(first, presence)| (first, lines(presence))).collect::<Vec<_>>()
    })
    .await?;
    let unknown: Vec<i64> = known.iter().filter(|(_, lines)| lines.is_none()).map(|(first, _)| *first).collect();
    for batch in unknown.chunks(BATCH) {
        let bodies = bodies(database, run, batch.iter().copied()).await?;
        let spec = Spec { samples: None, ..spec.clone() };
        let mut read =
            blocking(move || bodies.iter().map(|(first, body)| (*first, passing(&spec, body))).collect()).await?;
        for (first, lines) in &mut known {
            if let Some(found) = BTreeMap::remove(&mut read, first) {
                *lines = Some(found);
            }
        }
    }
    Ok(known.into_iter().map(|(first, lines)| (first, lines.unwrap_or_default())).collect())
}

fn passing(spec: &Spec, body: &[u8]) -> Vec<usize> {
    let bytes = lines::unpacked(body);
    let lines = plan::decoded(&bytes).enumerate();
    let passes = |line: &[u8]| !select(spec, std::iter::once(String::from_utf8_lossy(line).as_ref())).is_empty();
    lines.filter(|(_, line)| passes(line)).map(|(at, _)| at).collect()
}

async fn bodies(
    database: &Database,
    run: i64,
    firsts: impl ExactSizeIterator<Item = i64>,
) -> Result<BTreeMap<i64, Vec<u8>>> {
    let count = firsts.len();
    let places = places(2, count);
    let sql =
        format!("SELECT first, body FROM segments WHERE run_id = $1 AND stream = 'history' AND first IN ({places})");
    let args: Vec<Argument> = std::iter::once(run).chain(firsts).map(Argument::from).collect();
    let rows = database.all(sqlx::AssertSqlSafe(sql), args).await?;
    if rows.len() != count {
        // A run that logs has merged its last segments meanwhile. The request is tried again.
        return Err(Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the history grew while it was read; hint: try again"));
    }
    rows.iter().map(|row| Ok((row.get("first")?, row.get("body")?))).collect()
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Fault::internal)
}
