//! The rules of the specifications, and the tests that name them: `docs/rules.md` is written from both.
//!
//! Every list `tests/*-rules.txt` holds the ids of one specification, one a line, with what the rule means in a few
//! words. A line `[why]` begins rules that no test need name yet; those above it must be named, in a comment right
//! above a Rust test or in a comment of a script below `tests`. `tidy` holds both against each other.

use crate::tidy::source::{RustFile, Tree};
use crate::workspace_root;
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/rules.md";
const COMMAND: &str = "cargo run -p xtask -- gen rules";

/// One specification's rules, in its own order.
pub struct List {
    /// From the root of the repository.
    pub path: PathBuf,
    /// The first line, without its `#`.
    title: String,
    pub rules: Vec<Rule>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    pub id: String,
    meaning: String,
    /// Counted from 1.
    pub line: usize,
    /// Why no test need name it; none when one must.
    pub excuse: Option<String>,
}

/// A test that names rules: its file, and its own name where it has one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub path: PathBuf,
    pub test: String,
    /// Counted from 1.
    pub line: usize,
}

/// Tests by the id that they name.
pub type Named = BTreeMap<String, BTreeSet<Place>>;

pub fn write() -> Result<()> {
    let root = workspace_root();
    let page = page(&lists(&root)?, &named(&Tree::read(&root)?));
    fs::write(root.join(PAGE), page).with_context(|| format!("failed to write {PAGE}"))
}

pub fn check() -> Result<()> {
    let root = workspace_root();
    let current = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    let page = page(&lists(&root)?, &named(&Tree::read(&root)?));
    ensure!(current == page, "{PAGE} is not current: run `{COMMAND}`");
    Ok(())
}

/// All lists, by the names of their files.
pub fn lists(root: &Path) -> Result<Vec<List>> {
    let folder = root.join("tests");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("failed to list {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().ends_with("-rules.txt")));
    paths.sort();
    let list = |path: &PathBuf| {
        let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
        Ok(List::read(path.strip_prefix(root).unwrap_or(path), &text))
    };
    paths.iter().map(list).collect()
}

impl List {
    pub fn read(path: &Path, text: &str) -> List {
        let mut list = List { path: path.to_owned(), title: String::new(), rules: Vec::new() };
        let mut excuse = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(title) = line.strip_prefix('#') {
                if list.title.is_empty() {
                    title.trim().clone_into(&mut list.title);
                }
            } else if let Some(why) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                excuse = Some(why.to_owned());
            } else if !line.is_empty() {
                let (id, meaning) = line.split_once(' ').unwrap_or((line, ""));
                let (id, meaning) = (id.to_owned(), meaning.trim().to_owned());
                list.rules.push(Rule { id, meaning, line: index + 1, excuse: excuse.clone() });
            }
        }
        list
    }
}

/// Whether the id looks like one of the lists': of a family that they have, or of a family's kin (`PT-` this and that).
pub fn is_of_a_list(id: &str, lists: &[List]) -> bool {
    let family = |id: &str| id.rsplit_once('-').map_or("", |(family, _)| family).to_owned();
    let kin = |id: &str| id.split_once('-').filter(|(_, rest)| rest.contains('-')).map(|(kin, _)| kin.to_owned());
    let known = || lists.iter().flat_map(|list| &list.rules).map(|rule| &rule.id);
    let own_kin = kin(id);
    known().any(|other| family(other) == family(id))
        || (own_kin.is_some() && known().any(|other| kin(other) == own_kin))
}

pub fn named(tree: &Tree) -> Named {
    let mut named = Named::new();
    for file in &tree.rust {
        for (id, place) in named_above_tests(file) {
            named.entry(id).or_default().insert(place);
        }
    }
    for (path, text) in &tree.scripts {
        for (id, place) in named_in_script(path, text) {
            named.entry(id).or_default().insert(place);
        }
    }
    named
}

