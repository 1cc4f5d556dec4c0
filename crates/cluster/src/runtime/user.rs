//! Who a process runs as: numbers, or names of the container's own `/etc/passwd` and `/etc/group`.
//!
//! In a user namespace with a single mapped user, any other number is reached by one more user namespace inside it, in which
//! that number is the mapped user: the process sees the user it asked for, and owns the same files.

use super::spec::{Mode, User};
use super::sys;
use super::wire::{Context, Fault};
use std::fs;
use std::io;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub uid: u32,
    pub gid: u32,
    /// Those that were asked for, and those that the account belongs to.
    pub groups: Vec<u32>,
    pub asked_groups: Vec<u32>,
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
            return Err(Fault::unsupported(format!(
                "user {} was asked for, but the process mode of user {} has no other",
                identity.uid, own.0
            )));
        }
        identity = Identity {
            uid: own.0,
            gid: own.1,
            groups: Vec::new(),
            asked_groups: Vec::new(),
            home: std::env::var("HOME").unwrap_or_else(|_| "/".into()),
        };
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
                None => {
                    return Err(Fault::invalid(format!(
                        "unable to find user {name}: no matching entries in passwd file"
                    )));
                }
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
    let asked_groups = extra.clone();
    Ok(Identity { uid, gid, groups, asked_groups, home: account.map_or("/", |account| account.home).to_owned() })
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
    let member_of =
        lines.filter(|fields| fields.get(3).is_some_and(|members| members.split(',').any(|member| member == name)));
    member_of.filter_map(|fields| fields.get(2)?.parse().ok()).collect()
}

/// Makes sure that the identity exists in this user namespace; gives back what its account has and the process cannot have.
///
/// Comes before all other confinement: a new user namespace starts with every capability.
pub fn map(identity: &Identity, mode: Mode) -> Result<Option<String>, Fault> {
    if mode != Mode::Rootless || Mapping::current().covers(identity) {
        return Ok(None);
    }
    let warning = without_groups(identity)?;
    map_alone(identity).context(|| format!("map user {} and group {}", identity.uid, identity.gid))?;
    Ok(warning)
}

/// Becomes the identity, for good.
pub fn assume(identity: &Identity, mode: Mode) -> Result<(), Fault> {
    if mode == Mode::Process && sys::ids().0 != 0 {
        return Ok(());
    }
    if mode != Mode::Rootless || Mapping::current().groups_can_be_set {
        sys::set_groups(&identity.groups).context(|| format!("join the groups {:?}", identity.groups))?;
    }
    let what = || format!("become user {} of group {}", identity.uid, identity.gid);
    sys::set_group(identity.gid).context(what)?;
    sys::set_user(identity.uid).context(what)
}

/// Groups that were asked for and cannot be joined are an error; those of the image's account are a warning.
fn without_groups(identity: &Identity) -> Result<Option<String>, Fault> {
    let others = |groups: &[u32]| groups.iter().copied().filter(|group| *group != identity.gid).collect::<Vec<u32>>();
    let (asked, all) = (others(&identity.asked_groups), others(&identity.groups));
    let text =
        |groups: &[u32]| format!("the groups {groups:?} cannot be joined: this user has no subordinate group ids");
    match (asked.is_empty(), all.is_empty()) {
        (false, _) => Err(Fault::unsupported(text(&asked))),
        (true, false) => Ok(Some(text(&all))),
        (true, true) => Ok(None),
    }
}

/// Makes the identity the one user of a user namespace, unless it is so already.
fn map_alone(identity: &Identity) -> io::Result<()> {
    let (uid, gid) = sys::ids();
    if (uid, gid) == (identity.uid, identity.gid) {
        return Ok(());
    }
    sys::unshare(libc::CLONE_NEWUSER)?;
    // The kernel lets nobody write the maps of a process that hides from its own user.
    sys::prctl(libc::PR_SET_DUMPABLE, 1)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {uid} 1", identity.uid))?;
    fs::write("/proc/self/gid_map", format!("{} {gid} 1", identity.gid))
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
        let has =
            |ranges: &[(u32, u32)], id: u32| ranges.iter().any(|(first, count)| id >= *first && id - first < *count);
        let groups_fit = identity.groups.iter().all(|group| has(&self.groups, *group));
        self.groups_can_be_set && has(&self.users, identity.uid) && has(&self.groups, identity.gid) && groups_fit
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
        assert_eq!(
            identity,
            Identity { uid: 1000, gid: 1001, groups: vec![7, 50], asked_groups: vec![7], home: "/home/app".into() }
        );
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
