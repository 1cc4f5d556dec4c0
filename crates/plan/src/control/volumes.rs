//! The volume controller: binds claims to volumes, makes host-path volumes for its classes, lets go of them (K-VOL-1).
//!
//! Called with all claims, volumes and classes, and the pods that may use claims. The shell says where volumes live;
//! it makes and removes the directories of volumes that carry its provisioner's name.

use super::claim::selects;
use super::without_finalizer;
use super::{Action, Plan, Target, Voice, difference, has_finalizer, name_of, pods, to_value, uid_of, wire_time};
use crate::gang::volumes::SELECTED_NODE;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    HostPathVolumeSource, ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
    PersistentVolumeStatus, Pod,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{Metadata, Resource};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use volley_api::kube::quantity::Quantity;

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
const COMPONENT: &str = "persistentvolume-controller";

#[derive(Debug)]
pub struct Observed<'a> {
    pub claims: &'a [PersistentVolumeClaim],
    pub volumes: &'a [PersistentVolume],
    pub classes: &'a [StorageClass],
    pub pods: &'a [Pod],
    /// The provisioner whose classes this controller serves, and the directory that holds its volumes.
    pub provisioner: &'a str,
    pub directory: &'a str,
    /// By claim uid, the reason that was last reported for its waiting: it is said once, not at every visit.
    pub reported: &'a BTreeMap<String, String>,
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let in_use = claims_in_use(seen.pods, |_| true);
    let has_node =
        |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).is_some_and(|n| !n.is_empty());
    let placed = claims_in_use(seen.pods, has_node);
    let by_key: ClaimsByKey = seen.claims.iter().map(|claim| (key(&claim.metadata), claim)).collect();
    for volume in seen.volumes {
        let is_bound = phase(volume) == "Bound" && claim_of(&by_key, volume).is_some();
        protect(volume, VOLUME_FINALIZER, is_bound, &mut plan);
    }
    for claim in seen.claims {
        protect(claim, CLAIM_FINALIZER, in_use.contains(&key(&claim.metadata)), &mut plan);
    }
    if !plan.is_empty() {
        // What has just been written must be seen again before it is bound.
        return plan;
    }
    let mut taken = BTreeSet::new();
    // The oldest claim chooses first.
    let mut claims: Vec<&PersistentVolumeClaim> = seen.claims.iter().collect();
    claims.sort_by_key(|claim| (claim.metadata.creation_timestamp.clone(), claim.metadata.uid.clone()));
    for claim in claims.into_iter().filter(|claim| claim.metadata.deletion_timestamp.is_none()) {
        let is_told = annotation(&claim.metadata, SELECTED_NODE).is_some_and(|node| !node.is_empty());
        let is_placed = is_told || placed.contains(&key(&claim.metadata));
        settle_claim(seen, &Wish { claim, is_placed }, &mut taken, now, &mut plan);
    }
    for volume in seen.volumes.iter().filter(|volume| volume.metadata.deletion_timestamp.is_none()) {
        if !taken.contains(name_of(&volume.metadata)) {
            settle_volume(seen.provisioner, volume, claim_of(&by_key, volume), now, &mut plan);
        }
    }
    plan
}

/// Claims by namespace and name.
type ClaimsByKey<'a> = BTreeMap<(String, String), &'a PersistentVolumeClaim>;

fn key(metadata: &ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn claims_in_use(all: &[Pod], counts: impl Fn(&Pod) -> bool) -> BTreeSet<(String, String)> {
    let mut used = BTreeSet::new();
    for pod in all.iter().filter(|pod| !pods::is_terminal(pod) && counts(pod)) {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        for volume in pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten()) {
            let generated = volume.ephemeral.as_ref().map(|_| format!("{}-{}", name_of(&pod.metadata), volume.name));
            let named = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
            used.extend(named.or(generated).map(|claim| (namespace.clone(), claim)));
        }
    }
    used
}

/// Holds an object back from deletion while it is needed.
fn protect<T>(object: &T, finalizer: &str, is_needed: bool, plan: &mut Plan)
where
    T: Resource + Metadata<Ty = ObjectMeta>,
{
    let metadata = object.metadata();
    let is_protected = has_finalizer(metadata, finalizer);
    if metadata.deletion_timestamp.is_some() {
        if is_protected && !is_needed {
            plan.actions.push(without_finalizer(object, finalizer));
        }
    } else if !is_protected {
        let mut finalizers = metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(finalizer.to_owned());
        let patch = json!({ "metadata": { "finalizers": finalizers, "resourceVersion": metadata.resource_version } });
        plan.actions.push(Action::Patch { target: Target::of(object), patch });
    }
}

