//! See the parent's reading order.
