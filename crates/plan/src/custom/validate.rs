//! The constraints of a schema on a value, with the texts of the reference's schema validator (K-CRD-8).
//!
//! Each check counts what matched, because a failed `anyOf` or `oneOf` reports the branch that came closest. With an
//! old value, errors in parts that did not change are forgiven (ratcheting).

use super::lists;
use super::number::{float_text, number_text, value_text};
use super::place::Place;
use super::schema::{Additional, Limits, ListKind, Node, Type};
use serde_json::{Map, Number, Value};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use volley_api::kube::field::{FieldError, Problem};

/// More errors than this help nobody, and a hostile list could make millions.
const ERRORS_MAX: usize = 500;

/// Checks a value; `below` is the field that holds it when it is not a whole object (`status`).
pub(super) fn validate(node: &Node, value: &Value, old: Option<&Value>, below: Option<&str>) -> Vec<FieldError> {
    let mut errors = check(node, value, old, &Place::Root).errors;
    if let Some(field) = below {
        for error in &mut errors {
            error.path = if error.path == "<nil>" { field.to_owned() } else { format!("{field}.{}", error.path) };
        }
    }
    errors
}

#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matched: u32,
}

impl Outcome {
    fn merge(&mut self, other: Outcome) {
        self.matched += other.matched;
        for error in other.errors {
            self.add(error);
        }
    }

    fn add(&mut self, error: FieldError) {
        if self.errors.len() < ERRORS_MAX && !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }
}

/// An error at a named value: `<path>: Invalid value: <value>: <name> in body <what>`.
fn at(place: &Place<'_>, problem: Problem, value: &str, what: &str) -> FieldError {
    let name = place.name();
    let text = format!("Invalid value: {value}: {name} in body {what}");
    FieldError::new(path_of(&name), problem, text)
}

fn invalid(place: &Place<'_>, value: &str, what: &str) -> FieldError {
    at(place, Problem::Invalid, value, what)
}

/// An error that the reference reports without a path; the name is in its text.
fn nowhere(detail: &str) -> FieldError {
    FieldError::invalid("<nil>", "", detail)
}

fn path_of(name: &str) -> String {
    let name = name.strip_prefix('.').unwrap_or(name);
    if name.is_empty() { "<nil>".to_owned() } else { name.to_owned() }
}

fn check(node: &Node, value: &Value, old: Option<&Value>, place: &Place<'_>) -> Outcome {
    let mut outcome = check_branch(node, value, old, place);
    // What was wrong before and has not changed is forgiven, so that old objects can still be updated.
    if !outcome.errors.is_empty() && old == Some(value) {
        outcome.errors.clear();
    }
    outcome
}

fn check_branch(node: &Node, value: &Value, old: Option<&Value>, place: &Place<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if value.is_null() {
        outcome.merge(check_type(node, value, place));
        check_enum(node, value, place, &mut outcome);
        return outcome;
    }
    if !node.types.is_empty() || node.format.is_some() {
        outcome.merge(check_type(node, value, place));
        outcome.matched += 1;
    }
    if let Some(limits) = &node.limits {
        outcome.merge(check_combinations(limits, value, old, place));
    }
    outcome.matched += 2;
    match value {
        Value::String(text) => check_text(node, text, place, &mut outcome),
        Value::Number(number) => check_number(node, number, place, &mut outcome),
        Value::Array(items) => check_items(node, items, old, place, &mut outcome),
        Value::Object(members) => check_members(node, members, old, place, &mut outcome),
        Value::Null | Value::Bool(_) => {}
    }
    check_enum(node, value, place, &mut outcome);
    outcome.matched += 2;
    outcome
}

