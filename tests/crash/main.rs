//! The real server process under bad luck: killed at any moment, a full disk, damaged files, a second server.
//!
//! What was acknowledged must be there afterwards, and what cannot be right must be refused with a clear message.

#![expect(clippy::panic, reason = "a test that panics is a test that fails")]

mod damage;
mod disk;
mod kill;
mod ledger;
mod process;
