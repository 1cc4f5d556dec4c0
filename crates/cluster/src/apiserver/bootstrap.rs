//! Start-up objects: what every cluster has before its first client comes (spec K 21).

use super::write::commit_error;
use super::{ApiServer, object, strategy};
use crate::store::{Change, Expect, Write};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_api::volcano::SCHEDULING;
use volley_plan::bootstrap;
use volley_plan::bootstrap::training::is_current;
use volley_plan::custom::definition::{self, TakenNames};
use volley_plan::job::queue::first_queues;

const GROUP: &str = "scheduling.volcano.sh";

/// A start-up object could not be made.
#[derive(Debug, thiserror::Error)]
#[error("failed to make the start-up objects")]
pub struct BootstrapError(#[from] ApiError);

impl ApiServer {
    /// Makes what is missing; what is there stays as its owner left it.
    pub async fn bootstrap(self: &Arc<Self>, port: u16) -> Result<(), BootstrapError> {
        let local = self.local("bootstrap");
        self.define_training().await?;
        for object in bootstrap::objects(Timestamp::now(), &self.ca_pem) {
            let (group, kind) = (group(&object), text(&object, "kind").to_owned());
            let catalogue = self.catalogue();
            let Some(row) = catalogue.of_kind(&group, &kind) else { continue };
            let (plural, namespace) = (row.plural.to_string(), text(&object, "metadata.namespace").to_owned());
            if local.get(&group, &plural, &namespace, text(&object, "metadata.name")).is_none() {
                ignore_existing(local.create(&group, &plural, &namespace, object).await)?;
            }
        }
        self.open_first_queues().await?;
        for namespace in local.list("", "namespaces", "") {
            self.fill_namespace(text(&namespace, "metadata.name")).await?;
        }
        Ok(self.publish_self(port).await?)
    }

    /// The definitions of training kinds, in one write; they have been checked where they were made.
    async fn define_training(&self) -> Result<(), ApiError> {
        let catalogue = self.catalogue();
        let Some(resource) = catalogue.get("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
            return Ok(());
        };
        let stored = |name: &str| self.store.get(&resource.bucket, name);
        let is_current = |name: String| stored(&name).is_some_and(|stored| is_current(&object::metadata(&stored)));
        if bootstrap::training::names().all(is_current) {
            return Ok(());
        }
        let mut writes = Vec::new();
        for mut definition in bootstrap::training::outdated(|name| stored(name).map(|stored| object::parse(&stored))) {
            let name = text(&definition, "metadata.name").to_owned();
            let expect = match stored(&name) {
                Some(stored) => {
                    let generation = definition["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
                    definition["metadata"]["generation"] = generation.into();
                    Expect::Revision(stored.revision)
                }
                None => {
                    let now = Timestamp::now();
                    strategy::begin(resource, &mut definition, &uuid::Uuid::new_v4().to_string(), now);
                    strategy::on_create(resource, &mut definition, now);
                    definition["status"] = definition::status(&definition, &TakenNames::default(), now);
                    Expect::Absent
                }
            };
            definition::fill(&mut definition);
            let change = Change::Put(object::draft(resource, &definition));
            writes.push(Write { bucket: resource.bucket.clone(), key: name.into(), expect, change });
        }
        if !writes.is_empty() {
            self.commit(resource, writes).await.map_err(commit_error)?;
        }
        Ok(())
    }

    /// The queues that every cluster has, open at once: whoever queues the first job need not wait for a controller.
    async fn open_first_queues(&self) -> Result<(), ApiError> {
        let local = self.local("bootstrap");
        for queue in first_queues() {
            let name = text(&queue, "metadata.name").to_owned();
            // Without their definition there are no queues: somebody has one of his own, under other rules.
            if local.plural_of(SCHEDULING, "Queue").is_err() || local.get(GROUP, "queues", "", &name).is_some() {
                continue;
            }
            ignore_existing(local.create(GROUP, "queues", "", queue).await)?;
            local.patch_status(GROUP, "queues", "", &name, json!({"status": {"state": "Open"}})).await?;
        }
        Ok(())
    }

    /// The account and the CA that every namespace has (spec K 21).
    pub async fn fill_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        let local = self.local("namespace-controller");
        for object in bootstrap::in_namespace(namespace, &self.ca_pem) {
            let plural = if object["kind"] == "ConfigMap" { "configmaps" } else { "serviceaccounts" };
            if local.get("", plural, namespace, text(&object, "metadata.name")).is_none() {
                ignore_existing(local.create("", plural, namespace, object).await)?;
            }
        }
        Ok(())
    }

    /// The `kubernetes` service and where it leads.
    async fn publish_self(&self, port: u16) -> Result<(), ApiError> {
        let local = self.local("bootstrap");
        let host = own_address().unwrap_or_else(|| self.addresses.first());
        if local.get("", "services", "default", "kubernetes").is_none() {
            let address = self.addresses.first();
            let service = json!({
                "metadata": {"name": "kubernetes", "namespace": "default",
                    "labels": {"component": "apiserver", "provider": "kubernetes"}},
                "spec": {"clusterIP": address, "clusterIPs": [address], "type": "ClusterIP",
                    "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]},
            });
            ignore_existing(local.create("", "services", "default", service).await)?;
        }
        let endpoints = json!({
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": [{"addresses": [{"ip": host}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}],
        });
        let slice = json!({
            "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": "IPv4", "endpoints": [{"addresses": [host], "conditions": {"ready": true}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        });
        for (group, plural, object, key) in
            [("", "endpoints", endpoints, "subsets"), ("discovery.k8s.io", "endpointslices", slice, "ports")]
        {
            match local.get(group, plural, "default", "kubernetes") {
                None => ignore_existing(local.create(group, plural, "default", object).await)?,
                // The port may be another one since the last start.
                Some(current) if current.get(key) != object.get(key) => {
                    let patch = if key == "subsets" {
                        json!({"subsets": object["subsets"]})
                    } else {
                        json!({"ports": object["ports"], "endpoints": object["endpoints"]})
                    };
                    local.patch(group, plural, "default", "kubernetes", patch).await?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// This machine's address towards others; an endpoint may not be a loopback address. Connecting a UDP socket sends
/// nothing, it only asks the kernel which way it would go.
pub fn own_address() -> Option<String> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then(|| address.to_string())
}

fn group(object: &Value) -> String {
    text(object, "apiVersion").split_once('/').map_or_else(String::new, |(group, _)| group.to_owned())
}

fn ignore_existing(result: Result<Value, ApiError>) -> Result<(), ApiError> {
    match result {
        Err(error) if error.reason != "AlreadyExists" => Err(error),
        _ => Ok(()),
    }
}
