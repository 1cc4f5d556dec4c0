//! The text form of label selectors: a scanner, a parser and the checks on keys and values, with upstream's error texts.
//!
//! `in` and `notin` are ordinary words wherever a key or a value may stand (`in in (notin)` is legal).

use super::{Operator, Requirement, SelectorError};
use std::iter::Peekable;
use std::vec::IntoIter;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    /// An operator, a comma or a parenthesis.
    Symbol(&'static str),
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Token::Word(text) => text,
            Token::Symbol(text) => text,
        }
    }
}

/// Reads a whole selector.
pub fn label_selector(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { tokens: scan(text).into_iter().peekable() };
    let mut requirements = Vec::new();
    loop {
        match parser.tokens.peek() {
            Some(Token::Word(_) | Token::Symbol("!")) => {}
            None => return Ok(requirements),
            Some(other) => return refuse(other.text(), ", expected: !, identifier, or 'end of string'"),
        }
        let requirement = parser.requirement();
        requirements
            .push(requirement.map_err(|error| SelectorError(format!("unable to parse requirement: {}", error.0)))?);
        match parser.tokens.next() {
            None => return Ok(requirements),
            Some(Token::Symbol(",")) => match parser.tokens.peek() {
                Some(Token::Word(_) | Token::Symbol("!")) => {}
                other => return refuse(other.map_or("", Token::text), ", expected: identifier after ','"),
            },
            Some(other) => return refuse(other.text(), ", expected: ',' or 'end of string'"),
        }
    }
}

fn refuse<T>(found: &str, expected: &str) -> Result<T, SelectorError> {
    Err(SelectorError(format!("found '{found}'{expected}")))
}

fn is_special(c: char) -> bool {
    matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<')
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn scan(text: &str) -> Vec<Token> {
    /// Longest first: `==` and `!=` win over their first character.
    const SYMBOLS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let token = match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => Token::Symbol(symbol),
            None => {
                let end = rest.find(|c| is_special(c) || is_blank(c)).unwrap_or(rest.len());
                Token::Word(rest[..end].to_owned())
            }
        };
        rest = rest[token.text().len()..].trim_start_matches(is_blank);
        tokens.push(token);
    }
    tokens
}

struct Parser {
    tokens: Peekable<IntoIter<Token>>,
}

impl Parser {
    fn at_end(&mut self) -> bool {
        matches!(self.tokens.peek(), None | Some(Token::Symbol(",")))
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let is_negated = self.tokens.next_if_eq(&Token::Symbol("!")).is_some();
        let key = match self.tokens.next() {
            Some(Token::Word(key)) => key,
            other => return refuse(other.as_ref().map_or("", Token::text), ", expected: identifier"),
        };
        if let Some(problem) = key_problem(&key) {
            return Err(SelectorError(invalid("<nil>", &key, &problem)));
        }
        if is_negated {
            return Requirement::new(&key, Operator::DoesNotExist, Vec::new());
        }
        if self.at_end() {
            return Requirement::new(&key, Operator::Exists, Vec::new());
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => vec![self.exact_value()?],
        };
        Requirement::new(&key, operator, values)
    }

    fn operator(&mut self) -> Result<Operator, SelectorError> {
        let token = self.tokens.next();
        Ok(match token.as_ref().map_or("", Token::text) {
            "in" => Operator::In,
            "notin" => Operator::NotIn,
            "=" => Operator::Equals,
            "==" => Operator::DoubleEquals,
            "!=" => Operator::NotEquals,
            ">" => Operator::GreaterThan,
            "<" => Operator::LessThan,
            found => return refuse(found, ", expected: in, notin, =, ==, !=, gt, lt"),
        })
    }

    fn exact_value(&mut self) -> Result<String, SelectorError> {
        if self.at_end() {
            return Ok(String::new());
        }
        match self.tokens.next() {
            Some(Token::Word(value)) => Ok(value),
            other => refuse(other.as_ref().map_or("", Token::text), ", expected: identifier"),
        }
    }

    /// `(a,b)`; an empty place is the empty value.
    fn values(&mut self) -> Result<Vec<String>, SelectorError> {
        if self.tokens.next_if_eq(&Token::Symbol("(")).is_none() {
            return refuse(self.tokens.peek().map_or("", Token::text), " expected: '('");
        }
        let mut values = Vec::new();
        loop {
            match self.tokens.peek() {
                Some(Token::Word(word)) => {
                    values.push(word.clone());
                    self.tokens.next();
                }
                Some(Token::Symbol("," | ")")) => values.push(String::new()),
                other => {
                    let expected = if values.is_empty() {
                        ", expected: ',', ')' or identifier"
                    } else {
                        ", expected: ',', or identifier"
                    };
                    return refuse(other.map_or("", Token::text), expected);
                }
            }
            match self.tokens.next() {
                Some(Token::Symbol(")")) => return Ok(values),
                Some(Token::Symbol(",")) => {}
                other => return refuse(other.as_ref().map_or("", Token::text), ", expected: ',' or ')'"),
            }
        }
    }
}

fn invalid(path: &str, value: &str, detail: &str) -> String {
    format!("{path}: Invalid value: {value:?}: {detail}")
}

/// What is wrong with a requirement, one text each.
pub fn problems(key: &str, operator: Operator, values: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(problem) = key_problem(key) {
        problems.push(invalid("key", key, &problem));
    }
    let list = || serde_json::json!(values).to_string();
    let count_problem = match operator {
        Operator::In | Operator::NotIn if values.is_empty() => {
            Some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
            Some("exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
            Some("values set must be empty for exists and does not exist")
        }
        _ => None,
    };
    problems.extend(count_problem.map(|detail| format!("values: Invalid value: {}: {detail}", list())));
    for (index, value) in values.iter().enumerate() {
        let is_order = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        if is_order && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            problems.push(invalid(&format!("values[{index}]"), value, detail));
        }
        if let Some(problem) = value_problem(value) {
            problems.push(invalid(&format!("values[{index}][{key}]"), value, &problem));
        }
    }
    problems
}

/// Label names and values share one alphabet and must begin and end with a letter or digit.
fn is_name(text: &str) -> bool {
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner)
}

fn is_subdomain(text: &str) -> bool {
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let small = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        bytes.first().is_some_and(small)
            && bytes.last().is_some_and(small)
            && bytes.iter().all(|b| small(b) || *b == b'-')
    };
    text.split('.').all(label)
}

const NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
    alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => {
            return Some(
                "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
                    .to_owned(),
            );
        }
        None => (None, key),
    };
    let mut problems = Vec::new();
    match prefix {
        Some("") => problems.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            if prefix.len() > 253 {
                problems.push("prefix part must be no more than 253 bytes".to_owned());
            }
            if !is_subdomain(prefix) {
                problems.push(
                    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                     '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                        .to_owned(),
                );
            }
        }
        None => {}
    }
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        problems.push(format!("name part {NAME_RULE}"));
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn value_problem(value: &str) -> Option<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start \
             and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    (!problems.is_empty()).then(|| problems.join("; "))
}
