//! The objects that a cluster has from its first moment (spec K 21), as JSON without uid and resourceVersion.
//!
//! The API server creates what is missing of `objects` at start-up and `in_namespace` with every new namespace.
//! It makes the `kubernetes` Service and the node by itself: only it knows their addresses. Roles are in `roles`,
//! the definitions of training kinds in `training`.

mod roles;
pub mod training;

use crate::access;
use jiff::Timestamp;
use serde_json::{Value, json};
use volley_api::kube::time;

const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// Provisioner of the default class: directories on the node.
pub const PROVISIONER: &str = "volley.dev/host-path";

/// Everything that must exist when the server opens, in an order in which each can be created.
pub fn objects(now: Timestamp, ca_pem: &str) -> Vec<Value> {
    let mut objects: Vec<Value> = NAMESPACES.iter().map(|name| namespace(name)).collect();
    objects.extend(NAMESPACES.iter().flat_map(|name| in_namespace(name, ca_pem)));
    objects.extend(priority_classes());
    objects.push(storage_class());
    objects.extend(cluster_roles());
    objects.extend(roles::bindings());
    for object in &mut objects {
        object["metadata"]["creationTimestamp"] = time::seconds(now).into();
    }
    objects
}

/// What every namespace gets: an identity for its pods, and the certificate by which they know the API server.
pub fn in_namespace(namespace: &str, ca_pem: &str) -> Vec<Value> {
    const DESCRIPTION: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
        endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
        distributions of Kubernetes clusters.";
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}}),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": "kube-root-ca.crt", "namespace": namespace,
                "annotations": {"kubernetes.io/description": DESCRIPTION},
            },
            "data": {"ca.crt": ca_pem},
        }),
    ]
}

fn namespace(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    })
}

fn priority_classes() -> [Value; 2] {
    let classes = [
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    ];
    classes.map(|(name, value, description)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        })
    })
}

/// Claims bind at once: with one node there is no placement to wait for, and a claim that no pod uses yet should not
/// look stuck.
fn storage_class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    })
}

