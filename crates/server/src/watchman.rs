//! Looks after what ends by silence: runs whose process died, items whose agent did; and after what has become old: events.

use crate::Shared;
use crate::agent;
use crate::events::window;
use crate::fault::Result;
use crate::ids;
use crate::queue::items::{self, Report};
use crate::queue::stop::{self, Verdict};
use crate::queue::{mutation, store};
use crate::run::{self, stream};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use volley_plan::queue::item::{AGENT_SILENCE_MAX, Alone, End, Keeper, is_abandoned};
use volley_plan::run::state::{SILENCE_MAX, State, after_silence};

/// Often enough that silence is noticed soon after its limit of minutes.
const ROUND: Duration = Duration::from_secs(15);
/// How old the word of an agent may be that a run is alive, and how often it is noted.
const VOUCHED_EVERY: SignedDuration = SignedDuration::from_mins(1);
/// More runs than an agent keeps.
const HEARD_MAX: usize = 100_000;
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
    hear_by_agents(shared, now).await?;
    end_silent_runs(shared, since, now).await?;
    give_up_items(shared, since, now).await?;
    store::forget_deleted(&shared.database).await?;
    window::prune(&shared.database, shared.window, now).await?;
    Ok(())
}

/// A launch that writes nothing and does not track itself lives as long as the agent sees it running.
async fn hear_by_agents(shared: &Shared, now: Timestamp) -> Result<()> {
    // All of them, because who is not heard is taken for dead next.
    for _ in 0..HEARD_MAX / BATCH {
        let ids = run::store::vouched_for(&shared.database, now - VOUCHED_EVERY, now - VOUCHED_EVERY, BATCH).await?;
        if !ids.is_empty() {
            let mut write = shared.database.write().await?;
            run::store::hear(&mut write, &ids, now).await?;
            write.commit().await?;
        }
        if ids.len() < BATCH {
            break;
        }
    }
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
        // An agent of the item's own cluster would have taken it over long ago; others cannot.
        let is_bound = seen.site.is_some();
        let has_heirs = !is_bound && agent::store::is_queue_served(&shared.database, seen.queue_id, now).await?;
        let (mut write, item) = match mutation::lock(shared, &ids::encode("RunQueueItem", seen.id)).await {
            Err(fault) if fault.status == StatusCode::NOT_FOUND => continue,
            locked => locked?,
        };
        let alone = Alone {
            state: item.life.state,
            keeper: item.keeper,
            has_run: item.run_id.is_some(),
            is_stop_asked: item.life.is_stop_asked,
            agent_heartbeat: item.heard().max(since),
            has_heirs,
        };
        if !is_abandoned(&alone, now) {
            continue;
        }
        let silence = now.duration_since(item.heard()).as_mins();
        let message = match item.keeper {
            Keeper::Run if alone.has_run => format!("the agent has not been heard of for {silence} minutes"),
            Keeper::Run => format!("the agent has not been heard of for {silence} minutes, and no run appeared"),
            Keeper::Agent => {
                let other = if is_bound { "took it over" } else { "serves the queue" };
                format!("the agent has not been heard of for {silence} minutes, and no other {other}")
            }
        };
        let end = if item.life.is_stop_asked { End::Stopped } else { End::Failed };
        let report = Some(Report { message, stage: "agent".to_owned(), file_paths: Vec::new() });
        stop::end(&mut write, &item, item.life.lease, Verdict { end, exit_code: None, report }, now).await?;
        write.commit().await?;
        shared.news.announce();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use crate::events::stream::tests::server;
    use volley_plan::run::state::SILENCE_MAX;

    // L-33
    #[tokio::test(flavor = "multi_thread")]
    async fn a_launch_that_says_nothing_lives_as_long_as_its_agent_sees_it_running() {
        let (_folder, server, _caller) = server().await;
        let shared = server.shared.clone();
        let begin = Timestamp::now();
        let mut write = shared.database.write().await.unwrap();
        let run = "INSERT INTO runs (project_id, name, display_name, tags, config, summary, state, is_stopped, user_id, created_at, \
                   updated_at, heartbeat_at, history_lines, event_lines, log_lines, history_keys, system_metrics) \
                   VALUES (1, $1, '', '[]', '{}', '{}', 'running', 0, 1, $2, $2, $2, 0, 0, 0, '', '{}')";
        let project = "INSERT INTO projects (entity_id, name, folded, created_at) VALUES (1, 'p', 'p', 0)";
        let queue = "INSERT INTO queues (project_id, name, access, mode, links, user_id, created_at, updated_at) \
                     VALUES (1, 'q', 'PROJECT', 'DISABLED', '[]', 1, 0, 0)";
        let agent = "INSERT INTO agents (project_id, name, hostname, queues, status, is_told_to_stop, user_id, created_at, \
                     heartbeat_at) VALUES (1, 'a', 'h', '[]', 'RUNNING', 0, 1, 0, 0)";
        let item = "INSERT INTO items (queue_id, state, spec, template_values, priority, rank, lease, warnings, user_id, agent_id, \
                    run_id, keeper, created_at, updated_at) \
                    VALUES (1, 'RUNNING', '{}', '{}', 2, 2, 1, '[]', 1, 1, 1, 'agent', $1, $1)";
        write.run(project, args![]).await.unwrap();
        for name in ["launched", "alone"] {
            write.run(run, args![name, begin]).await.unwrap();
        }
        write.run(queue, args![]).await.unwrap();
        write.run(agent, args![]).await.unwrap();
        write.run(item, args![begin]).await.unwrap();
        write.commit().await.unwrap();
        let states = async |now: Timestamp| {
            round(&shared, begin, now).await.unwrap();
            let rows = shared.database.all("SELECT state FROM runs ORDER BY id", args![]).await.unwrap();
            rows.iter().map(|row| row.get("state").unwrap()).collect::<Vec<String>>()
        };
        let hear = async |now: Timestamp| {
            let mut write = shared.database.write().await.unwrap();
            agent::store::hear(&mut write, 1, None, now).await.unwrap();
            write.commit().await.unwrap();
        };
        let minute = |number: i64| begin + SignedDuration::from_mins(number);
        for number in 1..=4 {
            hear(minute(number)).await;
            assert_eq!(states(minute(number)).await, ["running", "running"]);
        }
        for number in 6..=20 {
            hear(minute(number)).await;
            assert_eq!(states(minute(number)).await, ["running", "crashed"]);
        }
        // The agent is gone, too.
        assert_eq!(states(minute(20) + SILENCE_MAX).await, ["running", "crashed"]);
        assert_eq!(states(minute(21) + SILENCE_MAX).await, ["crashed", "crashed"]);
        // It is back, and has seen it running all the time.
        let mut write = shared.database.write().await.unwrap();
        stop::start_run(&mut write, 1, minute(30)).await.unwrap();
        write.commit().await.unwrap();
        hear(minute(30)).await;
        assert_eq!(states(minute(30)).await, ["running", "crashed"]);
        server.stop().await;
    }
}
