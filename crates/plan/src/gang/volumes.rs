//! Volumes: which one a claim gets where its pod goes, who may use a claim, how many volumes a node takes.
//!
//! A claim that waits for its pod gets the smallest volume that fits and can be used on the pod's node, as Kubernetes' own
//! scheduler chooses; if there is none, one is made there, unless nobody makes volumes of its class. What pods that were put
//! in a room have chosen is not for others.

use super::fit::Refusal;
use super::objects::{Capacity, Claim, ClaimKey, Class, Key, PodId, ShapeId, Volume};
use super::room::Room;
use super::shape::Shape;
use super::snapshot::Snapshot;
use super::why::WaitingOn;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use volley_api::kube::quantity::Quantity;

/// What a claim is told by: whoever makes its volume makes it there.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// Says of a volume that nobody chose its claim by hand.
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const HOSTNAME: &str = "kubernetes.io/hostname";

/// What a shape's claims ask of a node beyond where their volumes are.
#[derive(Debug)]
struct Needs<'a> {
    /// Claims that get their volume where the pod goes, the smallest first.
    open: Vec<(ClaimKey, &'a Claim)>,
    /// Claims that one pod at a time may use.
    exclusive: Vec<ClaimKey>,
    /// Volumes that are attached to its node: the driver, and what tells the volume from others.
    attached: Vec<(&'a str, String)>,
}

/// The free volumes of a class, the smallest first.
#[derive(Debug, Default)]
struct Stock<'a> {
    at: BTreeMap<u32, Vec<Offer<'a>>>,
    anywhere: Vec<Offer<'a>>,
    /// How large a volume can be made on each node, if whoever makes them tells.
    storage: Option<BTreeMap<u32, Quantity>>,
}

type Offer<'a> = (&'a str, &'a Volume);

/// What a room knows of volumes.
#[derive(Debug, Default)]
pub struct Volumes<'a> {
    needs: BTreeMap<ShapeId, Option<Rc<Needs<'a>>>>,
    stocks: BTreeMap<&'a str, Rc<Stock<'a>>>,
    /// What claims of pods that were put here get, and for which pod first; nothing if their volume is to be made.
    picked: BTreeMap<ClaimKey, (PodId, Option<&'a str>)>,
    taken: BTreeSet<&'a str>,
}

/// Whether volumes must be looked for node by node; else one is made wherever the pod goes.
pub fn is_choosy(snapshot: &Snapshot, key: &ClaimKey, claim: &Claim) -> bool {
    let decides = |class: &Class| class.is_static() || is_metered(snapshot, class);
    snapshot.storage_classes.get(&claim.class).is_some_and(decides) || may_have_one(snapshot, key, claim)
}

/// Who may not read capacities, or has none of any class, is not kept from making volumes.
fn is_metered(snapshot: &Snapshot, class: &Class) -> bool {
    snapshot.metered.contains(&class.provisioner) && !snapshot.capacities.is_empty()
}

/// Whether there are volumes that the claim could have.
pub fn may_have_one(snapshot: &Snapshot, key: &ClaimKey, claim: &Claim) -> bool {
    snapshot.stock.contains_key(&claim.class) || snapshot.owned.contains_key(key)
}

/// Whether it matters to the shape which claims others use, which volumes are left, or how many a node takes.
pub fn matter_to(snapshot: &Snapshot, shape: &Shape) -> bool {
    !shape.claims.is_empty() && needs(snapshot, shape).is_some()
}

fn needs<'a>(snapshot: &'a Snapshot, shape: &Shape) -> Option<Needs<'a>> {
    let mut needs = Needs { open: Vec::new(), exclusive: Vec::new(), attached: Vec::new() };
    for key in shape.claim_keys() {
        let Some((known, claim)) = snapshot.claims.get_key_value(&key) else { continue };
        if claim.is_exclusive() {
            needs.exclusive.push(key.clone());
        }
        if snapshot.nodes_with_limits > 0 {
            needs.attached.extend(attached(snapshot, known, claim));
        }
        let is_open = claim.volume.is_empty() && !snapshot.promised.contains_key(&key);
        if is_open && is_choosy(snapshot, &key, claim) {
            needs.open.push((key, claim));
        }
    }
    needs.open.sort_by(|a, b| (a.1.size, &a.0).cmp(&(b.1.size, &b.0)));
    let has_any = !(needs.open.is_empty() && needs.exclusive.is_empty() && needs.attached.is_empty());
    has_any.then_some(needs)
}

