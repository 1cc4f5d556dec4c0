//! What each queue has, may have and deserves (spec/volcano.md 10): proportion computes it from weights and requests, drf with
//! a hierarchy does so at each fork of the queues' paths, capacity takes it from the queues, and a tree of queues bounds each
//! by its parents.

use super::amounts::{Amounts, PODS, UNLIMITED, add, get, take, wide};
use super::objects::Queue;
use super::policy::Sharing;
use super::snapshot::Snapshot;
use super::trial::Unit;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The queue that is above all others and holds no jobs.
pub const ROOT: &str = "root";
/// Deeper trees are refused at the door; a ring of parents must not be followed for ever.
const LEVELS_MAX: usize = 16;
const WHOLE: i64 = 1_000_000;

/// Which bound keeps a gang out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bound {
    /// The queue's own `capability`.
    Capability,
    /// What other queues are guaranteed.
    Guarantees,
    /// What is fair while others want their part.
    FairShare,
}

/// A queue that has too little left of a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    pub queue: Arc<str>,
    pub bound: Bound,
    pub resource: usize,
    pub asked: i64,
    pub used: i64,
    /// Kept for a gang that comes first.
    pub held: i64,
    pub limit: i64,
}

#[derive(Debug, Clone)]
pub struct Account<'a> {
    pub name: Arc<str>,
    pub queue: &'a Queue,
    pub parent: Option<usize>,
    pub has_children: bool,
    /// Its way from the root, with the weight of each step in thousandths.
    path: Vec<(&'a str, i64)>,
    pub allocated: Amounts,
    pub request: Amounts,
    /// What gangs were let in for and have not taken yet; what running ones hold above their minimum.
    pub inqueue: Amounts,
    pub elastic: Amounts,
    pub held: Amounts,
    /// Of what is allocated, what pods hold that are ending or are being evicted.
    pub leaving: Amounts,
    pub deserved: Amounts,
    /// What it may hold by its own bounds, and by those of all above it.
    pub own_limit: Amounts,
    pub limit: Amounts,
}

/// One of an account's sums.
pub type Sum<'a> = for<'b> fn(&'b mut Account<'a>) -> &'b mut Amounts;

#[derive(Debug, Clone)]
pub struct Ledger<'a> {
    pub accounts: Vec<Account<'a>>,
    numbers: BTreeMap<Arc<str>, usize>,
    resources: Vec<usize>,
    total: Amounts,
    /// What all queues together deserve.
    shared: Amounts,
    pub is_capacity: bool,
    is_free: bool,
}

impl<'a> Ledger<'a> {
    pub fn new(snapshot: &'a Snapshot, total: Amounts) -> Ledger<'a> {
        let queues = || snapshot.queues.iter().filter(|(name, _)| &***name != ROOT);
        let has_parent = |queue: &Queue| queue.parent.as_deref().is_some_and(|parent| parent != ROOT);
        let is_declared = queues().any(|(_, queue)| !queue.deserved.is_empty() || has_parent(queue));
        let (is_capacity, is_tree) = match snapshot.policy.sharing {
            Sharing::Either => (is_declared, is_declared),
            Sharing::Capacity { is_tree } => (true, is_tree),
            Sharing::Proportion | Sharing::Paths | Sharing::Free => (false, false),
        };
        let numbers: BTreeMap<Arc<str>, usize> =
            queues().enumerate().map(|(number, (name, _))| (name.clone(), number)).collect();
        let parent = |queue: &Queue| queue.parent.as_ref().and_then(|parent| numbers.get(parent).copied());
        let has_paths = snapshot.policy.sharing == Sharing::Paths;
        // The queue itself is the last step, so that no two have the same way.
        let path = |name: &'a str, queue: &'a Queue| {
            let steps = queue.path.iter().filter(|_| has_paths).map(|(step, weight)| (step.as_str(), *weight));
            steps.chain([(name, queue.weight.saturating_mul(1000))]).collect()
        };
        let account = |(name, queue): (&'a Arc<str>, &'a Queue)| Account {
            path: path(name, queue),
            name: name.clone(),
            queue,
            parent: parent(queue).filter(|_| is_tree),
            has_children: queues().any(|(_, other)| is_tree && other.parent.as_ref() == Some(name)),
            allocated: Amounts::new(),
            request: Amounts::new(),
            inqueue: Amounts::new(),
            elastic: Amounts::new(),
            held: Amounts::new(),
            leaving: Amounts::new(),
            deserved: Amounts::new(),
            own_limit: Amounts::new(),
            limit: Amounts::new(),
        };
        let accounts = queues().map(account).collect();
        let is_free = snapshot.policy.sharing == Sharing::Free;
        let resources = snapshot.names.by_name();
        Ledger { accounts, numbers, resources, total, shared: Amounts::new(), is_capacity, is_free }
    }

    pub fn find(&self, queue: &str) -> Option<usize> {
        self.numbers.get(queue).copied()
    }

    /// The queue and those above it.
    pub fn line(&self, queue: usize) -> Vec<usize> {
        self.upwards(queue).collect()
    }

    fn upwards(&self, queue: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(queue), |number| self.accounts[*number].parent).take(LEVELS_MAX)
    }

