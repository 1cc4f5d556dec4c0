//! Telling the server how the agent's own cluster looks: nodes, GPUs, who holds them, what waits. `plan::agent::picture` draws.
//!
//! Watches of its own, since it is about all pods and not only ours. What may not be watched is missing from the picture; an
//! agent that may not see nodes tells of none.

use crate::desk::Desk;
use crate::kube::calls::Kind;
use crate::shell::Shell;
use futures::StreamExt as _;
use futures::stream::{SelectAll, select_all};
use jiff::Timestamp;
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use volley_api::volcano;
use volley_plan::agent::picture::{self, EVENTS_MAX, ITEM, Picture, Seen};

/// Changes come in bursts: what a burst makes is told once.
const BURST: Duration = Duration::from_millis(250);
/// Between two tellings; people look at it, no machine does.
const PAUSE: Duration = Duration::from_secs(1);
/// How often GPUs are asked how busy they are, where somebody measures them.
const MEASURE: Duration = Duration::from_secs(10);
/// The server is told again now and then, so that it knows that nothing changed.
const ROUND: Duration = Duration::from_secs(60);
const KINDS: [(&str, &str, &str); 4] = [
    ("v1", "Node", "nodes"),
    ("v1", "Pod", "pods"),
    ("v1", "Event", "events"),
    (volcano::SCHEDULING, "PodGroup", "podgroups"),
];

type Changes = Pin<Box<dyn futures::Stream<Item = (&'static str, Event<DynamicObject>)> + Send>>;

impl Shell {
    /// Tells of the cluster for as long as the agent runs.
    pub async fn tell_of_cluster(self: Arc<Self>) {
        let (Desk::Ours(_), Some(client)) = (&self.desk, self.kube.own_client()) else {
            return std::future::pending().await;
        };
        let name = self.kube.own_name().await.unwrap_or_else(|| self.agent.clone());
        let mut changes: SelectAll<Changes> =
            select_all(KINDS.map(|(version, kind, plural)| watched(&client, version, kind, plural)));
        let mut view = View::default();
        let (mut told, mut due, mut measured) = (None, None, Instant::now());
        let mut metrics = Vec::new();
        let mut round = Round::new(Instant::now());
        loop {
            tokio::select! {
                Some((kind, event)) = changes.next() => {
                    view.learn(kind, event);
                    due = due.or(Some(Instant::now() + BURST));
                    continue;
                }
                () = sleep_until(due.unwrap_or(round.next).min(round.next)) => (),
                () = sleep_until(measured + MEASURE), if view.has_gpus => {
                    measured = Instant::now();
                    metrics = measure(&client).await;
                }
            }
            let drawn = view.draw(&metrics);
            let is_news = round.is_due(Instant::now()) || told.as_ref() != Some(&drawn);
            if is_news && view.is_whole() {
                match self.bench.client.tell_cluster(&self.agent, &name, &json!(drawn)).await {
                    Ok(()) => told = Some(drawn),
                    Err(error) => tracing::debug!(%error, "the server was not told how the cluster looks"),
                }
                round = Round::new(Instant::now());
                tokio::time::sleep(PAUSE).await;
            }
            due = None;
        }
    }
}

/// When the server is told next, whatever changes.
struct Round {
    next: Instant,
}

impl Round {
    fn new(now: Instant) -> Round {
        Round { next: now + ROUND }
    }

    /// Whether it has come; then the next one is awaited, whether or not there is anything to tell.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now >= self.next;
        if is_due {
            *self = Round::new(now);
        }
        is_due
    }
}

async fn measure(client: &Client) -> Vec<Value> {
    let Ok(request) = http::Request::get("/apis/metrics.k8s.io/v1beta1/nodes").body(Vec::new()) else {
        return Vec::new();
    };
    // A cluster without a metrics server has nothing to tell.
    let told: Value = client.request(request).await.unwrap_or_default();
    told["items"].as_array().cloned().unwrap_or_default()
}

fn watched(client: &Client, version: &str, kind: &'static str, plural: &str) -> Changes {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &Kind::new(version, kind, plural).resource);
    let stream = watcher(api, watcher::Config::default()).default_backoff();
    Box::pin(stream.filter_map(move |event| async move { Some((kind, event.ok()?)) }))
}

/// What the watches have told, in the order of names.
#[derive(Default)]
struct View {
    objects: BTreeMap<&'static str, BTreeMap<(String, String), Value>>,
    /// What a list that is under way has brought so far.
    listed: BTreeMap<&'static str, BTreeMap<(String, String), Value>>,
    /// Whether somebody may measure: GPUs that are not there are not busy.
    has_gpus: bool,
}

