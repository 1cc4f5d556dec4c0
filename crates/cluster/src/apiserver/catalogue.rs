//! The catalogue: every resource that is served, one row each (spec K 6). A CRD is a row made at run time.
//!
//! Verbs, watches, patches, apply and errors are the same for all rows; what differs is in the row's flags and in the
//! tables of `volley_api::kube` that are looked up by group and kind.

use crate::store::Bucket;
use std::collections::BTreeMap;
use std::sync::Arc;
use volley_api::kube::schema::{StructRef, builtin};

use super::custom::CustomKind;
use super::usage;

/// How much of a kind is alive here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Something acts on it.
    Runs,
    /// Kept, listed and watched, but nothing acts on it here; writers are told so.
    Stored,
    /// Never stored: a question that is answered (reviews, bindings).
    Answered,
}

/// Where a kind leaves the common rules (spec K-OBJ-3, K-WR-1, K-WR-2, K-DEL-1).
#[derive(Debug, Clone, Copy, Default)]
pub struct Traits {
    /// `metadata.generation` is kept.
    pub generation: bool,
    /// PUT must carry a resourceVersion.
    pub strict_put: bool,
    /// PUT of a missing object creates it.
    pub put_creates: bool,
    /// DELETE answers with the object rather than a Status.
    pub delete_returns: bool,
}

/// One served resource.
#[derive(Debug)]
pub struct Resource {
    pub group: Box<str>,
    pub version: Box<str>,
    pub kind: Box<str>,
    pub plural: Box<str>,
    pub singular: Box<str>,
    pub list_kind: Box<str>,
    pub short_names: Vec<Box<str>>,
    pub categories: Vec<Box<str>>,
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: Vec<&'static str>,
    pub role: Role,
    pub traits: Traits,
    pub shape: StructRef,
    pub custom: Option<Arc<CustomKind>>,
    pub bucket: Bucket,
    /// `{"kind":"…","apiVersion":"…",`: how each stored object of this kind begins.
    pub prefix: Box<str>,
}

impl Resource {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    pub fn has(&self, subresource: &str) -> bool {
        self.subresources.contains(&subresource)
    }

    pub fn is(&self, group: &str, plural: &str) -> bool {
        &*self.group == group && &*self.plural == plural
    }
}

/// `v1` for the core group, `group/version` otherwise.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

pub fn prefix(kind: &str, api_version: &str) -> Box<str> {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",").into()
}

pub const ALL_VERBS: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const NO_DELETE_COLLECTION: &[&str] = &["create", "delete", "get", "list", "patch", "update", "watch"];
const CREATE: &[&str] = &["create"];
const READ: &[&str] = &["get", "list"];

/// Group, versions of the catalogue in order of priority (spec K-DISC-2); custom groups follow.
const GROUP_ORDER: &[&str] = &[
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    usage::GROUP,
];

struct Row {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    category: &'static str,
    /// `n` namespaced or `c` cluster; then `G` generation, `S` strict PUT, `P` PUT creates, `D` delete returns the
    /// object, `k` kept only, `a` answered only, `r` read only, `x` no deletecollection.
    flags: &'static str,
    subresources: &'static str,
}

