//! Training jobs: how long they take from their submission to `Succeeded`, what the operator weighs while nothing happens, and
//! how fast the API takes them.
//!
//! A job is a master and two workers that do nothing, so that what is measured is all that goes before and after the work.

use super::up::Up;
use super::weight::idle_percent;
use crate::pods::{PODS, service_account};
use crate::process::{Server, resident_mb};
use crate::table::{Row, Table};
use crate::wire::{Access, Protocol};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

const JOBS: &str = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS_OF_JOB: usize = 3;
const CREATES: usize = 1_000;
/// Many times what a hundred jobs take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

pub async fn jobs(program: &Path, folder: &Path, quick: bool, table: &mut Table) -> Result<()> {
    let bare = Up::start(program, &folder.join("bare")).await?;
    let up = Up::start_whole(program, &folder.join("jobs")).await?;
    let mut add = |figure, scale: &str, value, unit, reference| {
        table.add(Row { figure, scale: scale.to_owned(), value, unit, reference });
    };
    let [ours, theirs] = [&up, &bare].map(|up| up.ready_in.as_secs_f64() * 1000.0);
    add("`volley up` with the operator", "empty home", ours, "ms", ("--only cluster", theirs));
    let shares = [idle_percent(&[up.pid]).await?, idle_percent(&[bare.pid]).await?];
    add("idle with the operator", "CPU", shares[0], "% of a core", ("--only cluster", shares[1]));
    let memory = ("--only cluster", resident_mb(bare.pid)?);
    add("idle with the operator", "resident", resident_mb(up.pid)?, "MB", memory);
    drop(bare);

    service_account(&up.access).await?;
    timed(&up, JOBS, 1, job).await?;
    for (scale, count) in &[("1 job of 3 pods", 1), ("10 jobs", 10), ("100 jobs", 100)][..if quick { 2 } else { 3 }] {
        let value = timed(&up, JOBS, *count, job).await?;
        let pods = timed(&up, PODS, *count * PODS_OF_JOB, pod).await?;
        add("PyTorchJobs, submit to all Succeeded", scale, value, "ms", ("as many plain pods", pods));
    }
    drop(up);

    let server = Server::start(program, &folder.join("creates")).await?;
    let maps = created(&server.access, MAPS, |name| json!({"metadata": {"name": name}, "data": {"a": "b"}})).await?;
    let jobs = created(&server.access, JOBS, job).await?;
    add("PyTorchJobs created, nobody acting", "1,000, 1 client", jobs, "/s", ("ConfigMaps", maps));
    Ok(())
}

fn template(container: &str) -> Value {
    json!({"containers": [{"name": container, "image": "host", "command": ["true"]}], "restartPolicy": "Never"})
}

pub fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": template("c")})
}

fn job(name: &str) -> Value {
    let mut spec = template("pytorch");
    spec["restartPolicy"] = Value::Null;
    let replica = |count: usize| json!({"replicas": count, "restartPolicy": "Never", "template": {"spec": spec}});
    json!({
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {"Master": replica(1), "Worker": replica(PODS_OF_JOB - 1)}},
    })
}

/// Milliseconds from the first submission until all have succeeded; nothing of them is left afterwards.
pub async fn timed(up: &Up, path: &str, count: usize, object: impl Fn(&str) -> Value) -> Result<f64> {
    let connection = up.access.connect(Protocol::Http2).await?;
    let begun = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..count {
        let (mut connection, path) = (connection.twin()?, path.to_owned());
        let body = Bytes::from(object(&format!("b{number}")).to_string());
        tasks.push(tokio::spawn(async move { connection.call(Method::POST, &path, body).await }));
    }
    for task in tasks {
        task.await??;
    }
    let mut connection = up.access.connect(Protocol::Http2).await?;
    loop {
        let list: Value = serde_json::from_slice(&connection.call(Method::GET, path, Bytes::new()).await?)?;
        let items = list["items"].as_array().context("a list has items")?;
        if items.iter().filter(|item| has_succeeded(item)).count() >= count {
            break;
        }
        ensure!(begun.elapsed() < PATIENCE, "not all of {count} have succeeded");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let taken = begun.elapsed();
    connection.call(Method::DELETE, path, Bytes::from_static(br#"{"propagationPolicy":"Background"}"#)).await?;
    up.clear().await?;
    Ok(taken.as_secs_f64() * 1000.0)
}

fn has_succeeded(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let is_so = |condition: &Value| condition["type"] == "Succeeded" && condition["status"] == "True";
    object["status"]["phase"] == "Succeeded" || conditions.is_some_and(|conditions| conditions.iter().any(is_so))
}

/// Objects per second that one client creates, one after the other.
async fn created(access: &Access, path: &str, object: impl Fn(&str) -> Value) -> Result<f64> {
    let mut connection = access.connect(Protocol::Http1).await?;
    let begun = Instant::now();
    for number in 0..CREATES {
        connection.call(Method::POST, path, Bytes::from(object(&format!("b{number}")).to_string())).await?;
    }
    Ok(CREATES as f64 / begun.elapsed().as_secs_f64())
}
