//! Measures a release build of volley as its clients meet it: the API over TLS on loopback, with durable writes, and pods
//! from their submission until they run.
//!
//! Every figure stands beside a reference taken in the same run on the same machine, because only the ratio travels
//! from one machine to another. `make bench` builds and runs it; `bench/README.md` explains the method.
//! Usage: `volley-bench [quick] [api|node|gang|launch|simulate] [against=KUBECONFIG] [PATH-OF-VOLLEY]`.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod measure;
mod watches;
mod full;
mod gang;
mod node;
mod launch;
mod pods;
mod simulate;
mod reference;
mod hello;
mod process;
mod wire;
mod table;
#[path = "../../tests/wandb/postgres.rs"]
mod postgres;

use anyhow::Result;
use process::Server;
use std::path::{Path, PathBuf};
use table::Table;
use tokio::runtime::Builder;
use wire::Access;

/// One thread drives the load and one is left for the server, as on the two cores of the budget.
const THREADS: usize = 2;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    if words == ["hello"] {
        return runtime.block_on(hello::serve());
    }
    if words == ["gang"] || words == ["simulate"] {
        // These need no program beside this one.
        let mut table = Table::default();
        if words == ["gang"] {
            gang::run(&mut table)?
        } else {
            simulate::replays(false, &mut table)?
        }
        println!("{}", table.render());
        return Ok(());
    }
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let other = words.iter().find_map(|word| word.strip_prefix("against="));
    const PARTS: [&str; 5] = ["api", "node", "gang", "launch", "simulate"];
    let is_path = |word: &&String| {
        let word = word.as_str();
        word != "quick" && !PARTS.contains(&word) && !word.starts_with("against=")
    };
    let program = match words.iter().find(is_path) {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("volley"),
    };
    anyhow::ensure!(program.exists(), "no `{}`\nhint: `make bench` builds it first", program.display());
    match other {
        Some(kubeconfig) => runtime.block_on(compare(program, kubeconfig)),
        None => {
            // Without a part's name, all of them.
            let asked: Vec<&str> = PARTS.into_iter().filter(|part| has(part)).collect();
            let parts = if asked.is_empty() { PARTS.to_vec() } else { asked };
            runtime.block_on(run(program, has("quick"), &parts))
        }
    }
}

/// Only what compares with another API server, whose kubeconfig is given.
async fn compare(program: PathBuf, kubeconfig: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = Server::start(&program, &folder.path().join("home")).await?;
    let other = Access::from_kubeconfig(&std::fs::read_to_string(kubeconfig)?)?;
    let mut table = Table::default();
    measure::against(&server, &other, &mut table).await?;
    println!("{}", table.render());
    Ok(())
}

async fn run(program: PathBuf, quick: bool, parts: &[&str]) -> Result<()> {
    // `TMPDIR` decides which disk is measured.
    let folder = tempfile::tempdir()?;
    let mut table = Table::default();
    if parts.contains(&"api") {
        run_api(&program, folder.path(), quick, &mut table).await?;
    }
    if parts.contains(&"gang") {
        gang::run(&mut table)?;
    }
    if parts.contains(&"node") {
        node::run(&program, folder.path(), quick, &mut table).await?;
    }
    if parts.contains(&"launch") {
        launch::run(&program, folder.path(), quick, &mut table).await?;
    }
    if parts.contains(&"simulate") {
        simulate::replays(quick, &mut table)?;
    }
    println!("{}", table.render());
    Ok(())
}

async fn run_api(program: &Path, folder: &Path, quick: bool, table: &mut Table) -> Result<()> {
    measure::start(program, folder, table).await?;
    let server = Server::start(program, &folder.join("home")).await?;
    let hello = Server::hello()?;
    measure::creates(&server, &hello, folder, table).await?;
    measure::gets(&server, &hello, table).await?;
    watches::fan_out(&server, &hello, quick, table).await?;
    drop(server);
    let scales: &[usize] = if quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] };
    for pods in scales {
        let home = folder.join(format!("home-{pods}"));
        let server = Server::start(program, &home).await?;
        full::memory_and_lists(&server, *pods, table).await?;
        drop(server);
        full::restart(program, &home, *pods, table).await?;
    }
    Ok(())
}
