//! SQL has values only by parameters: a reading of the source, which the type of statements begins and this ends.

use crate::support::repository;
use std::fs;
use std::path::{Path, PathBuf};

/// Statements are literals, unless they are put together by `AssertSqlSafe`. What may be put into those are other literals
/// of ours and numbers of parameters; each place that does so is looked at here.
const PUT_TOGETHER: &[&str] = &[
    "{USERS}", "{PROJECTS}", "{AGENTS}", "{RUNS}", "{ITEMS}", "{QUEUES}", "{SWEEPS}", "{ARTIFACTS}", "{COLLECTIONS}",
    "{rest}", "{FIRST}", "{skip}", "{at}", "{places}", "{}",
];

/// The same for single files.
const BY_FILE: &[(&str, &[&str])] = &[
    ("queue/store.rs", &["{HAS_STARTED}"]),
    ("queue/limits.rs", &["{from}", "{to}", "{rows}"]),
    ("project/store.rs", &["{table}", "{own}"]),
    ("artifact/store.rs", &["{table}", "{OWN}", "{HOMES}"]),
    ("run/search.rs", &["{column}", "{place}", "{kind}", "{value}", "{sign}", "{is_number}", "{low}", "{high}"]),
    ("run/store.rs", &["{sign}", "{way}"]),
    ("run/columns.rs", &["{names}", "{IS_QUIET}", "{lock}", "{rows}"]),
];

fn is_looked_at(file: &Path, put: &str) -> bool {
    let of_file = BY_FILE.iter().filter(|(end, _)| file.ends_with(end)).flat_map(|(_, names)| *names);
    PUT_TOGETHER.iter().chain(of_file).any(|name| *name == put)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        match entry.path() {
            path if path.is_dir() => sources(&path, found),
            path if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            _ => (),
        }
    }
}

/// Whether a line is a piece of SQL that is made by `format!`.
fn is_made(line: &str) -> bool {
    let words = ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", " WHERE ", " AND ", "ORDER BY "];
    line.contains("format!(") && words.iter().any(|word| line.contains(word))
}

#[test]
fn values_never_become_a_part_of_a_statement() {
    let mut files = Vec::new();
    sources(&repository().join("crates/server/src"), &mut files);
    assert!(files.len() > 50);
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(&file).expect("a source");
        // A call that is broken over lines is one again.
        let joined = text.replace("\\\n", " ").replace("format!(\n", "format!(");
        for line in joined.lines().filter(|line| is_made(line)) {
            seen += 1;
            let mut rest = line;
            while let Some((_, behind)) = rest.split_once('{') {
                let (name, behind) = behind.split_once('}').unwrap_or((behind, ""));
                let put = format!("{{{name}}}");
                assert!(
                    name.starts_with(char::is_whitespace) || is_looked_at(&file, &put),
                    "{}: `{put}` is put into SQL: {line}\nhint: pass it as a parameter",
                    file.display()
                );
                rest = behind;
            }
        }
    }
    assert!(seen > 5, "the reading finds what it should");
}
