//! The process runner: launches as processes of the agent's own machine.
//!
//! `keep` is the parent of each, which outlives the agent; `kernel` tells processes apart. All that is known of a launch is
//! in its folder (`claim`), so a restarted agent finds it as it is.

pub mod keep;
mod follow;
mod kernel;

use crate::attempt::Attempt;
use crate::claim::{BEGUN, Claim, Claims, STOPPING, VERDICT};
use crate::folder::Folder;
use crate::kube::Wake;
use crate::runner::{Done, Failure, Log, Runner, Sight, Tails};
use crate::source;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use keep::{ALIVE, BEGUN_WORD, Begun, END, LOG, PROCESS, Task, VERB};
use kernel::Process;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep};
use volley_client::Client;
use volley_plan::agent::exit::Exit;
use volley_plan::agent::life::{Deed, Workload};
use volley_plan::agent::state::State;
use volley_plan::launch::process::{Limit, Request};
use volley_plan::launch::{Submission, macros};
use volley_plan::logs::sources::{Run, Source};

/// What a log of a process is called, where pods have a name and containers one of their own.
const POD: &str = "process";
/// The folder of the launch's code, and where it starts.
const SOURCE: &str = "source";
/// Between two looks at what is about to end.
const PAUSE: Duration = Duration::from_millis(20);
/// A keeper answers as soon as it runs.
const BEGIN_MAX: Duration = Duration::from_secs(60);

pub struct ProcessRunner {
    claims: Claims,
    wake: Wake,
    client: Client,
    /// Has the verb `keep`.
    program: PathBuf,
    /// How long a launch that is asked to end may take.
    grace: Duration,
}

impl ProcessRunner {
    /// Takes up what runs already.
    pub fn new(claims: Claims, wake: Wake, client: Client, program: PathBuf, grace: SignedDuration) -> ProcessRunner {
        let grace = grace.try_into().unwrap_or_default();
        let runner = ProcessRunner { claims, wake, client, program, grace };
        for claim in runner.claims.all().into_iter().filter(is_process) {
            runner.watch(&claim);
            if claim.has(STOPPING) {
                tokio::spawn(end(claim, runner.grace));
            }
        }
        runner
    }

    pub fn has(&self, key: &str) -> bool {
        self.claims.has(key)
    }

    /// Folders of an item without anything begun, of any local runner, stand for an acknowledgement that was not ours.
    pub fn let_go(&self, key: &str) {
        let own = self.claims.all().into_iter().filter(|claim| claim.key == key && !claim.has(BEGUN));
        for claim in own {
            if let Err(error) = claim.remove() {
                tracing::warn!(%error, "a folder of a launch cannot be removed");
            }
        }
    }

    /// Asks for a look when the keeper has ended, and sees to what it could not.
    fn watch(&self, claim: &Claim) {
        let (claim, wake) = (claim.clone(), self.wake.clone());
        tokio::spawn(async move {
            kernel::until_let_go(&claim.path.join(ALIVE), || is_kept(&claim)).await;
            // It lets go a moment before it is gone.
            while is_kept(&claim) {
                sleep(PAUSE).await;
            }
            clear(&claim).await;
            wake(&claim.key);
        });
    }

    async fn submit(&self, attempt: &Attempt, request: &Request) -> Done {
        let claim = self.claims.of(attempt);
        if claim.has(BEGUN) {
            self.watch(&claim);
            return Ok(());
        }
        claim.make()?;
        let folder = claim.path.join(SOURCE);
        if let Some(code) = &request.code {
            attempt.unless_stopped(source::fetch(&self.client, code, &folder)).await?;
        }
        tokio::fs::create_dir_all(&folder).await?;
        let folder =
            request.working_dir.as_deref().map_or(folder.clone(), |below| folder.join(below.trim_matches('/')));
        if !folder.is_dir() {
            let what = request.working_dir.as_deref().unwrap_or_default();
            return Err(Failure::Refused(format!("the source has no folder `{what}`, which is to be worked in")));
        }
        let task = Task {
            words: request.words.clone(),
            environment: environment(attempt, request, &claim)?,
            folder,
            limits: request.limits.iter().map(worded).collect(),
        };
        self.begin(&claim, &task).await?;
        self.watch(&claim);
        Ok(())
    }

