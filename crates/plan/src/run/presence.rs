//! Which lines of a segment of the history have which keys, kept beside it.
//!
//! A chart wants some hundred of a million rows, evenly picked from those that have its keys. With this the rows are
//! counted and picked without unpacking a line; only the segments that picked rows are in are opened.

use super::history;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Paths beyond this are not noted; for them the lines themselves are asked.
const PATHS_MAX: usize = 512;

/// One bit for each line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bits(Vec<u8>);

impl Bits {
    fn none(count: usize) -> Bits {
        Bits(vec![0; count.div_ceil(8)])
    }

    fn set(&mut self, at: usize) {
        self.0[at / 8] |= 1 << (at % 8);
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 8] & (1 << (at % 8)) != 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    count: usize,
    /// Whether every path of every row is noted.
    is_complete: bool,
    rows: Bits,
    stepped: Bits,
    paths: BTreeMap<String, Bits>,
    /// The least and the greatest step.
    pub steps: Option<(i64, i64)>,
}

impl Presence {
    pub fn of(lines: &[String]) -> Presence {
        let count = lines.len();
        let mut seen = Presence {
            count,
            is_complete: true,
            rows: Bits::none(count),
            stepped: Bits::none(count),
            paths: BTreeMap::new(),
            steps: None,
        };
        for (at, line) in lines.iter().enumerate() {
            let Some(row) = history::row(line) else { continue };
            seen.rows.set(at);
            if let Some(step) = history::step(&row) {
                seen.stepped.set(at);
                seen.steps = Some(seen.steps.map_or((step, step), |(low, high)| (low.min(step), high.max(step))));
            }
            seen.note(at, "", &row);
        }
        seen
    }

    fn note(&mut self, at: usize, prefix: &str, row: &Map<String, Value>) {
        for (key, value) in row {
            let joined;
            let path = match prefix {
                "" => key,
                _ => {
                    joined = format!("{prefix}.{key}");
                    &joined
                }
            };
            let has_room = self.paths.len() < PATHS_MAX;
            match self.paths.get_mut(path) {
                Some(bits) => bits.set(at),
                None if has_room => {
                    let mut bits = Bits::none(self.count);
                    bits.set(at);
                    self.paths.insert(path.clone(), bits);
                }
                None => self.is_complete = false,
            }
            if let Value::Object(inner) = value {
                self.note(at, path, inner);
            }
        }
    }

    /// The lines that are rows with all of these keys, if their steps are within; nothing where only the lines can tell.
    ///
    /// A row without a step counts as step 0, as it does when lines are read.
    pub fn lines(&self, keys: &[String], min: Option<i64>, max: Option<i64>) -> Option<Vec<usize>> {
        let is_within = |step: i64| min.is_none_or(|min| step >= min) && max.is_none_or(|max| step <= max);
        if (min, max) != (None, None) {
            let all_stepped = self.stepped == self.rows;
            match self.steps {
                Some((low, high)) if all_stepped && is_within(low) && is_within(high) => (),
                _ => return None,
            }
        }
        let mut wanted = vec![&self.rows];
        for key in keys {
            match self.paths.get(key) {
                Some(bits) => wanted.push(bits),
                None if self.is_complete => return Some(Vec::new()),
                None => return None,
            }
        }
        Some((0..self.count).filter(|at| wanted.iter().all(|bits| bits.has(*at))).collect())
    }

    /// As bytes: a head, then each path with its bits, or a mark that every line has it.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_complete)];
        let number = |value: usize| u32::try_from(value).expect("a segment is small").to_le_bytes();
        bytes.extend(number(self.count));
        let (low, high) = self.steps.unwrap_or((1, 0));
        bytes.extend(low.to_le_bytes());
        bytes.extend(high.to_le_bytes());
        let every = every(self.count);
        let mut put = |name: &str, bits: &Bits| {
            bytes.extend(number(name.len()));
            bytes.extend(name.as_bytes());
            let is_every = *bits == every;
            bytes.push(u8::from(is_every));
            if !is_every {
                bytes.extend(&bits.0);
            }
        };
        put("", &self.rows);
        put("", &self.stepped);
        self.paths.iter().for_each(|(path, bits)| put(path, bits));
        bytes
    }

    /// What `encode` was given; nothing if it is damaged, and the lines are asked.
    pub fn decode(bytes: &[u8]) -> Option<Presence> {
        let (complete, bytes) = bytes.split_first()?;
        let (count, bytes) = bytes.split_first_chunk::<4>()?;
        let (low, bytes) = bytes.split_first_chunk::<8>()?;
        let (high, mut bytes) = bytes.split_first_chunk::<8>()?;
        let count = u32::from_le_bytes(*count) as usize;
        let (low, high) = (i64::from_le_bytes(*low), i64::from_le_bytes(*high));
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let (entry, rest) = entry(bytes, count)?;
            entries.push(entry);
            bytes = rest;
        }
        let mut entries = entries.into_iter();
        let (_, rows) = entries.next()?;
        let (_, stepped) = entries.next()?;
        let steps = (low <= high).then_some((low, high));
        Some(Presence { count, is_complete: *complete == 1, rows, stepped, paths: entries.collect(), steps })
    }
}

