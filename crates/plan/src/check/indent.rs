//! A document that lost all its indentation, as when it is copied from a page: nesting is rebuilt from the schema.

use super::schema::{self, Form};
use super::{Raw, Severity};
use std::collections::BTreeMap;
use volley_api::kube::schema::Shape;

/// One line, taken apart.
struct Line<'a> {
    at: usize,
    is_item: bool,
    key: Option<&'a str>,
    value: &'a str,
}

/// What is wrong, with the edits that indent each line; `None` if the document is indented.
pub fn lost(text: &str) -> Option<Vec<Raw>> {
    let lines = read(text)?;
    let opens = |line: &Line<'_>| line.key.is_some() && line.value.is_empty();
    let is_flat = lines.windows(2).filter(|pair| opens(&pair[0]) && !pair[1].is_item).count();
    let repeated = repeated(&lines);
    if is_flat == 0 || (is_flat < 2 && repeated.is_empty()) {
        return None;
    }
    let first = lines.first().map_or(0, |line| line.at);
    let message = "all indentation is lost, as when text is copied from a page, so nothing is nested any more";
    let mut raw = Raw::new("G-02", Severity::Error, first, message);
    let indents = rebuild(&lines);
    // Without nesting, the tree tells of repeated keys itself.
    let repeated = if indents.is_some() { repeated } else { Vec::new() };
    if let Some(indents) = indents {
        raw = raw.suggest("indent it as the kind's schema has it");
        for (line, indent) in lines.iter().zip(indents).filter(|(_, indent)| *indent > 0) {
            raw = raw.fix(line.at..line.at, " ".repeat(indent));
        }
    }
    let again = repeated.into_iter().map(|(key, at, before)| {
        let line = text[..before].matches('\n').count() + 1;
        Raw::new(
            "G-11",
            Severity::Error,
            at,
            format!("key `{key}` stands at the same level as in line {line}; the last one would win"),
        )
    });
    Some(std::iter::once(raw).chain(again).collect())
}

/// The lines with content, if none is indented; block scalars and flow collections are not for us.
fn read(text: &str) -> Option<Vec<Line<'_>>> {
    let mut lines = Vec::new();
    let mut at = 0;
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end();
        let start = at;
        at += whole.len();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with([' ', '\t', '{', '[', '%']) || line == "---" || line == "..." {
            return None;
        }
        let is_item = line.starts_with("- ") || line == "-";
        let rest = line.strip_prefix('-').filter(|_| is_item).unwrap_or(line).trim_start();
        let pair = rest.split_once(": ").or_else(|| rest.strip_suffix(':').map(|key| (key, "")));
        let pair = pair.filter(|(key, _)| !key.contains(' ') && !key.starts_with(['"', '\'']));
        let (key, value) = match pair {
            Some((key, value)) => (Some(key), value.trim()),
            None => (None, rest),
        };
        lines.push(Line { at: start, is_item, key, value });
    }
    Some(lines)
}

/// Keys that stand there twice in a row of plain keys: key, place, place before.
fn repeated<'a>(lines: &[Line<'a>]) -> Vec<(&'a str, usize, usize)> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for line in lines.iter().filter(|line| !line.is_item) {
        if let Some(key) = line.key
            && let Some(before) = seen.insert(key, line.at)
        {
            found.push((key, line.at, before));
        }
    }
    found
}

/// An object or a list that is open while lines are read.
struct Frame {
    /// The key that it stands under.
    key: String,
    shape: Shape,
    is_list: bool,
    indent: usize,
    keys: Vec<String>,
}

struct Rebuild {
    stack: Vec<Frame>,
    /// The last line opened something that has nothing in it yet.
    is_open: bool,
    /// An object that was given a key which only the object around it knows: what follows strayed along.
    stray: Option<usize>,
}

fn rebuild(lines: &[Line<'_>]) -> Option<Vec<usize>> {
    let text =
        |key: &str| lines.iter().find(|line| line.key == Some(key) && !line.is_item).map_or("", |line| line.value);
    let unquoted = |text: &str| text.trim_matches(['"', '\'']).to_owned();
    let wrapper = lines.first().and_then(|line| line.key).filter(|key| matches!(*key, "kubernetes" | "resource_args"));
    let keys: Vec<&str> = lines.iter().filter_map(|line| line.key).collect();
    let shape = match schema::of(&keys, &unquoted(text("apiVersion")), &unquoted(text("kind"))) {
        Form::Object { shape: Some(shape), .. } | Form::Agent(shape) => shape,
        Form::Object { shape: None, .. } | Form::Queue | Form::Chart(_) | Form::Other => return None,
    };
    let base = if wrapper.is_some() { 2 } else { 0 };
    let root = Frame { key: String::new(), shape, is_list: false, indent: base, keys: Vec::new() };
    let mut rebuild = Rebuild { stack: vec![root], is_open: false, stray: None };
    let mut indents = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if index == 0 && wrapper.is_some() {
            indents.push(0);
            continue;
        }
        indents.push(rebuild.place(line)?);
    }
    Some(indents)
}

impl Rebuild {
    /// Where the line belongs; what it opens is then on the stack.
    fn place(&mut self, line: &Line<'_>) -> Option<usize> {
        if line.is_item { self.item(line) } else { self.member(line) }
    }

