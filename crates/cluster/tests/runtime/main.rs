//! Containers for real: every test starts shims and looks at what the machine then shows.
//!
//! Most need root (as CI is) and fail without it; `process.rs` and `rootless.rs` drop to an ordinary user by themselves.
//! They need `busybox` (Debian: busybox-static) and `setpriv`.

#![expect(clippy::unwrap_used, reason = "a test ends where it finds its world broken")]

mod support;
mod basics;
mod isolation;
mod limits;
mod streams;
mod life;
mod networks;
mod unprivileged;
mod gpus;
mod latency;
mod stage;
mod access;
