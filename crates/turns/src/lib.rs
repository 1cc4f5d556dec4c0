//! What every shell's loop needs and no shell owns: whose turn it is (`queue`), how a plan is carried out (`deeds`), what
//! has been told (`events`); and that nobody waits for an answer for ever (`calls`).
//!
//! The controllers of the cluster and those of the operator are two such loops. Nothing here knows what a key stands for
//! or how an event is written.

pub mod calls;
pub mod deeds;
pub mod events;
pub mod queue;
