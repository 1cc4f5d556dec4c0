//! The log file: reading it back at start-up, and appending one frame at a time.
//!
//! `recover` only reads, so that `verify` can use it too. `Log` belongs to the writer thread; a frame that could
//! not be written whole is rolled back, so what is on disk up to `end` is always whole frames.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::Options;
use super::disk::{self, Disk};
use super::error::StoreError;
use super::format::{self, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, HEADER_BYTES, Header, Opening};
use super::object::Revision;

/// Large enough that small frames cost no system call each, small enough not to matter.
const READ_BUFFER_BYTES: usize = 256 << 10;

/// Zeros are written from one constant buffer of this size.
const ZEROS_BYTES: usize = 64 << 10;
static ZEROS: [u8; ZEROS_BYTES] = [0; ZEROS_BYTES];

/// One object read back.
pub(super) struct Loaded {
    pub revision: Revision,
    pub value: Bytes,
}

/// Everything a log file says.
pub(super) struct Recovered {
    /// By bucket, then by key. A bucket whose objects were all deleted is there and empty.
    pub objects: BTreeMap<Box<str>, BTreeMap<Box<str>, Loaded>>,
    pub revision: Revision,
    /// Where the last whole frame ends.
    pub end: u64,
    pub file_bytes: u64,
    /// The bytes after `end` are neither frames nor the zeros of preallocation: a write that was cut off.
    pub is_torn: bool,
}

/// Reads a whole log. A torn tail is reported in the result; any other damage is an error.
pub(super) fn recover(path: &Path) -> Result<Recovered, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let file_bytes = file.metadata().map_err(StoreError::io("inspect", path))?.len();
    let mut replay = Replay { path, reader: BufReader::with_capacity(READ_BUFFER_BYTES, file), file_bytes, offset: 0 };
    let header = replay.header()?;
    let mut recovered =
        Recovered { objects: BTreeMap::new(), revision: header.base_revision, end: 0, file_bytes, is_torn: false };
    let mut payload = Vec::new();
    while let Some(frame) = replay.frame(&mut payload)? {
        replay.apply(&header, &frame, &payload, &mut recovered)?;
        replay.offset += (FRAME_HEADER_BYTES + payload.len()) as u64;
    }
    recovered.end = replay.offset;
    if replay.offset < header.snapshot_end {
        return Err(replay.damaged("the snapshot at its start is not whole"));
    }
    recovered.is_torn = replay.is_tail_torn(recovered.revision)?;
    Ok(recovered)
}

struct Replay<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    file_bytes: u64,
    /// Where the frame now looked at begins.
    offset: u64,
}

impl Replay<'_> {
    fn header(&mut self) -> Result<Header, StoreError> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        let mut start = self.reader.by_ref().take(HEADER_BYTES as u64);
        start.read_to_end(&mut bytes).map_err(StoreError::io("read", self.path))?;
        match Header::decode(&bytes) {
            Opening::Ours(header) => {
                self.offset = HEADER_BYTES as u64;
                Ok(header)
            }
            Opening::Newer(found) => {
                Err(StoreError::Newer { path: self.path.to_owned(), found, supported: format::FORMAT_VERSION })
            }
            Opening::Foreign => Err(StoreError::Foreign { path: self.path.to_owned() }),
            Opening::Damaged => Err(self.damaged("the file header does not match its checksum")),
        }
    }

    /// The next frame that is whole; `None` at the first bytes that are not one.
    fn frame(&mut self, payload: &mut Vec<u8>) -> Result<Option<FrameHeader>, StoreError> {
        let rest = self.file_bytes.saturating_sub(self.offset);
        if rest < FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        let mut bytes = [0; FRAME_HEADER_BYTES];
        self.reader.read_exact(&mut bytes).map_err(StoreError::io("read", self.path))?;
        let Some(frame) = FrameHeader::decode(&bytes) else { return Ok(None) };
        if u64::from(frame.payload_length) > rest - FRAME_HEADER_BYTES as u64 {
            return Ok(None);
        }
        payload.resize(frame.payload_length as usize, 0);
        self.reader.read_exact(payload).map_err(StoreError::io("read", self.path))?;
        Ok((frame.checksum(payload) == frame.crc).then_some(frame))
    }

    fn apply(
        &self,
        header: &Header,
        frame: &FrameHeader,
        mut payload: &[u8],
        recovered: &mut Recovered,
    ) -> Result<(), StoreError> {
        let is_snapshot = self.offset < header.snapshot_end;
        if !is_snapshot && frame.first_revision != recovered.revision + 1 {
            return Err(self.damaged("a frame does not continue the revision before it"));
        }
        for _ in 0..frame.records {
            let record = format::take_record(&mut payload).ok_or_else(|| self.damaged("a record cannot be read"))?;
            if !is_snapshot {
                recovered.revision += 1;
                if record.revision != recovered.revision {
                    return Err(self.damaged("a record does not continue the revision before it"));
                }
            }
            if !recovered.objects.contains_key(record.bucket) {
                recovered.objects.insert(record.bucket.into(), BTreeMap::new());
            }
            let objects = recovered.objects.get_mut(record.bucket).expect("inserted above when absent");
            match record.value {
                Some(value) => {
                    let loaded = Loaded { revision: record.revision, value: Bytes::copy_from_slice(value) };
                    objects.insert(record.key.into(), loaded);
                }
                None => {
                    objects.remove(record.key);
                }
            }
        }
        Ok(())
    }

    /// Looks at what follows the last whole frame. A whole frame further on means that the bytes between were
    /// good once and went bad, which no interrupted write explains.
    fn is_tail_torn(&mut self, revision: Revision) -> Result<bool, StoreError> {
        let mut tail = Vec::new();
        self.reader.seek(SeekFrom::Start(self.offset)).map_err(StoreError::io("read", self.path))?;
        self.reader.read_to_end(&mut tail).map_err(StoreError::io("read", self.path))?;
        if tail.iter().all(|byte| *byte == 0) {
            return Ok(false);
        }
        let later = (1..tail.len()).any(|at| holds_frame_after(&tail[at..], revision));
        if later {
            Err(self.damaged("a frame does not match its checksum, and whole frames follow it"))
        } else {
            Ok(true)
        }
    }

    fn damaged(&self, problem: &'static str) -> StoreError {
        StoreError::Damaged { path: self.path.to_owned(), offset: self.offset, problem }
    }
}

