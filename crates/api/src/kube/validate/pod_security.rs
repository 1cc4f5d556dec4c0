//! Security contexts of pods and containers, the older annotations that say the same, and the pod's operating system.

use super::path::Path;
use super::pod_volumes::descending;
use super::read::{complain, entries, flag, given, in_range, list, one_of, optional_one_of, required, string};
use crate::kube::field::{FieldError, Problem};
use crate::kube::names;
use serde_json::Value;
use std::collections::BTreeSet;

/// User and group ids.
const IDS: (i64, i64) = (0, i32::MAX as i64);

pub(super) fn container_security(errors: &mut Vec<FieldError>, context: &Value, path: &Path, has_host_users: bool) {
    if !context.is_object() {
        return;
    }
    in_range(errors, context, path, "runAsUser", IDS);
    in_range(errors, context, path, "runAsGroup", IDS);
    optional_one_of(errors, context, path, "procMount", &["Default", "Unmasked"]);
    if has_host_users && string(context, "procMount") == "Unmasked" {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        errors.push(FieldError::invalid(path.field("procMount"), "Unmasked", detail));
    }
    profiles(errors, context, path);
    if context["allowPrivilegeEscalation"] == Value::Bool(false) {
        let mut refuse = |what: &str| {
            let text = format!(
                "Invalid value: {}: cannot set `allowPrivilegeEscalation` to false and {what}",
                internal_text(context)
            );
            errors.push(FieldError::new(path, Problem::Invalid, text));
        };
        if flag(context, "privileged") {
            refuse("`privileged` to true");
        }
        for _ in list(&context["capabilities"], "add").iter().filter(|name| *name == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
}

/// A container's security context as the reference prints it: its internal field names, in their order.
fn internal_text(context: &Value) -> String {
    const FIELDS: &[(&str, &str)] = &[
        ("capabilities", "Capabilities"),
        ("privileged", "Privileged"),
        ("seLinuxOptions", "SELinuxOptions"),
        ("windowsOptions", "WindowsOptions"),
        ("runAsUser", "RunAsUser"),
        ("runAsGroup", "RunAsGroup"),
        ("runAsNonRoot", "RunAsNonRoot"),
        ("readOnlyRootFilesystem", "ReadOnlyRootFilesystem"),
        ("allowPrivilegeEscalation", "AllowPrivilegeEscalation"),
        ("procMount", "ProcMount"),
        ("seccompProfile", "SeccompProfile"),
        ("appArmorProfile", "AppArmorProfile"),
    ];
    const INNER: &[(&str, &[(&str, &str)])] = &[
        ("capabilities", &[("add", "Add"), ("drop", "Drop")]),
        ("seccompProfile", &[("type", "Type"), ("localhostProfile", "LocalhostProfile")]),
        ("appArmorProfile", &[("type", "Type"), ("localhostProfile", "LocalhostProfile")]),
    ];
    let object = |value: &Value, fields: &[(&str, &str)], inner: &dyn Fn(&str, &Value) -> String| {
        let parts: Vec<String> =
            fields.iter().map(|(key, name)| format!("\"{name}\":{}", inner(key, &value[*key]))).collect();
        format!("{{{}}}", parts.join(","))
    };
    object(context, FIELDS, &|key, value| match INNER.iter().find(|(name, _)| *name == key) {
        Some((_, fields)) if value.is_object() => object(value, fields, &|_, value| value.to_string()),
        _ => value.to_string(),
    })
}

/// Seccomp and AppArmor profiles of a pod or container.
fn profiles(errors: &mut Vec<FieldError>, context: &Value, path: &Path) {
    if let Some(profile) = given(context, "seccompProfile") {
        seccomp(errors, profile, &path.field("seccompProfile"));
    }
    if let Some(profile) = given(context, "appArmorProfile") {
        app_armor(errors, profile, &path.field("appArmorProfile"));
    }
}

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

fn seccomp(errors: &mut Vec<FieldError>, profile: &Value, path: &Path) {
    let kind = string(profile, "type");
    if kind.is_empty() {
        errors.push(FieldError::required(path.field("type"), "type is required when seccompProfile is set"));
    } else {
        one_of(errors, profile, path, "type", PROFILE_TYPES);
    }
    let at = path.field("localhostProfile");
    match (kind == "Localhost", given(profile, "localhostProfile")) {
        (true, None) => errors.push(FieldError::required(at, "must be set when seccomp type is Localhost")),
        (true, Some(_)) => descending(errors, profile, path, "localhostProfile"),
        (false, Some(local)) => {
            let text = format!(
                "Invalid value: {{\"Type\":\"{kind}\",\"LocalhostProfile\":{local}}}: can only be set when seccomp type is Localhost"
            );
            errors.push(FieldError::new(at, Problem::Invalid, text));
        }
        (false, None) => {}
    }
}

fn app_armor(errors: &mut Vec<FieldError>, profile: &Value, path: &Path) {
    const PATH_MAX: usize = 4095;
    let at = path.field("localhostProfile");
    let local = given(profile, "localhostProfile").and_then(Value::as_str);
    match (string(profile, "type"), local) {
        ("Localhost", Some(local)) if local.trim() != local => {
            errors.push(FieldError::invalid(at, local, "must not be padded with whitespace"));
        }
        ("Localhost", Some(local)) if local.len() > PATH_MAX => errors.push(FieldError::too_long(at, PATH_MAX)),
        ("Localhost", None | Some("")) => {
            errors.push(FieldError::required(at, "must be set when AppArmor type is Localhost"));
        }
        ("RuntimeDefault" | "Unconfined", Some(local)) => {
            errors.push(FieldError::invalid(at, local, "can only be set when AppArmor type is Localhost"));
        }
        ("", _) => {
            errors.push(FieldError::required(path.field("type"), "type is required when appArmorProfile is set"));
        }
        _ => one_of(errors, profile, path, "type", PROFILE_TYPES),
    }
}

/// `securityContext` of the spec at `path`, and what else of the spec depends on host namespaces.
pub(super) fn pod_security(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    let (context, at) = (&spec["securityContext"], path.field("securityContext"));
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        in_range(errors, context, &at, key, IDS);
    }
    let groups = at.field("supplementalGroups");
    for (index, group) in list(context, "supplementalGroups").iter().filter_map(Value::as_i64).enumerate() {
        complain(errors, &groups.index(index), group, names::in_range(group, IDS.0, IDS.1));
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.push(FieldError::invalid(at.field("shareProcessNamespace"), true, detail));
    }
    sysctls(errors, spec, &at.field("sysctls"));
    optional_one_of(errors, context, &at, "fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    optional_one_of(errors, context, &at, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    optional_one_of(errors, context, &at, "seLinuxChangePolicy", &["MountOption", "Recursive"]);
    profiles(errors, context, &at);
    if spec["hostUsers"] == Value::Bool(false) {
        user_namespace(errors, spec, path);
    }
    operating_system(errors, spec, path);
}

fn user_namespace(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    const DETAIL: &str = "when `hostUsers` is false";
    for (key, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, key) {
            errors.push(FieldError::forbidden(path.field(shown), DETAIL));
        }
    }
    each_container(spec, path, |container, path| {
        if !list(container, "volumeDevices").is_empty() {
            errors.push(FieldError::forbidden(path.field("volumeDevices"), DETAIL));
        }
    });
}

/// Calls `visit` for every container of the spec at `path`, with the container's own path.
pub(super) fn each_container(spec: &Value, path: &Path, mut visit: impl FnMut(&Value, &Path)) {
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        let path = path.field(key);
        for (index, container) in list(spec, key).iter().enumerate() {
            visit(container, &path.index(index));
        }
    }
}

