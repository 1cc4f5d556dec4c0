//! From a queue's item to what is submitted for it.
//!
//! `order` is what is known of an item, read from its run spec. `render` turns it into manifests for Kubernetes, a
//! request for a container engine or a process, or says everything that stands against it. Nothing secret passes through
//! here: a secret is named (`secrets`), and the shell puts its value in place while it submits.

pub mod order;
pub mod fields;
pub mod job;
pub mod names;
pub mod layers;
pub mod macros;
pub mod safety;
pub mod walk;
pub mod environment;
pub mod secrets;
pub mod registries;
pub mod kubernetes;
mod defaults;
mod identity;
pub mod code;
pub mod services;
pub mod container;
pub mod engine;
pub mod build;
pub mod process;
pub mod demand;
pub mod resource;
pub mod preview;

use order::{Order, Station};
use std::fmt;

/// Labels that every object of a launch carries, so that it is found again after a restart.
pub mod label {
    pub const RUN: &str = "wandb.ai/run-id";
    pub const MONITOR: &str = "wandb.ai/monitor";
    pub const AGENT: &str = "wandb.ai/agent";
    pub const CREATED_BY: &str = "wandb.ai/created-by";
    pub const AUXILIARY: &str = "wandb.ai/auxiliary-resource";
    /// The item's key (`Order::key`); the id itself is in an annotation, as it is no label's value.
    pub const ITEM: &str = "volley.dev/item";
    pub const ATTEMPT: &str = "volley.dev/attempt";
    /// Where its queue said how important a launch is: 0 to 3, and 2 where nothing is said.
    pub const PRIORITY: &str = "volley.dev/priority";
    /// The agent holds the object until its end has been told to the server: what is gone was told, or never was.
    pub const FINALIZER: &str = "volley.dev/launch";
    /// Names the container that runs the job, where a pod has several.
    pub const MAIN_CONTAINER: &str = "volley.dev/main-container";
}

/// Something that stands against a launch: what, where, by which rule, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub rule: &'static str,
    /// A path in the resource config, or empty.
    pub path: String,
    pub what: String,
    pub hint: String,
}

impl Refusal {
    pub fn new(rule: &'static str, path: &str, what: impl Into<String>, hint: impl Into<String>) -> Refusal {
        Refusal { rule, path: path.to_owned(), what: what.into(), hint: hint.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        write!(f, "{}", self.what)?;
        if !self.hint.is_empty() {
            write!(f, "; hint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// Something worth saying that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    pub rule: &'static str,
    pub path: String,
    pub text: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.is_empty() {
            true => f.write_str(&self.text),
            false => write!(f, "`{}`: {}", self.path, self.text),
        }
    }
}

/// What is to be submitted.
#[derive(Debug, Clone, PartialEq)]
pub enum Submission {
    Kubernetes(Box<kubernetes::Manifests>),
    Container(Box<container::Request>),
    Process(Box<process::Request>),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    pub submission: Submission,
    pub notes: Vec<Note>,
}

/// What is submitted for this order on this station, or all that stands against it.
pub fn render(order: &Order, station: &Station) -> Result<Rendered, Vec<Refusal>> {
    let kind = resource::Kind::of(&order.spec.resource).map_err(|refusal| vec![refusal])?;
    let mut notes = Vec::new();
    let submission = match kind {
        resource::Kind::Kubernetes => Submission::Kubernetes(Box::new(kubernetes::render(order, station, &mut notes)?)),
        resource::Kind::Container => Submission::Container(Box::new(container::render(order, station, &mut notes)?)),
        resource::Kind::Process => Submission::Process(Box::new(process::render(order, station)?)),
    };
    Ok(Rendered { submission, notes })
}

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
