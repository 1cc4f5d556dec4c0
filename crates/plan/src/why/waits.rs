//! What a job waits for before its pods have nodes: other tasks of its own, or the scheduler.

use super::{Finding, Observed, State, is_waiting, list, name, namespace_flag, phase, plural, some};
use crate::control::quota::usage;
use crate::gang::objects::Key;
use crate::gang::queues::Bound;
use crate::gang::snapshot::Snapshot;
use crate::gang::why::{Holder, Holders, WaitingOn};
use crate::gang::{Placement, Waiting, place};
use crate::pod_groups::missing;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeSet;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::text;
use volley_api::volcano::keys;

/// Volcano tasks that start after others.
pub fn dependency(seen: &Observed, _now: Timestamp) -> Option<Finding> {
    let of_task = |task: &str| seen.pods.iter().filter(|pod| task_of(pod) == task).collect::<Vec<_>>();
    for task in list(seen.job, "spec.tasks") {
        let own = text(task, "name");
        let needs: Vec<&str> = list(task, "dependsOn.name").filter_map(Value::as_str).collect();
        if needs.is_empty() || !of_task(own).is_empty() {
            continue;
        }
        let any = text(task, "dependsOn.iteration") == "any";
        let unmet: Vec<&str> = needs.iter().copied().filter(|need| !is_up(seen, need, &of_task(need))).collect();
        let is_met = if any { unmet.len() < needs.len() } else { unmet.is_empty() };
        // What it depends on may itself wait for the scheduler; then that is the reason.
        let is_placed = unmet.iter().any(|need| of_task(need).iter().any(|pod| !text(pod, "spec.nodeName").is_empty()));
        if is_met || !is_placed {
            continue;
        }
        let first = unmet[0];
        let ready = of_task(first).iter().filter(|pod| is_ready(pod)).count();
        let wanted = wanted_of(seen, first);
        let said =
            format!("task {own} starts after task {first}, of which {ready} of {} are ready", plural(wanted, "pod"));
        let more = unmet.len() - 1;
        let said = if more > 0 { format!("{said} (and {more} more tasks)") } else { said };
        let (job, flag) = (name(seen.job), namespace_flag(seen.job));
        let finding = Finding::new(State::Waiting, "Dependency", said);
        return Some(finding.unblock(format!("see why {first} is not ready: volley logs {job}{flag} --rank {first}")));
    }
    None
}

fn task_of(pod: &Value) -> &str {
    pod["metadata"]["annotations"][keys::TASK].as_str().unwrap_or_default()
}

fn wanted_of(seen: &Observed, task: &str) -> usize {
    let found = list(seen.job, "spec.tasks").find(|one| text(one, "name") == task);
    found.and_then(|one| one["minAvailable"].as_u64().or(one["replicas"].as_u64())).unwrap_or(1) as usize
}

fn is_up(seen: &Observed, task: &str, pods: &[&Value]) -> bool {
    pods.iter().filter(|pod| is_ready(pod)).count() >= wanted_of(seen, task)
}

fn is_ready(pod: &Value) -> bool {
    let is_true = |one: &Value| text(one, "type") == "Ready" && text(one, "status") == "True";
    phase(pod) == "Succeeded" || list(pod, "status.conditions").any(is_true)
}

/// The pods that have no node yet, or a gang that has no pods yet.
pub fn unplaced(seen: &Observed, now: Timestamp) -> Option<Finding> {
    let waiting: Vec<&Value> = seen.pods.iter().filter(|pod| is_waiting(pod)).collect();
    let is_empty_gang = seen.pods.is_empty() && seen.group.is_some();
    if waiting.is_empty() && !is_empty_gang {
        return None;
    }
    if let Some(finding) = missing_class(seen) {
        return Some(finding);
    }
    if let Some(finding) = missing_group(seen, &waiting) {
        return Some(finding);
    }
    let placement = place(&mut seen.snapshot.clone(), now);
    let keys = gangs(seen, &waiting);
    if is_empty_gang && placement.admit.iter().any(|key| keys.contains(key)) {
        let said = "there is room: it is let in now, and its pods are made next";
        return Some(Finding::new(State::Starting, "Admitted", said));
    }
    let found = keys.iter().find_map(|key| placement.waiting.get(key));
    match found {
        Some(found) if found.has_minimum && seen.pods.iter().any(|pod| phase(pod) == "Running") => {
            let running = seen.pods.iter().filter(|pod| phase(pod) == "Running").count();
            let mut finding = scheduler(seen, found, &keys);
            finding.state = State::Running;
            let wait = if waiting.len() == 1 { "waits" } else { "wait" };
            let running = plural(running, "pod");
            finding.message = format!("runs with {running}; {} more {wait}: {}", waiting.len(), finding.message);
            Some(finding)
        }
        Some(found) => Some(scheduler(seen, found, &keys)),
        None => free(&placement, &keys, &waiting),
    }
}

