//! The life of a queue item.
//!
//! Popping an item is a lease, numbered: each handing-out has the next number. Acknowledging or failing it names the number
//! that the agent holds, so that an agent which lost the item cannot speak for it. What is not in these functions does not
//! happen to an item.

use crate::run::state::State as RunState;
use jiff::{SignedDuration, Timestamp};

/// An agent that does not acknowledge within this loses the item to the next one that asks.
pub const LEASE: SignedDuration = SignedDuration::from_secs(60);
/// An acknowledged item whose agent is silent this long, and whose run never appeared, has failed.
pub const AGENT_SILENCE_MAX: SignedDuration = SignedDuration::from_mins(10);
/// How W&B's agent words the failure that it reports after its acknowledgement was refused.
const REFUSED_ACK: &str = "Error acking run queue item";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Pending,
    Leased,
    Claimed,
    Running,
    Finished,
    Failed,
}

impl State {
    pub const ALL: [State; 6] =
        [State::Pending, State::Leased, State::Claimed, State::Running, State::Finished, State::Failed];

    pub fn name(self) -> &'static str {
        match self {
            State::Pending => "PENDING",
            State::Leased => "LEASED",
            State::Claimed => "CLAIMED",
            State::Running => "RUNNING",
            State::Finished => "FINISHED",
            State::Failed => "FAILED",
        }
    }

    pub fn named(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    pub fn is_final(self) -> bool {
        match self {
            State::Finished | State::Failed => true,
            State::Pending | State::Leased | State::Claimed | State::Running => false,
        }
    }
}

/// What a decision about an item needs to know of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub state: State,
    /// How often it was handed out.
    pub lease: i64,
    pub leased_until: Option<Timestamp>,
    pub run_name: Option<String>,
}

impl Item {
    pub fn new() -> Item {
        Item { state: State::Pending, lease: 0, leased_until: None, run_name: None }
    }

    fn is_expired(&self, now: Timestamp) -> bool {
        self.state == State::Leased && self.leased_until.is_none_or(|until| until <= now)
    }

    /// Whether an agent that asks now may have it.
    pub fn is_waiting(&self, now: Timestamp) -> bool {
        self.state == State::Pending || self.is_expired(now)
    }

    /// The state as it is shown: a lease that ran out is no lease.
    pub fn shown(&self, now: Timestamp) -> State {
        if self.is_expired(now) { State::Pending } else { self.state }
    }
}

impl Default for Item {
    fn default() -> Item {
        Item::new()
    }
}

/// Hands an item out, if it waits.
pub fn pop(item: &Item, now: Timestamp) -> Option<Item> {
    item.is_waiting(now).then(|| Item {
        state: State::Leased,
        lease: item.lease + 1,
        leased_until: Some(now + LEASE),
        run_name: None,
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is done, and this is the item now.
    Done(Item),
    /// It was done before; nothing changes.
    Again,
    /// Somebody else holds it, or it has ended.
    Refused,
}

/// An agent starts on the item under a run's name. A lease that ran out still counts while nobody else has taken it.
pub fn acknowledge(item: &Item, lease: i64, run_name: &str) -> Answer {
    let is_same = item.run_name.as_deref() == Some(run_name);
    match item.state {
        _ if item.lease != lease => Answer::Refused,
        State::Leased => {
            Answer::Done(Item { state: State::Claimed, run_name: Some(run_name.to_owned()), ..item.clone() })
        }
        State::Claimed | State::Running if is_same => Answer::Again,
        State::Pending | State::Claimed | State::Running | State::Finished | State::Failed => Answer::Refused,
    }
}

/// An agent gives up on the item. One that never held it, or lost it, changes nothing and is told that all is well.
pub fn fail(item: &Item, lease: i64, message: &str) -> Answer {
    let was_never_taken = item.state == State::Pending && item.lease == 0;
    let holds_it = item.lease == lease || was_never_taken;
    let is_losers_report = message.starts_with(REFUSED_ACK) && matches!(item.state, State::Claimed | State::Running);
    if item.state.is_final() || !holds_it || is_losers_report {
        return Answer::Again;
    }
    Answer::Done(Item { state: State::Failed, ..item.clone() })
}

/// The item's state once its run is in this one. An item that has ended stays so.
pub fn follow(item: State, run: RunState) -> State {
    if item.is_final() {
        return item;
    }
    match run {
        RunState::Pending => item,
        RunState::Running | RunState::Preempting => State::Running,
        RunState::Finished => State::Finished,
        RunState::Failed | RunState::Crashed | RunState::Preempted => State::Failed,
    }
}

/// Whether an acknowledged item without a run has been given up, because nobody has heard of its agent for long.
///
/// It is failed, never handed out again: its process may still be running.
pub fn is_abandoned(item: State, has_run: bool, agent_heartbeat: Timestamp, now: Timestamp) -> bool {
    item == State::Claimed && !has_run && now.duration_since(agent_heartbeat) > AGENT_SILENCE_MAX
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
