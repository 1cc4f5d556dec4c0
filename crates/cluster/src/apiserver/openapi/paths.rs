//! The paths of a resource: which operations it has, with the parameters and marks that clients look for (K-OAPI-3).

use super::schemas::{list_name, schema_name};
use super::{Dialect, Resource};
use serde_json::{Map, Value, json};

/// One operation: the resource's verb, the HTTP method, and the action that clients read.
struct Operation {
    verb: &'static str,
    method: &'static str,
    action: &'static str,
    /// Starts the operation's id (`readCoreV1NamespacedPod`).
    id: &'static str,
}

const ON_COLLECTION: [Operation; 3] = [
    Operation { verb: "list", method: "get", action: "list", id: "list" },
    Operation { verb: "create", method: "post", action: "post", id: "create" },
    Operation { verb: "deletecollection", method: "delete", action: "deletecollection", id: "deleteCollection" },
];

const ON_ITEM: [Operation; 4] = [
    Operation { verb: "get", method: "get", action: "get", id: "read" },
    Operation { verb: "update", method: "put", action: "put", id: "replace" },
    Operation { verb: "patch", method: "patch", action: "patch", id: "patch" },
    Operation { verb: "delete", method: "delete", action: "delete", id: "delete" },
];

/// A subresource: its name, its verbs, and its kind where that is not the parent's.
struct Subresource {
    name: &'static str,
    verbs: &'static [&'static str],
    kind: Option<(&'static str, &'static str, &'static str)>,
}

const STATE: &[&str] = &["get", "patch", "update"];
const SUBRESOURCES: [Subresource; 12] = [
    Subresource { name: "status", verbs: STATE, kind: None },
    Subresource { name: "scale", verbs: STATE, kind: Some(("autoscaling", "v1", "Scale")) },
    Subresource { name: "ephemeralcontainers", verbs: STATE, kind: None },
    Subresource { name: "resize", verbs: STATE, kind: None },
    Subresource { name: "finalize", verbs: &["update"], kind: None },
    Subresource { name: "log", verbs: &["get"], kind: None },
    Subresource { name: "eviction", verbs: &["create"], kind: Some(("policy", "v1", "Eviction")) },
    Subresource { name: "binding", verbs: &["create"], kind: Some(("", "v1", "Binding")) },
    Subresource { name: "token", verbs: &["create"], kind: Some(("authentication.k8s.io", "v1", "TokenRequest")) },
    Subresource { name: "exec", verbs: &["connect"], kind: Some(("", "v1", "PodExecOptions")) },
    Subresource { name: "attach", verbs: &["connect"], kind: Some(("", "v1", "PodAttachOptions")) },
    Subresource { name: "portforward", verbs: &["connect"], kind: Some(("", "v1", "PodPortForwardOptions")) },
];

/// The kind that a subresource is read and written as, for those that are not the parent's own.
pub fn subresource_kind(name: &str) -> Option<(&'static str, &'static str, &'static str)> {
    let found = SUBRESOURCES.iter().find(|s| s.name == name)?;
    found.kind.filter(|_| !found.verbs.contains(&"connect"))
}

/// Adds all paths of a resource.
pub fn add(dialect: Dialect, resource: &Resource, all: &mut Map<String, Value>) {
    let root = match resource.group {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let within = if resource.namespaced { "/namespaces/{namespace}" } else { "" };
    let collection = format!("{root}{within}/{}", resource.plural);
    let item = format!("{collection}/{{name}}");
    let namespace: &[&str] = if resource.namespaced { &["namespace"] } else { &[] };
    let mut put = |path: String, parameters: &[&str], operations: Map<String, Value>| {
        if !operations.is_empty() {
            let mut path_item = operations;
            let parameters: Vec<Value> = parameters.iter().map(|p| parameter(dialect, p, "path", "string")).collect();
            path_item.insert("parameters".to_owned(), parameters.into());
            all.insert(path, Value::Object(path_item));
        }
    };
    let target = Target::of(resource);
    put(collection.clone(), namespace, operations(dialect, &ON_COLLECTION, resource.verbs, &target));
    if resource.namespaced && resource.verbs.contains(&"list") {
        let everywhere = Target { scope: "", after: "ForAllNamespaces", ..target.clone() };
        put(
            format!("{root}/{}", resource.plural),
            &[],
            operations(dialect, &ON_COLLECTION[..1], resource.verbs, &everywhere),
        );
    }
    let named = [namespace, &["name"]].concat();
    put(item.clone(), &named, operations(dialect, &ON_ITEM, resource.verbs, &target));
    for name in resource.subresources {
        let Some(subresource) = SUBRESOURCES.iter().find(|s| s.name == *name) else { continue };
        put(format!("{item}/{name}"), &named, subresource.operations(dialect, &target));
    }
}

/// What an operation works on.
#[derive(Clone)]
struct Target<'a> {
    resource: &'a Resource<'a>,
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    scope: &'static str,
    after: &'a str,
}

impl<'a> Target<'a> {
    fn of(resource: &'a Resource<'a>) -> Self {
        Target {
            resource,
            group: resource.group,
            version: resource.version,
            kind: resource.kind,
            scope: if resource.namespaced { "Namespaced" } else { "" },
            after: "",
        }
    }

