//! Namespaces, the shell: empties those that are being deleted, and gives new ones their account and certificate.

use super::Shell;
use super::apply::Synced;
use super::facts::{Head, parsed};
use crate::apiserver::object;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use std::collections::BTreeSet;
use volley_plan::control::namespace::{self, Content, Observed};
use volley_plan::control::{Target, account};

const NAME: &str = "namespace-controller";

impl Shell {
    /// Deletes what is in a namespace that is being deleted, then the namespace (K-NS-1, K-NS-4).
    pub async fn sync_namespace(&self, name: &str) -> Synced {
        let Some(seen) = self.get::<Namespace>("namespaces", name) else { return Ok(None) };
        if seen.metadata.deletion_timestamp.is_none() {
            return Ok(None);
        }
        let contents = self.contents(name);
        let plan = namespace::plan(&Observed { namespace: &seen, contents: &contents }, jiff::Timestamp::now());
        self.apply(NAME, plan).await
    }

    /// Every object of a namespace, of any kind.
    fn contents(&self, namespace: &str) -> Vec<Content> {
        let catalogue = self.server.catalogue();
        let mut seen = BTreeSet::new();
        let mut contents = Vec::new();
        let prefix = format!("{namespace}/");
        // Versions of a kind, and the two groups of events, share a bucket.
        for resource in catalogue.all().filter(|r| r.namespaced && seen.insert(r.bucket.name().to_owned())) {
            for stored in self.server.store.list(&resource.bucket, &prefix).entries {
                let Some(head) = parsed::<Head>(&stored) else { continue };
                let metadata = head.metadata;
                let is_deleting = metadata.is_deleting();
                contents.push(Content {
                    target: Target {
                        api_version: resource.api_version(),
                        kind: resource.kind.to_string(),
                        namespace: Some(namespace.to_owned()),
                        name: metadata.name,
                        uid: metadata.uid,
                    },
                    group: resource.group.to_string(),
                    resource: resource.plural.to_string(),
                    finalizers: metadata.finalizers,
                    is_deleting,
                });
            }
        }
        contents
    }

    /// The account `default` and the CA's certificate, also after somebody deleted or changed them (spec K 21).
    pub async fn sync_accounts(&self, name: &str) -> Synced {
        let Some(seen) = self.get::<Namespace>("namespaces", name) else { return Ok(None) };
        let found: Option<ServiceAccount> = self.get("serviceaccounts", &object::key(name, "default"));
        let certificates: Option<ConfigMap> = self.get("configmaps", &object::key(name, "kube-root-ca.crt"));
        let observed = account::Observed {
            namespace: &seen,
            account: found.as_ref(),
            certificates: certificates.as_ref(),
            authority: &self.server.ca_pem,
        };
        self.apply("serviceaccount-controller", account::plan(&observed)).await
    }
}
