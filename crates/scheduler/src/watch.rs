//! Watching: one stream per kind, as news for the one who keeps the view.
//!
//! The channel is bounded: when news comes faster than it is taken in, the streams wait.

use crate::kinds::{KINDS, Kind, Row};
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::pin::pin;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use volley_plan::gang::policy::Policy;

#[derive(Debug)]
pub enum News {
    /// A list begins; what it does not name by its end is gone.
    Begin(Row),
    Object(Row, Value),
    Gone(Row, Value),
    End(Row),
    Policy(Box<Policy>),
}

/// Watches everything until it is dropped, or nobody listens.
pub async fn run(client: Client, news: mpsc::Sender<News>) {
    let mut tasks = JoinSet::new();
    let (defined, definitions) = watch::channel(0_u64);
    tasks.spawn(watch_definitions(client.clone(), defined));
    for (row, kind) in KINDS.iter().enumerate() {
        let (client, news) = (client.clone(), news.clone());
        match kind.is_custom {
            true => tasks.spawn(follow_while_defined(client, row, news, definitions.clone())),
            false => tasks.spawn(async move {
                follow(&client, row, &news).await;
            }),
        };
    }
    while tasks.join_next().await.is_some() {}
}

/// Tells that definitions of kinds have come or gone.
async fn watch_definitions(client: Client, defined: watch::Sender<u64>) {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let mut stream = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = stream.next().await {
        match event {
            Ok(Event::Init | Event::InitApply(_)) => {}
            Ok(Event::InitDone | Event::Apply(_) | Event::Delete(_)) => defined.send_modify(|count| *count += 1),
            Err(error) => tracing::debug!(%error, "failed to watch the definitions of kinds, will try again"),
        }
    }
}

/// A kind that is not defined has no objects, until it is.
async fn follow_while_defined(
    client: Client,
    row: Row,
    news: mpsc::Sender<News>,
    mut definitions: watch::Receiver<u64>,
) {
    loop {
        definitions.mark_unchanged();
        follow(&client, row, &news).await;
        let is_told = news.send(News::Begin(row)).await.is_ok() && news.send(News::End(row)).await.is_ok();
        if !is_told || definitions.changed().await.is_err() {
            return;
        }
    }
}

/// Follows one kind for as long as it is served and somebody listens.
async fn follow(client: &Client, row: Row, news: &mpsc::Sender<News>) {
    let kind = &KINDS[row];
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
    let mut stream = pin!(watcher(api, watcher::Config::default()).default_backoff());
    let mut has_failed = false;
    while let Some(event) = stream.next().await {
        let told = match event {
            Ok(Event::Init) => News::Begin(row),
            Ok(Event::InitApply(object) | Event::Apply(object)) => News::Object(row, value(kind, object)),
            Ok(Event::Delete(object)) => News::Gone(row, value(kind, object)),
            Ok(Event::InitDone) => News::End(row),
            Err(error) if kind.is_custom && is_unserved(&error) => return,
            Err(error) => {
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(kind = kind.name, %error, "failed to watch, will try again; nothing is placed until it is known");
                }
                continue;
            }
        };
        has_failed &= !matches!(told, News::End(_));
        if news.send(told).await.is_err() {
            return;
        }
    }
}

fn is_unserved(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404)
}

/// The object as JSON; those of a list do not say what they are.
fn value(kind: &Kind, mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    let mut value = object.data;
    if !value.is_object() {
        value = json!({});
    }
    value["kind"] = kind.name.into();
    value["metadata"] = serde_json::to_value(object.metadata).expect("metadata is made of strings and numbers");
    value
}
