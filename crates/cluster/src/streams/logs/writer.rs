//! Writes what a container prints as CRI log lines, with rotation. Synchronous: it runs beside the container, without a runtime.
//!
//! Memory is bounded by one line per output and one batch, whatever the container does; disk by the limits.

use super::{LINE_BYTES_MAX, Output, rotated, time_text};
use jiff::Timestamp;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Encoded lines are written to the file when there are this many bytes of them.
const BATCH_BYTES: usize = 64 * 1024;

/// How much of a container's output is kept.
#[derive(Debug, Clone, Copy)]
pub struct LogLimits {
    pub file_bytes_max: u64,
    /// The file being written counts.
    pub files_max: usize,
}

impl Default for LogLimits {
    /// The reference's defaults.
    fn default() -> Self {
        LogLimits { file_bytes_max: 10 * 1024 * 1024, files_max: 5 }
    }
}

/// The writing end of one container's log.
pub struct LogWriter {
    path: PathBuf,
    limits: LogLimits,
    file: File,
    file_bytes: u64,
    /// Whether a failed write may have left half a line.
    is_torn: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    batch: Vec<u8>,
}

impl LogWriter {
    /// Opens a log to append to it, making its folder; what an earlier writer left stays.
    pub fn open(path: &Path, limits: LogLimits) -> io::Result<LogWriter> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let mut file = append(path)?;
        let file_bytes = file.metadata()?.len();
        let is_torn = file_bytes > 0 && last_byte(&mut file)? != b'\n';
        let (stdout, stderr, batch) = Default::default();
        Ok(LogWriter { path: path.to_owned(), limits, file, file_bytes, is_torn, stdout, stderr, batch })
    }

    /// Takes a piece of output; whole lines go to the file, the rest waits for its end.
    ///
    /// After an error (a full disk, most likely) the writer stays usable: lines are lost, never mangled.
    pub fn write(&mut self, output: Output, bytes: &[u8], now: Timestamp) -> io::Result<()> {
        let time = time_text(now);
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = LINE_BYTES_MAX - self.waiting(output).len();
            // One byte further, because a line of exactly the limit is whole if its end follows.
            let window = &rest[..rest.len().min(room + 1)];
            let end = window.iter().position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(window.len().min(room));
            self.waiting(output).extend_from_slice(&rest[..taken]);
            rest = &rest[taken + usize::from(end.is_some())..];
            if end.is_some() {
                self.line(output, "F", &time)?;
            } else if !rest.is_empty() {
                self.line(output, "P", &time)?;
            }
        }
        self.flush()
    }

    /// The output has ended: what was printed without a line end is written as a part, as it was.
    pub fn finish(&mut self, output: Output, now: Timestamp) -> io::Result<()> {
        if !self.waiting(output).is_empty() {
            self.line(output, "P", &time_text(now))?;
        }
        self.flush()
    }

    fn waiting(&mut self, output: Output) -> &mut Vec<u8> {
        match output {
            Output::Stdout => &mut self.stdout,
            Output::Stderr => &mut self.stderr,
        }
    }

    /// Encodes the waiting text of an output as one physical line.
    fn line(&mut self, output: Output, tag: &str, time: &str) -> io::Result<()> {
        let (waiting, batch) = match output {
            Output::Stdout => (&mut self.stdout, &mut self.batch),
            Output::Stderr => (&mut self.stderr, &mut self.batch),
        };
        batch.extend_from_slice(time.as_bytes());
        batch.push(b' ');
        batch.extend_from_slice(output.name().as_bytes());
        batch.push(b' ');
        batch.extend_from_slice(tag.as_bytes());
        batch.push(b' ');
        batch.append(waiting);
        batch.push(b'\n');
        if self.batch.len() >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        let result = self.append(&batch);
        batch.clear();
        self.batch = batch;
        result
    }

    fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        if self.file_bytes > 0 && self.file_bytes + batch.len() as u64 > self.limits.file_bytes_max {
            self.rotate()?;
        }
        if self.is_torn {
            self.file.write_all(b"\n")?;
            self.file_bytes += 1;
        }
        self.is_torn = true;
        self.file.write_all(batch)?;
        self.is_torn = false;
        self.file_bytes += batch.len() as u64;
        Ok(())
    }

    /// Names the file after the newest rotated one and starts afresh; the oldest go.
    fn rotate(&mut self) -> io::Result<()> {
        let mut files = rotated(&self.path)?;
        let number = files.last().map_or(1, |(number, _)| number + 1);
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        std::fs::rename(&self.path, &name)?;
        files.push((number, name.into()));
        self.file = append(&self.path)?;
        (self.file_bytes, self.is_torn) = (0, false);
        let surplus = (files.len() + 1).saturating_sub(self.limits.files_max.max(1));
        for (_, path) in files.iter().take(surplus) {
            std::fs::remove_file(path)?;
        }
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).read(true).open(path)
}

fn last_byte(file: &mut File) -> io::Result<u8> {
    let mut byte = [0u8; 1];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut byte)?;
    Ok(byte[0])
}
