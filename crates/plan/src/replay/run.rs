//! The loop: jobs arrive, are placed, end; each time `gang::place` decides, on a snapshot that is kept up to date.

use super::{GPU, Job, Part, Trace};
use crate::gang::policy::Policy;
use crate::gang::snapshot::{Kind, Snapshot};
use crate::gang::why::WaitingOn;
use crate::gang::{Placement, place};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use volley_api::kube::quantity::Quantity;
use volley_api::kube::{text, time};

/// So many jobs of each queue, the first in line, are shown to the scheduler at a time; those behind them would come
/// after them anyhow, and a backlog of thousands would be gone through at every step.
const WINDOW: usize = 16;
/// Beyond so many steps, arrivals and ends that are near each other are taken together.
const STEPS_MAX: i64 = 40_000;
const TICK_S_MAX: i64 = 120;
/// Evictions make room at once; a round that follows them places whom they were for.
const ROUNDS_MAX: usize = 8;
const NAMESPACE: &str = "trace";

/// What became of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fate {
    pub start: Option<i64>,
    pub end: Option<i64>,
    pub preemptions: usize,
    /// Why it can never run.
    pub never: Option<String>,
}

/// How full the cluster was from `at` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub at: i64,
    pub used: i64,
    pub waiting: usize,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// As the trace's jobs.
    pub fates: Vec<Fate>,
    pub samples: Vec<Sample>,
    /// What is counted: GPUs where there are any, else processors; how much of it there is.
    pub resource: String,
    pub total: i64,
    pub preemptions: usize,
    /// Of the resource, for so many seconds, in vain.
    pub lost: i64,
    pub steps: usize,
    /// Events within so many seconds were taken together.
    pub tick: i64,
}

pub fn run(trace: &Trace, policy: &Policy) -> Outcome {
    let mut run = Run::new(trace, policy);
    run.begin();
    run.go();
    run.outcome
}

struct Run<'a> {
    trace: &'a Trace,
    snapshot: Snapshot,
    now: i64,
    arrivals: Vec<usize>,
    arrived: usize,
    /// When, who, and which of its tries.
    ends: BinaryHeap<Reverse<(i64, usize, usize)>>,
    /// By queue, in the scheduler's order: more important first, then older.
    lines: BTreeMap<&'a str, BTreeSet<(i64, i64, usize)>>,
    /// Waiting jobs that the scheduler knows of.
    shown: BTreeSet<usize>,
    running: BTreeMap<usize, i64>,
    /// How many pods of a waiting job have a place: those that ask for nothing are placed one by one.
    placed: BTreeMap<usize, usize>,
    used: i64,
    /// Something has become free since the scheduler was last asked.
    has_freed: bool,
    outcome: Outcome,
}

/// A job's key in the snapshot.
fn name_of(job: usize) -> String {
    format!("j{job:07}")
}

fn job_of(name: &str) -> Option<usize> {
    name.strip_prefix('j')?.parse().ok()
}

fn quantity(amount: &str) -> i64 {
    Quantity::parse(amount).map_or(0, |amount| amount.milli_value())
}

