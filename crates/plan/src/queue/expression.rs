//! Sums in a queue's config: `{{= workers + 1}}` ties one field to another, such as a gang's size to its workers.
//!
//! Whole numbers, names of template variables, `+`, `-`, `*` and parentheses. In a sum a name has no `-`.

use serde_json::Value;
use std::collections::BTreeMap;

/// A sum in a sum in a sum is as deep as anybody writes; more is a mistake.
const DEPTH_MAX: usize = 16;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Word<'a> {
    Number(i64),
    Name(&'a str),
    Sign(char),
}

/// The names that a sum uses, or what is wrong with it.
pub fn names(text: &str) -> Result<Vec<String>, String> {
    let words = words(text)?;
    let known = |_: &str| Some(1);
    Sum { words: &words, known: &known }.value()?;
    let named = |word: &Word<'_>| if let Word::Name(name) = word { Some((*name).to_owned()) } else { None };
    Ok(words.iter().filter_map(named).collect())
}

/// What a sum comes to; nothing if it cannot be read, or uses what is no whole number.
pub fn value(text: &str, values: &BTreeMap<String, Value>) -> Option<i64> {
    let words = words(text).ok()?;
    let known = |name: &str| values.get(name).and_then(Value::as_i64);
    Sum { words: &words, known: &known }.value().ok()
}

fn words(text: &str) -> Result<Vec<Word<'_>>, String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (word, length) = match first {
            '0'..='9' => {
                let number = rest[..end].parse().map_err(|_| format!("`{}` is no whole number", &rest[..end]))?;
                (Word::Number(number), end)
            }
            first if is_part(first) => (Word::Name(&rest[..end]), end),
            '+' | '-' | '*' | '(' | ')' => (Word::Sign(first), 1),
            other => return Err(format!("`{other}` is not known in a sum")),
        };
        words.push(word);
        rest = rest[length..].trim_start();
    }
    Ok(words)
}

struct Sum<'a> {
    words: &'a [Word<'a>],
    known: &'a dyn Fn(&str) -> Option<i64>,
}

impl Sum<'_> {
    fn value(mut self) -> Result<i64, String> {
        let value = self.sum(0)?;
        match self.words.first() {
            None => Ok(value),
            Some(word) => Err(format!("{} is not expected there", told(word))),
        }
    }

    /// Takes a sign, if it is the next word.
    fn takes(&mut self, sign: char) -> bool {
        let is_next = self.words.first() == Some(&Word::Sign(sign));
        self.words = &self.words[usize::from(is_next)..];
        is_next
    }

    fn sum(&mut self, depth: usize) -> Result<i64, String> {
        let mut value = self.product(depth)?;
        loop {
            if self.takes('+') {
                value = value.saturating_add(self.product(depth)?);
            } else if self.takes('-') {
                value = value.saturating_sub(self.product(depth)?);
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self, depth: usize) -> Result<i64, String> {
        let mut value = self.term(depth)?;
        while self.takes('*') {
            value = value.saturating_mul(self.term(depth)?);
        }
        Ok(value)
    }

    fn term(&mut self, depth: usize) -> Result<i64, String> {
        if depth > DEPTH_MAX {
            return Err("it has too many parentheses".to_owned());
        }
        if self.takes('(') {
            let value = self.sum(depth + 1)?;
            return self.takes(')').then_some(value).ok_or_else(|| "a `)` is missing".to_owned());
        }
        if self.takes('-') {
            return self.term(depth + 1).map(i64::saturating_neg);
        }
        let (first, rest) = self.words.split_first().ok_or("it ends too early")?;
        self.words = rest;
        match first {
            Word::Number(number) => Ok(*number),
            Word::Name(name) => (self.known)(name).ok_or_else(|| format!("`{name}` is no whole number")),
            Word::Sign(_) => Err(format!("{} is not expected there", told(first))),
        }
    }
}

fn told(word: &Word<'_>) -> String {
    match word {
        Word::Number(number) => format!("`{number}`"),
        Word::Name(name) => format!("`{name}`"),
        Word::Sign(sign) => format!("`{sign}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // LA-T-13
    #[test]
    fn sums_are_reckoned_as_one_learns_it() {
        let values = BTreeMap::from([("workers".to_owned(), json!(3)), ("word".to_owned(), json!("x"))]);
        for (text, wanted) in [
            ("workers + 1", Some(4)),
            ("1+workers*2", Some(7)),
            ("(1 + workers) * 2 - 3", Some(5)),
            ("-workers", Some(-3)),
            ("workers-1", Some(2)),
            ("9223372036854775807 + workers", Some(i64::MAX)),
            ("word + 1", None),
            ("gone", None),
        ] {
            assert_eq!(value(text, &values), wanted, "{text}");
        }
    }

    // LA-T-13
    #[test]
    fn what_is_no_sum_is_told() {
        assert_eq!(names("a + 2 * (b - a)"), Ok(["a", "b", "a"].map(str::to_owned).into()));
        for (text, told) in [
            ("", "it ends too early"),
            ("a +", "it ends too early"),
            ("a b", "`b` is not expected there"),
            ("* a", "`*` is not expected there"),
            ("(a", "a `)` is missing"),
            ("a / 2", "`/` is not known in a sum"),
            ("99999999999999999999", "`99999999999999999999` is no whole number"),
        ] {
            assert_eq!(names(text), Err(told.to_owned()), "{text}");
        }
        assert!(names(&"(".repeat(100_000)).is_err());
        assert!(names(&"-".repeat(100_000)).is_err());
    }
}
