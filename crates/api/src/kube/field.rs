//! Field errors: one problem at one path, worded as Kubernetes words it (spec K 14.2).
//!
//! Every check returns a list of these; `status::ApiError::invalid` turns the list into one 422 answer.

use serde_json::Value;

/// Why a field is refused; the wire constant is `reason()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    NotFound,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
}

impl Problem {
    pub fn reason(self) -> &'static str {
        match self {
            Problem::Required => "FieldValueRequired",
            Problem::Invalid => "FieldValueInvalid",
            Problem::NotSupported => "FieldValueNotSupported",
            Problem::Duplicate => "FieldValueDuplicate",
            Problem::NotFound => "FieldValueNotFound",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::TooLong => "FieldValueTooLong",
            Problem::TooMany => "FieldValueTooMany",
            Problem::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One problem at one field path, with the text that follows the path in the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub path: String,
    pub problem: Problem,
    /// What stands after `<path>: `, for example `Required value` or `Invalid value: 0: must be greater than 0`.
    pub text: String,
}

impl FieldError {
    pub fn new(path: impl Into<String>, problem: Problem, text: impl Into<String>) -> Self {
        FieldError { path: path.into(), problem, text: text.into() }
    }

    /// `Required value`, or `Required value: <detail>` when there is a detail.
    pub fn required(path: impl Into<String>, detail: &str) -> Self {
        let text = if detail.is_empty() { "Required value".to_owned() } else { format!("Required value: {detail}") };
        Self::new(path, Problem::Required, text)
    }

    pub fn invalid(path: impl Into<String>, value: impl Into<Value>, detail: &str) -> Self {
        Self::new(path, Problem::Invalid, format!("Invalid value: {}: {detail}", value.into()))
    }

    pub fn not_supported(path: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list = supported.iter().map(|s| format!("\"{s}\"")).collect::<Vec<_>>().join(", ");
        Self::new(path, Problem::NotSupported, format!("Unsupported value: {}: supported values: {list}", value.into()))
    }

    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, Problem::Duplicate, format!("Duplicate value: {}", value.into()))
    }

    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(path, Problem::NotFound, format!("Not found: {}", value.into()))
    }

    pub fn forbidden(path: impl Into<String>, detail: &str) -> Self {
        Self::new(path, Problem::Forbidden, format!("Forbidden: {detail}"))
    }

    pub fn too_long(path: impl Into<String>, bytes_max: usize) -> Self {
        Self::new(path, Problem::TooLong, format!("Too long: may not be more than {bytes_max} bytes"))
    }

    pub fn too_many(path: impl Into<String>, count: usize, count_max: usize) -> Self {
        Self::new(path, Problem::TooMany, format!("Too many: {count}: must have at most {count_max} items"))
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}
