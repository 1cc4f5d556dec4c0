//! What each volume of a pod is made of, who owns it, and why it cannot be had.
//!
//! The shell looks claims up, makes what `backing` says and reports what it refuses; the texts are the kubelet's events.

use super::nfs::Share;
use super::resources::pod_cgroup;
use super::{all_containers, ephemeral_containers, later, name, namespace, spec, uid};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    EmptyDirVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec, Pod, Volume,
};
use serde::Serialize;
use serde_json::Value;
use volley_api::kube::quantity::Quantity;

/// However long a token lives, it is renewed daily.
const TOKEN_SECONDS_MAX: i64 = 24 * 3600;

/// A volume as the node has to make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backing {
    /// A folder of the pod's own on disk.
    Disk,
    /// A file system in memory, of this size at most.
    Memory {
        bytes: Option<u64>,
    },
    /// Files that the node writes; those that hold secrets never reach a disk if that can be helped.
    Written {
        is_secret: bool,
    },
    /// A path of the machine, after a check that it is what the type says.
    Host {
        path: String,
        kind: String,
    },
    /// A folder of the machine that a volume was made of.
    Local {
        path: String,
    },
    Nfs(Share),
}

/// How claims and volumes are found by name.
pub struct Lookup<'a> {
    pub claim: &'a dyn Fn(&str) -> Option<PersistentVolumeClaim>,
    pub volume: &'a dyn Fn(&str) -> Option<PersistentVolume>,
}

/// The event's text when a volume cannot be made; `name` is the volume's, or that of the persistent one behind it.
pub fn set_up_failed(name: &str, why: impl std::fmt::Display) -> String {
    format!("MountVolume.SetUp failed for volume {name:?} : {why}")
}

/// What the volume is made of, and the name under which events speak of it.
pub fn backing(pod: &Pod, volume: &Volume, lookup: &Lookup) -> Result<(String, Backing), String> {
    let failed = |why: String| set_up_failed(&volume.name, why);
    let own = |backing| Ok((volume.name.clone(), backing));
    if let Some(source) = &volume.empty_dir {
        return own(scratch(pod, source).map_err(failed)?);
    }
    if volume.config_map.is_some() || volume.downward_api.is_some() {
        return own(Backing::Written { is_secret: false });
    }
    if volume.secret.is_some() || volume.projected.is_some() {
        return own(Backing::Written { is_secret: true });
    }
    if let Some(source) = &volume.host_path {
        return own(Backing::Host { path: source.path.clone(), kind: source.type_.clone().unwrap_or_default() });
    }
    if let Some(source) = &volume.nfs {
        let is_read_only = source.read_only == Some(true);
        return own(Backing::Nfs(Share::new(&source.server, &source.path, is_read_only, &[])));
    }
    if let Some(source) = &volume.persistent_volume_claim {
        return claimed(pod, volume, &source.claim_name, lookup);
    }
    if volume.ephemeral.is_some() {
        return claimed(pod, volume, &format!("{}-{}", name(pod), volume.name), lookup);
    }
    Err(failed(unsupported(volume, &["name"])))
}

fn scratch(pod: &Pod, source: &EmptyDirVolumeSource) -> Result<Backing, String> {
    match source.medium.as_deref().unwrap_or_default() {
        "" => Ok(Backing::Disk),
        "Memory" => Ok(Backing::Memory { bytes: memory_bytes(pod, source) }),
        other => Err(format!("emptyDir of medium {other:?} is not supported on this node; use \"Memory\" or none")),
    }
}

/// The stated size, but no more than the pod may use: pages of such a volume count as the pod's memory.
pub fn memory_bytes(pod: &Pod, source: &EmptyDirVolumeSource) -> Option<u64> {
    let stated = source.size_limit.as_ref().and_then(|limit| Quantity::parse(&limit.0).ok());
    let stated = stated.and_then(|limit| u64::try_from(limit.value()).ok()).filter(|bytes| *bytes > 0);
    stated.into_iter().chain(pod_cgroup(pod, None).memory_bytes).min()
}

