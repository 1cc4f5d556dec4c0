//! The node: how soon pods run, what they weigh, how fast images unpack, how soon a first pod has run after
//! `volley up`, and how long training jobs take.
//!
//! Needs root, as containers do. Reading order: `bundle` (what is run), `bell` (how its start is heard), `up` (a volley with a
//! node), `others` (crun and runc), then the measurements.

mod bundle;
mod bell;
mod up;
mod others;
mod starts;
mod weight;
mod unpack;
mod cold;
mod jobs;
mod pretended;
mod launched;

use crate::table::Table;
use anyhow::Result;
use bell::Bell;
use bundle::Bundle;
use others::Other;
use std::path::Path;
use up::Up;

pub async fn run(program: &Path, folder: &Path, quick: bool, table: &mut Table) -> Result<()> {
    if !folder_is_roots(folder)? {
        eprintln!("pods are measured as root only; they are left out");
        return Ok(());
    }
    let bundle = Bundle::make(&folder.join("bundle"))?;
    let mut bell = Bell::hang(&bundle.bells)?;
    let mut others = Other::installed(folder, &bundle)?;
    cold::first_pod(program, folder, &mut others, &mut bell, table).await?;
    // Memory first, and on a process of its own: what the allocator has had once it keeps.
    weight::memory_and_cpu(&Up::start(program, &folder.join("weight")).await?, &mut bell, quick, table).await?;
    let up = Up::start(program, &folder.join("node")).await?;
    up.load(&bundle.archive())?;
    starts::latencies(&up, &mut others, &mut bell, quick, table).await?;
    drop(up);
    jobs::jobs(program, folder, quick, table).await?;
    pretended::waves(program, folder, quick, table).await?;
    launched::launches(program, folder, &mut bell, quick, table).await?;
    unpack::rates(program, folder, quick, table)
}

/// The folder was made by this process, so its owner says who this is.
fn folder_is_roots(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(folder)?.uid() == 0)
}
