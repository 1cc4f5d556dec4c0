//! The operator: the shell (observe, plan, apply, report) for training jobs, on any cluster that kube's client reaches.
//!
//! `run` watches each kind once, asks `volley_plan::job` what to do for what has changed, and does it. `lead` chooses one of
//! several replicas, `aside` finds kinds that upstream's controllers hold, `rate` bounds the calls, `manifests` is what a
//! real cluster needs: definitions, roles, a Deployment.

pub mod aside;
pub mod lead;
pub mod manifests;
pub mod rate;