/// The name of the kind, for those that this node cannot make: the field that holds the source.
fn unsupported(holder: &impl Serialize, other_fields: &[&str]) -> String {
    let holder = serde_json::to_value(holder).unwrap_or(Value::Null);
    let fields = holder.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
    let kind = fields.into_iter().find(|field| !other_fields.contains(field)).unwrap_or("unknown");
    format!(
        "volumes of kind {kind:?} are not supported on this node; it has emptyDir, hostPath, configMap, secret, \
         projected, downwardAPI, nfs, and persistentVolumeClaim on hostPath, local and nfs"
    )
}

fn claimed(pod: &Pod, volume: &Volume, claim: &str, lookup: &Lookup) -> Result<(String, Backing), String> {
    let unprocessed = |why: String| {
        let names =
            format!("unmounted volumes=[{0}], unattached volumes=[], failed to process volumes=[{0}]", volume.name);
        format!("Unable to attach or mount volumes: {names}: error processing PVC {}/{claim}: {why}", namespace(pod))
    };
    let found = bound(pod, volume, claim, lookup).map_err(unprocessed)?;
    let spec = found.spec.unwrap_or_default();
    let label = found.metadata.name.unwrap_or_default();
    let is_block = spec.volume_mode.as_deref() == Some("Block");
    let mismatch = match (is_block, is_device(pod, &volume.name)) {
        (false, false) => None,
        (false, true) => Some("Filesystem, but is specified in volumeDevices"),
        (true, false) => Some("Block, but is specified in volumeMounts"),
        (true, true) => Some("Block, but this node has only file systems to give"),
    };
    if let Some(mismatch) = mismatch {
        return Err(unprocessed(format!("volume {} has volumeMode {mismatch}", volume.name)));
    }
    let is_read_only = volume.persistent_volume_claim.as_ref().is_some_and(|source| source.read_only == Some(true));
    let backing = persistent(&spec, is_read_only).map_err(|why| set_up_failed(&label, why))?;
    Ok((label, backing))
}

fn is_device(pod: &Pod, volume: &str) -> bool {
    let devices = all_containers(pod).flat_map(|(_, container)| container.volume_devices.iter().flatten());
    devices.into_iter().any(|device| device.name == volume)
}

/// The persistent volume behind a claim, once each names the other.
fn bound(pod: &Pod, volume: &Volume, name: &str, lookup: &Lookup) -> Result<PersistentVolume, String> {
    let is_ephemeral = volume.ephemeral.is_some();
    let Some(claim) = (lookup.claim)(name) else {
        let hint = "; this cluster makes no claims from ephemeral volumes: create it, owned by the pod, or use a claim";
        let hint = if is_ephemeral { hint } else { "" };
        return Err(format!("failed to fetch PVC from API server: persistentvolumeclaims {name:?} not found{hint}"));
    };
    let owners = claim.metadata.owner_references.iter().flatten();
    if is_ephemeral && !owners.into_iter().any(|owner| owner.controller == Some(true) && owner.uid == uid(pod)) {
        let (namespace, pod) = (namespace(pod), self::name(pod));
        return Err(format!("PVC {namespace}/{name} was not created for pod {namespace}/{pod} (pod is not owner)"));
    }
    if claim.metadata.deletion_timestamp.is_some() {
        return Err("PVC is being deleted".to_owned());
    }
    if claim.status.as_ref().and_then(|status| status.phase.as_deref()) != Some("Bound") {
        return Err("PVC is not bound".to_owned());
    }
    let chosen = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default();
    if chosen.is_empty() {
        return Err("PVC has empty pvc.Spec.VolumeName".to_owned());
    }
    let missing = || format!("failed to fetch PV {chosen} from API server: persistentvolumes {chosen:?} not found");
    let found = (lookup.volume)(chosen).ok_or_else(missing)?;
    let Some(reference) = found.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        let why = "but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim";
        return Err(format!("found PV object {chosen} {why}"));
    };
    if reference.uid != claim.metadata.uid {
        let (there, here) = (reference.uid.as_deref(), claim.metadata.uid.as_deref());
        let (there, here) = (there.unwrap_or_default(), here.unwrap_or_default());
        let why = format!("but its pv.Spec.ClaimRef.UID {there} does not point to claim.UID {here}");
        return Err(format!("found PV object {chosen} {why}"));
    }
    Ok(found)
}

