//! The operator against a real API server in this process, without a node: the tests move the pods.
//!
//! Nothing sleeps: `World::until` looks again whenever something is committed, and gives up after `PATIENCE`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it finds its world broken")]

mod crash;
mod others;
mod replicas;
mod training;
mod volcano;
mod world;
