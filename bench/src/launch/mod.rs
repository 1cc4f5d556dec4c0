//! The launch server: submits and pops, history, lists of runs, events, memory; on SQLite and on PostgreSQL.
//!
//! Reading order: `server` (the process and its clients), then the measurements.

mod server;
mod queue;
mod history;
mod runs;
mod events;

use crate::table::{Row, Table};
use anyhow::Result;
use server::{Launch, Store};
use std::path::Path;

pub async fn run(program: &Path, folder: &Path, quick: bool, table: &mut Table) -> Result<()> {
    let idle = Launch::start(program, &folder.join("idle"), Store::Sqlite).await?;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    let weight = idle.resident_mb()?;
    let reference = ("the budget of a whole volley", 60.0);
    table.add(Row {
        figure: "server resident, idle",
        scale: "empty home".into(),
        value: weight,
        unit: "MB",
        reference,
    });
    drop(idle);

    let sqlite = Launch::start(program, &folder.join("sqlite"), Store::Sqlite).await?;
    queue::submits_and_pops(&sqlite, folder, table).await?;
    let postgres = Launch::start(program, &folder.join("postgres"), Store::Postgres).await?;
    queue::submits_and_pops(&postgres, folder, table).await?;
    drop(postgres);
    events::delivered(&sqlite, quick, table).await?;
    let loaded = sqlite.resident_mb()?;
    let reference = ("idle", weight);
    table.add(Row {
        figure: "server resident, loaded",
        scale: "after the above".into(),
        value: loaded,
        unit: "MB",
        reference,
    });
    drop(sqlite);
    let scales: &[usize] = if quick { &[1, 10] } else { &[1, 10, 100] };
    for scale in scales {
        let launch = Launch::start(program, &folder.join(format!("scale-{scale}")), Store::Sqlite).await?;
        history::ingest_and_chart(&launch, scale * 10_000, table).await?;
        runs::lists(&launch, scale * 1_000, table).await?;
        let reference = ("idle", weight);
        let figure = "server resident, full";
        let scale = format!("{} rows, {} runs", scale * 10_000, scale * 1_000);
        table.add(Row { figure, scale, value: launch.resident_mb()?, unit: "MB", reference });
    }
    Ok(())
}
