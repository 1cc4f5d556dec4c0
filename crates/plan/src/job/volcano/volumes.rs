//! The claims of a Job (spec/volcano.md 3.6): made for it, or made by the user and waited for.

use super::round::Round;
use crate::control::{Action, Plan};
use crate::job::fingerprint::suffix;
use serde_json::{Value, json};
use volley_api::kube::text;

/// The claim of a volume; a name that we make up follows from the Job's uid, so that no second one is ever made.
pub fn claim_name(round: &Round, index: usize) -> String {
    let given = &round.spec.volumes[index].volume_claim_name;
    if given.is_empty() {
        format!("{}-pvc-{}", round.head.name(), suffix(&format!("{}/{index}", round.head.uid())))
    } else {
        given.clone()
    }
}

/// Writes the names of claims that are to be made into the spec; true when there is such a name to write.
///
/// Lists are replaced whole, so the patch is refused if the Job has changed meanwhile.
pub fn name_claims(round: &Round, plan: &mut Plan) -> bool {
    if round.spec.volumes.iter().all(|volume| !volume.volume_claim_name.is_empty()) {
        return false;
    }
    let mut volumes = round.seen.job["spec"]["volumes"].clone();
    for (index, volume) in volumes.as_array_mut().into_iter().flatten().enumerate() {
        volume["volumeClaimName"] = json!(claim_name(round, index));
    }
    let metadata = json!({ "resourceVersion": round.head.resource_version });
    let patch = json!({ "metadata": metadata, "spec": { "volumes": volumes } });
    plan.actions.push(Action::Patch { target: round.head.target.clone(), patch });
    true
}

/// Makes the claims that are missing; false while the Job has to wait for one of the user's.
pub fn ensure(round: &mut Round, plan: &mut Plan) -> bool {
    for index in 0..round.spec.volumes.len() {
        let name = claim_name(round, index);
        let is_claim =
            |object: &Value| text(object, "kind") == "PersistentVolumeClaim" && text(object, "metadata.name") == name;
        let exists = round.seen.objects.iter().any(is_claim);
        match &round.spec.volumes[index].volume_claim {
            Some(spec) if !exists => {
                let metadata = round.head.owned(&name);
                let object =
                    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec });
                plan.actions.push(Action::Create { object, event: None });
            }
            None if !exists => {
                let problem = format!("Failed to create PVC, err: persistentvolumeclaim \"{name}\" not found");
                round.wait(plan, "PVCError", problem);
                return false;
            }
            Some(_) | None => {}
        }
        round.status.controlled_resources.insert(format!("volume-pvc-{name}"), name);
    }
    true
}