fn named_above_tests(file: &RustFile) -> Vec<(String, Place)> {
    let is_attribute = |index: usize| file.code[index].trim_start().starts_with("#[");
    let is_comment = |index: usize| file.lines[index].trim_start().starts_with("//");
    let mut found = Vec::new();
    for index in (0..file.code.len()).filter(|index| is_test_attribute(&file.code[*index])) {
        let above = (0..index).rev().take_while(|line| is_comment(*line) || is_attribute(*line));
        let below: Vec<usize> =
            (index + 1..file.code.len()).take_while(|line| is_comment(*line) || is_attribute(*line)).collect();
        let function = below.last().unwrap_or(&index) + 1;
        let test = file.code.get(function).and_then(|line| function_name(line)).unwrap_or_default();
        for line in above.chain(below) {
            let place = || Place { path: file.path.clone(), test: test.to_owned(), line: line + 1 };
            found.extend(ids(&file.comments[line]).into_iter().map(|id| (id, place())));
        }
    }
    found
}

/// A script names rules in any comment; right above a function, that function is the test.
fn named_in_script(path: &Path, text: &str) -> Vec<(String, Place)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with('#')) {
        let below = lines[index..].iter().find(|line| !line.starts_with(['#', '@']));
        let test = below.and_then(|line| line.strip_prefix("def ").or_else(|| line.strip_suffix("() {")));
        let test = test.and_then(|name| name.split('(').next()).unwrap_or_default();
        let place = || Place { path: path.to_owned(), test: test.to_owned(), line: index + 1 };
        found.extend(ids(line).into_iter().map(|id| (id, place())));
    }
    found
}

/// `#[test]`, `#[tokio::test]`, `#[tokio::test(…)]`.
fn is_test_attribute(line: &str) -> bool {
    let line = line.trim_start();
    let name = line.strip_prefix("#[").and_then(|rest| rest.split([']', '(']).next()).unwrap_or_default();
    name == "test" || name.ends_with("::test")
}

fn function_name(line: &str) -> Option<&str> {
    line.split_once("fn ").and_then(|(_, rest)| rest.split(['(', '<']).next())
}

/// The ids in a text: words of capitals, digits and dashes that end in a number, or in a number and a letter.
fn ids(text: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    let words = text.split(|letter| !is_part(letter));
    words.filter(|word| is_id(word)).map(str::to_owned).collect()
}

fn is_id(word: &str) -> bool {
    let Some((family, number)) = word.rsplit_once('-') else { return false };
    let is_family = |part: &str| part.starts_with(|letter: char| letter.is_ascii_uppercase());
    let is_capital = |letter: char| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == '-';
    let digits = number.trim_end_matches(|letter: char| letter.is_ascii_lowercase());
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_family(family) && family.chars().all(is_capital) && is_number && number.len() <= digits.len() + 1
}

/// The page of all rules with their tests.
fn page(lists: &[List], named: &Named) -> String {
    let mut page = format!(
        "# Rules and their tests\n\n\
         Written by `{COMMAND}` from the lists `tests/*-rules.txt` and the comments above tests; do not edit it.\n\
         Each rule of a specification that this repository must keep is named above at least one test.\n"
    );
    for list in lists {
        let tested: Vec<&Rule> = list.rules.iter().filter(|rule| rule.excuse.is_none()).collect();
        let _ = write!(page, "\n## {}\n\n{} rules are tested.\n", list.title, tested.len());
        write_table(&mut page, &tested, named);
        let mut excuses: Vec<&str> = list.rules.iter().filter_map(|rule| rule.excuse.as_deref()).collect();
        excuses.dedup();
        for excuse in excuses {
            let excused: Vec<&Rule> = list.rules.iter().filter(|rule| rule.excuse.as_deref() == Some(excuse)).collect();
            let _ = write!(page, "\n### Not yet: {excuse}\n");
            write_table(&mut page, &excused, named);
        }
    }
    page
}

