//! Starts, creates and gets, and the comparison with another API server.

use crate::pods::{PODS, pod, service_account};
use crate::process::Server;
use crate::reference;
use crate::table::{Row, Table};
use crate::watches::{WATCH_BYTES_MAX, watched};
use crate::wire::{Access, Protocol};
use anyhow::Result;
use bytes::Bytes;
use http::Method;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const ROUND: Duration = Duration::from_millis(2500);
const STARTS: usize = 7;

pub fn median(mut values: Vec<f64>) -> f64 {
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
    per_second_while(access, protocol, clients, request, |_| Ok(true)).await
}

/// The same, where an answer says whether it counts; a client stops at the first that does not.
pub async fn per_second_while<F, C>(
    access: &Access,
    protocol: Protocol,
    clients: usize,
    request: F,
    counts: C,
) -> Result<f64>
where
    F: Fn(usize) -> (Method, String, Bytes) + Send + Sync + 'static,
    C: Fn(&Bytes) -> Result<bool> + Copy + Send + Sync + 'static,
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
                    if !counts(&connection.call(method, &path, body).await?)? {
                        break;
                    }
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
        // A server that cuts slow watchers off has no figure here.
        let theirs = watched(other, watchers, events, "ga").await.unwrap_or(0.0);
        let scale = format!("{watchers} watchers, {events} events");
        let reference = ("the other API server", theirs);
        table.add(Row { figure: "watch events delivered", scale, value: ours, unit: "/s", reference });
    }
    Ok(())
}