/// A claim without a volume counts by its own name: it will have one of its class's driver.
fn attached<'a>(snapshot: &'a Snapshot, key: &ClaimKey, claim: &Claim) -> Option<(&'a str, String)> {
    if claim.volume.is_empty() {
        let class = snapshot.storage_classes.get(&claim.class)?;
        return Some((&class.provisioner, format!("{}/{}", key.0, key.1)));
    }
    let (driver, handle) = snapshot.volumes.get(&claim.volume)?.handle.as_ref()?;
    Some((driver, handle.clone()))
}

impl<'a> Room<'a> {
    /// Makes sure that it is known what the shape's claims ask for; whether they ask for anything.
    pub fn ensure_needs(&mut self, shape: ShapeId) -> bool {
        let snapshot = self.snapshot;
        if snapshot.shapes[shape].claims.is_empty() {
            return false;
        }
        if let Some(known) = self.volumes.needs.get(&shape) {
            return known.is_some();
        }
        let needs = needs(snapshot, &snapshot.shapes[shape]);
        for (_, claim) in needs.iter().flat_map(|needs| &needs.open) {
            if !self.volumes.stocks.contains_key(claim.class.as_str()) {
                let stock = Rc::new(stock(self, &claim.class));
                self.volumes.stocks.insert(&claim.class, stock);
            }
        }
        let has_any = needs.is_some();
        self.volumes.needs.insert(shape, needs.map(Rc::new));
        has_any
    }
}

fn stock<'a>(room: &Room<'a>, class: &str) -> Stock<'a> {
    let snapshot = room.snapshot;
    let promised: BTreeSet<&str> = snapshot.promised.values().map(|name| &**name).collect();
    let names = snapshot.stock.get(class).into_iter().flatten().filter(|name| !promised.contains(name.as_str()));
    let mut offers: Vec<Offer> = names.map(|name| (name.as_str(), &snapshot.volumes[name])).collect();
    offers.sort_by(|a, b| (a.1.size, a.0).cmp(&(b.1.size, b.0)));
    let hosts = by_label(room, HOSTNAME);
    let mut stock = Stock { storage: storage(room, class), ..Stock::default() };
    for offer in offers {
        if offer.1.terms.is_none() {
            stock.anywhere.push(offer);
            continue;
        }
        // Most volumes name the one machine that they are on: then it alone is looked at.
        let named = offer.1.terms.iter().flatten().map(|term| {
            let host = term.labels.iter().find(|wish| wish.key == HOSTNAME)?.listed()?;
            Some(host.iter().filter_map(|host| hosts.get(host.as_str())).flatten().copied().collect::<Vec<u32>>())
        });
        let named: Option<Vec<Vec<u32>>> = named.collect();
        let positions = named.map_or_else(|| (0..room.nodes.len() as u32).collect(), |named| named.concat());
        let positions: BTreeSet<u32> = positions.into_iter().filter(|at| is_at(room, offer.1, *at as usize)).collect();
        positions.into_iter().for_each(|at| stock.at.entry(at).or_default().push(offer));
    }
    stock
}

/// Nodes by their value of a label.
fn by_label<'r>(room: &'r Room, key: &str) -> BTreeMap<&'r str, Vec<u32>> {
    let mut found: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for (position, node) in (0..).zip(&room.nodes) {
        node.labels.get(key).into_iter().for_each(|value| found.entry(value).or_default().push(position));
    }
    found
}

