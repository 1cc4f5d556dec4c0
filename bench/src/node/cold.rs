//! `volley up` in an empty home, until the API answers and until a first `host` pod has run.

use super::bell::Bell;
use super::bundle::Bundle;
use super::others::Other;
use super::starts::percentile;
use super::up::Up;
use crate::pods::PODS;
use crate::process::Server;
use crate::table::{Row, Table};
use crate::wire::{Connection, Protocol};
use anyhow::Result;
use bytes::Bytes;
use http::Method;
use std::path::Path;
use std::time::{Duration, Instant};

const STARTS: usize = 7;
/// The pods' account is made by a controller, which may not have come to it yet.
const ACCOUNT_TRIES_MAX: usize = 1000;

pub async fn first_pod(
    program: &Path,
    folder: &Path,
    others: &mut [Other],
    bell: &mut Bell,
    table: &mut Table,
) -> Result<()> {
    let (mut ready, mut running, mut hello, mut bare) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for number in 0..STARTS {
        let begun = Instant::now();
        let up = Up::start(program, &folder.join(format!("cold-{number}"))).await?;
        ready.push(up.ready_in.as_secs_f64() * 1000.0);
        let pod = Bytes::from(Bundle::pod(&bell.folder, "first", "host").to_string());
        submit(&mut up.access.connect(Protocol::Http1).await?, pod).await?;
        let heard = bell.hear(1).await?;
        running.extend(heard.values().map(|at| (*at - begun).as_secs_f64() * 1000.0));
        hello.push(Server::hello()?.started_in.as_secs_f64() * 1000.0);
        if let Some(other) = others.first_mut() {
            bare.extend(other.wave(1, bell).await?.running);
        }
    }
    let median = |values: &[f64]| percentile(values, 0.5);
    let scale = "empty home".to_owned();
    let reference = ("bare TLS server", median(&hello));
    table.add(Row {
        figure: "`volley up` returns",
        scale: scale.clone(),
        value: median(&ready),
        unit: "ms",
        reference,
    });
    let reference = ("crun run, same bundle", median(&bare));
    let figure = "`volley up` to first host pod running";
    table.add(Row { figure, scale, value: median(&running), unit: "ms", reference });
    Ok(())
}

async fn submit(connection: &mut Connection, pod: Bytes) -> Result<()> {
    for _ in 1..ACCOUNT_TRIES_MAX {
        if connection.call(Method::POST, PODS, pod.clone()).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    connection.call(Method::POST, PODS, pod).await.map(drop)
}
