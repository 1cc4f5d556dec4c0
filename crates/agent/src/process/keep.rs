//! `volley keep FOLDER`: the parent of one launch that runs as a process, and of everything that it begets.
//!
//! It outlives the agent, writes what the launch says to a file, and how it ended. What a launch leaves behind when its first
//! process is over becomes this one's child and is killed, so that nothing survives. What is secret comes by standard
//! input, not by the command line.

use super::kernel::{Process, hold, memory_kills};
use crate::claim::{BEGUN, Claim};
use jiff::Timestamp;
use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, setrlimit, setsid, wait,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use volley_plan::agent::exit::Exit;
use volley_plan::launch::process::LIMITS;

/// The verb of our own program, which comes before all others.
pub const VERB: &str = "keep";
/// Behind it: becomes the launch's first process.
const RUN: &str = "--run";
/// Our own program, though its file be replaced meanwhile.
const PROGRAM: &str = "/proc/self/exe";
pub const PROCESS: &str = "process";
pub const END: &str = "end";
/// Held while the keeper lives.
pub const ALIVE: &str = "alive";
pub const LOG: &str = "log";
/// Answered when the launch was begun, here or before.
pub const BEGUN_WORD: &str = "begun";
/// Of one launch; what it says beyond that is dropped, as it would fill the disk.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Longer lines are kept in pieces.
const LINE_BYTES_MAX: u64 = 64 << 10;
const NOT_FOUND: i32 = 127;
const NOT_STARTED: i32 = 126;

/// What is run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    pub words: Vec<String>,
    pub environment: BTreeMap<String, String>,
    pub folder: PathBuf,
    /// Such as `nofile=10:20`.
    pub limits: Vec<String>,
}

/// Who keeps the launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Begun {
    pub keeper: Process,
    pub at: Timestamp,
}

/// Runs the verb; gives the exit code.
pub fn main(mut words: impl Iterator<Item = String>) -> i32 {
    match words.next().as_deref() {
        Some(RUN) => become_launch(words),
        Some(folder) => match keep(Path::new(folder)) {
            Ok(()) => 0,
            Err(error) => {
                println!("{error}");
                1
            }
        },
        None => 2,
    }
}

fn keep(folder: &Path) -> io::Result<()> {
    // Neither the agent's terminal nor its end concerns the launch. Who leads a session already has left it.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    let task: Task = serde_json::from_reader(io::stdin().lock()).map_err(io::Error::other)?;
    let claim = Claim::at(folder);
    let keeper =
        Process::of(getpid().as_raw_pid()).ok_or_else(|| io::Error::other("/proc does not show this process"))?;
    // Let go by the kernel, however this ends.
    let _alive = hold(&folder.join(ALIVE))?;
    let is_first = claim.write_first(BEGUN, &Begun { keeper, at: Timestamp::now() })?;
    // Whoever hears that it has begun looks for its log.
    let log = File::options().create(true).append(true).open(folder.join(LOG))?;
    println!("{BEGUN_WORD}");
    if !is_first {
        return Ok(());
    }
    let kills_before = memory_kills();
    let (reader, child) = match start(&task) {
        Ok(started) => started,
        Err(error) => {
            writeln!(&log, "{} cannot start `{}`: {error}", Timestamp::now(), task.words.join(" "))?;
            return claim.write(END, &Exit::by_code(i64::from(NOT_STARTED)));
        }
    };
    drop(task);
    if let Some(process) = Process::of(child.as_raw_pid()) {
        claim.write(PROCESS, &process)?;
    }
    let writing = thread::spawn(move || copy(reader, log));
    let status = wait_for(child)?;
    end_children();
    // It ends when nobody can write any more; a panic there has lost lines, but not the end.
    let _ = writing.join();
    claim.write(END, &exit(status, memory_kills() > kills_before))
}

/// The first process, and what it says: both streams in the order in which they were written.
fn start(task: &Task) -> io::Result<(PipeReader, Pid)> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(PROGRAM);
    command.arg0("volley").args([VERB, RUN]).args(&task.limits).arg("--").args(&task.words);
    command.env_clear().envs(&task.environment).current_dir(&task.folder);
    let child = command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    Ok((reader, pid.ok_or_else(|| io::Error::other("a process without a number"))?))
}

