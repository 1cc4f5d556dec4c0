//! Reporting: the controllers' events, written one behind the other by a task of their own.
//!
//! An event is news, not state: when too many wait, the newest are dropped rather than holding up a controller. One
//! that repeats within the memory below raises the count of the first instead of making a new object (K-EVT-3).

use crate::apiserver::ApiServer;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::mpsc;
use volley_api::kube::{text, time};
use volley_plan::control::{Event, EventType};

/// Events that may wait to be written: more than one large Job reports at once.
const WAITING_MAX: usize = 4096;
/// Events written side by side, so that they share the store's commits.
const BATCH_MAX: usize = 64;
/// Events whose repetition is recognised, the upstream recorder's number.
const REMEMBERED_MAX: usize = 4096;

/// The component whose events follow the newer conventions: `eventTime` and no first and last time (spec K 16.2).
const SCHEDULER: &str = "default-scheduler";

/// The component that speaks for a machine.
const NODE: &str = "kubelet";

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
pub async fn write(server: Arc<ApiServer>, mut waiting: mpsc::Receiver<Event>) {
    let mut memory = Memory::default();
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let writes: Vec<Write> = batch.drain(..).map(|event| memory.write_for(event)).collect();
        futures::future::join_all(writes.into_iter().map(|write| perform(&server, write))).await;
    }
}

enum Write {
    Create(Event, String),
    Count { event: Event, name: String, count: u64 },
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
        let path = event.field_path.as_deref().unwrap_or_default();
        let sameness = [&*about.uid, &*about.name, &*event.reason, &*event.message, event.component, path].join("\n");
        if let Some((name, count)) = self.known.get_mut(&sameness) {
            *count += 1;
            let (name, count) = (name.clone(), *count);
            return Write::Count { event, name, count };
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
        Write::Create(event, name)
    }
}

/// A failure to tell is not a failure to do.
async fn perform(server: &ApiServer, write: Write) {
    let result = match &write {
        Write::Create(event, name) => create(server, event, name, 1).await,
        Write::Count { event, name, count } => {
            let at = time::seconds(Timestamp::now());
            let patch = match event.component {
                SCHEDULER => json!({"series": {"count": count, "lastObservedTime": time::micros(Timestamp::now())}}),
                _ => json!({"count": count, "lastTimestamp": at}),
            };
            let local = server.local(event.component);
            match local.patch("", "events", namespace(event), name, patch).await {
                // Its hour is over, or somebody deleted it.
                Err(error) if error.code == 404 => create(server, event, name, *count).await,
                other => other.map(drop),
            }
        }
    };
    if let Err(error) = result {
        let (Write::Create(event, _) | Write::Count { event, .. }) = &write;
        tracing::debug!(%error, reason = event.reason, about = event.about.name, "an event was not recorded");
    }
}

fn namespace(event: &Event) -> &str {
    event.about.namespace.as_deref().unwrap_or("default")
}

async fn create(
    server: &ApiServer,
    event: &Event,
    name: &str,
    count: u64,
) -> Result<(), volley_api::kube::status::ApiError> {
    let local = server.local(event.component);
    let about = &event.about;
    let seen = local.plural_of(&about.api_version, &about.kind).ok().and_then(|(group, plural)| {
        local.get(&group, &plural, about.namespace.as_deref().unwrap_or_default(), &about.name)
    });
    let mut involved =
        json!({"kind": about.kind, "apiVersion": about.api_version, "name": about.name, "uid": about.uid});
    if let Some(namespace) = &about.namespace {
        involved["namespace"] = namespace.as_str().into();
    }
    if let Some(path) = &event.field_path {
        involved["fieldPath"] = path.as_str().into();
    }
    if let Some(version) = seen.as_ref().map(|object| text(object, "metadata.resourceVersion")) {
        involved["resourceVersion"] = version.into();
    }
    let now = Timestamp::now();
    let mut object = json!({
        "metadata": {"name": name, "namespace": namespace(event)}, "involvedObject": involved,
        "reason": event.reason, "message": event.message, "type": kind(event.kind),
        "reportingComponent": event.component, "reportingInstance": "",
    });
    let more = match event.component {
        SCHEDULER => json!({"eventTime": time::micros(now), "action": action(&event.reason),
            "reportingInstance": format!("{SCHEDULER}-volley"), "source": {},
            "firstTimestamp": null, "lastTimestamp": null}),
        NODE => {
            let host = server.node().map(|node| node.name().to_owned());
            json!({"firstTimestamp": time::seconds(now), "lastTimestamp": time::seconds(now), "count": count,
                "eventTime": null, "reportingInstance": host, "source": {"component": NODE, "host": host}})
        }
        component => json!({"firstTimestamp": time::seconds(now), "lastTimestamp": time::seconds(now), "count": count,
            "eventTime": null, "source": {"component": component}}),
    };
    extend(&mut object, more);
    local.create("", "events", namespace(event), object).await.map(drop)
}

fn kind(kind: EventType) -> &'static str {
    match kind {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

fn action(reason: &str) -> &'static str {
    if reason == "Scheduled" { "Binding" } else { "Scheduling" }
}

fn extend(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
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

    // K-EVT-3
    #[test]
    fn a_repetition_raises_the_count_of_the_first() {
        let mut memory = Memory::default();
        let Write::Create(_, first) = memory.write_for(event("a")) else { panic!("the first is new") };
        let Write::Create(_, other) = memory.write_for(event("b")) else { panic!("another is new") };
        assert_ne!(first, other);
        let Write::Count { name, count, .. } = memory.write_for(event("a")) else { panic!("it is known") };
        assert_eq!((name, count), (first, 2));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut memory = Memory::default();
        for number in 0..=REMEMBERED_MAX {
            memory.write_for(event(&number.to_string()));
        }
        assert_eq!((memory.known.len(), memory.order.len()), (REMEMBERED_MAX, REMEMBERED_MAX));
    }
}
