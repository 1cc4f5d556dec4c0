//! A launch agent's settings, as the agent itself reads them: what it refuses is an error, what it only tells a warning.

use super::tree::Node;
use super::{Raw, Severity};
use crate::agent::config;

/// Adds what the agent says to what is known of the keys, which may be where they belong or how they are spelt.
pub fn judge(text: &str, root: &Node, raws: &mut Vec<Raw>) {
    let config::Judged { problems, warnings } = config::judge(text, root);
    let told = problems.into_iter().map(|problem| (Severity::Error, problem));
    let told: Vec<_> = told.chain(warnings.into_iter().map(|problem| (Severity::Warning, problem))).collect();
    // Which keys are unknown is for the agent to say.
    raws.retain(|raw| raw.code != "G-10" || told.iter().any(|(_, problem)| problem.path == raw.path));
    for (severity, problem) in told {
        let message = format!("`{}` {}", problem.path, problem.message);
        match raws.iter_mut().find(|raw| raw.at == problem.at && raw.path == problem.path) {
            Some(raw) => {
                raw.severity = severity;
                if raw.code == "G-10" {
                    raw.message = message;
                }
            }
            None if is_repeated(root, problem.at) => (),
            None => raws.push(Raw::new("A-7", severity, problem.at, message).path(&problem.path)),
        }
    }
}

/// A key that stands twice is told already, as in any document.
fn is_repeated(root: &Node, at: usize) -> bool {
    let here = root.entries().iter().find(|entry| entry.key_span.start == at);
    let first = here.and_then(|here| root.entry(&here.key));
    first.is_some_and(|first| first.key_span.start != at)
}
