//! Cases of the pretend cluster.
