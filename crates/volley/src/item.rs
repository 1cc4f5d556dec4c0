//! Items of queues as people name them: by number, by id, or by the run that they became.
//!
//! `stop`, and for items `logs` and `why`, come here.

use crate::home::Home;
use crate::launch::follow::{Followed, standing};
use crate::listing::print_one;
use crate::logs::console::Console;
use crate::output::Output;
use crate::remote::{Remote, Session, run_path};
use anyhow::{Result, anyhow, bail};
use clap::Args;
use serde_json::{Value, json};
use std::process::ExitCode;
use volley_client::items::Item;
use volley_client::part;

const STOP_EXAMPLES: &str = "\
Examples:
  volley stop 17                 what waits ends at once; what runs, when its pods are gone
  volley stop mnist/abc123       the item of a run
  volley stop 17 18 19";

/// An item's id, in the form that W&B's clients know: `RunQueueItem:` in base64.
const ID_START: &str = "UnVuUXVldWVJdGVtO";

/// End an item of a queue, or the run that it became
#[derive(Args)]
#[command(after_help = STOP_EXAMPLES)]
pub struct Stop {
    /// Items by number or id, or runs as PROJECT/RUN
    #[arg(value_name = "ITEM", required = true)]
    items: Vec<String>,
    #[command(flatten)]
    remote: Remote,
}

