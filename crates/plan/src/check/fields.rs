//! Keys held against the shape of their kind: misspelt, misplaced, doubled, unknown (G-05, G-07 to G-11, G-13, G-20, G-21).

use super::schema::{self, Form};
use super::tree::{Entry, Kind, Node};
use super::{Facts, Raw, Severity, moves, pods, queue, settings, source, words};
use crate::launch::layers::joined;
use std::collections::BTreeMap;
use volley_api::kube::schema::{Scalar, Shape};
use volley_api::kubeflow;

/// Keys of a queue's config that speak to the agent.
const AGENT_KEYS: [&str; 7] =
    ["builder", "configFile", "context", "group", "version", "wait_for_ready", "wait_timeout"];
/// Fields that a training job has in its run policy, and that are often written beside it.
const RUN_POLICY: [&str; 4] = ["ttlSecondsAfterFinished", "backoffLimit", "activeDeadlineSeconds", "cleanPodPolicy"];
/// How far down a schema a key is looked for.
const DEPTH_MAX: usize = 4;

pub fn check(text: &str, root: &Node, facts: &Facts, raws: &mut Vec<Raw>) {
    repeated(text, root, raws);
    leftovers(root, false, raws);
    keys(text, root, facts, raws);
}

fn keys(text: &str, root: &Node, facts: &Facts, raws: &mut Vec<Raw>) {
    let (manifest, _) = schema::unwrapped(root);
    let mut found = Vec::new();
    let mut walk = Walk { text, facts, raws: &mut found, is_training: false };
    match schema::form(manifest) {
        Form::Object { kind, shape: Some(shape), .. } => {
            walk.is_training = kubeflow::kinds::row(&kind).is_some();
            walk.object(manifest, &shape, &mut Vec::new());
        }
        Form::Object { shape: None, .. } => {
            for (path, template) in pods::templates(manifest) {
                let shape = schema::pod_template();
                // An object that is a pod itself has keys of its own beside its spec.
                match (template.get("spec"), schema::member(&shape, "spec")) {
                    (Some(spec), Some(shape)) if path.is_empty() => {
                        walk.object(spec, &shape, &mut vec![Step::root("spec")]);
                    }
                    _ => walk.object(template, &shape, &mut vec![Step::root(&path)]),
                }
            }
        }
        Form::Queue => {
            queue::check(manifest, &mut found);
            queue::within(manifest, facts, &mut found, |config, facts, raws| keys(text, config, facts, raws));
        }
        Form::Agent(shape) => {
            walk.object(manifest, &shape, &mut Vec::new());
            settings::judge(text, manifest, &mut found);
        }
        Form::Chart(shape) => walk.object(manifest, &shape, &mut Vec::new()),
        Form::Other => (),
    }
    raws.append(&mut found);
}

/// A key that stands twice in one object.
pub fn repeated(text: &str, node: &Node, raws: &mut Vec<Raw>) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in node.entries() {
        if let Some(first) = seen.get(entry.key.as_str()) {
            let (line, _) = source::Lines::new(text).place(*first);
            let message = format!("key `{}` stands in line {line} already; the last one would win", entry.key);
            raws.push(Raw::new("G-11", Severity::Error, entry.key_span.start, message).path(&entry.key));
        } else {
            seen.insert(&entry.key, entry.key_span.start);
        }
        repeated(text, &entry.value, raws);
    }
    node.items().iter().for_each(|item| repeated(text, item, raws));
}

/// A comma behind a plain value is part of it.
fn leftovers(node: &Node, is_in_flow: bool, raws: &mut Vec<Raw>) {
    match &node.kind {
        Kind::Scalar { text, is_plain: true, .. } if !is_in_flow && text.ends_with(',') && !text.contains(' ') => {
            let bare = text.trim_end_matches(',');
            let meant = match bare {
                "True" | "False" => bare.to_lowercase(),
                other => other.to_owned(),
            };
            let message = format!("the comma of `{text}` is left over from JSON or Python and is part of the value");
            let raw = Raw::new("G-05", Severity::Error, node.span.start, message).suggest(&meant);
            raws.push(raw.fix(node.span.clone(), meant));
        }
        Kind::Scalar { .. } => (),
        Kind::Map { entries, is_flow } => {
            entries.iter().for_each(|entry| leftovers(&entry.value, is_in_flow || *is_flow, raws));
        }
        Kind::List { items, is_flow } => items.iter().for_each(|item| leftovers(item, is_in_flow || *is_flow, raws)),
    }
}

/// An object on the way down, and the entry by which it was left.
#[derive(Clone)]
struct Step<'a> {
    path: String,
    object: Option<(&'a Node, Shape)>,
    through: Option<&'a Entry>,
}

