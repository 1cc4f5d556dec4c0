//! CustomResourceDefinitions themselves: what is filled in, what is refused, and which names are accepted (K-CRD-1,
//! K-CRD-4). The API server calls `fill`, then `check` or `check_update`, then `status`.

use super::rules;
use super::schema::{Schema, is_true};
use super::{selectable, structural};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use volley_api::kube::field::FieldError;
use volley_api::kube::{at, names, text, time};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_FIELDS_MAX: usize = 8;
const DEPRECATION_WARNING_BYTES_MAX: usize = 256;
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Fills in what a client may leave out: singular, list kind and conversion.
pub fn fill(crd: &mut Value) {
    let kind = text(crd, "spec.names.kind").to_owned();
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
        && !kind.is_empty()
    {
        let is_empty = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("").is_empty();
        if is_empty(names.get("singular")) {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if is_empty(names.get("listKind")) {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
}

fn versions(crd: &Value) -> &[Value] {
    list(at(crd, "spec.versions"))
}

fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Everything that is wrong with a new CRD.
pub fn check(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let own_name = text(crd, "metadata.name");
    if !own_name.is_empty() {
        let mut problems = names::dns_subdomain(own_name);
        if own_name != format!("{}.{}", text(crd, "spec.names.plural"), text(crd, "spec.group")) {
            problems.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        errors.extend(problems.iter().map(|problem| FieldError::invalid("metadata.name", own_name, problem)));
    }
    errors.extend(check_spec(crd));
    errors.extend(check_approval(crd));
    errors.extend(check_preserve(crd));
    errors
}

/// Everything that is wrong with a changed CRD.
pub fn check_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_spec(new);
    let mut fixed = vec!["spec.group", "spec.names.plural"];
    if condition(old.get("status"), "Established").is_some_and(|condition| text(condition, "status") == "True") {
        fixed.extend(["spec.scope", "spec.names.kind"]);
    }
    for path in fixed {
        if text(new, path) != text(old, path) {
            errors.push(FieldError::invalid(path, text(new, path), "field is immutable"));
        }
    }
    errors.extend(check_stored_versions(new, old));
    // An approval that was missing may stay so: a controller may own the spec but not the annotation.
    let approval = check_approval(new);
    if approval.as_ref().map(|error| error.problem) != check_approval(old).map(|error| error.problem) {
        errors.extend(approval);
    }
    if !keeps_unknown_fields(old) {
        errors.extend(check_preserve(new));
    }
    errors
}

fn keeps_unknown_fields(crd: &Value) -> bool {
    at(crd, "spec.preserveUnknownFields") == Some(&Value::Bool(true))
}

fn check_preserve(crd: &Value) -> Option<FieldError> {
    let detail =
        "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    keeps_unknown_fields(crd).then(|| FieldError::invalid("spec.preserveUnknownFields", true, detail))
}

/// A version that was ever stored must stay, or objects stored in it could not be read.
fn check_stored_versions(new: &Value, old: &Value) -> Vec<FieldError> {
    let is_listed = |name: &str| versions(new).iter().any(|version| text(version, "name") == name);
    let stored = list(at(old, "status.storedVersions")).iter().enumerate();
    let gone = stored
        .filter_map(|(index, version)| version.as_str().filter(|name| !is_listed(name)).map(|name| (index, name)));
    gone.map(|(index, name)| {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
             until a storage migration ensures no data remains persisted in {name} and removes {name} from \
             status.storedVersions"
        );
        FieldError::invalid(format!("status.storedVersions[{index}]"), name, &detail)
    })
    .collect()
}

/// Groups of the community need an approval; own groups do not.
fn check_approval(crd: &Value) -> Option<FieldError> {
    let group = text(crd, "spec.group");
    let is_protected =
        |suffix: &str| group == suffix || group.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.'));
    if !is_protected("k8s.io") && !is_protected("kubernetes.io") {
        return None;
    }
    let approval =
        at(crd, "metadata.annotations").and_then(|annotations| annotations.get(APPROVAL)).and_then(Value::as_str);
    let approval = approval.unwrap_or("");
    let path = format!("metadata.annotations[{APPROVAL}]");
    let has_host = approval.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty());
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if approval.is_empty() {
        return Some(FieldError::required(
            path,
            &format!("protected groups must have approval annotation {APPROVAL:?}, {see}"),
        ));
    }
    let is_fine = approval.starts_with("unapproved") || has_host;
    let detail = format!(
        "protected groups must have approval annotation {APPROVAL:?} with either a URL or a reason starting with \
         \"unapproved\", {see}"
    );
    (!is_fine).then(|| FieldError::invalid(path, approval, &detail))
}

fn check_spec(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_group_and_scope(crd, &mut errors);
    check_versions(crd, &mut errors);
    for field in ["plural", "singular", "kind", "listKind"] {
        let path = format!("spec.names.{field}");
        if text(crd, &path).is_empty() {
            errors.push(FieldError::required(path, ""));
        }
    }
    check_names(crd, &mut errors);
    check_conversion(crd, &mut errors);
    errors
}

fn check_group_and_scope(crd: &Value, errors: &mut Vec<FieldError>) {
    let group = text(crd, "spec.group");
    let problems = names::dns_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, &problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    check_choice(crd, "spec.scope", &["Cluster", "Namespaced"], errors);
}

fn check_choice(crd: &Value, path: &str, choices: &[&str], errors: &mut Vec<FieldError>) {
    let value = text(crd, path);
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !choices.contains(&value) {
        errors.push(FieldError::not_supported(path, value, choices));
    }
}

/// What all versions have in common is reported once, at the top: the reference moves it there before it looks.
fn check_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let versions = versions(crd);
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let problems = names::dns1035_label(text(version, "name"));
        if !problems.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), text(version, "name"), &problems.join(",")));
        }
        if at(version, "schema.openAPIV3Schema").is_none_or(Value::is_null) {
            errors.push(FieldError::required(format!("{path}.schema.openAPIV3Schema"), ""));
        }
        check_deprecation(version, &path, errors);
    }
    check_part(versions, "schema", "spec.validation", errors, check_schema);
    check_part(versions, "subresources", "spec.subresources", errors, check_subresources);
    check_part(versions, "additionalPrinterColumns", "spec.additionalPrinterColumns", errors, check_columns);
    check_part(versions, "selectableFields", "spec.selectableFields", errors, check_selectable_fields);
    let shown = || -> Value { versions.iter().map(shown_version).collect() };
    let names: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    if names.len() != versions.len() {
        errors.push(FieldError::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| is_true(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(), detail));
    }
}

