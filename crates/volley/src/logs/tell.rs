//! Reads the logs of a job, merges and prints them: once, or until the job ends.
//!
//! Everything happens in one task: `reading` holds one future per log that has room for another line, and whatever comes
//! first is taken. A log whose lines are held back is not read on, so the server waits and memory is bounded.

use super::look::{Look, Looker};
use super::print::{Prefix, Printer};
use super::reader::{Entry, Excerpt, Reader};
use anyhow::{Result, bail};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use volley_plan::logs::merge::{LogId, Merge, Next};
use volley_plan::logs::sources::{Found, Run, Source};

/// How long a followed line waits for what another rank may have said before it: more than a network needs, and less than
/// a person notices.
const WINDOW: SignedDuration = SignedDuration::from_millis(250);
/// How often a followed job is looked at for new pods and its end, and how often while some of its pods are starting: what
/// they say first should not come long after what others said at that time.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY_AT_START: Duration = Duration::from_millis(200);
/// How long a server may be away while a job is followed, such as for a restart.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long logs must be silent after the job's end to be done: pods may be left running.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How many lines are taken before what may be told is told.
const EVENTS_AT_ONCE: usize = 1000;
/// How long a rank may take to start before the user is told what it waits for.
const SILENCE: Duration = Duration::from_secs(3);
/// Each is a connection.
const LOGS_MAX: usize = 512;

enum Event {
    Opened(Source, Option<Timestamp>, Result<Reader>),
    Read(LogId, Reader, io::Result<Option<Entry>>),
}

/// A log that was opened.
struct Open {
    run: Run,
    prefix: Prefix,
    /// Set while it has no room.
    paused: Option<Reader>,
    /// Lines up to this time were told before the connection broke.
    told_until: Option<Timestamp>,
    last: Option<Timestamp>,
    is_open: bool,
}

struct Telling {
    looker: Looker,
    printer: Printer,
    merge: Merge,
    is_followed: bool,
    reading: FuturesUnordered<BoxFuture<'static, Event>>,
    logs: BTreeMap<LogId, Open>,
    /// Every run that was ever opened, and until when it was read.
    read: BTreeMap<Run, Option<Timestamp>>,
    /// Logs that are being asked for.
    opening: BTreeSet<Run>,
    /// The place of each label in the order of ranks; a restart keeps it, and with it the colour.
    numbers: BTreeMap<String, usize>,
    problems: Vec<String>,
}

/// Tells what there is.
pub async fn once(looker: Looker, excerpt: Excerpt, printer: Printer) -> Result<()> {
    let look = looker.look().await?;
    let found = looker.find(&look, &BTreeSet::new());
    complain_if_nothing_is_meant(&looker, &found)?;
    found.waiting.iter().for_each(|waiting| eprintln!("{waiting}"));
    let mut telling = Telling::new(looker, printer, false);
    telling.open(found, &excerpt)?;
    telling.read_all().await
}

/// Tells until the job ends.
pub async fn follow(looker: Looker, excerpt: Excerpt, printer: Printer) -> Result<()> {
    let mut telling = Telling::new(looker, printer, true);
    let looks = keep_looking(telling.looker.clone());
    telling.follow_all(looks, excerpt).await
}

fn complain_if_nothing_is_meant(looker: &Looker, found: &Found) -> Result<()> {
    let name = looker.full_name();
    if found.labels.is_empty() {
        bail!("{name} has no pods\nhint: -f waits for them; `kubectl describe {name}` may tell why");
    }
    if found.sources.is_empty() && found.waiting.is_empty() {
        let wanted = &looker.wanted;
        let what = match &wanted.container {
            Some(container) => format!("container `{container}`"),
            None => format!("rank `{}`", wanted.ranks.join(",")),
        };
        bail!("{name} has no {what}\nhint: its ranks are {}", found.labels.join(", "));
    }
    if found.sources.is_empty() {
        bail!("{}\nhint: -f waits for what is to come", found.waiting.join("\n"));
    }
    Ok(())
}

