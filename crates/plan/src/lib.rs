//! Every decision in the product: values in, values out. No clock, no I/O, no async, no randomness of its own.

pub mod access;
pub mod admit;
pub mod agent;
pub mod aside;
pub mod bootstrap;
pub mod check;
pub mod control;
pub mod custom;
pub mod gang;
pub mod job;
pub mod launch;
pub mod lease;
pub mod logs;
pub mod news;
pub mod node;
pub mod object;
pub mod people;
pub mod pod_groups;
pub mod queue;
pub mod replay;
pub mod run;
pub mod sim;
pub mod sweep;
pub mod why;
