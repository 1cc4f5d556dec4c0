//! The wire types that Volley must match: what they look like, how they are read, what is filled in, what is refused.
//!
//! No opinions and no decisions live here (those are in `plan`), and nothing here reads a clock or touches the machine.

pub mod kube;
pub mod kubeflow;
pub mod volcano;
