//! The kinds that the scheduler watches, as a table: where they are served, and what the snapshot takes them for.

use kube::api::ApiResource;
use volley_api::volcano::kinds::{KINDS as VOLCANO, Kind as Volcano};
use volley_plan::gang::snapshot::Kind as SeenAs;
use volley_plan::pod_groups::{Origin, SERVED};

/// Where a kind is in the table.
pub type Row = usize;

#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub seen_as: SeenAs,
    api_version: &'static str,
    pub name: &'static str,
    plural: &'static str,
    is_namespaced: bool,
    pub presence: Presence,
}

/// Whether a cluster serves a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    Always,
    /// While a CustomResourceDefinition defines it.
    Defined,
    /// If the server was told to, when it started.
    Switched,
}

const fn kind(
    seen_as: SeenAs,
    (api_version, name, plural): (&'static str, &'static str, &'static str),
    is_namespaced: bool,
    presence: Presence,
) -> Kind {
    Kind { seen_as, api_version, name, plural, is_namespaced, presence }
}

/// PodGroups of others than Volcano.
const fn groups(served: usize, presence: Presence) -> Kind {
    kind(SeenAs::PodGroup, (SERVED[served].0, "PodGroup", "podgroups"), true, presence)
}

pub const PODS: Row = 0;
pub const GROUPS: Row = 1;
pub const QUEUES: Row = 2;
pub const CLAIMS: Row = 6;
pub const VOLUMES: Row = 7;
pub const HYPER_NODES: Row = 11;

const SCHEDULING: &str = volley_api::volcano::SCHEDULING;
const WORKLOADS: &str = "scheduling.k8s.io/v1alpha1";

pub const KINDS: [Kind; 20] = [
    kind(SeenAs::Pod, ("v1", "Pod", "pods"), true, Presence::Always),
    kind(SeenAs::PodGroup, (SCHEDULING, "PodGroup", "podgroups"), true, Presence::Defined),
    kind(SeenAs::Queue, (SCHEDULING, "Queue", "queues"), false, Presence::Defined),
    kind(SeenAs::Node, ("v1", "Node", "nodes"), false, Presence::Always),
    kind(SeenAs::PriorityClass, ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"), false, Presence::Always),
    kind(
        SeenAs::DisruptionBudget,
        ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
        true,
        Presence::Always,
    ),
    kind(SeenAs::Claim, ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"), true, Presence::Always),
    kind(SeenAs::Volume, ("v1", "PersistentVolume", "persistentvolumes"), false, Presence::Always),
    kind(SeenAs::StorageClass, ("storage.k8s.io/v1", "StorageClass", "storageclasses"), false, Presence::Always),
    kind(SeenAs::Namespace, ("v1", "Namespace", "namespaces"), false, Presence::Always),
    kind(SeenAs::ResourceQuota, ("v1", "ResourceQuota", "resourcequotas"), true, Presence::Always),
    kind(SeenAs::HyperNode, ("topology.volcano.sh/v1alpha1", "HyperNode", "hypernodes"), false, Presence::Defined),
    kind(
        SeenAs::Numatopology,
        ("nodeinfo.volcano.sh/v1alpha1", "Numatopology", "numatopologies"),
        false,
        Presence::Defined,
    ),
    groups(1, Presence::Defined),
    groups(2, Presence::Switched),
    groups(3, Presence::Switched),
    kind(SeenAs::Workload, (WORKLOADS, "Workload", "workloads"), true, Presence::Switched),
    // Every server has these; but without the right to read them, pods must not wait for ever.
    kind(SeenAs::CsiNode, ("storage.k8s.io/v1", "CSINode", "csinodes"), false, Presence::Switched),
    kind(SeenAs::CsiDriver, ("storage.k8s.io/v1", "CSIDriver", "csidrivers"), false, Presence::Switched),
    kind(
        SeenAs::StorageCapacity,
        ("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities"),
        true,
        Presence::Switched,
    ),
];

impl Kind {
    pub fn resource(&self) -> ApiResource {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", self.api_version));
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version.to_owned(),
            kind: self.name.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    /// The path of an object on the API.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let scope = if self.is_namespaced { format!("namespaces/{namespace}/") } else { String::new() };
        format!("/{root}/{}/{scope}{}/{name}", self.api_version, self.plural)
    }

    pub fn api_version(&self) -> &'static str {
        self.api_version
    }

    /// Whose its groups are, if it is a kind of them.
    pub fn origin(&self) -> Origin {
        let served = SERVED.iter().find(|(api_version, _)| *api_version == self.api_version);
        served.map_or(Origin::Volcano, |(_, origin)| *origin)
    }

    /// Whether its status is a resource of its own: for a kind of Volcano's the table of its definitions knows (API-4).
    pub fn has_status(&self) -> bool {
        let is_same = |row: &&Volcano| row.kind == self.name && self.api_version.starts_with(row.group);
        VOLCANO.iter().find(is_same).is_none_or(|row| row.has_status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_where_their_names_say() {
        let names = [PODS, GROUPS, QUEUES, CLAIMS, VOLUMES, HYPER_NODES].map(|row| KINDS[row].name);
        assert_eq!(names, ["Pod", "PodGroup", "Queue", "PersistentVolumeClaim", "PersistentVolume", "HyperNode"]);
        assert_eq!(KINDS[PODS].path("n", "p"), "/api/v1/namespaces/n/pods/p");
        assert_eq!(KINDS[QUEUES].path("", "q"), format!("/apis/{SCHEDULING}/queues/q"));
        assert!(!KINDS[GROUPS].has_status() && KINDS[QUEUES].has_status() && KINDS[PODS].has_status());
        for row in [&KINDS[GROUPS], &KINDS[QUEUES]] {
            let defined = VOLCANO.iter().find(|known| known.kind == row.name).unwrap();
            assert_eq!(format!("{}/{}", defined.group, defined.version), row.api_version);
            assert_eq!((defined.plural, defined.is_namespaced), (row.plural, row.is_namespaced));
        }
    }
}
