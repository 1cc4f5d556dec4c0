//! Cases of the Volcano Job's life, one rule or a few each, on a pretend cluster; and the laws that hold for all.

mod commands;
mod definitions;
mod groups;
mod laws;
mod life;
mod plugins;
mod pods;
mod policies;
mod world;

use serde_json::{Value, json};
use world::task;

/// One master and two workers, all of which must run together.
fn gang() -> Value {
    json!({"tasks": [task("master", 1), task("worker", 2)]})
}

fn with(fields: Value) -> Value {
    let mut spec = gang();
    for (key, value) in fields.as_object().unwrap() {
        spec[key] = value.clone();
    }
    spec
}

fn policy(event: &str, action: &str) -> Value {
    with(json!({"policies": [{"event": event, "action": action}]}))
}
