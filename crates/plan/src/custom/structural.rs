//! What the schema of a CRD version may say: it must be structural, its defaults must fit, its extensions must agree.
//!
//! `definition` calls `check` for each schema of a CRD. Texts are the reference's.

use super::place::Place;
use super::schema::{Node, Schema, is_true, object, text};
use super::{embedded, format, keywords, prune, rules, validate};
use serde_json::Value;
use volley_api::kube::field::FieldError;

/// Root keywords that may stand beside a status subresource, as the reference lists them and as JSON spells them.
const ROOT_KEYWORDS: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];
pub(super) const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
pub(super) const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
pub(super) const LIST_TYPE: &str = "x-kubernetes-list-type";
pub(super) const MAP_TYPE: &str = "x-kubernetes-map-type";
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
pub(super) const RULES: &str = "x-kubernetes-validations";

/// Everything that is wrong with a schema; `base` is the path of its `openAPIV3Schema`.
pub(super) fn check(schema: &Value, base: &str, has_status: bool) -> Vec<FieldError> {
    let place = Place::Field(&Place::Root, base);
    let mut errors = Errors(Vec::new());
    if has_status {
        check_root_keywords(schema, &place, &mut errors);
    }
    if is_true(schema, "nullable") {
        errors.forbidden(&place, "nullable", "nullable cannot be true at the root");
    }
    let before = errors.0.len();
    check_structure(schema, Level::Root, &place, &mut errors);
    check_complete(schema, schema, &place, &place, &mut errors);
    if errors.0.len() == before {
        match Schema::compile_at(schema, base) {
            Ok(compiled) => check_defaults(&compiled.root, &place, &mut errors.0),
            Err(compile_errors) => errors.0.extend(compile_errors),
        }
    }
    keywords::check(schema, &place, &mut errors);
    errors.0
}

pub(super) struct Errors(pub(super) Vec<FieldError>);

impl Errors {
    pub(super) fn required(&mut self, place: &Place<'_>, field: &str, detail: &str) {
        self.0.push(FieldError::required(Place::Field(place, field).field_path(), detail));
    }

    pub(super) fn forbidden(&mut self, place: &Place<'_>, field: &str, detail: &str) {
        self.0.push(FieldError::forbidden(Place::Field(place, field).field_path(), detail));
    }

    pub(super) fn invalid(&mut self, place: &Place<'_>, field: &str, value: impl Into<Value>, detail: &str) {
        self.0.push(FieldError::invalid(Place::Field(place, field).field_path(), value, detail));
    }

    pub(super) fn not_supported(&mut self, place: &Place<'_>, field: &str, value: &str, supported: &[&str]) {
        self.0.push(FieldError::not_supported(Place::Field(place, field).field_path(), value, supported));
    }
}

