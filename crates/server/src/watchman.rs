//! Looks after what ends by silence: runs whose process died, items whose agent did; and after what has become old: events.

use crate::Shared;
use crate::events::window;
use crate::fault::Result;
use crate::queue::items::{self, Report};
use crate::run::{self, stream};
use jiff::Timestamp;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use volley_plan::queue::item::{AGENT_SILENCE_MAX, Answer, State as ItemState, is_abandoned};
use volley_plan::run::state::{SILENCE_MAX, State, after_silence};

/// Often enough that silence is noticed soon after its limit of minutes.
const ROUND: Duration = Duration::from_secs(15);
/// What one round does at most; the rest waits for the next.
const BATCH: usize = 500;

pub async fn watch(shared: Shared, stop: CancellationToken) {
    loop {
        let now = Timestamp::now();
        if let Err(fault) = round(&shared, now).await {
            tracing::warn!(error = fault.message, "a round over what is silent or old failed");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND) => (),
        }
    }
}

pub async fn round(shared: &Shared, now: Timestamp) -> Result<()> {
    for seen in run::store::silent(&shared.database, now - SILENCE_MAX, BATCH).await? {
        let mut write = shared.database.write().await?;
        // It may have spoken since it was listed.
        let Some(run) = run::store::lock(&mut write, seen.project_id, &seen.name).await? else {
            continue;
        };
        let before = State::named(&run.state).unwrap_or(State::Running);
        let heartbeat = Timestamp::from_microsecond(run.heartbeat_at).unwrap_or(now);
        let after = after_silence(before, heartbeat, now);
        if after != before {
            run::store::set_state(&mut write, run.id, after, now).await?;
            stream::report(&mut write, &run, after, now).await?;
            write.commit().await?;
            shared.news.announce();
        }
    }
    for (seen, heard) in items::waiting_for_a_run(&shared.database, now - AGENT_SILENCE_MAX, BATCH).await? {
        let heard = Timestamp::from_microsecond(heard).unwrap_or(now);
        let mut write = shared.database.write().await?;
        let Some(item) = items::lock(&mut write, seen.id).await? else {
            continue;
        };
        if !is_abandoned(item.life.state, false, heard, now) {
            continue;
        }
        let message =
            format!("the agent has not been heard of for {} minutes, and no run appeared", AGENT_SILENCE_MAX.as_mins());
        items::set_error(&mut write, item.id, &Report { message, stage: "agent".to_owned(), file_paths: Vec::new() })
            .await?;
        let failed = volley_plan::queue::item::Item { state: ItemState::Failed, ..item.life.clone() };
        items::settle(&mut write, &item, Answer::Done(failed), now).await?;
        write.commit().await?;
        shared.news.announce();
    }
    window::prune(&shared.database, shared.window, now).await?;
    Ok(())
}
