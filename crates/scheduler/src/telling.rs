//! Telling: groups are let in, and groups, pods and queues hear how they stand. Every object has one write under way at most;
//! what was left out because of that is told after it.

use crate::calls::Refusal;
use crate::events;
use crate::kinds::{GROUPS, HYPER_NODES, KINDS, PODS, QUEUES, Row};
use crate::pace::Told;
use crate::shell::{Outcome, Shell};
use crate::view::Pending;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::time::Instant;
use volley_plan::control::{Action, Event, Target};
use volley_plan::gang::Member;
use volley_plan::gang::chores::allocated;
use volley_plan::gang::objects::Key;
use volley_plan::gang::report::{PodNote, report};
use volley_plan::pod_groups::missing;
use volley_plan::why::history::{self, HISTORY};

impl Shell {
    /// PGP-4: at once, so that the pods can be made.
    pub fn admit(&mut self, gangs: &[Key]) {
        for key in gangs {
            let known = &self.view.snapshot.gangs;
            let group = known.find(key).and_then(|gang| known[gang].group.as_ref());
            let Some(uid) = group.map(|group| group.uid.to_string()).filter(|_| self.is_group_ours(key)) else {
                continue;
            };
            self.write_group(key, json!({"metadata": {"uid": uid}, "status": {"phase": "Inqueue"}}), Vec::new());
        }
    }

    pub fn report(&mut self) {
        let now = Timestamp::now();
        let report = report(&self.view.snapshot, &self.placement, now);
        let mut events: BTreeMap<Key, Vec<Event>> = BTreeMap::new();
        for event in report.events {
            events.entry(key_of(&event.about)).or_default().push(event);
        }
        let mut patches: BTreeMap<Key, Value> = BTreeMap::new();
        for action in report.groups {
            let Action::PatchStatus { target, patch } = action else { continue };
            patches.insert(key_of(&target), target.guard(patch));
        }
        self.note(&mut patches, now);
        self.told.retain(|key, _| self.view.groups.contains_key(key));
        for (key, patch) in patches {
            // A gang is Running when its binds have landed: until then a crash must find it as it was.
            if !self.is_unsettled(&key) && self.is_group_ours(&key) {
                let events = events.remove(&key).unwrap_or_default();
                self.tell_group(&key, patch, events);
            }
        }
        report.pods.iter().chain(&self.orphans()).for_each(|note| self.tell_pod(note));
        self.tell_queues();
        self.tell_hyper_nodes();
    }

    fn tell_group(&mut self, key: &Key, patch: Value, mut events: Vec<Event>) {
        let row = self.view.groups.get(key).copied().unwrap_or(GROUPS);
        if self.is_writing(row, key) {
            return;
        }
        let (waiting, now) = (self.placement.waiting.get(key), Instant::now());
        let before = self.told.get(key);
        let gangs = &self.view.snapshot.gangs;
        let group = gangs.find(key).and_then(|gang| gangs[gang].group.as_ref());
        let is_same = |field: &&str| group.is_some_and(|group| group.status.get(*field) == patch["status"].get(*field));
        let are_numbers = ["phase", "running", "succeeded", "failed"].iter().all(is_same);
        if let Some(until) = before.and_then(|told| told.rests(waiting, now)).filter(|_| are_numbers) {
            self.report_at = Some(self.report_at.map_or(until, |at| at.min(until)));
            return;
        }
        let (told, is_said) = Told::next(before, "", waiting, now);
        let told = if events.is_empty() { told.unsaid(before) } else { told };
        events.retain(|_| is_said);
        self.told.insert(key.clone(), told);
        self.write_group(key, patch, events);
    }

    /// Adds to the patches what groups are to remember of their waiting: with a new condition, and without pods, of which
    /// conditions tell.
    fn note(&self, patches: &mut BTreeMap<Key, Value>, now: Timestamp) {
        for (_, gang) in self.view.snapshot.gangs.iter().filter(|(_, gang)| !gang.is_single) {
            let has_news = gang.members.is_empty() || patches.contains_key(&gang.key);
            let Some(group) = gang.group.as_ref().filter(|_| has_news) else { continue };
            let waiting = self.placement.waiting.get(&gang.key);
            if let Some(text) = history::noted(self.view.histories.get(&gang.key), waiting, now) {
                let patch =
                    patches.entry(gang.key.clone()).or_insert_with(|| json!({"metadata": {"uid": &*group.uid}}));
                patch["metadata"]["annotations"] = json!({HISTORY: text});
            }
        }
    }

    /// Pods that are of no gang, because what they name is not there.
    fn orphans(&self) -> Vec<PodNote> {
        let snapshot = &self.view.snapshot;
        let note = |(key, pending): (&Key, &Pending)| {
            let pod = snapshot.pods.find(key).map(|pod| &snapshot.pods[pod])?;
            if pod.gang.is_some_and(|gang| snapshot.gangs[gang].group.is_some()) {
                return None;
            }
            let message = missing(&pending.object)?;
            let pod = Member { key: key.clone(), uid: pod.uid.clone() };
            Some(PodNote { pod, reason: "Unschedulable", message, nominated: None })
        };
        self.view.pending.iter().filter_map(note).collect()
    }