const fn row(
    gv: (&'static str, &'static str),
    kind: &'static str,
    names: (&'static str, &'static str, &'static str),
    flags: &'static str,
    subresources: &'static str,
) -> Row {
    Row { group: gv.0, version: gv.1, kind, plural: names.0, short: names.1, category: names.2, flags, subresources }
}

const CORE: (&str, &str) = ("", "v1");
const BATCH: (&str, &str) = ("batch", "v1");
const APPS: (&str, &str) = ("apps", "v1");
const RBAC: (&str, &str) = ("rbac.authorization.k8s.io", "v1");
const AUTHZ: (&str, &str) = ("authorization.k8s.io", "v1");
const AUTHN: (&str, &str) = ("authentication.k8s.io", "v1");
const STORAGE: (&str, &str) = ("storage.k8s.io", "v1");
const NET: (&str, &str) = ("networking.k8s.io", "v1");
const ADMISSION: (&str, &str) = ("admissionregistration.k8s.io", "v1");
const METRICS: (&str, &str) = (usage::GROUP, "v1beta1");
const DRA: (&str, &str) = ("resource.k8s.io", "v1");

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(CORE, "Binding", ("bindings", "", ""), "na", ""),
    row(CORE, "ComponentStatus", ("componentstatuses", "cs", ""), "cr", ""),
    row(CORE, "ConfigMap", ("configmaps", "cm", ""), "n", ""),
    row(CORE, "Endpoints", ("endpoints", "ep", ""), "nP", ""),
    row(CORE, "Event", ("events", "ev", ""), "nP", ""),
    row(CORE, "LimitRange", ("limitranges", "limits", ""), "nP", ""),
    row(CORE, "Namespace", ("namespaces", "ns", ""), "cDx", "finalize status"),
    row(CORE, "Node", ("nodes", "no", ""), "c", "status"),
    row(CORE, "PersistentVolumeClaim", ("persistentvolumeclaims", "pvc", ""), "nD", "status"),
    row(CORE, "PersistentVolume", ("persistentvolumes", "pv", ""), "cD", "status"),
    row(CORE, "Pod", ("pods", "po", "all"), "nGD", "attach binding ephemeralcontainers eviction exec log portforward status"),
    row(CORE, "PodTemplate", ("podtemplates", "", ""), "nGDk", ""),
    row(CORE, "ReplicationController", ("replicationcontrollers", "rc", "all"), "nGk", "scale status"),
    row(CORE, "ResourceQuota", ("resourcequotas", "quota", ""), "nD", "status"),
    row(CORE, "Secret", ("secrets", "", ""), "n", ""),
    row(CORE, "ServiceAccount", ("serviceaccounts", "sa", ""), "nD", "token"),
    row(CORE, "Service", ("services", "svc", "all"), "nPD", "status"),
    row(("events.k8s.io", "v1"), "Event", ("events", "ev", ""), "nP", ""),
    row(AUTHN, "SelfSubjectReview", ("selfsubjectreviews", "", ""), "ca", ""),
    row(AUTHN, "TokenReview", ("tokenreviews", "", ""), "ca", ""),
    row(AUTHZ, "LocalSubjectAccessReview", ("localsubjectaccessreviews", "", ""), "na", ""),
    row(AUTHZ, "SelfSubjectAccessReview", ("selfsubjectaccessreviews", "", ""), "ca", ""),
    row(AUTHZ, "SelfSubjectRulesReview", ("selfsubjectrulesreviews", "", ""), "ca", ""),
    row(AUTHZ, "SubjectAccessReview", ("subjectaccessreviews", "", ""), "ca", ""),
    row(("autoscaling", "v1"), "HorizontalPodAutoscaler", ("horizontalpodautoscalers", "hpa", "all"), "nk", "status"),
    row(("autoscaling", "v2"), "HorizontalPodAutoscaler", ("horizontalpodautoscalers", "hpa", "all"), "nk", "status"),
    row(BATCH, "CronJob", ("cronjobs", "cj", "all"), "nG", "status"),
    row(BATCH, "Job", ("jobs", "", "all"), "nG", "status"),
    row(NET, "IngressClass", ("ingressclasses", "", ""), "cGk", ""),
    row(NET, "Ingress", ("ingresses", "ing", ""), "nGk", "status"),
    row(NET, "NetworkPolicy", ("networkpolicies", "netpol", ""), "nGk", ""),
    row(("policy", "v1"), "PodDisruptionBudget", ("poddisruptionbudgets", "pdb", ""), "nGS", "status"),
    row(RBAC, "ClusterRoleBinding", ("clusterrolebindings", "", ""), "cP", ""),
    row(RBAC, "ClusterRole", ("clusterroles", "", ""), "cP", ""),
    row(RBAC, "RoleBinding", ("rolebindings", "", ""), "nP", ""),
    row(RBAC, "Role", ("roles", "", ""), "nP", ""),
    row(STORAGE, "CSIDriver", ("csidrivers", "", ""), "cSDk", ""),
    row(STORAGE, "CSINode", ("csinodes", "", ""), "cSD", ""),
    row(STORAGE, "CSIStorageCapacity", ("csistoragecapacities", "", ""), "nSk", ""),
    row(STORAGE, "StorageClass", ("storageclasses", "sc", ""), "cD", ""),
    row(STORAGE, "VolumeAttachment", ("volumeattachments", "", ""), "cDk", "status"),
    row(ADMISSION, "MutatingWebhookConfiguration", ("mutatingwebhookconfigurations", "", "api-extensions"), "cGSk", ""),
    row(ADMISSION, "ValidatingWebhookConfiguration", ("validatingwebhookconfigurations", "", "api-extensions"), "cGSk", ""),
    row(("apiextensions.k8s.io", "v1"), "CustomResourceDefinition", ("customresourcedefinitions", "crd crds", "api-extensions"), "cG", "status"),
    row(("scheduling.k8s.io", "v1"), "PriorityClass", ("priorityclasses", "pc", ""), "cG", ""),
    row(("scheduling.k8s.io", "v1alpha1"), "Workload", ("workloads", "", ""), "nG", ""),
    row(("coordination.k8s.io", "v1"), "Lease", ("leases", "", ""), "nSP", ""),
    row(("node.k8s.io", "v1"), "RuntimeClass", ("runtimeclasses", "", ""), "cSPk", ""),
    row(("discovery.k8s.io", "v1"), "EndpointSlice", ("endpointslices", "", ""), "nG", ""),
    row(DRA, "DeviceClass", ("deviceclasses", "", ""), "cGDk", ""),
    row(DRA, "ResourceClaim", ("resourceclaims", "", ""), "nDk", "status"),
    row(DRA, "ResourceClaimTemplate", ("resourceclaimtemplates", "", ""), "nDk", ""),
    row(DRA, "ResourceSlice", ("resourceslices", "", ""), "cGDk", ""),
    row(APPS, "ControllerRevision", ("controllerrevisions", "", ""), "nk", ""),
    row(APPS, "DaemonSet", ("daemonsets", "ds", "all"), "nGk", "status"),
    row(APPS, "Deployment", ("deployments", "deploy", "all"), "nG", "scale status"),
    row(APPS, "ReplicaSet", ("replicasets", "rs", "all"), "nG", "scale status"),
    row(APPS, "StatefulSet", ("statefulsets", "sts", "all"), "nGk", "scale status"),
    row(METRICS, "NodeMetrics", ("nodes", "", ""), "cr", ""),
    row(METRICS, "PodMetrics", ("pods", "", ""), "nr", ""),
];

