//! Security contexts of pods and containers, and the pod's operating system.

use super::place::Place;
use super::pod_container::each_container;
use crate::kube::field::Problem;
use serde_json::Value;
use std::collections::BTreeSet;

/// User and group ids.
const ID_MAX: i64 = i32::MAX as i64;

pub(super) fn container_security(context: &Place, has_host_users: bool) {
    for key in ["runAsUser", "runAsGroup"] {
        context.in_range(key, 0, ID_MAX);
    }
    context.one_of_if_given("procMount", &["Default", "Unmasked"]);
    let is_unmasked = has_host_users && context.text("procMount") == "Unmasked";
    context.wrong_if(is_unmasked, "procMount", "`hostUsers` must be false to use `Unmasked`");
    profiles(context);
    if context.get("allowPrivilegeEscalation") != false {
        return;
    }
    let refuse = |what: &str| {
        let shown = internal_text(context.value);
        let text = format!("Invalid value: {shown}: cannot set `allowPrivilegeEscalation` to false and {what}");
        context.worded("", Problem::Invalid, text);
    };
    if context.flag("privileged") {
        refuse("`privileged` to true");
    }
    for _ in context.texts("capabilities.add").filter(|name| *name == "CAP_SYS_ADMIN") {
        refuse("`capabilities.Add` CAP_SYS_ADMIN");
    }
}

/// A container's security context as the reference prints it: its internal field names, in their order.
fn internal_text(context: &Value) -> String {
    const FIELDS: &[&str] = &[
        "capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot",
        "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile", "appArmorProfile",
    ];
    const PROFILE: &[&str] = &["type", "localhostProfile"];
    let object = |value: &Value, fields: &[&str], inner: &dyn Fn(&str, &Value) -> String| {
        let name = |key: &str| match key {
            "seLinuxOptions" => "SELinuxOptions".to_owned(),
            _ => format!("{}{}", key[..1].to_uppercase(), &key[1..]),
        };
        let parts: Vec<String> =
            fields.iter().map(|key| format!("\"{}\":{}", name(key), inner(key, &value[*key]))).collect();
        format!("{{{}}}", parts.join(","))
    };
    object(context, FIELDS, &|key, value| match key {
        "capabilities" if value.is_object() => object(value, &["add", "drop"], &|_, value| value.to_string()),
        "seccompProfile" | "appArmorProfile" if value.is_object() => {
            object(value, PROFILE, &|_, value| value.to_string())
        }
        _ => value.to_string(),
    })
}

const PROFILE_TYPES: &[&str] = &["Localhost", "RuntimeDefault", "Unconfined"];

/// Seccomp and AppArmor profiles of a pod or container.
fn profiles(context: &Place) {
    if let Some(profile) = context.given("seccompProfile") {
        seccomp(&profile);
    }
    if let Some(profile) = context.given("appArmorProfile") {
        app_armor(&profile);
    }
}

fn seccomp(profile: &Place) {
    let kind = profile.text("type");
    if kind.is_empty() {
        profile.required("type", "type is required when seccompProfile is set");
    } else {
        profile.one_of("type", PROFILE_TYPES);
    }
    match (kind == "Localhost", profile.get("localhostProfile")) {
        (true, Value::Null) => profile.required("localhostProfile", "must be set when seccomp type is Localhost"),
        (true, _) => profile.descending("localhostProfile"),
        (false, Value::Null) => {}
        (false, local) => {
            let text = format!(
                "Invalid value: {{\"Type\":\"{kind}\",\"LocalhostProfile\":{local}}}: can only be set when seccomp type is Localhost"
            );
            profile.worded("localhostProfile", Problem::Invalid, text);
        }
    }
}

fn app_armor(profile: &Place) {
    const PATH_MAX: usize = 4095;
    const LOCAL: &str = "localhostProfile";
    let local = profile.given(LOCAL).map(|_| profile.text(LOCAL));
    match (profile.text("type"), local) {
        ("Localhost", None | Some("")) => profile.required(LOCAL, "must be set when AppArmor type is Localhost"),
        ("Localhost", Some(local)) if local.trim() != local => {
            profile.wrong(LOCAL, "must not be padded with whitespace");
        }
        ("Localhost", Some(local)) => profile.too_long_if(local.len() > PATH_MAX, LOCAL, PATH_MAX),
        ("RuntimeDefault" | "Unconfined", Some(_)) => {
            profile.wrong(LOCAL, "can only be set when AppArmor type is Localhost");
        }
        ("", _) => profile.required("type", "type is required when appArmorProfile is set"),
        _ => profile.one_of("type", PROFILE_TYPES),
    }
}

