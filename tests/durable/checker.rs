//! Whether a correct queue could have said what clients were told.
//!
//! Operations have a beginning and, if an answer came, an end; between the two they took effect, if they did at all. One
//! without an answer may have taken effect then or never. Every rule is about what must hold whichever way it was.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time since the beginning of the test.
pub type Moment = Duration;
/// An item of the queue by its number, which rises with age.
pub type Item = i64;

/// How long a lease holds; nobody else may have the item before.
const LEASE: Duration = Duration::from_secs(60);
/// How long after a client lost its connection PostgreSQL may still hold the lock of what it was taking.
const LOCK_LINGERS: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub struct Operation {
    pub begin: Moment,
    /// When the answer came, or when it was clear that none would.
    pub end: Moment,
    pub deed: Deed,
}

#[derive(Clone, Debug)]
pub enum Deed {
    /// A tag that nobody else uses; its item, if the answer came.
    Submit {
        tag: String,
        priority: i64,
        item: Option<Item>,
    },
    Pop(Popped),
    /// Whether it was granted, if the answer came.
    Acknowledge {
        item: Item,
        lease: i64,
        run: String,
        granted: Option<bool>,
    },
    /// The lines of a run from an offset on; whether they are known to be kept.
    Log {
        run: String,
        offset: usize,
        lines: Vec<String>,
        is_kept: bool,
    },
    Stop {
        run: String,
        is_done: bool,
    },
}

#[derive(Clone, Debug)]
pub enum Popped {
    Unknown,
    Nothing,
    Leased { item: Item, lease: i64, tag: String },
}

/// What is there in the end.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub items: BTreeMap<Item, Kept>,
    /// The lines of each run.
    pub logs: BTreeMap<String, Vec<String>>,
    pub stopped: BTreeSet<String>,
}

#[derive(Clone, Debug)]
pub struct Kept {
    pub tag: String,
    pub priority: i64,
    pub state: String,
    pub run: Option<String>,
}

/// Everything that is wrong, in sentences.
pub fn check(operations: &[Operation], outcome: &Outcome) -> Vec<String> {
    let mut wrong = Vec::new();
    submits(operations, outcome, &mut wrong);
    leases(operations, outcome, &mut wrong);
    acknowledgements(operations, outcome, &mut wrong);
    order(operations, outcome, &mut wrong);
    logs(operations, outcome, &mut wrong);
    wrong
}

/// What was acknowledged is there once, as it was submitted; nothing else is; ages follow the clock.
fn submits(operations: &[Operation], outcome: &Outcome, wrong: &mut Vec<String>) {
    let mut kept: BTreeMap<&str, Vec<Item>> = BTreeMap::new();
    for (item, found) in &outcome.items {
        kept.entry(&found.tag).or_default().push(*item);
    }
    let mut ages = Vec::new();
    for operation in operations {
        let Deed::Submit { tag, priority, item } = &operation.deed else { continue };
        let found = kept.remove(tag.as_str()).unwrap_or_default();
        match (item, &found[..]) {
            (Some(item), [only]) if item == only => ages.push((operation.begin, operation.end, *item)),
            (None, [] | [_]) => (),
            _ => wrong.push(format!("`{tag}` was submitted as {item:?} and is kept as {found:?}")),
        }
        if let Some(other) = found.first().map(|item| outcome.items[item].priority).filter(|other| other != priority) {
            wrong.push(format!("`{tag}` was submitted with priority {priority} and is kept with {other}"));
        }
    }
    wrong.extend(kept.keys().map(|tag| format!("nobody submitted `{tag}`")));
    // Whoever ended before another began is older than it.
    ages.sort_by_key(|(begin, _, _)| *begin);
    let mut ended: Vec<(Moment, Item)> = ages.iter().map(|(_, end, item)| (*end, *item)).collect();
    ended.sort();
    let (mut next, mut youngest) = (0, Item::MIN);
    for (begin, _, item) in ages {
        while next < ended.len() && ended[next].0 < begin {
            youngest = youngest.max(ended[next].1);
            next += 1;
        }
        if item < youngest {
            wrong.push(format!("item {item} was submitted after {youngest} and is older"));
        }
    }
}

