//! What `volley logs` decides: the kinds of objects that have logs and which pods are theirs (`kinds`), what a pod is called
//! among the ranks of its job (`ranks`), which containers' logs are to be read (`sources`), and in which order the lines of
//! many logs are told (`merge`).

pub mod console;
pub mod kinds;
pub mod merge;
pub mod ranks;
pub mod sources;
