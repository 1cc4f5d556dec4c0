//! What every shell's loop needs and no shell owns: whose turn it is (`queue`), how a plan is carried out (`deeds`), and what
//! has been told (`events`).
//!
//! The controllers of the cluster and those of the operator are two such loops. Nothing here knows what a key stands for
//! or how an event is written.

pub mod deeds;
pub mod events;
pub mod queue;
