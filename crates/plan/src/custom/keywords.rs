//! The keywords of a CRD's schema: which are supported, and how they must agree with each other.
//!
//! `structural` calls this after it has looked at the schema's structure. Texts are the reference's.

use super::structural::{EMBEDDED, LIST_KEYS, LIST_TYPE, MAP_TYPE, PRESERVE, RULES, check_type, sub_schema};
use super::{rules, selectable};
use serde_json::Value;
use volley_api::kube::validate::place::Place;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What stands around a schema node and limits what it may say.
#[derive(Clone, Copy, Default)]
struct Around<'a> {
    is_root: bool,
    is_in_meta: bool,
    /// Why there may be no default here.
    no_default: Option<&'a str>,
    /// The first ancestor whose values cannot be told apart between two versions of an object.
    no_old_below: Option<&'a Place<'a, 'a>>,
}

/// Checks the keywords of a whole schema.
pub(super) fn check(schema: &Place) {
    check_keywords(schema, Around { is_root: true, ..Around::default() });
}

fn check_keywords(schema: &Place, around: Around<'_>) {
    let noted_before = schema.noted();
    check_supported(schema, around);
    let limits_others = schema.value.get("additionalProperties").is_some_and(|additional| additional != true);
    let has_both = limits_others && schema.entries("properties").next().is_some();
    let detail = "additionalProperties and properties are mutual exclusive";
    schema.forbidden_if(has_both, "additionalProperties", detail);
    check_below(schema, around);
    schema.wrong_if(schema.get(PRESERVE) == false, PRESERVE, "must be true or undefined");
    if schema.get(MAP_TYPE).is_string() {
        check_type(schema, "object", &format!("must be object if {MAP_TYPE} is specified"));
        schema.one_of(MAP_TYPE, &["atomic", "granular"]);
    }
    check_list_type(schema);
    schema.items(RULES).for_each(|rule| check_rule(&rule, schema.value));
    if schema.noted() == noted_before {
        schema.items(RULES).for_each(|rule| check_old(&rule, around));
    }
}

const UNSUPPORTED: [&str; 7] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref", "uniqueItems"];

fn check_supported(schema: &Place, around: Around<'_>) {
    if !schema.text("type").is_empty() {
        schema.one_of("type", &TYPES);
    }
    if let Some(why) = around.no_default.filter(|_| schema.has("default")) {
        schema.forbidden("default", &format!("must not be set {why}"));
    }
    for keyword in UNSUPPORTED.into_iter().filter(|keyword| schema.has(keyword) && schema.get(keyword) != false) {
        let detail = match keyword {
            "uniqueItems" => "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            _ => &format!("{keyword} is not supported"),
        };
        schema.forbidden(keyword, detail);
    }
    let is_null = schema.text("type") == "null";
    schema.forbidden_if(is_null, "type", "type cannot be set to null, use nullable as an alternative");
    let is_tuple = schema.get("items").is_array();
    schema.forbidden_if(is_tuple, "items", "items must be a schema object and not an array");
    let is_inside = around.is_in_meta && schema.flag(EMBEDDED);
    schema.forbidden_if(is_inside, EMBEDDED, "must not be used inside of resource meta");
}

fn check_below(schema: &Place, outer: Around<'_>) {
    let around = Around { is_root: false, ..outer };
    if let Some(additional) = sub_schema(schema, "additionalProperties") {
        let in_meta = around.is_in_meta.then_some("inside additionalProperties applying to object metadata");
        check_keywords(&additional, Around { no_default: in_meta.or(around.no_default), ..around });
    }
    for (name, sub) in schema.entries("properties") {
        let is_resource = outer.is_root || schema.flag(EMBEDDED);
        let is_meta = is_resource && matches!(name, "metadata" | "kind" | "apiVersion");
        let why = format!("in top-level {name}");
        let no_default = if is_meta && outer.is_root { Some(why.as_str()) } else { around.no_default };
        check_keywords(&sub, Around { is_in_meta: around.is_in_meta || is_meta, no_default, ..around });
    }
    if let Some(items) = sub_schema(schema, "items") {
        let is_keyed = schema.text(LIST_TYPE) == "map";
        let no_old_below = around.no_old_below.or((!is_keyed).then_some(schema));
        check_keywords(&items, Around { no_old_below, ..around });
    }
    let branches = ["allOf", "oneOf", "anyOf"].into_iter().flat_map(|keyword| schema.items(keyword));
    for branch in schema.given("not").into_iter().chain(branches) {
        check_keywords(&branch, around);
    }
}

