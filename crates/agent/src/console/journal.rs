//! The lines of one item's logs on disk, in the order in which they came, and how many of them the server has.
//!
//! They wait here while the server is away, and after a restart of the agent they say where each log goes on. A line is
//! one record; a source is named before its first line. What a crash cut off at the end is read again from the pod. The
//! server counts the lines of each source by themselves, so another agent that reads the same logs adds none twice.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use volley_plan::logs::sources::{Run, Source};

/// Of one item; more would fill the disk while the server is away.
const BYTES_MAX: u64 = 1 << 30;
/// A file begins anew when more than this of it, and a good part of all, is sent.
const COMPACT_FROM: u64 = 8 << 20;
const COMPACT_PART: u64 = 4;
/// Last lines that are kept at hand of each source, for the reason of a failure.
const TAIL_MAX: usize = 20;

/// One record of the file.
#[derive(Serialize, Deserialize)]
enum Record {
    /// A source and how far it had come, and the number of lines before the file begins.
    Source {
        number: usize,
        uid: String,
        container: String,
        restarts: u64,
        pod: String,
        label: String,
        last: String,
        same: usize,
        is_read: bool,
        /// Of these, all that came before the file begins were sent.
        #[serde(default)]
        lines: u64,
    },
    Base(u64),
    Line(usize, String, String),
    /// The source was read to its end.
    End(usize),
}

/// A log and how far it was read.
#[derive(Debug, Clone)]
pub struct Position {
    pub run: Run,
    pub pod: String,
    /// What it is called among the logs of its job.
    pub label: String,
    /// The time of the last line, as it was written.
    pub last: String,
    /// How many lines had that very time.
    pub same: usize,
    pub is_read: bool,
    pub tail: VecDeque<String>,
    /// How many of its lines the server has.
    sent: u64,
}

pub struct Journal {
    path: PathBuf,
    file: File,
    bytes: u64,
    lines: u64,
    sources: Vec<Position>,
    numbers: BTreeMap<Run, usize>,
    sent: Sent,
    left_out: u64,
}

/// What the server has: lines, and the bytes of the file that hold them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sent {
    lines: u64,
    bytes: u64,
}

/// Lines of one source that the server lacks.
#[derive(Default)]
struct Waiting {
    lines: usize,
    /// Some are of another time than the last.
    has_times: bool,
}

/// Lines to send, by their sources.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub parts: BTreeMap<usize, Part>,
    lines: u64,
    bytes: u64,
}

/// Lines of one source, and how many of it came before them.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    pub run: Run,
    pub offset: u64,
    pub lines: Vec<String>,
}

impl Journal {
    pub fn open(path: &Path) -> io::Result<Journal> {
        let file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let mut journal = Journal {
            path: path.to_owned(),
            file,
            bytes: 0,
            lines: 0,
            sources: Vec::new(),
            numbers: BTreeMap::new(),
            sent: Sent::default(),
            left_out: 0,
        };
        journal.read()?;
        Ok(journal)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut reader = BufReader::new(File::open(&self.path)?);
        let mut text = String::new();
        let mut base = Sent::default();
        let mut sent = self.read_sent().unwrap_or_default();
        loop {
            text.clear();
            // A line that is no text was cut off by a crash, as one without an end was.
            let length = reader.read_line(&mut text).unwrap_or(0);
            let Some(record) = text.strip_suffix('\n').and_then(|text| serde_json::from_str(text).ok()) else { break };
            self.bytes += length as u64;
            if let Record::Base(lines) = &record {
                self.lines = *lines;
                base = Sent { lines: *lines, bytes: self.bytes };
                // What is said to be sent is of the file before, when a crash came between the two.
                if sent.lines <= base.lines {
                    sent = base;
                }
            } else {
                if let Record::Line(number, ..) = &record
                    && self.bytes <= sent.bytes
                    && let Some(source) = self.sources.get_mut(*number)
                {
                    source.sent += 1;
                }
                self.take(record);
            }
        }
        self.file.set_len(self.bytes)?;
        let is_of_this = sent.lines >= base.lines && sent.lines <= self.lines && sent.bytes <= self.bytes;
        self.sent = if is_of_this { sent } else { base };
        Ok(())
    }

