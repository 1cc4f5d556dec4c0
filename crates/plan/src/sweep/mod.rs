//! Sweeps: what a sweep's config asks to search, and what to try next.

pub mod agent;
pub mod bayes;
pub mod config;
pub mod search;
pub mod stop;
