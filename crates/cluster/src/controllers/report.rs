//! Reporting: how the cluster's own components word their events.

use crate::apiserver::ApiServer;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_plan::control::Event;
use volley_turns::events::{self, Told};

/// The component that speaks for a machine.
const NODE: &str = "kubelet";

/// Writes events until all reporters are gone.
pub async fn write(server: Arc<ApiServer>, waiting: mpsc::Receiver<Event>) {
    let perform = |told: Arc<Told>| {
        let server = server.clone();
        async move { perform(&server, &told).await }
    };
    events::write(waiting, perform).await;
}

async fn perform(server: &ApiServer, told: &Told) -> Result<(), ApiError> {
    if told.count == 1 {
        return create(server, told).await;
    }
    let patch = told.recount(Timestamp::now());
    let local = server.local(told.event.component);
    match local.patch("", "events", told.namespace(), &told.name, patch).await {
        // Its hour is over, or somebody deleted it.
        Err(error) if error.code == 404 => create(server, told).await,
        other => other.map(drop),
    }
}

async fn create(server: &ApiServer, told: &Told) -> Result<(), ApiError> {
    let event = &told.event;
    let local = server.local(event.component);
    let about = &event.about;
    let seen = local.plural_of(&about.api_version, &about.kind).ok().and_then(|(group, plural)| {
        local.get(&group, &plural, about.namespace.as_deref().unwrap_or_default(), &about.name)
    });
    let now = Timestamp::now();
    let mut object = told.object(seen.as_ref().map(|object| text(object, "metadata.resourceVersion")), now);
    let more = match event.component {
        NODE => {
            let host = server.node().map(|node| node.name().to_owned());
            json!({"reportingInstance": host, "source": {"component": NODE, "host": host}})
        }
        _ => json!({}),
    };
    extend(&mut object, more);
    local.create("", "events", told.namespace(), object).await.map(drop)
}

fn extend(object: &mut Value, more: Value) {
    if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
        object.extend(more);
    }
}
