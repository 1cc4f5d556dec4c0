//! Which queues an agent serves: those that it was told, or all that nobody else was told.
//!
//! The agent of `volley up` serves what no other agent asks for by name, so that a queue works from the moment it is made,
//! and an agent that is started for it, on another cluster perhaps, has it for itself.

use crate::queue::item::ORPHANED_AFTER;
use jiff::Timestamp;

/// What an agent that serves all queues says instead of their names; no queue's own name is taken for it.
pub const ALL: &str = "*";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    Named(Vec<String>),
    /// All of these resources.
    All(Vec<String>),
}

impl Wanted {
    /// As people see it, and as others tell an agent of names from one of all.
    pub fn told(&self) -> Vec<String> {
        match self {
            Wanted::Named(names) => names.clone(),
            Wanted::All(_) => vec![ALL.to_owned()],
        }
    }
}

/// A queue that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    pub id: String,
    pub name: String,
    /// None where every launch brings its own.
    pub resource: Option<String>,
    pub agents: Vec<Other>,
}

/// An agent of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Other {
    pub status: String,
    pub heartbeat: Timestamp,
    pub wanted: Vec<String>,
}

/// A queue that is served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Served {
    pub id: String,
    pub name: String,
}

impl Other {
    /// It lives, and was told this queue by its name.
    fn claims(&self, now: Timestamp) -> bool {
        let lives = self.status != "KILLED" && now.duration_since(self.heartbeat) < ORPHANED_AFTER;
        lives && self.wanted != [ALL]
    }
}

/// The queues to take from, in the order that was told, or theirs.
pub fn served(wanted: &Wanted, known: &[Known], now: Timestamp) -> Vec<Served> {
    let chosen: Vec<&Known> = match wanted {
        Wanted::Named(names) => {
            names.iter().filter_map(|name| known.iter().find(|queue| queue.name == *name)).collect()
        }
        Wanted::All(resources) => {
            let is_possible =
                |queue: &&Known| queue.resource.as_ref().is_none_or(|resource| resources.contains(resource));
            let is_free = |queue: &&Known| !queue.agents.iter().any(|agent| agent.claims(now));
            known.iter().filter(is_possible).filter(is_free).collect()
        }
    };
    let mut served: Vec<Served> = Vec::new();
    for Known { id, name, .. } in chosen {
        let queue = Served { id: id.clone(), name: name.clone() };
        if !served.contains(&queue) {
            served.push(queue);
        }
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn queue(name: &str, resource: Option<&str>, agents: Vec<Other>) -> Known {
        Known { id: format!("id of {name}"), name: name.to_owned(), resource: resource.map(str::to_owned), agents }
    }

    fn agent(status: &str, silent_s: i64, wanted: &str) -> Other {
        let heartbeat = NOW - jiff::SignedDuration::from_secs(silent_s);
        Other { status: status.to_owned(), heartbeat, wanted: vec![wanted.to_owned()] }
    }

    fn names(wanted: &Wanted, known: &[Known]) -> Vec<String> {
        served(wanted, known, NOW).into_iter().map(|queue| queue.name).collect()
    }

    #[test]
    fn a_named_queue_is_served_whoever_else_serves_it_and_whatever_it_is() {
        let known =
            [queue("a", Some("sagemaker"), vec![agent("POLLING", 0, "a")]), queue("b", Some("kubernetes"), vec![])];
        let wanted = Wanted::Named(["b", "gone", "a", "b"].map(str::to_owned).into());
        assert_eq!(names(&wanted, &known), ["b", "a"]);
        assert_eq!(wanted.told(), ["b", "gone", "a", "b"]);
    }

    #[test]
    fn all_are_those_that_can_be_run_and_that_nobody_asks_for_by_name() {
        let kubernetes = Some("kubernetes");
        let known = [
            queue("free", kubernetes, vec![]),
            queue("any", None, vec![]),
            queue("cloud", Some("sagemaker"), vec![]),
            queue("taken", kubernetes, vec![agent("RUNNING", 5, "taken")]),
            queue("left", kubernetes, vec![agent("KILLED", 5, "left"), agent("POLLING", 3600, "left")]),
            // Another that serves all, such as this one before its last start, does not count.
            queue("mine", kubernetes, vec![agent("POLLING", 0, ALL)]),
        ];
        let wanted = Wanted::All(vec!["kubernetes".to_owned()]);
        assert_eq!(names(&wanted, &known), ["free", "any", "left", "mine"]);
        assert_eq!(wanted.told(), [ALL]);
    }
}
