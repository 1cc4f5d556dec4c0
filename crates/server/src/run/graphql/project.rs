//! How a project leads to its runs.

use super::{Run, RunConnection};
use crate::database::Database;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::{cursor, cursor_key, cut, length};
use crate::graphql::scalars::{JsonText, date_text};
use crate::project::Project as ProjectRecord;
use crate::run::Run as Record;
use crate::run::search::condition;
use crate::run::store::{self, ByAge};
use async_graphql::{Context, Object};
use serde_json::{Map, Value};
use std::cell::OnceCell;
use std::sync::Arc;
use volley_plan::run::filter::{self, Filter};
use volley_plan::run::history::lookup;
use volley_plan::run::{lenient, order};

/// Runs that are looked at together where few pass.
const CHUNK_MAX: usize = 4000;

pub struct ProjectRuns(pub Arc<ProjectRecord>);

#[Object]
impl ProjectRuns {
    async fn run(
        &self,
        ctx: &Context<'_>,
        name: String,
        #[graphql(name = "desc")] _desc: Option<String>,
    ) -> Result<Option<Run>> {
        Ok(store::by_name(&ctx.shared().database, self.0.id, &name).await?.map(Run::new))
    }

    async fn bucket(
        &self,
        ctx: &Context<'_>,
        name: String,
        #[graphql(name = "missingOk")] _missing_ok: Option<bool>,
        #[graphql(name = "urlKey")] _url_key: Option<String>,
        #[graphql(name = "desc")] _desc: Option<String>,
    ) -> Result<Option<Run>> {
        Ok(store::by_name(&ctx.shared().database, self.0.id, &name).await?.map(Run::new))
    }

    /// What older clients call `runs`, newest first.
    async fn buckets(&self, ctx: &Context<'_>, first: Option<i32>) -> Result<Option<RunConnection>> {
        let length = length(first);
        let by = ByAge { project: self.0.id, is_falling: true, after: None, limit: length + 1 };
        let rows = passing_by_age(&ctx.shared().database, by, &Filter::All(Vec::new())).await?;
        let (rows, has_more) = cut(rows, length);
        let nodes = rows.into_iter().map(|row| (cursor(row.id), Run::new(row))).collect();
        Ok(Some(RunConnection::page(nodes, has_more)))
    }

    async fn run_count(&self, ctx: &Context<'_>, filters: Option<JsonText>) -> Result<Option<i32>> {
        let filter = read_filter(filters)?;
        let database = &ctx.shared().database;
        let count = match filter.is_empty() {
            true => store::count(database, self.0.id).await?,
            false => {
                let condition = condition(&filter, database.dialect(), 1);
                if condition.is_exact {
                    store::count_passing(database, self.0.id, condition).await?
                } else {
                    let mut count = 0;
                    each_passing(database, self.0.id, &filter, |_| count += 1).await?;
                    count
                }
            }
        };
        Ok(Some(i32::try_from(count).unwrap_or(i32::MAX)))
    }

    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn runs(
        &self,
        ctx: &Context<'_>,
        filters: Option<JsonText>,
        order: Option<String>,
        first: Option<i32>,
        after: Option<String>,
        #[graphql(name = "last")] _last: Option<i32>,
        #[graphql(name = "before")] _before: Option<String>,
    ) -> Result<Option<RunConnection>> {
        let filter = read_filter(filters)?;
        let order = order::parse(order.as_deref());
        let after = after.as_deref().and_then(cursor_key).and_then(|key| key.parse().ok());
        let length = length(first);
        let database = &ctx.shared().database;
        let is_by_age = matches!(order.field.as_str(), "created_at" | "createdAt");
        let rows = if is_by_age {
            let by = ByAge { project: self.0.id, is_falling: order.is_falling, after, limit: length + 1 };
            passing_by_age(database, by, &filter).await?
        } else {
            let mut keyed = Vec::new();
            let see = |run: &Fields| keyed.push((run.get(&order.field), run.run.id));
            each_passing(database, self.0.id, &filter, see).await?;
            let ids = in_order(keyed, &order);
            let begin = after.and_then(|after| ids.iter().position(|id| *id == after)).map_or(0, |at| at + 1);
            let end = ids.len().min(begin + length + 1);
            store::with_ids(database, &ids[begin..end]).await?
        };
        let (rows, has_more) = cut(rows, length);
        let nodes = rows.into_iter().map(|row| (cursor(row.id), Run::new(row))).collect();
        Ok(Some(RunConnection::page(nodes, has_more)))
    }
}

fn read_filter(filters: Option<JsonText>) -> Result<Filter> {
    let text = filters.map(|filters| filters.0).filter(|text| !text.is_empty());
    filter::parse(text.as_deref().unwrap_or("{}")).map_err(|error| Fault::bad(error.to_string()))
}