/// A version as the reference prints its own form of it, without the parts that it moved to the top.
fn shown_version(version: &Value) -> Value {
    json!({
        "Name": text(version, "name"), "Served": is_true(version, "served"), "Storage": is_true(version, "storage"),
        "Deprecated": is_true(version, "deprecated"), "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": null, "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
    })
}

/// Checks one part of all versions; `common` is its path when all versions have the same.
fn check_part(
    versions: &[Value],
    part: &str,
    common: &str,
    errors: &mut Vec<FieldError>,
    check: fn(&Value, &str, &mut Vec<FieldError>),
) {
    let Some((first, others)) = versions.split_first() else { return };
    if others.iter().all(|other| other.get(part) == first.get(part)) {
        check(first, common, errors);
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        check(version, &format!("spec.versions[{index}].{part}"), errors);
    }
}

fn check_schema(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let has_status = at(version, "subresources.status").is_some_and(|status| !status.is_null());
    if let Some(schema) = at(version, "schema.openAPIV3Schema").filter(|schema| schema.is_object()) {
        errors.extend(structural::check(schema, &format!("{path}.openAPIV3Schema"), has_status));
    }
}

fn check_deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let bad = warning.char_indices().find(|(_, character)| character.is_control());
    let mut problems = Vec::new();
    if !is_true(version, "deprecated") {
        problems.push("can only be set for deprecated versions".to_owned());
    } else if warning.is_empty() {
        problems.push("must not be an empty string".to_owned());
    } else {
        if warning.len() > DEPRECATION_WARNING_BYTES_MAX {
            problems.push(format!("must be <= {DEPRECATION_WARNING_BYTES_MAX} characters long"));
        }
        problems.extend(bad.map(|(index, _)| {
            format!("must only contain printable UTF-8 characters; non-printable character found at index {index}")
        }));
    }
    let path = format!("{path}.deprecationWarning");
    errors.extend(problems.iter().map(|problem| FieldError::invalid(path.as_str(), warning, problem)));
}

