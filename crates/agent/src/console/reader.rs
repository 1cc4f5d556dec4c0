//! Reads one log to its end, over cuts, into the journal.

use super::Console;
use crate::attempt::Attempt;
use crate::runner::{Log, Runner};
use futures::AsyncBufReadExt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use volley_plan::logs::sources::{self, Source};

/// Longer lines are kept in pieces of this length.
const LINE_BYTES_MAX: usize = 256 << 10;
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// At a log that has ended, whether its container has, each after `RETRY_MIN`.
const LOOKS: u32 = 20;
/// A log that the cluster refuses to open that often has gone with its pod. A cluster that does not answer is waited for.
const REFUSALS_MAX: u32 = 20;

/// Reads until the log has ended for good.
pub async fn read(console: Arc<Console>, runner: Arc<dyn Runner>, attempt: Attempt, source: Source) {
    let mut delay = RETRY_MIN;
    let mut refusals = 0;
    loop {
        // Whoever ended before the log was opened has nothing to add to it afterwards.
        let had_ended = !is_running(&*runner, &attempt, &source);
        let since = console.since(&source);
        let Some(present) = sources::reach(&source, &runner.sources(&attempt, &Default::default())) else { break };
        match runner.open(&attempt, &present, since.as_deref()).await {
            Err(error) if error.is_gone() => break,
            Ok(log) => {
                (refusals, delay) = (0, RETRY_MIN);
                match copy(&console, &source, log).await {
                    Ok(()) if had_ended => break,
                    Ok(()) => (),
                    Err(error) => tracing::debug!(pod = source.pod, %error, "a log was cut"),
                }
                // Mostly its container has ended, which is seen in a moment; until then the log may be the next run's.
                for _ in 0..LOOKS {
                    if !is_running(&*runner, &attempt, &source) {
                        break;
                    }
                    tokio::time::sleep(RETRY_MIN).await;
                }
            }
            Err(error) => {
                refusals += u32::from(error.is_answer());
                if refusals > REFUSALS_MAX {
                    tracing::warn!(pod = source.pod, %error, "a log cannot be read any more");
                    break;
                }
                delay = (delay * 2).min(RETRY_MAX);
                // Whatever other logs bring meanwhile, which would use up all tries at once.
                tokio::time::sleep(delay).await;
            }
        }
    }
    console.note_read(&source);
}

fn is_running(runner: &dyn Runner, attempt: &Attempt, source: &Source) -> bool {
    let all = runner.sources(attempt, &Default::default());
    all.iter().any(|other| other.run == source.run && other.is_running)
}

impl Console {
    /// The time to go on from; the API takes whole seconds, and what was read already is passed over.
    fn since(&self, source: &Source) -> Option<String> {
        let mut journal = self.journal.lock();
        let number = journal.source(source).ok()?;
        let last = journal.position(number)?.last.clone();
        let time: jiff::Timestamp = last.parse().ok()?;
        Some(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }

    fn note_read(&self, source: &Source) {
        let mut journal = self.journal.lock();
        let ended = journal.source(source).and_then(|number| journal.end(number));
        drop(journal);
        if let Err(error) = ended {
            tracing::warn!(pod = source.pod, %error, "failed to note the end of a log");
        }
        self.open.lock().remove(&source.run);
        self.changed.notify_waiters();
    }
}

/// Copies lines into the journal until the stream ends; those that the journal has are passed over.
async fn copy(console: &Console, source: &Source, mut log: Log) -> io::Result<()> {
    let (number, mut last, known) = {
        let mut journal = console.journal.lock();
        let number = journal.source(source)?;
        let position = journal.position(number);
        (number, position.map(|it| it.last.clone()).unwrap_or_default(), position.map_or(0, |it| it.same))
    };
    let resumed_at: Option<jiff::Timestamp> = last.parse().ok();
    let mut same = 0;
    while let Some(bytes) = line(&mut log).await? {
        let text = String::from_utf8_lossy(&bytes);
        let is_time = |word: &str| word.parse::<jiff::Timestamp>().is_ok();
        // What has no time of its own is a further piece of a long line.
        let (time, text) = match text.split_once(' ').unwrap_or((&text, "")) {
            (time, text) if is_time(time) => (time.to_owned(), text),
            _ => (last.clone(), &*text),
        };
        if let (Some(resumed_at), Ok(now)) = (resumed_at, time.parse::<jiff::Timestamp>()) {
            if now < resumed_at {
                continue;
            }
            if now == resumed_at && same < known {
                same += 1;
                continue;
            }
        }
        console.journal.lock().push(number, &time, text)?;
        last = time;
        console.changed.notify_waiters();
    }
    Ok(())
}

/// The next line without its end, or a piece of a long one.
async fn line(log: &mut Log) -> io::Result<Option<Vec<u8>>> {
    let mut text = Vec::new();
    loop {
        let buffer = log.fill_buf().await?;
        if buffer.is_empty() {
            return Ok((!text.is_empty()).then_some(text));
        }
        let room = buffer.len().min(LINE_BYTES_MAX - text.len());
        let end = buffer[..room].iter().position(|byte| *byte == b'\n');
        text.extend_from_slice(&buffer[..end.unwrap_or(room)]);
        log.consume_unpin(end.map_or(room, |end| end + 1));
        if end.is_some() || text.len() >= LINE_BYTES_MAX {
            return Ok(Some(text));
        }
    }
}