fn sysctls(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    const LENGTH_MAX: usize = 253;
    const SEGMENT: &str = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let is_segment = |part: &str| {
        let ends_well = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(ends_well)
            && part.ends_with(ends_well)
            && part.chars().all(|c| ends_well(c) || "-_".contains(c))
    };
    let mut taken = BTreeSet::new();
    for (index, sysctl) in list(&spec["securityContext"], "sysctls").iter().enumerate() {
        let (name, item) = (string(sysctl, "name"), path.index(index));
        let at = item.field("name");
        if name.is_empty() {
            errors.push(FieldError::required(at, ""));
        } else if name.len() > LENGTH_MAX || !name.split(['.', '/']).all(is_segment) {
            let detail =
                format!(r"must have at most {LENGTH_MAX} characters and match regex ^({SEGMENT}[\./])*{SEGMENT}$");
            errors.push(FieldError::invalid(at, name, &detail));
        } else if !taken.insert(name) {
            errors.push(FieldError::duplicate(at, name));
        }
        let dotted = name.replace('/', ".");
        let is_ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| dotted.starts_with(start))
            || dotted == "kernel.sem";
        if flag(spec, "hostNetwork") && dotted.starts_with("net.") {
            errors.push(FieldError::invalid(at, name, "may not be specified when 'hostNetwork' is true"));
        } else if flag(spec, "hostIPC") && is_ipc {
            errors.push(FieldError::invalid(at, name, "may not be specified when 'hostIPC' is true"));
        }
    }
}