fn write_table(page: &mut String, rules: &[&Rule], named: &Named) {
    let has_meaning = rules.iter().any(|rule| !rule.meaning.is_empty());
    let (head, line) = if has_meaning { ("| meaning ", "|---") } else { ("", "") };
    let _ = write!(page, "\n| rule {head}| tests |\n|---{line}|---|\n");
    for rule in rules {
        let meaning = if has_meaning { format!("| {} ", rule.meaning.replace('|', "\\|")) } else { String::new() };
        let places: BTreeSet<String> = named.get(&rule.id).into_iter().flatten().map(told).collect();
        let tests = places.into_iter().collect::<Vec<_>>().join("<br>");
        let _ = writeln!(page, "| {} {meaning}| {tests} |", rule.id);
    }
}

fn told(place: &Place) -> String {
    let path = place.path.display();
    if place.test.is_empty() { format!("`{path}`") } else { format!("`{path}` {}", place.test) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        named_above_tests(&RustFile::new("a.rs".into(), text)).into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn the_page_is_what_the_lists_and_the_tests_give() -> Result<()> {
        check()
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
    fn a_place_is_a_file_and_the_name_of_its_test() {
        let file = RustFile::new("a.rs".into(), "// SM-1\n#[tokio::test]\n// SM-2\nasync fn it_is_so() {}\n");
        let places: Vec<String> =
            named_above_tests(&file).iter().map(|(id, place)| format!("{id} {}", told(place))).collect();
        assert_eq!(places, ["SM-1 `a.rs` it_is_so", "SM-2 `a.rs` it_is_so"]);
        let script = "# PT-SDK-1\n@mark\ndef test_it(x):\n    # PT-SDK-2\n    pass\n# CLI-1\ntours() {\n";
        let found = named_in_script(Path::new("a.py"), script);
        let places: Vec<String> = found.iter().map(|(id, place)| format!("{id} {}", told(place))).collect();
        assert_eq!(places, ["PT-SDK-1 `a.py` test_it", "PT-SDK-2 `a.py`", "CLI-1 `a.py` tours"]);
    }

    #[test]
    fn ids_are_told_from_other_words() {
        assert_eq!(ids("PT-SVC-2a (UI-11b), SM-20; K-POD-DEL-2."), ["PT-SVC-2a", "UI-11b", "SM-20", "K-POD-DEL-2"]);
        assert!(ids("K-SMP and K-WR- and utf-8 and x-86 and PT-ADM-ab and 1-2").is_empty());
        assert_eq!(ids("PT-CFG-1"), ["PT-CFG-1"], "a longer id does not name the shorter one at its end");
    }

    #[test]
    fn a_list_tells_what_must_be_tested_and_what_is_excused() {
        let list = List::read(Path::new("l"), "# Rules of X\n# more\nX-1  is so\nX-2\n\n[next issue]\nX-3 later\n");
        let rules: Vec<_> = list.rules.iter().map(|r| (&*r.id, &*r.meaning, r.line, r.excuse.as_deref())).collect();
        assert_eq!(rules, [("X-1", "is so", 3, None), ("X-2", "", 4, None), ("X-3", "later", 7, Some("next issue"))]);
        let known = [list, List::read(Path::new("m"), "PT-ADM-1\n")];
        assert!(is_of_a_list("X-9", &known) && is_of_a_list("PT-PDO-1", &known));
        assert!(!is_of_a_list("UTF-8", &known) && !is_of_a_list("RFC-1123", &known));
    }

    #[test]
    fn the_page_shows_every_rule_with_its_tests() {
        let list = List::read(Path::new("l"), "# Rules of X\nX-1 is so\n[next issue]\nX-2 will be\n");
        let place = Place { path: "a.rs".into(), test: "it_is_so".into(), line: 1 };
        let page = page(&[list], &Named::from([("X-1".to_owned(), BTreeSet::from([place]))]));
        assert!(page.contains("| X-1 | is so | `a.rs` it_is_so |\n"), "{page}");
        assert!(
            page.contains(
                "### Not yet: next issue\n\n| rule | meaning | tests |\n|---|---|---|\n| X-2 | will be |  |\n"
            )
        );
    }
}
