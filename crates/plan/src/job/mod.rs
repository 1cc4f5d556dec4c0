//! The decisions of the training job controllers: what is seen goes in, a `control::Plan` comes out.
//!
//! What all kinds share stands here once: who the job is (`head`), which pods are its own (`members`), how a pod is
//! made from a template (`template`) and what goes when the job has ended (`ending`). `volcano` is the Volcano Job,
//! `training` are Kubeflow's jobs.

pub mod ending;
pub mod head;
pub mod members;
pub mod template;
pub mod training;
