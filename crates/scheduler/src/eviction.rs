//! Evicting: those who make room for others, and what was bound of a gang that cannot be completed (UI-4).
//!
//! The loop waits for it, so that the next placement counts with what leaves and takes nobody else's room.

use crate::binding::Part;
use crate::calls::{Calls, Refusal};
use crate::events;
use crate::shell::{RETRY_PAUSE, Shell};
use futures::StreamExt;
use futures::stream;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;
use volley_plan::gang::objects::{Key, Phase, State};
use volley_plan::gang::torn::torn;
use volley_plan::gang::victims::Cause;
use volley_plan::gang::{Evict, Member, Placement};
use volley_turns::events::Reporter;

/// Evictions in flight.
const EVICTIONS_MAX: usize = 32;
/// A gang of which binds failed so often in a row is given back rather than completed, and lets others go first.
pub const FAILURES_MAX: u32 = 2;

#[derive(Debug)]
struct Eviction {
    pod: Member,
    message: String,
    component: &'static str,
    is_given_back: bool,
}

impl Shell {
    /// Whether anybody was evicted.
    pub async fn evict(&mut self, placement: &Placement) -> bool {
        let evictions = self.evictions(placement);
        if evictions.is_empty() {
            return false;
        }
        for eviction in &evictions {
            self.metrics.evicted(eviction.is_given_back);
            tracing::info!(pod = %eviction.pod.key, "evicted: {}", eviction.message);
        }
        let (calls, reporter) = (self.calls.clone(), self.reporter.clone());
        let deeds = evictions.into_iter().map(|eviction| evict(eviction, &calls, &reporter));
        let answers: Vec<_> = stream::iter(deeds).buffer_unordered(EVICTIONS_MAX).collect().await;
        for answer in answers {
            match answer {
                Ok(Some(left)) => self.learn_pod(&left),
                // It is gone, which the watch tells.
                Ok(None) => {}
                Err(refusal) if refusal.is_stale() => {}
                Err(refusal) => {
                    tracing::warn!(words = refusal.words, "a pod was not evicted, will try again");
                    self.place_at = Some(Instant::now() + RETRY_PAUSE);
                }
            }
        }
        true
    }

    fn evictions(&mut self, placement: &Placement) -> Vec<Eviction> {
        let late = self.late_parts(placement);
        let victims = placement.evict.iter().map(|evict| Eviction {
            pod: evict.pod.clone(),
            message: message(evict),
            component: if self.is_single(&evict.gang) { "default-scheduler" } else { "volcano" },
            is_given_back: false,
        });
        let failing = self.failing_often();
        let mut parts: BTreeMap<Key, BTreeSet<Member>> = BTreeMap::new();
        for (gang, pods) in torn(&self.view.snapshot, placement, &failing).into_iter().chain(late) {
            parts.entry(gang).or_default().extend(pods);
        }
        let parts = parts.into_iter().filter(|(gang, _)| !self.binding.contains_key(gang)).flat_map(|(gang, pods)| {
            let message = format!(
                "gang {gang} could be placed only in part; what was placed of it is given back, and it starts when all of it fits"
            );
            pods.into_iter().map(move |pod| Eviction { pod, message: message.clone(), component: "volcano", is_given_back: true })
        });
        victims.chain(parts).collect()
    }

    fn failing_often(&self) -> BTreeSet<Key> {
        let often = self.failing.iter().filter(|(_, failing)| failing.count >= FAILURES_MAX);
        often.map(|(gang, _)| gang.clone()).collect()
    }

    /// Gangs of which binds failed so often that what is placed of them goes: to bind more of them would only put that off.
    pub fn to_give_back(&self) -> BTreeSet<Key> {
        let found = torn(&self.view.snapshot, &Placement::default(), &self.failing_often());
        found.into_iter().map(|(gang, _)| gang).collect()
    }

    /// What was bound of gangs of which another bind failed, and that were not completed in time: `torn` takes them for
    /// gangs that have lost a pod, because one was deleted in between.
    fn late_parts(&mut self, placement: &Placement) -> Vec<(Key, Vec<Member>)> {
        let now = Instant::now();
        let is_short = |gang: &Key| placement.waiting.get(gang).is_some_and(|waiting| !waiting.has_minimum);
        let (binding, snapshot) = (&self.binding, &self.view.snapshot);
        self.parts.retain(|gang, _| binding.contains_key(gang) || is_short(gang));
        let is_late = |gang: &Key, part: &mut Part| part.until <= now && !binding.contains_key(gang);
        let late = self.parts.extract_if(.., is_late).map(|(gang, part)| (gang, part.pods));
        let has_run = |gang: &Key| {
            let group = snapshot.gangs.find(gang).and_then(|gang| snapshot.gangs[gang].group.as_ref());
            group.is_none_or(|group| !matches!(group.phase, Phase::Pending | Phase::Inqueue))
        };
        let is_placed = |pod: &Member| {
            let known = snapshot.pods.find(&pod.key).map(|pod| &snapshot.pods[pod]);
            known.is_some_and(|known| known.uid == pod.uid && matches!(known.state, State::Bound | State::Running))
        };
        late.filter(|(gang, _)| !has_run(gang))
            .map(|(gang, pods)| (gang, pods.into_iter().filter(is_placed).collect()))
            .collect()
    }
}

fn message(evict: &Evict) -> String {
    match evict.cause {
        Cause::Preempt => format!("preempt: it makes room for {}, which has a higher priority", evict.for_gang),
        Cause::Reclaim => format!("reclaim: it gives back to {} what its queue deserves", evict.for_gang),
    }
}

async fn evict(eviction: Eviction, calls: &Calls, reporter: &Arc<Reporter>) -> Result<Option<Value>, Refusal> {
    // Its end is what matters; that it could not be told why must not keep it.
    if let Err(refusal) = calls.mark_evicted(&eviction.pod, &eviction.message).await {
        tracing::debug!(pod = %eviction.pod.key, words = refusal.words, "a pod was not told why it is evicted");
    }
    let left = calls.delete_pod(&eviction.pod).await?;
    reporter.report(events::evicted(&eviction.pod, &eviction.message, eviction.component));
    Ok(left)
}
