//! Rules about who may know whom: crates depend downwards, decisions know nothing of the machine, the store nothing of
//! Kubernetes.

use super::Finding;
use super::source::Tree;
use std::fs;
use std::path::Path;

/// Each room of `crates/` and the rooms below it that it may use. Shells never appear on the right.
const ROOMS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("plan", &["api"]),
    ("turns", &["api", "plan"]),
    ("scheduler", &["api", "plan", "turns"]),
    ("cluster", &["api", "plan", "turns", "scheduler"]),
    ("operator", &["api", "plan", "turns", "scheduler"]),
    ("server", &["api", "plan"]),
    ("client", &[]),
    ("agent", &["api", "plan", "turns", "client"]),
    ("volley", &["api", "plan", "client", "agent", "scheduler", "cluster", "operator", "server"]),
];

/// Rooms on which another's tests stand; they meet over public protocols there as everywhere.
const TESTED_ON: &[(&str, &[&str])] = &[("operator", &["cluster"])];

/// What a folder may not mention, and why.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    ("crates/api/src", MACHINE, "it is pure"),
    ("crates/plan/src", MACHINE, "decisions are pure: pass it in, or do it in a shell"),
    (
        "crates/cluster/src/store",
        &["volley_api", "volley_plan", "k8s_openapi", "kube::", "crate::apiserver", "crate::controllers"],
        "the store knows keys, bytes and revisions, and nothing of Kubernetes",
    ),
];

/// Clock, files, network, processes, threads, chance.
const MACHINE: &[&str] = &[
    "tokio", "async fn", "async move", "std::fs", "std::env", "std::net::Tcp", "std::net::Udp", "std::process",
    "std::thread", "SystemTime::now", "Instant::now", "Timestamp::now", "Zoned::now", "rand::",
];

pub fn dependencies(tree: &Tree) -> Vec<Finding> {
    let mut findings = undeclared_uses(tree);
    let Ok(folders) = fs::read_dir(tree.root.join("crates")) else { return findings };
    let mut names: Vec<String> =
        folders.flatten().map(|folder| folder.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    for name in names {
        let manifest = Path::new("crates").join(&name).join("Cargo.toml");
        let Ok(text) = fs::read_to_string(tree.root.join(&manifest)) else { continue };
        for (line, text) in manifest_problems(&name, &text) {
            findings.push(Finding { file: manifest.clone(), line, text });
        }
    }
    findings
}

fn below(room: &str) -> Option<&'static [&'static str]> {
    ROOMS.iter().find(|(name, _)| *name == room).map(|(_, below)| *below)
}

fn is_tested_on(room: &str, other: &str) -> bool {
    TESTED_ON.iter().any(|(name, others)| *name == room && others.contains(&other))
}

/// Lines of a manifest that name a room which this one may not use.
fn manifest_problems(room: &str, manifest: &str) -> Vec<(usize, String)> {
    let Some(below) = below(room) else {
        return vec![(1, format!("the room `{room}` is not in the table of rooms: say what it may use"))];
    };
    let mut problems = Vec::new();
    let mut is_for_tests = false;
    for (index, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            is_for_tests = line == "[dev-dependencies]";
        }
        let used = line.strip_prefix("volley-").and_then(|rest| rest.split(['.', ' ', '=']).next());
        let is_allowed = |used: &&str| below.contains(used) || (is_for_tests && is_tested_on(room, used));
        if let Some(used) = used.filter(|used| !is_allowed(used)) {
            problems.push((index + 1, format!("`{room}` may not use `{used}`: rooms depend downwards only")));
        }
    }
    problems
}

fn undeclared_uses(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.rust {
        let mut parts = file.path.iter().skip_while(|part| *part != "crates").skip(1);
        let Some(room) = parts.next().and_then(|part| part.to_str()) else { continue };
        let allowed = below(room).unwrap_or_default();
        for (other, _) in ROOMS.iter().filter(|(other, _)| *other != room && !allowed.contains(other)) {
            let name = format!("volley_{other}::");
            let is_allowed = |index: usize| file.is_test[index] && is_tested_on(room, other);
            let uses = file.code.iter().enumerate().filter(|(_, line)| line.contains(&name));
            let uses = uses.filter(|(index, _)| !is_allowed(*index));
            findings.extend(uses.map(|(index, _)| file.finding(index, format!("`{room}` may not use `{other}`"))));
        }
    }
    findings
}

pub fn purity(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (folder, words, why) in FORBIDDEN {
        for file in tree.rust.iter().filter(|file| file.path.starts_with(folder)) {
            for (index, line) in file.code.iter().enumerate() {
                for word in words.iter().filter(|word| mentions(line, word)) {
                    findings.push(file.finding(index, format!("`{word}` in {folder}: {why}")));
                }
            }
        }
    }
    findings
}

/// Whether the word stands there by itself, not as the end of another.
fn mentions(line: &str, word: &str) -> bool {
    let is_part_of_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).any(|(at, _)| !line[..at].chars().next_back().is_some_and(is_part_of_name))
}

#[cfg(test)]
mod tests {
    use super::super::source::RustFile;
    use super::*;

    fn tree(path: &str, text: &str) -> Tree {
        Tree { root: "/nowhere".into(), rust: vec![RustFile::new(path.into(), text)], scripts: Vec::new() }
    }

    #[test]
    fn a_room_may_use_what_is_below_it_and_nothing_else() {
        let manifest = "[dependencies]\nserde = 1\nvolley-api.workspace = true\nvolley-cluster = { path = \"x\" }\n";
        assert!(manifest_problems("volley", manifest).is_empty());
        assert_eq!(
            manifest_problems("plan", manifest),
            [(4, "`plan` may not use `cluster`: rooms depend downwards only".to_owned())]
        );
        assert_eq!(manifest_problems("cellar", "").len(), 1);
        let tests = "[dev-dependencies]\nvolley-cluster.workspace = true\n";
        assert!(manifest_problems("operator", tests).is_empty());
        assert_eq!(manifest_problems("operator", &tests.replace("dev-", "")).len(), 1);
        assert_eq!(manifest_problems("plan", tests).len(), 1);
    }

    #[test]
    fn a_clock_in_a_decision_is_found_and_a_word_about_it_is_not() {
        let findings = purity(&tree("crates/plan/src/a.rs", "// SystemTime::now\nlet t = SystemTime::now();\n"));
        assert_eq!(findings.iter().map(|finding| finding.line).collect::<Vec<_>>(), [2]);
        assert!(purity(&tree("crates/cluster/src/a.rs", "let t = SystemTime::now();\n")).is_empty());
        assert!(purity(&tree("crates/plan/src/a.rs", "operand::new()\n")).is_empty());
    }

    #[test]
    fn uses_are_found_in_the_code_too() {
        assert_eq!(dependencies(&tree("crates/plan/src/a.rs", "use volley_cluster::store;\n")).len(), 1);
        assert!(dependencies(&tree("crates/cluster/src/a.rs", "use volley_plan::job;\n")).is_empty());
    }
}
