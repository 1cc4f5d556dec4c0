//! What a placement learns from its own beginnings: looked at as a whole, some of it would better have been left undone.
//!
//! A round decides gang by gang, and what it decides for a later one can make vain what it did for an earlier one. It is then
//! begun anew, knowing that. Nothing of this is kept from one placement to the next.

use super::amounts::{Amounts, add};
use super::objects::{GangId, Key, PodId};
use super::round::Round;
use super::trial::{self, Options, Promise};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default)]
pub struct Lessons {
    /// Pods that were placed and would then have been evicted: they have their turn after all others.
    pub hasty: BTreeSet<PodId>,
    /// Those of them that would be evicted even so, and for whom: they have none.
    pub futile: BTreeMap<PodId, Key>,
    /// Pods that were evicted for a gang and need not have gone for it.
    pub needless: BTreeSet<(PodId, GangId)>,
    /// Gangs for which others were evicted in vain.
    pub vain: BTreeSet<GangId>,
}

impl Lessons {
    pub fn is_empty(&self) -> bool {
        self.hasty.is_empty() && self.futile.is_empty() && self.needless.is_empty() && self.vain.is_empty()
    }

    pub fn learn(&mut self, more: Lessons) {
        self.hasty.extend(more.hasty);
        self.futile.extend(more.futile);
        self.needless.extend(more.needless);
        self.vain.extend(more.vain);
    }
}

impl Round<'_> {
    /// Notes that the gang would evict these, which were placed for nothing.
    pub fn regret(&mut self, gainer: usize, placed: Vec<PodId>) {
        for pod in placed {
            if self.lessons.hasty.contains(&pod) {
                self.learned.futile.insert(pod, self.asks[gainer].gang.key.clone());
            } else {
                self.learned.hasty.insert(pod);
            }
        }
    }

    /// Looks at all evictions together, once they are decided.
    pub fn review(&mut self) {
        let mut victims: BTreeMap<(usize, GangId), BTreeSet<PodId>> = BTreeMap::new();
        for (pod, key) in &self.room.going {
            // They are in the order of their names.
            let gainer = self.asks.binary_search_by(|ask| ask.gang.key.cmp(key));
            if let Some((gang, gainer)) = self.snapshot.pods[*pod].gang.zip(gainer.ok()) {
                victims.entry((gainer, gang)).or_default().insert(*pod);
            }
        }
        let promises = self.promises().len();
        for ((gainer, _), pods) in &victims {
            let id = self.asks[*gainer].id;
            let Some(promise) = self.promise_to(*gainer) else {
                self.learned.vain.insert(id);
                continue;
            };
            // Of one gang alone each victim was found to be needed when it was chosen.
            let is_sure = promises == 1 && promise.gone.iter().any(|pod| pods.contains(pod));
            if !is_sure && self.fits_beside(*gainer, pods) {
                self.learned.needless.extend(pods.iter().map(|pod| (*pod, id)));
            }
        }
    }

    /// Whether the gang would fit beside these pods, with all others where they will be.
    fn fits_beside(&mut self, gainer: usize, pods: &BTreeSet<PodId>) -> bool {
        let gone: Vec<PodId> = self.room.leaving().into_iter().filter(|pod| !pods.contains(pod)).collect();
        let others =
            self.reservations.iter().filter(|kept| kept.ask != gainer).filter_map(|kept| kept.promise.as_ref());
        let puts = others.flat_map(|promise| promise.puts.clone()).collect();
        let own = self.promise_to(gainer).map(|promise| promise.puts.clone()).unwrap_or_default();
        let own = self.asked_by(own.into_iter().map(|(pod, _)| pod));
        // It asks as if nothing were kept for it yet.
        let queue = self.asks[gainer].queue;
        self.ledger.leave(queue, |account| &mut account.held, &own);
        self.lift_promises(-1);
        let claimed = std::mem::replace(&mut self.claimed, gone.iter().copied().collect());
        let kin = self.kin(gainer);
        let options = Options { units: &[], kin: &kin, promises: &[Promise { gone, puts }] };
        let fits = self.with_fit(gainer, (&kin, &[]), |room, fits| trial::is_enough(room, &options, &[], fits));
        self.claimed = claimed;
        self.lift_promises(1);
        self.ledger.enter(queue, |account| &mut account.held, &own);
        fits
    }

    fn promise_to(&self, gainer: usize) -> Option<&Promise> {
        self.reservations.iter().filter(|kept| kept.ask == gainer).find_map(|kept| kept.promise.as_ref())
    }

    /// What the pods ask for together.
    pub fn asked_by(&self, pods: impl Iterator<Item = PodId>) -> Amounts {
        let mut asked = Amounts::new();
        pods.for_each(|pod| add(&mut asked, &self.snapshot.shapes[self.snapshot.pods[pod].shape].request));
        asked
    }
}
