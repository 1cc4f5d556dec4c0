//! What the user sees when something failed: one line, its causes, and what to do next.
//!
//! An error's text may end in lines `hint: …`. They are taken out of the chain and printed last, so that an error found
//! deep down can say what to do. A `Report` crosses from the background process to the one that the user waits for.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, ErrorKind, IsTerminal};
use std::process::ExitCode;

const HINT: &str = "hint: ";

/// A failure in plain text, outermost cause first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    causes: Vec<String>,
    hints: Vec<String>,
}

impl From<&anyhow::Error> for Report {
    fn from(error: &anyhow::Error) -> Report {
        if let Some(report) = error.downcast_ref::<Report>() {
            return report.clone();
        }
        let mut report = Report { causes: Vec::new(), hints: Vec::new() };
        for cause in error.chain() {
            let text = cause.to_string();
            let (hints, lines): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with(HINT));
            let cause = lines.join("\n");
            // An error that only passes its cause on would be told twice.
            if report.causes.last() != Some(&cause) {
                report.causes.push(cause);
            }
            report.hints.extend(hints.iter().map(|hint| hint[HINT.len()..].to_owned()));
        }
        report.hints.dedup();
        report
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.causes.join(": "))
    }
}

impl std::error::Error for Report {}

impl Report {
    fn text(&self, is_coloured: bool) -> String {
        let label = |word: &str, colour: &str| match is_coloured {
            true => format!("\x1b[1;{colour}m{word}\x1b[0m"),
            false => word.to_owned(),
        };
        let mut lines = Vec::new();
        for (depth, cause) in self.causes.iter().enumerate() {
            lines.push(match depth {
                0 => format!("{} {cause}", label("error:", "31")),
                _ => format!("  caused by: {cause}"),
            });
        }
        lines.extend(self.hints.iter().map(|hint| format!("{} {hint}", label("hint:", "36"))));
        lines.join("\n")
    }
}

/// Prints the failure; the exit code is 1, or 0 when only the reader of our output went away.
pub fn tell(error: anyhow::Error) -> ExitCode {
    let reader_left = error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe);
    if reader_left {
        return ExitCode::SUCCESS;
    }
    let is_coloured = colour_wanted(io::stderr().is_terminal());
    eprintln!("{}", Report::from(&error).text(is_coloured));
    ExitCode::FAILURE
}

/// Colour is for terminals, and only if the user has not declined it (<https://no-color.org>).
pub fn colour_wanted(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn hints_of_all_causes_come_last() {
        let error = anyhow!("`x` is in use\nhint: stop it").context("failed to open the store");
        assert_eq!(
            Report::from(&error).text(false),
            "error: failed to open the store\n  caused by: `x` is in use\nhint: stop it"
        );
    }

    #[test]
    fn a_cause_that_only_passes_another_on_is_told_once() {
        let error = Err::<(), _>(anyhow!("no")).context("no").unwrap_err();
        assert_eq!(Report::from(&error).text(false), "error: no");
    }

    #[test]
    fn a_report_from_another_process_stays_as_it_is() {
        let report = Report { causes: vec!["a".into(), "b".into()], hints: vec!["c".into()] };
        assert_eq!(Report::from(&anyhow::Error::new(report.clone())), report);
    }

    #[test]
    fn colour_marks_only_the_labels() {
        let report = Report { causes: vec!["a".into()], hints: vec!["c".into()] };
        assert_eq!(report.text(true), "\u{1b}[1;31merror:\u{1b}[0m a\n\u{1b}[1;36mhint:\u{1b}[0m c");
    }
}
