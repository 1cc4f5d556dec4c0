//! Template variables: `{{name}}` in a queue's config, with a type and limits for what a submitter may put there.
//!
//! `declare` reads the variables of a queue and `check` looks at its config, both when it is saved. `values` judges what a
//! submitter gives, and tells every problem at once; what it lets through, `render` can always put in place. `{{= n + 1}}`
//! is a sum of them.

use super::ordered::{Members, compact};
use super::{expression, place};
use serde::Deserialize;
use serde_json::{Map, Number, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::schema::Shape;
use volley_api::kube::time::parse_duration;

/// As a queue names them.
pub const TYPES: [&str; 6] = ["string", "integer", "number", "boolean", "quantity", "duration"];
/// A queue with more variables than this is a mistake.
const VARIABLES_MAX: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    String,
    Integer,
    Number,
    Boolean,
    /// A text or a number that Kubernetes takes for an amount: `500m`, `4Gi`.
    Quantity,
    /// A text: `90s`, `1h30m`.
    Duration,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Quantity => "quantity, such as 500m or 4Gi",
            Kind::Duration => "duration, such as 90s or 1h30m",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Kind::String => value.is_string(),
            Kind::Integer => whole(value).is_some(),
            Kind::Number => value.is_number(),
            Kind::Boolean => value.is_boolean(),
            Kind::Quantity => value.is_number() || self.amount(value).is_some(),
            Kind::Duration => self.amount(value).is_some(),
        }
    }

    /// What limits are held against: the number, the units of a quantity (bytes, cores), the seconds of a duration.
    fn amount(self, value: &Value) -> Option<f64> {
        match (self, value) {
            (Kind::Quantity, Value::String(text)) => Some(Quantity::parse(text).ok()?.milli_value() as f64 / 1000.0),
            (Kind::Duration, Value::String(text)) => Some(parse_duration(text)?.as_secs_f64()),
            (Kind::Duration, _) => None,
            _ => value.as_f64(),
        }
    }
}

/// The part of JSON Schema that a variable can have.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Schema {
    #[serde(rename = "type")]
    pub kind: Kind,
    pub minimum: Option<f64>,
    pub maximum: Option<f64>,
    #[serde(rename = "enum")]
    pub choices: Option<Vec<Value>>,
    pub default: Option<Value>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    pub name: String,
    pub description: Option<String>,
    pub schema: Schema,
    /// The schema as it was submitted, without blanks.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The declaration itself is wrong.
    Declaration,
    Unknown,
    Type,
    Minimum,
    Maximum,
    Choice,
    Missing,
}

/// One thing that is wrong, in a sentence for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    pub variable: String,
    pub code: Code,
    pub sentence: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

fn problem(variable: &str, code: Code, sentence: String) -> Problem {
    Problem { variable: variable.to_owned(), code, sentence }
}

#[derive(Deserialize)]
struct Declared<'a> {
    #[serde(borrow)]
    schema: &'a serde_json::value::RawValue,
    description: Option<String>,
}

/// The variables that a queue declares: JSON text `{"name": {"schema": {…}, "description": …}}`.
pub fn declare(text: &str) -> Result<Vec<Variable>, Vec<Problem>> {
    let wrong = |name: &str, why: String| problem(name, Code::Declaration, why);
    let members: Option<Members> = serde_json::from_str(text)
        .map_err(|error| vec![wrong("", format!("the template variables are not a JSON object: {error}"))])?;
    let members = members.unwrap_or_default().0;
    if members.len() > VARIABLES_MAX {
        return Err(vec![wrong("", format!("there are more than {VARIABLES_MAX} template variables"))]);
    }
    let mut variables = Vec::new();
    let mut problems = Vec::new();
    for (name, raw) in members {
        match declared(&name, raw.get()) {
            Ok(variable) => {
                problems.extend(unsound(&variable));
                variables.push(variable);
            }
            Err(why) => problems.push(wrong(&name, format!("template variable `{name}` is declared wrongly: {why}"))),
        }
    }
    if problems.is_empty() { Ok(variables) } else { Err(problems) }
}

