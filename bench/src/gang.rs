//! How fast gangs are placed, by the decision alone: no server, no writes.
//!
//! The reference is what a scheduler costs that takes one pod at a time, asks every node whether it has room and scores
//! those that have, as kube-scheduler does when it samples nothing.

use crate::process::{cpu_seconds, resident_mb};
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
/// Nodes, gangs, pods of each, and how many different requests the pods have.
const LOADS: [(usize, usize, usize, usize); 10] = [
    (50, 100, 1, 1),
    (500, 1_000, 1, 1),
    (NODES, 10_000, 1, 1),
    (NODES, 500, 20, 1),
    (NODES, 20, 500, 1),
    (NODES, 1, 10_000, 1),
    (50, 100, 1, 100),
    (500, 1_000, 1, 1_000),
    (NODES, 10_000, 1, 20),
    (NODES, 10_000, 1, 2_000),
];
/// The best of so many rounds counts: others share the machine.
const ROUNDS: usize = 3;
const NOW: i64 = 1_000_000;
const REFERENCE: &str = "one pod at a time over all nodes";
/// Of each latency as many samples as these seconds give, between these bounds.
const SAMPLES_S: f64 = 3.0;
const SAMPLES: std::ops::RangeInclusive<usize> = 20..=500;

pub fn run(table: &mut Table) -> Result<()> {
    memory(table)?;
    throughput(table)?;
    latencies(table)
}

/// First of all, while the process has nothing else.
fn memory(table: &mut Table) -> Result<()> {
    let before = resident_mb(std::process::id())?;
    let snapshot = busy(40_000, 5_000, table)?;
    let value = resident_mb(std::process::id())? - before;
    let reference = ("the objects, at 2 kB", (NODES + 2 * 45_000) as f64 * 2e-3);
    let scale = format!("{NODES} nodes, 45000 gangs of one pod");
    table.add(Row { figure: "snapshot in memory", scale, value, unit: "MB", reference });
    drop(snapshot);
    Ok(())
}

fn throughput(table: &mut Table) -> Result<()> {
    for (nodes, gangs, pods, shapes) in LOADS {
        let mut snapshot = land(nodes);
        for number in 0..gangs {
            gang(&mut snapshot, &Plan { millis: 4_000 + number % shapes, pods, ..Plan::new(&format!("g{number}")) });
        }
        let mut best: f64 = 0.0;
        for _ in 0..ROUNDS {
            let start = cpu_seconds();
            let placed = place(&mut snapshot, now()?).bind.len();
            best = best.max(placed as f64 / (cpu_seconds() - start));
            anyhow::ensure!(placed == gangs * pods, "{placed} of {} pods were placed", gangs * pods);
        }
        let reference = (REFERENCE, naive_pods_per_second(nodes, gangs * pods));
        let kinds = if shapes > 1 { format!(", {shapes} requests") } else { String::new() };
        let scale = format!("{gangs} × {pods} pods{kinds}, {nodes} nodes");
        table.add(Row { figure: "pods placed", scale, value: best, unit: "1/s", reference });
    }
    Ok(())
}

/// What becomes of one more gang of 8 × 8 GPUs.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    Fits,
    Waits,
    Evicts,
}

/// One more gang on busy nodes: how many gangs run there, how many wait, and what becomes of the new one.
const CASES: [(usize, usize, Turn); 14] = [
    (625, 0, Turn::Fits),
    (5_000, 0, Turn::Fits),
    (40_000, 0, Turn::Fits),
    (5_000, 5_000, Turn::Fits),
    (625, 0, Turn::Waits),
    (5_000, 0, Turn::Waits),
    (40_000, 0, Turn::Waits),
    (5_000, 500, Turn::Waits),
    (5_000, 5_000, Turn::Waits),
    (5_000, 40_000, Turn::Waits),
    (5_000, 500, Turn::Evicts),
    (625, 0, Turn::Evicts),
    (5_000, 0, Turn::Evicts),
    (40_000, 0, Turn::Evicts),
];

