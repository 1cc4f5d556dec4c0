//! Start-up objects: what every cluster has before its first client comes (spec K 21).

use super::ApiServer;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_plan::bootstrap;

/// A start-up object could not be made.
#[derive(Debug, thiserror::Error)]
#[error("failed to make the start-up objects")]
pub struct BootstrapError(#[from] ApiError);

impl ApiServer {
    /// Makes what is missing; what is there stays as its owner left it.
    pub async fn bootstrap(self: &Arc<Self>, port: u16) -> Result<(), BootstrapError> {
        let local = self.local("bootstrap");
        for object in bootstrap::objects(Timestamp::now(), &self.ca_pem) {
            let (group, kind) = (group(&object), text(&object, "kind").to_owned());
            let catalogue = self.catalogue();
            let Some(row) = catalogue.of_kind(&group, &kind) else { continue };
            let (plural, namespace) = (row.plural.to_string(), text(&object, "metadata.namespace").to_owned());
            if local.get(&group, &plural, &namespace, text(&object, "metadata.name")).is_none() {
                ignore_existing(local.create(&group, &plural, &namespace, object).await)?;
            }
        }
        for namespace in local.list("", "namespaces", "") {
            self.fill_namespace(text(&namespace, "metadata.name")).await?;
        }
        Ok(self.publish_self(port).await?)
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
