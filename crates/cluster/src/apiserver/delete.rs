//! Deletion: preconditions, grace, propagation, finalizers, and whole collections (spec K 12).

use super::ApiServer;
use super::answer::{self, Answer};
use super::call::{Call, loose};
use super::catalogue::Resource;
use super::object::{self, Spelling, Stored};
use super::request::{Form, ResourcePath};
use super::strategy;
use super::write::commit_error;
use crate::store::{Change, CommitError, Expect, Write};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;
use volley_api::kube::field::FieldError;
use volley_api::kube::status::ApiError;
use volley_api::kube::{text, time};

const RACES_MAX: usize = 16;
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// What a DELETE asks for, from its body or its query (spec K-CT-7).
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub grace_seconds: Option<i64>,
    pub policy: String,
    pub uid: String,
    pub revision: String,
    pub dry_run: bool,
}

impl DeleteOptions {
    fn of(call: &Call) -> Result<DeleteOptions, ApiError> {
        let mut body = loose(&call.content_type, &call.body, "DeleteOptions")?;
        if body.is_null() {
            body = json!({});
        }
        let kind = text(&body, "kind");
        if !matches!(kind, "" | "DeleteOptions") {
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {:?} in scheme \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
                text(&body, "apiVersion")
            )));
        }
        let query = &call.query;
        query.number("gracePeriodSeconds")?;
        for key in ["propagationPolicy", "gracePeriodSeconds", "orphanDependents"] {
            if let Some(value) = query.get(key).filter(|_| body.get(key).is_none()) {
                body[key] = serde_json::from_str(value).unwrap_or_else(|_| value.into());
            }
        }
        let mut errors = Vec::new();
        let mut policy = text(&body, "propagationPolicy").to_owned();
        if !matches!(policy.as_str(), "" | "Orphan" | "Background" | "Foreground") {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", policy.as_str(), &supported));
        }
        if let Some(orphan) = body["orphanDependents"].as_bool() {
            if !policy.is_empty() {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                errors.push(FieldError::invalid("propagationPolicy", policy.as_str(), detail));
            }
            policy = if orphan { "Orphan" } else { "Background" }.to_owned();
        }
        let dry_run: Vec<&str> = query
            .all("dryRun")
            .chain(body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str))
            .filter(|value| !value.is_empty())
            .collect();
        if dry_run.iter().any(|value| *value != "All") {
            errors.push(FieldError::not_supported("dryRun", json!(dry_run), &["All"]));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", errors));
        }
        Ok(DeleteOptions {
            grace_seconds: body["gracePeriodSeconds"].as_i64(),
            policy,
            uid: text(&body, "preconditions.uid").to_owned(),
            revision: text(&body, "preconditions.resourceVersion").to_owned(),
            dry_run: !dry_run.is_empty(),
        })
    }
}

/// How a deletion ended.
pub enum Deleted {
    Gone(Value),
    Pending(Value),
}

impl ApiServer {
    pub async fn delete(&self, call: &mut Call, form: Form) -> Result<Answer, ApiError> {
        let options = DeleteOptions::of(call)?;
        let deleted = self.delete_one(call, &options).await?;
        let resource = call.resource.clone();
        let answer = match deleted {
            Deleted::Gone(object) if !resource.traits.delete_returns => {
                let mut details =
                    json!({"name": call.path.name, "kind": *resource.plural, "uid": object["metadata"]["uid"]});
                if !resource.group.is_empty() {
                    details["group"] = (*resource.group).into();
                }
                answer::success(200, details)
            }
            Deleted::Gone(object) | Deleted::Pending(object) => self.object_answer(200, &resource, &object, form, call),
        };
        Ok(answer)
    }

