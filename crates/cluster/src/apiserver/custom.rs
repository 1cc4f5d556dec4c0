//! Custom kinds: CRDs compiled into rows of the catalogue, and kept so as CRDs change (spec K 13).

use super::ApiServer;
use super::catalogue::{ALL_VERBS, Catalogue, Resource, Role, Traits, api_version, bucket_name, prefix, rank};
use super::object;
use crate::store::{Bucket, Change, Expect, Write};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::{Arc, OnceLock};
use volley_api::kube::field::FieldError;
use volley_api::kube::schema::{StructRef, builtin, json};
use volley_api::kube::status::ApiError;
use volley_api::kube::{decode, text};
use volley_plan::custom::definition::{self, TakenNames};
use volley_plan::custom::path::{self, Column, SelectableField};
use volley_plan::custom::scale;
use volley_plan::custom::schema::Schema;

const CRD_GROUP: &str = "apiextensions.k8s.io";
const CRD_PLURAL: &str = "customresourcedefinitions";

/// The CRD's own warning for a deprecated version, or one that names the newest version to use instead.
fn deprecation(crd: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(text) = version["deprecationWarning"].as_str() {
        return Some(text.to_owned());
    }
    let (group, kind, name) = (text(crd, "spec.group"), text(crd, "spec.names.kind"), text(version, "name"));
    let newer = crd["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|other| other["served"] == true && other["deprecated"] != true)
        .map(|other| text(other, "name"))
        .filter(|other| rank(other) > rank(name));
    let warning = format!("{group}/{name} {kind} is deprecated");
    match newer.max_by_key(|other| rank(other)) {
        Some(other) => Some(format!("{warning}; use {group}/{other} {kind}")),
        None => Some(warning),
    }
}

/// One version of a custom kind, compiled.
#[derive(Debug)]
pub struct CustomKind {
    /// Compiled when it is first needed: most kinds of a cluster are never used between two starts.
    schema: OnceLock<Schema>,
    /// The JSON schema as written, for OpenAPI.
    pub source: Value,
    pub columns: Vec<Column>,
    pub has_status: bool,
    pub scale: Option<scale::Paths>,
    pub selectable_fields: Vec<SelectableField>,
    /// Whether the CRD is being deleted, so that no new instances may come (spec K-CRD-3).
    pub is_terminating: bool,
    /// What clients of this version are told, if it is deprecated.
    pub deprecation: Option<String>,
    /// The CRD that it was compiled from: recompiled only when this changes.
    uid: String,
    generation: i64,
    /// Its revision; what is stored later has all defaults.
    revision: u64,
}

impl CustomKind {
    fn new(crd: &Value, version: &Value) -> CustomKind {
        CustomKind {
            schema: OnceLock::new(),
            columns: path::columns(version),
            has_status: version["subresources"].get("status").is_some(),
            scale: scale::Paths::of(version),
            selectable_fields: path::selectable_fields(version),
            source: version["schema"]["openAPIV3Schema"].clone(),
            deprecation: deprecation(crd, version),
            is_terminating: crd["metadata"].get("deletionTimestamp").is_some(),
            uid: text(crd, "metadata.uid").to_owned(),
            generation: crd["metadata"]["generation"].as_i64().unwrap_or(0),
            revision: text(crd, "metadata.resourceVersion").parse().unwrap_or(u64::MAX),
        }
    }

    /// What the definition says of its objects. It was checked when it was written; should we have become stricter since,
    /// its objects are served as they are.
    pub fn schema(&self) -> &Schema {
        self.schema.get_or_init(|| {
            Schema::compile(&self.source).unwrap_or_else(|errors| {
                tracing::warn!(crd = self.uid, ?errors, "schema not usable");
                Schema::open()
            })
        })
    }

    /// Whether reading the object adds nothing to what is stored, because its writer knew this schema.
    pub fn is_complete(&self, stored: &object::Stored) -> bool {
        stored.revision > self.revision
    }

    /// Values of the selectable fields, in their order.
    pub fn selectable(&self, object: &Value) -> Box<[Box<str>]> {
        self.selectable_fields.iter().map(|field| field.value(object).into()).collect()
    }

    /// Drops unknown fields and brings metadata into shape; what was dropped is returned.
    pub fn conform(&self, object: &mut Value) -> Result<Vec<String>, ApiError> {
        let pruned = self.schema().prune(object).into_iter();
        let mut found: Vec<String> = pruned.map(|path| format!("unknown field \"{path}\"")).collect();
        let Some(meta_shape) = builtin::named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta") else {
            return Ok(found);
        };
        let (kind, version) = (text(object, "kind").to_owned(), text(object, "apiVersion").to_owned());
        if let Some(metadata) = object.get_mut("metadata") {
            let unknown = decode::conform(&meta_shape, "ObjectMeta", "v1", metadata).map_err(|text| {
                ApiError::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {text}"))
            })?;
            found.extend(unknown.into_iter().map(|text| text.replacen("field \"", "field \"metadata.", 1)));
        }
        Ok(found)
    }

    /// Everything that the schema and its rules have against an object.
    pub fn check(&self, new: &Value, old: Option<&Value>, subresource: &str) -> Vec<FieldError> {
        let mut errors = match (old, subresource) {
            (Some(old), "status") => self.schema().check_status(new, old),
            (old, _) => self.schema().check(new, old),
        };
        errors.extend(self.scale.iter().flat_map(|paths| scale::check(new, paths)));
        errors
    }
}

