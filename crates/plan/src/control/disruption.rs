//! Disruption budgets: how many of the selected pods may be evicted now (policy/v1 PodDisruptionBudget).

use super::percent::{self, Round};
use super::{Plan, claim, controller_uid, name_of, pods, seconds_since, wire_time};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::{BTreeMap, BTreeSet};

/// An eviction that was granted but has not led to a deletion by then is no longer believed in.
const EVICTION_SECONDS_MAX: i64 = 120;

/// A budget, the pods of its namespace, and by controller uid the number of pods that controller wants.
#[derive(Debug)]
pub struct Observed<'a> {
    pub budget: &'a PodDisruptionBudget,
    pub pods: &'a [Pod],
    pub scales: &'a BTreeMap<String, i32>,
}

struct Counts {
    expected: i32,
    desired: i32,
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = seen.budget.spec.as_ref() else {
        return plan;
    };
    // A budget without selector selects nothing, one with an empty selector everything.
    let is_selected = |pod: &&Pod| {
        let matches =
            spec.selector.as_ref().is_some_and(|selector| claim::selects(selector, pod.metadata.labels.as_ref()));
        matches && pod.metadata.namespace == seen.budget.metadata.namespace && !pods::is_terminal(pod)
    };
    let selected: Vec<&Pod> = seen.pods.iter().filter(is_selected).collect();
    let evicted = believed_evictions(seen.budget, &selected, now, &mut plan);
    let is_healthy = |pod: &&&Pod| {
        !pods::is_being_deleted(pod) && !evicted.contains_key(name_of(&pod.metadata)) && pods::is_ready(pod)
    };
    let healthy = i32::try_from(selected.iter().filter(is_healthy).count()).unwrap_or(i32::MAX);
    let status = match counts(seen, spec, &selected) {
        Ok(counts) => {
            let allowed = if counts.expected > 0 { (healthy - counts.desired).max(0) } else { 0 };
            PodDisruptionBudgetStatus {
                current_healthy: Some(healthy),
                desired_healthy: Some(counts.desired),
                expected_pods: Some(counts.expected),
                disruptions_allowed: Some(allowed),
                disrupted_pods: Some(evicted).filter(|evicted| !evicted.is_empty()),
                observed_generation: seen.budget.metadata.generation,
                conditions: conditions(seen.budget, Ok(allowed), now),
            }
        }
        Err(message) => PodDisruptionBudgetStatus {
            disruptions_allowed: Some(0),
            observed_generation: seen.budget.metadata.generation,
            conditions: conditions(seen.budget, Err(message), now),
            ..seen.budget.status.clone().unwrap_or_default()
        },
    };
    plan.status(seen.budget, seen.budget.status.as_ref(), &status);
    plan
}

/// Pods whose eviction was granted and which are still to be deleted.
fn believed_evictions(
    budget: &PodDisruptionBudget,
    selected: &[&Pod],
    now: Timestamp,
    plan: &mut Plan,
) -> BTreeMap<String, Time> {
    let listed = budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    let mut believed = BTreeMap::new();
    for (name, time) in listed {
        let waits = selected.iter().any(|pod| name_of(&pod.metadata) == name && !pods::is_being_deleted(pod));
        let left = EVICTION_SECONDS_MAX - seconds_since(time.0, now);
        if waits && left > 0 {
            plan.requeue(left);
            believed.insert(name, time);
        }
    }
    believed
}

fn counts(seen: &Observed, spec: &PodDisruptionBudgetSpec, selected: &[&Pod]) -> Result<Counts, String> {
    if let Some(most) = &spec.max_unavailable {
        let expected = wanted_by_controllers(seen, selected)?;
        return Ok(Counts { expected, desired: (expected - percent::of(most, expected, Round::Up)).max(0) });
    }
    match &spec.min_available {
        Some(least @ IntOrString::String(_)) => {
            let expected = wanted_by_controllers(seen, selected)?;
            Ok(Counts { expected, desired: percent::of(least, expected, Round::Up) })
        }
        Some(IntOrString::Int(least)) => {
            Ok(Counts { expected: i32::try_from(selected.len()).unwrap_or(i32::MAX), desired: *least })
        }
        None => Ok(Counts { expected: 0, desired: 0 }),
    }
}

/// A share is a share of what the pods' controllers want, not of what happens to be there.
fn wanted_by_controllers(seen: &Observed, selected: &[&Pod]) -> Result<i32, String> {
    let mut controllers = BTreeSet::new();
    for pod in selected {
        let uid = controller_uid(&pod.metadata).filter(|uid| seen.scales.contains_key(*uid));
        let name = name_of(&pod.metadata);
        controllers.insert(uid.ok_or_else(|| format!("found no controllers for pod \"{name}\""))?);
    }
    Ok(controllers.into_iter().map(|uid| seen.scales[uid]).sum())
}

