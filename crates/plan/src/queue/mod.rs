//! Launch queues: what a queue's template lets a submitter choose, what becomes of a submitted spec, and an item's life.

pub mod gpus;
pub mod inputs;
pub mod item;
pub mod limits;
pub mod load;
pub mod ordered;
pub mod spec;
pub mod template;
mod place;
pub mod expression;
pub mod timeline;
pub mod wait;
