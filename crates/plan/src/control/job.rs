//! The batch/v1 Job controller: which pods to start and stop, when the Job has ended, and what its status says.
//!
//! Called with a Job and the pods of its namespace that it may own. Here it is decided whether the Job must end;
//! `job_policy` judges failures, `job_scale` starts and stops pods, `job_pods` builds them, `job_track` counts ended
//! pods exactly once and writes the status.

use super::job_indexes::{self, Indexes};
use super::job_policy::{self, Verdict};
use super::without_finalizer;
use super::{Plan, claim, has_finalizer, job_pods, job_scale, job_track, pods, seconds_since, ttl, uid_of, wire_time};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use std::collections::{BTreeMap, BTreeSet};

pub(super) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const CONTROLLER_NAME: &str = "kubernetes.io/job-controller";
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
    /// Uids that an earlier round has written down as ended but not yet added to the counters.
    listed: BTreeSet<String>,
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
    // The server gives every Job a selector; without one nothing can be said to be its pod.
    let Some(selector) = spec.selector.as_ref() else {
        return plan;
    };
    let claims = claim::claim(job, selector, seen.pods);
    if finished_at(job).is_some() {
        let tracked = claims.owned.iter().filter(|pod| has_finalizer(&pod.metadata, TRACKING_FINALIZER));
        plan.actions.extend(tracked.map(|pod| without_finalizer(*pod, TRACKING_FINALIZER)));
        return plan;
    }
    if !claims.patches.is_empty() {
        // Pods that change hands are looked at again before they are counted.
        plan.actions.extend(claims.patches);
        return plan;
    }
    let mut round = Round::new(job, spec, claims.owned, now);
    round.ending = ending(&round, &mut plan);
    job_scale::settle(&mut round, &mut plan);
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
        let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
        let listed = uncounted.failed.iter().chain(&uncounted.succeeded).flatten().cloned().collect();
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
            listed,
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

    pub fn is_listed(&self, pod: &Pod) -> bool {
        self.listed.contains(uid_of(&pod.metadata))
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

    pub fn succeeded(&self) -> i32 {
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
    pub fn backoff_left(&self) -> i64 {
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
pub(super) fn backoff_left(failures: i32, last: Timestamp, now: Timestamp) -> i64 {
    let doublings = u32::try_from(failures - 1).unwrap_or(0).min(10);
    let delay = (BACKOFF_SECONDS << doublings).min(BACKOFF_SECONDS_MAX);
    (delay - seconds_since(last, now)).max(0)
}

pub(super) fn count<T>(items: impl Iterator<Item = T>) -> i32 {
    i32::try_from(items.count()).unwrap_or(i32::MAX)
}

pub(super) fn is_suspended(spec: &JobSpec) -> bool {
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
