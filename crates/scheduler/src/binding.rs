//! Binding: the pods of a gang side by side. A bind that fails gives back its whole gang: nothing more of it is begun, and
//! the next placement either completes it or has what was bound evicted (`plan::gang::torn`).

use crate::calls::{Calls, Refusal};
use crate::claims::{self, Claims, Wishes};
use crate::events;
use crate::eviction::FAILURES_MAX;
use crate::groups::GroupWrite;
use crate::metrics::Metrics;
use crate::shell::{Outcome as Settled, Shell};
use futures::future::join_all;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use volley_plan::gang::objects::{ClaimKey, Key, Phase};
use volley_plan::gang::report::PodNote;
use volley_plan::gang::volumes::{OpenClaim, Way, open_claims};
use volley_plan::gang::{Member, Placement};
use volley_turns::events::Reporter;

/// The first rest of a gang of which a bind failed; it doubles with each further failure.
const REST_MIN: Duration = Duration::from_millis(10);
const REST_MAX: Duration = Duration::from_secs(30);
const DOMAIN: &str = "volcano.sh/job-allocated-hypernode";

/// So long a gang of which a bind failed has to be completed, for instance with a pod in the place of one that was
/// deleted in between; then what was bound of it is given back.
const PART_GRACE: Duration = Duration::from_secs(1);

/// What was bound of a gang by a batch of which another bind failed, and when it is given back.
#[derive(Debug)]
pub struct Part {
    pub pods: Vec<Member>,
    pub until: Instant,
}

/// A gang of which binds failed, how often in a row, and until when it is left alone.
#[derive(Debug, Clone)]
pub struct Failing {
    pub count: u32,
    /// What the server said, unless it was only that something has changed.
    pub words: Option<String>,
    pub rests_until: Option<Instant>,
}

#[derive(Debug)]
pub struct Outcome {
    gang: Key,
    bound: Vec<Member>,
    /// Those that failed with the reason, and those that were not begun.
    failed: Vec<(Member, Option<Refusal>)>,
    /// Claims that were to be given volumes.
    given: Vec<ClaimKey>,
}

/// One pod on its way to a node.
#[derive(Debug)]
struct Deed {
    pod: Member,
    node: Arc<str>,
    component: &'static str,
    since: Instant,
    /// Claims that must have their volumes first.
    claims: Vec<OpenClaim>,
}

/// All that is bound of a gang by one placement.
#[derive(Debug)]
struct Batch {
    gang: Key,
    deeds: Vec<Deed>,
    /// What is written into the group first.
    mark: Option<GroupWrite>,
    /// The group has run before, and says so still. While it does, nobody could tell that it was bound in part.
    restarts: Option<GroupWrite>,
}

impl Shell {
    pub fn bind(&mut self, placement: &mut Placement) {
        let (now, gangs) = (Instant::now(), &self.view.snapshot.gangs);
        self.failing.retain(|gang, _| gangs.find(gang).is_some());
        self.failing.values_mut().for_each(|failing| failing.rests_until = failing.rests_until.filter(|at| *at > now));
        let given_back = self.to_give_back();
        let mut batches: Vec<Batch> = Vec::new();
        let mut places: BTreeMap<Key, usize> = BTreeMap::new();
        for bind in std::mem::take(&mut placement.bind) {
            let rests = given_back.contains(&bind.gang)
                || self.failing.get(&bind.gang).is_some_and(|failing| failing.rests_until.is_some());
            let Some(pending) = self.pending(&bind.pod.key, &bind.pod.uid).filter(|_| !rests) else { continue };
            let component = events::component(&pending.object);
            let since = pending.since;
            let snapshot = &self.view.snapshot;
            let number = snapshot.pods.find(&bind.pod.key);
            let open = |pod| open_claims(snapshot, pod, &bind.node, &placement.volumes);
            let claims = number.map(open).unwrap_or_default();
            let deed = Deed { pod: bind.pod, node: bind.node, component, since, claims };
            let place = *places.entry(bind.gang).or_insert_with_key(|gang| {
                batches.push(self.batch(gang, placement.domains.get(gang)));
                batches.len() - 1
            });
            batches[place].deeds.push(deed);
        }
        for batch in batches {
            batch.deeds.iter().for_each(|deed| self.view.assume(&deed.pod, &deed.node));
            self.view.snapshot.promised.extend(batch.given());
            *self.binding.entry(batch.gang.clone()).or_default() += 1;
            let tools = Tools {
                calls: self.calls.clone(),
                permits: self.binds.clone(),
                claims: self.view.claims.subscribe(),
                reporter: self.reporter.clone(),
                metrics: self.metrics.clone(),
            };
            self.tasks.spawn(async move { Settled::Bound(carry_out(batch, &tools).await) });
        }
    }

