//! The containers of a pod: what all of them share, and what only regular, init or ephemeral ones may have.

use super::path::Path;
use super::pod::Context;
use super::pod_env::environment;
use super::pod_probe::probes_and_hooks;
use super::pod_resources::{Asker, resources};
use super::pod_security::container_security;
use super::pod_volumes::{descending, no_backsteps};
use super::read::{complain, flag, given, integer, list, one_of, required, required_name, string};
use crate::kube::field::FieldError;
use crate::kube::names;
use serde_json::Value;
use std::collections::BTreeSet;

/// All three lists of containers in the spec at `path`.
pub(super) fn containers(errors: &mut Vec<FieldError>, context: &Context, path: &Path) {
    let regular = list(context.spec, "containers");
    let at = path.field("containers");
    if regular.is_empty() {
        errors.push(FieldError::required(at, ""));
    }
    let mut taken = BTreeSet::new();
    let mut host_ports = BTreeSet::new();
    for (index, container) in regular.iter().enumerate() {
        let path = at.index(index);
        common(errors, container, &path, context);
        unique_name(errors, container, &path, &mut taken);
        probes_and_hooks(errors, container, &path, context.grace);
        restart_policy(errors, container, &path);
        host_port_conflicts(errors, container, &path, &mut host_ports);
    }
    let at = path.field("initContainers");
    for (index, container) in list(context.spec, "initContainers").iter().enumerate() {
        init_container(errors, container, &at, (index, context), &mut taken);
    }
    let at = path.field("ephemeralContainers");
    let others = taken.clone();
    for (index, container) in list(context.spec, "ephemeralContainers").iter().enumerate() {
        let path = at.index(index);
        common(errors, container, &path, context);
        trimmed_image(errors, container, &path);
        unique_name(errors, container, &path, &mut taken);
        let target = string(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(path.field("targetContainerName"), target));
        }
        ephemeral_only(errors, container, &path);
    }
}

fn unique_name<'a>(errors: &mut Vec<FieldError>, container: &'a Value, path: &Path, taken: &mut BTreeSet<&'a str>) {
    let name = string(container, "name");
    if !taken.insert(name) {
        errors.push(FieldError::duplicate(path.field("name"), name));
    }
}

fn init_container<'a>(
    errors: &mut Vec<FieldError>,
    container: &'a Value,
    list_path: &Path,
    (index, context): (usize, &Context),
    taken: &mut BTreeSet<&'a str>,
) {
    let path = list_path.index(index);
    common(errors, container, &path, context);
    let is_sidecar = string(container, "restartPolicy") == "Always";
    if is_sidecar && !list(container, "restartPolicyRules").is_empty() {
        let detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
        errors.push(FieldError::forbidden(path.field("restartPolicyRules"), detail));
    } else {
        restart_policy(errors, container, &path);
    }
    unique_name(errors, container, &path, taken);
    // Init containers run one by one, so each is looked at alone; the reference then counts it as the first.
    host_port_conflicts(errors, container, &list_path.index(0), &mut BTreeSet::new());
    if is_sidecar {
        probes_and_hooks(errors, container, &path, context.grace);
        return;
    }
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        if given(container, key).is_some() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(FieldError::forbidden(path.field(key), detail));
        }
    }
}

fn ephemeral_only(errors: &mut Vec<FieldError>, container: &Value, path: &Path) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    const REFUSED: &[&str] = &[
        "ports",
        "resources",
        "livenessProbe",
        "readinessProbe",
        "startupProbe",
        "lifecycle",
        "resizePolicy",
        "restartPolicy",
        "restartPolicyRules",
    ];
    let is_set = |value: &&Value| match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        other => !other.is_null(),
    };
    for key in REFUSED {
        if given(container, key).filter(is_set).is_some() {
            errors.push(FieldError::forbidden(path.field(key), DETAIL));
        }
    }
    let mounts = path.field("volumeMounts");
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        for key in ["subPath", "subPathExpr"] {
            if !string(mount, key).is_empty() {
                errors.push(FieldError::forbidden(mounts.index(index).field(key), DETAIL));
            }
        }
    }
}

