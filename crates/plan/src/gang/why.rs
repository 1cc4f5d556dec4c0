//! The one reason for which a gang waits, with its numbers, as data and as one sentence.

use super::ask::Lack;
use super::queues::Bound;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::fmt;
use std::sync::Arc;

/// How many holders a reason names.
pub const SHOWN_MAX: usize = 3;

/// Who has what is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    pub gang: String,
    pub queue: String,
    pub amount: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// The largest holders, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Holders {
    /// Shared: thousands of gangs wait for the same.
    #[serde(serialize_with = "serialize_holders")]
    pub first: Arc<[Holder]>,
    pub more: usize,
}

fn serialize_holders<S: Serializer>(holders: &Arc<[Holder]>, serializer: S) -> Result<S::Ok, S::Error> {
    holders.as_ref().serialize(serializer)
}

/// Amounts are written as Kubernetes writes quantities.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "on", rename_all_fields = "camelCase")]
pub enum WaitingOn {
    NoQueue {
        queue: String,
    },
    ClosedQueue {
        queue: String,
        state: String,
    },
    ParentQueue {
        queue: String,
    },
    /// Fewer pods exist than must start together.
    Members {
        have: usize,
        need: usize,
    },
    TaskMembers {
        task: String,
        have: usize,
        need: usize,
    },
    SubGroups {
        have: usize,
        need: usize,
    },
    Gates {
        pods: usize,
    },
    Claim {
        claim: String,
        is_missing: bool,
        /// What is wrong with it, if it is more than that it has no volume yet.
        #[serde(skip_serializing_if = "Option::is_none")]
        problem: Option<String>,
    },
    /// No node that has room has a volume for the claim.
    Volume {
        claim: String,
        nodes: usize,
        size: String,
        class: String,
        /// How many volumes of the class are free, and the size of the largest, or of the largest that can be made.
        free: usize,
        largest: Option<String>,
        is_made: bool,
    },
    /// A pod asks for devices that are allocated by claims.
    Devices {
        claim: String,
    },
    /// It was placed, but the server did not let it be bound.
    Refused {
        words: String,
    },
    /// Too much has been let in already.
    Admission {
        resource: String,
        asked: String,
        used: String,
        promised: String,
        limit: String,
    },
    NamespaceQuota {
        quota: String,
        resource: String,
        asked: String,
        left: String,
    },
    QueueLimit {
        queue: String,
        bound: Bound,
        resource: String,
        asked: String,
        used: String,
        limit: String,
        /// The gang that comes first in the queue and for which the rest is kept.
        kept_for: Option<String>,
        holders: Holders,
    },
    /// No node takes such a pod, whatever is free.
    Nodes {
        pod: String,
        nodes: usize,
        refusals: Vec<(String, usize)>,
        hint: Option<String>,
    },
    /// More than the whole cluster has, or for one pod more than any node has.
    TooLarge {
        resource: String,
        asked: String,
        total: String,
        is_one_pod: bool,
    },
    Room {
        resource: String,
        asked: String,
        free: String,
        holders: Holders,
        when: Option<Timestamp>,
    },
    /// There is enough in all, but in too few places that are large enough for one pod.
    Fragments {
        resource: String,
        pods: usize,
        each: String,
        free: String,
        places: usize,
        holders: Holders,
    },
    /// Even empty, the nodes have too few such places.
    TooFewPlaces {
        resource: String,
        pods: usize,
        each: String,
        places: usize,
    },
    /// Pods that are there keep it away.
    Neighbours {
        pods: usize,
        refusals: Vec<(String, usize)>,
    },
    NoHyperNodes,
    Domains {
        tried: usize,
        highest_tier: Option<i64>,
        resource: String,
        asked: String,
        largest: String,
    },
    /// What it needs is being given back.
    Leaving {
        pods: usize,
        when: Option<Timestamp>,
        victims: Vec<String>,
    },
    /// It would fit, but what is free is kept for a gang that comes first.
    Behind {
        gang: String,
        when: Option<Timestamp>,
    },
}

impl WaitingOn {
    pub fn of_lack(lack: Lack) -> WaitingOn {
        match lack {
            Lack::Members { have, need } => WaitingOn::Members { have, need },
            Lack::Task { task, have, need } => WaitingOn::TaskMembers { task: (*task).to_owned(), have, need },
            Lack::SubGroups { have, need } => WaitingOn::SubGroups { have, need },
        }
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Bound::Capability => "capability",
            Bound::Guarantees => "guarantees",
            Bound::FairShare => "fairShare",
        })
    }
}