impl Step<'_> {
    fn root(path: &str) -> Step<'static> {
        Step { path: path.to_owned(), object: None, through: None }
    }
}

struct Walk<'a, 'b> {
    text: &'a str,
    facts: &'a Facts,
    raws: &'b mut Vec<Raw>,
    is_training: bool,
}

impl<'a> Walk<'a, '_> {
    fn object(&mut self, node: &'a Node, shape: &Shape, trail: &mut Vec<Step<'a>>) {
        let path = trail.last().map_or(String::new(), |step| step.path.clone());
        match (&node.kind, shape) {
            (Kind::Map { entries, .. }, Shape::Struct(_) | Shape::Map { .. }) => {
                for entry in entries {
                    let below = joined(&path, &entry.key);
                    let is_known = schema::member(shape, &entry.key);
                    if self.is_run_policy(&entry.key, &path) {
                        self.run_policy(entry, node, &below);
                    } else if let Some(inner) = is_known {
                        trail.push(Step { path: below, object: Some((node, shape.clone())), through: Some(entry) });
                        self.object(&entry.value, &inner, trail);
                        trail.pop();
                    } else if !(path.is_empty() && AGENT_KEYS.contains(&entry.key.as_str())) {
                        self.unknown(entry, (node, shape), trail, &below);
                    }
                }
            }
            (Kind::List { items, .. }, Shape::List { items: inner, .. }) => {
                for (index, item) in items.iter().enumerate() {
                    let step = Step { path: format!("{path}[{index}]"), object: None, through: None };
                    trail.push(step);
                    self.object(item, inner, trail);
                    trail.pop();
                }
            }
            (Kind::Scalar { text, .. }, Shape::Scalar(Scalar::Int32 | Scalar::Int64)) => self.number(node, text, &path),
            _ => (),
        }
    }

    fn is_run_policy(&self, key: &str, path: &str) -> bool {
        self.is_training && path == "spec" && RUN_POLICY.contains(&key)
    }

    fn run_policy(&mut self, entry: &Entry, holder: &Node, path: &str) {
        let message = format!("a training job has `{}` in `spec.runPolicy`; here it is dropped", entry.key);
        let raw = Raw::new("G-20", Severity::Error, entry.key_span.start, message).path(path);
        let raw = raw.suggest(format!("spec.runPolicy.{}", entry.key));
        self.raws.push(raw.fixes(moves::into_sibling(self.text, entry, holder, "runPolicy")));
    }

    /// A whole token on a field of numbers, whose variable is a text.
    fn number(&mut self, node: &Node, text: &str, path: &str) {
        let name = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}")).map(str::trim);
        let Some(name) = name else { return };
        if self.facts.variables.get(name).is_some_and(|kind| kind == "string") {
            let message = format!("`{path}` is a number, but template variable `{name}` is a text");
            self.raws
                .push(Raw::new("G-13", Severity::Error, node.span.start, message).path(path).suggest("type Integer"));
        }
    }

    fn unknown(&mut self, entry: &'a Entry, here: (&'a Node, &Shape), trail: &[Step<'a>], path: &str) {
        let (holder, shape) = here;
        let at = entry.key_span.start;
        let key = entry.key.as_str();
        if let Some(known) = schema::other_case(shape, key) {
            let message = format!("`{key}` is spelt `{known}` here; as it is, it is dropped");
            let raw = Raw::new("G-07", Severity::Error, at, message).path(path).suggest(&known);
            self.raws.push(raw.fix(named(self.text, entry), known));
            return;
        }
        if key == "namespace" && trail.is_empty() {
            let raw = Raw::new("G-21", Severity::Error, at, "`namespace` belongs into `metadata`").path(path);
            let raw = raw.suggest("metadata.namespace");
            self.raws.push(raw.fixes(moves::into_sibling(self.text, entry, holder, "metadata")));
            return;
        }
        let spelt = self.spelling(entry, trail, path);
        let mut places = outward_places(trail, &spelt, &entry.value);
        let here = trail.last().map_or("", |step| step.path.as_str());
        places.extend(inward_places(shape, here, &spelt, &entry.value));
        let raw = match &places[..] {
            [] => self.nowhere(entry, shape, path),
            [only] => {
                let message = format!("`{key}` is not known here and is dropped; it belongs to `{}`", only.path);
                let raw = Raw::new("G-08", Severity::Error, at, message).path(path).suggest(&only.path);
                let fix = only.around.and_then(|(object, through)| moves::outwards(self.text, entry, object, through));
                raw.fixes(fix)
            }
            several => {
                let told: Vec<String> = several.iter().map(|place| format!("`{}`", place.path)).collect();
                let message =
                    format!("`{key}` is not known here and is dropped; it could belong to {}", told.join(", "));
                Raw::new("G-09", Severity::Error, at, message).path(path)
            }
        };
        self.raws.push(raw);
    }

    /// A key that is misplaced may be misspelt too; the spelling is told and mended by itself.
    fn spelling(&mut self, entry: &Entry, trail: &[Step<'_>], path: &str) -> String {
        let shapes = trail.iter().filter_map(|step| step.object.as_ref()).map(|(_, shape)| shape);
        let known: Vec<String> = shapes.filter_map(|shape| schema::other_case(shape, &entry.key)).collect();
        let exact = trail.iter().filter_map(|step| step.object.as_ref());
        let is_exact = exact.into_iter().any(|(_, shape)| schema::keys(shape).contains(&entry.key));
        match known.into_iter().next().filter(|_| !is_exact) {
            None => entry.key.clone(),
            Some(known) => {
                let message = format!("`{}` is spelt `{known}`", entry.key);
                let raw = Raw::new("G-07", Severity::Error, entry.key_span.start, message).path(path).suggest(&known);
                self.raws.push(raw.fix(named(self.text, entry), known.clone()));
                known
            }
        }
    }

    fn nowhere(&self, entry: &Entry, shape: &Shape, path: &str) -> Raw {
        let keys = schema::keys(shape);
        let near = words::nearest(&entry.key, keys.iter().map(String::as_str));
        let meant = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let message = format!("`{}` is not known here and is dropped without a word{meant}", entry.key);
        let raw = Raw::new("G-10", Severity::Warning, entry.key_span.start, message).path(path);
        near.map_or(raw.clone(), |near| raw.suggest(near))
    }
}

