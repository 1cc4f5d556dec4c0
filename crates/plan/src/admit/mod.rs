//! Admission: what is filled into new objects from other objects, and what is refused because of them (spec K 19).
//!
//! Each rule takes the object and the facts that it needs; an error is the text after `… is forbidden: `.

pub mod limits;
pub mod quota;
pub mod training;

use serde_json::{Value, json};
use volley_api::kube::{items_mut, text};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const TOKEN_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Priority from the class, the global default or zero (spec K-ADM-4).
pub fn priority(pod: &mut Value, classes: &[Value]) -> Result<(), String> {
    let asked = text(pod, "spec.priorityClassName").to_owned();
    let class = if asked.is_empty() {
        let defaults = classes.iter().filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
    } else {
        let found = classes.iter().find(|class| text(class, "metadata.name") == asked);
        Some(found.ok_or_else(|| format!("no PriorityClass with name {asked} was found"))?)
    };
    let value = class.and_then(|class| class["value"].as_i64()).unwrap_or(0);
    if let Some(sent) = pod["spec"]["priority"].as_i64().filter(|sent| *sent != value) {
        return Err(format!(
            "the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    let policy = class.map_or("PreemptLowerPriority", |class| text(class, "preemptionPolicy"));
    let sent_policy = text(pod, "spec.preemptionPolicy").to_owned();
    if !sent_policy.is_empty() && sent_policy != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({sent_policy}) must not be provided in pod spec; priority admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some(class) = class {
        pod["spec"]["priorityClassName"] = class["metadata"]["name"].clone();
    }
    pod["spec"]["priority"] = value.into();
    pod["spec"]["preemptionPolicy"] = policy.into();
    Ok(())
}

/// At most one class is the default of pods without one.
pub fn priority_class(class: &Value, others: &[Value]) -> Result<(), String> {
    if class["globalDefault"] != true {
        return Ok(());
    }
    let same =
        |other: &&Value| other["globalDefault"] == true && other["metadata"]["name"] != class["metadata"]["name"];
    match others.iter().find(same) {
        Some(other) => Err(format!(
            "PriorityClass {} is already marked as default. Only one default can exist",
            text(other, "metadata.name")
        )),
        None => Ok(()),
    }
}

/// Tolerations for a node that is briefly away (spec K-ADM-3).
pub fn tolerations(pod: &mut Value) {
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let list = pod["spec"]["tolerations"].as_array().cloned().unwrap_or_default();
        let covers = |t: &Value| {
            let (own, effect) = (text(t, "key"), text(t, "effect"));
            (own == key || (own.is_empty() && text(t, "operator") == "Exists")) && matches!(effect, "" | "NoExecute")
        };
        if !list.iter().any(covers) {
            let mut list = list;
            list.push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
            pod["spec"]["tolerations"] = list.into();
        }
    }
}

/// The pod's account, its pull secrets and the volume with its token (spec K-ADM-2).
///
/// `look_up` finds an account of the pod's namespace; `suffix` makes the volume's name unique.
pub fn service_account(
    pod: &mut Value,
    look_up: impl FnOnce(&str) -> Option<Value>,
    suffix: &str,
) -> Result<(), String> {
    let spec = &pod["spec"];
    let named = [text(spec, "serviceAccountName"), text(spec, "serviceAccount"), "default"];
    let name = named.into_iter().find(|name| !name.is_empty()).unwrap_or("default").to_owned();
    let namespace = text(pod, "metadata.namespace").to_owned();
    let account = look_up(&name).ok_or_else(|| {
        format!("error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found")
    })?;
    pod["spec"]["serviceAccountName"] = name.as_str().into();
    pod["spec"]["serviceAccount"] = name.into();
    let no_secrets = pod["spec"]["imagePullSecrets"].as_array().is_none_or(Vec::is_empty);
    if let Some(secrets) = account.get("imagePullSecrets").filter(|_| no_secrets) {
        pod["spec"]["imagePullSecrets"] = secrets.clone();
    }
    let automount = |value: &Value| value["automountServiceAccountToken"].as_bool();
    if automount(&pod["spec"]).or(automount(&account)).unwrap_or(true) {
        mount_token(pod, suffix);
    }
    Ok(())
}

fn mount_token(pod: &mut Value, suffix: &str) {
    let volume = format!("kube-api-access-{suffix}");
    let mut used = false;
    for list in ["spec.initContainers", "spec.containers"] {
        for container in items_mut(pod, list) {
            let mounts = container["volumeMounts"].as_array().cloned().unwrap_or_default();
            if mounts.iter().any(|mount| mount["mountPath"] == TOKEN_MOUNT) {
                continue;
            }
            let mut mounts = mounts;
            mounts.push(json!({"name": volume, "readOnly": true, "mountPath": TOKEN_MOUNT}));
            container["volumeMounts"] = mounts.into();
            used = true;
        }
    }
    if !used {
        return;
    }
    let mut volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
    volumes.push(json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}},
    ]}}));
    pod["spec"]["volumes"] = volumes.into();
}

