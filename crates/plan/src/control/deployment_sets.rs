//! The ReplicaSets of a Deployment while a round works on them: which is new, their sizes, revisions and names.

use super::percent::{self, Round};
use super::{Action, Plan, Target, controller_reference, name_of, to_value};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;
use std::cmp::Reverse;

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
/// Annotations that belong to the Deployment alone; all others are copied to its ReplicaSets.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
];
/// Letters and digits that form no words, as upstream's generated names use.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const NAME_MAX: usize = 253;
/// Length of the history of revisions that one ReplicaSet remembers, in characters; upstream's number.
const REVISION_HISTORY_MAX: usize = 2000;

/// How many pods the strategy allows.
pub struct Limits {
    pub replicas: i32,
    pub surge_max: i32,
    pub unavailable_max: i32,
    pub is_rolling: bool,
}

impl Limits {
    pub fn of(spec: &DeploymentSpec) -> Self {
        let replicas = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        let is_rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate");
        if !is_rolling {
            return Limits { replicas, surge_max: 0, unavailable_max: 0, is_rolling };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.clone()).unwrap_or_default();
        let quarter = || IntOrString::String("25%".to_owned());
        let surge_max = percent::of(&rolling.max_surge.unwrap_or_else(quarter), replicas, Round::Up);
        let mut unavailable_max = percent::of(&rolling.max_unavailable.unwrap_or_else(quarter), replicas, Round::Down);
        // With neither, nothing could ever move.
        if surge_max == 0 && unavailable_max == 0 {
            unavailable_max = 1;
        }
        Limits { replicas, surge_max, unavailable_max: unavailable_max.min(replicas), is_rolling }
    }

    /// The size that the new set may have now, when it has `current` of the `total` replicas.
    pub fn new_replicas(&self, total: i32, current: i32) -> i32 {
        if !self.is_rolling {
            return self.replicas;
        }
        let room = self.replicas + self.surge_max - total;
        current + room.min(self.replicas - current).max(0)
    }
}

/// One ReplicaSet as it is being changed.
pub struct Set {
    before: Option<ReplicaSet>,
    after: ReplicaSet,
}

impl Set {
    pub fn name(&self) -> String {
        name_of(&self.after.metadata).to_owned()
    }

    pub fn uid(&self) -> &str {
        super::uid_of(&self.after.metadata)
    }

    pub fn replicas(&self) -> i32 {
        self.after.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
    }

    pub fn available(&self) -> i32 {
        self.after.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
    }