/// Each lease is given to one agent, with what was submitted; the next number comes only when the one before has run out.
fn leases(operations: &[Operation], outcome: &Outcome, wrong: &mut Vec<String>) {
    let mut given: BTreeMap<(Item, i64), &Operation> = BTreeMap::new();
    let mut unknown = 0usize;
    for operation in operations {
        match &operation.deed {
            Deed::Pop(Popped::Leased { item, lease, tag }) => {
                if outcome.items.get(item).is_none_or(|kept| kept.tag != *tag) {
                    wrong.push(format!("item {item} was popped as `{tag}`, which is not what it is"));
                }
                if given.insert((*item, *lease), operation).is_some() {
                    wrong.push(format!("lease {lease} of item {item} was given twice"));
                }
            }
            Deed::Pop(Popped::Unknown) => unknown += 1,
            _ => (),
        }
    }
    let mut missing = 0usize;
    let mut before: Option<(Item, i64, Moment)> = None;
    for ((item, lease), operation) in given {
        let (last, begun) = match before {
            Some((same, last, begun)) if same == item => (last, Some(begun)),
            _ => (0, None),
        };
        missing += usize::try_from(lease - last - 1).unwrap_or(0);
        if let Some(begun) = begun
            && operation.end < begun + LEASE
        {
            wrong.push(format!("lease {lease} of item {item} was given before lease {last} had run out"));
        }
        before = Some((item, lease, operation.begin));
    }
    if missing > unknown {
        wrong.push(format!("{missing} leases were given to nobody, but only {unknown} answers were lost"));
    }
}

/// An item is started once, by who holds its newest lease, and stays so.
fn acknowledgements(operations: &[Operation], outcome: &Outcome, wrong: &mut Vec<String>) {
    let mut leased: BTreeMap<Item, Vec<(i64, &Operation)>> = BTreeMap::new();
    for operation in operations {
        if let Deed::Pop(Popped::Leased { item, lease, .. }) = &operation.deed {
            leased.entry(*item).or_default().push((*lease, operation));
        }
    }
    let mut starts: BTreeMap<Item, BTreeSet<(i64, &str)>> = BTreeMap::new();
    for operation in operations {
        let Deed::Acknowledge { item, lease, run, granted: Some(granted) } = &operation.deed else { continue };
        let newer = leased.get(item).into_iter().flatten().filter(|(other, _)| other > lease);
        if *granted {
            starts.entry(*item).or_default().insert((*lease, run));
            if newer.clone().any(|(_, pop)| pop.end < operation.begin) {
                wrong.push(format!("lease {lease} of item {item} was acknowledged after a newer one was given"));
            }
            let kept = outcome.items.get(item);
            let is_kept = kept.is_some_and(|kept| {
                kept.run.as_deref() == Some(run) && !["PENDING", "LEASED"].contains(&kept.state.as_str())
            });
            if !is_kept {
                wrong.push(format!("item {item} was acknowledged for `{run}` and is kept as {kept:?}"));
            }
        } else if newer.count() == 0 {
            wrong.push(format!("lease {lease} of item {item} was refused, although nobody has a newer one"));
        }
    }
    let twice = starts.iter().filter(|(_, starts)| starts.len() > 1);
    wrong.extend(twice.map(|(item, starts)| format!("item {item} was started more than once: {starts:?}")));
}

