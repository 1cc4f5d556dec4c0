//! Ends processes that no PID namespace ends: those of the process mode, of pods that see the machine's processes, and of
//! containers that share a PID namespace. They are told by their session and by a mark in their environment.

use super::cgroup::Cgroup;
use super::sys::{self, Pid};
use std::fs;

/// The variable that marks a process; its value is the pod's id, a slash, and the container's.
pub const MARK: &str = "VOLLEY_CONTAINER_ID";
/// Each round kills all that the round before has let be born; more rounds than this only a fork bomb outlives.
const ROUNDS_MAX: u32 = 50;

pub fn mark(pod: &str, container: &str) -> String {
    format!("{pod}/{container}")
}

/// Kills what one container has left: its session, all that carry its mark, all in its cgroup.
pub fn kill_container(mark: &str, session: i32, cgroup: Option<&Cgroup>) {
    let entry = format!("{MARK}={mark}");
    let is_of = |pid: i32| session_of(pid) == Some(session) || has_entry(pid, |found| found == entry.as_bytes());
    kill_all(&is_of, || cgroup.map(Cgroup::processes).unwrap_or_default());
}

/// Kills what a pod has left whose shim has died.
pub fn kill_pod(pod: &str) {
    let start = format!("{MARK}={}", mark(pod, ""));
    kill_all(&|pid| has_entry(pid, |found| found.starts_with(start.as_bytes())), Vec::new);
}

fn kill_all(is_of: &dyn Fn(i32) -> bool, others: impl Fn() -> Vec<Pid>) {
    let Some(depth) = namespace_pids("/proc/self/status").map(|pids| pids.len()) else { return };
    for _round in 0..ROUNDS_MAX {
        let mut found = others();
        let alive = machine_pids().filter(|pid| session_of(*pid).is_some() && is_of(*pid));
        found.extend(alive.filter_map(|pid| pid_at_depth(pid, depth)));
        if found.is_empty() {
            return;
        }
        for pid in found {
            let _gone_already = sys::kill(pid, libc::SIGKILL);
        }
    }
}

fn machine_pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A living process's session, as the machine numbers it.
fn session_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let is_dead = matches!(fields.first(), Some(&"Z" | &"X"));
    if is_dead { None } else { fields.get(3)?.parse().ok() }
}

fn has_entry(pid: i32, is_wanted: impl Fn(&[u8]) -> bool) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(is_wanted)
}

/// A process's number in the PID namespace that is `depth` levels deep, which must be this process's own.
fn pid_at_depth(machine_pid: i32, depth: usize) -> Option<Pid> {
    namespace_pids(&format!("/proc/{machine_pid}/status"))?.get(depth - 1).copied()
}

fn namespace_pids(path: &str) -> Option<Vec<Pid>> {
    let status = fs::read_to_string(path).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    Some(line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect())
}