    /// Deletes one object, or starts its deletion.
    pub async fn delete_one(&self, call: &mut Call, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        let resource = call.resource.clone();
        let key = self.key(call);
        self.refuse_protected(call)?;
        for _ in 0..RACES_MAX {
            let Some(current) = self.store.get(&resource.bucket, &key) else { return Err(call.not_found()) };
            let mut old = object::parse(&current);
            // Whatever is written has all defaults, which lists count on.
            resource.custom.iter().for_each(|custom| custom.schema().default(&mut old));
            check_preconditions(call, &old, &current, options)?;
            let mut new = old.clone();
            let policy = self.policy(call, &resource, options);
            let gone = mark(&resource, &mut new, policy, options.grace_seconds, call.now);
            if options.dry_run || (!gone && new == old) {
                let object = Spelling::new(&resource).respell(new);
                return Ok(if gone { Deleted::Gone(object) } else { Deleted::Pending(object) });
            }
            let draft = object::draft(&resource, &new);
            let change = if gone { Change::Delete(draft) } else { Change::Put(draft) };
            let expect = Expect::Revision(current.revision);
            let write = Write { bucket: resource.bucket.clone(), key: key.as_str().into(), expect, change };
            match self.commit(&resource, vec![write]).await {
                Ok(entry) => {
                    if gone && resource.is("", "services") {
                        self.addresses.release(&old, None);
                    }
                    let object = Spelling::new(&resource).parse(&entry);
                    return Ok(if gone { Deleted::Gone(object) } else { Deleted::Pending(object) });
                }
                Err(CommitError::Conflict { .. }) => {}
                Err(other) => return Err(commit_error(other)),
            }
        }
        Err(call.stale())
    }

    /// Namespaces without which nothing works (spec K-NS-2).
    fn refuse_protected(&self, call: &Call) -> Result<(), ApiError> {
        const PROTECTED: &[&str] = &["default", "kube-system", "kube-public"];
        if call.resource.is("", "namespaces") && PROTECTED.contains(&call.path.name.as_str()) {
            return Err(call.forbidden(&call.path.name, "this namespace may not be deleted"));
        }
        const SYSTEM_CLASSES: &[&str] = &["system-node-critical", "system-cluster-critical"];
        if call.resource.is("scheduling.k8s.io", "priorityclasses") && SYSTEM_CLASSES.contains(&call.path.name.as_str())
        {
            return Err(call.forbidden(&call.path.name, "this is a system priority class and cannot be deleted"));
        }
        self.check_queue_deletion(call)
    }

    /// The policy asked for, or the kind's own: Jobs orphan their pods unless told (spec K-DEL-4).
    fn policy(&self, call: &mut Call, resource: &Resource, options: &DeleteOptions) -> &'static str {
        match options.policy.as_str() {
            "Foreground" => "Foreground",
            "Orphan" => "Orphan",
            "Background" => "Background",
            _ if resource.is("batch", "jobs") => {
                let warning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";
                if !call.warnings.iter().any(|w| w == warning) {
                    call.warnings.push(warning.to_owned());
                }
                "Orphan"
            }
            _ if resource.is("", "replicationcontrollers") => "Orphan",
            _ => "Background",
        }
    }

    /// DELETE on a list path: everything that the selectors match (spec K-DEL-6).
    pub async fn delete_collection(&self, call: &mut Call, form: Form) -> Result<Answer, ApiError> {
        let options = DeleteOptions::of(call)?;
        let resource = call.resource.clone();
        let selection = self.selection(call)?;
        let listing = self.store.list(&resource.bucket, &selection.prefix);
        let mut items = Vec::new();
        for stored in listing.entries.iter().filter(|stored| selection.matches(&resource, stored)) {
            let object = object::parse(stored);
            call.path = ResourcePath {
                namespace: text(&object, "metadata.namespace").to_owned(),
                name: text(&object, "metadata.name").to_owned(),
                ..call.path.clone()
            };
            match self.delete_one(call, &options).await {
                Ok(Deleted::Gone(object) | Deleted::Pending(object)) => items.push(as_item(&resource, object)),
                // Somebody else was faster, or the object is protected; neither stops the rest.
                Err(error) if matches!(error.code, 404 | 403) => {}
                Err(error) => return Err(error),
            }
        }
        let body = json!({
            "kind": *resource.list_kind, "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": self.store.revision().to_string()}, "items": items,
        });
        Ok(answer::value(200, &body, form))
    }
}

/// Items of built-in lists leave out what the list says already (spec K-LIST-1).
fn as_item(resource: &Resource, mut object: Value) -> Value {
    if resource.custom.is_none() {
        strategy::remove(&mut object, "kind");
        strategy::remove(&mut object, "apiVersion");
    }
    object
}

