//! An item of a queue as the agent knows it, and the table of those that it looks after.
//!
//! The table is what the server said last, corrected by what this agent has done since. A list from the server is older
//! than what was done while it was asked for, so it does not touch those entries.

use crate::attempt::Prepared;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use volley_client::items::Run;
use volley_plan::agent::life::{self, Standing};
use volley_plan::launch::names;
use volley_plan::queue::spec::is_scheduler;

/// Everything is looked at once in so many lists, whether or not it has changed.
const TURNS: usize = 20;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Item {
    pub id: String,
    /// Stands for the item on clusters and machines.
    #[serde(default)]
    pub key: Option<String>,
    /// The id with the number of the lease: whoever holds an older one is refused.
    pub lease: String,
    pub entity: String,
    pub queue: String,
    #[serde(skip, default = "leased")]
    pub standing: Standing,
    #[serde(default = "yes")]
    pub is_mine: bool,
    #[serde(default)]
    pub is_orphaned: bool,
    /// The cluster or machine that it was begun on.
    #[serde(default)]
    pub site: Option<String>,
    pub attempt: u32,
    #[serde(default)]
    pub is_stop_asked: bool,
    /// It ended otherwise than by its run: by this agent's word, by a stop, or it was deleted.
    #[serde(default)]
    pub is_over: bool,
    /// The run spec with template values in place. It never changes, and many have a copy of the item.
    pub spec: Arc<Value>,
    /// The queue's config as its admin wrote it, and the values of its variables.
    pub template: Option<Arc<(Value, BTreeMap<String, Value>)>>,
    pub run: Option<Run>,
    pub user: Option<String>,
    pub priority: i64,
}

fn leased() -> Standing {
    Standing::Leased
}

fn yes() -> bool {
    true
}

impl Item {
    pub fn key(&self) -> String {
        self.key.clone().unwrap_or_else(|| names::item_key(&self.id))
    }

    /// With what lists leave out of an item that is known.
    fn or_of(mut self, known: &Item) -> Item {
        if self.spec.is_null() || self.spec == known.spec {
            (self.spec, self.template) = (known.spec.clone(), known.template.clone());
        }
        self
    }

    /// As the plan sees it.
    pub fn seen(&self) -> life::Item {
        life::Item {
            standing: self.standing,
            is_mine: self.is_mine,
            is_orphaned: self.is_orphaned,
            attempt: self.attempt,
            is_stop_asked: self.is_stop_asked,
        }
    }

    pub fn is_open(&self) -> bool {
        matches!(self.standing, Standing::Leased | Standing::Claimed)
    }

    /// It has ended, otherwise than by its run.
    pub fn be_over(&mut self) {
        (self.standing, self.is_over) = (Standing::Ended, true);
    }

    /// What the server's word on this item alone means, which its list lacks. One who may not serve its queue any more is
    /// told no lease; then nothing is known, and what runs goes on.
    pub fn whereabouts(&self, told: &Item) -> Option<Whereabouts> {
        match told.standing {
            Standing::Ended => Some(Whereabouts::Over),
            Standing::Pending | Standing::Leased | Standing::Claimed => {
                (!told.lease.is_empty() && told.lease != self.lease).then_some(Whereabouts::Elsewhere)
            }
        }
    }

    /// Runs a sweep's scheduler, which is counted by itself.
    pub fn is_scheduler(&self) -> bool {
        is_scheduler(&self.spec)
    }
}

/// What became of an item that this agent had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whereabouts {
    /// It has ended, or was deleted.
    Over,
    /// Another agent has it.
    Elsewhere,
}

/// What the server was told of an item beside its states.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    pub waiting: Option<String>,
    pub is_running: bool,
    pub place: Value,
}

/// One item that is looked after.
#[derive(Clone)]
pub struct Entry {
    pub item: Item,
    pub prepared: Option<(u32, Arc<Prepared>)>,
    /// Why the cluster refused this attempt.
    pub refusal: Option<(u32, String)>,
    pub told: Told,
    /// The run was begun for this attempt.
    pub begun: u32,
    /// What the workload of this attempt is known by, asked for once.
    pub credential: Option<(u32, String)>,
    /// Ends what takes long on the way to a workload that nobody wants any more.
    pub stop: CancellationToken,
    touched: u64,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    /// When those were removed that a list which is under way may still have.
    removed: BTreeMap<String, u64>,
    clock: u64,
    /// Lists that were taken in.
    lists: usize,
}

#[derive(Default)]
pub struct Table {
    state: Mutex<State>,
}

impl Table {
    pub fn get(&self, key: &str) -> Option<Entry> {
        self.state.lock().entries.get(key).cloned()
    }

    /// The key of an item by its id, by which events name it.
    pub fn key_of(&self, id: &str) -> Option<String> {
        let state = self.state.lock();
        state.entries.iter().find(|(_, entry)| entry.item.id == id).map(|(key, _)| key.clone())
    }

    pub fn has(&self, key: &str) -> bool {
        self.state.lock().entries.contains_key(key)
    }

