//! Damage to the text itself, found line by line before anything can be parsed, and mended.

use super::source::{Edit, Edits};
use super::{Facts, Raw, Severity, fields, indent, tree};

/// Keys that begin documents; what stands glued before one was not meant to be there.
const FIRST_KEYS: [&str; 8] =
    ["apiVersion", "kind", "metadata", "spec", "kubernetes", "resource_args", "queues", "entity"];
/// Widths that editors give a tab.
const TAB_WIDTHS: [usize; 3] = [2, 4, 8];

/// A line and where it stands.
struct Line<'a> {
    at: usize,
    text: &'a str,
}

/// A byte order mark is no part of the first line.
fn lines(text: &str) -> Vec<Line<'_>> {
    let unmarked = text.trim_start_matches('\u{feff}');
    let mut at = text.len() - unmarked.len();
    let mut lines = Vec::new();
    for line in unmarked.split_inclusive('\n') {
        lines.push(Line { at, text: line.trim_end_matches(['\n', '\r']) });
        at += line.len();
    }
    lines
}

/// Findings in the text as it is, and the edits that mend it.
pub fn repair(text: &str) -> (Vec<Raw>, Edits) {
    let mut raws = Vec::new();
    if let Some(rest) = text.strip_prefix('\u{feff}') {
        let length = text.len() - rest.len();
        raws.push(Raw::new("G-04", Severity::Note, 0, "a byte order mark stands before the text").fix(0..length, ""));
    }
    if is_json(text) {
        raws.extend(json_leftovers(text));
    } else {
        let quote = has_quotes(text);
        for line in lines(text) {
            raws.extend(markdown(&line, quote));
        }
        raws.extend(tabs(text));
        raws.extend(glued(text));
    }
    raws.extend(unquoted_tokens(text));
    let edits = Edits::new(raws.iter().flat_map(|raw| raw.fix.clone()).collect());
    if is_json(text) {
        return (raws, edits);
    }
    // What follows looks at lines that are whole again.
    let mended = edits.apply(text);
    let Some(lost) = indent::lost(&mended) else { return (raws, edits) };
    let mut all: Vec<Edit> = raws.iter().flat_map(|raw| raw.fix.clone()).collect();
    for mut raw in lost {
        raw.at = edits.original(raw.at);
        for edit in &mut raw.fix {
            edit.range = edits.original(edit.range.start)..edits.original(edit.range.end);
        }
        all.extend(raw.fix.clone());
        raws.push(raw);
    }
    (raws, joined(all))
}

/// Two edits that insert at the same place, or touch, are done as one.
fn joined(mut edits: Vec<Edit>) -> Edits {
    edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut kept: Vec<Edit> = Vec::new();
    for edit in edits {
        match kept.last_mut() {
            Some(last) if edit.range.start < last.range.end || edit.range.start == last.range.start => {
                last.range.end = last.range.end.max(edit.range.end);
                last.text.push_str(&edit.text);
            }
            _ => kept.push(edit),
        }
    }
    Edits::new(kept)
}

pub fn is_json(text: &str) -> bool {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    (start.starts_with('{') && !start.starts_with("{{")) || start.starts_with('[')
}

/// Most lines are quoted, as in Markdown.
fn has_quotes(text: &str) -> bool {
    let written: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let quoted = written.iter().filter(|line| line.trim_start().starts_with('>')).count();
    quoted > 0 && quoted * 2 >= written.len()
}

fn markdown(line: &Line<'_>, has_quotes: bool) -> Vec<Raw> {
    let mut raws = Vec::new();
    let (mut at, mut rest) = (line.at, line.text);
    if has_quotes && let Some(inner) = rest.trim_start().strip_prefix('>') {
        let inner = inner.strip_prefix(' ').unwrap_or(inner);
        let start = rest.len() - rest.trim_start().len();
        let length = rest.len() - inner.len();
        let message = "the line is quoted as in Markdown; `>` is not part of the document";
        raws.push(Raw::new("G-04", Severity::Warning, at + start, message).fix(at..at + length, ""));
        (at, rest) = (at + length, inner);
    }
    let trimmed = rest.trim_start();
    let start = at + rest.len() - trimmed.len();
    if trimmed.starts_with("```") || trimmed.starts_with(":::") {
        let message = "a line of Markdown is left in the document";
        // Should the quote before it be cut as well, both cuts meet here.
        let from = if raws.is_empty() { line.at } else { at };
        raws.push(Raw::new("G-04", Severity::Warning, start, message).fix(from..at + rest.len(), ""));
    } else if let Some((key, length)) = ticked_key(trimmed) {
        let key_at = start + length;
        let end = key_at + key.len() + 2;
        let message = format!("key `{key}` is set in back-ticks, which YAML takes for part of its name");
        raws.push(Raw::new("G-04", Severity::Error, key_at, message).fix(key_at..key_at + 1, "").fix(end - 1..end, ""));
    }
    raws
}

