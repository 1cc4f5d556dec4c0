//! Ingresses and ingress classes.

use super::Rule;
use super::address::parse;
use super::rows::{Row, check, check_update as fixed, domain_path, items, join, named, number, set_at};
use super::service::check_port_or_name;
use crate::kube::field::FieldError;
use crate::kube::{names, text};
use serde_json::Value;

const NETWORKING: &str = "networking.k8s.io";

pub const RULES: &[Rule] = &[
    Rule {
        group: NETWORKING,
        kind: "Ingress",
        is_namespaced: true,
        create: check_ingress,
        update: |new, _| check_ingress_spec(new),
    },
    Rule {
        group: NETWORKING,
        kind: "IngressClass",
        is_namespaced: false,
        create: check_ingress_class,
        update: check_ingress_class_update,
    },
];

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub fn check_ingress(ingress: &Value) -> Vec<FieldError> {
    let mut errors = check_ingress_spec(ingress);
    let annotation = ingress["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    let class = set_at(ingress, "spec.ingressClassName").and_then(Value::as_str);
    if let (Some(annotation), true) = (annotation, class.is_some() && annotation != class) {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(FieldError::invalid(format!("annotations.{CLASS_ANNOTATION}"), annotation, detail));
    }
    errors
}

fn check_ingress_spec(ingress: &Value) -> Vec<FieldError> {
    let spec = &ingress["spec"];
    let mut errors = check(spec, "spec", &[Row::Named("ingressClassName", names::dns_subdomain)]);
    let (rules, backend) = (items(spec, "rules"), set_at(spec, "defaultBackend"));
    if rules.is_empty() && backend.is_none() {
        let present = spec.get("rules").cloned().unwrap_or_default();
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid("spec", present, detail));
    }
    if let Some(backend) = backend {
        errors.extend(check_backend(backend, "spec.defaultBackend"));
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("spec.rules[{index}]");
        errors.extend(check_host(text(rule, "host"), &join(&path, "host")));
        if let Some(http) = set_at(rule, "http") {
            errors.extend(check_paths(http, &join(&path, "http.paths")));
        }
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        for (place, host) in items(tls, "hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or("");
            let complaints = if host.contains('*') { names::wildcard_dns_subdomain } else { names::dns_subdomain };
            errors.extend(named(host, &format!("spec.tls[{index}].hosts[{place}]"), complaints));
        }
        if !text(tls, "secretName").is_empty() {
            errors.extend(named(
                text(tls, "secretName"),
                &format!("spec.tls[{index}].secretName"),
                names::dns_subdomain,
            ));
        }
    }
    errors
}

fn check_host(host: &str, path: &str) -> Vec<FieldError> {
    if host.is_empty() {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if parse(host).is_some() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
    let complaints = if host.contains('*') { names::wildcard_dns_subdomain } else { names::dns_subdomain };
    errors.extend(named(host, path, complaints));
    errors
}

fn check_paths(http: &Value, path: &str) -> Vec<FieldError> {
    let paths = items(http, "paths");
    if paths.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    paths.iter().enumerate().flat_map(|(index, rule)| check_path(rule, &format!("{path}[{index}]"))).collect()
}

fn check_path(rule: &Value, path: &str) -> Vec<FieldError> {
    let Some(kind) = set_at(rule, "pathType").and_then(Value::as_str) else {
        return vec![FieldError::required(join(path, "pathType"), "pathType must be specified")];
    };
    let (wanted, place) = (text(rule, "path"), join(path, "path"));
    let invalid = |detail: &str| FieldError::invalid(place.as_str(), wanted, detail);
    let mut errors = Vec::new();
    match kind {
        "Exact" | "Prefix" => {
            if !wanted.starts_with('/') {
                errors.push(invalid("must be an absolute path"));
            }
            let parts = ["//", "/./", "/../", "%2f", "%2F"].into_iter().filter(|part| wanted.contains(part));
            errors.extend(parts.map(|part| invalid(&format!("must not contain '{part}'"))));
            let ends = ["/..", "/."].into_iter().filter(|end| wanted.ends_with(end));
            errors.extend(ends.map(|end| invalid(&format!("cannot end with '{end}'"))));
        }
        "ImplementationSpecific" => {
            if !wanted.is_empty() && !wanted.starts_with('/') {
                errors.push(invalid("must be an absolute path"));
            }
        }
        other => {
            let supported = &["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(join(path, "pathType"), other, supported));
        }
    }
    errors.extend(check_backend(&rule["backend"], &join(path, "backend")));
    errors
}

fn check_backend(backend: &Value, path: &str) -> Vec<FieldError> {
    match (set_at(backend, "resource"), set_at(backend, "service")) {
        (Some(_), Some(_)) => vec![FieldError::invalid(path, "", "cannot set both resource and service backends")],
        (Some(resource), None) => {
            check(resource, &join(path, "resource"), &[Row::Required("kind", ""), Row::Required("name", "")])
        }
        (None, None) => vec![FieldError::invalid(path, "", "resource or service backend is required")],
        (None, Some(service)) => {
            let place = join(path, "service.name");
            let mut errors = match text(service, "name") {
                "" => vec![FieldError::required(place, "")],
                name => named(name, &place, names::dns1035_label),
            };
            match (text(service, "port.name"), number(service, "port.number").unwrap_or(0)) {
                ("", 0) => errors.push(FieldError::required(path, "port name or number is required")),
                ("", number) => errors.extend(check_port_or_name(&number.into(), &join(path, "service.port.number"))),
                (name, 0) => errors.extend(named(name, &join(path, "service.port.name"), names::port_name)),
                _ => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
            }
            errors
        }
    }
}

const CONTROLLER_MAX: usize = 250;

pub fn check_ingress_class(class: &Value) -> Vec<FieldError> {
    let mut errors = domain_path(text(class, "spec.controller"), "spec.controller", CONTROLLER_MAX);
    if let Some(parameters) = set_at(class, "spec.parameters") {
        let rows =
            &[Row::Required("kind", ""), Row::Required("name", ""), Row::OneOf("scope", &["Cluster", "Namespace"])];
        let path = "spec.parameters";
        errors.extend(check(parameters, path, rows));
        let namespace = set_at(parameters, "namespace").and_then(Value::as_str);
        match (text(parameters, "scope"), namespace) {
            ("Namespace", None) => {
                let detail = "`parameters.scope` is set to 'Namespace'";
                errors.push(FieldError::required(join(path, "namespace"), detail));
            }
            ("Namespace", Some(name)) => errors.extend(named(name, &join(path, "namespace"), names::dns_label)),
            ("Cluster", Some(_)) => {
                let detail = "`parameters.scope` is set to 'Cluster'";
                errors.push(FieldError::forbidden(join(path, "namespace"), detail));
            }
            _ => {}
        }
    }
    errors
}

pub fn check_ingress_class_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = check_ingress_class(new);
    errors.extend(fixed(new, old, "", &[Row::Fixed("spec.controller")]));
    errors
}
