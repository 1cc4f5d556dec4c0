//! A queue as a file, as `volley queue create -f` reads it: its own keys and variables are looked at here, its config as
//! any other manifest.

use super::tree::{Entry, Node};
use super::{Facts, Raw, Severity, words};
use crate::queue::template::{self, TYPES};
use serde_json::json;
use std::collections::BTreeMap;

pub const KEYS: [&str; 4] = ["resource", "config", "template_variables", "prioritization"];
/// Keys of a launch's own file, which has a resource, too.
const LAUNCH_KEYS: [&str; 11] =
    ["job", "docker", "image_uri", "git", "uri", "overrides", "resource_args", "entity", "project", "name", "author"];
/// Resources whose config is no manifest.
const OTHERS: [&str; 8] =
    ["local", "local-container", "docker", "local-process", "sagemaker", "vertex", "gcp-vertex", "slurm"];

/// By the keys at the top.
pub fn is_queue(keys: &[&str]) -> bool {
    let has_any = |known: &[&str]| keys.iter().any(|key| known.contains(key));
    keys.contains(&"config") || (has_any(&KEYS) && !has_any(&LAUNCH_KEYS) && !has_any(&["spec", "metadata"]))
}

/// Looks at everything but the config.
pub fn check(root: &Node, raws: &mut Vec<Raw>) {
    for entry in root.entries().iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
        let near = words::nearest(&entry.key, KEYS.into_iter());
        let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let message = format!("`{}` is no key of a queue's file, which is refused for it{meant}", entry.key);
        let raw = Raw::new("G-10", Severity::Error, entry.key_span.start, message).path(&entry.key);
        raws.push(near.map_or(raw.clone(), |near| raw.suggest(near)));
    }
    for entry in root.get("template_variables").map_or(&[][..], Node::entries) {
        variable(entry, raws);
    }
}

fn variable(entry: &Entry, raws: &mut Vec<Raw>) {
    let path = format!("template_variables.{}", entry.key);
    if let Some(node) = entry.value.at("schema.type")
        && let Some(given) = node.text().filter(|given| !TYPES.contains(given))
    {
        let near = words::nearest(given, TYPES.into_iter());
        let message = format!("`{given}` is no type of a template variable; there are {}", TYPES.join(", "));
        let raw = Raw::new("T-3", Severity::Error, node.span.start, message).path(&format!("{path}.schema.type"));
        raws.push(near.map_or(raw.clone(), |near| raw.suggest(near)));
        return;
    }
    let declared = template::declare(&json!({ entry.key.as_str(): entry.value.value() }).to_string());
    for problem in declared.err().into_iter().flatten() {
        // The reader's places are those of a text that nobody sees.
        let sentence = problem.sentence.split(" at line 1 column ").next().unwrap_or_default();
        raws.push(Raw::new("T-3", Severity::Error, entry.key_span.start, sentence).path(&path));
    }
}

/// Looks into the config with the types of the file's variables; paths are those of the file.
pub fn within(root: &Node, facts: &Facts, raws: &mut Vec<Raw>, look: impl Fn(&Node, &Facts, &mut Vec<Raw>)) {
    let resource = root.get("resource").and_then(Node::text).unwrap_or_default();
    let Some(config) = root.get("config").filter(|_| !OTHERS.contains(&resource)) else { return };
    let variables = root.get("template_variables").map_or(&[][..], Node::entries).iter();
    let types: BTreeMap<String, String> = variables
        .filter_map(|entry| Some((entry.key.clone(), entry.value.at("schema.type")?.text()?.to_owned())))
        .collect();
    let facts = Facts { variables: facts.variables.clone().into_iter().chain(types).collect(), ..facts.clone() };
    let first = raws.len();
    look(config, &facts, raws);
    for raw in &mut raws[first..] {
        raw.path = format!("config.{}", raw.path);
    }
}
