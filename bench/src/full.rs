//! Many pods: what they weigh, how long it takes to list them, and to start with them.

use crate::measure::median;
use crate::pods::{PODS, service_account, write_pods};
use crate::process::Server;
use crate::reference;
use crate::table::{Row, Table};
use crate::wire::Protocol;
use anyhow::Result;
use bytes::Bytes;
use http::Method;
use std::path::Path;
use std::time::{Duration, Instant};

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