    pub fn tell_pod(&mut self, note: &PodNote) {
        let Some(pending) = self.pending(&note.pod.key, &note.pod.uid) else { return };
        let component = events::component(&pending.object);
        let Some((Action::PatchStatus { target, patch }, event)) = note.patch(&pending.object, Timestamp::now()) else {
            return;
        };
        if self.is_writing(PODS, &note.pod.key) {
            return;
        }
        let Some(pending) = self.pending(&note.pod.key, &note.pod.uid) else { return };
        let snapshot = &self.view.snapshot;
        let gang = snapshot.pods.find(&note.pod.key).and_then(|pod| snapshot.pods[pod].gang);
        let waiting = gang.and_then(|gang| self.placement.waiting.get(&snapshot.gangs[gang].key));
        let (told, is_said) = Told::next(pending.told.as_ref(), note.reason, waiting, Instant::now());
        if let Some(pending) = self.view.pending.get_mut(&note.pod.key) {
            pending.told = Some(told);
        }
        let events = is_said.then_some(Event { component, ..event }).into_iter().collect();
        self.write_status(PODS, note.pod.key.clone(), target.guard(patch), events);
    }

    /// Q-4, unless Volcano's own scheduler does so: it counts what it places, too, and would be overwritten.
    fn tell_queues(&mut self) {
        if self.has_rival {
            return;
        }
        for (name, now) in allocated(&self.view.snapshot) {
            let Some(told) = self.view.told_allocated.get(&*name) else { continue };
            if *told == now || (told.is_null() && now == json!({})) {
                continue;
            }
            let gone = told.as_object().into_iter().flatten().filter(|(resource, _)| now.get(resource).is_none());
            let mut patch: Value = gone.map(|(resource, _)| (resource.clone(), Value::Null)).collect();
            if let (Some(patch), Some(now)) = (patch.as_object_mut(), now.as_object()) {
                patch.extend(now.clone());
            }
            let key = Key { namespace: "".into(), name };
            self.write_status(QUEUES, key, json!({"status": {"allocated": patch}}), Vec::new());
        }
    }

    /// As Volcano's own do where they are.
    fn tell_hyper_nodes(&mut self) {
        if self.has_rival {
            return;
        }
        for (name, count) in self.placement.node_counts.clone() {
            if self.view.told_counts.get(&name).is_some_and(|told| *told != json!(count)) {
                let key = Key { namespace: "".into(), name: name.into() };
                self.write_status(HYPER_NODES, key, json!({"status": {"nodeCount": count}}), Vec::new());
            }
        }
    }

    fn write_group(&mut self, key: &Key, patch: Value, mut events: Vec<Event>) {
        let (write, calls) = (self.group_write(key, patch), self.calls.clone());
        events.iter_mut().for_each(|event| event.about.api_version = KINDS[write.row].api_version().to_owned());
        self.write((write.row, key.clone()), events, async move { calls.write_group(&write).await });
    }

    fn write_status(&mut self, row: Row, key: Key, patch: Value, events: Vec<Event>) {
        let (calls, to) = (self.calls.clone(), key.clone());
        self.write((row, key), events, async move { calls.patch_status(row, &to, &patch).await });
    }

    /// Whether a write of the object is under way; what was to be told is told after it.
    fn is_writing(&mut self, row: Row, key: &Key) -> bool {
        let is_writing = self.writing.contains(&(row, key.clone()));
        self.has_left_out |= is_writing;
        is_writing
    }

    /// Writes one object; the events are told when it has landed.
    fn write(
        &mut self,
        (row, key): (Row, Key),
        events: Vec<Event>,
        deed: impl Future<Output = Result<Value, Refusal>> + Send + 'static,
    ) {
        if !self.writing.insert((row, key.clone())) {
            self.has_left_out = true;
            return;
        }
        let (permits, reporter) = (self.writes.clone(), self.reporter.clone());
        self.tasks.spawn(async move {
            // It is never closed.
            let _permit = permits.acquire().await;
            let answer = deed.await;
            if answer.is_ok() {
                events.into_iter().for_each(|event| reporter.report(event));
            }
            Outcome::Wrote { row, key, answer }
        });
    }
}

fn key_of(target: &Target) -> Key {
    Key { namespace: target.namespace.as_deref().unwrap_or_default().into(), name: target.name.as_str().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::lonely;
    use crate::watch::News;
    use volley_plan::gang::place;

    //
    #[tokio::test]
    async fn what_queues_hold_is_told_unless_volcanos_own_scheduler_tells_it() {
        for has_rival in [false, true] {
            let mut shell = lonely(has_rival);
            let queue = json!({"metadata": {"name": "q", "uid": "q"}, "status": {"allocated": {"cpu": "4"}}});
            shell.view.take(News::Object(QUEUES, queue));
            shell.tell_queues();
            assert_eq!(shell.writing.is_empty(), has_rival);
        }
    }

    // API-3
    #[tokio::test]
    async fn the_nodes_of_hyper_nodes_are_told_once() {
        for (status, is_told) in [(json!({}), true), (json!({"nodeCount": 3}), true), (json!({"nodeCount": 0}), false)]
        {
            let mut shell = lonely(false);
            let object = json!({"metadata": {"name": "h", "uid": "h"}, "spec": {"tier": 1}, "status": status});
            shell.view.take(News::Object(HYPER_NODES, object));
            shell.placement = place(&mut shell.view.snapshot, Timestamp::now());
            shell.tell_hyper_nodes();
            assert_eq!(!shell.writing.is_empty(), is_told);
        }
    }
}
