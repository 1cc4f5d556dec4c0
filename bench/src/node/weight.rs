//! What running pods cost: memory of their shims and of volley itself, and CPU when nothing happens.

use super::bell::Bell;
use super::starts::fill;
use super::up::Up;
use crate::pods::service_account;
use crate::process::resident_mb;
use crate::table::{Row, Table};
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// Until what a start leaves to do (events, statuses) is done.
const SETTLING: Duration = Duration::from_secs(8);
/// Ten seconds are a thousand of the kernel's ticks, by which CPU time is counted.
const WINDOW: Duration = Duration::from_secs(10);

pub async fn memory_and_cpu(up: &Up, bell: &mut Bell, quick: bool, table: &mut Table) -> Result<()> {
    service_account(&up.access).await?;
    tokio::time::sleep(SETTLING).await;
    let empty = resident_mb(up.pid)?;
    let reference = ("budget", 60.0);
    table.add(Row {
        figure: "resident with a node, idle",
        scale: "0 pods".into(),
        value: empty,
        unit: "MB",
        reference,
    });
    let still = idle_percent(&[up.pid]).await?;
    table.add(Row {
        figure: "CPU, idle",
        scale: "0 pods".into(),
        value: still,
        unit: "% of a core",
        reference: ("budget", 1.0),
    });
    for pods in if quick { &[50][..] } else { &[10, 50, 100] } {
        fill(up, bell, ("idle", "host"), *pods).await?;
        tokio::time::sleep(SETTLING).await;
        let shims = up.shims()?;
        anyhow::ensure!(shims.len() >= *pods, "{} shims for {pods} pods", shims.len());
        let scale = format!("{pods} pods");
        let each = |total: f64| total / *pods as f64 * 1024.0;
        let sleeps = shims.iter().map(|shim| children_kb(*shim)).sum::<Result<f64>>()? / *pods as f64;
        let reference = ("its own program, resident", sleeps);
        let resident = shims.iter().map(|shim| resident_mb(*shim)).sum::<Result<f64>>()?;
        table.add(Row {
            figure: "a pod's shim, resident",
            scale: scale.clone(),
            value: each(resident),
            unit: "KB",
            reference,
        });
        let private = shims.iter().map(|shim| proportional_kb(*shim)).sum::<Result<f64>>()? / *pods as f64;
        table.add(Row {
            figure: "a pod's shim, its share of what is shared",
            scale: scale.clone(),
            value: private,
            unit: "KB",
            reference,
        });
        let grown = each(resident_mb(up.pid)? - empty);
        table.add(Row {
            figure: "volley grows by, per pod",
            scale: scale.clone(),
            value: grown,
            unit: "KB",
            reference,
        });
        let value = idle_percent(&[&[up.pid], &*shims].concat()).await?;
        table.add(Row {
            figure: "CPU, idle, shims too",
            scale,
            value,
            unit: "% of a core",
            reference: ("budget", 1.0),
        });
        up.clear().await?;
    }
    Ok(())
}

/// CPU time of these processes while nobody asks anything of them.
pub async fn idle_percent(pids: &[u32]) -> Result<f64> {
    let before = pids.iter().map(|pid| ticks(*pid)).sum::<Result<f64>>()?;
    tokio::time::sleep(WINDOW).await;
    let after = pids.iter().map(|pid| ticks(*pid)).sum::<Result<f64>>()?;
    // A tick is a hundredth of a second on every Linux that we know.
    Ok((after - before) / WINDOW.as_secs_f64())
}

/// User and system time, from after the name, which may hold spaces.
fn ticks(pid: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let rest = stat.rsplit(')').next().context("a stat has a name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let field = |at: usize| anyhow::Ok(fields.get(at).context("a stat has its times")?.parse::<f64>()?);
    Ok(field(11)? + field(12)?)
}

/// Memory that is the process's own, and its share of what it shares with others.
fn proportional_kb(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:")).context("Pss is in smaps_rollup")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

fn children_kb(pid: u32) -> Result<f64> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let pids = children.split_whitespace().map(|pid| pid.parse::<u32>().map_err(anyhow::Error::from));
    pids.map(|pid| resident_mb(pid?).map(|mb| mb * 1024.0)).sum()
}
