//! Container logs: files in the CRI format, the options of `…/pods/<p>/log`, and reading them back (spec 18.1).
//!
//! A log is `<path>` and, after rotation, `<path>.1`, `<path>.2` and so on, higher numbers being newer; `<path>` itself is the
//! newest. The process that runs the container writes (`writer`), the node reads (`reader`); they share nothing but the files.

pub mod options;
pub mod writer;
pub mod reader;

use std::io;
use std::path::{Path, PathBuf};

/// Content of one physical line; longer lines are written in parts. It is the limit of the reference's runtimes.
pub const LINE_BYTES_MAX: usize = 16 * 1024;
/// `2026-11-15T02:49:34.973897964Z`: times always have nine digits, so they sort as text.
const TIME_LEN: usize = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Stdout,
    Stderr,
}

impl Output {
    fn name(self) -> &'static str {
        match self {
            Output::Stdout => "stdout",
            Output::Stderr => "stderr",
        }
    }
}

/// One physical line of a log file.
#[derive(Debug, PartialEq, Eq)]
struct Line<'a> {
    time: &'a [u8],
    output: Output,
    /// The text goes on in the next line of the same output.
    is_partial: bool,
    content: &'a [u8],
}

impl Line<'_> {
    /// `None` for what is no log line, such as one that was cut off by a crash.
    fn parse(line: &[u8]) -> Option<Line<'_>> {
        let mut fields = line.splitn(4, |byte| *byte == b' ');
        let time = fields.next().filter(|time| time.len() == TIME_LEN)?;
        let output = match fields.next()? {
            b"stdout" => Output::Stdout,
            b"stderr" => Output::Stderr,
            _ => return None,
        };
        let is_partial = match fields.next()?.split(|byte| *byte == b':').next()? {
            b"P" => true,
            b"F" => false,
            _ => return None,
        };
        Some(Line { time, output, is_partial, content: fields.next().unwrap_or_default() })
    }
}

fn time_text(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string()
}

/// The files of a log that were rotated away, oldest first, by their numbers.
fn rotated(path: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|file| {
            let number = file.strip_prefix(name)?.strip_prefix('.')?;
            number.parse::<u64>().ok()
        });
        files.extend(number.map(|number| (number, entry.path())));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests;