impl View {
    fn learn(&mut self, kind: &'static str, event: Event<DynamicObject>) {
        let is_listing = matches!(event, Event::Init | Event::InitApply(_));
        match event {
            Event::Init => _ = self.listed.insert(kind, BTreeMap::new()),
            Event::InitApply(object) => {
                let (key, object) = read(kind, object);
                self.listed.entry(kind).or_default().insert(key, object);
            }
            Event::InitDone => {
                let listed = self.listed.remove(kind).unwrap_or_default();
                let before = self.objects.insert(kind, listed).unwrap_or_default();
                match kind {
                    "Event" => self.trim_events(),
                    "Pod" => before.values().for_each(|pod| self.note_item(pod)),
                    _ => (),
                }
            }
            Event::Apply(object) => {
                let (key, object) = read(kind, object);
                self.objects.entry(kind).or_default().insert(key, object);
                if kind == "Event" {
                    self.trim_events();
                }
            }
            Event::Delete(object) => {
                let key = read(kind, object).0;
                // An event is told until newer ones take its place, whether the cluster still has it or not.
                if kind != "Event" {
                    let gone = self.objects.entry(kind).or_default().remove(&key);
                    gone.iter().filter(|_| kind == "Pod").for_each(|pod| self.note_item(pod));
                }
            }
        }
        if kind == "Node" && !is_listing {
            self.has_gpus = self.all("Node").into_iter().any(is_real);
        }
    }

    /// Notes which events are of the item whose pod goes now.
    fn note_item(&mut self, pod: &Value) {
        let events = self.objects.get_mut("Event").into_iter().flat_map(BTreeMap::values_mut);
        for event in events.filter(|event| event[ITEM].is_null()) {
            event[ITEM] = json!(picture::item_of(event, std::iter::once(pod)));
        }
    }

    /// Forgets the oldest. Whose they are is looked up when they are told, or when their pods go.
    fn trim_events(&mut self) {
        let Some(events) = self.objects.get_mut("Event") else { return };
        if events.len() > 2 * EVENTS_MAX {
            let mut times: Vec<(String, (String, String))> =
                events.iter().map(|(key, event)| (picture::event_time(event).to_owned(), key.clone())).collect();
            times.sort();
            for (_, key) in &times[..times.len() - EVENTS_MAX] {
                events.remove(key);
            }
        }
    }

    fn all(&self, kind: &str) -> Vec<&Value> {
        self.objects.get(kind).into_iter().flat_map(BTreeMap::values).collect()
    }

    /// Half a picture would show jobs on no node, and GPUs that nobody holds.
    fn is_whole(&self) -> bool {
        ["Node", "Pod"].iter().all(|kind| self.objects.contains_key(kind))
    }

    fn draw(&self, metrics: &[Value]) -> Picture {
        let (nodes, pods) = (self.all("Node"), self.all("Pod"));
        let (groups, events) = (self.all("PodGroup"), self.all("Event"));
        let seen = Seen { nodes: &nodes, pods: &pods, groups: &groups, events: &events, metrics };
        picture::draw(&seen, Timestamp::now())
    }
}

fn is_real(node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    labels["nvidia.com/gpu.product"].is_string() && labels["volley.dev/fake-gpus"].is_null()
}

fn read(kind: &'static str, object: DynamicObject) -> ((String, String), Value) {
    let mut value = if object.data.is_object() { object.data } else { json!({}) };
    let name = object.metadata.name.clone().unwrap_or_default();
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    value["metadata"] = serde_json::to_value(object.metadata).expect("metadata is made of strings and numbers");
    ((namespace, name), picture::kept(kind, &value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(kind: &'static str, name: &str, data: Value) -> DynamicObject {
        let mut object = DynamicObject::new(name, &Kind::new("v1", kind, "x").resource).data(data);
        object.metadata.namespace = Some("ml".into());
        object
    }

    #[test]
    fn a_list_that_is_under_way_does_not_empty_the_picture() {
        let mut view = View::default();
        assert!(!view.is_whole());
        for kind in ["Node", "Pod"] {
            view.learn(kind, Event::Init);
            view.learn(kind, Event::InitApply(object(kind, "a", json!({}))));
            view.learn(kind, Event::InitDone);
        }
        assert!(view.is_whole());
        view.learn("Pod", Event::Init);
        assert_eq!(view.all("Pod").len(), 1);
        view.learn("Pod", Event::InitDone);
        assert!(view.all("Pod").is_empty());
    }

    #[test]
    fn a_round_that_has_nothing_to_tell_is_over_all_the_same() {
        let mut round = Round::new(Instant::now());
        let then = round.next;
        assert!(round.is_due(then));
        assert!(!round.is_due(then) && round.next > then, "else the agent would never sleep again");
    }

    #[test]
    fn an_event_knows_whose_it_was_after_its_pod_is_gone_and_old_ones_go() {
        let mut view = View::default();
        let mut pod = object("Pod", "p", json!({}));
        pod.metadata.labels = Some(BTreeMap::from([("volley.dev/item".to_owned(), "key".to_owned())]));
        view.learn("Pod", Event::Apply(pod.clone()));
        for second in 0..200 {
            let data = json!({ "lastTimestamp": format!("2026-01-01T00:{:02}:{:02}Z", second / 60, second % 60),
                "involvedObject": { "namespace": "ml", "name": "p", "kind": "Pod" } });
            view.learn("Event", Event::Apply(object("Event", &format!("e{second}"), data)));
        }
        view.learn("Pod", Event::Delete(pod));
        assert!(view.all("Event").len() <= 2 * EVENTS_MAX);
        let told = view.draw(&[]).events;
        assert_eq!((told[0].item.as_deref(), told[0].at.as_str()), (Some("key"), "2026-01-01T00:03:19Z"));
    }
}
