//! The scheduler, the shell: all waiting pods in one round, so that each sees what the others were given.

use super::Shell;
use super::apply::{SyncError, Synced};
use futures::future::join_all;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;
use volley_api::kube::text;
use volley_plan::control::placement::{self, Binding, Observed};

/// Bindings in flight.
const BINDINGS_MAX: usize = 64;

impl Shell {
    pub async fn schedule(&self) -> Synced {
        let result = self.place_untried().await;
        if result.is_err() {
            // What this round took must be tried again.
            self.look().index.has_new_room = true;
        }
        result
    }

    async fn place_untried(&self) -> Synced {
        // The nodes are read after the pods are taken: a node that comes in between is then seen now or brings
        // another round, and is never missed by both.
        let waiting = self.look().index.take_untried();
        let nodes: Vec<Value> = self.list("nodes", "");
        let placed: Vec<Arc<str>> = {
            let view = self.look();
            nodes.iter().flat_map(|node| view.index.pods_of_node(text(node, "metadata.name"))).collect()
        };
        let waiting: Vec<Value> = self.load("pods", &waiting);
        if waiting.is_empty() {
            return Ok(None);
        }
        let mut placed: Vec<Value> = self.load("pods", &placed);
        placed.retain(|pod| !matches!(text(pod, "status.phase"), "Succeeded" | "Failed"));
        let seen = Observed { waiting: &waiting, nodes: &nodes, placed: &placed };
        let placement = placement::place(&seen, Timestamp::now());
        for batch in placement.bind.chunks(BINDINGS_MAX) {
            let results = join_all(batch.iter().map(|binding| self.bind(binding))).await;
            results.into_iter().collect::<Result<(), _>>()?;
        }
        self.apply_each(placement::COMPONENT, placement.unplaced.actions).await?;
        placement.unplaced.events.into_iter().for_each(|event| self.reporter.report(event));
        Ok(None)
    }

    async fn bind(&self, binding: &Binding) -> Result<(), SyncError> {
        let pod = &binding.pod;
        let place = (pod.namespace.as_deref().unwrap_or_default(), &*pod.name);
        match self.server.local(placement::COMPONENT).bind(place, &pod.uid, &binding.node).await {
            Ok(()) => {
                self.reporter.report(binding.event());
                Ok(())
            }
            // It was deleted or bound by somebody else.
            Err(error) if matches!(error.code, 404 | 409) => Ok(()),
            Err(error) => Err(SyncError::of(format!("bind pod `{}/{}`", place.0, place.1), error)),
        }
    }
}
