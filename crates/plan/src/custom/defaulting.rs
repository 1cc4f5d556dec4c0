//! Defaulting: absent members with a default are filled in where their parent exists, level by level, and nulls that
//! the schema does not allow become the default or go away.

use super::schema::{Additional, Node};
use serde_json::Value;

pub(super) fn default(node: &Node, value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, member| !member.is_null() || keeps_null(node.member(name)));
            for (name, sub) in &node.properties {
                let Some(fallback) = &sub.default else { continue };
                let is_unset = members.get(name.as_ref()).is_none_or(|member| member.is_null() && !sub.is_nullable);
                if is_unset {
                    members.insert(name.to_string(), fallback.clone());
                }
            }
            for (name, member) in members {
                if let Some(sub) = node.property(name) {
                    default(sub, member);
                } else if let Additional::Of(sub) = &node.additional {
                    default_in_place(sub, member);
                }
            }
        }
        Value::Array(items) => {
            let Some(sub) = &node.items else { return };
            for item in items {
                default_in_place(sub, item);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Undescribed nulls stay, and so do those that a default is about to replace.
fn keeps_null(sub: Option<&Node>) -> bool {
    sub.is_none_or(|sub| sub.is_nullable || sub.default.is_some())
}

fn default_in_place(sub: &Node, value: &mut Value) {
    if value.is_null()
        && !sub.is_nullable
        && let Some(fallback) = &sub.default
    {
        *value = fallback.clone();
    }
    default(sub, value);
}
