//! What the schema of a CRD version may say: it must be structural, its defaults must fit, its extensions must agree.
//!
//! `definition` calls `check` for each schema of a CRD. Texts are the reference's.

use super::place::Place;
use super::schema::{Node, Schema, is_true, object, text};
use super::{embedded, format, prune, rules, selectable, validate};
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
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const RULES: &str = "x-kubernetes-validations";

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
    check_keywords(schema, &place, Around { is_root: true, ..Around::default() }, &mut errors);
    errors.0
}

struct Errors(Vec<FieldError>);

impl Errors {
    fn required(&mut self, place: &Place<'_>, field: &str, detail: &str) {
        self.0.push(FieldError::required(Place::Field(place, field).field_path(), detail));
    }

    fn forbidden(&mut self, place: &Place<'_>, field: &str, detail: &str) {
        self.0.push(FieldError::forbidden(Place::Field(place, field).field_path(), detail));
    }

    fn invalid(&mut self, place: &Place<'_>, field: &str, value: impl Into<Value>, detail: &str) {
        self.0.push(FieldError::invalid(Place::Field(place, field).field_path(), value, detail));
    }

    fn not_supported(&mut self, place: &Place<'_>, field: &str, value: &str, supported: &[&str]) {
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

/// What stands around a schema node and limits what it may say.
#[derive(Debug, Clone, Copy, Default)]
struct Around<'a> {
    is_root: bool,
    is_in_meta: bool,
    /// Why there may be no default here.
    no_default: Option<&'a str>,
    /// The first ancestor whose values cannot be told apart between two versions of an object.
    no_old_below: Option<&'a Place<'a>>,
}

fn check_keywords(schema: &Value, place: &Place<'_>, around: Around<'_>, errors: &mut Errors) {
    let before = errors.0.len();
    check_supported(schema, place, around, errors);
    check_exclusive(schema, place, errors);
    check_below(schema, place, Around { is_root: false, ..around }, around.is_root, errors);
    if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
        errors.invalid(place, PRESERVE, false, "must be true or undefined");
    }
    check_map_type(schema, place, errors);
    check_list_type(schema, place, errors);
    check_rules(schema, place, errors);
    if errors.0.len() == before {
        check_old(schema, place, around, errors);
    }
}

const UNSUPPORTED: [&str; 7] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "uniqueItems"];

fn check_supported(schema: &Value, place: &Place<'_>, around: Around<'_>, errors: &mut Errors) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported(place, "type", kind, &TYPES);
    }
    if let (Some(_), Some(why)) = (schema.get("default").filter(|default| !default.is_null()), around.no_default) {
        errors.forbidden(place, "default", &format!("must not be set {why}"));
    }
    for keyword in UNSUPPORTED {
        let is_set = schema.get(keyword).is_some_and(|value| !value.is_null() && value != &Value::Bool(false));
        if is_set && keyword == "uniqueItems" {
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            errors.forbidden(place, keyword, detail);
        } else if is_set {
            errors.forbidden(place, keyword, &format!("{keyword} is not supported"));
        }
    }
    if kind == "null" {
        errors.forbidden(place, "type", "type cannot be set to null, use nullable as an alternative");
    }
    if schema.get("items").is_some_and(Value::is_array) {
        errors.forbidden(place, "items", "items must be a schema object and not an array");
    }
    if around.is_in_meta && is_true(schema, EMBEDDED) {
        errors.forbidden(place, EMBEDDED, "must not be used inside of resource meta");
    }
}

fn check_exclusive(schema: &Value, place: &Place<'_>, errors: &mut Errors) {
    let has_properties = object(schema, "properties").next().is_some();
    let limits_others = schema.get("additionalProperties").is_some_and(|additional| additional != &Value::Bool(true));
    if has_properties && limits_others {
        errors.forbidden(place, "additionalProperties", "additionalProperties and properties are mutual exclusive");
    }
}

