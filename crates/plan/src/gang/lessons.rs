//! What a placement learns from its own beginnings: looked at as a whole, some of it would better have been left undone.
//!
//! A round decides gang by gang, and what it decides for a later one can make vain what it did for an earlier one. It is then
//! begun anew, knowing that. Nothing of this is kept from one placement to the next.

use super::amounts::{Amounts, add};
use super::objects::{GangId, PodId};
use super::round::Round;
use super::trial::{self, Options, Promise, Unit};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default)]
pub struct Lessons {
    /// Pods that were placed and would then have been evicted: they have their turn after all others.
    pub hasty: BTreeSet<PodId>,
    /// Pods that were evicted for a gang and need not have gone for it.
    pub needless: BTreeSet<(PodId, GangId)>,
    /// Gangs for which others were evicted in vain.
    pub vain: BTreeSet<GangId>,
}

impl Lessons {
    pub fn is_empty(&self) -> bool {
        self.hasty.is_empty() && self.needless.is_empty() && self.vain.is_empty()
    }

    pub fn learn(&mut self, more: Lessons) {
        self.hasty.extend(more.hasty);
        self.needless.extend(more.needless);
        self.vain.extend(more.vain);
    }
}

impl Round<'_> {
    /// Looks at all evictions together, once they are decided.
    pub fn review(&mut self) {
        let mut victims: BTreeMap<(GangId, usize), Vec<PodId>> = BTreeMap::new();
        for (pod, key) in &self.room.going {
            // They are in the order of their names.
            let gainer = self.asks.binary_search_by(|ask| ask.gang.key.cmp(key));
            if let Some((gang, gainer)) = self.snapshot.pods[*pod].gang.zip(gainer.ok()) {
                victims.entry((gang, gainer)).or_default().push(*pod);
            }
        }
        for ((_, gainer), pods) in &victims {
            let id = self.asks[*gainer].id;
            if !self.has_promise(*gainer) {
                self.learned.vain.insert(id);
            } else if !pods.iter().any(|pod| self.claimed.contains(pod)) {
                self.learned.needless.extend(pods.iter().map(|pod| (*pod, id)));
            }
        }
        let gainers: BTreeSet<usize> = victims.keys().map(|(_, gainer)| *gainer).collect();
        // Of one gang alone each victim was found to be needed when it was chosen.
        if self.learned.is_empty() && self.promises().len() > 1 {
            gainers.into_iter().for_each(|gainer| self.review_gainer(gainer, &victims));
        }
    }

    /// What others get may leave a gang more than there was when its victims were chosen.
    fn review_gainer(&mut self, gainer: usize, victims: &BTreeMap<(GangId, usize), Vec<PodId>>) {
        let Some((own, others)) = self.promises_around(gainer) else { return };
        let (id, queue) = (self.asks[gainer].id, self.asks[gainer].queue);
        let mut gone: BTreeMap<Option<GangId>, Vec<PodId>> = BTreeMap::new();
        own.gone.iter().for_each(|pod| gone.entry(self.snapshot.pods[*pod].gang).or_default().push(*pod));
        let units: Vec<Unit> = gone.values().map(|pods| self.unit_of(pods.clone())).collect();
        let promised = self.asked_by(own.puts.iter().map(|(pod, _)| *pod));
        // The gang asks as if nothing were kept for it yet.
        self.lift_promises(-1);
        self.ledger.leave(queue, |account| &mut account.held, &promised);
        own.gone.iter().for_each(|pod| {
            self.claimed.remove(pod);
        });
        let kin = self.kin(gainer);
        let options = Options { units: &units, kin: &kin, promises: &others };
        for (spared, gang) in gone.keys().enumerate() {
            let Some(pods) = gang.and_then(|gang| victims.get(&(gang, gainer))) else { continue };
            let chosen: Vec<usize> = (0..units.len()).filter(|unit| *unit != spared).collect();
            if self.with_fit(gainer, (&kin, &[]), |room, fits| trial::is_enough(room, &options, &chosen, fits)) {
                self.learned.needless.extend(pods.iter().map(|pod| (*pod, id)));
                break;
            }
        }
        self.claimed.extend(&own.gone);
        self.ledger.enter(queue, |account| &mut account.held, &promised);
        self.lift_promises(1);
    }

    /// Pods that go together.
    fn unit_of(&self, pods: Vec<PodId>) -> Unit {
        let held = self.asked_by(pods.iter().copied());
        let queue = pods.first().and_then(|pod| self.queue_of(*pod));
        Unit { gang: None, queue, pods, is_core: true, cost: 0, held, until: None, is_leaving: true }
    }

    /// What the pods ask for together.
    pub fn asked_by(&self, pods: impl Iterator<Item = PodId>) -> Amounts {
        let mut asked = Amounts::new();
        pods.for_each(|pod| add(&mut asked, &self.snapshot.shapes[self.snapshot.pods[pod].shape].request));
        asked
    }

    fn promises_around(&self, gainer: usize) -> Option<(Promise, Vec<Promise>)> {
        let (own, others): (Vec<_>, Vec<_>) =
            self.reservations.iter().filter(|kept| kept.promise.is_some()).partition(|kept| kept.ask == gainer);
        let own = own.into_iter().find_map(|kept| kept.promise.clone())?;
        Some((own, others.into_iter().filter_map(|kept| kept.promise.clone()).collect()))
    }

    fn has_promise(&self, gainer: usize) -> bool {
        self.reservations.iter().any(|kept| kept.ask == gainer && kept.promise.is_some())
    }
}