fn declared(name: &str, text: &str) -> Result<Variable, String> {
    if !is_name(name) {
        return Err("a name is a letter or `_`, then letters, digits, `_` and `-`".to_owned());
    }
    let declared: Declared<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let schema = serde_json::from_str(declared.schema.get()).map_err(|error| error.to_string())?;
    let text = compact(declared.schema.get());
    Ok(Variable { name: name.to_owned(), description: declared.description, schema, text })
}

/// A default that its own limits refuse, or limits that leave nothing, would only fail when somebody submits.
fn unsound(variable: &Variable) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let (Some(minimum), Some(maximum)) = (variable.schema.minimum, variable.schema.maximum)
        && minimum > maximum
    {
        let why =
            format!("template variable `{}` has a minimum of {minimum} above its maximum of {maximum}", variable.name);
        problems.push(problem(&variable.name, Code::Declaration, why));
    }
    if let Some(default) = &variable.schema.default
        && let Err(found) = judge(variable, default)
    {
        let why = format!("the default of template variable `{}` is not allowed: {found}", variable.name);
        problems.push(problem(&variable.name, Code::Declaration, why));
    }
    problems
}

/// What is wrong with a config as a template: tokens that nobody declared, tokens in keys, and sums that are none.
pub fn check(config: &Value, variables: &[Variable]) -> Vec<Problem> {
    let mut used = BTreeSet::new();
    let mut in_keys = BTreeSet::new();
    let mut sums = BTreeSet::new();
    gather(config, &mut used, &mut in_keys, &mut sums);
    let mut problems = Vec::new();
    for sum in sums {
        match expression::names(&sum) {
            Err(why) => {
                problems.push(problem("", Code::Declaration, format!("`{{{{={sum}}}}}` cannot be reckoned: {why}")))
            }
            Ok(names) => {
                problems.extend(names.iter().filter_map(|name| uncountable(name, &sum, variables)));
                used.extend(names);
            }
        }
    }
    for name in used {
        if !variables.iter().any(|variable| variable.name == name) {
            let why = format!("the config uses `{{{{{name}}}}}`, but no template variable `{name}` is declared");
            problems.push(problem(&name, Code::Unknown, why));
        }
    }
    for name in in_keys {
        let why = format!("`{{{{{name}}}}}` is used as a key of the config; only values can be template variables");
        problems.push(problem(&name, Code::Declaration, why));
    }
    problems
}

/// A sum counts with whole numbers.
fn uncountable(name: &str, sum: &str, variables: &[Variable]) -> Option<Problem> {
    let variable = variables.iter().find(|variable| variable.name == name)?;
    let why =
        format!("`{{{{={sum}}}}}` counts with `{name}`, which is of type {}, not integer", variable.schema.kind.name());
    (variable.schema.kind != Kind::Integer).then(|| problem(name, Code::Declaration, why))
}