/// What holds for every container.
fn common(errors: &mut Vec<FieldError>, container: &Value, path: &Path, context: &Context) {
    required_name(errors, &container["name"], &path.field("name"), names::dns_label);
    required(errors, container, path, &["image"]);
    enumerated(errors, container, path, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"]);
    ports(errors, list(container, "ports"), &path.field("ports"));
    environment(errors, container, path);
    mounts(errors, container, &path.field("volumeMounts"), context);
    devices(errors, container, &path.field("volumeDevices"), context);
    pull_policy(errors, container, path, "imagePullPolicy");
    resources(errors, &container["resources"], &path.field("resources"), Asker::Container, &context.claims);
    resize_policy(errors, list(container, "resizePolicy"), &path.field("resizePolicy"), context);
    container_security(errors, &container["securityContext"], &path.field("securityContext"), context.has_host_users);
}

/// A field that must be given and be one of `supported`.
pub(super) fn enumerated(errors: &mut Vec<FieldError>, object: &Value, path: &Path, key: &str, supported: &[&str]) {
    if string(object, key).is_empty() {
        errors.push(FieldError::required(path.field(key), ""));
    } else {
        one_of(errors, object, path, key, supported);
    }
}

pub(super) fn pull_policy(errors: &mut Vec<FieldError>, object: &Value, path: &Path, key: &str) {
    enumerated(errors, object, path, key, &["Always", "IfNotPresent", "Never"]);
}

/// Pods, but not templates, refuse blanks around the image.
pub(super) fn trimmed_image(errors: &mut Vec<FieldError>, container: &Value, path: &Path) {
    let image = string(container, "image");
    if image.trim().len() != image.len() {
        errors.push(FieldError::invalid(path.field("image"), image, "must not have leading or trailing whitespace"));
    }
}

fn ports(errors: &mut Vec<FieldError>, ports: &[Value], path: &Path) {
    let mut taken = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = string(port, "name");
        if !name.is_empty() {
            let complaints = names::port_name(name);
            if complaints.is_empty() && !taken.insert(name) {
                errors.push(FieldError::duplicate(path.field("name"), name));
            }
            complain(errors, &path.field("name"), name, complaints);
        }
        match integer(port, "containerPort").unwrap_or(0) {
            0 => errors.push(FieldError::required(path.field("containerPort"), "")),
            number => complain(errors, &path.field("containerPort"), number, names::port_number(number)),
        }
        if let Some(number) = integer(port, "hostPort").filter(|number| *number != 0) {
            complain(errors, &path.field("hostPort"), number, names::port_number(number));
        }
        enumerated(errors, port, &path, "protocol", &["SCTP", "TCP", "UDP"]);
    }
}

fn host_port_conflicts(errors: &mut Vec<FieldError>, container: &Value, path: &Path, taken: &mut BTreeSet<String>) {
    let path = path.field("ports");
    for (index, port) in list(container, "ports").iter().enumerate() {
        let Some(number) = integer(port, "hostPort").filter(|number| *number != 0) else { continue };
        let key = format!("{}/{}/{number}", string(port, "protocol"), string(port, "hostIP"));
        if taken.contains(&key) {
            errors.push(FieldError::duplicate(path.index(index).field("hostPort"), key));
        } else {
            taken.insert(key);
        }
    }
}

fn mounts(errors: &mut Vec<FieldError>, container: &Value, path: &Path, context: &Context) {
    let devices = list(container, "volumeDevices");
    let mut taken = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        required(errors, mount, &at, &["name", "mountPath"]);
        let (name, target) = (string(mount, "name"), string(mount, "mountPath"));
        if !context.volumes.contains_key(name) {
            errors.push(FieldError::not_found(at.field("name"), name));
        }
        if !taken.insert(target) {
            errors.push(FieldError::invalid(at.field("mountPath"), target, "must be unique"));
        }
        if devices.iter().any(|device| string(device, "name") == name) {
            errors.push(FieldError::invalid(at.field("name"), name, "must not already exist in volumeDevices"));
        }
        if devices.iter().any(|device| string(device, "devicePath") == target) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(at.field("mountPath"), target, detail));
        }
        // The reference leaves the index out of the paths of the remaining fields.
        mount_options(errors, container, mount, path);
        if !string(mount, "subPath").is_empty() && !string(mount, "subPathExpr").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(at.field("subPathExpr"), string(mount, "subPathExpr"), detail));
        }
    }
}