/// Looks at the job again and again, beside the reading, for as long as somebody listens.
fn keep_looking(looker: Looker) -> mpsc::Receiver<Result<Look>> {
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let look = looker.look().await;
            let is_starting = look.as_ref().is_ok_and(|look| !looker.find(look, &BTreeSet::new()).waiting.is_empty());
            if sender.send(look).await.is_err() {
                return;
            }
            sleep(if is_starting { LOOK_EVERY_AT_START } else { LOOK_EVERY }).await;
        }
    });
    receiver
}

impl Telling {
    fn new(looker: Looker, printer: Printer, is_followed: bool) -> Telling {
        Telling {
            looker,
            printer,
            merge: Merge::new(is_followed.then_some(WINDOW)),
            is_followed,
            reading: FuturesUnordered::new(),
            logs: BTreeMap::new(),
            read: BTreeMap::new(),
            opening: BTreeSet::new(),
            numbers: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    /// Asks for the logs that are not being read.
    fn open(&mut self, found: Found, excerpt: &Excerpt) -> Result<()> {
        let has_containers = found.sources.iter().any(|source| source.label.contains('/'));
        let is_first = self.logs.is_empty() && !found.sources.is_empty();
        if self.looker.kind.is_pod() && is_first && !has_containers {
            self.printer.leave_out_prefix();
        }
        found.labels.iter().for_each(|label| self.printer.widen(label));
        for source in found.sources {
            let is_open = self.logs.values().any(|log| log.is_open && log.run == source.run);
            if is_open || !self.opening.insert(source.run.clone()) {
                continue;
            }
            let next_number = self.numbers.len();
            self.numbers.entry(source.label.clone()).or_insert(next_number);
            let told_until = self.read.get(&source.run).copied().flatten();
            let excerpt = match told_until {
                Some(time) => Excerpt { since_time: Some(time.to_string()), ..Excerpt::default() },
                None => excerpt.clone(),
            };
            let (looker, is_followed) = (self.looker.clone(), self.is_followed && !source.is_previous);
            let opened = async move {
                let reader = Reader::open(&looker, &source, &excerpt, is_followed).await;
                Event::Opened(source, told_until, reader)
            };
            self.reading.push(opened.boxed());
        }
        let open = self.opening.len() + self.logs.values().filter(|log| log.is_open).count();
        if open > LOGS_MAX {
            bail!("{open} logs are more than can be read at once ({LOGS_MAX})\nhint: --rank chooses some of them");
        }
        Ok(())
    }

    async fn read_all(&mut self) -> Result<()> {
        while let Some(event) = self.reading.next().await {
            self.take(event);
            // Until all are open, what is first is not known.
            if self.opening.is_empty() {
                self.tell(Timestamp::now())?;
            }
        }
        self.printer.flush()?;
        match self.problems.is_empty() {
            true => Ok(()),
            false => bail!("{}", self.problems.join("\n")),
        }
    }

    async fn follow_all(&mut self, mut looks: mpsc::Receiver<Result<Look>>, excerpt: Excerpt) -> Result<()> {
        let mut has_looked = false;
        let mut has_ended = false;
        let (mut seen, mut active) = (Instant::now(), Instant::now());
        let mut silent = Silent::default();
        loop {
            let next = match has_looked && self.opening.is_empty() {
                true => self.tell(Timestamp::now())?,
                false => None,
            };
            self.printer.flush()?;
            let is_silent = self.reading.is_empty() || active.elapsed() > LAST_WORDS;
            if has_ended && next.is_none() && is_silent {
                return Ok(());
            }
            tokio::select! {
                Some(event) = self.reading.next() => {
                    active = Instant::now();
                    self.take(event);
                    self.take_what_is_there();
                }
                () = until(next) => {}
                Some(look) = looks.recv() => match look {
                    Ok(look) => {
                        seen = Instant::now();
                        let found = self.looker.find(&look, &self.read.keys().cloned().collect());
                        if !has_ended {
                            active = Instant::now();
                            silent.tell(&found.waiting);
                        }
                        // Pods that come later are told from their first line.
                        let excerpt = if has_looked { Excerpt::default() } else { excerpt.clone() };
                        self.open(found, &excerpt)?;
                        (has_looked, has_ended) = (true, look.has_ended);
                    }
                    Err(error) if seen.elapsed() > PATIENCE || !has_looked => return Err(error),
                    Err(_) => {}
                }
            }
        }
    }

    /// Takes more events without waiting, so that a flood is printed in large pieces.
    fn take_what_is_there(&mut self) {
        for _ in 0..EVENTS_AT_ONCE {
            let Some(Some(event)) = self.reading.next().now_or_never() else { return };
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Opened(source, told_until, Ok(reader)) => {
                self.opening.remove(&source.run);
                self.read.insert(source.run.clone(), told_until);
                let id = self.merge.open(Timestamp::now());
                let number = self.numbers.get(&source.label).copied().unwrap_or(0);
                let prefix = self.printer.prefix(&source.label, number);
                let log = Open { run: source.run, prefix, paused: None, told_until, last: told_until, is_open: true };
                self.logs.insert(id, log);
                self.read_on(id, reader);
            }
            Event::Opened(source, _, Err(error)) => {
                self.opening.remove(&source.run);
                // A followed one is asked for again at the next look.
                if !self.is_followed {
                    self.problems.push(format!("{}: {error}", source.label));
                }
            }
            Event::Read(id, reader, Ok(Some(entry))) => self.take_line(id, reader, entry),
            Event::Read(id, _, Ok(None)) => self.close(id, None),
            Event::Read(id, _, Err(error)) => self.close(id, Some(error)),
        }
    }

    fn take_line(&mut self, id: LogId, reader: Reader, entry: Entry) {
        let Some(log) = self.logs.get_mut(&id) else { return };
        log.last = entry.time.or(log.last);
        let was_told = log.told_until.is_some() && log.last <= log.told_until;
        if !was_told {
            self.merge.push(id, entry.time, entry.text, Timestamp::now());
        }
        match self.merge.has_room(id) {
            true => self.read_on(id, reader),
            false => log.paused = Some(reader),
        }
    }

    fn read_on(&mut self, id: LogId, mut reader: Reader) {
        let read = async move {
            let entry = reader.next().await;
            Event::Read(id, reader, entry)
        };
        self.reading.push(read.boxed());
    }

    fn close(&mut self, id: LogId, problem: Option<io::Error>) {
        self.merge.close(id);
        let Some(log) = self.logs.get_mut(&id) else { return };
        log.is_open = false;
        self.read.insert(log.run.clone(), log.last);
        if let Some(problem) = problem.filter(|_| !self.is_followed) {
            self.problems.push(format!("{}: the log broke off: {problem}", log.prefix.label));
        }
    }

    /// Prints what may be told; gives until when the next line waits.
    fn tell(&mut self, now: Timestamp) -> Result<Option<Timestamp>> {
        loop {
            let (id, line) = match self.merge.next(now) {
                Next::Tell(id, line) => (id, line),
                Next::Wait(until) => return Ok(until),
                Next::End => return Ok(None),
            };
            let Some(log) = self.logs.get_mut(&id) else { continue };
            self.printer.line(&log.prefix, line.time, &line.text)?;
            if self.merge.has_room(id)
                && let Some(reader) = log.paused.take()
            {
                self.read_on(id, reader);
            }
        }
    }
}

/// Ranks that have nothing to say, and since when.
#[derive(Default)]
struct Silent(BTreeMap<String, (Instant, bool)>);

impl Silent {
    /// Says once why a rank is silent, if it has been so for longer than a start takes.
    fn tell(&mut self, waiting: &[String]) {
        self.0.retain(|text, _| waiting.contains(text));
        for text in waiting {
            let (since, was_told) = self.0.entry(text.clone()).or_insert((Instant::now(), false));
            if !*was_told && since.elapsed() > SILENCE {
                eprintln!("{text}");
                *was_told = true;
            }
        }
    }
}

async fn until(time: Option<Timestamp>) {
    match time {
        Some(time) => {
            let left = time.duration_since(Timestamp::now());
            sleep(Duration::try_from(left).unwrap_or_default()).await;
        }
        None => std::future::pending().await,
    }
}
