//! Which objects belong to a controller: by owner reference, or by selector when nobody owns them.
//!
//! Used by the controllers of Jobs, ReplicaSets and Deployments; hands on the claimed objects and the patches that
//! adopt orphans and let go of objects whose labels no longer match.

use super::{Action, Target, controller_reference, controller_uid, to_value, uid_of};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::{Metadata, Resource};
use serde_json::json;
use std::collections::BTreeMap;

/// The objects that the owner controls after the patches have been applied.
pub struct Claims<'a, T> {
    pub owned: Vec<&'a T>,
    pub patches: Vec<Action>,
}

/// Sorts out which of `candidates` belong to `owner`.
pub fn claim<'a, O, T>(owner: &O, selector: &LabelSelector, candidates: &'a [T]) -> Claims<'a, T>
where
    O: Resource + Metadata<Ty = ObjectMeta>,
    T: Resource + Metadata<Ty = ObjectMeta>,
{
    let owner_uid = uid_of(owner.metadata());
    let is_ending = owner.metadata().deletion_timestamp.is_some();
    let mut claims = Claims { owned: Vec::new(), patches: Vec::new() };
    for candidate in candidates.iter().filter(|c| c.metadata().namespace == owner.metadata().namespace) {
        let metadata = candidate.metadata();
        let matches = selects(selector, metadata.labels.as_ref());
        match controller_uid(metadata) {
            Some(uid) if uid == owner_uid && matches => claims.owned.push(candidate),
            Some(uid) if uid == owner_uid && !is_ending => claims.patches.push(release(candidate, owner_uid)),
            Some(_) => {}
            None if matches && !is_ending && metadata.deletion_timestamp.is_none() => {
                claims.owned.push(candidate);
                claims.patches.push(adopt(owner, candidate));
            }
            None => {}
        }
    }
    claims
}

fn adopt<O, T>(owner: &O, orphan: &T) -> Action
where
    O: Resource + Metadata<Ty = ObjectMeta>,
    T: Resource + Metadata<Ty = ObjectMeta>,
{
    let metadata = orphan.metadata();
    let mut references = metadata.owner_references.clone().unwrap_or_default();
    references.push(controller_reference(owner));
    let patch = json!({ "metadata": {
        "ownerReferences": to_value(&references),
        "resourceVersion": metadata.resource_version,
    } });
    Action::Patch { target: Target::of(orphan), patch }
}

fn release<T: Resource + Metadata<Ty = ObjectMeta>>(object: &T, owner_uid: &str) -> Action {
    let metadata = object.metadata();
    let mut references = metadata.owner_references.clone().unwrap_or_default();
    references.retain(|reference| reference.uid != owner_uid);
    let patch = json!({ "metadata": {
        "ownerReferences": to_value(&references),
        "resourceVersion": metadata.resource_version,
    } });
    Action::Patch { target: Target::of(object), patch }
}

/// Whether the labels satisfy the selector; an empty selector selects everything.
pub fn selects(selector: &LabelSelector, labels: Option<&BTreeMap<String, String>>) -> bool {
    let value = |key: &str| labels.and_then(|labels| labels.get(key));
    let equal = selector.match_labels.iter().flatten().all(|(key, wanted)| value(key) == Some(wanted));
    let expressions = selector.match_expressions.as_deref().unwrap_or_default();
    equal
        && expressions.iter().all(|expression| {
            let values = expression.values.as_deref().unwrap_or_default();
            let found = value(&expression.key);
            match expression.operator.as_str() {
                "In" => found.is_some_and(|found| values.contains(found)),
                "NotIn" => !found.is_some_and(|found| values.contains(found)),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                // Validation refuses other operators; selecting nothing is the harmless reading.
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn selectors_follow_all_four_operators() {
        let check = |selector: serde_json::Value, expected: bool| {
            let selector: LabelSelector = serde_json::from_value(selector).unwrap();
            assert_eq!(selects(&selector, Some(&labels(&[("a", "1")]))), expected, "{selector:?}");
        };
        check(json!({}), true);
        check(json!({"matchLabels": {"a": "1"}}), true);
        check(json!({"matchLabels": {"a": "2"}}), false);
        check(json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}), true);
        check(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}), false);
        check(json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}), true);
        check(json!({"matchExpressions": [{"key": "b", "operator": "Exists"}]}), false);
        check(json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}), true);
    }
}
