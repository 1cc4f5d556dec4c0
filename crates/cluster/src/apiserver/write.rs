//! Create, update and patch: observe the stored object, work out the new one, check it, commit it, answer.
//!
//! Every way of changing an object is a `Change` that turns the old object into the new one; `modify` runs it against
//! the stored object until the commit meets no other writer (spec K-PATCH-1).

use super::ApiServer;
use super::addresses::Reservation;
use super::call::{Call, WriteOptions, decode_yaml};
use super::catalogue::Resource;
use super::object::{self, Meta, Spelling, Stored};
use super::patch_words;
use super::strategy;
use crate::store::{Change as StoreChange, CommitError, Expect, Write};
use bytes::Bytes;
use serde_json::Value;
use std::sync::Arc;
use volley_api::kube::field::FieldError;
use volley_api::kube::status::ApiError;
use volley_api::kube::{decode, defaults, text, validate};
use volley_plan::custom::definition;
use volley_plan::custom::instance::{self, Expected};
use volley_plan::object::managed::{self, Manager, Tracked};
use volley_plan::object::{apply, merge, strategic};

/// How often a change is worked out again because another writer was faster (spec K-PATCH-1).
const RACES_MAX: usize = 16;
/// How often a new object is charged again because others of its namespace were charged first; each round somebody wins,
/// so this is as many writers of one namespace with a quota as may start at the same moment.
const CHARGES_MAX: usize = 256;
/// How many generated names may be taken before the client is told (spec K-OBJ-2).
const NAMES_MAX: usize = 8;

/// What a write left behind.
pub struct Written {
    content: Content,
    pub created: bool,
}

enum Content {
    Stored(Arc<Stored>),
    /// Not stored: the outcome of a dry run, or of a write that changed nothing.
    Object(Value),
}

impl Written {
    /// The object in the version that was asked for, with its resourceVersion (none after a dry-run create).
    pub fn into_object(self, resource: &Resource) -> Value {
        match self.content {
            Content::Stored(stored) => Spelling::new(resource).parse(&stored),
            Content::Object(object) => object,
        }
    }

    /// The name of the object, which the server may have made up.
    pub fn name(&self) -> String {
        match &self.content {
            Content::Stored(stored) => stored.key.rsplit('/').next().unwrap_or_default().to_owned(),
            Content::Object(object) => text(object, "metadata.name").to_owned(),
        }
    }

    /// The stored bytes, when they are what a client of this resource is to see.
    pub fn bytes(&self, resource: &Resource) -> Option<Bytes> {
        match &self.content {
            Content::Stored(stored) if Spelling::new(resource).is_stored_form(&stored.value) => {
                Some(stored.value.clone())
            }
            Content::Stored(_) | Content::Object(_) => None,
        }
    }
}

/// A way of changing an object.
pub enum Change {
    /// PUT: the object as sent.
    Replace(Value),
    JsonPatch(Value),
    MergePatch(Value),
    StrategicPatch(Value),
    /// Server-side apply of a configuration.
    Apply {
        config: Value,
        force: bool,
    },
    /// A change made by the server itself, such as a scale or a binding.
    Edit(Arc<dyn Fn(&mut Value) -> Result<(), ApiError> + Send + Sync>),
}

impl ApiServer {
    /// POST: a new object, or the reasons why not.
    pub async fn create(&self, call: &mut Call) -> Result<Written, ApiError> {
        let options = call.write_options("CreateOptions")?;
        let object = call.object(&options)?;
        self.create_object(call, object, &options, None).await
    }

