//! People: users and service accounts, their entities and roles, and the keys by which they are known.

pub mod audit;
pub mod graphql;
pub mod keyring;
pub mod keys;
pub mod mutation;
pub mod password;
pub mod rest;
pub mod sessions;
pub mod store;
pub mod teams;
pub mod tokens;

use crate::database::{self, Database};
use crate::fault::{Fault, Result};
use crate::project::Project;
use crate::run::Run;
use http::StatusCode;
use jiff::Timestamp;
use std::fmt::Display;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use volley_plan::people::scope::RunId;
use volley_plan::people::{Asker, Decision, Deed, EntityId, Thing, decide};

#[derive(Clone, Debug)]
pub struct User {
    pub id: i64,
    pub username: String,
    pub name: String,
    pub email: Option<String>,
    pub is_admin: bool,
    pub is_service: bool,
    pub entity_id: i64,
    /// The name of the user's own entity.
    pub entity: String,
    pub deleted_at: Option<i64>,
}

#[derive(Clone, Debug)]
pub struct Entity {
    pub id: i64,
    pub name: String,
    pub is_team: bool,
}

/// By what somebody was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    Key(i64),
    Session(i64),
    /// The credential of a launch, by its item.
    Launch(i64),
}

/// Somebody who was recognised. Whatever a request does, it asks here first.
#[derive(Clone, Debug)]
pub struct Caller {
    pub user: User,
    pub asker: Asker,
    pub way: Way,
    /// From where.
    pub address: Option<IpAddr>,
}

const OF_A_LAUNCH: &str = "this credential is of one launch, and opens its run only; hint: use an API key of yours";
/// How old the answer to who may see what may be, for streams that go on for hours.
const RECHECK: Duration = Duration::from_secs(5);

/// A caller who is looked at again from time to time, so that one who was shut out does not go on listening.
pub struct Lasting {
    caller: Caller,
    checked: Instant,
}

impl Lasting {
    pub fn new(caller: Caller) -> Lasting {
        Lasting { caller, checked: Instant::now() }
    }

    /// The caller as it is now, or was a moment ago; nothing if it may no longer come in.
    pub async fn now(&mut self, database: &Database) -> database::Result<Option<&Caller>> {
        if self.checked.elapsed() > RECHECK {
            let Some(again) = store::caller_again(database, &self.caller, Timestamp::now()).await? else {
                return Ok(None);
            };
            *self = Lasting::new(again);
        }
        Ok(Some(&self.caller))
    }
}

impl Caller {
    pub fn decision(&self, deed: Deed, thing: &Thing) -> Decision {
        decide(&self.asker, deed, thing)
    }

    pub fn may_see(&self, entity: i64) -> bool {
        self.decision(Deed::See, &Thing::of(EntityId(entity))) == Decision::Yes
    }

    /// Fails unless the caller may do this to the entity's things; `what` is how the message names them.
    pub fn must(&self, deed: Deed, entity: i64, what: impl Display) -> Result<()> {
        self.judge(deed, &Thing::of(EntityId(entity)), what)
    }

    /// The same for a run.
    pub fn must_for(&self, deed: Deed, run: &Run) -> Result<()> {
        let id = RunId { project: run.project_id, name: run.name.clone() };
        let thing = Thing { run: Some(id), ..Thing::of(EntityId(run.entity_id)) };
        self.judge(deed, &thing, format!("run `{}`", run.path()))
    }

    /// The same for logging to a run that may not be there yet.
    pub fn must_log(&self, project: &Project, run: &str) -> Result<()> {
        let id = RunId { project: project.id, name: run.to_owned() };
        let thing = Thing { run: Some(id), ..Thing::of(EntityId(project.entity_id)) };
        self.judge(Deed::Log, &thing, format!("run `{}/{}/{run}`", project.entity, project.name))
    }

    /// Whether it is this user, and not only a launch of the user's.
    pub fn is_self(&self, user: i64) -> bool {
        self.user.id == user && self.asker.scope.is_none()
    }

    /// Fails for the credential of a launch.
    pub fn must_be_whole(&self) -> Result<()> {
        self.asker.scope.is_none().then_some(()).ok_or_else(|| Fault::new(StatusCode::FORBIDDEN, OF_A_LAUNCH))
    }

    fn judge(&self, deed: Deed, thing: &Thing, what: impl Display) -> Result<()> {
        match (self.decision(deed, thing), &self.asker.scope) {
            // No role would help.
            (Decision::No { .. }, Some(_)) => {
                Err(Fault::new(StatusCode::FORBIDDEN, format!("permission denied for {what}: {OF_A_LAUNCH}")))
            }
            (decision, _) => Fault::of(decision, what),
        }
    }
}
