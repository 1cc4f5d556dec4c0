//! The tree as the rules see it: Rust files split into code and comments, and which lines are tests.

use super::Finding;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", "node_modules", "__pycache__"];
/// Folders that are read.
const ROOTS: &[&str] = &["crates", "xtask", "tests", "bench"];

pub struct Tree {
    pub root: PathBuf,
    pub rust: Vec<RustFile>,
    /// Scripts below `tests`, as they are.
    pub scripts: Vec<(PathBuf, String)>,
}

pub struct RustFile {
    /// From the root of the repository.
    pub path: PathBuf,
    pub lines: Vec<String>,
    /// The lines without comments and without what is inside strings.
    pub code: Vec<String>,
    /// The comments of each line.
    pub comments: Vec<String>,
    /// Whether each line belongs to tests.
    pub is_test: Vec<bool>,
}

impl Tree {
    pub fn read(root: &Path) -> Result<Tree> {
        let mut paths = Vec::new();
        for folder in ROOTS.iter().map(|name| root.join(name)).filter(|folder| folder.is_dir()) {
            collect(&folder, &mut paths)?;
        }
        paths.sort();
        let mut tree = Tree { root: root.to_owned(), rust: Vec::new(), scripts: Vec::new() };
        for path in paths {
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("rs") => tree.rust.push(RustFile::new(name, &read(&path)?)),
                Some("sh" | "py") => tree.scripts.push((name, read(&path)?)),
                _ => {}
            }
        }
        tree.mark_test_files();
        Ok(tree)
    }

    /// Files that are declared under `#[cfg(test)]`, or stand in a folder of integration tests, are tests as a whole.
    fn mark_test_files(&mut self) {
        let declared: Vec<PathBuf> = self.rust.iter().flat_map(RustFile::test_modules).collect();
        for file in &mut self.rust {
            let is_integration = file.path.components().any(|part| part.as_os_str() == "tests");
            let module = file.path.with_extension("");
            if is_integration || declared.iter().any(|declared| module.starts_with(declared)) {
                file.is_test.fill(true);
            }
        }
    }
}

