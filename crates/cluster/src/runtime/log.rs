//! Writes what a container prints as CRI log lines: time, stream, `F` or `P`, text. Used by the shim alone.
//!
//! A file that would grow beyond its limit is set aside as `PATH.1`, that one as `PATH.2`, and so on; the oldest is removed.
//! So a flood costs `bytes_max * files_max` of disk, never more.

use super::spec::LogFile;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// The longest piece of a line that is held back for its end; longer lines are written in pieces marked `P`.
const LINE_BYTES_MAX: usize = 16 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// The bytes of one stream since its last line end.
#[derive(Debug, Default)]
pub struct Partial(Vec<u8>);

pub struct LogWriter {
    target: LogFile,
    file: File,
    bytes: u64,
    /// Lines of one call, written by one system call.
    batch: Vec<u8>,
}

impl LogWriter {
    pub fn open(target: LogFile) -> io::Result<LogWriter> {
        if let Some(folder) = target.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(&target.path)?;
        let bytes = file.metadata()?.len();
        Ok(LogWriter { target, file, bytes, batch: Vec::new() })
    }

    /// Writes the lines that `bytes` completes; the rest waits in `partial`.
    pub fn write(&mut self, stream: Stream, partial: &mut Partial, bytes: &[u8], now: &str) -> io::Result<()> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            for part in piece.chunks(LINE_BYTES_MAX) {
                partial.0.extend_from_slice(part);
                if partial.0.last() == Some(&b'\n') {
                    partial.0.pop();
                    self.line(stream, &partial.0, "F", now)?;
                    partial.0.clear();
                } else if partial.0.len() >= LINE_BYTES_MAX {
                    self.line(stream, &partial.0, "P", now)?;
                    partial.0.clear();
                }
            }
        }
        self.flush()
    }

    /// Writes what is left of a stream that has ended without a line end: a piece, so that readers add none.
    pub fn finish(&mut self, stream: Stream, partial: &mut Partial, now: &str) -> io::Result<()> {
        if !partial.0.is_empty() {
            self.line(stream, &partial.0, "P", now)?;
            partial.0.clear();
        }
        self.flush()
    }

    fn line(&mut self, stream: Stream, text: &[u8], tag: &str, now: &str) -> io::Result<()> {
        let head = format!("{now} {} {tag} ", stream.name());
        let size = (head.len() + text.len() + 1) as u64;
        if self.bytes > 0 && self.bytes + size > self.target.bytes_max {
            self.flush()?;
            self.rotate()?;
        }
        self.batch.extend_from_slice(head.as_bytes());
        self.batch.extend_from_slice(text);
        self.batch.push(b'\n');
        self.bytes += size;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.file.write_all(&self.batch);
        self.batch.clear();
        result
    }

    fn rotate(&mut self) -> io::Result<()> {
        let aside = |number: u32| -> PathBuf {
            let mut name = self.target.path.clone().into_os_string();
            name.push(format!(".{number}"));
            name.into()
        };
        let kept = self.target.files_max.saturating_sub(1);
        for number in (1..kept).rev() {
            let _missing_is_fine = std::fs::rename(aside(number), aside(number + 1));
        }
        match kept {
            0 => std::fs::remove_file(&self.target.path)?,
            _ => std::fs::rename(&self.target.path, aside(1))?,
        }
        self.file = OpenOptions::new().create(true).append(true).open(&self.target.path)?;
        self.bytes = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(folder: &tempfile::TempDir, bytes_max: u64) -> LogWriter {
        LogWriter::open(LogFile { path: folder.path().join("0.log"), bytes_max, files_max: 3 }).unwrap()
    }

    fn read(folder: &tempfile::TempDir, name: &str) -> String {
        std::fs::read_to_string(folder.path().join(name)).unwrap()
    }

    #[test]
    fn a_line_is_written_when_it_ends_and_the_rest_as_a_piece() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, mut partial) = (writer(&folder, 1 << 20), Partial::default());
        log.write(Stream::Stdout, &mut partial, b"one\ntw", "T").unwrap();
        assert_eq!(read(&folder, "0.log"), "T stdout F one\n");
        log.write(Stream::Stdout, &mut partial, b"o\nrest", "U").unwrap();
        log.finish(Stream::Stdout, &mut partial, "V").unwrap();
        assert_eq!(read(&folder, "0.log"), "T stdout F one\nU stdout F two\nV stdout P rest\n");
    }

    #[test]
    fn a_long_line_is_written_in_pieces_whose_last_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, mut partial) = (writer(&folder, 1 << 20), Partial::default());
        let line = [vec![b'x'; LINE_BYTES_MAX + 3], vec![b'\n']].concat();
        log.write(Stream::Stderr, &mut partial, &line, "T").unwrap();
        let text = read(&folder, "0.log");
        let heads: Vec<_> = text.lines().map(|l| (&l[..11], l.len() - 11)).collect();
        assert_eq!(heads, [("T stderr P ", LINE_BYTES_MAX), ("T stderr F ", 3)]);
    }

    #[test]
    fn a_flood_keeps_the_newest_files_within_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, mut partial) = (writer(&folder, 1000), Partial::default());
        for number in 0..1000 {
            log.write(Stream::Stdout, &mut partial, format!("{number}\n").as_bytes(), "T").unwrap();
        }
        let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["0.log", "0.log.1", "0.log.2"]);
        assert!(names.iter().all(|name| folder.path().join(name).metadata().unwrap().len() <= 1000));
        assert!(read(&folder, "0.log").ends_with("T stdout F 999\n"));
    }
}