/// The name inside a key, without quotes.
fn named(text: &str, entry: &Entry) -> std::ops::Range<usize> {
    let span = entry.key_span.clone();
    let is_quoted = text[span.clone()].starts_with(['"', '\'']);
    if is_quoted { span.start + 1..span.end - 1 } else { span }
}

/// Where a key would be known.
struct Found<'a> {
    path: String,
    /// The object there and the entry that leads to here; only an object around can be moved to.
    around: Option<(&'a Node, &'a Entry)>,
}

fn outward_places<'a>(trail: &[Step<'a>], key: &str, value: &Node) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    for (index, step) in trail.iter().enumerate() {
        let (Some((object, shape)), Some(through)) = (&step.object, step.through) else { continue };
        let above = if index == 0 { "" } else { trail[index - 1].path.as_str() };
        let inner = match shape {
            Shape::Struct(_) => schema::member(shape, key),
            _ => None,
        };
        if inner.is_some_and(|inner| fits(value, &inner)) && object.get(key).is_none() {
            found.push(Found { path: joined(above, key), around: Some((object, through)) });
        }
    }
    found
}

/// Below here, by the schema alone; the lists of a pod's containers count as one.
fn inward_places<'a>(shape: &Shape, here: &str, key: &str, value: &Node) -> Vec<Found<'a>> {
    let mut found = Vec::new();
    search(shape, key, value, (here, 0), &mut found);
    let is_other_list = |path: &String| path.contains("initContainers") || path.contains("ephemeralContainers");
    found.retain(|path| !is_other_list(path));
    found.into_iter().map(|path| Found { path, around: None }).collect()
}

fn search(shape: &Shape, key: &str, value: &Node, (path, depth): (&str, usize), found: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    match shape {
        Shape::Struct(own) => {
            for field in &own.get().fields {
                let below = joined(path, &field.name);
                if depth > 0 && *field.name == *key && fits(value, &field.shape) {
                    found.push(below);
                } else {
                    search(&field.shape, key, value, (&below, depth + 1), found);
                }
            }
        }
        Shape::List { items, .. } => search(items, key, value, (&format!("{path}[]"), depth), found),
        Shape::Map { .. } | Shape::Scalar(_) | Shape::Any => (),
    }
}

/// Whether a value could be of this shape, judged by its own keys.
fn fits(value: &Node, shape: &Shape) -> bool {
    match (&value.kind, shape) {
        (Kind::Map { entries, .. }, Shape::Struct(own)) => {
            entries.iter().all(|entry| own.get().open || own.get().field(&entry.key).is_some())
        }
        (Kind::Map { .. }, Shape::Map { .. }) | (_, Shape::Any) => true,
        (Kind::List { items, .. }, Shape::List { items: inner, .. }) => items.iter().all(|item| fits(item, inner)),
        (Kind::Scalar { .. }, Shape::Scalar(_)) => true,
        _ => value.is_empty(),
    }
}
