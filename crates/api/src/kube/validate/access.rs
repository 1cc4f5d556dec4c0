//! Roles and bindings.

use super::Rule;
use super::compare::same;
use super::metadata::label_selector;
use super::place::Place;
use crate::kube::field::Problem;
use crate::kube::names;
use serde_json::Value;

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) const RULES: &[Rule] = &[
    Rule::of(RBAC, "Role", |role| rules(role, true)),
    Rule::of(RBAC, "ClusterRole", cluster_role).cluster_wide(),
    Rule::of(RBAC, "RoleBinding", |binding| self::binding(binding, true)).on_update(role_stays),
    Rule::of(RBAC, "ClusterRoleBinding", |binding| self::binding(binding, false)).on_update(role_stays).cluster_wide(),
];

fn cluster_role(role: &Place) {
    rules(role, false);
    let Some(aggregation) = role.given("aggregationRule") else { return };
    let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
    aggregation.needs_because("clusterRoleSelectors", detail);
    aggregation.items("clusterRoleSelectors").for_each(|selector| label_selector(&selector));
}

fn rules(role: &Place, is_namespaced: bool) {
    const URLS: &str = "nonResourceURLs";
    for rule in role.items("rules") {
        rule.needs_because("verbs", "verbs must contain at least one value");
        if rule.list(URLS).is_empty() {
            rule.needs_because("apiGroups", "resource rules must supply at least one api group");
            rule.needs_because("resources", "resource rules must supply at least one resource");
            continue;
        }
        rule.wrong_if(is_namespaced, URLS, "namespaced rules cannot apply to non-resource URLs");
        let has_both = ["apiGroups", "resources", "resourceNames"].iter().any(|key| !rule.list(key).is_empty());
        rule.wrong_if(has_both, URLS, "rules cannot apply to both regular resources and non-resource URLs");
    }
}

fn binding(binding: &Place, is_namespaced: bool) {
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let role = binding.field("roleRef");
    role.one_of("apiGroup", &[RBAC]);
    role.one_of("kind", kinds);
    role.needs_name("name", names::path_segment);
    for subject in binding.items("subjects") {
        subject.needs(&["name"]);
        match subject.text("kind") {
            "ServiceAccount" => {
                subject.named_unless_empty("name", names::dns_subdomain);
                subject.one_of("apiGroup", &[""]);
                if !is_namespaced {
                    subject.needs(&["namespace"]);
                }
            }
            "User" | "Group" => subject.one_of("apiGroup", &[RBAC]),
            _ => subject.one_of("kind", &["ServiceAccount", "User", "Group"]),
        }
    }
}

fn role_stays(new: &Place, old: &Value) {
    if same(new.get("roleRef"), &old["roleRef"]) {
        return;
    }
    let part = |key: &str| Value::from(new.field("roleRef").text(key));
    // The reference prints the reference with the field names of its own code.
    let shown = format!(r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#, part("apiGroup"), part("kind"), part("name"));
    new.worded("roleRef", Problem::Invalid, format!("Invalid value: {shown}: cannot change roleRef"));
}