    fn take(&mut self, record: Record) {
        match record {
            Record::Source { number: _, uid, container, restarts, pod, label, last, same, is_read, lines } => {
                let run = Run { pod_uid: uid, container, restarts };
                self.numbers.insert(run.clone(), self.sources.len());
                self.sources.push(Position {
                    run,
                    pod,
                    label,
                    last,
                    same,
                    is_read,
                    tail: VecDeque::new(),
                    sent: lines,
                });
            }
            Record::Base(lines) => self.lines = lines,
            Record::End(number) => {
                if let Some(source) = self.sources.get_mut(number) {
                    source.is_read = true;
                }
            }
            Record::Line(number, time, text) => {
                self.lines += 1;
                let Some(source) = self.sources.get_mut(number) else { return };
                source.same = if source.last == time { source.same + 1 } else { 1 };
                source.last = time;
                source.tail.push_back(text);
                if source.tail.len() > TAIL_MAX {
                    source.tail.pop_front();
                }
            }
        }
    }

    fn read_sent(&self) -> Option<Sent> {
        let text = fs::read_to_string(self.sent_path()).ok()?;
        let (lines, bytes) = text.trim().split_once(' ')?;
        Some(Sent { lines: lines.parse().ok()?, bytes: bytes.parse().ok()? })
    }

    fn sent_path(&self) -> PathBuf {
        self.path.with_extension("sent")
    }

    fn append(&mut self, record: Record) -> io::Result<()> {
        let mut text = serde_json::to_string(&record).map_err(io::Error::other)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.bytes += text.len() as u64;
        self.take(record);
        Ok(())
    }

    /// The number of a source, which is noted when it is new.
    pub fn source(&mut self, source: &Source) -> io::Result<usize> {
        let run = &source.run;
        if let Some(number) = self.numbers.get(run) {
            return Ok(*number);
        }
        let number = self.sources.len();
        self.append(Record::Source {
            number,
            uid: run.pod_uid.clone(),
            container: run.container.clone(),
            restarts: run.restarts,
            pod: source.pod.clone(),
            label: source.label.clone(),
            last: String::new(),
            same: 0,
            is_read: false,
            lines: 0,
        })?;
        Ok(number)
    }

    pub fn position(&self, number: usize) -> Option<&Position> {
        self.sources.get(number)
    }

    pub fn positions(&self) -> &[Position] {
        &self.sources
    }

    pub fn push(&mut self, number: usize, time: &str, text: &str) -> io::Result<()> {
        if self.bytes >= BYTES_MAX {
            // Too much waits for the server; how much went is told once there is room again.
            self.left_out += 1;
            return Ok(());
        }
        if self.left_out > 0 {
            let told = format!("{} lines were left out here: too many waited for the server", self.left_out);
            self.left_out = 0;
            self.append(Record::Line(number, time.to_owned(), told))?;
        }
        self.append(Record::Line(number, time.to_owned(), text.to_owned()))
    }

    pub fn end(&mut self, number: usize) -> io::Result<()> {
        self.append(Record::End(number))
    }

    pub fn is_sent(&self) -> bool {
        self.sent.lines >= self.lines
    }

