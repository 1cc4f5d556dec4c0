//! The operator against an API server: the tests move the pods, and no node is needed.
//!
//! The server is in this process, or the one that `VOLLEY_TEST_KUBECONFIG` leads to (`place`). Tests wait for what they want
//! to see (`World::until`), and give up after `PATIENCE`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test ends where it finds its world broken")]

mod crash;
mod others;
mod place;
mod replicas;
mod training;
mod volcano;
mod world;
