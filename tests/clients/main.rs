//! Real clients against the embedded cluster: Python's `kubernetes`, kube-rs controllers, leader election, long lists
//! and many watchers. Each test starts a cluster of its own, on a port of its own, in a folder of its own.

mod controller;
mod lease;
mod paging;
mod python;
mod support;
mod watching;