/// A key in back-ticks at the start of a line, and how far in it begins.
fn ticked_key(line: &str) -> Option<(&str, usize)> {
    let inner = line.trim_start_matches("- ");
    let (key, rest) = inner.strip_prefix('`')?.split_once('`')?;
    rest.trim_start().starts_with(':').then_some((key, line.len() - inner.len()))
}

/// What looks like a blank and is none: tabs, and the blanks of web pages and East Asian typewriters.
const NO_BLANKS: [(char, &str); 3] =
    [('\t', "a tab"), ('\u{a0}', "a no-break space"), ('\u{3000}', "an ideographic space")];

/// How far a line is indented, by whatever means.
fn leading<'a>(line: &Line<'a>) -> &'a str {
    let is_blank = |letter: char| letter == ' ' || NO_BLANKS.iter().any(|(other, _)| *other == letter);
    &line.text[..line.text.len() - line.text.trim_start_matches(is_blank).len()]
}

/// The same in spaces, if a tab is so wide.
fn in_spaces(line: &Line<'_>, width: usize) -> Edit {
    let columns = |letter: char| match letter {
        '\t' => width,
        '\u{3000}' => 2,
        _ => 1,
    };
    let range = line.at..line.at + leading(line).len();
    Edit { range, text: " ".repeat(leading(line).chars().map(columns).sum()) }
}

/// Tabs cannot indent. Which width was meant is tried out: the one that parses and fits best.
fn tabs(text: &str) -> Vec<Raw> {
    let is_odd = |line: &Line<'_>| leading(line).contains(|letter| letter != ' ') && !line.text.trim().is_empty();
    let odd: Vec<Line<'_>> = lines(text).into_iter().filter(is_odd).collect();
    let score = |width: usize| {
        let mended = Edits::new(odd.iter().map(|line| in_spaces(line, width)).collect()).apply(text);
        let mut raws = Vec::new();
        let mut broken = 0;
        for document in tree::parse(&mended) {
            match document {
                Ok(root) => fields::check(&mended, &root, &Facts::default(), &mut raws),
                Err(_) => broken += 1000,
            }
        }
        broken + raws.len()
    };
    if odd.is_empty() {
        return Vec::new();
    }
    let width = TAB_WIDTHS.into_iter().min_by_key(|width| score(*width)).unwrap_or(TAB_WIDTHS[0]);
    let raw = |line: &Line<'_>| {
        let column = leading(line).find(|letter| letter != ' ').unwrap_or(0);
        let first = leading(line)[column..].chars().next();
        let name = NO_BLANKS.iter().find(|(letter, _)| first == Some(*letter)).map_or("a blank", |(_, name)| name);
        let edit = in_spaces(line, width);
        Raw::new(
            "G-01",
            Severity::Error,
            line.at + column,
            format!("{name} is used for indentation, which YAML forbids"),
        )
        .suggest(format!("indent with {} spaces", edit.text.len()))
        .fix(edit.range, edit.text)
    };
    odd.iter().map(raw).collect()
}

