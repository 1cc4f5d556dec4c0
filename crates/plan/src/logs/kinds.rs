//! The kinds of objects that have logs, as a table: how they are written, which pods are theirs, when they have ended.

use serde_json::Value;
use volley_api::kubeflow::kinds as kubeflow;
use volley_api::volcano::{self, keys};

/// One kind of object with pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// The word that the user is shown.
    pub name: &'static str,
    pub api_version: &'static str,
    pub plural: &'static str,
    short_names: &'static [&'static str],
    pods: Pods,
    end: End,
}

/// Which pods are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pods {
    Itself,
    /// This label has the object's name, and the object owns the pod.
    Label(&'static str),
    /// `spec.selector`, and the object owns the pod.
    OwnedSelection,
    /// `spec.selector`; somebody in between owns the pod.
    Selection,
}

/// What tells that it will not write any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// One of these in the field at this pointer.
    Phase(&'static str, &'static [&'static str]),
    /// One of these conditions is true.
    Condition(&'static [&'static str]),
    Never,
}

const fn kind(name: &'static str, api_version: &'static str, plural: &'static str, pods: Pods, end: End) -> Kind {
    Kind { name, api_version, plural, short_names: &[], pods, end }
}

/// All of them, in the order in which they are told.
pub fn all() -> Vec<Kind> {
    let ended = End::Phase("/status/state/phase", &["Completed", "Failed", "Aborted", "Terminated"]);
    let volcano = kind("vcjob", volcano::BATCH, "jobs", Pods::Label(keys::JOB), ended);
    let mut kinds = vec![Kind { short_names: &["vj", "vcjobs", "job"], ..volcano }];
    kinds.extend(kubeflow::ROWS.iter().map(|row| {
        let pods = Pods::Label("training.kubeflow.org/job-name");
        kind(row.singular, "kubeflow.org/v1", row.plural, pods, End::Condition(&["Succeeded", "Failed"]))
    }));
    let gone = End::Phase("/status/phase", &["Succeeded", "Failed"]);
    kinds.extend([
        kind("job", "batch/v1", "jobs", Pods::OwnedSelection, End::Condition(&["Complete", "Failed"])),
        Kind { short_names: &["po"], ..kind("pod", "v1", "pods", Pods::Itself, gone) },
        Kind { short_names: &["deploy"], ..kind("deployment", "apps/v1", "deployments", Pods::Selection, End::Never) },
        Kind {
            short_names: &["sts"],
            ..kind("statefulset", "apps/v1", "statefulsets", Pods::OwnedSelection, End::Never)
        },
        Kind { short_names: &["ds"], ..kind("daemonset", "apps/v1", "daemonsets", Pods::OwnedSelection, End::Never) },
        Kind { short_names: &["rs"], ..kind("replicaset", "apps/v1", "replicasets", Pods::OwnedSelection, End::Never) },
    ]);
    kinds
}

impl Kind {
    /// Whether the user means this kind: its name, plural or a short name, or `plural.group`.
    pub fn is_called(&self, word: &str) -> bool {
        let word = word.to_ascii_lowercase();
        let group = self.api_version.rsplit_once('/').map_or("", |(group, _)| group);
        match word.split_once('.') {
            Some((name, wanted)) => wanted == group && [self.plural, self.plural.trim_end_matches('s')].contains(&name),
            None => word == self.name || word == self.plural || self.short_names.contains(&word.as_str()),
        }
    }

    /// The label selector, in its text form, that every pod of the object fulfils; the name itself for a pod.
    pub fn selector(&self, object: &Value) -> Option<String> {
        match self.pods {
            Pods::Itself => None,
            Pods::Label(label) => Some(format!("{label}={}", name(object))),
            Pods::OwnedSelection | Pods::Selection => Some(selector_text(&object["spec"]["selector"])),
        }
    }

    /// Whether a pod that fulfils the selector is the object's, not that of another of the same name or labels.
    pub fn owns(&self, object: &Value, pod: &Value) -> bool {
        let uid = &object["metadata"]["uid"];
        match self.pods {
            Pods::Itself => pod["metadata"]["uid"] == *uid,
            Pods::Label(_) | Pods::OwnedSelection => {
                let owners = pod["metadata"]["ownerReferences"].as_array();
                owners.into_iter().flatten().any(|owner| owner["uid"] == *uid)
            }
            Pods::Selection => true,
        }
    }

    /// Whether the object is a pod itself, whose lines need no name before them.
    pub fn is_pod(&self) -> bool {
        self.pods == Pods::Itself
    }

