//! Requests that are answered and not stored: tokens and questions about access (K-AUTH-5, K-AUTH-7), and `Scale`.

use super::compare::is_empty;
use super::place::{Place, problems};
use super::pod_volumes::token_seconds;
use crate::kube::field::FieldError;
use serde_json::Value;

/// Checks a request body of one of these kinds; metadata is not asked for, nothing is stored.
pub fn check_review(kind: &str, review: &Value) -> Vec<FieldError> {
    problems(review, "", |review| match kind {
        "TokenRequest" => token_seconds(review, "spec.expirationSeconds"),
        "SubjectAccessReview" => {
            subject_of_question(review);
            no_metadata(review, "", "must be empty");
            user(review);
        }
        "SelfSubjectAccessReview" => {
            subject_of_question(review);
            no_metadata(review, "", "must be empty");
        }
        "LocalSubjectAccessReview" => {
            subject_of_question(review);
            user(review);
            no_metadata(review, "namespace", "must be empty except for namespace");
            local_subject(&review.field("spec"), review.text("metadata.namespace"));
        }
        "Scale" => review.not_negative(&["spec.replicas"]),
        _ => {}
    })
}

/// Exactly one thing is asked about.
fn subject_of_question(review: &Place) {
    let spec = review.field("spec");
    match (spec.has("resourceAttributes"), spec.has("nonResourceAttributes")) {
        (true, true) => {
            spec.wrong("nonResourceAttributes", "cannot be specified in combination with resourceAttributes");
        }
        (false, false) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            spec.wrong("resourceAttributes", detail);
        }
        (true, false) | (false, true) => {}
    }
}

fn user(review: &Place) {
    let is_named = !review.text("spec.user").is_empty() || !is_empty(review.get("spec.groups"));
    review.invalid_if(!is_named, "spec.user", "", "at least one of user or group must be specified");
}

/// Nothing is created, so the question has no name, and no labels either.
fn no_metadata(review: &Place, but: &str, detail: &str) {
    let mut fields = review.entries("metadata");
    let is_given = fields.any(|(name, field)| name != "managedFields" && name != but && !is_empty(field.value));
    review.wrong_if(is_given, "metadata", detail);
}

fn local_subject(spec: &Place, namespace: &str) {
    const NAMESPACE: &str = "resourceAttributes.namespace";
    let wanted = spec.text(NAMESPACE);
    let is_elsewhere = spec.has("resourceAttributes") && wanted != namespace;
    spec.invalid_if(is_elsewhere, NAMESPACE, wanted, "must match metadata.namespace");
    let is_other = spec.has("nonResourceAttributes");
    spec.wrong_if(is_other, "nonResourceAttributes", "disallowed on this kind of request");
}