/// Something stands glued before the first key.
fn glued(text: &str) -> Option<Raw> {
    let is_content = |line: &Line<'_>| {
        let trimmed = line.text.trim_start().trim_start_matches('>').trim_start();
        !trimmed.is_empty() && !["#", "```", ":::", "---"].iter().any(|start| trimmed.starts_with(start))
    };
    let line = lines(text).into_iter().find(is_content)?;
    let known = |key: &str| line.text.trim_start().strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    if FIRST_KEYS.into_iter().any(known) {
        return None;
    }
    let found = |key: &&'static str| {
        let at = line.text.find(&format!("{key}:"))?;
        let before = line.text[..at].chars().next_back()?;
        let after = &line.text[at + key.len() + 1..];
        let is_end = after.is_empty() || after.starts_with(' ');
        let is_own_word =
            before.is_whitespace() || matches!(before, '-' | '_' | '.' | '"' | '\'' | '`' | '/' | '$' | '{');
        (is_end && !is_own_word).then_some((at, *key))
    };
    let (at, key) = FIRST_KEYS.iter().filter_map(found).min()?;
    let prefix = line.text[..at].trim();
    let message = format!("`{prefix}` stands glued before `{key}`, so the document has no `{key}`");
    Some(Raw::new("G-03", Severity::Error, line.at, message).suggest(key).fix(line.at..line.at + at, ""))
}

/// `{{x}}` without quotes opens two mappings.
fn unquoted_tokens(text: &str) -> Vec<Raw> {
    let mut raws = Vec::new();
    for line in lines(text) {
        let Some(open) = line.text.find("{{") else { continue };
        let before = &line.text[..open];
        let is_value = [": ", "- ", ":", "["].iter().any(|end| before.ends_with(end)) || before.trim().is_empty();
        let is_quoted = before.matches('"').count() % 2 == 1 || before.matches('\'').count() % 2 == 1;
        let Some(close) = line.text[open..].find("}}").map(|at| open + at + 2).filter(|_| is_value && !is_quoted)
        else {
            continue;
        };
        let rest = line.text[close..].trim_end();
        let has_only_token = rest.is_empty() || rest.trim_start().starts_with([',', '}', ']', '#']);
        let end = if has_only_token { close } else { line.text.trim_end().len() };
        let value = &line.text[open..end];
        let raw = Raw::new(
            "G-12",
            Severity::Error,
            line.at + open,
            format!("`{value}` without quotes is a mapping, not a template"),
        );
        raws.push(raw.suggest(format!("\"{value}\"")).fix(line.at + open..line.at + end, format!("\"{value}\"")));
    }
    raws
}

/// Comments, commas before a closing bracket and Python's words are no JSON.
fn json_leftovers(text: &str) -> Vec<Raw> {
    let bytes = text.as_bytes();
    let (mut raws, mut at) = (Vec::new(), 0);
    let mut comma: Option<usize> = None;
    while at < bytes.len() {
        let rest = &text[at..];
        match bytes[at] {
            b'"' => {
                at = string_end(bytes, at);
                comma = None;
            }
            b'/' if rest.starts_with("//") || rest.starts_with("/*") => {
                let length = match rest.starts_with("//") {
                    true => rest.find('\n').unwrap_or(rest.len()),
                    false => rest.find("*/").map_or(rest.len(), |end| end + 2),
                };
                raws.push(Raw::new("G-05", Severity::Warning, at, "JSON has no comments").fix(at..at + length, ""));
                at += length;
            }
            b',' => {
                comma = Some(at);
                at += 1;
            }
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    raws.push(
                        Raw::new("G-05", Severity::Warning, comma, "JSON has no comma before a closing bracket")
                            .fix(comma..comma + 1, ""),
                    );
                }
                at += 1;
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            byte => {
                comma = None;
                at += if byte.is_ascii_alphabetic() { python_word(rest, at, &mut raws) } else { next_char(rest) };
            }
        }
    }
    raws
}

fn next_char(rest: &str) -> usize {
    rest.chars().next().map_or(1, char::len_utf8)
}

fn python_word(rest: &str, at: usize, raws: &mut Vec<Raw>) -> usize {
    let length = rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let words = [("True", "true"), ("False", "false"), ("None", "null")];
    if let Some((python, json)) = words.iter().find(|(python, _)| *python == &rest[..length]) {
        let message = format!("`{python}` is Python's spelling");
        raws.push(Raw::new("G-05", Severity::Error, at, message).suggest(*json).fix(at..at + length, *json));
    }
    length
}

/// Behind the closing quote.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' && bytes[at] != b'\n' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}
