//! The HorizontalPodAutoscaler of an elastic job with metrics (spec PT 17).

use super::environment;
use super::owned::{changes, own};
use super::round::Round;
use serde_json::{Map, Value, json};
use volley_api::kubeflow::API_VERSION;

/// Keeps the autoscaler as the elastic policy asks, or none (PT-ELA-1, PT-ELA-3).
pub fn sync(round: &mut Round) {
    let Some(wanted) = spec(round) else {
        if !round.settings.is_strict {
            remove(round);
        }
        return;
    };
    match own(round, round.seen.autoscaler) {
        Some(existing) => {
            let patch = changes(existing.get("spec"), wanted);
            patch.into_iter().for_each(|patch| round.patch(existing, json!({ "spec": patch })));
        }
        None => {
            let metadata = round.head.owned(&round.job.name);
            round.create(json!({
                "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": wanted,
            }));
        }
    }
}

pub fn remove(round: &mut Round) {
    if let Some(existing) = own(round, round.seen.autoscaler) {
        round.delete(existing);
    }
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