/// An item that waited for the whole of a pop is not passed over for one that comes behind it.
fn order(operations: &[Operation], outcome: &Outcome, wrong: &mut Vec<String>) {
    // When an item was first taken, if that is known: a first lease whose answer was lost is not.
    let mut popped: BTreeMap<Item, Moment> = BTreeMap::new();
    let (mut lost, mut pops, mut last) = (Vec::new(), Vec::new(), Moment::ZERO);
    for operation in operations {
        last = last.max(operation.end);
        match &operation.deed {
            Deed::Pop(Popped::Leased { item, lease, .. }) => {
                if *lease == 1 {
                    popped.insert(*item, operation.begin);
                }
                pops.push((operation, *item));
            }
            Deed::Pop(Popped::Unknown) => lost.push(operation),
            _ => (),
        }
    }
    // A lease that ran out is shown as waiting, so this can be told only before the first one could.
    let is_young = last < LEASE || lost.is_empty();
    let mut arrivals: Vec<(Moment, (i64, Item))> = Vec::new();
    for operation in operations {
        if let Deed::Submit { priority, item: Some(item), .. } = &operation.deed {
            // One that was taken without an answer waited until nobody knows when.
            let is_waiting = is_young && outcome.items.get(item).is_some_and(|kept| kept.state == "PENDING");
            if popped.contains_key(item) || is_waiting {
                arrivals.push((operation.end, (*priority, *item)));
            }
        }
    }
    arrivals.sort();
    pops.sort_by_key(|(operation, _)| operation.begin);
    let mut waiting: BTreeSet<(i64, Item)> = BTreeSet::new();
    let mut arrived = arrivals.into_iter().peekable();
    for (pop, item) in pops {
        while let Some((_, key)) = arrived.next_if(|(at, _)| *at < pop.begin) {
            waiting.insert(key);
        }
        let Some(kept) = outcome.items.get(&item) else { continue };
        let mine = (kept.priority, item);
        let gone: Vec<_> = waiting
            .range(..mine)
            .filter(|(_, other)| popped.get(other).is_some_and(|at| *at < pop.begin))
            .copied()
            .collect();
        for key in gone {
            waiting.remove(&key);
        }
        let is_passed_over = |(_, other): &&(i64, Item)| popped.get(other).is_none_or(|at| *at > pop.end);
        let passed_over: Vec<_> = waiting.range(..mine).filter(is_passed_over).collect();
        let may_hold = |lost: &&&Operation| lost.begin < pop.end && lost.end + LOCK_LINGERS > pop.begin;
        if passed_over.len() > lost.iter().filter(may_hold).count() {
            wrong.push(format!("item {item} was popped although these waited before it: {passed_over:?}"));
        }
    }
}

