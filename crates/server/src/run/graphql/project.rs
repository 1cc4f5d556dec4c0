//! How a project leads to its runs.

use super::{Run, RunConnection};
use crate::database::Database;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::{cursor, cursor_key, cut, length};
use crate::graphql::scalars::JsonText;
use crate::graphql::search::Found;
use crate::project::Project as ProjectRecord;
use crate::run::Run as Record;
use crate::run::columns::candidates;
use crate::run::fields::Fields;
use crate::run::search::{Condition, condition};
use crate::run::store::{self, ByAge};
use async_graphql::{Context, Object};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use volley_plan::run::filter::{self, Filter};
use volley_plan::run::order::{self, Order};

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
        let everything = Filter::All(Vec::new());
        let search = Search { database: &ctx.shared().database, project: self.0.id, filter: &everything };
        let rows = search.page(true, None, length + 1).await?;
        let (rows, has_more) = cut(rows, length);
        let nodes = rows.into_iter().map(|row| (cursor(row.id), Run::new(row))).collect();
        Ok(Some(RunConnection::page(nodes, has_more)))
    }

    async fn run_count(&self, ctx: &Context<'_>, filters: Option<JsonText>) -> Result<Option<i32>> {
        let filter = read_filter(filters)?;
        let database = &ctx.shared().database;
        let condition = condition(&filter, database.dialect(), 1);
        let count = if filter.is_empty() {
            store::count(database, self.0.id).await?
        } else if condition.is_exact {
            store::count_passing(database, self.0.id, condition).await?
        } else {
            Search { database, project: self.0.id, filter: &filter }.count().await?
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
        let database = &ctx.shared().database;
        let search = Search { database, project: self.0.id, filter: &filter };
        let is_by_age = matches!(order.field.as_str(), "created_at" | "createdAt");
        let (nodes, has_more) = if is_by_age {
            let length = length(first);
            let after = after.as_deref().and_then(cursor_key).and_then(|key| key.parse().ok());
            let (rows, has_more) = cut(search.page(order.is_falling, after, length + 1).await?, length);
            (rows.into_iter().map(|row| (cursor(row.id), Run::new(row))).collect(), has_more)
        } else {
            let (rows, has_more) = search.in_order(order, first, after.as_deref()).await?;
            (rows.into_iter().map(|(cursor, row)| (cursor, Run::new(row))).collect(), has_more)
        };
        Ok(Some(RunConnection::page(nodes, has_more)))
    }
}

pub fn read_filter(filters: Option<JsonText>) -> Result<Filter> {
    let text = filters.map(|filters| filters.0).filter(|text| !text.is_empty());
    filter::parse(text.as_deref().unwrap_or("{}")).map_err(|error| Fault::bad(error.to_string()))
}

/// Looks at all runs of a project that pass, oldest first.
pub async fn each_passing(
    database: &Database,
    project: i64,
    filter: &Filter,
    mut see: impl FnMut(&Record),
) -> Result<()> {
    Search { database, project, filter }.each(|fields| see(fields.run)).await
}

/// Where runs are searched.
struct Search<'a> {
    database: &'a Database,
    project: i64,
    filter: &'a Filter,
}