/// The gangs that a job's pods are of: its group, a Workload's, or each pod alone.
fn gangs(seen: &Observed, waiting: &[&Value]) -> Vec<Key> {
    let namespace = text(seen.job, "metadata.namespace");
    if let Some(group) = seen.group {
        return vec![Key { namespace: namespace.into(), name: name(group).into() }];
    }
    let (pods, gangs) = (&seen.snapshot.pods, &seen.snapshot.gangs);
    let gang = |pod: &&Value| {
        let key = Key { namespace: namespace.into(), name: name(pod).into() };
        Some(gangs[pods[pods.find(&key)?].gang?].key.clone())
    };
    let found: BTreeSet<Key> = waiting.iter().filter_map(gang).collect();
    found.into_iter().collect()
}

/// Pods that name a group or a Workload that nobody has made.
fn missing_group(seen: &Observed, waiting: &[&Value]) -> Option<Finding> {
    let words = seen.group.is_none().then(|| waiting.iter().find_map(|pod| missing(pod))).flatten();
    let snapshot = seen.snapshot;
    let is_known = |key: &Key| snapshot.gangs.find(key).is_some_and(|gang| snapshot.gangs[gang].group.is_some());
    let words = words.filter(|_| !gangs(seen, waiting).iter().any(is_known))?;
    let finding = Finding::new(State::Waiting, "GroupMissing", words);
    Some(finding.unblock("make what it names, or correct the name and make the pod anew"))
}

/// Nothing is in its way.
fn free(placement: &Placement, keys: &[Key], waiting: &[&Value]) -> Option<Finding> {
    if let Some(gates) = gated(waiting) {
        return Some(gates);
    }
    let nodes: BTreeSet<&str> =
        placement.bind.iter().filter(|bind| keys.contains(&bind.gang)).map(|bind| &*bind.node).collect();
    if nodes.is_empty() {
        return None;
    }
    let who = waiting.first().map_or("", |pod| text(pod, "spec.schedulerName"));
    let (pods, fit) = (plural(waiting.len(), "pod"), if waiting.len() == 1 { "fits" } else { "fit" });
    let said = format!("{pods} {fit} now on {}; scheduler {who} has not placed them yet", some(nodes.iter().copied()));
    let mut finding = Finding::new(State::Starting, "Fits", said);
    finding.nodes = nodes.into_iter().map(str::to_owned).collect();
    Some(finding.unblock(format!("if it stays so, see that scheduler {who} runs; volley's serves volcano and volley")))
}

fn gated(waiting: &[&Value]) -> Option<Finding> {
    let gates: BTreeSet<&str> =
        waiting.iter().flat_map(|pod| list(pod, "spec.schedulingGates")).map(|gate| text(gate, "name")).collect();
    let pods = waiting.iter().filter(|pod| list(pod, "spec.schedulingGates").next().is_some()).count();
    let first = gates.first()?;
    let said = format!(
        "{} held back by scheduling gate {first}",
        if pods == 1 { "1 pod is".to_owned() } else { format!("{pods} pods are") }
    );
    let finding = Finding::new(State::Waiting, "Gates", said);
    Some(finding.unblock(format!("whoever set gate {first} has to take it away from spec.schedulingGates")))
}

/// A class that the group names and nobody has made is not counted against it; the user meant something by it.
fn missing_class(seen: &Observed) -> Option<Finding> {
    let class = text(seen.group?, "spec.priorityClassName");
    let is_built_in = class.is_empty() || class.starts_with("system-");
    if is_built_in || seen.snapshot.classes.contains_key(class) {
        return None;
    }
    Some(no_class(class, seen.snapshot))
}

pub fn no_class(class: &str, snapshot: &Snapshot) -> Finding {
    let known: Vec<&str> = snapshot.classes.keys().map(|name| &**name).collect();
    let near = crate::gang::hint::nearest(class, known.iter().copied());
    let meant = near.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let finding =
        Finding::new(State::Waiting, "PriorityClassMissing", format!("PriorityClass {class} does not exist{meant}"));
    let named = if known.is_empty() { String::new() } else { format!(", or name one of {}", known.join(", ")) };
    finding.unblock(format!("create PriorityClass {class}{named}"))
}

