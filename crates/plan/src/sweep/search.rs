//! What a sweep tries next.
//!
//! Chance is an argument: `dice` gives numbers from 0 up to 1. The result has the form that clients put into a run's
//! config: `{"name": {"value": …}}`.

use super::bayes::{self, Trial};
use super::config::{Config, Method, Parameter, Shape};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// A grid larger than this is not listed; nobody runs as many.
const GRID_MAX: usize = 100_000;

/// A run that the sweep has given out: its parameters as they were given, and its metric if it has one yet.
#[derive(Clone, Debug)]
pub struct Tried {
    pub params: Value,
    pub outcome: Option<f64>,
}

/// The next parameters, or nothing when there is nothing more to try.
pub fn next(config: &Config, tried: &[Tried], dice: &mut dyn FnMut() -> f64) -> Option<Value> {
    let is_full = config.run_cap.is_some_and(|cap| tried.len() as u64 >= cap);
    if is_full {
        return None;
    }
    match config.method {
        Method::Custom => None,
        Method::Grid => {
            let is_new = |wanted: &Value| !tried.iter().any(|tried| tried.params == *wanted);
            grid(&config.parameters).into_iter().map(wrap).find(is_new)
        }
        Method::Random => Some(wrap(draw(&config.parameters, dice))),
        Method::Bayes => {
            let trials: Vec<Trial> = tried.iter().map(|tried| trial(config, tried)).collect();
            let chosen = bayes::next(&config.parameters, &trials, &mut || draw(&config.parameters, dice));
            Some(wrap(chosen))
        }
    }
}

fn trial(config: &Config, tried: &Tried) -> Trial {
    let values = tried.params.as_object().into_iter().flatten();
    let params = values.map(|(name, value)| (name.clone(), value["value"].clone())).collect();
    let loss = tried.outcome.zip(config.metric.as_ref()).map(|(outcome, metric)| metric.loss(outcome));
    Trial { params, loss: loss.filter(|loss| loss.is_finite()) }
}

/// How many runs a sweep will have, if that is known.
pub fn expected(config: &Config) -> Option<u64> {
    let grid = (config.method == Method::Grid).then(|| grid(&config.parameters).len() as u64);
    match (grid, config.run_cap) {
        (Some(grid), Some(cap)) => Some(grid.min(cap)),
        (grid, cap) => grid.or(cap),
    }
}

fn wrap(values: Map<String, Value>) -> Value {
    Value::Object(values.into_iter().map(|(name, value)| (name, json!({ "value": value }))).collect())
}

/// Every combination, the last parameter changing fastest.
fn grid(parameters: &BTreeMap<String, Parameter>) -> Vec<Map<String, Value>> {
    let mut points = vec![Map::new()];
    for (name, parameter) in parameters {
        let values = steps(parameter);
        let mut longer = Vec::new();
        for point in &points {
            for value in &values {
                if longer.len() >= GRID_MAX {
                    break;
                }
                let mut point = point.clone();
                point.insert(name.clone(), value.clone());
                longer.push(point);
            }
        }
        points = longer;
    }
    points
}

/// The values of a parameter that a grid visits; a range without steps has none.
fn steps(parameter: &Parameter) -> Vec<Value> {
    match parameter {
        Parameter::Constant(value) => vec![value.clone()],
        Parameter::Choice(choices) => choices.iter().map(|(value, _)| value.clone()).collect(),
        Parameter::Nested(inner) => grid(inner).into_iter().map(Value::Object).collect(),
        Parameter::Range(Shape::Integer { min, max }) => (*min..=*max).take(GRID_MAX).map(Value::from).collect(),
        Parameter::Range(Shape::Uniform { min, max, step: Some(step) }) if *step > 0.0 => {
            let count = ((max - min) / step).floor().clamp(0.0, GRID_MAX as f64) as usize;
            (0..=count).map(|at| Value::from(min + step * at as f64)).collect()
        }
        Parameter::Range(_) => Vec::new(),
    }
}

fn draw(parameters: &BTreeMap<String, Parameter>, dice: &mut dyn FnMut() -> f64) -> Map<String, Value> {
    parameters.iter().map(|(name, parameter)| (name.clone(), draw_one(parameter, dice))).collect()
}

fn draw_one(parameter: &Parameter, dice: &mut dyn FnMut() -> f64) -> Value {
    match parameter {
        Parameter::Constant(value) => value.clone(),
        Parameter::Nested(inner) => Value::Object(draw(inner, dice)),
        Parameter::Choice(choices) => {
            let total: f64 = choices.iter().map(|(_, weight)| weight).sum();
            let mut left = dice() * total;
            let hit = choices.iter().find(|(_, weight)| {
                left -= weight;
                left < 0.0
            });
            hit.or(choices.last()).map_or(Value::Null, |(value, _)| value.clone())
        }
        Parameter::Range(shape) => draw_number(*shape, dice),
    }
}