fn annotation<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn phase(volume: &PersistentVolume) -> &str {
    volume.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn spec(volume: &PersistentVolume) -> PersistentVolumeSpec {
    volume.spec.clone().unwrap_or_default()
}

fn class_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or_default()
}

/// Whether the volume is this claim's: reserved by name, and by uid once it has been bound.
fn is_reserved_for(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        return false;
    };
    let has_name = reference.name == claim.metadata.name && reference.namespace == claim.metadata.namespace;
    let uid = reference.uid.as_deref().unwrap_or_default();
    has_name && (uid.is_empty() || uid == uid_of(&claim.metadata))
}

fn claim_of<'a>(claims: &ClaimsByKey<'a>, volume: &PersistentVolume) -> Option<&'a PersistentVolumeClaim> {
    let reference = volume.spec.as_ref()?.claim_ref.as_ref()?;
    let key = (reference.namespace.clone().unwrap_or_default(), reference.name.clone().unwrap_or_default());
    claims.get(&key).copied().filter(|claim| is_reserved_for(volume, claim))
}

/// A claim, and whether it is known where a pod will use it: the scheduler has told it, or the pod is there already.
struct Wish<'a> {
    claim: &'a PersistentVolumeClaim,
    is_placed: bool,
}

fn settle_claim(seen: &Observed, wish: &Wish, taken: &mut BTreeSet<String>, now: Timestamp, plan: &mut Plan) {
    let claim = wish.claim;
    let chosen = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|name| !name.is_empty());
    let is_completed = annotation(&claim.metadata, BIND_COMPLETED).is_some();
    let found = chosen.and_then(|name| seen.volumes.iter().find(|volume| name_of(&volume.metadata) == name));
    let is_free = |volume: &PersistentVolume| volume.spec.as_ref().is_none_or(|spec| spec.claim_ref.is_none());
    match (chosen, found) {
        (Some(_), Some(volume)) if is_reserved_for(volume, claim) || is_free(volume) => {
            taken.insert(name_of(&volume.metadata).to_owned());
            bind(claim, volume, now, plan);
        }
        (Some(_), Some(_)) if is_completed => {
            lose(
                claim,
                "ClaimMisbound",
                "Two claims are bound to the same volume, this one is bound incorrectly",
                plan,
            );
        }
        (Some(name), Some(_)) => {
            let message = format!("volume \"{name}\" already bound to a different claim.");
            wait(seen, claim, Wait::Normal("FailedBinding"), message, plan);
        }
        (_, None) if is_completed => {
            lose(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!", plan);
        }
        (Some(_), None) => pend(claim, plan),
        (None, _) => match best_volume(seen, wish, taken) {
            Some(volume) => {
                taken.insert(name_of(&volume.metadata).to_owned());
                bind(claim, volume, now, plan);
            }
            None => provision(seen, wish, plan),
        },
    }
}

fn waits_for_consumer(seen: &Observed, claim: &PersistentVolumeClaim) -> bool {
    let class = seen.classes.iter().find(|class| name_of(&class.metadata) == class_name(claim));
    class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
}

/// A volume reserved for the claim, else the smallest one that fits. For a claim that waits for its pod the scheduler
/// reserves one, if there is one where the pod goes.
fn best_volume<'a>(seen: &Observed<'a>, wish: &Wish, taken: &BTreeSet<String>) -> Option<&'a PersistentVolume> {
    let Wish { claim, is_placed } = *wish;
    let open = seen
        .volumes
        .iter()
        .filter(|volume| volume.metadata.deletion_timestamp.is_none() && !taken.contains(name_of(&volume.metadata)));
    if let Some(reserved) = open.clone().find(|volume| is_reserved_for(volume, claim)) {
        return Some(reserved);
    }
    if waits_for_consumer(seen, claim) && !is_placed {
        return None;
    }
    let free = open.filter(|volume| matches!(phase(volume), "" | "Pending" | "Available") && fits(volume, claim));
    free.min_by_key(|volume| (capacity(volume), name_of(&volume.metadata)))
}

fn capacity(volume: &PersistentVolume) -> Quantity {
    let text = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    text.and_then(|quantity| Quantity::parse(&quantity.0).ok()).unwrap_or(Quantity::ZERO)
}

fn request(claim: &PersistentVolumeClaim) -> Option<String> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    resources.requests.as_ref()?.get("storage").map(|quantity| quantity.0.clone())
}

fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let (offer, wish) = (spec(volume), claim.spec.clone().unwrap_or_default());
    let asked = request(claim).and_then(|text| Quantity::parse(&text).ok()).unwrap_or(Quantity::ZERO);
    let modes = offer.access_modes.unwrap_or_default();
    let mode = |mode: Option<String>| mode.unwrap_or_else(|| "Filesystem".to_owned());
    offer.claim_ref.is_none()
        && offer.storage_class_name.unwrap_or_default() == class_name(claim)
        && wish.access_modes.iter().flatten().all(|wanted| modes.contains(wanted))
        && mode(offer.volume_mode) == mode(wish.volume_mode)
        && capacity(volume) >= asked
        && wish.selector.as_ref().is_none_or(|selector| selects(selector, volume.metadata.labels.as_ref()))
}

fn claim_reference(claim: &PersistentVolumeClaim) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("PersistentVolumeClaim".to_owned()),
        namespace: claim.metadata.namespace.clone(),
        name: claim.metadata.name.clone(),
        uid: claim.metadata.uid.clone(),
        resource_version: claim.metadata.resource_version.clone(),
        ..ObjectReference::default()
    }
}

/// Brings both sides of a binding to their final state, the volume first: a volume promised once is not given twice.
fn bind(claim: &PersistentVolumeClaim, volume: &PersistentVolume, now: Timestamp, plan: &mut Plan) {
    let mut bound = volume.clone();
    let reference = bound.spec.get_or_insert_default().claim_ref.take();
    if reference.is_none() {
        bound.metadata.annotations.get_or_insert_default().insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
    }
    let is_final = reference.as_ref().is_some_and(|reference| reference.uid == claim.metadata.uid);
    let claim_ref = reference.filter(|_| is_final).unwrap_or_else(|| claim_reference(claim));
    bound.spec.get_or_insert_default().claim_ref = Some(claim_ref);
    patch_if_changed(volume, &bound, plan);
    set_phase(volume, "Bound", now, plan);

    let mut done = claim.clone();
    let annotations = done.metadata.annotations.get_or_insert_default();
    annotations.insert(BIND_COMPLETED.to_owned(), "yes".to_owned());
    let claim_spec = done.spec.get_or_insert_default();
    if claim_spec.volume_name.as_deref().unwrap_or_default().is_empty() {
        annotations.insert(BOUND_BY_CONTROLLER.to_owned(), "yes".to_owned());
        claim_spec.volume_name = volume.metadata.name.clone();
    }
    patch_if_changed(claim, &done, plan);
    let offer = spec(volume);
    let mut status = claim.status.clone().unwrap_or_default();
    let was_bound = status.phase.as_deref() == Some("Bound");
    status.phase = Some("Bound".to_owned());
    status.access_modes = offer.access_modes;
    // A bound claim may have grown beyond what the volume said at first; growth is not undone.
    if !was_bound || status.capacity.is_none() {
        status.capacity = offer.capacity;
    }
    plan.status(claim, claim.status.as_ref(), &status);
}

fn patch_if_changed<T>(before: &T, after: &T, plan: &mut Plan)
where
    T: Resource + Metadata<Ty = ObjectMeta> + serde::Serialize,
{
    if let Some(mut patch) = difference(&to_value(before), &to_value(after)) {
        patch["metadata"]["resourceVersion"] = json!(before.metadata().resource_version);
        plan.actions.push(Action::Patch { target: Target::of(before), patch });
    }
}

fn set_phase(volume: &PersistentVolume, phase_wanted: &str, now: Timestamp, plan: &mut Plan) {
    if phase(volume) != phase_wanted {
        let status = PersistentVolumeStatus {
            phase: Some(phase_wanted.to_owned()),
            last_phase_transition_time: Some(wire_time(now)),
            ..volume.status.clone().unwrap_or_default()
        };
        plan.status(volume, volume.status.as_ref(), &status);
    }
}

fn set_claim_phase(claim: &PersistentVolumeClaim, phase: &str, plan: &mut Plan) -> bool {
    let mut status = claim.status.clone().unwrap_or_default();
    let is_new = status.phase.as_deref() != Some(phase);
    status.phase = Some(phase.to_owned());
    plan.status(claim, claim.status.as_ref(), &status);
    is_new
}

fn pend(claim: &PersistentVolumeClaim, plan: &mut Plan) {
    set_claim_phase(claim, "Pending", plan);
}

