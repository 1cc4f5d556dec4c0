//! The schemas of kinds and of whatever they reach (K-OAPI-4).
//!
//! `k8s-openapi` writes the schemas of built-in types with their sentences; the table adds what it leaves out: list
//! types, patch keys, atomic maps, kinds. Custom kinds bring their own schema and gain the fields every object has.

use super::{Dialect, Resource, enums, paths};
use k8s_openapi::api;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};
use volley_api::kube::schema::{Field, ListPatch, ListType, Shape, StructRef, builtin, structural};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";

/// A built-in kind and the code that writes its schema.
struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    write: fn(&mut SchemaGenerator) -> Schema,
}

const fn kind<T: k8s_openapi::Resource + JsonSchema>() -> Kind {
    Kind { group: T::GROUP, version: T::VERSION, kind: T::KIND, write: SchemaGenerator::subschema_for::<T> }
}

static KINDS: &[Kind] = &[
    kind::<api::core::v1::Binding>(),
    kind::<api::core::v1::ComponentStatus>(),
    kind::<api::core::v1::ConfigMap>(),
    kind::<api::core::v1::Endpoints>(),
    kind::<api::core::v1::Event>(),
    kind::<api::core::v1::LimitRange>(),
    kind::<api::core::v1::Namespace>(),
    kind::<api::core::v1::Node>(),
    kind::<api::core::v1::PersistentVolume>(),
    kind::<api::core::v1::PersistentVolumeClaim>(),
    kind::<api::core::v1::Pod>(),
    kind::<api::core::v1::PodTemplate>(),
    kind::<api::core::v1::ReplicationController>(),
    kind::<api::core::v1::ResourceQuota>(),
    kind::<api::core::v1::Secret>(),
    kind::<api::core::v1::Service>(),
    kind::<api::core::v1::ServiceAccount>(),
    kind::<api::apps::v1::ControllerRevision>(),
    kind::<api::apps::v1::DaemonSet>(),
    kind::<api::apps::v1::Deployment>(),
    kind::<api::apps::v1::ReplicaSet>(),
    kind::<api::apps::v1::StatefulSet>(),
    kind::<api::batch::v1::CronJob>(),
    kind::<api::batch::v1::Job>(),
    kind::<api::autoscaling::v1::HorizontalPodAutoscaler>(),
    kind::<api::autoscaling::v1::Scale>(),
    kind::<api::autoscaling::v2::HorizontalPodAutoscaler>(),
    kind::<api::admissionregistration::v1::MutatingWebhookConfiguration>(),
    kind::<api::admissionregistration::v1::ValidatingWebhookConfiguration>(),
    kind::<api::authentication::v1::SelfSubjectReview>(),
    kind::<api::authentication::v1::TokenRequest>(),
    kind::<api::authentication::v1::TokenReview>(),
    kind::<api::authorization::v1::LocalSubjectAccessReview>(),
    kind::<api::authorization::v1::SelfSubjectAccessReview>(),
    kind::<api::authorization::v1::SelfSubjectRulesReview>(),
    kind::<api::authorization::v1::SubjectAccessReview>(),
    kind::<api::coordination::v1::Lease>(),
    kind::<api::discovery::v1::EndpointSlice>(),
    kind::<api::events::v1::Event>(),
    kind::<api::networking::v1::Ingress>(),
    kind::<api::networking::v1::IngressClass>(),
    kind::<api::networking::v1::NetworkPolicy>(),
    kind::<api::node::v1::RuntimeClass>(),
    kind::<api::policy::v1::Eviction>(),
    kind::<api::policy::v1::PodDisruptionBudget>(),
    kind::<api::rbac::v1::ClusterRole>(),
    kind::<api::rbac::v1::ClusterRoleBinding>(),
    kind::<api::rbac::v1::Role>(),
    kind::<api::rbac::v1::RoleBinding>(),
    kind::<api::resource::v1::DeviceClass>(),
    kind::<api::resource::v1::ResourceClaim>(),
    kind::<api::resource::v1::ResourceClaimTemplate>(),
    kind::<api::resource::v1::ResourceSlice>(),
    kind::<api::scheduling::v1::PriorityClass>(),
    kind::<api::storage::v1::CSIDriver>(),
    kind::<api::storage::v1::CSINode>(),
    kind::<api::storage::v1::CSIStorageCapacity>(),
    kind::<api::storage::v1::StorageClass>(),
    kind::<api::storage::v1::VolumeAttachment>(),
    kind::<apiextensions::v1::CustomResourceDefinition>(),
];

