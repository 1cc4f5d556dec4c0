//! Reporting: the operator's events, as calls on the API.

use crate::cache::Cache;
use crate::calls::{self, Address, Calls};
use crate::kinds;
use jiff::Timestamp;
use std::sync::Arc;
use tokio::sync::mpsc;
use volley_api::kube::text;
use volley_plan::control::Event;
use volley_turns::events::{self, Told};

/// Writes events until all reporters are gone.
pub async fn write(calls: Arc<Calls>, cache: Arc<Cache>, waiting: mpsc::Receiver<Event>) {
    let perform = |told: Arc<Told>| {
        let (calls, cache) = (calls.clone(), cache.clone());
        async move { perform(&calls, &cache, &told).await }
    };
    events::write(waiting, perform).await;
}

async fn perform(calls: &Calls, cache: &Cache, told: &Told) -> Result<(), kube::Error> {
    let address = Address { kind: kinds::known("v1", "Event"), namespace: told.namespace(), name: &told.name };
    let about = &told.event.about;
    let seen = kinds::find(&about.api_version, &about.kind)
        .and_then(|kind| cache.get(kind, about.namespace.as_deref().unwrap_or_default(), &about.name));
    let now = Timestamp::now();
    let object = told.object(seen.as_ref().map(|seen| text(seen, "metadata.resourceVersion")), now);
    if told.count == 1 {
        return calls.create(address, &object).await.map(drop);
    }
    match calls.patch(address, "", &told.recount(now)).await {
        // Its hour is over, or somebody deleted it.
        Err(error) if calls::code(&error) == 404 => calls.create(address, &object).await.map(drop),
        other => other.map(drop),
    }
}
