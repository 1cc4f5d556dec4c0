//! A sweep's config, read from the YAML that a client sends.

use super::stop::{self, Hyperband};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Nested parameters deeper than this are a mistake.
const DEPTH_MAX: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Grid,
    Random,
    Bayes,
    /// Somebody else searches; this server gives no runs.
    Custom,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub method: Method,
    pub program: Option<String>,
    /// No more runs than this.
    pub run_cap: Option<u64>,
    pub metric: Option<Metric>,
    pub early: Option<Hyperband>,
    pub parameters: BTreeMap<String, Parameter>,
}

impl Config {
    /// Whether what to try next depends on what runs have come to.
    pub fn heeds_outcomes(&self) -> bool {
        match self.method {
            Method::Bayes => true,
            Method::Grid | Method::Random | Method::Custom => false,
        }
    }
}

/// What a sweep searches for.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    pub name: String,
    pub is_maximized: bool,
}

impl Metric {
    /// The value as a loss, of which less is better; the same function leads back.
    pub fn loss(&self, value: f64) -> f64 {
        if self.is_maximized { -value } else { value }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    Constant(Value),
    /// One of these, each as likely as its weight.
    Choice(Vec<(Value, f64)>),
    Range(Shape),
    Nested(BTreeMap<String, Parameter>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Integer { min: i64, max: i64 },
    Uniform { min: f64, max: f64, step: Option<f64> },
    LogUniform { min: f64, max: f64, step: Option<f64> },
    InverseLogUniform { min: f64, max: f64 },
    Normal { mean: f64, deviation: f64, step: Option<f64> },
    LogNormal { mean: f64, deviation: f64, step: Option<f64> },
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Error {
    #[error("the sweep's config is not a mapping")]
    Shape,
    #[error("the sweep's method `{0}` is not one of grid, random, bayes and custom")]
    Method(String),
    #[error("the sweep's parameter `{0}` has neither a value nor values nor a distribution with its limits")]
    Parameter(String),
    #[error("the sweep's parameter `{0}` is nested too deeply")]
    Depth(String),
}

pub fn read(config: &Value) -> Result<Config, Error> {
    let config = config.as_object().ok_or(Error::Shape)?;
    let method = match config.get("method").and_then(Value::as_str).unwrap_or("custom") {
        "grid" => Method::Grid,
        "random" => Method::Random,
        "bayes" => Method::Bayes,
        "custom" => Method::Custom,
        other => return Err(Error::Method(other.to_owned())),
    };
    let empty = Map::new();
    let parameters = config.get("parameters").and_then(Value::as_object).unwrap_or(&empty);
    Ok(Config {
        method,
        program: config.get("program").and_then(Value::as_str).map(str::to_owned),
        run_cap: config.get("run_cap").and_then(Value::as_u64),
        metric: config.get("metric").and_then(metric),
        early: stop::read(config),
        parameters: read_parameters(parameters, 0)?,
    })
}

fn metric(metric: &Value) -> Option<Metric> {
    let name = metric.get("name")?.as_str()?.to_owned();
    Some(Metric { name, is_maximized: metric.get("goal").and_then(Value::as_str) == Some("maximize") })
}

fn read_parameters(parameters: &Map<String, Value>, depth: usize) -> Result<BTreeMap<String, Parameter>, Error> {
    let mut read = BTreeMap::new();
    for (name, value) in parameters {
        if depth > DEPTH_MAX {
            return Err(Error::Depth(name.clone()));
        }
        let wrong = || Error::Parameter(name.clone());
        let parameter = read_parameter(value.as_object().ok_or_else(wrong)?, depth)?.ok_or_else(wrong)?;
        read.insert(name.clone(), parameter);
    }
    Ok(read)
}

fn read_parameter(object: &Map<String, Value>, depth: usize) -> Result<Option<Parameter>, Error> {
    if let Some(value) = object.get("value") {
        return Ok(Some(Parameter::Constant(value.clone())));
    }
    if let Some(inner) = object.get("parameters").and_then(Value::as_object) {
        return Ok(Some(Parameter::Nested(read_parameters(inner, depth + 1)?)));
    }
    if let Some(values) = object.get("values").and_then(Value::as_array) {
        let weights = object.get("probabilities").and_then(Value::as_array);
        let weight = |at: usize| weights.and_then(|weights| weights.get(at)?.as_f64()).unwrap_or(1.0).max(0.0);
        let choices: Vec<_> = values.iter().enumerate().map(|(at, value)| (value.clone(), weight(at))).collect();
        return Ok((!choices.is_empty()).then_some(Parameter::Choice(choices)));
    }
    Ok(shape(object).map(Parameter::Range))
}

fn shape(object: &Map<String, Value>) -> Option<Shape> {
    let number = |key: &str| object.get(key).and_then(Value::as_f64);
    let whole = |key: &str| object.get(key).and_then(Value::as_i64);
    let limits = || number("min").zip(number("max")).filter(|(min, max)| min <= max);
    let positive = || limits().filter(|(min, _)| *min > 0.0);
    let step = number("q");
    let mean = number("mu").unwrap_or(0.0);
    let deviation = number("sigma").unwrap_or(1.0);
    let named = object.get("distribution").and_then(Value::as_str);
    let integers = whole("min").zip(whole("max")).filter(|(min, max)| min <= max);
    Some(match named {
        None | Some("int_uniform") if integers.is_some() => integers.map(|(min, max)| Shape::Integer { min, max })?,
        None | Some("uniform") => limits().map(|(min, max)| Shape::Uniform { min, max, step: None })?,
        Some("q_uniform") => limits().map(|(min, max)| Shape::Uniform { min, max, step: step.or(Some(1.0)) })?,
        // The limits of these two are exponents.
        Some("log_uniform") => {
            limits().map(|(min, max)| Shape::LogUniform { min: min.exp(), max: max.exp(), step: None })?
        }
        Some("q_log_uniform") => {
            limits().map(|(min, max)| Shape::LogUniform { min: min.exp(), max: max.exp(), step: step.or(Some(1.0)) })?
        }
        Some("log_uniform_values") => positive().map(|(min, max)| Shape::LogUniform { min, max, step: None })?,
        Some("q_log_uniform_values") => {
            positive().map(|(min, max)| Shape::LogUniform { min, max, step: step.or(Some(1.0)) })?
        }
        Some("inv_log_uniform_values") => positive().map(|(min, max)| Shape::InverseLogUniform { min, max })?,
        Some("normal") => Shape::Normal { mean, deviation, step: None },
        Some("q_normal") => Shape::Normal { mean, deviation, step: step.or(Some(1.0)) },
        Some("log_normal") => Shape::LogNormal { mean, deviation, step: None },
        Some("q_log_normal") => Shape::LogNormal { mean, deviation, step: step.or(Some(1.0)) },
        Some(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameters_of_every_kind_are_read() {
        let config = read(&json!({
            "method": "random", "program": "train.py", "run_cap": 3,
            "parameters": {
                "a": {"value": 1}, "b": {"values": [1, 2], "probabilities": [0.1, 0.9]}, "c": {"min": 1, "max": 4},
                "d": {"min": 0.0, "max": 1.0}, "e": {"distribution": "log_uniform_values", "min": 0.1, "max": 1.0},
                "f": {"parameters": {"g": {"value": "x"}}}, "h": {"distribution": "normal", "mu": 2, "sigma": 0.5}
            }
        }))
        .unwrap();
        assert_eq!(
            (config.method, config.run_cap, config.program.as_deref()),
            (Method::Random, Some(3), Some("train.py"))
        );
        assert_eq!(config.parameters["b"], Parameter::Choice(vec![(json!(1), 0.1), (json!(2), 0.9)]));
        assert_eq!(config.parameters["c"], Parameter::Range(Shape::Integer { min: 1, max: 4 }));
        assert_eq!(config.parameters["d"], Parameter::Range(Shape::Uniform { min: 0.0, max: 1.0, step: None }));
        assert!(matches!(&config.parameters["f"], Parameter::Nested(inner) if inner.len() == 1));
    }

    #[test]
    fn what_cannot_be_searched_is_refused() {
        assert_eq!(read(&json!([])), Err(Error::Shape));
        assert_eq!(read(&json!({"method": "magic"})), Err(Error::Method("magic".into())));
        for wrong in [
            json!({}),
            json!(1),
            json!({"values": []}),
            json!({"min": 2.5, "max": 1.5}),
            json!({"distribution": "odd"}),
        ] {
            assert_eq!(read(&json!({"method": "grid", "parameters": {"x": wrong}})), Err(Error::Parameter("x".into())));
        }
    }
}
