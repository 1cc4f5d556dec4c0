//! Searching runs: the Mongo-like filters that clients send.
//!
//! A filter is parsed once and asked of many runs. A run is seen through a function from a field's name to its value, so
//! that only the fields that the filter names are looked up.

use regex::{Regex, RegexBuilder};
use serde_json::Value;
use std::cmp::Ordering;

/// Deeper nesting than anybody writes; the parser calls itself.
const DEPTH_MAX: usize = 32;
/// A compiled pattern may take this much memory.
const REGEX_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, thiserror::Error, PartialEq)]
pub enum Error {
    #[error("the filter is not a JSON object")]
    Shape,
    #[error("the filter's operator `{0}` is not known")]
    Operator(String),
    #[error("the filter's operator `{0}` needs a list")]
    List(String),
    #[error("the filter's operator `{0}` needs a whole number")]
    Number(String),
    #[error("the filter's pattern `{0}` is not a regular expression")]
    Pattern(String),
    #[error("the filter is nested too deeply")]
    Depth,
}

#[derive(Debug)]
pub enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Field(String, Test),
}

#[derive(Debug)]
pub enum Test {
    Equal(Value),
    Compare(&'static [Ordering], Value),
    In(Vec<Value>),
    Exists(bool),
    Matches(Regex),
    /// A list of so many.
    Size(u64),
}

/// Whether something passes, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    No,
    Maybe,
    Yes,
}

pub fn parse(text: &str) -> Result<Filter, Error> {
    match serde_json::from_str(text) {
        Ok(Value::Null) => Ok(Filter::All(Vec::new())),
        Ok(value @ Value::Object(_)) => parse_value(&value, 0),
        _ => Err(Error::Shape),
    }
}

fn parse_value(value: &Value, depth: usize) -> Result<Filter, Error> {
    let object = value.as_object().ok_or(Error::Shape)?;
    if depth > DEPTH_MAX {
        return Err(Error::Depth);
    }
    let list = |name: &str, value: &Value| -> Result<Vec<Filter>, Error> {
        let items = value.as_array().ok_or_else(|| Error::List(name.to_owned()))?;
        items.iter().map(|item| parse_value(item, depth + 1)).collect()
    };
    let mut all = Vec::new();
    for (key, value) in object {
        all.push(match key.as_str() {
            "$and" => Filter::All(list(key, value)?),
            "$or" => Filter::Any(list(key, value)?),
            "$nor" => Filter::Not(Box::new(Filter::Any(list(key, value)?))),
            "$not" => Filter::Not(Box::new(parse_value(value, depth + 1)?)),
            operator if operator.starts_with('$') => return Err(Error::Operator(operator.to_owned())),
            field => parse_field(field, value, depth)?,
        });
    }
    Ok(if all.len() == 1 { all.remove(0) } else { Filter::All(all) })
}

fn parse_field(field: &str, value: &Value, depth: usize) -> Result<Filter, Error> {
    if depth > DEPTH_MAX {
        return Err(Error::Depth);
    }
    let is_test = value.as_object().is_some_and(|object| object.keys().any(|key| key.starts_with('$')));
    let Some(object) = value.as_object().filter(|_| is_test) else {
        return Ok(Filter::Field(field.to_owned(), Test::Equal(value.clone())));
    };
    let mut all = Vec::new();
    for (operator, value) in object {
        let test = |test: Test| Filter::Field(field.to_owned(), test);
        let values = || value.as_array().cloned().ok_or_else(|| Error::List(operator.clone()));
        let not = |filter: Filter| Filter::Not(Box::new(filter));
        all.push(match operator.as_str() {
            "$eq" => test(Test::Equal(value.clone())),
            "$ne" => not(test(Test::Equal(value.clone()))),
            "$gt" => test(Test::Compare(&[Ordering::Greater], value.clone())),
            "$gte" => test(Test::Compare(&[Ordering::Greater, Ordering::Equal], value.clone())),
            "$lt" => test(Test::Compare(&[Ordering::Less], value.clone())),
            "$lte" => test(Test::Compare(&[Ordering::Less, Ordering::Equal], value.clone())),
            "$in" => test(Test::In(values()?)),
            "$nin" => not(test(Test::In(values()?))),
            "$exists" => test(Test::Exists(value.as_bool().unwrap_or(true))),
            "$regex" => test(Test::Matches(pattern(value)?)),
            // Mongo has no such operator; W&B's server takes it for a piece of a text.
            "$contains" => {
                test(Test::Matches(pattern(&Value::from(regex::escape(value.as_str().unwrap_or_default())))?))
            }
            "$all" => Filter::All(values()?.into_iter().map(|wanted| test(Test::Equal(wanted))).collect()),
            "$size" => test(Test::Size(value.as_u64().ok_or_else(|| Error::Number(operator.clone()))?)),
            "$not" => not(parse_field(field, value, depth + 1)?),
            other => return Err(Error::Operator(other.to_owned())),
        });
    }
    Ok(if all.len() == 1 { all.remove(0) } else { Filter::All(all) })
}

