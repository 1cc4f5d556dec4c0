//! The lines of a run's streams in the database, as compressed segments; `plan::run::lines` says how they are cut.

use crate::args;
use crate::database::{Database, Result, Row, Write};
use crate::fault::Fault;
use std::ops::Range;
use volley_plan::run::history;
use volley_plan::run::lines::{self as plan, Segment};

/// Little more than a copy costs; lines of one run are alike, so even this shrinks them several times.
const COMPRESSION: i32 = 1;
/// A segment unpacks to no more than this: its own limit, and one line of the largest request on top.
const UNPACKED_MAX: usize = 128 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    History,
    Events,
    Log,
}

impl Stream {
    pub fn name(self) -> &'static str {
        match self {
            Stream::History => "history",
            Stream::Events => "events",
            Stream::Log => "log",
        }
    }
}

/// Writes lines at an offset of a stream that has `total` lines; gives the new total.
pub async fn write(
    write: &mut Write,
    (run, stream): (i64, Stream),
    total: i64,
    offset: u64,
    lines: Vec<String>,
) -> std::result::Result<i64, Fault> {
    let total = u64::try_from(total).unwrap_or(0);
    let (first, end) = plan::touched(total, offset, lines.len());
    let (first, end) = (i64::try_from(first).unwrap_or(i64::MAX), i64::try_from(end).unwrap_or(i64::MAX));
    let sql = "SELECT first, body FROM segments WHERE run_id = $1 AND stream = $2 AND first < $3 AND first + count > $4 \
               ORDER BY first";
    let rows = write.all(sql, args![run, stream.name(), end, first]).await?;
    let near = rows.iter().map(segment).collect::<Result<Vec<_>>>()?;
    let change = plan::rewrite(total, near, offset, lines).map_err(|error| Fault::bad(error.to_string()))?;
    for first in change.remove {
        let first = i64::try_from(first).unwrap_or(i64::MAX);
        let sql = "DELETE FROM segments WHERE run_id = $1 AND stream = $2 AND first = $3";
        write.run(sql, args![run, stream.name(), first]).await?;
    }
    for segment in change.insert {
        insert(write, run, stream, &segment).await?;
    }
    Ok(i64::try_from(change.total).unwrap_or(i64::MAX))
}

/// Drops the lines of a stream behind the first `keep`.
pub async fn cut(write: &mut Write, (run, stream): (i64, Stream), keep: i64) -> std::result::Result<(), Fault> {
    let sql = "SELECT first, body FROM segments WHERE run_id = $1 AND stream = $2 AND first + count > $3";
    for row in write.all(sql, args![run, stream.name(), keep]).await? {
        let first: i64 = row.get("first")?;
        let sql = "DELETE FROM segments WHERE run_id = $1 AND stream = $2 AND first = $3";
        write.run(sql, args![run, stream.name(), first]).await?;
        let mut kept = segment(&row)?;
        kept.lines.truncate(usize::try_from(keep - first).unwrap_or(0));
        if !kept.lines.is_empty() {
            insert(write, run, stream, &kept).await?;
        }
    }
    Ok(())
}

async fn insert(write: &mut Write, run: i64, stream: Stream, segment: &Segment) -> std::result::Result<(), Fault> {
    let steps = || segment.lines.iter().filter_map(|line| history::step(&history::row(line)?));
    let (low, high) = match stream {
        Stream::History => (steps().min(), steps().max()),
        Stream::Events | Stream::Log => (None, None),
    };
    let body = zstd::bulk::compress(&plan::encode(&segment.lines), COMPRESSION).map_err(Fault::internal)?;
    let first = i64::try_from(segment.first).unwrap_or(i64::MAX);
    let sql =
        "INSERT INTO segments (run_id, stream, first, count, low, high, body) VALUES ($1, $2, $3, $4, $5, $6, $7)";
    write.run(sql, args![run, stream.name(), first, segment.lines.len(), low, high, body]).await?;
    Ok(())
}

/// Some lines with their numbers, of the range that is asked for.
pub async fn read(database: &Database, run: i64, stream: Stream, wanted: Range<i64>) -> Result<Vec<(i64, String)>> {
    let sql = "SELECT first, body FROM segments WHERE run_id = $1 AND stream = $2 AND first < $3 AND first + count > $4 \
               ORDER BY first";
    let rows = database.all(sql, args![run, stream.name(), wanted.end, wanted.start]).await?;
    let mut lines = Vec::new();
    for row in &rows {
        let first: i64 = row.get("first")?;
        let numbered = (first..).zip(segment(row)?.lines);
        lines.extend(numbered.filter(|(number, _)| wanted.contains(number)));
    }
    Ok(lines)
}

pub async fn read_all(database: &Database, run: i64, stream: Stream) -> Result<Vec<String>> {
    let lines = read(database, run, stream, 0..i64::MAX).await?;
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// The lines of the segments in which some step from `min` up to and without `max` is.
pub async fn read_steps(database: &Database, run: i64, min: Option<i64>, max: Option<i64>) -> Result<Vec<String>> {
    let sql = "SELECT first, body FROM segments WHERE run_id = $1 AND stream = 'history' AND high >= $2 AND low < $3 \
               ORDER BY first";
    let rows = database.all(sql, args![run, min.unwrap_or(i64::MIN), max.unwrap_or(i64::MAX)]).await?;
    let mut lines = Vec::new();
    for row in &rows {
        lines.extend(segment(row)?.lines);
    }
    Ok(lines)
}

fn segment(row: &Row) -> Result<Segment> {
    let first: i64 = row.get("first")?;
    let body: Vec<u8> = row.get("body")?;
    let bytes = zstd::bulk::decompress(&body, UNPACKED_MAX).unwrap_or_default();
    Ok(Segment { first: u64::try_from(first).unwrap_or(0), lines: plan::decode(&bytes) })
}
