//! The versions of a CRD: their names, schemas, subresources, printer columns and selectable fields.

use super::definition::list;
use super::schema::is_true;
use super::{selectable, structural};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_api::kube::field::FieldError;
use volley_api::kube::{at, names, text};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_FIELDS_MAX: usize = 8;
const DEPRECATION_WARNING_BYTES_MAX: usize = 256;

/// What all versions have in common is reported once, at the top: the reference moves it there before it looks.
pub(super) fn check(versions: &[Value], errors: &mut Vec<FieldError>) {
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
    // A schema that all versions share must suit a status subresource that any of them has.
    let any_has_status = versions.iter().any(has_status);
    check_part(versions, "schema", "spec.validation", errors, |version, path, errors| {
        let is_shared = path == "spec.validation";
        check_schema(version, path, if is_shared { any_has_status } else { has_status(version) }, errors);
    });
    check_part(versions, "subresources", "spec.subresources", errors, check_subresources);
    check_part(versions, "additionalPrinterColumns", "spec.additionalPrinterColumns", errors, check_columns);
    check_part(versions, "selectableFields", "spec.selectableFields", errors, check_selectable_fields);
    let shown = || match versions {
        [] => Value::Null,
        some => some.iter().map(shown_version).collect(),
    };
    let distinct: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    if distinct.len() != versions.len() {
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
    check: impl Fn(&Value, &str, &mut Vec<FieldError>),
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

fn has_status(version: &Value) -> bool {
    at(version, "subresources.status").is_some_and(|status| !status.is_null())
}

fn check_schema(version: &Value, path: &str, has_status: bool, errors: &mut Vec<FieldError>) {
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
