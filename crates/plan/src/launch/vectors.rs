//! The conformance vectors of section 7.9, as data: config, launch, and what must be found where in the result.

use super::fixtures::{order, station};
use super::*;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

const VECTORS: &str = include_str!("vectors.json");

#[derive(Deserialize)]
struct Vector {
    name: String,
    config: Value,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    entry_point: Vec<String>,
    /// JSON pointers and what stands there; `null` is nothing at all.
    expect: BTreeMap<String, Value>,
    /// Pointers of containers, and how many variables of W&B's own they have.
    variables: BTreeMap<String, usize>,
    name_starts: String,
    security_contexts: usize,
    #[serde(default)]
    notes: Vec<String>,
}

// K-20, K-21, K-22, K-23, K-35, K-39, LA-Q-13
#[test]
fn the_conformance_vectors_hold() {
    let vectors: Vec<Vector> = serde_json::from_str(VECTORS).unwrap();
    assert_eq!(vectors.len(), 4);
    for vector in vectors {
        let mut order = order(vector.config.clone());
        order.spec.overrides.args = vector.args.clone();
        order.spec.overrides.entry_point = vector.entry_point.clone();
        let rendered = render(&order, &station()).unwrap_or_else(|refusals| panic!("{}: {refusals:?}", vector.name));
        let Submission::Kubernetes(manifests) = rendered.submission else { panic!("{}", vector.name) };
        let workload = &manifests.workload;
        for (pointer, expected) in &vector.expect {
            let found = workload.pointer(pointer).unwrap_or(&Value::Null);
            assert_eq!(found, expected, "{}: {pointer} in {workload:#}", vector.name);
        }
        for (pointer, count) in &vector.variables {
            let entries = workload.pointer(&format!("{pointer}/env")).and_then(Value::as_array);
            let is_shared =
                |name: &str| matches!(name, "WANDB_MODE" | "WANDB_CONSOLE" | "WANDB_X_LABEL" | "WANDB_X_PRIMARY");
            let is_compat = |entry: &&Value| {
                entry["name"].as_str().is_some_and(|name| name.starts_with("WANDB_") && !is_shared(name))
            };
            let found = entries.into_iter().flatten().filter(is_compat).count();
            assert_eq!(found, *count, "{}: {pointer}", vector.name);
        }
        assert!(manifests.name().starts_with(&vector.name_starts), "{}: {}", vector.name, manifests.name());
        let contexts = workload.to_string().matches("RuntimeDefault").count();
        assert_eq!(contexts, vector.security_contexts, "{}", vector.name);
        let notes: Vec<&str> = rendered.notes.iter().map(|note| note.rule).collect();
        assert_eq!(notes, vector.notes, "{}", vector.name);
    }
}
