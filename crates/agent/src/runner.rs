//! Where workloads run: one trait for a cluster, a container engine and the agent's own machine.
//!
//! A runner tells what is there of an attempt and does the deeds that are its own; `visit` decides by `plan::agent::life`
//! and tells the server. Everything that a runner does may be done twice.

use crate::attempt::Attempt;
use crate::container::EngineError;
use futures::future::BoxFuture;
use futures::io::AsyncBufRead;
use serde_json::Value;
use std::collections::BTreeSet;
use std::pin::Pin;
use volley_plan::agent::life::{Deed, Workload};
use volley_plan::agent::trouble::Trouble;
use volley_plan::logs::sources::{Run, Source};

/// What went wrong with a deed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Trying again cannot help: the item ends with these words.
    #[error("{0}")]
    Refused(String),
    #[error("the cluster did not do it")]
    Cluster(#[source] Box<kube::Error>),
    #[error("the server did not do it")]
    Server(#[from] volley_client::Error),
    #[error("failed to work on the agent's own files")]
    Files(#[from] std::io::Error),
    #[error("the container engine did not do it")]
    Engine(#[from] EngineError),
    /// It cannot be done yet, and why people are told.
    #[error("{0}")]
    Busy(String),
    /// Another agent has the item now.
    #[error("the item is no longer this agent's")]
    Lost,
}

impl Failure {
    /// It was refused, and not only a connection to the cluster broken.
    pub fn is_answer(&self) -> bool {
        !matches!(self, Failure::Cluster(error) if !matches!(&**error, kube::Error::Api(_)))
    }

    /// What was asked for is not there any more.
    pub fn is_gone(&self) -> bool {
        match self {
            Failure::Cluster(error) => matches!(&**error, kube::Error::Api(status) if status.code == 404),
            Failure::Files(error) => error.kind() == std::io::ErrorKind::NotFound,
            Failure::Engine(error) => error.is_missing(),
            Failure::Refused(_) | Failure::Server(_) | Failure::Busy(_) | Failure::Lost => false,
        }
    }
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Failure {
        Failure::Cluster(Box::new(error))
    }
}

pub type Done = Result<(), Failure>;
pub type Log = Pin<Box<dyn AsyncBufRead + Send>>;

/// What is seen of an item's attempts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sight {
    pub workload: Option<Workload>,
    pub has_older: bool,
    /// Pods of any attempt that still run or wait.
    pub pods: usize,
    /// Of these, pods that nobody takes away although their workload is being deleted.
    pub strays: usize,
    pub has_helpers: bool,
    pub trouble: Option<Trouble>,
    /// Of the first that failed, or 0 where all went well.
    pub exit_code: Option<i64>,
    /// Rank, pod, node and devices of each pod, for people.
    pub place: Value,
}

/// The last lines of a container, by pod and container.
pub type Tails<'a> = &'a (dyn Fn(&str, &str) -> Vec<String> + Send + Sync);

pub trait Runner: Send + Sync {
    /// Returns when everything that there is of this attempt's kind has been seen once.
    fn ready<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Done>;

    /// The cluster or the machine that this attempt runs on, by a name that all agents there know it by.
    fn site<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Option<String>, Failure>>;

    fn observe(&self, attempt: &Attempt, tails: Tails<'_>) -> Sight;

    /// Does a deed that is not the server's.
    fn act<'a>(&'a self, attempt: &'a Attempt, deed: &'a Deed) -> BoxFuture<'a, Done>;

    /// The logs that are there and were not read to their end.
    fn sources(&self, attempt: &Attempt, read: &BTreeSet<Run>) -> Vec<Source>;

    /// A log from a time on, each line with its own time before it.
    fn open<'a>(
        &'a self,
        attempt: &'a Attempt,
        source: &'a Source,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Log, Failure>>;
}