/// The scheduler's one reason, with what would help.
fn scheduler(seen: &Observed, waiting: &Waiting, own: &[Key]) -> Finding {
    let on = &without_own(&waiting.on, own);
    let (reason, unblock) = remedies(seen, on);
    let when = match on {
        WaitingOn::Room { when, holders, .. } => when.or_else(|| ends(holders)),
        WaitingOn::Leaving { when, .. } | WaitingOn::Behind { when, .. } => *when,
        WaitingOn::QueueLimit { holders, .. } | WaitingOn::Fragments { holders, .. } => ends(holders),
        _ => None,
    };
    let is_never = is_beyond_limit(on);
    let when = when.filter(|_| !is_never);
    let never = if is_never { "; it can never run like this" } else { "" };
    let mut finding = Finding::new(State::Waiting, reason, format!("{on}{never}"));
    finding.unblock = unblock;
    finding.when = when;
    finding.waiting_on = Some(on.clone());
    let since = seen.group.unwrap_or(seen.job);
    finding.since(super::moment(since, "metadata.creationTimestamp"))
}

/// A job that wants more does not wait for itself to end.
fn without_own(on: &WaitingOn, own: &[Key]) -> WaitingOn {
    let mut on = on.clone();
    if let WaitingOn::QueueLimit { holders, .. }
    | WaitingOn::Room { holders, .. }
    | WaitingOn::Fragments { holders, .. } = &mut on
    {
        let is_other = |holder: &&Holder| !own.iter().any(|own| own.to_string() == holder.gang);
        holders.first = holders.first.iter().filter(is_other).cloned().collect();
    }
    on
}

/// It asks for more than its queue may ever hold; beyond the fair share it may go while the queue holds nothing else.
fn is_beyond_limit(on: &WaitingOn) -> bool {
    let WaitingOn::QueueLimit { bound: Bound::Capability | Bound::Guarantees, asked, limit, .. } = on else {
        return false;
    };
    let amount = |text: &str| Quantity::parse(text).ok();
    amount(asked).zip(amount(limit)).is_some_and(|(asked, limit)| asked > limit)
}

/// When the first of the holders is known to end.
fn ends(holders: &Holders) -> Option<Timestamp> {
    holders.first.iter().filter_map(|holder| holder.until).min()
}

const DEVICES: &str = "ask for the devices in resources.limits, or name a scheduler that allocates claims";
const GATES: &str = "whoever set the gates has to take them away from spec.schedulingGates";
const REFUSED: &str = "see who refuses it: kubectl get validatingwebhookconfigurations";

