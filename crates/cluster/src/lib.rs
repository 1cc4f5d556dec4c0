//! `volley cluster`: a Kubernetes-compatible single-node cluster in one process.

pub mod apiserver;
pub mod controllers;
pub mod store;
