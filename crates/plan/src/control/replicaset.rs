//! The apps/v1 ReplicaSet controller: keeps the wanted number of pods and says how many are there, ready, available.

use super::{Action, Plan, Target, Voice, claim, controller_reference, name_of, pods, to_value, wire_time};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetSpec, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// Pods created or deleted in one round; upstream's number.
const PODS_PER_ROUND_MAX: usize = 500;

/// A ReplicaSet and the pods of its namespace that it may own.
#[derive(Debug)]
pub struct Observed<'a> {
    pub replica_set: &'a ReplicaSet,
    pub pods: &'a [Pod],
    /// What the server said when the last round could not create a pod.
    pub create_failure: Option<&'a str>,
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let Some(spec) = seen.replica_set.spec.as_ref() else {
        return plan;
    };
    let claims = claim::claim(seen.replica_set, &spec.selector, seen.pods);
    plan.actions.extend(claims.patches);
    let active: Vec<&Pod> = claims.owned.iter().copied().filter(|pod| pods::is_active(pod)).collect();
    let terminating = claims.owned.iter().filter(|pod| pods::is_terminating(pod)).count();
    if seen.replica_set.metadata.deletion_timestamp.is_none() {
        scale(seen.replica_set, spec, &active, &mut plan);
    }
    let status = status(seen, spec, &active, terminating, now);
    plan.status(seen.replica_set, seen.replica_set.status.as_ref(), &status);
    let seconds_min = spec.min_ready_seconds.unwrap_or(0);
    let next = active.iter().filter_map(|pod| pods::available_in(pod, seconds_min, now)).filter(|left| *left > 0).min();
    if let Some(left) = next {
        plan.requeue(left);
    }
    plan
}

fn scale(replica_set: &ReplicaSet, spec: &ReplicaSetSpec, active: &[&Pod], plan: &mut Plan) {
    let voice = Voice::new(replica_set, "replicaset-controller");
    let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
    for _ in active.len()..wanted.min(active.len() + PODS_PER_ROUND_MAX) {
        let event = voice.normal("SuccessfulCreate", "Created pod: {name}");
        plan.actions.push(Action::Create { object: to_value(&new_pod(replica_set, spec)), event: Some(event) });
    }
    let surplus = active.len().saturating_sub(wanted).min(PODS_PER_ROUND_MAX);
    for pod in first_to_go(active).into_iter().take(surplus) {
        let target = Target::of(pod);
        plan.events.push(voice.normal("SuccessfulDelete", format!("Deleted pod: {}", target.name)));
        plan.delete(target);
    }
}

fn new_pod(replica_set: &ReplicaSet, spec: &ReplicaSetSpec) -> Pod {
    let template = spec.template.clone().unwrap_or_default();
    let made_by_user = template.metadata.unwrap_or_default();
    let metadata = ObjectMeta {
        generate_name: Some(format!("{}-", name_of(&replica_set.metadata))),
        namespace: replica_set.metadata.namespace.clone(),
        labels: made_by_user.labels,
        annotations: made_by_user.annotations,
        finalizers: made_by_user.finalizers,
        owner_references: Some(vec![controller_reference(replica_set)]),
        ..ObjectMeta::default()
    };
    Pod { metadata, spec: template.spec, status: None }
}

/// The pods, least useful first.
fn first_to_go<'a>(active: &[&'a Pod]) -> Vec<&'a Pod> {
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let mut per_node: BTreeMap<Option<String>, usize> = BTreeMap::new();
    for pod in active {
        *per_node.entry(node(pod)).or_default() += 1;
    }
    let mut ordered = active.to_vec();
    ordered.sort_by_cached_key(|pod| pods::removal_order(pod, per_node[&node(pod)]));
    ordered
}

fn status(
    seen: &Observed,
    spec: &ReplicaSetSpec,
    active: &[&Pod],
    terminating: usize,
    now: Timestamp,
) -> ReplicaSetStatus {
    let wanted_labels = spec.template.as_ref().and_then(|t| t.metadata.as_ref()).and_then(|m| m.labels.as_ref());
    let is_fully_labeled = |pod: &Pod| {
        let labels = pod.metadata.labels.as_ref();
        wanted_labels.into_iter().flatten().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
    };
    let seconds_min = spec.min_ready_seconds.unwrap_or(0);
    let count = |fact: &dyn Fn(&Pod) -> bool| {
        let number = active.iter().filter(|pod| fact(pod)).count();
        i32::try_from(number).ok().filter(|number| *number > 0)
    };
    ReplicaSetStatus {
        replicas: i32::try_from(active.len()).unwrap_or(i32::MAX),
        fully_labeled_replicas: count(&is_fully_labeled),
        ready_replicas: count(&pods::is_ready),
        available_replicas: count(&|pod| pods::available_in(pod, seconds_min, now) == Some(0)),
        terminating_replicas: i32::try_from(terminating).ok(),
        observed_generation: seen.replica_set.metadata.generation,
        conditions: conditions(seen, now),
    }
}