    fn batch(&self, key: &Key, domain: Option<&String>) -> Batch {
        let gangs = &self.view.snapshot.gangs;
        let gang = gangs.find(key).map(|gang| &gangs[gang]).filter(|gang| !gang.is_single);
        let group = gang.and_then(|gang| gang.group.as_ref());
        let uid = group.map(|group| group.uid.to_string());
        let mark = domain.map(|domain| json!({"metadata": {"uid": uid, "annotations": {DOMAIN: domain}}}));
        let mark = mark.map(|patch| self.group_write(key, patch));
        let has_run = group.is_some_and(|group| !matches!(group.phase, Phase::Pending | Phase::Inqueue));
        let restarts = gang.filter(|gang| has_run && gang.ready == 0);
        let restarts = restarts.map(|_| json!({"metadata": {"uid": uid}, "status": {"phase": "Inqueue"}}));
        let restarts = restarts.map(|patch| self.group_write(key, patch));
        Batch { gang: key.clone(), deeds: Vec::new(), mark, restarts }
    }

    pub fn settle_binds(&mut self, outcome: Outcome) {
        let Outcome { gang, bound, failed, given } = outcome;
        given.iter().for_each(|claim| drop(self.view.snapshot.promised.remove(claim)));
        let left = self.binding.get(&gang).map_or(0, |count| count.saturating_sub(1));
        match left {
            0 => drop(self.binding.remove(&gang)),
            left => drop(self.binding.insert(gang.clone(), left)),
        }
        failed.iter().for_each(|(pod, _)| self.view.give_up(pod));
        if failed.is_empty() {
            self.failing.remove(&gang);
            // Plain pods have no group that would be told.
            if !self.is_single(&gang) {
                self.report_soon();
            }
            return;
        }
        let count = self.failing.get(&gang).map_or(0, |failing| failing.count) + 1;
        let rest = (REST_MIN * 2_u32.pow(count.min(16) - 1)).min(REST_MAX);
        let until = Instant::now() + rest;
        self.place_at = Some(self.place_at.map_or(until, |at| at.min(until)));
        for (pod, refusal) in failed.iter().filter_map(|(pod, refusal)| Some((pod, refusal.as_ref()?))) {
            self.metrics.refused();
            if !refusal.is_stale() {
                tracing::warn!(pod = %pod.key, code = refusal.code, words = refusal.words, ?rest, "a pod was not bound, its gang is tried again");
                let message = format!("binding rejected: {}", refusal.words);
                let note = PodNote { pod: pod.clone(), reason: "SchedulerError", message, nominated: None };
                self.tell_pod(&note);
            }
        }
        if !bound.is_empty() {
            let part =
                self.parts.entry(gang.clone()).or_insert(Part { pods: Vec::new(), until: Instant::now() + PART_GRACE });
            part.pods.extend(bound);
        }
        let mut refusals = failed.iter().filter_map(|(_, refusal)| refusal.as_ref());
        let words = refusals.find(|refusal| !refusal.is_stale()).map(|refusal| refusal.words.clone());
        self.failing.insert(gang, Failing { count, words, rests_until: Some(until) });
        // What it would have had is for others while it rests.
        if count >= FAILURES_MAX {
            self.place_soon();
        }
    }

    /// Gangs that are refused again and again and left alone for now, and the server's words.
    pub fn resting(&self) -> BTreeMap<Key, String> {
        let now = Instant::now();
        let rests = |(gang, failing): (&Key, &Failing)| {
            let is_resting = failing.count >= FAILURES_MAX && failing.rests_until.is_some_and(|until| until > now);
            Some((gang.clone(), failing.words.clone().filter(|_| is_resting)?))
        };
        self.failing.iter().filter_map(rests).collect()
    }

    /// Whether binds of the gang are under way, or have just failed and nothing was planned since.
    pub fn is_unsettled(&self, gang: &Key) -> bool {
        let now = Instant::now();
        let rests = self.failing.get(gang).and_then(|failing| failing.rests_until).is_some_and(|until| until > now);
        self.binding.contains_key(gang) || (rests && !self.placement.waiting.contains_key(gang))
    }

