//! The batch/v1 Job controller: which pods to start and stop, when the Job has ended, and what its status says.
//!
//! Called with a Job and the pods of its namespace that it may own. `job_policy` judges failures, `job_pods` builds
//! pods, `job_track` counts ended pods exactly once and writes the status.

use super::job_indexes::{self, Indexes};
use super::job_policy::{self, Verdict};
use super::{Action, Plan, Target, Voice, claim, has_finalizer, job_pods, job_track, pods, seconds_since, ttl};
use super::{wire_time, without_finalizer};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use std::collections::BTreeMap;

pub(super) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const CONTROLLER_NAME: &str = "kubernetes.io/job-controller";
/// Pods created or deleted in one round; upstream's number, so that one huge Job does not starve the others.
const PODS_PER_ROUND_MAX: usize = 500;
const BACKOFF_SECONDS: i64 = 10;
const BACKOFF_SECONDS_MAX: i64 = 360;

/// A Job and its pods: at least those that its selector matches and those that name it as their controller.
#[derive(Debug)]
pub struct Observed<'a> {
    pub job: &'a Job,
    pub pods: &'a [Pod],
}

/// How the Job ends; `is_recorded` when an earlier round has written the interim condition already.
pub(super) struct Ending {
    pub is_success: bool,
    pub reason: String,
    pub message: String,
    pub is_recorded: bool,
}

/// What one round knows about the Job; `status` is the one being made.
pub(super) struct Round<'a> {
    pub job: &'a Job,
    pub spec: &'a JobSpec,
    pub pods: Vec<&'a Pod>,
    pub active: Vec<&'a Pod>,
    pub status: JobStatus,
    pub succeeded_indexes: Indexes,
    pub failed_indexes: Option<Indexes>,
    /// Per index, the failed pod that stays until its replacement carries its failure count.
    pub replaced_next: BTreeMap<i32, &'a Pod>,
    pub ending: Option<Ending>,
    pub now: Timestamp,
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let job = seen.job;
    let mut plan = ttl::plan_job(job, now);
    let Some(spec) = job.spec.as_ref() else {
        return plan;
    };
    if spec.managed_by.as_deref().is_some_and(|manager| manager != CONTROLLER_NAME) {
        return plan;
    }
    let claims = claim::claim(job, &spec.selector.clone().unwrap_or_default(), seen.pods);
    if finished_at(job).is_some() {
        let tracked = claims.owned.iter().filter(|pod| has_finalizer(&pod.metadata, TRACKING_FINALIZER));
        plan.actions.extend(tracked.map(|pod| without_finalizer(*pod, TRACKING_FINALIZER)));
        return plan;
    }
    plan.actions.extend(claims.patches);
    let mut round = Round::new(job, spec, claims.owned, now);
    round.ending = ending(&round, &mut plan);
    settle(&mut round, &mut plan);
    job_track::finish(round, &mut plan);
    plan
}

/// Frees a pod whose Job no longer exists or no longer owns it, so that it can be deleted.
pub fn plan_orphan(pod: &Pod) -> Plan {
    let mut plan = Plan::default();
    if has_finalizer(&pod.metadata, TRACKING_FINALIZER) {
        plan.actions.push(without_finalizer(pod, TRACKING_FINALIZER));
    }
    plan
}

/// When the Job was declared complete or failed.
pub(super) fn finished_at(job: &Job) -> Option<Timestamp> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    let is_end = |c: &&JobCondition| (c.type_ == "Complete" || c.type_ == "Failed") && c.status == "True";
    let end = conditions.iter().find(is_end)?;
    Some(end.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0))
}

impl<'a> Round<'a> {
    fn new(job: &'a Job, spec: &'a JobSpec, mut owned: Vec<&'a Pod>, now: Timestamp) -> Self {
        let mut status = job.status.clone().unwrap_or_default();
        status.uncounted_terminated_pods.get_or_insert_default();
        if status.start_time.is_none() && !is_suspended(spec) {
            status.start_time = Some(wire_time(now));
        }
        owned.sort_by_key(|pod| (job_pods::completion_index(pod), pod.metadata.name.clone()));
        let active = owned.iter().copied().filter(|pod| pods::is_active(pod)).collect();
        let mut round = Round {
            job,
            spec,
            pods: owned,
            active,
            succeeded_indexes: Indexes::new(),
            failed_indexes: None,
            replaced_next: BTreeMap::new(),
            ending: None,
            status,
            now,
        };
        if round.is_indexed() {
            round.read_indexes();
        }
        round
    }

