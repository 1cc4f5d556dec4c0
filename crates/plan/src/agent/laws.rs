//! Agents at work on a pretend server and cluster, dying between any two deeds: nothing is lost, nothing is done twice.

use super::life::*;
use super::state::State;
use jiff::Timestamp;
use proptest::prelude::*;
use std::collections::BTreeMap;

const ITEMS: usize = 3;
const AGENTS: usize = 2;
/// More rounds than an undisturbed world needs to bring every item to its end.
const ROUNDS_MAX: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Failed,
    Stopped,
}

#[derive(Clone, Debug)]
struct ServerItem {
    standing: Standing,
    holder: Option<usize>,
    lease: u32,
    attempt: u32,
    is_stop_asked: bool,
    /// Every end that was written; there must be one.
    ends: Vec<End>,
}

#[derive(Clone, Debug)]
struct Object {
    state: State,
    is_being_deleted: bool,
    is_held: bool,
    verdict: Option<String>,
    owns_its_own: bool,
    is_disrupted: bool,
    has_pod: bool,
}

#[derive(Clone, Debug, Default)]
struct World {
    items: Vec<ServerItem>,
    objects: BTreeMap<(usize, u32), Object>,
    helpers: BTreeMap<usize, bool>,
    /// How often the pod of an attempt was begun.
    begun: BTreeMap<(usize, u32), u32>,
    is_dead: [bool; AGENTS],
    /// The lease by which each agent last knew an item as its own.
    held: BTreeMap<(usize, usize), u32>,
}

#[derive(Clone, Debug)]
enum Turn {
    /// An agent looks at an item and dies after so many deeds; a large number means that it does not.
    Work {
        agent: usize,
        item: usize,
        deeds: usize,
    },
    /// It decides by what it saw before the turn named last.
    Pop {
        agent: usize,
    },
    Begin(usize),
    End {
        item: usize,
        is_good: bool,
    },
    Disrupt(usize),
    TimeToLive(usize),
    DeletedBySomebody(usize),
    Stop(usize),
    Dies(usize),
    Lives(usize),
}

impl World {
    fn new() -> World {
        let item = ServerItem {
            standing: Standing::Pending,
            holder: None,
            lease: 0,
            attempt: 1,
            is_stop_asked: false,
            ends: Vec::new(),
        };
        World { items: vec![item; ITEMS], ..World::default() }
    }

    fn see(&self, agent: usize, index: usize) -> Seen {
        let item = &self.items[index];
        let is_mine = item.holder == Some(agent) && self.held.get(&(agent, index)) == Some(&item.lease);
        let is_orphaned = !is_mine && item.holder.is_some_and(|holder| holder == agent || self.is_dead[holder]);
        let of_item = |(number, _): &(&(usize, u32), &Object)| number.0 == index;
        let object = self.objects.get(&(index, item.attempt));
        Seen {
            item: Item {
                standing: item.standing,
                is_mine,
                is_orphaned,
                attempt: item.attempt,
                is_stop_asked: item.is_stop_asked,
            },
            image: Image::Ready,
            refusal: None,
            workload: object.map(|object| Workload {
                state: object.state,
                since: Timestamp::UNIX_EPOCH,
                is_being_deleted: object.is_being_deleted,
                is_held: object.is_held,
                verdict: object.verdict.clone(),
                owns_its_own: object.owns_its_own,
                is_disrupted: object.is_disrupted,
                failure: None,
            }),
            has_older: self.objects.keys().any(|(number, attempt)| *number == index && *attempt < item.attempt),
            pods: self.objects.iter().filter(of_item).filter(|(_, object)| object.has_pod).count(),
            strays: 0,
            has_helpers: self.helpers.contains_key(&index),
            trouble: None,
            lacks_run: false,
        }
    }

