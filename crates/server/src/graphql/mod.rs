//! GraphQL: what all nouns share. The types themselves are with their nouns.
//!
//! `root` joins the nouns into one schema, `scalars` are the forms of values on the wire, `page` and `search` the lists,
//! `serve` executes a request and words its errors as W&B's clients expect.

pub mod page;
pub mod root;
pub mod scalars;
pub mod search;
pub mod serve;

use crate::Shared;
use crate::people::Caller;
use crate::run::sharing::is_shared;
use async_graphql::Context;
use http::HeaderMap;
use std::net::SocketAddr;

/// What the headers of a request say of who sends it.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// One of several processes that write the same run.
    pub is_shared: bool,
    /// For whom a service account speaks.
    pub username: Option<String>,
    /// What makes a submission that is sent again the same one.
    pub idempotency_key: Option<String>,
    /// The address that it called the server by; a name may be that of something in between, and is not taken.
    pub called: Option<SocketAddr>,
}

impl Sender {
    pub fn of(headers: &HeaderMap) -> Sender {
        let text = |name: &str| {
            let value = headers.get(name).and_then(|value| value.to_str().ok());
            value.filter(|value| !value.is_empty()).map(str::to_owned)
        };
        Sender {
            is_shared: is_shared(headers),
            username: text("x-wandb-username"),
            idempotency_key: text("idempotency-key"),
            called: text("host").and_then(|host| host.parse().ok()),
        }
    }
}

/// What every resolver is given: the server, who asks, and how.
pub trait Asked {
    fn shared(&self) -> &Shared;
    fn caller(&self) -> &Caller;
    fn sender(&self) -> &Sender;
}

impl Asked for Context<'_> {
    fn shared(&self) -> &Shared {
        self.data_unchecked::<Shared>()
    }

    fn caller(&self) -> &Caller {
        self.data_unchecked::<Caller>()
    }

    fn sender(&self) -> &Sender {
        self.data_unchecked::<Sender>()
    }
}