/// The rows of one CRD: one for each served version, all in one bucket.
fn rows(crd: &Value, known: &Catalogue, bucket: &Bucket) -> Vec<Arc<Resource>> {
    let (group, plural) = (text(crd, "spec.group"), text(crd, "spec.names.plural"));
    let names = &crd["status"]["acceptedNames"];
    let list = |key: &str| -> Vec<Box<str>> {
        names[key].as_array().into_iter().flatten().filter_map(Value::as_str).map(Into::into).collect()
    };
    let mut rows = Vec::new();
    for version in crd["spec"]["versions"].as_array().into_iter().flatten().filter(|v| v["served"] == true) {
        let name = text(version, "name");
        if let Some(same) = known.get(group, name, plural).filter(|row| is_same(row, crd)) {
            rows.push(same.clone());
            continue;
        }
        let custom = CustomKind::new(crd, version);
        let kind = text(names, "kind");
        let openapi_name = format!("{}.{name}.{kind}", group.split('.').rev().collect::<Vec<_>>().join("."));
        let shape: StructRef = json::root(&custom.source, &openapi_name);
        let mut subresources = Vec::new();
        if custom.scale.is_some() {
            subresources.push("scale");
        }
        if custom.has_status {
            subresources.push("status");
        }
        rows.push(Arc::new(Resource {
            group: group.into(),
            version: name.into(),
            kind: kind.into(),
            plural: plural.into(),
            singular: text(names, "singular").into(),
            list_kind: text(names, "listKind").into(),
            short_names: list("shortNames"),
            categories: list("categories"),
            namespaced: text(crd, "spec.scope") == "Namespaced",
            verbs: ALL_VERBS,
            subresources,
            role: Role::Runs,
            traits: Traits { generation: true, strict_put: true, ..Traits::default() },
            shape,
            custom: Some(Arc::new(custom)),
            bucket: bucket.clone(),
            prefix: prefix(kind, &api_version(group, name)),
        }));
    }
    rows
}

fn is_established(crd: &Value) -> bool {
    let conditions = crd["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|c| c["type"] == "Established" && c["status"] == "True")
}

fn is_same(row: &Resource, crd: &Value) -> bool {
    row.custom.as_ref().is_some_and(|custom| {
        custom.uid == text(crd, "metadata.uid")
            && custom.generation == crd["metadata"]["generation"].as_i64().unwrap_or(0)
            && custom.is_terminating == crd["metadata"].get("deletionTimestamp").is_some()
    })
}

impl ApiServer {
    /// Brings the catalogue in line with the stored CRDs; called after every commit to their bucket, so that a kind is
    /// served by the time its CRD's answer goes out (spec K-CRD-1, K-DISC-4).
    pub async fn refresh_customs(&self) {
        let _one_at_a_time = self.customs_lock.lock().await;
        let bucket = self.store.bucket(&bucket_name(CRD_GROUP, CRD_PLURAL));
        let mut customs = Vec::new();
        let stored_crds = self.store.list(&bucket, "").entries;
        let mut taken = TakenNames::default();
        let crds: Vec<Value> = stored_crds.iter().map(|stored| object::parse(stored)).collect();
        crds.iter().for_each(|crd| taken.add(crd));
        for (stored, mut crd) in stored_crds.iter().zip(crds) {
            let status = definition::status(&crd, &taken, Timestamp::now());
            if crd["status"] != status {
                crd["status"] = status;
                self.write_crd_status(&bucket, stored, &crd).await;
            }
            taken.add(&crd);
            if is_established(&crd) {
                let name = bucket_name(text(&crd, "spec.group"), text(&crd, "spec.names.plural"));
                customs.extend(rows(&crd, &self.catalogue(), &self.store.bucket(&name)));
            }
        }
        let catalogue = Catalogue::new(|name| self.store.bucket(name), &customs);
        *self.catalogue.write() = Arc::new(catalogue);
    }

    async fn write_crd_status(&self, bucket: &Bucket, stored: &object::Stored, crd: &Value) {
        let Some(resource) = self.catalogue().get(CRD_GROUP, "v1", CRD_PLURAL).cloned() else { return };
        let change = Change::Put(object::draft(&resource, crd));
        let expect = Expect::Revision(stored.revision);
        let write = Write { bucket: bucket.clone(), key: stored.key.clone(), expect, change };
        // A conflict means that another writer changed the CRD, and its own refresh follows.
        if let Err(error) = self.store.commit(vec![write]).await {
            tracing::debug!(%error, "status of a CRD not written");
        }
    }
}
