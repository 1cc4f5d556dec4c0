//! The containers of our items as the engine has them: listed once, then followed by its events.

use super::engine::{Engine, Result};
use crate::kube::Wake;
use crate::runner::Failure;
use futures::StreamExt as _;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout_at};
use volley_api::kube::text;
use volley_plan::launch::label;

/// All are looked at this often, whatever the events say.
const ROUND: Duration = Duration::from_secs(15);
const RETRY: Duration = Duration::from_secs(1);

pub struct View {
    pub engine: Engine,
    wake: Wake,
    containers: Mutex<BTreeMap<(String, u32), Value>>,
    /// Whether all were listed, or why not.
    seen: watch::Sender<Option<std::result::Result<(), String>>>,
    task: Mutex<Option<AbortHandle>>,
}

impl View {
    pub fn open(engine: Engine, wake: Wake) -> Arc<View> {
        let view = Arc::new(View {
            engine,
            wake,
            containers: Mutex::default(),
            seen: watch::channel(None).0,
            task: Mutex::default(),
        });
        let followed = Arc::downgrade(&view);
        let task = tokio::spawn(async move {
            while let Some(view) = Weak::upgrade(&followed) {
                if let Err(error) = view.follow().await {
                    tracing::debug!(%error, "the container engine's events were cut");
                    view.seen.send_if_modified(|seen| {
                        let is_first = seen.is_none();
                        if is_first {
                            *seen = Some(Err(error.to_string()));
                        }
                        is_first
                    });
                }
                drop(view);
                sleep(RETRY).await;
            }
        });
        *view.task.lock() = Some(task.abort_handle());
        view
    }

    /// Returns when all containers were listed, or the engine did not answer.
    pub async fn seen(&self) -> std::result::Result<(), Failure> {
        let mut seen = self.seen.subscribe();
        // The sender lives as long as this does.
        let _ = seen.wait_for(Option::is_some).await;
        match &*seen.borrow() {
            Some(Err(why)) => Err(Failure::Busy(why.clone())),
            _ => Ok(()),
        }
    }

    /// Follows one stream of events. It is opened before all are listed, so that nothing falls between.
    async fn follow(&self) -> Result<()> {
        let mut events = self.engine.events().await?;
        loop {
            self.list().await?;
            let round = Instant::now() + ROUND;
            loop {
                match timeout_at(round, events.next()).await {
                    Err(_) => break,
                    Ok(Some(Ok(event))) => {
                        let id = event["Actor"]["ID"].as_str().or_else(|| event["id"].as_str());
                        let is_ours = event["Actor"]["Attributes"][label::ITEM].is_string();
                        if let (Some(id), true) = (id, is_ours) {
                            self.look(id).await?;
                        }
                    }
                    Ok(Some(Err(error))) => return Err(super::EngineError::Strange(error.to_string())),
                    Ok(None) => return Ok(()),
                }
            }
        }
    }

    async fn list(&self) -> Result<()> {
        let before: Vec<(String, u32)> = self.containers.lock().keys().cloned().collect();
        let mut now = BTreeMap::new();
        for listed in self.engine.labelled(label::ITEM).await? {
            if let Some(container) = self.engine.inspect(text(&listed, "Id")).await?
                && let Some(place) = place(&container)
            {
                now.insert(place, container);
            }
        }
        for place in before.iter().filter(|place| !now.contains_key(*place)) {
            self.containers.lock().remove(place);
            (self.wake)(&place.0);
        }
        now.into_iter().for_each(|(place, container)| self.learn(place, container));
        self.seen.send_replace(Some(Ok(())));
        Ok(())
    }

    fn learn(&self, place: (String, u32), container: Value) {
        let is_news = self.containers.lock().insert(place.clone(), container.clone()).as_ref() != Some(&container);
        if is_news {
            (self.wake)(&place.0);
        }
    }

    /// Looks at one container; one that is gone is forgotten.
    async fn look(&self, id: &str) -> Result<()> {
        match self.engine.inspect(id).await? {
            Some(container) => {
                if let Some(place) = place(&container) {
                    self.learn(place, container);
                }
            }
            None => {
                let mut containers = self.containers.lock();
                let gone = containers
                    .iter()
                    .find(|(_, container)| text(container, "Id") == id)
                    .map(|(place, _)| place.clone());
                if let Some(place) = gone {
                    containers.remove(&place);
                    drop(containers);
                    (self.wake)(&place.0);
                }
            }
        }
        Ok(())
    }

    pub async fn look_at(&self, id: &str) -> std::result::Result<(), Failure> {
        Ok(self.look(id).await?)
    }

    pub fn get(&self, key: &str, attempt: u32) -> Option<Value> {
        self.containers.lock().get(&(key.to_owned(), attempt)).cloned()
    }

    /// All of an item, by their attempts.
    pub fn of(&self, key: &str) -> Vec<(u32, Value)> {
        let containers = self.containers.lock();
        let own = containers.range((key.to_owned(), 0)..=(key.to_owned(), u32::MAX));
        own.map(|((_, attempt), container)| (*attempt, container.clone())).collect()
    }

    pub fn all(&self) -> Vec<Value> {
        self.containers.lock().values().cloned().collect()
    }

    pub fn forget(&self, key: &str, attempt: u32) {
        self.containers.lock().remove(&(key.to_owned(), attempt));
    }
}

impl View {
    /// Follows no more.
    pub fn close(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

/// Whose container it is.
fn place(container: &Value) -> Option<(String, u32)> {
    let labels = &container["Config"]["Labels"];
    Some((labels[label::ITEM].as_str()?.to_owned(), labels[label::ATTEMPT].as_str()?.parse().ok()?))
}
