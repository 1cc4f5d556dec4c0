//! Deleted CRDs, the shell: their instances go first, finalizers honoured, then the CRD itself (K-CRD-3).

use super::Shell;
use super::apply::{SyncError, Synced};
use super::facts::{Head, parsed};
use crate::apiserver::catalogue::bucket_name;
use jiff::Timestamp;
use serde_json::{Value, json};
use volley_api::kube::text;
use volley_plan::control::{Action, Propagation, Target};
use volley_plan::custom::definition::terminating_status;

const NAME: &str = "customresource-controller";
const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

impl Shell {
    pub async fn sync_definition(&self, name: &str) -> Synced {
        let Some(crd) = self.get::<Value>(&bucket_name(GROUP, PLURAL), name) else { return Ok(None) };
        let finalizers: Vec<&str> =
            crd["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if crd["metadata"].get("deletionTimestamp").is_none() || !finalizers.contains(&FINALIZER) {
            return Ok(None);
        }
        let local = self.server.local(NAME);
        let status = terminating_status(&crd, Timestamp::now());
        if crd["status"] != status {
            let patched = local.patch_status(GROUP, PLURAL, "", name, json!({"status": status})).await;
            patched.map_err(|error| SyncError::of(format!("say that CRD `{name}` is going"), error))?;
        }
        let (group, plural) = (text(&crd, "spec.group"), text(&crd, "spec.names.plural"));
        let bucket = self.server.store.bucket(&bucket_name(group, plural));
        let instances = self.server.store.list(&bucket, "").entries;
        if instances.is_empty() {
            let kept: Vec<&&str> = finalizers.iter().filter(|finalizer| **finalizer != FINALIZER).collect();
            let patch = json!({"metadata": {"finalizers": kept, "uid": crd["metadata"]["uid"]}});
            let patched = local.patch(GROUP, PLURAL, "", name, patch).await;
            return patched.map(|_| None).map_err(|error| SyncError::of(format!("let CRD `{name}` go"), error));
        }
        let heads = instances.iter().filter_map(|stored| parsed::<Head>(stored));
        let deletes = heads.filter(|head| !head.metadata.is_deleting()).map(delete).collect();
        self.apply_each(NAME, deletes).await?;
        Ok(None)
    }
}

fn delete(head: Head) -> Action {
    let Head { api_version, kind, metadata } = head;
    let namespace = Some(metadata.namespace).filter(|namespace| !namespace.is_empty());
    let target = Target { api_version, kind, namespace, name: metadata.name, uid: metadata.uid };
    Action::Delete { target, propagation: Propagation::Background }
}
