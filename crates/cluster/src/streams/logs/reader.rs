//! Reads a container's log back: from the tail, across rotation, and on as it grows (spec K-LOG-1, K-LOG-3).
//!
//! `LogReader` is synchronous and knows no time; `stream` runs it beside the runtime and waits for more.

use super::{Line, Output, rotated, time_text};
use bytes::{Bytes, BytesMut};
use futures::Stream;
use jiff::Timestamp;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Bytes read at a time, forwards and backwards.
const READ_BYTES: usize = 64 * 1024;
/// How soon a follower sees a new line. Looking is two calls that find nothing, so hundreds of followers cost little.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Times that the files are listed again because rotation came between; even a flood rotates far less often than this.
const OPEN_ATTEMPTS_MAX: usize = 100;

/// What is read of a log.
#[derive(Debug, Clone, Default)]
pub struct ReadOptions {
    pub since: Option<Timestamp>,
    pub tail_lines: Option<u64>,
    pub limit_bytes: Option<u64>,
    pub timestamps: bool,
    /// `None` is both.
    pub output: Option<Output>,
}

struct OpenFile {
    file: File,
    /// Stays unique as long as the file is open, whatever it is called by then.
    inode: u64,
}

impl OpenFile {
    fn open(path: &Path) -> io::Result<OpenFile> {
        let file = File::open(path)?;
        let inode = file.metadata()?.ino();
        Ok(OpenFile { file, inode })
    }
}

/// The reading end of one container's log.
pub struct LogReader {
    path: PathBuf,
    /// Files found at the start, oldest first, the first being read; later ones are looked for when it ends.
    files: VecDeque<OpenFile>,
    /// Bytes of the current file that are not handed on yet: less than one line after each `next_piece`.
    buffer: BytesMut,
    /// As text, like the times in the file.
    since: Option<String>,
    timestamps: bool,
    output: Option<Output>,
    /// Bytes that may still be handed on.
    left: Option<u64>,
    is_line_start: bool,
}

impl LogReader {
    /// Opens a log; one that is not there yet is empty.
    pub fn open(path: &Path, options: &ReadOptions) -> io::Result<LogReader> {
        let mut files = open_all(path)?;
        let mut skip = 0;
        if let Some(lines) = options.tail_lines {
            let (at, offset) = tail_start(&files, lines)?;
            files.drain(..at);
            skip = offset;
        }
        if let Some(first) = files.front_mut() {
            io::Seek::seek(&mut first.file, io::SeekFrom::Start(skip))?;
        }
        Ok(LogReader {
            path: path.to_owned(),
            files,
            buffer: BytesMut::new(),
            since: options.since.map(time_text),
            timestamps: options.timestamps,
            output: options.output,
            left: options.limit_bytes,
            is_line_start: true,
        })
    }

    /// The next piece of output, or `None` when there is nothing more now.
    pub fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        while !self.has_finished() {
            let len = self.fill()?;
            let piece = self.lines();
            if !piece.is_empty() {
                return Ok(Some(piece));
            }
            if len == 0 && !self.next_file()? {
                return Ok(None);
            }
        }
        Ok(None)
    }

    /// Whether the limit of bytes is reached, so that waiting for more is in vain.
    pub fn has_finished(&self) -> bool {
        self.left == Some(0)
    }

    fn fill(&mut self) -> io::Result<usize> {
        let Some(current) = self.files.front_mut() else { return Ok(0) };
        let start = self.buffer.len();
        self.buffer.resize(start + READ_BYTES, 0);
        let result = current.file.read(&mut self.buffer[start..]);
        self.buffer.truncate(start + *result.as_ref().unwrap_or(&0));
        result
    }

    /// Goes on to the file after the current one, if there is one and the current one is read to its end.
    fn next_file(&mut self) -> io::Result<bool> {
        let Some(current) = self.files.front() else {
            self.files = open_all(&self.path)?;
            return Ok(!self.files.is_empty());
        };
        if self.files.len() == 1 {
            let inode = current.inode;
            let is_newest = std::fs::metadata(&self.path).is_ok_and(|newest| newest.ino() == inode);
            if is_newest {
                return Ok(false);
            }
            let mut all = open_all(&self.path)?;
            // If rotation removed the file while we read it, everything that is left is newer.
            if let Some(at) = all.iter().position(|file| file.inode == inode) {
                all.drain(..=at);
            }
            self.files.append(&mut all);
        }
        if self.files.len() == 1 {
            return Ok(false);
        }
        // The writer is done with a file once a newer one exists; what it wrote before that is read first.
        if self.fill()? == 0 {
            self.buffer.clear();
            self.files.pop_front();
        }
        Ok(true)
    }

    /// Turns the whole lines of the buffer into output.
    fn lines(&mut self) -> Bytes {
        let Some(end) = self.buffer.iter().rposition(|byte| *byte == b'\n') else { return Bytes::new() };
        let whole = self.buffer.split_to(end + 1);
        let mut out = BytesMut::with_capacity(whole.len());
        for line in whole[..end].split(|byte| *byte == b'\n').filter_map(Line::parse) {
            let is_early = self.since.as_ref().is_some_and(|since| line.time < since.as_bytes());
            if is_early || self.output.is_some_and(|output| output != line.output) {
                continue;
            }
            if self.timestamps && self.is_line_start {
                out.extend_from_slice(line.time);
                out.extend_from_slice(b" ");
            }
            out.extend_from_slice(line.content);
            if !line.is_partial {
                out.extend_from_slice(b"\n");
            }
            self.is_line_start = !line.is_partial;
        }
        if let Some(left) = &mut self.left {
            out.truncate(usize::try_from(*left).unwrap_or(usize::MAX));
            *left -= out.len() as u64;
        }
        out.freeze()
    }
}

