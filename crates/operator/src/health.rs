//! How the operator is, for those who ask from outside: what it does, what others hold, and its counters.

use crate::aside::Held;
use crate::cache::Change;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use tokio::sync::watch;
use volley_api::kube::text;
use volley_plan::job::training::metrics::{DELETED, transitions};
use volley_scheduler::metrics::Metrics;

/// What it is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stage {
    /// Another replica leads.
    Standby,
    /// It asks who leads and, if it does itself, reads what there is.
    #[default]
    Starting,
    Working,
    Stopped,
}

#[derive(Debug, Default)]
struct State {
    held: Held,
    /// By name, namespace and framework.
    counters: BTreeMap<(&'static str, String, &'static str), u64>,
}

/// Shared by the operator and whoever asks; outlives a loss of leadership.
#[derive(Debug, Default)]
pub struct Health {
    stage: watch::Sender<Stage>,
    state: Mutex<State>,
    /// What the scheduler counts.
    pub scheduling: Arc<Metrics>,
}

impl Health {
    pub fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// What others' controllers hold, as sentences by kind.
    pub fn held(&self) -> Held {
        self.state.lock().held.clone()
    }

    /// `ok`, or what it waits for.
    pub fn words(&self) -> String {
        let words = match self.stage() {
            Stage::Standby => "stands by: another replica leads",
            Stage::Starting => "reads what there is",
            Stage::Working => "ok",
            Stage::Stopped => "stopped",
        };
        words.to_owned()
    }

    /// Waits until it looks after what there is, or knows that another does.
    pub async fn until_settled(&self) {
        // The sender lives as long as this does.
        let _ = self.stage.subscribe().wait_for(|stage| *stage != Stage::Starting).await;
    }

    pub(crate) fn set(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    pub(crate) fn set_held(&self, held: &Held) {
        self.state.lock().held = held.clone();
    }

    /// Counts what a change of a training job means; a job that is seen for the first time counts for nothing.
    pub(crate) fn count(&self, change: &Change) {
        let (Some(row), Some(old)) = (change.kind.training, change.old.as_deref()) else { return };
        let counters = match change.new.as_deref() {
            Some(new) if text(new, "metadata.uid") == text(old, "metadata.uid") => transitions(old, new),
            Some(_) | None => vec![DELETED],
        };
        let mut state = self.state.lock();
        for name in counters {
            *state.counters.entry((name, text(old, "metadata.namespace").to_owned(), row.framework)).or_default() += 1;
        }
    }

    /// The counters as Prometheus reads them.
    pub fn metrics(&self) -> String {
        let state = self.state.lock();
        let mut text = String::new();
        let mut last = "";
        for ((name, namespace, framework), count) in &state.counters {
            if last != *name {
                // Writing to a string does not fail.
                let _ = writeln!(text, "# TYPE {name} counter");
                last = name;
            }
            let _ = writeln!(text, "{name}{{job_namespace=\"{namespace}\",framework=\"{framework}\"}} {count}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;
    use serde_json::{Value, json};

    // PT-MET-1
    #[test]
    fn each_transition_counts_once() {
        let health = Health::default();
        let kind = kinds::known("kubeflow.org/v1", "PyTorchJob");
        let job = |conditions: Value| {
            Some(Arc::new(json!({"metadata": {"namespace": "n", "uid": "u"}, "status": {"conditions": conditions}})))
        };
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": "r", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"});
        let (none, made) = (job(json!([])), job(json!([condition("Created")])));
        health.count(&Change { kind, old: None, new: made.clone() });
        assert_eq!(health.metrics(), "", "it was made before we came");
        health.count(&Change { kind, old: none, new: made.clone() });
        health.count(&Change { kind, old: made.clone(), new: made.clone() });
        health.count(&Change { kind, old: made, new: None });
        let expected = "\
# TYPE training_operator_jobs_created_total counter
training_operator_jobs_created_total{job_namespace=\"n\",framework=\"pytorch\"} 1
# TYPE training_operator_jobs_deleted_total counter
training_operator_jobs_deleted_total{job_namespace=\"n\",framework=\"pytorch\"} 1
";
        assert_eq!(health.metrics(), expected);
    }
}
