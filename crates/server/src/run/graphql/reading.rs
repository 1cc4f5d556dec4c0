//! A run's streams in the schema: history, system metrics, console.

use super::Record;
use crate::connection;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::{PAGE_MAX, cursor, cursor_key, length};
use crate::graphql::scalars::{Int64, Json, JsonText};
use crate::run::chart;
use crate::run::lines::{self, Stream};
use async_graphql::{Context, ID, Object, SimpleObject};
use std::sync::Arc;
use volley_plan::run::console;
use volley_plan::run::history::{self, Keys, Spec};

/// As many rows as W&B's clients ask for when they name no number.
const SAMPLES_DEFAULT: i32 = 500;

pub struct RunReading(pub Arc<Record>);

#[Object]
impl RunReading {
    async fn history_line_count(&self) -> Option<i32> {
        Some(count(self.0.history_lines))
    }
    async fn events_line_count(&self) -> Option<i32> {
        Some(count(self.0.event_lines))
    }
    async fn log_line_count(&self) -> Option<i32> {
        Some(count(self.0.log_lines))
    }
    async fn history_tail(&self, ctx: &Context<'_>) -> Result<Option<JsonText>> {
        self.tail(ctx, Stream::History, self.0.history_lines).await
    }
    async fn events_tail(&self, ctx: &Context<'_>) -> Result<Option<JsonText>> {
        self.tail(ctx, Stream::Events, self.0.event_lines).await
    }
    async fn history_keys(&self) -> Option<Json> {
        let keys: Keys = serde_json::from_str(&self.0.history_keys).ok()?;
        keys.told().map(Json)
    }

    /// Rows as text: evenly picked, or those of a range of steps.
    async fn history(
        &self,
        ctx: &Context<'_>,
        samples: Option<i32>,
        min_step: Option<Int64>,
        max_step: Option<Int64>,
    ) -> Result<Option<Vec<JsonText>>> {
        let samples = usize::try_from(samples.unwrap_or(SAMPLES_DEFAULT)).unwrap_or(0);
        let (min, max) = (min_step.map(|step| step.0), max_step.map(|step| step.0));
        let database = &ctx.shared().database;
        if min.is_none() && max.is_none() {
            let spec = Spec { keys: Vec::new(), samples: Some(samples), min_step: None, max_step: None };
            let picked = chart::lines(database, self.0.id, spec).await?;
            return Ok(Some(picked.into_iter().map(JsonText).collect()));
        }
        let mut rows = lines::read_steps(database, self.0.id, min, max).await?;
        rows.retain(|line| {
            let step = history::row(line).and_then(|row| history::step(&row));
            step.is_some_and(|step| min.is_none_or(|min| step >= min) && max.is_none_or(|max| step < max))
        });
        rows.truncate(samples);
        Ok(Some(rows.into_iter().map(JsonText).collect()))
    }

    async fn events(&self, ctx: &Context<'_>, samples: Option<i32>) -> Result<Option<Vec<JsonText>>> {
        let samples = usize::try_from(samples.unwrap_or(SAMPLES_DEFAULT)).unwrap_or(0);
        let all = lines::read_all(&ctx.shared().database, self.0.id, Stream::Events).await?;
        Ok(Some(picked(all, samples)))
    }

    async fn sampled_history(&self, ctx: &Context<'_>, specs: Vec<JsonText>) -> Result<Option<Vec<Option<Json>>>> {
        let mut lists = Vec::new();
        for text in specs {
            let spec: Spec = serde_json::from_str(&text.0).map_err(|error| {
                Fault::bad(format!("`specs` has something that is no request for history: {error}"))
            })?;
            let rows = chart::rows(&ctx.shared().database, self.0.id, spec).await?;
            lists.push(Some(Json(serde_json::Value::Array(rows))));
        }
        Ok(Some(lists))
    }

    /// There are no parquet files; the steps are listed, from which clients go on to read pages.
    async fn parquet_history(&self, ctx: &Context<'_>, live_keys: Vec<String>) -> Result<ParquetHistory> {
        let spec = Spec { keys: live_keys, samples: None, min_step: None, max_step: None };
        let rows = chart::rows(&ctx.shared().database, self.0.id, spec).await?;
        let live_data = rows.into_iter().map(|row| Some(Json(row))).collect();
        Ok(ParquetHistory { parquet_urls: Vec::new(), live_data })
    }

    /// The last lines, or a page from the beginning on.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn log_lines(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        last: Option<i32>,
        #[graphql(name = "before")] _before: Option<String>,
        #[graphql(name = "useImprovedPagination")] _improved: Option<bool>,
    ) -> Result<Option<LogLineConnection>> {
        let total = self.0.log_lines;
        let range = match last {
            Some(last) => {
                let last = i64::from(last).clamp(0, i64::try_from(PAGE_MAX).expect("small"));
                (total - last).max(0)..total
            }
            None => {
                let from = after.and_then(|after| cursor_key(&after)?.parse::<i64>().ok()).map_or(0, |seen| seen + 1);
                from..(from + i64::try_from(length(first)).expect("a page")).min(total)
            }
        };
        let has_more = range.end < total;
        let lines = lines::read(&ctx.shared().database, self.0.id, Stream::Log, range).await?;
        let nodes = lines.into_iter().map(|(number, line)| (cursor(number), LogLine::read(number, &line))).collect();
        Ok(Some(LogLineConnection::page(nodes, has_more)))
    }
}

impl RunReading {
    async fn tail(&self, ctx: &Context<'_>, stream: Stream, total: i64) -> Result<Option<JsonText>> {
        let last = lines::read(&ctx.shared().database, self.0.id, stream, (total - 1).max(0)..total).await?;
        let texts: Vec<String> = last.into_iter().map(|(_, line)| line).collect();
        Ok(Some(JsonText(serde_json::to_string(&texts).map_err(Fault::internal)?)))
    }
}

fn picked(mut lines: Vec<String>, samples: usize) -> Vec<JsonText> {
    lines.retain(|line| !line.is_empty());
    let picked = history::sample(lines.len(), samples);
    picked.into_iter().map(|at| JsonText(std::mem::take(&mut lines[at]))).collect()
}

fn count(lines: i64) -> i32 {
    i32::try_from(lines).unwrap_or(i32::MAX)
}

#[derive(SimpleObject)]
pub struct ParquetHistory {
    parquet_urls: Vec<String>,
    live_data: Vec<Option<Json>>,
}

#[derive(SimpleObject)]
pub struct LogLine {
    id: Option<ID>,
    number: Option<i32>,
    timestamp: Option<String>,
    level: Option<String>,
    label: Option<String>,
    line: Option<String>,
}

impl LogLine {
    fn read(number: i64, line: &str) -> LogLine {
        let read = console::parse(line);
        LogLine {
            id: Some(ID(number.to_string())),
            number: Some(count(number)),
            timestamp: read.time,
            level: read.level,
            label: read.label,
            line: Some(read.text),
        }
    }
}

connection!(LogLineConnection, LogLineEdge, LogLine);