fn check_root_keywords(schema: &Value, place: &Place<'_>, errors: &mut Errors) {
    let kind = text(schema, "type");
    if !matches!(kind, "" | "object") {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.invalid(place, "type", kind, detail);
    }
    let is_set = |value: &Value| !value.is_null() && value != &Value::Bool(false);
    let is_allowed = |keyword: &str| ROOT_KEYWORDS.iter().any(|(_, allowed)| *allowed == keyword);
    let mut keywords = schema.as_object().into_iter().flatten().filter(|(_, value)| is_set(value));
    if keywords.any(|(keyword, _)| !is_allowed(keyword)) {
        let names = ROOT_KEYWORDS.map(|(name, _)| name).join(" ");
        let detail =
            format!("only [{names}] fields are allowed at the root of the schema if the status subresource is enabled");
        errors.0.push(FieldError::invalid(place.field_path(), schema.clone(), &detail));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn check_structure(schema: &Value, level: Level, place: &Place<'_>, errors: &mut Errors) {
    let kind = text(schema, "type");
    let items = schema.get("items").filter(|items| items.is_object());
    if kind == "array" && items.is_none() {
        errors.required(place, "items", "must be specified");
    }
    if let Some(items) = items {
        check_structure(items, Level::Item, &Place::Field(place, "items"), errors);
    }
    let properties = Place::Field(place, "properties");
    for (name, sub) in object(schema, "properties") {
        check_structure(sub, Level::Field, &Place::Key(&properties, name), errors);
    }
    if let Some(additional) = schema.get("additionalProperties") {
        if level == Level::Root {
            errors.forbidden(place, "additionalProperties", "must not be used at the root");
        }
        if additional.is_object() {
            check_structure(additional, Level::Field, &Place::Field(place, "additionalProperties"), errors);
        }
    }
    if is_true(schema, INT_OR_STRING) {
        for other in [PRESERVE, EMBEDDED].into_iter().filter(|other| is_true(schema, other)) {
            errors.invalid(place, other, true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
    check_nested_all(schema, is_int_or_string(schema.get("anyOf")), true, place, errors);
    check_own_type(schema, level, place, errors);
    check_metadata(schema, level, place, errors);
}

fn check_own_type(schema: &Value, level: Level, place: &Place<'_>, errors: &mut Errors) {
    let kind = text(schema, "type");
    let is_embedded = is_true(schema, EMBEDDED);
    let needs_type = !is_true(schema, INT_OR_STRING) && !is_true(schema, PRESERVE);
    if is_embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() {
            errors.required(place, "type", detail);
        } else {
            errors.invalid(place, "type", kind, detail);
        }
    } else if kind.is_empty() && needs_type {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.required(place, "type", detail);
    }
    if is_embedded && schema.get("additionalProperties").is_some() {
        errors.forbidden(place, "additionalProperties", "must not be used if x-kubernetes-embedded-resource is set");
    }
    if level == Level::Root && !matches!(kind, "" | "object") {
        errors.invalid(place, "type", kind, "must be object at the root");
    }
    let has_properties = object(schema, "properties").next().is_some();
    if is_embedded && !is_true(schema, PRESERVE) && !has_properties {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(place, "properties", detail);
    }
}

/// Objects of their own have a kind and a version in text; at the root, metadata may only limit names.
fn check_metadata(schema: &Value, level: Level, place: &Place<'_>, errors: &mut Errors) {
    let Some(properties) = schema.get("properties") else { return };
    let here = Place::Field(place, "properties");
    let is_resource = level == Level::Root || is_true(schema, EMBEDDED);
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(sub) = properties.get(name).filter(|_| is_resource) else { continue };
        if text(sub, "type") != wanted {
            errors.invalid(&Place::Key(&here, name), "type", text(sub, "type"), &format!("must be {wanted}"));
        }
    }
    let Some(metadata) = properties.get("metadata").filter(|_| level == Level::Root) else { return };
    let is_name = |(name, _): (&String, &Value)| matches!(name.as_str(), "name" | "generateName");
    let is_plain = |keyword: &str| matches!(keyword, "type" | "default" | "properties");
    let only_names = object(metadata, "properties").all(is_name);
    let mut keywords = metadata.as_object().into_iter().flatten();
    if !only_names || keywords.any(|(keyword, value)| !is_plain(keyword) && !value.is_null()) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.0.push(FieldError::forbidden(Place::Key(&here, "metadata").field_path(), detail));
    }
}

/// The one pattern that may name types in a branch: integer or string.
fn is_int_or_string(any_of: Option<&Value>) -> bool {
    any_of == Some(&serde_json::json!([{"type": "integer"}, {"type": "string"}]))
}

fn check_nested_all(schema: &Value, skips_any_of: bool, is_top: bool, place: &Place<'_>, errors: &mut Errors) {
    for keyword in ["anyOf", "allOf", "oneOf"] {
        if keyword == "anyOf" && skips_any_of {
            continue;
        }
        let here = Place::Field(place, keyword);
        let branches = schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, branch) in branches.iter().enumerate() {
            let skips = is_top && keyword == "allOf" && index == 0 && is_int_or_string(branch.get("anyOf"));
            check_nested(branch, skips, &Place::Index(&here, index), errors);
        }
    }
    if let Some(not) = schema.get("not") {
        check_nested(not, false, &Place::Field(place, "not"), errors);
    }
}

const FORBIDDEN_IN_BRANCHES: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (PRESERVE, "must be false to be structural"),
    (EMBEDDED, "must be false to be structural"),
    (INT_OR_STRING, "must be false to be structural"),
    (LIST_KEYS, "must be empty to be structural"),
    (LIST_TYPE, "must be undefined to be structural"),
    (MAP_TYPE, "must be undefined to be structural"),
];

