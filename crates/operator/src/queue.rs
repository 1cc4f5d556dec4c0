//! What waits in the operator's queue: one object of some kind. Kinds take turns.
//!
//! kube's own controller queue is tied to one kind and its store; ours has keys of many kinds over one cache.

use crate::kinds::Kind;
use volley_turns::queue;

pub type Queue = queue::Queue<Key>;

/// One object that somebody must look at; without a name, what is to be seen to once for all of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub kind: &'static Kind,
    pub namespace: String,
    pub name: String,
}

impl queue::Key for Key {
    type Lane = &'static Kind;

    fn lane(&self) -> &'static Kind {
        self.kind
    }
}
