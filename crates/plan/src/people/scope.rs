//! What a credential opens that was made for one launch: the workload's run, and what it needs to read, in the run's entity.
//!
//! `decide` asks here before it looks at roles, so that such a credential never does what its user otherwise may.

use super::{Decision, Deed, EntityId, Thing};

/// A run, by its project and its name there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId {
    pub project: i64,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    pub entity: EntityId,
    pub run: RunId,
    /// The launch is a sweep's scheduler, which submits the sweep's runs and answers for them.
    pub is_scheduler: bool,
}

impl Scope {
    pub(super) fn decide(&self, deed: Deed, thing: &Thing) -> Decision {
        let is_elsewhere = thing.entity != self.entity || (thing.is_private && !self.is_scheduler);
        if is_elsewhere {
            return Decision::Hidden;
        }
        let is_another_run = thing.run.as_ref().is_some_and(|run| *run != self.run);
        let may = match deed {
            Deed::See => true,
            Deed::Log => self.is_scheduler || !is_another_run,
            Deed::Submit | Deed::Curate => self.is_scheduler,
            Deed::Serve | Deed::CreateQueue | Deed::ManageQueue | Deed::ManagePeople | Deed::Administer => false,
        };
        if may { Decision::Yes } else { Decision::No { needs: None } }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Asker, Role, UserId, decide};
    use super::*;
    use std::collections::BTreeMap;

    const OURS: EntityId = EntityId(1);
    const THEIRS: EntityId = EntityId(2);

    fn run(name: &str) -> RunId {
        RunId { project: 7, name: name.to_owned() }
    }

    /// The credential of a launch that the server's own administrator submitted, who is in both entities.
    fn asker(is_scheduler: bool) -> Asker {
        let roles = BTreeMap::from([(OURS, Role::Admin), (THEIRS, Role::Admin)]);
        let scope = Scope { entity: OURS, run: run("mine"), is_scheduler };
        Asker { user: UserId(1), is_admin: true, roles, scope: Some(scope) }
    }

    fn permitted(is_scheduler: bool, thing: &Thing) -> Vec<Deed> {
        Deed::ALL.into_iter().filter(|deed| decide(&asker(is_scheduler), *deed, thing) == Decision::Yes).collect()
    }

    // K-39
    #[test]
    fn a_launch_may_log_to_its_own_run_and_read_and_nothing_else_whoever_submitted_it() {
        let of = |name: &str| Thing { run: Some(run(name)), ..Thing::of(OURS) };
        assert_eq!(permitted(false, &of("mine")), [Deed::See, Deed::Log]);
        assert_eq!(permitted(false, &of("another")), [Deed::See]);
        let elsewhere = Thing { run: Some(RunId { project: 8, name: "mine".to_owned() }), ..Thing::of(OURS) };
        assert_eq!(permitted(false, &elsewhere), [Deed::See]);
        assert_eq!(permitted(false, &Thing::of(OURS)), [Deed::See, Deed::Log], "artifacts");
        assert_eq!(permitted(true, &of("another")), [Deed::See, Deed::Log, Deed::Curate, Deed::Submit]);
    }

    // K-39
    #[test]
    fn other_entities_and_private_queues_do_not_exist_for_a_launch() {
        let private = Thing { is_private: true, maker: Some(UserId(1)), ..Thing::of(OURS) };
        for deed in Deed::ALL {
            assert_eq!(decide(&asker(false), deed, &Thing::of(THEIRS)), Decision::Hidden);
            assert_eq!(decide(&asker(true), deed, &Thing::of(THEIRS)), Decision::Hidden);
            assert_eq!(decide(&asker(false), deed, &private), Decision::Hidden);
        }
    }
}
