//! Events on their way to be written, one behind the other, by a task of their own.
//!
//! An event is news, not state: when too many wait, the newest are dropped rather than holding up a loop. One that
//! repeats within the memory below raises the count of the first instead of making a new object (K-EVT-3).

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;
use tokio::sync::mpsc;
use volley_api::kube::time;
use volley_plan::control::{Event, EventType};

/// Events that may wait to be written: more than one large job reports at once.
const WAITING_MAX: usize = 4096;
/// Events written side by side, so that they share the store's commits.
const BATCH_MAX: usize = 64;
/// Events whose repetition is recognised, the upstream recorder's number.
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

/// Has events written until all reporters are gone. A failure to tell is not a failure to do.
pub async fn write<Done, E>(mut waiting: mpsc::Receiver<Event>, perform: impl Fn(Arc<Told>) -> Done)
where
    Done: Future<Output = Result<(), E>>,
    E: Display,
{
    let mut memory = Memory::default();
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let told: Vec<_> = batch.drain(..).map(|event| Arc::new(memory.note(event, Timestamp::now()))).collect();
        let results = join_all(told.iter().cloned().map(&perform)).await;
        for (told, result) in told.iter().zip(results) {
            if let Err(error) = result {
                let event = &told.event;
                tracing::debug!(%error, reason = event.reason, about = event.about.name, "an event was not recorded");
            }
        }
    }
}

/// An event, the name of its object, and how often it was told; the first time it is to be made.
#[derive(Debug)]
pub struct Told {
    pub event: Event,
    pub name: String,
    pub count: u64,
}

impl Told {
    pub fn namespace(&self) -> &str {
        self.event.about.namespace.as_deref().unwrap_or("default")
    }

    /// The object as most components write it, about an object that was seen at this version.
    pub fn object(&self, seen_version: Option<&str>, now: Timestamp) -> Value {
        let Told { event, name, count } = self;
        let about = &event.about;
        let mut involved =
            json!({"kind": about.kind, "apiVersion": about.api_version, "name": about.name, "uid": about.uid});
        let more = [
            ("namespace", about.namespace.as_deref()),
            ("fieldPath", event.field_path.as_deref()),
            ("resourceVersion", seen_version),
        ];
        for (key, value) in more {
            if let Some(value) = value {
                involved[key] = value.into();
            }
        }
        let kind = match event.kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let now = time::seconds(now);
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": self.namespace()}, "involvedObject": involved,
            "reason": event.reason, "message": event.message, "type": kind,
            "source": {"component": event.component},
            "reportingComponent": event.component, "reportingInstance": "",
            "firstTimestamp": now, "lastTimestamp": now, "count": count, "eventTime": null,
        })
    }

    /// The patch of an event that is there and was told again.
    pub fn recount(&self, now: Timestamp) -> Value {
        json!({"count": self.count, "lastTimestamp": time::seconds(now)})
    }
}

/// Which events were written lately, and how often.
#[derive(Debug, Default)]
struct Memory {
    known: HashMap<String, (String, u64)>,
    order: VecDeque<String>,
    made: u64,
}

impl Memory {
    fn note(&mut self, event: Event, now: Timestamp) -> Told {
        let about = &event.about;
        let path = event.field_path.as_deref().unwrap_or_default();
        let sameness = [&*about.uid, &*about.name, &*event.reason, &*event.message, event.component, path].join("\n");
        if let Some((name, count)) = self.known.get_mut(&sameness) {
            *count += 1;
            return Told { name: name.clone(), count: *count, event };
        }
        self.made += 1;
        // The counter keeps names of one nanosecond apart.
        let stamp = (now.as_nanosecond() as u64).wrapping_add(self.made);
        let name = format!("{}.{stamp:016x}", about.name);
        if self.order.len() >= REMEMBERED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(sameness.clone(), (name.clone(), 1));
        self.order.push_back(sameness);
        Told { event, name, count: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use volley_plan::control::Target;

    fn noted(memory: &mut Memory, message: &str) -> Told {
        let about = Target {
            api_version: "v1".into(),
            kind: "Pod".into(),
            namespace: Some("n".into()),
            name: "p".into(),
            uid: "u".into(),
        };
        let message = message.to_owned();
        let event =
            Event { kind: EventType::Normal, reason: "R".into(), message, about, component: "test", field_path: None };
        memory.note(event, Timestamp::UNIX_EPOCH)
    }

    // K-EVT-3
    #[test]
    fn a_repetition_raises_the_count_of_the_first() {
        let mut memory = Memory::default();
        let (first, other) = (noted(&mut memory, "a"), noted(&mut memory, "b"));
        assert_ne!(first.name, other.name);
        let again = noted(&mut memory, "a");
        assert_eq!((first.count, again.name, again.count), (1, first.name, 2));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut memory = Memory::default();
        for number in 0..=REMEMBERED_MAX {
            noted(&mut memory, &number.to_string());
        }
        assert_eq!((memory.known.len(), memory.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }

    #[test]
    fn an_event_says_what_it_saw() {
        let told = noted(&mut Memory::default(), "a");
        let object = told.object(Some("7"), Timestamp::UNIX_EPOCH);
        let involved = json!({"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u", "namespace": "n", "resourceVersion": "7"});
        assert_eq!(object["involvedObject"], involved);
        assert_eq!((&object["count"], &object["lastTimestamp"]), (&json!(1), &json!("1970-01-01T00:00:00Z")));
    }
}