/// Words of a blank-separated constant.
fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

fn built(row: &Row, bucket: impl Fn(&str) -> Bucket) -> Option<Resource> {
    let flag = |letter: char| row.flags.contains(letter);
    let role = match (flag('k'), flag('a') || flag('r')) {
        (_, true) => Role::Answered,
        (true, _) => Role::Stored,
        _ => Role::Runs,
    };
    let verbs = match () {
        () if flag('a') => CREATE,
        () if flag('r') => READ,
        () if flag('x') => NO_DELETE_COLLECTION,
        () => ALL_VERBS,
    };
    // Both event groups are views of one bucket (spec K-EVT-1).
    let store_group = if row.kind == "Event" { "" } else { row.group };
    let singular = if row.kind == "Endpoints" { "endpoints".to_owned() } else { row.kind.to_lowercase() };
    Some(Resource {
        group: row.group.into(),
        version: row.version.into(),
        kind: row.kind.into(),
        plural: row.plural.into(),
        singular: singular.into(),
        list_kind: format!("{}List", row.kind).into(),
        short_names: words(row.short).into_iter().map(Into::into).collect(),
        categories: words(row.category).into_iter().map(Into::into).collect(),
        namespaced: flag('n'),
        verbs,
        subresources: words(row.subresources),
        role,
        traits: Traits {
            generation: flag('G'),
            strict_put: flag('S'),
            put_creates: flag('P'),
            delete_returns: flag('D'),
        },
        shape: builtin::of(row.group, row.version, row.kind).or_else(|| usage::shape(row.kind))?,
        custom: None,
        bucket: bucket(&bucket_name(store_group, row.plural)),
        prefix: prefix(row.kind, &api_version(row.group, row.version)),
    })
}

/// The store's bucket of a resource: `pods`, `batch/jobs`.
pub fn bucket_name(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{group}/{plural}") }
}

