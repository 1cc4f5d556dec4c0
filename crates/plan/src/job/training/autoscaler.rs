//! The HorizontalPodAutoscaler of an elastic job with metrics (spec PT 17).

use super::environment;
use super::round::Round;
use crate::control::{Action, Propagation, difference};
use crate::job::head::target_of;
use serde_json::{Map, Value, json};
use volley_api::kube::{at, text};
use volley_api::kubeflow::API_VERSION;

/// Keeps the autoscaler as the elastic policy asks, or none (PT-ELA-1, PT-ELA-3).
pub fn sync(round: &mut Round) {
    let Some(wanted) = spec(round) else {
        if !round.settings.is_strict {
            remove(round);
        }
        return;
    };
    let Some(existing) = own(round) else {
        let metadata = round.head.owned(&round.job.name);
        let object = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": wanted,
        });
        round.plan.actions.push(Action::Create { object, event: None });
        return;
    };
    let mut patch = Map::new();
    for (key, value) in wanted {
        let old = at(existing, "spec").and_then(|spec| spec.get(&key)).unwrap_or(&Value::Null);
        patch.extend(difference(old, &value).map(|inner| (key, inner)));
    }
    if !patch.is_empty() {
        round.plan.actions.push(Action::Patch { target: target_of(existing), patch: json!({ "spec": patch }) });
    }
}

pub fn remove(round: &mut Round) {
    let is_going = |object: &&Value| !text(object, "metadata.deletionTimestamp").is_empty();
    if let Some(existing) = own(round).filter(|object| !is_going(object)) {
        let target = target_of(existing);
        round.plan.actions.push(Action::Delete { target, propagation: Propagation::Background });
    }
}

fn own<'a>(round: &Round<'a>) -> Option<&'a Value> {
    round.seen.autoscaler.filter(|object| round.head.controls_object(object))
}

fn spec(round: &Round) -> Option<Map<String, Value>> {
    let policy = round.job.elastic.as_ref()?;
    let metrics = policy.metrics.as_ref()?;
    let (low, high) = environment::bounds(round.job, policy);
    let target = json!({ "apiVersion": API_VERSION, "kind": round.job.row.name, "name": round.job.name });
    Some(Map::from_iter([
        ("scaleTargetRef".to_owned(), target),
        ("minReplicas".to_owned(), json!(low)),
        ("maxReplicas".to_owned(), json!(high)),
        ("metrics".to_owned(), json!(metrics)),
    ]))
}