    /// Carries a deed out, guarded as the server and the cluster guard it; says whether to go on.
    fn act(&mut self, agent: usize, index: usize, deed: &Deed) -> bool {
        let lease = self.held.get(&(agent, index)).copied();
        let item = &mut self.items[index];
        let is_held = item.holder == Some(agent) && lease == Some(item.lease);
        let key = (index, item.attempt);
        let end = |item: &mut ServerItem, end: End| {
            let may = is_held && item.standing == Standing::Claimed;
            if may {
                item.standing = Standing::Ended;
                item.ends.push(end);
            }
            may
        };
        match deed {
            Deed::Adopt => {
                item.lease += 1;
                item.holder = Some(agent);
                let lease = item.lease;
                self.held.insert((agent, index), lease);
            }
            Deed::Acknowledge if !is_held => return false,
            Deed::Acknowledge => item.standing = Standing::Claimed,
            Deed::Build | Deed::CancelBuild => (),
            Deed::Submit if !is_held => return false,
            Deed::Submit => {
                self.helpers.insert(index, false);
                self.objects.entry(key).or_insert(Object {
                    state: State::Unknown,
                    is_being_deleted: false,
                    is_held: true,
                    verdict: None,
                    owns_its_own: false,
                    is_disrupted: false,
                    has_pod: false,
                });
            }
            Deed::Own => {
                if let Some(object) = self.objects.get_mut(&key) {
                    object.owns_its_own = true;
                }
            }
            Deed::Mark(reason) => {
                if let Some(object) = self.objects.get_mut(&key) {
                    object.verdict = Some(reason.clone());
                }
            }
            Deed::Delete => self.delete(key),
            Deed::DeleteOlder => self.older(index).into_iter().for_each(|key| self.delete(key)),
            Deed::Finish => return end(item, End::Finished),
            Deed::Fail { .. } => return end(item, End::Failed),
            Deed::Stopped => {
                if item.standing == Standing::Leased && is_held {
                    item.standing = Standing::Claimed;
                }
                return end(item, End::Stopped);
            }
            Deed::Requeue if !is_held || item.standing != Standing::Claimed => return false,
            Deed::Requeue => {
                item.standing = Standing::Pending;
                item.holder = None;
                item.attempt += 1;
            }
            Deed::Release => self.release(key),
            Deed::ReleaseOlder => self.older(index).into_iter().for_each(|key| self.release(key)),
            Deed::Sweep => drop(self.helpers.remove(&index)),
        }
        true
    }

    fn older(&self, index: usize) -> Vec<(usize, u32)> {
        let attempt = self.items[index].attempt;
        self.objects.keys().filter(|(number, other)| *number == index && *other < attempt).copied().collect()
    }

    fn delete(&mut self, key: (usize, u32)) {
        if let Some(object) = self.objects.get_mut(&key) {
            object.is_being_deleted = true;
            object.has_pod = false;
        }
        self.collect(key);
    }

    fn release(&mut self, key: (usize, u32)) {
        if let Some(object) = self.objects.get_mut(&key) {
            object.is_held = false;
        }
        self.collect(key);
    }

    /// What is deleted and held by nobody is gone, and what it owns with it.
    fn collect(&mut self, key: (usize, u32)) {
        if self.objects.get(&key).is_some_and(|object| object.is_being_deleted && !object.is_held) {
            let object = self.objects.remove(&key);
            if object.is_some_and(|object| object.owns_its_own) {
                self.helpers.remove(&key.0);
            }
        }
    }

    fn happen(&mut self, turn: &Turn) {
        let key = |world: &World, index: usize| (index, world.items[index].attempt);
        match *turn {
            Turn::Work { agent, item, deeds } => self.work(agent, item, deeds),
            Turn::Pop { agent } => self.pop(agent),
            Turn::Begin(item) => {
                let key = key(self, item);
                if let Some(object) = self.objects.get_mut(&key)
                    && !object.is_being_deleted
                    && object.state == State::Unknown
                {
                    object.state = State::Running;
                    object.has_pod = true;
                    *self.begun.entry(key).or_default() += 1;
                }
            }
            Turn::End { item, is_good } => self.with_pod(item, |object| {
                object.state = if is_good { State::Finished } else { State::Failed };
            }),
            Turn::Disrupt(item) => self.with_pod(item, |object| {
                object.is_disrupted = true;
                object.state = State::Failed;
            }),
            Turn::TimeToLive(item) => {
                let key = key(self, item);
                if self.objects.get(&key).is_some_and(|object| object.state.is_final()) {
                    self.delete(key);
                }
            }
            Turn::DeletedBySomebody(item) => self.delete(key(self, item)),
            Turn::Stop(item) => self.items[item].is_stop_asked = true,
            Turn::Dies(agent) => self.is_dead[agent] = true,
            Turn::Lives(agent) => self.is_dead[agent] = false,
        }
    }

    fn with_pod(&mut self, item: usize, change: impl Fn(&mut Object)) {
        let key = (item, self.items[item].attempt);
        if let Some(object) = self.objects.get_mut(&key).filter(|object| object.has_pod) {
            change(object);
            object.has_pod = false;
        }
    }

    fn pop(&mut self, agent: usize) {
        if self.is_dead[agent] {
            return;
        }
        let waiting = self.items.iter().position(|item| item.standing == Standing::Pending);
        if let Some(index) = waiting {
            let item = &mut self.items[index];
            item.standing = Standing::Leased;
            item.holder = Some(agent);
            item.lease += 1;
            let lease = item.lease;
            self.held.insert((agent, index), lease);
        }
    }

    fn work(&mut self, agent: usize, index: usize, most: usize) {
        if self.is_dead[agent] {
            return;
        }
        let seen = self.see(agent, index);
        let plan = plan(&seen, &Timers::default(), Timestamp::UNIX_EPOCH);
        for (done, deed) in plan.deeds.iter().enumerate() {
            if done == most {
                // It dies here; another life knows none of its leases.
                self.held.retain(|(other, _), _| *other != agent);
                return;
            }
            if !self.act(agent, index, deed) {
                return;
            }
        }
    }

