//! The real server process under bad luck: killed at any moment, a full disk, damaged files, a second server.
//!
//! What was acknowledged must be there afterwards, and what cannot be right must be refused with a clear message.

mod damage;
mod disk;
mod kill;
mod ledger;
mod process;
