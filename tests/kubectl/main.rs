//! Drives real kubectl binaries, and plain HTTP where kubectl hides the bytes, against a cluster in this process.
//!
//! One file per theme. The ids above a test name the rules of the Kubernetes API specification that it checks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

mod command;
mod installed;
mod harness;
mod http;

mod discovery;
mod transport;
mod create;
mod get;
mod watch;
mod patch;
mod apply;
mod ssa;
mod delete;
mod errors;
mod validation;
mod defaults;
mod crd;
mod tables;
mod admission;
mod auth;
mod events;
mod commands;
mod workloads;
mod volcano;
mod training;
