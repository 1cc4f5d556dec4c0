//! The garbage collector: a graph of owners and dependants, kept up to date object by object, and what it calls for.
//!
//! The shell observes every stored object before it asks for the first plan (an owner not yet seen would count as
//! gone), then each change. Each step costs no more than the object's own references; a decision stays in the plan
//! until the world has changed accordingly, so a failed write needs no care.

use super::{Action, Plan, Propagation, Target};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Who owns whom, by uid, and the writes that this calls for.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: BTreeMap<String, Node>,
    /// By owner uid, also of owners that do not exist.
    dependants: BTreeMap<String, Dependants>,
    wanted: BTreeMap<String, Action>,
}

#[derive(Debug)]
struct Node {
    target: Target,
    resource_version: Option<String>,
    owners: Vec<OwnerReference>,
    finalizers: Vec<String>,
    is_deleting: bool,
}

/// The dependants of one owner; the counts spare a walk over all of them.
#[derive(Debug, Default)]
struct Dependants {
    uids: BTreeSet<String>,
    blocking: usize,
    /// Those that are themselves waiting for their dependants to go.
    cascading: usize,
}

impl Node {
    fn has(&self, finalizer: &str) -> bool {
        self.finalizers.iter().any(|name| name == finalizer)
    }

    fn waits_for_dependants(&self) -> bool {
        self.is_deleting && self.has(FOREGROUND)
    }

    fn leaves_orphans(&self) -> bool {
        self.is_deleting && self.has(ORPHAN)
    }
}

/// How an owner stands to a dependant.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    Alive,
    Gone,
    /// Being deleted in the foreground: it goes once its dependants are gone.
    Waiting,
    /// Being deleted, but its dependants shall live on without it.
    Orphaning,
}

impl Graph {
    /// Takes in an object as it is now stored.
    pub fn observe(&mut self, api_version: &str, kind: &str, metadata: &ObjectMeta) {
        let uid = metadata.uid.clone().unwrap_or_default();
        let before = self.unlink(&uid);
        let node = Node {
            target: Target {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                namespace: metadata.namespace.clone(),
                name: metadata.name.clone().unwrap_or_default(),
                uid: uid.clone(),
            },
            resource_version: metadata.resource_version.clone(),
            owners: metadata.owner_references.clone().unwrap_or_default(),
            finalizers: metadata.finalizers.clone().unwrap_or_default(),
            is_deleting: metadata.deletion_timestamp.is_some(),
        };
        let stands_as_before = before.as_ref().is_some_and(|before| {
            (before.waits_for_dependants(), before.leaves_orphans())
                == (node.waits_for_dependants(), node.leaves_orphans())
        });
        for owner in &node.owners {
            let dependants = self.dependants.entry(owner.uid.clone()).or_default();
            if dependants.uids.insert(uid.clone()) {
                dependants.blocking += usize::from(owner.block_owner_deletion == Some(true));
                dependants.cascading += usize::from(node.waits_for_dependants());
            }
        }
        let mut touched: BTreeSet<String> = node.owners.iter().map(|owner| owner.uid.clone()).collect();
        touched.extend(before.into_iter().flat_map(|before| before.owners).map(|owner| owner.uid));
        self.nodes.insert(uid.clone(), node);
        self.decide(&uid);
        for owner in touched {
            self.decide(&owner);
        }
        if !stands_as_before {
            self.decide_dependants(&uid);
        }
    }

    /// Takes out an object that is no longer stored.
    pub fn forget(&mut self, uid: &str) {
        let Some(before) = self.unlink(uid) else {
            return;
        };
        self.wanted.remove(uid);
        for owner in before.owners {
            self.decide(&owner.uid);
        }
        self.decide_dependants(uid);
    }

    /// The first `actions_max` of the writes that are due, ordered by uid: a large family must not hold up the rest.
    pub fn plan(&self, actions_max: usize) -> Plan {
        Plan { actions: self.wanted.values().take(actions_max).cloned().collect(), ..Plan::default() }
    }

