//! Defaults of pods and of the pod specs in workload templates, and the first status of a pod.
//!
//! Templates get less than pods: requests are not copied from limits, host ports and service links stay open.

use super::rows::Fill::{Flag, NotZero, Null, Number, Object, Text};
use super::rows::{Kind, Row, fill_row, fill_rows, make_map, map_at};
use crate::kube::items_mut;
use crate::kube::quantity::Quantity;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub(super) const KINDS: &[Kind] = &[
    Kind::of("", "Pod").then(pod).rows(&[
        ("status", Object),
        ("status.conditions[].lastProbeTime", Null),
        ("status.conditions[].lastTransitionTime", Null),
    ]),
    Kind::of("", "PodTemplate")
        .then(|object| object.get_mut("template").into_iter().for_each(pod_template))
        .rows(&[("template", Object)]),
];

/// What the status of a container always shows, whoever wrote it (spec K-POD-1, K-POD-2).
const CONTAINER_STATUS: &[Row] = &[
    ("image", Text("")),
    ("imageID", Text("")),
    ("ready", Flag(false)),
    ("restartCount", Number(0)),
    ("state", Object),
    ("lastState", Object),
];

/// `rw-r--r--`.
const FILE_MODE: i64 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

const SPEC: &[Row] = &[
    ("dnsPolicy", Text("ClusterFirst")),
    ("restartPolicy", Text("Always")),
    ("schedulerName", Text("default-scheduler")),
    ("securityContext", Object),
    ("terminationGracePeriodSeconds", Number(30)),
];

const VOLUME: &[Row] = &[
    ("secret?.defaultMode", Number(FILE_MODE)),
    ("configMap?.defaultMode", Number(FILE_MODE)),
    ("downwardAPI?.defaultMode", Number(FILE_MODE)),
    ("downwardAPI?.items[].fieldRef?.apiVersion", Text("v1")),
    ("downwardAPI?.items[].resourceFieldRef?.divisor", Text("0")),
    ("projected?.defaultMode", Number(FILE_MODE)),
    ("projected?.sources[].downwardAPI?.items[].fieldRef?.apiVersion", Text("v1")),
    ("projected?.sources[].downwardAPI?.items[].resourceFieldRef?.divisor", Text("0")),
    ("projected?.sources[].serviceAccountToken?.expirationSeconds", Number(TOKEN_SECONDS)),
    ("hostPath?.type", Text("")),
    ("iscsi?.iscsiInterface", Text("default")),
    ("rbd?.pool", Text("rbd")),
    ("rbd?.user", Text("admin")),
    ("rbd?.keyring", Text("/etc/ceph/keyring")),
    ("azureDisk?.cachingMode", Text("ReadWrite")),
    ("azureDisk?.fsType", Text("ext4")),
    ("azureDisk?.kind", Text("Shared")),
    ("azureDisk?.readOnly", Flag(false)),
    ("scaleIO?.storageMode", Text("ThinProvisioned")),
    ("scaleIO?.fsType", Text("xfs")),
    ("ephemeral?.volumeClaimTemplate?.metadata", Object),
    ("ephemeral?.volumeClaimTemplate?.spec", Object),
];

/// Field references name their version; resource references always show a divisor.
const CONTAINER: &[Row] = &[
    ("terminationMessagePath", Text("/dev/termination-log")),
    ("terminationMessagePolicy", Text("File")),
    ("ports[].protocol", Text("TCP")),
    ("env[].valueFrom?.fieldRef?.apiVersion", Text("v1")),
    ("env[].valueFrom?.resourceFieldRef?.divisor", Text("0")),
    ("env[].valueFrom?.fileKeyRef?.optional", Flag(false)),
    ("resources", Object),
    ("lifecycle?.postStart?.httpGet?.path", Text("/")),
    ("lifecycle?.postStart?.httpGet?.scheme", Text("HTTP")),
    ("lifecycle?.preStop?.httpGet?.path", Text("/")),
    ("lifecycle?.preStop?.httpGet?.scheme", Text("HTTP")),
];

const PROBE: &[Row] = &[
    ("timeoutSeconds", NotZero(1)),
    ("periodSeconds", NotZero(10)),
    ("successThreshold", NotZero(1)),
    ("failureThreshold", NotZero(3)),
    ("httpGet?.path", Text("/")),
    ("httpGet?.scheme", Text("HTTP")),
    ("grpc?.service", Text("")),
];

