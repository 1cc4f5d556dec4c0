//! Images without a daemon: references, credentials, the registry protocol, unpacking and the store on disk.
//!
//! The node asks `store::Store` for an image by reference and gets back layer folders (newest first) and the image's
//! configuration; runtimes mount the folders. Nothing here knows about pods: policy and back-off are the node's.

pub mod reference;
pub mod auth;
pub mod digest;
pub mod error;
pub mod manifest;
pub mod challenge;
pub mod registry;
pub mod download;
pub mod tape;
pub mod tree;
pub mod inflate;
pub mod unpack;
pub mod flight;
pub mod layout;
pub mod table;
pub mod store;
pub mod pull;
pub mod archive;
pub mod collect;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod pull_tests;
#[cfg(test)]
mod registry_tests;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod unpack_tests;