    /// Starts the keeper, and returns when it has begun.
    async fn begin(&self, claim: &Claim, task: &Task) -> Done {
        let mut command = Command::new(&self.program);
        command.arg0("volley").arg(VERB).arg(&claim.path).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut keeper = command.spawn()?;
        let (Some(mut input), Some(output)) = (keeper.stdin.take(), keeper.stdout.take()) else {
            return Err(Failure::Files(std::io::Error::other("a keeper without streams")));
        };
        input.write_all(&serde_json::to_vec(task).map_err(std::io::Error::other)?).await?;
        drop(input);
        // Whoever waits for it in the background does so until it ends.
        tokio::spawn(async move { keeper.wait().await });
        let (mut answer, mut output) = (String::new(), BufReader::new(output));
        match tokio::time::timeout(BEGIN_MAX, output.read_line(&mut answer)).await {
            Ok(read) => read?,
            Err(_) => return Err(Failure::Files(std::io::Error::other("a keeper does not answer"))),
        };
        match answer.trim() {
            BEGUN_WORD => Ok(()),
            other => Err(Failure::Files(std::io::Error::other(format!("a launch could not be begun: {other}")))),
        }
    }
}

fn worded(limit: &Limit) -> String {
    format!("{}={}:{}", limit.name, limit.soft, limit.hard)
}

/// What the agent has itself, without what is secret or its own, and what the launch is given.
fn environment(attempt: &Attempt, request: &Request, claim: &Claim) -> Result<BTreeMap<String, String>, Failure> {
    let own =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let is_passed_on =
        |name: &str| !macros::is_secret(name) && !name.starts_with("WANDB_") && !name.starts_with("VOLLEY_");
    let mut all: BTreeMap<String, String> = own.filter(|(name, _)| is_passed_on(name)).collect();
    for variable in &request.variables {
        if let Some(value) = attempt.value(&variable.value)? {
            all.insert(variable.name.clone(), value);
        }
    }
    all.extend(mark(&claim.path));
    Ok(all)
}

/// By this every process of a launch is found, whatever became of its parents.
fn mark(path: &Path) -> Option<(String, String)> {
    Some(("VOLLEY_LAUNCH_FOLDER".to_owned(), path.to_str()?.to_owned()))
}

/// What of a launch runs without its keeper.
fn left(claim: &Claim) -> Vec<Process> {
    let Some((name, value)) = mark(&claim.path) else { return Vec::new() };
    kernel::with_environment(&[format!("{name}={value}")])
}

fn is_process(claim: &Claim) -> bool {
    claim.read::<Begun>(BEGUN).is_some()
}

fn is_kept(claim: &Claim) -> bool {
    claim.read::<Begun>(BEGUN).is_some_and(|begun| begun.keeper.is_alive())
}

/// Kills what a keeper that was killed itself has left.
async fn clear(claim: &Claim) {
    while !claim.has(END) && !is_kept(claim) {
        let all = left(claim);
        if all.is_empty() {
            return;
        }
        all.iter().for_each(Process::kill);
        sleep(PAUSE).await;
    }
}

/// Asks a launch to end, and after the grace ends it. Returns when nothing of it is left.
async fn end(claim: Claim, grace: Duration) {
    let (late, mut is_asked, mut is_killed) = (Instant::now() + grace, false, false);
    while is_kept(&claim) && !claim.has(END) {
        // A keeper that has just begun tells of the process a moment later.
        if let Some(process) = claim.read::<Process>(PROCESS) {
            if !is_asked {
                process.ask_group_to_end();
                is_asked = true;
            }
            if !is_killed && Instant::now() >= late {
                // The keeper sees to all others.
                process.kill();
                is_killed = true;
            }
        }
        sleep(PAUSE).await;
    }
    clear(&claim).await;
}

/// Ends all launches of a home whose agents have all stopped; those of an agent that works are its own.
pub async fn end_all(folder: &Path, grace: Duration) -> std::io::Result<()> {
    let work = folder.join(crate::WORK);
    if !work.is_dir() || Folder::is_used(folder) {
        return Ok(());
    }
    let ends = Claims::new(&work)?.all().into_iter().filter(is_process).map(|claim| end(claim, grace));
    futures::future::join_all(ends).await;
    Ok(())
}