impl<'a> Run<'a> {
    fn new(trace: &'a Trace, policy: &Policy) -> Run<'a> {
        let mut snapshot = Snapshot::new(policy.clone(), &["volley"], &[]);
        trace.nodes.iter().for_each(|node| snapshot.see(Kind::Node, node));
        trace.queues.iter().for_each(|queue| snapshot.see(Kind::Queue, queue));
        let named: BTreeSet<&str> = trace.queues.iter().map(|queue| text(queue, "metadata.name")).collect();
        let asked: BTreeSet<&str> = trace.jobs.iter().map(|job| job.queue.as_str()).collect();
        for queue in asked.difference(&named) {
            snapshot.see(Kind::Queue, &json!({"metadata": {"name": queue}, "spec": {"weight": 1}}));
        }
        let priorities: BTreeSet<i64> = trace.jobs.iter().map(|job| job.priority).collect();
        for value in priorities {
            snapshot.see(Kind::PriorityClass, &json!({"metadata": {"name": format!("p{value}")}, "value": value}));
        }
        let total = |resource: &str| -> i64 {
            let amount = |node: &Value| {
                let amount = &node["status"]["allocatable"][resource];
                amount.as_str().map(quantity).or_else(|| amount.as_i64().map(|whole| whole * 1000)).unwrap_or(0)
            };
            trace.nodes.iter().map(amount).sum::<i64>() / 1000
        };
        let resource = if total(GPU) > 0 { GPU } else { "cpu" };
        let mut arrivals: Vec<usize> = (0..trace.jobs.len()).collect();
        arrivals.sort_by_key(|job| (trace.jobs[*job].submit, *job));
        let span = arrivals
            .last()
            .zip(arrivals.first())
            .map_or(0, |(last, first)| trace.jobs[*last].submit - trace.jobs[*first].submit);
        let is_small = trace.jobs.len() as i64 * 2 <= STEPS_MAX;
        let tick = if is_small { 1 } else { (span / STEPS_MAX).clamp(1, TICK_S_MAX) };
        let outcome = Outcome {
            fates: vec![Fate::default(); trace.jobs.len()],
            resource: resource.to_owned(),
            total: total(resource),
            tick,
            ..Outcome::default()
        };
        Run {
            trace,
            snapshot,
            now: arrivals.first().map_or(0, |first| trace.jobs[*first].submit),
            arrivals,
            arrived: 0,
            ends: BinaryHeap::new(),
            lines: BTreeMap::new(),
            shown: BTreeSet::new(),
            running: BTreeMap::new(),
            placed: BTreeMap::new(),
            used: 0,
            has_freed: true,
            outcome,
        }
    }

    fn job(&self, job: usize) -> &'a Job {
        &self.trace.jobs[job]
    }

    /// What the job holds of the resource that is counted.
    fn size(&self, job: usize) -> i64 {
        let of = |part: &Part| {
            let each = part.requests.get(&self.outcome.resource).map_or(0, |amount| quantity(amount));
            each * part.pods as i64
        };
        self.job(job).parts.iter().map(of).sum::<i64>() / 1000
    }

    /// Puts what runs already where it runs.
    fn begin(&mut self) {
        let running: Vec<(usize, i64)> =
            (0..self.trace.jobs.len()).filter_map(|job| Some((job, self.job(job).started?))).collect();
        if let Some(now) = running.iter().map(|(job, _)| self.job(*job).submit).max() {
            self.now = self.now.max(now);
        }
        for (job, started) in running {
            self.show(job, true);
            self.start(job, started);
        }
        self.arrivals.retain(|job| self.trace.jobs[*job].started.is_none());
    }

    fn go(&mut self) {
        loop {
            let arrival = self.arrivals.get(self.arrived).map(|job| self.job(*job).submit);
            let end = self.ends.peek().map(|Reverse((at, _, _))| *at);
            let Some(next) = arrival.into_iter().chain(end).min() else { break };
            self.now = self.now.max(next + self.outcome.tick - 1);
            self.take_events();
            self.place();
            self.sample();
            self.outcome.steps += 1;
            if self.arrived == self.arrivals.len() && self.ends.is_empty() {
                break;
            }
        }
        self.give_up();
    }

    fn take_events(&mut self) {
        while let Some(job) = self.arrivals.get(self.arrived).copied().filter(|job| self.job(*job).submit <= self.now) {
            self.arrived += 1;
            self.line_up(job);
        }
        while let Some(Reverse((at, job, tries))) =
            self.ends.peek().copied().filter(|Reverse((at, ..))| *at <= self.now)
        {
            self.ends.pop();
            if self.outcome.fates[job].preemptions == tries && self.running.contains_key(&job) {
                self.stop(job);
                self.outcome.fates[job].end = Some(at);
            }
        }
    }