    /// Takes an item in, or what the server says of it now.
    pub fn put(&self, item: Item) -> String {
        let key = item.key();
        let mut state = self.state.lock();
        state.clock += 1;
        let touched = state.clock;
        let entry = state.entries.entry(key.clone()).or_insert_with(|| Entry::new(item.clone()));
        if entry.item.attempt != item.attempt {
            *entry = Entry::new(item);
        } else {
            entry.item = item;
        }
        entry.touched = touched;
        entry.heed();
        key
    }

    /// Changes an entry, if it is there.
    pub fn change(&self, key: &str, change: impl FnOnce(&mut Entry)) {
        let mut state = self.state.lock();
        state.clock += 1;
        let touched = state.clock;
        if let Some(entry) = state.entries.get_mut(key) {
            change(entry);
            entry.touched = touched;
            entry.heed();
        }
    }

    pub fn remove(&self, key: &str) {
        let mut state = self.state.lock();
        state.clock += 1;
        let now = state.clock;
        if state.entries.remove(key).is_some() {
            state.removed.insert(key.to_owned(), now);
        }
    }

    /// Before the server is asked for all items.
    pub fn now(&self) -> u64 {
        self.state.lock().clock
    }

    /// Takes a list in that was asked for at `asked`: what it changes is to be looked at, and some of the rest, in case a
    /// change was missed. What became of those that it lacks is to be asked for.
    pub fn take_list(&self, items: Vec<Item>, asked: u64) -> Listed {
        let mut listed = BTreeMap::new();
        for item in items {
            listed.insert(item.key(), item);
        }
        let mut state = self.state.lock();
        state.removed.retain(|_, removed| *removed > asked);
        state.lists += 1;
        let turn = state.lists;
        let (mut keys, mut missing) = (Vec::new(), Vec::new());
        for (key, entry) in &mut state.entries {
            if entry.touched > asked {
                continue;
            }
            let before = entry.item.clone();
            match listed.remove(key) {
                Some(item) if item.attempt == entry.item.attempt => entry.item = item.or_of(&before),
                Some(item) => *entry = Entry::new(item.or_of(&before)),
                None if entry.item.standing == Standing::Ended => entry.item.be_over(),
                // Its own agent, or another, has taken it up again.
                None if entry.item.is_open() && !entry.item.is_mine => entry.item.is_orphaned = false,
                None => missing.push(entry.item.clone()),
            }
            entry.heed();
            let is_missing = missing.last().is_some_and(|missing: &Item| missing.id == before.id);
            // Whatever comes and goes, a key keeps its turn.
            let number: usize = key.bytes().map(usize::from).sum();
            if entry.item != before || is_missing || (number + turn).is_multiple_of(TURNS) {
                keys.push(key.clone());
            }
        }
        for (key, item) in listed {
            if !state.entries.contains_key(&key) && !state.removed.contains_key(&key) {
                state.entries.insert(key.clone(), Entry::new(item));
                keys.push(key);
            }
        }
        Listed { keys, missing }
    }

    /// What became of an item that a list lacked, unless something was done with it since.
    pub fn find_out(&self, key: &str, asked: u64, whereabouts: Whereabouts) {
        let mut state = self.state.lock();
        let Some(entry) = state.entries.get_mut(key).filter(|entry| entry.touched <= asked) else { return };
        match whereabouts {
            Whereabouts::Over => entry.item.be_over(),
            Whereabouts::Elsewhere => (entry.item.is_mine, entry.item.is_orphaned) = (false, false),
        }
    }

    /// Items that this agent holds: launches, and sweeps' schedulers.
    pub fn held(&self) -> Vec<Item> {
        let state = self.state.lock();
        let own = state.entries.values().filter(|entry| entry.item.is_mine && entry.item.is_open());
        own.map(|entry| entry.item.clone()).collect()
    }
}

/// What a list brought.
pub struct Listed {
    /// To be looked at.
    pub keys: Vec<String>,
    /// It lacks these, which may have ended, or be another agent's, or not be shown any more.
    pub missing: Vec<Item>,
}

impl Entry {
    fn new(item: Item) -> Entry {
        Entry {
            item,
            prepared: None,
            refusal: None,
            told: Told::default(),
            begun: 0,
            credential: None,
            stop: CancellationToken::new(),
            touched: 0,
        }
    }

