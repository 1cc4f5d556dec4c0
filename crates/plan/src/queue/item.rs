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
/// An agent that says nothing for this long, twice its round, is gone: others may take over what it keeps.
pub const ORPHANED_AFTER: SignedDuration = SignedDuration::from_secs(60);
/// So long a kept item waits for an agent that takes it over, if its queue has none at all. Its workload may be running.
pub const KEPT_SILENCE_MAX: SignedDuration = SignedDuration::from_hours(24);
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

/// How an item ended. W&B's clients know no item that was stopped: to them it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Finished,
    Failed,
    Stopped,
}

/// The exit code of what was stopped, as W&B's clients know it.
pub const EXIT_STOPPED: i64 = 255;

impl End {
    /// The exit code of an item and its run that ended so, where its workload ended with `workload`.
    pub fn exit_code(self, workload: Option<i64>) -> i64 {
        match self {
            End::Finished => 0,
            End::Failed => workload.filter(|code| *code != 0).unwrap_or(1),
            End::Stopped => EXIT_STOPPED,
        }
    }

    pub const ALL: [End; 3] = [End::Finished, End::Failed, End::Stopped];

    pub fn name(self) -> &'static str {
        match self {
            End::Finished => "finished",
            End::Failed => "failed",
            End::Stopped => "stopped",
        }
    }

    pub fn named(name: &str) -> Option<End> {
        End::ALL.into_iter().find(|end| end.name() == name)
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
    /// How often it was put back after its work was preempted.
    pub attempt: i64,
    /// Somebody wants it to end; whoever has it does that.
    pub is_stop_asked: bool,
    /// It ended because somebody stopped it.
    pub was_stopped: bool,
}

impl Item {
    pub fn new() -> Item {
        Item {
            state: State::Pending,
            lease: 0,
            leased_until: None,
            run_name: None,
            attempt: 0,
            is_stop_asked: false,
            was_stopped: false,
        }
    }

