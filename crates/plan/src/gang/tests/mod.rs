//! Cases and laws of the gang scheduler, on a small world that obeys placements.

mod world;
mod basic;
mod laws;
