//! Cases and laws of the gang scheduler, on a small world that obeys placements.

mod world;
mod basic;
mod nodes;
mod queue_cases;
mod gang_cases;
mod laws;
mod oracle;
