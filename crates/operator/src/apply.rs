//! Applying: the one place where the operator writes. A plan's actions become calls, in order.
//!
//! Neighbouring actions of one sort and kind run side by side, a few at first and more as they succeed: a large job is
//! quick, and one that is refused fails after a single call. What comes back is taken in at once, so that the next plan
//! knows of it.

use crate::cache::{controller, place};
use crate::calls::{self, Address};
use crate::kinds;
use crate::shell::Shell;
use serde_json::Value;
use std::time::Duration;
use volley_api::kube::text;
use volley_plan::control::{Action, Event, Plan, Propagation, Target};
use volley_plan::job::volcano::failure;
use volley_turns::deeds::carry_out;

/// Calls in flight for one plan.
const CALLS_MAX: usize = 32;

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The world moved on between observing and writing; the next round sees it as it is.
    #[error("failed to {action}: it changed meanwhile")]
    Stale { action: String },
    #[error("failed to {action}")]
    Call {
        action: String,
        /// Trying again cannot help.
        is_permanent: bool,
        #[source]
        source: Box<kube::Error>,
    },
    /// The name of something that is wanted belongs to somebody else.
    #[error("failed to {action}: an object of that name belongs to somebody else")]
    Taken { action: String },
    #[error("failed to {action}: {kind} is no kind that the operator knows")]
    UnknownKind { action: String, kind: String },
}

impl SyncError {
    pub fn read(what: &str, source: kube::Error) -> SyncError {
        SyncError::Call { action: format!("read {what}"), is_permanent: false, source: Box::new(source) }
    }
}

/// When to come back, if nothing is seen to change before.
pub type Synced = Result<Option<Duration>, SyncError>;

/// The event about a write that failed, in the planner's words.
pub type Complaint<'a> = &'a (dyn Fn(&Action, &str) -> Option<Event> + Sync);

impl Shell {
    /// Applies the plan; its events are reported once all actions have landed.
    pub async fn apply(&self, plan: Plan, complaint: Complaint<'_>) -> Synced {
        let act = |action: Action| async move { self.act(&action, complaint).await };
        carry_out(plan.actions, CALLS_MAX, act).await?;
        plan.events.into_iter().for_each(|event| self.reporter.report(event));
        Ok(plan.requeue_after.map(Duration::from_secs))
    }

    async fn act(&self, action: &Action, complaint: Complaint<'_>) -> Result<(), SyncError> {
        match action {
            Action::Create { object, event } => self.create(action, object, event.as_ref(), complaint).await,
            Action::Delete { target, propagation } => self.delete(action, target, *propagation, complaint).await,
            Action::Patch { target, patch } => self.patch(action, (target, ""), patch, complaint).await,
            Action::PatchStatus { target, patch } => self.patch(action, (target, "status"), patch, complaint).await,
            Action::Finalize { target, patch } => self.patch(action, (target, "finalize"), patch, complaint).await,
        }
    }

    async fn create(
        &self,
        action: &Action,
        object: &Value,
        event: Option<&Event>,
        complaint: Complaint<'_>,
    ) -> Result<(), SyncError> {
        let kind = kind_of(action, text(object, "apiVersion"), text(object, "kind"))?;
        let (namespace, name) = (text(object, "metadata.namespace"), text(object, "metadata.name"));
        let address = Address { kind, namespace, name };
        let error = match self.calls.create(address, object).await {
            Ok(created) => {
                if let Some(event) = event {
                    let message = event.message.replace("{name}", text(&created, "metadata.name"));
                    self.reporter.report(Event { message, ..event.clone() });
                }
                self.learn(kind, created);
                return Ok(());
            }
            Err(error) => error,
        };
        if !calls::is_already_there(&error) {
            return Err(self.failed(action, error, complaint));
        }
        // We have made it and not seen it yet, or it is somebody else's.
        let read = self.calls.get(address).await;
        let present = read.map_err(|error| self.failed(action, error, complaint))?;
        let Some(present) = present else { return Err(SyncError::Stale { action: said(action) }) };
        let is_ours = owner(&present) == owner(object);
        self.learn(kind, present);
        if is_ours {
            return Ok(());
        }
        complaint(action, &calls::words(&error)).into_iter().for_each(|event| self.reporter.report(event));
        Err(SyncError::Taken { action: said(action) })
    }

    async fn delete(
        &self,
        action: &Action,
        target: &Target,
        propagation: Propagation,
        complaint: Complaint<'_>,
    ) -> Result<(), SyncError> {
        let kind = kind_of(action, &target.api_version, &target.kind)?;
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let address = Address { kind, namespace, name: &target.name };
        match self.calls.delete(address, &target.uid, propagation).await {
            Ok(Some(going)) => self.learn(kind, going),
            Ok(None) => self.forget(kind, &place(namespace, &target.name), &target.uid),
            // It is gone, or another has its name now.
            Err(error) if matches!(calls::code(&error), 404 | 409) => {
                self.forget(kind, &place(namespace, &target.name), &target.uid);
            }
            Err(error) => return Err(self.failed(action, error, complaint)),
        }
        Ok(())
    }

    async fn patch(
        &self,
        action: &Action,
        (target, subresource): (&Target, &str),
        patch: &Value,
        complaint: Complaint<'_>,
    ) -> Result<(), SyncError> {
        let kind = kind_of(action, &target.api_version, &target.kind)?;
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let address = Address { kind, namespace, name: &target.name };
        match self.calls.patch(address, subresource, &target.guard(patch.clone())).await {
            Ok(patched) => self.learn(kind, patched),
            Err(error) if calls::code(&error) == 404 => {}
            Err(error) => return Err(self.failed(action, error, complaint)),
        }
        Ok(())
    }

    fn failed(&self, action: &Action, error: kube::Error, complaint: Complaint<'_>) -> SyncError {
        if calls::code(&error) == 409 {
            return SyncError::Stale { action: said(action) };
        }
        complaint(action, &calls::words(&error)).into_iter().for_each(|event| self.reporter.report(event));
        let is_permanent = failure::is_permanent(action, calls::code(&error));
        SyncError::Call { action: said(action), is_permanent, source: Box::new(error) }
    }
}

fn kind_of(action: &Action, api_version: &str, kind: &str) -> Result<&'static kinds::Kind, SyncError> {
    let unknown = || SyncError::UnknownKind { action: said(action), kind: format!("{kind} of {api_version}") };
    kinds::find(api_version, kind).ok_or_else(unknown)
}

fn owner(object: &Value) -> Option<&str> {
    controller(object).map(|owner| text(owner, "uid"))
}

fn said(action: &Action) -> String {
    let (verb, target) = match action {
        Action::Create { object, .. } => {
            let (kind, namespace) = (text(object, "kind"), text(object, "metadata.namespace"));
            return format!("create {kind} `{namespace}/{}`", text(object, "metadata.name"));
        }
        Action::Delete { target, .. } => ("delete", target),
        Action::Patch { target, .. } | Action::Finalize { target, .. } => ("patch", target),
        Action::PatchStatus { target, .. } => ("write the status of", target),
    };
    format!("{verb} {} `{}/{}`", target.kind, target.namespace.as_deref().unwrap_or_default(), target.name)
}
