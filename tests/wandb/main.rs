//! W&B's own clients against the server, on SQLite and on PostgreSQL.
//!
//! Each test starts a server of its own. What the clients do is in the Python files beside this one; they know nothing
//! but WANDB_BASE_URL and WANDB_API_KEY, and fail by an assertion.

#![expect(clippy::panic, reason = "a test that panics is a test that fails")]

mod documents;
mod events;
mod http;
mod objects;
mod people;
mod postgres;
mod protocol;
mod python;
mod sweeps;
mod support;