/// `io.k8s.api.core.v1.Pod`, or the reversed group of a custom kind: `com.example.t.v1.Gad`.
pub fn schema_name(group: &str, version: &str, kind: &str) -> String {
    if let Some(shape) = builtin::of(group, version, kind) {
        return shape.get().name.to_string();
    }
    let reversed: Vec<&str> = group.rsplit('.').filter(|part| !part.is_empty()).collect();
    format!("{}.{version}.{kind}", reversed.join("."))
}

pub fn list_name(group: &str, version: &str, kind: &str) -> String {
    schema_name(group, version, kind) + "List"
}

/// Every schema that these resources need.
pub fn of(dialect: Dialect, resources: &[Resource]) -> Map<String, Value> {
    let mut schemas = builtin_schemas(dialect, resources);
    let every_object = schemas.get(STATUS).map(|status| status["properties"].clone()).unwrap_or_default();
    for resource in resources {
        if builtin::of(resource.group, resource.version, resource.kind).is_none() {
            let name = schema_name(resource.group, resource.version, resource.kind);
            schemas.insert(name, custom(dialect, resource, &every_object));
        }
        if resource.verbs.contains(&"list") {
            let name = list_name(resource.group, resource.version, resource.kind);
            schemas.insert(name, list(dialect, resource, &every_object));
        }
    }
    schemas.insert(PATCH.to_owned(), json!({"type": "object"}));
    schemas
}

fn builtin_schemas(dialect: Dialect, resources: &[Resource]) -> Map<String, Value> {
    let settings = SchemaSettings::default().with(|settings| {
        settings.definitions_path = dialect.schemas_at().into();
        settings.meta_schema = None;
    });
    let mut generator = SchemaGenerator::new(settings);
    generator.subschema_for::<meta::DeleteOptions>();
    generator.subschema_for::<meta::ListMeta>();
    generator.subschema_for::<meta::ObjectMeta>();
    generator.subschema_for::<meta::Status>();
    for resource in resources {
        let own = (resource.group, resource.version, resource.kind);
        let others = resource.subresources.iter().filter_map(|name| paths::subresource_kind(name));
        for (group, version, kind) in std::iter::once(own).chain(others) {
            let found = KINDS.iter().find(|k| k.group == group && k.version == version && k.kind == kind);
            if let Some(found) = found {
                (found.write)(&mut generator);
            }
        }
    }
    let mut schemas = generator.take_definitions(false);
    for resource in resources {
        let name = schema_name(resource.group, resource.version, resource.kind);
        // `k8s-openapi` has no types of an API that its version of Kubernetes serves no more. The others are not asked for:
        // some hold themselves, and a structural schema would have no end.
        if !schemas.contains_key(&name)
            && let Some(found) = structural::named(&name)
        {
            schemas.insert(name, found);
        }
    }
    for (name, schema) in &mut schemas {
        complete(dialect, name, schema);
    }
    schemas
}

/// Adds to a schema of `k8s-openapi` what only the table knows, and spells references as the dialect wants them.
fn complete(dialect: Dialect, name: &str, schema: &mut Value) {
    match (name, dialect) {
        (QUANTITY, _) => spell_either(dialect, schema, "number", None),
        (INT_OR_STRING, _) => spell_either(dialect, schema, "integer", Some("int-or-string")),
        (_, Dialect::V2) => drop_unions(schema),
        (_, Dialect::V3) => {}
    }
    let Some(shape) = builtin::named(name) else { return };
    let built = shape.get();
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        for field in &built.fields {
            if let Some(property) = properties.get_mut(field.name.as_ref()) {
                complete_property(dialect, field, property);
                if let Some(values) = enums::of(name, &field.name).filter(|_| dialect == Dialect::V3) {
                    set_values(property, values);
                }
            }
        }
    }
    let required: Vec<&str> = built.fields.iter().filter(|f| f.required).map(|f| f.name.as_ref()).collect();
    match required.is_empty() {
        true => schema.remove("required"),
        false => schema.insert("required".to_owned(), required.into()),
    };
    if built.atomic {
        schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
    let kind = match &shape {
        StructRef::Builtin(id) => builtin::kind_of(*id),
        StructRef::Custom(_) => None,
    };
    if let Some((group, version, kind)) = kind {
        schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds_of(group, version, kind));
    }
}