fn collect(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("failed to list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') || SKIPPED.contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            collect(&path, paths)?;
        } else {
            paths.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

impl RustFile {
    pub fn new(path: PathBuf, text: &str) -> RustFile {
        let (code, comments) = split(text);
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let mut file = RustFile {
            path,
            lines: lines(text),
            code: lines(&code),
            comments: lines(&comments),
            is_test: vec![false; text.lines().count()],
        };
        file.mark_test_modules();
        file
    }

    /// A finding of this file; `index` counts from 0.
    pub fn finding(&self, index: usize, text: impl Into<String>) -> Finding {
        Finding { file: self.path.clone(), line: index + 1, text: text.into() }
    }

    /// The line of the bracket that closes the first one opened at or after line `start`, if one is opened
    /// before a `;`.
    pub fn block_end(&self, start: usize) -> Option<usize> {
        let (mut depth, mut round) = (0_usize, 0_usize);
        for (offset, line) in self.code[start..].iter().enumerate() {
            for letter in line.chars() {
                match letter {
                    '(' | '[' => round += 1,
                    ')' | ']' => round = round.saturating_sub(1),
                    ';' if depth == 0 && round == 0 => return None,
                    '{' => depth += 1,
                    '}' if depth <= 1 => return Some(start + offset),
                    '}' => depth -= 1,
                    _ => {}
                }
            }
        }
        None
    }

    /// Lines that carry `#[cfg(test)]`, each with the line of the `mod` below it.
    fn test_mods(&self) -> Vec<(usize, usize)> {
        let is_marked = |line: &String| line.trim_start().starts_with("#[cfg(test)]");
        let marked = self.code.iter().enumerate().filter(|(_, line)| is_marked(line)).map(|(index, _)| index);
        let below = |index: usize| {
            let follows = self.code[index + 1..].iter().position(|line| !line.trim_start().starts_with("#["))?;
            let found = index + 1 + follows;
            let words: Vec<&str> = self.code[found].split_whitespace().collect();
            words.contains(&"mod").then_some((index, found))
        };
        marked.filter_map(below).collect()
    }

    fn mark_test_modules(&mut self) {
        for (from, module) in self.test_mods() {
            if let Some(to) = self.block_end(module) {
                self.is_test[from..=to].fill(true);
            }
        }
    }

    /// The modules of `#[cfg(test)] mod name;`, as paths without `.rs`: a file of that name and all files below it.
    fn test_modules(&self) -> Vec<PathBuf> {
        let stem = self.path.file_stem().unwrap_or_default();
        let is_folder_root = ["mod", "lib", "main"].iter().any(|name| stem == *name);
        let folder = if is_folder_root { self.path.with_file_name("") } else { self.path.with_extension("") };
        let names = self.test_mods().into_iter().filter_map(|(_, line)| {
            let name = self.code[line].trim().strip_suffix(';')?.split_whitespace().last()?;
            Some(name.to_owned())
        });
        names.map(|name| folder.join(name)).collect()
    }
}

/// What the splitter is inside of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    LineComment,
    BlockComment(usize),
    Text,
    /// A raw string that ends in a quote and this many `#`.
    RawText(usize),
}

/// The text twice, each time with the other's letters as blanks: code without the inside of strings, and comments.
fn split(text: &str) -> (String, String) {
    let letters: Vec<char> = text.chars().collect();
    let (mut code, mut comments) = (String::with_capacity(text.len()), String::with_capacity(text.len()));
    let (mut inside, mut at) = (Inside::Code, 0);
    while at < letters.len() {
        let (next, taken) = step(inside, &letters[at..]);
        let was_comment = matches!(inside, Inside::LineComment | Inside::BlockComment(_));
        let is_comment = was_comment || matches!(next, Inside::LineComment | Inside::BlockComment(_));
        let is_code = inside == Inside::Code && next == Inside::Code && taken == 1;
        for letter in &letters[at..at + taken] {
            let put = |wanted: bool| if wanted || *letter == '\n' { *letter } else { ' ' };
            code.push(put(is_code));
            comments.push(put(is_comment));
        }
        (inside, at) = (next, at + taken);
    }
    (code, comments)
}

/// Where the next letters lead, and how many of them belong together.
fn step(inside: Inside, rest: &[char]) -> (Inside, usize) {
    let starts = |text: &str| rest.len() >= text.len() && text.chars().zip(rest).all(|(a, b)| a == *b);
    match inside {
        Inside::LineComment if rest[0] == '\n' => (Inside::Code, 1),
        Inside::BlockComment(depth) if starts("/*") => (Inside::BlockComment(depth + 1), 2),
        Inside::BlockComment(0) if starts("*/") => (Inside::Code, 2),
        Inside::BlockComment(depth) if starts("*/") => (Inside::BlockComment(depth - 1), 2),
        Inside::Text if rest[0] == '\\' => (Inside::Text, rest.len().min(2)),
        Inside::Text if rest[0] == '"' => (Inside::Code, 1),
        Inside::RawText(marks) if starts(&format!("\"{}", "#".repeat(marks))) => (Inside::Code, marks + 1),
        Inside::Code => step_in_code(rest, starts),
        Inside::LineComment | Inside::BlockComment(_) | Inside::Text | Inside::RawText(_) => (inside, 1),
    }
}

fn step_in_code(rest: &[char], starts: impl Fn(&str) -> bool) -> (Inside, usize) {
    if starts("//") {
        return (Inside::LineComment, 2);
    }
    if starts("/*") {
        return (Inside::BlockComment(0), 2);
    }
    match rest[0] {
        '"' => (Inside::Text, 1),
        'r' if starts("r\"") || starts("r#") => {
            let marks = rest[1..].iter().take_while(|letter| **letter == '#').count();
            // Otherwise it is a raw name such as `r#type`.
            let is_text = rest.get(1 + marks) == Some(&'"');
            if is_text { (Inside::RawText(marks), marks + 2) } else { (Inside::Code, 1) }
        }
        '\'' => (Inside::Code, letter_length(rest)),
        _ => (Inside::Code, 1),
    }
}

/// The length of a character literal, or 1 for the quote of a lifetime.
fn letter_length(rest: &[char]) -> usize {
    let closing = |from: usize| rest[from..].iter().take(12).position(|letter| *letter == '\'').map(|at| from + at + 1);
    match rest.get(1) {
        Some('\\') => closing(3).unwrap_or(1),
        Some(_) if rest.get(2) == Some(&'\'') => 3,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        split(text).0
    }

    #[test]
    fn strings_and_comments_are_not_code() {
        assert_eq!(code(r#"a("}") // {"#).trim_end(), r#"a(   )"#.trim_end());
        assert_eq!(code("a /* { /* x */ } */ b").split_whitespace().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(code("x(r#\"a\"{\"#, b)").replace(' ', ""), "x(,b)");
        assert_eq!(code("x('{', '\\'', '\\u{7b}', &'a b)").replace(' ', ""), "x(,,,&'ab)");
    }

    #[test]
    fn comments_are_kept_with_their_lines() {
        let (_, comments) = split("a // one\n\"// no\"\n/* two */ b\n");
        let lines: Vec<&str> = comments.lines().map(str::trim).collect();
        assert_eq!(lines, ["// one", "", "/* two */"]);
    }

    #[test]
    fn tests_at_the_end_of_a_file_are_known() {
        let file = RustFile::new("a/b.rs".into(), "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n");
        assert_eq!(file.is_test, [false, true, true, true, true]);
    }

    #[test]
    fn tests_in_a_file_of_their_own_are_known() {
        let file = RustFile::new("a/b.rs".into(), "#[cfg(test)]\nmod laws;\n");
        assert_eq!(file.test_modules(), [PathBuf::from("a/b/laws")]);
        let file = RustFile::new("a/mod.rs".into(), "#[cfg(test)]\nmod laws;\n");
        assert_eq!(file.test_modules(), [PathBuf::from("a/laws")]);
    }
}