    fn line_up(&mut self, job: usize) {
        let of = self.job(job);
        self.lines.entry(&of.queue).or_default().insert((-of.priority, of.submit, job));
    }

    fn leave_line(&mut self, job: usize) {
        let of = self.job(job);
        if let Some(line) = self.lines.get_mut(of.queue.as_str()) {
            line.remove(&(-of.priority, of.submit, job));
        }
        self.shown.remove(&job);
    }

    fn place(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let first = self.lines.values().flat_map(|line| line.iter().take(WINDOW)).map(|(_, _, job)| *job);
            let new: Vec<usize> = first.filter(|job| !self.shown.contains(job)).collect();
            let is_idle = new.is_empty() && !std::mem::take(&mut self.has_freed);
            new.into_iter().for_each(|job| self.show(job, false));
            if is_idle || self.shown.is_empty() {
                return;
            }
            let placement = place(&mut self.snapshot, Timestamp::from_second(self.now).unwrap_or_default());
            let has_changed = self.apply(&placement);
            if !has_changed {
                return;
            }
        }
    }

    /// Does what was decided; whether another round may do more now.
    fn apply(&mut self, placement: &Placement) -> bool {
        let mut bound: BTreeMap<usize, Vec<(&str, &str)>> = BTreeMap::new();
        for bind in &placement.bind {
            if let Some(job) = job_of(&bind.gang.name) {
                bound.entry(job).or_default().push((&bind.pod.key.name, &bind.node));
            }
        }
        let mut has_room = false;
        for (job, pods) in bound {
            let placed = self.placed.remove(&job).unwrap_or(0) + pods.len();
            for (pod, node) in pods {
                self.see_pod(job, pod, Some(node));
            }
            if placed < self.job(job).pods() {
                self.placed.insert(job, placed);
                continue;
            }
            self.leave_line(job);
            self.start(job, self.now);
            has_room = true;
        }
        let victims: BTreeSet<usize> = placement.evict.iter().filter_map(|evict| job_of(&evict.gang.name)).collect();
        for job in &victims {
            self.outcome.preemptions += 1;
            self.outcome.fates[*job].preemptions += 1;
            let began = self.running.get(job).copied().unwrap_or(self.now);
            self.outcome.lost += (self.now - began) * self.size(*job);
            self.stop(*job);
            self.outcome.fates[*job].start = None;
            self.line_up(*job);
        }
        for (key, waiting) in &placement.waiting {
            let Some(job) = job_of(&key.name).filter(|job| self.shown.contains(job)) else { continue };
            if is_hopeless(&waiting.on) {
                self.hide(job);
                self.leave_line(job);
                self.outcome.fates[job].never = Some(waiting.on.to_string());
            }
        }
        // What was placed was placed whole; only evictions leave room that nobody has been asked about yet, or gangs
        // that come into the window by others' leaving it.
        !victims.is_empty() || (has_room && self.lines.values().any(|line| line.len() > WINDOW))
    }

    /// Makes the scheduler know the job.
    fn show(&mut self, job: usize, is_running: bool) {
        let of = self.job(job);
        let stamp = |second: i64| time::seconds(Timestamp::from_second(second).unwrap_or_default());
        let mut group = json!({"metadata": {"name": name_of(job), "namespace": NAMESPACE, "uid": name_of(job),
            "creationTimestamp": stamp(of.submit)},
            "spec": {"minMember": of.pods(), "queue": of.queue, "priorityClassName": format!("p{}", of.priority)},
            "status": {"phase": if is_running { "Running" } else { "Inqueue" }}});
        if let Some(estimate) = of.estimate {
            group["metadata"]["annotations"]["volley.dev/running-estimate"] = json!(format!("{estimate}s"));
        }
        self.snapshot.see(Kind::PodGroup, &group);
        let mut index = 0;
        for part in &of.parts {
            for number in 0..part.pods {
                let node = if is_running { part.nodes.get(number).map(String::as_str) } else { None };
                self.see_pod(job, &format!("{}-{index}", name_of(job)), node);
                index += 1;
            }
        }
        if !is_running {
            self.shown.insert(job);
        }
    }

    fn see_pod(&mut self, job: usize, name: &str, node: Option<&str>) {
        let of = self.job(job);
        let index: usize = name.rsplit('-').next().and_then(|index| index.parse().ok()).unwrap_or(0);
        let mut before = 0;
        let part = of.parts.iter().find(|part| {
            before += part.pods;
            index < before
        });
        let Some(part) = part else { return };
        let mut spec = part
            .spec
            .as_deref()
            .cloned()
            .unwrap_or_else(|| json!({"containers": [{"name": "c", "resources": {"requests": part.requests}}]}));
        spec["schedulerName"] = json!("volley");
        spec["priority"] = json!(of.priority);
        spec["nodeName"] = json!(node);
        let mut status = json!({"phase": "Pending"});
        if node.is_some() {
            let at = time::seconds(Timestamp::from_second(self.now).unwrap_or_default());
            status = json!({"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True",
                "lastTransitionTime": at}]});
        }
        self.snapshot.see(
            Kind::Pod,
            &json!({"metadata": {"name": name, "namespace": NAMESPACE, "uid": name,
            "annotations": {"scheduling.k8s.io/group-name": name_of(job)}}, "spec": spec, "status": status}),
        );
    }

    fn hide(&mut self, job: usize) {
        for index in 0..self.job(job).pods() {
            self.snapshot.forget(Kind::Pod, NAMESPACE, &format!("{}-{index}", name_of(job)));
        }
        self.snapshot.forget(Kind::PodGroup, NAMESPACE, &name_of(job));
    }

    fn start(&mut self, job: usize, started: i64) {
        let tries = self.outcome.fates[job].preemptions;
        self.outcome.fates[job].start = Some(started);
        self.running.insert(job, started);
        self.used += self.size(job);
        let end = (started + self.job(job).seconds.max(1)).max(self.now);
        self.ends.push(Reverse((end, job, tries)));
    }

    fn stop(&mut self, job: usize) {
        self.has_freed = true;
        self.hide(job);
        self.running.remove(&job);
        self.used -= self.size(job);
    }

    fn sample(&mut self) {
        let waiting = self.lines.values().map(BTreeSet::len).sum();
        let sample = Sample { at: self.now, used: self.used, waiting };
        let is_same = |last: &&Sample| (last.used, last.waiting) == (sample.used, sample.waiting);
        if self.outcome.samples.last().filter(is_same).is_none() {
            self.outcome.samples.push(sample);
        }
    }

    /// What still waits when nothing is left to happen will wait for ever.
    fn give_up(&mut self) {
        let placement = place(&mut self.snapshot, Timestamp::from_second(self.now).unwrap_or_default());
        let left: Vec<usize> = self.lines.values().flatten().map(|(_, _, job)| *job).collect();
        for job in left {
            let found = placement.waiting.iter().find(|(key, _)| job_of(&key.name) == Some(job));
            let why = found.map_or_else(|| "waits behind jobs that never start".to_owned(), |(_, w)| w.on.to_string());
            self.outcome.fates[job].never = Some(why);
        }
    }
}

/// Whether no end of a job changes it.
fn is_hopeless(on: &WaitingOn) -> bool {
    matches!(
        on,
        WaitingOn::TooLarge { .. }
            | WaitingOn::TooFewPlaces { .. }
            | WaitingOn::Nodes { .. }
            | WaitingOn::NoQueue { .. }
            | WaitingOn::ClosedQueue { .. }
            | WaitingOn::ParentQueue { .. }
            | WaitingOn::NoHyperNodes
            | WaitingOn::Claim { .. }
            | WaitingOn::Volume { .. }
            | WaitingOn::Devices { .. }
    )
}
