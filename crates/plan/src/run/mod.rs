//! What a tracked run is: its state, the lines of its streams, its history's keys, and how runs are searched.

pub mod branch;
pub mod columns;
pub mod console;
pub mod filter;
pub mod find;
pub mod history;
pub mod lenient;
pub mod lines;
pub mod order;
pub mod presence;
pub mod state;