    /// A new object from a decoded body; `apply` is given when server-side apply creates.
    pub async fn create_object(
        &self,
        call: &mut Call,
        mut object: Value,
        options: &WriteOptions,
        apply: Option<bool>,
    ) -> Result<Written, ApiError> {
        if !text(&object, "metadata.resourceVersion").is_empty() && !options.dry_run {
            return Err(ApiError::bare("resourceVersion should not be set on objects to be created"));
        }
        self.check_place(call, &mut object)?;
        let generate = text(&object, "metadata.generateName").to_owned();
        let generated = text(&object, "metadata.name").is_empty() && !generate.is_empty();
        for _ in 0..NAMES_MAX {
            // Only a generated name may need another try, and with it the object as it was sent.
            let mut candidate = if generated { object.clone() } else { std::mem::take(&mut object) };
            if generated {
                let name = call.generated_name(&generate);
                strategy::metadata(&mut candidate).insert("name".into(), name.into());
            }
            match self.create_named(call, candidate, options, apply).await {
                Err(error) if generated && error.reason == "AlreadyExists" => continue,
                other => return other,
            }
        }
        let mut error = ApiError::already_exists(&call.resource.group, &call.resource.plural, &generate);
        error.details["retryAfterSeconds"] = 1.into();
        Err(error)
    }

    /// The namespace and name of a body against those of the URL (spec K-OBJ-5, K-WR-4).
    fn check_place(&self, call: &Call, object: &mut Value) -> Result<(), ApiError> {
        let sent = text(object, "metadata.namespace").to_owned();
        let wanted = &call.path.namespace;
        if call.resource.namespaced {
            if !sent.is_empty() && sent != *wanted {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            strategy::metadata(object).insert("namespace".into(), wanted.as_str().into());
        } else {
            strategy::metadata(object).remove("namespace");
        }
        let name = text(object, "metadata.name");
        if !call.path.name.is_empty() {
            if !name.is_empty() && name != call.path.name {
                return Err(ApiError::bad_request(format!(
                    "the name of the object ({name}) does not match the name on the URL ({})",
                    call.path.name
                )));
            }
            let name = call.path.name.clone();
            strategy::metadata(object).insert("name".into(), name.into());
        }
        Ok(())
    }

    async fn create_named(
        &self,
        call: &mut Call,
        mut object: Value,
        options: &WriteOptions,
        apply: Option<bool>,
    ) -> Result<Written, ApiError> {
        let resource = call.resource.clone();
        let uid = uuid::Uuid::new_v4().to_string();
        let config = apply.map(|force| (object.clone(), force));
        strategy::begin(&resource, &mut object, &uid, call.now);
        let api_version = resource.api_version();
        if let Some((config, force)) = &config {
            let manager = manager(call, options, &api_version);
            object = apply::apply(&resource.shape, None, config, &manager, *force)?;
            call.conform(&mut object)?;
            strategy::begin(&resource, &mut object, &uid, call.now);
        }
        self.fill(call, &mut object);
        // Defaults count as the writer's; what the server and admission add below belongs to nobody (spec K-SSA-7).
        if config.is_none() {
            managed::updated(&resource.shape, None, &mut object, &manager(call, options, &api_version));
        }
        strategy::on_create(&resource, &mut object, call.now);
        let name = text(&object, "metadata.name").to_owned();
        self.check_names(call, &object)?;
        self.admit_create(call, &mut object).await?;
        self.check(call, &object, None, &name)?;
        self.warn_about(call, &object);
        let key = object::key(&call.path.namespace, &name);
        if self.store.get(&resource.bucket, &key).is_some() {
            return Err(ApiError::already_exists(&resource.group, &resource.plural, &name));
        }
        self.warn_if_kept_only(call);
        if options.dry_run {
            return Ok(Written { content: Content::Object(Spelling::new(&resource).respell(object)), created: true });
        }
        let stored_form = self.stored_form(&resource, object);
        let entry = self.commit_new(call, &key, &stored_form).await?;
        call.reserved.take().into_iter().for_each(Reservation::keep);
        Ok(Written { content: Content::Stored(entry), created: true })
    }

    /// Commits a new object together with what it costs its namespace's quotas.
    async fn commit_new(&self, call: &Call, key: &str, object: &Value) -> Result<Arc<Stored>, ApiError> {
        let resource = &call.resource;
        for _ in 0..CHARGES_MAX {
            let change = StoreChange::Put(object::draft(resource, object));
            let write = Write { bucket: resource.bucket.clone(), key: key.into(), expect: Expect::Absent, change };
            let mut writes = self.charge_quota(call, object)?;
            writes.insert(0, write);
            match self.commit(resource, writes).await {
                Ok(entry) => return Ok(entry),
                Err(CommitError::Conflict { index: 0, .. }) => {
                    let name = text(object, "metadata.name");
                    return Err(ApiError::already_exists(&resource.group, &resource.plural, name));
                }
                // Another object of the namespace was charged at the same moment; the charge is worked out again.
                Err(CommitError::Conflict { .. }) => {}
                Err(other) => return Err(commit_error(other)),
            }
        }
        Err(ApiError::stale("", "resourcequotas", &call.path.namespace))
    }

    /// PUT on an object or one of its subresources.
    pub async fn update(&self, call: &mut Call) -> Result<Written, ApiError> {
        let options = call.write_options("UpdateOptions")?;
        let mut object = call.object(&options)?;
        check_named(call, &object)?;
        self.check_place(call, &mut object)?;
        let strict = call.resource.traits.strict_put || call.resource.custom.is_some();
        let missing = self.store.get(&call.resource.bucket, &self.key(call)).is_none();
        if missing && call.resource.traits.put_creates && call.path.subresource.is_empty() {
            strategy::metadata(&mut object).remove("resourceVersion");
            return self.create_object(call, object, &options, None).await;
        }
        if strict && !missing && text(&object, "metadata.resourceVersion").is_empty() {
            let name = call.path.name.clone();
            let detail = "must be specified for an update";
            let errors = vec![FieldError::invalid("metadata.resourceVersion", 0, detail)];
            // The reference names the resource here, where other refusals name the kind.
            return Err(ApiError::invalid(&call.resource.group, &call.resource.plural, &name, errors));
        }
        self.modify(call, Change::Replace(object), &options).await
    }

    /// PATCH in any of its four content types.
    pub async fn patch(&self, call: &mut Call) -> Result<Written, ApiError> {
        let options = call.write_options("PatchOptions")?;
        let media = call.content_type.split(';').next().unwrap_or_default().trim().to_owned();
        if media != "application/apply-patch+yaml" && call.query.flag("force") {
            let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![error]));
        }
        let change = match media.as_str() {
            "application/json-patch+json" => Change::JsonPatch(patch_body(&call.body)?),
            "application/merge-patch+json" => Change::MergePatch(patch_body(&call.body)?),
            "application/strategic-merge-patch+json" if call.resource.custom.is_none() => {
                Change::StrategicPatch(patch_body(&call.body)?)
            }
            "application/strategic-merge-patch+json" => {
                return Err(ApiError::new(
                    415,
                    "UnsupportedMediaType",
                    "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
                ));
            }
            "application/apply-patch+yaml" => return self.apply(call, &options).await,
            _ => return Err(ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")),
        };
        self.modify(call, change, &options).await
    }

