//! Searching with a model of what was found: a Gaussian process over the parameters, and the point from which it
//! expects the most improvement.
//!
//! Points are drawn as random search draws them, so whatever is chosen is within the limits. Runs that have not ended
//! count as average, so that several agents do not all try the same point.

use super::config::{Parameter, Shape};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Fewer outcomes than this say nothing; until then points are drawn at random.
const OUTCOMES_MIN: usize = 3;
/// The model costs the cube of this; older trials are left out.
const TRIALS_MAX: usize = 200;
/// How many points are drawn to choose from.
const CANDIDATES: usize = 400;
/// How far apart points must be to say little of each other, as parts of the whole range.
const SCALES: [f64; 4] = [0.1, 0.2, 0.4, 0.8];
/// Training is never quite the same twice.
const NOISE: f64 = 1e-3;

/// One run of a sweep: its parameters by name, and how it ended if it did; less is better.
#[derive(Clone, Debug)]
pub struct Trial {
    pub params: Map<String, Value>,
    pub loss: Option<f64>,
}

type Draw<'a> = dyn FnMut() -> Map<String, Value> + 'a;

pub fn next(parameters: &BTreeMap<String, Parameter>, trials: &[Trial], draw: &mut Draw<'_>) -> Map<String, Value> {
    let known = trials.iter().filter(|trial| trial.loss.is_some()).count();
    if known < OUTCOMES_MIN {
        return draw();
    }
    let trials = &trials[trials.len().saturating_sub(TRIALS_MAX)..];
    let points: Vec<Vec<f64>> = trials.iter().map(|trial| coordinates(parameters, &trial.params)).collect();
    let losses = standardized(trials);
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let Some(model) = Model::fit(points, &losses) else {
        return draw();
    };
    let mut chosen = draw();
    let mut most = f64::NEG_INFINITY;
    for _ in 0..CANDIDATES {
        let candidate = draw();
        let (mean, deviation) = model.predict(&coordinates(parameters, &candidate));
        let gain = improvement(best, mean, deviation);
        if gain > most {
            (most, chosen) = (gain, candidate);
        }
    }
    chosen
}

/// Losses around zero with a deviation of one; what is not known yet is zero.
fn standardized(trials: &[Trial]) -> Vec<f64> {
    let known: Vec<f64> = trials.iter().filter_map(|trial| trial.loss).collect();
    let count = known.len().max(1) as f64;
    let mean = known.iter().sum::<f64>() / count;
    let deviation = (known.iter().map(|loss| (loss - mean).powi(2)).sum::<f64>() / count).sqrt().max(1e-9);
    trials.iter().map(|trial| trial.loss.map_or(0.0, |loss| (loss - mean) / deviation)).collect()
}

/// Where a point lies in the unit cube; a choice without an order has one coordinate for each of its values.
fn coordinates(parameters: &BTreeMap<String, Parameter>, values: &Map<String, Value>) -> Vec<f64> {
    let mut point = Vec::new();
    for (name, parameter) in parameters {
        let value = values.get(name).unwrap_or(&Value::Null);
        match parameter {
            Parameter::Constant(_) => (),
            Parameter::Nested(inner) => {
                let empty = Map::new();
                point.extend(coordinates(inner, value.as_object().unwrap_or(&empty)));
            }
            Parameter::Choice(choices) => {
                let is_here = |choice: &Value| if choice == value { 1.0 } else { 0.0 };
                point.extend(choices.iter().map(|(choice, _)| is_here(choice)));
            }
            Parameter::Range(shape) => point.push(part(*shape, value.as_f64().unwrap_or(0.0))),
        }
    }
    point
}

fn part(shape: Shape, value: f64) -> f64 {
    let along = |min: f64, max: f64, value: f64| if max > min { (value - min) / (max - min) } else { 0.5 };
    let spread = |mean: f64, deviation: f64, value: f64| 0.5 + (value - mean) / (6.0 * deviation.max(1e-12));
    let log = |value: f64| value.max(f64::MIN_POSITIVE).ln();
    let part = match shape {
        Shape::Integer { min, max } => along(min as f64, max as f64, value),
        Shape::Uniform { min, max, .. } => along(min, max, value),
        Shape::LogUniform { min, max, .. } => along(log(min), log(max), log(value)),
        Shape::InverseLogUniform { min, max } => along(log(1.0 / max), log(1.0 / min), log(1.0 / value)),
        Shape::Normal { mean, deviation, .. } => spread(mean, deviation, value),
        Shape::LogNormal { mean, deviation, .. } => spread(mean, deviation, log(value)),
    };
    part.clamp(0.0, 1.0)
}