fn draw_number(shape: Shape, dice: &mut dyn FnMut() -> f64) -> Value {
    let between = |min: f64, max: f64, dice: &mut dyn FnMut() -> f64| min + (max - min) * dice();
    let stepped = |number: f64, step: Option<f64>| match step {
        Some(step) if step > 0.0 => (number / step).round() * step,
        _ => number,
    };
    let number = match shape {
        Shape::Integer { min, max } => {
            let span = (max - min) as f64 + 1.0;
            return Value::from(((dice() * span).floor() as i64).saturating_add(min).min(max));
        }
        Shape::Uniform { min, max, step } => stepped(between(min, max, dice), step),
        Shape::LogUniform { min, max, step } => stepped(between(min.ln(), max.ln(), dice).exp(), step),
        Shape::InverseLogUniform { min, max } => 1.0 / between((1.0 / max).ln(), (1.0 / min).ln(), dice).exp(),
        Shape::Normal { mean, deviation, step } => stepped(mean + deviation * normal(dice), step),
        Shape::LogNormal { mean, deviation, step } => stepped((mean + deviation * normal(dice)).exp(), step),
    };
    Value::from(number)
}

/// Box and Muller's way from two even numbers to a normal one.
fn normal(dice: &mut dyn FnMut() -> f64) -> f64 {
    let radius = (-2.0 * (1.0 - dice()).ln()).sqrt();
    radius * (std::f64::consts::TAU * dice()).cos()
}

#[cfg(test)]
mod tests {
    use super::super::config::read;
    use super::*;
    use proptest::prelude::*;

    fn config(method: &str, parameters: Value) -> Config {
        read(&json!({"method": method, "parameters": parameters})).unwrap()
    }

    // SWP-3
    #[test]
    fn a_grid_gives_every_combination_once_and_ends() {
        let config =
            config("grid", json!({"a": {"values": [1, 2, 3]}, "b": {"parameters": {"c": {"values": ["x", "y"]}}}}));
        let mut tried = Vec::new();
        while let Some(point) = next(&config, &tried, &mut || 0.0) {
            assert!(!tried.iter().any(|tried: &Tried| tried.params == point));
            tried.push(Tried { params: point, outcome: None });
        }
        assert_eq!(tried.len(), 6);
        assert_eq!(expected(&config), Some(6));
        assert_eq!(tried[1].params, json!({"a": {"value": 1}, "b": {"value": {"c": "y"}}}));
    }

    #[test]
    fn a_cap_ends_a_search_that_has_no_end() {
        let config = Config { run_cap: Some(2), ..config("random", json!({"a": {"min": 0.0, "max": 1.0}})) };
        let tried = vec![Tried { params: json!({}), outcome: None }; 2];
        assert!(next(&config, &tried[..1], &mut || 0.5).is_some());
        assert_eq!(next(&config, &tried, &mut || 0.5), None);
        assert_eq!(expected(&config), Some(2));
    }

    #[test]
    fn choices_follow_their_weights() {
        let config = config("random", json!({"a": {"values": ["rare", "often"], "probabilities": [0.1, 0.9]}}));
        let draw = |dice: f64| next(&config, &[], &mut || dice).unwrap()["a"]["value"].clone();
        assert_eq!((draw(0.05), draw(0.5), draw(0.999)), (json!("rare"), json!("often"), json!("often")));
    }

    proptest! {
        #[test]
        fn what_is_drawn_is_within_the_limits(dice in prop::collection::vec(0.0f64..1.0, 8)) {
            let config = config("random", json!({
                "i": {"min": -3, "max": 5}, "u": {"min": 0.5, "max": 1.5},
                "l": {"distribution": "log_uniform_values", "min": 1e-5, "max": 1e-1},
                "v": {"distribution": "inv_log_uniform_values", "min": 0.5, "max": 2.0},
            }));
            let mut rolls = dice.iter().cycle().copied();
            let point = next(&config, &[], &mut || rolls.next().unwrap()).unwrap();
            let number = |name: &str| point[name]["value"].as_f64().unwrap();
            prop_assert!((-3.0..=5.0).contains(&number("i")) && point["i"]["value"].is_i64());
            prop_assert!((0.5..=1.5).contains(&number("u")));
            prop_assert!((0.99e-5..=1.01e-1).contains(&number("l")));
            prop_assert!((0.499..=2.001).contains(&number("v")));
        }
    }
}