    pub fn is_indexed(&self) -> bool {
        self.spec.completion_mode.as_deref() == Some("Indexed")
    }

    pub fn completions(&self) -> i32 {
        self.spec.completions.unwrap_or(0)
    }

    /// The pod's completion index, if it is one that this Job has.
    pub fn valid_index(&self, pod: &Pod) -> Option<i32> {
        job_pods::completion_index(pod).filter(|index| (0..self.completions()).contains(index))
    }

    /// Still to be counted: the finalizer is there, and an indexed Job's pod has an index that counts.
    fn is_uncounted(&self, pod: &Pod) -> bool {
        let counts = !self.is_indexed() || self.valid_index(pod).is_some();
        counts && has_finalizer(&pod.metadata, TRACKING_FINALIZER) && !self.is_listed(pod)
    }

    /// Written down as ended by an earlier round, but not yet part of the counters.
    pub fn is_listed(&self, pod: &Pod) -> bool {
        let Some(uncounted) = self.status.uncounted_terminated_pods.as_ref() else {
            return false;
        };
        let uid = super::uid_of(&pod.metadata);
        uncounted.failed.iter().chain(&uncounted.succeeded).flatten().any(|listed| listed == uid)
    }

    pub fn replaces_only_failed(&self) -> bool {
        self.spec.pod_failure_policy.is_some() || self.spec.pod_replacement_policy.as_deref() == Some("Failed")
    }

    /// Failed, or being deleted when that is enough to replace it: such a pod may never reach a phase.
    pub fn has_failed(&self, pod: &Pod) -> bool {
        let is_lost = pods::is_terminating(pod) && !self.replaces_only_failed();
        pods::is_failed(pod) || is_lost
    }

    pub fn verdict(&self, pod: &Pod) -> Verdict {
        job_policy::judge(self.spec.pod_failure_policy.as_ref(), pod)
    }

    pub fn terminating(&self) -> i32 {
        count(self.pods.iter().filter(|pod| pods::is_terminating(pod)))
    }

    fn read_indexes(&mut self) {
        let completions = self.completions();
        let before = self.status.completed_indexes.as_deref().unwrap_or_default();
        let mut succeeded = job_indexes::parse(before, completions);
        let tracked = |pod: &&&Pod| has_finalizer(&pod.metadata, TRACKING_FINALIZER);
        let new = self.pods.iter().filter(tracked).filter(|pod| pods::is_succeeded(pod));
        succeeded.extend(new.filter_map(|pod| self.valid_index(pod)));
        self.succeeded_indexes = succeeded;
        let Some(limit) = self.spec.backoff_limit_per_index else {
            return;
        };
        let mut failed = job_indexes::parse(self.status.failed_indexes.as_deref().unwrap_or_default(), completions);
        let new = self.pods.iter().filter(tracked).filter(|pod| self.fails_index(pod, limit));
        failed.extend(new.filter_map(|pod| self.valid_index(pod)));
        self.replaced_next = self.failures_to_replace(&failed);
        self.failed_indexes = Some(failed);
    }

    fn fails_index(&self, pod: &Pod, limit: i32) -> bool {
        self.has_failed(pod)
            && match self.verdict(pod) {
                Verdict::FailIndex => true,
                Verdict::Ignore => false,
                Verdict::Count | Verdict::FailJob(_) => job_pods::failures_before(pod) >= limit,
            }
    }

