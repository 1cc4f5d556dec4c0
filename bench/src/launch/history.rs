//! History: rows taken in per second, what they weigh on disk, and how soon a chart of them is drawn.

use super::server::Launch;
use crate::measure::median;
use crate::reference;
use crate::table::{Row, Table};
use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::json;
use std::time::Instant;

/// As many lines as a client that is behind sends at once.
const LINES: usize = 1000;
const BEGIN: &str = r#"mutation { upsertBucket(input: {entityName: "volley", modelName: "bench", name: "history", host: "h"}) { inserted } }"#;
const CHART: &str = r#"query C($spec: [JSONString!]!) { project(entityName: "volley", name: "bench") { run(name: "history") { sampledHistory(specs: $spec) } } }"#;

fn line(step: usize) -> String {
    let x = step as f64;
    format!(
        r#"{{"_step":{step},"_runtime":{},"_timestamp":{},"loss":{},"acc":{},"lr":0.001}}"#,
        x * 0.25,
        1.7e9 + x * 0.25,
        1.0 / (1.0 + x).sqrt() + (x * 0.7).sin() * 0.01,
        1.0 - 1.0 / (1.0 + x).ln_1p()
    )
}

pub async fn ingest_and_chart(launch: &Launch, rows: usize, table: &mut Table) -> Result<()> {
    let mut client = launch.connect().await?;
    client.graphql(BEGIN, json!({})).await?;
    let before = disk_bytes(launch)?;
    let mut text_bytes = 0;
    let mut taken = 0.0;
    for offset in (0..rows).step_by(LINES) {
        let content: Vec<String> = (offset..rows.min(offset + LINES)).map(line).collect();
        text_bytes += content.iter().map(String::len).sum::<usize>();
        let post = json!({ "files": { "wandb-history.jsonl": { "offset": offset, "content": content } } }).to_string();
        let begun = Instant::now();
        client.call(Method::POST, "/files/volley/bench/history/file_stream", Bytes::from(post)).await?;
        taken += begun.elapsed().as_secs_f64();
    }
    let scale = format!("{rows} rows of 6 values");
    let sample: Vec<String> = (0..rows.min(10_000)).map(line).collect();
    let list = format!("[{}]", sample.join(","));
    let parse_ms = reference::parse_ms(list.as_bytes())? * rows as f64 / sample.len() as f64;
    let reference = ("parsing them as JSON", rows as f64 / parse_ms * 1000.0);
    table.add(Row {
        figure: "history ingest",
        scale: scale.clone(),
        value: rows as f64 / taken,
        unit: "rows/s",
        reference,
    });
    let stored = (disk_bytes(launch)? - before).max(0.0) / rows as f64;
    let reference = ("as JSON text", text_bytes as f64 / rows as f64);
    table.add(Row { figure: "history on disk", scale: scale.clone(), value: stored, unit: "bytes/row", reference });
    for (name, spec) in [
        ("500 samples", json!({ "keys": ["_step", "loss"], "samples": 500 })),
        ("5,000 samples", json!({ "keys": ["_step", "loss"], "samples": 5000 })),
        (
            "a tenth, zoomed",
            json!({ "keys": ["_step", "loss"], "samples": 500, "minStep": rows / 2, "maxStep": rows / 2 + rows / 10 }),
        ),
    ] {
        let mut times = Vec::new();
        for _ in 0..5 {
            let begun = Instant::now();
            let answer = client.read(CHART, json!({ "spec": [spec.to_string()] })).await?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
            let drawn = answer["project"]["run"]["sampledHistory"][0].as_array().context("rows")?.len();
            anyhow::ensure!(drawn > 0, "an empty chart");
        }
        let scale = format!("{rows} rows, {name}");
        table.add(Row {
            figure: "chart",
            scale,
            value: median(times),
            unit: "ms",
            reference: ("parsing all as JSON", parse_ms),
        });
    }
    Ok(())
}

/// What the database and its log have on disk.
fn disk_bytes(launch: &Launch) -> Result<f64> {
    let mut bytes = 0;
    for name in ["volley.db", "volley.db-wal"] {
        bytes += std::fs::metadata(launch.home.join("server").join(name)).map_or(0, |file| file.len());
    }
    Ok(bytes as f64)
}
