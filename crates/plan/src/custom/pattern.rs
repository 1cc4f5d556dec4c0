//! Regular expressions in the reference's dialect, on the engine that we have.
//!
//! Both are RE2 relatives. The differences that schemas meet: the reference's `\d \w \s \b` are ASCII, and inside a
//! class its `[`, `&` and `~` are plain characters.

use regex::{Regex, RegexBuilder};

/// The most memory that one compiled pattern may take; a schema comes from a user. Classes of Unicode letters with a
/// count of 63 need some megabytes.
const PROGRAM_BYTES_MAX: usize = 10 << 20;

/// Compiles a pattern; the error is a one-line reason.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    RegexBuilder::new(&translate(pattern))
        .size_limit(PROGRAM_BYTES_MAX)
        .build()
        .map_err(|error| error.to_string().lines().last().unwrap_or("invalid").trim().to_owned())
}

fn translate(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut characters = pattern.chars().peekable();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => {
                if let Some(escaped) = characters.next() {
                    push_escape(&mut out, escaped, in_class);
                } else {
                    out.push('\\');
                }
            }
            '[' if in_class => {
                let is_named_class = characters.peek() == Some(&':');
                out.push_str(if is_named_class { "[" } else { "\\[" });
                if is_named_class {
                    copy_named_class(&mut out, &mut characters);
                }
            }
            '[' => {
                in_class = true;
                out.push('[');
                copy_class_start(&mut out, &mut characters);
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            '&' | '~' if in_class => {
                out.push('\\');
                out.push(character);
            }
            other => out.push(other),
        }
    }
    out
}

fn push_escape(out: &mut String, escaped: char, in_class: bool) {
    match escaped {
        'd' => out.push_str("[0-9]"),
        'D' => out.push_str("[^0-9]"),
        'w' => out.push_str("[0-9A-Za-z_]"),
        'W' => out.push_str("[^0-9A-Za-z_]"),
        's' => out.push_str("[\\t\\n\\f\\r ]"),
        'S' => out.push_str("[^\\t\\n\\f\\r ]"),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        // Only ASCII word boundaries exist there, so their complement needs the same care.
        'B' if !in_class => out.push_str("(?-u:\\B)"),
        // These are word anchors in our engine and plain characters in the reference.
        '<' | '>' => out.push(escaped),
        other => {
            out.push('\\');
            out.push(other);
        }
    }
}

/// A `]` right after `[` or `[^` is a member of the class.
fn copy_class_start(out: &mut String, characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    if characters.next_if_eq(&'^').is_some() {
        out.push('^');
    }
    if characters.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
}

fn copy_named_class(out: &mut String, characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    for character in characters.by_ref() {
        out.push(character);
        if character == ']' {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-CRD-6
    #[test]
    fn classes_are_ascii_and_brackets_in_classes_are_plain() {
        let digits = compile(r"^\d+$").unwrap();
        assert!(digits.is_match("12"));
        assert!(!digits.is_match("١٢"));
        assert!(compile(r"^[\w.-]+$").unwrap().is_match("a_1.b-2"));
        assert!(compile(r"^[^[]+$").unwrap().is_match("a]b"));
        assert!(!compile(r"^[^[]+$").unwrap().is_match("a[b"));
        assert!(compile(r"^[]a]+$").unwrap().is_match("]a"));
        assert!(compile(r"^[[:alpha:]&&]+$").unwrap().is_match("a&"));
        assert!(compile(r"^a\/b\_c$").unwrap().is_match("a/b_c"));
        assert!(compile("(").is_err());
    }

    // K-CRD-6
    #[test]
    fn the_quantity_pattern_of_upstream_schemas_compiles() {
        let pattern = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
        let quantity = compile(pattern).unwrap();
        assert!(quantity.is_match("100Mi") && quantity.is_match("1.5") && !quantity.is_match("1Z"));
    }
}