fn pod(pod: &mut Value) {
    if let Some(spec) = pod.get_mut("spec").filter(|spec| spec.is_object()) {
        pod_only(spec);
        pod_spec(spec);
    }
    for list in ["status.containerStatuses", "status.initContainerStatuses", "status.ephemeralContainerStatuses"] {
        items_mut(pod, list).for_each(|container| fill_rows(container, CONTAINER_STATUS));
    }
    // The one address and the list of addresses say the same.
    if let Some(status) = map_at(pod, "status")
        && let Some(address) = status.get("podIP").and_then(Value::as_str).filter(|ip| !ip.is_empty())
    {
        let addresses = json!([{"ip": address}]);
        add_missing(status, [("podIPs".to_owned(), addresses)]);
    }
}

/// Completes a pod template; its metadata is there even when it is empty.
pub fn pod_template(template: &mut Value) {
    fill_rows(template, &[("metadata", Object), ("spec", Object)]);
    template.get_mut("spec").into_iter().for_each(pod_spec);
}

fn pod_spec(spec: &mut Value) {
    fill_rows(spec, SPEC);
    items_mut(spec, "volumes").for_each(volume);
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        items_mut(spec, key).for_each(container);
    }
    round_up(spec, "overhead");
    round_up(spec, "resources.limits");
    round_up(spec, "resources.requests");
    service_account(spec);
}

/// A service account has two names in the spec for ever; the newer one wins, the older one fills a gap.
fn service_account(spec: &mut Value) {
    let name = |key: &str| spec.get(key).and_then(Value::as_str).filter(|name| !name.is_empty());
    let account = name("serviceAccountName").or_else(|| name("serviceAccount")).map(str::to_owned);
    if let (Some(account), Some(map)) = (account, spec.as_object_mut()) {
        map.insert("serviceAccountName".to_owned(), account.as_str().into());
        map.insert("serviceAccount".to_owned(), account.into());
    }
}

fn pod_only(spec: &mut Value) {
    let is_on_host = spec["hostNetwork"] == true;
    for key in ["containers", "initContainers"] {
        for container in items_mut(spec, key) {
            requests_from_limits(container);
            for port in items_mut(container, "ports").filter(|_| is_on_host) {
                if let Some(number) = port["containerPort"].as_i64() {
                    fill_row(port, "hostPort", NotZero(number));
                }
            }
        }
    }
    pod_level_requests(spec);
    fill_row(spec, "enableServiceLinks", Flag(true));
}

/// Each resource that is limited but not requested is requested in full.
fn requests_from_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].as_object().filter(|map| !map.is_empty()).cloned();
    if let Some(limits) = limits
        && let Some(requests) = make_map(container, "resources.requests")
    {
        add_missing(requests, limits);
    }
}

fn add_missing(map: &mut Map<String, Value>, values: impl IntoIterator<Item = (String, Value)>) {
    for (name, value) in values {
        let present = map.entry(name).or_insert(Value::Null);
        if present.is_null() {
            *present = value;
        }
    }
}

/// Requests of a pod as a whole come from its containers, else from its own limits.
fn pod_level_requests(spec: &mut Value) {
    let Some(limits) = spec["resources"]["limits"].as_object().filter(|map| !map.is_empty()).cloned() else { return };
    let is_compute = |name: &str| matches!(name, "cpu" | "memory");
    let totals = container_totals(spec, "requests").into_iter().filter(|(name, _)| is_compute(name));
    let Some(requests) = make_map(spec, "resources.requests") else { return };
    add_missing(requests, totals.map(|(name, total)| (name, total.to_string().into())));
    add_missing(requests, limits.into_iter().filter(|(name, _)| is_compute(name) || name.starts_with("hugepages-")));
}

/// What the containers of a spec need together: all regular ones and sidecars at once, or the largest init step.
pub fn container_totals(spec: &Value, key: &str) -> BTreeMap<String, Quantity> {
    let amounts = |container: &Value| -> Vec<(String, Quantity)> {
        let list = container["resources"][key].as_object().into_iter().flatten();
        list.filter_map(|(name, value)| Some((name.clone(), Quantity::parse(value.as_str()?).ok()?))).collect()
    };
    let containers = |list: &str| spec[list].as_array().cloned().unwrap_or_default();
    let mut running: BTreeMap<String, Quantity> = BTreeMap::new();
    for (name, amount) in containers("containers").iter().flat_map(amounts) {
        *running.entry(name).or_default() += amount;
    }
    let mut sidecars: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut largest: BTreeMap<String, Quantity> = BTreeMap::new();
    for container in containers("initContainers") {
        for (name, amount) in amounts(&container) {
            let beside = sidecars.entry(name.clone()).or_default();
            let step = *beside + amount;
            if container["restartPolicy"] == "Always" {
                *beside = step;
                *running.entry(name.clone()).or_default() += amount;
            }
            let most = largest.entry(name).or_default();
            *most = (*most).max(step);
        }
    }
    for (name, amount) in largest {
        let total = running.entry(name).or_default();
        *total = (*total).max(amount);
    }
    running
}

