//! The built-in controllers at work on a real API server with a store in memory.
//!
//! Nothing sleeps: `World::until` looks again whenever something is committed, and gives up after `PATIENCE`.

mod access;
mod deletion;
mod scheduling;
mod storage;
mod workloads;
mod world;