    /// Whether the object has come to its end.
    pub fn has_ended(&self, object: &Value) -> bool {
        match self.end {
            End::Phase(path, ends) => object.pointer(path).and_then(Value::as_str).is_some_and(|it| ends.contains(&it)),
            End::Condition(ends) => {
                let is_end = |it: &Value| it["status"] == "True" && ends.iter().any(|end| it["type"] == *end);
                object["status"]["conditions"].as_array().into_iter().flatten().any(is_end)
            }
            End::Never => false,
        }
    }
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// A `metav1.LabelSelector` as one text.
fn selector_text(selector: &Value) -> String {
    let labels = selector["matchLabels"].as_object().into_iter().flatten();
    let mut terms: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        terms.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    terms.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use volley_api::kube::selector::LabelSelector;

    fn called(word: &str) -> Vec<String> {
        let kinds = all().into_iter().filter(|kind| kind.is_called(word));
        kinds.map(|kind| format!("{}/{}", kind.api_version, kind.plural)).collect()
    }

    fn one(word: &str) -> Kind {
        all().into_iter().find(|kind| kind.name == word).unwrap()
    }

    #[test]
    fn kinds_are_called_as_kubectl_calls_them() {
        let (volcano, batch) = ("batch.volcano.sh/v1alpha1/jobs", "batch/v1/jobs");
        for word in ["vcjob", "vcjobs", "vj", "jobs.batch.volcano.sh", "job.batch.volcano.sh", "VCJob"] {
            assert_eq!(called(word), [volcano], "{word}");
        }
        for word in ["job.batch", "jobs.batch"] {
            assert_eq!(called(word), [batch], "{word}");
        }
        // Both are Jobs: which one is meant depends on which is there.
        assert_eq!(called("job"), [volcano, batch]);
        assert_eq!(called("PyTorchJob"), ["kubeflow.org/v1/pytorchjobs"]);
        assert_eq!(called("pytorchjobs.kubeflow.org"), ["kubeflow.org/v1/pytorchjobs"]);
        assert_eq!(called("mpijob"), ["kubeflow.org/v1/mpijobs"]);
        for word in ["po", "pod", "pods"] {
            assert_eq!(called(word), ["v1/pods"], "{word}");
        }
        assert_eq!(called("deploy"), ["apps/v1/deployments"]);
        for word in ["", "service", "job.apps"] {
            assert!(called(word).is_empty(), "{word}");
        }
    }

    #[test]
    fn a_pod_of_an_earlier_job_of_the_same_name_is_not_the_jobs() {
        let job = json!({"metadata": {"name": "train", "uid": "new"}});
        assert_eq!(one("vcjob").selector(&job).unwrap(), "volcano.sh/job-name=train");
        assert_eq!(one("pytorchjob").selector(&job).unwrap(), "training.kubeflow.org/job-name=train");
        let pod = |uid: &str| json!({"metadata": {"ownerReferences": [{"uid": uid}]}});
        assert!(one("vcjob").owns(&job, &pod("new")) && !one("vcjob").owns(&job, &pod("old")));
    }

    #[test]
    fn selectors_are_written_as_the_server_reads_them() {
        let selector = json!({"matchLabels": {"app": "web"}, "matchExpressions": [
            {"key": "a", "operator": "In", "values": ["x", "y"]}, {"key": "b", "operator": "NotIn", "values": ["z"]},
            {"key": "c", "operator": "Exists"}, {"key": "d", "operator": "DoesNotExist"}]});
        let text = one("deployment").selector(&json!({"spec": {"selector": selector}})).unwrap();
        assert_eq!(text, "app=web,a in (x,y),b notin (z),c,!d");
        let labels = json!({"app": "web", "a": "y", "b": "w", "c": ""});
        assert!(LabelSelector::parse(&text).unwrap().matches(labels.as_object()));
    }

    #[test]
    fn each_kind_ends_in_its_own_way() {
        let phase = |phase: &str| json!({"status": {"state": {"phase": phase}}});
        assert!(["Completed", "Failed", "Aborted", "Terminated"].iter().all(|it| one("vcjob").has_ended(&phase(it))));
        assert!(["Running", "Restarting", "Completing", ""].iter().all(|it| !one("vcjob").has_ended(&phase(it))));
        let condition =
            |kind: &str, status: &str| json!({"status": {"conditions": [{"type": kind, "status": status}]}});
        assert!(one("pytorchjob").has_ended(&condition("Succeeded", "True")));
        assert!(!one("pytorchjob").has_ended(&condition("Failed", "False")));
        assert!(!one("pytorchjob").has_ended(&condition("Running", "True")));
        assert!(one("job").has_ended(&condition("Complete", "True")));
        assert!(!one("job").has_ended(&condition("SuccessCriteriaMet", "True")));
        assert!(one("pod").has_ended(&json!({"status": {"phase": "Succeeded"}})));
        assert!(!one("deployment").has_ended(&condition("Available", "True")));
    }
}