fn conditions(budget: &PodDisruptionBudget, allowed: Result<i32, String>, now: Timestamp) -> Option<Vec<Condition>> {
    let (status, reason, message) = match allowed {
        Ok(0) => ("False", "InsufficientPods", String::new()),
        Ok(_) => ("True", "SufficientPods", String::new()),
        Err(message) => ("False", "SyncFailed", message),
    };
    let mut conditions = budget.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let known = conditions.iter().position(|condition| condition.type_ == "DisruptionAllowed");
    let same_status = known.filter(|at| conditions[*at].status == status);
    let since = same_status.map(|at| conditions[at].last_transition_time.clone());
    let condition = Condition {
        type_: "DisruptionAllowed".to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: budget.metadata.generation,
        last_transition_time: since.unwrap_or_else(|| wire_time(now)),
    };
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;
    use serde_json::{Value, json};

    fn world(spec: Value, pods: usize, ready: usize) -> World {
        let mut world = World::default();
        let mut full = json!({"selector": {"matchLabels": {"app": "a"}}});
        json_patch::merge(&mut full, &spec);
        world.add(
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": full}),
        );
        let owner =
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
        for number in 0..pods {
            let name = world.add(json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": []},
                "metadata": {"name": format!("p{number}"), "labels": {"app": "a"}, "ownerReferences": owner}}));
            if number < ready {
                world.run_pod(&name);
            }
        }
        world
    }

    fn planned(world: &World) -> Plan {
        let scales = BTreeMap::from([("r".to_owned(), 10)]);
        let observed = Observed { budget: &world.get("b"), pods: &world.list::<Pod>(), scales: &scales };
        plan(&observed, world.now())
    }

    fn settled(spec: Value, pods: usize, ready: usize) -> Value {
        let mut world = world(spec, pods, ready);
        world.settle(planned);
        world.raw("PodDisruptionBudget", "b")["status"].clone()
    }

    #[test]
    fn budgets_allow_what_is_over_the_wanted_number() {
        let check = |spec: Value, (pods, ready): (usize, usize), expected: [i64; 4]| {
            let status = settled(spec.clone(), pods, ready);
            let found = ["expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed"]
                .map(|key| status[key].as_i64().unwrap());
            assert_eq!(found, expected, "{spec}");
        };
        check(json!({"minAvailable": 2}), (4, 3), [4, 2, 3, 1]);
        check(json!({"minAvailable": 2}), (4, 1), [4, 2, 1, 0]);
        check(json!({"minAvailable": "55%"}), (9, 9), [10, 6, 9, 3]);
        check(json!({"maxUnavailable": 1}), (10, 10), [10, 9, 10, 1]);
        check(json!({"maxUnavailable": "25%"}), (10, 9), [10, 7, 9, 2]);
        check(json!({"minAvailable": 1}), (0, 0), [0, 1, 0, 0]);
    }

    #[test]
    fn the_condition_says_whether_there_is_room() {
        let reason = |status: Value| status["conditions"][0]["reason"].as_str().unwrap().to_owned();
        assert_eq!(reason(settled(json!({"minAvailable": 1}), 2, 2)), "SufficientPods");
        assert_eq!(reason(settled(json!({"minAvailable": 2}), 2, 2)), "InsufficientPods");
    }

    #[test]
    fn a_share_of_pods_without_controller_cannot_be_told() {
        let mut world = world(json!({"maxUnavailable": 1}), 1, 1);
        world.edit("Pod", "p0", json!({"metadata": {"ownerReferences": null}}));
        world.settle(planned);
        let status = &world.raw("PodDisruptionBudget", "b")["status"];
        assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
        assert_eq!(status["disruptionsAllowed"], 0);
    }

    #[test]
    fn a_granted_eviction_counts_until_it_is_forgotten() {
        let mut world = world(json!({"minAvailable": 1}), 3, 3);
        let granted = json!({"p0": world.now().to_string()});
        world.edit("PodDisruptionBudget", "b", json!({"status": {"disruptedPods": granted}}));
        assert_eq!(world.settle(planned).requeue_after, Some(120));
        assert_eq!(world.raw("PodDisruptionBudget", "b")["status"]["disruptionsAllowed"], 1);
        world.second = 120;
        world.settle(planned);
        assert_eq!(world.raw("PodDisruptionBudget", "b")["status"]["disruptionsAllowed"], 2);
    }
}
