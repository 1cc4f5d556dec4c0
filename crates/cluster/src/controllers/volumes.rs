//! Volumes, the shell: binds claims, and makes and removes the directories of provisioned volumes (K-VOL-1).

use super::Shell;
use super::apply::{SyncError, Synced};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use volley_api::kube::text;
use volley_plan::bootstrap::PROVISIONER;
use volley_plan::control::{Action, Plan, volumes};

impl Shell {
    /// All claims and volumes at once: a volume can be promised only once.
    pub async fn sync_volumes(&self) -> Synced {
        let users: Vec<Arc<str>> = self.look().index.claim_users.iter().cloned().collect();
        self.remove_directories().await;
        let claims: Vec<PersistentVolumeClaim> = self.list("persistentvolumeclaims", "");
        let found: Vec<PersistentVolume> = self.list("persistentvolumes", "");
        let classes: Vec<StorageClass> = self.list("storage.k8s.io/storageclasses", "");
        let pods: Vec<Pod> = self.load("pods", &users);
        let directory = self.volumes_directory();
        let reported = self.reported_claims.lock().clone();
        let observed = volumes::Observed {
            claims: &claims,
            volumes: &found,
            classes: &classes,
            pods: &pods,
            provisioner: PROVISIONER,
            directory: &directory.to_string_lossy(),
            reported: &reported,
        };
        let plan = volumes::plan(&observed, Timestamp::now());
        make_directories(&directory, &plan).await?;
        let said: Vec<(String, String)> =
            plan.events.iter().map(|event| (event.about.uid.clone(), event.reason.clone())).collect();
        let result = self.apply("persistentvolume-controller", plan).await?;
        let alive: BTreeSet<&String> = claims.iter().filter_map(|claim| claim.metadata.uid.as_ref()).collect();
        let mut reported = self.reported_claims.lock();
        reported.extend(said);
        reported.retain(|uid, _| alive.contains(uid));
        Ok(result)
    }

    fn volumes_directory(&self) -> PathBuf {
        self.home.join("volumes")
    }

    /// Removes what the volumes held that were deleted together with their claims.
    async fn remove_directories(&self) {
        let removed = std::mem::take(&mut self.look().index.removed_volumes);
        for name in removed {
            let path = self.volumes_directory().join(&name);
            match tokio::fs::remove_dir_all(&path).await {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    // The volume is gone, so nothing asks again; what is left is named for its owner to remove.
                    tracing::warn!(path = %path.display(), %source, "a deleted volume's directory could not be removed");
                }
                _ => {}
            }
        }
    }
}

async fn make_directories(directory: &Path, plan: &Plan) -> Result<(), SyncError> {
    for action in &plan.actions {
        let Action::Create { object, .. } = action else { continue };
        let path = directory.join(text(object, "metadata.name"));
        let made = async {
            tokio::fs::create_dir_all(&path).await?;
            // Pods of any user may write, as with the usual host-path provisioners.
            tokio::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).await
        };
        made.await.map_err(|source| SyncError::Machine { action: format!("make `{}`", path.display()), source })?;
    }
    Ok(())
}
