//! A pretend cluster that obeys plans: what planners decide can be tried, replayed and disturbed without any server.
//!
//! `cluster` is the API server with its garbage collector, `turn` is what the world does to it (pods start and end,
//! people delete things, time passes), `run` lets a planner answer: undisturbed, dying between any two writes, or with
//! a view that lags behind. All of it is data; the same story has the same end.

mod cluster;
mod run;
mod turn;

pub use cluster::{Cluster, Key, Refusal};
pub use run::{Disturbance, Run, StillPlanning};
pub use turn::Turn;

#[cfg(test)]
pub(crate) mod laws;
#[cfg(test)]
mod tests;
