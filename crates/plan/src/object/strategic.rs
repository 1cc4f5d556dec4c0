//! Strategic merge patch (K-SMP-1 to 6): merge patch that knows which lists are keyed, with directives in `$` keys.
//!
//! Fields that the shape does not know are untyped: maps merge, lists are replaced. `$retainKeys` works on any map that
//! carries it; the strategy of that name only tells clients when to send it.

use super::PatchError;
use super::merge::decode_error;
use serde_json::{Map, Value};
use volley_api::kube::schema::{ListPatch, Shape, StructRef};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder";
const DELETE_VALUES: &str = "$deleteFromPrimitiveList";

/// Maps that are replaced although others of their type merge: (struct, field).
const REPLACED_MAPS: [(&str, &str); 1] = [("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", "selector")];

static UNTYPED: Shape = Shape::Any;

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object of a built-in kind.
pub fn strategic(shape: &StructRef, current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else {
        return Err(decode_error(patch, "map[string]interface {}"));
    };
    let mut patched = match current {
        Value::Object(fields) => fields.clone(),
        _ => Object::new(),
    };
    merge_map(&Shape::Struct(shape.clone()), &mut patched, patch)?;
    Ok(Value::Object(patched))
}

fn merge_map(shape: &Shape, target: &mut Object, patch: &Object) -> Result<(), PatchError> {
    match patch.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or("")) {
        None | Some("merge") => {}
        Some("replace") => {
            *target = without_directives(patch);
            return Ok(());
        }
        Some("delete") => {
            target.clear();
            return Ok(());
        }
        Some(_) => return Err(unknown_directive(patch)),
    }
    retain_keys(target, patch)?;
    let mut ordered = Vec::new();
    for (key, order) in patch {
        if key.starts_with(SET_ORDER) {
            let name = list_name(key, "invalid patch format of setElementOrder list")?;
            merge_ordered(child(shape, name), target, name, (patch.get(name), order))?;
            ordered.push(name);
        }
    }
    for (key, value) in patch {
        if key.starts_with(DELETE_VALUES) {
            delete_values(target, list_name(key, "invalid patch format of primitive list")?, value);
        } else if !is_directive(key) && !ordered.contains(&key.as_str()) {
            merge_field(shape, target, key, value)?;
        }
    }
    Ok(())
}

fn merge_field(shape: &Shape, target: &mut Object, key: &str, value: &Value) -> Result<(), PatchError> {
    let field = child(shape, key);
    match (target.get_mut(key), value) {
        (Some(Value::Object(old)), Value::Object(new)) if !is_replaced(shape, key) => merge_map(field, old, new)?,
        (Some(Value::Array(old)), Value::Array(new)) => *old = merge_list(field, std::mem::take(old), new)?,
        _ => {
            match clean(value) {
                Some(value) => target.insert(key.to_owned(), value),
                None => target.remove(key),
            };
        }
    }
    Ok(())
}

fn child<'a>(shape: &'a Shape, key: &str) -> &'a Shape {
    match shape {
        Shape::Struct(structure) => structure.get().field(key).map_or(&UNTYPED, |field| &field.shape),
        Shape::Map { values, .. } => values,
        Shape::Scalar(_) | Shape::List { .. } | Shape::Any => &UNTYPED,
    }
}

fn is_replaced(shape: &Shape, key: &str) -> bool {
    let Shape::Struct(structure) = shape else { return false };
    REPLACED_MAPS.contains(&(&*structure.get().name, key))
}

/// Drops what the directive does not list; what the patch itself sets must be listed.
fn retain_keys(target: &mut Object, patch: &Object) -> Result<(), PatchError> {
    let Some(directive) = patch.get(RETAIN_KEYS) else { return Ok(()) };
    let malformed = PatchError::Format("invalid patch format of retainKeys");
    let Value::Array(retained) = directive else { return Err(malformed) };
    let is_retained = |key: &str| retained.iter().any(|name| name == key);
    if patch.iter().any(|(key, value)| !is_directive(key) && !value.is_null() && !is_retained(key)) {
        return Err(malformed);
    }
    target.retain(|key, _| is_retained(key));
    Ok(())
}

fn delete_values(target: &mut Object, name: &str, values: &Value) {
    if let (Some(Value::Array(list)), Value::Array(values)) = (target.get_mut(name), values) {
        list.retain(|item| !values.contains(item));
    }
}

