//! Server-side apply (K-SSA-4, 7, 8, 9, 10): merges a configuration into the live object, removes what its manager no longer
//! wants, and refuses to take fields from others unless forced.
//!
//! The configuration is as it was sent: not defaulted, empty containers and other spellings of a value included. The caller
//! brings the result into its canonical spelling.

use super::changes::{Changes, changes};
use super::combine::{merge_root, prune_root};
use super::entry::{Entry, entries, store, take, time_text};
use super::fields::Fields;
use super::last_applied;
use super::managed::{Manager, Tracked, attributed};
use super::typed::{entries_set, entry, name_element, problems};
use serde_json::{Map, Value, json};
use volley_api::kube::schema::{Shape, StructRef};
use volley_api::kube::status::ApiError;
use volley_api::kube::text;

/// Owns what was there before anybody was tracked.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration does not fit the kind's schema; the text says which object and which fields.
    #[error("{0}")]
    Untyped(String),
    #[error("metadata.managedFields must be nil")]
    ManagedFields,
}

/// A field that somebody else owns and that the configuration would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// As messages name it: `"kubectl-edit" using apps/v1`.
    pub owner: String,
    /// `.spec.replicas`
    pub path: String,
}

impl From<ApplyError> for ApiError {
    fn from(error: ApplyError) -> ApiError {
        match &error {
            ApplyError::Conflicts(conflicts) => conflict_error(conflicts),
            ApplyError::Untyped(message) => ApiError::bare(message.clone()),
            ApplyError::ManagedFields => ApiError::bad_request(error.to_string()),
        }
    }
}

