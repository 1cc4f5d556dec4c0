//! Rules on metadata that hold for every kind: names, labels, annotations, owners, finalizers (spec K-OBJ-4, K-GC-2).
//!
//! `metadata` and `metadata_update` serve custom kinds too; `standard_finalizers` is for built-in kinds only.

use super::path::Path;
use super::read::{complain, entries, flag, given, integer, list, not_negative, string};
use crate::kube::field::{FieldError, Problem};
use crate::kube::names;
use serde_json::Value;
use std::collections::BTreeSet;

/// The shape that the names of a kind have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    Subdomain,
    Label,
    Label1035,
    PathSegment,
}

/// Kinds whose names are not DNS subdomains.
const NAME_RULES: &[(&str, &str, NameRule)] = &[
    ("", "Namespace", NameRule::Label),
    ("", "Service", NameRule::Label1035),
    ("apps", "StatefulSet", NameRule::Label),
    ("rbac.authorization.k8s.io", "Role", NameRule::PathSegment),
    ("rbac.authorization.k8s.io", "RoleBinding", NameRule::PathSegment),
    ("rbac.authorization.k8s.io", "ClusterRole", NameRule::PathSegment),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding", NameRule::PathSegment),
];

pub fn name_rule(group: &str, kind: &str) -> NameRule {
    let row = NAME_RULES.iter().find(|row| row.0 == group && row.1 == kind);
    row.map_or(NameRule::Subdomain, |row| row.2)
}

impl NameRule {
    /// What is wrong with a name, or with the prefix of one that is still to be generated.
    pub fn check(self, name: &str, is_prefix: bool) -> Vec<String> {
        let check = match self {
            NameRule::Subdomain => names::dns_subdomain,
            NameRule::Label => names::dns_label,
            NameRule::Label1035 => names::dns1035_label,
            NameRule::PathSegment if is_prefix => names::path_segment_prefix,
            NameRule::PathSegment => names::path_segment,
        };
        let ends_with_dash = name.len() > 1 && name.ends_with('-') && name.is_char_boundary(name.len() - 2);
        if is_prefix && ends_with_dash && self != NameRule::PathSegment {
            // The reference judges a prefix with its last two characters replaced by one letter.
            return check(&format!("{}a", &name[..name.len() - 2]));
        }
        check(name)
    }
}

const META: Path = Path::new("metadata");
/// All keys and values together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Rules for the metadata of a new object; its name has been generated already.
pub fn metadata(meta: &Value, name_rule: NameRule, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let prefix = string(meta, "generateName");
    if !prefix.is_empty() {
        complain(&mut errors, &META.field("generateName"), prefix, name_rule.check(prefix, true));
    }
    let name = string(meta, "name");
    if name.is_empty() {
        errors.push(FieldError::required(META.field("name"), "name or generateName is required"));
    } else {
        complain(&mut errors, &META.field("name"), name, name_rule.check(name, false));
    }
    let namespace = string(meta, "namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(META.field("namespace"), "")),
        (true, false) => complain(&mut errors, &META.field("namespace"), namespace, names::dns_label(namespace)),
        (false, false) => errors.push(FieldError::forbidden(META.field("namespace"), "not allowed on this type")),
        (false, true) => {}
    }
    not_negative(&mut errors, meta, &META, &["generation"]);
    errors.extend(content(meta));
    finalizers(&mut errors, meta);
    errors
}

