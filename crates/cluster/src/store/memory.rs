//! What readers see: the live objects of every bucket, and a ring of recent events beside them.
//!
//! One lock guards it all, so a batch becomes visible at once in every bucket. The writer changes it; everybody
//! else only clones `Arc`s out of it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::RestoreMeta;
use super::error::{Expired, Lagged};
use super::format::record_bytes;
use super::object::{Bucket, BucketEvent, Entry, Event, EventKind, Listing, Revision, Stretch};
use super::recover::{Recovered, restore_entries};

/// A bucket keeps this many events even when the rings' bytes are used up, so that one busy bucket does not
/// make the watchers of quiet ones list again.
const RING_EVENTS_MIN: usize = 64;

/// Bytes of an event besides its values: the structs, the reference counts and its place in the ring.
const EVENT_OVERHEAD_BYTES: usize = 256;

#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub ring_events_max: usize,
    pub ring_bytes_max: usize,
}

/// One bucket's objects and recent events.
struct Shelf<M> {
    bucket: Bucket,
    objects: BTreeMap<Box<str>, Arc<Entry<M>>>,
    ring: VecDeque<Arc<Event<M>>>,
    /// Every event with a greater revision is in the ring.
    floor: Revision,
    /// Holds or held objects.
    is_used: bool,
    wake: watch::Sender<Revision>,
}

/// An event with the place of its bucket.
pub(super) struct Staged<M> {
    pub bucket: Bucket,
    pub event: Arc<Event<M>>,
}

pub(super) struct Memory<M> {
    revision: Revision,
    /// Where history starts: what happened before the store was opened is not in any ring.
    opened_at: Revision,
    shelves: Vec<Shelf<M>>,
    names: HashMap<Arc<str>, usize>,
    ring_bytes: usize,
    /// What the live objects would take in a compacted log.
    live_bytes: u64,
    /// Where the log ends that holds exactly this state.
    log_end: u64,
    limits: Limits,
    wake_all: watch::Sender<Revision>,
}

impl<M> Memory<M> {
    pub fn empty(limits: Limits) -> Memory<M> {
        Memory {
            revision: 0,
            opened_at: 0,
            shelves: Vec::new(),
            names: HashMap::new(),
            ring_bytes: 0,
            live_bytes: 0,
            log_end: 0,
            limits,
            wake_all: watch::Sender::new(0),
        }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    pub fn log_end(&self) -> u64 {
        self.log_end
    }

    /// For a log that was rewritten with the same state.
    pub fn set_log_end(&mut self, end: u64) {
        self.log_end = end;
    }

    pub fn bucket(&self, name: &str) -> Option<Bucket> {
        self.names.get(name).map(|index| self.shelves[*index].bucket.clone())
    }

    /// Two callers may race to create a bucket; the second gets the first one's.
    pub fn create_bucket(&mut self, name: &str) -> Bucket {
        if let Some(bucket) = self.bucket(name) {
            return bucket;
        }
        let bucket = Bucket { index: self.shelves.len(), name: name.into() };
        self.names.insert(bucket.name.clone(), bucket.index);
        self.shelves.push(Shelf {
            bucket: bucket.clone(),
            objects: BTreeMap::new(),
            ring: VecDeque::new(),
            floor: self.opened_at,
            is_used: false,
            wake: watch::Sender::new(0),
        });
        bucket
    }

    pub fn used_buckets(&self) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> =
            self.shelves.iter().filter(|shelf| shelf.is_used).map(|shelf| shelf.bucket.clone()).collect();
        buckets.sort();
        buckets
    }

    pub fn get(&self, bucket: &Bucket, key: &str) -> Option<&Arc<Entry<M>>> {
        self.shelves[bucket.index].objects.get(key)
    }

    pub fn list(&self, bucket: &Bucket, prefix: &str) -> Listing<M> {
        let entries = with_prefix(&self.shelves[bucket.index].objects, prefix).map(|(_, entry)| entry.clone());
        Listing { revision: self.revision, entries: entries.collect() }
    }

