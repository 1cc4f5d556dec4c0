//! Places in a text, and edits of it through which a place can be followed back.

use std::ops::Range;

/// Where lines begin.
#[derive(Debug)]
pub struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(text: &'a str) -> Lines<'a> {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Lines { text, starts }
    }

    /// Line and column of a byte, both counted from 1, the column in characters.
    pub fn place(&self, at: usize) -> (usize, usize) {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= at) - 1;
        let before = self.text.get(self.starts[line]..at).unwrap_or_default();
        (line + 1, before.chars().count() + 1)
    }
}

/// The start of the line that a byte is in.
pub fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The end of the line that a byte is in, before its newline.
pub fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline)
}

/// How far the line of a byte is indented, in bytes.
pub fn indent_of(text: &str, at: usize) -> usize {
    let start = line_start(text, at);
    text[start..].bytes().take_while(|byte| *byte == b' ').count()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub text: String,
}

/// Edits that do not touch each other, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits(Vec<Edit>);

impl Edits {
    pub fn new(mut edits: Vec<Edit>) -> Edits {
        edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
        let mut kept: Vec<Edit> = Vec::new();
        for edit in edits {
            if kept.last().is_none_or(|last| last.range.end <= edit.range.start) {
                kept.push(edit);
            }
        }
        Edits(kept)
    }

    /// As many groups of edits as fit together; a group is done whole or not at all.
    pub fn compatible(groups: impl Iterator<Item = Vec<Edit>>) -> Edits {
        let mut kept: Vec<Edit> = Vec::new();
        let touches =
            |one: &Edit, other: &Edit| one.range.start <= other.range.end && other.range.start <= one.range.end;
        for group in groups {
            if group.iter().all(|edit| !kept.iter().any(|other| touches(edit, other))) {
                kept.extend(group);
            }
        }
        Edits::new(kept)
    }

    pub fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for edit in &self.0 {
            out.push_str(&text[at..edit.range.start]);
            out.push_str(&edit.text);
            at = edit.range.end;
        }
        out.push_str(&text[at..]);
        out
    }

    /// Where a byte of the edited text was before.
    pub fn original(&self, at: usize) -> usize {
        let (mut old, mut new) = (0, 0);
        for edit in &self.0 {
            let kept = edit.range.start - old;
            if at < new + kept {
                break;
            }
            new += kept;
            old = edit.range.start;
            if at < new + edit.text.len() {
                return old;
            }
            new += edit.text.len();
            old = edit.range.end;
        }
        old + (at - new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_count_characters() {
        let lines = Lines::new("가나: 다\n  x\n");
        assert_eq!(lines.place(0), (1, 1));
        assert_eq!(lines.place("가나: ".len()), (1, 5));
        assert_eq!(lines.place("가나: 다\n  ".len()), (2, 3));
        assert_eq!(lines.place(999), (3, 1));
    }

    proptest! {
        // A byte that no edit touched is found again.
        #[test]
        fn places_are_followed_back(text in "[a-z]{0,30}", cuts in prop::collection::vec((0usize..30, 0usize..4, "[A-Z]{0,5}"), 0..4)) {
            let edits = cuts.into_iter().filter(|(start, length, _)| start + length <= text.len());
            let edits = Edits::new(edits.map(|(start, length, text)| Edit { range: start..start + length, text }).collect());
            let edited = edits.apply(&text);
            for (at, letter) in edited.char_indices().filter(|(_, letter)| letter.is_lowercase()) {
                prop_assert_eq!(text[edits.original(at)..].chars().next(), Some(letter));
            }
        }
    }
}
