//! The cluster roles and bindings of every Kubernetes cluster, as a table.
//!
//! `admin`, `edit` and `view` have no rules of their own: they unite the roles that carry their label.

use serde_json::{Map, Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];

const CORE: &[&str] = &[""];
const APPS: &[&str] = &["apps"];
const AUTHENTICATION: &[&str] = &["authentication.k8s.io"];
const AUTHORIZATION: &[&str] = &["authorization.k8s.io"];
const AUTOSCALING: &[&str] = &["autoscaling"];
const BATCH: &[&str] = &["batch"];
const COORDINATION: &[&str] = &["coordination.k8s.io"];
const DISCOVERY: &[&str] = &["discovery.k8s.io"];
const EVENTS: &[&str] = &["", "events.k8s.io"];
const NETWORKING: &[&str] = &["networking.k8s.io"];
const POLICY: &[&str] = &["policy"];
const RBAC: &[&str] = &["rbac.authorization.k8s.io"];
const SCHEDULING: &[&str] = &["scheduling.volcano.sh"];
const TRAINING: &[&str] = &["kubeflow.org", "batch.volcano.sh", "bus.volcano.sh"];
const TRAINING_JOBS: &[&str] =
    &["pytorchjobs", "tfjobs", "mpijobs", "xgboostjobs", "paddlejobs", "jaxjobs", "jobs", "cronjobs", "commands"];
const STORAGE: &[&str] = &["storage.k8s.io"];

enum Row {
    /// Verbs on resources of groups.
    On(&'static [&'static str], &'static [&'static str], &'static [&'static str]),
    /// Verbs on paths.
    Paths(&'static [&'static str], &'static [&'static str]),
}

use Row::{On, Paths};

struct Role {
    name: &'static str,
    /// The role that this one becomes part of, by label.
    part_of: &'static str,
    /// Where the rules come from: this table, or the roles labelled as parts of this one.
    rules: Option<&'static [Row]>,
}

const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];

const fn own(name: &'static str, rules: &'static [Row]) -> Role {
    Role { name, part_of: "", rules: Some(rules) }
}