    /// Server-side apply; a missing object is created (spec K-SSA-1).
    async fn apply(&self, call: &mut Call, options: &WriteOptions) -> Result<Written, ApiError> {
        if call.query.text("fieldManager").is_empty() {
            let error = FieldError::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", vec![error]));
        }
        let mut config = decode_yaml(&call.body)?;
        let resource = call.resource.clone();
        let (kind, version) = (text(&config, "kind"), text(&config, "apiVersion"));
        if kind != &*resource.kind || version != resource.api_version() {
            let gv = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
            return Err(ApiError::bad_request(format!("invalid object type: {gv}, Kind={kind}")));
        }
        if config["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        // Errors name the object as the configuration does, so this comes before the URL fills in what it leaves out.
        apply::check_typed(&resource.shape, &config)?;
        let is_named = !text(&config, "metadata.name").is_empty();
        self.check_place(call, &mut config)?;
        let force = call.query.flag("force");
        if self.store.get(&resource.bucket, &self.key(call)).is_none() {
            if !call.path.subresource.is_empty() {
                return Err(call.not_found());
            }
            if !text(&config, "metadata.uid").is_empty() {
                let why = "uid mismatch: the provided object specified uid ".to_owned()
                    + text(&config, "metadata.uid")
                    + ", and no existing object was found";
                return Err(ApiError::conflict(&resource.group, &resource.plural, &call.path.name, &why));
            }
            if !is_named {
                return Err(unnamed(call));
            }
            match self.create_object(call, config.clone(), options, Some(force)).await {
                Err(error) if error.reason == "AlreadyExists" => {}
                other => return other,
            }
        }
        self.modify(call, Change::Apply { config, force }, options).await
    }

    /// Works a change out against the stored object until it commits.
    pub async fn modify(&self, call: &mut Call, change: Change, options: &WriteOptions) -> Result<Written, ApiError> {
        let resource = call.resource.clone();
        let key = self.key(call);
        for _ in 0..RACES_MAX {
            let Some(current) = self.store.get(&resource.bucket, &key) else { return Err(call.not_found()) };
            let warnings = call.warnings.len();
            let old = self.read(&resource, &current);
            let new = self.work_out(call, &change, &old, options).await?;
            let stored_old = self.stored_form(&resource, old);
            let stored_new = self.stored_form(&resource, new);
            if stored_old == stored_new || options.dry_run {
                let mut object = Spelling::new(&resource).respell(stored_new);
                object["metadata"]["resourceVersion"] = current.revision.to_string().into();
                return Ok(Written { content: Content::Object(object), created: false });
            }
            match self.store_changed(call, &current, &stored_new).await {
                Ok(entry) => return Ok(Written { content: Content::Stored(entry), created: false }),
                Err(CommitError::Conflict { .. }) if !pins_version(&change) => call.warnings.truncate(warnings),
                Err(CommitError::Conflict { .. }) => return Err(call.stale()),
                Err(other) => return Err(commit_error(other)),
            }
        }
        Err(call.stale())
    }

    /// The new object: changed, carried over, defaulted, admitted, checked and with its owners recorded.
    async fn work_out(
        &self,
        call: &mut Call,
        change: &Change,
        old: &Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let resource = call.resource.clone();
        let subresource = call.path.subresource.clone();
        let api_version = resource.api_version();
        let mut new = self.changed(call, change, old, options)?;
        let sent_version = text(&new, "metadata.resourceVersion");
        if !sent_version.is_empty() && sent_version != text(old, "metadata.resourceVersion") {
            return Err(call.stale());
        }
        let is_patch = !matches!(change, Change::Replace(_));
        let sent_namespace = text(&new, "metadata.namespace");
        if is_patch && !sent_namespace.is_empty() && sent_namespace != text(old, "metadata.namespace") {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        let sent_uid = text(&new, "metadata.uid");
        if is_patch && !sent_uid.is_empty() && sent_uid != text(old, "metadata.uid") {
            let error = FieldError::invalid("metadata.uid", sent_uid, "field is immutable");
            return Err(call.invalid(&call.path.name, vec![error]));
        }
        if !sent_uid.is_empty() && sent_uid != text(old, "metadata.uid") {
            let why = format!(
                "Precondition failed: UID in precondition: {sent_uid}, UID in object meta: {}",
                text(old, "metadata.uid")
            );
            return Err(ApiError::conflict(&resource.group, &resource.plural, &call.path.name, &why));
        }
        check_named(call, &new)?;
        if text(&new, "metadata.name") != text(old, "metadata.name") {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({}) does not match the name on the URL ({})",
                text(&new, "metadata.name"),
                call.path.name
            )));
        }
        strategy::metadata(&mut new).insert("resourceVersion".into(), old["metadata"]["resourceVersion"].clone());
        strategy::on_update(&resource, &subresource, old, &mut new);
        self.fill(call, &mut new);
        if !matches!(change, Change::Apply { .. }) && subresource != "binding" {
            managed::updated(&resource.shape, Some(old), &mut new, &manager(call, options, &api_version));
        }
        if subresource.is_empty() {
            self.admit_update(call, &mut new, old).await?;
        }
        if strategy::generation_rises(&resource, &subresource, old, &new) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
            new["metadata"]["generation"] = generation.into();
        }
        let name = call.path.name.clone();
        self.check(call, &new, Some(old), &name)?;
        managed::keep_times(old, &mut new);
        Ok(new)
    }

    /// The change itself, before anything else looks at the result.
    fn changed(
        &self,
        call: &mut Call,
        change: &Change,
        old: &Value,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let resource = call.resource.clone();
        let patched = match change {
            Change::Replace(object) => return Ok(object.clone()),
            Change::Edit(edit) => {
                let mut new = old.clone();
                edit(&mut new)?;
                return Ok(new);
            }
            Change::Apply { config, force } => {
                let api_version = resource.api_version();
                let manager = manager(call, options, &api_version);
                let mut new = apply::apply(&resource.shape, Some(old), config, &manager, *force)?;
                call.conform(&mut new)?;
                return Ok(new);
            }
            Change::JsonPatch(patch) => merge::json_patch(old, patch),
            Change::MergePatch(patch) => merge::merge(old, patch),
            Change::StrategicPatch(patch) => strategic::strategic(&resource.shape, old, patch),
        };
        let mut new = patched?;
        let shown = shown_patch(change, &new);
        if resource.custom.is_some() {
            let expected = Expected { group: &resource.group, version: &resource.version, kind: &resource.kind };
            instance::check_type(&new, expected, "")?;
        }
        let refuse =
            |text: &str| ApiError::invalid("", "", "", vec![FieldError::invalid("patch", shown.as_str(), text)]);
        let found = call.conform(&mut new).map_err(|error| {
            let text = error.message.split_once(": ").map_or(error.message.as_str(), |(_, text)| text);
            match change {
                Change::StrategicPatch(_) => refuse(&patch_words::conversion_text(text)),
                _ => refuse(text),
            }
        })?;
        call.strictly(found, options.validation, |text| refuse(&text))?;
        Ok(new)
    }

    /// Commits the new state; the removal of the last finalizer of a deleted object removes the object (spec K-DEL-2).
    async fn store_changed(
        &self,
        call: &mut Call,
        current: &Arc<Stored>,
        new: &Value,
    ) -> Result<Arc<Stored>, CommitError<Meta>> {
        let resource = &call.resource;
        let draft = object::draft(resource, new);
        let gone = super::delete::is_finished(resource, new);
        let change = if gone { StoreChange::Delete(draft) } else { StoreChange::Put(draft) };
        let key = self.key(call).into();
        let expect = Expect::Revision(current.revision);
        let write = Write { bucket: resource.bucket.clone(), key, expect, change };
        let entry = self.commit(resource, vec![write]).await?;
        if resource.is("", "services") {
            call.reserved.take().into_iter().for_each(Reservation::keep);
            let stored = object::parse(&entry);
            self.addresses.release(&object::parse(current), Some(&stored).filter(|_| !gone));
        }
        Ok(entry)
    }

    pub fn key(&self, call: &Call) -> String {
        object::key(if call.resource.namespaced { &call.path.namespace } else { "" }, &call.path.name)
    }

    /// Fills defaults: built-in kinds by table, custom ones by schema (spec K-CRD-7).
    fn fill(&self, call: &Call, object: &mut Value) {
        match &call.resource.custom {
            Some(custom) => custom.schema().default(object),
            None if &*call.resource.kind == "CustomResourceDefinition" => definition::fill(object),
            None => defaults::fill(&call.resource.group, &call.resource.kind, object),
        }
    }

    /// Name and namespace first: admission quotes them and must not see a broken one.
    fn check_names(&self, call: &Call, object: &Value) -> Result<(), ApiError> {
        if text(object, "metadata.name").is_empty() {
            let error = FieldError::required("metadata.name", "name or generateName is required");
            return Err(call.invalid("", vec![error]));
        }
        Ok(())
    }

    /// All checks of an object, old object at hand or not.
    fn check(&self, call: &Call, new: &Value, old: Option<&Value>, name: &str) -> Result<(), ApiError> {
        let resource = &call.resource;
        let mut errors = match (&resource.custom, old) {
            (Some(custom), old) => {
                let rule = validate::metadata::name_rule(&resource.group, &resource.kind);
                let mut errors = validate::metadata::metadata(&new["metadata"], rule, resource.namespaced);
                if let Some(old) = old {
                    errors.extend(validate::metadata::metadata_update(&new["metadata"], &old["metadata"]));
                }
                errors.extend(custom.check(new, old, &call.path.subresource));
                if errors.is_empty() {
                    errors = self.check_training(call, new, old);
                }
                errors
            }
            (None, Some(old)) if call.path.subresource.is_empty() => {
                validate::update(&resource.group, &resource.kind, new, old)
            }
            (None, Some(old)) if call.path.subresource == "ephemeralcontainers" => {
                validate::pod_update::ephemeral_containers_update(new, old)
            }
            (None, Some(old)) => {
                let mut errors = validate::metadata::metadata_update(&new["metadata"], &old["metadata"]);
                errors.extend(validate::status::check_status(&resource.group, &resource.kind, new));
                errors
            }
            (None, None) => validate::create(&resource.group, &resource.kind, new),
        };
        if resource.is("apiextensions.k8s.io", "customresourcedefinitions") && call.path.subresource.is_empty() {
            errors.extend(match old {
                Some(old) => definition::check_update(new, old),
                None => definition::check(new),
            });
        }
        if errors.is_empty() { Ok(()) } else { Err(call.invalid(name, errors)) }
    }

    fn warn_if_kept_only(&self, call: &mut Call) {
        if call.resource.role == super::catalogue::Role::Stored {
            let kind = call.resource.kind.clone();
            call.warnings.push(format!("{kind} is kept, but nothing acts on it here"));
        }
    }
}

