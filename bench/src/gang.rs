//! How fast gangs are placed, by the decision alone: no server, no writes.
//!
//! The reference is what a scheduler costs that takes one pod at a time, asks every node whether it has room and scores
//! those that have, as kube-scheduler does when it samples nothing.

use crate::process::resident_mb;
use crate::table::{Row, Table};
use anyhow::Result;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Instant;
use volley_plan::gang::place;
use volley_plan::gang::policy::Policy;
use volley_plan::gang::snapshot::{Kind, Snapshot};

const NODES: usize = 5_000;
const GPUS: i64 = 8;
/// Nodes, gangs, pods of each.
const LOADS: [(usize, usize, usize); 6] =
    [(50, 100, 1), (500, 1_000, 1), (NODES, 10_000, 1), (NODES, 500, 20), (NODES, 20, 500), (NODES, 1, 10_000)];
const SAMPLES: usize = 200;
const NOW: i64 = 1_000_000;
const REFERENCE: &str = "one pod at a time over all nodes";

pub fn run(table: &mut Table) -> Result<()> {
    for (nodes, gangs, pods) in LOADS {
        let mut snapshot = land(nodes);
        (0..gangs).for_each(|number| gang(&mut snapshot, &format!("g{number}"), pods, 1, None));
        let start = Instant::now();
        let placed = place(&snapshot, now()?).bind.len();
        let value = placed as f64 / start.elapsed().as_secs_f64();
        anyhow::ensure!(placed == gangs * pods, "{placed} of {} pods were placed", gangs * pods);
        let reference = (REFERENCE, naive_pods_per_second(nodes, gangs * pods));
        let scale = format!("{gangs} × {pods} pods, {nodes} nodes");
        table.add(Row { figure: "pods placed", scale, value, unit: "1/s", reference });
    }
    latency(table)
}

/// One more gang on nodes that are full but for a few, and on nodes that are full.
fn latency(table: &mut Table) -> Result<()> {
    let before = resident_mb(std::process::id())?;
    let mut busy = land(NODES);
    for number in 0..NODES / 8 {
        gang(&mut busy, &format!("r{number}"), 8, GPUS, Some(number * 8));
    }
    let memory = resident_mb(std::process::id())? - before;
    let bytes = (NODES + NODES) as f64 * 2e-3;
    let reference = ("the objects' JSON", bytes);
    let scale = format!("{NODES} nodes, {NODES} pods");
    table.add(Row { figure: "snapshot in memory", scale, value: memory, unit: "MB", reference });
    for (figure, frees) in [("one gang that fits", 16), ("one gang that waits", 0)] {
        let mut snapshot = busy.clone();
        for number in 0..frees {
            snapshot.forget(Kind::Pod, "d", &format!("r{}-{}", number / 8, number % 8));
        }
        gang(&mut snapshot, "new", 8, GPUS, None);
        let mut times = Vec::with_capacity(SAMPLES);
        for _ in 0..SAMPLES {
            let start = Instant::now();
            let placement = place(&snapshot, now()?);
            times.push(start.elapsed().as_secs_f64() * 1000.0);
            anyhow::ensure!(placement.bind.is_empty() == (frees == 0), "the gang's outcome is not the expected one");
        }
        times.sort_by(f64::total_cmp);
        let (median, late) = (times[SAMPLES / 2], times[SAMPLES * 99 / 100]);
        let scale = format!("p99, {NODES} busy nodes");
        table.add(Row { figure, scale, value: late, unit: "ms", reference: ("the median", median) });
    }
    Ok(())
}

fn now() -> Result<Timestamp> {
    Ok(Timestamp::from_second(NOW)?)
}

fn land(nodes: usize) -> Snapshot {
    let mut snapshot = Snapshot::new(Policy::default(), &["volcano"], &[]);
    let queue = json!({"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}});
    snapshot.see(Kind::Queue, &queue);
    for number in 0..nodes {
        let name = node_name(number);
        let node = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
            "status": {"allocatable": {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": GPUS.to_string()},
                "conditions": [{"type": "Ready", "status": "True"}]}});
        snapshot.see(Kind::Node, &node);
    }
    snapshot
}

fn node_name(number: usize) -> String {
    format!("n{number:05}")
}

/// A gang that needs all its pods; with `first`, it runs from that node on, one pod on each.
fn gang(snapshot: &mut Snapshot, name: &str, pods: usize, gpus: i64, first: Option<usize>) {
    let phase = if first.is_some() { "Running" } else { "Inqueue" };
    let group = json!({"metadata": {"name": name, "namespace": "d", "uid": name,
        "creationTimestamp": "1970-01-10T00:00:00Z"}, "spec": {"minMember": pods, "queue": "default"},
        "status": {"phase": phase}});
    snapshot.see(Kind::PodGroup, &group);
    for number in 0..pods {
        let node = first.map(|first| node_name(first + number));
        let requests = json!({"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": gpus.to_string()});
        let pod = json!({"metadata": {"name": format!("{name}-{number}"), "namespace": "d",
                "annotations": {"scheduling.k8s.io/group-name": name}, "creationTimestamp": "1970-01-10T00:00:00Z"},
            "spec": {"schedulerName": "volcano", "nodeName": node.map_or(Value::Null, Value::from),
                "containers": [{"name": "c", "resources": {"requests": requests}}]},
            "status": {"phase": if first.is_some() { "Running" } else { "Pending" }}});
        snapshot.see(Kind::Pod, &pod);
    }
}

/// Filter, score and take the best, for one pod after the other.
fn naive_pods_per_second(nodes: usize, pods: usize) -> f64 {
    const NEED: [f64; 4] = [4.0, 4.0, 1.0, 1.0];
    const HAVE: [f64; 4] = [96.0, 1024.0, 8.0, 110.0];
    let mut free = vec![HAVE; nodes];
    // Enough to know its pace.
    let pods = pods.min(1_000);
    let start = Instant::now();
    for _ in 0..pods {
        let fits = |node: &[f64; 4]| node.iter().zip(NEED).all(|(free, need)| *free >= need);
        let score = |node: &[f64; 4]| -> f64 {
            let used = node.iter().zip(HAVE).zip(NEED).map(|((free, have), need)| (have - free + need) / have);
            used.sum()
        };
        let suitable = free.iter().enumerate().filter(|(_, node)| fits(node));
        let best = suitable.max_by(|a, b| score(a.1).total_cmp(&score(b.1))).map(|(at, _)| at);
        if let Some(at) = best {
            free[at].iter_mut().zip(NEED).for_each(|(free, need)| *free -= need);
        }
    }
    pods as f64 / start.elapsed().as_secs_f64()
}
