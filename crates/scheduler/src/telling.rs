//! Telling: groups are let in, and groups, pods and queues hear how they stand. Every object has one write under way at most;
//! what was left out because of that is told after it.

use crate::events;
use crate::kinds::{GROUPS, PODS, QUEUES, Row};
use crate::shell::{Outcome, Shell};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_plan::control::{Action, Event, Target};
use volley_plan::gang::chores::allocated;
use volley_plan::gang::objects::Key;
use volley_plan::gang::report::{PodNote, report};

impl Shell {
    /// PGP-4: at once, so that the pods can be made.
    pub fn admit(&mut self, gangs: &[Key]) {
        for key in gangs {
            let known = &self.view.snapshot.gangs;
            let group = known.find(key).and_then(|gang| known[gang].group.as_ref());
            let Some(uid) = group.map(|group| group.uid.to_string()).filter(|_| self.is_group_ours(key)) else {
                continue;
            };
            self.write(
                GROUPS,
                key.clone(),
                json!({"metadata": {"uid": uid}, "status": {"phase": "Inqueue"}}),
                Vec::new(),
            );
        }
    }

    pub fn report(&mut self) {
        let now = Timestamp::now();
        let report = report(&self.view.snapshot, &self.placement, now);
        let mut events: BTreeMap<Key, Vec<Event>> = BTreeMap::new();
        for event in report.events {
            events.entry(key_of(&event.about)).or_default().push(event);
        }
        for action in report.groups {
            let Action::PatchStatus { target, patch } = action else { continue };
            let key = key_of(&target);
            // A gang is Running when its binds have landed: until then a crash must find it as it was.
            if !self.binding.contains_key(&key) && self.is_group_ours(&key) {
                let events = events.remove(&key).unwrap_or_default();
                self.write(GROUPS, key, target.guard(patch), events);
            }
        }
        report.pods.iter().for_each(|note| self.tell_pod(note));
        self.tell_queues();
    }

    pub fn tell_pod(&mut self, note: &PodNote) {
        let Some(pending) = self.pending(&note.pod.key, &note.pod.uid) else { return };
        let component = events::component(&pending.object);
        let Some((Action::PatchStatus { target, patch }, event)) = note.patch(&pending.object, Timestamp::now()) else {
            return;
        };
        self.write(PODS, note.pod.key.clone(), target.guard(patch), vec![Event { component, ..event }]);
    }

    ///
    fn tell_queues(&mut self) {
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
            self.write(QUEUES, key, json!({"status": {"allocated": patch}}), Vec::new());
        }
    }

    /// Writes a status; the events are told when it has landed.
    fn write(&mut self, row: Row, key: Key, patch: Value, events: Vec<Event>) {
        if !self.writing.insert((row, key.clone())) {
            self.has_left_out = true;
            return;
        }
        let (calls, permits, reporter) = (self.calls.clone(), self.writes.clone(), self.reporter.clone());
        self.tasks.spawn(async move {
            // It is never closed.
            let _permit = permits.acquire().await;
            let answer = calls.patch_status(row, &key, &patch).await;
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