fn storage(room: &Room, class: &str) -> Option<BTreeMap<u32, Quantity>> {
    let snapshot = room.snapshot;
    let is_metered = is_metered(snapshot, snapshot.storage_classes.get(class)?);
    let capacities = || snapshot.capacities.values().filter(|capacity| capacity.class == *class);
    is_metered.then(|| {
        let mut storage: BTreeMap<u32, Quantity> = BTreeMap::new();
        let mut labels: BTreeMap<&str, BTreeMap<&str, Vec<u32>>> = BTreeMap::new();
        for Capacity { nodes, largest, .. } in capacities() {
            // Most name one machine by a label of theirs: then only those are looked at that have it.
            let named = nodes.labels.iter().find_map(|wish| Some((&*wish.key, wish.listed()?)));
            let positions: Vec<u32> = match named {
                Some((key, values)) => {
                    let known = labels.entry(key).or_insert_with(|| by_label(room, key));
                    values.iter().filter_map(|value| known.get(value.as_str())).flatten().copied().collect()
                }
                None => (0..room.nodes.len() as u32).collect(),
            };
            let node = |position: u32| room.nodes[position as usize];
            for at in positions.into_iter().filter(|at| nodes.matches(&node(*at).name, &node(*at).labels)) {
                let known = storage.entry(at).or_insert(*largest);
                *known = (*known).max(*largest);
            }
        }
        storage
    })
}

fn is_at(room: &Room, volume: &Volume, position: usize) -> bool {
    let node = room.nodes[position];
    volume.terms.as_ref().is_none_or(|terms| terms.iter().any(|term| term.matches(&node.name, &node.labels)))
}

fn fits(claim: &Claim, volume: &Volume) -> bool {
    claim.size <= volume.size
        && claim.is_block == volume.is_block
        && claim.modes.iter().all(|mode| volume.modes.contains(mode))
        && claim.selector.matches_with(|key| volume.labels.get(key))
}

/// The volume that was set aside for the claim, by whom ever.
fn reserved<'a>(snapshot: &'a Snapshot, key: &ClaimKey, claim: &Claim) -> Option<Offer<'a>> {
    let mut owned = snapshot.owned.get(key)?.iter().map(|name| (name.as_str(), &snapshot.volumes[name]));
    owned.find(|(_, volume)| {
        let uid = volume.owner.as_ref().map_or("", |(_, uid)| uid);
        uid.is_empty() || *uid == *claim.uid
    })
}

/// What each open claim would get on the node, nothing where it is to be made; an error if one can have none there.
fn choose<'a>(room: &Room<'a>, needs: &Needs<'a>, position: usize) -> Result<Vec<Option<&'a str>>, Refusal> {
    let volumes = &room.volumes;
    let mut chosen: Vec<Option<&'a str>> = Vec::new();
    for (key, claim) in &needs.open {
        if let Some((_, picked)) = volumes.picked.get(key) {
            let is_there = picked.is_none_or(|name| is_at(room, &room.snapshot.volumes[name], position));
            chosen.push(*picked);
            if is_there {
                continue;
            }
            return Err(Refusal::NoVolume);
        }
        if let Some((name, volume)) = reserved(room.snapshot, key, claim) {
            let suits = claim.size <= volume.size && claim.is_block == volume.is_block && is_at(room, volume, position);
            chosen.push(Some(name).filter(|_| suits));
            if suits {
                continue;
            }
            return Err(Refusal::NoVolume);
        }
        let stock = volumes.stocks.get(claim.class.as_str()).ok_or(Refusal::NoVolume)?;
        let is_free = |(name, volume): &&Offer<'a>| {
            !volumes.taken.contains(name) && !chosen.contains(&Some(*name)) && fits(claim, volume)
        };
        let here = stock.at.get(&(position as u32)).into_iter().flatten().find(is_free);
        let found = here.into_iter().chain(stock.anywhere.iter().find(is_free)).min_by_key(|(name, v)| (v.size, *name));
        if found.is_none() {
            can_be_made(room, claim, stock, position)?;
        }
        chosen.push(found.map(|(name, _)| *name));
    }
    Ok(chosen)
}

/// Whether somebody makes a volume for the claim on the node, and has storage for it there.
fn can_be_made(room: &Room, claim: &Claim, stock: &Stock, position: usize) -> Result<(), Refusal> {
    let node = room.nodes[position];
    let class = room.snapshot.storage_classes.get(&claim.class).filter(|class| !class.is_static());
    let is_made = class.is_some_and(|class| {
        class.terms.is_empty() || class.terms.iter().any(|term| term.matches(&node.name, &node.labels))
    });
    // What is being made for it already is not there a second time.
    let is_begun = claim.node == *node.name;
    let has_storage = |storage: &BTreeMap<u32, Quantity>| {
        is_begun || storage.get(&(position as u32)).is_some_and(|largest| claim.size <= *largest)
    };
    match is_made {
        true if stock.storage.as_ref().is_none_or(has_storage) => Ok(()),
        true => Err(Refusal::NoStorage),
        false => Err(Refusal::NoVolume),
    }
}

