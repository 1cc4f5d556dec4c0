//! What containers and the machine use, measured now and then for `kubectl top`.
//!
//! A use is what happened between two measurements. New containers are measured at the next tick and at the one after it, so that
//! something can be told within seconds; later every `INTERVAL`. Nothing is asked of anybody while there are no pods.

use super::Handles;
use super::gpus::GpuUsage;
use crate::apiserver::node_door::Usage;
use crate::runtime::client::{Pod, RuntimeError};
use crate::runtime::wire::FaultKind;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Between two measurements of the same thing, as the reference's metrics server does by default (with its shortest setting).
const INTERVAL: SignedDuration = SignedDuration::from_secs(10);
/// How soon a new container is noticed. A tick that finds none reads a list in memory.
const TICK: Duration = Duration::from_secs(2);
/// Measurements that lie closer together say more about their own cost than about the container.
const WINDOW_MIN: SignedDuration = SignedDuration::from_secs(1);
/// The kernel counts processor time for user space in hundredths of a second, whatever its own clock is.
const NANOS_PER_TICK: u64 = 10_000_000;

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sample {
    at: Timestamp,
    cpu_ns: u64,
    memory_bytes: u64,
}

/// The last two readings of one thing.
#[derive(Debug, Default)]
struct Series {
    before: Option<Sample>,
    last: Option<Sample>,
}

impl Series {
    fn is_due(&self, now: Timestamp) -> bool {
        let wait = if self.before.is_some() { INTERVAL } else { WINDOW_MIN };
        // Ticks are not exact; half of one early is on time.
        self.last.is_none_or(|last| now.duration_since(last.at) + SignedDuration::from_millis(500) >= wait)
    }

    fn push(&mut self, sample: Sample) {
        self.before = self.last.replace(sample);
    }

    fn usage(&self) -> Option<Usage> {
        let (before, last) = (self.before?, self.last?);
        let window = last.at.duration_since(before.at);
        let nanos = u64::try_from(window.as_nanos()).ok().filter(|nanos| *nanos > 0)?;
        let used = u128::from(last.cpu_ns.saturating_sub(before.cpu_ns)) * 1_000_000_000 / u128::from(nanos);
        let cpu_nanocores = u64::try_from(used).unwrap_or(u64::MAX);
        Some(Usage { cpu_nanocores, memory_bytes: last.memory_bytes, at: last.at, window })
    }
}

/// The readings of one container, and which of its attempts they are of.
struct Container {
    id: String,
    series: Series,
}

#[derive(Default)]
struct Readings {
    machine: Series,
    /// By the pod's uid and the container's name.
    pods: BTreeMap<String, BTreeMap<String, Container>>,
}

/// Keeps the readings; `run` takes them.
#[derive(Default)]
pub struct Sampler {
    readings: Mutex<Readings>,
    /// How the GPUs do, as JSON; none where they are pretended.
    gpus: Mutex<Option<String>>,
}

impl Sampler {
    /// What the machine uses.
    pub fn node(&self) -> Option<Usage> {
        self.readings.lock().machine.usage()
    }

    /// What the running containers of a pod use; empty until each of them was measured twice.
    pub fn pod(&self, uid: &str) -> BTreeMap<String, Usage> {
        let readings = self.readings.lock();
        let containers = readings.pods.get(uid).into_iter().flatten();
        let usages: Option<_> = containers.map(|(name, one)| Some((name.clone(), one.series.usage()?))).collect();
        usages.unwrap_or_default()
    }

    pub fn gpus(&self) -> Option<String> {
        self.gpus.lock().clone()
    }

