//! Taste as a test: what a reviewer would otherwise have to say again. Run by `cargo test -p xtask` and `xtask tidy`.
//!
//! `source` reads the tree, each other module holds one family of rules; a finding names the file, the line and the rule.

pub mod source;
mod shape;
mod rooms;
mod conformance;
mod paths;

use anyhow::{Result, ensure};
use source::Tree;
use std::fmt;
use std::path::PathBuf;

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    pub file: PathBuf,
    /// Counted from 1.
    pub line: usize,
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file.display(), self.line, self.text)
    }
}

/// A family of rules.
type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: &[(&str, Rule)] = &[
    ("files are short", shape::file_length),
    ("functions are short", shape::function_length),
    ("files say what they are for", shape::module_docs),
    ("modules are named for what they are", shape::names),
    ("nothing is left behind", shape::left_behind),
    ("rooms depend downwards only", rooms::dependencies),
    ("decisions are pure", rooms::purity),
    ("every rule is named above a test, and every named rule exists", conformance::rules_are_tested),
    ("ARCHITECTURE.md is short and its paths exist", paths::architecture),
];

/// Checks every rule, prints all findings, and fails if there are any.
pub fn check() -> Result<()> {
    let tree = Tree::read(&crate::workspace_root())?;
    let mut count = 0;
    for (name, rule) in RULES {
        for finding in rule(&tree) {
            eprintln!("{finding} [{name}]");
            count += 1;
        }
    }
    ensure!(count == 0, "{count} findings");
    crate::rules::check()?;
    crate::gen_types::check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(name: &str) {
        let (_, rule) = RULES.iter().find(|(known, _)| *known == name).expect("the rule is in the table");
        let findings = rule(&Tree::read(&crate::workspace_root()).unwrap());
        let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(text.is_empty(), "{name}:\n{}", text.join("\n"));
    }

    #[test]
    fn files_are_short() {
        passes("files are short");
    }

    #[test]
    fn functions_are_short() {
        passes("functions are short");
    }

    #[test]
    fn files_say_what_they_are_for() {
        passes("files say what they are for");
    }

    #[test]
    fn modules_are_named_for_what_they_are() {
        passes("modules are named for what they are");
    }

    #[test]
    fn nothing_is_left_behind() {
        passes("nothing is left behind");
    }

    #[test]
    fn rooms_depend_downwards_only() {
        passes("rooms depend downwards only");
    }

    #[test]
    fn decisions_are_pure() {
        passes("decisions are pure");
    }

    #[test]
    fn every_rule_is_named_above_a_test_and_every_named_rule_exists() {
        passes("every rule is named above a test, and every named rule exists");
    }

    #[test]
    fn architecture_is_short_and_its_paths_exist() {
        passes("ARCHITECTURE.md is short and its paths exist");
    }
}
