//! What must go before a gang fits: the shortest beginning of a list of units, then without what turns out not to help.
//!
//! What was promised to others before is done first in every trial: who goes for them is gone, and they are where they will
//! be. So what their victims leave beyond that is there for the next.

use super::amounts::Amounts;
use super::kin::Kin;
use super::objects::{GangId, PodId};
use super::room::{Hold, Room, Step};
use std::collections::{BTreeMap, BTreeSet};

/// Pods that go together or not at all.
#[derive(Debug, Clone)]
pub struct Unit {
    pub gang: Option<GangId>,
    pub queue: Option<usize>,
    pub pods: Vec<PodId>,
    /// The gang's minimum: what is above it goes with it.
    pub is_core: bool,
    /// Seconds of work that would be lost.
    pub cost: i64,
    pub held: Amounts,
    pub until: Option<i64>,
    /// It goes anyhow, whoever waits for it.
    pub is_leaving: bool,
}

/// What has to go, where the gang would then be, and what others may not take meanwhile.
#[derive(Debug)]
pub struct Trial {
    pub units: Vec<usize>,
    pub puts: Vec<(PodId, u32)>,
    pub holds: Vec<Hold>,
}

/// Room that is being made for a gang: whose pods go for it, and where its own will be.
#[derive(Debug, Clone, Default)]
pub struct Promise {
    pub gone: Vec<PodId>,
    pub puts: Vec<(PodId, u32)>,
}

/// Who could go for a gang, whose going its queue has something of, and what has been promised to others before.
#[derive(Debug)]
pub struct Options<'b> {
    pub units: &'b [Unit],
    pub kin: &'b Kin,
    pub promises: &'b [Promise],
}

impl Options<'_> {
    fn keep_promises(&self, room: &mut Room) {
        self.promises.iter().flat_map(|promise| &promise.gone).for_each(|pod| room.remove(*pod));
        let puts = self.promises.iter().flat_map(|promise| &promise.puts);
        puts.for_each(|(pod, position)| room.put(*pod, *position as usize));
    }

    fn remove(&self, room: &mut Room, units: &[Unit], freed: &mut [Amounts]) {
        for unit in units {
            unit.pods.iter().for_each(|pod| room.remove(*pod));
            self.kin.give(freed, unit.queue, &unit.held);
        }
    }

    fn fits_without<'a>(&self, room: &mut Room<'a>, chosen: &[usize], fits: Fits<'_, 'a>) -> bool {
        let mut freed = self.kin.nothing();
        self.keep_promises(room);
        chosen.iter().for_each(|at| self.remove(room, std::slice::from_ref(&self.units[*at]), &mut freed));
        fits(room, &freed)
    }

    /// Where the gang's pods were put since `start`, after those of the promises.
    fn puts(&self, room: &Room, start: usize) -> Vec<(PodId, u32)> {
        let promised: usize = self.promises.iter().map(|promise| promise.puts.len()).sum();
        let put = |step: &Step| match step {
            Step::Put(pod, position) => Some((*pod, *position)),
            Step::Remove(..) => None,
        };
        room.steps[start..].iter().filter_map(put).skip(promised).collect()
    }
}

/// Whether the gang fits, told what units have given back to its queue and to each above it; puts it into the room if so.
pub type Fits<'f, 'a> = &'f mut dyn FnMut(&mut Room<'a>, &[Amounts]) -> bool;