    /// Changes one of the sums of the queue and of those above it.
    pub fn enter(&mut self, queue: usize, of: Sum<'a>, amounts: &[i64]) {
        let mut next = Some(queue);
        for _ in 0..LEVELS_MAX {
            let Some(number) = next else { return };
            add(of(&mut self.accounts[number]), amounts);
            next = self.accounts[number].parent;
        }
    }

    pub fn leave(&mut self, queue: usize, of: Sum<'a>, amounts: &[i64]) {
        for number in self.line(queue) {
            take(of(&mut self.accounts[number]), amounts);
        }
    }

    /// Computes limits and shares once all gangs have been entered.
    pub fn settle(&mut self) {
        let mut downwards: Vec<usize> = (0..self.accounts.len()).collect();
        downwards.sort_by_key(|number| self.line(*number).len());
        for number in downwards {
            let own_limit = self.limit(number);
            // A child has no more than its parent (CAP-7).
            let within = |(resource, own): (usize, &i64)| (*own).min(self.limit_above(number, resource));
            self.accounts[number].limit = own_limit.iter().enumerate().map(within).collect();
            self.accounts[number].own_limit = own_limit;
        }
        if self.is_capacity {
            self.declare();
        } else {
            self.share_out();
        }
        let mut shared = Amounts::new();
        self.accounts.iter().for_each(|account| add(&mut shared, &account.deserved));
        self.shared = shared;
    }

    /// What the queue's parent may hold.
    fn limit_above(&self, number: usize, resource: usize) -> i64 {
        let parent = self.accounts[number].parent.map(|parent| &self.accounts[parent]);
        // A ring of parents has no top at which to begin.
        parent.and_then(|parent| parent.limit.get(resource).copied()).unwrap_or(UNLIMITED)
    }

    /// of what its parent may hold, what is not guaranteed to others, and not more than the capability.
    fn limit(&self, number: usize) -> Amounts {
        let account = &self.accounts[number];
        let siblings = self.accounts.iter().filter(|other| other.parent == account.parent);
        let mut guaranteed = Amounts::new();
        siblings.for_each(|other| add(&mut guaranteed, &other.queue.guarantee));
        let bound = |resource: usize| {
            let capability = account.queue.capability.get(&resource).copied().unwrap_or(UNLIMITED);
            if resource == PODS || self.is_free {
                return capability;
            }
            let own = get(&account.queue.guarantee, resource);
            // Without guarantees to others only the nodes themselves bound the queue, and that is not its own matter.
            if get(&guaranteed, resource) == own {
                return capability;
            }
            let whole = get(&self.total, resource).min(self.limit_above(number, resource));
            capability.min((whole - get(&guaranteed, resource)).max(0) + own)
        };
        (0..self.total.len()).map(bound).collect()
    }

    /// CAP-1: what the queue says, within its limit and not less than its guarantee.
    fn declare(&mut self) {
        for account in &mut self.accounts {
            let own = |resource: usize| {
                let said = account.queue.deserved.get(&resource).copied().unwrap_or(0);
                said.min(account.limit[resource]).max(get(&account.queue.guarantee, resource))
            };
            account.deserved = (0..account.limit.len()).map(own).collect();
        }
    }

    /// PROP-1: water-filling by weight among queues that want something.
    fn share_out(&mut self) {
        let width = self.total.len();
        let all: Vec<usize> = (0..self.accounts.len()).collect();
        for account in &mut self.accounts {
            account.deserved = wide(&[], width);
        }
        for resource in (0..width).filter(|resource| *resource != PODS) {
            self.share_among(resource, get(&self.total, resource), 0, &all);
        }
        for account in &mut self.accounts {
            account.deserved[PODS] = account.limit[PODS];
        }
    }

