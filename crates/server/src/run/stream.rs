//! `POST /files/{entity}/{project}/{run}/file_stream`: history, system metrics, console, summary, and that the process
//! lives or has ended.
//!
//! One post is one transaction, and writing the same post again changes nothing, because lines have numbers.

use super::Run;
use super::lines::{self, Stream};
use super::sharing::{Writer, merged};
use super::store::{self, Posted};
use crate::Shared;
use crate::database::Write;
use crate::events::progress::Moved;
use crate::fault::{Fault, Result, TRIES_MAX};
use crate::http::auth::Recognised;
use crate::http::{body, json};
use crate::project::{self, Path};
use crate::{events, file, queue};
use axum::extract::{Path as UrlPath, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;
use volley_plan::people::Deed;
use volley_plan::run::history::{self, Keys};
use volley_plan::run::lenient;
use volley_plan::run::state::{self, State as RunState, Word};

#[derive(Deserialize)]
struct Post {
    #[serde(default)]
    files: BTreeMap<String, Chunk>,
    #[serde(default)]
    uploaded: Option<Vec<String>>,
    #[serde(default)]
    preempting: Option<bool>,
    #[serde(default)]
    complete: Option<bool>,
    #[serde(default)]
    exitcode: Option<i64>,
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    content: Vec<String>,
}

impl Post {
    fn read(bytes: &[u8]) -> Result<Post> {
        let text = std::str::from_utf8(bytes).map_err(|_| Fault::bad("the post is not UTF-8"))?;
        serde_json::from_str(&lenient::strict(text))
            .map_err(|error| Fault::bad(format!("the post is not JSON: {error}")))
    }

    fn word(&self) -> Word {
        match (self.complete, self.preempting) {
            (Some(true), _) => Word::Ended { exit_code: self.exitcode.unwrap_or(0) },
            (_, Some(true)) => Word::Preempting,
            _ => Word::Alive,
        }
    }
}

pub async fn receive(
    State(shared): State<Shared>,
    Recognised(caller): Recognised,
    UrlPath((entity, project, run)): UrlPath<(String, String, String)>,
    headers: HeaderMap,
    sent: Bytes,
) -> Result<Response> {
    let post = Post::read(&body::plain(&headers, sent)?)?;
    let project = project::expect(&shared, &caller, Deed::Log, Path::of(&entity, &project)).await?;
    caller.must_log(&project, &run)?;
    let writer = Writer::of(&headers);
    let mut received = keep(&shared, project.id, &run, &post, writer.as_ref()).await;
    for _ in 1..TRIES_MAX {
        if !received.as_ref().is_err_and(Fault::is_passing) {
            break;
        }
        received = keep(&shared, project.id, &run, &post, writer.as_ref()).await;
    }
    let is_stopped = received?;
    shared.news.announce();
    let answer = serde_json::json!({ "exitcode": null, "limits": {}, "stopped": is_stopped });
    Ok(json(StatusCode::OK, answer.to_string().into_bytes()))
}

/// Keeps a post; says whether the run was told to stop.
async fn keep(shared: &Shared, project: i64, run: &str, post: &Post, writer: Option<&Writer>) -> Result<bool> {
    let mut write = shared.database.write().await?;
    let found = store::lock(&mut write, project, run).await?;
    let found = found.ok_or_else(|| Fault::missing(format!("run `{run}`")))?;
    let is_stopped = found.is_stopped;
    let moved = take(&mut write, found, post, writer, Timestamp::now()).await?;
    write.commit().await?;
    if let Some(moved) = moved {
        shared.progress.note(moved);
    }
    Ok(is_stopped)
}

/// Says how far the run has come, if it has.
async fn take(
    write: &mut Write,
    run: Run,
    post: &Post,
    writer: Option<&Writer>,
    now: Timestamp,
) -> Result<Option<Moved>> {
    let before = RunState::named(&run.state).unwrap_or(RunState::Running);
    let word = post.word();
    let mut posted = Posted {
        state: match &writer {
            Some(_) => state::after_shared_post(before, word),
            None => state::after_post(before, word),
        },
        exit_code: if let Word::Ended { exit_code } = word { Some(exit_code) } else { None },
        summary: None,
        system_metrics: None,
        history_keys: None,
        history_lines: run.history_lines,
        event_lines: run.event_lines,
        log_lines: run.log_lines,
    };
    if let Some(names) = &post.uploaded {
        file::store::show(write, run.id, names, now).await?;
    }
    for (name, chunk) in &post.files {
        let placed = match (writer, stream_of(&run, name)) {
            (Some(writer), Some((stream, total))) => {
                let (offset, content) =
                    writer.place(write, (run.id, stream), (total, chunk.offset), &chunk.content).await?;
                Some(Chunk { offset, content })
            }
            _ => None,
        };
        take_chunk(write, &run, name, placed.as_ref().unwrap_or(chunk), &mut posted).await?;
    }
    if writer.is_some() {
        posted.summary = posted.summary.map(|summary| merged(&run.summary, &summary));
    }
    let lines = (posted.history_lines, posted.event_lines, posted.log_lines);
    let has_moved = lines != (run.history_lines, run.event_lines, run.log_lines) || posted.summary.is_some();
    let state = posted.state;
    store::note_post(write, run.id, posted, now).await?;
    if state != before {
        report(write, &run, state, now).await?;
    }
    Ok(has_moved.then(|| Moved::new(&run, lines.0, lines.2)))
}

fn stream_of(run: &Run, file: &str) -> Option<(Stream, i64)> {
    match file {
        "wandb-history.jsonl" => Some((Stream::History, run.history_lines)),
        "wandb-events.jsonl" => Some((Stream::Events, run.event_lines)),
        "output.log" => Some((Stream::Log, run.log_lines)),
        _ => None,
    }
}

async fn take_chunk(write: &mut Write, run: &Run, name: &str, chunk: &Chunk, posted: &mut Posted) -> Result<()> {
    let offset = chunk.offset;
    match name {
        "wandb-history.jsonl" => {
            posted.history_keys = keys_after(run, chunk)?;
            let at = (run.id, Stream::History);
            posted.history_lines = lines::write(write, at, run.history_lines, offset, &chunk.content).await?;
        }
        "wandb-events.jsonl" => {
            posted.system_metrics = chunk.content.last().cloned();
            posted.event_lines =
                lines::write(write, (run.id, Stream::Events), run.event_lines, offset, &chunk.content).await?;
        }
        "output.log" => {
            posted.log_lines =
                lines::write(write, (run.id, Stream::Log), run.log_lines, offset, &chunk.content).await?;
        }
        "wandb-summary.json" => posted.summary = chunk.content.last().cloned(),
        // Other files are uploaded, not streamed.
        _ => (),
    }
    Ok(())
}

/// The history's keys with those of lines that are new; lines that arrive again were counted.
fn keys_after(run: &Run, chunk: &Chunk) -> Result<Option<String>> {
    let known = u64::try_from(run.history_lines).unwrap_or(0);
    let fresh = usize::try_from(known.saturating_sub(chunk.offset)).unwrap_or(usize::MAX);
    let mut keys: Keys = serde_json::from_str(&run.history_keys).unwrap_or_default();
    for line in chunk.content.iter().skip(fresh) {
        if let Some(row) = history::row(line) {
            keys.add(&row);
        }
    }
    serde_json::to_string(&keys).map(Some).map_err(Fault::internal)
}

/// Tells of a run's new state: to the item that it came from, and to whoever follows.
pub async fn report(write: &mut Write, run: &Run, state: RunState, now: Timestamp) -> Result<()> {
    queue::items::follow_run(write, run, state, now).await?;
    let body = serde_json::json!({ "run": run.path(), "state": state.name() });
    let id = run.global_id();
    let event = events::Event { entity: run.entity_id, kind: "run.state", subject: &id, body };
    Ok(events::record(write, event, now).await?)
}