/// How the launch stands.
fn workload(claim: &Claim, tails: Tails<'_>) -> Option<(Workload, Option<Exit>, usize)> {
    let begun = claim.read::<Begun>(BEGUN)?;
    let is_kept = begun.keeper.is_alive();
    // Read behind the keeper's life: it writes the end before it ends.
    let exit = claim.read::<Exit>(END);
    let pods = match (&exit, is_kept) {
        (Some(_), _) => 0,
        (None, true) => 1,
        (None, false) => left(claim).len(),
    };
    let (state, failure) = match &exit {
        None if is_kept || pods > 0 => (State::Running, None),
        None => (State::Failed, Some("its processes were killed, and nobody saw how they ended".to_owned())),
        Some(exit) if exit.is_success() => (State::Finished, None),
        Some(exit) => (State::Failed, Some(exit.reason("the process", &tails(POD, POD)))),
    };
    let workload = Workload {
        state,
        since: begun.at,
        is_being_deleted: claim.has(STOPPING),
        is_held: true,
        verdict: claim.read(VERDICT),
        owns_its_own: true,
        // The machine went down with it, which is nobody's fault.
        is_disrupted: exit.is_none() && begun.keeper.is_of_another_boot(),
        failure,
    };
    Some((workload, exit, pods))
}

impl Runner for ProcessRunner {
    fn ready<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Done> {
        Box::pin(async move { self.claims.check(attempt) })
    }

    fn site<'a>(&'a self, _: &'a Attempt) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(async { Ok(Some(self.claims.site()?)) })
    }

    fn observe(&self, attempt: &Attempt, tails: Tails<'_>) -> Sight {
        let older = self.claims.older(attempt);
        let claim = self.claims.of(attempt);
        let seen = workload(&claim, tails);
        let older_pods = older.iter().filter_map(|claim| Some(workload(claim, tails)?.2)).sum::<usize>();
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let place = seen.as_ref().map(|(workload, _, _)| {
            let pid = claim.read::<Process>(PROCESS).map(|process| process.pid);
            let phase = match workload.state {
                State::Finished => "Succeeded",
                State::Failed => "Failed",
                _ => "Running",
            };
            json!([{ "rank": 0, "role": POD, "pod": POD, "node": host.trim(), "phase": phase, "pid": pid }])
        });
        Sight {
            has_older: !older.is_empty(),
            // A folder without anything begun is swept.
            has_helpers: claim.is_made() && seen.is_none(),
            pods: older_pods + seen.as_ref().map_or(0, |(_, _, pods)| *pods),
            exit_code: seen.as_ref().and_then(|(_, exit, _)| exit.map(|exit| exit.code)),
            workload: seen.map(|(workload, _, _)| workload),
            place: place.unwrap_or_default(),
            ..Sight::default()
        }
    }

    fn act<'a>(&'a self, attempt: &'a Attempt, deed: &'a Deed) -> BoxFuture<'a, Done> {
        Box::pin(async move {
            let claim = self.claims.of(attempt);
            match deed {
                Deed::Acknowledge => claim.make()?,
                Deed::Submit => match &attempt.prepared.submission {
                    Ok(Submission::Process(request)) => self.submit(attempt, request).await?,
                    _ => return Err(Failure::Refused("the launch is not for a process".to_owned())),
                },
                Deed::Mark(reason) => claim.write(VERDICT, reason)?,
                Deed::Delete => {
                    claim.write(STOPPING, &Timestamp::now())?;
                    tokio::spawn(end(claim, self.grace));
                }
                Deed::DeleteOlder => {
                    for older in self.claims.older(attempt) {
                        end(older, self.grace).await;
                    }
                }
                Deed::Release => {
                    if claim.has(STOPPING) {
                        end(claim.clone(), self.grace).await;
                    }
                    claim.remove()?;
                }
                Deed::ReleaseOlder => self.claims.older(attempt).iter().try_for_each(Claim::remove)?,
                Deed::Sweep => claim.remove()?,
                Deed::Adopt
                | Deed::Build
                | Deed::CancelBuild
                | Deed::Own
                | Deed::Finish
                | Deed::Fail { .. }
                | Deed::Stopped
                | Deed::Requeue => (),
            }
            Ok(())
        })
    }

    fn sources(&self, attempt: &Attempt, read: &BTreeSet<Run>) -> Vec<Source> {
        let claim = self.claims.of(attempt);
        if !claim.has(LOG) {
            return Vec::new();
        }
        let run = Run { pod_uid: format!("{}-{}", claim.key, claim.attempt), container: POD.to_owned(), restarts: 0 };
        let is_running = is_kept(&claim) && !claim.has(END);
        let source = Source { run, pod: POD.to_owned(), is_previous: false, is_running, label: String::new() };
        if read.contains(&source.run) { Vec::new() } else { vec![source] }
    }

    fn open<'a>(
        &'a self,
        attempt: &'a Attempt,
        _: &'a Source,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Log, Failure>> {
        Box::pin(async move {
            let claim = self.claims.of(attempt);
            let is_over = move || claim.has(END) || !is_kept(&claim);
            Ok(follow::open(&self.claims.of(attempt).path.join(LOG), is_over).await?)
        })
    }
}
