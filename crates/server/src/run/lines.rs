//! The lines of a run's streams in the database, as compressed segments; `plan::run::lines` says how they are cut.

use crate::args;
use crate::database::{Database, Result, Row, Write};
use crate::fault::Fault;
use std::ops::Range;
use volley_plan::run::lines::{self as plan, Outline, Segment};
use volley_plan::run::presence::Presence;

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
    lines: &[String],
) -> std::result::Result<i64, Fault> {
    let total = unsigned(total);
    let tail = tail(write, run, stream).await?;
    let first = plan::touched(total, offset, lines.len(), &tail);
    let end = offset.saturating_add(lines.len() as u64);
    let sql = "SELECT first, body FROM segments WHERE run_id = $1 AND stream = $2 AND first < $3 AND first + count > $4 \
               ORDER BY first";
    let rows = write.all(sql, args![run, stream.name(), signed(end), signed(first)]).await?;
    let near = rows.iter().map(segment).collect::<Result<Vec<_>>>()?;
    let change = plan::rewrite(total, near, offset, lines).map_err(|error| Fault::bad(error.to_string()))?;
    for first in change.remove {
        let sql = "DELETE FROM segments WHERE run_id = $1 AND stream = $2 AND first = $3";
        write.run(sql, args![run, stream.name(), signed(first)]).await?;
    }
    for segment in change.insert {
        insert(write, run, stream, &segment).await?;
    }
    Ok(signed(change.total))
}

/// The last segments, the last one first.
async fn tail(write: &mut Write, run: i64, stream: Stream) -> Result<Vec<Outline>> {
    let sql = "SELECT first, count, LENGTH(body) AS bytes FROM segments WHERE run_id = $1 AND stream = $2 \
               ORDER BY first DESC LIMIT $3";
    let rows = write.all(sql, args![run, stream.name(), plan::TAIL_MAX]).await?;
    let outline = |row: &Row| {
        // PostgreSQL counts bytes in 32 bits.
        let bytes = row.get::<i64>("bytes").or_else(|_| row.get::<i32>("bytes").map(i64::from))?;
        Ok(Outline {
            first: unsigned(row.get("first")?),
            count: unsigned(row.get("count")?),
            stored_bytes: unsigned(bytes),
        })
    };
    rows.iter().map(outline).collect()
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
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
    let presence = match stream {
        Stream::History => Some(Presence::of(&segment.lines)),
        Stream::Events | Stream::Log => None,
    };
    let (low, high) = presence.as_ref().and_then(|presence| presence.steps).unzip();
    let body = zstd::bulk::compress(&plan::encode(&segment.lines), COMPRESSION).map_err(Fault::internal)?;
    let sql = "INSERT INTO segments (run_id, stream, first, count, low, high, presence, body) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let presence = presence.map(|presence| presence.encode());
    let args = args![run, stream.name(), signed(segment.first), segment.lines.len(), low, high, presence, body];
    write.run(sql, args).await?;
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
    let body: Vec<u8> = row.get("body")?;
    Ok(Segment { first: unsigned(row.get("first")?), lines: plan::decode(&unpacked(&body)) })
}

/// What is damaged is empty.
pub fn unpacked(body: &[u8]) -> Vec<u8> {
    let told = zstd::zstd_safe::get_frame_content_size(body).ok().flatten();
    let size = told.and_then(|size| usize::try_from(size).ok()).unwrap_or(UNPACKED_MAX);
    zstd::bulk::decompress(body, size.min(UNPACKED_MAX)).unwrap_or_default()
}
