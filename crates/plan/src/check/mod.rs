//! The checker of documents: a text in, everything that is wrong with it out, each at its line and column, with a fixed
//! text where that is safe. Used by `volley check`, the server and the page.
//!
//! Damage to the text is mended first (`repair`, `indent`), so that what is said of its contents (`fields`, `meaning`)
//! can be said too; places are always those of the text as it was given.

pub mod source;
pub mod tree;
mod repair;
mod indent;
pub mod schema;
mod queue;
mod settings;
mod fields;
mod moves;
mod meaning;
mod pods;
pub mod words;
pub mod variants;

pub use queue::KEYS as QUEUE_KEYS;
use serde::Serialize;
use source::{Edit, Edits, Lines};
use std::collections::BTreeMap;
use std::ops::Range;

/// A text that is longer is not one that somebody wrote by hand.
pub const TEXT_MAX: usize = 1 << 20;
/// One fix may uncover the next; more rounds than this mean that two of them quarrel.
const ROUNDS_MAX: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Note,
    Warning,
    Error,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: &'static str,
    pub severity: Severity,
    /// Counted from 1, in characters.
    pub line: usize,
    pub column: usize,
    /// Where it is in the document's structure, if it got that far.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What was found and why it matters.
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// `--fix` mends it.
    pub autofix: bool,
    /// What mends this alone, in the text as it was given; nothing where that depends on other fixes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<Change>,
}

/// A part of the text, by lines and columns as findings count them, and what it becomes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    pub from: (usize, usize),
    pub to: (usize, usize),
    pub text: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    pub findings: Vec<Finding>,
    /// The text with all safe fixes done, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fixed: Option<String>,
}

impl Report {
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }
}

/// What is known beyond the text; without it, nothing is said about it.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Types of the queue's template variables, by name: `string`, `integer`, `number`, `boolean`.
    pub variables: BTreeMap<String, String>,
    /// The kinds that the cluster serves, as `group/version/Kind`.
    pub kinds: Option<Vec<String>>,
    /// The kinds that the agent may create, as `group/Kind`.
    pub allowed: Option<Vec<String>>,
    /// Claims of the cluster, by namespace and name.
    pub claims: Option<Vec<(String, String)>>,
}

/// Something found in a text that may have been mended already.
#[derive(Debug, Clone)]
struct Raw {
    code: &'static str,
    severity: Severity,
    at: usize,
    path: String,
    message: String,
    suggestion: Option<String>,
    fix: Vec<Edit>,
    /// The fix is one of another text than the one that was given.
    is_elsewhere: bool,
}

impl Raw {
    fn new(code: &'static str, severity: Severity, at: usize, message: impl Into<String>) -> Raw {
        Raw {
            code,
            severity,
            at,
            path: String::new(),
            message: message.into(),
            suggestion: None,
            fix: Vec::new(),
            is_elsewhere: false,
        }
    }

    fn path(mut self, path: &str) -> Raw {
        path.clone_into(&mut self.path);
        self
    }

    fn suggest(mut self, suggestion: impl Into<String>) -> Raw {
        self.suggestion = Some(suggestion.into());
        self
    }

    fn fix(mut self, range: Range<usize>, text: impl Into<String>) -> Raw {
        self.fix.push(Edit { range, text: text.into() });
        self
    }

    fn fixes(mut self, edits: Option<Vec<Edit>>) -> Raw {
        self.fix.extend(edits.into_iter().flatten());
        self
    }
}

pub fn check(text: &str, facts: &Facts) -> Report {
    if text.len() > TEXT_MAX {
        let message = format!("the text has {} bytes, {TEXT_MAX} at most are checked", text.len());
        return report(text, &[Raw::new("G-00", Severity::Error, 0, message)], None);
    }
    report(text, &look(text, facts), fix(text, facts))
}

/// All findings, each at its place in the text as it was given.
fn look(text: &str, facts: &Facts) -> Vec<Raw> {
    let (mut raws, edits) = repair::repair(text);
    let mended = edits.apply(text);
    let mut later = Vec::new();
    let documents = tree::parse(&mended);
    if documents.iter().all(|document| document.as_ref().is_ok_and(tree::Node::is_empty)) {
        later.push(Raw::new("G-00", Severity::Error, 0, "there is no document here, only blanks or comments"));
    }
    for document in documents {
        match document {
            // As behind a `---` at the end.
            Ok(root) if root.is_empty() => (),
            Ok(root) if is_flat(&raws) => {
                fields::repeated(&mended, &root, &mut later);
                meaning::placeholders(&root, "", &mut later);
            }
            Ok(root) => examine(&mended, &root, facts, &mut later),
            Err(problem) => later.push(Raw::new("G-00", Severity::Error, problem.at, problem.message)),
        }
    }
    for raw in &mut later {
        raw.at = edits.original(raw.at);
        raw.is_elsewhere = mended != text;
    }
    raws.append(&mut later);
    raws
}

fn examine(text: &str, root: &tree::Node, facts: &Facts, raws: &mut Vec<Raw>) {
    fields::check(text, root, facts, raws);
    meaning::check(text, root, facts, raws);
}

/// The indentation is lost and could not be rebuilt: where a key stands says nothing.
fn is_flat(damage: &[Raw]) -> bool {
    damage.iter().any(|raw| raw.code == "G-02" && raw.fix.is_empty())
}

/// Mends the text, then what can be mended of its contents, until nothing more can.
fn fix(text: &str, facts: &Facts) -> Option<String> {
    let mut current = text.to_owned();
    for _ in 0..ROUNDS_MAX {
        let (damage, edits) = repair::repair(&current);
        let mended = edits.apply(&current);
        let mut raws = Vec::new();
        for root in tree::parse(&mended).into_iter().flatten().filter(|_| !is_flat(&damage)) {
            examine(&mended, &root, facts, &mut raws);
        }
        // One fix a round that moves things about; those that only change a word do not disturb each other.
        let next = Edits::compatible(raws.into_iter().map(|raw| raw.fix)).apply(&mended);
        if next == current {
            break;
        }
        current = next;
    }
    (current != text).then_some(current)
}

fn report(text: &str, raws: &[Raw], fixed: Option<String>) -> Report {
    let lines = Lines::new(text);
    let change = |edit: &Edit| Change {
        from: lines.place(edit.range.start),
        to: lines.place(edit.range.end),
        text: edit.text.clone(),
    };
    let finding = |raw: &Raw| {
        let (line, column) = lines.place(raw.at);
        Finding {
            code: raw.code,
            severity: raw.severity,
            line,
            column,
            path: raw.path.clone(),
            message: raw.message.clone(),
            suggestion: raw.suggestion.clone(),
            autofix: !raw.fix.is_empty(),
            edits: if raw.is_elsewhere { Vec::new() } else { raw.fix.iter().map(change).collect() },
        }
    };
    let mut findings: Vec<Finding> = raws.iter().map(finding).collect();
    findings.sort_by(|a, b| (a.line, a.column, a.code).cmp(&(b.line, b.column, b.code)));
    findings.dedup();
    Report { findings, fixed }
}

#[cfg(test)]
mod tests;