impl Stop {
    pub fn run(self, home: &Home) -> Result<ExitCode> {
        self.remote.with(home, async |session| {
            for written in &self.items {
                stop(&session, written).await?;
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

async fn stop(session: &Session, written: &str) -> Result<()> {
    let Some(item) = find(session, written).await? else {
        // A run that nobody launched, such as one of a script.
        if !written.contains('/') {
            return Err(missing(written));
        }
        let [entity, project, run] = run_path(session, None, written)?;
        let found = session.client.run(entity, project, run).await?;
        let id = found.as_ref().and_then(|run| run["id"].as_str()).ok_or_else(|| missing(written))?;
        session.client.stop_run(id).await?;
        eprintln!("asked run `{entity}/{project}/{run}` to stop");
        return Ok(());
    };
    if let Some(end) = &item.end {
        eprintln!("item {} has ended already: {end}", item.number);
        return Ok(());
    }
    match session.client.stop_item(&item.id).await?.as_str() {
        "FAILED" => eprintln!("item {} was stopped", item.number),
        _ => eprintln!("item {} is being stopped", item.number),
    }
    Ok(())
}

fn missing(written: &str) -> anyhow::Error {
    anyhow!("there is no item or run `{written}`\nhint: `volley ps -a` shows items, `volley run ls` runs")
}

/// Whether this can only mean an item, and no job of a cluster.
pub fn is_item(written: &str) -> bool {
    let is_number = !written.is_empty() && written.bytes().all(|byte| byte.is_ascii_digit());
    is_number || written.starts_with(ID_START)
}

/// The item that is meant, if there is one.
pub async fn find(session: &Session, written: &str) -> Result<Option<Item>> {
    let id = match is_item(written) {
        true => Some(written.to_owned()),
        false => newest_of_run(session, written).await?,
    };
    let Some(id) = id else {
        return Ok(None);
    };
    match session.client.item(&id).await {
        Ok(item) => Ok(Some(item)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn newest_of_run(session: &Session, written: &str) -> Result<Option<String>> {
    let path = match written.matches('/').count() {
        0 | 2 => written.to_owned(),
        1 => format!("{}/{written}", session.entity),
        _ => return Ok(None),
    };
    let items = session.client.items_of_run(&path).await?;
    Ok(items.first().and_then(|item| item["id"].as_str()).map(str::to_owned))
}

/// How the logs of an item are wanted.
pub struct Wanted {
    pub ranks: Vec<String>,
    pub tail: Option<u64>,
    pub has_times: bool,
    pub follow: bool,
}

/// Prints what an item's ranks have said; nothing if no item is meant.
pub async fn logs(session: &Session, written: &str, wanted: Wanted) -> Result<Option<ExitCode>> {
    let Some(item) = find(session, written).await? else {
        return Ok(None);
    };
    if wanted.follow {
        let mut followed = Followed::new(session.client.clone(), item.number);
        followed.console = Console::new(wanted.ranks, wanted.has_times);
        followed.console.tail = wanted.tail;
        return followed.until_its_end().await.map(Some);
    }
    if item.run.is_none() {
        eprintln!("{}", standing(&item));
    }
    let mut console = Console::new(wanted.ranks, wanted.has_times);
    console.tail = wanted.tail;
    console.print_rest(&session.client, &item).await?;
    Ok(Some(ExitCode::SUCCESS))
}

/// Says why an item is not running, or how it ended; nothing if no item is meant.
pub async fn why(session: &Session, written: &str, output: Output) -> Result<Option<()>> {
    let Some(item) = find(session, written).await? else {
        return Ok(None);
    };
    let told = reasons(&item);
    match output.format {
        Some(_) => {
            let value = json!({ "item": item.number, "queue": item.queue, "state": item.state, "end": item.end,
                "queue_place": item.queue_place, "estimate_s": item.estimate_s, "reasons": told, "place": item.place });
            print_one(output, &item.number.to_string(), &value)?;
        }
        None => crate::output::print(&(told.join("\n") + "\n"))?,
    }
    Ok(Some(()))
}

/// In the order in which somebody wants to know.
fn reasons(item: &Item) -> Vec<String> {
    let mut told = Vec::new();
    match item.end.as_deref() {
        Some(end) => {
            let code = item.exit_code.filter(|code| *code != 0).map(|code| format!(" with exit code {code}"));
            let end = if end == "stopped" { "was stopped" } else { end };
            told.push(format!("item {} {end}{}", item.number, code.unwrap_or_default()));
            told.extend(item.error.as_ref().map(|error| format!("{} (stage: {})", error.message, error.stage)));
        }
        None => told.push(standing(item)),
    }
    let is_held = !matches!(item.state.as_str(), "PENDING" | "FINISHED" | "FAILED");
    if let (true, Some(agent)) = (is_held, &item.agent) {
        let silent = agent.silent_s;
        if item.is_orphaned && item.agents.is_empty() {
            told.push(format!(
                "its agent {} was last heard of {silent} s ago, and no agent serves queue {1}; start one: volley agent -q {1}",
                agent.name, item.queue
            ));
        } else if item.is_orphaned {
            told.push(format!("its agent {} was last heard of {silent} s ago; another takes it over", agent.name));
        }
    }
    if item.attempt > 1 {
        told.push(format!("it is in attempt {}, after preemption", item.attempt));
    }
    for row in item.place.as_array().into_iter().flatten() {
        let word = |field: &str| row[field].as_str().unwrap_or("-").to_owned();
        let rank = row["rank"].as_u64().map_or_else(String::new, |rank| format!("rank {rank}: "));
        told.push(format!("{rank}pod {} on {}", word("pod"), word("node")));
    }
    told.extend(item.warnings.iter().map(|warning| format!("warning: {}", warning.message)));
    told
}

/// What happened to the items of a run, oldest first.
pub async fn timeline(session: &Session, [entity, project, run]: [&str; 3]) -> Result<Vec<Value>> {
    let items = session.client.items_of_run(&format!("{entity}/{project}/{run}")).await?;
    let mut told = Vec::new();
    for item in items.iter().rev().filter_map(|item| item["id"].as_str()) {
        let item = session.client.item(item).await?;
        let mut at = |time: &Option<String>, what: String| {
            if let Some(time) = time {
                told.push(json!({ "at": time, "what": what, "item": item.number }));
            }
        };
        at(&Some(item.created.clone()), format!("queued in {} by {}", item.queue, item.user));
        at(&item.started, format!("taken by {}", item.agent.as_ref().map_or("an agent", |agent| &agent.name)));
        let why = item.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
        at(&item.ended, format!("{}{why}", item.end.as_deref().unwrap_or("ended")));
    }
    Ok(told)
}

/// Shows an item in full, for `run show`.
pub async fn show(session: &Session, written: &str, output: Output) -> Result<()> {
    let value = session.client.get(&format!("/api/v1/items/{}", part(written))).await;
    match value {
        Ok(value) => print_one(output, written, &value),
        Err(error) if error.is_missing() => bail!(missing(written)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_ids_mean_items_and_words_may_mean_jobs() {
        assert!(is_item("17") && is_item("UnVuUXVldWVJdGVtOjIy"));
        assert!(!is_item("train") && !is_item("mnist/abc") && !is_item("vcjob/17"));
    }

    #[test]
    fn the_reason_names_the_agent_that_is_missing() {
        let item = Item {
            number: 3,
            queue: "gpu".into(),
            state: "RUNNING".into(),
            is_orphaned: true,
            agent: Some(volley_client::items::Keeper { name: "a".into(), silent_s: 90 }),
            attempt: 2,
            ..Item::default()
        };
        let told = reasons(&item).join("\n");
        assert!(told.contains("volley agent -q gpu") && told.contains("attempt 2"), "{told}");
    }
}
