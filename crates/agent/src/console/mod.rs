//! A run's console: the logs of all its pods, read as they are written, kept on disk and sent to the server.
//!
//! `journal` is what is kept. One task reads each log, one sends; a look at the item (`visit`) tells of new pods. No line is
//! lost by a cut or a restart, and none comes twice: a log goes on after the last line that the journal has.

mod journal;
mod reader;

use crate::attempt::Attempt;
use crate::desk::Desk;
use crate::runner::Runner;
use jiff::Timestamp;
use journal::{Batch, Journal, Position};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use volley_client::Client;
use volley_plan::agent::life::ATTEMPTS_MAX;
use volley_plan::logs::sources::Run;

/// One post to the server; its own limit is far above.
const LINES_MAX: usize = 1000;
const BYTES_MAX: usize = 512 << 10;
/// Between two posts of one run. The first line goes at once; what comes after it travels together.
const PAUSE: Duration = Duration::from_millis(200);
/// W&B's server takes a run that says nothing for five minutes for dead. Ours knows from the agent that it lives.
const HEARTBEAT: Duration = Duration::from_secs(30);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// How long the end of a run waits for its last lines, when neither the cluster nor the server gives them.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// One attempt's console.
pub struct Console {
    journal: Mutex<Journal>,
    /// Logs that somebody reads now.
    open: Mutex<BTreeSet<Run>>,
    /// Something changed: a line came, was sent, a log ended.
    changed: Notify,
    tasks: Mutex<JoinSet<()>>,
    /// The workload runs, so the run gives signs of life.
    is_running: AtomicBool,
    /// The item is settled: once the server has all lines, nothing is left to do.
    is_settled: AtomicBool,
}

pub type OnStop = Arc<dyn Fn(&str) + Send + Sync>;

/// An item and an attempt.
type Key = (String, u32);

/// The consoles of all items.
pub struct Consoles {
    folder: PathBuf,
    client: Client,
    all: Arc<Mutex<BTreeMap<Key, Arc<Console>>>>,
    /// The server says that the run is to stop.
    on_stop: OnStop,
    heartbeat: Option<Duration>,
}

impl Consoles {
    pub fn new(folder: &Path, client: Client, desk: &Desk, on_stop: OnStop) -> io::Result<Consoles> {
        std::fs::create_dir_all(folder)?;
        let heartbeat = matches!(desk, Desk::Theirs(_)).then_some(HEARTBEAT);
        Ok(Consoles { folder: folder.to_owned(), client, all: Arc::default(), on_stop, heartbeat })
    }

    fn console(&self, attempt: &Attempt) -> io::Result<Arc<Console>> {
        let key = (attempt.key.clone(), attempt.item.attempt);
        let mut all = self.all.lock();
        if let Some(console) = all.get(&key) {
            return Ok(console.clone());
        }
        let path = self.path(&key.0, key.1);
        let console = Arc::new(Console {
            journal: Mutex::new(Journal::open(&path)?),
            open: Mutex::default(),
            changed: Notify::new(),
            tasks: Mutex::default(),
            is_running: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
        });
        let sending = send(console.clone(), self.client.clone(), attempt.clone(), self.on_stop.clone(), self.heartbeat);
        let (kept, own) = (self.all.clone(), key.clone());
        console.tasks.lock().spawn(async move {
            sending.await;
            kept.lock().remove(&own);
        });
        all.insert(key, console.clone());
        Ok(console)
    }

    /// Begins to read logs that are new.
    pub fn follow(&self, attempt: &Attempt, runner: &Arc<dyn Runner>, is_running: bool) -> io::Result<()> {
        let console = self.console(attempt)?;
        console.is_running.store(is_running, Ordering::Relaxed);
        console.read_new(attempt, runner);
        Ok(())
    }

    /// The last lines of a container.
    pub fn tail(&self, attempt: &Attempt, pod: &str, container: &str) -> Vec<String> {
        let console = self.all.lock().get(&(attempt.key.clone(), attempt.item.attempt)).cloned();
        let Some(console) = console else { return Vec::new() };
        let journal = console.journal.lock();
        let own = |source: &&Position| source.pod == pod && source.run.container == container;
        // One that has just been started again has none yet.
        let own = |source: &&Position| own(source) && !source.tail.is_empty();
        journal.positions().iter().rfind(own).map(|source| source.tail.iter().cloned().collect()).unwrap_or_default()
    }

    /// Waits until all logs were read to their end and sent, but not for ever.
    pub async fn drain(&self, attempt: &Attempt, runner: &Arc<dyn Runner>) -> io::Result<()> {
        let console = self.console(attempt)?;
        let end = Instant::now() + DRAIN_MAX;
        loop {
            let changed = console.changed.notified();
            console.read_new(attempt, runner);
            let is_read = console.open.lock().is_empty();
            if is_read && console.journal.lock().is_sent() {
                return Ok(());
            }
            if tokio::time::timeout_at(end, changed).await.is_err() {
                tracing::warn!(item = attempt.item.id, "the run ends before all lines of its logs were sent");
                return Ok(());
            }
        }
    }

