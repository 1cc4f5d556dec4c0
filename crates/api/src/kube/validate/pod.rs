//! Pods: what a new one must satisfy, and the spec and template checks that every workload kind uses.
//!
//! `pod_spec` walks the spec once and hands each part to the file that knows it.

use super::Rule;
use super::metadata::{annotations, labels};
use super::path::Path;
use super::pod_affinity::{affinity, tolerations, topology_spread};
use super::pod_container::{containers, enumerated, trimmed_image};
use super::pod_resources::{Asker, pod_level, resources};
use super::pod_security::{each_container, pod_annotations, pod_security};
use super::pod_volumes::volumes;
use super::read::{complain, flag, given, in_range, integer, list, required_name, string};
use crate::kube::field::{FieldError, Problem};
use crate::kube::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub const RULES: &[Rule] = &[
    Rule { group: "", kind: "Pod", is_namespaced: true, create: pod_create, update: super::pod_update::pod_update },
    Rule {
        group: "",
        kind: "PodTemplate",
        is_namespaced: true,
        create: |object| pod_template(&object["template"], &Path::new("template")),
        update: |new, _| pod_template(&new["template"], &Path::new("template")),
    },
];

/// Whose spec it is: a pod is held to more than a template is.
#[derive(Debug, Clone, Copy)]
pub enum Holder<'a> {
    Pod(&'a Value),
    Template,
}

impl<'a> Holder<'a> {
    pub(super) fn is_pod(self) -> bool {
        matches!(self, Holder::Pod(_))
    }

    pub(super) fn pod_name(self) -> &'a str {
        match self {
            Holder::Pod(pod) => string(&pod["metadata"], "name"),
            Holder::Template => "",
        }
    }

    pub(super) fn has_service_account(self) -> bool {
        match self {
            Holder::Pod(pod) => !string(&pod["spec"], "serviceAccountName").is_empty(),
            Holder::Template => false,
        }
    }
}

/// What the checks of a container need to know of its pod.
pub(super) struct Context<'a> {
    pub spec: &'a Value,
    pub volumes: BTreeMap<&'a str, &'a Value>,
    pub claims: Vec<&'a str>,
    pub grace: Option<i64>,
    pub has_host_users: bool,
}

fn pod_create(pod: &Value) -> Vec<FieldError> {
    let spec = &pod["spec"];
    let path = Path::new("spec");
    let mut errors = pod_content(pod);
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.push(FieldError::forbidden(path.field("ephemeralContainers"), "cannot be set on create"));
    }
    if !string(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(path.field("nodeName"), detail));
    }
    errors
}

/// What holds for a pod at any time.
pub(super) fn pod_content(pod: &Value) -> Vec<FieldError> {
    let (meta, spec) = (&pod["metadata"], &pod["spec"]);
    let path = Path::new("spec");
    let mut errors = Vec::new();
    pod_annotations(&mut errors, meta, spec, &Path::new("metadata.annotations"));
    errors.extend(pod_spec(spec, &path, Holder::Pod(pod)));
    for key in ["containers", "initContainers"] {
        let path = path.field(key);
        for (index, container) in list(spec, key).iter().enumerate() {
            trimmed_image(&mut errors, container, &path.index(index));
        }
    }
    errors
}

/// A pod template at `path`; its labels are reported directly under it, as the reference does.
pub fn pod_template(template: &Value, path: &Path) -> Vec<FieldError> {
    let (meta, spec) = (&template["metadata"], &template["spec"]);
    let mut errors = Vec::new();
    labels(&mut errors, meta, "labels", path);
    annotations(&mut errors, meta, path);
    pod_annotations(&mut errors, meta, spec, &path.field("annotations"));
    errors.extend(pod_spec(spec, &path.field("spec"), Holder::Template));
    if !list(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(path.field("spec.ephemeralContainers"), detail));
    }
    errors
}