/// `securityContext` of a pod, and what else of its spec depends on host namespaces.
pub(super) fn pod_security(spec: &Place) {
    let context = spec.field("securityContext");
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        context.in_range(key, 0, ID_MAX);
    }
    context.items("supplementalGroups").for_each(|group| group.in_range("", 0, ID_MAX));
    let is_shared = spec.flag("shareProcessNamespace") && spec.flag("hostPID");
    let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
    context.invalid_if(is_shared, "shareProcessNamespace", true, detail);
    sysctls(spec, &context);
    context.one_of_if_given("fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    context.one_of_if_given("supplementalGroupsPolicy", &["Merge", "Strict"]);
    context.one_of_if_given("seLinuxChangePolicy", &["MountOption", "Recursive"]);
    profiles(&context);
    if spec.get("hostUsers") == false {
        user_namespace(spec);
    }
    operating_system(spec);
}

fn user_namespace(spec: &Place) {
    const DETAIL: &str = "when `hostUsers` is false";
    for (key, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        spec.forbidden_if(spec.flag(key), shown, DETAIL);
    }
    for container in each_container(spec) {
        container.forbidden_if(!container.list("volumeDevices").is_empty(), "volumeDevices", DETAIL);
    }
}

fn sysctls(spec: &Place, context: &Place) {
    const LENGTH_MAX: usize = 253;
    const SEGMENT: &str = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let is_segment = |part: &str| {
        let ends_well = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        part.starts_with(ends_well)
            && part.ends_with(ends_well)
            && part.chars().all(|c| ends_well(c) || "-_".contains(c))
    };
    let mut taken = BTreeSet::new();
    for sysctl in context.items("sysctls") {
        let name = sysctl.text("name");
        if name.is_empty() {
            sysctl.required("name", "");
        } else if name.len() > LENGTH_MAX || !name.split(['.', '/']).all(is_segment) {
            let detail =
                format!(r"must have at most {LENGTH_MAX} characters and match regex ^({SEGMENT}[\./])*{SEGMENT}$");
            sysctl.wrong("name", &detail);
        } else {
            sysctl.duplicate_if(!taken.insert(name), "name", name);
        }
        let dotted = name.replace('/', ".");
        let is_ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|start| dotted.starts_with(start))
            || dotted == "kernel.sem";
        if spec.flag("hostNetwork") && dotted.starts_with("net.") {
            sysctl.wrong("name", "may not be specified when 'hostNetwork' is true");
        } else if spec.flag("hostIPC") && is_ipc {
            sysctl.wrong("name", "may not be specified when 'hostIPC' is true");
        }
    }
}

fn operating_system(spec: &Place) {
    const OPTIONS: &str = "securityContext.windowsOptions";
    let Some(system) = spec.given("os") else { return };
    match system.text("name") {
        "linux" => {
            let detail = "windows options cannot be set for a linux pod";
            spec.forbidden_if(spec.has(OPTIONS), OPTIONS, detail);
            for container in each_container(spec) {
                container.forbidden_if(container.has(OPTIONS), OPTIONS, detail);
            }
        }
        "windows" => {
            for key in ["hostUsers", "shareProcessNamespace"] {
                spec.forbidden_if(spec.has(key), key, "cannot be set for a windows pod");
            }
        }
        "" => system.required("name", ""),
        other => system.not_supported("", other, &["linux", "windows"]),
    }
}

/// The one annotation that a controller here reads: a 32-bit integer without needless zeros or signs.
pub(super) fn deletion_cost(annotations: &Place) {
    let costs = annotations.entries("").filter(|(key, _)| *key == "controller.kubernetes.io/pod-deletion-cost");
    for (_, cost) in costs {
        let value = cost.text("");
        let digits = value.strip_prefix('-').unwrap_or(value);
        let is_canonical = value == "0" || digits.starts_with(|c: char| ('1'..='9').contains(&c));
        let is_right = is_canonical && value.parse::<i32>().is_ok();
        cost.wrong_if(!is_right, "", "must be a 32bit integer");
    }
}