impl Search<'_> {
    fn condition(&self, args_before: usize) -> Condition {
        condition(self.filter, self.database.dialect(), args_before)
    }

    /// Looks at all runs that pass, oldest first; a part of them at a time, because there may be more than fit in memory.
    async fn each(&self, see: impl FnMut(&Fields)) -> Result<()> {
        match candidates(self.database, self.project, self.filter, None).await? {
            Some(found) => self.each_of(&found.iter().map(|found| found.id).collect::<Vec<_>>(), see).await,
            None => self.each_of_all(see).await,
        }
    }

    /// The same where the columns do not say who may pass.
    async fn each_of_all(&self, mut see: impl FnMut(&Fields)) -> Result<()> {
        let mut by = ByAge { project: self.project, is_falling: false, after: None, limit: CHUNK_MAX };
        loop {
            let runs = store::page(self.database, &by, self.condition(store::PAGE_ARGS)).await?;
            self.passing(&runs).for_each(|fields| see(&fields));
            match runs.last() {
                Some(last) if runs.len() == by.limit => by.after = Some(last.id),
                _ => return Ok(()),
            }
        }
    }

    /// The same of those that may pass.
    async fn each_of(&self, ids: &[i64], mut see: impl FnMut(&Fields)) -> Result<()> {
        for ids in ids.chunks(CHUNK_MAX) {
            let runs = store::with_ids(self.database, ids, self.condition(ids.len())).await?;
            self.passing(&runs).for_each(|fields| see(&fields));
        }
        Ok(())
    }

    fn passing<'r>(&self, runs: &'r [Record]) -> impl Iterator<Item = Fields<'r>> {
        runs.iter().map(Fields::of).filter(|fields| self.filter.passes(&fields.reader()))
    }

    async fn count(&self) -> Result<i64> {
        let mut count = 0;
        match candidates(self.database, self.project, self.filter, None).await? {
            Some(found) => {
                let (sure, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|found| found.is_sure);
                self.each_of(&others.iter().map(|found| found.id).collect::<Vec<_>>(), |_| count += 1).await?;
                count += i64::try_from(sure.len()).unwrap_or(i64::MAX);
            }
            None => self.each_of_all(|_| count += 1).await?,
        }
        Ok(count)
    }

    /// Some of the runs that pass, by age. More are read as long as too few pass of what was.
    async fn page(&self, is_falling: bool, after: Option<i64>, wanted: usize) -> Result<Vec<Record>> {
        let found = candidates(self.database, self.project, self.filter, None).await?;
        let mut found = found.map(|found| {
            let mut ids: Vec<i64> = found.into_iter().map(|found| found.id).collect();
            ids.retain(|id| after.is_none_or(|after| if is_falling { *id < after } else { *id > after }));
            if is_falling {
                ids.reverse();
            }
            VecDeque::from(ids)
        });
        let mut by = ByAge { project: self.project, is_falling, after, limit: wanted };
        let mut passing = Vec::new();
        loop {
            let (runs, is_last) = if let Some(ids) = &mut found {
                let next: Vec<i64> = ids.drain(..by.limit.min(ids.len())).collect();
                (store::with_ids(self.database, &next, self.condition(next.len())).await?, ids.is_empty())
            } else {
                let runs = store::page(self.database, &by, self.condition(store::PAGE_ARGS)).await?;
                let is_last = runs.len() < by.limit;
                (runs, is_last)
            };
            by.after = runs.last().map(|run| run.id);
            passing.extend(runs.into_iter().filter(|run| self.filter.passes(&Fields::of(run).reader())));
            if is_last || passing.len() >= wanted {
                passing.truncate(wanted);
                return Ok(passing);
            }
            by.limit = (by.limit * 4).min(CHUNK_MAX);
        }
    }

    /// A page of the runs that pass, in an order of their values, with the cursor of each; and whether there are more.
    async fn in_order(
        &self,
        order: Order,
        first: Option<i32>,
        after: Option<&str>,
    ) -> Result<(Vec<(String, Record)>, bool)> {
        let mut placed = Vec::new();
        let mut place = |id, value| placed.push(((value, (id, 0)), id));
        match candidates(self.database, self.project, self.filter, Some(&order.field)).await? {
            Some(found) => {
                let mut others = Vec::new();
                for found in found {
                    match found.value.filter(|_| found.is_sure) {
                        Some(value) => place(found.id, Some(value)),
                        None => others.push(found.id),
                    }
                }
                self.each_of(&others, |run| place(run.run.id, run.get(&order.field))).await?;
            }
            None => self.each_of_all(|run| place(run.run.id, run.get(&order.field))).await?,
        }
        let (page, has_more) = Found::new(Some(order), placed).page(first, after);
        let ids: Vec<i64> = page.iter().map(|(_, id)| *id).collect();
        let rows = store::with_ids(self.database, &ids, Condition::everything()).await?;
        let mut cursors: HashMap<i64, String> = page.into_iter().map(|(cursor, id)| (id, cursor)).collect();
        let found = rows.into_iter().filter_map(|row| Some((cursors.remove(&row.id)?, row)));
        Ok((found.collect(), has_more))
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
pub mod tests;
