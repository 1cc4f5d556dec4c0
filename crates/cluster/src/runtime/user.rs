//! Who a process runs as: numbers, or names of the container's own `/etc/passwd` and `/etc/group`.
//!
//! In a user namespace with a single mapped user, any other number is reached by one more user namespace inside it, in which
//! that number is the mapped user: the process sees the user it asked for, and owns the same files.

use super::spec::{Mode, User};
use super::sys;
use super::wire::{Context, Fault};
use std::fs;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
    pub home: String,
}

/// A line of `/etc/passwd`.
struct Account<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a str,
}

pub fn resolve(user: &User, mode: Mode) -> Result<Identity, Fault> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut identity = resolve_in(user, &read("/etc/passwd"), &read("/etc/group"))?;
    let own = sys::ids();
    if mode == Mode::Process && own.0 != 0 {
        // Root is what nobody asked for by name here: the process runs as the user who runs the node.
        if identity.uid != 0 && identity.uid != own.0 {
            return Err(Fault::unsupported(format!("user {} was asked for, but the process mode of user {} has no other", identity.uid, own.0)));
        }
        identity = Identity { uid: own.0, gid: own.1, groups: Vec::new(), home: std::env::var("HOME").unwrap_or_else(|_| "/".into()) };
    }
    Ok(identity)
}

fn resolve_in(user: &User, passwd: &str, group: &str) -> Result<Identity, Fault> {
    let accounts: Vec<Account<'_>> = passwd.lines().filter_map(account).collect();
    let (uid, gid, extra) = match user {
        User::Number { uid, gid, extra_groups } => (*uid, *gid, extra_groups),
        User::Named { user, extra_groups } => {
            let (name, group_name) = user.split_once(':').map_or((user.as_str(), None), |(u, g)| (u, Some(g)));
            let by_name = accounts.iter().find(|account| account.name == name).map(|account| account.uid);
            let uid = match by_name.or_else(|| name.parse().ok()) {
                Some(uid) => uid,
                None if name.is_empty() => 0,
                None => return Err(Fault::invalid(format!("unable to find user {name}: no matching entries in passwd file"))),
            };
            let gid = group_name.map(|name| group_id(name, group)).transpose()?;
            (uid, gid, extra_groups)
        }
    };
    let account = accounts.iter().find(|account| account.uid == uid);
    let mut groups: Vec<u32> = account.map(|account| memberships(account.name, group)).unwrap_or_default();
    groups.extend(extra);
    groups.sort_unstable();
    groups.dedup();
    let gid = gid.or(account.map(|account| account.gid)).unwrap_or(0);
    Ok(Identity { uid, gid, groups, home: account.map_or("/", |account| account.home).to_owned() })
}

fn account(line: &str) -> Option<Account<'_>> {
    let mut fields = line.split(':');
    let name = fields.next()?;
    let uid = fields.nth(1)?.parse().ok()?;
    let gid = fields.next()?.parse().ok()?;
    Some(Account { name, uid, gid, home: fields.nth(1)? })
}

fn group_id(name: &str, group: &str) -> Result<u32, Fault> {
    let mut lines = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = lines.find(|fields| fields.first() == Some(&name)).and_then(|fields| fields.get(2)?.parse().ok());
    let number = found.or_else(|| name.parse().ok());
    number.ok_or_else(|| Fault::invalid(format!("unable to find group {name}: no matching entries in group file")))
}

fn memberships(name: &str, group: &str) -> Vec<u32> {
    let lines = group.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let member_of = lines.filter(|fields| fields.get(3).is_some_and(|members| members.split(',').any(|member| member == name)));
    member_of.filter_map(|fields| fields.get(2)?.parse().ok()).collect()
}

/// Becomes the identity, for good.
pub fn assume(identity: &Identity, mode: Mode) -> Result<(), Fault> {
    if mode == Mode::Process && sys::ids().0 != 0 {
        return Ok(());
    }
    if mode == Mode::Rootless && !Mapping::current().covers(identity) {
        return assume_alone(identity);
    }
    let what = || format!("become user {} of group {}", identity.uid, identity.gid);
    if mode != Mode::Rootless || Mapping::current().groups_can_be_set {
        sys::set_groups(&identity.groups).context(|| format!("join the groups {:?}", identity.groups))?;
    } else if identity.groups.iter().any(|group| *group != identity.gid) {
        return Err(groups_fault(identity));
    }
    sys::set_group(identity.gid).context(what)?;
    sys::set_user(identity.uid).context(what)
}

