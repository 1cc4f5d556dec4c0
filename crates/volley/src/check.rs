//! `volley check`: what is wrong with a queue's config, a manifest or an agent's settings, and where; `plan::check` decides.

use crate::output::{Output, Show, aligned};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;
use std::io::Read;
use std::process::ExitCode;
use volley_plan::check::{self, Facts, Finding, Severity, variants};

const EXAMPLES: &str = "\
Examples:
  volley check queue.yaml
  volley check --fix queue.yaml                mend what can be mended, in place
  pbpaste | volley check - --fix > queue.yaml  from standard input; the mended text is the output
  volley check queue.yaml --against queue.json do both say the same?
  volley check *.yaml -o json | jq '.[].findings[] | select(.severity == \"error\")'

The exit code is 1 if an error is found that --fix has not mended.";

/// Check a queue's config, a manifest or an agent's settings, offline
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Check {
    /// YAML or JSON; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Mend what is safe to mend
    #[arg(long)]
    fix: bool,
    /// Another variant of the same document, to be compared
    #[arg(long, value_name = "FILE")]
    against: Option<String>,
    #[command(flatten)]
    output: Output,
}

/// One file, checked.
#[derive(Serialize)]
struct Checked {
    file: String,
    findings: Vec<Finding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fixed: Option<String>,
    #[serde(skip)]
    text: String,
}

impl Check {
    pub fn run(self) -> Result<ExitCode> {
        ensure!(
            !(self.fix && self.files.len() > 1 && self.files.iter().any(|file| file == "-")),
            "standard input is mended onto standard output, so it must be the only file"
        );
        let mut all = Vec::new();
        for file in &self.files {
            all.push(self.check(file)?);
        }
        let is_filter = self.fix && self.files == ["-"];
        if is_filter {
            eprint!("{}", all.table(false));
            crate::output::print(all[0].fixed.as_ref().unwrap_or(&all[0].text))?;
        } else {
            self.output.print(&all)?;
        }
        let has_errors = all.iter().any(|checked| checked.has_errors(self.fix));
        Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    fn check(&self, file: &str) -> Result<Checked> {
        let text = read(file)?;
        let mut report = check::check(&text, &Facts::default());
        if let Some(other) = &self.against {
            // Damage hides the contents, so the mended texts are compared.
            let other = read(other)?;
            let mended = |text: &str| check::check(text, &Facts::default()).fixed.unwrap_or_else(|| text.to_owned());
            report.findings.extend(variants::differences(&mended(&text), &mended(&other)));
        }
        if let (true, Some(fixed), false) = (self.fix, &report.fixed, file == "-") {
            std::fs::write(file, fixed).with_context(|| format!("failed to write `{file}`"))?;
        }
        Ok(Checked { file: file.to_owned(), findings: report.findings, fixed: report.fixed, text })
    }
}

/// Tells in short what is found in a text that is used all the same.
pub fn warn(file: &str, text: &str) {
    let found = check::check(text, &Facts::default()).findings;
    let all: Vec<&Finding> = found.iter().filter(|finding| finding.severity != Severity::Note).collect();
    all.iter().for_each(|finding| eprintln!("{}", headline(file, finding)));
    if !all.is_empty() {
        eprintln!("hint: `volley check {file}` shows where and what to do, with --fix it mends what is safe");
    }
}

fn read(file: &str) -> Result<String> {
    if file != "-" {
        return std::fs::read_to_string(file).with_context(|| format!("failed to read `{file}`"));
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).context("failed to read standard input")?;
    Ok(text)
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

fn headline(file: &str, Finding { code, line, column, message, severity, .. }: &Finding) -> String {
    format!("{file}:{line}:{column}: {}[{code}]: {message}", word(*severity))
}

impl Checked {
    /// What is mended is looked at again: mending one thing may have put others right, too.
    fn has_errors(&self, is_mended: bool) -> bool {
        let is_error = |finding: &Finding| finding.severity == Severity::Error;
        match (&self.fixed, is_mended) {
            (Some(fixed), true) => check::check(fixed, &Facts::default()).findings.iter().any(is_error),
            (_, _) => self.findings.iter().any(is_error),
        }
    }

    /// The finding, its line with a mark below the place, and what to do.
    fn told(&self, finding: &Finding) -> String {
        let Finding { line, column, .. } = finding;
        let mut out = headline(&self.file, finding) + "\n";
        let shown = self.text.split('\n').nth(line - 1).unwrap_or_default().trim_end();
        if !shown.is_empty() {
            let number = line.to_string();
            let pad: String = shown.chars().take(column - 1).map(blank).collect();
            out += &format!("  {number} | {shown}\n  {:1$} | {pad}^\n", "", number.len());
        }
        match (&finding.suggestion, finding.autofix) {
            (Some(suggestion), true) => out += &format!("  fix: {suggestion} (--fix does it)\n"),
            (Some(suggestion), false) => out += &format!("  hint: {suggestion}\n"),
            (None, true) => out += "  fix: --fix does it\n",
            (None, false) => (),
        }
        out
    }
}

/// As wide as the letter that stands above it: tabs stay, and letters of East Asia take two columns.
fn blank(letter: char) -> &'static str {
    match letter {
        '\t' => "\t",
        '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}' | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' => "  ",
        '\u{fe30}'..='\u{fe6f}' | '\u{ff00}'..='\u{ff60}' | '\u{1f300}'..='\u{1faff}' => "  ",
        _ => " ",
    }
}

impl Show for Vec<Checked> {
    fn rows(&self, _: bool) -> Vec<Vec<String>> {
        let head = ["FILE", "LINE", "COLUMN", "SEVERITY", "CODE", "MESSAGE"].map(str::to_owned).to_vec();
        let row = |checked: &Checked, finding: &Finding| {
            let Finding { line, column, code, message, .. } = finding;
            let severity = word(finding.severity).to_owned();
            vec![
                checked.file.clone(),
                line.to_string(),
                column.to_string(),
                severity,
                (*code).to_owned(),
                message.clone(),
            ]
        };
        let rows = self.iter().flat_map(|checked| checked.findings.iter().map(move |finding| row(checked, finding)));
        std::iter::once(head).chain(rows).collect()
    }