/// Everything wrong with a pod spec at `path`.
pub fn pod_spec(spec: &Value, path: &Path, holder: Holder) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let grace = integer(spec, "terminationGracePeriodSeconds");
    if grace.is_none() {
        errors.push(FieldError::required(path.field("terminationGracePeriodSeconds"), ""));
    }
    let context = Context {
        spec,
        volumes: volumes(&mut errors, spec, path, holder),
        claims: list(spec, "resourceClaims")
            .iter()
            .map(|claim| string(claim, "name"))
            .filter(|n| !n.is_empty())
            .collect(),
        grace,
        has_host_users: spec["hostUsers"] != Value::Bool(false),
    };
    resource_claims(&mut errors, list(spec, "resourceClaims"), &path.field("resourceClaims"));
    containers(&mut errors, &context, path);
    file_variables(&mut errors, &context, path);
    pod_level(&mut errors, spec, path);
    policies(&mut errors, spec, path);
    network(&mut errors, spec, path, holder);
    pod_security(&mut errors, spec, path);
    scheduling(&mut errors, spec, path);
    plain_names(&mut errors, spec, path);
    in_range(&mut errors, spec, path, "activeDeadlineSeconds", (1, i32::MAX as i64));
    if given(spec, "overhead").is_some() {
        // Overhead is checked as if it were the limits of a container, so the path says so.
        let overhead = json!({ "limits": spec["overhead"] });
        resources(&mut errors, &overhead, &path.field("overhead"), Asker::Container, &[]);
    }
    errors
}

fn policies(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    enumerated(errors, spec, path, "restartPolicy", &["Always", "OnFailure", "Never"]);
    enumerated(errors, spec, path, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    if given(spec, "preemptionPolicy").is_some() {
        enumerated(errors, spec, path, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    }
}

fn scheduling(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    labels(errors, spec, "nodeSelector", path);
    affinity(errors, &spec["affinity"], &path.field("affinity"));
    tolerations(errors, list(spec, "tolerations"), &path.field("tolerations"));
    let spread = path.field("topologySpreadConstraints");
    topology_spread(errors, list(spec, "topologySpreadConstraints"), &spread);
    let gates = path.field("readinessGates");
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let condition = string(gate, "conditionType");
        let at = gates.index(index);
        complain(errors, &at.field("conditionType"), condition, names::qualified_name(condition));
    }
    let gates = path.field("schedulingGates");
    let mut taken = BTreeSet::new();
    for (index, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let (name, at) = (string(gate, "name"), gates.index(index));
        complain(errors, &at, name, names::qualified_name(name));
        if !taken.insert(name) {
            errors.push(FieldError::duplicate(at, name));
        }
    }
}

/// Names that may be absent but not badly shaped.
fn plain_names(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    const NAMES: &[(&str, names::Check)] = &[
        ("serviceAccountName", names::dns_subdomain),
        ("nodeName", names::dns_subdomain),
        ("hostname", names::dns_label),
        ("subdomain", names::dns_label),
        ("priorityClassName", names::dns_subdomain),
    ];
    for (key, check) in NAMES {
        let value = string(spec, key);
        if !value.is_empty() {
            complain(errors, &path.field(key), value, check(value));
        }
    }
    if let Some(class) = given(spec, "runtimeClassName").and_then(Value::as_str) {
        complain(errors, &path.field("runtimeClassName"), class, names::dns_subdomain(class));
    }
    host_name_override(errors, spec, path);
}

fn host_name_override(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    const LENGTH_MAX: usize = 64;
    let Some(name) = given(spec, "hostnameOverride").and_then(Value::as_str) else { return };
    let at = path.field("hostnameOverride");
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if flag(spec, key) {
            errors.push(FieldError::forbidden(at, &format!("may not be specified when {key} is true")));
        }
    }
    if name.len() > LENGTH_MAX {
        errors.push(FieldError::too_long(at, LENGTH_MAX));
    }
    complain(errors, &at, name, names::dns_subdomain(name));
}

fn network(errors: &mut Vec<FieldError>, spec: &Value, path: &Path, holder: Holder) {
    if flag(spec, "hostNetwork") {
        host_network_ports(errors, spec, path, holder);
    }
    let aliases = path.field("hostAliases");
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let (at, ip) = (aliases.index(index), string(alias, "ip"));
        complain(errors, &at.field("ip"), ip, names::ip_address(ip));
        let hosts = at.field("hostnames");
        for (index, host) in list(alias, "hostnames").iter().filter_map(Value::as_str).enumerate() {
            complain(errors, &hosts.index(index), host, names::dns_subdomain(host));
        }
    }
    name_resolution(errors, spec, &path.field("dnsConfig"));
}

