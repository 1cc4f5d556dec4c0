//! Every tier 1 rule of the Kubernetes API is named in a comment above a test that checks it.
//!
//! The ids are in `tests/t1-rules.txt`. A Rust test names its rules right above itself; scripts below `tests` name them
//! in any comment.

use super::Finding;
use super::source::{RustFile, Tree};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

const LIST: &str = "tests/t1-rules.txt";

pub fn rules_are_tested(tree: &Tree) -> Vec<Finding> {
    let list = fs::read_to_string(tree.root.join(LIST)).unwrap_or_default();
    if list.is_empty() {
        return vec![Finding { file: LIST.into(), line: 1, text: "the list of rules is missing".to_owned() }];
    }
    let named = named(tree);
    let untested = list.lines().enumerate().filter(|(_, line)| line.starts_with("K-") && !named.contains(*line));
    untested
        .map(|(index, rule)| Finding {
            file: PathBuf::from(LIST),
            line: index + 1,
            text: format!("no test names {rule} in a comment above it"),
        })
        .collect()
}

fn named(tree: &Tree) -> BTreeSet<String> {
    let in_tests = tree.rust.iter().flat_map(named_above_tests);
    let in_scripts = tree.scripts.iter().flat_map(|(_, text)| {
        text.lines().filter(|line| line.trim_start().starts_with('#')).flat_map(ids).collect::<Vec<_>>()
    });
    in_tests.chain(in_scripts).collect()
}

fn named_above_tests(file: &RustFile) -> Vec<String> {
    let is_attribute = |index: usize| file.code[index].trim_start().starts_with("#[");
    let is_comment = |index: usize| file.lines[index].trim_start().starts_with("//");
    let mut found = Vec::new();
    for index in (0..file.code.len()).filter(|index| is_test_attribute(&file.code[*index])) {
        let above = (0..index).rev().take_while(|line| is_comment(*line) || is_attribute(*line));
        let below = (index + 1..file.code.len()).take_while(|line| is_comment(*line) || is_attribute(*line));
        found.extend(above.chain(below).flat_map(|line| ids(&file.comments[line])));
    }
    found
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(…)]`.
fn is_test_attribute(line: &str) -> bool {
    let line = line.trim_start();
    let name = line.strip_prefix("#[").and_then(|rest| rest.split([']', '(']).next()).unwrap_or_default();
    name == "test" || name.ends_with("::test")
}

/// The ids in a text: `K-`, capitals, digits and dashes, ending in a number.
fn ids(text: &str) -> Vec<String> {
    let is_part = |letter: &char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || *letter == '-';
    let starts = text.match_indices("K-").map(|(at, _)| at);
    starts
        .map(|at| text[at..].chars().take_while(is_part).collect::<String>())
        .filter(|id| id.chars().next_back().is_some_and(|last| last.is_ascii_digit()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        named_above_tests(&RustFile::new("a.rs".into(), text))
    }

    #[test]
    fn rules_count_only_right_above_a_test() {
        assert_eq!(found("// K-WR-3, K-POD-DEL-2\n#[test]\nfn a() {}\n"), ["K-WR-3", "K-POD-DEL-2"]);
        assert_eq!(found("#[tokio::test(flavor = \"x\")]\n// K-WR-3\nasync fn a() {}\n"), ["K-WR-3"]);
        assert!(found("// K-WR-3\nfn a() {}\n").is_empty());
        assert!(found("// K-WR-3\nlet x = 1;\n#[test]\nfn a() {}\n").is_empty());
        assert!(found("#[cfg(test)]\n// K-WR-3\nmod tests;\n").is_empty());
    }

    #[test]
    fn a_family_is_not_a_rule() {
        assert!(ids("K-SMP and K-WR-").is_empty());
    }
}
