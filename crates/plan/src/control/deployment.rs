//! The apps/v1 Deployment controller: one ReplicaSet per pod template, moved from old to new by the strategy (K-DEP-1).
//!
//! A round works on copies of the ReplicaSets (`Sets`); what differs at its end becomes patches. `deployment_status`
//! says how far the rollout is, `deployment_sets` knows names, hashes, revisions and sizes.

use super::deployment_sets::{Limits, Set, Sets};
use super::{Plan, Voice, claim, deployment_status, pods};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

/// A Deployment, the ReplicaSets of its namespace, and the pods of those it owns.
#[derive(Debug)]
pub struct Observed<'a> {
    pub deployment: &'a Deployment,
    pub replica_sets: &'a [ReplicaSet],
    pub pods: &'a [Pod],
}

/// What one round knows and changes.
pub(super) struct Round<'a> {
    pub deployment: &'a Deployment,
    pub limits: Limits,
    pub sets: Sets,
    pub status: DeploymentStatus,
    pub voice: Voice,
    pub now: Timestamp,
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let deployment = seen.deployment;
    let Some(spec) = deployment.spec.as_ref() else {
        return plan;
    };
    let claims = claim::claim(deployment, &spec.selector, seen.replica_sets);
    plan.actions.extend(claims.patches);
    let mut round = Round {
        deployment,
        limits: Limits::of(spec),
        sets: Sets::new(deployment, &claims.owned),
        status: deployment.status.clone().unwrap_or_default(),
        voice: Voice::new(deployment, "deployment-controller"),
        now,
    };
    if deployment.metadata.deletion_timestamp.is_some() {
        deployment_status::count(&mut round);
    } else if spec.paused == Some(true) || round.is_resized() {
        deployment_status::note_pause(&mut round);
        round.sync_new(&mut plan);
        round.resize(&mut plan);
        if spec.paused == Some(true) {
            round.sets.drop_old_revisions(spec, &mut plan);
        }
        deployment_status::count(&mut round);
    } else {
        deployment_status::note_pause(&mut round);
        if round.limits.is_rolling {
            round.roll(seen, &mut plan);
        } else {
            round.recreate(seen, &mut plan);
        }
        if deployment_status::is_complete(deployment, deployment.status.as_ref()) {
            round.sets.drop_old_revisions(spec, &mut plan);
        }
        deployment_status::count(&mut round);
        deployment_status::note_progress(&mut round, &mut plan);
    }
    round.sets.write(&mut plan);
    plan.status(deployment, deployment.status.as_ref(), &round.status);
    plan
}