    /// Undoes the events after `revision`, newest first.
    pub fn list_at(&self, bucket: &Bucket, prefix: &str, revision: Revision) -> Result<Listing<M>, Expired> {
        self.check_history(bucket, revision)?;
        if revision >= self.revision {
            return Ok(self.list(bucket, prefix));
        }
        let shelf = &self.shelves[bucket.index];
        let mut undone: BTreeMap<&str, Option<&Arc<Entry<M>>>> = BTreeMap::new();
        for event in shelf.ring.iter().rev().take_while(|event| event.revision > revision) {
            if event.entry.key.starts_with(prefix) {
                undone.insert(&event.entry.key, event.previous.as_ref());
            }
        }
        let mut entries = Vec::new();
        for (key, entry) in with_prefix(&shelf.objects, prefix) {
            match undone.remove(&**key) {
                Some(previous) => entries.extend(previous.cloned()),
                None => entries.push(entry.clone()),
            }
        }
        // What is left was deleted since. Two sorted runs are merged in linear time by the standard sort.
        entries.extend(undone.into_values().flatten().cloned());
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Listing { revision, entries })
    }

    /// At most `count` entries behind the key `after`, as of a revision or of now: a page costs what it holds, not
    /// what the bucket holds.
    pub fn stretch(&self, bucket: &Bucket, stretch: &Stretch<'_>) -> Result<Listing<M>, Expired> {
        let revision = stretch.at.unwrap_or(self.revision).min(self.revision);
        self.check_history(bucket, revision)?;
        let shelf = &self.shelves[bucket.index];
        let is_wanted = |key: &str| key.starts_with(stretch.prefix) && key > stretch.after;
        let mut undone: BTreeMap<&str, Option<&Arc<Entry<M>>>> = BTreeMap::new();
        for event in shelf.ring.iter().rev().take_while(|event| event.revision > revision) {
            if is_wanted(&event.entry.key) {
                undone.insert(&event.entry.key, event.previous.as_ref());
            }
        }
        let from = stretch.prefix.max(stretch.after);
        let live = shelf.objects.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        let mut live =
            live.take_while(|(key, _)| key.starts_with(stretch.prefix)).filter(|(key, _)| is_wanted(key)).peekable();
        let mut undone = undone.into_iter().peekable();
        let mut entries = Vec::new();
        while entries.len() < stretch.count {
            // What a later event changed is taken from before that event, and only from there.
            let undone_is_next = match (live.peek(), undone.peek()) {
                (None, None) => break,
                (Some((key, _)), Some((other, _))) => *other <= &***key,
                (live, _) => live.is_none(),
            };
            if undone_is_next {
                let Some((key, previous)) = undone.next() else { break };
                live.next_if(|(live, _)| ***live == *key);
                entries.extend(previous.cloned());
            } else {
                entries.extend(live.next().map(|(_, entry)| entry.clone()));
            }
        }
        Ok(Listing { revision, entries })
    }

    /// How many entries have this prefix now.
    pub fn count(&self, bucket: &Bucket, prefix: &str) -> usize {
        let objects = &self.shelves[bucket.index].objects;
        if prefix.is_empty() { objects.len() } else { with_prefix(objects, prefix).count() }
    }

    /// Every bucket with its entries, for a snapshot.
    pub fn all(&self) -> Vec<(Bucket, Vec<Arc<Entry<M>>>)> {
        self.shelves.iter().map(|shelf| (shelf.bucket.clone(), shelf.objects.values().cloned().collect())).collect()
    }

    pub fn check_history(&self, bucket: &Bucket, after: Revision) -> Result<(), Expired> {
        let oldest = self.shelves[bucket.index].floor;
        if after < oldest { Err(Expired { requested: after, oldest }) } else { Ok(()) }
    }

    pub fn check_all_history(&self, after: Revision) -> Result<(), Expired> {
        let oldest = self.shelves.iter().map(|shelf| shelf.floor).fold(self.opened_at, Revision::max);
        if after < oldest { Err(Expired { requested: after, oldest }) } else { Ok(()) }
    }

    /// At most `limit` events of the bucket after a revision, oldest first.
    pub fn events_after(&self, bucket: &Bucket, after: Revision, limit: usize) -> Result<Vec<Arc<Event<M>>>, Lagged> {
        let shelf = &self.shelves[bucket.index];
        if after < shelf.floor {
            return Err(Lagged { position: after, oldest: shelf.floor });
        }
        let start = shelf.ring.partition_point(|event| event.revision <= after);
        Ok(shelf.ring.range(start..).take(limit).cloned().collect())
    }

    /// The same over all buckets.
    pub fn all_events_after(&self, after: Revision, limit: usize) -> Result<Vec<BucketEvent<M>>, Lagged> {
        let mut events = Vec::new();
        for shelf in &self.shelves {
            let of_bucket = self.events_after(&shelf.bucket, after, limit)?;
            events.extend(of_bucket.into_iter().map(|event| (shelf.bucket.clone(), event)));
        }
        events.sort_unstable_by_key(|(_, event)| event.revision);
        events.truncate(limit);
        Ok(events)
    }

    pub fn wake_of(&self, bucket: &Bucket) -> watch::Receiver<Revision> {
        self.shelves[bucket.index].wake.subscribe()
    }

    pub fn wake_of_all(&self) -> watch::Receiver<Revision> {
        self.wake_all.subscribe()
    }

    /// Makes a durable batch visible. Hands back what fell off the rings, to be freed without the lock.
    pub fn apply(&mut self, batch: Vec<Staged<M>>, log_end: u64) -> Vec<Arc<Event<M>>> {
        let mut evicted = Vec::new();
        for Staged { bucket, event } in batch {
            self.revision = event.revision;
            self.apply_to_objects(&bucket, &event);
            self.ring_bytes += event_bytes(&event);
            let shelf = &mut self.shelves[bucket.index];
            shelf.is_used = true;
            shelf.ring.push_back(event);
            if shelf.ring.len() > self.limits.ring_events_max {
                evicted.extend(self.evict_from(bucket.index));
            }
        }
        while self.ring_bytes > self.limits.ring_bytes_max {
            let Some(index) = self.shelf_with_oldest_event() else { break };
            evicted.extend(self.evict_from(index));
        }
        self.log_end = log_end;
        evicted
    }

    /// Wakes the watchers of these buckets; called after `apply`, under a read lock at most.
    pub fn wake(&self, buckets: &[Bucket]) {
        if buckets.is_empty() {
            return;
        }
        for bucket in buckets {
            self.shelves[bucket.index].wake.send_replace(self.revision);
        }
        self.wake_all.send_replace(self.revision);
    }

    fn apply_to_objects(&mut self, bucket: &Bucket, event: &Arc<Event<M>>) {
        let objects = &mut self.shelves[bucket.index].objects;
        let entry = &event.entry;
        if let Some(previous) = &event.previous {
            self.live_bytes -= record_bytes(&bucket.name, &previous.key, &previous.value);
        }
        match event.kind {
            EventKind::Created | EventKind::Updated => {
                self.live_bytes += record_bytes(&bucket.name, &entry.key, &entry.value);
                // An update keeps the map's key and swaps the entry, which saves an allocation.
                match objects.get_mut(&entry.key) {
                    Some(place) => *place = entry.clone(),
                    None => {
                        objects.insert(entry.key.clone(), entry.clone());
                    }
                }
            }
            EventKind::Deleted => {
                objects.remove(&entry.key);
            }
        }
    }

    fn evict_from(&mut self, index: usize) -> Option<Arc<Event<M>>> {
        let shelf = &mut self.shelves[index];
        let event = shelf.ring.pop_front()?;
        shelf.floor = event.revision;
        self.ring_bytes -= event_bytes(&event);
        Some(event)
    }

    fn shelf_with_oldest_event(&self) -> Option<usize> {
        let shelves = self.shelves.iter().filter(|shelf| shelf.ring.len() > RING_EVENTS_MIN);
        let oldest = shelves.min_by_key(|shelf| shelf.ring.front().map(|event| event.revision));
        oldest.map(|shelf| shelf.bucket.index)
    }
}

