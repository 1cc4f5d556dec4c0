//! What every shell's loop needs and no shell owns: whose turn it is (`queue`), and what has been told (`events`).
//!
//! The controllers of the cluster and those of the operator are two such loops. Nothing here knows what a key stands for
//! or how an event is written.

pub mod events;
pub mod queue;