    /// `readCoreV1NamespacedPodStatus`
    fn operation_id(&self, verb: &str) -> String {
        let group = match self.resource.group {
            "" => "core".to_owned(),
            group => group.trim_end_matches(".k8s.io").replace(['.', '-'], "_"),
        };
        let words = [&group, self.resource.version, self.scope, self.resource.kind, self.after];
        words.iter().fold(verb.to_owned(), |id, word| {
            let mut letters = word.chars();
            let first = letters.next().map(|c| c.to_ascii_uppercase());
            id + &first.into_iter().chain(letters).collect::<String>()
        })
    }

    fn schema(&self) -> String {
        schema_name(self.group, self.version, self.kind)
    }
}

impl Subresource {
    fn operations(&self, dialect: Dialect, parent: &Target) -> Map<String, Value> {
        let mut after = self.name.to_owned();
        after[..1].make_ascii_uppercase();
        let (group, version, kind) = self.kind.unwrap_or((parent.group, parent.version, parent.kind));
        let target = Target { group, version, kind, after: &after, ..parent.clone() };
        match self.verbs {
            ["connect"] => {
                ["get", "post"].map(|method| (method.to_owned(), connect(&target, method))).into_iter().collect()
            }
            ["create"] => operations(dialect, &ON_COLLECTION, self.verbs, &target),
            _ if self.name == "log" => [("get".to_owned(), connect(&target, "get"))].into_iter().collect(),
            _ => operations(dialect, &ON_ITEM, self.verbs, &target),
        }
    }
}

/// An operation whose body is not an object.
fn connect(target: &Target, method: &str) -> Value {
    let is_log = target.after == "Log";
    json!({
        "operationId": target.operation_id(if is_log { "read" } else { "connect" }) + if is_log { "" } else { method },
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": if is_log { "get" } else { "connect" },
        "x-kubernetes-group-version-kind": {"group": target.group, "kind": target.kind, "version": target.version},
    })
}

fn operations(dialect: Dialect, table: &[Operation], verbs: &[&str], target: &Target) -> Map<String, Value> {
    let mut all = Map::new();
    for operation in table.iter().filter(|operation| verbs.contains(&operation.verb)) {
        all.insert(operation.method.to_owned(), operation.value(dialect, target));
    }
    all
}

const WRITE: &[(&str, &str)] =
    &[("pretty", "string"), ("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
const DELETE: &[(&str, &str)] = &[
    ("pretty", "string"),
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const SELECT: &[(&str, &str)] = &[
    ("pretty", "string"),
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
/// The last one is for built-in kinds only (spec K-PATCH-3): kubectl reads here which patches a kind takes.
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

impl Operation {
    fn value(&self, dialect: Dialect, target: &Target) -> Value {
        let schema = target.schema();
        let (query, body, answer): (&[(&str, &str)], Option<&str>, &str) = match self.action {
            "list" => (SELECT, None, &list_name(target.group, target.version, target.kind)),
            "post" | "put" => (WRITE, Some(&schema), &schema),
            "patch" => (WRITE, Some(PATCH), &schema),
            "delete" => (DELETE, Some(DELETE_OPTIONS), STATUS),
            "deletecollection" => (SELECT, Some(DELETE_OPTIONS), STATUS),
            _ => (&WRITE[..1], None, &schema),
        };
        let mut parameters: Vec<Value> =
            query.iter().map(|(name, kind)| parameter(dialect, name, "query", kind)).collect();
        if self.action == "patch" {
            parameters.push(parameter(dialect, "force", "query", "boolean"));
        }
        let mut operation = json!({
            "operationId": target.operation_id(self.id),
            "responses": {"200": answer_of(dialect, answer)},
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": {"group": target.group, "kind": target.kind, "version": target.version},
        });
        if let Some(body) = body {
            let types: &[&str] = match (self.action, target.resource.schema) {
                ("patch", None) => &PATCH_TYPES,
                ("patch", Some(_)) => &PATCH_TYPES[..3],
                _ => &["*/*"],
            };
            put_body(dialect, &mut operation, &mut parameters, types, body);
        }
        operation["parameters"] = parameters.into();
        operation
    }
}

fn parameter(dialect: Dialect, name: &str, place: &str, kind: &str) -> Value {
    let mut parameter = json!({"name": name, "in": place});
    if place == "path" {
        parameter["required"] = true.into();
    }
    match dialect {
        Dialect::V2 => parameter["type"] = kind.into(),
        Dialect::V3 => parameter["schema"] = json!({"type": kind}),
    }
    parameter
}

fn answer_of(dialect: Dialect, schema: &str) -> Value {
    let schema = dialect.reference(schema);
    match dialect {
        Dialect::V2 => json!({"description": "OK", "schema": schema}),
        Dialect::V3 => json!({"description": "OK", "content": {"application/json": {"schema": schema}}}),
    }
}

fn put_body(dialect: Dialect, operation: &mut Value, parameters: &mut Vec<Value>, types: &[&str], schema: &str) {
    let schema = dialect.reference(schema);
    match dialect {
        Dialect::V2 => {
            operation["consumes"] = types.into();
            parameters.push(json!({"name": "body", "in": "body", "schema": schema}));
        }
        Dialect::V3 => {
            let content: Map<String, Value> =
                types.iter().map(|kind| ((*kind).to_owned(), json!({"schema": schema}))).collect();
            operation["requestBody"] = json!({"content": content});
        }
    }
}
