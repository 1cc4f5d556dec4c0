//! Pods and gangs on pretended nodes, from their creation until they are bound: what scheduling costs end to end, without the
//! price of processes.
//!
//! Each wave is created by 32 clients; a watch tells when a pod has its node. The reference is the same pods where nobody
//! places them, so that what the API server takes for itself can be told apart.

use super::starts::percentile;
use super::up::Up;
use crate::pods::{PODS, service_account};
use crate::process::resident_mb;
use crate::table::{Row, Table};
use crate::wire::{Access, Protocol};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

const CLIENTS: usize = 32;
const JOBS: &str = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs";
const PODS_OF_JOB: usize = 4;
/// Many times what the largest wave takes.
const PATIENCE: Duration = Duration::from_secs(300);

pub async fn waves(program: &Path, folder: &Path, quick: bool, table: &mut Table) -> Result<()> {
    let scales: &[(usize, usize)] =
        if quick { &[(50, 100), (500, 1_000)] } else { &[(50, 100), (500, 1_000), (5_000, 10_000)] };
    for (nodes, pods) in scales {
        let words = format!("{nodes}x8gpu");
        let up = Up::start_parts(
            program,
            &folder.join(format!("pretend-{nodes}")),
            &["--no-node", "--pretend-nodes", &words],
        )?;
        service_account(&up.access).await?;
        let idle = resident_mb(up.pid)?;
        let scale = format!("{pods} on {nodes} nodes");
        let mut add = |figure, value, unit, reference| {
            table.add(Row { figure, scale: scale.clone(), value, unit, reference });
        };
        add("ready with pretended nodes", up.ready_in.as_secs_f64() * 1000.0, "ms", ("nodes", *nodes as f64));
        let free = wave(&up.access, PODS, *pods, 0, |name| pod(name, "nobody")).await?;
        let taken = wave(&up.access, PODS, *pods, *pods, |name| pod(name, "default-scheduler")).await?;
        add(
            "pods created to bound",
            taken.per_second(*pods),
            "/s",
            ("created, nobody places them", free.per_second(*pods)),
        );
        add("a pod's way to its node, p50", taken.percentile(0.5), "ms", ("p99", taken.percentile(0.99)));
        let jobs = pods / PODS_OF_JOB;
        let taken = wave(&up.access, JOBS, jobs, jobs * PODS_OF_JOB, job).await?;
        add(
            "gangs of 4 created to bound",
            taken.per_second(jobs),
            "/s",
            ("their pods /s", taken.per_second(jobs * PODS_OF_JOB)),
        );
        add("a gang's pods' way to their nodes, p50", taken.percentile(0.5), "ms", ("p99", taken.percentile(0.99)));
        add("resident with all of them", resident_mb(up.pid)?, "MB", ("before", idle));
    }
    Ok(())
}

/// When things were created, and how long pods took to be bound.
struct Taken {
    all: Duration,
    ways_ms: Vec<f64>,
}

impl Taken {
    fn per_second(&self, count: usize) -> f64 {
        count as f64 / self.all.as_secs_f64()
    }

    fn percentile(&self, share: f64) -> f64 {
        percentile(&self.ways_ms, share)
    }
}

fn spec(scheduler: &str) -> Value {
    let limits = json!({"nvidia.com/gpu": "1"});
    json!({"schedulerName": scheduler, "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "any", "resources": {"limits": limits}}]})
}

fn pod(name: &str, scheduler: &str) -> Value {
    json!({"metadata": {"name": format!("{scheduler}-{name}")}, "spec": spec(scheduler)})
}

fn job(name: &str) -> Value {
    json!({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": format!("gang-{name}")},
        "spec": {"schedulerName": "volcano", "minAvailable": PODS_OF_JOB, "tasks": [{"name": "worker", "replicas": PODS_OF_JOB,
            "template": {"spec": spec("volcano")}}]}})
}

/// Creates so many objects, and waits until as many pods as are expected have a node. A pod's way is counted from the
/// creation of the object that it comes of.
async fn wave(
    access: &Access,
    path: &'static str,
    count: usize,
    bound: usize,
    object: impl Fn(&str) -> Value + Send + Sync + 'static,
) -> Result<Taken> {
    let mut events = watch(access).await?;
    let (number, object) = (Arc::new(AtomicUsize::new(0)), Arc::new(object));
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for _ in 0..CLIENTS {
        let (mut connection, number, object) = (access.connect(Protocol::Http2).await?, number.clone(), object.clone());
        tasks.push(tokio::spawn(async move {
            let mut made = Vec::new();
            loop {
                let mine = number.fetch_add(1, Ordering::Relaxed);
                if mine >= count {
                    return anyhow::Ok(made);
                }
                let object = object(&format!("{mine}"));
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                made.push((name, Instant::now()));
                connection.call(Method::POST, path, Bytes::from(object.to_string())).await?;
            }
        }));
    }
    let mut made: BTreeMap<String, Instant> = BTreeMap::new();
    for task in tasks {
        made.extend(task.await??);
    }
    let mut ways_ms = Vec::new();
    while ways_ms.len() < bound {
        let next = tokio::time::timeout(PATIENCE, events.recv()).await;
        let (name, at) =
            next.with_context(|| format!("{} of {bound} were bound", ways_ms.len()))?.context("the watch ended")?;
        // A job's pods are called by it, their task and their number.
        let owner = made.get(&name).or_else(|| made.get(name.rsplitn(3, '-').nth(2)?));
        if let Some(made) = owner {
            ways_ms.push(at.saturating_duration_since(*made).as_secs_f64() * 1000.0);
        }
    }
    let all = begun.elapsed();
    ensure!(all < PATIENCE, "the wave took too long");
    ways_ms.sort_by(f64::total_cmp);
    Ok(Taken { all, ways_ms })
}

/// Names of pods that get a node from now on, each once.
async fn watch(access: &Access) -> Result<mpsc::UnboundedReceiver<(String, Instant)>> {
    let mut connection = access.connect(Protocol::Http2).await?;
    let list: Value =
        serde_json::from_slice(&connection.call(Method::GET, &format!("{PODS}?limit=1"), Bytes::new()).await?)?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list has a revision")?;
    let path = format!("{PODS}?watch=1&resourceVersion={revision}");
    let mut body = connection.open(Method::GET, &path, Bytes::new()).await?.into_body();
    let (send, receive) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // The connection ends with its last sender.
        let _kept = connection;
        let (mut rest, mut told) = (Vec::new(), std::collections::BTreeSet::new());
        while let Some(Ok(frame)) = body.frame().await {
            let now = Instant::now();
            let Ok(data) = frame.into_data() else { continue };
            rest.extend_from_slice(&data);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
                let pod = &event["object"];
                let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                if pod["spec"]["nodeName"].is_string() && told.insert(name.clone()) && send.send((name, now)).is_err() {
                    return;
                }
            }
        }
    });
    Ok(receive)
}