/// A Gaussian process with a Matérn 5/2 kernel.
struct Model {
    points: Vec<Vec<f64>>,
    scale: f64,
    factor: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

impl Model {
    /// The model, with the length scale under which what was found is likeliest.
    fn fit(points: Vec<Vec<f64>>, losses: &[f64]) -> Option<Model> {
        let dimensions = points.first()?.len().max(1) as f64;
        let mut best: Option<(f64, Model)> = None;
        for scale in SCALES.map(|scale| scale * dimensions.sqrt()) {
            let Some(factor) = cholesky(&points, scale) else {
                continue;
            };
            let half = forward(&factor, losses);
            let likelihood = -0.5 * half.iter().map(|x| x * x).sum::<f64>()
                - factor.iter().enumerate().map(|(at, row)| row[at].ln()).sum::<f64>();
            if best.as_ref().is_none_or(|(known, _)| likelihood > *known) {
                let weights = backward(&factor, &half);
                best = Some((likelihood, Model { points: points.clone(), scale, factor, weights }));
            }
        }
        best.map(|(_, model)| model)
    }

    fn predict(&self, point: &[f64]) -> (f64, f64) {
        let near: Vec<f64> = self.points.iter().map(|known| kernel(known, point, self.scale)).collect();
        let mean = near.iter().zip(&self.weights).map(|(near, weight)| near * weight).sum();
        let explained: f64 = forward(&self.factor, &near).iter().map(|x| x * x).sum();
        (mean, (1.0 - explained).max(1e-12).sqrt())
    }
}

fn kernel(one: &[f64], other: &[f64], scale: f64) -> f64 {
    let distance = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt() / scale;
    let x = 5f64.sqrt() * distance;
    (1.0 + x + x * x / 3.0) * (-x).exp()
}

/// The lower triangle whose square is the kernel of all points; nothing if rounding makes that impossible.
fn cholesky(points: &[Vec<f64>], scale: f64) -> Option<Vec<Vec<f64>>> {
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(points.len());
    for (i, point) in points.iter().enumerate() {
        let mut row = vec![0.0; i + 1];
        for j in 0..=i {
            let other = if j == i { &row } else { &factor[j] };
            let known: f64 = (0..j).map(|k| row[k] * other[k]).sum();
            let left = kernel(point, &points[j], scale) + if i == j { NOISE } else { 0.0 } - known;
            row[j] = if i == j { left.sqrt() } else { left / factor[j][j] };
        }
        row[i].is_finite().then_some(())?;
        factor.push(row);
    }
    Some(factor)
}

fn forward(factor: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut solved: Vec<f64> = Vec::with_capacity(right.len());
    for (i, row) in factor.iter().enumerate() {
        let known: f64 = (0..i).map(|k| row[k] * solved[k]).sum();
        solved.push((right[i] - known) / row[i]);
    }
    solved
}

fn backward(factor: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let mut solved = vec![0.0; right.len()];
    for i in (0..right.len()).rev() {
        let known: f64 = (i + 1..right.len()).map(|k| factor[k][i] * solved[k]).sum();
        solved[i] = (right[i] - known) / factor[i][i];
    }
    solved
}

/// How much better than the best so far a point is expected to be.
fn improvement(best: f64, mean: f64, deviation: f64) -> f64 {
    let z = (best - mean) / deviation;
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    (best - mean) * normal_below(z) + deviation * density
}

/// The part of the normal distribution below `z`, to seven digits (Abramowitz and Stegun, 26.2.17).
fn normal_below(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, part| (sum + part) * t);
    let above = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * sum;
    if z >= 0.0 { 1.0 - above } else { above }
}

#[cfg(test)]
mod tests {
    use super::super::config::read;
    use super::super::search;
    use super::*;
    use serde_json::json;

    #[test]
    fn the_normal_distribution_is_right_where_it_is_known() {
        for (z, part) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9)] {
            assert!((normal_below(z) - part).abs() < 1e-6, "{z}");
        }
    }

    // SWP-3
    #[test]
    fn a_model_finds_a_valley_in_fewer_runs_than_chance_would_need() {
        let sweep = json!({"method": "bayes", "metric": {"name": "loss", "goal": "minimize"}, "parameters": {
            "x": {"min": 0.0, "max": 1.0}, "y": {"min": 0.0, "max": 1.0}, "kind": {"values": ["a", "b"]}}});
        let config = read(&sweep).unwrap();
        let mut seed = 7u64;
        let mut dice = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 11) as f64 / (1u64 << 53) as f64
        };
        let mut trials = Vec::new();
        for _ in 0..30 {
            let point = search::next(&config, &trials, &mut dice).unwrap();
            let number = |name: &str| point[name]["value"].as_f64().unwrap();
            let miss = if point["kind"]["value"] == "b" { 0.0 } else { 0.5 };
            let loss = (number("x") - 0.3).powi(2) + (number("y") - 0.8).powi(2) + miss;
            trials.push(search::Tried { params: point, outcome: Some(loss) });
        }
        let best = trials.iter().filter_map(|trial| trial.outcome).fold(f64::INFINITY, f64::min);
        assert!(best < 0.005, "{best}");
    }
}
