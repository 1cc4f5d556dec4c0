//! Ingresses and ingress classes.

use super::Rule;
use super::job::domain_path;
use super::place::Place;
use crate::kube::names;

const NETWORKING: &str = "networking.k8s.io";
const CONTROLLER_MAX: usize = 250;

pub(super) const RULES: &[Rule] = &[
    Rule::of(NETWORKING, "Ingress", ingress).on_create(ingress_create),
    Rule::of(NETWORKING, "IngressClass", ingress_class).cluster_wide().fixed(&["spec.controller"]),
];

fn ingress_create(ingress: &Place) {
    const ANNOTATION: &str = "kubernetes.io/ingress.class";
    let annotation = ingress.get("metadata.annotations").get(ANNOTATION).and_then(|class| class.as_str());
    let class = ingress.get("spec.ingressClassName").as_str();
    if let (Some(annotation), true) = (annotation, class.is_some() && annotation != class) {
        let detail = "must match `ingressClassName` when both are specified";
        ingress.invalid(&format!("annotations.{ANNOTATION}"), annotation, detail);
    }
}

fn ingress(ingress: &Place) {
    let spec = ingress.field("spec");
    spec.named_if_given("ingressClassName", names::dns_subdomain);
    match spec.given("defaultBackend") {
        Some(default) => backend(&default),
        None if spec.list("rules").is_empty() => {
            let detail = "either `defaultBackend` or `rules` must be specified";
            spec.invalid("", spec.get("rules").clone(), detail);
        }
        None => {}
    }
    for rule in spec.items("rules") {
        let host = rule.text("host");
        rule.wrong_if(names::parse_ip(host).is_some(), "host", "must be a DNS name, not an IP address");
        rule.named_unless_empty("host", host_name);
        if let Some(http) = rule.given("http") {
            http.needs(&["paths"]);
            http.items("paths").for_each(|rule| path(&rule));
        }
    }
    for tls in spec.items("tls") {
        tls.items("hosts").for_each(|host| host.named("", host_name));
        tls.named_unless_empty("secretName", names::dns_subdomain);
    }
}

fn host_name(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_dns_subdomain(host) } else { names::dns_subdomain(host) }
}

fn path(rule: &Place) {
    if !rule.has("pathType") {
        return rule.required("pathType", "pathType must be specified");
    }
    let path = rule.text("path");
    let invalid_if = |is_wrong: bool, detail: &str| rule.invalid_if(is_wrong, "path", path, detail);
    match rule.text("pathType") {
        "Exact" | "Prefix" => {
            invalid_if(!path.starts_with('/'), "must be an absolute path");
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                invalid_if(path.contains(part), &format!("must not contain '{part}'"));
            }
            for end in ["/..", "/."] {
                invalid_if(path.ends_with(end), &format!("cannot end with '{end}'"));
            }
        }
        "ImplementationSpecific" => {
            invalid_if(!path.is_empty() && !path.starts_with('/'), "must be an absolute path");
        }
        _ => rule.one_of("pathType", &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(&rule.field("backend"));
}

fn backend(backend: &Place) {
    match (backend.given("resource"), backend.given("service")) {
        (Some(_), Some(_)) => backend.invalid("", "", "cannot set both resource and service backends"),
        (Some(resource), None) => resource.needs(&["kind", "name"]),
        (None, None) => backend.invalid("", "", "resource or service backend is required"),
        (None, Some(service)) => {
            service.needs_name("name", names::dns1035_label);
            match (service.text("port.name"), service.integer("port.number").unwrap_or(0)) {
                ("", 0) => backend.required("", "port name or number is required"),
                ("", _) => service.port_number("port.number"),
                (_, 0) => service.named("port.name", names::port_name),
                _ => backend.invalid("", "", "cannot set both port name & port number"),
            }
        }
    }
}

fn ingress_class(class: &Place) {
    domain_path(&class.field("spec"), "controller", CONTROLLER_MAX);
    let Some(parameters) = class.given("spec.parameters") else { return };
    parameters.needs(&["kind", "name"]);
    parameters.one_of_if_given("scope", &["Cluster", "Namespace"]);
    match (parameters.text("scope"), parameters.has("namespace")) {
        ("Namespace", false) => parameters.required("namespace", "`parameters.scope` is set to 'Namespace'"),
        ("Namespace", true) => parameters.named("namespace", names::dns_label),
        ("Cluster", true) => parameters.forbidden("namespace", "`parameters.scope` is set to 'Cluster'"),
        _ => {}
    }
}
