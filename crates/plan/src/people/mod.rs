//! Who may do what on the control plane: the one place that decides it.
//!
//! Every resolver and every route of the server asks `decide`. Things belong to an entity (a person's own, or a team's);
//! a person has a role in an entity. What somebody may not even see is `Hidden`, and is answered as if it did not exist.
//! `scope` narrows that for the credential of one launch. `quota` decides how much of what was submitted may run at a
//! time, `rate` how often somebody may ask.

pub mod quota;
pub mod rate;
pub mod scope;

use scope::{RunId, Scope};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntityId(pub i64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserId(pub i64);

/// A person's place in an entity; each may do what the one before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Viewer,
    Member,
    Admin,
}

impl Role {
    pub const ALL: [Role; 3] = [Role::Viewer, Role::Member, Role::Admin];

    pub fn name(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Member => "member",
            Role::Admin => "admin",
        }
    }

    pub fn named(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// Somebody who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    pub user: UserId,
    /// Administrators of the server may do everything.
    pub is_admin: bool,
    pub roles: BTreeMap<EntityId, Role>,
    /// The credential is for one launch only, whatever its user may do.
    pub scope: Option<Scope>,
}

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Look at anything of the entity.
    See,
    /// Write runs, files and artifacts.
    Log,
    /// Make, change and delete what runs are kept in: projects, sweeps, collections, and what runs have left.
    Curate,
    /// Put work into a queue.
    Submit,
    /// Be an agent: take work from a queue and report on it.
    Serve,
    /// Make a queue.
    CreateQueue,
    /// Change or delete a queue, or override what its template fixes.
    ManageQueue,
    /// Invite people, change their roles, see the audit log of the entity.
    ManagePeople,
    /// Make users and teams, on the whole server.
    Administer,
}

impl Deed {
    pub const ALL: [Deed; 9] = [
        Deed::See,
        Deed::Log,
        Deed::Curate,
        Deed::Submit,
        Deed::Serve,
        Deed::CreateQueue,
        Deed::ManageQueue,
        Deed::ManagePeople,
        Deed::Administer,
    ];

    /// The least role that suffices; none suffices for what only the server's administrators do.
    fn least(self) -> Option<Role> {
        match self {
            Deed::See => Some(Role::Viewer),
            Deed::Log | Deed::Curate | Deed::Submit | Deed::Serve | Deed::CreateQueue => Some(Role::Member),
            Deed::ManageQueue | Deed::ManagePeople => Some(Role::Admin),
            Deed::Administer => None,
        }
    }
}

/// What it is to be done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thing {
    pub entity: EntityId,
    /// Who made it, for things that their maker may manage.
    pub maker: Option<UserId>,
    /// Whether a role in the entity does not count for it: a queue with access `USER`.
    pub is_private: bool,
    /// Members of the entity who have a role of their own for this thing.
    pub grants: BTreeMap<UserId, Role>,
    /// The run that it is, or is a part of.
    pub run: Option<RunId>,
}

impl Thing {
    /// Anything of an entity that has no rules of its own.
    pub fn of(entity: EntityId) -> Thing {
        Thing { entity, maker: None, is_private: false, grants: BTreeMap::new(), run: None }
    }

