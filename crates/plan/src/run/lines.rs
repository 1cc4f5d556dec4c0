//! The lines of a stream (history, system metrics, console), kept in segments.
//!
//! A stream is numbered lines from 0 without gaps. A post writes lines at an offset, over what is there, so the same post
//! twice changes nothing. Segments tile the stream; `rewrite` says which to replace. The shell loads the segments from
//! `touched` on. An append takes up the segments before it that are not much larger than itself, so that a line is
//! rewritten a few times only, however small the posts are, and few segments are small.

/// Segments grow to this by appending; a chart of many rows then reads few rows of the database.
pub const LINES_MAX: usize = 1024;
/// And to this many bytes, so that an append never rewrites much.
pub const BYTES_MAX: usize = 256 << 10;
/// As compressed, a segment of this size is not taken up by an append either.
const STORED_BYTES_MAX: u64 = 128 << 10;
/// As many of the last segments as an append can take up: each is more than twice as large as all behind it.
pub const TAIL_MAX: usize = 12;
/// How far behind the end a post may write; the gap is filled with empty lines, which must not fill the disk.
pub const GAP_MAX: u64 = 1_000_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub first: u64,
    pub lines: Vec<String>,
}

impl Segment {
    fn is_full(&self) -> bool {
        self.lines.len() >= LINES_MAX || self.lines.iter().map(String::len).sum::<usize>() >= BYTES_MAX
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// Segments to delete, by their first line.
    pub remove: Vec<u64>,
    pub insert: Vec<Segment>,
    /// How many lines the stream has afterwards.
    pub total: u64,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {offset} is more than {GAP_MAX} lines behind the end at {total}")]
pub struct TooFar {
    pub offset: u64,
    pub total: u64,
}

/// A segment as the shell knows it without opening it.
#[derive(Clone, Copy, Debug)]
pub struct Outline {
    pub first: u64,
    pub count: u64,
    pub stored_bytes: u64,
}

/// The first line of the segments that a post of `count` lines changes. `tail` are the last segments, the last one first.
pub fn touched(total: u64, offset: u64, count: usize, tail: &[Outline]) -> u64 {
    if offset < total {
        return offset;
    }
    let (mut first, mut gathered) = (total, count as u64);
    for segment in tail {
        let is_full = segment.count >= LINES_MAX as u64 || segment.stored_bytes >= STORED_BYTES_MAX;
        if is_full || segment.count > 2 * gathered {
            break;
        }
        first = segment.first;
        gathered += segment.count;
    }
    first
}

/// What changes when `lines` are written at `offset` of a stream of `total` lines.
///
/// `near` are the stored segments that hold lines from `touched` up to the last of the post, in order.
pub fn rewrite(total: u64, near: Vec<Segment>, offset: u64, lines: &[String]) -> Result<Rewrite, TooFar> {
    if offset > total.saturating_add(GAP_MAX) {
        return Err(TooFar { offset, total });
    }
    if lines.is_empty() {
        return Ok(Rewrite { remove: Vec::new(), insert: Vec::new(), total });
    }
    let first = near.first().map_or(total.min(offset), |segment| segment.first);
    let end = offset + lines.len() as u64;
    let remove = near.iter().map(|segment| segment.first).collect();
    let mut all: Vec<String> = Vec::new();
    for segment in near {
        debug_assert_eq!(segment.first, first + all.len() as u64, "segments tile the stream");
        all.extend(segment.lines);
    }
    let at = usize::try_from(offset - first).expect("within a few segments and the widest gap");
    if all.len() < at + lines.len() {
        all.resize(at + lines.len(), String::new());
    }
    for (slot, line) in all[at..].iter_mut().zip(lines) {
        slot.clone_from(line);
    }
    Ok(Rewrite { remove, insert: split(first, all), total: total.max(end) })
}

fn split(first: u64, lines: Vec<String>) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    for (number, line) in (first..).zip(lines) {
        match segments.last_mut() {
            Some(last) if !last.is_full() => last.lines.push(line),
            _ => segments.push(Segment { first: number, lines: vec![line] }),
        }
    }
    segments
}

/// The lines of a segment as bytes: each with its length before it, because a line may hold anything.
pub fn encode(lines: &[String]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(lines.iter().map(|line| line.len() + 4).sum());
    for line in lines {
        let length = u32::try_from(line.len()).expect("a line is within a request's limit");
        bytes.extend(length.to_le_bytes());
        bytes.extend(line.as_bytes());
    }
    bytes
}

/// What `encode` was given; what is damaged ends the list.
pub fn decode(bytes: &[u8]) -> Vec<String> {
    decoded(bytes).map(|line| String::from_utf8_lossy(line).into_owned()).collect()
}

/// The lines one by one, without a copy.
pub fn decoded(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (line, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        bytes = rest;
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn end_of(segment: &Segment) -> u64 {
        segment.first + segment.lines.len() as u64
    }

    /// A stream as the shell keeps it, with segments in a map.
    #[derive(Default)]
    struct Stream {
        segments: BTreeMap<u64, Segment>,
        total: u64,
    }

    impl Stream {
        fn post(&mut self, offset: u64, lines: &[String]) {
            let outline = |s: &Segment| Outline { first: s.first, count: s.lines.len() as u64, stored_bytes: 0 };
            let tail: Vec<_> = self.segments.values().rev().take(TAIL_MAX).map(outline).collect();
            let first = touched(self.total, offset, lines.len(), &tail);
            let end = offset + lines.len() as u64;
            let near = self.segments.values().filter(|s| s.first < end && end_of(s) > first).cloned().collect();
            let change = rewrite(self.total, near, offset, lines).unwrap();
            for first in change.remove {
                self.segments.remove(&first);
            }
            for segment in change.insert {
                self.segments.insert(segment.first, segment);
            }
            self.total = change.total;
        }

        fn lines(&self) -> Vec<String> {
            self.segments.values().flat_map(|segment| segment.lines.clone()).collect()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        // FS-2
        #[test]
        fn segments_hold_what_a_plain_list_would(
            posts in prop::collection::vec((0u64..4000, 0usize..1500, 0u8..9), 1..8),
        ) {
            let mut stream = Stream::default();
            let mut plain: Vec<String> = Vec::new();
            for (offset, count, tag) in posts {
                let lines: Vec<String> = (0..count).map(|at| format!("{tag}{at}")).collect();
                stream.post(offset, &lines);
                let at = offset as usize;
                if !lines.is_empty() && plain.len() < at + lines.len() {
                    plain.resize(at + lines.len(), String::new());
                }
                if !lines.is_empty() {
                    plain[at..at + lines.len()].clone_from_slice(&lines);
                }
                prop_assert_eq!(&stream.lines(), &plain);
                prop_assert_eq!(stream.total, plain.len() as u64);
                // A post that arrives twice changes nothing.
                stream.post(offset, &lines);
                prop_assert_eq!(&stream.lines(), &plain);
                let mut next = 0;
                for segment in stream.segments.values() {
                    prop_assert_eq!(segment.first, next, "segments tile the stream");
                    prop_assert!(segment.lines.len() <= LINES_MAX);
                    next = end_of(segment);
                }
            }
        }

        #[test]
        fn what_is_encoded_comes_back(lines in prop::collection::vec("\\PC*", 0..20)) {
            prop_assert_eq!(decode(&encode(&lines)), lines);
        }
    }

    // FS-2
    #[test]
    fn appending_line_by_line_keeps_few_segments() {
        let mut stream = Stream::default();
        for number in 0..3000u64 {
            stream.post(number, &[number.to_string()]);
        }
        assert!(stream.segments.len() <= 2 + TAIL_MAX, "{}", stream.segments.len());
        let largest_first: Vec<usize> = stream.segments.values().map(|segment| segment.lines.len()).collect();
        assert!(largest_first.is_sorted_by(|one, other| one >= other), "{largest_first:?}");
    }

    #[test]
    fn a_gap_that_would_fill_the_disk_is_refused() {
        assert!(rewrite(0, Vec::new(), GAP_MAX, &["x".into()]).is_ok());
        assert_eq!(rewrite(0, Vec::new(), u64::MAX, &["x".into()]), Err(TooFar { offset: u64::MAX, total: 0 }));
    }

    #[test]
    fn damaged_bytes_end_the_list() {
        assert_eq!(decode(&[9, 0, 0, 0, b'x']), Vec::<String>::new());
        assert_eq!(decode(&[1, 0]), Vec::<String>::new());
    }
}