/// Runs in the order that a client names.
pub fn by_order(runs: Vec<Record>, order: Option<&str>) -> Vec<Record> {
    let order = order::parse(order);
    let keyed = runs.into_iter().map(|run| (Fields::of(&run).get(&order.field), run)).collect();
    in_order(keyed, &order)
}

/// Looks at all runs of a project that pass, oldest first; a part of them at a time, because there may be more than fit in memory.
async fn each_passing(database: &Database, project: i64, filter: &Filter, mut see: impl FnMut(&Fields)) -> Result<()> {
    let mut by = ByAge { project, is_falling: false, after: None, limit: CHUNK_MAX };
    loop {
        let condition = condition(filter, database.dialect(), store::PAGE_ARGS);
        let runs = store::page(database, &by, condition).await?;
        for run in &runs {
            let fields = Fields::of(run);
            if filter.passes(&fields.reader()) {
                see(&fields);
            }
        }
        match runs.last() {
            Some(last) if runs.len() == by.limit => by.after = Some(last.id),
            _ => return Ok(()),
        }
    }
}

/// Asks the database for more as long as too few of what it lets through pass.
async fn passing_by_age(database: &Database, mut by: ByAge, filter: &Filter) -> Result<Vec<Record>> {
    let wanted = by.limit;
    let mut passing = Vec::new();
    loop {
        let condition = condition(filter, database.dialect(), store::PAGE_ARGS);
        let runs = store::page(database, &by, condition).await?;
        let is_last = runs.len() < by.limit;
        by.after = runs.last().map(|run| run.id);
        passing.extend(runs.into_iter().filter(|run| filter.passes(&Fields::of(run).reader())));
        if is_last || passing.len() >= wanted {
            passing.truncate(wanted);
            return Ok(passing);
        }
        by.limit = (by.limit * 4).min(CHUNK_MAX);
    }
}

fn in_order<One>(mut keyed: Vec<(Option<Value>, One)>, order: &order::Order) -> Vec<One> {
    // The sort is stable, so equals stay in order of age.
    keyed.sort_by(|(one, _), (other, _)| order.compare(one.as_ref(), other.as_ref()));
    keyed.into_iter().map(|(_, one)| one).collect()
}

/// A run as filters and orders see it. Config and summary are parsed when somebody asks for them.
struct Fields<'a> {
    run: &'a Record,
    config: OnceCell<Map<String, Value>>,
    summary: OnceCell<Map<String, Value>>,
}

impl<'a> Fields<'a> {
    fn of(run: &'a Record) -> Fields<'a> {
        Fields { run, config: OnceCell::new(), summary: OnceCell::new() }
    }

    fn reader(&self) -> impl Fn(&str) -> Option<Value> + '_ {
        |field| self.get(field)
    }

    fn get(&self, field: &str) -> Option<Value> {
        let text = |text: &str| Some(Value::from(text));
        let maybe = |text: &Option<String>| text.as_deref().map(Value::from);
        let run = self.run;
        if let Some(key) = field.strip_prefix("config.") {
            return self.config_value(key);
        }
        if let Some(key) = field.strip_prefix("summary_metrics.").or_else(|| field.strip_prefix("summary.")) {
            return lookup(self.summary.get_or_init(|| object(&run.summary)), key).cloned();
        }
        match field {
            "state" => text(&run.state),
            "name" => text(&run.name),
            "displayName" | "display_name" => text(&run.display_name),
            "tags" => Some(Value::from(run.tag_list())),
            "jobType" | "job_type" => maybe(&run.job_type),
            "group" | "groupName" => maybe(&run.group_name),
            "sweep" | "sweepName" => maybe(&run.sweep_name),
            "username" | "user" => text(&run.username),
            "host" => maybe(&run.host),
            "commit" => maybe(&run.commit_hash),
            "notes" => maybe(&run.notes),
            "description" => maybe(&run.description),
            "createdAt" | "created_at" => text(&date_text(run.created_at)),
            "updatedAt" | "updated_at" => text(&date_text(run.updated_at)),
            "heartbeatAt" | "heartbeat_at" => text(&date_text(run.heartbeat_at)),
            "historyLineCount" => Some(Value::from(run.history_lines)),
            _ => None,
        }
    }

    /// `lr`, `lr.value`, `optimizer.lr` or `optimizer.value.lr`: the config wraps each top value in `{"value": …}`.
    fn config_value(&self, key: &str) -> Option<Value> {
        let config = self.config.get_or_init(|| object(&self.run.config));
        let bare = key.strip_suffix(".value").unwrap_or(key);
        if let Some(value) = config.get(bare) {
            return value.get("value").cloned();
        }
        let (top, rest) = bare.split_once('.')?;
        let rest = rest.strip_prefix("value.").unwrap_or(rest);
        lookup(config.get(top)?.get("value")?.as_object()?, rest).cloned()
    }
}

fn object(text: &str) -> Map<String, Value> {
    match lenient::parse(text) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