    pub fn ready(&self) -> i32 {
        self.after.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)
    }

    pub fn actual(&self) -> i32 {
        self.after.status.as_ref().map_or(0, |status| status.replicas)
    }

    pub fn terminating(&self) -> i32 {
        self.after.status.as_ref().and_then(|status| status.terminating_replicas).unwrap_or(0)
    }

    pub fn desired(&self) -> Option<i32> {
        self.annotation(DESIRED)?.parse().ok()
    }

    /// The reason and message of its `ReplicaFailure` condition, if it has one.
    pub fn failure(&self) -> Option<(String, String)> {
        let conditions = self.after.status.as_ref()?.conditions.as_deref()?;
        let failure = conditions.iter().find(|condition| condition.type_ == "ReplicaFailure")?;
        Some((failure.reason.clone().unwrap_or_default(), failure.message.clone().unwrap_or_default()))
    }

    pub fn is_saturated(&self, wanted: i32) -> bool {
        self.replicas() == wanted && self.desired() == Some(wanted) && self.available() == wanted
    }

    pub fn resize(&mut self, size: i32, limits: &Limits) {
        if self.replicas() == size && self.desired() == Some(limits.replicas) {
            return;
        }
        self.after.spec.get_or_insert_default().replicas = Some(size);
        self.annotate(DESIRED, limits.replicas.to_string());
        self.annotate(MAX, (limits.replicas + limits.surge_max).to_string());
    }

    /// How many replicas this set gains or loses when the whole Deployment is resized.
    pub fn share(&self, limits: &Limits, reported: i32) -> i32 {
        if limits.replicas == 0 {
            return -self.replicas();
        }
        let before: i32 =
            self.annotation(MAX).and_then(|text| text.parse().ok()).filter(|n| *n > 0).unwrap_or(reported);
        if before == 0 {
            return 0;
        }
        let scaled = i64::from(self.replicas()) * i64::from(limits.replicas + limits.surge_max) * 2 + i64::from(before);
        let rounded = scaled.div_euclid(i64::from(before) * 2);
        i32::try_from(rounded).unwrap_or(i32::MAX) - self.replicas()
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.after.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    fn annotate(&mut self, key: &str, value: String) {
        self.after.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value);
    }

    fn revision(&self) -> i64 {
        self.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Moves to a later revision, remembering the one it had.
    fn set_revision(&mut self, revision: i64) {
        let old = self.annotation(REVISION).map(str::to_owned);
        if self.revision() >= revision {
            return;
        }
        if let Some(old) = old {
            let history = self.annotation(REVISION_HISTORY).filter(|text| !text.is_empty());
            let longer = history.map_or_else(|| old.clone(), |history| format!("{history},{old}"));
            let start = longer.len().saturating_sub(REVISION_HISTORY_MAX);
            let kept =
                if start == 0 { longer.as_str() } else { longer[start..].split_once(',').map_or("", |(_, k)| k) };
            self.annotate(REVISION_HISTORY, kept.to_owned());
        }
        self.annotate(REVISION, revision.to_string());
    }

    fn copy_annotations(&mut self, deployment: &Deployment) {
        for (key, value) in deployment.metadata.annotations.iter().flatten() {
            if !NOT_COPIED.contains(&key.as_str()) {
                self.annotate(key, value.clone());
            }
        }
    }
}

/// All ReplicaSets of the Deployment, and which of them has its present template.
pub struct Sets {
    pub list: Vec<Set>,
    pub new: Option<usize>,
}

