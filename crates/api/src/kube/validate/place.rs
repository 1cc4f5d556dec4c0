//! A value under check: what it is, where it stands in its object, and the list on which its problems are noted.
//!
//! Checks walk from place to place. A place points at the one that it was reached from, so that a walk over a good
//! object builds no text. Keys may be dotted (`spec.nodeName`); the key `""` means the value itself. Decoding has seen
//! to the types, so an absent field and an empty one read alike, as they do in the reference.

use super::compare::{is_empty, same};
use crate::kube::field::{FieldError, Problem};
use crate::kube::quantity::Quantity;
use crate::kube::{at, names};
use serde_json::Value;
use std::cell::RefCell;

pub const NEGATIVE: &str = "must be greater than or equal to 0";
pub const NOT_POSITIVE: &str = "must be greater than zero";
pub const IMMUTABLE: &str = "field is immutable";

static NULL: Value = Value::Null;

pub struct Place<'p, 'v> {
    pub value: &'v Value,
    parent: Option<&'p Place<'p, 'v>>,
    step: Step<'p>,
    problems: &'p RefCell<Vec<FieldError>>,
}

enum Step<'p> {
    Field(&'p str),
    Item(&'p str, usize),
    Entry(&'p str, &'p str),
}

/// What `check` notes about a value that stands at `path`, `""` for an object itself.
pub fn problems(value: &Value, path: &str, check: impl FnOnce(&Place)) -> Vec<FieldError> {
    let problems = RefCell::default();
    check(&Place { value, parent: None, step: Step::Field(path), problems: &problems });
    problems.into_inner()
}

/// The quantity in a value that decoding has put into canonical form.
pub fn quantity(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

/// Walking and reading.
impl<'v> Place<'_, 'v> {
    fn to<'b, 'w>(&'b self, step: Step<'b>, value: &'w Value) -> Place<'b, 'w>
    where
        'v: 'w,
    {
        Place { value, parent: Some(self), step, problems: self.problems }
    }

    pub fn field<'b>(&'b self, key: &'b str) -> Place<'b, 'v> {
        self.to(Step::Field(key), self.get(key))
    }

    /// A value that is reported as if it stood in field `key`.
    pub fn stand_in<'b, 'w>(&'b self, key: &'b str, value: &'w Value) -> Place<'b, 'w>
    where
        'v: 'w,
    {
        self.to(Step::Field(key), value)
    }

    /// The field, if it is there and not null.
    pub fn given<'b>(&'b self, key: &'b str) -> Option<Place<'b, 'v>> {
        self.has(key).then(|| self.field(key))
    }

    pub fn items<'b>(&'b self, key: &'b str) -> impl Iterator<Item = Place<'b, 'v>> {
        self.list(key).iter().enumerate().map(move |(index, item)| self.to(Step::Item(key, index), item))
    }

    /// The entries of a map, whose keys stand in brackets.
    pub fn entries<'b>(&'b self, key: &'b str) -> impl Iterator<Item = (&'v str, Place<'b, 'v>)> {
        let entries = self.get(key).as_object().into_iter().flatten();
        entries.map(move |(name, value)| (name.as_str(), self.to(Step::Entry(key, name), value)))
    }

    pub fn get(&self, key: &str) -> &'v Value {
        if key.is_empty() { self.value } else { at(self.value, key).unwrap_or(&NULL) }
    }

    pub fn has(&self, key: &str) -> bool {
        !self.get(key).is_null()
    }

    pub fn text(&self, key: &str) -> &'v str {
        self.get(key).as_str().unwrap_or("")
    }

    pub fn integer(&self, key: &str) -> Option<i64> {
        self.get(key).as_i64()
    }

    pub fn flag(&self, key: &str) -> bool {
        self.get(key).as_bool().unwrap_or(false)
    }

    pub fn list(&self, key: &str) -> &'v [Value] {
        self.get(key).as_array().map_or(&[], Vec::as_slice)
    }

    pub fn texts(&self, key: &str) -> impl Iterator<Item = &'v str> {
        self.list(key).iter().filter_map(Value::as_str)
    }

    pub fn path(&self, key: &str) -> String {
        let mut path = self.parent.map_or_else(String::new, |parent| parent.path(""));
        let mut join = |name: &str| {
            if !path.is_empty() && !name.is_empty() && !name.starts_with('[') {
                path.push('.');
            }
            path.push_str(name);
        };
        match self.step {
            Step::Field(name) => join(name),
            Step::Item(name, index) => [name, &format!("[{index}]")].into_iter().for_each(&mut join),
            Step::Entry(name, entry) => [name, &format!("[{entry}]")].into_iter().for_each(&mut join),
        }
        join(key);
        path
    }
}