    /// Whether lines of an item wait here, which an agent that was killed has left.
    pub fn has_left(&self, key: &str) -> bool {
        let is_known = |number| self.all.lock().contains_key(&(key.to_owned(), number));
        (1..=ATTEMPTS_MAX).any(|number| !is_known(number) && self.path(key, number).exists())
    }

    fn path(&self, key: &str, attempt: u32) -> PathBuf {
        self.folder.join(format!("{key}-{attempt}.jsonl"))
    }

    /// The item is settled: what is sent goes, and what is not is sent on.
    pub fn settle(&self, attempt: &Attempt) {
        let key = &attempt.key;
        for number in (1..=ATTEMPTS_MAX).filter(|number| self.path(key, *number).exists()) {
            let mut of_number = attempt.clone();
            of_number.item.attempt = number;
            if let Err(error) = self.console(&of_number) {
                tracing::warn!(item = attempt.item.id, %error, "the journal of a log cannot be read");
            }
        }
        let all = self.all.lock();
        for (_, console) in all.iter().filter(|((own, _), _)| own == key) {
            console.is_settled.store(true, Ordering::Relaxed);
            console.changed.notify_waiters();
        }
    }

    /// Stops reading and sending; the journals stay for the next start.
    pub fn close(&self) {
        self.all.lock().values().for_each(|console| console.tasks.lock().abort_all());
    }
}

impl Console {
    /// Begins to read logs that nobody reads yet.
    fn read_new(self: &Arc<Self>, attempt: &Attempt, runner: &Arc<dyn Runner>) {
        for source in runner.sources(attempt, &self.read()) {
            let is_new = self.open.lock().insert(source.run.clone());
            if is_new {
                let reading = reader::read(self.clone(), runner.clone(), attempt.clone(), source);
                let mut tasks = self.tasks.lock();
                while tasks.try_join_next().is_some() {}
                tasks.spawn(reading);
            }
        }
    }

    /// Logs that were read to their end.
    fn read(&self) -> BTreeSet<Run> {
        let journal = self.journal.lock();
        journal.positions().iter().filter(|source| source.is_read).map(|source| source.run.clone()).collect()
    }
}

/// A line as W&B's clients word it.
fn worded(attempt: &Attempt, source: &Position, time: &str, text: &str) -> String {
    let label = if attempt.prepared.is_plural { format!("[{}] ", source.label) } else { String::new() };
    let time = time.parse::<Timestamp>().map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string());
    match time {
        Ok(time) => format!("{time} {label}{text}"),
        Err(_) => format!("{label}{text}"),
    }
}

/// Posts a batch, the lines of each log under the log's own name; says whether the run is to stop.
async fn post(client: &Client, attempt: &Attempt, batch: &Batch) -> volley_client::Result<bool> {
    let path = attempt.prepared.run.path();
    let item = format!("volley-agent-{}-{}", attempt.key, attempt.item.attempt);
    if batch.parts.is_empty() {
        return client.log_beside(path, &item, 0, &[]).await;
    }
    let mut is_stopped = false;
    for part in batch.parts.values() {
        let Run { pod_uid, container, restarts } = &part.run;
        let writer = format!("{item}-{pod_uid}-{container}-{restarts}");
        is_stopped |= client.log_beside(path, &writer, part.offset, &part.lines).await?;
    }
    Ok(is_stopped)
}

/// Sends what the server lacks, and signs of life, until the console is dropped.
async fn send(console: Arc<Console>, client: Client, attempt: Attempt, on_stop: OnStop, heartbeat: Option<Duration>) {
    let mut delay = PAUSE;
    let mut spoken = Instant::now();
    loop {
        let changed = console.changed.notified();
        let batch = console
            .journal
            .lock()
            .unsent(LINES_MAX, BYTES_MAX, |source, time, text| worded(&attempt, source, time, text));
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                tracing::warn!(item = attempt.item.id, %error, "the journal of a log cannot be read");
                return;
            }
        };
        if batch.parts.is_empty() {
            if console.is_settled.load(Ordering::Relaxed) && console.open.lock().is_empty() {
                console.journal.lock().remove();
                return;
            }
            let Some(heartbeat) = heartbeat else {
                changed.await;
                continue;
            };
            if tokio::time::timeout_at(spoken + heartbeat, changed).await.is_ok() {
                continue;
            }
            spoken = Instant::now();
            if !console.is_running.load(Ordering::Relaxed) {
                continue;
            }
        }
        match post(&client, &attempt, &batch).await {
            Ok(is_stopped) => {
                if let Err(error) = console.journal.lock().note_sent(&batch) {
                    tracing::warn!(item = attempt.item.id, %error, "failed to note what was sent");
                }
                console.changed.notify_waiters();
                if is_stopped {
                    on_stop(&attempt.key);
                }
                (delay, spoken) = (PAUSE, Instant::now());
            }
            Err(error) => {
                tracing::debug!(item = attempt.item.id, %error, "lines wait for the server");
                delay = (delay * 2).min(RETRY_MAX);
            }
        }
        tokio::time::sleep(delay).await;
    }
}