    fn unlink(&mut self, uid: &str) -> Option<Node> {
        let node = self.nodes.remove(uid)?;
        for owner in &node.owners {
            let Some(dependants) = self.dependants.get_mut(&owner.uid) else {
                continue;
            };
            if dependants.uids.remove(uid) {
                dependants.blocking -= usize::from(owner.block_owner_deletion == Some(true));
                dependants.cascading -= usize::from(node.waits_for_dependants());
            }
            if dependants.uids.is_empty() {
                self.dependants.remove(&owner.uid);
            }
        }
        Some(node)
    }

    fn decide_dependants(&mut self, uid: &str) {
        let uids: Vec<String> = self.dependants.get(uid).into_iter().flat_map(|d| d.uids.iter().cloned()).collect();
        for dependant in uids {
            self.decide(&dependant);
        }
    }

    fn decide(&mut self, uid: &str) {
        let action = self.nodes.get(uid).and_then(|node| self.decision(uid, node));
        match action {
            Some(action) => self.wanted.insert(uid.to_owned(), action),
            None => self.wanted.remove(uid),
        };
    }

    fn standing(&self, node: &Node, owner: &OwnerReference) -> Standing {
        let Some(found) = self.nodes.get(&owner.uid) else {
            return Standing::Gone;
        };
        let is_elsewhere = found.target.namespace.is_some() && found.target.namespace != node.target.namespace;
        if is_elsewhere {
            Standing::Gone
        } else if found.waits_for_dependants() {
            Standing::Waiting
        } else if found.leaves_orphans() {
            Standing::Orphaning
        } else {
            Standing::Alive
        }
    }

    fn decision(&self, uid: &str, node: &Node) -> Option<Action> {
        let dependants = self.dependants.get(uid);
        if node.leaves_orphans() && dependants.is_none() {
            return Some(strip_finalizer(node, ORPHAN));
        }
        if node.waits_for_dependants() && dependants.is_none_or(|dependants| dependants.blocking == 0) {
            return Some(strip_finalizer(node, FOREGROUND));
        }
        let standings: Vec<Standing> = node.owners.iter().map(|owner| self.standing(node, owner)).collect();
        if standings.contains(&Standing::Orphaning) {
            return Some(keep_owners(node, &standings, |standing| standing != Standing::Orphaning));
        }
        if node.is_deleting || standings.iter().all(|standing| *standing == Standing::Alive) {
            return None;
        }
        if standings.contains(&Standing::Alive) {
            return Some(keep_owners(node, &standings, |standing| standing == Standing::Alive));
        }
        let is_waited_for = standings.contains(&Standing::Waiting);
        let blocks = node.owners.iter().any(|owner| owner.block_owner_deletion == Some(true));
        if is_waited_for && blocks && dependants.is_some_and(|dependants| dependants.cascading > 0) {
            // A dependant waits for its own dependants: in a circle both would wait for ever, so this one lets go.
            return Some(stop_blocking(node));
        }
        let propagation = if node.has(ORPHAN) {
            Propagation::Orphan
        } else if node.has(FOREGROUND) || (is_waited_for && dependants.is_some()) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        Some(Action::Delete { target: node.target.clone(), propagation })
    }
}

fn strip_finalizer(node: &Node, finalizer: &str) -> Action {
    let kept: Vec<&String> = node.finalizers.iter().filter(|name| *name != finalizer).collect();
    let patch = json!({ "metadata": { "finalizers": kept, "resourceVersion": node.resource_version } });
    Action::Patch { target: node.target.clone(), patch }
}

fn keep_owners(node: &Node, standings: &[Standing], keeps: impl Fn(Standing) -> bool) -> Action {
    let owners = node.owners.iter().zip(standings).filter(|(_, standing)| keeps(**standing)).map(|(owner, _)| owner);
    write_owners(node, &owners.cloned().collect::<Vec<_>>())
}

fn stop_blocking(node: &Node) -> Action {
    let let_go = |owner: &OwnerReference| OwnerReference { block_owner_deletion: Some(false), ..owner.clone() };
    write_owners(node, &node.owners.iter().map(let_go).collect::<Vec<_>>())
}

fn write_owners(node: &Node, owners: &[OwnerReference]) -> Action {
    let owners = super::to_value(&owners);
    let patch = json!({ "metadata": { "ownerReferences": owners, "resourceVersion": node.resource_version } });
    Action::Patch { target: node.target.clone(), patch }
}

#[cfg(test)]
#[path = "garbage_tests.rs"]
mod tests;