fn gather(value: &Value, used: &mut BTreeSet<String>, in_keys: &mut BTreeSet<String>, sums: &mut BTreeSet<String>) {
    match value {
        Value::String(text) => {
            for part in parts(text) {
                match part {
                    Part::Text(_) => (),
                    Part::Token(name) => drop(used.insert(name.to_owned())),
                    Part::Sum(sum) => drop(sums.insert(sum.to_owned())),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, used, in_keys, sums)),
        Value::Object(members) => {
            for (key, value) in members {
                for part in parts(key) {
                    match part {
                        Part::Text(_) => (),
                        Part::Token(name) | Part::Sum(name) => drop(in_keys.insert(name.to_owned())),
                    }
                }
                gather(value, used, in_keys, sums);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// The value of every variable: what was given, or its default. All problems are told together.
pub fn values(variables: &[Variable], given: &Map<String, Value>) -> Result<BTreeMap<String, Value>, Vec<Problem>> {
    let mut problems = Vec::new();
    for name in given.keys() {
        if !variables.iter().any(|variable| variable.name == *name) {
            problems.push(problem(name, Code::Unknown, format!("the queue has no template variable `{name}`")));
        }
    }
    let mut values = BTreeMap::new();
    for variable in variables {
        match given.get(&variable.name).or(variable.schema.default.as_ref()) {
            None => {
                let why = format!("template variable `{}` has no default and needs a value", variable.name);
                problems.push(problem(&variable.name, Code::Missing, why));
            }
            Some(value) => match judge(variable, value) {
                Ok(value) => drop(values.insert(variable.name.clone(), value)),
                Err(found) => problems.push(found),
            },
        }
    }
    if problems.is_empty() { Ok(values) } else { Err(problems) }
}

/// Values to show a queue with before anybody has chosen some: what is given, else the default, else the least that is allowed.
pub fn samples(variables: &[Variable], given: &Map<String, Value>) -> Map<String, Value> {
    let sample = |Variable { name, schema, .. }: &Variable| {
        let choice = || schema.choices.as_ref().and_then(|choices| choices.first().cloned());
        let least = schema.minimum.or(schema.maximum).unwrap_or(1.0);
        let plain = || match schema.kind {
            Kind::String => Value::from(name.as_str()),
            #[expect(clippy::cast_possible_truncation, reason = "a limit beyond 2^63 is cut to it")]
            Kind::Integer => Value::from(least.ceil() as i64),
            Kind::Number => Value::from(least),
            Kind::Boolean => Value::from(false),
            Kind::Quantity => Value::from(least.to_string()),
            Kind::Duration => Value::from(format!("{least}s")),
        };
        let value = given.get(name).or(schema.default.as_ref()).cloned().or_else(choice).unwrap_or_else(plain);
        (name.clone(), value)
    };
    let unknown = given.iter().map(|(name, value)| (name.clone(), value.clone()));
    unknown.chain(variables.iter().map(sample)).collect()
}

/// What somebody wrote for a variable, as what its type asks for; what is not of that type stays a text, and is refused as one.
pub fn worded(variables: &[Variable], name: &str, text: &str) -> Value {
    let kind = variables.iter().find(|variable| variable.name == name).map(|variable| variable.schema.kind);
    let read = match kind {
        None | Some(Kind::String | Kind::Quantity | Kind::Duration) => None,
        Some(Kind::Integer | Kind::Number | Kind::Boolean) => serde_json::from_str::<Value>(text).ok(),
    };
    read.filter(|value| !value.is_object() && !value.is_array()).unwrap_or_else(|| Value::from(text))
}

/// The value as it will be put in place, or what is wrong with it.
fn judge(variable: &Variable, value: &Value) -> Result<Value, Problem> {
    let Variable { name, schema, .. } = variable;
    let wrong =
        |code, why: String| Err(problem(name, code, format!("template variable `{name}` {why}, but got {value}")));
    if !schema.kind.fits(value) {
        return wrong(Code::Type, format!("must be of type {}", schema.kind.name()));
    }
    let amount = schema.kind.amount(value);
    if let (Some(minimum), Some(number)) = (schema.minimum, amount)
        && number < minimum
    {
        return wrong(Code::Minimum, format!("must be at least {minimum}"));
    }
    if let (Some(maximum), Some(number)) = (schema.maximum, amount)
        && number > maximum
    {
        return wrong(Code::Maximum, format!("must be at most {maximum}"));
    }
    if let Some(choices) = &schema.choices
        && !choices.iter().any(|choice| is_same(choice, value))
    {
        let told: Vec<String> = choices.iter().map(Value::to_string).collect();
        return wrong(Code::Choice, format!("must be one of {}", told.join(", ")));
    }
    // 2.0 given for an integer is 2: Kubernetes refuses 2.0 where it wants a number of replicas.
    Ok(match (schema.kind, whole(value)) {
        (Kind::Integer, Some(number)) => Value::Number(number),
        _ => value.clone(),
    })
}

fn is_same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|number| other.as_f64() == Some(number))
}

/// The number as an integer, if it is one.
fn whole(value: &Value) -> Option<Number> {
    let number = value.as_number()?;
    if number.is_i64() || number.is_u64() {
        return Some(number.clone());
    }
    let float = number.as_f64()?;
    // Above 2^53 a float no longer says which integer it means.
    let is_whole = float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0;
    is_whole.then(|| Number::from(float as i64))
}

/// Puts values in place. A text that is one token takes the value itself, as a text where its kind wants one; in a longer
/// text it is written out.
pub fn render(config: &Value, values: &BTreeMap<String, Value>) -> Value {
    render_at(config, &Shape::Any, values)
}

fn render_at(config: &Value, place: &Shape, values: &BTreeMap<String, Value>) -> Value {
    match config {
        Value::String(text) => match render_text(text, values) {
            value @ (Value::Number(_) | Value::Bool(_)) if place::is_text(place) => Value::String(written(&value)),
            value => value,
        },
        Value::Array(items) => {
            let inner = place::of_item(place);
            Value::Array(items.iter().map(|item| render_at(item, &inner, values)).collect())
        }
        Value::Object(members) => {
            let shape = place::of_object(place, members);
            let member = |(key, value): (&String, &Value)| {
                (key.clone(), render_at(value, &place::of_member(&shape, key), values))
            };
            Value::Object(members.iter().map(member).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => config.clone(),
    }
}

fn render_text(text: &str, values: &BTreeMap<String, Value>) -> Value {
    let parts = parts(text);
    if let [Part::Token(name)] = parts[..]
        && let Some(value) = values.get(name)
    {
        return value.clone();
    }
    if let [Part::Sum(sum)] = parts[..]
        && let Some(value) = expression::value(sum, values)
    {
        return value.into();
    }
    let mut out = String::with_capacity(text.len());
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Sum(sum) => match expression::value(sum, values) {
                Some(value) => out.push_str(&value.to_string()),
                None => out.push_str(&format!("{{{{={sum}}}}}")),
            },
            Part::Token(name) => match values.get(name) {
                Some(value) => out.push_str(&written(value)),
                // A queue from before its variables were checked.
                None => out.push_str(&format!("{{{{{name}}}}}")),
            },
        }
    }
    Value::String(out)
}

/// A value inside a text. JSON writes 1e21 and 2.0 where people write digits, and 2.
fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(|| number.to_string(), |float| float.to_string())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[derive(Debug, PartialEq)]
enum Part<'a> {
    Text(&'a str),
    Token(&'a str),
    /// What is behind the `=`.
    Sum(&'a str),
}

/// A text cut at its tokens. `{{{{` is a plain `{{`; braces around anything but a name or a sum are text.
fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut begin, mut at) = (0, 0);
    while let Some(found) = text[at..].find("{{") {
        let open = at + found;
        let inside = &text[open + 2..];
        if inside.starts_with("{{") {
            parts.push(Part::Text(&text[begin..open + 2]));
            at = open + 4;
            begin = at;
            continue;
        }
        let token = inside.find("}}").map(|end| (inside[..end].trim_matches(' '), open + 2 + end + 2));
        match token {
            Some((inside, end)) if is_name(inside) || inside.starts_with('=') => {
                parts.push(Part::Text(&text[begin..open]));
                parts.push(inside.strip_prefix('=').map_or(Part::Token(inside), Part::Sum));
                at = end;
                begin = end;
            }
            _ => at = open + 2,
        }
    }
    parts.push(Part::Text(&text[begin..]));
    parts.retain(|part| *part != Part::Text(""));
    parts
}

fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    let is_begun = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    is_begun && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