/// The shortest beginning of `units`, with what leaves anyhow, after which the gang fits. The room is as before.
///
/// What is known to be too few stays removed, so that each unit is removed a few times only.
pub fn shortest<'a>(room: &mut Room<'a>, options: &Options, fits: Fits<'_, 'a>) -> Option<usize> {
    let units = options.units;
    let leaving = units.iter().take_while(|unit| unit.is_leaving).count();
    let start = room.steps.len();
    let mut freed = options.kin.nothing();
    options.keep_promises(room);
    options.remove(room, &units[..leaving], &mut freed);
    let rest = &units[leaving..];
    let (mut low, mut high) = (0_usize, None);
    loop {
        let next = match high {
            Some(high) if high - low <= 1 => break,
            Some(high) => low.midpoint(high),
            None if low == rest.len() => break,
            None => (low * 2).clamp(low + 1, rest.len()),
        };
        let (kept, before) = (room.steps.len(), freed.clone());
        options.remove(room, &rest[low..next], &mut freed);
        let removed = room.steps.len();
        if fits(room, &freed) {
            high = Some(next);
            room.undo_to(kept);
            freed = before;
        } else {
            room.undo_to(removed);
            low = next;
        }
    }
    room.undo_to(start);
    high.map(|high| leaving + high)
}

/// Of the first `count` units those without which the gang would not fit. The room is as before.
pub fn needed<'a>(room: &mut Room<'a>, options: &Options, count: usize, fits: Fits<'_, 'a>) -> Option<Trial> {
    let units = options.units;
    let start = room.steps.len();
    let mut chosen: Vec<usize> = (0..count).collect();
    if !options.fits_without(room, &chosen, fits) {
        room.undo_to(start);
        return None;
    }
    // What is on no node that the gang goes to does not help; a last look makes sure of it.
    let used: BTreeSet<u32> = options.puts(room, start).into_iter().map(|(_, position)| position).collect();
    let helps = |unit: &Unit| {
        let position = |pod: &PodId| room.position_of(*pod);
        options.kin.contains(unit.queue) || unit.pods.iter().filter_map(position).any(|at| used.contains(&(at as u32)))
    };
    let cores: BTreeSet<Option<GangId>> =
        units[..count].iter().filter(|unit| unit.is_core && helps(unit)).map(|unit| unit.gang).collect();
    let near: Vec<usize> =
        chosen.iter().copied().filter(|at| helps(&units[*at]) || cores.contains(&units[*at].gang)).collect();
    room.undo_to(start);
    if options.fits_without(room, &near, fits) {
        chosen = near;
    }
    room.undo_to(start);
    let mut order = chosen.clone();
    // Those who would be evicted are spared first, then what leaves anyhow and others may have.
    order.sort_by_key(|at| std::cmp::Reverse((!units[*at].is_leaving, units[*at].is_core, units[*at].cost, *at)));
    for at in order {
        let is_bound = |other: &usize| units[*other].is_core && units[*other].gang == units[at].gang;
        if !units[at].is_core && chosen.iter().any(is_bound) {
            continue;
        }
        let rest: Vec<usize> = chosen.iter().copied().filter(|other| *other != at).collect();
        if options.fits_without(room, &rest, fits) {
            chosen = rest;
        }
        room.undo_to(start);
    }
    settle(room, options, chosen, fits)
}

/// Whether the gang fits without the chosen units. The room is as before.
pub fn is_enough<'a>(room: &mut Room<'a>, options: &Options, chosen: &[usize], fits: Fits<'_, 'a>) -> bool {
    let start = room.steps.len();
    let is_enough = options.fits_without(room, chosen, fits);
    room.undo_to(start);
    is_enough
}

/// Puts the gang where it would be, notes what that keeps from others, and leaves the room as before.
pub fn settle<'a>(room: &mut Room<'a>, options: &Options, chosen: Vec<usize>, fits: Fits<'_, 'a>) -> Option<Trial> {
    let start = room.steps.len();
    if !options.fits_without(room, &chosen, fits) {
        room.undo_to(start);
        return None;
    }
    let puts = options.puts(room, start);
    let spare: BTreeMap<u32, Amounts> =
        puts.iter().map(|(_, position)| (*position, room.free(*position as usize).to_vec())).collect();
    room.undo_to(start);
    let hold = |(position, spare): (u32, Amounts)| {
        let now = room.free(position as usize);
        let amounts = now.iter().zip(spare).map(|(now, spare)| (now - spare).max(0)).collect();
        Hold { position, amounts }
    };
    Some(Trial { units: chosen, holds: spare.into_iter().map(hold).collect(), puts })
}
