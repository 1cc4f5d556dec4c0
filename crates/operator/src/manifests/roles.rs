//! The rights: what the operator calls and nothing else, and what the cluster's own roles view, edit and admin gain.
//!
//! `RIGHTS` has a line per kind. Two of them are there for Kubernetes' rules rather than for a call: who gives a Role away
//! must have what it grants (an MPIJob's launcher runs programs in its workers), and who makes an object hold up the
//! deletion of its owner must be allowed to finalize the owner.

use super::{NAME, Place, metadata};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use volley_api::kubeflow::{self, kinds::ROWS};
use volley_api::volcano::kinds::KINDS;

const READ: &str = "get list watch";
const RBAC: &str = "rbac.authorization.k8s.io";

/// Group, resources, verbs.
type Right<'a> = (&'a str, &'a str, &'a str);

const RIGHTS: &[Right<'static>] = &[
    ("", "pods", "get list watch create patch delete"),
    ("", "pods/binding", "create"),
    ("", "pods/status", "patch"),
    ("", "pods/exec", "create"),
    ("", "pods/finalizers", "update"),
    ("", "services", "get list watch create patch delete"),
    ("", "persistentvolumeclaims", "get list watch create patch"),
    // Without `list`: an operator that is taken over must not hand out every secret of the cluster.
    ("", "configmaps secrets", "get create patch delete"),
    ("", "serviceaccounts", "get create patch delete"),
    ("", "events", "create patch"),
    (RBAC, "roles rolebindings", "get create patch delete"),
    ("networking.k8s.io", "networkpolicies", "get list watch create patch delete"),
    ("autoscaling", "horizontalpodautoscalers", "get list watch create patch delete"),
    ("scheduling.k8s.io", "priorityclasses workloads", READ),
    ("scheduling.k8s.io", "podgroups", "get list watch patch"),
    ("scheduling.k8s.io", "podgroups/status", "patch"),
    // What pods are placed by.
    ("", "nodes namespaces resourcequotas", READ),
    ("", "persistentvolumes", "get list watch patch"),
    ("policy", "poddisruptionbudgets", READ),
    ("storage.k8s.io", "csidrivers csinodes csistoragecapacities storageclasses", READ),
    ("topology.volcano.sh", "hypernodes", READ),
    ("topology.volcano.sh", "hypernodes/status", "get patch"),
    ("nodeinfo.volcano.sh", "numatopologies", READ),
    ("scheduling.x-k8s.io", "podgroups", "get list watch create patch delete"),
    ("scheduling.x-k8s.io", "podgroups/status", "patch"),
    // Pods of these get a group of their own when they ask for our scheduler.
    ("apps", "daemonsets replicasets statefulsets", "get"),
    ("apps", "daemonsets/finalizers replicasets/finalizers statefulsets/finalizers", "update"),
    ("batch", "jobs", "get"),
    ("batch", "jobs/finalizers", "update"),
    // Whether upstream's controllers are here.
    ("apps", "deployments", READ),
    ("coordination.k8s.io", "leases", READ),
    ("apiextensions.k8s.io", "customresourcedefinitions", READ),
    ("batch.volcano.sh", "jobs", "get list watch create patch delete"),
    ("batch.volcano.sh", "cronjobs", "get list watch patch"),
    ("batch.volcano.sh", "jobs/status cronjobs/status", "get patch"),
    ("batch.volcano.sh", "jobs/finalizers cronjobs/finalizers", "update"),
    ("bus.volcano.sh", "commands", "get list watch delete"),
    ("scheduling.volcano.sh", "podgroups", "get list watch create patch delete"),
    ("scheduling.volcano.sh", "queues", "get list watch create patch"),
    ("scheduling.volcano.sh", "podgroups/status queues/status", "get patch"),
];

/// To lead, in the operator's own namespace.
const ELECTION: Right = ("coordination.k8s.io", "leases", "get create update");

pub(super) fn objects(place: &Place) -> Vec<Value> {
    let namespace = Some(&*place.namespace);
    let subject = json!({ "kind": "ServiceAccount", "name": NAME, "namespace": place.namespace });
    let binding = |kind: &str, role: &str, metadata: Value| {
        json!({
            "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "subjects": [subject],
            "roleRef": { "apiGroup": RBAC, "kind": role, "name": NAME },
        })
    };
    let mut objects = vec![
        home(place),
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME, namespace) }),
        role("ClusterRole", metadata(NAME, None), rights()),
        binding("ClusterRoleBinding", "ClusterRole", metadata(NAME, None)),
        role("Role", metadata(NAME, namespace), vec![rule(ELECTION)]),
        binding("RoleBinding", "Role", metadata(NAME, namespace)),
    ];
    objects.extend(for_users());
    objects
}

/// The namespace. Nothing in it needs more than Kubernetes' strictest profile.
fn home(place: &Place) -> Value {
    let mut metadata = metadata(&place.namespace, None);
    metadata["labels"]["pod-security.kubernetes.io/enforce"] = json!("restricted");
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata })
}

/// All of them, with those on the training jobs.
fn rights() -> Vec<Value> {
    let training = training_rights();
    let training = training.iter().map(|(resources, verbs)| (kubeflow::GROUP, resources.as_str(), *verbs));
    let rules = RIGHTS.iter().copied().chain(training).map(rule);
    rules.chain([policy_right()]).collect()
}

