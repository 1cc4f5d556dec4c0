//! Stopping runs early by Hyperband: at each of some iterations, only the best part of the runs goes on.

use serde_json::{Map, Value};

/// Bands grow by a factor, so this many reach any number of iterations.
const BANDS_MAX: usize = 64;
const ETA_DEFAULT: f64 = 3.0;

#[derive(Clone, Debug, PartialEq)]
pub struct Hyperband {
    /// At how many values of the metric runs are compared, rising.
    pub bands: Vec<usize>,
    /// One of this many goes on.
    pub eta: f64,
}

/// What `early_terminate` in a sweep's config asks for; nothing if it is no Hyperband or has no bands.
pub fn read(config: &Map<String, Value>) -> Option<Hyperband> {
    let early = config.get("early_terminate")?.as_object()?;
    early.get("type").and_then(Value::as_str).filter(|kind| *kind == "hyperband")?;
    let number = |key: &str| early.get(key).and_then(Value::as_f64);
    let eta = number("eta").unwrap_or(ETA_DEFAULT);
    (eta > 1.0).then_some(())?;
    let mut bands = Vec::new();
    if let Some(mut band) = number("max_iter") {
        for _ in 0..(number("s").unwrap_or(1.0) as usize).min(BANDS_MAX) {
            band /= eta;
            bands.push(band as usize);
        }
        bands.reverse();
    } else {
        let mut band = number("min_iter")?;
        while bands.len() < BANDS_MAX && band < 1e12 {
            bands.push(band as usize);
            band *= eta;
        }
    }
    bands.retain(|band| *band >= 1);
    (!bands.is_empty()).then_some(Hyperband { bands, eta })
}

/// A run's values of the metric, in order; less is better.
#[derive(Clone, Debug)]
pub struct Course {
    pub run: String,
    pub is_running: bool,
    pub values: Vec<f64>,
}

/// The runs that should stop: those that, at the last band they passed, are not among the best part.
pub fn to_stop(hyperband: &Hyperband, courses: &[Course]) -> Vec<String> {
    let best = |course: &Course, band: usize| course.values[..band].iter().copied().fold(f64::INFINITY, f64::min);
    let mut stop = Vec::new();
    for course in courses.iter().filter(|course| course.is_running) {
        let passed = hyperband.bands.iter().copied().filter(|band| *band <= course.values.len()).max();
        let Some(band) = passed else {
            continue;
        };
        let mut others: Vec<f64> =
            courses.iter().filter(|other| other.values.len() >= band).map(|other| best(other, band)).collect();
        others.sort_by(f64::total_cmp);
        let going_on = ((others.len() as f64 / hyperband.eta).ceil() as usize).max(1);
        if best(course, band) > others[going_on - 1] {
            stop.push(course.run.clone());
        }
    }
    stop
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn hyperband(early: Value) -> Option<Hyperband> {
        read(json!({ "early_terminate": early }).as_object()?)
    }

    #[test]
    fn bands_begin_at_the_least_or_end_before_the_most() {
        let rising = hyperband(json!({"type": "hyperband", "min_iter": 2, "eta": 3})).unwrap();
        assert_eq!(rising.bands[..4], [2, 6, 18, 54]);
        let falling = hyperband(json!({"type": "hyperband", "max_iter": 27, "s": 2})).unwrap();
        assert_eq!(falling.bands, [3, 9]);
        assert_eq!(hyperband(json!({"type": "envelope"})), None);
        assert_eq!(hyperband(json!({"type": "hyperband", "min_iter": 2, "eta": 1})), None);
    }

    #[test]
    fn only_the_best_part_goes_on_and_who_has_not_come_to_a_band_is_left_alone() {
        let early = hyperband(json!({"type": "hyperband", "min_iter": 2, "eta": 3})).unwrap();
        let course =
            |run: &str, is_running, values: &[f64]| Course { run: run.into(), is_running, values: values.into() };
        let courses = [
            course("good", true, &[1.0, 0.5]),
            course("bad", true, &[1.0, 0.9]),
            course("ended", false, &[1.0, 0.8]),
            course("young", true, &[9.0]),
        ];
        assert_eq!(to_stop(&early, &courses), ["bad"]);
        assert!(to_stop(&early, &courses[1..2]).is_empty());
    }
}