/// Noting problems.
impl Place<'_, '_> {
    pub fn note(&self, error: FieldError) {
        self.problems.borrow_mut().push(error);
    }

    /// How many problems were noted so far, here and elsewhere.
    pub fn noted(&self) -> usize {
        self.problems.borrow().len()
    }

    /// A problem with a text that the reference words in its own way.
    pub fn worded(&self, key: &str, problem: Problem, text: String) {
        self.note(FieldError::new(self.path(key), problem, text));
    }

    pub fn required(&self, key: &str, detail: &str) {
        self.note(FieldError::required(self.path(key), detail));
    }

    pub fn invalid(&self, key: &str, value: impl Into<Value>, detail: &str) {
        self.note(FieldError::invalid(self.path(key), value, detail));
    }

    pub fn invalid_if(&self, is_wrong: bool, key: &str, value: impl Into<Value>, detail: &str) {
        if is_wrong {
            self.invalid(key, value, detail);
        }
    }

    /// `invalid` that shows the field as it is.
    pub fn wrong(&self, key: &str, detail: &str) {
        self.invalid(key, self.get(key).clone(), detail);
    }

    pub fn wrong_if(&self, is_wrong: bool, key: &str, detail: &str) {
        if is_wrong {
            self.wrong(key, detail);
        }
    }

    pub fn forbidden(&self, key: &str, detail: &str) {
        self.note(FieldError::forbidden(self.path(key), detail));
    }

    pub fn forbidden_if(&self, is_wrong: bool, key: &str, detail: &str) {
        if is_wrong {
            self.forbidden(key, detail);
        }
    }

    pub fn not_supported(&self, key: &str, value: impl Into<Value>, supported: &[&str]) {
        self.note(FieldError::not_supported(self.path(key), value, supported));
    }

    pub fn not_found(&self, key: &str, value: &str) {
        self.note(FieldError::not_found(self.path(key), value));
    }

    pub fn duplicate_if(&self, is_duplicate: bool, key: &str, value: impl Into<Value>) {
        if is_duplicate {
            self.note(FieldError::duplicate(self.path(key), value));
        }
    }

    pub fn too_long_if(&self, is_too_long: bool, key: &str, bytes_max: usize) {
        if is_too_long {
            self.note(FieldError::too_long(self.path(key), bytes_max));
        }
    }

    pub fn items_at_most(&self, key: &str, count_max: usize) {
        let count = self.list(key).len();
        if count > count_max {
            self.note(FieldError::too_many(self.path(key), count, count_max));
        }
    }

    /// One `Invalid value` for each complaint.
    pub fn complain(&self, key: &str, value: impl Into<Value> + Clone, complaints: Vec<String>) {
        complaints.iter().for_each(|text| self.invalid(key, value.clone(), text));
    }
}

/// Checks that many kinds share.
impl Place<'_, '_> {
    /// Fields that must be there and not be empty.
    pub fn needs(&self, keys: &[&str]) {
        keys.iter().for_each(|key| self.needs_because(key, ""));
    }

    pub fn needs_because(&self, key: &str, detail: &str) {
        if is_empty(self.get(key)) {
            self.required(key, detail);
        }
    }

    /// A name of the right shape; an absent one is an empty one.
    pub fn named(&self, key: &str, check: names::Check) {
        self.complain(key, self.text(key), check(self.text(key)));
    }

