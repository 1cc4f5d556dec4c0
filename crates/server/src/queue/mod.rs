//! Launch queues: their configs, the items in them, and how agents take those.

pub mod graphql;
pub mod input;
pub mod items;
mod job;
pub mod limits;
pub mod line;
pub mod load;
pub mod mutation;
pub mod preview;
pub mod push;
pub mod quota;
pub mod rest;
pub mod serve;
pub mod stop;
pub mod store;
pub mod story;
pub mod told;

use crate::Shared;
use crate::fault::{Fault, Result};
use crate::people::Caller;
use crate::project::{self, Path};
use axum::http::StatusCode;
use std::collections::BTreeMap;
use volley_plan::people::{Decision, Deed, EntityId, Role, Thing, UserId};
use volley_plan::queue::limits::Limits;

#[derive(Clone, Debug)]
pub struct Queue {
    pub id: i64,
    pub project_id: i64,
    pub entity_id: i64,
    pub name: String,
    /// `PROJECT` or `USER`.
    pub access: String,
    /// `DISABLED` or `V0`.
    pub mode: String,
    pub config_id: Option<i64>,
    /// JSON text.
    pub links: String,
    pub user_id: i64,
    pub maker: String,
    pub limits: Limits,
    /// The own entity of whoever made it.
    pub maker_entity: i64,
    /// Members who have a role of their own for this queue.
    pub grants: BTreeMap<UserId, Role>,
    /// Only what it had started is left of it.
    pub is_deleted: bool,
}

/// The resource that a queue's work runs on, its config, and the variables in it.
#[derive(Clone, Debug)]
pub struct Config {
    pub id: i64,
    pub entity_id: i64,
    pub resource: String,
    /// JSON text, `{"resource_args": {"<resource>": {…}}}`.
    pub config: String,
    /// JSON text, as it was submitted.
    pub variables: String,
}

impl Queue {
    pub fn thing(&self) -> Thing {
        Thing {
            entity: EntityId(self.entity_id),
            maker: Some(UserId(self.user_id)),
            is_private: self.is_private(),
            grants: self.grants.clone(),
            run: None,
        }
    }

    pub fn is_private(&self) -> bool {
        self.access == "USER"
    }

    /// Whose members are told what happens in it. A private queue is its own audience, told by its id below zero: who may
    /// see it is asked when somebody listens.
    pub fn audience(&self) -> i64 {
        if self.is_private() { -self.id } else { self.entity_id }
    }

    /// Who is told that it is gone: of a private queue, its maker alone.
    pub fn mourners(&self) -> i64 {
        if self.is_private() { self.maker_entity } else { self.entity_id }
    }

    pub fn has_priorities(&self) -> bool {
        self.mode == "V0"
    }

    pub fn is_open_to(&self, caller: &Caller, deed: Deed) -> bool {
        caller.decision(deed, &self.thing()) == Decision::Yes
    }

    pub fn must(&self, caller: &Caller, deed: Deed) -> Result<()> {
        Fault::of(caller.decision(deed, &self.thing()), format!("queue `{}`", self.name))
    }
}

impl Queue {
    /// Whether one may decide over an item: whoever submitted it, and whoever manages the queue.
    pub fn must_command(&self, caller: &Caller, author: i64) -> Result<()> {
        if self.is_open_to(caller, Deed::ManageQueue) {
            return Ok(());
        }
        let thing = Thing { maker: Some(UserId(author)), ..self.thing() };
        Fault::of(caller.decision(Deed::ManageQueue, &thing), "the item")
    }
}

/// The item of an id for a deed, the lease that the id names, and its queue; 404 if it is missing or hidden.
pub async fn expect_item(shared: &Shared, caller: &Caller, deed: Deed, id: &str) -> Result<(items::Item, i64, Queue)> {
    let missing = || Fault::missing("the item");
    let (number, lease) = crate::ids::decode_item(id).ok_or_else(missing)?;
    let item = items::by_id(&shared.database, number).await?.ok_or_else(missing)?;
    let queue = store::by_id(&shared.database, item.queue_id).await?;
    // Whose agent has it knows that it is there, and must not take it for deleted.
    let is_known = item.agent_user == Some(caller.user.id) && caller.asker.scope.is_none();
    let hidden =
        || if is_known { Fault::new(StatusCode::FORBIDDEN, "the item's queue is closed to you") } else { missing() };
    let queue = queue.filter(|queue| queue.is_open_to(caller, Deed::See)).ok_or_else(hidden)?;
    queue.must(caller, deed)?;
    Ok((item, lease, queue))
}

/// The queue of this name for a deed; 404 if it is missing or hidden.
pub async fn expect(shared: &Shared, caller: &Caller, deed: Deed, path: Path<'_>, name: &str) -> Result<Queue> {
    let missing = || Fault::missing(format!("queue `{name}`"));
    let project = project::find(shared, caller, path).await?.ok_or_else(missing)?;
    let queue = store::by_name(&shared.database, project.id, name).await?.ok_or_else(missing)?;
    queue.must(caller, deed)?;
    Ok(queue)
}

/// The same by an id. One who may not see it must not learn its name either, so what is hidden is told like what is missing.
pub async fn expect_id(shared: &Shared, caller: &Caller, deed: Deed, id: &str) -> Result<Queue> {
    let missing = || Fault::missing("the queue");
    let number = crate::ids::decode("RunQueue", id).ok_or_else(missing)?;
    let queue = store::by_id(&shared.database, number).await?;
    let is_there = |queue: &Queue| !queue.is_deleted && queue.is_open_to(caller, Deed::See);
    let queue = queue.filter(is_there).ok_or_else(missing)?;
    queue.must(caller, deed)?;
    Ok(queue)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args;
    use crate::events::stream::tests::server;

    #[tokio::test(flavor = "multi_thread")]
    async fn an_agent_that_lost_its_queue_does_not_take_its_item_for_deleted() {
        let (_folder, server, caller) = server().await;
        let setup = "INSERT INTO entities (id, name, is_team, created_at) VALUES (77, 'team', 1, 0); \
                     INSERT INTO projects (id, entity_id, name, folded, created_at) VALUES (77, 77, 'p', 'p', 0); \
                     INSERT INTO queues (id, project_id, name, access, mode, links, user_id, created_at, updated_at) \
                     VALUES (77, 77, 'q', 'PROJECT', 'V0', '{}', 1, 0, 0); \
                     INSERT INTO agents (id, project_id, name, hostname, queues, status, is_told_to_stop, user_id, created_at, \
                     heartbeat_at) VALUES (77, 77, 'a', 'h', '[]', 'RUNNING', 0, 1, 0, 0); \
                     INSERT INTO items (id, queue_id, state, spec, template_values, priority, rank, lease, warnings, user_id, \
                     created_at, updated_at) VALUES (77, 77, 'RUNNING', '{}', '{}', 2, 2, 1, '[]', 1, 0, 0)";
        let mut write = server.shared.database.write().await.unwrap();
        write.script(setup.to_owned()).await.unwrap();
        write.commit().await.unwrap();
        let id = crate::ids::encode("RunQueueItem", 77);
        let ask = async || expect_item(&server.shared, &caller, Deed::See, &id).await.err().unwrap().status;
        assert_eq!(ask().await, StatusCode::NOT_FOUND, "to everybody else what is hidden is missing");
        let mut write = server.shared.database.write().await.unwrap();
        write.run("UPDATE items SET agent_id = $1", args![77i64]).await.unwrap();
        write.commit().await.unwrap();
        assert_eq!(ask().await, StatusCode::FORBIDDEN);
        server.stop().await;
    }
}