    fn heed(&mut self) {
        let is_unwanted = self.item.is_stop_asked || self.item.standing == Standing::Ended;
        if is_unwanted {
            self.stop.cancel();
        } else if self.stop.is_cancelled() {
            self.stop = CancellationToken::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn item(id: &str, standing: Standing) -> Item {
        Item {
            id: id.to_owned(),
            key: None,
            lease: String::new(),
            entity: "e".to_owned(),
            queue: "q".to_owned(),
            standing,
            is_mine: true,
            is_orphaned: false,
            site: None,
            attempt: 1,
            is_stop_asked: false,
            is_over: false,
            spec: Arc::default(),
            template: None,
            run: None,
            user: None,
            priority: 2,
        }
    }

    #[test]
    fn a_list_does_not_undo_what_was_done_while_it_was_asked_for() {
        let table = Table::default();
        let (a, b) = (table.put(item("a", Standing::Leased)), table.put(item("b", Standing::Leased)));
        let asked = table.now();
        table.change(&a, |entry| entry.item.standing = Standing::Claimed);
        let fresh = table.put(item("c", Standing::Leased));
        // The list was made before: it knows nothing of the claim, of `c`, nor of `b`, which was deleted.
        let listed = table.take_list(vec![item("a", Standing::Leased), item("d", Standing::Claimed)], asked);
        assert_eq!(listed.missing.iter().map(|item| item.id.as_str()).collect::<Vec<_>>(), ["b"]);
        assert!(table.get(&b).unwrap().item.is_open(), "absence alone ends nothing");
        table.find_out(&b, asked, Whereabouts::Over);
        table.find_out(&a, asked, Whereabouts::Over);
        assert_eq!(table.get(&a).unwrap().item.standing, Standing::Claimed);
        assert_eq!(table.get(&fresh).unwrap().item.standing, Standing::Leased);
        let gone = table.get(&b).unwrap().item;
        assert!(gone.standing == Standing::Ended && gone.is_over);
        assert_eq!(table.held().len(), 3);
    }

    #[test]
    fn what_was_settled_while_a_list_was_asked_for_does_not_come_back() {
        let table = Table::default();
        let key = table.put(item("a", Standing::Claimed));
        let asked = table.now();
        table.remove(&key);
        assert!(table.take_list(vec![item("a", Standing::Claimed)], asked).keys.is_empty());
        // A list that was asked for afterwards knows better.
        let asked = table.now();
        assert_eq!(table.take_list(vec![item("a", Standing::Claimed)], asked).keys, [key]);
    }

    #[test]
    fn an_item_that_is_not_listed_is_let_go_only_by_the_servers_word() {
        let mine = Item { lease: "a:1".to_owned(), ..item("a", Standing::Claimed) };
        let told = |lease: &str, standing| Item { lease: lease.to_owned(), ..item("a", standing) };
        assert_eq!(mine.whereabouts(&told("", Standing::Claimed)), None, "the agent lost its right on the queue");
        assert_eq!(mine.whereabouts(&told("a:1", Standing::Claimed)), None);
        assert_eq!(mine.whereabouts(&told("a:2", Standing::Claimed)), Some(Whereabouts::Elsewhere));
        assert_eq!(mine.whereabouts(&told("", Standing::Ended)), Some(Whereabouts::Over));
    }

    #[test]
    fn a_list_wakes_what_it_changes_and_in_turn_everything() {
        let table = Table::default();
        let all: Vec<Item> = (0..100)
            .map(|number| Item {
                spec: Arc::new(json!({ "n": number })),
                ..item(&number.to_string(), Standing::Claimed)
            })
            .collect();
        all.iter().for_each(|item| drop(table.put(item.clone())));
        let short = |item: &Item| Item { spec: Arc::default(), ..item.clone() };
        let mut woken = std::collections::BTreeSet::new();
        for _ in 0..TURNS {
            let listed = table.take_list(all.iter().map(short).collect(), table.now());
            assert!(listed.keys.len() < 20, "{:?}", listed.keys);
            woken.extend(listed.keys);
        }
        assert_eq!(woken.len(), 100);
        let mut changed: Vec<Item> = all.iter().map(short).collect();
        changed[7].is_stop_asked = true;
        let keys = table.take_list(changed, table.now()).keys;
        assert!(keys.contains(&all[7].key()) && keys.len() < 20);
        assert_eq!(table.get(&all[7].key()).unwrap().item.spec, all[7].spec, "lists may leave specs out");
    }

    // L-16, L-34
    #[test]
    fn what_is_under_way_hears_of_a_stop() {
        let table = Table::default();
        let (a, b) = (table.put(item("a", Standing::Claimed)), table.put(item("b", Standing::Claimed)));
        let stop = |key: &str| table.get(key).unwrap().stop;
        let (first, second) = (stop(&a), stop(&b));
        table.change(&a, |entry| entry.item.is_stop_asked = true);
        assert!(first.is_cancelled() && !second.is_cancelled());
        table.take_list(vec![item("a", Standing::Claimed)], table.now());
        table.change(&b, |entry| entry.item.be_over());
        assert!(second.is_cancelled(), "it was deleted");
        assert!(!stop(&a).is_cancelled(), "the server knows nothing of a stop");
    }

    // L-27
    #[test]
    fn the_next_attempt_begins_with_nothing_of_the_last() {
        let table = Table::default();
        let key = table.put(item("a", Standing::Claimed));
        table.change(&key, |entry| entry.refusal = Some((1, "no".to_owned())));
        table.put(Item { attempt: 2, ..item("a", Standing::Leased) });
        assert!(table.get(&key).unwrap().refusal.is_none());
    }
}
