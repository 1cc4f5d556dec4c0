//! One log as it comes over the wire, taken apart into lines with their times.

use super::look::Looker;
use crate::target::escaped;
use crate::vcjob::PODS;
use anyhow::Result;
use futures::AsyncBufReadExt;
use futures::io::AsyncBufRead;
use jiff::Timestamp;
use std::io;
use std::pin::Pin;
use volley_api::kube::time;
use volley_plan::logs::sources::Source;

/// Longer lines are told in pieces of this length, so that a log without line ends is not held whole.
const LINE_BYTES_MAX: usize = 256 << 10;

/// Which part of a log is asked for.
#[derive(Debug, Clone, Default)]
pub struct Excerpt {
    pub tail_lines: Option<u64>,
    pub since_seconds: Option<u64>,
    pub since_time: Option<String>,
}

/// A line, or a piece of a long one.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Pieces after the first have none.
    pub time: Option<Timestamp>,
    pub text: Vec<u8>,
}

/// A log that is being read.
pub struct Reader {
    stream: Pin<Box<dyn AsyncBufRead + Send>>,
    /// Whether the piece before this one was not the end of its line.
    is_inside: bool,
}

impl Reader {
    pub async fn open(looker: &Looker, source: &Source, excerpt: &Excerpt, is_followed: bool) -> Result<Reader> {
        let pod = PODS.one(Some(&looker.namespace), &source.pod)?;
        let mut path = format!("{pod}/log?timestamps=true&container={}", escaped(&source.run.container));
        if source.is_previous {
            path += "&previous=true";
        }
        if is_followed {
            path += "&follow=true";
        }
        for (name, value) in [("tailLines", excerpt.tail_lines), ("sinceSeconds", excerpt.since_seconds)] {
            if let Some(value) = value {
                path += &format!("&{name}={value}");
            }
        }
        if let Some(since) = &excerpt.since_time {
            path += &format!("&sinceTime={}", escaped(since));
        }
        Ok(Reader::new(looker.cluster.stream(&path).await?))
    }

    fn new(stream: impl AsyncBufRead + Send + 'static) -> Reader {
        Reader { stream: Box::pin(stream), is_inside: false }
    }

    /// The next line without its end; `None` at the end of the log.
    pub async fn next(&mut self) -> io::Result<Option<Entry>> {
        let mut text = Vec::new();
        let mut has_ended_line = false;
        while !has_ended_line && text.len() < LINE_BYTES_MAX {
            let buffer = self.stream.fill_buf().await?;
            if buffer.is_empty() {
                break;
            }
            let room = buffer.len().min(LINE_BYTES_MAX - text.len());
            let end = buffer[..room].iter().position(|byte| *byte == b'\n');
            text.extend_from_slice(&buffer[..end.unwrap_or(room)]);
            has_ended_line = end.is_some();
            self.stream.consume_unpin(end.map_or(room, |end| end + 1));
        }
        if text.is_empty() && !has_ended_line {
            return Ok(None);
        }
        let is_start = !std::mem::replace(&mut self.is_inside, !has_ended_line);
        Ok(Some(if is_start { timed(text) } else { Entry { time: None, text } }))
    }
}

/// Takes the time from the start of a line; one without it is taken as it is.
fn timed(mut text: Vec<u8>) -> Entry {
    let blank = text.iter().take(40).position(|byte| *byte == b' ');
    let stamp = &text[..blank.unwrap_or(text.len().min(40))];
    let time = std::str::from_utf8(stamp).ok().and_then(time::parse);
    if time.is_some() {
        let taken = stamp.len() + usize::from(blank.is_some());
        text.drain(..taken);
    }
    Entry { time, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::block_on;
    use futures::io::{BufReader, Cursor};

    /// All lines, when the wire brings this many bytes at a time.
    fn lines(log: &[u8], at_a_time: usize) -> Vec<(bool, String)> {
        let mut reader = Reader::new(BufReader::with_capacity(at_a_time, Cursor::new(log.to_vec())));
        let mut lines = Vec::new();
        let read = async {
            while let Some(entry) = reader.next().await? {
                lines.push((entry.time.is_some(), String::from_utf8(entry.text)?));
            }
            Ok(())
        };
        block_on(read).unwrap();
        lines
    }

    #[test]
    fn lines_are_the_same_however_the_wire_cuts_them() {
        let log = b"2026-01-01T00:00:00.123456789Z one\n2026-01-01T00:00:01Z \n2026-01-01T00:00:02+02:00 no end";
        let expected = [(true, "one".to_owned()), (true, String::new()), (true, "no end".to_owned())];
        for at_a_time in [1, 2, 7, 35, 1000] {
            assert_eq!(lines(log, at_a_time), expected, "{at_a_time}");
        }
        assert_eq!(lines(b"", 8), []);
    }

    #[test]
    fn a_line_without_a_time_is_kept_as_it_is() {
        let expected = [(false, "failed to open it: no such file".to_owned()), (false, String::new())];
        assert_eq!(lines(b"failed to open it: no such file\n\n", 100), expected);
    }

    #[test]
    fn a_very_long_line_comes_in_pieces() {
        let mut log = b"2026-01-01T00:00:00Z ".to_vec();
        log.extend(std::iter::repeat_n(b'x', 3 * LINE_BYTES_MAX));
        log.extend(b"\n2026-01-01T00:00:01Z next\n");
        let lines = lines(&log, 8 << 10);
        let lengths: Vec<(bool, usize)> = lines.iter().map(|(has_time, text)| (*has_time, text.len())).collect();
        let whole = LINE_BYTES_MAX;
        assert_eq!(lengths, [(true, whole - 21), (false, whole), (false, whole), (false, 21), (true, 4)]);
    }

    #[test]
    fn a_line_as_long_as_a_piece_is_one_line() {
        let mut log = b"2026-01-01T00:00:00Z ".to_vec();
        log.extend(std::iter::repeat_n(b'x', LINE_BYTES_MAX - 21));
        log.extend(b"\n2026-01-01T00:00:01Z next\n");
        let lines = lines(&log, 8 << 10);
        assert_eq!(lines.iter().map(|(_, text)| text.len()).collect::<Vec<_>>(), [LINE_BYTES_MAX - 21, 0, 4]);
    }
}