fn remedies(seen: &Observed, on: &WaitingOn) -> (&'static str, Vec<String>) {
    let what_if = |change: String| what_if(seen, &change);
    match on {
        WaitingOn::NoQueue { queue } => ("QueueMissing", vec![no_queue(seen, queue)]),
        WaitingOn::ClosedQueue { queue, .. } => {
            ("QueueClosed", vec![format!("open it: volley vcqueue operate {queue} -a open")])
        }
        WaitingOn::ParentQueue { .. } => ("QueueHasChildren", vec!["name a queue below it in spec.queue".to_owned()]),
        WaitingOn::Members { have, need } | WaitingOn::SubGroups { have, need } => (
            "PodsMissing",
            vec![format!("{} more must be created by the job's controller", plural(need - have.min(need), "pod"))],
        ),
        WaitingOn::TaskMembers { task, have, need } => (
            "PodsMissing",
            vec![format!("{} more of task {task} must be created", plural(need - have.min(need), "pod"))],
        ),
        WaitingOn::Gates { .. } => ("Gates", vec![GATES.to_owned()]),
        WaitingOn::Claim { claim, is_missing, .. } => claim_remedy(seen, claim, *is_missing),
        WaitingOn::Volume { claim, class, is_made: true, .. } => ("NoStorage", vec![no_storage(claim, class)]),
        WaitingOn::Volume { claim, size, class, .. } => ("NoVolume", vec![no_volume(claim, size, class)]),
        WaitingOn::Devices { .. } => ("DeviceClaims", vec![DEVICES.to_owned()]),
        WaitingOn::Refused { .. } => ("BindRefused", vec![REFUSED.to_owned()]),
        WaitingOn::Admission { resource, .. } => {
            ("Admission", vec!["it is let in when a gang before it ends".to_owned(), what_if(short(resource, "+8"))])
        }
        WaitingOn::NamespaceQuota { quota, .. } => {
            ("ResourceQuota", vec![format!("free some of it in the namespace, or raise ResourceQuota {quota}")])
        }
        WaitingOn::QueueLimit { queue, bound, resource, asked, limit, .. } if is_beyond_limit(on) => {
            never_in_queue(seen, (queue, *bound), (resource, asked, limit))
        }
        WaitingOn::QueueLimit { queue, bound, resource, limit, holders, .. } => {
            queue_remedies(seen, (queue, *bound, resource, limit), holders)
        }
        WaitingOn::Nodes { hint, refusals, .. } => ("NoSuitableNode", node_remedies(hint.as_deref(), refusals)),
        WaitingOn::TooLarge { resource, total, is_one_pod: true, .. } => {
            ("TooLarge", vec![format!("ask for at most {total} {resource} per pod, or add a larger node")])
        }
        WaitingOn::TooLarge { resource, total, is_one_pod: false, .. } => (
            "TooLarge",
            vec![format!("ask for at most {total} {resource} together, or add nodes"), what_if("nodes=+1".to_owned())],
        ),
        WaitingOn::Room { resource, asked, free, holders, .. } => {
            ("Room", room(seen, (resource, asked, free), holders))
        }
        WaitingOn::Fragments { each, resource, holders, .. } => {
            let first = holders.first.first().map(|holder| format!("{} ends or moves", holder.gang));
            let fewer = format!("ask for less than {each} {resource} per pod, in more pods");
            ("Fragmented", first.into_iter().chain([fewer]).collect())
        }
        WaitingOn::TooFewPlaces { places, .. } => {
            ("TooLarge", vec![format!("ask for at most {}, or add nodes", plural(*places, "such pod"))])
        }
        WaitingOn::Neighbours { refusals, .. } => ("Neighbours", node_remedies(None, refusals)),
        WaitingOn::NoHyperNodes => {
            ("Topology", vec!["create HyperNodes, or take networkTopology out of the job".to_owned()])
        }
        WaitingOn::Domains { .. } => {
            ("Topology", vec!["allow a higher tier in networkTopology.highestTierAllowed, or make it soft".to_owned()])
        }
        WaitingOn::Leaving { .. } => ("Leaving", vec!["nothing: the room is kept for it".to_owned()]),
        WaitingOn::Behind { gang, .. } => (
            "Behind",
            vec![
                format!("give it a running-estimate that ends before {gang} can start, or a higher priority"),
                what_if(format!("without={gang}")),
            ],
        ),
    }
}

fn what_if(seen: &Observed, change: &str) -> String {
    format!("try it: volley why {}{} --what-if {change}", name(seen.job), namespace_flag(seen.job))
}

fn no_storage(claim: &str, class: &str) -> String {
    format!("free storage of class {class} on a node, or ask for less in claim {claim}")
}

fn no_volume(claim: &str, size: &str, class: &str) -> String {
    format!(
        "create a PersistentVolume of class {class} with at least {size} and the modes of claim {claim}, where there is room"
    )
}

fn claim_remedy(seen: &Observed, claim: &str, is_missing: bool) -> (&'static str, Vec<String>) {
    match is_missing {
        true => ("ClaimMissing", vec![format!("create PersistentVolumeClaim {claim}")]),
        false => {
            let look = format!("see what it waits for: kubectl describe pvc {claim}{}", namespace_flag(seen.job));
            ("ClaimUnbound", vec![format!("{look}; a StorageClass that provisions, or a volume that fits, binds it")])
        }
    }
}

/// A resource as `--what-if` knows it.
fn short(resource: &str, amount: &str) -> String {
    let name = if resource == "nvidia.com/gpu" { "gpus" } else { resource };
    format!("{name}={amount}")
}

fn no_queue(seen: &Observed, queue: &str) -> String {
    let known = seen.snapshot.queues.keys().map(|name| &**name).filter(|name| *name != "root");
    let near = crate::gang::hint::nearest(queue, known.clone());
    let named: Vec<&str> = known.take(5).collect();
    match near {
        Some(near) => format!("did you mean queue {near}? else create it: volley vcqueue create {queue}"),
        None => format!("create it: volley vcqueue create {queue}; there are {}", named.join(", ")),
    }
}

