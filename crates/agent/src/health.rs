//! How the agent is, for `volley status` and for whoever waits until it works.

use parking_lot::Mutex;
use tokio::sync::watch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    Starting,
    Working,
    /// Something keeps it from working; it tries again.
    Troubled(String),
    Stopped,
}

#[derive(Debug)]
pub struct Health {
    stage: watch::Sender<Stage>,
    held: Mutex<usize>,
}

impl Default for Health {
    fn default() -> Self {
        Health { stage: watch::channel(Stage::Starting).0, held: Mutex::new(0) }
    }
}

impl Health {
    pub fn set(&self, stage: Stage) {
        self.stage.send_if_modified(|known| {
            let is_new = *known != stage;
            *known = stage;
            is_new
        });
    }

    pub fn set_held(&self, held: usize) {
        *self.held.lock() = held;
    }

    /// `ok`, or what is wrong.
    pub fn words(&self) -> String {
        match &*self.stage.borrow() {
            Stage::Working => "ok".to_owned(),
            Stage::Starting => "starting".to_owned(),
            Stage::Troubled(why) => why.clone(),
            Stage::Stopped => "stopped".to_owned(),
        }
    }

    /// Items that it holds.
    pub fn held(&self) -> usize {
        *self.held.lock()
    }

    /// Returns once it works, or is in trouble.
    pub async fn until_settled(&self) {
        // The sender lives as long as this does.
        let _ = self.stage.subscribe().wait_for(|stage| *stage != Stage::Starting).await;
    }
}