    /// Everybody lives and means well, until nothing is left to do.
    fn go_well(&mut self) -> Result<(), String> {
        self.is_dead = [false, true];
        for _ in 0..ROUNDS_MAX {
            self.pop(0);
            for index in 0..ITEMS {
                self.work(0, index, usize::MAX);
                self.happen(&Turn::Begin(index));
                self.happen(&Turn::End { item: index, is_good: true });
            }
        }
        let restless = (0..ITEMS)
            .find(|index| !plan(&self.see(0, *index), &Timers::default(), Timestamp::UNIX_EPOCH).deeds.is_empty());
        restless.map_or(Ok(()), |index| Err(format!("item {index} is not at rest: {:?}", self.see(0, index))))
    }
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let (agent, item) = (0..AGENTS, 0..ITEMS);
    prop_oneof![
        8 => (agent.clone(), item.clone(), 0usize..5).prop_map(|(agent, item, deeds)| Turn::Work { agent, item, deeds }),
        4 => (agent.clone(), item.clone()).prop_map(|(agent, item)| Turn::Work { agent, item, deeds: usize::MAX }),
        3 => agent.clone().prop_map(|agent| Turn::Pop { agent }),
        3 => item.clone().prop_map(Turn::Begin),
        2 => (item.clone(), any::<bool>()).prop_map(|(item, is_good)| Turn::End { item, is_good }),
        1 => item.clone().prop_map(Turn::Disrupt),
        2 => item.clone().prop_map(Turn::TimeToLive),
        1 => item.clone().prop_map(Turn::DeletedBySomebody),
        1 => item.prop_map(Turn::Stop),
        1 => agent.clone().prop_map(Turn::Dies),
        1 => agent.prop_map(Turn::Lives),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    // Whatever happens and whoever dies when: every item gets one end, every attempt runs at most once, an item that
    // finished ran, and nothing is left behind.
    #[test]
    // L-4, L-31, L-33, L-36, A-34
    fn nothing_is_lost_and_nothing_is_done_twice(turns in prop::collection::vec(any_turn(), 0..120)) {
        let mut world = World::new();
        for turn in &turns {
            world.happen(turn);
            for item in &world.items {
                prop_assert!(item.ends.len() <= 1, "{item:?}");
            }
        }
        world.go_well().map_err(TestCaseError::fail)?;
        for (key, count) in &world.begun {
            prop_assert_eq!(*count, 1, "attempt {:?} ran {} times", key, count);
        }
        for (index, item) in world.items.iter().enumerate() {
            prop_assert_eq!(item.ends.len(), 1, "{:?}", item);
            prop_assert!(item.ends[0] != End::Finished || world.begun.contains_key(&(index, item.attempt)));
            let objects: Vec<_> = world.objects.iter().filter(|(key, _)| key.0 == index).collect();
            for (key, object) in &objects {
                prop_assert!(!object.is_held && !object.has_pod, "{key:?}: {object:?}");
            }
            if item.ends[0] == End::Stopped {
                prop_assert!(objects.is_empty(), "{objects:?}");
            }
        }
    }
}

// L-33: the undisturbed story, so that the law above is not kept by doing nothing.
#[test]
fn an_undisturbed_world_finishes_everything() {
    let mut world = World::new();
    world.go_well().unwrap();
    assert!(world.items.iter().all(|item| item.ends == [End::Finished]));
    assert_eq!(world.begun.len(), ITEMS);
}

/// An agent's looks at one item, and what the world does between them.
fn story(end: &Turn) -> Vec<Turn> {
    let look = || Turn::Work { agent: 0, item: 0, deeds: usize::MAX };
    let mut turns = vec![Turn::Pop { agent: 0 }, look(), look(), Turn::Begin(0), look(), end.clone(), look()];
    turns.extend([look(), look(), look()]);
    turns
}

// L-33, K-77: a crash at any one point of the plain stories, with the worst that can follow it.
#[test]
fn a_crash_after_any_deed_is_repaired_by_looking_again() {
    let ends = [
        Turn::End { item: 0, is_good: true },
        Turn::End { item: 0, is_good: false },
        Turn::Disrupt(0),
        Turn::Stop(0),
        Turn::DeletedBySomebody(0),
    ];
    for end in ends {
        for (at, turn) in story(&end).iter().enumerate() {
            let Turn::Work { agent, item, .. } = *turn else { continue };
            for deeds in 0..4 {
                let mut world = World::new();
                let mut turns = story(&end);
                turns[at] = Turn::Work { agent, item, deeds };
                turns.insert(at + 1, Turn::TimeToLive(0));
                turns.iter().for_each(|turn| world.happen(turn));
                world.go_well().unwrap();
                assert_eq!(world.items[0].ends.len(), 1, "{end:?}, dead at turn {at} after {deeds} deeds");
                assert!(
                    world.begun.values().all(|count| *count == 1),
                    "{end:?}, dead at turn {at} after {deeds} deeds"
                );
                assert!(world.objects.values().all(|object| !object.is_held && !object.has_pod));
            }
        }
    }
}