    /// A name that may be absent, but not empty.
    pub fn named_if_given(&self, key: &str, check: names::Check) {
        if self.has(key) {
            self.named(key, check);
        }
    }

    /// A name that may be absent or empty.
    pub fn named_unless_empty(&self, key: &str, check: names::Check) {
        if !self.text(key).is_empty() {
            self.named(key, check);
        }
    }

    pub fn needs_name(&self, key: &str, check: names::Check) {
        if self.text(key).is_empty() {
            self.required(key, "");
        } else {
            self.named(key, check);
        }
    }

    /// One of a few words; an absent one is an empty one.
    pub fn one_of(&self, key: &str, supported: &[&str]) {
        let word = self.text(key);
        if !supported.contains(&word) {
            self.not_supported(key, word, supported);
        }
    }

    pub fn one_of_if_given(&self, key: &str, supported: &[&str]) {
        if self.has(key) {
            self.one_of(key, supported);
        }
    }

    pub fn needs_one_of(&self, key: &str, supported: &[&str]) {
        if self.text(key).is_empty() {
            self.required(key, "");
        } else {
            self.one_of(key, supported);
        }
    }

    /// Numbers that must not be negative; absent is fine.
    pub fn not_negative(&self, keys: &[&str]) {
        for key in keys {
            self.wrong_if(self.integer(key).is_some_and(|number| number < 0), key, NEGATIVE);
        }
    }

    /// A number that, if given, lies within bounds, both included.
    pub fn in_range(&self, key: &str, low: i64, high: i64) {
        if let Some(number) = self.integer(key) {
            self.complain(key, number, names::in_range(number, low, high));
        }
    }

    pub fn port_number(&self, key: &str) {
        let number = self.integer(key).unwrap_or(0);
        self.complain(key, number, names::port_number(number));
    }

    /// A port number, or the name of a container's port.
    pub fn port_or_name(&self, key: &str) {
        if self.get(key).is_string() { self.named(key, names::port_name) } else { self.port_number(key) }
    }

    /// A path must not climb: no `..` between its slashes.
    pub fn no_backsteps(&self, key: &str) {
        self.wrong_if(self.text(key).split('/').any(|part| part == ".."), key, "must not contain '..'");
    }

    /// A relative path that does not climb.
    pub fn descending(&self, key: &str) {
        self.wrong_if(self.text(key).starts_with('/'), key, "must be a relative path");
        self.no_backsteps(key);
    }

    /// Fields that stay as they were created.
    pub fn fixed(&self, old: &Value, keys: &[&str]) {
        for key in keys {
            self.wrong_if(!same(self.get(key), at(old, key).unwrap_or(&NULL)), key, IMMUTABLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(object: &Value, path: &str, check: impl FnOnce(&Place)) -> Vec<String> {
        problems(object, path, check).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_path_reads_as_the_reference_writes_it() {
        let pod = json!({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}});
        let found = texts(&pod, "", |pod| {
            for container in pod.field("spec").items("containers") {
                for (name, limit) in container.field("resources").entries("limits") {
                    limit.wrong("", name);
                }
            }
        });
        let expected = "spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: 1: nvidia.com/gpu";
        assert_eq!(found, [expected]);
    }

    #[test]
    fn every_broken_check_is_reported() {
        let check = |place: &Place| {
            place.needs(&["name"]);
            place.one_of_if_given("kind", &["A", "B"]);
            place.not_negative(&["count"]);
        };
        assert_eq!(texts(&json!({"name": "n", "kind": "A", "count": 0}), "spec", check), Vec::<String>::new());
        assert_eq!(
            texts(&json!({"kind": "C", "count": -1}), "spec", check),
            [
                "spec.name: Required value",
                r#"spec.kind: Unsupported value: "C": supported values: "A", "B""#,
                "spec.count: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
        let changed = texts(&json!({"x": 2}), "", |place| place.fixed(&json!({"x": 1}), &["x"]));
        assert_eq!(changed, ["x: Invalid value: 2: field is immutable"]);
    }
}