    /// Shares so much out among the queues that have come the same way for so many steps.
    fn share_among(&mut self, resource: usize, amount: i64, depth: usize, queues: &[usize]) {
        let mut branches: BTreeMap<&str, Branch> = BTreeMap::new();
        for number in queues {
            let account = &self.accounts[*number];
            let (step, weight) = account.path[depth.min(account.path.len() - 1)];
            let branch = branches.entry(step).or_insert_with(|| Branch { weight, ..Branch::default() });
            // Its guarantee is a queue's own, whatever its weight.
            let guarantee = get(&account.queue.guarantee, resource);
            branch.part += guarantee;
            branch.wish += get(&account.request, resource).min(account.limit[resource]).max(guarantee);
            branch.queues.push(*number);
        }
        let mut branches: Vec<Branch> = branches.into_values().collect();
        fill(amount, &mut branches);
        for branch in branches {
            match branch.queues.as_slice() {
                [queue] => self.accounts[*queue].deserved[resource] = branch.part,
                queues => self.share_among(resource, branch.part, depth + 1, queues),
            }
        }
    }

    /// What the queue may hold at most, and why not more.
    ///
    /// A gang that is larger than its queue's fair share may run while the queue holds nothing else; otherwise it
    /// could never run while others want something.
    fn bound(&self, number: usize, resource: usize, freed: &[i64], may_exceed: bool) -> (i64, Bound) {
        let account = &self.accounts[number];
        // Those above are asked themselves, so that the one is named whose bound it is.
        let limit = account.own_limit[resource];
        let capability = account.queue.capability.get(&resource).copied().unwrap_or(UNLIMITED);
        let kind = if limit >= capability { Bound::Capability } else { Bound::Guarantees };
        if self.is_capacity || self.is_free {
            return (limit, kind);
        }
        let deserved = account.deserved[resource];
        // A queue that shares with nobody may have what there is.
        let is_alone = deserved >= get(&self.shared, resource);
        let is_idle = get(&account.allocated, resource) <= get(freed, resource) && get(&account.held, resource) == 0;
        let is_exempt = is_alone || (is_idle && may_exceed);
        if !is_exempt && deserved < limit { (deserved, Bound::FairShare) } else { (limit, kind) }
    }

    /// Why the queue cannot take so much more (PROP-4, CAP-3); `freed` is what victims would give back to it and to each
    /// above it.
    pub fn shortage(&self, queue: usize, more: &[i64], freed: &[Amounts]) -> Option<Shortage> {
        self.shortage_of(queue, more, freed, true)
    }

    /// The same for what is not a gang's minimum: it never goes beyond the fair share.
    pub fn shortage_for_more(&self, queue: usize, more: &[i64], freed: &[Amounts]) -> Option<Shortage> {
        self.shortage_of(queue, more, freed, false)
    }

    fn shortage_of(&self, queue: usize, more: &[i64], freed: &[Amounts], may_exceed: bool) -> Option<Shortage> {
        let freed = |level: usize| freed.get(level).map_or(&[][..], Vec::as_slice);
        let mut line = self.upwards(queue).enumerate();
        line.find_map(|(level, number)| self.shortage_at(number, more, freed(level), may_exceed))
    }

    /// The same for one queue, whatever those above it have.
    pub fn shortage_at(&self, number: usize, more: &[i64], freed: &[i64], may_exceed: bool) -> Option<Shortage> {
        let account = &self.accounts[number];
        for resource in self.resources.iter().copied().filter(|resource| get(more, *resource) > 0) {
            let (limit, bound) = self.bound(number, resource, freed, may_exceed);
            let (used, held) = (get(&account.allocated, resource), get(&account.held, resource));
            let asked = get(more, resource);
            if used.saturating_add(held).saturating_add(asked).saturating_sub(get(freed, resource)) > limit {
                let queue = account.name.clone();
                return Some(Shortage { queue, bound, resource, asked, used, held, limit });
            }
        }
        None
    }

    /// Whether the queue could ever take so much: when it holds nothing else.
    pub fn is_ever_enough(&self, queue: usize, more: &[i64]) -> bool {
        let fits = |number: &usize| {
            let limit = &self.accounts[*number].limit;
            more.iter().enumerate().all(|(resource, more)| *more <= 0 || *more <= limit[resource])
        };
        self.line(queue).iter().all(fits)
    }

    /// How much of what it deserves the queue has, in millionths (PROP-2, CAP-2).
    pub fn share(&self, number: usize) -> i64 {
        let account = &self.accounts[number];
        if self.is_capacity && account.queue.deserved.is_empty() {
            return WHOLE;
        }
        let counts = |resource: &usize| {
            *resource != PODS && (!self.is_capacity || account.queue.deserved.contains_key(resource))
        };
        let share = |resource: usize| match (get(&account.allocated, resource), get(&account.deserved, resource)) {
            (0, _) => 0,
            (_, 0) => WHOLE,
            (allocated, deserved) => {
                i64::try_from(i128::from(allocated) * i128::from(WHOLE) / i128::from(deserved)).unwrap_or(i64::MAX)
            }
        };
        self.resources.iter().copied().filter(counts).map(share).max().unwrap_or(0)
    }