fn check_subresources(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = at(version, "subresources.scale").filter(|scale| scale.is_object()) else { return };
    let rows: [(&str, bool, &[&str], &str); 3] = [
        ("specReplicasPath", true, &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", true, &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", false, &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ];
    for (field, is_required, prefixes, detail) in rows {
        let value = text(scale, field);
        let path = format!("{path}.scale.{field}");
        if value.is_empty() {
            errors.extend(is_required.then(|| FieldError::required(path, "")));
        } else if !value.starts_with('.') {
            errors.push(FieldError::invalid(path, value, "must be a simple json path starting with ."));
        } else if !prefixes.iter().any(|prefix| value.starts_with(prefix)) {
            errors.push(FieldError::invalid(path, value, detail));
        }
    }
}

fn check_columns(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for (index, column) in list(version.get("additionalPrinterColumns")).iter().enumerate() {
        let path = |field: &str| format!("{path}[{index}].{field}");
        let one_of = |choices: &[&str]| format!("must be one of {}", choices.join(","));
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(path("name"), ""));
        }
        let kind = text(column, "type");
        if kind.is_empty() {
            errors.push(FieldError::required(path("type"), &one_of(&COLUMN_TYPES)));
        } else if !COLUMN_TYPES.contains(&kind) {
            errors.push(FieldError::invalid(path("type"), kind, &one_of(&COLUMN_TYPES)));
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            errors.push(FieldError::invalid(path("format"), format, &one_of(&COLUMN_FORMATS)));
        }
        let json_path = text(column, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(path("JSONPath"), ""));
        } else if !json_path.starts_with('.') {
            errors.push(FieldError::invalid(path("JSONPath"), json_path, "must be a simple json path starting with ."));
        }
    }
}

fn check_selectable_fields(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(schema) = at(version, "schema.openAPIV3Schema") else { return };
    let mut seen = BTreeSet::new();
    for (index, field) in list(version.get("selectableFields")).iter().enumerate() {
        let path = format!("{path}[{index}].jsonPath");
        let json_path = text(field, "jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let (root, target) = match selectable::find(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(path, json_path, &format!("is an invalid path: {why}")));
                continue;
            }
        };
        if root == "metadata" {
            errors.push(FieldError::invalid(path.as_str(), json_path, "must not point to fields in metadata"));
        }
        if !matches!(text(target, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(path.as_str(), json_path, detail));
        }
        if !seen.insert(json_path) {
            errors.push(FieldError::duplicate(path, json_path));
        }
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        errors.push(FieldError::too_many(path, seen.len(), SELECTABLE_FIELDS_MAX));
    }
}

fn check_names(crd: &Value, errors: &mut Vec<FieldError>) {
    let mut check = |path: String, value: &str, is_kind: bool| {
        let problems = names::dns1035_label(&if is_kind { value.to_lowercase() } else { value.to_owned() });
        let advice = if is_kind { "may have mixed case, but should otherwise match: " } else { "" };
        if !problems.is_empty() {
            errors.push(FieldError::invalid(path, value, &format!("{advice}{}", problems.join(","))));
        }
    };
    for (field, is_kind) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let path = format!("spec.names.{field}");
        let value = text(crd, &path);
        if !value.is_empty() {
            check(path, value, is_kind);
        }
    }
    for field in ["shortNames", "categories"] {
        let path = format!("spec.names.{field}");
        for (index, value) in list(at(crd, &path)).iter().enumerate() {
            check(format!("{path}[{index}]"), value.as_str().unwrap_or(""), false);
        }
    }
    let list_kind = text(crd, "spec.names.listKind");
    if !list_kind.is_empty() && list_kind == text(crd, "spec.names.kind") {
        errors.push(FieldError::invalid("spec.names.listKind", list_kind, "kind and listKind may not be the same"));
    }
}