    /// The last failed pod of each index that still waits for a replacement.
    fn failures_to_replace(&self, failed: &Indexes) -> BTreeMap<i32, &'a Pod> {
        let running: Indexes = self.active.iter().filter_map(|pod| self.valid_index(pod)).collect();
        let mut last: BTreeMap<i32, &'a Pod> = BTreeMap::new();
        for &pod in self.pods.iter().filter(|pod| self.has_failed(pod)) {
            let Some(index) = self.valid_index(pod).filter(|_| has_finalizer(&pod.metadata, TRACKING_FINALIZER)) else {
                continue;
            };
            let is_settled =
                running.contains(&index) || failed.contains(&index) || self.succeeded_indexes.contains(&index);
            let is_later = last.get(&index).is_none_or(|other| job_pods::attempts(other) < job_pods::attempts(pod));
            if !is_settled && is_later {
                last.insert(index, pod);
            }
        }
        last
    }

    fn succeeded(&self) -> i32 {
        if self.is_indexed() {
            return count(self.succeeded_indexes.iter());
        }
        let listed = self.status.uncounted_terminated_pods.as_ref().and_then(|u| u.succeeded.as_ref());
        let new = self.pods.iter().filter(|pod| self.is_uncounted(pod) && pods::is_succeeded(pod));
        self.status.succeeded.unwrap_or(0) + count(listed.into_iter().flatten()) + count(new)
    }

    fn failed(&self) -> i32 {
        let listed = self.status.uncounted_terminated_pods.as_ref().and_then(|u| u.failed.as_ref());
        let new = self
            .pods
            .iter()
            .filter(|pod| self.is_uncounted(pod) && self.has_failed(pod) && self.verdict(pod) != Verdict::Ignore);
        self.status.failed.unwrap_or(0) + count(listed.into_iter().flatten()) + count(new)
    }

    /// Seconds to wait before the next pod: 10 s doubling with each failure since the last success, up to 6 min.
    fn backoff_left(&self) -> i64 {
        let counts_as_failure = |pod: &Pod| {
            let failed_by_itself = pods::is_failed(pod) && !pods::is_being_deleted(pod);
            failed_by_itself || (self.has_failed(pod) && has_finalizer(&pod.metadata, TRACKING_FINALIZER))
        };
        let end = |pod: &&Pod| pods::ended_at(pod).unwrap_or(self.now);
        let last_success = self.pods.iter().copied().filter(|pod| pods::is_succeeded(pod)).map(|pod| end(&pod)).max();
        let failures = self.pods.iter().copied().filter(|pod| counts_as_failure(pod)).map(|pod| end(&pod));
        let since_success: Vec<_> = failures.filter(|at| last_success.is_none_or(|success| *at > success)).collect();
        match since_success.iter().max() {
            Some(last) => backoff_left(count(since_success.iter()), *last, self.now),
            None => 0,
        }
    }
}

/// What is left of the delay after the given number of failures, the last of which was at `last`.
fn backoff_left(failures: i32, last: Timestamp, now: Timestamp) -> i64 {
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(10);
    let delay = (BACKOFF_SECONDS << doublings).min(BACKOFF_SECONDS_MAX);
    (delay - seconds_since(last, now)).max(0)
}

fn count<T>(items: impl Iterator<Item = T>) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}

fn is_suspended(spec: &JobSpec) -> bool {
    spec.suspend == Some(true)
}

fn interim(status: &JobStatus, kind: &str) -> Option<Ending> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    let condition = conditions.iter().find(|c| c.type_ == kind && c.status == "True")?;
    Some(Ending {
        is_success: kind == "SuccessCriteriaMet",
        reason: condition.reason.clone().unwrap_or_default(),
        message: condition.message.clone().unwrap_or_default(),
        is_recorded: true,
    })
}

/// Whether the Job must end now, other than by reaching its completions: what was decided earlier comes first, then
/// the ways to fail, then the success policy.
fn ending(round: &Round, plan: &mut Plan) -> Option<Ending> {
    let fails = |reason: &str, message: String| {
        Some(Ending { is_success: false, reason: reason.to_owned(), message, is_recorded: false })
    };
    if let Some(decided) = interim(&round.status, "SuccessCriteriaMet").or(interim(&round.status, "FailureTarget")) {
        return Some(decided);
    }
    for pod in round.pods.iter().filter(|pod| round.has_failed(pod)) {
        if let Verdict::FailJob(message) = round.verdict(pod) {
            return fails("PodFailurePolicy", message);
        }
    }
    if round.failed() > round.spec.backoff_limit.unwrap_or(6) || restarts_exceed_limit(round) {
        return fails("BackoffLimitExceeded", "Job has reached the specified backoff limit".to_owned());
    }
    if let Some(left) = deadline_left(round) {
        if left <= 0 {
            return fails("DeadlineExceeded", "Job was active longer than specified deadline".to_owned());
        }
        plan.requeue(left);
    }
    if let Some(failed) = &round.failed_indexes {
        let failed = count(failed.iter());
        if round.spec.max_failed_indexes.is_some_and(|most| failed > most) {
            let message = "Job has exceeded the specified maximal number of failed indexes";
            return fails("MaxFailedIndexesExceeded", message.to_owned());
        }
        if failed > 0 && failed + round.succeeded() >= round.completions() {
            return fails("FailedIndexes", "Job has failed indexes".to_owned());
        }
    }
    let policy = round.spec.success_policy.as_ref().filter(|_| round.is_indexed());
    let message = job_policy::success(policy, round.completions(), &round.succeeded_indexes)?;
    Some(Ending { is_success: true, reason: "SuccessPolicy".to_owned(), message, is_recorded: false })
}