    /// Asks the driver how its GPUs do, for as long as the node runs; there is nothing to ask of pretended ones.
    pub async fn watch_gpus(self: Arc<Self>, read: impl Fn() -> Vec<GpuUsage> + Clone + Send + 'static) {
        let mut ticks = tokio::time::interval(INTERVAL.unsigned_abs());
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let Ok(gpus) = tokio::task::spawn_blocking(read.clone()).await else { return };
            if gpus.iter().all(|gpu| gpu.is_fake) {
                return;
            }
            *self.gpus.lock() = serde_json::to_string(&gpus).ok();
        }
    }

    /// Measures until told to stop.
    pub async fn run(self: Arc<Self>, handles: Arc<dyn Handles>, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            stop.run_until_cancelled(self.measure(&*handles)).await;
        }
    }

    /// One round: the machine, and every running container that is due.
    pub async fn measure(&self, handles: &dyn Handles) {
        let now = Timestamp::now();
        if self.readings.lock().machine.is_due(now)
            && let Some(sample) = machine(now)
        {
            self.readings.lock().machine.push(sample);
        }
        let mut running: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        for (uid, handle) in handles.all() {
            let Some(shim) = handle.shim else { continue };
            for (name, (id, _)) in handle.containers.into_iter().filter(|(_, (_, is_running))| *is_running) {
                if self.is_due(&uid, &name, &id, now)
                    && let Some(sample) = container(&shim, &id).await
                {
                    self.take(&uid, &name, &id, sample);
                }
                running.entry(uid.clone()).or_default().insert(name, id);
            }
        }
        self.readings.lock().forget_others(&running);
    }

    fn is_due(&self, uid: &str, name: &str, id: &str, now: Timestamp) -> bool {
        let readings = self.readings.lock();
        let known = readings.pods.get(uid).and_then(|pod| pod.get(name)).filter(|known| known.id == id);
        known.is_none_or(|known| known.series.is_due(now))
    }

    fn take(&self, uid: &str, name: &str, id: &str, sample: Sample) {
        let mut readings = self.readings.lock();
        let pod = readings.pods.entry(uid.to_owned()).or_default();
        let new = || Container { id: id.to_owned(), series: Series::default() };
        let container = pod.entry(name.to_owned()).or_insert_with(new);
        if container.id != id {
            *container = new();
        }
        container.series.push(sample);
    }
}

impl Readings {
    /// Drops what no longer runs.
    fn forget_others(&mut self, running: &BTreeMap<String, BTreeMap<String, String>>) {
        self.pods.retain(|uid, containers| {
            let Some(pod) = running.get(uid) else { return false };
            containers.retain(|name, one| pod.get(name).is_some_and(|id| *id == one.id));
            true
        });
    }
}

/// What a container has used so far, by its cgroup or, where it has none, by its processes.
async fn container(shim: &Pod, id: &str) -> Option<Sample> {
    match shim.stats(id).await {
        Ok(stats) => Some(Sample {
            at: Timestamp::now(),
            cpu_ns: stats.cpu_usage_ns,
            memory_bytes: stats.memory_working_set_bytes,
        }),
        Err(RuntimeError::Fault(fault)) if fault.kind == FaultKind::Unsupported => {
            let pid = shim.state().await.ok()?.containers.get(id)?.started.process.pid;
            tokio::task::spawn_blocking(move || family(pid)).await.ok()
        }
        Err(_) => None,
    }
}

/// A process and all that descend from it. Memory that they share is counted for each.
fn family(first: i32) -> Sample {
    let mut sample = Sample { at: Timestamp::now(), cpu_ns: 0, memory_bytes: 0 };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let all: BTreeMap<i32, (i32, u64)> = pids.filter_map(|pid| Some((pid, parent_and_cpu_ns(pid)?))).collect();
    let descends = |pid: i32| {
        let line = std::iter::successors(Some(pid), |pid| all.get(pid).map(|(parent, _)| *parent));
        line.take(all.len() + 1).any(|ancestor| ancestor == first)
    };
    for (pid, (_, cpu_ns)) in all.iter().filter(|(pid, _)| descends(**pid)) {
        sample.cpu_ns += cpu_ns;
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        sample.memory_bytes += kibibytes(&status, "VmRSS").unwrap_or(0) * 1024;
    }
    sample
}

