//! How much of what was submitted may run at a time: quotas of people and of teams, on jobs and on GPUs.
//!
//! Nothing is refused for a quota. What does not fit waits, with a sentence that has the numbers, and what comes after it
//! and fits goes first. The server asks here when something is submitted and when an agent takes something.

use std::collections::BTreeMap;

/// The most that may run at a time; no number means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    pub jobs: Option<i64>,
    pub gpus: Option<i64>,
}

/// What runs now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub jobs: i64,
    pub gpus: i64,
}

/// A person or a team whose quota counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// `user alice` or `team vision`.
    pub name: String,
    pub quota: Quota,
    pub usage: Usage,
}

/// Something that waits in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub item: i64,
    pub user: i64,
    pub gpus: i64,
}

/// What an agent is given, and why others wait longer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    pub item: Option<i64>,
    pub held: Vec<(i64, String)>,
    /// Users whose items wait, all that ask for so many GPUs or more: there is no need to look at further ones.
    pub held_from: BTreeMap<i64, i64>,
}

/// The first that fits, in the order given. `users` has the accounts of those who have a quota.
pub fn choose(waiting: &[Waiting], users: &BTreeMap<i64, Account>, team: Option<&Account>) -> Choice {
    let mut choice = Choice::default();
    for one in waiting {
        let Some(reason) = reason(one.gpus, users.get(&one.user).into_iter().chain(team)) else {
            choice.item = Some(one.item);
            break;
        };
        choice.held.push((one.item, reason));
        let least = choice.held_from.entry(one.user).or_insert(one.gpus);
        *least = one.gpus.min(*least);
    }
    choice
}

/// Why something that needs so many GPUs must wait; nothing if it need not.
pub fn reason<'a>(gpus: i64, accounts: impl IntoIterator<Item = &'a Account>) -> Option<String> {
    accounts.into_iter().find_map(|account| account.reason(gpus))
}

impl Account {
    fn reason(&self, gpus: i64) -> Option<String> {
        let Account { name, quota, usage } = self;
        if let Some(most) = quota.jobs.filter(|most| usage.jobs >= *most) {
            return Some(format!("the quota of {name} is {most} running jobs, and {} run", usage.jobs));
        }
        let most = quota.gpus.filter(|most| gpus > 0 && usage.gpus + gpus > *most)?;
        if gpus > most {
            return Some(format!("the quota of {name} is {most} GPUs, and this needs {gpus}: it can never start"));
        }
        Some(format!("the quota of {name} is {most} GPUs, {} are in use, and this needs {gpus}", usage.gpus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn account(jobs: Option<i64>, gpus: Option<i64>, usage: (i64, i64)) -> Account {
        let usage = Usage { jobs: usage.0, gpus: usage.1 };
        Account { name: "user alice".to_owned(), quota: Quota { jobs, gpus }, usage }
    }

    #[test]
    fn without_quotas_the_first_goes_first() {
        let waiting = [Waiting { item: 1, user: 7, gpus: 8 }, Waiting { item: 2, user: 7, gpus: 0 }];
        assert_eq!(choose(&waiting, &BTreeMap::new(), None), Choice { item: Some(1), ..Choice::default() });
        assert_eq!(choose(&[], &BTreeMap::new(), None), Choice::default());
    }

    #[test]
    fn what_does_not_fit_waits_with_the_numbers_and_lets_others_pass() {
        let users = BTreeMap::from([(7, account(None, Some(4), (1, 3)))]);
        let waiting = [Waiting { item: 1, user: 7, gpus: 2 }, Waiting { item: 2, user: 8, gpus: 2 }];
        let reason = "the quota of user alice is 4 GPUs, 3 are in use, and this needs 2";
        let held_from = BTreeMap::from([(7, 2)]);
        let expected = Choice { item: Some(2), held: vec![(1, reason.to_owned())], held_from };
        assert_eq!(choose(&waiting, &users, None), expected);
    }

    #[test]
    fn the_teams_quota_holds_for_everybody() {
        let team = Account { name: "team vision".to_owned(), ..account(Some(1), None, (1, 0)) };
        let choice = choose(&[Waiting { item: 1, user: 7, gpus: 0 }], &BTreeMap::new(), Some(&team));
        assert_eq!(choice.held, [(1, "the quota of team vision is 1 running jobs, and 1 run".to_owned())]);
    }

    #[test]
    fn what_is_larger_than_the_whole_quota_is_told_so() {
        let told = reason(8, [&account(None, Some(4), (0, 0))]).unwrap();
        assert_eq!(told, "the quota of user alice is 4 GPUs, and this needs 8: it can never start");
    }

    proptest! {
        #[test]
        fn what_need_not_be_looked_at_waits(
            jobs in proptest::option::of(0i64..3), gpus in proptest::option::of(0i64..9), used in (0i64..4, 0i64..9),
            asked in proptest::collection::vec((0i64..3, 0i64..5), 0..20),
        ) {
            let waiting: Vec<Waiting> =
                (0..).zip(&asked).map(|(item, (user, gpus))| Waiting { item, user: *user, gpus: *gpus }).collect();
            let users = BTreeMap::from([(0, account(jobs, gpus, used))]);
            let team = account(None, jobs, used);
            let held_from = choose(&waiting, &users, Some(&team)).held_from;
            for one in waiting.iter().filter(|one| held_from.get(&one.user).is_some_and(|least| one.gpus >= *least)) {
                prop_assert_eq!(choose(&[*one], &users, Some(&team)).item, None);
            }
        }

        #[test]
        fn handing_out_until_nothing_fits_never_passes_a_quota(
            jobs in proptest::option::of(0i64..5), gpus in proptest::option::of(0i64..9),
            asked in proptest::collection::vec((0i64..3, 0i64..5), 0..20),
        ) {
            let mut waiting: Vec<Waiting> =
                (0..).zip(&asked).map(|(item, (user, gpus))| Waiting { item, user: *user, gpus: *gpus }).collect();
            let mut users = BTreeMap::from([(0, account(jobs, gpus, (0, 0)))]);
            let mut team = account(gpus, jobs, (0, 0));
            while let Some(item) = choose(&waiting, &users, Some(&team)).item {
                let at = waiting.iter().position(|one| one.item == item).unwrap();
                let taken = waiting.remove(at);
                for account in users.get_mut(&taken.user).into_iter().chain([&mut team]) {
                    account.usage.jobs += 1;
                    account.usage.gpus += taken.gpus;
                }
            }
            for account in users.values().chain([&team]) {
                prop_assert!(account.quota.jobs.is_none_or(|most| account.usage.jobs <= most));
                prop_assert!(account.quota.gpus.is_none_or(|most| account.usage.gpus <= most));
            }
            let left = choose(&waiting, &users, Some(&team));
            prop_assert_eq!(left.held.len(), waiting.len(), "each that waits has one reason");
        }
    }
}