fn holds_frame_after(bytes: &[u8], revision: Revision) -> bool {
    if !bytes.starts_with(&FRAME_MAGIC) {
        return false;
    }
    let Some((header, rest)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else { return false };
    let Some(frame) = FrameHeader::decode(header) else { return false };
    let Some(payload) = rest.get(..frame.payload_length as usize) else { return false };
    frame.first_revision > revision && frame.checksum(payload) == frame.crc
}

/// Why a frame was not appended.
#[derive(Debug)]
pub(super) enum AppendError {
    /// No space. The frame was rolled back and the log is as it was.
    Full(io::Error),
    /// Nobody knows what is on the disk now, so nothing more may be acknowledged.
    Broken(io::Error),
}

/// The log, open for appending.
pub(super) struct Log {
    pub path: PathBuf,
    pub end: u64,
    file: File,
    disk: Arc<dyn Disk>,
    /// Bytes that the file has; those beyond `end` are zeros.
    allocated: u64,
    preallocate_bytes: u64,
}

impl Log {
    /// Opens a recovered file for appending, cutting off a torn tail.
    pub fn resume(path: &Path, recovered: &Recovered, options: &Options) -> Result<Log, StoreError> {
        let file = OpenOptions::new().write(true).open(path).map_err(StoreError::io("open", path))?;
        let mut log = Log::continue_at(path, file, recovered.end, options);
        log.allocated = recovered.file_bytes;
        if recovered.is_torn {
            let lost = recovered.file_bytes - recovered.end;
            tracing::warn!(
                file = %path.display(), offset = recovered.end, bytes = lost,
                "the last write was cut off before it was acknowledged; the log continues after the last whole one"
            );
            log.roll_back().map_err(StoreError::io("truncate", path))?;
            log.disk.sync(&log.file).map_err(StoreError::io("sync", path))?;
        }
        Ok(log)
    }

    /// A log whose content, up to `end`, was written by the caller.
    pub fn continue_at(path: &Path, file: File, end: u64, options: &Options) -> Log {
        let preallocate_bytes = options.preallocate_bytes;
        Log { path: path.to_owned(), end, file, disk: options.disk.clone(), allocated: end, preallocate_bytes }
    }

    /// Appends one frame and makes it durable.
    pub fn append(&mut self, frame: &[u8]) -> Result<(), AppendError> {
        if let Err(error) = self.preallocate(frame.len() as u64).and_then(|()| self.write(frame)) {
            // A tail that cannot be cut off would be read as damage once frames follow it.
            self.roll_back().map_err(AppendError::Broken)?;
            return Err(if disk::is_full(&error) { AppendError::Full(error) } else { AppendError::Broken(error) });
        }
        // After a failed sync the kernel may have dropped the pages, so trying again would prove nothing.
        self.disk.sync(&self.file).map_err(AppendError::Broken)?;
        self.end += frame.len() as u64;
        // Without preallocation the frame itself made the file longer.
        self.allocated = self.allocated.max(self.end);
        Ok(())
    }

    fn write(&self, frame: &[u8]) -> io::Result<()> {
        disk::write_all(self.disk.as_ref(), &self.file, frame, self.end)
    }

    /// Writes zeros ahead of the end. On a nearly full disk it gives up and lets the frame try the space that is left.
    fn preallocate(&mut self, needed: u64) -> io::Result<()> {
        if self.end + needed <= self.allocated || self.preallocate_bytes == 0 {
            return Ok(());
        }
        let target = (self.end + needed).next_multiple_of(self.preallocate_bytes);
        while self.allocated < target {
            let count = (target - self.allocated).min(ZEROS_BYTES as u64);
            let written = disk::write_all(self.disk.as_ref(), &self.file, &ZEROS[..count as usize], self.allocated);
            match written {
                Ok(()) => self.allocated += count,
                Err(error) if disk::is_full(&error) => return self.roll_back(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn roll_back(&mut self) -> io::Result<()> {
        self.disk.truncate(&self.file, self.end)?;
        self.allocated = self.end;
        Ok(())
    }
}