/// Resource lists keep thousandths only; what is finer is rounded up.
fn round_up(object: &mut Value, path: &str) {
    for (_, value) in map_at(object, path).into_iter().flatten() {
        let Some(amount) = value.as_str().and_then(|text| Quantity::parse(text).ok()) else { continue };
        if let Some(rounded) = amount.rounded_to_milli() {
            *value = rounded.to_string().into();
        }
    }
}

fn container(container: &mut Value) {
    let policy = pull_policy(container["image"].as_str().unwrap_or(""));
    fill_row(container, "imagePullPolicy", Text(policy));
    fill_rows(container, CONTAINER);
    round_up(container, "resources.limits");
    round_up(container, "resources.requests");
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        container.get_mut(key).into_iter().for_each(|probe| fill_rows(probe, PROBE));
    }
}

/// `Always` for images whose tag is, or would be, `latest`; a digest or a text that is no image has none.
pub fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    let slash = name.rfind('/').map_or(0, |at| at + 1);
    let (path, tag) = match name[slash..].find(':') {
        Some(at) => (&name[..slash + at], Some(&name[slash + at + 1..])),
        None => (name, None),
    };
    let is_latest = tag.map_or(digest.is_none(), |tag| tag == "latest");
    if is_latest && is_image_path(path) { "Always" } else { "IfNotPresent" }
}

/// A repository path in lower case, after an optional registry host.
fn is_image_path(path: &str) -> bool {
    let has_host = |first: &str| {
        first.contains(['.', ':']) || first == "localhost" || first.bytes().any(|b| b.is_ascii_uppercase())
    };
    let repository = match path.split_once('/') {
        Some((first, rest)) if has_host(first) => rest,
        _ => path,
    };
    let is_end = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    repository.split('/').all(|part| {
        let bytes = part.as_bytes();
        is_end(bytes.first().copied())
            && is_end(bytes.last().copied())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(b))
    })
}

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    let has_source = map.iter().any(|(key, value)| key != "name" && !value.is_null());
    if !has_source {
        map.insert("emptyDir".to_owned(), Map::new().into());
    }
    fill_rows(volume, VOLUME);
    let policy = pull_policy(volume["image"]["reference"].as_str().unwrap_or(""));
    fill_row(volume, "image?.pullPolicy", Text(policy));
    volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec").into_iter().for_each(claim_spec);
}

/// Completes the spec of a volume claim, in a claim of its own or in a template.
pub(super) fn claim_spec(spec: &mut Value) {
    fill_rows(spec, &[("volumeMode", Text("Filesystem")), ("resources", Object)]);
    round_up(spec, "resources.limits");
    round_up(spec, "resources.requests");
}

/// The status of a new pod: pending, with its class of service; whatever the user sent is dropped.
pub fn pod_status(pod: &mut Value) {
    let class = service_class(&pod["spec"]);
    if let Some(map) = pod.as_object_mut() {
        map.insert("status".to_owned(), json!({"phase": "Pending", "qosClass": class}));
    }
}

/// A pod with scheduling gates says at once that it waits for them; `now` is RFC 3339 text.
pub fn scheduling_gated(pod: &mut Value, now: &str) {
    let has_gates = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    if has_gates && let Some(status) = make_map(pod, "status") {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
            "lastTransitionTime": now, "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        add_missing(status, [("conditions".to_owned(), json!([condition]))]);
    }
}

/// Copies the values of `matchLabelKeys` from the pod's labels into the selectors that name them.
pub fn match_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    for constraint in items_mut(pod, "spec.topologySpreadConstraints") {
        merge_label_keys(constraint, "matchLabelKeys", "In", &labels);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let preferred = format!("spec.affinity.{kind}.preferredDuringSchedulingIgnoredDuringExecution");
        for term in items_mut(pod, &preferred).filter_map(|term| term.get_mut("podAffinityTerm")) {
            merge_both_label_keys(term, &labels);
        }
        let required = format!("spec.affinity.{kind}.requiredDuringSchedulingIgnoredDuringExecution");
        items_mut(pod, &required).for_each(|term| merge_both_label_keys(term, &labels));
    }
}