impl Sets {
    /// Rolling back is only this: the oldest set with the same template is the new one again.
    pub fn new(deployment: &Deployment, owned: &[&ReplicaSet]) -> Self {
        let copy = |set: &&ReplicaSet| Set { before: Some((*set).clone()), after: (*set).clone() };
        let mut list: Vec<Set> = owned.iter().map(copy).collect();
        list.sort_by_key(|set| (set.after.metadata.creation_timestamp.clone(), set.name()));
        let template = deployment.spec.as_ref().map(|spec| without_hash(&spec.template));
        let has_template = |set: &Set| {
            let theirs = set.after.spec.as_ref().and_then(|spec| spec.template.as_ref());
            theirs.map(without_hash) == template
        };
        let new = list.iter().position(has_template);
        Sets { list, new }
    }

    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.list.iter()
    }

    pub fn replicas(&self) -> i32 {
        self.all().map(Set::replicas).sum()
    }

    pub fn old_by_age(&self) -> Vec<usize> {
        (0..self.list.len()).filter(|at| Some(*at) != self.new).collect()
    }

    pub fn latest(&self) -> Option<usize> {
        self.list.len().checked_sub(1)
    }

    /// Largest first; of equals the newer first when growing, the older first when shrinking.
    pub fn sort_by_size(&self, at: &mut [usize], is_growing: bool) {
        if is_growing {
            at.sort_by_key(|at| (Reverse(self.list[*at].replicas()), Reverse(*at)));
        } else {
            at.sort_by_key(|at| (Reverse(self.list[*at].replicas()), *at));
        }
    }

    /// Brings the new set's annotations up to date; its name, if there is one.
    pub fn sync_new(&mut self, deployment: &Deployment) -> Option<String> {
        let at = self.new?;
        let revision = self.next_revision();
        let set = &mut self.list[at];
        set.copy_annotations(deployment);
        set.set_revision(revision);
        let spec = set.after.spec.get_or_insert_default();
        spec.min_ready_seconds = deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds);
        Some(set.name())
    }

    fn next_revision(&self) -> i64 {
        self.old_by_age().into_iter().map(|at| self.list[at].revision()).max().unwrap_or(0) + 1
    }

    /// Adds a set for the present template; a name that somebody else has counts as a collision of hashes.
    pub fn create_new(
        &mut self,
        deployment: &Deployment,
        others: &[ReplicaSet],
        status: &mut DeploymentStatus,
        size: i32,
    ) -> String {
        let spec = deployment.spec.clone().unwrap_or_default();
        let revision = self.next_revision();
        let deployment_name = name_of(&deployment.metadata);
        let (hash, name) = loop {
            let hash = template_hash(&spec.template, status.collision_count);
            let kept = deployment_name.len().min(NAME_MAX - 1 - hash.len());
            let name = format!("{}-{hash}", &deployment_name[..kept]);
            if !others.iter().any(|other| name_of(&other.metadata) == name) {
                break (hash, name);
            }
            status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        };
        let mut template = spec.template.clone();
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector: LabelSelector = spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash);
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        };
        let min_ready_seconds = spec.min_ready_seconds;
        let set_spec = ReplicaSetSpec { min_ready_seconds, selector, template: Some(template), replicas: Some(0) };
        let after = ReplicaSet { metadata, spec: Some(set_spec), status: None };
        let mut set = Set { before: None, after };
        set.copy_annotations(deployment);
        set.set_revision(revision);
        set.resize(size, &Limits::of(&spec));
        self.new = Some(self.list.len());
        self.list.push(set);
        name
    }

    /// The Deployment carries the revision of its new set.
    pub fn write_revision(&self, deployment: &Deployment, plan: &mut Plan) {
        let Some(revision) = self.new.and_then(|at| self.list[at].annotation(REVISION)) else {
            return;
        };
        let known = deployment.metadata.annotations.as_ref().and_then(|annotations| annotations.get(REVISION));
        if known.map(String::as_str) != Some(revision) {
            let patch = json!({ "metadata": { "annotations": { REVISION: revision } } });
            // Through the status, as upstream does: an annotation written otherwise would raise the generation.
            plan.actions.push(Action::PatchStatus { target: Target::of(deployment), patch });
        }
    }

    /// Deletes the oldest revisions over the limit, if they are empty.
    pub fn drop_old_revisions(&mut self, spec: &DeploymentSpec, plan: &mut Plan) {
        let limit = usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or(0);
        let mut old = self.old_by_age();
        old.retain(|at| self.list[*at].after.metadata.deletion_timestamp.is_none());
        old.sort_by_key(|at| (self.list[*at].revision(), *at));
        let surplus = old.len().saturating_sub(limit);
        for set in old[..surplus].iter().map(|at| &self.list[*at]) {
            let observed = set.after.status.as_ref().and_then(|status| status.observed_generation);
            let is_current = observed >= set.after.metadata.generation;
            if set.replicas() == 0 && set.actual() == 0 && is_current {
                plan.delete(Target::of(&set.after));
            }
        }
    }

    /// Turns what has changed into creations and patches.
    pub fn write(self, plan: &mut Plan) {
        for set in self.list {
            plan.write(set.before.as_ref(), &set.after);
        }
    }
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    let metadata = template.metadata.get_or_insert_default();
    let labels = metadata.labels.get_or_insert_default();
    labels.remove(HASH);
    template
}

/// A short name for a template: FNV-1a of its canonical JSON, in an alphabet that forms no words.
fn template_hash(template: &PodTemplateSpec, collisions: Option<i32>) -> String {
    let mut hash: u32 = 0x811c_9dc5;
    let mut eat = |byte: u8| hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    to_value(template).to_string().bytes().for_each(&mut eat);
    collisions.iter().flat_map(|count| count.to_le_bytes()).for_each(&mut eat);
    hash.to_string().bytes().map(|digit| char::from(ALPHABET[usize::from(digit) % ALPHABET.len()])).collect()
}
