//! The whole program with training jobs: `volley up` on this machine, jobs from their creation to their end.
//!
//! Every test has a volley of its own in a home of its own (`world`). Pods run as root's containers on the machine's own
//! files (image `host`), so these tests want root and `python3`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

#[path = "../kubectl/command.rs"]
#[expect(dead_code, reason = "kubectl's own tests use the rest")]
mod command;
#[path = "../node/http.rs"]
mod http;
mod world;

mod jobs;
