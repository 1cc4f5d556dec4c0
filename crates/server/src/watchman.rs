//! Looks after what ends by silence: runs whose process died, items whose agent did; and after what has become old: events.

use crate::Shared;
use crate::agent;
use crate::events::window;
use crate::fault::Result;
use crate::queue::items::{self, Report};
use crate::run::{self, stream};
use jiff::Timestamp;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use volley_plan::queue::item::{AGENT_SILENCE_MAX, Alone, Answer, Keeper, State as ItemState, is_abandoned};
use volley_plan::run::state::{SILENCE_MAX, State, after_silence};

/// Often enough that silence is noticed soon after its limit of minutes.
const ROUND: Duration = Duration::from_secs(15);
/// What one round does at most; the rest waits for the next.
const BATCH: usize = 500;

pub async fn watch(shared: Shared, stop: CancellationToken) {
    // While the server was away nobody could be heard, so silence is counted from when it came back.
    let since = Timestamp::now();
    loop {
        let now = Timestamp::now();
        if let Err(fault) = round(&shared, since, now).await {
            tracing::warn!(error = fault.message, "a round over what is silent or old failed");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(ROUND) => (),
        }
    }
}

pub async fn round(shared: &Shared, since: Timestamp, now: Timestamp) -> Result<()> {
    end_silent_runs(shared, since, now).await?;
    give_up_items(shared, since, now).await?;
    window::prune(&shared.database, shared.window, now).await?;
    Ok(())
}

async fn end_silent_runs(shared: &Shared, since: Timestamp, now: Timestamp) -> Result<()> {
    for seen in run::store::silent(&shared.database, now - SILENCE_MAX, BATCH).await? {
        let mut write = shared.database.write().await?;
        // It may have spoken since it was listed.
        let Some(run) = run::store::lock(&mut write, seen.project_id, &seen.name).await? else {
            continue;
        };
        let before = State::named(&run.state).unwrap_or(State::Running);
        let heartbeat = Timestamp::from_microsecond(run.heartbeat_at).unwrap_or(now).max(since);
        let after = after_silence(before, heartbeat, now);
        if after != before {
            run::store::set_state(&mut write, run.id, after, now).await?;
            stream::report(&mut write, &run, after, now).await?;
            write.commit().await?;
            shared.news.announce();
        }
    }
    Ok(())
}

async fn give_up_items(shared: &Shared, since: Timestamp, now: Timestamp) -> Result<()> {
    for seen in items::left_alone(&shared.database, now - AGENT_SILENCE_MAX, BATCH).await? {
        let has_heirs = agent::store::is_queue_served(&shared.database, seen.queue_id, now).await?;
        let mut write = shared.database.write().await?;
        let Some(item) = items::lock(&mut write, seen.id).await? else {
            continue;
        };
        let alone = Alone {
            state: item.life.state,
            keeper: item.keeper,
            has_run: item.run_id.is_some(),
            agent_heartbeat: item.heard().max(since),
            has_heirs,
        };
        if !is_abandoned(&alone, now) {
            continue;
        }
        let silence = now.duration_since(item.heard()).as_mins();
        let message = match item.keeper {
            Keeper::Run => format!("the agent has not been heard of for {silence} minutes, and no run appeared"),
            Keeper::Agent => {
                format!("the agent has not been heard of for {silence} minutes, and no other serves the queue")
            }
        };
        items::set_error(&mut write, item.id, &Report { message, stage: "agent".to_owned(), file_paths: Vec::new() })
            .await?;
        let failed = volley_plan::queue::item::Item { state: ItemState::Failed, ..item.life.clone() };
        items::settle(&mut write, &item, Answer::Done(failed), now).await?;
        write.commit().await?;
        shared.news.announce();
    }
    Ok(())
}