fn queue_remedies(
    seen: &Observed,
    (queue, bound, resource, limit): (&str, Bound, &str, &str),
    holders: &Holders,
) -> (&'static str, Vec<String>) {
    let first = holders.first.first().map(|holder| match holder.queue == queue {
        true => format!("{} of the same queue ends", holder.gang),
        false => format!("{} of queue {} ends", holder.gang, holder.queue),
    });
    let twice = limit.parse::<i64>().map_or_else(|_| limit.to_owned(), |limit| (limit * 2).to_string());
    let raise = match bound {
        Bound::Capability => vec![
            format!("raise spec.capability of queue {queue}"),
            what_if(seen, &format!("queue.{queue}.capability.{resource}={twice}")),
        ],
        Bound::Guarantees => vec!["take back a guarantee of another queue".to_owned()],
        Bound::FairShare => vec![format!("raise the weight of queue {queue}, or wait until others need less")],
    };
    (bound_word(bound), first.into_iter().chain(raise).collect())
}

fn bound_word(bound: Bound) -> &'static str {
    match bound {
        Bound::Capability => "QueueCapability",
        Bound::Guarantees => "QueueGuarantees",
        Bound::FairShare => "QueueShare",
    }
}

/// Nobody's end helps a job that is larger than its queue.
fn never_in_queue(
    seen: &Observed,
    (queue, bound): (&str, Bound),
    (resource, asked, limit): (&str, &str, &str),
) -> (&'static str, Vec<String>) {
    let less = format!("ask for at most {limit} {resource} together, or name another queue");
    let more = match bound {
        Bound::Capability => vec![
            format!("raise spec.capability of queue {queue} to {asked} {resource} or more"),
            what_if(seen, &format!("queue.{queue}.capability.{resource}={asked}")),
        ],
        Bound::Guarantees | Bound::FairShare => vec!["take back a guarantee of another queue".to_owned()],
    };
    (bound_word(bound), [less].into_iter().chain(more).collect())
}

fn node_remedies(hint: Option<&str>, refusals: &[(String, usize)]) -> Vec<String> {
    let words: [(&str, &str); 11] = [
        (
            "didn't match Pod's node affinity/selector",
            "label a node as nodeSelector or nodeAffinity asks, or change that",
        ),
        ("untolerated taint", "tolerate the taint, or take it from the node"),
        ("were unschedulable", "kubectl uncordon the node"),
        ("were not ready", "see why the node is not ready: kubectl describe node"),
        ("free ports", "choose another hostPort, or none: pods have addresses of their own"),
        ("volume node affinity", "the volume is bound to other nodes; free room there, or use another claim"),
        ("ReadWriteOncePod", "the pod that uses the claim must end first, or use a claim that several pods may use"),
        ("max volume count", "fewer volumes on the node: other pods must end first, or add nodes"),
        ("anti-affinity", "fewer pods that keep apart, or more nodes"),
        ("pod affinity rules", "the pod that it wants to be near must be there first"),
        ("spread constraints", "raise maxSkew, or allow ScheduleAnyway"),
    ];
    let is_told = |text: &str| refusals.iter().any(|(refusal, _)| refusal.contains(text));
    let general = words.iter().filter(|(text, _)| is_told(text)).map(|(_, remedy)| (*remedy).to_owned());
    match hint.and_then(|hint| hint.split_once("; to go there, ")) {
        Some((_, toleration)) => vec![toleration.to_owned()],
        None => match hint.and_then(meant) {
            Some(meant) => {
                vec![format!("write {meant} in nodeSelector or nodeAffinity, or label a node as it says now")]
            }
            None => general.collect(),
        },
    }
}

/// What was probably meant, of a hint that ends in `did you mean it?`.
fn meant(hint: &str) -> Option<&str> {
    hint.split_once("did you mean ")?.1.strip_suffix('?')
}

fn room(seen: &Observed, (resource, asked, free): (&str, &str, &str), holders: &Holders) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    if let Some(first) = holders.first.first() {
        all.push(format!("{} gives back {} {resource} when it ends", first.gang, first.amount));
    }
    if let (Ok(asked), Ok(free)) = (asked.parse::<i64>(), free.parse::<i64>()) {
        // A pod is on one node: what comes beside must be enough for whole pods.
        let each = seen.pods.iter().map(|pod| request(pod, resource)).max().unwrap_or(1).max(1);
        let missing = (asked - free).max(1);
        let more = missing.div_euclid(each) * each + if missing % each > 0 { each } else { 0 };
        let change = short(resource, &format!("+{more}"));
        all.push(format!("{more} more {resource} may do; {}", what_if(seen, &change)));
    }
    all
}

/// What a pod asks for of a resource, in whole units.
fn request(pod: &Value, resource: &str) -> i64 {
    usage("", "pods", pod).get(&format!("requests.{resource}")).map_or(0, |amount| amount.value())
}