/// All that is served at one moment; replaced as a whole when a CRD changes.
#[derive(Debug)]
pub struct Catalogue {
    /// By group, version, plural.
    resources: BTreeMap<(Box<str>, Box<str>, Box<str>), Arc<Resource>>,
    /// Groups in order of priority, each with its versions, best first.
    pub groups: Vec<(Box<str>, Vec<Box<str>>)>,
    /// Discovery documents, encoded once: legacy `/apis`, aggregated and so on, by key.
    pub documents: parking_lot::Mutex<BTreeMap<String, bytes::Bytes>>,
}

impl Catalogue {
    /// The built-in rows plus `customs`, which come with their versions best first.
    pub fn new(bucket: impl Fn(&str) -> Bucket, customs: &[Arc<Resource>]) -> Self {
        let mut resources = BTreeMap::new();
        let mut groups: Vec<(Box<str>, Vec<Box<str>>)> =
            GROUP_ORDER.iter().map(|group| ((*group).into(), Vec::new())).collect();
        let builtin = ROWS.iter().filter_map(|row| built(row, &bucket)).map(Arc::new);
        for resource in builtin.chain(customs.iter().cloned()) {
            let position = groups.iter().position(|(group, _)| *group == resource.group).unwrap_or_else(|| {
                groups.push((resource.group.clone(), Vec::new()));
                groups.len() - 1
            });
            let versions = &mut groups[position].1;
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
            let key = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            resources.insert(key, resource);
        }
        groups.retain(|(_, versions)| !versions.is_empty());
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
        }
        Catalogue { resources, groups, documents: Default::default() }
    }

    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        // The key type is a tuple of boxes; a range over the ordered map avoids building one per lookup would need
        // an owned borrow, and three short boxes cost less than a microsecond.
        self.resources.get(&(group.into(), version.into(), plural.into()))
    }

    pub fn serves(&self, group: &str, version: &str) -> bool {
        self.groups.iter().any(|(g, versions)| &**g == group && versions.iter().any(|v| &**v == version))
    }

    /// The resources of one group version, by plural.
    pub fn of(&self, group: &str, version: &str) -> Vec<&Arc<Resource>> {
        self.resources.iter().filter(|((g, v, _), _)| &**g == group && &**v == version).map(|(_, r)| r).collect()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    /// The resource that stores a kind, by group and kind, whatever the version.
    pub fn of_kind(&self, group: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.resources.values().find(|r| &*r.group == group && &*r.kind == kind)
    }
}

/// How good a version is: `v2` before `v1` before `v1beta1` before `v1alpha1` before names that say nothing.
pub fn rank(version: &str) -> (u8, u32, u32) {
    let number = |text: &str| text.parse::<u32>().ok();
    let parsed = version.strip_prefix('v').and_then(|rest| {
        if let Some((major, beta)) = rest.split_once("beta") {
            return Some((2, number(major)?, number(beta)?));
        }
        if let Some((major, alpha)) = rest.split_once("alpha") {
            return Some((1, number(major)?, number(alpha)?));
        }
        Some((3, number(rest)?, 0))
    });
    parsed.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    // K-DISC-2
    #[test]
    fn stable_versions_come_first() {
        let mut versions = ["v1alpha1", "foo", "v1", "v10", "v2beta1", "v2"];
        versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1alpha1", "foo"]);
    }

    // K-CAT-1 K-CAT-3
    #[test]
    fn every_row_has_a_type_in_the_table() {
        let store = crate::store::Store::<()>::in_memory(crate::store::Options::default());
        let catalogue = Catalogue::new(|name| store.bucket(name), &[]);
        assert_eq!(catalogue.all().count(), ROWS.len());
        let mut all: Vec<&str> =
            catalogue.all().filter(|r| r.categories.iter().any(|c| &**c == "all")).map(|r| &*r.plural).collect();
        all.dedup();
        assert_eq!(
            all,
            [
                "pods", "replicationcontrollers", "services", "daemonsets", "deployments", "replicasets",
                "statefulsets", "horizontalpodautoscalers", "cronjobs", "jobs"
            ]
        );
        assert!(builtin::of("autoscaling", "v1", "Scale").is_some());
    }
}
