//! Rules on metadata that hold for every kind: names, labels, annotations, owners, finalizers (spec K-OBJ-4, K-GC-2).
//!
//! `metadata` and `metadata_update` serve custom kinds too; `standard_finalizers` is for built-in kinds only.

use super::place::{IMMUTABLE, Place, problems};
use crate::kube::field::{FieldError, Problem};
use crate::kube::{names, text};
use crate::{kubeflow, volcano};
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

/// All keys and values together.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Rules for the metadata of a new object; its name has been generated already.
pub fn metadata(meta: &Value, name_rule: NameRule, namespaced: bool) -> Vec<FieldError> {
    problems(meta, "metadata", |meta| {
        let (prefix, name) = (meta.text("generateName"), meta.text("name"));
        // A training job may be named by a W&B run, which may start with a digit, and names its Services after itself.
        let is_jobs =
            name_rule == NameRule::Label1035 && meta.items("ownerReferences").any(|owner| is_training_job(&owner));
        let name_rule = if is_jobs { NameRule::Label } else { name_rule };
        if !prefix.is_empty() {
            meta.complain("generateName", prefix, name_rule.check(prefix, true));
        }
        if name.is_empty() {
            meta.required("name", "name or generateName is required");
        } else {
            meta.complain("name", name, name_rule.check(name, false));
        }
        if namespaced {
            meta.needs_name("namespace", names::dns_label);
        } else {
            meta.forbidden_if(!meta.text("namespace").is_empty(), "namespace", "not allowed on this type");
        }
        meta.not_negative(&["generation"]);
        content(meta);
        finalizers(meta);
    })
}

fn is_training_job(owner: &Place) -> bool {
    owner.flag("controller") && [kubeflow::API_VERSION, volcano::BATCH].contains(&owner.text("apiVersion"))
}

/// Rules for changing the metadata of a stored object.
pub fn metadata_update(new: &Value, old: &Value) -> Vec<FieldError> {
    problems(new, "metadata", |new| {
        if !old["deletionTimestamp"].is_null() {
            no_new_finalizers(new, old);
        }
        let has_no_version = new.text("resourceVersion").is_empty();
        new.invalid_if(has_no_version, "resourceVersion", "", "must be specified for an update");
        let generation = new.integer("generation").unwrap_or(0);
        let is_less = generation < old["generation"].as_i64().unwrap_or(0);
        new.invalid_if(is_less, "generation", generation, "must not be decremented");
        for key in ["name", "namespace", "uid"] {
            new.invalid_if(new.text(key) != text(old, key), key, new.text(key), IMMUTABLE);
        }
        for key in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            new.wrong_if(new.get(key) != &old[key], key, IMMUTABLE);
        }
        content(new);
    })
}

/// What create and update check alike.
fn content(meta: &Place) {
    labels(&meta.field("labels"));
    annotations(&meta.field("annotations"));
    owners(&meta.field("ownerReferences"));
    meta.items("managedFields").for_each(|entry| managed_fields(&entry));
}

pub fn labels(map: &Place) {
    for (name, value) in map.entries("") {
        map.complain("", name, names::qualified_name(name));
        map.complain("", value.text(""), names::label_value(value.text("")));
    }
}

/// The keys of annotations may have capitals in the prefix.
pub fn annotations(map: &Place) {
    let mut bytes = 0;
    for (name, value) in map.entries("") {
        bytes += name.len() + value.text("").len();
        map.complain("", name, names::qualified_name(&name.to_lowercase()));
    }
    map.too_long_if(bytes > ANNOTATIONS_BYTES_MAX, "", ANNOTATIONS_BYTES_MAX);
}

/// Problems are reported at the list, without the index.
fn owners(owners: &Place) {
    let mut controller: Option<String> = None;
    for owner in owners.list("") {
        owner_reference(&owners.stand_in("", owner));
        if owner["controller"] != true {
            continue;
        }
        let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
        let Some(first) = &controller else {
            controller = Some(this);
            continue;
        };
        let shown = owners.list("").iter().map(owner_text).collect::<Vec<_>>().join(",");
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
        );
        owners.worded("", Problem::Invalid, format!("Invalid value: [{shown}]: {detail}"));
    }
}

fn owner_reference(owner: &Place) {
    let api_version = owner.text("apiVersion");
    // `group/version` or `version`; anything else has no version to the reference.
    let version = match api_version.split_once('/') {
        None => api_version,
        Some((_, version)) if !version.contains('/') => version,
        Some(_) => "",
    };
    owner.invalid_if(version.is_empty(), "apiVersion", api_version, "version must not be empty");
    for key in ["kind", "name", "uid"] {
        owner.invalid_if(owner.text(key).is_empty(), key, "", "must not be empty");
    }
    if api_version == "v1" && owner.text("kind") == "Event" {
        let shown = owner_text(owner.value);
        let text = format!("Invalid value: {shown}: /v1, Kind=Event is disallowed from being an owner");
        owner.worded("", Problem::Invalid, text);
    }
}

