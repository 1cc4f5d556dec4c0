//! Probes and lifecycle hooks of a container.

use super::path::Path;
use super::read::{complain, given, integer, list, not_negative, one_of, required, string};
use crate::kube::field::FieldError;
use crate::kube::names;
use serde_json::Value;

/// All probes and hooks of one container; `grace` is the pod's termination grace period.
pub(super) fn probes_and_hooks(errors: &mut Vec<FieldError>, container: &Value, path: &Path, grace: Option<i64>) {
    if let Some(lifecycle) = given(container, "lifecycle") {
        let path = path.field("lifecycle");
        for key in ["postStart", "preStop"] {
            if let Some(hook) = given(lifecycle, key) {
                handler(errors, hook, &path.field(key), &["exec", "httpGet", "tcpSocket", "sleep"], grace);
            }
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = given(container, key) {
            probe(errors, value, &path.field(key), key == "readinessProbe");
        }
    }
}

fn probe(errors: &mut Vec<FieldError>, probe: &Value, path: &Path, is_readiness: bool) {
    const COUNTS: &[&str] =
        &["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];
    handler(errors, probe, path, &["exec", "httpGet", "tcpSocket", "grpc"], None);
    not_negative(errors, probe, path, COUNTS);
    let grace = integer(probe, "terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            path.field("terminationGracePeriodSeconds"),
            seconds,
            "must be greater than 0",
        ));
    }
    if is_readiness {
        if let Some(seconds) = grace {
            let detail = "must not be set for readinessProbes";
            errors.push(FieldError::invalid(path.field("terminationGracePeriodSeconds"), seconds, detail));
        }
    } else if let Some(threshold) = integer(probe, "successThreshold").filter(|threshold| *threshold != 1) {
        errors.push(FieldError::invalid(path.field("successThreshold"), threshold, "must be 1"));
    }
}

/// Exactly one of the handlers in `kinds`.
fn handler(errors: &mut Vec<FieldError>, holder: &Value, path: &Path, kinds: &[&str], grace: Option<i64>) {
    let mut found = false;
    for kind in kinds {
        let Some(action) = given(holder, kind) else { continue };
        let path = path.field(kind);
        if found {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 handler type"));
            continue;
        }
        found = true;
        match *kind {
            "exec" if list(action, "command").is_empty() => {
                errors.push(FieldError::required(path.field("command"), ""))
            }
            "httpGet" => http_get(errors, action, &path),
            "tcpSocket" | "grpc" => port(errors, &action["port"], &path.field("port")),
            "sleep" => sleep(errors, action, &path, grace),
            _ => {}
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
}

fn http_get(errors: &mut Vec<FieldError>, action: &Value, path: &Path) {
    required(errors, action, path, &["path"]);
    port(errors, &action["port"], &path.field("port"));
    one_of(errors, action, path, "scheme", &["HTTP", "HTTPS"]);
    for header in list(action, "httpHeaders") {
        let name = string(header, "name");
        complain(errors, &path.field("httpHeaders"), name, names::http_header_name(name));
    }
}

/// A port number or the name of a container port.
pub(super) fn port(errors: &mut Vec<FieldError>, value: &Value, path: &Path) {
    match value.as_str() {
        Some(name) => complain(errors, path, name, names::port_name(name)),
        None => {
            let number = value.as_i64().unwrap_or(0);
            complain(errors, path, number, names::port_number(number));
        }
    }
}

fn sleep(errors: &mut Vec<FieldError>, action: &Value, path: &Path, grace: Option<i64>) {
    let seconds = integer(action, "seconds").unwrap_or(0);
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.push(FieldError::invalid(path, seconds, &detail));
    }
}
