//! The containers of a pod: what all of them share, and what only regular, init or ephemeral ones may have.

use super::compare::is_empty;
use super::place::Place;
use super::pod::Context;
use super::pod_env::environment;
use super::pod_probe::probes_and_hooks;
use super::pod_resources::{Asker, resources};
use super::pod_security::container_security;
use crate::kube::names;
use std::collections::BTreeSet;

/// Every container of a pod spec.
pub(super) fn each_container<'b, 'v>(spec: &'b Place<'_, 'v>) -> impl Iterator<Item = Place<'b, 'v>> {
    ["initContainers", "containers", "ephemeralContainers"].into_iter().flat_map(move |key| spec.items(key))
}

/// All three lists of containers, in the order in which the reference looks at them.
pub(super) fn ordered_containers(context: &Context) {
    let spec = context.spec;
    spec.needs(&["containers"]);
    let (mut taken, mut host_ports) = (BTreeSet::new(), BTreeSet::new());
    for container in spec.items("containers") {
        common(&container, context, &mut taken);
        probes_and_hooks(&container, context.grace);
        restart_policy(&container);
        host_port_conflicts(&container, &mut host_ports);
    }
    for container in spec.items("initContainers") {
        common(&container, context, &mut taken);
        init_container(&container, context);
    }
    let others = taken.clone();
    for container in spec.items("ephemeralContainers") {
        common(&container, context, &mut taken);
        trimmed_image(&container);
        let target = container.text("targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            container.not_found("targetContainerName", target);
        }
        ephemeral_only(&container);
    }
}

fn init_container(container: &Place, context: &Context) {
    let is_sidecar = container.text("restartPolicy") == "Always";
    if is_sidecar && !container.list("restartPolicyRules").is_empty() {
        let detail = "restartPolicyRules are not allowed for init containers with restart policy Always";
        container.forbidden("restartPolicyRules", detail);
    } else {
        restart_policy(container);
    }
    // Init containers run one by one, so each is looked at alone; the reference then counts it as the first.
    host_port_conflicts(&context.spec.stand_in("initContainers[0]", container.value), &mut BTreeSet::new());
    if is_sidecar {
        return probes_and_hooks(container, context.grace);
    }
    for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
        let detail = "may not be set for init containers without restartPolicy=Always";
        container.forbidden_if(container.has(key), key, detail);
    }
}

fn ephemeral_only(container: &Place) {
    const DETAIL: &str = "cannot be set for an Ephemeral Container";
    const PROBES: [&str; 4] = ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];
    const OTHERS: [&str; 5] = ["ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules"];
    for key in PROBES.into_iter().chain(OTHERS) {
        let value = container.get(key);
        container.forbidden_if(value.is_string() || !is_empty(value), key, DETAIL);
    }
    for mount in container.items("volumeMounts") {
        for key in ["subPath", "subPathExpr"] {
            mount.forbidden_if(!mount.text(key).is_empty(), key, DETAIL);
        }
    }
}

/// What holds for every container.
fn common<'v>(container: &Place<'_, 'v>, context: &Context, taken: &mut BTreeSet<&'v str>) {
    container.needs_name("name", names::dns_label);
    container.duplicate_if(!taken.insert(container.text("name")), "name", container.text("name"));
    container.needs(&["image"]);
    container.needs_one_of("terminationMessagePolicy", &["File", "FallbackToLogsOnError"]);
    pull_policy(container, "imagePullPolicy");
    ports(container);
    environment(container);
    container.items("volumeMounts").for_each(|mount| mount_target(&mount, container, context));
    mounts(container);
    devices(container, context);
    resources(&container.field("resources"), Asker::Container, &context.claims);
    resize_policy(container, context);
    container_security(&container.field("securityContext"), context.spec.get("hostUsers") != false);
}

pub(super) fn pull_policy(holder: &Place, key: &str) {
    holder.needs_one_of(key, &["Always", "IfNotPresent", "Never"]);
}

/// Pods, but not templates, refuse blanks around the image.
pub(super) fn trimmed_image(container: &Place) {
    let image = container.text("image");
    container.wrong_if(image.trim() != image, "image", "must not have leading or trailing whitespace");
}

fn ports(container: &Place) {
    let mut taken = BTreeSet::new();
    for port in container.items("ports") {
        let name = port.text("name");
        let is_good = !name.is_empty() && names::port_name(name).is_empty();
        port.duplicate_if(is_good && !taken.insert(name), "name", name);
        port.named_unless_empty("name", names::port_name);
        match port.integer("containerPort").unwrap_or(0) {
            0 => port.required("containerPort", ""),
            _ => port.port_number("containerPort"),
        }
        if port.integer("hostPort").unwrap_or(0) != 0 {
            port.port_number("hostPort");
        }
        port.needs_one_of("protocol", &["SCTP", "TCP", "UDP"]);
    }
}

fn host_port_conflicts(container: &Place, taken: &mut BTreeSet<String>) {
    for port in container.items("ports") {
        let Some(number) = port.integer("hostPort").filter(|number| *number != 0) else { continue };
        let key = format!("{}/{}/{number}", port.text("protocol"), port.text("hostIP"));
        port.duplicate_if(taken.contains(&key), "hostPort", key.as_str());
        taken.insert(key);
    }
}