fn pattern(value: &Value) -> Result<Regex, Error> {
    let text = value.as_str().unwrap_or_default();
    let built = RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build();
    built.map_err(|_| Error::Pattern(text.to_owned()))
}

impl Filter {
    /// Whether everything passes, so that nobody need be asked.
    pub fn is_empty(&self) -> bool {
        matches!(self, Filter::All(all) if all.iter().all(Filter::is_empty))
    }

    /// The names of all fields that are asked for.
    pub fn fields(&self) -> Vec<&str> {
        match self {
            Filter::All(inner) | Filter::Any(inner) => inner.iter().flat_map(Filter::fields).collect(),
            Filter::Not(inner) => inner.fields(),
            Filter::Field(name, _) => vec![name],
        }
    }

    /// What can be said of a thing of which only some fields are known: `columns::cell` says how an unclear value looks.
    pub fn verdict<'a>(&self, known: &dyn Fn(&str) -> Option<&'a Value>) -> Verdict {
        match self {
            Filter::All(all) => all.iter().map(|filter| filter.verdict(known)).min().unwrap_or(Verdict::Yes),
            Filter::Any(any) => any.iter().map(|filter| filter.verdict(known)).max().unwrap_or(Verdict::No),
            Filter::Not(inner) => match inner.verdict(known) {
                Verdict::No => Verdict::Yes,
                Verdict::Maybe => Verdict::Maybe,
                Verdict::Yes => Verdict::No,
            },
            Filter::Field(name, test) => known(name).map_or(Verdict::Maybe, |value| test.verdict(value)),
        }
    }

    /// Whether a thing with these fields passes; a field that it does not have is nothing.
    pub fn passes(&self, field: &dyn Fn(&str) -> Option<Value>) -> bool {
        match self {
            Filter::All(all) => all.iter().all(|filter| filter.passes(field)),
            Filter::Any(any) => any.iter().any(|filter| filter.passes(field)),
            Filter::Not(inner) => !inner.passes(field),
            Filter::Field(name, test) => test.passes(&field(name).unwrap_or(Value::Null)),
        }
    }
}

impl Test {
    fn passes(&self, value: &Value) -> bool {
        match self {
            Test::Exists(wanted) => value.is_null() != *wanted,
            Test::Equal(wanted) => is_or_holds(value, wanted),
            Test::In(wanted) => wanted.iter().any(|wanted| is_or_holds(value, wanted)),
            Test::Compare(orders, wanted) => compare(value, wanted).is_some_and(|order| orders.contains(&order)),
            Test::Matches(pattern) => match value {
                Value::String(text) => pattern.is_match(text),
                Value::Array(items) => {
                    items.iter().any(|item| item.as_str().is_some_and(|text| pattern.is_match(text)))
                }
                _ => false,
            },
            Test::Size(wanted) => value.as_array().is_some_and(|items| items.len() as u64 == *wanted),
        }
    }