fn latencies(table: &mut Table) -> Result<()> {
    let mut made: Option<(usize, usize, Snapshot)> = None;
    for (running, waiting, turn) in CASES {
        let busy = match made.take() {
            Some(made) if (made.0, made.1) == (running, waiting) => made.2,
            _ => busy(running, waiting, table)?,
        };
        let mut snapshot = busy.clone();
        made = Some((running, waiting, busy));
        if turn == Turn::Fits {
            let each = running * 8 / NODES;
            for number in 0..(16 * each).max(2) {
                (0..8).for_each(|pod| snapshot.forget(Kind::Pod, "d", &format!("r{number}-{pod}")));
            }
        }
        let class = if turn == Turn::Waits { "" } else { "high" };
        gang(&mut snapshot, &Plan { pods: 8, gpus: GPUS, class, ..Plan::new("new") });
        let mut times = Vec::new();
        let begun = Instant::now();
        while times.len() < *SAMPLES.start()
            || (times.len() < *SAMPLES.end() && begun.elapsed().as_secs_f64() < SAMPLES_S)
        {
            let start = cpu_seconds();
            let placement = place(&mut snapshot, now()?);
            times.push((cpu_seconds() - start) * 1000.0);
            let became = match (placement.bind.is_empty(), placement.evict.is_empty()) {
                (false, _) => Turn::Fits,
                (true, false) => Turn::Evicts,
                (true, true) => Turn::Waits,
            };
            anyhow::ensure!(became == turn, "the gang's outcome is not the expected one");
        }
        times.sort_by(f64::total_cmp);
        let (median, late) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        let figure = match turn {
            Turn::Fits => "one gang that fits, p99",
            Turn::Waits => "one gang that waits, p99",
            Turn::Evicts => "one gang that evicts, p99",
        };
        let scale = format!("{running} gangs on {NODES} full nodes, {waiting} wait");
        table.add(Row { figure, scale, value: late, unit: "ms", reference: ("the median", median) });
    }
    Ok(())
}

/// Full nodes, by so many gangs of equal size, and gangs that wait for them.
fn busy(running: usize, waiting: usize, table: &mut Table) -> Result<Snapshot> {
    let start = cpu_seconds();
    let mut snapshot = land(NODES);
    let pods = (NODES / running).max(1);
    let gpus = GPUS * NODES as i64 / (running * pods) as i64;
    for number in 0..running {
        let first = number * pods * gpus as usize / GPUS as usize;
        gang(&mut snapshot, &Plan { pods, gpus, first: Some(first), ..Plan::new(&format!("r{number}")) });
    }
    (0..waiting).for_each(|number| gang(&mut snapshot, &Plan { gpus: GPUS, ..Plan::new(&format!("w{number}")) }));
    let objects = NODES + running * (pods + 1) + waiting * 2;
    let scale = format!("{NODES} nodes, {running} gangs, {waiting} wait");
    let value = objects as f64 / (cpu_seconds() - start);
    let reference = ("reading their JSON", readings_per_second()?);
    table.add(Row { figure: "objects taken in", scale, value, unit: "1/s", reference });
    Ok(snapshot)
}

/// How fast a pod as an API server sends it becomes a JSON value.
fn readings_per_second() -> Result<f64> {
    const TIMES: usize = 2_000;
    let text = crate::pods::pod("any");
    let start = cpu_seconds();
    for _ in 0..TIMES {
        std::hint::black_box(serde_json::from_slice::<Value>(&text)?);
    }
    Ok(TIMES as f64 / (cpu_seconds() - start))
}

fn now() -> Result<Timestamp> {
    Ok(Timestamp::from_second(NOW)?)
}

fn land(nodes: usize) -> Snapshot {
    let mut snapshot = Snapshot::new(Policy::default(), &["volcano"], &[]);
    let queue = json!({"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}});
    snapshot.see(Kind::Queue, &queue);
    snapshot.see(Kind::PriorityClass, &json!({"metadata": {"name": "high"}, "value": 1_000}));
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
struct Plan<'a> {
    name: &'a str,
    pods: usize,
    gpus: i64,
    /// Thousandths of a processor.
    millis: usize,
    first: Option<usize>,
    class: &'a str,
}

impl<'a> Plan<'a> {
    fn new(name: &'a str) -> Plan<'a> {
        Plan { name, pods: 1, gpus: 1, millis: 4_000, first: None, class: "" }
    }
}

fn gang(snapshot: &mut Snapshot, plan: &Plan) {
    let Plan { name, pods, gpus, millis, first, class } = *plan;
    let phase = if first.is_some() { "Running" } else { "Inqueue" };
    let group = json!({"metadata": {"name": name, "namespace": "d", "uid": name,
        "creationTimestamp": "1970-01-10T00:00:00Z"}, "spec": {"minMember": pods, "queue": "default",
        "priorityClassName": class}, "status": {"phase": phase}});
    snapshot.see(Kind::PodGroup, &group);
    for number in 0..pods {
        let node = first.map(|first| node_name(first + number));
        let requests = json!({"cpu": format!("{millis}m"), "memory": "4Gi", "nvidia.com/gpu": gpus.to_string()});
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
    let start = cpu_seconds();
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
    pods as f64 / (cpu_seconds() - start)
}