fn merge_both_label_keys(term: &mut Value, labels: &Value) {
    merge_label_keys(term, "matchLabelKeys", "In", labels);
    merge_label_keys(term, "mismatchLabelKeys", "NotIn", labels);
}

fn merge_label_keys(term: &mut Value, list: &str, operator: &str, labels: &Value) {
    let keys = term.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(value) = labels.get(key) else { continue };
        let expression = json!({"key": key, "operator": operator, "values": [value]});
        match selector.entry("matchExpressions").or_insert(Value::Null) {
            Value::Array(expressions) => expressions.push(expression),
            absent => *absent = json!([expression]),
        }
    }
}

/// `Guaranteed`, `Burstable` or `BestEffort`; only CPU and memory count.
fn service_class(spec: &Value) -> &'static str {
    let lists = ["containers", "initContainers"];
    let units: Vec<&Value> = match spec.get("resources").filter(|resources| resources.is_object()) {
        Some(resources) => vec![resources],
        None => lists.iter().filter_map(|key| spec[*key].as_array()).flatten().map(|c| &c["resources"]).collect(),
    };
    let amount = |unit: &Value, key: &str, name: &str| {
        let text = unit[key][name].as_str().unwrap_or("0");
        Quantity::parse(text).unwrap_or_default().max(Quantity::ZERO)
    };
    let total = |key: &str, name: &str| units.iter().fold(Quantity::ZERO, |sum, unit| sum + amount(unit, key, name));
    let names = ["cpu", "memory"];
    if names.iter().all(|name| total("requests", name).is_zero() && total("limits", name).is_zero()) {
        return "BestEffort";
    }
    let is_limited = |unit: &&Value| names.iter().all(|name| !amount(unit, "limits", name).is_zero());
    let is_equal = names.iter().all(|name| total("requests", name) == total("limits", name));
    if is_equal && units.iter().all(is_limited) { "Guaranteed" } else { "Burstable" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::defaults::fill;

    fn filled(spec: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p"}, "spec": spec});
        fill("", "Pod", &mut pod);
        pod["spec"].take()
    }

    #[test]
    fn a_pod_is_completed_as_the_reference_does_it() {
        assert_eq!(
            filled(json!({"containers": [{"name": "c", "image": "busybox"}]})),
            json!({
                "containers": [{
                    "name": "c", "image": "busybox", "imagePullPolicy": "Always", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                }],
                "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            })
        );
    }

    // K-POD-1 K-POD-2
    #[test]
    fn a_status_shows_what_nobody_wrote() {
        let mut pod = json!({"spec": {"containers": []}, "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "ready": true, "state": {"running": {}}}],
        }});
        fill("", "Pod", &mut pod);
        assert_eq!(
            pod["status"],
            json!({
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null}],
                "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "state": {"running": {}}, "lastState": {}}],
            })
        );
    }

    #[test]
    fn filling_in_twice_changes_nothing() {
        let spec = filled(json!({
            "hostNetwork": true, "serviceAccount": "s", "overhead": {"cpu": "1n"},
            "containers": [{"name": "c", "ports": [{"containerPort": 5}], "resources": {"limits": {"cpu": "1"}, "requests": {}}}],
            "volumes": [{"name": "a"}, {"name": "b", "secret": {}}, {"name": "c", "projected": {"sources": [{"serviceAccountToken": {}}]}}],
        }));
        assert_eq!(filled(spec.clone()), spec);
        assert_eq!(spec["overhead"]["cpu"], "1m");
        assert_eq!(spec["serviceAccountName"], "s");
        assert_eq!(spec["containers"][0]["ports"][0], json!({"containerPort": 5, "hostPort": 5, "protocol": "TCP"}));
        assert_eq!(spec["containers"][0]["resources"]["requests"], json!({"cpu": "1"}));
        assert_eq!(spec["volumes"][0]["emptyDir"], json!({}));
        assert_eq!(spec["volumes"][1]["secret"]["defaultMode"], 420);
        assert_eq!(spec["volumes"][2]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"], 3600);
    }

    #[test]
    fn templates_get_less_than_pods() {
        let mut template = json!({"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}});
        pod_template(&mut template);
        assert_eq!(template["metadata"], json!({}));
        assert_eq!(template["spec"]["enableServiceLinks"], Value::Null);
        assert_eq!(template["spec"]["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
    }

    #[test]
    fn probes_hooks_and_references_are_completed() {
        let spec = filled(json!({"containers": [{
            "name": "c", "livenessProbe": {"httpGet": {"port": 1}, "timeoutSeconds": 0}, "readinessProbe": {"grpc": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 1}}},
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
        }]}));
        let container = &spec["containers"][0];
        assert_eq!(
            container["livenessProbe"],
            json!({"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
                   "successThreshold": 1, "failureThreshold": 3})
        );
        assert_eq!(container["readinessProbe"]["grpc"]["service"], "");
        assert_eq!(container["lifecycle"]["preStop"]["httpGet"]["scheme"], "HTTP");
        assert_eq!(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
        assert_eq!(container["env"][1]["valueFrom"]["resourceFieldRef"]["divisor"], "0");
    }

    #[test]
    fn only_latest_images_are_always_pulled() {
        for image in ["a", "a:latest", "h.io:5000/a/b", "h.io/a:latest@sha256:0", "localhost/a"] {
            assert_eq!(pull_policy(image), "Always", "{image}");
        }
        for image in ["", "a:1", "a@sha256:0", "h.io:5000/a:v1", "Foo", "a//b"] {
            assert_eq!(pull_policy(image), "IfNotPresent", "{image}");
        }
    }

    #[test]
    fn the_class_of_service_follows_cpu_and_memory() {
        let class = |resources: Value| {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}, "status": {"phase": "Running"}});
            fill("", "Pod", &mut pod);
            pod_status(&mut pod);
            assert_eq!(pod["status"]["phase"], "Pending");
            pod["status"]["qosClass"].as_str().expect("a class").to_owned()
        };
        assert_eq!(class(json!({})), "BestEffort");
        assert_eq!(class(json!({"limits": {"nvidia.com/gpu": "1"}})), "BestEffort");
        assert_eq!(class(json!({"limits": {"cpu": "1"}})), "Burstable");
        assert_eq!(class(json!({"limits": {"cpu": "1", "memory": "1Gi"}})), "Guaranteed");
        assert_eq!(class(json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}})), "Burstable");
    }

    #[test]
    fn a_gated_pod_says_so() {
        let mut pod = json!({"spec": {"schedulingGates": [{"name": "g"}]}});
        pod_status(&mut pod);
        scheduling_gated(&mut pod, "2026-01-01T00:00:00Z");
        assert_eq!(pod["status"]["conditions"][0]["reason"], "SchedulingGated");
    }

    #[test]
    fn label_keys_become_part_of_the_selector() {
        let mut pod = json!({"metadata": {"labels": {"h": "1"}}, "spec": {"topologySpreadConstraints": [
            {"matchLabelKeys": ["h", "x"], "labelSelector": {"matchLabels": {"a": "b"}}}]}});
        match_label_keys(&mut pod);
        assert_eq!(
            pod["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"],
            json!([{"key": "h", "operator": "In", "values": ["1"]}])
        );
    }

    #[test]
    fn totals_take_the_larger_of_running_and_starting() {
        let need = |cpu: &str| json!({"requests": {"cpu": cpu}});
        let spec = json!({
            "containers": [{"resources": need("1")}, {"resources": need("500m")}],
            "initContainers": [{"resources": need("1"), "restartPolicy": "Always"}, {"resources": need("3")}],
        });
        assert_eq!(container_totals(&spec, "requests")["cpu"].to_string(), "4");
    }

    // K-POD-1 K-POD-2
    #[test]
    fn a_pod_status_has_the_fields_that_typed_clients_need() {
        let mut pod = json!({"status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "c", "state": {"running": {}}}]}});
        fill("", "Pod", &mut pod);
        let condition = json!({"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": null});
        assert_eq!(pod["status"]["conditions"][0], condition);
        assert_eq!(
            pod["status"]["containerStatuses"][0],
            json!({"name": "c", "state": {"running": {}}, "lastState": {}, "image": "", "imageID": "", "ready": false,
                "restartCount": 0})
        );
        assert_eq!(pod["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
        let filled = pod.clone();
        fill("", "Pod", &mut pod);
        assert_eq!(pod, filled);
    }
}