impl<M: Send + Sync + 'static> Memory<M> {
    /// The state of a log, with the owner's part made again on all cores.
    pub fn recovered(recovered: Recovered, limits: Limits, restore_meta: RestoreMeta<M>) -> Memory<M> {
        let mut memory = Memory::empty(limits);
        memory.revision = recovered.revision;
        memory.opened_at = recovered.revision;
        memory.log_end = recovered.end;
        for (name, objects) in recovered.objects {
            let bucket = memory.create_bucket(&name);
            let sizes = objects.iter().map(|(key, loaded)| record_bytes(&name, key, &loaded.value));
            memory.live_bytes += sizes.sum::<u64>();
            let shelf = &mut memory.shelves[bucket.index];
            shelf.is_used = true;
            shelf.objects = restore_entries(&name, objects, restore_meta);
        }
        memory
    }
}

fn with_prefix<'a, M>(
    objects: &'a BTreeMap<Box<str>, Arc<Entry<M>>>,
    prefix: &'a str,
) -> impl Iterator<Item = (&'a Box<str>, &'a Arc<Entry<M>>)> {
    let from = (Bound::Included(prefix), Bound::Unbounded);
    objects.range::<str, _>(from).take_while(move |(key, _)| key.starts_with(prefix))
}

/// An estimate from above: the new state counts twice because its encoded line is as long, and the previous state
/// counts although it is often shared with the event before.
fn event_bytes<M>(event: &Event<M>) -> usize {
    let previous = event.previous.as_ref().map_or(0, |entry| entry.value.len());
    2 * event.entry.value.len() + previous + EVENT_OVERHEAD_BYTES
}
