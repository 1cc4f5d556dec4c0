//! Lists of many runs, with and without a filter.

use super::server::Launch;
use crate::measure::median;
use crate::table::{Row, Table};
use anyhow::{Context, Result};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const WRITERS: usize = 32;
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
        let (mut times, mut counts) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let begun = Instant::now();
            client.graphql(LIST, variables.clone()).await?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
            let begun = Instant::now();
            let answer = client.read(COUNT, json!({ "filters": filter.to_string() })).await?;
            counts.push(begun.elapsed().as_secs_f64() * 1000.0);
            answer["project"]["runCount"].as_i64().context("a count")?;
        }
        let value = median(times);
        if bare == 0.0 {
            bare = value;
        }
        let scale = format!("{runs} runs, {name}");
        table.add(Row {
            figure: "list of runs",
            scale: scale.clone(),
            value,
            unit: "ms",
            reference: ("newest 50", bare),
        });
        table.add(Row {
            figure: "count of runs",
            scale,
            value: median(counts),
            unit: "ms",
            reference: ("newest 50", bare),
        });
    }
    Ok(())
}
