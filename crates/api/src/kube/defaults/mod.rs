//! What the server fills in: the fields that a user left out, as every client expects to read them back (spec K D).
//!
//! Each kind's defaults stand in the table of its file. Filling in twice changes nothing the second time.

mod core;
pub mod network;
pub mod pod;
mod policy;
pub mod prepare;
pub mod rows;
mod storage;
pub mod workloads;

use rows::Kind;
use serde_json::Value;

/// One row set per file.
const TABLES: &[&[Kind]] = &[pod::KINDS, workloads::KINDS, network::KINDS, core::KINDS, storage::KINDS, policy::KINDS];

/// Completes an object of a built-in kind; other kinds stay as they are.
pub fn fill(group: &str, kind: &str, object: &mut Value) {
    let row = TABLES.iter().copied().flatten().find(|row| row.kind == kind && row.group == group);
    if let Some(row) = row {
        row.fill(object);
    }
}

#[cfg(test)]
mod kinds_tests;