    fn names(&self) -> Vec<String> {
        self.iter().flat_map(|checked| &checked.findings).map(|finding| finding.code.to_owned()).collect()
    }

    fn table(&self, wide: bool) -> String {
        if wide {
            return aligned(&self.rows(wide));
        }
        self.iter().flat_map(|checked| checked.findings.iter().map(|finding| checked.told(finding))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_mended_along_with_something_else_is_no_error() {
        // Without its indentation a document has keys twice, which is told, and is over once it is mended.
        let text = "spec:\ntemplate:\nspec:\ncontainers:\n- name: a\nimage: b\n".to_owned();
        let report = check::check(&text, &Facts::default());
        assert!(report.findings.iter().any(|finding| finding.severity == Severity::Error && !finding.autofix));
        let checked = Checked { file: "q.yaml".into(), findings: report.findings, fixed: report.fixed, text };
        assert!(checked.has_errors(false) && !checked.has_errors(true));
    }

    #[test]
    fn a_finding_is_shown_with_its_line_and_a_mark() {
        let text = "이름: {{x}}\n".to_owned();
        let findings = check::check(&text, &Facts::default()).findings;
        let checked = Checked { file: "q.yaml".into(), findings, fixed: None, text };
        let told = vec![checked].table(false);
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[0].starts_with("q.yaml:1:5: error[G-12]: "), "{told}");
        assert_eq!(lines[1], "  1 | 이름: {{x}}");
        assert_eq!(lines[2], "    |       ^");
        assert_eq!(lines[3], "  fix: \"{{x}}\" (--fix does it)");
    }
}
