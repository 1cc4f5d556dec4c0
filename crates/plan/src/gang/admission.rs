//! Which gangs are let in when it is their turn, so that their pods may be made (ACT-1, PROP-5, CAP-4, overcommit, resourcequota, sla).
//!
//! A gang that the whole cluster has no room for keeps its place: what it wants is counted for those behind it, or many
//! small gangs would keep a large one out for ever. One that its own queue or namespace refuses keeps nobody else out.

use super::amounts::{Amounts, add, get};
use super::ask::Ask;
use super::objects::Quota;
use super::queues::Bound;
use super::round::Round;
use super::standing::outstanding;
use super::why::{Holders, WaitingOn};
use std::collections::BTreeMap;

/// What is in use and what has been let in, in all and by namespace quota.
#[derive(Debug, Default)]
pub struct Door {
    pub used: Amounts,
    pub promised: Amounts,
    quotas: BTreeMap<(String, String), BTreeMap<String, i64>>,
}

impl Round<'_> {
    /// What all nodes give already.
    pub fn used(&self) -> Amounts {
        let mut used = Amounts::new();
        self.room.nodes.iter().for_each(|node| add(&mut used, &node.used));
        used
    }

    /// Counts what is promised: nothing is kept any more for gangs that were refused.
    pub fn open_door(&mut self) {
        self.door.promised.clear();
        let top = self.ledger.accounts.iter().filter(|account| account.parent.is_none());
        top.for_each(|account| add(&mut self.door.promised, &account.inqueue));
    }

    /// Lets the gang in if it is not in yet; the reason if it must stay out.
    pub fn admit(&mut self, at: usize) -> Option<WaitingOn> {
        if self.asks[at].is_in {
            return None;
        }
        let mut door = std::mem::take(&mut self.door);
        let refusal = self.refusal(&self.asks[at], &mut door);
        self.door = door;
        if refusal.is_none() {
            let ask = &self.asks[at];
            let least = ask.group.resources_min.as_deref().unwrap_or_default();
            self.ledger.enter(ask.queue, |account| &mut account.inqueue, &outstanding(least, &ask.held));
            self.placement.admit.push(ask.gang.key.clone());
            self.asks[at].is_in = true;
        }
        refusal
    }

    fn refusal(&self, ask: &Ask, door: &mut Door) -> Option<WaitingOn> {
        if let Some(on) = self.queue_refusal(ask) {
            return Some(on);
        }
        let policy = &self.snapshot.policy;
        let least = ask.group.resources_min.as_ref().filter(|_| policy.enqueues)?;
        let patience = ask.group.patience.or(policy.patience);
        let is_over = patience.is_some_and(|patience| self.now - ask.group.created >= patience);
        if is_over && policy.patience_decides {
            return None;
        }
        let on = self.limit_refusal(ask, least).or_else(|| self.total_refusal(least, door));
        let on = on.or_else(|| self.quota_refusal(ask, least, door));
        let could_ever = || self.ledger.is_ever_enough(ask.queue, least) && self.ceiling(least).is_none();
        let keeps_place = matches!(on, Some(WaitingOn::Admission { .. })) && could_ever();
        if on.is_none() || keeps_place {
            add(&mut door.promised, &outstanding(least, &ask.held));
        }
        on
    }

    /// A queue that is not there for this gang (Q-1, QC-5, CAP-3).
    pub fn queue_refusal(&self, ask: &Ask) -> Option<WaitingOn> {
        let account = &self.ledger.accounts[ask.queue];
        let queue = || account.name.to_string();
        if !account.queue.is_open() {
            return Some(WaitingOn::ClosedQueue { queue: queue(), state: account.queue.state.clone() });
        }
        account.has_children.then(|| WaitingOn::ParentQueue { queue: queue() })
    }

    /// PROP-5, for the queue and those above it.
    fn limit_refusal(&self, ask: &Ask, least: &[i64]) -> Option<WaitingOn> {
        for number in self.ledger.line(ask.queue) {
            let account = &self.ledger.accounts[number];
            for resource in self.ledger.resources().iter().copied().filter(|resource| get(least, *resource) > 0) {
                let used = get(&account.allocated, resource) + get(&account.inqueue, resource)
                    - get(&account.elastic, resource);
                let (asked, limit) = (get(least, resource), account.own_limit[resource]);
                if used.saturating_add(asked) > limit {
                    let names = &self.snapshot.names;
                    let capability = account.queue.capability.get(&resource);
                    let is_own = capability.is_some_and(|capability| limit >= *capability);
                    return Some(WaitingOn::QueueLimit {
                        queue: account.name.to_string(),
                        bound: if is_own { Bound::Capability } else { Bound::Guarantees },
                        resource: names.name(resource).to_owned(),
                        asked: names.show(resource, asked),
                        used: names.show(resource, used),
                        limit: names.show(resource, limit),
                        kept_for: None,
                        holders: Holders::default(),
                    });
                }
            }
        }
        None
    }

    /// A resource of which the whole cluster could not let in so much, even empty.
    fn ceiling(&self, least: &[i64]) -> Option<usize> {
        let factor = self.snapshot.policy.overcommit?;
        let total = self.ledger.total();
        let is_over = |resource: &usize| get(least, *resource) > get(total, *resource).saturating_mul(factor) / 1000;
        self.ledger.resources().iter().copied().filter(|resource| get(least, *resource) > 0).find(is_over)
    }

    fn total_refusal(&self, least: &[i64], door: &Door) -> Option<WaitingOn> {
        let factor = i128::from(self.snapshot.policy.overcommit?);
        let names = &self.snapshot.names;
        for resource in self.ledger.resources().iter().copied().filter(|resource| get(least, *resource) > 0) {
            let total = i128::from(get(self.ledger.total(), resource)) * factor / 1000;
            let limit = i64::try_from(total).unwrap_or(i64::MAX);
            let (asked, used) = (get(least, resource), get(&door.used, resource));
            let promised = get(&door.promised, resource);
            if asked.saturating_add(promised).saturating_add(used) > limit {
                let show = |amount| names.show(resource, amount);
                return Some(WaitingOn::Admission {
                    resource: names.name(resource).to_owned(),
                    asked: show(asked),
                    used: show(used),
                    promised: show(promised),
                    limit: show(limit),
                });
            }
        }
        None
    }

    /// resourcequota: within the namespace's quotas, with what was let in before in this round.
    fn quota_refusal(&self, ask: &Ask, least: &[i64], door: &mut Door) -> Option<WaitingOn> {
        if !self.snapshot.policy.keeps_quotas {
            return None;
        }
        let names = &self.snapshot.names;
        let of_it = |quota: &Quota| *quota.namespace == *ask.gang.key.namespace;
        let mut taken = Vec::new();
        for (key, quota) in self.snapshot.quotas.iter().filter(|(_, quota)| of_it(quota)) {
            for resource in self.ledger.resources().iter().copied().filter(|resource| get(least, *resource) > 0) {
                let name = names.name(resource);
                // A quota's numbers are in thousandths whatever the resource.
                let unit = if names.show(resource, 1) == "1" { 1000 } else { 1 };
                let asked = get(least, resource).saturating_mul(unit);
                for counted in [name.to_owned(), format!("requests.{name}")] {
                    let Some(hard) = quota.hard.get(&counted) else { continue };
                    let before = door.quotas.get(key).and_then(|taken| taken.get(&counted)).copied().unwrap_or(0);
                    let left = hard - quota.used.get(&counted).copied().unwrap_or(0) - before;
                    if asked > left {
                        return Some(WaitingOn::NamespaceQuota {
                            quota: key.1.clone(),
                            resource: counted,
                            asked: names.show(resource, asked / unit),
                            left: names.show(resource, (left / unit).max(0)),
                        });
                    }
                    taken.push((key.clone(), counted, asked));
                }
            }
        }
        for (key, counted, asked) in taken {
            *door.quotas.entry(key).or_default().entry(counted).or_default() += asked;
        }
        None
    }
}
