//! Calls from inside the process: the controllers' way to the API, with the same rules as everybody else's.

use super::ApiServer;
use super::call;
use super::call::{Call, WriteOptions};
use super::catalogue::Resource;
use super::delete::{DeleteOptions, Deleted};
use super::object;
use super::request::{Form, Query, ResourcePath};
use super::write::Change;
use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use volley_api::kube::status::ApiError;
use volley_plan::access::User;

/// A named caller inside the process, such as `job-controller`.
pub struct Local<'a> {
    server: &'a ApiServer,
    name: &'static str,
}

/// Whether the caller stands for this machine: the placeholder of its node, or a part of the process.
pub fn is_own(user: &User) -> bool {
    user.name == "system:node-placeholder" || user.name.starts_with("system:volley:")
}

impl ApiServer {
    pub fn local(&self, name: &'static str) -> Local<'_> {
        Local { server: self, name }
    }
}

impl Local<'_> {
    fn call(&self, resource: Arc<Resource>, namespace: &str, name: &str) -> Call {
        let path = ResourcePath {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            namespace: if resource.namespaced { namespace.to_owned() } else { String::new() },
            plural: resource.plural.to_string(),
            name: name.to_owned(),
            ..ResourcePath::default()
        };
        Call {
            resource,
            path,
            query: Query::default(),
            user: Arc::new(User::authenticated(format!("system:{}", self.name), ["system:masters".to_owned()])),
            now: Timestamp::now(),
            accept: String::new(),
            content_type: String::new(),
            user_agent: self.name.to_owned(),
            body: Bytes::new(),
            via: "",
            reserved: None,
            warnings: Vec::new(),
            upgrade: None,
        }
    }

    fn options(&self) -> WriteOptions {
        WriteOptions {
            dry_run: false,
            validation: call::FieldValidation::Ignore,
            // The managers that the reference's parts show.
            manager: if self.name == "kubelet" { "kubelet" } else { "kube-controller-manager" }.to_owned(),
        }
    }

    fn resource(&self, group: &str, plural: &str) -> Result<Arc<Resource>, ApiError> {
        let catalogue = self.server.catalogue();
        let found = catalogue.all().find(|row| row.is(group, plural)).cloned();
        found.ok_or_else(ApiError::unknown_resource)
    }

    /// Group and plural of a kind, as `apiVersion` and `kind` name it.
    pub fn plural_of(&self, api_version: &str, kind: &str) -> Result<(String, String), ApiError> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let catalogue = self.server.catalogue();
        let row = catalogue.of_kind(group, kind).ok_or_else(ApiError::unknown_resource)?;
        Ok((row.group.to_string(), row.plural.to_string()))
    }

    pub fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource(group, plural).ok()?;
        let key = object::key(if resource.namespaced { namespace } else { "" }, name);
        let stored = self.server.store.get(&resource.bucket, &key)?;
        Some(self.server.read(&resource, &stored))
    }

    /// All objects of a namespace, or of all when it is empty.
    pub fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let Ok(resource) = self.resource(group, plural) else { return Vec::new() };
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let listing = self.server.store.list(&resource.bucket, &prefix);
        listing.entries.iter().map(|stored| self.server.read(&resource, stored)).collect()
    }

    pub async fn create(&self, group: &str, plural: &str, namespace: &str, object: Value) -> Result<Value, ApiError> {
        let resource = self.resource(group, plural)?;
        let mut call = self.call(resource.clone(), namespace, "");
        let mut object = object;
        object["kind"] = (*resource.kind).into();
        object["apiVersion"] = resource.api_version().into();
        let written = self.server.create_object(&mut call, object, &self.options(), None).await?;
        Ok(written.into_object(&resource))
    }

    /// A merge patch on the main resource.
    pub async fn patch(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, ApiError> {
        self.modify(group, plural, (namespace, name), "", Change::MergePatch(patch)).await
    }

    /// A merge patch on `/status`.
    pub async fn patch_status(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        patch: Value,
    ) -> Result<Value, ApiError> {
        self.modify(group, plural, (namespace, name), "status", Change::MergePatch(patch)).await
    }

    /// Any change on any subresource.
    pub async fn modify(
        &self,
        group: &str,
        plural: &str,
        (namespace, name): (&str, &str),
        subresource: &str,
        change: Change,
    ) -> Result<Value, ApiError> {
        let mut call = self.call(self.resource(group, plural)?, namespace, name);
        call.path.subresource = subresource.to_owned();
        let written = self.server.modify(&mut call, change, &self.options()).await?;
        Ok(written.into_object(&call.resource))
    }

    /// Deletes an object if it still is the one with this uid; one that is gone already is fine.
    pub async fn delete(
        &self,
        group: &str,
        plural: &str,
        (namespace, name): (&str, &str),
        uid: &str,
        policy: &str,
    ) -> Result<(), ApiError> {
        let options = DeleteOptions { policy: policy.to_owned(), uid: uid.to_owned(), ..DeleteOptions::default() };
        self.delete_with(group, plural, (namespace, name), options).await
    }

    /// Deletes a pod without waiting for anything to stop.
    pub async fn delete_pod_now(&self, (namespace, name): (&str, &str), uid: &str) -> Result<(), ApiError> {
        let options = DeleteOptions { grace_seconds: Some(0), uid: uid.to_owned(), ..DeleteOptions::default() };
        self.delete_with("", "pods", (namespace, name), options).await
    }

    /// Deletes a pod, whichever it is, with this many seconds between TERM and KILL.
    pub async fn delete_gracefully(&self, place: (&str, &str), seconds: i64) -> Result<(), ApiError> {
        let options = DeleteOptions { grace_seconds: Some(seconds), ..DeleteOptions::default() };
        self.delete_with("", "pods", place, options).await
    }

    /// Binds a pod to a node, if it still is the one with this uid.
    pub async fn bind(&self, (namespace, name): (&str, &str), uid: &str, node: &str) -> Result<(), ApiError> {
        let mut call = self.call(self.resource("", "pods")?, namespace, name);
        call.path.subresource = "binding".to_owned();
        call.content_type = "application/json".to_owned();
        let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        call.body = Bytes::from(binding.to_string());
        self.server.other_subresource("create", &mut call, Form::JSON).await.map(drop)
    }

    /// A token for a service account; `spec` is that of a TokenRequest.
    pub fn token(&self, (namespace, account): (&str, &str), spec: Value) -> Result<Value, ApiError> {
        let call = self.call(self.resource("", "serviceaccounts")?, namespace, account);
        self.server.issue_token(&call, json!({"spec": spec}))
    }

    async fn delete_with(
        &self,
        group: &str,
        plural: &str,
        (namespace, name): (&str, &str),
        options: DeleteOptions,
    ) -> Result<(), ApiError> {
        let mut call = self.call(self.resource(group, plural)?, namespace, name);
        match self.server.delete_one(&mut call, &options).await {
            Ok(Deleted::Gone(_) | Deleted::Pending(_)) => Ok(()),
            Err(error) if error.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }
}
