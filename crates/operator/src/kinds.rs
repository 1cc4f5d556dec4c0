//! The kinds that the operator reads or writes, as a table: where they are served, and how it learns of their objects.

use kube::api::ApiResource;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;
use volley_api::kubeflow::kinds::{ROWS, Row};
use volley_api::{kubeflow, volcano};

/// How objects of a kind are learnt of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Part of Kubernetes, and watched.
    Watched,
    /// Watched while its definition is there.
    Custom,
    /// Read one by one when a job needs it: nobody should hold every secret of a cluster.
    Asked,
}

/// One kind.
#[derive(Debug)]
pub struct Kind {
    pub id: usize,
    pub resource: ApiResource,
    pub is_namespaced: bool,
    pub source: Source,
    /// The row of a training job.
    pub training: Option<&'static Row>,
}

impl Kind {
    /// `Job.batch.volcano.sh`, and `Pod` where there is no group.
    pub fn full_name(&self) -> String {
        let ApiResource { group, kind, .. } = &self.resource;
        if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") }
    }

    /// The name of its CustomResourceDefinition, if it has one.
    pub fn definition(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }

    pub fn is(&self, api_version: &str, kind: &str) -> bool {
        self.resource.api_version == api_version && self.resource.kind == kind
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.id == other.id
    }
}

impl Eq for Kind {}

impl PartialOrd for Kind {
    fn partial_cmp(&self, other: &Kind) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kind {
    fn cmp(&self, other: &Kind) -> Ordering {
        self.id.cmp(&other.id)
    }
}

impl Hash for Kind {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

/// Kinds of others: apiVersion, kind, plural, namespaced, how they are learnt of.
const OTHERS: &[(&str, &str, &str, bool, Source)] = &[
    ("v1", "Pod", "pods", true, Source::Watched),
    ("v1", "Service", "services", true, Source::Watched),
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, Source::Watched),
    ("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies", true, Source::Watched),
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", false, Source::Watched),
    ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", true, Source::Watched),
    ("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups", true, Source::Custom),
    ("v1", "ConfigMap", "configmaps", true, Source::Asked),
    ("v1", "Secret", "secrets", true, Source::Asked),
    ("v1", "ServiceAccount", "serviceaccounts", true, Source::Asked),
    ("v1", "Event", "events", true, Source::Asked),
    ("rbac.authorization.k8s.io/v1", "Role", "roles", true, Source::Asked),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true, Source::Asked),
    ("apps/v1", "ReplicaSet", "replicasets", true, Source::Asked),
    ("apps/v1", "StatefulSet", "statefulsets", true, Source::Asked),
    ("apps/v1", "DaemonSet", "daemonsets", true, Source::Asked),
    ("batch/v1", "Job", "jobs", true, Source::Asked),
];

/// All of them.
pub static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let resource = |api_version: &str, kind: &str, plural: &str| {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        }
    };
    // HyperNodes are the scheduler's.
    let volcano = volcano::kinds::KINDS.iter().filter(|row| row.kind != "HyperNode").map(|row| {
        let api_version = format!("{}/{}", row.group, row.version);
        (resource(&api_version, row.kind, row.plural), row.is_namespaced, Source::Custom, None)
    });
    let training =
        ROWS.iter().map(|row| (resource(kubeflow::API_VERSION, row.name, row.plural), true, Source::Custom, Some(row)));
    let others = OTHERS
        .iter()
        .map(|(version, kind, plural, scope, source)| (resource(version, kind, plural), *scope, *source, None));
    let all = volcano.chain(training).chain(others).enumerate();
    all.map(|(id, (resource, is_namespaced, source, training))| Kind { id, resource, is_namespaced, source, training })
        .collect()
});

pub fn find(api_version: &str, kind: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|row| row.is(api_version, kind))
}

/// A kind that is in the table.
pub fn known(api_version: &str, kind: &str) -> &'static Kind {
    find(api_version, kind).expect("the operator's own kinds are in its table")
}

/// The kinds that the planners name most.
pub mod own {
    use super::{Kind, known};
    use volley_api::volcano::{BATCH, BUS, SCHEDULING};

    pub fn job() -> &'static Kind {
        known(BATCH, "Job")
    }

    pub fn cron() -> &'static Kind {
        known(BATCH, "CronJob")
    }

    pub fn command() -> &'static Kind {
        known(BUS, "Command")
    }

    pub fn group() -> &'static Kind {
        known(SCHEDULING, "PodGroup")
    }

    pub fn queue() -> &'static Kind {
        known(SCHEDULING, "Queue")
    }

    pub fn pod() -> &'static Kind {
        known("v1", "Pod")
    }

    pub fn claim() -> &'static Kind {
        known("v1", "PersistentVolumeClaim")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_what_its_objects_say_of_themselves() {
        for kind in KINDS.iter() {
            assert_eq!(find(&kind.resource.api_version, &kind.resource.kind), Some(kind));
        }
        assert_eq!(own::job().full_name(), "Job.batch.volcano.sh");
        assert_eq!(own::job().definition(), "jobs.batch.volcano.sh");
        assert_eq!(own::pod().full_name(), "Pod");
        assert!(KINDS.iter().filter(|kind| kind.training.is_some()).count() == ROWS.len());
    }
}