/// Merges a list and gives it the order that the client asks for.
fn merge_ordered(
    shape: &Shape,
    target: &mut Object,
    name: &str,
    (patch, order): (Option<&Value>, &Value),
) -> Result<(), PatchError> {
    let order = as_list(order)?;
    let patch = patch.filter(|patch| !patch.is_null()).map(as_list).transpose()?;
    let current = target.get(name).map(as_list).transpose()?.cloned();
    let key = merge_key(shape);
    check_order(patch, order, key)?;
    let live = identities(current.as_deref().unwrap_or(&[]), key)?;
    let live = after_deletions(live, patch.map_or(&[], Vec::as_slice), key);
    let merged = match (current, patch) {
        (None, None) => return Ok(()),
        (Some(current), None) => current,
        (None, Some(patch)) => patch.iter().filter_map(clean).collect(),
        (Some(current), Some(patch)) => merge_list(shape, current, patch)?,
    };
    let is_merged = matches!(shape, Shape::List { patch: ListPatch::MergeBy { .. } | ListPatch::MergeValues, .. });
    let sorted = if is_merged { in_order(merged, key, &identities(order, key)?, &live)? } else { merged };
    target.insert(name.to_owned(), Value::Array(sorted));
    Ok(())
}

/// The live order that others are placed by. In the reference, deleting from a keyed list makes room in place, and as many
/// new items count as live from then on; `kubectl apply` shows the difference.
fn after_deletions(live: Vec<Value>, patch: &[Value], key: Option<&str>) -> Vec<Value> {
    let Some(key) = key else { return live };
    let is_deletion = |item: &&Value| item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
    let deleted: Vec<&Value> = patch.iter().filter(is_deletion).filter_map(|item| item.get(key)).collect();
    let count = live.len();
    let mut order: Vec<Value> = live.into_iter().filter(|identity| !deleted.contains(&identity)).collect();
    let room = count - order.len();
    let plain = patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).filter_map(|item| item.get(key));
    let new: Vec<Value> = plain.filter(|identity| !order.contains(identity)).take(room).cloned().collect();
    order.extend(new);
    order
}

fn merge_key(shape: &Shape) -> Option<&str> {
    match shape {
        Shape::List { patch: ListPatch::MergeBy { key, .. }, .. } => Some(key),
        _ => None,
    }
}

/// The patch's items must stand in the order list, in the same order.
fn check_order(patch: Option<&Vec<Value>>, order: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    let Some(patch) = patch.filter(|_| !order.is_empty()) else { return Ok(()) };
    let plain: Vec<Value> = patch.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned().collect();
    let order_identities = identities(order, key)?;
    let mut rest = order_identities.iter();
    for wanted in identities(&plain, key)? {
        if !rest.any(|listed| *listed == wanted) {
            let (patch, order) = (go_list(patch), go_list(order));
            let text = format!("The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{order}\n");
            return Err(PatchError::Strategic(text));
        }
    }
    Ok(())
}

fn merge_list(shape: &Shape, current: Vec<Value>, patch: &[Value]) -> Result<Vec<Value>, PatchError> {
    let Shape::List { items, patch: strategy, .. } = shape else {
        return Ok(patch.iter().filter_map(clean).collect());
    };
    match strategy {
        ListPatch::Replace => Ok(patch.iter().filter_map(clean).collect()),
        ListPatch::MergeBy { key, .. } => merge_items(items, key, current, patch),
        ListPatch::MergeValues => {
            let live = current.clone();
            let mut united: Vec<Value> = Vec::with_capacity(current.len() + patch.len());
            for value in current.into_iter().chain(patch.iter().cloned()) {
                if !united.contains(&value) {
                    united.push(value);
                }
            }
            in_order(united, None, patch, &live)
        }
    }
}

fn merge_items(shape: &Shape, key: &str, mut current: Vec<Value>, patch: &[Value]) -> Result<Vec<Value>, PatchError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replaces_all = false;
    for item in patch {
        let fields = as_map(item)?;
        match fields.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or("")) {
            None | Some("merge") => plain.push(fields),
            Some("replace") => replaces_all = true,
            Some("delete") => {
                let deleted = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
                current.retain(|item| item.get(key) != Some(deleted));
            }
            Some(_) => return Err(unknown_directive(fields)),
        }
    }
    if replaces_all {
        current.clear();
    }
    let live = identities(&current, Some(key))?;
    let mut wanted = Vec::with_capacity(plain.len());
    for fields in plain {
        let identity = fields.get(key).ok_or_else(|| no_merge_key(fields, key))?;
        wanted.push(identity.clone());
        match current.iter_mut().find(|item| item.get(key) == Some(identity)) {
            Some(Value::Object(old)) => merge_map(shape, old, fields)?,
            _ => current.push(Value::Object(without_directives(fields))),
        }
    }
    in_order(current, Some(key), &wanted, &live)
}