fn clock(time: Timestamp) -> impl fmt::Display {
    time.strftime("%H:%M UTC").to_string()
}

/// `1 pod`, `2 pods`
fn pods(count: usize) -> String {
    format!("{count} pod{}", if count == 1 { "" } else { "s" })
}

fn about(when: Option<Timestamp>) -> String {
    when.map(|when| format!(", by about {}", clock(when))).unwrap_or_default()
}

pub fn listed(parts: &[(String, usize)]) -> String {
    let mut texts: Vec<String> = parts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    texts.sort();
    texts.join(", ")
}

/// `; a of queue q holds 2 until about 14:05 UTC, b of queue q holds 1 and 3 more`
fn held(holders: &Holders) -> String {
    let one = |holder: &Holder| {
        let until = holder.until.map(|until| format!(" until about {}", clock(until))).unwrap_or_default();
        format!("{} of queue {} holds {}{until}", holder.gang, holder.queue, holder.amount)
    };
    let shown: Vec<String> = holders.first.iter().map(one).collect();
    match (shown.is_empty(), holders.more) {
        (true, _) => String::new(),
        (false, 0) => format!("; {}", shown.join(", ")),
        (false, more) => format!("; {} and {more} more", shown.join(", ")),
    }
}

fn volume_lack(free: usize, largest: Option<&str>, is_made: bool) -> String {
    if is_made {
        let largest = largest.unwrap_or("0");
        return format!("did not have enough free storage; the largest that can be made has {largest}");
    }
    let most = largest.map(|largest| format!(", the largest with {largest}")).unwrap_or_default();
    format!("didn't find available persistent volumes to bind; {free} of the class are free{most}")
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitingOn::NoQueue { queue } => write!(out, "queue {queue} does not exist; create it or name another"),
            WaitingOn::ClosedQueue { queue, state } => {
                write!(out, "queue {queue} is {}; it takes gangs once it is open", state.to_lowercase())
            }
            WaitingOn::ParentQueue { queue } => {
                write!(out, "queue {queue} has queues below it and takes no gangs itself; name one of those")
            }
            WaitingOn::Members { have, need } => write!(out, "needs {} together, {have} exist", pods(*need)),
            WaitingOn::TaskMembers { task, have, need } => {
                write!(out, "needs {} of task {task} together, {have} exist", pods(*need))
            }
            WaitingOn::SubGroups { have, need } => write!(out, "needs {need} whole sub-groups, {have} exist"),
            WaitingOn::Gates { pods: count } => {
                let have = if *count == 1 { "has" } else { "have" };
                write!(out, "{} {have} scheduling gates that nobody has removed yet", pods(*count))
            }
            WaitingOn::Claim { claim, is_missing: true, .. } => {
                write!(out, "persistentvolumeclaim \"{claim}\" not found; create it")
            }
            WaitingOn::Claim { claim, is_missing: false, problem: None } => {
                write!(out, "persistentvolumeclaim \"{claim}\" is not bound to a volume yet")
            }
            WaitingOn::Claim { claim, is_missing: false, problem: Some(problem) } => {
                write!(out, "persistentvolumeclaim \"{claim}\" {problem}")
            }
            WaitingOn::Volume { claim, nodes, size, class, free, largest, is_made } => {
                let lack = volume_lack(*free, largest.as_deref(), *is_made);
                write!(
                    out,
                    "persistentvolumeclaim \"{claim}\" asks for {size} of class {class}: {nodes} node(s) {lack}"
                )
            }
            WaitingOn::Devices { claim } => {
                write!(out, "asks for devices by resource claim \"{claim}\", which this scheduler does not allocate")
            }
            WaitingOn::Refused { words } => write!(out, "binding rejected: {words}"),
            WaitingOn::Admission { resource, asked, used, promised, limit } => write!(
                out,
                "needs {asked} {resource} together; {used} are in use and {promised} are promised to gangs that came \
                 first, of {limit} that are let in"
            ),
            WaitingOn::NamespaceQuota { quota, resource, asked, left } => {
                write!(out, "needs {asked} {resource}, ResourceQuota {quota} has {left} left")
            }
            WaitingOn::QueueLimit { queue, bound, resource, asked, used, limit, kept_for, holders } => {
                let what = match bound {
                    Bound::Capability => "its capability is",
                    Bound::Guarantees => "what others are not guaranteed is",
                    Bound::FairShare => "its fair share is now",
                };
                let kept = kept_for.as_ref().map(|gang| format!("; {gang} comes first")).unwrap_or_default();
                let holders = held(holders);
                write!(out, "needs {asked} {resource}, queue {queue} uses {used} and {what} {limit}{kept}{holders}")
            }
            WaitingOn::NoHyperNodes => write!(out, "needs a network domain, but no HyperNode is known yet"),
            WaitingOn::Nodes { .. }
            | WaitingOn::TooLarge { .. }
            | WaitingOn::Room { .. }
            | WaitingOn::Fragments { .. }
            | WaitingOn::TooFewPlaces { .. }
            | WaitingOn::Neighbours { .. }
            | WaitingOn::Domains { .. }
            | WaitingOn::Leaving { .. }
            | WaitingOn::Behind { .. } => self.fmt_nodes(out),
        }
    }
}

