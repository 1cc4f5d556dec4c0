//! Applying: the one place where controllers write. A plan's actions become calls on the API, in order.
//!
//! Neighbouring actions of one sort and kind run side by side, a few at first and more as they succeed,
//! so that a large Job fills the store's group commits and a refused one fails after a single call.

use super::Shell;
use crate::apiserver::local::Local;
use crate::apiserver::write::Change;
use futures::future::join_all;
use serde_json::Value;
use std::time::Duration;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_plan::control::{Action, Event, EventType, Plan, Propagation, Target};
use volley_turns::deeds::carry_out;

/// Calls in flight for one plan; the store commits up to 512 at once, and other plans have calls too.
const CALLS_MAX: usize = 64;

/// Why a round of a controller ended early.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The world moved on between observing and writing; the next round sees it as it is.
    #[error("failed to {action}: it changed meanwhile")]
    Stale { action: String },
    #[error("failed to {action}")]
    Call {
        action: String,
        #[source]
        source: ApiError,
    },
    #[error("failed to {action}")]
    Machine {
        action: String,
        #[source]
        source: std::io::Error,
    },
}

impl SyncError {
    pub fn of(action: String, source: ApiError) -> SyncError {
        let is_stale = matches!(source.reason, "Conflict" | "AlreadyExists") || source.code == 404;
        if is_stale { SyncError::Stale { action } } else { SyncError::Call { action, source } }
    }
}

/// When to come back, if nothing is seen to change before.
pub type Synced = Result<Option<Duration>, SyncError>;

impl Shell {
    /// Applies the plan; its events are reported once all actions have landed.
    pub async fn apply(&self, name: &'static str, plan: Plan) -> Synced {
        let again = plan.requeue_after.map(Duration::from_secs);
        carry_out(plan.actions, CALLS_MAX, |action| self.act(name, action)).await?;
        plan.events.into_iter().for_each(|event| self.reporter.report(event));
        Ok(again)
    }

    /// Applies actions that do not depend on each other; each failure leaves the others alone.
    pub async fn apply_each(&self, name: &'static str, mut actions: Vec<Action>) -> Result<(), SyncError> {
        let mut worst = Ok(());
        while !actions.is_empty() {
            let batch: Vec<Action> = actions.drain(..actions.len().min(CALLS_MAX)).collect();
            for result in join_all(batch.into_iter().map(|action| self.act(name, action))).await {
                match result {
                    Err(SyncError::Stale { .. }) | Ok(()) => {}
                    Err(error) => worst = Err(error),
                }
            }
        }
        worst
    }

    async fn act(&self, name: &'static str, action: Action) -> Result<(), SyncError> {
        let local = self.server.local(name);
        match action {
            Action::Create { object, event } => self.create(&local, object, event).await,
            Action::Delete { target, propagation } => {
                let result = match local.plural_of(&target.api_version, &target.kind) {
                    Ok((group, plural)) => {
                        let place = (target.namespace.as_deref().unwrap_or_default(), &*target.name);
                        local.delete(&group, &plural, place, &target.uid, policy(propagation)).await
                    }
                    Err(error) => Err(error),
                };
                result.map_err(|error| SyncError::of(said("delete", &target), error))
            }
            Action::Patch { target, patch } => self.patch(&local, &target, "", patch).await,
            Action::PatchStatus { target, patch } => self.patch(&local, &target, "status", patch).await,
            Action::Finalize { target, patch } => self.patch(&local, &target, "finalize", patch).await,
        }
    }

    async fn create(&self, local: &Local<'_>, object: Value, event: Option<Event>) -> Result<(), SyncError> {
        let namespace = text(&object, "metadata.namespace").to_owned();
        let kind = text(&object, "kind").to_owned();
        let result = match local.plural_of(text(&object, "apiVersion"), &kind) {
            Ok((group, plural)) => local.create(&group, &plural, &namespace, object).await,
            Err(error) => Err(error),
        };
        match (result, event) {
            (Ok(created), Some(event)) => {
                let message = event.message.replace("{name}", text(&created, "metadata.name"));
                self.reporter.report(Event { message, ..event });
                Ok(())
            }
            (Ok(_), None) => Ok(()),
            (Err(error), event) => {
                if let Some(event) = event {
                    let (reason, message) = ("FailedCreate".to_owned(), format!("Error creating: {error}"));
                    self.reporter.report(Event { kind: EventType::Warning, reason, message, ..event });
                }
                Err(SyncError::of(format!("create {kind} in `{namespace}`"), error))
            }
        }
    }

    async fn patch(
        &self,
        local: &Local<'_>,
        target: &Target,
        subresource: &str,
        patch: Value,
    ) -> Result<(), SyncError> {
        let result = match local.plural_of(&target.api_version, &target.kind) {
            Ok((group, plural)) => {
                let place = (target.namespace.as_deref().unwrap_or_default(), &*target.name);
                local.modify(&group, &plural, place, subresource, Change::MergePatch(target.guard(patch))).await
            }
            Err(error) => Err(error),
        };
        result.map(drop).map_err(|error| SyncError::of(said("patch", target), error))
    }
}

fn said(verb: &str, target: &Target) -> String {
    format!("{verb} {} `{}/{}`", target.kind, target.namespace.as_deref().unwrap_or_default(), target.name)
}

fn policy(propagation: Propagation) -> &'static str {
    match propagation {
        Propagation::Background => "Background",
        Propagation::Foreground => "Foreground",
        Propagation::Orphan => "Orphan",
    }
}
