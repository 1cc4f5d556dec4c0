//! Warnings: what is accepted but probably not meant, told in `Warning` headers (spec K-ADM-8).

use super::text;
use serde_json::Value;
use std::collections::BTreeSet;

/// Labels that nodes had under older names: old, since when deprecated, new.
const OLD_NODE_LABELS: &[(&str, &str, &str)] = &[
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

/// Kinds of volumes that are going or gone, and what is said of them.
const OLD_VOLUMES: &[(&str, &str)] = &[
    ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// The warnings for a new object of this kind.
pub fn of(group: &str, kind: &str, object: &Value) -> Vec<String> {
    let spec = &object["spec"];
    let mut warnings = match (group, kind) {
        ("", "Pod") => name_warnings(object, "the Pod's hostname"),
        ("batch", "Job") => name_warnings(object, "Pod names and hostnames"),
        ("", "Service") => service(spec),
        _ => Vec::new(),
    };
    let (path, spec) = match (group, kind) {
        ("", "Pod") => ("spec", spec),
        ("batch", "CronJob") => {
            ("spec.jobTemplate.spec.template.spec", &spec["jobTemplate"]["spec"]["template"]["spec"])
        }
        ("batch", "Job") | ("apps", _) => ("spec.template.spec", &spec["template"]["spec"]),
        _ => return warnings,
    };
    warnings.extend(pod_spec(path, spec));
    warnings
}

/// A name that becomes a host's name should be one label.
fn name_warnings(object: &Value, used_in: &str) -> Vec<String> {
    let name = text(object, "metadata.name");
    let mut why = Vec::new();
    if name.len() > 63 {
        why.push("must be no more than 63 characters");
    }
    if name.contains('.') {
        why.push("must not contain dots");
    }
    if why.is_empty() {
        return Vec::new();
    }
    let why = why.join(", ");
    vec![format!(
        "metadata.name: this is used in {used_in}, which can result in surprising behavior; a DNS label is recommended: [{why}]"
    )]
}

fn service(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if text(spec, "clusterIP") == "None" {
        if !list(spec, "externalIPs").is_empty() {
            warnings.push("spec.externalIPs is ignored for headless services".to_owned());
        }
        if text(spec, "sessionAffinity") == "ClientIP" {
            warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    if !text(spec, "externalName").is_empty() && text(spec, "type") != "ExternalName" {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    warnings
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    object[key].as_array().map_or(&[], Vec::as_slice)
}

fn pod_spec(path: &str, spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        warnings.extend(old_label(key).map(|since| format!("{path}.nodeSelector[{key}]: {since}")));
    }
    for (i, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        let (path, key) = (format!("{path}.topologySpreadConstraints[{i}]"), text(constraint, "topologyKey"));
        warnings.extend(old_label(key).map(|since| format!("{path}.topologyKey: {key} is {since}")));
        warnings.extend(no_selector(&path, constraint));
    }
    warnings.extend(affinity(&format!("{path}.affinity"), &spec["affinity"]));
    for (field, key) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = BTreeSet::new();
        for (i, item) in list(spec, field).iter().enumerate() {
            let (value, path) = (text(item, key), format!("{path}.{field}[{i}].{key}"));
            if value.is_empty() && field == "imagePullSecrets" {
                warnings.push(format!("{path}: invalid empty name \"\""));
            } else if !seen.insert(value) {
                warnings.push(format!("{path}: duplicate {key} \"{value}\""));
            }
        }
    }
    for (i, volume) in list(spec, "volumes").iter().enumerate() {
        let old = OLD_VOLUMES.iter().filter(|(kind, _)| volume.get(*kind).is_some());
        warnings.extend(old.map(|(kind, what)| format!("{path}.volumes[{i}].{kind}: {what}")));
    }
    for field in ["initContainers", "containers"] {
        for (i, container) in list(spec, field).iter().enumerate() {
            warnings.extend(self::container(&format!("{path}.{field}[{i}]"), container));
        }
    }
    warnings
}

fn old_label(key: &str) -> Option<String> {
    let (_, since, new) = OLD_NODE_LABELS.iter().find(|(old, ..)| *old == key)?;
    Some(format!("deprecated since {since}; use \"{new}\" instead"))
}

fn no_selector(path: &str, term: &Value) -> Option<String> {
    let is_missing = term.get("labelSelector").is_none_or(Value::is_null);
    is_missing.then(|| format!("{path}.labelSelector: a null labelSelector results in matching no pod"))
}

fn affinity(path: &str, affinity: &Value) -> Vec<String> {
    const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
    const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
    let mut warnings = Vec::new();
    for (i, term) in list(&affinity["nodeAffinity"][REQUIRED], "nodeSelectorTerms").iter().enumerate() {
        for (j, expression) in list(term, "matchExpressions").iter().enumerate() {
            let key = text(expression, "key");
            let path = format!("{path}.nodeAffinity.{REQUIRED}.nodeSelectorTerms[{i}].matchExpressions[{j}].key");
            warnings.extend(old_label(key).map(|since| format!("{path}: {key} is {since}")));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in list(&affinity[kind], REQUIRED).iter().enumerate() {
            warnings.extend(no_selector(&format!("{path}.{kind}.{REQUIRED}[{i}]"), term));
        }
        for (i, term) in list(&affinity[kind], PREFERRED).iter().enumerate() {
            let path = format!("{path}.{kind}.{PREFERRED}[{i}].podAffinityTerm");
            warnings.extend(no_selector(&path, &term["podAffinityTerm"]));
        }
    }
    warnings
}

fn container(path: &str, container: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for amounts in ["limits", "requests"] {
        for name in ["memory", "ephemeral-storage"] {
            let amount = container["resources"][amounts][name].as_str().filter(|amount| amount.ends_with('m'));
            warnings.extend(amount.map(|amount| {
                format!("{path}.resources.{amounts}[{name}]: fractional byte value \"{amount}\" is invalid, must be an integer")
            }));
        }
    }
    let mut seen = BTreeSet::new();
    for (j, variable) in list(container, "env").iter().enumerate() {
        let name = text(variable, "name");
        if !seen.insert(name) {
            warnings.push(format!(
                "{path}.env[{j}]: hides previous definition of \"{name}\", which may be dropped when using apply"
            ));
        }
    }
    let ports = list(container, "ports");
    let place = |port: &Value| ["containerPort", "protocol", "hostPort", "hostIP"].map(|key| port[key].clone());
    for (j, port) in ports.iter().enumerate() {
        if let Some(first) = ports[..j].iter().position(|earlier| place(earlier) == place(port)) {
            warnings.push(format!("{path}.ports[{j}]: duplicate port definition with {path}.ports[{first}]"));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    // K-ADM-8
    #[test]
    fn a_hidden_variable_is_told() {
        let spec = json!({"containers": [{"env": [{"name": "A"}, {"name": "A"}, {"name": "B"}]}]});
        let text = "hides previous definition of \"A\", which may be dropped when using apply";
        assert_eq!(of("", "Pod", &json!({"spec": spec})), [format!("spec.containers[0].env[1]: {text}")]);
        let job = json!({"spec": {"template": {"spec": spec}}});
        assert_eq!(of("batch", "Job", &job), [format!("spec.template.spec.containers[0].env[1]: {text}")]);
        assert!(of("", "ConfigMap", &json!({})).is_empty());
    }

    // K-ADM-8
    #[test]
    fn old_names_and_doubles_are_told() {
        let spec = json!({"nodeSelector": {"beta.kubernetes.io/os": "linux"}, "volumes": [{"name": "g", "gitRepo": {}}],
            "topologySpreadConstraints": [{"topologyKey": "x"}],
            "containers": [{"name": "c", "ports": [{"containerPort": 80}, {"containerPort": 80}],
                "resources": {"limits": {"memory": "100m"}}}]});
        let pod = json!({"metadata": {"name": "a.b"}, "spec": spec});
        assert_eq!(
            of("", "Pod", &pod),
            [
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
                "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
                "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
                "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
                "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
                "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            ]
        );
        let headless = json!({"spec": {"clusterIP": "None", "sessionAffinity": "ClientIP"}});
        assert_eq!(of("", "Service", &headless), ["spec.SessionAffinity is ignored for headless services"]);
    }
}
