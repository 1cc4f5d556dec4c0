//! Events end an hour after they last happened (K-EVT-2). The index keeps them in order of their ends, so that a visit
//! costs what it removes.

use super::apply::{SyncError, Synced};
use super::{Shell, split};
use futures::future::join_all;
use jiff::Timestamp;
use std::time::Duration;

/// Events removed side by side.
const BATCH_MAX: usize = 256;

impl Shell {
    pub async fn sync_events(&self) -> Synced {
        loop {
            let now = Timestamp::now().as_second();
            let (ended, next) = {
                let view = self.look();
                (view.index.ended_events(now, BATCH_MAX), view.index.next_event_end())
            };
            if ended.is_empty() {
                return Ok(next.map(|end| Duration::from_secs(u64::try_from(end - now).unwrap_or(0).max(1))));
            }
            let local = self.server.local("event-expiry");
            let deletes = ended.iter().map(|key| local.delete("", "events", split(key), "", "Background"));
            let results = join_all(deletes).await;
            let failed = results.into_iter().find_map(Result::err);
            if let Some(error) = failed {
                return Err(SyncError::of("delete old events".to_owned(), error));
            }
        }
    }
}