/// From `/proc/<pid>/stat`; the time of children that were waited for counts with their parent's.
fn parent_and_cpu_ns(pid: i32) -> Option<(i32, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before the bracket may hold blanks and brackets of its own.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks: Option<u64> = fields.get(11..15)?.iter().map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some((fields.get(1)?.parse().ok()?, ticks? * NANOS_PER_TICK))
}

/// The machine's processor time and its memory in use.
fn machine(at: Timestamp) -> Option<Sample> {
    let cpu_ns = busy_ns(&std::fs::read_to_string("/proc/stat").ok()?)?;
    let memory_bytes = used_bytes(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    Some(Sample { at, cpu_ns, memory_bytes })
}

/// Processor time that was not idle, from `/proc/stat`. Guests' time is counted in that of users already.
fn busy_ns(stat: &str) -> Option<u64> {
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse::<u64>);
    let [user, nice, system, _idle, _iowait, irq, softirq, steal] =
        numbers.take(8).collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()?;
    Some((user + nice + system + irq + softirq + steal) * NANOS_PER_TICK)
}

/// Memory that is not available to whoever asks for some, from `/proc/meminfo`.
fn used_bytes(meminfo: &str) -> Option<u64> {
    let (total, available) = (kibibytes(meminfo, "MemTotal")?, kibibytes(meminfo, "MemAvailable")?);
    Some(total.saturating_sub(available) * 1024)
}

/// A line such as `MemTotal:  123 kB` of the kernel's tables.
fn kibibytes(table: &str, name: &str) -> Option<u64> {
    let rest = table.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64, cpu_ns: u64) -> Sample {
        Sample { at: Timestamp::from_millisecond(milliseconds).unwrap(), cpu_ns, memory_bytes: 4096 }
    }

    #[test]
    fn usage_is_what_happened_between_the_last_two_readings() {
        let mut series = Series::default();
        series.push(at(0, 0));
        assert_eq!(series.usage(), None);
        series.push(at(2000, 1_000_000_000));
        series.push(at(12_000, 6_000_000_000));
        let usage = series.usage().unwrap();
        assert_eq!((usage.cpu_nanocores, usage.memory_bytes), (500_000_000, 4096));
        assert_eq!(usage.window, INTERVAL);
    }

    #[test]
    fn new_things_are_measured_twice_soon_and_then_rarely() {
        let mut series = Series::default();
        let due = |series: &Series, milliseconds| series.is_due(Timestamp::from_millisecond(milliseconds).unwrap());
        assert!(due(&series, 0));
        series.push(at(0, 0));
        assert!(!due(&series, 100) && due(&series, 2000));
        series.push(at(2000, 0));
        assert!(!due(&series, 4000) && due(&series, 12_000));
    }

    #[test]
    fn a_family_is_measured_by_its_processes() {
        // The shell has used time of its own, and then waits for a child that sleeps.
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 1000 & echo up; wait";
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", script]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut line = [0; 3];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let sample = family(shell.id() as i32);
        let alone = parent_and_cpu_ns(shell.id() as i32).unwrap();
        assert_eq!(alone.0, std::process::id() as i32);
        assert!(sample.cpu_ns >= alone.1 && alone.1 > 0 && sample.memory_bytes > 0, "{sample:?}");
        assert!(family(std::process::id() as i32).memory_bytes > sample.memory_bytes);
        let children = format!("/proc/{0}/task/{0}/children", shell.id());
        let sleeper = std::fs::read_to_string(children).unwrap().trim().to_owned();
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(std::process::Command::new("kill").arg(sleeper).status().unwrap().success());
    }

    #[test]
    fn the_kernel_s_tables_are_read() {
        assert_eq!(busy_ns("cpu  1 2 3 400 500 6 7 8 9 10\ncpu0 1\n"), Some(27 * NANOS_PER_TICK));
        assert_eq!(used_bytes("MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:   40 kB\n"), Some(60 * 1024));
        let sample = machine(Timestamp::now()).unwrap();
        assert!(sample.cpu_ns > 0 && sample.memory_bytes > 0);
    }
}