fn operating_system(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    let Some(system) = given(spec, "os") else { return };
    let at = path.field("os");
    match string(system, "name") {
        "linux" => linux_only(errors, spec, path),
        "windows" => {
            let detail = "cannot be set for a windows pod";
            for key in ["hostUsers", "shareProcessNamespace"] {
                if given(spec, key).is_some() {
                    errors.push(FieldError::forbidden(path.field(key), detail));
                }
            }
        }
        "" => required(errors, system, &at, &["name"]),
        other => errors.push(FieldError::not_supported(at, other, &["linux", "windows"])),
    }
}

fn linux_only(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    let detail = "windows options cannot be set for a linux pod";
    if given(&spec["securityContext"], "windowsOptions").is_some() {
        errors.push(FieldError::forbidden(path.field("securityContext.windowsOptions"), detail));
    }
    each_container(spec, path, |container, path| {
        if given(&container["securityContext"], "windowsOptions").is_some() {
            errors.push(FieldError::forbidden(path.field("securityContext.windowsOptions"), detail));
        }
    });
}

const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Annotations that mean something on pods; `path` is that of the annotations.
pub(super) fn pod_annotations(errors: &mut Vec<FieldError>, meta: &Value, spec: &Value, path: &Path) {
    for (key, value) in entries(meta, "annotations") {
        let value = value.as_str().unwrap_or("");
        if key == MIRROR && string(spec, "nodeName").is_empty() {
            let detail = "must set spec.nodeName if mirror pod annotation is set";
            errors.push(FieldError::invalid(path.key(key), value, detail));
        }
        if key == DELETION_COST && !is_cost(value) {
            errors.push(FieldError::invalid(path.key(key), value, "must be a 32bit integer"));
        }
        if key == SECCOMP_POD || key.starts_with(SECCOMP_PREFIX) {
            seccomp_annotation(errors, value, &path.field(key));
        }
        if let Some(name) = key.strip_prefix(APP_ARMOR_PREFIX) {
            app_armor_annotation(errors, spec, (name, value), &path.key(key));
        }
    }
}

/// A 32-bit integer without needless zeros or signs.
fn is_cost(value: &str) -> bool {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let is_canonical = value == "0" || digits.starts_with(|c: char| ('1'..='9').contains(&c));
    is_canonical && value.parse::<i32>().is_ok()
}

fn seccomp_annotation(errors: &mut Vec<FieldError>, value: &str, path: &Path) {
    if matches!(value, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match value.strip_prefix("localhost/") {
        Some(profile) if profile.starts_with('/') => {
            errors.push(FieldError::invalid(path, profile, "must be a relative path"));
        }
        Some(profile) => super::pod_volumes::no_backsteps(errors, profile, path),
        None => errors.push(FieldError::invalid(path, value, "must be a valid seccomp profile")),
    }
}

fn app_armor_annotation(errors: &mut Vec<FieldError>, spec: &Value, (name, profile): (&str, &str), path: &Path) {
    let mut is_known = false;
    each_container(spec, &Path::new("spec"), |container, _| is_known |= string(container, "name") == name);
    if !is_known {
        errors.push(FieldError::invalid(path, name, "container not found"));
    }
    let is_right = matches!(profile, "" | "runtime/default" | "unconfined") || profile.starts_with("localhost/");
    if !is_right {
        let detail = format!("invalid AppArmor profile name: \"{profile}\"");
        errors.push(FieldError::invalid(path, profile, &detail));
    }
}

/// What an update may not do to those annotations.
pub(super) fn pod_annotations_update(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let meta = Path::new("metadata");
    let path = meta.field("annotations");
    let what = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ => key.starts_with(APP_ARMOR_PREFIX).then_some("AppArmor annotations"),
    };
    let (new, old) = (&new["annotations"], &old["annotations"]);
    for (key, value) in old.as_object().into_iter().flatten() {
        if let Some(what) = what(key).filter(|_| new.get(key) != Some(value)) {
            errors.push(FieldError::forbidden(path.key(key), &format!("may not remove or update {what}")));
        }
    }
    for key in new.as_object().into_iter().flatten().map(|(key, _)| key) {
        if let Some(what) = what(key).filter(|_| old.get(key).is_none()) {
            errors.push(FieldError::forbidden(path.key(key), &format!("may not add {what}")));
        }
    }
}
