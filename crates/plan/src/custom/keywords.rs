//! The keywords of a CRD's schema: which are supported, and how they must agree with each other.
//!
//! `structural` calls this after it has looked at the schema's structure. Texts are the reference's.

use super::place::Place;
use super::schema::{is_true, object, text};
use super::structural::{EMBEDDED, Errors, LIST_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE, RULES};
use super::{rules, selectable};
use serde_json::Value;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

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

/// Checks the keywords of a whole schema.
pub(super) fn check(schema: &Value, place: &Place<'_>, errors: &mut Errors) {
    check_keywords(schema, place, Around { is_root: true, ..Around::default() }, errors);
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
