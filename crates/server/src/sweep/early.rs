//! What a sweep's runs have come to: their metric at the end, and on the way to it.

use super::store::Given;
use crate::database::{Database, Result};
use crate::run::lines::{self, Stream};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::collections::HashMap;
use volley_plan::run::history::{self, lookup};
use volley_plan::run::lenient;
use volley_plan::sweep::config::{Config, Metric};
use volley_plan::sweep::search::Tried;
use volley_plan::sweep::stop::{self, Course};

/// A sweep with more runs than this is judged by the newest of them.
const COURSES_MAX: usize = 500;
/// A sweep is judged no more often than this, however many agents it has.
const PAUSE: SignedDuration = SignedDuration::from_secs(5);
/// Values that are remembered at most, 32 MB; with more, all are forgotten and read again.
const VALUES_MAX: usize = 4 << 20;
/// Sweeps whose verdicts are remembered at most.
const VERDICTS_MAX: usize = 4096;

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

/// A sweep that is to be judged, with the runs that it has given out, oldest first.
pub struct Case<'a> {
    pub sweep: i64,
    pub config: &'a Config,
    pub given: &'a [Given],
}

/// Says which runs should stop early. It remembers what it has read, because histories are long and agents ask often.
#[derive(Default)]
pub struct Judge(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    /// When a sweep was judged, and the names of the runs that should stop.
    verdicts: HashMap<i64, (Timestamp, Vec<String>)>,
    /// By run and metric.
    courses: HashMap<(i64, String), Known>,
}

/// A run's values of a metric in the first `lines` of its history.
#[derive(Clone, Default)]
struct Known {
    lines: i64,
    values: Vec<f64>,
}

impl Judge {
    /// The names of runs that should stop early; a sweep that was judged a moment ago gets the same verdict.
    pub async fn to_stop(&self, database: &Database, case: &Case<'_>, now: Timestamp) -> Result<Vec<String>> {
        let (Some(early), Some(metric)) = (&case.config.early, &case.config.metric) else {
            return Ok(Vec::new());
        };
        if case.given.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(verdict) = self.recent(case.sweep, now) {
            return Ok(verdict);
        }
        let mut courses = Vec::new();
        for given in &case.given[case.given.len().saturating_sub(COURSES_MAX)..] {
            let (Some(run), Some(lines)) = (given.run_id, given.history_lines) else {
                continue;
            };
            let values = self.values(database, (run, lines), &metric.name).await?;
            courses.push(Course {
                run: given.run_name.clone(),
                is_running: given.state.as_deref() == Some("running"),
                values: values.into_iter().map(|value| metric.loss(value)).collect(),
            });
        }
        let verdict = stop::to_stop(early, &courses);
        self.0.lock().verdicts.insert(case.sweep, (now, verdict.clone()));
        Ok(verdict)
    }

    /// The last verdict, unless it is time for another; whoever is told that it is gives it, and others go by the last.
    fn recent(&self, sweep: i64, now: Timestamp) -> Option<Vec<String>> {
        let mut memory = self.0.lock();
        if memory.verdicts.len() >= VERDICTS_MAX {
            memory.verdicts.clear();
        }
        let Some((at, verdict)) = memory.verdicts.get_mut(&sweep) else {
            memory.verdicts.insert(sweep, (now, Vec::new()));
            return None;
        };
        if now.duration_since(*at) < PAUSE {
            return Some(verdict.clone());
        }
        *at = now;
        None
    }

    /// A run's values of a metric. Lines that were read are not read again, unless the history has become shorter.
    async fn values(&self, database: &Database, (run, lines): (i64, i64), metric: &str) -> Result<Vec<f64>> {
        let key = (run, metric.to_owned());
        let known = self.0.lock().courses.get(&key).filter(|known| known.lines <= lines).cloned();
        let mut known = known.unwrap_or_default();
        if known.lines < lines {
            let fresh = lines::read(database, run, Stream::History, known.lines..lines).await?;
            let value = |line: &str| lookup(&history::row(line)?, metric)?.as_f64();
            known.values.extend(fresh.iter().filter_map(|(_, line)| value(line)));
            known.lines = lines;
            self.keep(key, known.clone());
        }
        Ok(known.values)
    }

    fn keep(&self, key: (i64, String), known: Known) {
        let courses = &mut self.0.lock().courses;
        let count: usize = courses.values().map(|known| known.values.len()).sum();
        if count + known.values.len() > VALUES_MAX {
            courses.clear();
        }
        courses.insert(key, known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use crate::database::tests::with_project;
    use crate::run::store::{self as runs, NewRun};
    use serde_json::json;
    use volley_plan::run::state::State;
    use volley_plan::sweep::config;

    /// Writes a run's history and gives the run as its sweep knows it.
    async fn given(database: &Database, name: &str, is_running: bool, losses: &[f64]) -> Given {
        let now = Timestamp::UNIX_EPOCH;
        let mut write = database.write().await.unwrap();
        let state = if is_running { State::Running } else { State::Finished };
        runs::insert(&mut write, &NewRun { project: 1, name, label: None, state, user: 1 }, now).await.unwrap();
        let run = runs::lock(&mut write, 1, name).await.unwrap().unwrap();
        let lines: Vec<String> = losses.iter().map(|loss| json!({ "loss": loss }).to_string()).collect();
        let total = lines::write(&mut write, (run.id, Stream::History), 0, 0, &lines).await.unwrap();
        write.commit().await.unwrap();
        Given {
            run_name: name.to_owned(),
            agent_id: 1,
            params: "{}".to_owned(),
            is_confirmed: true,
            times: 1,
            heard_at: 0,
            run_id: Some(run.id),
            state: Some(state.name().to_owned()),
            history_lines: Some(total),
            summary: None,
        }
    }

    #[tokio::test]
    async fn a_sweep_is_judged_now_and_then_and_no_line_is_read_twice() {
        let (_folder, database) = with_project().await;
        let config = config::read(&json!({
            "method": "random", "metric": { "name": "loss" }, "parameters": { "x": { "values": [1, 2] } },
            "early_terminate": { "type": "hyperband", "min_iter": 2, "eta": 3 },
        }))
        .unwrap();
        let judge = Judge::default();
        let mut all =
            vec![given(&database, "good", false, &[1.0, 0.5]).await, given(&database, "bad", true, &[1.0, 0.9]).await];
        let ask = async |given: &[Given], seconds: i64| {
            let case = Case { sweep: 1, config: &config, given };
            judge.to_stop(&database, &case, Timestamp::from_second(seconds).unwrap()).await.unwrap()
        };
        assert_eq!(ask(&all, 0).await, ["bad"]);
        let mut write = database.write().await.unwrap();
        write.run("DELETE FROM segments WHERE run_id = $1", args![all[0].run_id]).await.unwrap();
        write.commit().await.unwrap();
        all.push(given(&database, "worse", true, &[2.0, 2.0]).await);
        assert_eq!(ask(&all, 4).await, ["bad"], "it was judged a moment ago");
        assert_eq!(ask(&all, 5).await, ["bad", "worse"], "the good one is remembered");
    }
}