/// Rules for changing the metadata of a stored object.
pub fn metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if given(old, "deletionTimestamp").is_some() {
        no_new_finalizers(&mut errors, new, old);
    }
    if string(new, "resourceVersion").is_empty() {
        errors.push(FieldError::invalid(META.field("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = integer(new, "generation").unwrap_or(0);
    if generation < integer(old, "generation").unwrap_or(0) {
        errors.push(FieldError::invalid(META.field("generation"), generation, "must not be decremented"));
    }
    for key in ["name", "namespace", "uid"] {
        if string(new, key) != string(old, key) {
            errors.push(FieldError::invalid(META.field(key), string(new, key), "field is immutable"));
        }
    }
    for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new[key] != old[key] {
            errors.push(FieldError::invalid(META.field(key), new[key].clone(), "field is immutable"));
        }
    }
    errors.extend(content(new));
    errors
}

/// What create and update check alike.
fn content(meta: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    labels(&mut errors, meta, "labels", &META);
    annotations(&mut errors, meta, &META);
    owners(&mut errors, meta);
    for (index, entry) in list(meta, "managedFields").iter().enumerate() {
        managed_fields(&mut errors, entry, &META.field("managedFields").index(index));
    }
    errors
}

/// A map of labels in field `key` of `object`.
pub fn labels(errors: &mut Vec<FieldError>, object: &Value, key: &str, path: &Path) {
    let path = path.field(key);
    for (name, value) in entries(object, key) {
        let value = value.as_str().unwrap_or("");
        complain(errors, &path, name, names::qualified_name(name));
        complain(errors, &path, value, names::label_value(value));
    }
}

/// The annotations of `object`; their keys may have capitals in the prefix.
pub fn annotations(errors: &mut Vec<FieldError>, object: &Value, path: &Path) {
    let path = path.field("annotations");
    let mut bytes = 0;
    for (name, value) in entries(object, "annotations") {
        bytes += name.len() + value.as_str().map_or(0, str::len);
        let complaints = if name.bytes().any(|b| b.is_ascii_uppercase()) {
            names::qualified_name(&name.to_lowercase())
        } else {
            names::qualified_name(name)
        };
        complain(errors, &path, name, complaints);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
}

fn owners(errors: &mut Vec<FieldError>, meta: &Value) {
    let path = META.field("ownerReferences");
    let owners = list(meta, "ownerReferences");
    let mut controller: Option<String> = None;
    for owner in owners {
        owner_reference(errors, owner, &path);
        if !flag(owner, "controller") {
            continue;
        }
        let this = format!("{}/{}", string(owner, "kind"), string(owner, "name"));
        match &controller {
            None => controller = Some(this),
            Some(first) => {
                let shown = owners.iter().map(owner_text).collect::<Vec<_>>().join(",");
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                errors.push(FieldError::new(path, Problem::Invalid, format!("Invalid value: [{shown}]: {detail}")));
            }
        }
    }
}

fn owner_reference(errors: &mut Vec<FieldError>, owner: &Value, path: &Path) {
    let api_version = string(owner, "apiVersion");
    // `group/version` or `version`; anything else has no version to the reference.
    let version = match api_version.split_once('/') {
        None => api_version,
        Some((_, version)) if !version.contains('/') => version,
        Some(_) => "",
    };
    if version.is_empty() {
        errors.push(FieldError::invalid(path.field("apiVersion"), api_version, "version must not be empty"));
    }
    for key in ["kind", "name", "uid"] {
        if string(owner, key).is_empty() {
            errors.push(FieldError::invalid(path.field(key), "", "must not be empty"));
        }
    }
    if api_version == "v1" && string(owner, "kind") == "Event" {
        let text = format!("Invalid value: {}: /v1, Kind=Event is disallowed from being an owner", owner_text(owner));
        errors.push(FieldError::new(path, Problem::Invalid, text));
    }
}

/// An owner reference with its keys in the order in which the reference prints them.
fn owner_text(owner: &Value) -> String {
    let mut parts = Vec::new();
    for key in ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"] {
        if let Some(value) = given(owner, key) {
            parts.push(format!("\"{key}\":{value}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}

fn finalizer_names(meta: &Value) -> impl Iterator<Item = &str> {
    list(meta, "finalizers").iter().filter_map(Value::as_str)
}

fn finalizers(errors: &mut Vec<FieldError>, meta: &Value) {
    let path = META.field("finalizers");
    for name in finalizer_names(meta) {
        complain(errors, &path, name, names::qualified_name(name));
    }
    let has = |name| finalizer_names(meta).any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, meta["finalizers"].clone(), detail));
    }
}

/// Built-in kinds know three finalizers without a domain; all others need one.
pub fn standard_finalizers(meta: &Value) -> Vec<FieldError> {
    let path = META.field("finalizers");
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let unknown = finalizer_names(meta)
        .enumerate()
        .filter(|(_, name)| !name.contains('/') && !matches!(*name, "kubernetes" | "orphan" | "foregroundDeletion"));
    unknown.map(|(index, name)| FieldError::invalid(path.index(index), name, detail)).collect()
}

// K-DEL-3: the list is printed as Go prints a slice of strings.
fn no_new_finalizers(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let known: BTreeSet<&str> = finalizer_names(old).collect();
    let added: BTreeSet<&str> = finalizer_names(new).filter(|name| !known.contains(name)).collect();
    if !added.is_empty() {
        let shown = added.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
        );
        errors.push(FieldError::forbidden(META.field("finalizers"), &detail));
    }
}

fn managed_fields(errors: &mut Vec<FieldError>, entry: &Value, path: &Path) {
    const MANAGER_MAX: usize = 128;
    const SUBRESOURCE_MAX: usize = 256;
    let operation = string(entry, "operation");
    if !matches!(operation, "Apply" | "Update") {
        errors.push(FieldError::invalid(path.field("operation"), operation, "must be `Apply` or `Update`"));
    }
    let fields_type = string(entry, "fieldsType");
    if !matches!(fields_type, "" | "FieldsV1") {
        errors.push(FieldError::invalid(path.field("fieldsType"), fields_type, "must be `FieldsV1`"));
    }
    for (key, bytes_max) in [("manager", MANAGER_MAX), ("subresource", SUBRESOURCE_MAX)] {
        if string(entry, key).len() > bytes_max {
            errors.push(FieldError::too_long(path.field(key), bytes_max));
        }
    }
}

/// A label selector (`matchLabels`, `matchExpressions`) at `path`.
pub fn label_selector(errors: &mut Vec<FieldError>, selector: &Value, path: &Path) {
    labels(errors, selector, "matchLabels", path);
    let expressions = path.field("matchExpressions");
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let path = expressions.index(index);
        let values = list(expression, "values");
        let operator = string(expression, "operator");
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(path.field("values"), detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(path.field("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(FieldError::invalid(path.field("operator"), operator, "not a valid selector operator")),
        }
        let key = string(expression, "key");
        complain(errors, &path.field("key"), key, names::qualified_name(key));
        for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
            complain(errors, &path.field("values").index(index), value, names::label_value(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    fn stored() -> Value {
        json!({"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "5", "generation": 2,
               "creationTimestamp": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn good_metadata_has_no_problems() {
        let meta = json!({"name": "a", "namespace": "default", "generateName": "a-", "labels": {"a/b": "c"},
            "annotations": {"Example.com/A": "x y"}, "finalizers": ["a.b/c"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "1", "controller": true}]});
        assert_eq!(metadata(&meta, NameRule::Subdomain, true), []);
        assert_eq!(metadata_update(&stored(), &stored()), []);
    }

    // K-OBJ-4
    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let check = |rule: NameRule, name| rule.check(name, false).is_empty();
        assert!(check(name_rule("", "Pod"), "a.b") && !check(name_rule("", "Namespace"), "a.b"));
        assert!(check(name_rule("", "ConfigMap"), "1a") && !check(name_rule("", "Service"), "1a"));
        assert!(check(name_rule("rbac.authorization.k8s.io", "ClusterRole"), "system:node"));
        assert!(!check(name_rule("", "Pod"), "system:node"));
        assert!(NameRule::Label.check("job-", true).is_empty() && !NameRule::Label.check("job-", false).is_empty());
    }

    #[test]
    fn a_nameless_object_and_a_wrong_scope_are_refused() {
        assert_eq!(
            texts(&metadata(&json!({"namespace": "d"}), NameRule::Subdomain, true)),
            ["metadata.name: Required value: name or generateName is required"]
        );
        assert_eq!(
            texts(&metadata(&json!({"name": "a", "namespace": "d"}), NameRule::Subdomain, false)),
            ["metadata.namespace: Forbidden: not allowed on this type"]
        );
        let bad = texts(&metadata(&json!({"name": "a", "labels": {"a b": "c"}}), NameRule::Subdomain, false));
        assert!(bad[0].starts_with("metadata.labels: Invalid value: \"a b\": name part must consist of"), "{bad:?}");
    }

    // K-OBJ-4
    #[test]
    fn annotations_have_a_total_size() {
        let meta = json!({"name": "a", "annotations": {"big": "x".repeat(ANNOTATIONS_BYTES_MAX)}});
        assert_eq!(
            texts(&metadata(&meta, NameRule::Subdomain, false)),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
    }

    // K-GC-2
    #[test]
    fn owner_references_are_complete_and_have_one_controller() {
        let owner =
            |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": "1", "controller": true});
        let meta = json!({"name": "a", "ownerReferences": [owner("a"), owner("b")]});
        assert_eq!(
            texts(&metadata(&meta, NameRule::Subdomain, false)),
            [
                "metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"a\",\"uid\":\"1\",\"controller\":true},{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"b\",\"uid\":\"1\",\"controller\":true}]: Only one reference can have Controller set to true. Found \"true\" in references for ConfigMap/a and ConfigMap/b"
            ]
        );
        let meta = json!({"name": "a", "ownerReferences": [{}]});
        assert_eq!(
            texts(&metadata(&meta, NameRule::Subdomain, false)),
            [
                "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
                "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
            ]
        );
    }

    // K-DEL-3
    #[test]
    fn no_finalizer_joins_an_object_that_is_being_deleted() {
        let mut old = stored();
        old["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        old["finalizers"] = json!(["a/b"]);
        let mut new = old.clone();
        new["finalizers"] = json!(["a/b", "c/d"]);
        assert_eq!(
            texts(&metadata_update(&new, &old)),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}"
            ]
        );
        new["finalizers"] = json!([]);
        assert_eq!(metadata_update(&new, &old), []);
    }

    #[test]
    fn identity_never_changes() {
        let mut new = stored();
        new["uid"] = json!("2");
        new["creationTimestamp"] = json!("2027-01-01T00:00:00Z");
        assert_eq!(
            texts(&metadata_update(&new, &stored())),
            [
                "metadata.uid: Invalid value: \"2\": field is immutable",
                "metadata.creationTimestamp: Invalid value: \"2027-01-01T00:00:00Z\": field is immutable",
            ]
        );
    }

    #[test]
    fn built_in_kinds_know_three_bare_finalizers() {
        let meta = json!({"finalizers": ["orphan", "mine", "a.b/c"]});
        assert_eq!(
            texts(&standard_finalizers(&meta)),
            [
                "metadata.finalizers[1]: Invalid value: \"mine\": name is neither a standard finalizer name nor is it fully qualified"
            ]
        );
    }

    #[test]
    fn selectors_get_the_texts_of_the_reference() {
        let mut errors = Vec::new();
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["b"]},
            {"key": "a", "operator": "Gt"}]});
        label_selector(&mut errors, &selector, &Path::new("spec.selector"));
        assert_eq!(
            texts(&errors),
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Gt\": not a valid selector operator",
            ]
        );
    }
}
