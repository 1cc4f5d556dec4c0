//! What the schema of a CRD version may say: it must be structural, its defaults must fit, its extensions must agree.
//!
//! `version` calls `check` for each schema of a CRD. Texts are the reference's.

use super::schema::{Node, Schema, object, text};
use super::{embedded, format, keywords, prune, rules, validate};
use serde_json::{Value, json};
use volley_api::kube::field::FieldError;
use volley_api::kube::validate::place::Place;

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

/// Everything that is wrong with the `openAPIV3Schema` of a version.
pub(super) fn check(schema: &Place, has_status: bool) {
    if has_status {
        check_root_keywords(schema);
    }
    schema.forbidden_if(schema.flag("nullable"), "nullable", "nullable cannot be true at the root");
    let noted_before = schema.noted();
    check_structure(schema, Level::Root);
    check_complete(schema, schema);
    if schema.noted() == noted_before {
        match Schema::compile_at(schema.value, &schema.path("")) {
            Ok(compiled) => check_defaults(&compiled.root, schema),
            Err(problems) => problems.into_iter().for_each(|problem| schema.note(problem)),
        }
    }
    keywords::check(schema);
}

/// A keyword that holds a schema of its own.
pub(super) fn sub_schema<'b, 'v>(schema: &'b Place<'_, 'v>, keyword: &'b str) -> Option<Place<'b, 'v>> {
    schema.given(keyword).filter(|sub| sub.value.is_object())
}

