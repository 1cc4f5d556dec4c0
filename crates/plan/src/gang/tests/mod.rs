//! Cases and laws of the gang scheduler, on a small world that obeys placements.

mod world;
mod land;
mod basic;
mod nodes;
mod queue_cases;
mod gang_cases;
mod rule_cases;
mod tier_cases;
mod volume_cases;
mod shared_cases;
mod lesson_cases;
mod laws;
mod promises;
mod starvation;
mod oracle;
