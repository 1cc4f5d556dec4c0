//! Reading a log back: at start-up, and to check a backup. Nothing here writes.
//!
//! Bytes become objects frame by frame; what is not a whole frame is either the torn end of an interrupted write,
//! which the caller may cut off, or damage, which is refused with the file and the offset.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::RestoreMeta;
use super::error::StoreError;
use super::format::{self, FRAME_HEADER_BYTES, FRAME_MAGIC, FrameHeader, HEADER_BYTES, Header, Opening};
use super::object::{Entry, Revision};

/// Large enough that small frames cost no system call each, small enough not to matter.
const READ_BUFFER_BYTES: usize = 256 << 10;

/// Fewer objects than this are restored faster by one thread than it takes to start others.
const RESTORE_CHUNK_MIN: usize = 1024;

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

/// Objects as entries, with the owner's part made again on all cores.
pub(super) fn restore_entries<M: Send + Sync>(
    bucket: &str,
    objects: BTreeMap<Box<str>, Loaded>,
    restore_meta: RestoreMeta<M>,
) -> BTreeMap<Box<str>, Arc<Entry<M>>> {
    let restore = |(key, loaded): (Box<str>, Loaded)| {
        let meta = restore_meta(bucket, &key, &loaded.value);
        let entry = Entry { key: key.clone(), revision: loaded.revision, value: loaded.value, meta };
        (key, Arc::new(entry))
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let chunk = objects.len().div_ceil(threads).max(RESTORE_CHUNK_MIN);
    if objects.len() <= chunk {
        return objects.into_iter().map(restore).collect();
    }
    let mut objects = objects.into_iter();
    let chunks: Vec<Vec<_>> = (0..threads).map(|_| objects.by_ref().take(chunk).collect()).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = chunks
            .into_iter()
            .map(|chunk| scope.spawn(move || chunk.into_iter().map(restore).collect::<Vec<_>>()))
            .collect();
        let restored = workers.into_iter().flat_map(|worker| match worker.join() {
            Ok(entries) => entries,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        restored.collect()
    })
}