/// The default class for claims that name none (spec K-VOL-2); the youngest wins where several are marked.
pub fn storage_class(claim: &mut Value, classes: &[Value]) {
    if claim["spec"].get("storageClassName").is_some() {
        return;
    }
    let defaults = classes.iter().filter(|class| class["metadata"]["annotations"][DEFAULT_CLASS] == "true");
    if let Some(class) = defaults.max_by_key(|class| text(class, "metadata.creationTimestamp").to_owned()) {
        claim["spec"]["storageClassName"] = class["metadata"]["name"].clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, value: i64, default: bool) -> Value {
        json!({"metadata": {"name": name}, "value": value, "globalDefault": default, "preemptionPolicy": "Never"})
    }

    // K-ADM-4
    #[test]
    fn priority_comes_from_the_class() {
        let classes = [class("high", 7, false), class("usual", 3, true)];
        let run = |spec: Value, classes: &[Value]| {
            let mut pod = json!({"spec": spec});
            priority(&mut pod, classes).map(|()| pod["spec"].clone())
        };
        assert_eq!(run(json!({}), &[]), Ok(json!({"priority": 0, "preemptionPolicy": "PreemptLowerPriority"})));
        let usual = json!({"priority": 3, "preemptionPolicy": "Never", "priorityClassName": "usual"});
        assert_eq!(run(json!({}), &classes), Ok(usual));
        assert_eq!(run(json!({"priorityClassName": "high"}), &classes).map(|s| s["priority"].clone()), Ok(json!(7)));
        assert_eq!(
            run(json!({"priorityClassName": "x"}), &classes),
            Err("no PriorityClass with name x was found".into())
        );
        let sent = run(json!({"priority": 5}), &[]).expect_err("a number is refused");
        assert!(sent.starts_with("the integer value of priority (5) must not be provided"), "{sent}");
        assert!(priority_class(&class("new", 1, true), &classes).is_err());
        assert!(priority_class(&class("usual", 1, true), &classes).is_ok());
    }

    // K-ADM-2
    #[test]
    fn the_account_brings_its_token_into_every_container() {
        let mut pod = json!({"metadata": {"namespace": "n"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        service_account(&mut pod, |_| Some(json!({"imagePullSecrets": [{"name": "s"}]})), "abcde").expect("found");
        assert_eq!(pod["spec"]["serviceAccountName"], "default");
        assert_eq!(pod["spec"]["containers"][1]["volumeMounts"][0]["mountPath"], TOKEN_MOUNT);
        assert_eq!(pod["spec"]["volumes"][0]["name"], "kube-api-access-abcde");
        assert_eq!(pod["spec"]["imagePullSecrets"][0]["name"], "s");
        let mut off = json!({"spec": {"automountServiceAccountToken": false, "containers": [{"name": "a"}]}});
        service_account(&mut off, |_| Some(json!({})), "abcde").expect("found");
        assert!(off["spec"].get("volumes").is_none());
        let mut none = json!({"metadata": {"namespace": "n"}, "spec": {"serviceAccountName": "nope"}});
        let error = service_account(&mut none, |_| None, "x").expect_err("no account");
        assert_eq!(error, "error looking up service account n/nope: serviceaccount \"nope\" not found");
    }

    // K-ADM-3
    #[test]
    fn short_absences_of_the_node_are_tolerated_once() {
        let mut pod = json!({"spec": {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}});
        tolerations(&mut pod);
        tolerations(&mut pod);
        assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
        let mut all = json!({"spec": {"tolerations": [{"operator": "Exists"}]}});
        tolerations(&mut all);
        assert_eq!(all["spec"]["tolerations"].as_array().map(Vec::len), Some(1));
    }

    // K-VOL-2
    #[test]
    fn claims_without_a_class_get_the_default() {
        let classes = [json!({"metadata": {"name": "standard", "annotations": {DEFAULT_CLASS: "true"}}})];
        let mut claim = json!({"spec": {}});
        storage_class(&mut claim, &classes);
        assert_eq!(claim["spec"]["storageClassName"], "standard");
        let mut none = json!({"spec": {"storageClassName": ""}});
        storage_class(&mut none, &classes);
        assert_eq!(none["spec"]["storageClassName"], "");
    }
}
