//! Why an item still waits in its queue, and for how long it may.

/// What is known of an item that waits.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    pub queue: &'a str,
    /// How many go before it.
    pub before: i64,
    /// An agent of the queue lives.
    pub is_served: bool,
    /// What agents of the queue have in hand.
    pub held: i64,
    pub running_max: Option<i64>,
    /// What was noted when it was last looked at: a quota, or why it was put back.
    pub noted: Option<&'a str>,
}

/// In one sentence, with what to do about it if somebody can.
pub fn reason(facts: &Facts<'_>) -> String {
    let queue = facts.queue;
    if !facts.is_served {
        return format!("no agent serves queue {queue}; start one: volley agent -q {queue}");
    }
    if let Some(most) = facts.running_max.filter(|most| facts.held >= *most) {
        return format!("queue {queue} runs at most {most} at a time, and {} are running", facts.held);
    }
    match (facts.noted, facts.before) {
        (Some(noted), _) => noted.to_owned(),
        (None, 0) => format!("it is the next of queue {queue}, and waits for an agent to have room"),
        (None, before) => format!("{before} before it in queue {queue}"),
    }
}

/// The seconds until an item starts if the queue goes on as it did; nothing if it hardly moved.
///
/// `starts` began lately, and for `waited_s` of that time something waited: a queue that stood empty says nothing of how
/// fast it goes.
pub fn estimate_s(before: i64, starts: i64, waited_s: i64) -> Option<i64> {
    (starts >= 2).then(|| ((before + 1) * waited_s / starts).max(1))
}

/// How long at least one waited, by when each began and ceased to.
pub fn waited(mut waits: Vec<(i64, i64)>) -> i64 {
    waits.sort_unstable();
    let (mut total, mut until) = (0, i64::MIN);
    for (from, to) in waits {
        total += to.saturating_sub(from.max(until)).max(0);
        until = until.max(to);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Facts<'_> =
        Facts { queue: "gpu", before: 0, is_served: true, held: 0, running_max: None, noted: None };

    #[test]
    fn the_reason_is_the_first_thing_that_would_have_to_change() {
        let told = |facts: Facts<'_>| reason(&facts);
        assert_eq!(told(QUIET), "it is the next of queue gpu, and waits for an agent to have room");
        assert_eq!(told(Facts { before: 3, ..QUIET }), "3 before it in queue gpu");
        let noted = Some("user ann runs 2 of 2 jobs");
        assert_eq!(told(Facts { noted, before: 3, ..QUIET }), "user ann runs 2 of 2 jobs");
        let full = Facts { running_max: Some(4), held: 4, noted, ..QUIET };
        assert_eq!(told(full.clone()), "queue gpu runs at most 4 at a time, and 4 are running");
        let alone = Facts { is_served: false, ..full };
        assert_eq!(told(alone), "no agent serves queue gpu; start one: volley agent -q gpu");
    }

    #[test]
    fn a_queue_that_moves_says_when() {
        assert_eq!(estimate_s(0, 1, 600), None);
        assert_eq!(estimate_s(0, 10, 600), Some(60));
        assert_eq!(estimate_s(4, 10, 600), Some(300));
    }

    #[test]
    fn a_queue_that_stood_empty_is_not_slow_for_it() {
        for (waits, expected) in [
            (vec![], 0),
            (vec![(0, 1), (1800, 1801), (3599, 3600)], 3),
            (vec![(50, 90), (0, 60), (10, 20)], 90),
            (vec![(5, 3)], 0),
        ] {
            assert_eq!(waited(waits.clone()), expected, "{waits:?}");
        }
        let hour = waited(vec![(0, 1), (1800, 1801), (3599, 3600)]);
        assert_eq!(estimate_s(0, 3, hour), Some(1));
        assert_eq!(estimate_s(0, 2, 0), Some(1));
    }
}
