//! Kubeflow's training jobs (`kubeflow.org/v1`): one table of kinds, the wire types, what is filled in, what is refused.
//!
//! `kinds` says how PyTorchJob and its siblings differ, `types` how they look on the wire, `fill` what admission adds
//! (legacy fields, `runPolicy`), `validate` every problem at once, `definition` the CRDs; `job` reads an object into a `TrainingJob` with all
//! defaults in place, which is what the planner works on.

pub mod definition;
pub mod fill;
pub mod job;
pub mod kinds;
pub mod types;
pub mod validate;

#[cfg(test)]
mod tests;

use crate::kube::field::FieldError;
use kinds::Row;
use serde_json::Value;

pub const GROUP: &str = "kubeflow.org";
pub const API_VERSION: &str = "kubeflow.org/v1";
/// The values of `runPolicy.managedBy`: we, and somebody else.
pub const MANAGED_HERE: &str = "kubeflow.org/training-operator";
pub const MANAGED_BY_KUEUE: &str = "kueue.x-k8s.io/multikueue";

/// What a cluster accepts beyond the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// `compat.trainingOperator = strict`: nothing beyond the reference.
    pub is_strict: bool,
    /// Whether services, and so jobs, may have names that start with a digit (PT-DEC-7).
    pub accepts_digit_names: bool,
}

/// What admission has to say about a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    pub warnings: Vec<String>,
    /// Empty when the job is accepted.
    pub errors: Vec<FieldError>,
}

/// Fills in and judges a job that is created, or updated from `old`. Its deletion is never refused (PT-ADM-17).
pub fn admit(row: &Row, object: &mut Value, old: Option<&Value>, rules: Rules) -> Admission {
    let mut warnings = fill::fill(row, object, old, rules);
    warnings.extend(validate::warnings(row, object, rules));
    Admission { warnings, errors: validate::validate(row, object, old, rules) }
}