impl WaitingOn {
    /// What is said of nodes and of the room on them.
    fn fmt_nodes(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitingOn::Nodes { pod, nodes, refusals, hint } => {
                let hint = hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
                write!(out, "no node can take pod {pod}: 0/{nodes} nodes are available: {}{hint}", listed(refusals))
            }
            WaitingOn::TooLarge { resource, asked, total, is_one_pod: true } => {
                write!(out, "one pod needs {asked} {resource}, the largest node has {total}; it can never run here")
            }
            WaitingOn::TooLarge { resource, asked, total, is_one_pod: false } => {
                write!(
                    out,
                    "needs {asked} {resource} together, suitable nodes have {total} in all; it can never run here"
                )
            }
            WaitingOn::Room { resource, asked, free, holders, when } => {
                let when = when.map(|when| format!("; room by about {}", clock(when))).unwrap_or_default();
                write!(out, "needs {asked} {resource} together, {free} free{}{when}", held(holders))
            }
            WaitingOn::Fragments { resource, pods, each, free, places, holders } => write!(
                out,
                "needs {pods} places with {each} {resource} on one node, {places} free; {free} {resource} are free in \
                 all{}",
                held(holders)
            ),
            WaitingOn::TooFewPlaces { resource, pods, each, places } => write!(
                out,
                "needs {pods} places with {each} {resource} on one node, empty nodes have {places}; it can never run here"
            ),
            WaitingOn::Neighbours { pods: count, refusals } => {
                let have = if *count == 1 { "has" } else { "have" };
                write!(out, "{} {have} no place beside the pods that run: {}", pods(*count), listed(refusals))
            }
            WaitingOn::Domains { tried, highest_tier, resource, asked, largest } => {
                let tier = highest_tier.map(|tier| format!(" up to tier {tier}")).unwrap_or_default();
                write!(
                    out,
                    "needs {asked} {resource} in one network domain{tier}; of {tried} domains the one with most has \
                     {largest} free"
                )
            }
            WaitingOn::Leaving { pods: count, when, victims } => {
                let go = if *count == 1 { "that is ending has gone" } else { "that are ending have gone" };
                write!(out, "starts when {} {go}{}", pods(*count), about(*when))?;
                let is_evicting = !victims.is_empty();
                if is_evicting { write!(out, "; evicted for it: {}", victims.join(", ")) } else { Ok(()) }
            }
            WaitingOn::Behind { gang, when } => {
                write!(out, "would fit, but what is free is kept for {gang}, which comes first{}", about(*when))
            }
            WaitingOn::NoQueue { .. }
            | WaitingOn::ClosedQueue { .. }
            | WaitingOn::ParentQueue { .. }
            | WaitingOn::Members { .. }
            | WaitingOn::TaskMembers { .. }
            | WaitingOn::SubGroups { .. }
            | WaitingOn::Gates { .. }
            | WaitingOn::Claim { .. }
            | WaitingOn::Volume { .. }
            | WaitingOn::Devices { .. }
            | WaitingOn::Refused { .. }
            | WaitingOn::Admission { .. }
            | WaitingOn::NamespaceQuota { .. }
            | WaitingOn::QueueLimit { .. }
            | WaitingOn::NoHyperNodes => fmt::Display::fmt(self, out),
        }
    }
}