fn check_conversion(crd: &Value, errors: &mut Vec<FieldError>) {
    if at(crd, "spec.conversion").is_none() {
        return;
    }
    check_choice(crd, "spec.conversion.strategy", &["None", "Webhook"], errors);
    let config = "spec.conversion.webhookClientConfig";
    let client = at(crd, "spec.conversion.webhook.clientConfig");
    let reviews = list(at(crd, "spec.conversion.webhook.conversionReviewVersions"));
    if text(crd, "spec.conversion.strategy") == "Webhook" {
        match client {
            None => errors.push(FieldError::required(config, "required when strategy is set to Webhook")),
            Some(client) if client.get("url").is_some() == client.get("service").is_some() => {
                errors.push(FieldError::required(config, "exactly one of url or service is required"));
            }
            Some(_) => {}
        }
        let path = "spec.conversion.conversionReviewVersions";
        if reviews.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else if !reviews.iter().any(|version| matches!(version.as_str(), Some("v1" | "v1beta1"))) {
            errors.push(FieldError::invalid(path, reviews.to_vec(), "must include at least one of v1, v1beta1"));
        }
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if client.is_some() {
        errors.push(FieldError::forbidden(config, detail));
    }
    if !reviews.is_empty() {
        errors.push(FieldError::forbidden("spec.conversion.conversionReviewVersions", detail));
    }
}

/// What a client should know about a CRD that is accepted nevertheless; an update is warned about what is new in it.
pub fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let known: BTreeSet<String> = old.map(all_warnings).unwrap_or_default().into_iter().collect();
    let mut warnings = all_warnings(new);
    warnings.retain(|warning| !known.contains(warning));
    warnings
}

fn all_warnings(crd: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for schema in versions(crd).iter().filter_map(|version| at(version, "schema.openAPIV3Schema")) {
        structural::unknown_formats(schema, &mut warnings);
        if let Ok(compiled) = Schema::compile(schema) {
            rules::unsupported(&compiled.root, &mut warnings);
        }
    }
    let mut seen = BTreeSet::new();
    warnings.retain(|warning| seen.insert(warning.clone()));
    warnings
}

/// Names that other resources of the group already have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TakenNames {
    /// Plurals, singulars and short names.
    pub resources: BTreeSet<String>,
    /// Kinds and list kinds.
    pub kinds: BTreeSet<String>,
}

impl TakenNames {
    /// Adds what another CRD of the group was given.
    pub fn add(&mut self, other: &Value) {
        let Some(names) = at(other, "status.acceptedNames") else { return };
        let plain = ["plural", "singular"].map(|field| text(names, field));
        let short = list(names.get("shortNames")).iter().filter_map(Value::as_str);
        self.resources.extend(plain.into_iter().chain(short).filter(|name| !name.is_empty()).map(str::to_owned));
        let kinds = ["kind", "listKind"].map(|field| text(names, field));
        self.kinds.extend(kinds.into_iter().filter(|kind| !kind.is_empty()).map(str::to_owned));
    }
}

/// The status of a CRD: which names it has, whether it is served, and in which versions it was stored.
pub fn status(crd: &Value, taken: &TakenNames, now: Timestamp) -> Value {
    let old = crd.get("status");
    let (names, conflict) = accepted_names(crd, taken);
    let mut conditions = list(old.and_then(|status| status.get("conditions"))).to_vec();
    match &conflict {
        None => put_condition(&mut conditions, ["NamesAccepted", "True", "NoConflicts", "no conflicts found"], now),
        Some((reason, message)) => put_condition(&mut conditions, ["NamesAccepted", "False", reason, message], now),
    }
    // Once established, a CRD stays so: a later conflict only keeps its old names.
    let is_established = condition(old, "Established").is_some_and(|condition| text(condition, "status") == "True");
    if conflict.is_none() && !is_established {
        let reason = "InitialNamesAccepted";
        put_condition(&mut conditions, ["Established", "True", reason, "the initial names have been accepted"], now);
    } else if !is_established {
        put_condition(&mut conditions, ["Established", "False", "NotAccepted", "not all names are accepted"], now);
    }
    let mut stored = list(old.and_then(|status| status.get("storedVersions"))).to_vec();
    let storage =
        versions(crd).iter().find(|version| is_true(version, "storage")).and_then(|version| version.get("name"));
    stored.extend(storage.filter(|name| !stored.contains(name)).cloned());
    json!({"acceptedNames": names, "conditions": conditions, "storedVersions": stored})
}

