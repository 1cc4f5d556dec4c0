//! The life of a launch agent: what to take, what to do next for each item, what state its workload is in and what keeps
//! it from running. `config` reads its settings, `picture` is the cluster as people look at it.
//!
//! An agent remembers nothing: what it needs is on the server or in the cluster, so a crash between any two deeds is
//! repaired by looking again. docs/notes/agent.md tells the story.

pub mod state;
pub mod trouble;
pub mod failure;
pub mod exit;
pub mod life;
pub mod capacity;
pub mod serving;
pub mod config;
pub mod picture;

#[cfg(test)]
mod laws;
