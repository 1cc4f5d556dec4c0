//! The agent on the whole program: `volley up` with its server, cluster, operator and agent, and `volley agent` beside it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

#[path = "../kubectl/command.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod command;
#[path = "../node/http.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod http;
#[path = "../kubectl/installed.rs"]
mod installed;
#[path = "../node/traces.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod traces;
#[path = "../node/world.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod world;

mod launch;
mod site;

mod jobs;
mod agents;
mod processes;
mod containers;
mod sources;
mod queues;
mod seed_000;
mod seed_001;
mod seed_002;
mod wandb;
mod chaos;
mod outage;
mod named;
mod differs;
mod scenarios;
mod secrets;