/// A body that replaces an object must say which one.
fn check_named(call: &Call, object: &Value) -> Result<(), ApiError> {
    if text(object, "metadata.name").is_empty() { Err(unnamed(call)) } else { Ok(()) }
}

fn unnamed(call: &Call) -> ApiError {
    let name = &call.path.name;
    ApiError::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Who a write is recorded under, and which parts of the object its endpoint owns (spec K-SSA-6).
fn manager<'a>(call: &'a Call, options: &'a WriteOptions, api_version: &'a str) -> Manager<'a> {
    let resource = &call.resource;
    let has_status = resource.custom.as_ref().map_or_else(|| resource.has("status"), |custom| custom.has_status);
    let tracked = match call.path.subresource.as_str() {
        "status" => Tracked::Status { metadata: strategy::status_metadata(resource) },
        "binding" => Tracked::Whole,
        _ if has_status => Tracked::ExceptStatus,
        _ => Tracked::Whole,
    };
    let subresource = [call.path.subresource.as_str(), call.via].into_iter().find(|s| !s.is_empty());
    Manager { name: &options.manager, api_version, subresource, tracked, now: call.now }
}

/// A patch as refusals show it: a strategic one as Go prints a map, the others by what they made of the object.
fn shown_patch(change: &Change, patched: &Value) -> String {
    match change {
        Change::StrategicPatch(patch) => patch_words::go_text(&patch_words::consumed(patch)),
        _ => patched.to_string(),
    }
}