fn check_below(schema: &Value, place: &Place<'_>, around: Around<'_>, is_root: bool, errors: &mut Errors) {
    if let Some(additional) = schema.get("additionalProperties").filter(|additional| additional.is_object()) {
        let in_meta = around.is_in_meta.then_some("inside additionalProperties applying to object metadata");
        let inner = Around { no_default: in_meta.or(around.no_default), ..around };
        check_keywords(additional, &Place::Field(place, "additionalProperties"), inner, errors);
    }
    let properties = Place::Field(place, "properties");
    for (name, sub) in object(schema, "properties") {
        let is_meta =
            (is_root || is_true(schema, EMBEDDED)) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        let why = format!("in top-level {name}");
        let inner = Around {
            is_in_meta: around.is_in_meta || is_meta,
            no_default: if is_meta && is_root { Some(&why) } else { around.no_default },
            ..around
        };
        check_keywords(sub, &Place::Key(&properties, name), inner, errors);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        let is_keyed = text(schema, LIST_TYPE) == "map";
        let inner = Around { no_old_below: around.no_old_below.or((!is_keyed).then_some(place)), ..around };
        check_keywords(items, &Place::Field(place, "items"), inner, errors);
    }
    if let Some(not) = schema.get("not") {
        check_keywords(not, &Place::Field(place, "not"), around, errors);
    }
    for keyword in ["allOf", "oneOf", "anyOf"] {
        let here = Place::Field(place, keyword);
        let branches = schema.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (index, branch) in branches.iter().enumerate() {
            check_keywords(branch, &Place::Index(&here, index), around, errors);
        }
    }
}

/// A keyword that only one type may have.
fn check_type_for(schema: &Value, keyword: &str, wanted: &str, place: &Place<'_>, errors: &mut Errors) -> bool {
    let kind = text(schema, "type");
    let detail = format!("must be {wanted} if {keyword} is specified");
    if kind.is_empty() {
        errors.required(place, "type", &detail);
    } else if kind != wanted {
        errors.invalid(place, "type", kind, &detail);
    }
    kind == wanted
}

fn check_map_type(schema: &Value, place: &Place<'_>, errors: &mut Errors) {
    let Some(map_type) = schema.get(MAP_TYPE).and_then(Value::as_str) else { return };
    check_type_for(schema, MAP_TYPE, "object", place, errors);
    if !matches!(map_type, "atomic" | "granular") {
        errors.not_supported(place, MAP_TYPE, map_type, &["atomic", "granular"]);
    }
}

fn check_list_type(schema: &Value, place: &Place<'_>, errors: &mut Errors) {
    let keys = schema.get(LIST_KEYS).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(list_type) = schema.get(LIST_TYPE).and_then(Value::as_str) else {
        if !keys.is_empty() {
            errors.required(place, LIST_TYPE, "must be map if x-kubernetes-list-map-keys is non-empty");
        }
        return;
    };
    let items = schema.get("items").filter(|items| items.is_object());
    if check_type_for(schema, LIST_TYPE, "array", place, errors)
        && let (Some(items), "set") = (items, list_type)
    {
        check_set_items(items, &Place::Field(place, "items"), errors);
    }
    if !matches!(list_type, "atomic" | "set" | "map") {
        errors.not_supported(place, LIST_TYPE, list_type, &["atomic", "set", "map"]);
    }
    if !keys.is_empty() && list_type != "map" {
        errors.invalid(place, LIST_TYPE, list_type, "must be map if x-kubernetes-list-map-keys is non-empty");
    }
    let has_nullable_items = items.is_some_and(|items| is_true(items, "nullable"));
    if has_nullable_items && matches!(list_type, "set" | "map") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(&Place::Field(place, "items"), "nullable", &detail);
    }
    if list_type == "map" {
        check_list_map(items, keys, schema, place, errors);
    }
}

fn check_set_items(items: &Value, place: &Place<'_>, errors: &mut Errors) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get(LIST_TYPE).cloned().unwrap_or(Value::Null);
    match text(items, "type") {
        "array" if !matches!(text(items, LIST_TYPE), "" | "atomic") => {
            errors.invalid(place, LIST_TYPE, list_type, detail)
        }
        "object" if text(items, MAP_TYPE) != "atomic" => errors.invalid(place, MAP_TYPE, list_type, detail),
        _ => {}
    }
}

