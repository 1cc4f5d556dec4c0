//! The measurements, in the order of the table.

use crate::process::Server;
use crate::reference;
use crate::table::{Row, Table};
use crate::wire::{Access, Protocol};
use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ROUND: Duration = Duration::from_millis(2500);
const STARTS: usize = 7;
const PODS: &str = "/api/v1/namespaces/default/pods";
/// Watches of one connection, as a process with a shared HTTP/2 connection has them.
const STREAMS: usize = 100;
const WATCH_BYTES_MAX: usize = 400 << 20;

/// A pod of about 2 KB that no scheduler takes.
pub fn pod(name: &str) -> Bytes {
    let environment: Vec<_> =
        (0..12).map(|n| json!({"name": format!("SETTING_{n}"), "value": "a value of middling length"})).collect();
    let limits = json!({"cpu": "2", "memory": "4Gi"});
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench", "team": "measurement"},
            "annotations": {"example.com/why": "to know how long it takes"}},
        "spec": {"schedulerName": "none", "containers": [{"name": "main", "image": "registry.example.com/team/image:1.2.3",
            "command": ["python", "-m", "train", "--epochs", "10"], "env": environment,
            "resources": {"limits": limits, "requests": limits}}]}});
    pod.to_string().into()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// From the start of the process to the first good answer, on an empty home; and what it then weighs.
pub async fn start(program: &Path, folder: &Path, table: &mut Table) -> Result<()> {
    let (mut times, mut references) = (Vec::new(), Vec::new());
    for number in 0..STARTS {
        let server = Server::start(program, &folder.join(format!("start-{number}"))).await?;
        times.push(server.started_in.as_secs_f64() * 1000.0);
        references.push(Server::hello()?.started_in.as_secs_f64() * 1000.0);
    }
    let reference = ("bare TLS server, same wait", median(references));
    table.add(Row {
        figure: "cold start to ready",
        scale: "empty home".into(),
        value: median(times),
        unit: "ms",
        reference,
    });
    let server = Server::start(program, &folder.join("idle")).await?;
    let hello = Server::hello()?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let reference = ("bare TLS server", hello.resident_mb()?);
    table.add(Row {
        figure: "resident, idle",
        scale: "empty home".into(),
        value: server.resident_mb()?,
        unit: "MB",
        reference,
    });
    Ok(())
}

