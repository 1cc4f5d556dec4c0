//! GraphQL: what all nouns share. The types themselves are with their nouns.
//!
//! `root` joins the nouns into one schema, `scalars` are the forms of values on the wire, `page` the connections,
//! `serve` executes a request and words its errors as W&B's clients expect.

pub mod page;
pub mod root;
pub mod scalars;
pub mod serve;

use crate::Shared;
use crate::people::Caller;
use async_graphql::Context;

/// What every resolver is given: the server, and who asks.
pub trait Asked {
    fn shared(&self) -> &Shared;
    fn caller(&self) -> &Caller;
}

impl Asked for Context<'_> {
    fn shared(&self) -> &Shared {
        self.data_unchecked::<Shared>()
    }

    fn caller(&self) -> &Caller {
        self.data_unchecked::<Caller>()
    }
}
