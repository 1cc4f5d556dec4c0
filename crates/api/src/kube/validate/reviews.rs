//! Requests that are answered and not stored: tokens and questions about access (K-AUTH-5, K-AUTH-7), and `Scale`.

use super::rows::{Row, check, is_empty, number, set_at};
use crate::kube::field::FieldError;
use crate::kube::text;
use serde_json::Value;

/// Checks a request body of one of these kinds; metadata is not asked for, nothing is stored.
pub fn check_review(kind: &str, review: &Value) -> Vec<FieldError> {
    match kind {
        "TokenRequest" => check_token_request(review),
        "SubjectAccessReview" => check_subject_access_review(review),
        "SelfSubjectAccessReview" => check_self_subject_access_review(review),
        "LocalSubjectAccessReview" => check_local_subject_access_review(review),
        "Scale" => check(review, "", &[Row::NotNegative("spec.replicas")]),
        _ => Vec::new(),
    }
}

const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

fn check_token_request(request: &Value) -> Vec<FieldError> {
    let path = "spec.expirationSeconds";
    let seconds = number(request, path).unwrap_or(0);
    if seconds < TOKEN_SECONDS_MIN {
        return vec![FieldError::invalid(path, seconds, "may not specify a duration less than 10 minutes")];
    }
    if seconds > TOKEN_SECONDS_MAX {
        return vec![FieldError::invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")];
    }
    Vec::new()
}

/// Exactly one thing is asked about.
fn check_subject_of_question(review: &Value) -> Vec<FieldError> {
    let (resource, other) = (set_at(review, "spec.resourceAttributes"), set_at(review, "spec.nonResourceAttributes"));
    match (resource, other) {
        (Some(_), Some(other)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            vec![FieldError::invalid("spec.nonResourceAttributes", other.clone(), detail)]
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            vec![FieldError::invalid("spec.resourceAttributes", Value::Null, detail)]
        }
        (Some(_), None) | (None, Some(_)) => Vec::new(),
    }
}

fn check_user(review: &Value) -> Option<FieldError> {
    let is_named = !text(review, "spec.user").is_empty() || !is_empty(review["spec"].get("groups"));
    (!is_named).then(|| FieldError::invalid("spec.user", "", "at least one of user or group must be specified"))
}

/// Nothing is created, so the question has no name, and no labels either.
fn check_no_metadata(review: &Value, but: &str, detail: &str) -> Option<FieldError> {
    let fields = review["metadata"].as_object().into_iter().flatten();
    let mut given = fields.filter(|(name, value)| *name != "managedFields" && *name != but && !is_empty(Some(value)));
    given.next().map(|_| FieldError::invalid("metadata", review["metadata"].clone(), detail))
}

fn check_self_subject_access_review(review: &Value) -> Vec<FieldError> {
    let mut errors = check_subject_of_question(review);
    errors.extend(check_no_metadata(review, "", "must be empty"));
    errors
}

fn check_subject_access_review(review: &Value) -> Vec<FieldError> {
    let mut errors = check_self_subject_access_review(review);
    errors.extend(check_user(review));
    errors
}

fn check_local_subject_access_review(review: &Value) -> Vec<FieldError> {
    let mut errors = check_subject_of_question(review);
    errors.extend(check_user(review));
    errors.extend(check_no_metadata(review, "namespace", "must be empty except for namespace"));
    let wanted = text(review, "spec.resourceAttributes.namespace");
    if set_at(review, "spec.resourceAttributes").is_some() && wanted != text(review, "metadata.namespace") {
        let path = "spec.resourceAttributes.namespace";
        errors.push(FieldError::invalid(path, wanted, "must match metadata.namespace"));
    }
    if let Some(other) = set_at(review, "spec.nonResourceAttributes") {
        let detail = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", other.clone(), detail));
    }
    errors
}
