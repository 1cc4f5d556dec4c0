//! People and the doors of the server: who may do what, how much, how often, and what is kept of it.
//!
//! Each test starts a server of its own, on SQLite or PostgreSQL, and speaks HTTP with it.

#![expect(clippy::panic, reason = "a test that panics is a test that fails")]

mod access;
mod agents;
mod audit;
#[path = "../wandb/http.rs"]
mod http;
mod limits;
#[path = "../wandb/postgres.rs"]
mod postgres;
mod quotas;
mod routes;
mod schema;
mod sessions;
mod sql;
#[path = "../wandb/support.rs"]
#[expect(dead_code, reason = "shared with the tests of W&B's clients, which use all of it")]
mod support;
mod tokens;
mod world;