fn groups_fault(identity: &Identity) -> Fault {
    Fault::unsupported(format!("the groups {:?} were asked for, but this user has no subordinate group ids", identity.groups))
}

fn assume_alone(identity: &Identity) -> Result<(), Fault> {
    if identity.groups.iter().any(|group| *group != identity.gid) {
        return Err(groups_fault(identity));
    }
    let what = || format!("become user {} of group {} in a user namespace", identity.uid, identity.gid);
    let (uid, gid) = sys::ids();
    sys::unshare(libc::CLONE_NEWUSER).context(what)?;
    // The kernel lets nobody write the maps of a process that hides from its own user.
    sys::prctl(libc::PR_SET_DUMPABLE, 1).context(what)?;
    fs::write("/proc/self/setgroups", "deny").context(what)?;
    fs::write("/proc/self/uid_map", format!("{} {uid} 1", identity.uid)).context(what)?;
    fs::write("/proc/self/gid_map", format!("{} {gid} 1", identity.gid)).context(what)?;
    sys::set_group(identity.gid).context(what)?;
    sys::set_user(identity.uid).context(what)
}

/// Which users and groups the pod's user namespace knows.
struct Mapping {
    users: Vec<(u32, u32)>,
    groups: Vec<(u32, u32)>,
    groups_can_be_set: bool,
}

impl Mapping {
    fn current() -> Mapping {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let ranges = |text: String| -> Vec<(u32, u32)> {
            let lines = text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
            lines.filter_map(|fields| Some((fields.first()?.parse().ok()?, fields.get(2)?.parse().ok()?))).collect()
        };
        Mapping {
            users: ranges(read("/proc/self/uid_map")),
            groups: ranges(read("/proc/self/gid_map")),
            groups_can_be_set: read("/proc/self/setgroups").trim() != "deny",
        }
    }

    fn covers(&self, identity: &Identity) -> bool {
        let has = |ranges: &[(u32, u32)], id: u32| ranges.iter().any(|(first, count)| id >= *first && id - first < *count);
        let groups_fit = identity.groups.iter().all(|group| has(&self.groups, *group));
        has(&self.users, identity.uid) && has(&self.groups, identity.gid) && groups_fit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001:App:/home/app:/bin/sh\n";
    const GROUP: &str = "root:x:0:\nstaff:x:50:app,other\nwheel:x:10:other\n";

    fn named(user: &str) -> Result<Identity, Fault> {
        resolve_in(&User::Named { user: user.into(), extra_groups: vec![7] }, PASSWD, GROUP)
    }

    #[test]
    fn a_name_brings_its_group_memberships_and_home() {
        let identity = named("app").unwrap();
        assert_eq!(identity, Identity { uid: 1000, gid: 1001, groups: vec![7, 50], home: "/home/app".into() });
    }

    #[test]
    fn a_group_may_be_named_too() {
        let identity = named("app:wheel").unwrap();
        assert_eq!((identity.uid, identity.gid), (1000, 10));
        assert_eq!(named("77:88").map(|identity| (identity.uid, identity.gid)).unwrap(), (77, 88));
    }

    #[test]
    fn a_name_that_is_not_there_is_an_error() {
        assert_eq!(named("nobody").unwrap_err().text, "unable to find user nobody: no matching entries in passwd file");
        assert!(named("app:nogroup").is_err());
    }

    #[test]
    fn a_bare_number_takes_the_group_from_its_account() {
        let number = |uid| resolve_in(&User::Number { uid, gid: None, extra_groups: vec![] }, PASSWD, GROUP).unwrap();
        assert_eq!((number(1000).gid, number(4321).gid), (1001, 0));
        assert_eq!(number(4321).home, "/");
    }
}