    pub fn is_single(&self, gang: &Key) -> bool {
        let gangs = &self.view.snapshot.gangs;
        gangs.find(gang).is_none_or(|gang| gangs[gang].is_single)
    }
}

struct Tools {
    calls: Calls,
    permits: Arc<Semaphore>,
    claims: watch::Receiver<Claims>,
    reporter: Arc<Reporter>,
    metrics: Arc<Metrics>,
}

impl Batch {
    /// Which claims get which volumes.
    fn given(&self) -> impl Iterator<Item = (ClaimKey, Arc<str>)> {
        let claims = self.deeds.iter().flat_map(|deed| &deed.claims);
        claims.filter_map(|OpenClaim { key, way }| match way {
            Way::Give { volume, .. } => Some(((key.namespace.to_string(), key.name.to_string()), volume.clone())),
            Way::Told | Way::Tell => None,
        })
    }
}

async fn carry_out(batch: Batch, tools: &Tools) -> Outcome {
    let given = batch.given().map(|(claim, _)| claim).collect();
    if let Err(refusal) = prepare(&batch, tools).await {
        let failed = batch.deeds.into_iter().map(|deed| (deed.pod, Some(refusal.clone()))).collect();
        return Outcome { gang: batch.gang, bound: Vec::new(), failed, given };
    }
    let Batch { gang, deeds, .. } = batch;
    let has_failed = AtomicBool::new(false);
    let results = join_all(deeds.into_iter().map(|deed| perform(deed, &has_failed, tools))).await;
    let mut outcome = Outcome { gang, bound: Vec::new(), failed: Vec::new(), given };
    for result in results {
        match result {
            Ok(pod) => outcome.bound.push(pod),
            Err(failed) => outcome.failed.push(failed),
        }
    }
    outcome
}

/// What is done before any pod of the gang is bound.
async fn prepare(batch: &Batch, tools: &Tools) -> Result<(), Refusal> {
    let mut wishes = Wishes::new();
    for deed in &batch.deeds {
        for claim in &deed.claims {
            wishes.entry(claim.key.clone()).or_insert_with(|| (claim.way.clone(), deed.node.clone()));
        }
    }
    claims::settle(&wishes, &tools.calls, &tools.permits, tools.claims.clone()).await?;
    for write in batch.mark.iter().chain(&batch.restarts) {
        tools.calls.write_group(write).await?;
    }
    Ok(())
}

async fn perform(deed: Deed, has_failed: &AtomicBool, tools: &Tools) -> Result<Member, (Member, Option<Refusal>)> {
    // It is never closed.
    let _permit = tools.permits.acquire().await;
    if has_failed.load(Ordering::Relaxed) {
        return Err((deed.pod, None));
    }
    match tools.calls.bind(&deed.pod, &deed.node).await {
        Ok(()) => {
            tools.metrics.bound(deed.since.elapsed());
            tools.reporter.report(events::bound(&deed.pod, &deed.node, deed.component));
            Ok(deed.pod)
        }
        Err(refusal) => {
            has_failed.store(true, Ordering::Relaxed);
            Err((deed.pod, Some(refusal)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::lonely;

    #[tokio::test]
    async fn a_gang_that_is_refused_again_and_again_rests_with_the_servers_words() {
        let gang = Key { namespace: "n".into(), name: "g".into() };
        let pod = || Member { key: Key { namespace: "n".into(), name: "p".into() }, uid: "u".into() };
        let fail = |shell: &mut Shell, code: u16| {
            let refusal = Refusal { code, words: "denied".to_owned() };
            let failed = vec![(pod(), Some(refusal))];
            shell.settle_binds(Outcome { gang: gang.clone(), bound: Vec::new(), failed, given: Vec::new() });
            shell.failing.get_mut(&gang).unwrap().rests_until = Some(Instant::now() + REST_MAX);
        };
        let mut shell = lonely(false);
        fail(&mut shell, 403);
        assert!(shell.resting().is_empty(), "it is tried once more");
        assert!(shell.is_unsettled(&gang), "it is not told that it is ready");
        fail(&mut shell, 403);
        assert_eq!(shell.resting(), [(gang.clone(), "denied".to_owned())].into());
        fail(&mut shell, 409);
        assert!(shell.resting().is_empty(), "something has changed, which the next look sees");
        let settled = Outcome { gang: gang.clone(), bound: vec![pod()], failed: Vec::new(), given: Vec::new() };
        shell.settle_binds(settled);
        assert!(!shell.is_unsettled(&gang));
    }
}
