//! The scheduler's events: about which pod, by which name of ours, and as calls on the API.

use crate::calls::{Calls, Refusal};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use volley_api::kube::{text, time};
use volley_plan::control::{Event, EventType, Target};
use volley_plan::gang::Member;
use volley_turns::events::{self, Told};

/// The component whose events follow the newer conventions: `eventTime` and no first and last time (spec K 16.2).
const DEFAULT: &str = "default-scheduler";
/// An event's message may have 1024 bytes.
const MESSAGE_BYTES_MAX: usize = 1000;
const NAMES: [&str; 3] = [DEFAULT, "volley", "volcano"];

/// The name under which we speak to a pod: the one that it asked for.
pub fn component(pod: &Value) -> &'static str {
    let asked = text(pod, "spec.schedulerName");
    NAMES.into_iter().find(|name| *name == asked).unwrap_or("volcano")
}

pub fn about(pod: &Member) -> Target {
    Target {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some(pod.key.namespace.to_string()),
        name: pod.key.name.to_string(),
        uid: pod.uid.to_string(),
    }
}

/// UI-3.
pub fn bound(pod: &Member, node: &str, component: &'static str) -> Event {
    let message = format!("Successfully assigned {} to {node}", pod.key);
    let (kind, reason) = (EventType::Normal, "Scheduled".to_owned());
    Event { kind, reason, message, about: about(pod), component, field_path: None }
}

/// UI-4.
pub fn evicted(pod: &Member, message: &str, component: &'static str) -> Event {
    let (kind, reason, message) = (EventType::Warning, "Evict".to_owned(), message.to_owned());
    Event { kind, reason, message, about: about(pod), component, field_path: None }
}

/// Writes events until all reporters are gone.
pub async fn write(calls: Calls, waiting: mpsc::Receiver<Event>) {
    let perform = |told: Arc<Told>| {
        let calls = calls.clone();
        async move { perform(&calls, &told).await.map_err(|refusal| refusal.words) }
    };
    events::write(waiting, perform).await;
}

async fn perform(calls: &Calls, told: &Told) -> Result<(), Refusal> {
    let now = Timestamp::now();
    let is_new_style = told.event.component == DEFAULT;
    if told.count > 1 {
        let patch = match is_new_style {
            true => json!({"series": {"count": told.count, "lastObservedTime": time::micros(now)}}),
            false => told.recount(now),
        };
        match calls.patch_event(told.namespace(), &told.name, &patch).await {
            // Its hour is over, or somebody deleted it.
            Err(refusal) if refusal.code == 404 => {}
            other => return other,
        }
    }
    let mut object = told.object(None, now);
    object["message"] = shortened(&told.event.message).into();
    if is_new_style {
        let action = if told.event.reason == "Scheduled" { "Binding" } else { "Scheduling" };
        let more = json!({"eventTime": time::micros(now), "action": action,
            "reportingInstance": format!("{DEFAULT}-volley"), "source": {},
            "firstTimestamp": null, "lastTimestamp": null, "count": null});
        if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
            object.extend(more);
        }
    }
    calls.create_event(told.namespace(), &object).await
}

fn shortened(message: &str) -> &str {
    &message[..message.floor_char_boundary(MESSAGE_BYTES_MAX)]
}
