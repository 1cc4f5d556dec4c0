//! A planner at work on the pretend cluster: looks and writes until nothing is left to do, with or without disturbance.
//!
//! As in the shells, a plan's actions land in order and the first refusal ends the round; that an object is there
//! already, or is gone already, is none. A planner remembers nothing, so a restart of its controller is a plan of which
//! only the first actions land.

use super::cluster::{Cluster, Key, Refusal};
use super::turn::Turn;
use crate::control::{Action, Plan};
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::text;

/// More rounds than any one turn needs; a planner that wants more goes in circles.
const PASSES_MAX: usize = 24;

/// What befalls a controller in one round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Disturbance {
    /// It dies when so many actions have landed.
    Dies(usize),
    /// It looks at an older state, kind by kind: so many writes back, but never further than it has seen.
    Lags(Vec<usize>),
}

/// A planner that does not come to rest.
#[derive(Debug, thiserror::Error)]
#[error("still planning after {PASSES_MAX} rounds: {0:#?}")]
pub struct StillPlanning(pub Plan);

/// A cluster, the planner of one object on it, and all that a watcher of that object has seen.
pub struct Run<P> {
    pub cluster: Cluster,
    /// Every state of the watched object that a plan has written.
    pub sightings: Vec<Value>,
    planner: P,
    watched: Key,
    /// The states since the planner was last up to date, the present one last.
    history: Vec<BTreeMap<Key, Value>>,
    /// The oldest state of each kind that may still be seen.
    horizon: BTreeMap<String, usize>,
}

impl<P: Fn(&Cluster) -> Plan> Run<P> {
    /// Begins with a cluster that holds the object of this kind and name.
    pub fn new(cluster: Cluster, kind: &str, name: &str, planner: P) -> Self {
        let watched = (kind.to_owned(), name.to_owned());
        let history = vec![cluster.objects.clone()];
        Run { cluster, sightings: Vec::new(), planner, watched, history, horizon: BTreeMap::new() }
    }

    /// The object that the planner is about, while it is there.
    pub fn watched(&self) -> Option<&Value> {
        self.cluster.objects.get(&self.watched)
    }

    pub fn plan(&self) -> Plan {
        (self.planner)(&self.cluster)
    }

    /// Something happens; the planner has not looked yet.
    pub fn turn(&mut self, turn: &Turn) -> Result<(), Refusal> {
        self.cluster.happen(turn)?;
        self.history.push(self.cluster.objects.clone());
        Ok(())
    }

    /// A world that means well goes on for a while (see `Cluster::go_well`).
    pub fn go_well(&mut self) -> Result<(), Refusal> {
        self.cluster.go_well()?;
        self.history.push(self.cluster.objects.clone());
        Ok(())
    }

    /// One round of a controller that is disturbed.
    pub fn disturbed(&mut self, disturbance: &Disturbance) {
        if self.watched().is_none() {
            return;
        }
        match disturbance {
            Disturbance::Dies(actions) => {
                let mut plan = self.plan();
                if plan.actions.len() > *actions {
                    plan.actions.truncate(*actions);
                    plan.events.clear();
                }
                // What it would have been refused does not matter to a controller that dies.
                let _ = self.apply(&plan);
                // The next one begins with a list of all there is.
                self.history = vec![self.cluster.objects.clone()];
                self.horizon.clear();
            }
            Disturbance::Lags(behind) => {
                let view = self.view(behind);
                if view.objects.contains_key(&self.watched) {
                    // A plan from an old view may well be refused; the next look is newer.
                    let _ = self.apply(&(self.planner)(&view));
                }
            }
        }
    }

    /// Rounds with a fresh view until a plan is empty, which must be soon; the garbage collector takes its part.
    pub fn settle(&mut self) -> Result<Result<(), Refusal>, StillPlanning> {
        for _ in 0..PASSES_MAX {
            self.cluster.collect_garbage();
            let plan = if self.watched().is_some() { self.plan() } else { Plan::default() };
            if plan.is_empty() {
                self.history = vec![self.cluster.objects.clone()];
                self.horizon.clear();
                return Ok(Ok(()));
            }
            if let Err(refusal) = self.apply(&plan) {
                return Ok(Err(refusal));
            }
        }
        Err(StillPlanning(self.plan()))
    }

    /// Carries a plan out, and says what stopped it.
    pub fn apply(&mut self, plan: &Plan) -> Result<(), Refusal> {
        for action in &plan.actions {
            match self.cluster.act(action) {
                Ok(()) => {}
                Err(refusal) if self.is_done_already(action, &refusal) => {}
                Err(refusal) => return Err(refusal),
            }
            self.history.push(self.cluster.objects.clone());
            let seen = self.watched().filter(|object| self.sightings.last() != Some(*object)).cloned();
            self.sightings.extend(seen);
        }
        self.cluster.tell(plan);
        Ok(())
    }

    /// An object of the same owner is there already (PT-REC-3, POD-7), or the one to be deleted is gone.
    fn is_done_already(&self, action: &Action, refusal: &Refusal) -> bool {
        match (action, refusal) {
            (Action::Create { object, .. }, Refusal::AlreadyExists(kind, name)) => {
                let owner = controller_of(object);
                !owner.is_empty() && self.cluster.find(kind, name).is_some_and(|other| controller_of(other) == owner)
            }
            (Action::Delete { .. }, Refusal::NotFound(..) | Refusal::Conflict(..)) => true,
            _ => false,
        }
    }

    /// The cluster as a controller sees it whose watch of each kind is so many writes behind.
    fn view(&mut self, behind: &[usize]) -> Cluster {
        let latest = self.history.len() - 1;
        let mut kinds: Vec<&String> = self.history.iter().flat_map(BTreeMap::keys).map(|(kind, _)| kind).collect();
        kinds.sort();
        kinds.dedup();
        let mut objects = BTreeMap::new();
        for (place, kind) in kinds.into_iter().enumerate() {
            let wanted = latest.saturating_sub(behind.get(place % behind.len().max(1)).copied().unwrap_or(0));
            let horizon = self.horizon.entry(kind.clone()).or_insert(0);
            *horizon = wanted.max(*horizon);
            let state = &self.history[*horizon];
            objects.extend(state.iter().filter(|((other, _), _)| other == kind).map(|(k, v)| (k.clone(), v.clone())));
        }
        let mut view = self.cluster.clone();
        view.objects = objects;
        view
    }
}

/// The uid of the owner that controls an object; empty if none does.
fn controller_of(object: &Value) -> &str {
    let owners = object["metadata"]["ownerReferences"].as_array().map_or(&[][..], Vec::as_slice);
    owners.iter().find(|owner| owner["controller"] == true).map_or("", |owner| text(owner, "uid"))
}