fn mount_options(errors: &mut Vec<FieldError>, container: &Value, mount: &Value, path: &Path) {
    descending(errors, mount, path, "subPath");
    descending(errors, mount, path, "subPathExpr");
    let propagation = string(mount, "mountPropagation");
    if given(mount, "mountPropagation").is_some() {
        one_of(errors, mount, path, "mountPropagation", &["Bidirectional", "HostToContainer", "None"]);
        if propagation == "Bidirectional" && !flag(&container["securityContext"], "privileged") {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(FieldError::forbidden(path.field("mountPropagation"), detail));
        }
    }
    match given(mount, "recursiveReadOnly").and_then(Value::as_str) {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            let at = path.field("recursiveReadOnly");
            if !flag(mount, "readOnly") {
                errors.push(FieldError::forbidden(at, "may only be specified when readOnly is true"));
            }
            if !matches!(propagation, "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(at, detail));
            }
        }
        Some(_) => one_of(errors, mount, path, "recursiveReadOnly", &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(errors: &mut Vec<FieldError>, container: &Value, path: &Path, context: &Context) {
    let mounts = list(container, "volumeMounts");
    let (mut names_taken, mut paths_taken) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let at = path.index(index);
        let (name_at, path_at) = (at.field("name"), at.field("devicePath"));
        let (name, target) = (string(device, "name"), string(device, "devicePath"));
        required(errors, device, &at, &["name", "devicePath"]);
        if !name.is_empty() && !names_taken.insert(name) {
            errors.push(FieldError::invalid(name_at, name, "must be unique"));
        }
        match context.volumes.get(name) {
            None => errors.push(FieldError::not_found(name_at, name)),
            Some(volume) if given(volume, "persistentVolumeClaim").or(given(volume, "ephemeral")).is_none() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid(name_at, name, detail));
            }
            Some(_) => {}
        }
        let mut climbs = Vec::new();
        no_backsteps(&mut climbs, target, &path_at);
        if !climbs.is_empty() {
            errors.push(FieldError::invalid(path_at, target, "can not contain backsteps ('..')"));
        } else if !paths_taken.insert(target) {
            errors.push(FieldError::invalid(path_at, target, "must be unique"));
        }
        if mounts.iter().any(|mount| string(mount, "name") == name) {
            errors.push(FieldError::invalid(name_at, name, "must not already exist in volumeMounts"));
        }
        if mounts.iter().any(|mount| string(mount, "mountPath") == target) {
            errors.push(FieldError::invalid(path_at, target, "must not already exist as a path in volumeMounts"));
        }
    }
}

fn resize_policy(errors: &mut Vec<FieldError>, policies: &[Value], path: &Path, context: &Context) {
    let mut taken = BTreeSet::new();
    for (index, policy) in policies.iter().enumerate() {
        let (resource, restart) = (string(policy, "resourceName"), string(policy, "restartPolicy"));
        if !taken.insert(resource) {
            errors.push(FieldError::duplicate(path.index(index), resource));
        }
        for (value, supported) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if value.is_empty() {
                errors.push(FieldError::required(path, ""));
            } else if !supported.contains(&value) {
                errors.push(FieldError::not_supported(path, value, &supported));
            }
        }
        if string(context.spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            errors.push(FieldError::invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'"));
        }
    }
}

fn restart_policy(errors: &mut Vec<FieldError>, container: &Value, path: &Path) {
    const RULES_MAX: usize = 20;
    const CODES_MAX: usize = 255;
    let rules = list(container, "restartPolicyRules");
    if given(container, "restartPolicy").is_some() {
        one_of(errors, container, path, "restartPolicy", &["Always", "Never", "OnFailure"]);
    } else if !rules.is_empty() {
        let detail = "must specify restartPolicy when restart rules are used";
        errors.push(FieldError::required(path.field("restartPolicy"), detail));
    }
    let at = path.field("restartPolicyRules");
    if rules.len() > RULES_MAX {
        errors.push(FieldError::too_long(at, RULES_MAX));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = at.index(index);
        one_of(errors, rule, &path, "action", &["Restart"]);
        let codes_at = path.field("exitCodes");
        let Some(codes) = given(rule, "exitCodes") else {
            errors.push(FieldError::required(codes_at, "must be specified"));
            continue;
        };
        one_of(errors, codes, &codes_at, "operator", &["In", "NotIn"]);
        if list(codes, "values").len() > CODES_MAX {
            errors.push(FieldError::too_long(codes_at.field("values"), CODES_MAX));
        }
    }
}