impl Round<'_> {
    /// Whether the wanted number changed since the ReplicaSets were last sized.
    fn is_resized(&self) -> bool {
        let wanted = self.limits.replicas;
        self.sets.all().any(|set| set.replicas() > 0 && set.desired().is_some_and(|desired| desired != wanted))
    }

    fn sync_new(&mut self, plan: &mut Plan) {
        if let Some(name) = self.sets.sync_new(self.deployment) {
            deployment_status::note_found(self, &name);
        }
        self.sets.write_revision(self.deployment, plan);
    }

    fn scale(&mut self, at: usize, size: i32, plan: &mut Plan) -> bool {
        let (name, before) = (self.sets.list[at].name(), self.sets.list[at].replicas());
        if before == 0 && size == 0 {
            return false;
        }
        self.sets.list[at].resize(size, &self.limits);
        if before == size {
            return false;
        }
        let direction = if before < size { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {name} from {before} to {size}");
        plan.events.push(self.voice.normal("ScalingReplicaSet", message));
        true
    }

    fn create_new(&mut self, seen: &Observed, plan: &mut Plan) {
        let size = self.limits.new_replicas(self.sets.replicas(), 0);
        let name = self.sets.create_new(self.deployment, seen.replica_sets, &mut self.status, size);
        if size > 0 {
            let message = format!("Scaled up replica set {name} from 0 to {size}");
            plan.events.push(self.voice.normal("ScalingReplicaSet", message));
        }
        deployment_status::note_created(self, &name);
    }

    /// Rolling update: grow the new set as the surge allows, else shrink the old ones as availability allows.
    fn roll(&mut self, seen: &Observed, plan: &mut Plan) {
        if self.sets.new.is_none() {
            self.create_new(seen, plan);
            self.sets.write_revision(self.deployment, plan);
            return;
        }
        self.sync_new(plan);
        let new = self.sets.new.expect("the new set was there or has just been made");
        let current = self.sets.list[new].replicas();
        let size = if current > self.limits.replicas {
            self.limits.replicas
        } else {
            self.limits.new_replicas(self.sets.replicas(), current)
        };
        if current != size {
            self.scale(new, size, plan);
        } else {
            self.shrink_old(new, plan);
        }
    }

    fn shrink_old(&mut self, new: usize, plan: &mut Plan) {
        let available_min = self.limits.replicas - self.limits.unavailable_max;
        let new_unavailable = self.sets.list[new].replicas() - self.sets.list[new].available();
        let mut unhealthy_max = self.sets.replicas() - available_min - new_unavailable;
        if unhealthy_max <= 0 {
            return;
        }
        // Pods that do not serve go first: removing them costs no availability.
        for at in self.sets.old_by_age() {
            let set = &self.sets.list[at];
            let unhealthy = (set.replicas() - set.available()).clamp(0, unhealthy_max);
            let size = set.replicas() - unhealthy;
            unhealthy_max -= unhealthy;
            self.scale(at, size, plan);
        }
        let mut surplus = self.sets.all().map(Set::available).sum::<i32>() - available_min;
        for at in self.sets.old_by_age() {
            let size = self.sets.list[at].replicas();
            let fewer = size.min(surplus).max(0);
            surplus -= fewer;
            self.scale(at, size - fewer, plan);
        }
    }

    /// Recreate: all old pods end before the first new one starts.
    fn recreate(&mut self, seen: &Observed, plan: &mut Plan) {
        if self.sets.new.is_some() {
            self.sync_new(plan);
        }
        let mut is_shrinking = false;
        for at in self.sets.old_by_age() {
            is_shrinking |= self.scale(at, 0, plan);
        }
        if is_shrinking || self.has_old_pods(seen.pods) {
            return;
        }
        match self.sets.new {
            Some(new) => {
                self.scale(new, self.limits.replicas, plan);
            }
            None => {
                self.create_new(seen, plan);
                self.sets.write_revision(self.deployment, plan);
            }
        }
    }

    fn has_old_pods(&self, all: &[Pod]) -> bool {
        let old: Vec<&Set> = self.sets.old_by_age().into_iter().map(|at| &self.sets.list[at]).collect();
        let is_old =
            |pod: &Pod| super::controller_uid(&pod.metadata).is_some_and(|uid| old.iter().any(|s| s.uid() == uid));
        old.iter().any(|set| set.actual() > 0) || all.iter().any(|pod| is_old(pod) && !pods::is_terminal(pod))
    }

    /// Resizes without moving the rollout on: one set takes the difference, several share it by size.
    fn resize(&mut self, plan: &mut Plan) {
        let wanted = self.limits.replicas;
        let mut active: Vec<usize> =
            (0..self.sets.list.len()).filter(|at| self.sets.list[*at].replicas() > 0).collect();
        if active.len() <= 1 {
            if let Some(only) = active.first().copied().or(self.sets.new).or(self.sets.latest()) {
                self.scale(only, wanted, plan);
            }
            return;
        }
        let is_saturated = self.sets.new.is_some_and(|new| self.sets.list[new].is_saturated(wanted));
        if is_saturated {
            for at in self.sets.old_by_age() {
                self.scale(at, 0, plan);
            }
            return;
        }
        if !self.limits.is_rolling {
            return;
        }
        let allowed = if wanted > 0 { wanted + self.limits.surge_max } else { 0 };
        let to_add = allowed - self.sets.replicas();
        self.sets.sort_by_size(&mut active, to_add > 0);
        let reported = self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
        let mut left = to_add;
        let mut sizes = Vec::new();
        for at in &active {
            let share = self.sets.list[*at].share(&self.limits, reported);
            let change = if to_add > 0 { share.clamp(0, left.max(0)) } else { share.clamp(left.min(0), 0) };
            left -= change;
            sizes.push(self.sets.list[*at].replicas() + change);
        }
        // What rounding left over goes to the largest.
        sizes[0] = (sizes[0] + left).max(0);
        for (at, size) in active.into_iter().zip(sizes) {
            self.scale(at, size, plan);
        }
    }
}
