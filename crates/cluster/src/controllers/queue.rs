//! What waits in the controllers' queue: one object for one controller.
//!
//! `route` puts keys in, the loop in `mod` takes them out. Controllers take turns, so that a busy one starves nobody.

use std::sync::Arc;
use volley_turns::queue;

pub type Queue = queue::Queue<Key>;

/// The built-in controllers; the order is that of their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    Garbage,
    Namespace,
    Account,
    TokenSecret,
    Job,
    TrackedPod,
    CronJob,
    ReplicaSet,
    Deployment,
    Endpoints,
    Volumes,
    Quota,
    Budget,
    Definition,
    ClusterRoles,
    OwnNode,
    NodeTaints,
    PodEnd,
    EventExpiry,
}

/// One object, or all of them where the name is empty, for one controller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub controller: Controller,
    /// The key in the store: `namespace/name`, or `name` for cluster-scoped objects.
    pub name: Arc<str>,
}

impl Key {
    pub fn new(controller: Controller, name: impl Into<Arc<str>>) -> Key {
        Key { controller, name: name.into() }
    }
}

impl queue::Key for Key {
    type Lane = Controller;

    fn lane(&self) -> Controller {
        self.controller
    }
}
