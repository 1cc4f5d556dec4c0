//! Rules about one file at a time: how long, how named, how introduced, and what must not stay in it.

use super::Finding;
use super::source::{RustFile, Tree};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;

/// Names that say nothing: whatever is in such a module belongs to some noun.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc", "shared", "base"];

/// Code that was meant to go, and what to do instead.
const LEFT_BEHIND: &[(&str, &str)] = &[
    ("todo!", "finish it, or leave it out"),
    ("unimplemented!", "finish it, or leave it out"),
    ("dbg!", "remove it"),
    ("#[ignore", "a test that does not run tests nothing: mend or remove it"),
];

pub fn file_length(tree: &Tree) -> Vec<Finding> {
    let too_long = |file: &RustFile| {
        let lines = file.is_test.iter().filter(|is_test| !**is_test).count();
        let text = format!("{lines} lines without tests, {FILE_LINES_MAX} at most: find the two things in it");
        (lines > FILE_LINES_MAX).then(|| file.finding(0, text))
    };
    tree.rust.iter().filter_map(too_long).collect()
}

pub fn function_length(tree: &Tree) -> Vec<Finding> {
    tree.rust.iter().flat_map(long_functions).collect()
}

fn long_functions(file: &RustFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.code.iter().enumerate() {
        let Some(name) = function_name(line).filter(|_| !file.is_test[index]) else { continue };
        let Some(end) = file.block_end(index) else { continue };
        let lines = end - index + 1;
        if lines > FUNCTION_LINES_MAX {
            let text = format!("`{name}` has {lines} lines, {FUNCTION_LINES_MAX} at most: name its steps");
            findings.push(file.finding(index, text));
        }
    }
    findings
}

/// The name of the function that is declared in this line of code.
fn function_name(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "fn")?;
    let name = words.get(at + 1)?;
    name.split(['(', '<']).next().filter(|name| !name.is_empty())
}

pub fn module_docs(tree: &Tree) -> Vec<Finding> {
    let missing = |file: &RustFile| {
        let is_introduced = file.lines.first().is_some_and(|line| line.starts_with("//!"));
        (!is_introduced).then(|| file.finding(0, "starts without `//!`: say what it is for and who calls it"))
    };
    tree.rust.iter().filter_map(missing).collect()
}

pub fn names(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.rust {
        let path = file.path.with_extension("");
        let empty = path.components().find(|part| EMPTY_NAMES.iter().any(|name| part.as_os_str() == *name));
        if let Some(part) = empty {
            let name = part.as_os_str().display();
            findings.push(file.finding(0, format!("`{name}` says nothing: find the noun that this belongs to")));
        }
    }
    findings
}

pub fn left_behind(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.rust {
        for (index, line) in file.code.iter().enumerate() {
            for (word, advice) in LEFT_BEHIND.iter().filter(|(word, _)| line.contains(word)) {
                findings.push(file.finding(index, format!("`{word}`: {advice}")));
            }
        }
        for (index, comment) in file.comments.iter().enumerate() {
            let is_open = ["TODO", "FIXME", "XXX"].iter().any(|word| comment.contains(word));
            if is_open && !comment.contains('#') {
                findings.push(file.finding(index, "an open end without the number of its issue"));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        Tree { root: "/".into(), rust: vec![RustFile::new(path.into(), text)], scripts: Vec::new() }
    }

    #[test]
    fn a_tidy_file_is_not_mentioned() {
        let tree = tree("crates/a/src/b.rs", "//! What it is.\n\nfn a() -> Vec<u8> {\n    Vec::new()\n}\n");
        let rules = [file_length, function_length, module_docs, names, left_behind];
        assert!(rules.iter().all(|rule| rule(&tree).is_empty()));
    }

    #[test]
    fn long_functions_are_found_by_name_and_line() {
        let body = "    call(\"}\");\n".repeat(FUNCTION_LINES_MAX);
        let text =
            format!("//! x\ntrait T {{\n    fn short(&self) -> [u8; 4];\n}}\npub fn long<T>(a: T) {{\n{body}}}\n");
        let findings = function_length(&tree("a.rs", &text));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].to_string(), "a.rs:5: `long` has 72 lines, 70 at most: name its steps");
    }

    #[test]
    fn tests_do_not_count_as_length() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "// line\n".repeat(FILE_LINES_MAX));
        assert!(file_length(&tree("a.rs", &format!("//! x\n{tests}"))).is_empty());
        assert_eq!(file_length(&tree("a.rs", &"// line\n".repeat(FILE_LINES_MAX + 1))).len(), 1);
    }

    #[test]
    fn what_was_meant_to_go_is_found_in_code_and_open_ends_in_comments() {
        let text = "fn a() { todo!() }\nlet a = \"todo!\"; // TODO later\n#[ignore]\n// TODO(#12) with its issue\n";
        let lines: Vec<usize> = left_behind(&tree("a.rs", text)).iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 3, 2]);
    }

    #[test]
    fn empty_names_and_missing_introductions_are_found() {
        assert_eq!(names(&tree("crates/a/src/utils/b.rs", "")).len(), 1);
        assert_eq!(names(&tree("crates/a/src/helpers.rs", "")).len(), 1);
        assert_eq!(module_docs(&tree("a.rs", "use x;\n")).len(), 1);
    }
}
