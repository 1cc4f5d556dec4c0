//! The lists of rules and the tests hold each other to account: what must be tested is, and what a test names exists.

use super::Finding;
use super::source::Tree;
use crate::rules::{self, List, Named};
use std::collections::BTreeSet;

pub fn rules_are_tested(tree: &Tree) -> Vec<Finding> {
    match rules::lists(&tree.root) {
        Ok(lists) if !lists.is_empty() => compare(&lists, &rules::named(tree)),
        Ok(_) | Err(_) => {
            let text = "there is no list of rules, `*-rules.txt`, to be read".to_owned();
            vec![Finding { file: "tests".into(), line: 1, text }]
        }
    }
}

fn compare(lists: &[List], named: &Named) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut known = BTreeSet::new();
    for list in lists {
        for rule in &list.rules {
            let finding = |text| Finding { file: list.path.clone(), line: rule.line, text };
            if !known.insert(&rule.id) {
                findings.push(finding(format!("{} is listed twice", rule.id)));
            }
            if rule.excuse.is_none() && !named.contains_key(&rule.id) {
                findings.push(finding(format!("no test names {} in a comment above it", rule.id)));
            }
        }
    }
    for (id, places) in named.iter().filter(|(id, _)| !known.contains(id) && rules::is_of_a_list(id, lists)) {
        let unknown = |place: &rules::Place| Finding {
            file: place.path.clone(),
            line: place.line,
            text: format!("{id} is in no list of rules below `tests`"),
        };
        findings.extend(places.iter().map(unknown));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Place;
    use std::path::Path;

    #[test]
    fn what_is_untested_unknown_or_listed_twice_is_found() {
        let list = List::read(Path::new("tests/x-rules.txt"), "# X\nX-1\nX-2\nX-1\n[later]\nX-3\n");
        let place = |line| BTreeSet::from([Place { path: "a.rs".into(), test: "t".into(), line }]);
        let named =
            Named::from([("X-1".to_owned(), place(1)), ("X-8".to_owned(), place(7)), ("UTF-8".to_owned(), place(9))]);
        let findings: Vec<String> = compare(&[list], &named).iter().map(ToString::to_string).collect();
        assert_eq!(
            findings,
            [
                "tests/x-rules.txt:3: no test names X-2 in a comment above it",
                "tests/x-rules.txt:4: X-1 is listed twice",
                "a.rs:7: X-8 is in no list of rules below `tests`",
            ]
        );
    }
}