fn check_root_keywords(schema: &Place) {
    let is_object = matches!(schema.text("type"), "" | "object");
    let detail =
        "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
    schema.wrong_if(!is_object, "type", detail);
    let is_allowed = |keyword: &str| ROOT_KEYWORDS.iter().any(|(_, allowed)| *allowed == keyword);
    let mut keywords = schema.entries("").filter(|(_, value)| !value.value.is_null() && value.value != false);
    if keywords.any(|(keyword, _)| !is_allowed(keyword)) {
        let names = ROOT_KEYWORDS.map(|(name, _)| name).join(" ");
        let detail =
            format!("only [{names}] fields are allowed at the root of the schema if the status subresource is enabled");
        schema.wrong("", &detail);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

fn check_structure(schema: &Place, level: Level) {
    match sub_schema(schema, "items") {
        Some(items) => check_structure(&items, Level::Item),
        None if schema.text("type") == "array" => schema.required("items", "must be specified"),
        None => {}
    }
    schema.entries("properties").for_each(|(_, sub)| check_structure(&sub, Level::Field));
    let is_open_root = level == Level::Root && schema.value.get("additionalProperties").is_some();
    schema.forbidden_if(is_open_root, "additionalProperties", "must not be used at the root");
    if let Some(additional) = sub_schema(schema, "additionalProperties") {
        check_structure(&additional, Level::Field);
    }
    if schema.flag(INT_OR_STRING) {
        for other in [PRESERVE, EMBEDDED] {
            schema.wrong_if(schema.flag(other), other, "must be false if x-kubernetes-int-or-string is true");
        }
    }
    check_nested_all(schema, is_int_or_string(schema.get("anyOf")), true);
    check_own_type(schema, level);
    check_metadata(schema, level);
}

fn check_own_type(schema: &Place, level: Level) {
    let (kind, is_embedded) = (schema.text("type"), schema.flag(EMBEDDED));
    let needs_type = !schema.flag(INT_OR_STRING) && !schema.flag(PRESERVE);
    if is_embedded {
        check_type(schema, "object", "must be object if x-kubernetes-embedded-resource is true");
    } else if needs_type {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        schema.needs_because("type", detail);
    }
    let is_open = is_embedded && schema.value.get("additionalProperties").is_some();
    let detail = "must not be used if x-kubernetes-embedded-resource is set";
    schema.forbidden_if(is_open, "additionalProperties", detail);
    let is_other_root = level == Level::Root && !matches!(kind, "" | "object");
    schema.wrong_if(is_other_root, "type", "must be object at the root");
    if is_embedded && !schema.flag(PRESERVE) {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        schema.needs_because("properties", detail);
    }
}

/// A schema that can only be of one type; says whether it is.
pub(super) fn check_type(schema: &Place, wanted: &str, detail: &str) -> bool {
    let kind = schema.text("type");
    schema.needs_because("type", detail);
    schema.wrong_if(!kind.is_empty() && kind != wanted, "type", detail);
    kind == wanted
}

/// Objects of their own have a kind and a version in text; at the root, metadata may only limit names.
fn check_metadata(schema: &Place, level: Level) {
    let is_resource = level == Level::Root || schema.flag(EMBEDDED);
    for (name, sub) in schema.entries("properties").filter(|_| is_resource) {
        let wanted = match name {
            "kind" | "apiVersion" => "string",
            "metadata" => "object",
            _ => continue,
        };
        let kind = sub.text("type");
        sub.invalid_if(kind != wanted, "type", kind, &format!("must be {wanted}"));
    }
    let mut root = schema.entries("properties").filter(|(name, _)| level == Level::Root && *name == "metadata");
    let Some((_, metadata)) = root.next() else { return };
    let only_names = metadata.entries("properties").all(|(name, _)| matches!(name, "name" | "generateName"));
    let is_plain = |keyword: &str| matches!(keyword, "type" | "default" | "properties");
    let mut keywords = metadata.entries("");
    let says_more = keywords.any(|(keyword, value)| !is_plain(keyword) && !value.value.is_null());
    let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
    metadata.forbidden_if(!only_names || says_more, "", detail);
}

/// The one pattern that may name types in a branch: integer or string.
fn is_int_or_string(any_of: &Value) -> bool {
    any_of == &json!([{"type": "integer"}, {"type": "string"}])
}

fn check_nested_all(schema: &Place, skips_any_of: bool, is_top: bool) {
    for keyword in ["anyOf", "allOf", "oneOf"].into_iter().filter(|keyword| *keyword != "anyOf" || !skips_any_of) {
        for (index, branch) in schema.items(keyword).enumerate() {
            let skips = is_top && keyword == "allOf" && index == 0 && is_int_or_string(branch.get("anyOf"));
            check_nested(&branch, skips);
        }
    }
    if let Some(not) = schema.given("not") {
        check_nested(&not, false);
    }
}

const FORBIDDEN_IN_BRANCHES: [(&str, &str); 13] = [
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
    (RULES, "must be empty to be structural"),
];

fn check_nested(branch: &Place, skips_any_of: bool) {
    check_nested_all(branch, skips_any_of, false);
    if let Some(items) = sub_schema(branch, "items") {
        check_nested(&items, false);
    }
    for (name, sub) in branch.entries("properties") {
        check_nested(&sub, false);
        sub.forbidden_if(name == "metadata", "", "must not be specified in a nested context");
    }
    for (keyword, detail) in FORBIDDEN_IN_BRANCHES {
        let is_set = match branch.get(keyword) {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(list) => !list.is_empty(),
            _ => true,
        };
        branch.forbidden_if(is_set, keyword, detail);
    }
}

/// Fields that a branch names must be declared outside it too; `schema` is what is outside.
fn check_complete(branch: &Place, schema: &Place) {
    let nested = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|keyword| branch.items(keyword));
    for nested in nested.chain(branch.given("not")) {
        check_branch_complete(&nested, schema);
    }
}

fn check_branch_complete(branch: &Place, schema: &Place) {
    let check = |branch: &Place, declared: &Place| {
        if declared.value.is_null() {
            declared.required("", &format!("because it is defined in {}", branch.path("")));
        } else {
            check_branch_complete(branch, declared);
        }
    };
    check_complete(branch, schema);
    if let Some(items) = branch.given("items") {
        check(&items, &schema.field("items"));
    }
    for (name, sub) in branch.entries("properties") {
        let declared = schema.get("properties").get(name).unwrap_or(&Value::Null);
        check(&sub, &schema.stand_in(&format!("properties[{name}]"), declared));
    }
}

/// Defaults must be pruned and valid. Those inside additional properties are not reached, as in the reference.
fn check_defaults(node: &Node, schema: &Place) {
    if let Some(default) = &node.default {
        let has_unknown = prune::prune_value(node, &mut default.clone());
        schema.wrong_if(has_unknown, "default", "must not have unknown fields");
        default_errors(node, default, &schema.path("default")).into_iter().for_each(|problem| schema.note(problem));
    }
    if let Some(items) = &node.items {
        check_defaults(items, &schema.field("items"));
    }
    for (name, sub) in schema.entries("properties") {
        node.property(name).into_iter().for_each(|node| check_defaults(node, &sub));
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