    fn item(&mut self, line: &Line<'_>) -> Option<usize> {
        // Nothing is known of what was opened last, but it turns out to be a list.
        if let Some(top) = self.stack.last_mut().filter(|top| self.is_open && matches!(top.shape, Shape::Any)) {
            top.is_list = true;
        }
        let fits = |frame: &Frame| {
            let Shape::List { items, .. } = &frame.shape else {
                return frame.is_list && matches!(frame.shape, Shape::Any);
            };
            match line.key {
                Some(key) => schema::member(items, bare(key)).is_some(),
                None => matches!(**items, Shape::Scalar(_) | Shape::Any),
            }
        };
        let at = self.stack.iter().rposition(|frame| frame.is_list && fits(frame))?;
        self.stack.truncate(at + 1);
        let (indent, items) = match &self.stack[at].shape {
            Shape::List { items, .. } => (self.stack[at].indent, (**items).clone()),
            _ => (self.stack[at].indent, Shape::Any),
        };
        self.is_open = false;
        if let Some(key) = line.key {
            let list = self.stack[at].key.clone();
            self.stack.push(Frame { key: list, shape: items, is_list: false, indent: indent + 2, keys: Vec::new() });
            self.open(bare(key), line.value);
        }
        Some(indent)
    }

    fn member(&mut self, line: &Line<'_>) -> Option<usize> {
        let key = bare(line.key?);
        let top = self.stack.len() - 1;
        let is_first = self.is_open && !self.stack[top].is_list;
        let at = match is_first {
            true => top,
            false => {
                let chosen = self.choose(key, line.value)?;
                self.stray.filter(|stray| *stray == chosen + 1).unwrap_or(chosen)
            }
        };
        self.stack.truncate(at + 1);
        let is_unknown = schema::member(&self.stack[at].shape, key).is_none();
        if is_first && is_unknown {
            self.stray = Some(at);
        }
        self.stray = self.stray.filter(|stray| *stray <= at);
        self.open(key, line.value);
        Some(self.stack[at].indent)
    }

    /// The innermost object that knows the key; then a map of such values; then the innermost object of all.
    fn choose(&self, key: &str, value: &str) -> Option<usize> {
        let is_free = |frame: &Frame| !frame.is_list && !frame.keys.iter().any(|own| own == key);
        let in_struct = |at: usize| {
            let frame = &self.stack[at];
            let knows = || schema::keys(&frame.shape).iter().any(|known| known.eq_ignore_ascii_case(key));
            is_free(frame) && knows() && !is_elsewhere(key, at, &self.stack)
        };
        let in_map = |at: usize| {
            let frame = &self.stack[at];
            let fits = match &frame.shape {
                Shape::Map { values, .. } => matches!(**values, Shape::Scalar(_)) != value.is_empty(),
                Shape::Any => true,
                Shape::Struct(_) | Shape::Scalar(_) | Shape::List { .. } => false,
            };
            is_free(frame) && fits
        };
        let inward = || (0..self.stack.len()).rev();
        let root_first = matches!(key, "metadata" | "apiVersion" | "kind") && is_free(&self.stack[0]);
        root_first
            .then_some(0)
            .or_else(|| inward().find(|at| in_struct(*at)))
            .or_else(|| inward().find(|at| in_map(*at)))
            .or_else(|| misplaced(key, &self.stack))
            .or_else(|| {
                inward().find(|at| is_free(&self.stack[*at]) && matches!(self.stack[*at].shape, Shape::Struct(_)))
            })
    }

    fn open(&mut self, key: &str, value: &str) {
        let Some(frame) = self.stack.last_mut() else { return };
        frame.keys.push(key.to_owned());
        self.is_open = value.is_empty();
        if !value.is_empty() {
            return;
        }
        let name = schema::other_case(&frame.shape, key).unwrap_or_else(|| key.to_owned());
        // What is misplaced was mostly meant for a container.
        let shape = schema::member(&frame.shape, &name).or_else(|| schema::of_container(&name)).unwrap_or(Shape::Any);
        let is_list = matches!(shape, Shape::List { .. });
        let indent = frame.indent + 2;
        self.stack.push(Frame { key: key.to_owned(), shape, is_list, indent, keys: Vec::new() });
    }
}

fn bare(key: &str) -> &str {
    key.trim_matches('`')
}

/// A restart policy is a container's own only in rare cases; of a training job's replica it is the replica's.
fn is_elsewhere(key: &str, at: usize, stack: &[Frame]) -> bool {
    if key != "restartPolicy" {
        return false;
    }
    let is_replica = |at: usize| at > 0 && stack[at - 1].key.ends_with("ReplicaSpecs");
    let has_replica = (0..stack.len()).any(is_replica);
    stack[at].key.to_lowercase().ends_with("containers") || (has_replica && !is_replica(at))
}

/// Where a key that the kind does not know is usually put by mistake: directly below `spec`.
fn misplaced(key: &str, stack: &[Frame]) -> Option<usize> {
    let is_usual =
        matches!(key, "ttlSecondsAfterFinished" | "backoffLimit" | "cleanPodPolicy" | "activeDeadlineSeconds");
    stack.iter().position(|frame| frame.key == "spec").filter(|_| is_usual)
}
