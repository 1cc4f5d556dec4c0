//! Measures a release build of `volley cluster` as its clients meet it: over TLS on loopback, with durable writes.
//!
//! Every figure stands beside a reference taken in the same run on the same machine, because only the ratio travels
//! from one machine to another. Usage: `volley-bench [quick] [PATH-OF-VOLLEY]`. `make bench` builds and runs it; `bench/README.md` explains the method.

#![expect(clippy::print_stdout, reason = "the table is what this program is for")]

mod hello;
mod measure;
mod process;
mod reference;
mod table;
mod wire;

use anyhow::Result;
use process::Server;
use std::path::PathBuf;
use table::Table;
use tokio::runtime::Builder;

/// One thread drives the load and one is left for the server, as on the two cores of the budget.
const THREADS: usize = 2;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    if words == ["hello"] {
        return runtime.block_on(hello::serve());
    }
    let quick = words.iter().any(|word| word == "quick");
    let program = match words.iter().find(|word| *word != "quick") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("volley"),
    };
    anyhow::ensure!(program.exists(), "no `{}`\nhint: `make bench` builds it first", program.display());
    runtime.block_on(run(program, quick))
}

async fn run(program: PathBuf, quick: bool) -> Result<()> {
    // `TMPDIR` decides which disk is measured.
    let folder = tempfile::tempdir()?;
    let mut table = Table::default();
    measure::start(&program, folder.path(), &mut table).await?;
    let home = folder.path().join("home");
    let server = Server::start(&program, &home).await?;
    let hello = Server::hello()?;
    measure::creates(&server, &hello, folder.path(), &mut table).await?;
    measure::gets(&server, &hello, &mut table).await?;
    measure::fan_out(&server, &hello, quick, &mut table).await?;
    drop(server);
    let scales: &[usize] = if quick { &[1_000, 10_000] } else { &[1_000, 10_000, 100_000] };
    for pods in scales {
        let home = folder.path().join(format!("home-{pods}"));
        let server = Server::start(&program, &home).await?;
        measure::memory_and_lists(&server, *pods, &mut table).await?;
        drop(server);
        measure::restart(&program, &home, *pods, &mut table).await?;
    }
    println!("{}", table.render());
    Ok(())
}
