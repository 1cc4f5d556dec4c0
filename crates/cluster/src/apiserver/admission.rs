//! Admission, the shell: gathers the facts that `plan::admit` decides by, and charges quotas in the same commit.

use super::ApiServer;
use super::call::Call;
use super::object::{self, Meta};
use crate::store::{Change, Expect, Write};
use serde_json::Value;
use volley_api::kube::field::FieldError;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::status::ApiError;
use volley_api::kube::{defaults, text, time};
use volley_api::volcano::queue;
use volley_plan::admit::{self, limits, quota, training};
use volley_plan::custom::definition;

impl ApiServer {
    /// Objects of a bucket below a prefix, parsed; for the few that admission looks at.
    pub fn facts(&self, bucket: &str, prefix: &str) -> Vec<Value> {
        let bucket = self.store.bucket(bucket);
        self.store.list(&bucket, prefix).entries.iter().map(|stored| object::parsed(stored).clone()).collect()
    }

    /// Fills in and refuses, for a new object.
    pub async fn admit_create(&self, call: &mut Call, object: &mut Value) -> Result<(), ApiError> {
        let resource = call.resource.clone();
        if resource.namespaced {
            self.check_namespace(call, object)?;
        }
        if resource.custom.as_ref().is_some_and(|custom| custom.is_terminating) {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(call.forbidden(text(object, "metadata.name"), why));
        }
        let name = text(object, "metadata.name").to_owned();
        let refuse = |why: String| call.forbidden(&name, &why);
        let namespace = format!("{}/", call.path.namespace);
        match (&*resource.group, &*resource.kind) {
            ("", "Pod") => {
                admit::priority(object, &self.facts("scheduling.k8s.io/priorityclasses", "")).map_err(refuse)?;
                let suffix: String = call.generated_name("").chars().take(5).collect();
                let accounts = self.store.bucket("serviceaccounts");
                let look_up = |name: &str| {
                    let stored = self.store.get(&accounts, &format!("{namespace}{name}"));
                    stored.map(|stored| object::parsed(&stored).clone())
                };
                admit::service_account(object, look_up, &suffix).map_err(refuse)?;
                admit::tolerations(object);
                limits::pod(object, &self.facts("limitranges", &namespace)).map_err(refuse)?;
                defaults::fill("", "Pod", object);
                defaults::pod::pod_status(object);
                defaults::pod::scheduling_gated(object, &time::seconds(call.now));
                defaults::pod::match_label_keys(object);
            }
            ("", "Node") => volley_plan::control::node::taint_new(object),
            ("", "PersistentVolumeClaim") => {
                admit::storage_class(object, &self.facts("storage.k8s.io/storageclasses", ""));
                limits::claim(object, &self.facts("limitranges", &namespace)).map_err(refuse)?;
            }
            ("scheduling.k8s.io", "PriorityClass") => {
                let others = self.facts("scheduling.k8s.io/priorityclasses", "");
                admit::priority_class(object, &others).map_err(refuse)?;
            }
            ("", "Service") => self.assign_addresses(call, object, None)?,
            ("batch", "CronJob") => check_zone(call, object, None)?,
            ("batch.volcano.sh", "CronJob") => {
                self.fill_training(call, object, None);
                check_zone(call, object, None)?;
            }
            ("rbac.authorization.k8s.io", _) => self.check_escalation(call, object)?,
            _ => self.fill_training(call, object, None),
        }
        Ok(())
    }

    /// Training kinds are completed by rules of their own; their senders hear of fields that have a better place.
    fn fill_training(&self, call: &mut Call, object: &mut Value, old: Option<&Value>) {
        let Some(hook) = training::hook(&call.resource.group, &call.resource.kind) else { return };
        let mut warnings = hook.fill(object, old, self.training);
        warnings.extend(hook.warnings(object, self.training));
        warnings.retain(|warning| !call.warnings.contains(warning));
        call.warnings.extend(warnings);
    }

    /// What the rules of training kinds have against an object that its schema has passed.
    pub fn check_training(&self, call: &Call, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let hook = training::hook(&call.resource.group, &call.resource.kind);
        let hook = hook.filter(|_| call.path.subresource.is_empty());
        hook.map_or_else(Vec::new, |hook| hook.check(new, old, self.training, || self.queues()))
    }

    fn queues(&self) -> Vec<Value> {
        self.facts("scheduling.volcano.sh/queues", "")
    }

    /// Queues without which no job can be queued, or that hold others (ADM-45).
    pub fn check_queue_deletion(&self, call: &Call) -> Result<(), ApiError> {
        // With their definition all queues go, or it could not.
        let goes_anyway = call.resource.custom.as_ref().is_none_or(|custom| custom.is_terminating);
        if goes_anyway || !call.resource.is("scheduling.volcano.sh", "queues") {
            return Ok(());
        }
        let name = &call.path.name;
        queue::check_delete(name, &self.queues()).map_err(|why| call.forbidden(name, &why))
    }

    /// What is odd about a new object that is otherwise good.
    pub fn warn_about(&self, call: &mut Call, object: &Value) {
        let resource = call.resource.clone();
        if &*resource.kind == "CustomResourceDefinition" {
            call.warnings.extend(definition::warnings(object, None));
        }
        call.warnings.extend(volley_api::kube::warnings::of(&resource.group, &resource.kind, object));
    }