fn check_nested(branch: &Value, skips_any_of: bool, place: &Place<'_>, errors: &mut Errors) {
    check_nested_all(branch, skips_any_of, false, place, errors);
    if let Some(items) = branch.get("items").filter(|items| items.is_object()) {
        check_nested(items, false, &Place::Field(place, "items"), errors);
    }
    let properties = Place::Field(place, "properties");
    for (name, sub) in object(branch, "properties") {
        check_nested(sub, false, &Place::Key(&properties, name), errors);
        if name == "metadata" {
            let path = Place::Key(&properties, name).field_path();
            errors.0.push(FieldError::forbidden(path, "must not be specified in a nested context"));
        }
    }
    let is_set = |keyword: &str| match branch.get(keyword) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(list)) => !list.is_empty(),
        Some(_) => true,
    };
    for (keyword, detail) in FORBIDDEN_IN_BRANCHES.into_iter().filter(|(keyword, _)| is_set(keyword)) {
        errors.forbidden(place, keyword, detail);
    }
    if is_set(RULES) {
        errors.forbidden(place, RULES, "must be empty to be structural");
    }
}

/// Fields that a branch names must be declared outside it too.
fn check_complete(branch: &Value, schema: &Value, place: &Place<'_>, named_at: &Place<'_>, errors: &mut Errors) {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let here = Place::Field(named_at, keyword);
        let branches = branch.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, nested) in branches.iter().enumerate() {
            check_branch_complete(nested, schema, place, &Place::Index(&here, index), errors);
        }
    }
    if let Some(not) = branch.get("not") {
        check_branch_complete(not, schema, place, &Place::Field(named_at, "not"), errors);
    }
}

fn check_branch_complete(branch: &Value, schema: &Value, place: &Place<'_>, named_at: &Place<'_>, errors: &mut Errors) {
    let missing = |place: &Place<'_>, named_at: &Place<'_>| {
        FieldError::required(place.field_path(), &format!("because it is defined in {}", named_at.field_path()))
    };
    check_complete(branch, schema, place, named_at, errors);
    if let Some(items) = branch.get("items") {
        let (here, named) = (Place::Field(place, "items"), Place::Field(named_at, "items"));
        match schema.get("items") {
            Some(declared) => check_branch_complete(items, declared, &here, &named, errors),
            None => errors.0.push(missing(&here, &named)),
        }
    }
    let (properties, named_properties) = (Place::Field(place, "properties"), Place::Field(named_at, "properties"));
    for (name, sub) in object(branch, "properties") {
        let (here, named) = (Place::Key(&properties, name), Place::Key(&named_properties, name));
        match schema.get("properties").and_then(|declared| declared.get(name)) {
            Some(declared) => check_branch_complete(sub, declared, &here, &named, errors),
            None => errors.0.push(missing(&here, &named)),
        }
    }
}

/// Defaults must be pruned and valid. Those inside additional properties are not reached, as in the reference.
fn check_defaults(node: &Node, place: &Place<'_>, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        let here = Place::Field(place, "default");
        if prune::prune_value(node, &mut default.clone()) {
            errors.push(FieldError::invalid(here.field_path(), default.clone(), "must not have unknown fields"));
        }
        errors.extend(default_errors(node, default, &here.field_path()));
    }
    if let Some(items) = &node.items {
        check_defaults(items, &Place::Field(place, "items"), errors);
    }
    let properties = Place::Field(place, "properties");
    for (name, sub) in &node.properties {
        check_defaults(sub, &Place::Key(&properties, name), errors);
    }
}

/// The first kind of check that fails is reported.
fn default_errors(node: &Node, default: &Value, path: &str) -> Vec<FieldError> {
    let below = |mut error: FieldError| {
        error.path = if error.path == "<nil>" { path.to_owned() } else { format!("{path}.{}", error.path) };
        error
    };
    let embedded = embedded::validate(node, default);
    if !embedded.is_empty() {
        return embedded.into_iter().map(below).collect();
    }
    let shape = validate::validate(node, default, None, Some(path));
    if shape.is_empty() { rules::check(node, default, None).into_iter().map(below).collect() } else { shape }
}

/// Warns about formats of text that are not checked.
pub(super) fn unknown_formats(schema: &Value, warnings: &mut Vec<String>) {
    let format = text(schema, "format");
    if text(schema, "type") == "string" && !format.is_empty() && format::find(format).is_none() {
        warnings.push(format!("unrecognized format {}", Value::from(format)));
    }
    let single = ["items", "not", "additionalProperties"].into_iter().filter_map(|keyword| schema.get(keyword));
    let branches =
        ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema.get(keyword)?.as_array()).flatten();
    for sub in single.chain(branches).chain(object(schema, "properties").map(|(_, sub)| sub)) {
        unknown_formats(sub, warnings);
    }
}
