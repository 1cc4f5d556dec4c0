//! Lists of many runs, with and without a filter.

use super::server::Launch;
use crate::measure::median;
use crate::table::{Row, Table};
use crate::wire::Connection;
use anyhow::Result;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const WRITERS: usize = 32;
/// Runs of a project that is too small for columns of values.
const SMALL_MAX: usize = 2000;
/// Without columns the rare value below takes longer among many runs.
const PACKED_MS: f64 = 30.0;
const PATIENCE: Duration = Duration::from_secs(120);
const BEGIN: &str = r#"mutation B($run: String!, $config: JSONString, $summary: JSONString, $state: String, $tags: [String!]) { upsertBucket(input: {entityName: "volley", modelName: "runs", name: $run, config: $config, summaryMetrics: $summary, state: $state, tags: $tags}) { inserted } }"#;
const LIST: &str = r#"query L($filters: JSONString, $order: String) { project(entityName: "volley", name: "runs") { runs(filters: $filters, order: $order, first: 50) { edges { node { name state config summaryMetrics } } } } }"#;
const COUNT: &str =
    r#"query C($filters: JSONString) { project(entityName: "volley", name: "runs") { runCount(filters: $filters) } }"#;

async fn fill(launch: &Launch, runs: usize) -> Result<f64> {
    let next = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..WRITERS {
        let (next, mut client) = (next.clone(), launch.connect().await?);
        tasks.push(tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= runs {
                    return anyhow::Ok(());
                }
                let config: serde_json::Map<_, _> = (0..12)
                    .map(|key| (format!("parameter_{key}"), json!({ "value": (number * (key + 3)) % 1000 })))
                    .chain([("lr".to_owned(), json!({ "value": number as f64 / runs as f64 }))])
                    .collect();
                let summary: serde_json::Map<_, _> =
                    (0..8).map(|key| (format!("metric_{key}"), json!((number * 7 + key) as f64 / 3.0))).collect();
                let state = ["finished", "failed", "crashed", "running"][number % 4];
                let tags = if number % 1000 == 0 { vec!["rare"] } else { vec!["common"] };
                let variables = json!({
                    "run": format!("r{number}"), "state": state, "tags": tags,
                    "config": json!(config).to_string(), "summary": json!(summary).to_string(),
                });
                client.graphql(BEGIN, variables).await?;
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(runs as f64 / begun.elapsed().as_secs_f64())
}

pub async fn lists(launch: &Launch, runs: usize, table: &mut Table) -> Result<()> {
    let made = fill(launch, runs).await?;
    let scale = format!("{runs} runs");
    let reference = ("clients", WRITERS as f64);
    table.add(Row { figure: "runs begun", scale: scale.clone(), value: made, unit: "/s", reference });
    let mut client = launch.connect().await?;
    let mut bare = 0.0;
    // The values of runs that nobody changes any more are put into columns, in large projects.
    let rare = json!({ "filters": json!({ "config.parameter_0": -1 }).to_string() });
    let (begun, mut ready) = (Instant::now(), runs <= SMALL_MAX);
    while !ready && begun.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(200)).await;
        ready = timed(&mut client, LIST, &rare).await? < PACKED_MS && begun.elapsed() > Duration::from_secs(15);
    }
    let waited = begun.elapsed().as_secs_f64();
    table.add(Row {
        figure: "all runs packed after",
        scale: scale.clone(),
        value: waited,
        unit: "s",
        reference: ("s to begin them", runs as f64 / made),
    });
    let filters = [
        ("newest 50", json!({})),
        ("state", json!({ "state": "failed" })),
        ("config, 1 of 2 passes", json!({ "config.lr": { "$gt": 0.5 } })),
        ("config, 1 of 1,000 passes", json!({ "config.lr": { "$lt": 0.001 } })),
        ("two fields", json!({ "$and": [{ "state": "failed" }, { "summary_metrics.metric_0": { "$lt": 100 } }] })),
        ("tag, 1 of 1,000 has it", json!({ "tags": "rare" })),
        ("none passes", json!({ "config.lr": { "$gt": 2 } })),
    ];
    for (name, filter) in filters {
        let variables = json!({ "filters": filter.to_string(), "order": "-created_at" });
        let first = timed(&mut client, LIST, &variables).await?;
        let (mut times, mut counts) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            times.push(timed(&mut client, LIST, &variables).await?);
            counts.push(timed(&mut client, COUNT, &variables).await?);
        }
        let value = median(times);
        if bare == 0.0 {
            bare = value;
        }
        let scale = format!("{runs} runs, {name}");
        let reference = ("newest 50", bare);
        let mut add = |figure, value, unit, reference| {
            table.add(Row { figure, scale: scale.clone(), value, unit, reference });
        };
        add("list of runs, first time", first, "ms", reference);
        add("list of runs", value, "ms", reference);
        add("count of runs", median(counts), "ms", reference);
    }
    let variables =
        json!({ "filters": json!({ "state": "finished" }).to_string(), "order": "+summary_metrics.metric_0" });
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(timed(&mut client, LIST, &variables).await?);
    }
    let (scale, reference) = (format!("{runs} runs, best of those that finished"), ("newest 50", bare));
    table.add(Row { figure: "list of runs", scale, value: median(times), unit: "ms", reference });
    Ok(())
}

/// Milliseconds until the answer.
async fn timed(client: &mut Connection, query: &str, variables: &Value) -> Result<f64> {
    let begun = Instant::now();
    client.graphql(query, variables.clone()).await?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}