/// Fields of a persistent volume that are not its source.
const VOLUME_FIELDS: [&str; 9] = [
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
];

fn persistent(spec: &PersistentVolumeSpec, is_read_only: bool) -> Result<Backing, String> {
    if let Some(source) = &spec.host_path {
        return Ok(Backing::Host { path: source.path.clone(), kind: source.type_.clone().unwrap_or_default() });
    }
    if let Some(source) = &spec.local {
        return Ok(Backing::Local { path: source.path.clone() });
    }
    if let Some(source) = &spec.nfs {
        let is_read_only = is_read_only || source.read_only == Some(true);
        let options = spec.mount_options.as_deref().unwrap_or_default();
        return Ok(Backing::Nfs(Share::new(&source.server, &source.path, is_read_only, options)));
    }
    Err(unsupported(spec, &VOLUME_FIELDS))
}

/// Whom the files of a pod's volumes belong to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ownership {
    /// `fsGroup`.
    pub group: Option<u32>,
    /// Leaves a tree as it is whose root is right already.
    pub only_on_mismatch: bool,
    /// The user of all containers, if they have one in common: tokens are this user's.
    pub user: Option<u32>,
}

pub fn ownership(pod: &Pod) -> Ownership {
    let context = spec(pod).and_then(|spec| spec.security_context.as_ref());
    let number = |id: Option<i64>| id.and_then(|id| u32::try_from(id).ok());
    let pod_user = number(context.and_then(|context| context.run_as_user));
    let mut users = all_containers(pod).map(|(_, container)| {
        number(container.security_context.as_ref().and_then(|context| context.run_as_user)).or(pod_user)
    });
    let first = users.next().flatten();
    let policy = context.and_then(|context| context.fs_group_change_policy.as_deref());
    Ownership {
        group: number(context.and_then(|context| context.fs_group)),
        only_on_mismatch: policy == Some("OnRootMismatch"),
        user: first.filter(|_| users.all(|user| user == first)),
    }
}

impl Ownership {
    /// A token is for its user's eyes only, if there is one to own it.
    pub fn token_mode(&self, mode: u32) -> u32 {
        if self.user.is_some() || self.group.is_some() { 0o600 } else { mode }
    }

    /// What a mode becomes so that the group can use the file as the volume's kind allows.
    pub fn shared_mode(mode: u32, is_folder: bool, is_read_only: bool) -> u32 {
        let group = if is_read_only { 0o440 } else { 0o660 };
        mode | group | if is_folder { 0o2110 } else { 0 }
    }
}

/// When a token is replaced: after four fifths of its life.
pub fn token_renewal(issued: Timestamp, expires: Timestamp) -> Timestamp {
    let seconds = expires.as_second().saturating_sub(issued.as_second());
    later(issued, (seconds / 5 * 4).min(TOKEN_SECONDS_MAX))
}

/// Whether each container can be given a memory file system of its own in place of one that they share.
pub fn is_private(pod: &Pod, volume: &str) -> bool {
    let ephemerals = ephemeral_containers(pod);
    let containers = all_containers(pod).map(|(_, container)| container).chain(&ephemerals);
    let mounts = containers.flat_map(|container| container.volume_mounts.iter().flatten());
    let uses: Vec<_> = mounts.filter(|mount| mount.name == volume).collect();
    uses.len() < 2 && uses.iter().all(|mount| mount.sub_path.is_none() && mount.sub_path_expr.is_none())
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