fn check_list_type(schema: &Place) {
    let has_keys = !schema.list(LIST_KEYS).is_empty();
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    let Some(list_type) = schema.get(LIST_TYPE).as_str() else {
        if has_keys {
            schema.required(LIST_TYPE, detail);
        }
        return;
    };
    let items = sub_schema(schema, "items");
    let is_list = check_type(schema, "array", &format!("must be array if {LIST_TYPE} is specified"));
    schema.one_of(LIST_TYPE, &["atomic", "set", "map"]);
    schema.wrong_if(has_keys && list_type != "map", LIST_TYPE, detail);
    if let Some(items) = &items {
        if is_list && list_type == "set" {
            check_set_items(items);
        }
        let is_nullable = items.flag("nullable") && matches!(list_type, "set" | "map");
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        items.forbidden_if(is_nullable, "nullable", &detail);
    }
    if list_type == "map" {
        schema.needs_because(LIST_KEYS, "must not be empty if x-kubernetes-list-type is map");
        match &items {
            Some(items) => check_list_map(schema, items),
            None => schema.required("items", "must have a schema if x-kubernetes-list-type is map"),
        }
    }
}

fn check_set_items(items: &Place) {
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get(LIST_TYPE).clone();
    match items.text("type") {
        "array" if !matches!(items.text(LIST_TYPE), "" | "atomic") => items.wrong(LIST_TYPE, detail),
        // The reference shows the other type here.
        "object" if items.text(MAP_TYPE) != "atomic" => items.invalid(MAP_TYPE, list_type, detail),
        _ => {}
    }
}

fn check_list_map(schema: &Place, items: &Place) {
    let kind = items.text("type");
    if kind != "object" {
        return items.invalid("type", kind, "must be object if parent array's x-kubernetes-list-type is map");
    }
    let keys = schema.list(LIST_KEYS);
    for (index, key) in keys.iter().enumerate() {
        schema.wrong_if(keys[..index].contains(key), LIST_KEYS, "must not contain duplicate entries");
        let mut properties = items.entries("properties");
        let Some((_, property)) = properties.find(|(name, _)| key == name) else {
            schema.wrong(LIST_KEYS, "entries must all be names of item properties");
            continue;
        };
        let is_compound = matches!(property.text("type"), "array" | "object");
        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        property.invalid_if(is_compound, "type", kind, detail);
        if !items.list("required").contains(key) && !property.has("default") {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            property.required("default", detail);
        }
        let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        property.forbidden_if(property.flag("nullable"), "nullable", detail);
    }
}

const REASONS: [&str; 4] = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

fn check_rule(rule: &Place, schema: &Value) {
    let (source, message) = (rule.text("rule"), rule.text("message"));
    let has_breaks = |text: &str| text.trim().contains(['\n', '\r']);
    if source.trim().is_empty() {
        rule.required("rule", "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        rule.wrong("message", "must be non-empty if specified");
    } else if has_breaks(message) {
        rule.wrong("message", "must not contain line breaks");
    } else if has_breaks(source) && message.trim().is_empty() {
        rule.required("message", "message must be specified if rule contains line breaks");
    }
    let expression = rule.text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        rule.required("messageExpression", "messageExpression must be non-empty if specified");
    }
    if rule.get("reason").is_string() {
        rule.one_of("reason", &REASONS);
    }
    let field = rule.text("fieldPath");
    let is_lost = !field.is_empty() && selectable::find(field, schema, true).is_err();
    rule.wrong_if(is_lost, "fieldPath", "must be a valid path");
}

/// Rules about changes need values that can be followed from one version of an object to the next.
fn check_old(rule: &Place, around: Around<'_>) {
    if !rules::uses_old(rule.text("rule")) {
        let is_given = rule.has("optionalOldSelf");
        rule.wrong_if(is_given, "optionalOldSelf", "may not be set if oldSelf is not used in rule");
    } else if let Some(ancestor) = around.no_old_below {
        let place = ancestor.path("");
        let detail = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {place}");
        rule.wrong("rule", &detail);
    }
}