    fn ended(&self, end: End) -> Item {
        let state = match end {
            End::Finished => State::Finished,
            End::Failed | End::Stopped => State::Failed,
        };
        Item { state, was_stopped: end == End::Stopped, ..self.clone() }
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        match self.state {
            State::Finished => Some(End::Finished),
            State::Failed if self.was_stopped => Some(End::Stopped),
            State::Failed => Some(End::Failed),
            State::Pending | State::Leased | State::Claimed | State::Running => None,
        }
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
        ..item.clone()
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

/// An agent cannot start the item now, and gives it back: it waits at its old place.
pub fn release(item: &Item, lease: i64) -> Answer {
    match item.state {
        _ if item.lease != lease => Answer::Refused,
        State::Leased => Answer::Done(Item { state: State::Pending, leased_until: None, ..item.clone() }),
        State::Pending => Answer::Again,
        State::Claimed | State::Running | State::Finished | State::Failed => Answer::Refused,
    }
}

/// Whether an agent that runs work at `heir` can see what was begun at `site`: elsewhere it would begin it a second time.
/// What was begun without saying where may be anywhere.
pub fn is_in_reach(site: Option<&str>, heir: Option<&str>) -> bool {
    site.is_none() || site == heir
}

/// Another agent takes over an item whose own is gone. The next lease keeps the old agent from speaking for it.
pub fn adopt(item: &Item, lease: i64, is_orphaned: bool) -> Answer {
    let is_started = matches!(item.state, State::Claimed | State::Running);
    match is_started && item.lease == lease && is_orphaned {
        true => Answer::Done(Item { lease: item.lease + 1, ..item.clone() }),
        false => Answer::Refused,
    }
}

/// The item's work was preempted: it waits once more, for its next attempt. One that was to stop ends instead.
///
/// The attempt that is named guards against putting it back twice for the same preemption.
pub fn requeue(item: &Item, lease: i64, attempt: i64) -> Answer {
    let is_started = matches!(item.state, State::Claimed | State::Running);
    match (item.lease == lease, item.attempt - attempt) {
        (true, 1) => Answer::Again,
        (true, 0) if is_started && item.is_stop_asked => Answer::Done(item.ended(End::Stopped)),
        (true, 0) if is_started => {
            Answer::Done(Item { state: State::Pending, leased_until: None, attempt: attempt + 1, ..item.clone() })
        }
        (_, _) => Answer::Refused,
    }
}

/// The agent that has the item says how it ended.
pub fn end(item: &Item, lease: i64, end: End) -> Answer {
    match item.state {
        _ if item.lease != lease => Answer::Refused,
        State::Leased | State::Claimed | State::Running => Answer::Done(item.ended(end)),
        State::Finished | State::Failed => Answer::Again,
        State::Pending => Answer::Refused,
    }
}

/// The agent that has the item says that its work runs.
pub fn start(item: &Item, lease: i64) -> Answer {
    match item.state {
        _ if item.lease != lease => Answer::Refused,
        State::Claimed => Answer::Done(Item { state: State::Running, ..item.clone() }),
        State::Running => Answer::Again,
        State::Pending | State::Leased | State::Finished | State::Failed => Answer::Refused,
    }
}

/// Somebody wants the item to end. Nothing runs of one that no agent has answered for, so that ends at once; an agent that
/// was about to is refused when it does.
pub fn stop(item: &Item) -> Answer {
    match item.state {
        State::Pending | State::Leased => Answer::Done(Item { is_stop_asked: true, ..item.ended(End::Stopped) }),
        State::Claimed | State::Running if item.is_stop_asked => Answer::Again,
        State::Claimed | State::Running => Answer::Done(Item { is_stop_asked: true, ..item.clone() }),
        State::Finished | State::Failed => Answer::Again,
    }
}

/// Who says when an item's work is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Its run does, as W&B's agent wants it.
    Run,
    /// An agent of ours, which sees all of the work: a run may end long before the last rank.
    Agent,
}

/// The item's state once its run is in this one. An item that has ended stays so, and one that waits is not begun by what
/// its last attempt still says.
pub fn follow(item: State, run: RunState, keeper: Keeper) -> State {
    let is_kept = keeper == Keeper::Agent;
    match (item, run) {
        (State::Finished | State::Failed, _) | (_, RunState::Pending) => item,
        (State::Pending | State::Leased, _) if is_kept => item,
        (_, RunState::Running | RunState::Preempting) => State::Running,
        (_, RunState::Finished | RunState::Failed | RunState::Crashed | RunState::Preempted) if is_kept => item,
        (_, RunState::Finished) => State::Finished,
        (_, RunState::Failed | RunState::Crashed | RunState::Preempted) => State::Failed,
    }
}

/// Whether another agent of ours may take over a started item.
pub fn is_orphaned(item: State, agent_heartbeat: Timestamp, now: Timestamp) -> bool {
    matches!(item, State::Claimed | State::Running) && now.duration_since(agent_heartbeat) > ORPHANED_AFTER
}

/// What is known of an acknowledged item that may have been left alone.
#[derive(Clone, Copy, Debug)]
pub struct Alone {
    pub state: State,
    pub keeper: Keeper,
    pub has_run: bool,
    pub is_stop_asked: bool,
    pub agent_heartbeat: Timestamp,
    /// An agent that could take it over lives.
    pub has_heirs: bool,
}

/// Whether an item has been given up, because nobody has heard of its agent for long.
///
/// It is failed, never handed out again: its process may still be running. What an agent of ours keeps can be taken over by
/// the next, so it is given up only after a day without any.
pub fn is_abandoned(alone: &Alone, now: Timestamp) -> bool {
    let silence = now.duration_since(alone.agent_heartbeat);
    match alone.keeper {
        Keeper::Run => {
            // A stop that nobody is there to hear is not waited for.
            let is_due = !alone.has_run || alone.is_stop_asked;
            alone.state == State::Claimed && is_due && silence > AGENT_SILENCE_MAX
        }
        Keeper::Agent => {
            let is_started = matches!(alone.state, State::Claimed | State::Running);
            is_started && !alone.has_heirs && silence > KEPT_SILENCE_MAX
        }
    }
}

#[cfg(test)]
#[path = "item_tests.rs"]
mod tests;