/// Limits, then the launch itself, in the same process: `LIMIT… -- WORD…`.
fn become_launch(words: impl Iterator<Item = String>) -> i32 {
    let words: Vec<String> = words.collect();
    let (limits, words) = words.split_at(words.iter().position(|word| word == "--").unwrap_or(words.len()));
    let Some((program, arguments)) = words.get(1..).and_then(<[String]>::split_first) else { return NOT_STARTED };
    // A session of its own, so that it has no terminal, and one group that is asked to end.
    let is_ready = setsid().is_ok() && set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    if !is_ready || getppid().is_none_or(|parent| parent.is_init()) {
        eprintln!("the launch has no keeper");
        return NOT_STARTED;
    }
    for limit in limits {
        if let Err(error) = hold_to(limit) {
            eprintln!("cannot set the limit `{limit}`: {error}");
            return NOT_STARTED;
        }
    }
    let error = Command::new(program).args(arguments).exec();
    eprintln!("cannot start `{program}`: {error}");
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED }
}

fn hold_to(limit: &str) -> io::Result<()> {
    let wrong = || io::Error::other("not a limit");
    let (name, numbers) = limit.split_once('=').ok_or_else(wrong)?;
    let (soft, hard) = numbers.split_once(':').ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    let resource = match LIMITS.iter().find(|known| **known == name).copied() {
        Some("as") => Resource::As,
        Some("core") => Resource::Core,
        Some("cpu") => Resource::Cpu,
        Some("data") => Resource::Data,
        Some("fsize") => Resource::Fsize,
        Some("locks") => Resource::Locks,
        Some("memlock") => Resource::Memlock,
        Some("nofile") => Resource::Nofile,
        Some("nproc") => Resource::Nproc,
        Some("rss") => Resource::Rss,
        Some("stack") => Resource::Stack,
        _ => return Err(wrong()),
    };
    // The kernel has no limit above this.
    let given = |number: u64| (number != u64::MAX).then_some(number);
    Ok(setrlimit(resource, Rlimit { current: given(number(soft)?), maximum: given(number(hard)?) })?)
}

/// Waits for this child, and reaps others that became ours meanwhile.
fn wait_for(child: Pid) -> io::Result<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == child => return Ok(status),
            Ok(_) | Err(Errno::INTR) => (),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Kills what is left, again and again: a killed process may have begun others, which become ours.
fn end_children() {
    loop {
        for pid in children() {
            // It may have ended by itself meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => (),
            Err(_) => return,
        }
    }
}

/// All processes below this one, so that a tree falls at once.
fn children() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |pid: i32| -> Option<i32> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    let parents: BTreeMap<i32, i32> = numbers.filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let own = getpid().as_raw_pid();
    let is_below = |pid: &i32| {
        let mut above = parents.get(pid);
        // No tree is deeper than there are processes.
        for _ in 0..parents.len() {
            match above {
                Some(pid) if *pid == own => return true,
                Some(pid) => above = parents.get(pid),
                None => return false,
            }
        }
        false
    };
    parents.keys().filter(|pid| is_below(pid)).filter_map(|pid| Pid::from_raw(*pid)).collect()
}

fn exit(status: WaitStatus, is_out_of_memory: bool) -> Exit {
    match status.terminating_signal() {
        Some(signal) => {
            let is_killed = signal == Signal::KILL.as_raw();
            Exit::by_signal(i64::from(signal), is_killed && is_out_of_memory)
        }
        None => Exit::by_code(i64::from(status.exit_status().unwrap_or(1))),
    }
}

/// Copies lines, each with its time before it, until nobody can write any more. Who writes is never kept waiting by a log
/// that is full.
fn copy(reader: PipeReader, mut log: File) {
    let mut reader = BufReader::new(reader);
    let (mut last, mut bytes) = (Timestamp::MIN, 0);
    loop {
        let mut line = Vec::new();
        match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => (),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        // Times never go back, though the clock be set: readers go on by them.
        last = last.max(Timestamp::now());
        let mut record = format!("{last} ").into_bytes();
        record.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(&line));
        record.push(b'\n');
        bytes += record.len() as u64;
        if bytes <= LOG_BYTES_MAX {
            // A full disk costs lines, and not the launch.
            let _ = log.write_all(&record);
        }
    }
}