/// The 409 answer for fields that others own.
pub fn conflict_error(conflicts: &[Conflict]) -> ApiError {
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|conflict| {
            let message = format!("conflict with {}", conflict.owner);
            json!({"reason": "FieldManagerConflict", "message": message, "field": conflict.path})
        })
        .collect();
    ApiError { details: json!({"causes": causes}), ..ApiError::new(409, "Conflict", conflict_message(conflicts)) }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.owner, one.path);
    }
    let mut lines = Vec::new();
    let mut owner = "";
    for conflict in conflicts {
        if conflict.owner != owner {
            owner = &conflict.owner;
            lines.push(format!("conflicts with {owner}:"));
        }
        lines.push(format!("- {}", conflict.path));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// The object after the configuration was applied to it, with `managedFields` up to date.
///
/// Without a live object this is the object to create. Default the result, do not call `updated` on it, and end with
/// `keep_times`. Parts that the endpoint does not write are left as they are in the live object.
pub fn apply(
    shape: &StructRef,
    live: Option<&Value>,
    config: &Value,
    manager: &Manager<'_>,
    force: bool,
) -> Result<Value, ApplyError> {
    if config.get("metadata").is_some_and(|metadata| metadata.get("managedFields").is_some_and(|list| !list.is_null()))
    {
        return Err(ApplyError::ManagedFields);
    }
    let root = Shape::Struct(shape.clone());
    check(&root, config)?;
    let mut owners = owners(shape, live, manager);
    let own = owners.iter().position(|entry| entry.is_of(manager, true));
    let last = own.map(|index| owners.swap_remove(index));
    let claimed = claimed(&root, config, manager.tracked);

    let mut merged = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    take(&mut merged);
    // Removing first lets the configuration put back a container that it wants empty.
    if let Some(last) = &last {
        prune_root(&root, &mut merged, (&last.fields, &claimed), &owners);
    }
    merge_root(&root, &mut merged, config, manager.tracked);
    let changes = changes(shape, live, &merged, manager.tracked);
    if !force {
        refuse_conflicts(shape, live, (&owners, &changes), manager)?;
    }
    if !changes.is_empty() {
        owners.iter_mut().for_each(|entry| entry.lose(&changes));
    }
    owners.push(own_entry(last, claimed, &changes, manager));
    store(&mut merged, owners);
    if manager.name == last_applied::MANAGER {
        last_applied::refresh(&mut merged, config);
    }
    Ok(merged)
}

/// Refuses a configuration that does not fit the kind's schema.
pub fn check_typed(shape: &StructRef, config: &Value) -> Result<(), ApplyError> {
    check(&Shape::Struct(shape.clone()), config)
}

fn check(root: &Shape, config: &Value) -> Result<(), ApplyError> {
    let problems = problems(root, config);
    if problems.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = problems
        .into_iter()
        .map(|(path, problem)| if path.is_empty() { problem } else { format!("{path}: {problem}") })
        .collect();
    let text = match texts.as_slice() {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    Err(ApplyError::Untyped(format!("failed to create typed patch object ({}): {text}", object_name(config))))
}

/// `<namespace>/<name>; <group>/<version>, Kind=<kind>`; the core group prints as nothing.
fn object_name(object: &Value) -> String {
    let api_version = text(object, "apiVersion");
    let group_version = if api_version.contains('/') { api_version.to_owned() } else { format!("/{api_version}") };
    let (namespace, name) = (text(object, "metadata.namespace"), text(object, "metadata.name"));
    format!("{namespace}/{name}; {group_version}, Kind={}", text(object, "kind"))
}

/// The owners of the live object; one that was never tracked has a single one for all that is there.
fn owners(shape: &StructRef, live: Option<&Value>, manager: &Manager<'_>) -> Vec<Entry> {
    let Some(live) = live else { return Vec::new() };
    let owners = entries(live);
    if !owners.is_empty() {
        return owners;
    }
    let before = Manager { name: BEFORE_FIRST_APPLY, ..*manager };
    attributed(shape, (None, live), owners, &before)
}

/// The fields that the configuration claims, within what the endpoint writes.
fn claimed(root: &Shape, config: &Value, tracked: Tracked) -> Fields {
    let Value::Object(parts) = config else { return Fields::default() };
    let mut set = entries_set(root, parts, |key| key != "metadata" && tracked.has_part(key));
    if let Some(Value::Object(metadata)) = parts.get("metadata") {
        let below = entries_set(entry(root, "metadata").0, metadata, |key| tracked.has_metadata(key));
        if !below.is_empty() {
            set.insert(name_element("metadata"), Value::Object(below));
        }
    }
    Fields::trusted(set)
}

fn own_entry(last: Option<Entry>, claimed: Fields, changes: &Changes, manager: &Manager<'_>) -> Entry {
    let is_same = |last: &Entry| last.fields == claimed && last.api_version == manager.api_version;
    let kept_time = last.filter(|last| is_same(last) && changes.is_empty()).map(|last| last.time);
    let time = kept_time.unwrap_or_else(|| time_text(manager.now));
    Entry { time, ..Entry::new(manager, true, claimed) }
}

/// Conflicts are listed by owner, then by path.
fn refuse_conflicts(
    shape: &StructRef,
    live: Option<&Value>,
    (owners, changes): (&[Entry], &Changes),
    manager: &Manager<'_>,
) -> Result<(), ApplyError> {
    let mut sorted: Vec<&Entry> = owners.iter().collect();
    sorted.sort_by_key(|entry| (&entry.manager, entry.is_apply, &entry.api_version));
    let mut taken: Vec<(&Entry, Fields)> =
        sorted.into_iter().map(|entry| (entry, entry.fields.intersection(&changes.set))).collect();
    taken.retain(|(_, fields)| !fields.is_empty());
    if taken.is_empty() {
        return Ok(());
    }
    if let Some(allowed) = live
        .filter(|_| manager.name == last_applied::MANAGER)
        .and_then(|live| last_applied::unchanged(shape, live, manager))
    {
        taken.iter_mut().for_each(|(_, fields)| fields.subtract(&allowed));
    }
    let conflicts: Vec<Conflict> = taken
        .iter()
        .flat_map(|(entry, fields)| fields.paths().into_iter().map(|path| Conflict { owner: owner_text(entry), path }))
        .collect();
    if conflicts.is_empty() { Ok(()) } else { Err(ApplyError::Conflicts(conflicts)) }
}

fn owner_text(entry: &Entry) -> String {
    let mut text = format!("{:?}", entry.manager);
    if !entry.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", entry.subresource));
    }
    if !entry.is_apply {
        text.push_str(&format!(" using {}", entry.api_version));
    }
    text
}