/// Requests per second of so many clients, each waiting for its answer before it asks again.
async fn per_second<F>(access: &Access, protocol: Protocol, clients: usize, request: F) -> Result<f64>
where
    F: Fn(usize) -> (Method, String, Bytes) + Send + Sync + 'static,
{
    let (request, number) = (Arc::new(request), Arc::new(AtomicUsize::new(0)));
    let mut connections = Vec::new();
    for _ in 0..clients {
        connections.push(access.connect(protocol).await?);
    }
    let begun = Instant::now();
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|mut connection| {
            let (request, number) = (request.clone(), number.clone());
            tokio::spawn(async move {
                let mut count = 0usize;
                while begun.elapsed() < ROUND {
                    let (method, path, body) = request(number.fetch_add(1, Ordering::Relaxed));
                    connection.call(method, &path, body).await?;
                    count += 1;
                }
                anyhow::Ok(count)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    Ok(total as f64 / begun.elapsed().as_secs_f64())
}

async fn service_account(access: &Access) -> Result<()> {
    let mut connection = access.connect(Protocol::Http1).await?;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    // A server without controllers needs a hand; where it is there already, this is refused.
    let _ = connection.call(Method::POST, accounts, Bytes::from_static(br#"{"metadata":{"name":"default"}}"#)).await;
    for _ in 0..1000 {
        let path = "/api/v1/namespaces/default/serviceaccounts/default";
        if connection.call(Method::GET, path, Bytes::new()).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("the default service account was not made")
}

pub async fn creates(server: &Server, hello: &Server, folder: &Path, table: &mut Table) -> Result<()> {
    service_account(&server.access).await?;
    let round = AtomicUsize::new(0);
    for (clients, protocol) in [
        (1, Protocol::Http1),
        (1, Protocol::Http2),
        (32, Protocol::Http1),
        (32, Protocol::Http2),
        (320, Protocol::Http2),
    ] {
        let prefix = format!("c{}", round.fetch_add(1, Ordering::Relaxed));
        let appends = reference::synced_appends_per_second(folder, 2048)?;
        let create = move |number: usize| (Method::POST, PODS.to_owned(), pod(&format!("{prefix}-{number}")));
        let value = per_second(&server.access, protocol, clients, create).await?;
        let scale = format!("{clients} clients, {}", protocol.name());
        let reference = ("append + fdatasync, one writer", appends);
        table.add(Row { figure: "durable creates", scale: scale.clone(), value, unit: "/s", reference });
        let bare = per_second(&hello.access, protocol, clients, |_| (Method::POST, PODS.to_owned(), pod("x"))).await?;
        let reference = ("bare TLS server, same bodies", bare);
        table.add(Row { figure: "durable creates", scale, value, unit: "/s", reference });
    }
    Ok(())
}

pub async fn gets(server: &Server, hello: &Server, table: &mut Table) -> Result<()> {
    for (clients, protocol) in [(1, Protocol::Http2), (32, Protocol::Http1), (32, Protocol::Http2)] {
        let get = |number: usize| (Method::GET, format!("{PODS}/c2-{}", number % 1000), Bytes::new());
        let value = per_second(&server.access, protocol, clients, get).await?;
        let bare = per_second(&hello.access, protocol, clients, get).await?;
        let scale = format!("{clients} clients, {}", protocol.name());
        table.add(Row { figure: "gets", scale, value, unit: "/s", reference: ("bare TLS server", bare) });
    }
    Ok(())
}

/// Counts the lines of a stream until it ends or `enough` have come.
async fn count_lines(body: hyper::body::Incoming, enough: usize, total: Arc<AtomicUsize>) -> Result<()> {
    let (mut body, mut mine) = (body, 0);
    while mine < enough {
        let Some(frame) = body.frame().await else { break };
        let Ok(data) = frame?.into_data() else { continue };
        let lines = data.iter().filter(|byte| **byte == b'\n').count();
        mine += lines;
        total.fetch_add(lines, Ordering::Relaxed);
    }
    Ok(())
}

/// Streams of so many readers over few connections, each read until it has its lines.
struct Streams {
    readers: usize,
    lines: usize,
    total: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<Result<()>>>,
    opened: Instant,
}

impl Streams {
    async fn open(access: &Access, readers: usize, path: &str, lines: usize) -> Result<Streams> {
        let (opened, total, mut tasks) = (Instant::now(), Arc::new(AtomicUsize::new(0)), Vec::new());
        let mut connection = access.connect(Protocol::Http2).await?;
        for number in 0..readers {
            if number > 0 && number % STREAMS == 0 {
                connection = access.connect(Protocol::Http2).await?;
            }
            let answer = connection.open(Method::GET, path, Bytes::new()).await?;
            tasks.push(tokio::spawn(count_lines(answer.into_body(), lines, total.clone())));
        }
        Ok(Streams { readers, lines, total, tasks, opened })
    }

    /// Lines per second of all together, from a moment until the last reader has its last line.
    async fn per_second_since(self, begun: Instant) -> Result<f64> {
        for task in self.tasks {
            task.await??;
        }
        let wanted = self.readers * self.lines;
        anyhow::ensure!(self.total.load(Ordering::Relaxed) >= wanted, "some lines never came");
        Ok(wanted as f64 / begun.elapsed().as_secs_f64())
    }
}

pub async fn fan_out(server: &Server, hello: &Server, quick: bool, table: &mut Table) -> Result<()> {
    let before = server.resident_mb()?;
    let scales: &[usize] = if quick { &[10, 100, 1000] } else { &[1, 10, 100, 1000] };
    for watchers in scales {
        let events = (WATCH_BYTES_MAX / 2500 / watchers).min(4000);
        let value = watched(&server.access, *watchers, events, "f").await?;
        let bare = Streams::open(&hello.access, *watchers, &format!("/stream/{events}"), events).await?;
        let opened = bare.opened;
        let bare = bare.per_second_since(opened).await?;
        let scale = format!("{watchers} watchers, {events} events");
        let reference = ("bare TLS server, same lines", bare);
        table.add(Row { figure: "watch events delivered", scale, value, unit: "/s", reference });
    }
    let reference = ("before the watchers", before);
    table.add(Row {
        figure: "resident after fan-out",
        scale: "1000 watchers".into(),
        value: server.resident_mb()?,
        unit: "MB",
        reference,
    });
    Ok(())
}

/// Events per second that reach so many watchers of pods while 32 clients create them.
async fn watched(access: &Access, watchers: usize, events: usize, prefix: &str) -> Result<f64> {
    let mut lister = access.connect(Protocol::Http1).await?;
    let list = lister.call(Method::GET, &format!("{PODS}?limit=1"), Bytes::new()).await?;
    let list: serde_json::Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"].as_str().context("a list has a revision")?;
    let path = format!("{PODS}?watch=1&resourceVersion={revision}");
    let prefix = format!("{prefix}{watchers}");
    let streams = Streams::open(access, watchers, &path, events).await?;
    let begun = Instant::now();
    write_pods(access, &prefix, events).await?;
    streams.per_second_since(begun).await
}

/// Creates pods by 32 clients.
async fn write_pods(access: &Access, prefix: &str, count: usize) -> Result<()> {
    let number = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..32 {
        let (mut connection, number, prefix) =
            (access.connect(Protocol::Http2).await?, number.clone(), prefix.to_owned());
        tasks.push(tokio::spawn(async move {
            loop {
                let mine = number.fetch_add(1, Ordering::Relaxed);
                if mine >= count {
                    return anyhow::Ok(());
                }
                connection.call(Method::POST, PODS, pod(&format!("{prefix}-{mine}"))).await?;
            }
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// The same measurements on another API server beside ours, turn by turn, so that both meet the same machine.
pub async fn against(server: &Server, other: &Access, table: &mut Table) -> Result<()> {
    service_account(other).await?;
    for (clients, protocol) in [(1, Protocol::Http2), (32, Protocol::Http2), (32, Protocol::Http1)] {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for round in 0..3 {
            let create = move |number: usize| {
                let name = format!("a{clients}-{}-{round}-{number}", protocol as u8);
                (Method::POST, PODS.to_owned(), pod(&name))
            };
            ours.push(per_second(&server.access, protocol, clients, create).await?);
            theirs.push(per_second(other, protocol, clients, create).await?);
        }
        let scale = format!("{clients} clients, {}", protocol.name());
        let reference = ("the other API server", median(theirs));
        table.add(Row { figure: "durable creates", scale, value: median(ours), unit: "/s", reference });
    }
    for watchers in [100, 1000] {
        let events = (WATCH_BYTES_MAX / 2500 / watchers).min(1000);
        let ours = watched(&server.access, watchers, events, "ga").await?;
        let theirs = watched(other, watchers, events, "ga").await?;
        let scale = format!("{watchers} watchers, {events} events");
        let reference = ("the other API server", theirs);
        table.add(Row { figure: "watch events delivered", scale, value: ours, unit: "/s", reference });
    }
    Ok(())
}

/// What so many pods weigh, and how long it takes to list them all.
pub async fn memory_and_lists(server: &Server, pods: usize, table: &mut Table) -> Result<()> {
    service_account(&server.access).await?;
    let idle = server.resident_mb()?;
    write_pods(&server.access, "p", pods).await?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let scale = format!("{pods} pods");
    let full = server.resident_mb()?;
    let mut connection = server.access.connect(Protocol::Http2).await?;
    let (mut times, mut bytes) = (Vec::new(), Bytes::new());
    for _ in 0..5 {
        let begun = Instant::now();
        bytes = connection.call(Method::GET, PODS, Bytes::new()).await?;
        times.push(begun.elapsed().as_secs_f64() * 1000.0);
    }
    let megabytes = bytes.len() as f64 / (1 << 20) as f64;
    let reference = ("the same objects as JSON text", megabytes);
    table.add(Row { figure: "resident beyond idle", scale: scale.clone(), value: full - idle, unit: "MB", reference });
    let ms = median(times);
    let parse = reference::parse_ms(&bytes)?;
    table.add(Row {
        figure: "list all",
        scale: scale.clone(),
        value: ms,
        unit: "ms",
        reference: ("parsing it as JSON", parse),
    });
    let rate = |ms: f64| megabytes / ms * 1000.0;
    table.add(Row {
        figure: "list all",
        scale: scale.clone(),
        value: rate(ms),
        unit: "MB/s",
        reference: ("parsing it as JSON", rate(parse)),
    });
    let begun = Instant::now();
    let pages = read_pages(server).await?;
    let paged = begun.elapsed().as_secs_f64() * 1000.0;
    let scale = format!("{scale}, {pages} pages of 500");
    table.add(Row { figure: "list all", scale, value: paged, unit: "ms", reference: ("in one piece", ms) });
    Ok(())
}

async fn read_pages(server: &Server) -> Result<usize> {
    let mut connection = server.access.connect(Protocol::Http2).await?;
    let (mut token, mut pages) = (String::new(), 0);
    loop {
        let page = connection.call(Method::GET, &format!("{PODS}?limit=500&continue={token}"), Bytes::new()).await?;
        pages += 1;
        // The token stands in the list's metadata, before its items.
        let head = String::from_utf8_lossy(&page[..page.len().min(400)]).into_owned();
        match head.split("\"continue\":\"").nth(1).and_then(|rest| rest.split('"').next()) {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return Ok(pages),
        }
    }
}

/// Start-up with a full home.
pub async fn restart(program: &Path, home: &Path, pods: usize, table: &mut Table) -> Result<()> {
    let server = Server::start(program, home).await?;
    let log = std::fs::read(home.join("cluster/store.log"))?;
    let begun = Instant::now();
    let copy = log.clone();
    let reference = ("copying the log in memory", begun.elapsed().as_secs_f64() * 1000.0);
    drop(copy);
    let value = server.started_in.as_secs_f64() * 1000.0;
    table.add(Row { figure: "start to ready", scale: format!("{pods} pods"), value, unit: "ms", reference });
    Ok(())
}