fn check_type(node: &Node, value: &Value, place: &Place<'_>) -> Outcome {
    let fail = |wanted: &str, found: &str| Outcome {
        errors: vec![at(
            place,
            Problem::TypeInvalid,
            &format!("{found:?}"),
            &format!("must be of type {wanted}: {found:?}"),
        )],
        matched: 0,
    };
    let fits = Outcome { errors: Vec::new(), matched: 1 };
    let wanted = || node.types.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",");
    let (found, found_format) = match value {
        Value::Null if node.types.is_empty() || node.is_nullable => return fits,
        Value::Null => return fail(&wanted(), "null"),
        Value::Bool(_) => (Type::Boolean, ""),
        Value::String(_) => (Type::String, ""),
        Value::Number(number) if number.is_i64() => (Type::Integer, "int64"),
        Value::Number(_) => (Type::Number, "float64"),
        Value::Array(_) => (Type::Array, ""),
        Value::Object(_) => (Type::Object, ""),
    };
    let is_whole_float = found == Type::Number && value.as_f64().is_some_and(is_whole) && node.is(Type::Integer);
    let is_integer_for_number = found == Type::Integer && node.is(Type::Number);
    let has_type = node.is(found) || is_whole_float || is_integer_for_number;
    let is_text_or_list = matches!(found, Type::String | Type::Array);
    if let Some(format) = node.format {
        if !is_text_or_list && !has_type {
            return fail(format.name, found_format);
        }
        if is_text_or_list && !node.is(Type::Number) && !node.is(Type::Integer) {
            return fits;
        }
    }
    if has_type { fits } else { fail(&wanted(), found.name()) }
}

fn is_whole(value: f64) -> bool {
    // Beyond 2^53 a float cannot say whether it is whole.
    value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_991.0
}

fn check_enum(node: &Node, value: &Value, place: &Place<'_>, outcome: &mut Outcome) {
    let Some(limits) = &node.limits else { return };
    let is_same = |allowed: &Value| match (allowed, value) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => !b.is_null() && a == b,
    };
    if limits.values.is_empty() || limits.values.iter().any(is_same) {
        return;
    }
    let quoted = |allowed: &Value| match allowed {
        Value::String(_) => allowed.to_string(),
        other => Value::from(other.to_string()).to_string(),
    };
    let supported = limits.values.iter().map(quoted).collect::<Vec<_>>().join(", ");
    let text = format!("Unsupported value: {}: supported values: {supported}", value_text(value));
    outcome.add(FieldError::new(path_of(&place.name()), Problem::NotSupported, text));
}

fn check_text(node: &Node, text: &str, place: &Place<'_>, outcome: &mut Outcome) {
    outcome.matched += 1;
    if let Some(limits) = &node.limits
        && let Some(error) = text_error(limits, text, place)
    {
        outcome.add(error);
    }
    if let Some(format) = node.format {
        outcome.matched += 1;
        if !(format.accepts)(text) {
            let quoted = Value::from(text).to_string();
            let what = format!("must be of type {}: {quoted}", format.name);
            outcome.add(at(place, Problem::TypeInvalid, &quoted, &what));
        }
    }
}

/// Only the first of the three is reported.
fn text_error(limits: &Limits, text: &str, place: &Place<'_>) -> Option<FieldError> {
    let quoted = || Value::from(text).to_string();
    let length = text.chars().count();
    if let Some(max) = limits.length_max
        && length > max
    {
        return Some(FieldError::too_long(path_of(&place.name()), max));
    }
    if let Some(min) = limits.length_min
        && length < min
    {
        return Some(invalid(place, &quoted(), &format!("should be at least {min} chars long")));
    }
    let (source, regex) = limits.pattern.as_ref()?;
    (!regex.is_match(text)).then(|| invalid(place, &quoted(), &format!("should match '{source}'")))
}