fn check_preconditions(
    call: &Call,
    old: &Value,
    current: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let uid = text(old, "metadata.uid");
    let revision = current.revision.to_string();
    let why = if !options.uid.is_empty() && options.uid != uid {
        format!(
            "the UID in the precondition ({}) does not match the UID in record ({uid}). The object might have been deleted and then recreated",
            options.uid
        )
    } else if !options.revision.is_empty() && options.revision != revision {
        format!(
            "the ResourceVersion in the precondition ({}) does not match the ResourceVersion in record ({revision}). The object might have been modified",
            options.revision
        )
    } else {
        return Ok(());
    };
    // The reference names the kind here, where other conflicts name the resource.
    Err(ApiError::conflict(&call.resource.group, &call.resource.kind, &call.path.name, &why))
}

/// Marks an object for deletion; true when nothing holds it and it can go at once.
fn mark(resource: &Resource, object: &mut Value, policy: &str, grace: Option<i64>, now: Timestamp) -> bool {
    let grace = grace_seconds(resource, object, grace);
    match policy {
        "Foreground" => {
            drop_finalizer(object, ORPHAN);
            strategy::finalizer(object, FOREGROUND);
        }
        "Orphan" => {
            drop_finalizer(object, FOREGROUND);
            strategy::finalizer(object, ORPHAN);
        }
        _ => {
            drop_finalizer(object, ORPHAN);
            drop_finalizer(object, FOREGROUND);
        }
    }
    if resource.is("", "namespaces") {
        object["status"]["phase"] = "Terminating".into();
    }
    let gone = is_unheld(resource, object) && grace == 0;
    // A pod is marked even when it goes at once: whoever watches learns why it went.
    if gone && !resource.is("", "pods") {
        return true;
    }
    let marked = object["metadata"].get("deletionTimestamp").is_some();
    let left = object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(i64::MAX);
    // A second DELETE can only shorten the time that is left (spec K-POD-DEL-2).
    if !marked || grace < left {
        let meta = strategy::metadata(object);
        let at = now.checked_add(SignedDuration::from_secs(grace)).unwrap_or(now);
        meta.insert("deletionTimestamp".into(), time::seconds(at).into());
        meta.insert("deletionGracePeriodSeconds".into(), grace.into());
        let counts = !marked && &*resource.kind != "CustomResourceDefinition";
        if let Some(generation) = meta.get("generation").and_then(Value::as_i64).filter(|_| counts) {
            meta.insert("generation".into(), (generation + 1).into());
        }
    }
    gone
}

/// Seconds between TERM and the end; only a pod on a node has any (spec K-POD-DEL-1).
fn grace_seconds(resource: &Resource, object: &Value, asked: Option<i64>) -> i64 {
    let runs = resource.is("", "pods")
        && !text(object, "spec.nodeName").is_empty()
        && !matches!(text(object, "status.phase"), "Succeeded" | "Failed");
    if !runs {
        return 0;
    }
    let own = object["spec"]["terminationGracePeriodSeconds"].as_i64().unwrap_or(30);
    // Negative periods mean "at once", which the reference spells as one second.
    match asked.unwrap_or(own) {
        seconds if seconds < 0 => 1,
        seconds => seconds,
    }
}

fn is_unheld(resource: &Resource, object: &Value) -> bool {
    let none = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    none(&object["metadata"]["finalizers"]) && (!resource.is("", "namespaces") || none(&object["spec"]["finalizers"]))
}

/// Whether an object that is being deleted has nothing left to wait for.
pub fn is_finished(resource: &Resource, object: &Value) -> bool {
    object["metadata"].get("deletionTimestamp").is_some()
        && is_unheld(resource, object)
        && (!resource.is("", "pods") || object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0)
}

fn drop_finalizer(object: &mut Value, name: &str) {
    let meta = strategy::metadata(object);
    let Some(list) = meta.get_mut("finalizers").and_then(Value::as_array_mut) else { return };
    list.retain(|item| item != name);
    if list.is_empty() {
        meta.remove("finalizers");
    }
}
