//! Events: how many reach how many subscribers, and what those cost.

use super::server::Launch;
use crate::table::{Row, Table};
use crate::wire::Connection;
use anyhow::Result;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use std::time::Instant;

const PUSH: &str = r#"mutation { pushToRunQueueByName(input: {entityName: "volley", projectName: "model-registry", queueName: "q8", runSpec: "{\"resource\":\"local-process\"}"}) { runQueueItemId } }"#;
const WRITERS: usize = 8;
const EVENTS: usize = 400;

pub async fn delivered(launch: &Launch, quick: bool, table: &mut Table) -> Result<()> {
    let scales: &[usize] = if quick { &[10, 100] } else { &[1, 10, 100, 1000] };
    for subscribers in scales {
        let before = launch.resident_mb()?;
        let mut readers = Vec::new();
        for _ in 0..*subscribers {
            let mut client = launch.connect().await?;
            let answer = client.open(Method::GET, "/api/v1/events", Bytes::new()).await?;
            readers.push(tokio::spawn(count(client, answer.into_body())));
        }
        let begun = Instant::now();
        let writers: Vec<_> = (0..WRITERS).map(|_| launch.connect()).collect();
        let mut tasks = Vec::new();
        for writer in writers {
            let mut writer = writer.await?;
            tasks.push(tokio::spawn(async move {
                for _ in 0..EVENTS / WRITERS {
                    writer.graphql(PUSH, json!({})).await?;
                }
                anyhow::Ok(())
            }));
        }
        for task in tasks {
            task.await??;
        }
        let written = EVENTS as f64 / begun.elapsed().as_secs_f64();
        for reader in readers {
            reader.await??;
        }
        let value = (subscribers * EVENTS) as f64 / begun.elapsed().as_secs_f64();
        let scale = format!("{subscribers} subscribers, {EVENTS} events");
        table.add(Row {
            figure: "events delivered",
            scale: scale.clone(),
            value,
            unit: "/s",
            reference: ("written", written),
        });
        let reference = ("before", before);
        table.add(Row {
            figure: "resident with subscribers",
            scale,
            value: launch.resident_mb()?,
            unit: "MB",
            reference,
        });
    }
    Ok(())
}

/// Reads until all events of the measurement have come. The client is kept, because its connection ends with it.
async fn count(_client: Connection, mut body: hyper::body::Incoming) -> Result<()> {
    let mut seen = 0;
    while seen < EVENTS {
        let Some(frame) = body.frame().await else { anyhow::bail!("the stream ended after {seen} events") };
        if let Ok(data) = frame?.into_data() {
            seen += data.windows(4).filter(|window| window == b"\nid:").count() + usize::from(data.starts_with(b"id:"));
        }
    }
    Ok(())
}
