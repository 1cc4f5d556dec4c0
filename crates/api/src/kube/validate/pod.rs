//! Pods: what a new one must satisfy, and the spec and template checks that every workload kind uses.
//!
//! `pod_spec` walks the spec once and hands each part to the file that knows it.

use super::Rule;
use super::metadata::{annotations, labels};
use super::place::Place;
use super::pod_affinity::{affinity, toleration, topology_spread};
use super::pod_container::{each_container, ordered_containers, trimmed_image};
use super::pod_resources::{Asker, pod_level, resources};
use super::pod_security::{deletion_cost, pod_security};
use super::pod_update::pod_update;
use super::pod_volumes::volumes;
use crate::kube::field::Problem;
use crate::kube::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const RULES: &[Rule] = &[
    Rule::of("", "Pod", pod).on_create(pod_create).on_update(pod_update),
    Rule::of("", "PodTemplate", |object| pod_template(&object.field("template"))),
];

/// What the checks of a container need to know of its pod.
pub(super) struct Context<'a> {
    pub spec: &'a Place<'a, 'a>,
    pub volumes: BTreeMap<&'a str, &'a Value>,
    pub claims: Vec<&'a str>,
    pub grace: Option<i64>,
}

/// What holds for a pod at any time.
pub(super) fn pod(pod: &Place) {
    let spec = pod.field("spec");
    deletion_cost(&pod.field("metadata.annotations"));
    pod_spec(&spec, Some(pod.value));
    for key in ["containers", "initContainers"] {
        spec.items(key).for_each(|container| trimmed_image(&container));
    }
}

fn pod_create(pod: &Place) {
    let spec = pod.field("spec");
    spec.forbidden_if(!spec.list("ephemeralContainers").is_empty(), "ephemeralContainers", "cannot be set on create");
    let is_early = !spec.text("nodeName").is_empty() && !spec.list("schedulingGates").is_empty();
    spec.forbidden_if(is_early, "nodeName", "cannot be set until all schedulingGates have been cleared");
}

/// A pod template; its labels are reported directly under it, as the reference does.
pub(super) fn pod_template(template: &Place) {
    let spec = template.field("spec");
    labels(&template.stand_in("labels", template.get("metadata.labels")));
    let notes = template.stand_in("annotations", template.get("metadata.annotations"));
    annotations(&notes);
    deletion_cost(&notes);
    pod_spec(&spec, None);
    let is_debugged = !spec.list("ephemeralContainers").is_empty();
    spec.forbidden_if(is_debugged, "ephemeralContainers", "ephemeral containers not allowed in pod template");
}

/// Everything wrong with a pod spec; a `pod` is held to more than a template is.
fn pod_spec(spec: &Place, pod: Option<&Value>) {
    let grace = spec.integer("terminationGracePeriodSeconds");
    if grace.is_none() {
        spec.required("terminationGracePeriodSeconds", "");
    }
    let claims = spec.items("resourceClaims").map(|claim| claim.text("name")).filter(|name| !name.is_empty());
    let context = Context { spec, volumes: volumes(spec, pod), claims: claims.collect(), grace };
    resource_claims(spec);
    ordered_containers(&context);
    file_variables(spec);
    pod_level(spec);
    spec.needs_one_of("restartPolicy", &["Always", "OnFailure", "Never"]);
    spec.needs_one_of("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    if spec.has("preemptionPolicy") {
        spec.needs_one_of("preemptionPolicy", &["PreemptLowerPriority", "Never"]);
    }
    network(spec, pod.is_some());
    pod_security(spec);
    scheduling(spec);
    plain_names(spec);
    spec.in_range("activeDeadlineSeconds", 1, i64::from(i32::MAX));
    if let Some(overhead) = spec.given("overhead") {
        // Overhead is checked as if it were the limits of a container, so the path says so.
        let as_limits = json!({ "limits": overhead.value });
        resources(&spec.stand_in("overhead", &as_limits), Asker::Container, &[]);
    }
}

fn scheduling(spec: &Place) {
    labels(&spec.field("nodeSelector"));
    affinity(&spec.field("affinity"));
    spec.items("tolerations").for_each(|item| toleration(&item));
    topology_spread(spec);
    spec.items("readinessGates").for_each(|gate| gate.named("conditionType", names::qualified_name));
    let mut taken = BTreeSet::new();
    for gate in spec.items("schedulingGates") {
        let name = gate.text("name");
        gate.complain("", name, names::qualified_name(name));
        gate.duplicate_if(!taken.insert(name), "", name);
    }
}

