//! The whole program with real pods: `volley up`, kubectl, images, networks, and bad luck.
//!
//! Every test has a volley of its own in a home of its own (`world`), and every one checks at its end that nothing of it is
//! left on the machine (`traces`). Pods run as root's containers, so these tests want root.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that panics is a test that fails")]

#[path = "../kubectl/command.rs"]
mod command;
mod http;
#[path = "../kubectl/installed.rs"]
mod installed;
#[path = "../../crates/cluster/src/images/fixtures/layer.rs"]
#[expect(dead_code, reason = "the cluster's own tests use the rest")]
mod layer;
mod made;
mod registry;
mod traces;
mod world;

mod pods;
mod restarts;
mod handlers;
mod settings;
mod security;
mod kubectl;
mod terminal;
mod images;
mod seed;
mod network;
mod rootless;
mod death;
mod pressure;
mod clean;
