//! HyperNodes as domains: sets of nodes, each within the next (spec/volcano.md 1.8 and 9.1).

use super::amounts::PODS;
use super::candidates::part;
use super::objects::{Choice, HyperNode, Topology};
use super::room::Room;
use super::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};

/// What a domain of the lowest tier counts; beyond so many tiers nothing is left of it.
const WHOLE: i64 = 1_000_000;
const TIERS_MAX: u32 = 64;

#[derive(Debug, Clone)]
pub struct Domain {
    pub name: String,
    pub tier: i64,
    tier_name: String,
    /// Positions in the room, ascending.
    pub nodes: Vec<u32>,
}

impl Domain {
    pub fn holds(&self, position: usize) -> bool {
        self.nodes.binary_search(&(position as u32)).is_ok()
    }
}

/// All domains, the closest first.
#[derive(Debug, Clone, Default)]
pub struct Domains {
    pub all: Vec<Domain>,
}

impl Domains {
    pub fn new(room: &Room) -> Domains {
        let snapshot = room.snapshot;
        let mut known: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for name in snapshot.hyper_nodes.keys() {
            resolve(snapshot, room, name, &mut known, &mut BTreeSet::new());
        }
        let domain = |(name, tree): (&String, &HyperNode)| Domain {
            name: name.clone(),
            tier: tree.tier,
            tier_name: tree.tier_name.clone(),
            nodes: known.get(&**name).into_iter().flatten().copied().collect(),
        };
        let mut all: Vec<Domain> = snapshot.hyper_nodes.iter().map(domain).collect();
        all.sort_by(|a, b| (a.tier, &a.name).cmp(&(b.tier, &b.name)));
        Domains { all }
    }

    /// Where a gang with a hard topology may go: domains of an allowed tier that hold all that is placed already.
    pub fn allowed(&self, topology: &Topology, placed: &[usize]) -> Vec<&Domain> {
        let named = self.all.iter().find(|domain| domain.tier_name == topology.highest_tier_name);
        let named = named.filter(|_| !topology.highest_tier_name.is_empty()).map(|domain| domain.tier);
        let highest = topology.highest_tier.or(named).unwrap_or(i64::MAX);
        let is_allowed = |domain: &&Domain| domain.tier <= highest && placed.iter().all(|at| domain.holds(*at));
        self.all.iter().filter(is_allowed).collect()
    }

    /// How full the domains around each node are, of 100,000; each tier counts less than the one below it (NT-7).
    ///
    /// As things stand before a round: pods that need no domain go where domains are in use, and leave whole ones to
    /// gangs that need them.
    pub fn fill(&self, room: &Room) -> Vec<i64> {
        let fading = room.snapshot.policy.weights.fill_fading;
        let lowest = self.all.first().map_or(0, |domain| domain.tier);
        let mut sums = vec![(0_i64, 0_i64); room.nodes.len()];
        for domain in &self.all {
            let tier = u32::try_from(domain.tier - lowest).unwrap_or(u32::MAX).min(TIERS_MAX);
            let weight = (0..tier).fold(WHOLE, |weight, _| weight * fading / 1000);
            let full = fullness(room, domain);
            for position in &domain.nodes {
                let (sum, weights) = &mut sums[*position as usize];
                (*sum, *weights) = (*sum + weight * full, *weights + weight);
            }
        }
        sums.into_iter().map(|(sum, weights)| sum / weights.max(1)).collect()
    }

    /// Domains that hold all these positions, the closest first.
    pub fn common(&self, placed: &[usize]) -> Vec<&Domain> {
        self.all.iter().filter(|domain| placed.iter().all(|at| domain.holds(*at))).collect()
    }
}

/// The mean part of the domain's resources that is in use, of 100,000.
fn fullness(room: &Room, domain: &Domain) -> i64 {
    let (mut free, mut total) = (vec![0_i64; room.width()], vec![0_i64; room.width()]);
    for position in &domain.nodes {
        let (have, all) = (room.free(*position as usize), room.total(*position as usize));
        free.iter_mut().zip(have).for_each(|(sum, one)| *sum += (*one).max(0));
        total.iter_mut().zip(all).for_each(|(sum, one)| *sum += one);
    }
    let known = |resource: &usize| *resource != PODS && total[*resource] > 0;
    let parts: Vec<i64> = (0..room.width())
        .filter(known)
        .map(|resource| part(total[resource] - free[resource], total[resource]))
        .collect();
    parts.iter().sum::<i64>() / i64::try_from(parts.len()).unwrap_or(1).max(1)
}

/// How near the node is to what is placed in all of these domains, of 100,000 (NT-5).
pub fn nearness(common: &[&Domain], position: usize) -> i64 {
    let (Some(first), Some(last)) = (common.first(), common.last()) else { return 0 };
    let Some(shared) = common.iter().find(|domain| domain.holds(position)) else { return 0 };
    // One tier more for the root that holds all nodes: what only it has in common is worth nothing.
    100_000 * (last.tier + 1 - shared.tier) / (last.tier + 1 - first.tier)
}

/// The nodes of a HyperNode and of all below it; one that is below itself adds nothing.
fn resolve<'a>(
    snapshot: &'a Snapshot,
    room: &Room,
    name: &'a str,
    known: &mut BTreeMap<&'a str, BTreeSet<u32>>,
    above: &mut BTreeSet<&'a str>,
) -> BTreeSet<u32> {
    if let Some(nodes) = known.get(name) {
        return nodes.clone();
    }
    let Some(tree) = snapshot.hyper_nodes.get(name).filter(|_| above.insert(name)) else { return BTreeSet::new() };
    let mut nodes = BTreeSet::new();
    for member in &tree.members {
        if member.is_node {
            if let Choice::Name(name) = &member.choice {
                let found = room.nodes.binary_search_by(|node| (*node.name).cmp(name));
                nodes.extend(found.ok().map(|position| position as u32));
                continue;
            }
            let chosen = room.nodes.iter().enumerate().filter(|(_, node)| match &member.choice {
                Choice::Name(name) => **name == *node.name,
                Choice::Pattern(pattern) => pattern.as_ref().is_some_and(|pattern| pattern.is_match(&node.name)),
                Choice::Labels(selector) => selector.matches_with(|key| node.labels.get(key)),
            });
            nodes.extend(chosen.map(|(position, _)| position as u32));
            continue;
        }
        let below = snapshot.hyper_nodes.keys().filter(|other| match &member.choice {
            Choice::Name(name) => name == *other,
            Choice::Pattern(pattern) => pattern.as_ref().is_some_and(|pattern| pattern.is_match(other)),
            Choice::Labels(_) => false,
        });
        for other in below.collect::<Vec<_>>() {
            nodes.extend(resolve(snapshot, room, other, known, above));
        }
    }
    above.remove(name);
    known.insert(name, nodes.clone());
    nodes
}
