//! Roles and bindings.

use super::Rule;
use super::label_selector::check_selector;
use super::rows::{Row, check, items, join, named, same, set_at};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{names, text};
use serde_json::Value;

const RBAC: &str = "rbac.authorization.k8s.io";

pub const RULES: &[Rule] = &[
    Rule { group: RBAC, kind: "Role", is_namespaced: true, create: check_role, update: |new, _| check_role(new) },
    Rule {
        group: RBAC,
        kind: "ClusterRole",
        is_namespaced: false,
        create: check_cluster_role,
        update: |new, _| check_cluster_role(new),
    },
    Rule {
        group: RBAC,
        kind: "RoleBinding",
        is_namespaced: true,
        create: check_role_binding,
        update: check_role_binding_update,
    },
    Rule {
        group: RBAC,
        kind: "ClusterRoleBinding",
        is_namespaced: false,
        create: check_cluster_role_binding,
        update: check_cluster_role_binding_update,
    },
];

pub fn check_role(role: &Value) -> Vec<FieldError> {
    check_rules(role, true)
}

pub fn check_cluster_role(role: &Value) -> Vec<FieldError> {
    let mut errors = check_rules(role, false);
    if let Some(aggregation) = set_at(role, "aggregationRule") {
        let path = "aggregationRule.clusterRoleSelectors";
        let selectors = items(aggregation, "clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(path, detail));
        }
        for (index, selector) in selectors.iter().enumerate() {
            errors.extend(check_selector(Some(selector), &format!("{path}[{index}]")));
        }
    }
    errors
}

fn check_rules(role: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (index, rule) in items(role, "rules").iter().enumerate() {
        let path = format!("rules[{index}]");
        errors.extend(check(rule, &path, &[Row::Required("verbs", "verbs must contain at least one value")]));
        let urls = items(rule, "nonResourceURLs");
        if urls.is_empty() {
            const RESOURCE_ROWS: &[Row] = &[
                Row::Required("apiGroups", "resource rules must supply at least one api group"),
                Row::Required("resources", "resource rules must supply at least one resource"),
            ];
            errors.extend(check(rule, &path, RESOURCE_ROWS));
            continue;
        }
        let place = join(&path, "nonResourceURLs");
        if is_namespaced {
            let detail = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(place.as_str(), urls.to_vec(), detail));
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !items(rule, name).is_empty()) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(place, urls.to_vec(), detail));
        }
    }
    errors
}

pub fn check_role_binding(binding: &Value) -> Vec<FieldError> {
    check_binding(binding, true)
}

pub fn check_cluster_role_binding(binding: &Value) -> Vec<FieldError> {
    check_binding(binding, false)
}

fn check_binding(binding: &Value, is_namespaced: bool) -> Vec<FieldError> {
    let (group, kind, name) =
        (text(binding, "roleRef.apiGroup"), text(binding, "roleRef.kind"), text(binding, "roleRef.name"));
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let mut errors = Vec::new();
    if group != RBAC {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[RBAC]));
    }
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    errors.extend(named(name, "roleRef.name", names::path_segment));
    for (index, subject) in items(binding, "subjects").iter().enumerate() {
        errors.extend(check_subject(subject, &format!("subjects[{index}]"), is_namespaced));
    }
    errors
}

fn check_subject(subject: &Value, path: &str, is_namespaced: bool) -> Vec<FieldError> {
    let (kind, group, name) = (text(subject, "kind"), text(subject, "apiGroup"), text(subject, "name"));
    let mut errors = check(subject, path, &[Row::Required("name", "")]);
    let place = join(path, "apiGroup");
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.extend(named(name, &join(path, "name"), names::dns_subdomain));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(place, group, &[""]));
            }
            if !is_namespaced && text(subject, "namespace").is_empty() {
                errors.push(FieldError::required(join(path, "namespace"), ""));
            }
        }
        "User" | "Group" if group != RBAC => errors.push(FieldError::not_supported(place, group, &[RBAC])),
        "User" | "Group" => {}
        other => {
            let kinds = &["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(join(path, "kind"), other, kinds));
        }
    }
    errors
}

pub fn check_role_binding_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_binding(new, true);
    errors.extend(check_role_ref(new, old));
    errors
}

pub fn check_cluster_role_binding_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_binding(new, false);
    errors.extend(check_role_ref(new, old));
    errors
}

fn check_role_ref(new: &Value, old: &Value) -> Option<FieldError> {
    if same(new.get("roleRef"), old.get("roleRef")) {
        return None;
    }
    let part = |name: &str| Value::from(text(new, &join("roleRef", name)));
    // The reference prints the reference with the field names of its own code.
    let shown = format!(r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#, part("apiGroup"), part("kind"), part("name"));
    Some(FieldError::new("roleRef", Problem::Invalid, format!("Invalid value: {shown}: cannot change roleRef")))
}
