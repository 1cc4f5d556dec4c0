//! What a plain Job is given where its config is silent, and what makes every container of any workload harmless.

use super::order::Order;
use super::walk;
use serde_json::{Value, json};

/// Finished Jobs go a minute after their end, and nothing is tried twice, unless the queue says otherwise.
const TTL_SECONDS: u32 = 60;

pub fn job(workload: &mut Value, order: &Order) {
    fill(workload, "/spec", "backoffLimit", json!(0));
    fill(workload, "/spec", "ttlSecondsAfterFinished", json!(TTL_SECONDS));
    fill(workload, "/spec/template/spec", "restartPolicy", json!("Never"));
    let has_containers = workload.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    if has_containers.is_none_or(Vec::is_empty) {
        let spec = workload.pointer_mut("/spec/template/spec").expect("`fill` has made it");
        spec["containers"] = json!([{}]);
    }
    let spec = workload.pointer_mut("/spec/template/spec").expect("`fill` has made it");
    let containers = spec["containers"].as_array_mut().expect("made above where it was not there");
    for (index, container) in containers.iter_mut().filter(|container| container.is_object()).enumerate() {
        if container.get("name").is_none() {
            container["name"] = json!(format!("launch{index}"));
        }
    }
    put_image(workload, order);
}

/// The job's image goes to the main container; the image of code without one only where nobody has chosen any.
fn put_image(workload: &mut Value, order: &Order) {
    let Some(image) = &order.image else { return };
    let main = super::identity::main_container(workload, "/spec/template", Some(image));
    let containers = workload.pointer_mut("/spec/template/spec/containers").and_then(Value::as_array_mut);
    let Some(containers) = containers else { return };
    let has_any_image = containers.iter().any(|container| container.get("image").is_some());
    if order.is_image_job || !has_any_image {
        containers[main]["image"] = json!(image);
    }
}

/// Makes the objects on the way and sets a key that is not there.
fn fill(object: &mut Value, pointer: &str, key: &str, value: Value) {
    let mut at = object;
    for step in pointer.split('/').skip(1) {
        if !at[step].is_object() {
            at[step] = json!({});
        }
        at = &mut at[step];
    }
    if at.get(key).is_none() {
        at[key] = value;
    }
}

/// No privilege escalation, no capabilities, the runtime's seccomp profile: for every container, as far as an admin who
/// may do so has not said otherwise.
pub fn security(workload: &mut Value) {
    for place in walk::pod_specs(workload) {
        let Some(spec) = workload.pointer_mut(&place.pointer) else { continue };
        for container in walk::containers_mut(spec, &walk::ALL_LISTS) {
            secure(container);
        }
    }
}

fn secure(container: &mut Value) {
    if !container["securityContext"].is_object() {
        container["securityContext"] = json!({});
    }
    let context = &mut container["securityContext"];
    // Kubernetes refuses a container that is privileged and may not escalate.
    if context["privileged"] != true {
        fill(context, "", "allowPrivilegeEscalation", json!(false));
    }
    fill(context, "/capabilities", "drop", json!(["ALL"]));
    fill(context, "", "seccompProfile", json!({ "type": "RuntimeDefault" }));
    // Reading a key of a mutable value leaves a null there.
    if let Some(members) = context.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
}