    /// The same for a changed object.
    pub async fn admit_update(&self, call: &mut Call, new: &mut Value, old: &Value) -> Result<(), ApiError> {
        let resource = call.resource.clone();
        match (&*resource.group, &*resource.kind) {
            ("", "Service") => self.assign_addresses(call, new, Some(old))?,
            ("", "Pod") => admit::tolerations(new),
            ("", "PersistentVolumeClaim") => self.check_growth(call, new, old)?,
            ("batch", "CronJob") => check_zone(call, new, Some(old))?,
            ("batch.volcano.sh", "CronJob") => {
                self.fill_training(call, new, Some(old));
                check_zone(call, new, Some(old))?;
            }
            ("rbac.authorization.k8s.io", _) if without_metadata(new) != without_metadata(old) => {
                self.check_escalation(call, new)?;
            }
            _ => self.fill_training(call, new, Some(old)),
        }
        Ok(())
    }

    /// A bound claim grows only where its class says that volumes can.
    fn check_growth(&self, call: &Call, new: &Value, old: &Value) -> Result<(), ApiError> {
        let size = |claim: &Value| Quantity::parse(text(claim, "spec.resources.requests.storage")).ok();
        if text(old, "status.phase") != "Bound" || size(new) <= size(old) {
            return Ok(());
        }
        let classes = self.facts("storage.k8s.io/storageclasses", text(new, "spec.storageClassName"));
        let own = classes.iter().find(|class| text(class, "metadata.name") == text(new, "spec.storageClassName"));
        if own.is_some_and(|class| class["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        Err(call.forbidden(text(new, "metadata.name"), why))
    }

    /// The namespace exists and is not going away (spec K-NS-1, K-NS-3).
    fn check_namespace(&self, call: &Call, object: &Value) -> Result<(), ApiError> {
        let namespace = &call.path.namespace;
        let bucket = self.store.bucket("namespaces");
        let stored =
            self.store.get(&bucket, namespace).ok_or_else(|| ApiError::not_found("", "namespaces", namespace))?;
        if text(object::parsed(&stored), "status.phase") != "Terminating" {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let mut error = call.forbidden(text(object, "metadata.name"), &why);
        let message = format!("namespace {namespace} is being terminated");
        error.details["causes"] =
            serde_json::json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]);
        Err(error)
    }

    fn assign_addresses(&self, call: &mut Call, object: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        let name = text(object, "metadata.name").to_owned();
        let reserved = self.addresses.assign(object, old).map_err(|error| call.invalid(&name, vec![error]))?;
        call.reserved = Some(reserved);
        Ok(())
    }

    /// Nobody hands out more than they hold.
    fn check_escalation(&self, call: &Call, object: &Value) -> Result<(), ApiError> {
        match self.rules().escalates(&call.user, object) {
            Some(why) => Err(call.forbidden(text(object, "metadata.name"), &why)),
            None => Ok(()),
        }
    }

    /// The writes that charge a new object to its namespace's quotas, to be committed with it.
    pub fn charge_quota(&self, call: &Call, object: &Value) -> Result<Vec<Write<Meta>>, ApiError> {
        let resource = &call.resource;
        if !resource.namespaced || !self.has_quotas(&call.path.namespace) {
            return Ok(Vec::new());
        }
        let (quotas, revisions) = self.quotas(&call.path.namespace);
        let charges = quota::charge(&quotas, &resource.group, &resource.plural, object)
            .map_err(|why| call.forbidden(text(object, "metadata.name"), &why))?;
        Ok(self.quota_writes(&quotas, &revisions, charges))
    }

    fn has_quotas(&self, namespace: &str) -> bool {
        let bucket = self.store.bucket("resourcequotas");
        !self.store.list(&bucket, &format!("{namespace}/")).entries.is_empty()
    }

    fn quotas(&self, namespace: &str) -> (Vec<Value>, Vec<u64>) {
        let bucket = self.store.bucket("resourcequotas");
        let listing = self.store.list(&bucket, &format!("{namespace}/"));
        listing.entries.iter().map(|stored| (object::parse(stored), stored.revision)).unzip()
    }

    fn quota_writes(&self, quotas: &[Value], revisions: &[u64], charges: quota::Charges) -> Vec<Write<Meta>> {
        let catalogue = self.catalogue();
        let Some(resource) = catalogue.get("", "v1", "resourcequotas") else { return Vec::new() };
        let mut writes = Vec::new();
        for (position, used) in charges {
            let mut quota = quotas[position].clone();
            quota["status"]["hard"] = quota["spec"]["hard"].clone();
            quota["status"]["used"] = used;
            let key = object::key(text(&quota, "metadata.namespace"), text(&quota, "metadata.name"));
            let change = Change::Put(object::draft(resource, &quota));
            let expect = Expect::Revision(revisions[position]);
            writes.push(Write { bucket: resource.bucket.clone(), key: key.into(), expect, change });
        }
        writes
    }
}

/// A new time zone must be one that this machine knows.
fn check_zone(call: &Call, new: &Value, old: Option<&Value>) -> Result<(), ApiError> {
    let zone = text(new, "spec.timeZone");
    let is_kept = old.is_some_and(|old| text(old, "spec.timeZone") == zone);
    let zones = jiff::tz::db();
    if zone.is_empty() || is_kept || zones.get(zone).is_ok() || zones.available().next().is_none() {
        return Ok(());
    }
    let error = FieldError::invalid("spec.timeZone", zone, &format!("unknown time zone {zone}"));
    Err(call.invalid(text(new, "metadata.name"), vec![error]))
}

fn without_metadata(object: &Value) -> Vec<(&String, &Value)> {
    object.as_object().into_iter().flatten().filter(|(key, _)| *key != "metadata").collect()
}