/// Names that may be absent but not badly shaped.
fn plain_names(spec: &Place) {
    const HOSTNAME_MAX: usize = 64;
    for key in ["serviceAccountName", "nodeName", "priorityClassName"] {
        spec.named_unless_empty(key, names::dns_subdomain);
    }
    for key in ["hostname", "subdomain"] {
        spec.named_unless_empty(key, names::dns_label);
    }
    spec.named_if_given("runtimeClassName", names::dns_subdomain);
    let Some(name) = spec.given("hostnameOverride") else { return };
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        name.forbidden_if(spec.flag(key), "", &format!("may not be specified when {key} is true"));
    }
    name.too_long_if(name.text("").len() > HOSTNAME_MAX, "", HOSTNAME_MAX);
    name.named("", names::dns_subdomain);
}

fn network(spec: &Place, is_pod: bool) {
    let ports = spec.items("containers").filter(|_| spec.flag("hostNetwork"));
    for container in ports {
        for port in container.items("ports") {
            let host = port.integer("hostPort").unwrap_or(0);
            let is_left_open = host == 0 && !is_pod;
            let is_other = !is_left_open && host != port.integer("containerPort").unwrap_or(0);
            port.invalid_if(is_other, "hostPort", host, "must match `containerPort` when `hostNetwork` is true");
        }
    }
    for alias in spec.items("hostAliases") {
        alias.named("ip", names::ip_address);
        alias.items("hostnames").for_each(|host| host.named("", names::dns_subdomain));
    }
    name_resolution(spec);
}

fn name_resolution(spec: &Place) {
    const SERVERS_MAX: usize = 3;
    const SEARCHES_MAX: usize = 32;
    const SEARCH_BYTES_MAX: usize = 2048;
    let config = spec.field("dnsConfig");
    if spec.text("dnsPolicy") == "None" {
        if config.value.is_null() {
            return config.required("", "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if config.list("nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return config.required("nameservers", detail);
        }
    }
    let refuse = |is_over: bool, key: &str, what: &str| {
        config.wrong_if(is_over, key, &format!("must not have more than {what}"));
    };
    let servers = config.list("nameservers").len();
    refuse(servers > SERVERS_MAX, "nameservers", &format!("{SERVERS_MAX} nameservers"));
    config.items("nameservers").for_each(|server| server.named("", names::ip_address));
    let searches: Vec<&str> = config.texts("searches").collect();
    refuse(searches.len() > SEARCHES_MAX, "searches", &format!("{SEARCHES_MAX} search paths"));
    let what = format!("{SEARCH_BYTES_MAX} characters (including spaces) in the search list");
    refuse(searches.join(" ").len() > SEARCH_BYTES_MAX, "searches", &what);
    for search in config.items("searches").filter(|search| search.text("") != ".") {
        let name = search.text("").strip_suffix('.').unwrap_or(search.text(""));
        search.complain("", name, names::dns_subdomain_with_underscore(name));
    }
    for option in config.items("options").filter(|option| option.text("name").is_empty()) {
        option.required("", "must not be empty");
    }
}

fn resource_claims(spec: &Place) {
    const SOURCES: [&str; 2] = ["resourceClaimName", "resourceClaimTemplateName"];
    let mut taken = BTreeSet::new();
    for claim in spec.items("resourceClaims") {
        let name = claim.text("name");
        if !name.is_empty() && taken.contains(name) {
            claim.duplicate_if(true, "name", name);
        } else {
            claim.needs_name("name", names::dns_label);
            taken.insert(name);
        }
        let detail = match SOURCES.iter().filter(|key| claim.has(key)).count() {
            0 => "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            1 => "",
            _ => "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
        };
        if !detail.is_empty() {
            let [own, template] = SOURCES.map(|key| claim.get(key));
            let name = claim.get("name");
            let shown =
                format!(r#"{{"Name":{name},"ResourceClaimName":{own},"ResourceClaimTemplateName":{template}}}"#);
            claim.worded("", Problem::Invalid, format!("Invalid value: {shown}: {detail}"));
        }
        SOURCES.iter().for_each(|key| claim.named_if_given(key, names::dns_subdomain));
    }
}

/// Variables read from files need an `emptyDir` to read from.
fn file_variables(spec: &Place) {
    for container in each_container(spec) {
        for variable in container.items("env") {
            let Some(reference) = variable.given("valueFrom.fileKeyRef") else { continue };
            let name = reference.text("volumeName");
            match spec.items("volumes").find(|volume| volume.text("name") == name) {
                None => reference.not_found("volumeName", name),
                Some(volume) => {
                    let detail = "referenced volume must be of type emptyDir";
                    reference.invalid_if(!volume.has("emptyDir"), "volumeName", name, detail);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "pod_tests.rs"]
mod tests;