/// Why the pod's claims keep it from the node; the room has been told to look at them.
pub fn refusal(room: &Room, pod: PodId, position: usize) -> Option<Refusal> {
    let shape = room.snapshot.pods[pod].shape;
    let needs = room.volumes.needs.get(&shape)?.as_ref()?;
    if needs.exclusive.iter().any(|claim| is_used(room, pod, claim)) {
        Some(Refusal::ClaimInUse)
    } else if let Err(refusal) = choose(room, needs, position) {
        Some(refusal)
    } else if is_beyond_limit(room, needs, position) {
        Some(Refusal::VolumesMax)
    } else {
        None
    }
}

fn is_used(room: &Room, pod: PodId, claim: &ClaimKey) -> bool {
    let snapshot = room.snapshot;
    let stays = |other: &PodId| {
        let is_away = room.gone.contains(other) || (room.is_without_ours && snapshot.pods[*other].is_ours);
        *other != pod && !is_away
    };
    let uses = |other: &PodId| snapshot.shapes[snapshot.pods[*other].shape].claim_keys().any(|key| key == *claim);
    let mut put = room.put_pods().filter(|other| *other != pod && !room.gone.contains(other));
    snapshot.claim_users.get(claim).is_some_and(|users| users.iter().any(stays)) || put.any(|other| uses(&other))
}

/// Volumes of one driver that several pods use count once.
fn is_beyond_limit(room: &Room, needs: &Needs, position: usize) -> bool {
    let (snapshot, limits) = (room.snapshot, &room.nodes[position].volumes_max);
    if limits.is_empty() || !needs.attached.iter().any(|(driver, _)| limits.contains_key(*driver)) {
        return false;
    }
    let mut there: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for other in room.standing_at(position) {
        for key in snapshot.shapes[snapshot.pods[other].shape].claim_keys() {
            let claim = snapshot.claims.get(&key);
            if let Some((driver, handle)) = claim.and_then(|claim| attached(snapshot, &key, claim)) {
                there.entry(driver).or_default().insert(handle);
            }
        }
    }
    let mut brought: BTreeSet<&str> = BTreeSet::new();
    for (driver, handle) in &needs.attached {
        if there.entry(driver).or_default().insert(handle.clone()) {
            brought.insert(driver);
        }
    }
    // What is there already stays, however much it is.
    brought.iter().any(|driver| limits.get(*driver).is_some_and(|most| there[driver].len() > *most))
}

/// A pod is put onto the node, or taken back: its claims' volumes are its own, or others' again.
pub fn note(room: &mut Room, pod: PodId, position: usize, is_put: bool) {
    let shape = room.snapshot.pods[pod].shape;
    if !room.ensure_needs(shape) {
        return;
    }
    let Some(needs) = room.volumes.needs.get(&shape).cloned().flatten() else { return };
    // What does not fit there any more has been promised before; it is looked at again when its turn comes.
    let chosen = if is_put { choose(room, &needs, position).unwrap_or_default() } else { Vec::new() };
    let volumes = &mut room.volumes;
    for (index, (key, _)) in needs.open.iter().enumerate() {
        if let Some(name) = chosen.get(index).filter(|_| !volumes.picked.contains_key(key)) {
            volumes.picked.insert(key.clone(), (pod, *name));
            volumes.taken.extend(*name);
        } else if !is_put && volumes.picked.get(key).is_some_and(|(first, _)| *first == pod) {
            let (_, name) = volumes.picked.remove(key).expect("it was just there");
            if let Some(name) = name {
                volumes.taken.remove(name);
            }
        }
    }
}

/// The volumes that were chosen for the pod's claims when it was put.
pub fn picked<'r>(room: &'r Room, pod: PodId) -> impl Iterator<Item = (ClaimKey, &'r str)> {
    let shape = &room.snapshot.shapes[room.snapshot.pods[pod].shape];
    shape.claim_keys().filter_map(|key| {
        let name = room.volumes.picked.get(&key)?.1?;
        Some((key, name))
    })
}