fn kinds_of(group: &str, version: &str, kind: &str) -> Value {
    json!([{"group": group, "kind": kind, "version": version}])
}

/// Quantity and IntOrString: two types in version 3, text in version 2, which has no unions.
fn spell_either(dialect: Dialect, schema: &mut Value, other: &str, format: Option<&str>) {
    let description = schema["description"].take();
    *schema = match dialect {
        Dialect::V2 => json!({"type": "string"}),
        Dialect::V3 => json!({"oneOf": [{"type": "string"}, {"type": other}]}),
    };
    if let Some(format) = format {
        schema["format"] = format.into();
    }
    schema["description"] = description;
}

fn drop_unions(schema: &mut Value) {
    if let Some(schema) = schema.as_object_mut() {
        schema.remove("oneOf");
    }
}

fn complete_property(dialect: Dialect, field: &Field, property: &mut Value) {
    let Some(property) = property.as_object_mut() else { return };
    // Version 3 ignores what stands beside a reference, so the sentence would be lost.
    if dialect == Dialect::V3
        && property.len() > 1
        && let Some(reference) = property.remove("$ref")
    {
        property.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    if let Some(default) = &field.key_default {
        property.insert("default".to_owned(), default.clone());
    }
    let mut mark = |name: &str, value: Value| property.insert(format!("x-kubernetes-{name}"), value);
    match &field.shape {
        Shape::List { list, patch, .. } => {
            match list {
                ListType::Atomic => mark("list-type", "atomic".into()),
                ListType::Set => mark("list-type", "set".into()),
                ListType::Map(keys) => {
                    mark("list-map-keys", keys.iter().map(AsRef::<str>::as_ref).collect());
                    mark("list-type", "map".into())
                }
            };
            match patch {
                ListPatch::Replace => None,
                ListPatch::MergeValues => mark("patch-strategy", "merge".into()),
                ListPatch::MergeBy { key, retain_keys } => {
                    mark("patch-merge-key", key.as_ref().into());
                    mark("patch-strategy", if *retain_keys { "merge,retainKeys" } else { "merge" }.into())
                }
            };
        }
        Shape::Map { atomic: true, .. } => {
            mark("map-type", "atomic".into());
        }
        Shape::Struct(inner) if inner.get().retain_keys => {
            mark("patch-strategy", "retainKeys".into());
        }
        Shape::Map { .. } | Shape::Struct(_) | Shape::Scalar(_) | Shape::Any => {}
    }
}

/// The values of a field, or of the items of a list.
fn set_values(property: &mut Value, values: &[&str]) {
    let is_list = property["type"] == "array";
    let place = if is_list { &mut property["items"] } else { property };
    if let Some(place) = place.as_object_mut() {
        place.insert("enum".to_owned(), json!(values));
    }
}

/// A custom kind: its own schema with `apiVersion`, `kind` and `metadata` as every object has them.
fn custom(dialect: Dialect, resource: &Resource, every_object: &Value) -> Value {
    let mut schema = resource
        .schema
        .cloned()
        .unwrap_or_else(|| json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    if dialect == Dialect::V2 {
        // Version 2 has no words for what a structural schema may say; clients read only its first level.
        schema = json!({"type": "object", "description": schema["description"], "properties": {}});
    }
    if schema["properties"].is_null() {
        schema["properties"] = json!({});
    }
    schema["properties"]["apiVersion"] = every_object["apiVersion"].clone();
    schema["properties"]["kind"] = every_object["kind"].clone();
    schema["properties"]["metadata"] = dialect.reference(OBJECT_META);
    schema["x-kubernetes-group-version-kind"] = kinds_of(resource.group, resource.version, resource.kind);
    schema
}

fn list(dialect: Dialect, resource: &Resource, every_object: &Value) -> Value {
    let item = dialect.reference(&schema_name(resource.group, resource.version, resource.kind));
    let list_kind = format!("{}List", resource.kind);
    json!({
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": every_object["apiVersion"],
            "items": {"type": "array", "items": item},
            "kind": every_object["kind"],
            "metadata": dialect.reference(LIST_META),
        },
        "x-kubernetes-group-version-kind": kinds_of(resource.group, resource.version, &list_kind),
    })
}
