//! The decisions of the training job controllers: what is seen goes in, a `control::Plan` comes out.
//!
//! What all kinds share stands here once: who the job is (`head`), which pods are its own (`members`), how a pod is
//! made from a template (`template`) and what goes when the job has ended (`ending`). `training` are Kubeflow's jobs,
//! `volcano` is the Volcano Job; `cron` makes such Jobs by the clock, `queue` opens and closes their queues, and
//! `plain_pods` gives pods of other kinds a group.

pub mod cron;
pub mod ending;
pub mod fingerprint;
pub mod head;
pub mod members;
pub mod plain_pods;
pub mod queue;
pub mod template;
pub mod training;
pub mod volcano;