/// The files of a log as they are now, oldest first.
///
/// Rotation may run between listing and opening; then it is tried again, because a file would be missing or doubled.
fn open_all(path: &Path) -> io::Result<VecDeque<OpenFile>> {
    for _ in 0..OPEN_ATTEMPTS_MAX {
        // Missing between the two steps of a rotation, before the first line, and after the pod is gone.
        let newest = found(OpenFile::open(path))?;
        let listed = found(rotated(path))?.unwrap_or_default();
        let opened: io::Result<VecDeque<OpenFile>> = listed.iter().map(|(_, path)| OpenFile::open(path)).collect();
        let Some(mut files) = found(opened)? else { continue };
        let is_doubled = newest.as_ref().is_some_and(|newest| files.iter().any(|file| file.inode == newest.inode));
        if !is_doubled {
            files.extend(newest);
            return Ok(files);
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// `None` instead of an error when there is no such file.
fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where the last `wanted` lines begin: the index of a file and the offset in it. Reads backwards, no more than needed.
fn tail_start(files: &VecDeque<OpenFile>, wanted: u64) -> io::Result<(usize, u64)> {
    let mut counted = 0;
    for (at, file) in files.iter().enumerate().rev() {
        let mut lines = Backwards::new(&file.file)?;
        let mut is_last = at + 1 == files.len();
        while let Some((end, line)) = lines.next()? {
            let Some(line) = Line::parse(&line) else { continue };
            // A line counts where it ends; the last one counts although its end may be missing.
            if !line.is_partial || is_last {
                if counted == wanted {
                    return Ok((at, end));
                }
                counted += 1;
            }
            is_last = false;
        }
    }
    Ok((0, 0))
}

/// The whole lines of a file from last to first, each with the offset behind it.
struct Backwards<'a> {
    file: &'a File,
    /// The bytes of the file from `start` on that were read and not handed on.
    block: Vec<u8>,
    start: u64,
}

impl Backwards<'_> {
    fn new(file: &File) -> io::Result<Backwards<'_>> {
        let mut lines = Backwards { file, block: Vec::new(), start: file.metadata()?.len() };
        // A line that is being written does not count yet.
        while lines.block.last() != Some(&b'\n') {
            match lines.block.iter().rposition(|byte| *byte == b'\n') {
                Some(end) => lines.block.truncate(end + 1),
                None if !lines.read()? => lines.block.clear(),
                None => continue,
            }
            break;
        }
        Ok(lines)
    }

    fn next(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        loop {
            let Some(text_len) = self.block.len().checked_sub(1) else {
                if self.read()? { continue } else { return Ok(None) }
            };
            let start = self.block[..text_len].iter().rposition(|byte| *byte == b'\n').map(|end| end + 1);
            let is_whole = start.is_some() || self.start == 0;
            if is_whole {
                let end = self.start + self.block.len() as u64;
                let mut line = self.block.split_off(start.unwrap_or(0));
                line.pop();
                return Ok(Some((end, line)));
            }
            self.read()?;
        }
    }

    /// Puts the bytes before the block in front of it; false at the start of the file.
    fn read(&mut self) -> io::Result<bool> {
        let len = self.start.min(READ_BYTES as u64);
        if len == 0 {
            return Ok(false);
        }
        let mut block = vec![0u8; len as usize];
        self.file.read_exact_at(&mut block, self.start - len)?;
        self.start -= len;
        block.append(&mut self.block);
        self.block = block;
        Ok(true)
    }
}

/// The log as a stream of bytes. With `follow`, it ends when that token is cancelled (the container ended) and all was read.
pub fn stream(reader: LogReader, follow: Option<CancellationToken>) -> impl Stream<Item = Bytes> + Send {
    futures::stream::unfold((reader, follow), |(mut reader, follow)| async move {
        loop {
            // Asked before reading: what was written until the container ended is then read for sure.
            let has_ended = follow.as_ref().is_none_or(CancellationToken::is_cancelled);
            let read = tokio::task::spawn_blocking(move || (reader.next_piece(), reader)).await;
            let (result, returned) = read.ok()?;
            reader = returned;
            match result {
                Ok(Some(piece)) => return Some((piece, (reader, follow))),
                Ok(None) if has_ended || reader.has_finished() => return None,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "a container's log could not be read to its end");
                    return None;
                }
            }
            if let Some(ended) = &follow {
                let _ = tokio::time::timeout(FOLLOW_INTERVAL, ended.cancelled()).await;
            }
        }
    })
}