/// The status of a CRD whose instances are being removed (K-CRD-3).
pub fn terminating_status(crd: &Value, now: Timestamp) -> Value {
    let mut status = crd.get("status").cloned().unwrap_or_else(|| json!({}));
    let mut conditions = list(status.get("conditions")).to_vec();
    let parts = ["Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"];
    put_condition(&mut conditions, parts, now);
    status["conditions"] = conditions.into();
    status
}

fn condition<'a>(status: Option<&'a Value>, kind: &str) -> Option<&'a Value> {
    list(status?.get("conditions")).iter().find(|condition| text(condition, "type") == kind)
}

/// Sets a condition (type, status, reason, message); its time changes only with its status.
fn put_condition(conditions: &mut Vec<Value>, [kind, status, reason, message]: [&str; 4], now: Timestamp) {
    let now = time::seconds(now);
    let mut new =
        json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
    match conditions.iter_mut().find(|condition| text(condition, "type") == kind) {
        None => conditions.push(new),
        Some(old) => {
            if text(old, "status") == status
                && let Some(time) = old.get("lastTransitionTime")
            {
                new["lastTransitionTime"] = time.clone();
            }
            *old = new;
        }
    }
}

/// The names that the CRD gets, and the last conflict with their reason and text.
fn accepted_names(crd: &Value, taken: &TakenNames) -> (Value, Option<(&'static str, String)>) {
    let empty = Value::Null;
    let (wanted, had) = (at(crd, "spec.names").unwrap_or(&empty), at(crd, "status.acceptedNames").unwrap_or(&empty));
    let mut names = had.as_object().cloned().unwrap_or_default();
    let mut conflict = None;
    let in_use = |name: &str| format!("{} is already in use", Value::from(name));
    let rows = [
        ("plural", "PluralConflict", &taken.resources),
        ("singular", "SingularConflict", &taken.resources),
        ("kind", "KindConflict", &taken.kinds),
        ("listKind", "ListKindConflict", &taken.kinds),
    ];
    for (index, (field, reason, used)) in rows.into_iter().enumerate() {
        // Short names come between singular and kind, and the last conflict is the one that is told.
        if index == 2 {
            accept_short_names(wanted, had, taken, &mut names, &mut conflict);
        }
        let name = text(wanted, field);
        if name != text(had, field) && used.contains(name) {
            conflict = Some((reason, in_use(name)));
            // Plural and kind are always present.
            if matches!(field, "plural" | "kind") {
                names.entry(field).or_insert_with(|| "".into());
            }
        } else if !name.is_empty() {
            names.insert(field.to_owned(), name.into());
        }
    }
    copy_list(&mut names, wanted, "categories");
    (Value::Object(names), conflict)
}

fn accept_short_names(
    wanted: &Value,
    had: &Value,
    taken: &TakenNames,
    names: &mut Map<String, Value>,
    conflict: &mut Option<(&'static str, String)>,
) {
    let own = list(had.get("shortNames"));
    let new = list(wanted.get("shortNames")).iter().filter(|name| !own.contains(name));
    let used: Vec<String> = new
        .filter_map(Value::as_str)
        .filter(|name| taken.resources.contains(*name))
        .map(|name| format!("{} is already in use", Value::from(name)))
        .collect();
    match used.as_slice() {
        [] => copy_list(names, wanted, "shortNames"),
        [one] => *conflict = Some(("ShortNamesConflict", one.clone())),
        many => *conflict = Some(("ShortNamesConflict", format!("[{}]", many.join(", ")))),
    }
}

fn copy_list(names: &mut Map<String, Value>, wanted: &Value, field: &str) {
    let list = list(wanted.get(field));
    if list.is_empty() {
        names.remove(field);
    } else {
        names.insert(field.to_owned(), list.to_vec().into());
    }
}