/// The cluster roles, with the rules of the aggregated ones filled in as a controller would.
fn cluster_roles() -> Vec<Value> {
    let mut roles = roles::roles();
    let united: Vec<Vec<Value>> = roles.iter().map(|role| access::aggregate(role, &roles)).collect();
    for (role, rules) in roles.iter_mut().zip(united) {
        role["rules"] = rules.into();
    }
    roles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{Request, Rules, User};
    use std::collections::BTreeSet;
    use volley_api::kube::text;

    fn all() -> Vec<Value> {
        objects("2025-06-01T12:00:00Z".parse().unwrap(), "PEM")
    }

    fn names(kind: &str) -> Vec<String> {
        let of_kind = all().into_iter().filter(|object| text(object, "kind") == kind);
        of_kind.map(|object| text(&object, "metadata.name").to_owned()).collect()
    }

    #[test]
    fn a_cluster_starts_with_these_objects() {
        assert_eq!(names("Namespace"), NAMESPACES);
        assert_eq!(names("PriorityClass"), ["system-node-critical", "system-cluster-critical"]);
        assert_eq!(names("StorageClass"), ["standard"]);
        assert_eq!(names("ServiceAccount"), ["default"; 4]);
        let roles = names("ClusterRole");
        for name in [
            "cluster-admin", "admin", "edit", "view", "system:basic-user", "system:discovery",
            "system:public-info-viewer",
        ] {
            assert!(roles.iter().any(|role| role == name), "{name}");
        }
    }

    #[test]
    fn every_object_is_named_once_and_every_binding_finds_its_role() {
        let key = |o: &Value| ["kind", "metadata.namespace", "metadata.name"].map(|path| text(o, path).to_owned());
        let objects = all();
        assert_eq!(objects.iter().map(key).collect::<BTreeSet<_>>().len(), objects.len());
        let roles = names("ClusterRole");
        for binding in objects.iter().filter(|object| text(object, "kind") == "ClusterRoleBinding") {
            assert!(roles.iter().any(|role| role == text(binding, "roleRef.name")), "{binding}");
        }
        assert!(objects.iter().all(|object| text(object, "metadata.creationTimestamp") == "2025-06-01T12:00:00Z"));
    }

    // K-NS-1
    #[test]
    fn each_namespace_gets_an_account_and_the_certificate() {
        let made = in_namespace("ns", "PEM");
        let certificate = &made[1];
        assert!(made.iter().all(|object| text(object, "metadata.namespace") == "ns"));
        assert_eq!(text(&made[0], "metadata.name"), "default");
        assert_eq!(certificate["data"]["ca.crt"], "PEM");
        assert_eq!(text(certificate, "metadata.name"), "kube-root-ca.crt");
    }

    fn may(subject: &User, binding: Option<&str>, request: Request<'_>) -> bool {
        let mut objects = all();
        if let Some(role) = binding {
            objects.push(json!({
                "kind": "RoleBinding", "metadata": {"name": "b", "namespace": "ns"},
                "roleRef": {"kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": subject.name}],
            }));
        }
        Rules::new(&objects).allowed(subject, &request).is_some()
    }

    fn on<'a>(verb: &'a str, group: &'a str, resource: &'a str) -> Request<'a> {
        Request::Resource { verb, group, resource, subresource: "", namespace: "ns", name: "" }
    }

    // K-AUTH-4, PT-RES-5
    #[test]
    fn view_reads_edit_writes_and_admin_hands_on() {
        let ann = User::authenticated("ann", []);
        let rbac = "rbac.authorization.k8s.io";
        let cases = [
            ("view", on("list", "", "pods"), true),
            ("view", on("create", "", "pods"), false),
            ("view", on("get", "", "secrets"), false),
            ("edit", on("list", "", "pods"), true),
            ("edit", on("create", "batch", "jobs"), true),
            ("edit", on("get", "", "secrets"), true),
            ("edit", on("create", rbac, "roles"), false),
            ("edit", on("create", "", "resourcequotas"), false),
            ("admin", on("create", rbac, "roles"), true),
            ("admin", on("create", "apps", "deployments"), true),
            ("admin", on("delete", "", "namespaces"), false),
            ("cluster-admin", on("anything", "any.group", "things"), true),
            ("view", on("list", "kubeflow.org", "pytorchjobs"), true),
            ("view", on("create", "kubeflow.org", "pytorchjobs"), false),
            ("edit", on("create", "kubeflow.org", "jaxjobs"), true),
            ("edit", on("create", "batch.volcano.sh", "jobs"), true),
            ("edit", on("list", "scheduling.volcano.sh", "queues"), true),
            ("admin", on("create", "scheduling.volcano.sh", "queues"), false),
        ];
        for (role, request, expected) in cases {
            assert_eq!(may(&ann, Some(role), request), expected, "{role} {request:?}");
        }
        assert!(!may(&ann, None, on("list", "", "pods")));
    }

    // K-AUTH-2 K-AUTH-7
    #[test]
    fn everyone_may_look_at_health_and_users_at_discovery() {
        let path = |path: &'static str| Request::Path { verb: "get", path };
        for open in ["/version", "/healthz", "/livez", "/readyz"] {
            assert!(may(&User::anonymous(), None, path(open)), "{open}");
        }
        assert!(!may(&User::anonymous(), None, path("/api")));
        let ann = User::authenticated("ann", []);
        for open in ["/api", "/apis/batch/v1", "/openapi/v3"] {
            assert!(may(&ann, None, path(open)), "{open}");
        }
        assert!(!may(&ann, None, path("/metrics")));
        assert!(may(&ann, None, on("create", "authorization.k8s.io", "selfsubjectaccessreviews")));
    }
}