/// A run's lines are those that were sent, in order, each once, up to at least the last that was acknowledged.
fn logs(operations: &[Operation], outcome: &Outcome, wrong: &mut Vec<String>) {
    let mut sent: BTreeMap<&str, (Vec<&str>, usize)> = BTreeMap::new();
    for operation in operations {
        match &operation.deed {
            Deed::Log { run, offset, lines, is_kept } => {
                let (all, kept) = sent.entry(run).or_default();
                all.truncate(*offset);
                all.extend(lines.iter().map(String::as_str));
                if *is_kept {
                    *kept = all.len();
                }
            }
            Deed::Stop { run, is_done: true } if !outcome.stopped.contains(run) => {
                wrong.push(format!("run `{run}` was stopped and is not"));
            }
            _ => (),
        }
    }
    for (run, (all, kept)) in sent {
        let found = outcome.logs.get(run).map(Vec::as_slice).unwrap_or_default();
        if found.len() < kept || found.len() > all.len() || found.iter().zip(&all).any(|(one, other)| one != other) {
            wrong.push(format!("run `{run}` has {} lines, {kept} were acknowledged of {}", found.len(), all.len()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begin: u64, end: u64, deed: Deed) -> Operation {
        Operation { begin: Moment::from_secs(begin), end: Moment::from_secs(end), deed }
    }

    fn submit(tag: &str, priority: i64, item: Option<Item>) -> Deed {
        Deed::Submit { tag: tag.to_owned(), priority, item }
    }

    fn pop(item: Item, lease: i64) -> Deed {
        let tag = ["a", "b", "b"][usize::try_from(item - 1).unwrap_or(0) % 3].to_owned();
        Deed::Pop(Popped::Leased { item, lease, tag })
    }

    fn acknowledge(item: Item, lease: i64, granted: bool) -> Deed {
        Deed::Acknowledge { item, lease, run: format!("run-{item}"), granted: Some(granted) }
    }

    fn log(offset: usize, lines: &[&str], is_kept: bool) -> Deed {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        Deed::Log { run: "r".to_owned(), offset, lines, is_kept }
    }

    fn items(kept: &[(Item, &str, i64, &str)]) -> Outcome {
        let kept = kept.iter().map(|(item, tag, priority, state)| {
            let run = (*state == "CLAIMED").then(|| format!("run-{item}"));
            (*item, Kept { tag: (*tag).to_owned(), priority: *priority, state: (*state).to_owned(), run })
        });
        Outcome { items: kept.collect(), ..Outcome::default() }
    }

    fn lines(lines: &[&str]) -> Outcome {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        Outcome { logs: BTreeMap::from([("r".to_owned(), lines)]), ..Outcome::default() }
    }

    /// The sentences have these words, one each, in order.
    #[track_caller]
    fn check_says(operations: &[Operation], outcome: &Outcome, words: &[&str]) {
        let wrong = check(operations, outcome);
        let is_as_told = wrong.len() == words.len() && wrong.iter().zip(words).all(|(one, word)| one.contains(word));
        assert!(is_as_told, "{wrong:#?}");
    }

    #[test]
    fn a_good_history_is_good() {
        let operations = [
            at(0, 1, submit("a", 2, Some(1))),
            at(0, 9, submit("lost", 2, None)),
            at(2, 3, submit("b", 0, Some(3))),
            at(4, 5, pop(3, 1)),
            at(6, 7, pop(1, 1)),
            at(8, 9, acknowledge(3, 1, true)),
            at(70, 71, pop(1, 2)),
            at(72, 73, acknowledge(1, 1, false)),
            at(74, 75, Deed::Pop(Popped::Nothing)),
            at(74, 75, Deed::Pop(Popped::Unknown)),
        ];
        check_says(&operations, &items(&[(1, "a", 2, "LEASED"), (3, "b", 0, "CLAIMED")]), &[]);
        let operations = [at(0, 1, log(0, &["x"], true)), at(2, 3, log(1, &["y", "z"], false))];
        check_says(&operations, &lines(&["x"]), &[]);
        check_says(&operations, &lines(&["x", "y", "z"]), &[]);
    }

    #[test]
    fn a_lost_a_doubled_and_an_invented_item_are_noticed() {
        let operations = [at(0, 1, submit("a", 2, Some(1)))];
        check_says(&operations, &items(&[]), &["`a` was submitted as Some(1) and is kept as []"]);
        check_says(&operations, &items(&[(1, "a", 2, "PENDING"), (2, "a", 2, "PENDING")]), &["kept as [1, 2]"]);
        check_says(&operations, &items(&[(1, "a", 2, "PENDING"), (2, "b", 2, "PENDING")]), &["nobody submitted `b`"]);
        check_says(&operations, &items(&[(1, "a", 0, "PENDING")]), &["priority 2 and is kept with 0"]);
        let operations = [at(0, 1, submit("a", 2, Some(2))), at(2, 3, submit("b", 2, Some(1)))];
        check_says(&operations, &items(&[(1, "b", 2, "PENDING"), (2, "a", 2, "PENDING")]), &["is older"]);
    }

    #[test]
    fn an_item_that_two_agents_hold_is_noticed() {
        let leased = items(&[(1, "a", 2, "LEASED")]);
        let submitted = at(0, 1, submit("a", 2, Some(1)));
        let twice = [submitted.clone(), at(2, 3, pop(1, 1)), at(4, 5, pop(1, 1))];
        check_says(&twice, &leased, &["lease 1 of item 1 was given twice"]);
        let early = [submitted.clone(), at(2, 3, pop(1, 1)), at(4, 5, pop(1, 2))];
        check_says(&early, &leased, &["before lease 1 had run out"]);
        let skipped = [submitted.clone(), at(2, 3, pop(1, 2))];
        check_says(&skipped, &leased, &["1 leases were given to nobody"]);
        let other = Deed::Pop(Popped::Leased { item: 1, lease: 1, tag: "z".to_owned() });
        check_says(&[submitted, at(2, 3, other)], &leased, &["popped as `z`"]);
    }

    #[test]
    fn a_lost_a_double_and_a_stale_start_are_noticed() {
        let begin = [at(0, 1, submit("a", 2, Some(1))), at(2, 3, pop(1, 1))];
        let with = |more: &[Operation]| [&begin[..], more].concat();
        let leased = items(&[(1, "a", 2, "LEASED")]);
        let claimed = items(&[(1, "a", 2, "CLAIMED")]);
        check_says(&with(&[at(4, 5, acknowledge(1, 1, true))]), &claimed, &[]);
        check_says(&with(&[at(4, 5, acknowledge(1, 1, true))]), &leased, &["was acknowledged for `run-1`"]);
        check_says(&with(&[at(4, 5, acknowledge(1, 1, false))]), &leased, &["although nobody has a newer one"]);
        let stale = with(&[at(70, 71, pop(1, 2)), at(72, 73, acknowledge(1, 1, true))]);
        check_says(&stale, &claimed, &["after a newer one was given"]);
        let double =
            with(&[at(70, 73, pop(1, 2)), at(72, 74, acknowledge(1, 1, true)), at(75, 76, acknowledge(1, 2, true))]);
        check_says(&double, &claimed, &["was started more than once"]);
    }

    #[test]
    fn an_item_that_is_passed_over_is_noticed() {
        let submitted = [at(0, 1, submit("a", 0, Some(1))), at(0, 1, submit("b", 2, Some(2)))];
        let with = |more: &[Operation]| [&submitted[..], more].concat();
        let one = items(&[(1, "a", 0, "PENDING"), (2, "b", 2, "LEASED")]);
        check_says(&with(&[at(2, 3, pop(2, 1))]), &one, &["these waited before it: [(0, 1)]"]);
        let both = items(&[(1, "a", 0, "LEASED"), (2, "b", 2, "LEASED")]);
        check_says(&with(&[at(2, 3, pop(2, 1)), at(4, 5, pop(1, 1))]), &both, &["these waited before it"]);
        check_says(&with(&[at(2, 5, pop(2, 1)), at(4, 5, pop(1, 1))]), &both, &[]);
        // Somebody whose answer was lost may have taken it, or been taking it.
        check_says(&with(&[at(2, 3, pop(2, 1)), at(2, 3, Deed::Pop(Popped::Unknown))]), &one, &[]);
        check_says(&with(&[at(2, 3, pop(2, 1))]), &both, &[]);
        // It came back when the lease ran out whose answer was lost.
        let lapsed = [at(2, 3, Deed::Pop(Popped::Unknown)), at(20, 21, pop(2, 1)), at(90, 91, pop(1, 2))];
        check_says(&with(&lapsed), &both, &[]);
    }

    #[test]
    fn lost_doubled_and_changed_lines_are_noticed() {
        let operations = [at(0, 1, log(0, &["x", "y"], true)), at(2, 3, log(2, &["z"], false))];
        for bad in [&["x"][..], &["x", "y", "y"], &["x", "z"], &["x", "y", "z", "z"], &[]] {
            check_says(&operations, &lines(bad), &["were acknowledged of 3"]);
        }
        let stopped = [at(0, 1, Deed::Stop { run: "r".to_owned(), is_done: true })];
        check_says(&stopped, &Outcome::default(), &["was stopped and is not"]);
    }
}