    /// Smaller goes first (Q-2, PROP-2, CAP-2, TIER-1). Of equals the one whose gang waits longest, or a queue whose
    /// gangs come and go would always be before one that has a large gang.
    pub fn rank(&self, number: usize, share: i64, oldest: i64) -> (Reverse<i64>, i64, bool, i64, i64, &str) {
        let account = &self.accounts[number];
        let is_last = self.is_capacity && account.queue.deserved.is_empty();
        let queue = account.queue;
        (Reverse(queue.priority), share, is_last, oldest, queue.created, &account.name)
    }

    /// Whether the queue may take back from others for a gang of this size (CAP-5; PROP-3 the other way round).
    ///
    /// Those above it may be full of what its siblings have beyond their due.
    pub fn may_reclaim(&self, queue: usize, more: &[i64]) -> bool {
        self.stays_within(queue, more) && self.shortage_at(queue, more, &[], false).is_none()
    }

    /// Whether with so much more the queue has no more than it deserves of some resource: it does not borrow all of it. What
    /// is leaving counts no more: when it has gone, the queue would come before all that borrow.
    pub fn stays_within(&self, queue: usize, more: &[i64]) -> bool {
        let account = &self.accounts[queue];
        let stays = |resource: &usize| {
            let stays = get(&account.allocated, *resource) - get(&account.leaving, *resource);
            let has = stays + get(&account.held, *resource);
            let after = has.saturating_add(get(more, *resource));
            *resource != PODS && get(more, *resource) > 0 && after <= get(&account.deserved, *resource)
        };
        self.resources.iter().any(stays)
    }

    /// Whether a queue that has lost `lost` already may lose pods that hold `held` (PROP-6, CAP-6).
    ///
    /// The last whole gang of a queue stays, or a gang larger than the fair share would start again and again.
    pub fn may_lose(&self, queue: usize, unit: &Unit, lost: &[i64], wanted: &[i64]) -> bool {
        let held = &unit.held;
        let account = &self.accounts[queue];
        let uses = |resource: &usize| *resource != PODS && get(held, *resource) > 0;
        let shares = |resource: &usize| uses(resource) && get(wanted, *resource) > 0;
        let left =
            |resource: usize| get(&account.allocated, resource) - get(&account.leaving, resource) - get(lost, resource);
        let is_declared = |resource: &usize| account.queue.deserved.contains_key(resource);
        let is_over = |resource: &usize| {
            (!self.is_capacity || is_declared(resource)) && left(*resource) > get(&account.deserved, *resource)
        };
        let keeps = |resource: usize| left(resource) - get(held, resource) >= get(&account.queue.guarantee, resource);
        let all = || self.resources.iter();
        let empties = |resource: &usize| shares(resource) && left(*resource) - get(held, *resource) <= 0;
        let is_last = unit.is_core && all().any(empties);
        let is_unclaimed = self.is_capacity && !all().any(|resource| uses(resource) && is_declared(resource));
        account.queue.is_reclaimable
            && (!is_last || is_unclaimed)
            && all().any(shares)
            && all().filter(|resource| shares(resource)).all(|resource| keeps(*resource))
            && (is_unclaimed || all().any(|resource| shares(resource) && is_over(resource)))
    }

    pub fn resources(&self) -> &[usize] {
        &self.resources
    }

    pub fn total(&self) -> &[i64] {
        &self.total
    }
}

/// Queues that stand together at a fork: what they are given, and what they want in all.
#[derive(Debug, Default)]
struct Branch {
    weight: i64,
    part: i64,
    wish: i64,
    queues: Vec<usize>,
}

/// Water-filling: what is not guaranteed goes by weight to those who still want something, until there is no more of one or the other.
fn fill(amount: i64, branches: &mut [Branch]) {
    let mut left = amount - branches.iter().map(|branch| branch.part).sum::<i64>();
    while left > 0 {
        let wants = |branch: &&Branch| branch.part < branch.wish;
        let weights: i128 = branches.iter().filter(wants).map(|branch| i128::from(branch.weight)).sum();
        if weights == 0 {
            break;
        }
        let round = left;
        for branch in branches.iter_mut().filter(|branch| branch.part < branch.wish) {
            let part = i128::from(round) * i128::from(branch.weight) / weights;
            // What is too little to be cut goes to the first that want it.
            let part = i64::try_from(part).unwrap_or(i64::MAX).max(1).min(left);
            let gain = part.min(branch.wish - branch.part);
            branch.part += gain;
            left -= gain;
        }
    }
}
