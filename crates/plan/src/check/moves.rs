//! Takes an entry of a document from one place to another in the text itself, so that comments and order stay.

use super::source::{Edit, indent_of, line_end, line_start};
use super::tree::{Entry, Kind, Node};
use std::ops::Range;

/// Moves an entry into an object around it, behind the part (`through`) that it stands in.
pub fn outwards(text: &str, entry: &Entry, holder: &Node, through: &Entry) -> Option<Vec<Edit>> {
    if !is_within(entry, &through.value) || !is_within(through, holder) {
        return None;
    }
    let column = indent_of(text, through.key_span.start);
    if is_flow(holder) {
        let moved = shifted(text, entry.key_span.start..entry.value.span.end, column);
        let insert = Edit { range: empty(through.value.span.end), text: format!(",\n{}{moved}", " ".repeat(column)) };
        return Some(vec![cut_flow(text, entry), insert]);
    }
    // A list's item begins behind its dash; its further keys stand below the first.
    let column = through.key_span.start - line_start(text, through.key_span.start);
    block(text, entry, next_line(text, through.value.span.end), column)
}

/// Moves an entry into an object beside it, which is made if it is not there.
pub fn into_sibling(text: &str, entry: &Entry, holder: &Node, name: &str) -> Option<Vec<Edit>> {
    let whole = entry.key_span.start..entry.value.span.end;
    let sibling = holder.entry(name).filter(|entry| entry.value.is_map());
    let last = sibling.and_then(|sibling| sibling.value.entries().last());
    let is_elsewhere = sibling.is_some_and(|sibling| {
        !is_within(sibling, holder) || last.is_some_and(|last| !is_within(last, &sibling.value))
    });
    if is_elsewhere || !is_within(entry, holder) {
        return None;
    }
    match (is_flow(holder), last) {
        (true, Some(last)) => {
            let insert = Edit { range: empty(last.value.span.end), text: format!(", {}", &text[whole]) };
            Some(vec![cut_flow(text, entry), insert])
        }
        (true, None) => Some(vec![Edit { range: whole.clone(), text: format!("\"{name}\": {{ {} }}", &text[whole]) }]),
        (false, Some(last)) => {
            let column = last.key_span.start - line_start(text, last.key_span.start);
            block(text, entry, next_line(text, last.value.span.end), column)
        }
        (false, None) => {
            let column = entry.key_span.start - line_start(text, entry.key_span.start);
            let moved = shifted(text, whole.clone(), column + 2);
            let text = format!("{name}:\n{}{moved}", " ".repeat(column + 2));
            Some(vec![Edit { range: whole, text }])
        }
    }
}

/// Takes a wrapper off: what is in it takes its place.
pub fn unwrap(text: &str, root: &Node, entry: &Entry) -> Option<Vec<Edit>> {
    if !is_within(entry, root) {
        return None;
    }
    let inner = entry.value.span.clone();
    if is_flow(root) || is_flow(&entry.value) {
        return Some(vec![Edit { range: root.span.clone(), text: text[inner].to_owned() }]);
    }
    let column = |at: usize| at - line_start(text, at);
    let depth = column(inner.start).saturating_sub(column(entry.key_span.start));
    let mut edits = vec![Edit { range: entry.key_span.start..inner.start, text: String::new() }];
    let mut at = next_line(text, inner.start);
    while at < inner.end {
        let spaces = text[at..].bytes().take_while(|byte| *byte == b' ').count().min(depth);
        edits.push(Edit { range: at..at + spaces, text: String::new() });
        at = next_line(text, at);
    }
    Some(edits)
}

/// Not so for what an alias or a merge key takes over: others may have it, too.
fn is_within(entry: &Entry, holder: &Node) -> bool {
    !entry.is_merged && holder.span.contains(&entry.key_span.start)
}

fn is_flow(node: &Node) -> bool {
    matches!(node.kind, Kind::Map { is_flow: true, .. })
}

fn empty(at: usize) -> Range<usize> {
    at..at
}

fn next_line(text: &str, at: usize) -> usize {
    (line_end(text, at) + 1).min(text.len())
}

/// Cuts whole lines and puts them elsewhere; an entry that shares its line with a dash stays.
fn block(text: &str, entry: &Entry, target: usize, column: usize) -> Option<Vec<Edit>> {
    let start = line_start(text, entry.key_span.start);
    if !text[start..entry.key_span.start].trim().is_empty() {
        return None;
    }
    let end = entry.value.span.end.max(entry.key_span.end);
    let moved = shifted(text, entry.key_span.start..line_end(text, end), column);
    let before = if text[..target].ends_with('\n') { "" } else { "\n" };
    let insert = format!("{before}{}{moved}\n", " ".repeat(column));
    Some(vec![
        Edit { range: start..next_line(text, end), text: String::new() },
        Edit { range: empty(target), text: insert },
    ])
}

/// A part of the text whose first line will stand at this column, its other lines moved along.
fn shifted(text: &str, range: Range<usize>, column: usize) -> String {
    let old = indent_of(text, range.start);
    let move_line = |(number, line): (usize, &str)| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        match (number, line.trim().is_empty()) {
            (0, _) | (_, true) => line.to_owned(),
            _ => format!("{}{}", " ".repeat((spaces + column).saturating_sub(old)), &line[spaces..]),
        }
    };
    text[range].split('\n').enumerate().map(move_line).collect::<Vec<_>>().join("\n")
}

/// An entry of JSON with the one comma that goes with it.
fn cut_flow(text: &str, entry: &Entry) -> Edit {
    let (start, end) = (entry.key_span.start, entry.value.span.end);
    let rest = &text[end..];
    let after = rest.trim_start();
    if let Some(next) = after.strip_prefix(',') {
        let next = next.trim_start();
        return Edit { range: start..text.len() - next.len(), text: String::new() };
    }
    let before = text[..start].trim_end();
    let from = if before.ends_with(',') { before.len() - 1 } else { start };
    Edit { range: from..end, text: String::new() }
}