    /// The same of a value that may be unclear. What is in an object is not known, only that it is one.
    fn verdict(&self, value: &Value) -> Verdict {
        let is_told = match (value, self) {
            (Value::Object(inner), _) if !inner.is_empty() => false,
            (Value::Object(_), Test::Equal(wanted)) => !wanted.is_object(),
            (Value::Object(_), Test::In(wanted)) => !wanted.iter().any(Value::is_object),
            _ => true,
        };
        match is_told.then(|| self.passes(value)) {
            Some(true) => Verdict::Yes,
            Some(false) => Verdict::No,
            None => Verdict::Maybe,
        }
    }
}

/// A list equals one of its items too: that is how tags are searched.
fn is_or_holds(value: &Value, wanted: &Value) -> bool {
    is_equal(value, wanted) || value.as_array().is_some_and(|items| items.iter().any(|item| is_equal(item, wanted)))
}

/// 1 and 1.0 are the same number to a person.
fn is_equal(value: &Value, wanted: &Value) -> bool {
    value == wanted || compare(value, wanted) == Some(Ordering::Equal)
}

/// Numbers with numbers and texts with texts; nothing else has an order.
pub fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64()?.partial_cmp(&other.as_f64()?),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(field: &str) -> Option<Value> {
        let run = json!({"state": "finished", "tags": ["a", "b"], "config.lr": 0.1, "summary_metrics.loss": 2, "group": null});
        run.get(field).cloned()
    }

    // PUB-2
    #[test]
    fn every_operator_does_what_mongo_does() {
        let cases = [
            ("{}", true),
            ("null", true),
            (r#"{"state":"finished"}"#, true),
            (r#"{"state":{"$eq":"failed"}}"#, false),
            (r#"{"state":{"$ne":"failed"}}"#, true),
            (r#"{"state":{"$in":["failed","finished"]}}"#, true),
            (r#"{"state":{"$nin":["failed","finished"]}}"#, false),
            (r#"{"state":{"$regex":"^fin"}}"#, true),
            (r#"{"tags":"a"}"#, true),
            (r#"{"tags":{"$in":["c","b"]}}"#, true),
            (r#"{"tags":{"$nin":["c"]}}"#, true),
            (r#"{"config.lr":{"$gte":0.1,"$lt":1}}"#, true),
            (r#"{"config.lr":{"$gt":0.1}}"#, false),
            (r#"{"summary_metrics.loss":2.0}"#, true),
            (r#"{"summary_metrics.loss":{"$gt":"1"}}"#, false),
            (r#"{"group":{"$exists":false}}"#, true),
            (r#"{"group":null}"#, true),
            (r#"{"config.lr":{"$exists":true}}"#, true),
            (r#"{"$and":[{"state":"finished"},{"config.lr":0.1}]}"#, true),
            (r#"{"$or":[{"state":"failed"},{"config.lr":0.1}]}"#, true),
            (r#"{"$not":{"state":"failed"}}"#, true),
            (r#"{"state":{"$not":{"$in":["finished"]}}}"#, false),
            (r#"{"$nor":[{"state":"failed"}]}"#, true),
            (r#"{"state":{"$contains":"nish"}}"#, true),
            (r#"{"state":{"$contains":"n.sh"}}"#, false),
            (r#"{"tags":{"$all":["a","b"]}}"#, true),
            (r#"{"tags":{"$all":["a","z"]}}"#, false),
            (r#"{"tags":{"$size":2}}"#, true),
            (r#"{"state":{"$size":2}}"#, false),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap().passes(&run), expected, "{text}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        assert_eq!(parse("[]").unwrap_err(), Error::Shape);
        assert_eq!(parse(r#"{"$where":"x"}"#).unwrap_err(), Error::Operator("$where".into()));
        assert_eq!(parse(r#"{"a":{"$in":1}}"#).unwrap_err(), Error::List("$in".into()));
        assert_eq!(parse(r#"{"a":{"$regex":"("}}"#).unwrap_err(), Error::Pattern("(".into()));
        let deep = format!("{}{}{}", r#"{"$not":"#.repeat(50), "{}", "}".repeat(50));
        assert_eq!(parse(&deep).unwrap_err(), Error::Depth);
    }
}