/// A claim that must have its volume before its pod is bound, and what is done for that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenClaim {
    pub key: Key,
    pub way: Way,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Way {
    /// It knows where its volume is to be, or its volume knows whose it is.
    Told,
    /// Somebody makes its volume once it is told of the node.
    Tell,
    /// This volume is set aside for it, by this patch.
    Give { volume: Arc<str>, patch: Value },
}

/// The claims that must have their volumes before the pod can be bound to the node; `given` says which get which.
pub fn open_claims(
    snapshot: &Snapshot,
    pod: PodId,
    node: &str,
    given: &BTreeMap<ClaimKey, Arc<str>>,
) -> Vec<OpenClaim> {
    let namespace = &snapshot.pods[pod].key.namespace;
    let open = |key: ClaimKey| {
        let claim = snapshot.claims.get(&key).filter(|claim| claim.volume.is_empty())?;
        let way = match given.get(&key).map(|name| (name, snapshot.volumes.get(&**name))) {
            Some((name, Some(volume))) => give(&key, claim, name, volume),
            Some((_, None)) | None if claim.node == node => Way::Told,
            Some((_, None)) | None => Way::Tell,
        };
        Some(OpenClaim { key: Key { namespace: namespace.clone(), name: key.1.as_str().into() }, way })
    };
    snapshot.shapes[snapshot.pods[pod].shape].claim_keys().filter_map(open).collect()
}

fn give(key: &ClaimKey, claim: &Claim, name: &Arc<str>, volume: &Volume) -> Way {
    if volume.owner.as_ref().is_some_and(|(_, uid)| *uid == claim.uid) {
        return Way::Told;
    }
    let chosen = volume.owner.is_none().then(|| json!({BOUND_BY_CONTROLLER: "yes"}));
    let reference = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key.0, "name": key.1,
        "uid": claim.uid});
    let metadata = json!({"resourceVersion": volume.version, "annotations": chosen.unwrap_or_else(|| json!({}))});
    Way::Give { volume: name.clone(), patch: json!({"metadata": metadata, "spec": {"claimRef": reference}}) }
}

/// The claim of the shape for which there is no volume, and what there is; or no storage to make one, if all nodes say so.
pub fn lack(room: &Room, pod: PodId, nodes: usize, refusal: Refusal) -> Option<WaitingOn> {
    let needs = room.volumes.needs.get(&room.snapshot.pods[pod].shape)?.as_ref()?;
    let worded = |(key, claim): &(ClaimKey, &Claim), free: usize, largest: Option<Quantity>| WaitingOn::Volume {
        claim: key.1.clone(),
        nodes,
        size: claim.size.to_string(),
        class: claim.class.clone(),
        free,
        largest: largest.map(|size| size.to_string()),
        is_made: refusal == Refusal::NoStorage,
    };
    if refusal == Refusal::NoStorage {
        let storage = |claim: &Claim| room.volumes.stocks.get(claim.class.as_str())?.storage.as_ref();
        let lacks = |(_, claim): &&(ClaimKey, &Claim)| {
            storage(claim).is_some_and(|storage| !storage.values().any(|largest| claim.size <= *largest))
        };
        let open = || needs.open.iter();
        let open = open().find(lacks).or_else(|| open().rfind(|(_, claim)| storage(claim).is_some()))?;
        let short = storage(open.1).into_iter().flat_map(BTreeMap::values).filter(|largest| **largest < open.1.size);
        return Some(worded(open, 0, short.max().copied()));
    }
    let offers = |claim: &Claim| {
        let stock = room.volumes.stocks.get(claim.class.as_str());
        let all = stock.into_iter().flat_map(|stock| stock.at.values().flatten().chain(&stock.anywhere));
        let free: BTreeMap<&str, &Volume> = all.copied().collect();
        let taken = &room.volumes.taken;
        free.into_iter().filter(|(name, _)| !taken.contains(name)).map(|(_, volume)| volume).collect::<Vec<_>>()
    };
    let fits_none = |(_, claim): &&(ClaimKey, &Claim)| !offers(claim).iter().any(|volume| fits(claim, volume));
    let open = needs.open.iter().find(fits_none).or_else(|| needs.open.first())?;
    let free = offers(open.1);
    Some(worded(open, free.len(), free.iter().map(|volume| volume.size).max()))
}
