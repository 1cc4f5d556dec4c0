//! JSON merge patch (RFC 7386) and JSON patch (RFC 6902), with the reference's limits and errors (K-PATCH-2).

use super::PatchError;
use json_patch::{Patch, PatchOperation, jsonptr::PointerBuf};
use serde_json::{Map, Value};
use volley_api::kube::decode::word;

/// The reference's own bound: each operation may walk the whole object.
pub const OPERATIONS_MAX: usize = 10_000;

/// Bytes that all `copy` operations of one patch may add; without it ten short operations make gigabytes.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Applies a JSON merge patch: null deletes a key, objects merge, all else is replaced.
pub fn merge(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Value::Object(patch) = patch else { return Err(decode_error(patch, "map[string]interface {}")) };
    let mut merged = current.clone();
    merge_into(&mut merged, patch);
    Ok(merged)
}

fn merge_into(target: &mut Value, patch: &Map<String, Value>) {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (key, value) in patch {
        match value {
            Value::Null => {
                fields.remove(key);
            }
            Value::Object(inner) => merge_into(fields.entry(key.as_str()).or_insert(Value::Null), inner),
            other => {
                fields.insert(key.clone(), without_nulls(other));
            }
        }
    }
}

/// The reference reads null as "absent" in the objects of a replaced list too, beyond the RFC.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// Applies a JSON patch; all of it or nothing.
pub fn json_patch(current: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = operations(patch)?;
    let mut patched = current.clone();
    let mut copied_bytes = 0;
    for operation in operations {
        if let PatchOperation::Copy(copy) = &operation {
            copied_bytes += patched.pointer(copy.from.as_str()).map_or(0, |value| value.to_string().len());
            if copied_bytes > COPIED_BYTES_MAX {
                return Err(PatchError::Rejected);
            }
        }
        if !is_absence_test(&patched, &operation) {
            let step = [operation];
            json_patch::patch_unsafe(&mut patched, &step).map_err(|_| PatchError::Rejected)?;
        }
    }
    Ok(patched)
}

fn operations(patch: &Value) -> Result<Vec<PatchOperation>, PatchError> {
    let Value::Array(list) = patch else { return Err(decode_error(patch, "[]interface {}")) };
    if list.len() > OPERATIONS_MAX {
        return Err(PatchError::TooManyOperations { count: list.len(), max: OPERATIONS_MAX });
    }
    if let Some(other) = list.iter().find(|operation| !operation.is_object()) {
        return Err(decode_error(other, "jsonpatch.Operation"));
    }
    let patch: Patch = serde_json::from_value(patch.clone()).map_err(|_| PatchError::Rejected)?;
    Ok(patch.0)
}

/// A `test` against null holds where the key is missing, as long as its parent is there.
fn is_absence_test(object: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    let parent_is_object = |path: &PointerBuf| {
        let parent = path.parent().and_then(|parent| object.pointer(parent.as_str()));
        parent.is_some_and(Value::is_object)
    };
    test.value.is_null() && object.pointer(test.path.as_str()).is_none() && parent_is_object(&test.path)
}

pub(super) fn decode_error(found: &Value, wanted: &str) -> PatchError {
    let kind = word(found);
    PatchError::Decode(format!("json: cannot unmarshal {kind} into Go value of type {wanted}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use volley_api::kube::status::ApiError;

    // K-PATCH-2
    #[test]
    fn merge_patch_follows_the_examples_of_the_rfc() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            (json!({}), json!({"a": [{"b": null, "c": 1}]}), json!({"a": [{"c": 1}]})),
        ];
        for (current, patch, expected) in cases {
            assert_eq!(merge(&current, &patch), Ok(expected), "{current} with {patch}");
        }
    }

    // K-PATCH-2
    #[test]
    fn json_patch_knows_all_six_operations() {
        let cases = [
            (json!([{"op": "add", "path": "/l/-", "value": 3}]), json!({"a": 1, "l": [1, 2, 3]})),
            (json!([{"op": "add", "path": "/l/0", "value": 0}]), json!({"a": 1, "l": [0, 1, 2]})),
            (json!([{"op": "remove", "path": "/a"}]), json!({"l": [1, 2]})),
            (json!([{"op": "replace", "path": "/a", "value": {"x~/y": 1}}]), json!({"a": {"x~/y": 1}, "l": [1, 2]})),
            (json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1, "l": [1, 2]})),
            (json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": 1, "b": 1, "l": [1, 2]})),
            (json!([{"op": "test", "path": "/a", "value": 1}]), json!({"a": 1, "l": [1, 2]})),
            (json!([{"op": "test", "path": "/zz", "value": null}]), json!({"a": 1, "l": [1, 2]})),
        ];
        for (patch, expected) in cases {
            assert_eq!(json_patch(&json!({"a": 1, "l": [1, 2]}), &patch), Ok(expected), "{patch}");
        }
    }

    // K-PATCH-2
    #[test]
    fn failing_operations_are_rejected_without_saying_which() {
        let patches = [
            json!([{"op": "test", "path": "/a", "value": 2}]),
            json!([{"op": "remove", "path": "/zz"}]),
            json!([{"op": "replace", "path": "/zz", "value": 1}]),
            json!([{"op": "add", "path": "/no/parent", "value": 1}]),
            json!([{"op": "frobnicate", "path": "/a"}]),
            json!([{"op": "test", "path": "/no/parent", "value": null}]),
        ];
        for patch in patches {
            let error = json_patch(&json!({"a": 1}), &patch).expect_err("must fail");
            let status = ApiError::from(error).to_status();
            assert_eq!(status["code"], 422, "{patch}");
            assert_eq!(status["reason"], "Invalid");
            assert_eq!(status["message"], "the server rejected our request due to an error in our request");
        }
    }

    // K-PATCH-2
    #[test]
    fn bodies_of_the_wrong_kind_are_bad_requests() {
        let error = json_patch(&json!({}), &json!({"a": 1})).expect_err("must fail");
        let expected = "error decoding patch: json: cannot unmarshal object into Go value of type []interface {}";
        assert_eq!(ApiError::from(error), ApiError::bad_request(expected));
        let error = merge(&json!({}), &json!([1])).expect_err("must fail");
        assert!(ApiError::from(error).message.starts_with("error decoding patch: json: cannot unmarshal array"));
    }

    // K-PATCH-2
    #[test]
    fn patches_are_bounded_in_operations_and_in_copied_bytes() {
        let many = vec![json!({"op": "test", "path": "/a", "value": 1}); OPERATIONS_MAX + 1];
        let error = json_patch(&json!({"a": 1}), &Value::Array(many)).expect_err("too many");
        assert_eq!(error, PatchError::TooManyOperations { count: 10_001, max: 10_000 });
        assert_eq!(ApiError::from(error).code, 413);
        let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 40];
        let error = json_patch(&json!({"a": ["x"]}), &Value::Array(doubling)).expect_err("too large");
        assert_eq!(error, PatchError::Rejected);
    }
}
