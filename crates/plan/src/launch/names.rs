//! Names and label values from free text, and names that belong to one attempt of one item.
//!
//! The same item and attempt always give the same name, so that doing a step again makes nothing twice.

use crate::job::fingerprint::suffix;

/// A name and whatever a controller adds to it must fit into 63.
pub const NAME_MAX: usize = 52;
/// Room that a name leaves for the item's key and the dash before it.
const PREFIX_MAX: usize = NAME_MAX - 13;
const LABEL_MAX: usize = 63;

/// A text as a DNS label: lower-case letters, digits and single dashes, none at an end.
pub fn dns(text: &str, length_max: usize) -> String {
    let mut name = String::new();
    for letter in text.chars().flat_map(char::to_lowercase) {
        let letter = if letter.is_ascii_alphanumeric() { letter } else { '-' };
        let is_second_dash = letter == '-' && (name.is_empty() || name.ends_with('-'));
        if !is_second_dash {
            name.push(letter);
        }
    }
    name.truncate(length_max);
    name.trim_end_matches('-').to_owned()
}

/// A text as a label's value: what is not allowed becomes a dash, and both ends are letters or digits.
pub fn label(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric();
    let safe = |letter: char| if is_plain(letter) || matches!(letter, '-' | '_' | '.') { letter } else { '-' };
    let value: String = text.chars().map(safe).skip_while(|letter| !is_plain(*letter)).take(LABEL_MAX).collect();
    value.trim_end_matches(|letter| !is_plain(letter)).to_owned()
}

/// Twelve letters and digits that stand for an item wherever its id cannot be written, where its server gives it no key.
pub fn item_key(item: &str) -> String {
    suffix(item)
}

/// The name of an object whose config gives none.
pub fn made(words: &[&str], key: &str, attempt: u32) -> String {
    let prefix = dns(&words.join("-"), PREFIX_MAX);
    with_attempt(&format!("{prefix}-{key}"), attempt)
}

/// A name for this attempt: the first has the name as it is, later ones their number, so that they never meet the
/// object of an earlier one that is still going away (L-27).
pub fn with_attempt(name: &str, attempt: u32) -> String {
    if attempt <= 1 {
        return name.to_owned();
    }
    let number = format!("-{attempt}");
    let room = 63 - number.len();
    let kept: String = name.chars().take(room).collect();
    format!("{}{number}", kept.trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use volley_api::kube::names;

    // K-20, M-12
    #[test]
    fn free_text_becomes_a_name() {
        for (text, name) in [
            ("launch-team-Proj_1", "launch-team-proj-1"),
            ("__a__b__", "a-b"),
            ("연구팀 α", ""),
            ("9lives", "9lives"),
            ("a-", "a"),
        ] {
            assert_eq!(dns(text, 63), name, "{text}");
        }
        assert_eq!(dns(&"x".repeat(99), 10), "x".repeat(10));
        assert_eq!(dns("abc-def", 4), "abc");
    }

    // M-12, G-17
    #[test]
    fn free_text_becomes_a_label() {
        for (text, value) in [("my project!", "my-project"), ("_x_", "x"), ("연구", ""), ("a.b_c", "a.b_c")] {
            assert_eq!(label(text), value, "{text}");
            assert!(names::label_value(&label(text)).is_empty());
        }
        assert_eq!(label(&"x/".repeat(60)).len(), 63);
    }

    // L-27, K-20
    #[test]
    fn an_attempt_of_an_item_has_one_name() {
        let first = made(&["launch", "team", "Proj_1"], "rqi1", 1);
        assert!(first.starts_with("launch-team-proj-1-"), "{first}");
        assert_eq!(first, made(&["launch", "team", "Proj_1"], "rqi1", 1));
        assert_ne!(first, made(&["launch", "team", "Proj_1"], "rqi2", 1));
        assert_eq!(made(&["launch", "team", "Proj_1"], "rqi1", 2), format!("{first}-2"));
        let long = made(&["launch", &"e".repeat(80), "p"], "rqi1", 3);
        assert!(long.len() <= 54 && names::dns_label(&long).is_empty(), "{long}");
        let full = "n".repeat(63);
        assert_eq!(with_attempt(&full, 12), format!("{}-12", "n".repeat(60)));
    }
}
