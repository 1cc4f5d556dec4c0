//! Defaults of pods and of the pod specs in workload templates, and the first status of a pod.
//!
//! Templates get less than pods: requests are not copied from limits, host ports and service links stay open.

use super::{Row, inner, items, section, set, set_zero};
use crate::kube::quantity::Quantity;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

pub const ROWS: &[Row] = &[
    ("", "Pod", |pod| {
        if let Some(spec) = inner(pod, "spec") {
            pod_spec(spec, false);
        }
        if let Some(status) = section(pod, "status") {
            status_zeros(status);
        }
    }),
    ("", "PodTemplate", |object| {
        if let Some(template) = section(object, "template") {
            pod_template(template);
        }
    }),
];

/// What a pod's status always shows, whoever wrote it (spec K-POD-1, K-POD-2).
fn status_zeros(status: &mut Value) {
    let put = |item: &mut Value, key: &str, zero: Value| {
        if let Some(map) = item.as_object_mut() {
            map.entry(key).or_insert(zero);
        }
    };
    for condition in crate::kube::items_mut(status, "conditions") {
        put(condition, "lastProbeTime", Value::Null);
        put(condition, "lastTransitionTime", Value::Null);
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for container in crate::kube::items_mut(status, list) {
            for (key, zero) in [("image", json!("")), ("imageID", json!("")), ("ready", json!(false))] {
                put(container, key, zero);
            }
            for (key, zero) in [("restartCount", json!(0)), ("state", json!({})), ("lastState", json!({}))] {
                put(container, key, zero);
            }
        }
    }
}

/// Completes a pod template; its metadata is there even when it is empty.
pub fn pod_template(template: &mut Value) {
    section(template, "metadata");
    if let Some(spec) = section(template, "spec") {
        pod_spec(spec, true);
    }
}

/// Completes a pod spec.
pub fn pod_spec(spec: &mut Value, is_template: bool) {
    if !is_template {
        pod_only(spec);
    }
    for (key, value) in
        [("dnsPolicy", "ClusterFirst"), ("restartPolicy", "Always"), ("schedulerName", "default-scheduler")]
    {
        set_zero(spec, key, value);
    }
    section(spec, "securityContext");
    set(spec, "terminationGracePeriodSeconds", 30);
    items(spec, "volumes").for_each(volume);
    for key in ["initContainers", "containers", "ephemeralContainers"] {
        items(spec, key).for_each(container);
    }
    round_up(spec, "overhead");
    if let Some(resources) = inner(spec, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
    service_account(spec);
}

/// A service account has two names in the spec for ever; the newer one wins, the older one fills a gap.
fn service_account(spec: &mut Value) {
    let name = |key: &str| spec.get(key).and_then(Value::as_str).filter(|name| !name.is_empty());
    let Some(account) = name("serviceAccountName").or_else(|| name("serviceAccount")).map(str::to_owned) else {
        return;
    };
    if let Some(map) = spec.as_object_mut() {
        map.insert("serviceAccountName".to_owned(), account.as_str().into());
        map.insert("serviceAccount".to_owned(), account.into());
    }
}

fn pod_only(spec: &mut Value) {
    let is_on_host = spec["hostNetwork"] == true;
    for key in ["containers", "initContainers"] {
        for container in items(spec, key) {
            if let Some(resources) = inner(container, "resources") {
                requests_from_limits(resources);
            }
            for port in items(container, "ports").filter(|_| is_on_host) {
                let number = port["containerPort"].clone();
                set_zero(port, "hostPort", number);
            }
        }
    }
    pod_level_requests(spec);
    set(spec, "enableServiceLinks", true);
}

/// Each resource that is limited but not requested is requested in full.
fn requests_from_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).filter(|map| !map.is_empty()).cloned() else {
        return;
    };
    if let Some(requests) = section(resources, "requests") {
        for (name, value) in limits {
            set(requests, &name, value);
        }
    }
}

/// Requests of a pod as a whole come from its containers, else from its own limits.
fn pod_level_requests(spec: &mut Value) {
    let Some(limits) = spec["resources"].get("limits").and_then(Value::as_object).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let totals = container_totals(spec, "requests");
    let Some(requests) = inner(spec, "resources").and_then(|resources| section(resources, "requests")) else { return };
    for (name, total) in totals {
        if matches!(name.as_str(), "cpu" | "memory") {
            set(requests, &name, total.to_string());
        }
    }
    for (name, limit) in limits {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            set(requests, &name, limit);
        }
    }
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
fn round_up(object: &mut Value, key: &str) {
    for value in object.get_mut(key).and_then(Value::as_object_mut).into_iter().flatten().map(|(_, value)| value) {
        let Some(amount) = value.as_str().and_then(|text| Quantity::parse(text).ok()) else { continue };
        if let Some(rounded) = amount.rounded_to_milli() {
            *value = rounded.to_string().into();
        }
    }
}

