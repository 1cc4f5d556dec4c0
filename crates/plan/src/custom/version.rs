//! The versions of a CRD: their names, schemas, subresources, printer columns and selectable fields.

use super::{selectable, structural};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use volley_api::kube::field::FieldError;
use volley_api::kube::validate::place::Place;
use volley_api::kube::{at, names, text};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
const SELECTABLE_FIELDS_MAX: usize = 8;
const DEPRECATION_WARNING_BYTES_MAX: usize = 256;

/// What all versions have in common is reported once, at the top: the reference moves it there before it looks.
pub(super) fn check(spec: &Place) {
    for version in spec.items("versions") {
        let problems = names::dns1035_label(version.text("name"));
        version.invalid_if(!problems.is_empty(), "name", version.text("name"), &problems.join(","));
        if !version.has("schema.openAPIV3Schema") {
            version.required("schema.openAPIV3Schema", "");
        }
        check_deprecation(&version);
    }
    // A schema that all versions share must suit a status subresource that any of them has.
    let any_has_status = spec.list("versions").iter().any(has_status);
    check_part(spec, "schema", "validation", |schema, version, is_shared| {
        if let Some(schema) = schema.given("openAPIV3Schema").filter(|schema| schema.value.is_object()) {
            structural::check(&schema, if is_shared { any_has_status } else { has_status(version) });
        }
    });
    check_part(spec, "subresources", "subresources", |part, _, _| check_subresources(part));
    check_part(spec, "additionalPrinterColumns", "additionalPrinterColumns", |part, _, _| {
        part.items("").for_each(|column| check_column(&column));
    });
    check_part(spec, "selectableFields", "selectableFields", |part, version, _| check_selectable(part, version));
    let versions = spec.list("versions");
    let shown = || if versions.is_empty() { Value::Null } else { versions.iter().map(shown_version).collect() };
    let distinct: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    spec.invalid_if(distinct.len() != versions.len(), "versions", shown(), "must contain unique version names");
    let has_one = versions.iter().filter(|version| version["storage"] == true).count() == 1;
    spec.invalid_if(!has_one, "versions", shown(), "must have exactly one version marked as storage version");
}

/// A version as the reference prints its own form of it, without the parts that it moved to the top.
fn shown_version(version: &Value) -> Value {
    let flag = |key: &str| version[key] == true;
    json!({
        "Name": text(version, "name"), "Served": flag("served"), "Storage": flag("storage"),
        "Deprecated": flag("deprecated"), "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": null, "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
    })
}

/// Checks one part of all versions; it stands at `common` when all versions have the same.
fn check_part(spec: &Place, part: &str, common: &str, check: impl Fn(&Place, &Value, bool)) {
    let Some((first, others)) = spec.list("versions").split_first() else { return };
    if others.iter().all(|other| other.get(part) == first.get(part)) {
        return check(&spec.stand_in(common, &first[part]), first, true);
    }
    spec.items("versions").for_each(|version| check(&version.field(part), version.value, false));
}

fn has_status(version: &Value) -> bool {
    at(version, "subresources.status").is_some_and(|status| !status.is_null())
}

fn check_deprecation(version: &Place) {
    const KEY: &str = "deprecationWarning";
    let Some(warning) = version.get(KEY).as_str() else { return };
    if !version.flag("deprecated") {
        return version.wrong(KEY, "can only be set for deprecated versions");
    }
    version.wrong_if(warning.is_empty(), KEY, "must not be an empty string");
    let is_long = warning.len() > DEPRECATION_WARNING_BYTES_MAX;
    version.wrong_if(is_long, KEY, &format!("must be <= {DEPRECATION_WARNING_BYTES_MAX} characters long"));
    if let Some(index) = warning.find(char::is_control) {
        let detail = "must only contain printable UTF-8 characters; non-printable character found at index";
        version.wrong(KEY, &format!("{detail} {index}"));
    }
}

fn check_subresources(part: &Place) {
    let Some(scale) = part.given("scale") else { return };
    scale.needs(&["specReplicasPath", "statusReplicasPath"]);
    let rows: [(&str, &[&str], &str); 3] = [
        ("specReplicasPath", &[".spec."], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ];
    for (key, prefixes, detail) in rows {
        let path = scale.text(key);
        if path.starts_with('.') {
            scale.wrong_if(!prefixes.iter().any(|prefix| path.starts_with(prefix)), key, detail);
        } else {
            scale.wrong_if(!path.is_empty(), key, "must be a simple json path starting with .");
        }
    }
}

fn check_column(column: &Place) {
    let one_of = |choices: &[&str]| format!("must be one of {}", choices.join(","));
    column.needs(&["name"]);
    let (kind, format) = (column.text("type"), column.text("format"));
    column.needs_because("type", &one_of(&COLUMN_TYPES));
    column.wrong_if(!kind.is_empty() && !COLUMN_TYPES.contains(&kind), "type", &one_of(&COLUMN_TYPES));
    column.wrong_if(!format.is_empty() && !COLUMN_FORMATS.contains(&format), "format", &one_of(&COLUMN_FORMATS));
    // The reference spells this field with capitals.
    let path = column.stand_in("JSONPath", column.get("jsonPath"));
    path.needs(&[""]);
    let is_simple = path.text("").is_empty() || path.text("").starts_with('.');
    path.wrong_if(!is_simple, "", "must be a simple json path starting with .");
}

fn check_selectable(fields: &Place, version: &Value) {
    let Some(schema) = at(version, "schema.openAPIV3Schema") else { return };
    let mut seen = BTreeSet::new();
    for field in fields.items("") {
        let path = field.text("jsonPath");
        if path.is_empty() {
            field.required("jsonPath", "");
            continue;
        }
        let (root, target) = match selectable::find(path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                field.wrong("jsonPath", &format!("is an invalid path: {why}"));
                continue;
            }
        };
        field.wrong_if(root == "metadata", "jsonPath", "must not point to fields in metadata");
        let is_scalar = matches!(text(target, "type"), "string" | "boolean" | "integer");
        let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
        field.wrong_if(!is_scalar, "jsonPath", detail);
        field.duplicate_if(!seen.insert(path), "jsonPath", path);
    }
    if seen.len() > SELECTABLE_FIELDS_MAX {
        fields.note(FieldError::too_many(fields.path(""), seen.len(), SELECTABLE_FIELDS_MAX));
    }
}
