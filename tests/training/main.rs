//! Training jobs on the whole program: `volley up` with its operator, real clients, real pods, real torch.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

#[path = "../kubectl/command.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod command;
mod examples;
#[path = "../node/http.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod http;
#[path = "../kubectl/installed.rs"]
mod installed;
mod operator;
#[path = "../crash/process.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod process;
#[path = "../node/traces.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod traces;
#[path = "../node/world.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod world;

mod gang_crash;
mod gangs;
mod jobs;
mod seeds;
mod seeds_mnist;
mod seeds_sdk;
mod site;
mod storm;
mod storm_jobs;
mod storm_nodes;