/// An owner reference with its keys in the order in which the reference prints them.
fn owner_text(owner: &Value) -> String {
    let keys = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let given = keys.iter().filter(|key| !owner[**key].is_null());
    let parts: Vec<String> = given.map(|key| format!("\"{key}\":{}", owner[*key])).collect();
    format!("{{{}}}", parts.join(","))
}

fn finalizers(meta: &Place) {
    for name in meta.texts("finalizers") {
        meta.complain("finalizers", name, names::qualified_name(name));
    }
    let has = |name| meta.texts("finalizers").any(|finalizer| finalizer == name);
    let is_torn = has("orphan") && has("foregroundDeletion");
    meta.wrong_if(is_torn, "finalizers", "finalizer orphan and foregroundDeletion cannot be both set");
}

/// Built-in kinds know three finalizers without a domain; all others need one.
pub fn standard_finalizers(meta: &Value) -> Vec<FieldError> {
    problems(meta, "metadata", |meta| meta.items("finalizers").for_each(|name| standard_finalizer(&name)))
}

pub fn standard_finalizer(name: &Place) {
    let is_known = matches!(name.text(""), "kubernetes" | "orphan" | "foregroundDeletion");
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    name.wrong_if(!is_known && !name.text("").contains('/'), "", detail);
}

// K-DEL-3: the list is printed as Go prints a slice of strings.
fn no_new_finalizers(new: &Place, old: &Value) {
    let is_known = |name: &str| old["finalizers"].as_array().is_some_and(|known| known.iter().any(|old| old == name));
    let added: BTreeSet<&str> = new.texts("finalizers").filter(|name| !is_known(name)).collect();
    let shown = added.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
    );
    new.forbidden_if(!added.is_empty(), "finalizers", &detail);
}

fn managed_fields(entry: &Place) {
    const MANAGER_MAX: usize = 128;
    const SUBRESOURCE_MAX: usize = 256;
    let (operation, fields_type) = (entry.text("operation"), entry.text("fieldsType"));
    let is_known = matches!(operation, "Apply" | "Update");
    entry.invalid_if(!is_known, "operation", operation, "must be `Apply` or `Update`");
    entry.wrong_if(!matches!(fields_type, "" | "FieldsV1"), "fieldsType", "must be `FieldsV1`");
    for (key, bytes_max) in [("manager", MANAGER_MAX), ("subresource", SUBRESOURCE_MAX)] {
        entry.too_long_if(entry.text(key).len() > bytes_max, key, bytes_max);
    }
}

/// A label selector (`matchLabels`, `matchExpressions`).
pub fn label_selector(selector: &Place) {
    labels(&selector.field("matchLabels"));
    for expression in selector.items("matchExpressions") {
        selector_operator(&expression, &["In", "NotIn", "Exists", "DoesNotExist"]);
        expression.named("key", names::qualified_name);
        expression.items("values").for_each(|value| value.named("", names::label_value));
    }
}

/// The operator of a requirement on labels, and the number of values that go with it.
pub fn selector_operator(requirement: &Place, known: &[&str]) {
    let (operator, count) = (requirement.text("operator"), requirement.list("values").len());
    match operator {
        _ if !known.contains(&operator) => {
            requirement.invalid("operator", operator, "not a valid selector operator");
        }
        "In" | "NotIn" if count == 0 => {
            requirement.required("values", "must be specified when `operator` is 'In' or 'NotIn'");
        }
        "Exists" | "DoesNotExist" if count > 0 => {
            requirement.forbidden("values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
        }
        "Gt" | "Lt" if count != 1 => {
            requirement.required("values", "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        _ => {}
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
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "Exists", "values": ["b"]},
            {"key": "a", "operator": "Gt"}]});
        let errors = problems(&selector, "spec.selector", label_selector);
        assert_eq!(
            texts(&errors),
            [
                "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                "spec.selector.matchExpressions[2].operator: Invalid value: \"Gt\": not a valid selector operator",
            ]
        );
    }

    #[test]
    fn broken_selectors_say_which_part_is_wrong() {
        let selector = json!({
            "matchLabels": {"app": "b!"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "", "operator": "Gt"},
            ],
        });
        let texts = texts(&problems(&selector, "spec.selector", label_selector));
        let starts = [
            r#"spec.selector.matchLabels: Invalid value: "b!": a valid label must be"#,
            "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "spec.selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            r#"spec.selector.matchExpressions[2].operator: Invalid value: "Gt": not a valid selector operator"#,
            r#"spec.selector.matchExpressions[2].key: Invalid value: "": name part must be non-empty"#,
            r#"spec.selector.matchExpressions[2].key: Invalid value: "": name part must consist of"#,
        ];
        assert_eq!(texts.len(), starts.len(), "{texts:#?}");
        for (text, start) in texts.iter().zip(starts) {
            assert!(text.starts_with(start), "{text}");
        }
    }
}
