//! The launch server is killed under load, again and again, and nothing that it acknowledged is lost or done twice.
//!
//! The real program runs as a process of its own on SQLite and on PostgreSQL, alone and as two replicas. Clients record
//! what they asked and what they were told (`clients`); `checker` decides whether a correct queue could have said so.

#![expect(clippy::panic, reason = "a test that panics is a test that fails")]

mod kills;
mod clients;
mod checker;
mod ending;
mod backup;
mod process;
mod wire;
#[path = "../wandb/postgres.rs"]
mod postgres;

/// What PostgreSQL's module shares with the tests of W&B's clients.
mod support {
    pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
}