    /// What somebody with this role in the entity is for this thing: a grant adds to the role and never takes away.
    fn role(&self, user: UserId, in_entity: Role) -> Option<Role> {
        let counts = !self.is_private || self.maker == Some(user);
        counts.then_some(in_entity).max(self.grants.get(&user).copied())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Yes,
    /// It may be seen but not done; `needs` is the role that would do.
    No {
        needs: Option<Role>,
    },
    /// It may not be seen: say that it does not exist.
    Hidden,
}

pub fn decide(asker: &Asker, deed: Deed, thing: &Thing) -> Decision {
    if let Some(scope) = &asker.scope {
        return scope.decide(deed, thing);
    }
    if asker.is_admin {
        return Decision::Yes;
    }
    let Some(role) = asker.roles.get(&thing.entity) else {
        return Decision::Hidden;
    };
    let Some(role) = thing.role(asker.user, *role) else {
        return Decision::Hidden;
    };
    let is_maker = thing.maker == Some(asker.user);
    let needs = match deed {
        // A maker who was made a viewer since then has lost the right to change it.
        Deed::ManageQueue if is_maker => Some(Role::Member),
        _ => deed.least(),
    };
    match needs {
        Some(least) if role >= least => Decision::Yes,
        _ => Decision::No { needs },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: EntityId = EntityId(1);
    const THEIRS: EntityId = EntityId(2);
    const ALICE: UserId = UserId(10);

    fn asker(role: Role) -> Asker {
        Asker { user: ALICE, is_admin: false, roles: BTreeMap::from([(OURS, role)]), scope: None }
    }

    fn permitted(role: Role) -> Vec<Deed> {
        let thing = Thing::of(OURS);
        Deed::ALL.into_iter().filter(|deed| decide(&asker(role), *deed, &thing) == Decision::Yes).collect()
    }

    // AUTH-7
    #[test]
    fn each_role_may_do_what_the_table_says() {
        assert_eq!(permitted(Role::Viewer), [Deed::See]);
        assert_eq!(
            permitted(Role::Member),
            [Deed::See, Deed::Log, Deed::Curate, Deed::Submit, Deed::Serve, Deed::CreateQueue]
        );
        assert_eq!(permitted(Role::Admin), &Deed::ALL[..8]);
    }

    // AUTH-7
    #[test]
    fn another_entity_does_not_exist_whatever_is_asked() {
        for deed in Deed::ALL {
            assert_eq!(decide(&asker(Role::Admin), deed, &Thing::of(THEIRS)), Decision::Hidden);
        }
    }

    #[test]
    fn a_refusal_names_the_role_that_would_do() {
        let refusal = decide(&asker(Role::Viewer), Deed::Submit, &Thing::of(OURS));
        assert_eq!(refusal, Decision::No { needs: Some(Role::Member) });
    }

    // QUE-6
    #[test]
    fn a_maker_manages_his_queue_and_a_private_one_is_seen_by_nobody_else() {
        let made = Thing { maker: Some(ALICE), is_private: true, ..Thing::of(OURS) };
        assert_eq!(decide(&asker(Role::Member), Deed::ManageQueue, &made), Decision::Yes);
        assert_eq!(decide(&asker(Role::Viewer), Deed::ManageQueue, &made), Decision::No { needs: Some(Role::Member) });
        let foreign = Thing { maker: Some(UserId(11)), ..made };
        assert_eq!(decide(&asker(Role::Admin), Deed::See, &foreign), Decision::Hidden);
    }

    // QUE-6
    #[test]
    fn a_grant_opens_one_queue_to_one_member_and_to_nobody_outside() {
        let granted = |role| Thing { is_private: true, grants: BTreeMap::from([(ALICE, role)]), ..Thing::of(OURS) };
        assert_eq!(decide(&asker(Role::Viewer), Deed::See, &granted(Role::Viewer)), Decision::Yes);
        assert_eq!(
            decide(&asker(Role::Viewer), Deed::Submit, &granted(Role::Viewer)),
            Decision::No { needs: Some(Role::Member) }
        );
        assert_eq!(decide(&asker(Role::Viewer), Deed::Submit, &granted(Role::Member)), Decision::Yes);
        assert_eq!(decide(&asker(Role::Viewer), Deed::ManageQueue, &granted(Role::Admin)), Decision::Yes);
        let lesser = Thing { grants: BTreeMap::from([(ALICE, Role::Viewer)]), ..Thing::of(OURS) };
        assert_eq!(decide(&asker(Role::Member), Deed::Submit, &lesser), Decision::Yes, "a grant takes nothing away");
        let stranger = Asker { user: ALICE, is_admin: false, roles: BTreeMap::new(), scope: None };
        assert_eq!(decide(&stranger, Deed::See, &granted(Role::Admin)), Decision::Hidden);
    }

    #[test]
    fn an_administrator_of_the_server_may_do_everything() {
        let root = Asker { is_admin: true, ..asker(Role::Viewer) };
        for deed in Deed::ALL {
            assert_eq!(decide(&root, deed, &Thing::of(THEIRS)), Decision::Yes);
        }
    }
}