    /// The next lines that the server lacks, worded by `word` (source, time, text).
    pub fn unsent(
        &mut self,
        lines_max: usize,
        bytes_max: usize,
        word: impl Fn(&Position, &str, &str) -> String,
    ) -> io::Result<Batch> {
        let mut batch = Batch { lines: self.sent.lines, bytes: self.sent.bytes, ..Batch::default() };
        if self.is_sent() {
            return Ok(batch);
        }
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.sent.bytes))?;
        let mut reader = BufReader::new(file.take(self.bytes - self.sent.bytes));
        let (mut text, mut size) = (String::new(), 0);
        let end = self.sent.lines + lines_max as u64;
        while batch.lines < end && size < bytes_max {
            text.clear();
            let length = reader.read_line(&mut text)?;
            let Ok(record) = serde_json::from_str(text.trim_end_matches('\n')) else { break };
            batch.bytes += length as u64;
            if let Record::Line(number, time, text) = record {
                batch.lines += 1;
                let Some(source) = self.sources.get(number) else { continue };
                let line = word(source, &time, &text);
                size += line.len();
                let part = batch.parts.entry(number).or_insert_with(|| Part {
                    run: source.run.clone(),
                    offset: source.sent,
                    lines: Vec::new(),
                });
                part.lines.push(line);
            }
        }
        Ok(batch)
    }

    /// The server has this batch.
    pub fn note_sent(&mut self, batch: &Batch) -> io::Result<()> {
        self.sent = Sent { lines: batch.lines, bytes: batch.bytes };
        for (number, part) in &batch.parts {
            if let Some(source) = self.sources.get_mut(*number) {
                source.sent = part.offset + part.lines.len() as u64;
            }
        }
        if self.sent.bytes > COMPACT_FROM.max(self.bytes / COMPACT_PART) {
            self.compact()?;
        }
        // Sent again after a crash, lines come to the same place.
        fs::write(self.sent_path(), format!("{} {}\n", self.sent.lines, self.sent.bytes))
    }

    /// Writes the file anew, with what is not sent yet.
    fn compact(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let waiting = self.waiting()?;
        let mut text = String::new();
        for (number, source) in self.sources.iter().enumerate() {
            let Position { run, pod, label, last, same, is_read, sent: lines, .. } = source.clone();
            let Run { pod_uid: uid, container, restarts } = run;
            // How far it had come before the lines that follow.
            let (last, same) = match waiting.get(&number) {
                Some(waiting) if waiting.has_times => (String::new(), 0),
                waiting => (last, same.saturating_sub(waiting.map_or(0, |waiting| waiting.lines))),
            };
            let record = Record::Source { number, uid, container, restarts, pod, label, last, same, is_read, lines };
            text += &(serde_json::to_string(&record).map_err(io::Error::other)? + "\n");
        }
        text += &(serde_json::to_string(&Record::Base(self.sent.lines)).map_err(io::Error::other)? + "\n");
        let mut file = BufWriter::new(File::create(&new)?);
        file.write_all(text.as_bytes())?;
        let mut bytes = text.len() as u64;
        self.each_unsent(|text, record| {
            // Sources and their ends stand above.
            if matches!(record, Record::Line(..)) {
                file.write_all(text.as_bytes())?;
                bytes += text.len() as u64;
            }
            Ok(())
        })?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(&new, &self.path)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.bytes = bytes;
        self.sent.bytes = text.len() as u64;
        Ok(())
    }

    /// How many lines of each source wait.
    fn waiting(&self) -> io::Result<BTreeMap<usize, Waiting>> {
        let mut all: BTreeMap<usize, Waiting> = BTreeMap::new();
        self.each_unsent(|_, record| {
            if let Record::Line(number, time, _) = record
                && let Some(source) = self.sources.get(number)
            {
                let waiting = all.entry(number).or_default();
                waiting.lines += 1;
                waiting.has_times |= time != source.last;
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn each_unsent(&self, mut each: impl FnMut(&str, Record) -> io::Result<()>) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.sent.bytes))?;
        let mut reader = BufReader::new(file.take(self.bytes - self.sent.bytes));
        let mut text = String::new();
        while reader.read_line(&mut text)? > 0 {
            each(&text, serde_json::from_str(text.trim_end_matches('\n')).map_err(io::Error::other)?)?;
            text.clear();
        }
        Ok(())
    }

    /// Everything is told, and nobody needs it any more.
    pub fn remove(&self) {
        for path in [self.path.clone(), self.sent_path()] {
            if let Err(error) = fs::remove_file(&path)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %path.display(), %error, "failed to remove a journal");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(pod: &str) -> Source {
        let run = Run { pod_uid: format!("uid-{pod}"), container: "c".to_owned(), restarts: 0 };
        Source { run, pod: pod.to_owned(), is_previous: false, is_running: true, label: pod.to_owned() }
    }

    fn batch(journal: &mut Journal, lines_max: usize) -> Batch {
        journal.unsent(lines_max, 1 << 20, |source, time, text| format!("{time} {} {text}", source.pod)).unwrap()
    }

    fn told(batch: &Batch) -> Vec<(u64, Vec<&str>)> {
        batch.parts.values().map(|part| (part.offset, part.lines.iter().map(String::as_str).collect())).collect()
    }

    #[test]
    fn lines_wait_for_the_server_and_survive_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let (a, b) = (journal.source(&log("pa")).unwrap(), journal.source(&log("pb")).unwrap());
        journal.push(a, "t1", "one").unwrap();
        journal.push(b, "t1", "two").unwrap();
        journal.push(a, "t2", "three").unwrap();
        journal.push(a, "t2", "four").unwrap();
        let first = batch(&mut journal, 2);
        assert_eq!(told(&first), [(0, vec!["t1 pa one"]), (0, vec!["t1 pb two"])]);
        journal.note_sent(&first).unwrap();
        journal.end(b).unwrap();
        drop(journal);
        // The last record was cut off.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"{\"Line\":[0,\"t3\",\"hal").unwrap();
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.source(&log("pa")).unwrap(), a);
        let position = journal.position(a).unwrap();
        assert_eq!((position.last.as_str(), position.same, position.is_read), ("t2", 2, false));
        assert!(journal.position(b).unwrap().is_read);
        let rest = batch(&mut journal, 10);
        assert_eq!(told(&rest), [(1, vec!["t2 pa three", "t2 pa four"])], "each log is counted by itself");
        journal.note_sent(&rest).unwrap();
        assert!(journal.is_sent() && batch(&mut journal, 10).parts.is_empty());
        journal.push(a, "t3", "five").unwrap();
        assert_eq!(told(&batch(&mut journal, 10)), [(3, vec!["t3 pa five"])]);
    }

    #[test]
    fn a_long_journal_begins_anew_and_goes_on_counting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let a = journal.source(&log("p")).unwrap();
        let long = "x".repeat(1 << 20);
        for number in 0..10 {
            journal.push(a, &format!("t{number}"), &long).unwrap();
        }
        while !journal.is_sent() {
            let next = batch(&mut journal, 3);
            journal.note_sent(&next).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() < COMPACT_FROM / 2);
        journal.push(a, "t9", "after").unwrap();
        drop(journal);
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.position(a).unwrap().same, 2);
        let next = batch(&mut journal, 10);
        assert_eq!(told(&next), [(10, vec!["t9 p after"])]);
    }

    #[test]
    fn a_log_that_never_falls_silent_does_not_fill_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut journal = Journal::open(&path).unwrap();
        let (a, b) = (journal.source(&log("pa")).unwrap(), journal.source(&log("pb")).unwrap());
        let long = "x".repeat(1 << 20);
        journal.push(b, "t0", "first").unwrap();
        for number in 0..40 {
            journal.push(a, &format!("t{number}"), &long).unwrap();
            journal.push(b, "t1", &format!("{number}")).unwrap();
            // One line always waits.
            let next = batch(&mut journal, 2);
            journal.note_sent(&next).unwrap();
            assert!(!journal.is_sent());
        }
        let c = journal.source(&log("pc")).unwrap();
        journal.end(b).unwrap();
        assert!(fs::metadata(&path).unwrap().len() < 2 * COMPACT_FROM);
        // A crash comes before it was noted how much of the new file is sent.
        journal.compact().unwrap();
        drop(journal);
        let mut journal = Journal::open(&path).unwrap();
        assert_eq!(journal.source(&log("pc")).unwrap(), c);
        let known: Vec<(&str, usize, bool)> =
            journal.positions().iter().map(|source| (source.last.as_str(), source.same, source.is_read)).collect();
        assert_eq!(known, [("t39", 1, false), ("t1", 40, true), ("", 0, false)]);
        assert_eq!(told(&batch(&mut journal, 10)), [(40, vec!["t1 pb 39"])]);
    }
}
