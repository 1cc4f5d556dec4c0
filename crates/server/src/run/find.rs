//! The lines of a console for somebody who scrolls and searches: ranges as JSON, and the numbers of lines that fit.
//!
//! However long a console is, one request reads a bounded part of it and says where to go on.

use super::lines::{self, Stream};
use crate::Shared;
use crate::fault::Result;
use crate::http::auth::Known;
use crate::project::Path as ProjectPath;
use axum::Json;
use axum::extract::{Path, Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use volley_plan::people::Deed;
use volley_plan::run::{console, find};

/// Lines that are told at once.
const LINES_MAX: i64 = 2000;
/// Lines that are read for one answer to a search, and numbers that are told by it.
const READ_MAX: i64 = 200_000;
const FOUND_MAX: usize = 50_000;
/// Lines that are unpacked at once.
const BATCH: i64 = 20_000;

type RunPath = Path<(String, String, String)>;

#[derive(Deserialize)]
pub struct Range {
    /// Counted from 0.
    #[serde(default)]
    from: i64,
    count: Option<i64>,
}

pub async fn range(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((entity, project, run)): RunPath,
    Query(wanted): Query<Range>,
) -> Result<Json<Value>> {
    let run = super::expect(&shared, &caller, Deed::See, ProjectPath::of(&entity, &project), &run).await?;
    let from = wanted.from.max(0);
    let to = from.saturating_add(wanted.count.unwrap_or(LINES_MAX).clamp(0, LINES_MAX));
    let read = lines::read(&shared.database, run.id, Stream::Log, from..to).await?;
    let told = |(number, line): &(i64, String)| {
        let line = console::parse(line);
        json!({ "number": number, "time": line.time, "label": line.label, "text": line.text,
            "is_failure": find::is_failure(&line.text) })
    };
    Ok(Json(json!({ "total": run.log_lines, "lines": read.iter().map(told).collect::<Value>() })))
}

#[derive(Deserialize)]
pub struct Wanted {
    #[serde(default)]
    from: i64,
    text: Option<String>,
    label: Option<String>,
    #[serde(default)]
    failure: bool,
    limit: Option<usize>,
}

/// The numbers of lines that fit, and where to go on: none when the end was reached.
pub async fn search(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((entity, project, run)): RunPath,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    let run = super::expect(&shared, &caller, Deed::See, ProjectPath::of(&entity, &project), &run).await?;
    let sought = find::Wanted::new(wanted.text.as_deref(), wanted.label.as_deref(), wanted.failure);
    let limit = wanted.limit.unwrap_or(FOUND_MAX).min(FOUND_MAX);
    let (mut at, mut numbers) = (wanted.from.max(0), Vec::new());
    let end = at.saturating_add(READ_MAX).min(run.log_lines);
    while at < end && numbers.len() < limit {
        let read = lines::read(&shared.database, run.id, Stream::Log, at..(at + BATCH).min(end)).await?;
        at = (at + BATCH).min(end);
        for (number, line) in read {
            if sought.fits(&console::parse(&line)) {
                numbers.push(number);
                if numbers.len() == limit {
                    at = number + 1;
                    break;
                }
            }
        }
        // Others have their turn between two parts of a long console.
        tokio::task::yield_now().await;
    }
    let next = (at < run.log_lines).then_some(at);
    Ok(Json(json!({ "total": run.log_lines, "numbers": numbers, "next": next })))
}