const ROLES: &[Role] = &[
    own("cluster-admin", &[On(&["*"], &["*"], &["*"]), Paths(&["*"], &["*"])]),
    Role { name: "admin", part_of: "", rules: None },
    Role { name: "edit", part_of: "admin", rules: None },
    Role { name: "view", part_of: "edit", rules: None },
    Role { name: "system:aggregate-to-admin", part_of: "admin", rules: Some(ADMIN) },
    Role { name: "system:aggregate-to-edit", part_of: "edit", rules: Some(EDIT) },
    Role { name: "system:aggregate-to-view", part_of: "view", rules: Some(VIEW) },
    Role { name: "volley:training-admin", part_of: "admin", rules: Some(TRAINING_EDIT) },
    Role { name: "volley:training-edit", part_of: "edit", rules: Some(TRAINING_EDIT) },
    Role { name: "volley:training-view", part_of: "view", rules: Some(TRAINING_VIEW) },
    Role {
        name: "system:aggregated-metrics-reader",
        part_of: "view",
        rules: Some(&[On(READ, &["metrics.k8s.io"], &["pods", "nodes"])]),
    },
    own(
        "system:basic-user",
        &[
            On(CREATE, AUTHORIZATION, &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            On(CREATE, AUTHENTICATION, &["selfsubjectreviews"]),
        ],
    ),
    own(
        "system:discovery",
        &[Paths(
            &["get"],
            &[
                "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
                "/version", "/version/",
            ],
        )],
    ),
    own("system:public-info-viewer", &[Paths(&["get"], PUBLIC_PATHS)]),
    own(
        "system:monitoring",
        &[Paths(
            &["get"],
            &["/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis", "/readyz", "/readyz/*"],
        )],
    ),
    own(
        "system:service-account-issuer-discovery",
        &[Paths(
            &["get"],
            &[
                "/.well-known/openid-configuration",
                "/.well-known/openid-configuration/",
                "/openid/v1/jwks",
                "/openid/v1/jwks/",
            ],
        )],
    ),
    own(
        "system:auth-delegator",
        &[On(CREATE, AUTHENTICATION, &["tokenreviews"]), On(CREATE, AUTHORIZATION, &["subjectaccessreviews"])],
    ),
    own("system:node", NODE),
    own("system:kube-scheduler", SCHEDULER),
    own("system:kube-controller-manager", CONTROLLER_MANAGER),
];

/// What people do with training jobs; queues are an administrator's, and seen by all.
const TRAINING_EDIT: &[Row] = &[
    On(READ_WRITE, TRAINING, TRAINING_JOBS),
    On(&["get"], TRAINING, &["*/status"]),
    On(&["get", "patch", "update"], TRAINING, &["*/scale"]),
    On(READ_WRITE, SCHEDULING, &["podgroups"]),
    On(READ, SCHEDULING, &["queues"]),
];
const TRAINING_VIEW: &[Row] = &[
    On(READ, TRAINING, TRAINING_JOBS),
    On(&["get"], TRAINING, &["*/status"]),
    On(READ, SCHEDULING, &["podgroups", "queues"]),
];

const ADMIN: &[Row] =
    &[On(CREATE, AUTHORIZATION, &["localsubjectaccessreviews"]), On(READ_WRITE, RBAC, &["roles", "rolebindings"])];

const EDIT: &[Row] = &[
    On(READ, CORE, &["pods/attach", "pods/proxy", "pods/exec", "pods/portforward", "secrets", "services/proxy"]),
    On(&["impersonate"], CORE, &["serviceaccounts"]),
    On(WRITE, CORE, &["pods", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward"]),
    On(CREATE, CORE, &["pods/eviction"]),
    On(
        WRITE,
        CORE,
        &[
            "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services", "services/proxy",
            "persistentvolumeclaims", "configmaps", "secrets", "events",
        ],
    ),
    On(CREATE, CORE, &["serviceaccounts/token"]),
    On(
        WRITE,
        APPS,
        &[
            "statefulsets", "statefulsets/scale", "daemonsets", "deployments", "deployments/scale",
            "deployments/rollback", "replicasets", "replicasets/scale",
        ],
    ),
    On(WRITE, AUTOSCALING, &["horizontalpodautoscalers"]),
    On(WRITE, BATCH, &["jobs", "cronjobs"]),
    On(WRITE, POLICY, &["poddisruptionbudgets"]),
    On(WRITE, NETWORKING, &["networkpolicies", "ingresses"]),
    On(READ_WRITE, COORDINATION, &["leases"]),
];

const VIEW: &[Row] = &[
    On(
        READ,
        CORE,
        &[
            "pods", "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services",
            "services/status", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "configmaps",
        ],
    ),
    On(
        READ,
        CORE,
        &[
            "limitranges", "resourcequotas", "bindings", "events", "pods/status", "resourcequotas/status",
            "namespaces/status", "replicationcontrollers/status", "pods/log",
        ],
    ),
    // In a namespace this means that one namespace: it shows users which ones are theirs.
    On(READ, CORE, &["namespaces"]),
    On(READ, DISCOVERY, &["endpointslices"]),
    On(
        READ,
        APPS,
        &[
            "controllerrevisions", "statefulsets", "statefulsets/status", "statefulsets/scale", "daemonsets",
            "daemonsets/status", "deployments", "deployments/status", "deployments/scale", "replicasets",
            "replicasets/status", "replicasets/scale",
        ],
    ),
    On(READ, AUTOSCALING, &["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    On(READ, BATCH, &["jobs", "cronjobs", "cronjobs/status", "jobs/status"]),
    On(READ, POLICY, &["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    On(READ, NETWORKING, &["networkpolicies", "ingresses", "ingresses/status"]),
];

const NODE: &[Row] = &[
    On(CREATE, AUTHENTICATION, &["tokenreviews"]),
    On(CREATE, AUTHORIZATION, &["subjectaccessreviews", "localsubjectaccessreviews"]),
    On(READ, CORE, &["services"]),
    On(&["create", "get", "list", "watch"], CORE, &["nodes"]),
    On(&["patch", "update"], CORE, &["nodes", "nodes/status"]),
    On(&["create", "patch", "update"], EVENTS, &["events"]),
    On(&["create", "delete", "get", "list", "watch"], CORE, &["pods"]),
    On(&["patch", "update"], CORE, &["pods/status"]),
    On(CREATE, CORE, &["pods/eviction", "serviceaccounts/token"]),
    On(READ, CORE, &["configmaps", "secrets", "persistentvolumeclaims", "persistentvolumes"]),
    On(&["create", "delete", "get", "patch", "update"], COORDINATION, &["leases"]),
    On(READ, STORAGE, &["csidrivers", "csinodes", "volumeattachments"]),
    On(READ, &["node.k8s.io"], &["runtimeclasses"]),
];

const SCHEDULER: &[Row] = &[
    On(&["create", "patch", "update"], EVENTS, &["events"]),
    On(&["create", "get", "list", "update", "watch"], COORDINATION, &["leases"]),
    On(READ, CORE, &["nodes", "namespaces", "replicationcontrollers", "services"]),
    On(&["delete", "get", "list", "watch"], CORE, &["pods"]),
    On(CREATE, CORE, &["bindings", "pods/binding"]),
    On(&["patch", "update"], CORE, &["pods/status"]),
    On(READ, APPS, &["replicasets", "statefulsets"]),
    On(READ, POLICY, &["poddisruptionbudgets"]),
    On(&["get", "list", "patch", "update", "watch"], CORE, &["persistentvolumeclaims", "persistentvolumes"]),
    On(READ, STORAGE, &["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"]),
    On(CREATE, AUTHENTICATION, &["tokenreviews"]),
    On(CREATE, AUTHORIZATION, &["subjectaccessreviews"]),
];

const CONTROLLER_MANAGER: &[Row] = &[
    On(&["create", "patch", "update"], EVENTS, &["events"]),
    On(&["create", "get", "list", "update", "watch"], COORDINATION, &["leases"]),
    On(CREATE, CORE, &["secrets", "serviceaccounts", "serviceaccounts/token"]),
    On(&["delete"], CORE, &["secrets"]),
    On(&["get"], CORE, &["namespaces", "secrets", "serviceaccounts", "configmaps"]),
    On(&["update"], CORE, &["secrets", "serviceaccounts"]),
    On(CREATE, AUTHENTICATION, &["tokenreviews"]),
    On(CREATE, AUTHORIZATION, &["subjectaccessreviews"]),
    On(&["list", "watch"], &["*"], &["*"]),
];

/// Binding (named like its role) and the groups or users that get the role.
const BINDINGS: &[(&str, &str, &[&str])] = &[
    ("cluster-admin", "Group", &["system:masters"]),
    ("system:basic-user", "Group", &["system:authenticated"]),
    ("system:discovery", "Group", &["system:authenticated"]),
    ("system:public-info-viewer", "Group", &["system:authenticated", "system:unauthenticated"]),
    ("system:monitoring", "Group", &["system:monitoring"]),
    ("system:service-account-issuer-discovery", "Group", &["system:serviceaccounts"]),
    ("system:kube-scheduler", "User", &["system:kube-scheduler"]),
    ("system:kube-controller-manager", "User", &["system:kube-controller-manager"]),
];

const API_VERSION: &str = "rbac.authorization.k8s.io/v1";
const API_GROUP: &str = "rbac.authorization.k8s.io";

fn aggregation_label(role: &str) -> String {
    format!("rbac.authorization.k8s.io/aggregate-to-{role}")
}

/// Name, the mark of built-in policy, and leave for newer versions to change it.
fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

/// The cluster roles; those that aggregate come without rules.
pub fn roles() -> Vec<Value> {
    ROLES.iter().map(role).collect()
}

fn role(role: &Role) -> Value {
    let mut object = Map::from_iter([
        ("apiVersion".to_owned(), API_VERSION.into()),
        ("kind".to_owned(), "ClusterRole".into()),
        ("metadata".to_owned(), metadata(role.name)),
    ]);
    if !role.part_of.is_empty() {
        object["metadata"]["labels"][aggregation_label(role.part_of)] = "true".into();
    }
    match role.rules {
        Some(rows) => object.insert("rules".to_owned(), rows.iter().map(rule).collect()),
        None => {
            let selector = json!({"matchLabels": {aggregation_label(role.name): "true"}});
            object.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": [selector]}))
        }
    };
    Value::Object(object)
}

fn rule(row: &Row) -> Value {
    match row {
        On(verbs, groups, resources) => {
            let mut resources = resources.to_vec();
            resources.sort_unstable();
            json!({"verbs": verbs, "apiGroups": groups, "resources": resources})
        }
        Paths(verbs, paths) => json!({"verbs": verbs, "nonResourceURLs": paths}),
    }
}

/// The cluster role bindings.
pub fn bindings() -> Vec<Value> {
    let binding = |(name, kind, subjects): &(&str, &str, &[&str])| {
        let subject = |subject: &&str| json!({"apiGroup": API_GROUP, "kind": kind, "name": subject});
        json!({
            "apiVersion": API_VERSION, "kind": "ClusterRoleBinding", "metadata": metadata(name),
            "roleRef": {"apiGroup": API_GROUP, "kind": "ClusterRole", "name": name},
            "subjects": subjects.iter().map(subject).collect::<Value>(),
        })
    };
    BINDINGS.iter().map(binding).collect()
}
