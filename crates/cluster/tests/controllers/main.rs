//! The built-in controllers at work on a real API server with a store in memory.
//!
//! Nothing sleeps: `World::until` looks again whenever something is committed, and gives up after `PATIENCE`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it finds its world broken")]

mod access;
mod deletion;
mod binds;
mod gangs;
mod kinds;
mod machine;
mod scheduling;
mod storage;
mod workloads;
mod world;