/// Items of the patch in the patch's order; the others keep their place before the live neighbours that follow them.
fn in_order(items: Vec<Value>, key: Option<&str>, wanted: &[Value], live: &[Value]) -> Result<Vec<Value>, PatchError> {
    let mut patched = Vec::new();
    let mut others = Vec::new();
    for item in items {
        let identity = identity(&item, key)?;
        let place_in_live = position(live, &identity);
        match position(wanted, &identity) {
            Some(place) => patched.push((place, place_in_live, item)),
            None => others.push((place_in_live, item)),
        }
    }
    patched.sort_by_key(|(place, ..)| *place);
    others.sort_by_key(|(place, _)| *place);
    let mut sorted = Vec::with_capacity(patched.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in patched {
        while let Some((_, other)) = others.next_if(|(other, _)| place.is_some() && other.is_some() && *other < place) {
            sorted.push(other);
        }
        sorted.push(item);
    }
    sorted.extend(others.map(|(_, other)| other));
    Ok(sorted)
}

fn position(list: &[Value], identity: &Value) -> Option<usize> {
    list.iter().position(|one| one == identity)
}

/// What tells one item from another: the merge key's value, or the plain value itself.
fn identity(item: &Value, key: Option<&str>) -> Result<Value, PatchError> {
    let Some(key) = key else { return Ok(item.clone()) };
    let fields = as_map(item)?;
    fields.get(key).cloned().ok_or_else(|| no_merge_key(fields, key))
}

fn identities(items: &[Value], key: Option<&str>) -> Result<Vec<Value>, PatchError> {
    items.iter().map(|item| identity(item, key)).collect()
}

/// A value that is new to the object: no directives, no nulls. None when it is itself a directive or null.
fn clean(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => Some(Value::Object(without_directives(fields))),
        Value::Array(items) => Some(Value::Array(items.iter().filter_map(clean).collect())),
        scalar => Some(scalar.clone()),
    }
}

fn without_directives(fields: &Object) -> Object {
    let plain = fields.iter().filter(|(key, _)| !is_directive(key));
    plain.filter_map(|(key, value)| Some((key.clone(), clean(value)?))).collect()
}

fn is_directive(key: &str) -> bool {
    key.starts_with('$')
        && (key == DIRECTIVE || key == RETAIN_KEYS || key.starts_with(SET_ORDER) || key.starts_with(DELETE_VALUES))
}

fn list_name<'a>(key: &'a str, malformed: &'static str) -> Result<&'a str, PatchError> {
    match key.split_once('/') {
        Some((SET_ORDER | DELETE_VALUES, name)) => Ok(name),
        _ => Err(PatchError::Format(malformed)),
    }
}

fn as_list(value: &Value) -> Result<&Vec<Value>, PatchError> {
    value.as_array().ok_or_else(|| unexpected("[]interface {}", value))
}

fn as_map(value: &Value) -> Result<&Object, PatchError> {
    value.as_object().ok_or_else(|| unexpected("map[string]interface {}", value))
}

fn unexpected(wanted: &str, found: &Value) -> PatchError {
    let found = match found {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    PatchError::Strategic(format!("expected a {wanted}, but received a {found}"))
}

fn no_merge_key(fields: &Object, key: &str) -> PatchError {
    PatchError::Strategic(format!("map: {} does not contain declared merge key: {key}", go_map(fields)))
}

fn unknown_directive(fields: &Object) -> PatchError {
    let directive = fields.get(DIRECTIVE).map(go_text).unwrap_or_default();
    PatchError::Strategic(format!("unknown patch type: {directive} in map: {}", go_map(fields)))
}

/// The reference prints values as Go does: `map[image:zzz ports:[80 443]]`.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => go_list(items),
        Value::Object(fields) => go_map(fields),
        scalar => scalar.to_string(),
    }
}

fn go_list(items: &[Value]) -> String {
    format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" "))
}

fn go_map(fields: &Object) -> String {
    let pairs = fields.iter().map(|(key, value)| format!("{key}:{}", go_text(value)));
    format!("map[{}]", pairs.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
#[path = "strategic_tests.rs"]
mod tests;