/// With `restartPolicy: OnFailure` it is the containers' restarts that count.
fn restarts_exceed_limit(round: &Round) -> bool {
    let template = round.spec.template.spec.as_ref();
    if template.and_then(|spec| spec.restart_policy.as_deref()) != Some("OnFailure") {
        return false;
    }
    let running = round.pods.iter().filter(|pod| matches!(pods::phase(pod), "Running" | "Pending"));
    let statuses =
        running.flat_map(|pod| pods::container_statuses(pod).iter().chain(pods::init_container_statuses(pod)));
    let restarts: i32 = statuses.map(|status| status.restart_count).sum();
    let limit = round.spec.backoff_limit.unwrap_or(6);
    if limit == 0 { restarts > 0 } else { restarts >= limit }
}

fn deadline_left(round: &Round) -> Option<i64> {
    let seconds = round.spec.active_deadline_seconds.filter(|_| !is_suspended(round.spec))?;
    let started = round.status.start_time.as_ref()?.0;
    Some(seconds - seconds_since(started, round.now))
}

/// Starts and stops pods, sets the counts of running ones and, if all completions are there, the ending.
fn settle(round: &mut Round, plan: &mut Plan) {
    let voice = Voice::new(round.job, "job-controller");
    let mut active = count(round.active.iter());
    let mut ready = count(round.active.iter().filter(|pod| pods::is_ready(pod)));
    let mut terminating = round.terminating();
    if round.ending.is_some() {
        let leaving = std::mem::take(&mut round.active);
        stop(&leaving, false, &voice, plan);
        (active, ready, terminating) = (0, 0, terminating + count(leaving.iter()));
    } else {
        if round.job.metadata.deletion_timestamp.is_none() {
            let leaving = surplus(round);
            stop(&leaving, true, &voice, plan);
            active -= count(leaving.iter());
            ready -= count(leaving.iter().filter(|pod| pods::is_ready(pod)));
            if leaving.is_empty() && !is_suspended(round.spec) {
                active += start_missing(round, active, &voice, plan);
            }
        }
        let succeeded = round.succeeded();
        let is_complete = round.spec.completions.map_or(succeeded > 0, |wanted| succeeded >= wanted) && active == 0;
        if is_complete {
            let message = "Reached expected number of succeeded pods".to_owned();
            let reason = "CompletionsReached".to_owned();
            round.ending = Some(Ending { is_success: true, reason, message, is_recorded: false });
        } else if round.job.metadata.deletion_timestamp.is_none() {
            note_suspension(round, &voice, plan);
        }
    }
    round.status.active = Some(active).filter(|n| *n > 0);
    round.status.ready = Some(ready);
    round.status.terminating = Some(terminating);
}

/// Deletes pods; those that are only surplus lose their finalizer first, because their end must not count.
fn stop(leaving: &[&Pod], is_surplus: bool, voice: &Voice, plan: &mut Plan) {
    for pod in leaving {
        if is_surplus && has_finalizer(&pod.metadata, TRACKING_FINALIZER) {
            plan.actions.push(without_finalizer(*pod, TRACKING_FINALIZER));
        }
        let target = Target::of(*pod);
        plan.events.push(voice.normal("SuccessfulDelete", format!("Deleted pod: {}", target.name)));
        plan.delete(target);
    }
}

