//! What a sweep's runs have come to: their metric at the end, and on the way to it.

use super::store::Given;
use crate::Shared;
use crate::fault::Result;
use crate::run::lines::{self, Stream};
use serde_json::{Map, Value};
use volley_plan::run::history::{self, lookup};
use volley_plan::run::lenient;
use volley_plan::sweep::config::{Config, Metric};
use volley_plan::sweep::search::Tried;
use volley_plan::sweep::stop::{self, Course};

/// A sweep with more runs than this is judged by the newest of them.
const COURSES_MAX: usize = 500;

/// The metric in a run's summary, which is an object where the run asked for its least or greatest value.
fn outcome(metric: &Metric, summary: &Map<String, Value>) -> Option<f64> {
    let best = if metric.is_maximized { "max" } else { "min" };
    let own = lookup(summary, &format!("{}.{best}", metric.name)).and_then(Value::as_f64);
    own.or_else(|| lookup(summary, &metric.name).and_then(Value::as_f64))
}

pub fn outcome_of(metric: &Metric, summary: &str) -> Option<f64> {
    match lenient::parse(summary)? {
        Value::Object(summary) => outcome(metric, &summary),
        _ => None,
    }
}

pub fn tried(config: &Config, given: &Given) -> Tried {
    let outcome = config.metric.as_ref().zip(given.summary.as_deref());
    Tried {
        params: serde_json::from_str(&given.params).unwrap_or_default(),
        outcome: outcome.and_then(|(metric, summary)| outcome_of(metric, summary)),
    }
}

/// The names of runs that should stop early.
pub async fn to_stop(shared: &Shared, config: &Config, given: &[Given]) -> Result<Vec<String>> {
    let (Some(early), Some(metric)) = (&config.early, &config.metric) else {
        return Ok(Vec::new());
    };
    let mut courses = Vec::new();
    for given in &given[given.len().saturating_sub(COURSES_MAX)..] {
        let Some(run) = given.run_id else {
            continue;
        };
        let lines = lines::read_all(&shared.database, run, Stream::History).await?;
        let value = |line: &String| lookup(&history::row(line)?, &metric.name)?.as_f64();
        courses.push(Course {
            run: given.run_name.clone(),
            is_running: given.state.as_deref() == Some("running"),
            values: lines.iter().filter_map(value).map(|value| metric.loss(value)).collect(),
        });
    }
    Ok(stop::to_stop(early, &courses))
}
