//! Watching: one stream per kind, as news for the one who keeps the view.
//!
//! The channel is bounded: when news comes faster than it is taken in, the streams wait.

use crate::kinds::{KINDS, Kind, Presence, Row};
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::pin::pin;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use volley_plan::gang::policy::Policy;

/// A kind of the server's own comes only with another start of it, which nobody tells of.
const SWITCHED_PACE: Duration = Duration::from_secs(60);
/// What was defined is served a moment later, on a large cluster some seconds: it is looked for soon, then more seldom.
const DEFINED_PAUSE: Duration = Duration::from_millis(50);
const DEFINED_PAUSE_MAX: Duration = Duration::from_secs(10);

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
        match kind.presence {
            Presence::Always => tasks.spawn(async move { follow(&client, row, &news).await }),
            Presence::Defined | Presence::Switched => {
                tasks.spawn(follow_while_served(client, row, news, definitions.clone()))
            }
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

/// A kind that is not served has no objects, until it is: when it is defined, or when the server was started anew.
async fn follow_while_served(
    client: Client,
    row: Row,
    news: mpsc::Sender<News>,
    mut definitions: watch::Receiver<u64>,
) {
    let mut pause: Option<Duration> = None;
    loop {
        definitions.mark_unchanged();
        follow(&client, row, &news).await;
        let is_told = news.send(News::Begin(row)).await.is_ok() && news.send(News::End(row)).await.is_ok();
        let is_switched = KINDS[row].presence == Presence::Switched;
        let wait = pause.or(is_switched.then_some(SWITCHED_PACE));
        let later = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        let has_ended = tokio::select! {
            changed = definitions.changed() => {
                pause = Some(DEFINED_PAUSE);
                changed.is_err()
            }
            () = later => {
                pause = pause.map(|pause| pause * 2).filter(|pause| *pause <= DEFINED_PAUSE_MAX);
                false
            }
        };
        if !is_told || has_ended {
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
            Err(error) if kind.presence != Presence::Always && is_unserved(&error) => return,
            // Rights that were given before the kind was known to us must not keep all pods waiting.
            Err(error) if kind.presence == Presence::Switched && has_code(&error, 403) => {
                tracing::debug!(
                    kind = kind.name,
                    api = kind.api_version(),
                    "may not be listed, so its objects are not known"
                );
                return;
            }
            // The server has forgotten what came since, as it does; what is there is listed anew.
            Err(watcher::Error::WatchError(status)) if status.code == 410 => continue,
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
    has_code(error, 404)
}

pub fn has_code(error: &watcher::Error, code: u16) -> bool {
    matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == code)
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
