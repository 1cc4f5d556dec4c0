//! Webhook configurations: they are stored, so they are checked, even while nobody calls them.

use super::Rule;
use super::label_selector::check_selector;
use super::rows::{Row, check, items, join, number, one_of, set_at};
use crate::kube::field::FieldError;
use crate::kube::{names, text};
use serde_json::Value;

const ADMISSION: &str = "admissionregistration.k8s.io";

pub const RULES: &[Rule] = &[
    Rule {
        group: ADMISSION,
        kind: "ValidatingWebhookConfiguration",
        is_namespaced: false,
        create: check_webhooks,
        update: |new, _| check_webhooks(new),
    },
    Rule {
        group: ADMISSION,
        kind: "MutatingWebhookConfiguration",
        is_namespaced: false,
        create: check_webhooks,
        update: |new, _| check_webhooks(new),
    },
];

pub fn check_webhooks(configuration: &Value) -> Vec<FieldError> {
    const ROWS: &[Row] = &[
        Row::OneOf("failurePolicy", &["Fail", "Ignore"]),
        Row::OneOf("matchPolicy", &["Equivalent", "Exact"]),
        Row::OneOf("reinvocationPolicy", &["IfNeeded", "Never"]),
        Row::Required("sideEffects", "must specify one of None, NoneOnDryRun"),
        Row::OneOf("sideEffects", &["None", "NoneOnDryRun"]),
        Row::Required("admissionReviewVersions", "must specify one of v1, v1beta1"),
    ];
    let mut errors = Vec::new();
    for (index, hook) in items(configuration, "webhooks").iter().enumerate() {
        let path = format!("webhooks[{index}]");
        errors.extend(check_hook_name(text(hook, "name"), &join(&path, "name")));
        errors.extend(check(hook, &path, ROWS));
        if let Some(seconds) = number(hook, "timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            errors.push(FieldError::invalid(join(&path, "timeoutSeconds"), seconds, detail));
        }
        for name in ["namespaceSelector", "objectSelector"] {
            errors.extend(check_selector(hook.get(name), &join(&path, name)));
        }
        if set_at(hook, "clientConfig.url").is_some() == set_at(hook, "clientConfig.service").is_some() {
            let detail = "exactly one of url or service is required";
            errors.push(FieldError::required(join(&path, "clientConfig"), detail));
        }
        for (place, rule) in items(hook, "rules").iter().enumerate() {
            errors.extend(check_hook_rule(rule, &format!("{path}.rules[{place}]")));
        }
    }
    errors
}

fn check_hook_name(name: &str, path: &str) -> Vec<FieldError> {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let complaints = names::dns_subdomain(name);
    if !complaints.is_empty() {
        return vec![FieldError::invalid(path, name, &complaints.join(","))];
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        return vec![FieldError::invalid(path, name, detail)];
    }
    Vec::new()
}

fn check_hook_rule(rule: &Value, path: &str) -> Vec<FieldError> {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    const ROWS: &[Row] = &[
        Row::Required("operations", ""),
        Row::Required("apiGroups", ""),
        Row::Required("apiVersions", ""),
        Row::Required("resources", ""),
        Row::OneOf("scope", &["*", "Cluster", "Namespaced"]),
    ];
    let mut errors = check(rule, path, ROWS);
    for (index, operation) in items(rule, "operations").iter().enumerate() {
        errors.extend(one_of(operation, &format!("{path}.operations[{index}]"), OPERATIONS));
    }
    for (name, what) in [("operations", "operations"), ("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = items(rule, name);
        if list.len() > 1 && list.iter().any(|item| item == "*") {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(join(path, name), list.to_vec(), &detail));
        }
    }
    errors
}
