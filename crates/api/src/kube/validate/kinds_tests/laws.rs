//! Laws that hold for every kind and any JSON at all, however strange.

use crate::kube::defaults::{fill, prepare};
use crate::kube::validate::{TABLES, create, reviews, status, update};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// Field names that many rules look at, so that strange objects get past the first step.
const NAMES: &[&str] = &[
    "metadata", "spec", "status", "template", "labels", "selector", "matchLabels", "matchExpressions", "ports", "port",
    "rules", "subsets", "addresses", "strategy", "updateStrategy", "rollingUpdate", "type", "name", "data", "limits",
    "max", "min", "default", "hard", "clusterIP", "clusterIPs", "ipFamilies", "volumeClaimTemplates", "subjects",
    "roleRef", "webhooks", "clientConfig", "metrics", "behavior", "endpoints", "jobTemplate", "schedule", "taints",
    "podFailurePolicy", "onExitCodes", "values", "successPolicy", "devices", "requests", "exactly", "resources",
    "capacity", "storage", "http", "paths", "backend", "ingress", "from", "ipBlock", "except", "cidr", "operator",
];

const TEXTS: &[&str] =
    &["", "a", "10.0.0.1", "25%", "-1", "Indexed", "RollingUpdate", "LoadBalancer", "Container", "é"];

fn strange() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2i64..70_000).prop_map(Value::from),
        prop::sample::select(TEXTS).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 5, |inner| {
        let map = prop::collection::btree_map(prop::sample::select(NAMES), inner.clone(), 0..6);
        prop_oneof![
            3 => map.prop_map(|map| Value::Object(map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())),
            1 => prop::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn filling_in_again_changes_nothing(object in strange()) {
        for rule in TABLES.iter().flat_map(|table| table.iter()) {
            let mut once = object.clone();
            fill(rule.group, rule.kind, &mut once);
            let mut twice = once.clone();
            fill(rule.group, rule.kind, &mut twice);
            prop_assert_eq!(&once, &twice, "{}", rule.kind);
        }
    }

    #[test]
    fn no_object_is_too_strange_to_check(new in strange(), old in strange()) {
        for rule in TABLES.iter().flat_map(|table| table.iter()) {
            let (mut new, mut old) = (new.clone(), old.clone());
            fill(rule.group, rule.kind, &mut new);
            prepare::prepare_create(rule.group, rule.kind, &mut old);
            prepare::prepare_update(rule.group, rule.kind, &mut new, &old);
            create(rule.group, rule.kind, &new);
            update(rule.group, rule.kind, &new, &old);
            status::check_status(rule.group, rule.kind, &new);
        }
        for kind in ["TokenRequest", "SubjectAccessReview", "LocalSubjectAccessReview", "Scale"] {
            reviews::check_review(kind, &new);
        }
    }

    #[test]
    fn an_unchanged_object_breaks_no_update_rule(object in strange()) {
        for rule in TABLES.iter().flat_map(|table| table.iter()) {
            let mut object = object.clone();
            fill(rule.group, rule.kind, &mut object);
            let errors = update(rule.group, rule.kind, &object, &object);
            let fixed = errors.iter().find(|error| error.text.ends_with("field is immutable"));
            prop_assert!(fixed.is_none(), "{}: {:?}", rule.kind, fixed);
        }
    }
}

#[test]
fn an_empty_object_can_be_checked_as_any_kind() {
    for rule in TABLES.iter().flat_map(|table| table.iter()) {
        create(rule.group, rule.kind, &Value::Object(Map::new()));
    }
}