fn container(container: &mut Value) {
    let image = container["image"].as_str().unwrap_or("");
    let policy = pull_policy(image);
    set_zero(container, "imagePullPolicy", policy);
    set_zero(container, "terminationMessagePath", "/dev/termination-log");
    set_zero(container, "terminationMessagePolicy", "File");
    for port in items(container, "ports") {
        set_zero(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        if let Some(from) = inner(variable, "valueFrom") {
            references(from);
            if let Some(file) = inner(from, "fileKeyRef") {
                set(file, "optional", false);
            }
        }
    }
    if let Some(resources) = section(container, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = inner(container, key) {
            probe(value);
        }
    }
    if let Some(lifecycle) = inner(container, "lifecycle") {
        for key in ["postStart", "preStop"] {
            if let Some(hook) = inner(lifecycle, key) {
                http_get(hook);
            }
        }
    }
}

/// Field references name their version; resource references always show a divisor.
fn references(holder: &mut Value) {
    if let Some(field) = inner(holder, "fieldRef") {
        set_zero(field, "apiVersion", "v1");
    }
    if let Some(resource) = inner(holder, "resourceFieldRef") {
        set(resource, "divisor", "0");
    }
}

fn probe(probe: &mut Value) {
    for (key, value) in [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        set_zero(probe, key, value);
    }
    http_get(probe);
    if let Some(grpc) = inner(probe, "grpc") {
        set(grpc, "service", "");
    }
}

fn http_get(holder: &mut Value) {
    if let Some(action) = inner(holder, "httpGet") {
        set_zero(action, "path", "/");
        set_zero(action, "scheme", "HTTP");
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

/// Fields of one kind of volume source that are filled in when they are zero.
const SOURCE_TEXTS: &[(&str, &[(&str, &str)])] = &[
    ("iscsi", &[("iscsiInterface", "default")]),
    ("rbd", &[("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")]),
    ("azureDisk", &[("cachingMode", "ReadWrite"), ("fsType", "ext4"), ("kind", "Shared")]),
    ("scaleIO", &[("storageMode", "ThinProvisioned"), ("fsType", "xfs")]),
];

/// `rw-r--r--`.
const FILE_MODE: i64 = 0o644;
const TOKEN_SECONDS: i64 = 3600;

fn volume(volume: &mut Value) {
    let Some(map) = volume.as_object_mut() else { return };
    let has_source = map.iter().any(|(key, value)| key != "name" && !value.is_null());
    if !has_source {
        map.insert("emptyDir".to_owned(), Map::new().into());
    }
    for key in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = inner(volume, key) {
            set(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(host) = inner(volume, "hostPath") {
        set(host, "type", "");
    }
    for (key, texts) in SOURCE_TEXTS {
        if let Some(source) = inner(volume, key) {
            texts.iter().for_each(|(key, value)| set_zero(source, key, *value));
        }
    }
    if let Some(disk) = inner(volume, "azureDisk") {
        set(disk, "readOnly", false);
    }
    if let Some(image) = inner(volume, "image") {
        let policy = pull_policy(image["reference"].as_str().unwrap_or(""));
        set_zero(image, "pullPolicy", policy);
    }
    if let Some(downward) = inner(volume, "downwardAPI") {
        items(downward, "items").for_each(references);
    }
    if let Some(projected) = inner(volume, "projected") {
        items(projected, "sources").for_each(projection);
    }
    if let Some(template) = inner(volume, "ephemeral").and_then(|ephemeral| inner(ephemeral, "volumeClaimTemplate")) {
        section(template, "metadata");
        if let Some(spec) = section(template, "spec") {
            claim_spec(spec);
        }
    }
}

fn projection(source: &mut Value) {
    if let Some(downward) = inner(source, "downwardAPI") {
        items(downward, "items").for_each(references);
    }
    if let Some(token) = inner(source, "serviceAccountToken") {
        set(token, "expirationSeconds", TOKEN_SECONDS);
    }
}

/// Completes the spec of a volume claim, in a claim of its own or in a template.
pub fn claim_spec(spec: &mut Value) {
    set(spec, "volumeMode", "Filesystem");
    if let Some(resources) = section(spec, "resources") {
        round_up(resources, "limits");
        round_up(resources, "requests");
    }
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
    if has_gates && let Some(status) = section(pod, "status") {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "lastProbeTime": null,
            "lastTransitionTime": now, "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        set(status, "conditions", vec![condition]);
    }
}

/// Copies the values of `matchLabelKeys` from the pod's labels into the selectors that name them.
pub fn match_label_keys(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let Some(spec) = inner(pod, "spec") else { return };
    for constraint in items(spec, "topologySpreadConstraints") {
        merge_label_keys(constraint, "matchLabelKeys", "In", &labels);
    }
    let Some(affinity) = inner(spec, "affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = inner(affinity, kind) else { continue };
        for (list, is_weighted) in [
            ("preferredDuringSchedulingIgnoredDuringExecution", true),
            ("requiredDuringSchedulingIgnoredDuringExecution", false),
        ] {
            for term in items(terms, list) {
                let term = if is_weighted { inner(term, "podAffinityTerm") } else { Some(term) };
                if let Some(term) = term {
                    merge_label_keys(term, "matchLabelKeys", "In", &labels);
                    merge_label_keys(term, "mismatchLabelKeys", "NotIn", &labels);
                }
            }
        }
    }
}

fn merge_label_keys(term: &mut Value, list: &str, operator: &str, labels: &Value) {
    let keys = term.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(selector) = inner(term, "labelSelector") else { return };
    for key in keys.iter().filter_map(Value::as_str) {
        let Some(value) = labels.get(key) else { continue };
        set(selector, "matchExpressions", Vec::<Value>::new());
        if let Some(expressions) = selector.get_mut("matchExpressions").and_then(Value::as_array_mut) {
            expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
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
}