/// The volume and the path of one mount.
fn mount_target(mount: &Place, container: &Place, context: &Context) {
    mount.needs(&["name", "mountPath"]);
    let (name, target) = (mount.text("name"), mount.text("mountPath"));
    if !context.volumes.contains_key(name) {
        mount.not_found("name", name);
    }
    let has_device = |key: &str, text: &str| container.items("volumeDevices").any(|device| device.text(key) == text);
    mount.invalid_if(has_device("name", name), "name", name, "must not already exist in volumeDevices");
    let detail = "must not already exist as a path in volumeDevices";
    mount.invalid_if(has_device("devicePath", target), "mountPath", target, detail);
    let has_both = !mount.text("subPath").is_empty() && !mount.text("subPathExpr").is_empty();
    mount.wrong_if(has_both, "subPathExpr", "subPathExpr and subPath are mutually exclusive");
}

fn mounts(container: &Place) {
    let mut taken = BTreeSet::new();
    for mount in container.items("volumeMounts") {
        let target = mount.text("mountPath");
        mount.invalid_if(!taken.insert(target), "mountPath", target, "must be unique");
        // The reference leaves the index out of the paths of the remaining fields.
        let mount = container.stand_in("volumeMounts", mount.value);
        mount.descending("subPath");
        mount.descending("subPathExpr");
        mount.one_of_if_given("mountPropagation", &["Bidirectional", "HostToContainer", "None"]);
        let propagation = mount.text("mountPropagation");
        let is_bold = propagation == "Bidirectional" && !container.flag("securityContext.privileged");
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        mount.forbidden_if(is_bold, "mountPropagation", detail);
        mount.one_of_if_given("recursiveReadOnly", &["Disabled", "Enabled", "IfPossible"]);
        if matches!(mount.text("recursiveReadOnly"), "Enabled" | "IfPossible") {
            let detail = "may only be specified when readOnly is true";
            mount.forbidden_if(!mount.flag("readOnly"), "recursiveReadOnly", detail);
            let detail = "may only be specified when mountPropagation is None or not specified";
            mount.forbidden_if(!matches!(propagation, "" | "None"), "recursiveReadOnly", detail);
        }
    }
}

fn devices(container: &Place, context: &Context) {
    let has_mount = |key: &str, text: &str| container.items("volumeMounts").any(|mount| mount.text(key) == text);
    let (mut names_taken, mut paths_taken) = (BTreeSet::new(), BTreeSet::new());
    for device in container.items("volumeDevices") {
        let (name, target) = (device.text("name"), device.text("devicePath"));
        device.needs(&["name", "devicePath"]);
        device.wrong_if(!name.is_empty() && !names_taken.insert(name), "name", "must be unique");
        match context.volumes.get(name) {
            None => device.not_found("name", name),
            Some(volume) => {
                let is_claimed = ["persistentVolumeClaim", "ephemeral"].iter().any(|key| !volume[key].is_null());
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                device.invalid_if(!is_claimed, "name", name, detail);
            }
        }
        if target.split('/').any(|part| part == "..") {
            device.wrong("devicePath", "can not contain backsteps ('..')");
        } else {
            device.invalid_if(!paths_taken.insert(target), "devicePath", target, "must be unique");
        }
        device.invalid_if(has_mount("name", name), "name", name, "must not already exist in volumeMounts");
        let detail = "must not already exist as a path in volumeMounts";
        device.invalid_if(has_mount("mountPath", target), "devicePath", target, detail);
    }
}

fn resize_policy(container: &Place, context: &Context) {
    const KEY: &str = "resizePolicy";
    let mut taken = BTreeSet::new();
    for policy in container.items(KEY) {
        let (resource, restart) = (policy.text("resourceName"), policy.text("restartPolicy"));
        policy.duplicate_if(!taken.insert(resource), "", resource);
        // The reference leaves the index out of the paths of the remaining problems.
        for (word, supported) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if word.is_empty() {
                container.required(KEY, "");
            } else if !supported.contains(&word) {
                container.not_supported(KEY, word, &supported);
            }
        }
        let is_futile = context.spec.text("restartPolicy") == "Never" && restart != "NotRequired";
        container.invalid_if(is_futile, KEY, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'");
    }
}

fn restart_policy(container: &Place) {
    const RULES_MAX: usize = 20;
    const CODES_MAX: usize = 255;
    let rules = container.list("restartPolicyRules").len();
    container.one_of_if_given("restartPolicy", &["Always", "Never", "OnFailure"]);
    if !container.has("restartPolicy") && rules > 0 {
        container.required("restartPolicy", "must specify restartPolicy when restart rules are used");
    }
    container.too_long_if(rules > RULES_MAX, "restartPolicyRules", RULES_MAX);
    for rule in container.items("restartPolicyRules") {
        rule.one_of("action", &["Restart"]);
        let Some(codes) = rule.given("exitCodes") else {
            rule.required("exitCodes", "must be specified");
            continue;
        };
        codes.one_of("operator", &["In", "NotIn"]);
        codes.too_long_if(codes.list("values").len() > CODES_MAX, "values", CODES_MAX);
    }
}