fn host_network_ports(errors: &mut Vec<FieldError>, spec: &Value, path: &Path, holder: Holder) {
    let path = path.field("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        let at = path.index(index);
        let at = at.field("ports");
        for (index, port) in list(container, "ports").iter().enumerate() {
            let host = integer(port, "hostPort").unwrap_or(0);
            let is_left_open = host == 0 && !holder.is_pod();
            if !is_left_open && host != integer(port, "containerPort").unwrap_or(0) {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(at.index(index).field("hostPort"), host, detail));
            }
        }
    }
}

fn name_resolution(errors: &mut Vec<FieldError>, spec: &Value, path: &Path) {
    const SERVERS_MAX: usize = 3;
    const SEARCHES_MAX: usize = 32;
    const SEARCH_BYTES_MAX: usize = 2048;
    let config = given(spec, "dnsConfig");
    let servers = config.map_or(&[][..], |config| list(config, "nameservers"));
    if string(spec, "dnsPolicy") == "None" {
        if config.is_none() {
            errors.push(FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"));
            return;
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            errors.push(FieldError::required(path.field("nameservers"), detail));
            return;
        }
    }
    let Some(config) = config else { return };
    let at = path.field("nameservers");
    if servers.len() > SERVERS_MAX {
        let detail = format!("must not have more than {SERVERS_MAX} nameservers");
        errors.push(FieldError::invalid(at, config["nameservers"].clone(), &detail));
    }
    for (index, server) in servers.iter().filter_map(Value::as_str).enumerate() {
        complain(errors, &at.index(index), server, names::ip_address(server));
    }
    let at = path.field("searches");
    let searches: Vec<&str> = list(config, "searches").iter().filter_map(Value::as_str).collect();
    let mut refuse = |is_over: bool, what: String| {
        if is_over {
            let detail = format!("must not have more than {what}");
            errors.push(FieldError::invalid(at, config["searches"].clone(), &detail));
        }
    };
    refuse(searches.len() > SEARCHES_MAX, format!("{SEARCHES_MAX} search paths"));
    let is_long = searches.join(" ").len() > SEARCH_BYTES_MAX;
    refuse(is_long, format!("{SEARCH_BYTES_MAX} characters (including spaces) in the search list"));
    for (index, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let name = search.strip_suffix('.').unwrap_or(search);
        complain(errors, &at.index(index), name, names::dns_subdomain_with_underscore(name));
    }
    let at = path.field("options");
    for (index, option) in list(config, "options").iter().enumerate() {
        if string(option, "name").is_empty() {
            errors.push(FieldError::required(at.index(index), "must not be empty"));
        }
    }
}

fn resource_claims(errors: &mut Vec<FieldError>, claims: &[Value], path: &Path) {
    let mut taken = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let name = string(claim, "name");
        if !name.is_empty() && taken.contains(name) {
            errors.push(FieldError::duplicate(path.field("name"), name));
        } else {
            required_name(errors, &claim["name"], &path.field("name"), names::dns_label);
            taken.insert(name);
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let shown = format!(
            "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
            claim["name"], claim[sources[0]], claim[sources[1]]
        );
        let invalid =
            |detail: &str| FieldError::new(path, Problem::Invalid, format!("Invalid value: {shown}: {detail}"));
        match sources.iter().filter(|key| given(claim, key).is_some()).count() {
            0 => errors.push(invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")),
            1 => {}
            _ => errors
                .push(invalid("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")),
        }
        for key in sources {
            if let Some(name) = given(claim, key).and_then(Value::as_str) {
                complain(errors, &path.field(key), name, names::dns_subdomain(name));
            }
        }
    }
}

/// Variables read from files need an `emptyDir` to read from.
fn file_variables(errors: &mut Vec<FieldError>, context: &Context, path: &Path) {
    each_container(context.spec, path, |container, path| {
        let path = path.field("env");
        for (index, variable) in list(container, "env").iter().enumerate() {
            let Some(reference) = given(&variable["valueFrom"], "fileKeyRef") else { continue };
            let (at, name) = (path.index(index), string(reference, "volumeName"));
            let at = at.field("valueFrom.fileKeyRef.volumeName");
            match list(context.spec, "volumes").iter().find(|volume| string(volume, "name") == name) {
                None => errors.push(FieldError::not_found(at, name)),
                Some(volume) if given(volume, "emptyDir").is_none() => {
                    errors.push(FieldError::invalid(at, name, "referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    });
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