fn check_number(node: &Node, number: &Number, place: &Place<'_>, outcome: &mut Outcome) {
    outcome.matched += 2;
    let Some(limits) = &node.limits else { return };
    let value = number.as_f64().unwrap_or(f64::NAN);
    let shown = number_text(number);
    // Whole numbers are compared with the whole part of a bound.
    let cut = |bound: f64| if number.is_i64() { bound.trunc() } else { bound };
    if let Some(factor) = limits.multiple_of.map(cut) {
        let factor_text = float_text(factor);
        if factor <= 0.0 {
            let detail = format!("factor MultipleOf declared for {} must be positive: {factor_text}", place.name());
            let text = format!("Invalid value: {factor_text}: {detail}");
            outcome.add(FieldError::new(path_of(&place.name()), Problem::Invalid, text));
        } else if !is_multiple(number, factor) {
            outcome.add(invalid(place, &shown, &format!("should be a multiple of {factor_text}")));
        }
    }
    let is_beyond = |bound: f64, is_exclusive: bool, order: Ordering| {
        let found = value.partial_cmp(&bound);
        found == Some(order) || is_exclusive && found == Some(Ordering::Equal)
    };
    let bounds = [
        (limits.minimum, limits.minimum_is_exclusive, Ordering::Less, "greater"),
        (limits.maximum, limits.maximum_is_exclusive, Ordering::Greater, "less"),
    ];
    for (bound, is_exclusive, order, side) in bounds {
        let Some(bound) = bound.map(cut).filter(|bound| is_beyond(*bound, is_exclusive, order)) else { continue };
        let than = if is_exclusive { "than" } else { "than or equal to" };
        outcome.add(invalid(place, &shown, &format!("should be {side} {than} {}", float_text(bound))));
    }
}

fn is_multiple(number: &Number, factor: f64) -> bool {
    match number.as_i64() {
        #[expect(clippy::cast_possible_truncation, reason = "the factor is whole for whole numbers")]
        Some(whole) => whole % (factor as i64) == 0,
        None => {
            let value = number.as_f64().unwrap_or(f64::NAN);
            is_whole(if factor < 1.0 { 1.0 / factor * value } else { value / factor })
        }
    }
}

fn check_items(node: &Node, items: &[Value], old: Option<&Value>, place: &Place<'_>, outcome: &mut Outcome) {
    outcome.matched += 2;
    if let Some(sub) = &node.items {
        let old_items = OldItems::of(&node.list, old);
        for (index, item) in items.iter().enumerate() {
            outcome.merge(check(sub, item, old_items.matching(item), &Place::Index(place, index)));
        }
    }
    let Some(limits) = &node.limits else { return };
    let size = items.len();
    if let Some(min) = limits.items_min.filter(|min| size < *min) {
        outcome.add(invalid(place, &size.to_string(), &format!("should have at least {min} items")));
    }
    if let Some(max) = limits.items_max.filter(|max| size > *max) {
        outcome.add(FieldError::too_many(path_of(&place.name()), size, max));
    }
    if limits.items_are_unique && has_duplicates(items) {
        outcome.add(invalid(place, "\"\"", "shouldn't contain duplicates"));
    }
}

fn has_duplicates(items: &[Value]) -> bool {
    let mut seen = std::collections::BTreeSet::new();
    !items.iter().all(|item| seen.insert(item.to_string()))
}

/// The items of the old list, found by their keys; items of other lists have no past of their own.
pub(super) struct OldItems<'a> {
    keys: &'a [Box<str>],
    items: BTreeMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn of(list: &'a ListKind, old: Option<&'a Value>) -> Self {
        let (ListKind::Map(keys), Some(Value::Array(items))) = (list, old) else {
            return OldItems { keys: &[], items: BTreeMap::new() };
        };
        OldItems { keys, items: items.iter().map(|item| (lists::key_of(item, keys).to_string(), item)).collect() }
    }

    pub(super) fn matching(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&lists::key_of(item, self.keys).to_string()).copied()
    }
}

