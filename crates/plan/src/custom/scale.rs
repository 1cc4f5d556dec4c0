//! The scale subresource of custom resources: an `autoscaling/v1` Scale made from three paths (K-CR-4).

use serde_json::{Map, Value, json};
use volley_api::kube::field::FieldError;
use volley_api::kube::status::ApiError;

/// Where an object keeps what a Scale shows, as the CRD spells it (`.spec.replicas`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl Paths {
    /// The paths of a CRD version, if it has the subresource.
    pub fn of(version: &Value) -> Option<Paths> {
        let scale = version.get("subresources")?.get("scale")?.as_object()?;
        let text =
            |key: &str| scale.get(key).and_then(Value::as_str).filter(|path| !path.is_empty()).map(str::to_owned);
        Some(Paths {
            spec_replicas: text("specReplicasPath")?,
            status_replicas: text("statusReplicasPath")?,
            label_selector: text("labelSelectorPath"),
        })
    }
}

/// The Scale of an object.
pub fn get(object: &Value, paths: &Paths) -> Result<Value, ApiError> {
    let replicas = number(object, &paths.spec_replicas).map_err(ApiError::bare)?;
    let Some(replicas) = replicas else {
        return Err(ApiError::internal(format!("the spec replicas field {:?} does not exist", paths.spec_replicas)));
    };
    let status_replicas = number(object, &paths.status_replicas).map_err(ApiError::bare)?.unwrap_or(0);
    let selector = match &paths.label_selector {
        Some(path) => label_selector(object, path).map_err(ApiError::bare)?,
        None => "",
    };
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(key)) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    let mut scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {}, "status": {"replicas": status_replicas},
    });
    // Zero is left out of the spec but not of the status.
    if replicas != 0 {
        scale["spec"]["replicas"] = replicas.into();
    }
    if !selector.is_empty() {
        scale["status"]["selector"] = selector.into();
    }
    Ok(scale)
}

/// Sets the wanted replicas of an object; objects on the way are made.
pub fn set(object: &mut Value, paths: &Paths, replicas: i64) -> Result<(), ApiError> {
    let steps: Vec<&str> = steps(&paths.spec_replicas).collect();
    let mut holder = object;
    for (index, step) in steps.iter().enumerate() {
        let Value::Object(members) = holder else {
            let path = steps[..index].join(".");
            return Err(ApiError::bare(format!(
                "value cannot be set because .{path} is not a map[string]interface{{}}"
            )));
        };
        holder = members.entry(*step).or_insert_with(|| json!({}));
    }
    *holder = replicas.into();
    Ok(())
}

/// The wanted replicas that a Scale body asks for; a body without a number asks for none.
pub fn wanted(scale: &Value) -> i64 {
    scale.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64).unwrap_or(0)
}

/// What is wrong with the numbers and the selector that a Scale would show.
pub fn check(object: &Value, paths: &Paths) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for path in [&paths.spec_replicas, &paths.status_replicas] {
        let detail = match number(object, path) {
            Err(why) => Some((0, why)),
            Ok(Some(replicas)) if replicas < 0 => Some((replicas, "should be a non-negative integer".to_owned())),
            Ok(Some(replicas)) if replicas > i64::from(i32::MAX) => {
                Some((replicas, format!("should be less than or equal to {}", i32::MAX)))
            }
            Ok(_) => None,
        };
        errors.extend(detail.map(|(replicas, why)| FieldError::invalid(path.as_str(), replicas, &why)));
    }
    if let Some(path) = &paths.label_selector
        && let Err(why) = label_selector(object, path)
    {
        errors.push(FieldError::invalid(path.as_str(), "", &why));
    }
    errors
}

fn steps(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn number(object: &Value, path: &str) -> Result<Option<i64>, String> {
    match lookup(object, path)? {
        None => Ok(None),
        Some(value) => value.as_i64().map(Some).ok_or_else(|| accessor_error(path, value, "int64")),
    }
}

fn label_selector<'a>(object: &'a Value, path: &str) -> Result<&'a str, String> {
    match lookup(object, path)? {
        None => Ok(""),
        Some(value) => value.as_str().ok_or_else(|| accessor_error(path, value, "string")),
    }
}

fn lookup<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    let mut walked = String::new();
    for step in steps(path) {
        if value.is_null() {
            return Ok(None);
        }
        let Value::Object(members) = value else {
            return Err(accessor_error(&walked, value, "map[string]interface{}"));
        };
        let Some(member) = members.get(step) else { return Ok(None) };
        value = member;
        walked.push('.');
        walked.push_str(step);
    }
    Ok(Some(value))
}

fn accessor_error(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, kind) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(flag) => (flag.to_string(), "bool"),
        Value::Number(number) if number.is_i64() => (number.to_string(), "int64"),
        Value::Number(number) => (super::number::number_text(number), "float64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths() -> Paths {
        Paths::of(&json!({"subresources": {"scale": {
            "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }}}))
        .unwrap()
    }

    // K-CR-4
    #[test]
    fn a_scale_shows_what_the_three_paths_hold() {
        let object = json!({
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"x": "y"}},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"},
        });
        let expected = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "5"},
            "spec": {"replicas": 3}, "status": {"replicas": 2, "selector": "a=b"},
        });
        assert_eq!(get(&object, &paths()).unwrap(), expected);
    }

    // K-CR-4
    #[test]
    fn an_object_without_replicas_has_no_scale() {
        let error = get(&json!({"spec": {}}), &paths()).unwrap_err();
        assert_eq!((error.code, error.reason), (500, "InternalError"));
        assert!(error.message.ends_with("the spec replicas field \".spec.replicas\" does not exist"), "{error}");
        let error = get(&json!({"spec": {"replicas": "3"}}), &paths()).unwrap_err();
        assert_eq!(error.message, ".spec.replicas accessor error: 3 is of the type string, expected int64");
    }

    // K-CR-4
    #[test]
    fn setting_replicas_makes_the_way_to_them() {
        let mut object = json!({"metadata": {"name": "a"}});
        set(&mut object, &paths(), 4).unwrap();
        assert_eq!(object["spec"]["replicas"], 4);
        assert!(set(&mut json!({"spec": 1}), &paths(), 4).is_err());
    }

    // K-CR-4
    #[test]
    fn replicas_must_be_small_and_not_negative() {
        let texts = |object: Value| check(&object, &paths()).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(texts(json!({"spec": {"replicas": 0}})).is_empty());
        assert_eq!(
            texts(json!({"spec": {"replicas": -1}, "status": {"replicas": 3_000_000_000_i64}})),
            [
                ".spec.replicas: Invalid value: -1: should be a non-negative integer",
                ".status.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
            ]
        );
    }
}