fn lose(claim: &PersistentVolumeClaim, reason: &str, message: &str, plan: &mut Plan) {
    if set_claim_phase(claim, "Lost", plan) {
        plan.events.push(Voice::new(claim, COMPONENT).warning(reason, message));
    }
}

enum Wait<'a> {
    Normal(&'a str),
    Warning(&'a str),
}

/// Leaves the claim pending and says why, unless that was the last thing said about it.
fn wait(seen: &Observed, claim: &PersistentVolumeClaim, why: Wait, message: String, plan: &mut Plan) {
    pend(claim, plan);
    let (Wait::Normal(reason) | Wait::Warning(reason)) = why;
    if seen.reported.get(uid_of(&claim.metadata)).map(String::as_str) == Some(reason) {
        return;
    }
    let voice = Voice::new(claim, COMPONENT);
    plan.events.push(match why {
        Wait::Normal(reason) => voice.normal(reason, message),
        Wait::Warning(reason) => voice.warning(reason, message),
    });
}

/// Makes a volume for a claim that none fits, if its class is ours; else says what it waits for.
fn provision(seen: &Observed, wish: &Wish, plan: &mut Plan) {
    let Wish { claim, is_placed } = *wish;
    let name = class_name(claim);
    if waits_for_consumer(seen, claim) && !is_placed {
        let message = "waiting for first consumer to be created before binding".to_owned();
        return wait(seen, claim, Wait::Normal("WaitForFirstConsumer"), message, plan);
    }
    if name.is_empty() {
        let message = "no persistent volumes available for this claim and no storage class is set".to_owned();
        return wait(seen, claim, Wait::Normal("FailedBinding"), message, plan);
    }
    let Some(class) = seen.classes.iter().find(|class| name_of(&class.metadata) == name) else {
        let message = format!("storageclass.storage.k8s.io \"{name}\" not found");
        return wait(seen, claim, Wait::Warning("ProvisioningFailed"), message, plan);
    };
    if class.provisioner == seen.provisioner {
        return make_volume(seen, claim, class, plan);
    }
    if class.provisioner == "kubernetes.io/no-provisioner" {
        let message = "no persistent volumes available for this claim and no storage class is set".to_owned();
        return wait(seen, claim, Wait::Normal("FailedBinding"), message, plan);
    }
    let message = format!(
        "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system \
         administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
         registered.",
        class.provisioner
    );
    wait(seen, claim, Wait::Normal("ExternalProvisioning"), message, plan);
}

fn make_volume(seen: &Observed, claim: &PersistentVolumeClaim, class: &StorageClass, plan: &mut Plan) {
    let name = format!("pvc-{}", uid_of(&claim.metadata));
    let wish = claim.spec.clone().unwrap_or_default();
    let source = HostPathVolumeSource {
        path: format!("{}/{name}", seen.directory.trim_end_matches('/')),
        type_: Some("DirectoryOrCreate".to_owned()),
    };
    let volume = PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some(BTreeMap::from([(PROVISIONED_BY.to_owned(), seen.provisioner.to_owned())])),
            finalizers: Some(vec![VOLUME_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity: wish.resources.and_then(|resources| resources.requests),
            access_modes: wish.access_modes,
            host_path: Some(source),
            claim_ref: Some(claim_reference(claim)),
            mount_options: class.mount_options.clone(),
            persistent_volume_reclaim_policy: Some(class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned())),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: Some(wish.volume_mode.unwrap_or_else(|| "Filesystem".to_owned())),
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    };
    pend(claim, plan);
    plan.write(None, &volume);
    let voice = Voice::new(claim, COMPONENT);
    plan.events.push(voice.normal("ProvisioningSucceeded", format!("Successfully provisioned volume {name}")));
}

/// What a volume is when no claim takes it in this round: free, or left behind by its claim.
fn settle_volume(
    provisioner: &str,
    volume: &PersistentVolume,
    claim: Option<&PersistentVolumeClaim>,
    now: Timestamp,
    plan: &mut Plan,
) {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    let was_bound = reference.is_some_and(|reference| reference.uid.as_ref().is_some_and(|uid| !uid.is_empty()));
    if !was_bound {
        return set_phase(volume, "Available", now, plan);
    }
    if claim.is_some() {
        // Its claim is being deleted or bound elsewhere; the next look decides.
        return;
    }
    set_phase(volume, "Released", now, plan);
    let is_ours = annotation(&volume.metadata, PROVISIONED_BY) == Some(provisioner);
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    if is_ours && policy == Some("Delete") {
        plan.delete(Target::of(volume));
    }
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