fn check_members(
    node: &Node,
    members: &Map<String, Value>,
    old: Option<&Value>,
    place: &Place<'_>,
    outcome: &mut Outcome,
) {
    outcome.matched += 1;
    let size = members.len();
    if let Some(limits) = &node.limits {
        if let Some(min) = limits.properties_min.filter(|min| size < *min) {
            outcome.add(invalid(place, &size.to_string(), &format!("should have at least {min} properties")));
        }
        if let Some(max) = limits.properties_max.filter(|max| size > *max) {
            outcome.add(FieldError::too_many(path_of(&place.name()), size, max));
        }
    }
    for (name, member) in members {
        let is_type_meta = matches!(place, Place::Root) && matches!(name.as_str(), "apiVersion" | "kind");
        let old_member = if is_type_meta { None } else { old.and_then(|old| old.get(name)) };
        if let Some(sub) = node.property(name) {
            outcome.merge(check(sub, member, old_member, &Place::Field(place, name)));
            continue;
        }
        match &node.additional {
            Additional::Of(sub) => outcome.merge(check(sub, member, old_member, &Place::Key(place, name))),
            Additional::Never => outcome.add(forbidden_member(place, name)),
            Additional::Absent | Additional::Any => {}
        }
    }
    for name in &node.required {
        if !members.contains_key(name.as_ref()) {
            outcome.add(FieldError::required(path_of(&Place::Key(place, name).name()), ""));
        }
    }
}

fn forbidden_member(place: &Place<'_>, member: &str) -> FieldError {
    let name = place.name();
    let text = format!("Invalid value: {}: {name}.{member} in body is a forbidden property", Value::from(member));
    FieldError::new(path_of(&name), Problem::Invalid, text)
}

fn check_combinations(limits: &Limits, value: &Value, old: Option<&Value>, place: &Place<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let branch = |node: &Node| check_branch(node, value, old, place);
    let title = || Value::from(place.name()).to_string();
    if !limits.any_of.is_empty() {
        match best(limits.any_of.iter().map(branch)) {
            (0, closest) => {
                outcome.add(nowhere(&format!("{} must validate at least one schema (anyOf)", title())));
                outcome.merge(closest);
            }
            (_, first) => outcome.merge(first),
        }
    }
    if !limits.one_of.is_empty() {
        match best(limits.one_of.iter().map(branch)) {
            (1, only) => outcome.merge(only),
            (0, closest) => {
                outcome.add(nowhere(&format!(
                    "{} must validate one and only one schema (oneOf). Found none valid",
                    title()
                )));
                outcome.merge(closest);
            }
            (count, _) => outcome.add(nowhere(&format!(
                "{} must validate one and only one schema (oneOf). Found {count} valid alternatives",
                title()
            ))),
        }
    }
    let mut valid_count = 0;
    for node in &limits.all_of {
        let result = branch(node);
        valid_count += usize::from(result.errors.is_empty());
        outcome.merge(result);
    }
    if valid_count != limits.all_of.len() {
        let none = if valid_count == 0 { ". None validated" } else { "" };
        outcome.add(nowhere(&format!("{} must validate all the schemas (allOf){none}", title())));
    }
    if limits.not.as_ref().is_some_and(|not| branch(not).errors.is_empty()) {
        outcome.add(nowhere(&format!("{} must not validate the schema (not)", title())));
    }
    outcome
}

/// How many branches are valid, with the first valid one, or else the one that matched most.
fn best(branches: impl Iterator<Item = Outcome>) -> (usize, Outcome) {
    let mut valid_count = 0;
    let mut kept: Option<Outcome> = None;
    for branch in branches {
        let is_valid = branch.errors.is_empty();
        let is_better = match &kept {
            None => true,
            Some(_) if is_valid => valid_count == 0,
            Some(kept) => valid_count == 0 && branch.matched > kept.matched,
        };
        valid_count += usize::from(is_valid);
        if is_better {
            kept = Some(branch);
        }
    }
    (valid_count, kept.unwrap_or_default())
}