/// The scheduler's configuration, by its name: other ConfigMaps are nobody's business.
fn policy_right() -> Value {
    let mut right = rule(("", "configmaps", READ));
    right["resourceNames"] = json!([volley_scheduler::policy::NAME]);
    right
}

fn training_rights() -> [(String, &'static str); 3] {
    let all = |suffix: &str| ROWS.iter().map(|row| format!("{}{suffix}", row.plural)).collect::<Vec<_>>().join(" ");
    [(all(""), "get list watch patch delete"), (all("/status"), "get patch"), (all("/finalizers"), "update")]
}

fn rule((group, resources, verbs): Right) -> Value {
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    json!({ "apiGroups": [group], "resources": words(resources), "verbs": words(verbs) })
}

/// A rule that an account has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub groups: Vec<String>,
    pub resources: Vec<String>,
    pub verbs: Vec<String>,
}

impl Grant {
    fn has(&self, group: &str, resource: &str, verb: &str) -> bool {
        let any = |list: &[String], word: &str| list.iter().any(|given| given == "*" || given == word);
        // A subresource may be granted for all kinds at once.
        let shared = resource.split_once('/').map(|(_, part)| format!("*/{part}"));
        let is_resource = any(&self.resources, resource) || shared.is_some_and(|shared| any(&self.resources, &shared));
        any(&self.groups, group) && is_resource && any(&self.verbs, verb)
    }
}

/// What of the operator's rights is not granted, as `verbs resource.group`.
pub fn lacking(granted: &[Grant], elects: bool) -> Vec<String> {
    let training = training_rights();
    let training = training.iter().map(|(resources, verbs)| (kubeflow::GROUP, resources.as_str(), *verbs));
    let election = elects.then_some(ELECTION);
    let mut lacking = Vec::new();
    for (group, resources, verbs) in RIGHTS.iter().copied().chain(training).chain(election) {
        for resource in resources.split(' ') {
            let is_missing = |verb: &&str| !granted.iter().any(|grant| grant.has(group, resource, verb));
            let missing: Vec<&str> = verbs.split(' ').filter(is_missing).collect();
            if !missing.is_empty() {
                let dot = if group.is_empty() { "" } else { "." };
                lacking.push(format!("{} {resource}{dot}{group}", missing.join("/")));
            }
        }
    }
    lacking
}

fn role(kind: &str, metadata: Value, rules: Vec<Value>) -> Value {
    json!({ "apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": metadata, "rules": rules })
}

/// Roles that the cluster adds to its own: who may edit a namespace may run jobs there. A queue is the whole cluster's, so
/// they only see it.
fn for_users() -> [Value; 2] {
    let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut edited = seen.clone();
    for row in KINDS {
        seen.entry(row.group).or_default().push(row.plural);
        if row.is_namespaced {
            edited.entry(row.group).or_default().push(row.plural);
        }
    }
    let training: Vec<&str> = ROWS.iter().map(|row| row.plural).collect();
    seen.insert(kubeflow::GROUP, training.clone());
    edited.insert(kubeflow::GROUP, training);
    let make = |name: &str, into: &[&str], kinds: &BTreeMap<&str, Vec<&str>>, verbs: &str| {
        let mut metadata = metadata(name, None);
        for role in into {
            metadata["labels"][format!("{RBAC}/aggregate-to-{role}")] = json!("true");
        }
        let rules = kinds.iter().map(|(group, plurals)| rule((group, &plurals.join(" "), verbs))).collect();
        role("ClusterRole", metadata, rules)
    };
    [
        make("volley-edit", &["edit", "admin"], &edited, "create update patch delete deletecollection"),
        make("volley-view", &["view", "edit", "admin"], &seen, READ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_never_listed() {
        for rule in rights() {
            let has = |key: &str, word: &str| rule[key].as_array().unwrap().contains(&json!(word));
            assert!(!has("resources", "secrets") || !has("verbs", "list") && !has("verbs", "watch"), "{rule}");
            assert!(!has("verbs", "*") && !has("resources", "*") && !has("apiGroups", "*"), "{rule}");
        }
    }

    fn grant(groups: &[&str], resources: &[&str], verbs: &[&str]) -> Grant {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Grant { groups: words(groups), resources: words(resources), verbs: words(verbs) }
    }

    #[test]
    fn its_own_rights_are_enough_and_so_are_all_rights() {
        let words =
            |list: &Value| list.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
        let mut own: Vec<Grant> = rights()
            .iter()
            .map(|rule| Grant {
                groups: words(&rule["apiGroups"]),
                resources: words(&rule["resources"]),
                verbs: words(&rule["verbs"]),
            })
            .collect();
        assert_eq!(lacking(&own, false), [""; 0]);
        assert_eq!(lacking(&own, true), ["create/update leases.coordination.k8s.io"]);
        own.retain(|grant| !grant.resources.contains(&"pods/exec".to_owned()));
        assert_eq!(lacking(&own, false), ["create pods/exec"]);
        assert_eq!(lacking(&[grant(&["*"], &["*"], &["*"])], true), [""; 0]);
    }

    #[test]
    fn a_subresource_needs_a_grant_of_its_own() {
        let pods = grant(&[""], &["pods"], &["*"]);
        assert!(!pods.has("", "pods/exec", "create"));
        assert!(grant(&[""], &["*/exec"], &["create"]).has("", "pods/exec", "create"));
    }
}
