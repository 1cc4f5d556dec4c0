//! Sums and lists over all gangs, kept up to date gang by gang, so that a round looks only at those that wait.

use super::amounts::{Amounts, add, take};
use super::objects::{Gang, GangId, Group, Key, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What the gangs of one queue have.
#[derive(Debug, Clone, Default)]
pub struct Sums {
    pub allocated: Amounts,
    /// What gangs were let in for and have not taken yet; what running ones hold above their minimum.
    pub inqueue: Amounts,
    pub elastic: Amounts,
}

#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// By queue, whether there is such a queue or not.
    pub sums: BTreeMap<Arc<str>, Sums>,
    /// Gangs of which something waits, in the order of their names, and the oldest first.
    pub waiting: BTreeMap<Key, GangId>,
    pub ages: BTreeSet<(i64, Arc<str>, Key, GangId)>,
    /// How many gangs of a queue and a priority class hold something.
    pub holding: BTreeMap<(Arc<str>, Arc<str>), usize>,
    /// Gangs that hold something, those first that said that they end soon, then the oldest.
    pub endings: BTreeSet<(i64, i64, Key, GangId)>,
}

/// What of `least` is above `held`.
pub fn outstanding(least: &[i64], held: &[i64]) -> Amounts {
    let held = held.iter().copied().chain(std::iter::repeat(0));
    least.iter().zip(held).map(|(amount, held)| (amount - held).max(0)).collect()
}

impl Standing {
    /// Adds the gang to all sums and lists, or takes it out as it was before a change.
    pub fn count(&mut self, number: GangId, gang: &Gang, is_new: bool) {
        let Some(group) = &gang.group else { return };
        let change: fn(&mut Amounts, &[i64]) = if is_new { add } else { take };
        let sums = self.sums.entry(group.queue.clone()).or_default();
        let least = group.resources_min.as_deref().unwrap_or_default();
        change(&mut sums.allocated, &gang.allocated);
        // Pods that have succeeded leave the group Running and come for nothing more.
        let is_whole = group.phase == Phase::Running && gang.standing >= group.members_min;
        if (group.phase == Phase::Inqueue || is_whole) && !least.is_empty() {
            change(&mut sums.inqueue, &outstanding(least, &gang.allocated));
        }
        if group.resources_min.is_some() {
            change(&mut sums.elastic, &outstanding(&gang.allocated, least));
        }
        if waits(gang, group) {
            let age = (group.created, group.uid.clone(), gang.key.clone(), number);
            if is_new {
                self.waiting.insert(gang.key.clone(), number);
                self.ages.insert(age);
            } else {
                self.waiting.remove(&gang.key);
                self.ages.remove(&age);
            }
        }
        if gang.allocated.iter().any(|amount| *amount > 0) {
            self.count_holder(number, gang, group, is_new);
        }
    }

    fn count_holder(&mut self, number: GangId, gang: &Gang, group: &Group, is_new: bool) {
        let ends = group.estimate.map_or(i64::MAX, |estimate| group.created.saturating_add(estimate));
        let entry = (ends, group.created, gang.key.clone(), number);
        let class = (group.queue.clone(), group.class.clone());
        if is_new {
            self.endings.insert(entry);
            *self.holding.entry(class).or_default() += 1;
            return;
        }
        self.endings.remove(&entry);
        if let Some(count) = self.holding.get_mut(&class) {
            *count -= 1;
            if *count == 0 {
                self.holding.remove(&class);
            }
        }
    }
}

fn waits(gang: &Gang, group: &Group) -> bool {
    let is_short = group.phase == Phase::Inqueue && gang.ready < group.members_min;
    gang.pending > 0 || group.phase == Phase::Pending || is_short
}
