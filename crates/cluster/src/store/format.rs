//! The bytes of a log file: one header, then frames of records. All numbers are little-endian.
//!
//! ```text
//! header  magic[8] version:u32 zero:u32 base_revision:u64 snapshot_end:u64 crc:u32 zero:u32
//! frame   magic[4] payload_length:u32 crc:u32 records:u32 first_revision:u64 payload
//! record  kind:u8 bucket_length:u16 key_length:u32 value_length:u32 revision:u64 bucket key value
//! ```
//! Frames before `snapshot_end` hold the state at `base_revision`; each later frame is one committed batch, and its
//! records have consecutive revisions. Magic and version keep their place in every future format.

use super::object::Revision;

pub(super) const FORMAT_VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 40;
pub(super) const FRAME_HEADER_BYTES: usize = 24;
const RECORD_HEADER_BYTES: usize = 19;

const FILE_MAGIC: [u8; 8] = *b"VOLLEYKV";
/// Not valid UTF-8 at any position, so no text value can look like a frame when the tail is searched for one.
pub(super) const FRAME_MAGIC: [u8; 4] = [0xF5, 0xFF, 0xFE, 0xF8];

const KIND_PUT: u8 = 1;
const KIND_DELETE: u8 = 2;

/// What the first bytes of a file say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Opening {
    Ours(Header),
    Newer(u32),
    Foreign,
    Damaged,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub base_revision: Revision,
    /// Frames before this offset were complete before the file got its name: damage there is never a torn write.
    pub snapshot_end: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.base_revision.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.snapshot_end.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..32]);
        bytes[32..36].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Opening {
        if bytes.len() < 12 || bytes[0..8] != FILE_MAGIC {
            return Opening::Foreign;
        }
        let version = u32_at(bytes, 8);
        if version > FORMAT_VERSION {
            return Opening::Newer(version);
        }
        if bytes.len() < HEADER_BYTES || version == 0 || crc32fast::hash(&bytes[..32]) != u32_at(bytes, 32) {
            return Opening::Damaged;
        }
        Opening::Ours(Header { base_revision: u64_at(bytes, 16), snapshot_end: u64_at(bytes, 24) })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    pub payload_length: u32,
    pub crc: u32,
    pub records: u32,
    /// Zero in a snapshot's frames, whose records have the revisions they had.
    pub first_revision: Revision,
}

impl FrameHeader {
    pub fn decode(bytes: &[u8; FRAME_HEADER_BYTES]) -> Option<FrameHeader> {
        if bytes[0..4] != FRAME_MAGIC {
            return None;
        }
        Some(FrameHeader {
            payload_length: u32_at(bytes, 4),
            crc: u32_at(bytes, 8),
            records: u32_at(bytes, 12),
            first_revision: u64_at(bytes, 16),
        })
    }

    /// The checksum covers the header's numbers too, so that a flipped bit anywhere in a frame is seen.
    pub fn checksum(&self, payload: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.payload_length.to_le_bytes());
        hasher.update(&self.records.to_le_bytes());
        hasher.update(&self.first_revision.to_le_bytes());
        hasher.update(payload);
        hasher.finalize()
    }
}

/// Builds one frame in one buffer that is used again and again.
pub(super) struct FrameBuilder {
    bytes: Vec<u8>,
    records: u32,
}

impl FrameBuilder {
    pub fn new() -> FrameBuilder {
        FrameBuilder { bytes: vec![0; FRAME_HEADER_BYTES], records: 0 }
    }

    /// Empties the frame and gives back memory beyond `keep` bytes, so that one huge batch does not stay resident.
    pub fn clear(&mut self, keep: usize) {
        self.bytes.truncate(FRAME_HEADER_BYTES);
        self.bytes.shrink_to(keep);
        self.records = 0;
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn push(&mut self, record: &Record<'_>) {
        let (kind, value) = match record.value {
            Some(value) => (KIND_PUT, value),
            None => (KIND_DELETE, &[][..]),
        };
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&(record.bucket.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(&(record.key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&record.revision.to_le_bytes());
        self.bytes.extend_from_slice(record.bucket.as_bytes());
        self.bytes.extend_from_slice(record.key.as_bytes());
        self.bytes.extend_from_slice(value);
        self.records += 1;
    }

    /// Writes the frame's header and hands out the whole frame.
    pub fn finish(&mut self, first_revision: Revision) -> &[u8] {
        let payload = &self.bytes[FRAME_HEADER_BYTES..];
        let mut header =
            FrameHeader { payload_length: payload.len() as u32, crc: 0, records: self.records, first_revision };
        header.crc = header.checksum(payload);
        self.bytes[0..4].copy_from_slice(&FRAME_MAGIC);
        self.bytes[4..8].copy_from_slice(&header.payload_length.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&header.crc.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&header.records.to_le_bytes());
        self.bytes[16..24].copy_from_slice(&header.first_revision.to_le_bytes());
        &self.bytes
    }
}

/// One change as stored; no value means that the key was removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub revision: Revision,
    pub bucket: &'a str,
    pub key: &'a str,
    pub value: Option<&'a [u8]>,
}

/// Bytes that a live object takes in the log.
pub(super) fn record_bytes(bucket: &str, key: &str, value: &[u8]) -> u64 {
    (RECORD_HEADER_BYTES + bucket.len() + key.len() + value.len()) as u64
}

/// Takes the first record off a payload; `None` when the bytes are not a record.
pub(super) fn take_record<'a>(payload: &mut &'a [u8]) -> Option<Record<'a>> {
    let header = take(payload, RECORD_HEADER_BYTES)?;
    let bucket = take(payload, u16::from_le_bytes([header[1], header[2]]).into())?;
    let key = take(payload, u32_at(header, 3) as usize)?;
    let value = take(payload, u32_at(header, 7) as usize)?;
    let value = match header[0] {
        KIND_PUT => Some(value),
        KIND_DELETE => None,
        _ => return None,
    };
    Some(Record {
        revision: u64_at(header, 11),
        bucket: std::str::from_utf8(bucket).ok()?,
        key: std::str::from_utf8(key).ok()?,
        value,
    })
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
