//! The downward API: a pod's own fields and resources as text, for its environment and its files.

use super::resources::{Amounts, limits, requests};
use super::{all_containers, name, namespace, spec, uid};
use k8s_openapi::api::core::v1::{Container, Pod, ResourceFieldSelector};
use std::collections::BTreeMap;
use volley_api::kube::quantity::Quantity;

/// What a container's own description does not say but its fields may ask for.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The machine's own name, which pods on its network bear too.
    pub host_name: String,
    /// Usually `cluster.local`.
    pub cluster_domain: String,
    pub host_addresses: Vec<String>,
    pub pod_addresses: Vec<String>,
    /// What the node has to give: the limit of containers that name none.
    pub allocatable: Amounts,
}

/// The text of `fieldRef.fieldPath`.
pub fn field(pod: &Pod, around: &Surroundings, path: &str) -> Result<String, String> {
    let spec = spec(pod);
    let first = |addresses: &[String]| addresses.first().cloned().unwrap_or_default();
    if let Some((map, key)) = subscript(path) {
        return keyed_field(pod, path, map, key);
    }
    let text = match path {
        "metadata.name" => name(pod).to_owned(),
        "metadata.namespace" => namespace(pod).to_owned(),
        "metadata.uid" => uid(pod).to_owned(),
        "metadata.labels" => lines(pod.metadata.labels.as_ref()),
        "metadata.annotations" => lines(pod.metadata.annotations.as_ref()),
        "spec.nodeName" => spec.and_then(|spec| spec.node_name.clone()).unwrap_or_default(),
        "spec.serviceAccountName" => spec.and_then(|spec| spec.service_account_name.clone()).unwrap_or_default(),
        "status.hostIP" => first(&around.host_addresses),
        "status.hostIPs" => around.host_addresses.join(","),
        "status.podIP" => first(&around.pod_addresses),
        "status.podIPs" => around.pod_addresses.join(","),
        _ => return Err(format!("unsupported fieldPath: {path}")),
    };
    Ok(text)
}

/// `metadata.labels['key']` in its two parts.
fn subscript(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(map, _)| !map.is_empty())
}

fn keyed_field(pod: &Pod, path: &str, map: &str, key: &str) -> Result<String, String> {
    let map = match map {
        "metadata.labels" => pod.metadata.labels.as_ref(),
        "metadata.annotations" => pod.metadata.annotations.as_ref(),
        _ => return Err(format!("fieldPath {path:?} does not support subscript")),
    };
    Ok(map.and_then(|map| map.get(key)).cloned().unwrap_or_default())
}

/// A map as sorted lines `key="value"`.
fn lines(map: Option<&BTreeMap<String, String>>) -> String {
    let pairs = map.into_iter().flatten();
    pairs.map(|(key, value)| format!("{key}={}", quoted(value))).collect::<Vec<_>>().join("\n")
}

/// A string as Go quotes it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' => quoted.push_str(&format!("\\x{:02x}", character as u32)),
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

/// The text of `resourceFieldRef`: the amount divided by the divisor, rounded up.
pub fn resource(
    pod: &Pod,
    own: Option<&Container>,
    around: &Surroundings,
    selector: &ResourceFieldSelector,
) -> Result<String, String> {
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let container = match named {
        Some(name) => all_containers(pod).map(|(_, container)| container).find(|container| container.name == name),
        None => own,
    };
    let Some(container) = container else {
        return Err(format!("container {} not found", named.unwrap_or_default()));
    };
    let unsupported = || format!("unsupported container resource : {}", selector.resource);
    let (kind, resource) = selector.resource.split_once('.').ok_or_else(unsupported)?;
    let is_known = matches!(resource, "cpu" | "memory" | "ephemeral-storage");
    if !is_known && !resource.starts_with("hugepages-") {
        return Err(unsupported());
    }
    let stated = match kind {
        "limits" => limits(container.resources.as_ref()),
        "requests" => requests(container.resources.as_ref()),
        _ => return Err(unsupported()),
    };
    let stated = stated.get(resource).copied().filter(|amount| !amount.is_zero());
    let fallback = (kind == "limits" && is_known).then(|| around.allocatable.get(resource).copied()).flatten();
    let amount = stated.or(fallback).unwrap_or_default();
    let divisor = selector.divisor.as_ref().and_then(|divisor| Quantity::parse(&divisor.0).ok());
    let divisor = divisor.filter(|divisor| !divisor.is_zero()).unwrap_or(Quantity::whole(1));
    let (amount, divisor) = match resource {
        "cpu" => (amount.milli_value(), divisor.milli_value()),
        _ => (amount.value(), divisor.value()),
    };
    let divisor = divisor.max(1);
    Ok((amount / divisor + i64::from(amount % divisor != 0)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Pod {
        let container = json!({"name": "c", "resources": {"limits": {"cpu": "1500m"}, "requests": {"memory": "64Mi"}}});
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "ns", "uid": "u", "labels": {"b": "x\n\"y\"", "a": "1"}},
            "spec": {"nodeName": "n", "serviceAccountName": "sa", "containers": [container]},
        }))
        .unwrap()
    }

    fn around() -> Surroundings {
        Surroundings {
            host_name: "box".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            host_addresses: vec!["10.0.0.1".to_owned()],
            pod_addresses: vec!["10.1.0.2".to_owned(), "fd00::2".to_owned()],
            allocatable: [("memory".to_owned(), Quantity::bytes(1 << 30))].into(),
        }
    }

    // K-POD-4
    #[test]
    fn fields_of_the_pod() {
        let cases = [
            ("metadata.name", "p"),
            ("metadata.labels['a']", "1"),
            ("metadata.labels['gone']", ""),
            ("metadata.labels", "a=\"1\"\nb=\"x\\n\\\"y\\\"\""),
            ("metadata.annotations", ""),
            ("spec.nodeName", "n"),
            ("status.hostIP", "10.0.0.1"),
            ("status.podIP", "10.1.0.2"),
            ("status.podIPs", "10.1.0.2,fd00::2"),
        ];
        for (path, text) in cases {
            assert_eq!(field(&pod(), &around(), path).as_deref(), Ok(text), "{path}");
        }
        let refused = field(&pod(), &around(), "spec.hostname").unwrap_err();
        assert_eq!(refused, "unsupported fieldPath: spec.hostname");
    }

    #[test]
    fn resources_are_divided_and_rounded_up_and_missing_limits_are_the_nodes() {
        let cases = [
            ("limits.cpu", "0", "2"),
            ("limits.cpu", "1m", "1500"),
            ("requests.memory", "1Mi", "64"),
            ("requests.cpu", "1", "0"),
            ("limits.memory", "1Gi", "1"),
        ];
        for (name, divisor, text) in cases {
            let selector = serde_json::from_value(json!({"resource": name, "divisor": divisor})).unwrap();
            let pod = pod();
            let own = super::super::main_containers(&pod).first();
            assert_eq!(resource(&pod, own, &around(), &selector).as_deref(), Ok(text), "{name}/{divisor}");
        }
    }
}