/// Whether the client said which version it changes, so that a race is its own to resolve.
fn pins_version(change: &Change) -> bool {
    let pinned = |value: &Value| !text(value, "metadata.resourceVersion").is_empty();
    match change {
        Change::Replace(object) => pinned(object),
        Change::MergePatch(patch) | Change::StrategicPatch(patch) => pinned(patch),
        Change::JsonPatch(patch) => {
            patch.as_array().into_iter().flatten().any(|op| op["path"] == "/metadata/resourceVersion")
        }
        Change::Apply { config, .. } => pinned(config),
        Change::Edit(_) => false,
    }
}

fn patch_body(body: &[u8]) -> Result<Value, ApiError> {
    decode::json(body)
        .map(|decoded| decoded.value)
        .map_err(|text| ApiError::bad_request(format!("error decoding patch: {text}")))
}

/// What a failed commit means to a client; the store's own words go to the log only.
pub fn commit_error(error: CommitError<Meta>) -> ApiError {
    match error {
        CommitError::Full(_) => ApiError::new(
            507,
            "InternalError",
            "the disk is full, so nothing was stored; free some space and try again",
        ),
        other => {
            tracing::error!(error = %other, "a commit failed");
            ApiError::internal("the store does not accept writes; see the server's log")
        }
    }
}
