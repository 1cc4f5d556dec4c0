//! Probes and lifecycle hooks of a container.

use super::place::Place;
use crate::kube::names;

/// All probes and hooks of one container; `grace` is the pod's termination grace period.
pub(super) fn probes_and_hooks(container: &Place, grace: Option<i64>) {
    for key in ["lifecycle.postStart", "lifecycle.preStop"] {
        if let Some(hook) = container.given(key) {
            handler(&hook, &["exec", "httpGet", "tcpSocket", "sleep"], grace);
        }
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.given(key) {
            probe(&value, key == "readinessProbe");
        }
    }
}

fn probe(probe: &Place, is_readiness: bool) {
    const GRACE: &str = "terminationGracePeriodSeconds";
    handler(probe, &["exec", "httpGet", "tcpSocket", "grpc"], None);
    probe.not_negative(&["initialDelaySeconds", "timeoutSeconds", "periodSeconds"]);
    probe.not_negative(&["successThreshold", "failureThreshold"]);
    let grace = probe.integer(GRACE);
    probe.wrong_if(grace.is_some_and(|seconds| seconds <= 0), GRACE, "must be greater than 0");
    if is_readiness {
        probe.wrong_if(grace.is_some(), GRACE, "must not be set for readinessProbes");
    } else {
        let is_odd = probe.integer("successThreshold").is_some_and(|threshold| threshold != 1);
        probe.wrong_if(is_odd, "successThreshold", "must be 1");
    }
}

/// Exactly one of the handlers in `kinds`.
fn handler(holder: &Place, kinds: &[&str], grace: Option<i64>) {
    let mut given = kinds.iter().filter_map(|kind| Some((*kind, holder.given(kind)?)));
    let Some((kind, action)) = given.next() else { return holder.required("", "must specify a handler type") };
    match kind {
        "exec" => action.needs(&["command"]),
        "httpGet" => http_get(&action),
        "tcpSocket" | "grpc" => action.port_or_name("port"),
        "sleep" => sleep(&action, grace),
        _ => {}
    }
    given.for_each(|(_, action)| action.forbidden("", "may not specify more than 1 handler type"));
}

fn http_get(action: &Place) {
    action.needs(&["path"]);
    action.port_or_name("port");
    action.one_of("scheme", &["HTTP", "HTTPS"]);
    for header in action.list("httpHeaders") {
        // The reference leaves the index out of the path.
        let name = header["name"].as_str().unwrap_or("");
        action.complain("httpHeaders", name, names::http_header_name(name));
    }
}

fn sleep(action: &Place, grace: Option<i64>) {
    let seconds = action.integer("seconds").unwrap_or(0);
    if let Some(grace) = grace.filter(|grace| seconds < 0 || seconds > *grace) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        action.invalid("", seconds, &detail);
    }
}
