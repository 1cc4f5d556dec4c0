//! ARCHITECTURE.md stays short, and every path that it names exists.

use super::Finding;
use super::source::Tree;
use std::fs;
use std::path::Path;

const PAGE: &str = "ARCHITECTURE.md";
const LINES_MAX: usize = 300;

pub fn architecture(tree: &Tree) -> Vec<Finding> {
    let finding = |line: usize, text: String| Finding { file: PAGE.into(), line, text };
    let Ok(page) = fs::read_to_string(tree.root.join(PAGE)) else {
        return vec![finding(1, "the page is missing".to_owned())];
    };
    let mut findings = Vec::new();
    let lines = page.lines().count();
    if lines > LINES_MAX {
        findings.push(finding(LINES_MAX, format!("{lines} lines, {LINES_MAX} at most")));
    }
    for (index, line) in page.lines().enumerate() {
        let missing = paths(line, &tree.root).into_iter().filter(|path| !tree.root.join(path).exists());
        findings.extend(missing.map(|path| finding(index + 1, format!("`{path}` does not exist"))));
    }
    findings
}

/// Words in backquotes that name a file or folder of this repository: they start with one that is at its top.
fn paths<'a>(line: &'a str, root: &Path) -> Vec<&'a str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let is_plain = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter));
    let is_ours = |word: &str| word.split_once('/').is_some_and(|(top, _)| !top.is_empty() && root.join(top).is_dir());
    quoted.filter(|word| is_plain(word) && (is_ours(word) || word.ends_with(".md"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_told_from_other_words() {
        let root = crate::workspace_root();
        let line = "`crates/plan/src` and `apps/v1` and `kubectl get` and `xtask/nothing.rs` and `LOST.md`";
        assert_eq!(paths(line, &root), ["crates/plan/src", "xtask/nothing.rs", "LOST.md"]);
    }
}
