//! Watches: how many events reach how many watchers.

use crate::pods::{PODS, write_pods};
use crate::process::Server;
use crate::table::{Row, Table};
use crate::wire::{Access, Protocol};
use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Watches of one connection, as a process with a shared HTTP/2 connection has them.
const STREAMS: usize = 100;
/// What all watchers of one measurement receive together.
pub const WATCH_BYTES_MAX: usize = 400 << 20;

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
pub async fn watched(access: &Access, watchers: usize, events: usize, prefix: &str) -> Result<f64> {
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
