//! Selectors: which objects a list, a watch, a service or a controller means (spec K 8).
//!
//! `LabelSelector` comes from query text or from a `metav1.LabelSelector` object and prints back as text;
//! `FieldSelector` and the fields of each kind are in `field`.

mod field;
mod parse;

pub use field::{FieldSelector, field_value, fields, unknown_field_message};

use serde_json::{Map, Value};
use std::fmt;

/// Why a selector cannot be read; the text is upstream's and goes into a 400 answer as it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

/// One condition on one label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    key: String,
    operator: Operator,
    /// Sorted, without duplicates.
    values: Vec<String>,
}

/// A set of labels, given as conditions that must all hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSelector {
    /// Sorted by key; `None` selects nothing at all.
    requirements: Option<Vec<Requirement>>,
}

impl LabelSelector {
    /// Selects every object, labelled or not.
    pub fn everything() -> Self {
        LabelSelector { requirements: Some(Vec::new()) }
    }

    /// Selects no object.
    pub fn nothing() -> Self {
        LabelSelector { requirements: None }
    }

    /// Reads the text form: `a,!b,c=d,e in (f,g),h>1`.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        parse::label_selector(text).map(Self::of)
    }

    /// Reads a `metav1.LabelSelector`. An absent one selects nothing, an empty one everything.
    pub fn from_object(selector: Option<&Value>) -> Result<Self, SelectorError> {
        let Some(selector) = selector.filter(|value| !value.is_null()) else { return Ok(Self::nothing()) };
        let mut requirements = Vec::new();
        for (key, value) in selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten() {
            let values = vec![value.as_str().unwrap_or_default().to_owned()];
            requirements.push(Requirement::new(key, Operator::Equals, values)?);
        }
        for expression in selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten() {
            requirements.push(Requirement::from_expression(expression)?);
        }
        Ok(Self::of(requirements))
    }

    /// Reads a plain map of labels (the selector of a Service): empty selects everything.
    pub fn from_labels(labels: Option<&Map<String, Value>>) -> Self {
        let equals = |(key, value): (&String, &Value)| Requirement {
            key: key.clone(),
            operator: Operator::Equals,
            values: vec![value.as_str().unwrap_or_default().to_owned()],
        };
        Self::of(labels.into_iter().flatten().map(equals).collect())
    }

    fn of(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        LabelSelector { requirements: Some(requirements) }
    }

    /// True when no label is asked for, so that every object matches.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether an object with these `metadata.labels` is selected.
    pub fn matches(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.matches_with(|key| labels.and_then(|map| map.get(key)).and_then(Value::as_str))
    }

    /// Whether an object is selected whose labels are looked up by `label`.
    pub fn matches_with<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        match &self.requirements {
            Some(requirements) => requirements.iter().all(|requirement| requirement.holds(label(&requirement.key))),
            None => false,
        }
    }
}

impl Requirement {
    /// Checks key, operator and values as upstream does; all problems are reported at once.
    fn new(key: &str, operator: Operator, mut values: Vec<String>) -> Result<Self, SelectorError> {
        values.sort();
        values.dedup();
        let problems = parse::problems(key, operator, &values);
        match problems.as_slice() {
            [] => Ok(Requirement { key: key.to_owned(), operator, values }),
            [one] => Err(SelectorError(one.clone())),
            many => Err(SelectorError(format!("[{}]", many.join(", ")))),
        }
    }

    fn from_expression(expression: &Value) -> Result<Self, SelectorError> {
        let operator = match super::text(expression, "operator") {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => return Err(SelectorError(format!("\"{other}\" is not a valid label selector operator"))),
        };
        let values = expression.get("values").and_then(Value::as_array).into_iter().flatten();
        let values = values.filter_map(Value::as_str).map(str::to_owned).collect();
        Self::new(super::text(expression, "key"), operator, values)
    }

    fn holds(&self, label: Option<&str>) -> bool {
        let has = |label: &str| self.values.iter().any(|value| value == label);
        let compare = |test: fn(i64, i64) -> bool| {
            let wanted = self.values.first().and_then(|value| value.parse().ok());
            label.and_then(|label| label.parse().ok()).zip(wanted).is_some_and(|(label, wanted)| test(label, wanted))
        };
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => label.is_some_and(has),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(has),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => compare(|label, wanted| label > wanted),
            Operator::LessThan => compare(|label, wanted| label < wanted),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().flatten().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{requirement}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