fn every(count: usize) -> Bits {
    let mut bits = Bits::none(count);
    (0..count).for_each(|at| bits.set(at));
    bits
}

fn entry(bytes: &[u8], count: usize) -> Option<((String, Bits), &[u8])> {
    let (length, bytes) = bytes.split_first_chunk::<4>()?;
    let (name, bytes) = bytes.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let (is_every, bytes) = bytes.split_first()?;
    let name = String::from_utf8(name.to_vec()).ok()?;
    if *is_every == 1 {
        return Some(((name, every(count)), bytes));
    }
    let (bits, bytes) = bytes.split_at_checked(count.div_ceil(8))?;
    Some(((name, Bits(bits.to_vec())), bytes))
}

/// Which of the candidates of each segment are shown when at most `samples` of all are wanted.
pub fn spread(candidates: &[usize], samples: usize) -> Vec<Vec<usize>> {
    let total = candidates.iter().sum();
    let mut picked = vec![Vec::new(); candidates.len()];
    let (mut segment, mut before) = (0, 0);
    for at in history::sample(total, samples) {
        while at - before >= candidates[segment] {
            before += candidates[segment];
            segment += 1;
        }
        picked[segment].push(at - before);
    }
    picked
}

#[cfg(test)]
mod tests {
    use super::super::history::{Spec, select};
    use super::*;
    use proptest::prelude::*;

    fn any_line() -> impl Strategy<Value = String> {
        prop_oneof![
            4 => (0i64..50, prop::collection::vec(("[ab]", 0u8..4), 0..4)).prop_map(|(step, keys)| {
                let mut row = Map::from_iter([("_step".to_owned(), Value::from(step))]);
                for (key, kind) in keys {
                    let value = match kind {
                        0 => Value::from(step * 2),
                        1 => Value::Null,
                        2 => serde_json::json!({ "b": 1, "a": { "b": "x" } }),
                        _ => Value::from("NaN"),
                    };
                    row.insert(key, value);
                }
                Value::Object(row).to_string()
            }),
            1 => Just(r#"{"a":NaN,"a.b":1}"#.to_owned()),
            1 => Just(String::new()),
            1 => Just("nonsense".to_owned()),
        ]
    }

    proptest! {
        // PUB-4: what is picked by presence is what would be picked by reading every line.
        #[test]
        fn rows_are_picked_as_if_all_were_read(
            lines in prop::collection::vec(any_line(), 0..60),
            cuts in prop::collection::vec(1usize..20, 1..8),
            keys in prop::collection::vec(prop::sample::select(vec!["a", "b", "a.b", "a.a.b", "_step", "zz"]), 0..3),
            range in (prop::option::of(0i64..30), prop::option::of(20i64..60)),
            samples in 0usize..20,
        ) {
            let keys: Vec<String> = keys.into_iter().map(str::to_owned).collect();
            let (min_step, max_step) = range;
            let spec = Spec { keys: keys.clone(), samples: None, min_step, max_step };
            let mut segments: Vec<&[String]> = Vec::new();
            let mut rest = lines.as_slice();
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() { break }
                let (head, tail) = rest.split_at(cut.min(rest.len()));
                segments.push(head);
                rest = tail;
            }
            let candidates: Vec<Vec<usize>> = segments.iter().map(|segment| {
                let presence = Presence::of(segment);
                assert_eq!(Presence::decode(&presence.encode()).as_ref(), Some(&presence));
                presence.lines(&keys, min_step, max_step).unwrap_or_else(|| {
                    let one = |at: &usize| !select(&spec, std::iter::once(segment[*at].as_str())).is_empty();
                    (0..segment.len()).filter(one).collect()
                })
            }).collect();
            let counts: Vec<usize> = candidates.iter().map(Vec::len).collect();
            let mut picked = Vec::new();
            for ((segment, candidates), ordinals) in segments.iter().zip(&candidates).zip(spread(&counts, samples)) {
                for ordinal in ordinals {
                    picked.extend(select(&spec, std::iter::once(segment[candidates[ordinal]].as_str())));
                }
            }
            let expected = select(&Spec { samples: Some(samples), ..spec }, lines.iter().map(String::as_str));
            prop_assert_eq!(picked, expected);
        }
    }

    #[test]
    fn too_many_paths_are_asked_of_the_lines() {
        let row: Map<String, Value> = (0..PATHS_MAX + 5).map(|n| (format!("k{n:04}"), Value::from(n))).collect();
        let presence = Presence::of(&[Value::Object(row).to_string()]);
        assert_eq!(presence.lines(&["k0001".into()], None, None), Some(vec![0]));
        assert_eq!(presence.lines(&["k0515".into()], None, None), None);
        assert_eq!(Presence::decode(b"\x01damaged"), None);
    }
}
