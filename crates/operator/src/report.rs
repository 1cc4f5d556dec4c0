//! Reporting: events, written one behind the other by a task of their own.
//!
//! An event is news, not state: when too many wait, the newest are dropped rather than holding up a job. One that repeats
//! within the memory below raises the count of the first instead of making a new object.

use crate::cache::Cache;
use crate::calls::{self, Address, Calls};
use crate::kinds;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use volley_api::kube::{text, time};
use volley_plan::control::{Event, EventType};

/// Events that may wait to be written: more than one large job reports at once.
const WAITING_MAX: usize = 4096;
/// Events written side by side.
const BATCH_MAX: usize = 32;
/// Events whose repetition is recognised, upstream's number.
const REMEMBERED_MAX: usize = 4096;

pub struct Reporter {
    events: mpsc::Sender<Event>,
}

impl Reporter {
    pub fn new() -> (Reporter, mpsc::Receiver<Event>) {
        let (events, waiting) = mpsc::channel(WAITING_MAX);
        (Reporter { events }, waiting)
    }

    pub fn report(&self, event: Event) {
        if let Err(mpsc::error::TrySendError::Full(event)) = self.events.try_send(event) {
            tracing::debug!(reason = event.reason, about = event.about.name, "an event was dropped: too many wait");
        }
    }
}

/// Writes events until all reporters are gone.
pub async fn write(calls: Arc<Calls>, cache: Arc<Cache>, mut waiting: mpsc::Receiver<Event>) {
    let mut memory = Memory::default();
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let writes: Vec<Write> = batch.drain(..).map(|event| memory.write_for(event)).collect();
        futures::future::join_all(writes.iter().map(|write| perform(&calls, &cache, write))).await;
    }
}

/// An event, its name, and how often it was told.
struct Write {
    event: Event,
    name: String,
    count: u64,
}

/// Which events were written lately, and how often.
#[derive(Default)]
struct Memory {
    known: HashMap<String, (String, u64)>,
    order: VecDeque<String>,
    made: u64,
}

impl Memory {
    fn write_for(&mut self, event: Event) -> Write {
        let about = &event.about;
        let sameness = [&*about.uid, &*about.name, &*event.reason, &*event.message, event.component].join("\n");
        if let Some((name, count)) = self.known.get_mut(&sameness) {
            *count += 1;
            return Write { name: name.clone(), count: *count, event };
        }
        self.made += 1;
        // The counter keeps names of one nanosecond apart.
        let stamp = (Timestamp::now().as_nanosecond() as u64).wrapping_add(self.made);
        let name = format!("{}.{stamp:016x}", about.name);
        if self.order.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(sameness.clone(), (name.clone(), 1));
        self.order.push_back(sameness);
        Write { event, name, count: 1 }
    }
}

/// A failure to tell is not a failure to do.
async fn perform(calls: &Calls, cache: &Cache, write: &Write) {
    let Write { event, name, count } = write;
    let namespace = event.about.namespace.as_deref().unwrap_or("default");
    let address = Address { kind: kinds::known("v1", "Event"), namespace, name };
    let object = object(cache, write, namespace);
    let result = if *count == 1 {
        calls.create(address, &object).await
    } else {
        let patch = json!({ "count": count, "lastTimestamp": object["lastTimestamp"] });
        match calls.patch(address, "", &patch).await {
            // Its hour is over, or somebody deleted it.
            Err(error) if calls::code(&error) == 404 => calls.create(address, &object).await,
            other => other,
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, reason = event.reason, about = event.about.name, "an event was not recorded");
    }
}

fn object(cache: &Cache, Write { event, name, count }: &Write, namespace: &str) -> Value {
    let about = &event.about;
    let mut involved =
        json!({"kind": about.kind, "apiVersion": about.api_version, "name": about.name, "uid": about.uid});
    if let Some(namespace) = &about.namespace {
        involved["namespace"] = namespace.as_str().into();
    }
    if let Some(path) = &event.field_path {
        involved["fieldPath"] = path.as_str().into();
    }
    let seen = kinds::find(&about.api_version, &about.kind)
        .and_then(|kind| cache.get(kind, about.namespace.as_deref().unwrap_or_default(), &about.name));
    if let Some(seen) = seen {
        involved["resourceVersion"] = text(&seen, "metadata.resourceVersion").into();
    }
    let now = time::seconds(Timestamp::now());
    let kind = match event.kind {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    };
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace}, "involvedObject": involved,
        "reason": event.reason, "message": event.message, "type": kind,
        "source": {"component": event.component},
        "reportingComponent": event.component, "reportingInstance": "",
        "firstTimestamp": now, "lastTimestamp": now, "count": count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use volley_plan::control::Target;

    fn event(message: &str) -> Event {
        let about = Target {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some("n".into()),
            name: "p".into(),
            uid: "u".into(),
        };
        let message = message.to_owned();
        Event { kind: EventType::Normal, reason: "R".into(), message, about, component: "test", field_path: None }
    }

    #[test]
    fn a_repetition_raises_the_count_of_the_first() {
        let mut memory = Memory::default();
        let (first, other) = (memory.write_for(event("a")), memory.write_for(event("b")));
        assert_ne!(first.name, other.name);
        let again = memory.write_for(event("a"));
        assert_eq!((again.name, again.count), (first.name, 2));
        for number in 0..=REMEMBERED_MAX {
            memory.write_for(event(&number.to_string()));
        }
        assert_eq!((memory.known.len(), memory.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