/// `ReplicaFailure` while pods cannot be created, and nothing else.
fn conditions(seen: &Observed, now: Timestamp) -> Option<Vec<ReplicaSetCondition>> {
    let old = seen.replica_set.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let is_failure = |condition: &ReplicaSetCondition| condition.type_ == "ReplicaFailure";
    let known = old.iter().find(|condition| is_failure(condition)).cloned();
    let mut conditions: Vec<_> = old.into_iter().filter(|condition| !is_failure(condition)).collect();
    if let Some(message) = seen.create_failure {
        conditions.push(known.unwrap_or_else(|| ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some("FailedCreate".to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(wire_time(now)),
        }));
    }
    Some(conditions).filter(|conditions| !conditions.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn world(replicas: i32) -> World {
        let mut world = World::default();
        world.add(json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "r", "uid": "r"},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}},
                "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}}},
        }));
        world
    }

    fn planned(world: &World) -> Plan {
        let replica_set = world.get::<ReplicaSet>("r");
        let observed = Observed { replica_set: &replica_set, pods: &world.list::<Pod>(), create_failure: None };
        plan(&observed, world.now())
    }

    fn status(world: &World) -> &Value {
        &world.raw("ReplicaSet", "r")["status"]
    }

    // K-DEP-1
    #[test]
    fn pods_are_created_and_counted() {
        let mut world = world(2);
        world.settle(planned);
        let expected =
            json!({"replicas": 2, "fullyLabeledReplicas": 2, "terminatingReplicas": 0, "observedGeneration": 1});
        assert_eq!(status(&world), &expected);
        let pods = world.names("Pod");
        assert_eq!(world.events, pods.iter().map(|p| format!("SuccessfulCreate Created pod: {p}")).collect::<Vec<_>>());
        world.run_pod(&pods[0]);
        world.settle(planned);
        assert_eq!(status(&world)["readyReplicas"], 1);
        assert_eq!(status(&world)["availableReplicas"], 1);
    }

    #[test]
    fn pods_become_available_after_min_ready_seconds() {
        let mut world = world(1);
        world.edit("ReplicaSet", "r", json!({"spec": {"minReadySeconds": 20}}));
        world.settle(planned);
        let pod = world.names("Pod").remove(0);
        world.run_pod(&pod);
        world.second = 5;
        assert_eq!(world.settle(planned).requeue_after, Some(15));
        assert_eq!(status(&world)["availableReplicas"], Value::Null);
        world.second = 20;
        world.settle(planned);
        assert_eq!(status(&world)["availableReplicas"], 1);
    }

    #[test]
    fn pods_that_are_not_ready_go_first_then_the_younger_ones() {
        let mut world = world(3);
        world.settle(planned);
        let pods = world.names("Pod");
        for (second, pod) in [(0, &pods[0]), (9, &pods[1])] {
            world.second = second;
            world.run_pod(pod);
        }
        let mut shrink = |replicas: i32| {
            world.edit("ReplicaSet", "r", json!({"spec": {"replicas": replicas}}));
            world.settle(planned);
            world
                .list::<Pod>()
                .into_iter()
                .filter(pods::is_active)
                .map(|p| p.metadata.name.unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(shrink(2), pods[..2]);
        assert_eq!(shrink(1), pods[..1]);
        assert_eq!(status(&world)["terminatingReplicas"], 1);
    }

    #[test]
    fn orphans_are_adopted_and_strays_let_go() {
        let mut world = world(1);
        world.add(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "o", "labels": {"app": "a"}}}));
        world.settle(planned);
        assert_eq!(world.raw("Pod", "o")["metadata"]["ownerReferences"][0]["uid"], "r");
        world.edit("Pod", "o", json!({"metadata": {"labels": {"app": "b"}}}));
        world.settle(planned);
        assert_eq!(world.raw("Pod", "o")["metadata"]["ownerReferences"], json!([]));
        assert_eq!(world.names("Pod").len(), 2);
    }

    #[test]
    fn a_failure_to_create_is_a_condition_until_it_passes() {
        let world = world(1);
        let replica_set = world.get::<ReplicaSet>("r");
        let seen = Observed { replica_set: &replica_set, pods: &[], create_failure: Some("exceeded quota: q") };
        let conditions = conditions(&seen, world.now()).unwrap();
        assert_eq!(conditions[0].reason.as_deref(), Some("FailedCreate"));
        assert_eq!(conditions[0].message.as_deref(), Some("exceeded quota: q"));
        assert_eq!(super::conditions(&Observed { create_failure: None, ..seen }, world.now()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_resizing_settles_on_the_wanted_number(sizes in proptest::collection::vec((0..6i32, any::<bool>()), 1..6)) {
            let mut world = world(1);
            for (size, runs) in sizes {
                world.edit("ReplicaSet", "r", json!({"spec": {"replicas": size}}));
                world.settle(planned);
                for pod in world.names("Pod").into_iter().filter(|_| runs) {
                    world.run_pod(&pod);
                }
                world.settle(planned);
                let active = world.list::<Pod>().iter().filter(|pod| pods::is_active(pod)).count();
                prop_assert_eq!(i32::try_from(active).unwrap(), size);
            }
        }
    }
}