fn check_list_map(items: Option<&Value>, keys: &[Value], schema: &Value, place: &Place<'_>, errors: &mut Errors) {
    if keys.is_empty() {
        errors.required(place, LIST_KEYS, "must not be empty if x-kubernetes-list-type is map");
    }
    let Some(items) = items else {
        errors.required(place, "items", "must have a schema if x-kubernetes-list-type is map");
        return;
    };
    let here = Place::Field(place, "items");
    if text(items, "type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.invalid(&here, "type", text(items, "type"), detail);
        return;
    }
    let all_keys = schema.get(LIST_KEYS).cloned().unwrap_or(Value::Null);
    let required = items.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let properties = Place::Field(&here, "properties");
    for (index, key) in keys.iter().enumerate() {
        if keys[..index].contains(key) {
            errors.invalid(place, LIST_KEYS, all_keys.clone(), "must not contain duplicate entries");
        }
        let name = key.as_str().unwrap_or("");
        let Some(property) = items.get("properties").and_then(|properties| properties.get(name)) else {
            errors.invalid(place, LIST_KEYS, all_keys.clone(), "entries must all be names of item properties");
            continue;
        };
        let at_key = Place::Key(&properties, name);
        if matches!(text(property, "type"), "array" | "object") {
            let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.invalid(&at_key, "type", text(items, "type"), detail);
        }
        if !required.contains(key) && property.get("default").is_none_or(Value::is_null) {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&at_key, "default", detail);
        }
        if is_true(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&at_key, "nullable", detail);
        }
    }
}

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

fn check_rules(schema: &Value, place: &Place<'_>, errors: &mut Errors) {
    let list = schema.get(RULES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let here = Place::Field(place, RULES);
    for (index, rule) in list.iter().enumerate() {
        let at = Place::Index(&here, index);
        let (source, message) = (text(rule, "rule"), text(rule, "message"));
        let has_breaks = |text: &str| text.trim().contains(['\n', '\r']);
        if source.trim().is_empty() {
            errors.required(&at, "rule", "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(&at, "message", message, "must be non-empty if specified");
        } else if has_breaks(message) {
            errors.invalid(&at, "message", message, "must not contain line breaks");
        } else if has_breaks(source) && message.trim().is_empty() {
            errors.required(&at, "message", "message must be specified if rule contains line breaks");
        }
        let expression = text(rule, "messageExpression");
        if !expression.is_empty() && expression.trim().is_empty() {
            errors.required(&at, "messageExpression", "messageExpression must be non-empty if specified");
        }
        let reason = text(rule, "reason");
        if rule.get("reason").is_some_and(Value::is_string) && !REASONS.contains(&reason) {
            errors.not_supported(&at, "reason", reason, &REASONS);
        }
        let field = text(rule, "fieldPath");
        if !field.is_empty() && selectable::find(field, schema, true).is_err() {
            errors.invalid(&at, "fieldPath", field, "must be a valid path");
        }
    }
}

/// Rules about changes need values that can be followed from one version of an object to the next.
fn check_old(schema: &Value, place: &Place<'_>, around: Around<'_>, errors: &mut Errors) {
    let list = schema.get(RULES).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let here = Place::Field(place, RULES);
    for (index, rule) in list.iter().enumerate() {
        let at = Place::Index(&here, index);
        if !rules::uses_old(text(rule, "rule")) {
            if let Some(flag) = rule.get("optionalOldSelf").filter(|flag| !flag.is_null()) {
                errors.invalid(&at, "optionalOldSelf", flag.clone(), "may not be set if oldSelf is not used in rule");
            }
        } else if let Some(ancestor) = around.no_old_below {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {}",
                ancestor.field_path()
            );
            errors.invalid(&at, "rule", text(rule, "rule"), &detail);
        }
    }
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
