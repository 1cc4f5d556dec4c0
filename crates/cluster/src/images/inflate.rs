//! Layers come as plain tar, gzip or zstd: this gives their uncompressed bytes and the digest of those bytes.
//!
//! Decompression and hashing run on a thread of their own, so that they overlap with making files.

use super::digest::{Digest, Hasher};
use super::error::Refusal;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Bytes handed over at a time, and how many such pieces may wait.
const PIECE_SIZE: usize = 256 << 10;
const PIECES_MAX: usize = 8;

/// What one layer may unpack to. Each limit is far above real layers and far below a filled disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Files, folders and links.
    pub entries_max: u64,
    /// Uncompressed bytes.
    pub bytes_max: u64,
    /// Uncompressed over compressed bytes; gzip itself ends near 1000, real layers stay below 100.
    pub ratio_max: u64,
    /// Below this many bytes the ratio does not count: small layers of zeros are harmless.
    pub ratio_from: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { entries_max: 4_000_000, bytes_max: 256 << 30, ratio_max: 200, ratio_from: 1 << 30 }
    }
}

/// The uncompressed stream; reading it to its end makes its digest known.
pub struct Inflated {
    pieces: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    read: usize,
    thread: Option<JoinHandle<Digest>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Looks at the first bytes; media types are not always right.
pub fn sniff(head: &[u8]) -> Compression {
    match head {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Compression::Zstd,
        _ => Compression::None,
    }
}

impl Inflated {
    /// Opens a blob; the limits end the stream with an error before the disk feels them.
    pub fn open(path: &Path, limits: Limits) -> io::Result<Inflated> {
        let mut file = File::open(path)?;
        let compressed = file.metadata()?.len();
        let mut head = [0; 4];
        let count = file.read(&mut head)?;
        file.seek(SeekFrom::Start(0))?;
        let reader = BufReader::with_capacity(PIECE_SIZE, file);
        let stream: Box<dyn Read + Send> = match sniff(&head[..count]) {
            Compression::None => Box::new(reader),
            // Some builders write one gzip member per file.
            Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(reader)),
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(reader)?),
        };
        let (sender, pieces) = sync_channel(PIECES_MAX);
        let thread = std::thread::Builder::new()
            .name("inflate".to_owned())
            .spawn(move || inflate(stream, compressed, limits, &sender))?;
        Ok(Inflated { pieces, piece: Vec::new(), read: 0, thread: Some(thread) })
    }

    /// Reads what the archive did not use and gives the digest of everything.
    pub fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        let thread = self.thread.take().expect("taken only here, and `self` is consumed");
        thread.join().map_err(|_| io::Error::other("decompression panicked"))
    }
}

/// Runs on the thread. An error is sent instead of a piece and ends the stream; so does a reader that went away.
fn inflate(
    mut stream: Box<dyn Read + Send>,
    compressed: u64,
    limits: Limits,
    sender: &SyncSender<io::Result<Vec<u8>>>,
) -> Digest {
    let (mut hasher, mut total) = (Hasher::default(), 0u64);
    loop {
        let mut piece = Vec::with_capacity(PIECE_SIZE);
        let outcome = (&mut stream).take(PIECE_SIZE as u64).read_to_end(&mut piece);
        total += piece.len() as u64;
        hasher.update(&piece);
        let is_end = matches!(outcome, Ok(0));
        let message = match (outcome, limits.check(total, compressed)) {
            (Err(error), _) => Err(error),
            (Ok(_), Err(refusal)) => Err(io::Error::other(refusal)),
            (Ok(_), Ok(())) => Ok(piece),
        };
        let is_last = is_end || message.is_err();
        if sender.send(message).is_err() || is_last {
            return hasher.finish();
        }
    }
}

impl Limits {
    fn check(&self, total: u64, compressed: u64) -> Result<(), Refusal> {
        if total > self.bytes_max {
            return Err(Refusal::Bytes(self.bytes_max));
        }
        if total > self.ratio_from && total / compressed.max(1) > self.ratio_max {
            return Err(Refusal::Ratio(self.ratio_max));
        }
        Ok(())
    }
}

impl Read for Inflated {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.piece.len() {
            // The sender goes away only after its last, empty piece or an error.
            self.piece = self.pieces.recv().unwrap_or_else(|_| Ok(Vec::new()))?;
            self.read = 0;
        }
        let count = buffer.len().min(self.piece.len() - self.read);
        buffer[..count].copy_from_slice(&self.piece[self.read..self.read + count]);
        self.read += count;
        Ok(count)
    }
}
