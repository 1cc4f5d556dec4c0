//! How long it takes from a pod's submission until its program runs, and until a watcher sees it `Ready`.
//!
//! Ours and the references take turns in every round, so that all of them meet the same machine.

use super::bell::{Bell, PATIENCE};
use super::bundle::{Bundle, IMAGE};
use super::others::Other;
use super::up::Up;
use crate::pods::{PODS, service_account};
use crate::table::{Row, Table};
use crate::wire::Protocol;
use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Instant;
use tokio::sync::mpsc;

/// A node takes 110 pods, so larger numbers come in waves of this size, each removed before the next.
pub const WAVE_MAX: usize = 100;

/// How long each pod of a measurement took, in milliseconds; others' containers are never `Ready`.
#[derive(Default)]
pub struct Taken {
    pub running: Vec<f64>,
    pub ready: Vec<f64>,
    /// All waves together, each until its last program ran.
    pub whole_ms: f64,
}

pub async fn latencies(up: &Up, others: &mut [Other], bell: &mut Bell, quick: bool, table: &mut Table) -> Result<()> {
    service_account(&up.access).await?;
    // The first of all finds cold caches.
    wave(up, bell, ("warm", "host"), 1).await?;
    wave(up, bell, ("warm", IMAGE), 1).await?;
    let scales = [("1 pod", 1, 15), ("20 at once", 20, 5), ("200, 100 at once", WAVE_MAX, 2)];
    for (scale, count, rounds) in &scales[..if quick { 2 } else { 3 }] {
        let (mut host, mut oci) = (Taken::default(), Taken::default());
        let mut bare: Vec<(&'static str, Taken)> = others.iter().map(|other| (other.words, Taken::default())).collect();
        for _ in 0..*rounds {
            host.add(wave(up, bell, ("host", "host"), *count).await?);
            oci.add(wave(up, bell, ("oci", IMAGE), *count).await?);
            for (other, (_, times)) in others.iter_mut().zip(&mut bare) {
                times.add(other.wave(*count, bell).await?);
            }
        }
        host.show(
            ["host pod, submit to running", "host pod, share of a wave", "host pod, submit to Ready"],
            scale,
            &bare,
            table,
        );
        oci.show(
            ["OCI pod, submit to running", "OCI pod, share of a wave", "OCI pod, submit to Ready"],
            scale,
            &bare,
            table,
        );
    }
    Ok(())
}

impl Taken {
    fn add(&mut self, mut wave: Taken) {
        self.running.append(&mut wave.running);
        self.ready.append(&mut wave.ready);
        self.whole_ms += wave.whole_ms;
    }

    /// What one pod adds to the time until all of a wave run.
    fn share_ms(&self) -> f64 {
        self.whole_ms / self.running.len().max(1) as f64
    }

    fn show(&self, figures: [&'static str; 3], scale: &str, bare: &[(&'static str, Taken)], table: &mut Table) {
        for (word, share) in [("p50", 0.5), ("p99", 0.99)] {
            let scale = format!("{scale}, {word}");
            let running = percentile(&self.running, share);
            for (name, other) in bare {
                let reference = (*name, percentile(&other.running, share));
                table.add(Row { figure: figures[0], scale: scale.clone(), value: running, unit: "ms", reference });
            }
            let (value, reference) = (percentile(&self.ready, share), ("its program runs", running));
            table.add(Row { figure: figures[2], scale, value, unit: "ms", reference });
        }
        for (name, other) in bare {
            let (value, reference) = (self.share_ms(), (*name, other.share_ms()));
            table.add(Row { figure: figures[1], scale: scale.to_owned(), value, unit: "ms", reference });
        }
    }
}

pub fn percentile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Submits so many pods at once, waits until all are `Ready`, and removes them.
async fn wave(up: &Up, bell: &mut Bell, kind: (&str, &str), count: usize) -> Result<Taken> {
    let taken = submit(up, bell, kind, count).await?;
    up.clear().await?;
    Ok(taken)
}

/// Submits so many pods at once and leaves them running.
pub async fn fill(up: &Up, bell: &mut Bell, kind: (&str, &str), count: usize) -> Result<()> {
    submit(up, bell, kind, count).await.map(drop)
}

async fn submit(up: &Up, bell: &mut Bell, (prefix, image): (&str, &str), count: usize) -> Result<Taken> {
    let mut watched = watch(up).await?;
    let connection = up.access.connect(Protocol::Http2).await?;
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..count {
        let name = format!("{prefix}-{number}");
        let body = Bytes::from(Bundle::pod(&bell.folder, &name, image).to_string());
        let mut connection = connection.twin()?;
        tasks.push(tokio::spawn(async move {
            let begun = Instant::now();
            connection.call(Method::POST, PODS, body).await?;
            anyhow::Ok((name, begun))
        }));
    }
    let heard = bell.hear(count).await?;
    let mut ready = BTreeMap::new();
    while ready.len() < count {
        let seen = tokio::time::timeout(PATIENCE, watched.recv()).await.context("some pods are not Ready")?;
        let (name, at) = seen.context("the watch ended")?;
        ready.entry(name).or_insert(at);
    }
    let mut taken = Taken::default();
    for task in tasks {
        let (name, begun) = task.await??;
        let since = |times: &BTreeMap<String, Instant>| {
            let at = times.get(&name).with_context(|| format!("{name} was never heard of"))?;
            anyhow::Ok(at.saturating_duration_since(begun).as_secs_f64() * 1000.0)
        };
        taken.running.push(since(&heard)?);
        taken.ready.push(since(&ready)?);
    }
    taken.whole_ms = heard.values().max().map_or(0.0, |last| (*last - begun).as_secs_f64() * 1000.0);
    Ok(taken)
}

/// Names of pods as a watcher first sees them `Ready`.
async fn watch(up: &Up) -> Result<mpsc::UnboundedReceiver<(String, Instant)>> {
    let mut connection = up.access.connect(Protocol::Http2).await?;
    let list = connection.call(Method::GET, &format!("{PODS}?limit=1"), Bytes::new()).await?;
    let list: Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list has a revision")?;
    let path = format!("{PODS}?watch=1&resourceVersion={revision}");
    let mut body = connection.open(Method::GET, &path, Bytes::new()).await?.into_body();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // The stream lives as long as its connection.
        let _connection = connection;
        let mut pending = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let at = Instant::now();
            pending.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            while let Some(end) = pending.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = pending.drain(..=end).collect();
                if let Some(name) = ready_name(&line)
                    && sender.send((name, at)).is_err()
                {
                    return;
                }
            }
        }
    });
    Ok(receiver)
}

fn ready_name(line: &[u8]) -> Option<String> {
    let event: Value = serde_json::from_slice(line).ok()?;
    let conditions = event["object"]["status"]["conditions"].as_array()?;
    let is_ready = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    is_ready.then(|| event["object"]["metadata"]["name"].as_str().map(str::to_owned))?
}
