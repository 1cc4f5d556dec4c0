//! Follows an item from its place in the queue to its end: why it waits on stderr, what its ranks say on stdout.

use crate::logs::console::Console;
use anyhow::Result;
use std::process::ExitCode;
use std::time::Duration;
use volley_client::events::Events;
use volley_client::items::Item;
use volley_client::{Client, Error};

/// How often is looked without being told of anything.
const LOOK: Duration = Duration::from_secs(5);
/// Before a server that went away is asked again.
const PAUSE: Duration = Duration::from_secs(1);

pub struct Followed {
    client: Client,
    number: i64,
    pub console: Console,
    /// What was said of it last.
    said: String,
}

impl Followed {
    pub fn new(client: Client, number: i64) -> Followed {
        Followed { client, number, console: Console::new(Vec::new(), false), said: String::new() }
    }

    /// The exit code is the job's. Whoever interrupts leaves it running.
    pub async fn until_its_end(mut self) -> Result<ExitCode> {
        let number = self.number;
        tokio::select! {
            ended = self.follow() => ended,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                eprintln!("\ndetached from item {number}, which goes on");
                eprintln!("hint: `volley logs -f {number}` comes back to it, `volley stop {number}` ends it");
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    async fn follow(&mut self) -> Result<ExitCode> {
        loop {
            // Opened before the look, so that nothing happens unseen between the two.
            let mut events = match self.client.events(None).await {
                Ok(events) => events,
                Err(error) => {
                    self.pass(error).await?;
                    continue;
                }
            };
            if let Some(code) = self.look_on(&mut events).await? {
                return Ok(code);
            }
        }
    }

    /// Looks at each event, until the stream breaks off or the item has ended.
    async fn look_on(&mut self, events: &mut Events) -> Result<Option<ExitCode>> {
        loop {
            let item = match self.client.item(&self.number.to_string()).await {
                Ok(item) => item,
                Err(error) => {
                    self.pass(error).await?;
                    return Ok(None);
                }
            };
            if let Some(end) = &item.end {
                self.console.print_rest(&self.client, &item).await?;
                return Ok(Some(tell_end(&item, end)));
            }
            self.say_once(standing(&item));
            tokio::select! {
                printed = self.console.follow(&self.client, &item) => printed?,
                is_open = next_of(events, &item.id) => if !is_open {
                    return Ok(None);
                },
            }
        }
    }

    /// A server that is away for a moment is waited for.
    async fn pass(&mut self, error: Error) -> Result<()> {
        if !error.is_passing() {
            return Err(error.into());
        }
        self.say_once(format!("{error}; trying again"));
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }

    fn say_once(&mut self, text: String) {
        if self.said != text {
            eprintln!("{text}");
            self.said = text;
        }
    }
}

fn tell_end(item: &Item, end: &str) -> ExitCode {
    let why = item.error.as_ref().map(|error| format!(": {}", error.message)).unwrap_or_default();
    eprintln!("item {} {}{why}", item.number, if end == "stopped" { "was stopped" } else { end });
    exit_code(item)
}

/// Waits for something to happen to the item; whether the stream goes on.
async fn next_of(events: &mut Events, id: &str) -> bool {
    let heard = async {
        loop {
            match events.next().await {
                Ok(Some(event)) if event.subject == id => return true,
                Ok(Some(_)) => (),
                Ok(None) | Err(_) => return false,
            }
        }
    };
    tokio::time::timeout(LOOK, heard).await.unwrap_or(true)
}

/// The job's, as far as a process can have it.
fn exit_code(item: &Item) -> ExitCode {
    let code = match item.end.as_deref() {
        Some("finished") | None => 0,
        Some(_) => item.exit_code.filter(|code| *code != 0).unwrap_or(1),
    };
    // Whatever failed must not end as if it had not.
    ExitCode::from(u8::try_from(code.rem_euclid(256)).ok().filter(|low| *low != 0 || code == 0).unwrap_or(1))
}

/// Where an item is, in one line.
pub fn standing(item: &Item) -> String {
    let number = item.number;
    let wait = |reason: &str| if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let noted = wait(item.waiting.as_deref().unwrap_or_default());
    if item.stop_asked && item.end.is_none() {
        return format!("item {number} is being stopped");
    }
    match item.state.as_str() {
        "PENDING" => {
            let place = item.queue_place.unwrap_or(1);
            let estimate = item.estimate_s.map(|seconds| format!(", about {} to go", duration(seconds)));
            let reason = wait(item.reason.as_deref().unwrap_or_default());
            format!("item {number} is number {place} in queue `{}`{}{reason}", item.queue, estimate.unwrap_or_default())
        }
        "LEASED" => format!("item {number} was taken by an agent{noted}"),
        "CLAIMED" => format!("item {number} is being started{noted}"),
        "RUNNING" => format!("item {number} is running{noted}"),
        _ => format!("item {number} has ended"),
    }
}

fn duration(seconds: i64) -> String {
    match seconds {
        ..90 => format!("{seconds} s"),
        90..5400 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h", (seconds + 1800) / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_an_item_is_is_one_line() {
        let waiting = Item {
            number: 7,
            state: "PENDING".into(),
            queue: "gpu".into(),
            queue_place: Some(3),
            estimate_s: Some(600),
            reason: Some("2 before it in queue gpu".into()),
            ..Item::default()
        };
        assert_eq!(
            standing(&waiting),
            "item 7 is number 3 in queue `gpu`, about 10 min to go: 2 before it in queue gpu"
        );
        let starting = Item { state: "CLAIMED".into(), waiting: Some("pulling img:1".into()), ..waiting };
        assert_eq!(standing(&starting), "item 7 is being started: pulling img:1");
    }

    #[test]
    fn the_exit_code_is_the_jobs_and_never_zero_for_a_failure() {
        let ended = |end: &str, code: Option<i64>| {
            let item = Item { end: Some(end.to_owned()), exit_code: code, ..Item::default() };
            format!("{:?}", exit_code(&item))
        };
        assert_eq!(ended("finished", Some(0)), format!("{:?}", ExitCode::SUCCESS));
        assert_eq!(ended("failed", Some(137)), format!("{:?}", ExitCode::from(137)));
        for odd in [None, Some(0), Some(256)] {
            assert_eq!(ended("failed", odd), format!("{:?}", ExitCode::from(1)));
        }
    }
}