fn wanted_active(round: &Round) -> i32 {
    if is_suspended(round.spec) {
        return 0;
    }
    let parallelism = round.spec.parallelism.unwrap_or(1);
    match round.spec.completions {
        // Without a number of completions the first success means: start nothing more, let the rest finish.
        None if round.succeeded() > 0 => count(round.active.iter()),
        None => parallelism,
        Some(completions) => (completions - round.succeeded()).min(parallelism).max(0),
    }
}

/// The active pods to stop: doubles and strays of an indexed Job, then the least useful ones over the wanted number.
fn surplus<'a>(round: &Round<'a>) -> Vec<&'a Pod> {
    let mut candidates = round.active.clone();
    candidates.sort_by_key(|pod| pods::removal_order(pod, 0));
    let mut leaving = Vec::new();
    if round.is_indexed() {
        let mut kept = Indexes::new();
        let mut keep = Vec::new();
        // The most useful pod of an index stays, so look at them last-to-go first.
        for pod in candidates.into_iter().rev() {
            match round.valid_index(pod) {
                Some(index) if kept.insert(index) => keep.push(pod),
                Some(_) | None => leaving.push(pod),
            }
        }
        keep.reverse();
        candidates = keep;
    }
    let excess = count(round.active.iter()) - wanted_active(round);
    let more = usize::try_from(excess).unwrap_or(0).saturating_sub(leaving.len());
    leaving.extend(candidates.into_iter().take(more));
    leaving.truncate(PODS_PER_ROUND_MAX);
    leaving
}

/// Creates the pods that are missing and may start now; says how many.
fn start_missing(round: &Round, active: i32, voice: &Voice, plan: &mut Plan) -> i32 {
    let terminating = if round.replaces_only_failed() { round.terminating() } else { 0 };
    let missing = usize::try_from(wanted_active(round) - terminating - active).unwrap_or(0).min(PODS_PER_ROUND_MAX);
    if missing == 0 {
        return 0;
    }
    let has_limit_per_index = round.failed_indexes.is_some();
    let wait = if has_limit_per_index { 0 } else { round.backoff_left() };
    if wait > 0 {
        plan.requeue(wait);
        return 0;
    }
    let indexes: Vec<Option<i32>> = if round.is_indexed() {
        pending_indexes(round, missing, plan).into_iter().map(Some).collect()
    } else {
        vec![None; missing]
    };
    for index in &indexes {
        let replaced = index.and_then(|index| round.replaced_next.get(&index).copied());
        let object = job_pods::build(round, *index, replaced);
        let event = voice.normal("SuccessfulCreate", "Created pod: {name}");
        plan.actions.push(Action::Create { object, event: Some(event) });
    }
    count(indexes.iter())
}

/// The first indexes without a pod or an outcome; with a limit per index, each waits for its own delay.
fn pending_indexes(round: &Round, missing: usize, plan: &mut Plan) -> Vec<i32> {
    let mut taken: Indexes = round.active.iter().filter_map(|pod| round.valid_index(pod)).collect();
    taken.extend(&round.succeeded_indexes);
    taken.extend(round.failed_indexes.iter().flatten());
    if round.replaces_only_failed() {
        let terminating = round.pods.iter().filter(|pod| pods::is_terminating(pod));
        taken.extend(terminating.filter_map(|pod| round.valid_index(pod)));
    }
    let mut start = Vec::new();
    for index in (0..round.completions()).filter(|index| !taken.contains(index)).take(missing) {
        let wait = round.replaced_next.get(&index).map_or(0, |pod| {
            let ended = pods::ended_at(pod).unwrap_or(round.now);
            backoff_left(job_pods::attempts(pod) + 1, ended, round.now)
        });
        if wait > 0 { plan.requeue(wait) } else { start.push(index) }
    }
    start
}

/// Keeps the condition `Suspended` true to the spec; a resumed Job's clock starts anew.
fn note_suspension(round: &mut Round, voice: &Voice, plan: &mut Plan) {
    let now = round.now;
    if is_suspended(round.spec) {
        if job_track::set_condition(&mut round.status, ("Suspended", "True"), ("JobSuspended", "Job suspended"), now) {
            plan.events.push(voice.normal("Suspended", "Job suspended"));
        }
    } else if job_track::set_condition(&mut round.status, ("Suspended", "False"), ("JobResumed", "Job resumed"), now) {
        plan.events.push(voice.normal("Resumed", "Job resumed"));
        round.status.start_time = Some(wire_time(now));
    }
}
