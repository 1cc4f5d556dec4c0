//! The one error type of the Kubernetes API: a `Status` object with the texts that clients print and parse (spec K 14).

use super::field::FieldError;
use serde_json::{Map, Value, json};

/// A failed request, ready to be written as a `Status` body.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub code: u16,
    /// Empty when the reference gives none.
    pub reason: &'static str,
    pub message: String,
    pub details: Value,
}

/// `plural` or `plural.group`, as messages name a resource.
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

fn details(name: &str, group: &str, kind: &str) -> Value {
    let mut map = Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            map.insert(key.to_owned(), value.into());
        }
    }
    Value::Object(map)
}

impl ApiError {
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        ApiError { code, reason, message: message.into(), details: Value::Null }
    }

    fn of(code: u16, reason: &'static str, message: String, name: &str, group: &str, kind: &str) -> Self {
        ApiError { code, reason, message, details: details(name, group, kind) }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let details = json!({"causes": [{"message": message.clone()}]});
        ApiError { code: 500, reason: "InternalError", message: format!("Internal error occurred: {message}"), details }
    }

    /// A 500 whose text the reference passes on bare, without a reason.
    pub fn bare(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        Self::of(404, "NotFound", format!("{} \"{name}\" not found", qualified(plural, group)), name, group, plural)
    }

    pub fn unknown_resource() -> Self {
        ApiError {
            details: json!({}),
            ..Self::new(404, "NotFound", "the server could not find the requested resource")
        }
    }

    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(plural, group));
        Self::of(409, "AlreadyExists", message, name, group, plural)
    }

    pub fn conflict(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(plural, group));
        Self::of(409, "Conflict", message, name, group, plural)
    }

    pub fn stale(group: &str, plural: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, plural, name, why)
    }

    /// Refused by admission: `<plural> "<name>" is forbidden: <why>`.
    pub fn forbidden(group: &str, plural: &str, name: &str, why: &str) -> Self {
        let subject =
            if name.is_empty() { qualified(plural, group) } else { format!("{} \"{name}\"", qualified(plural, group)) };
        Self::of(403, "Forbidden", format!("{subject} is forbidden: {why}"), name, group, plural)
    }

    /// One 422 answer for all problems of an object; `kind` is the Kind, not the plural.
    pub fn invalid(group: &str, kind: &str, name: &str, mut errors: Vec<FieldError>) -> Self {
        // The note that other checks were left out has no place in the object; it stands after the faults it speaks of.
        errors.sort_by(|a, b| (a.path == "<nil>", &a.path).cmp(&(b.path == "<nil>", &b.path)));
        let causes: Vec<Value> =
            errors.iter().map(|e| json!({"reason": e.problem.reason(), "message": e.text, "field": e.path})).collect();
        // The message says each thing once; the causes are all there.
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut error = Self::of(
            422,
            "Invalid",
            format!("{} \"{name}\" is invalid: {list}", qualified(kind, group)),
            name,
            group,
            kind,
        );
        error.details["causes"] = Value::Array(causes);
        error
    }

    pub fn method_not_allowed() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The `Status` object that goes over the wire.
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_each_thing_once() {
        let error = FieldError::required("spec.a", "");
        let twice = ApiError::invalid("", "Pod", "p", vec![error.clone(), error]);
        assert_eq!(twice.message, "Pod \"p\" is invalid: spec.a: Required value");
        assert_eq!(twice.details["causes"].as_array().map(Vec::len), Some(2));
    }
}
