//! Following the server: by its event stream where there is one, else by asking every few seconds.

use crate::desk::Desk;
use crate::health::Stage;
use crate::runner::Failure;
use crate::shell::Shell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
use volley_client::events::{Event, Events};
use volley_plan::agent::life::Standing;

/// All items are asked for this often, whatever the events say; it is also the agent's sign of life, and three may be
/// lost before others take its items over.
const ROUND: Duration = Duration::from_secs(15);
/// A server without events is asked this often.
const POLL: Duration = Duration::from_secs(3);
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

impl Shell {
    /// Until somebody stops the agent on the server (L-15).
    pub async fn follow(self: Arc<Self>) {
        match &self.desk {
            Desk::Ours(_) => self.follow_events().await,
            Desk::Theirs(_) => self.poll().await,
        }
    }

    async fn poll(&self) {
        loop {
            match self.look_at_all(false).await {
                Ok(true) => return,
                Ok(false) => self.health.set(Stage::Working),
                Err(error) => self.trouble(&error),
            }
            self.taking.notify_one();
            sleep(POLL).await;
        }
    }

    async fn follow_events(&self) {
        let (mut delay, mut after) = (RETRY_MIN, None);
        loop {
            match self.stream(&mut after, &mut delay).await {
                Ok(()) => return,
                Err(error) => self.trouble(&error),
            }
            sleep(delay).await;
            delay = (delay * 2).min(RETRY_MAX);
        }
    }

    fn trouble(&self, error: &Failure) {
        let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
        if self.health.words() == "ok" {
            tracing::warn!(cause, "the server is away; running work goes on, and its logs are kept");
        }
        self.health.set(Stage::Troubled(cause));
    }

    /// Follows one stream until it breaks, or the agent is told to stop. It is opened before all items are asked for, so that nothing falls between.
    async fn stream(&self, after: &mut Option<i64>, delay: &mut Duration) -> Result<(), Failure> {
        let mut events = match self.bench.client.events(*after).await {
            Ok(events) => events,
            Err(error) => {
                // The server may have forgotten that event.
                *after = None;
                return Err(error.into());
            }
        };
        self.look_at_queues().await?;
        if self.look_at_all(true).await? {
            return Ok(());
        }
        self.health.set(Stage::Working);
        *delay = RETRY_MIN;
        self.taking.notify_one();
        let mut round = Instant::now() + ROUND;
        loop {
            match next(&mut events, round).await? {
                Next::Event(event) => {
                    *after = Some(event.id);
                    if self.changes_queues(&event) {
                        self.look_at_queues().await?;
                    } else {
                        self.hear(&event);
                    }
                }
                Next::Round => {
                    self.look_at_queues().await?;
                    if self.look_at_all(false).await? {
                        return Ok(());
                    }
                    self.taking.notify_one();
                    round = Instant::now() + ROUND;
                }
            }
        }
    }

    /// Takes in how all items stand; says whether the agent is told to stop.
    async fn look_at_all(&self, is_full: bool) -> Result<bool, Failure> {
        let asked = self.table.now();
        let items = self.desk.items(is_full).await?;
        let takes_over = !self.is_leaving.load(Ordering::Relaxed);
        let is_ours = |item: &crate::item::Item| {
            let is_held = item.is_open() && (item.is_mine || (item.is_orphaned && takes_over));
            // Something may be left: of others an attempt before, or what was settled but not let go; of this agent, from
            // before it was killed, lines that the server lacks.
            let is_left = |key: &str| self.kube.has(key) || self.process.has(key) || self.consoles.has_left(key);
            self.table.has(&item.key()) || is_held || (!item.is_open() && is_left(&item.key()))
        };
        let items = items.into_iter().filter(is_ours).collect();
        let listed = self.table.take_list(items, asked);
        for item in listed.missing {
            match self.desk.whereabouts(&item).await {
                Ok(Some(whereabouts)) => self.table.find_out(&item.key(), asked, whereabouts),
                Ok(None) => (),
                // The next round asks again.
                Err(error) => {
                    tracing::debug!(item = item.id, %error, "what became of an item is not known yet");
                    break;
                }
            }
        }
        for key in listed.keys {
            self.wake(&key);
        }
        let held = self.table.held().len();
        self.health.set_held(held);
        let status = if held > 0 { "RUNNING" } else { "POLLING" };
        let is_news = *self.status.lock() != status;
        if is_news {
            self.bench.client.report_agent(&self.agent, status).await?;
            *self.status.lock() = status;
        }
        Ok(self.bench.client.agent_is_told_to_stop(&self.agent).await?)
    }

    fn hear(&self, event: &Event) {
        let state = event.body["state"].as_str().unwrap_or_default();
        if (event.kind.as_str(), state) == ("item.state", "PENDING") {
            return self.taking.notify_one();
        }
        let Some(key) = self.table.key_of(&event.subject) else { return };
        match event.kind.as_str() {
            "item.stop" => self.stop_item(&key),
            "item.deleted" => {
                self.table.change(&key, |entry| entry.item.be_over());
                self.wake(&key);
            }
            "item.state" if matches!(state, "FINISHED" | "FAILED") => {
                self.table.change(&key, |entry| entry.item.standing = Standing::Ended);
                self.wake(&key);
            }
            _ => (),
        }
    }

    /// Somebody wants it to end.
    pub fn stop_item(&self, key: &str) {
        self.table.change(key, |entry| entry.item.is_stop_asked = true);
        self.wake(key);
    }
}

enum Next {
    Event(Event),
    Round,
}

async fn next(events: &mut Events, round: Instant) -> Result<Next, Failure> {
    tokio::select! {
        event = events.next() => match event? {
            Some(event) => Ok(Next::Event(event)),
            None => Err(Failure::Files(std::io::Error::other("the event stream ended"))),
        },
        () = sleep_until(round) => Ok(Next::Round),
    }
}
