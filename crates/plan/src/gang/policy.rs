//! How to place: by default, or as a Volcano scheduler configuration says (spec/volcano.md 7.1).
//!
//! `Policy::read` takes the parsed file. What has no meaning here is named in a warning; an unknown action refuses the
//! whole file, so that the policy in force stays (CFG-2).

use super::terms::list;
use serde_json::Value;
use std::collections::BTreeMap;
use volley_api::kube::{text, time};

/// What the order of gangs goes by, the first that differs decides (TIER-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    Priority,
    /// Those that have not got their minimum go first.
    Gang,
    /// The smaller dominant share goes first.
    Drf,
    /// The earlier deadline goes first.
    Sla,
}

/// What a queue may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Capacity if any queue declares what it deserves or a parent, else proportion.
    Either,
    Proportion,
    Capacity {
        is_tree: bool,
    },
    /// By weight at each fork of the paths in `volcano.sh/hierarchy`.
    Paths,
    /// Everything.
    Free,
}

/// How much each way of judging a node counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Weights {
    pub binpack: i64,
    /// By resource; what is not named counts nothing, unless it is a device, which counts `binpack_device`.
    pub binpack_resources: BTreeMap<String, i64>,
    pub binpack_device: i64,
    pub least: i64,
    pub most: i64,
    pub balanced: i64,
    pub node_affinity: i64,
    pub pod_affinity: i64,
    pub taint: i64,
    pub spread: i64,
    pub topology: i64,
    /// Pods without a topology fill domains that are in use, each tier counting so many thousandths of the one below
    /// it; 0 if they do not care.
    pub fill_fading: i64,
}

/// What the plugins of one tier agree on (TIER-2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whole gangs too, not only what a gang has above its minimum.
    pub whole_gangs: bool,
    pub by_priority: bool,
    pub by_share: bool,
}

/// Who may be evicted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victims {
    /// The first that lets anybody go decides. What is below protects whatever a tier says.
    pub verdicts: Vec<Verdict>,
    pub spares_system: bool,
    pub keeps_budgets: bool,
    pub keeps_cooldown: bool,
    /// Nobody who was placed more recently than this, in seconds.
    pub runtime_min: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Gangs wait until they are let in; otherwise they are in at once.
    pub enqueues: bool,
    pub preempts: bool,
    pub reclaims: bool,
    pub order: Vec<Order>,
    pub sharing: Sharing,
    /// Gangs are let in up to so many thousandths of the cluster.
    pub overcommit: Option<i64>,
    pub keeps_quotas: bool,
    pub has_node_groups: bool,
    pub knows_topology: bool,
    pub knows_numa: bool,
    pub weights: Weights,
    pub victims: Victims,
    /// Seconds after which a gang must be let in, if it does not say itself.
    pub patience: Option<i64>,
    /// A gang whose patience has ended is let in whatever others say (TIER-4).
    pub patience_decides: bool,
    /// The first gang that waits for room gets what becomes free, once it has waited so many seconds.
    pub reserve_after: i64,
    /// The gang that has waited longest goes first once it has waited so many seconds, whatever its priority.
    pub ripe_after: i64,
}

/// What a tier counts for plain pods, in thousandths of the one below it.
const FILL_FADING: i64 = 800;
/// A day: priorities mean what they say for as long as people watch, and yet nobody waits for ever.
const RIPE_AFTER: i64 = 86_400;

impl Default for Policy {
    /// Ours: gangs are packed tightly, queues borrow and give back, priority evicts whole gangs, nobody starves.
    fn default() -> Self {
        Policy {
            enqueues: true,
            preempts: true,
            reclaims: true,
            order: vec![Order::Priority, Order::Gang, Order::Drf],
            sharing: Sharing::Either,
            overcommit: Some(1200),
            keeps_quotas: false,
            has_node_groups: true,
            knows_topology: true,
            knows_numa: true,
            weights: Weights {
                binpack: 1,
                binpack_resources: ["cpu", "memory"].map(|name| (name.to_owned(), 1)).into(),
                binpack_device: 10,
                node_affinity: 2,
                pod_affinity: 2,
                taint: 3,
                spread: 2,
                topology: 1,
                fill_fading: FILL_FADING,
                ..Weights::default()
            },
            victims: Victims {
                verdicts: vec![Verdict { whole_gangs: true, by_priority: true, by_share: false }],
                spares_system: true,
                keeps_budgets: true,
                keeps_cooldown: true,
                runtime_min: 0,
            },
            patience: None,
            patience_decides: true,
            reserve_after: 0,
            ripe_after: RIPE_AFTER,
        }
    }
}

/// The policy where nobody has written one: ours, without a door.
///
/// A gang is let in at once, so that its pods exist: they are what others are evicted for, and what says why it waits. A
/// configuration with the action `enqueue` has the door back.
pub fn built_in() -> Policy {
    Policy { enqueues: false, ..Policy::default() }
}

/// Something in the file that has no effect, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Warning {
    pub path: String,
    pub message: String,
}

/// Why the whole file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("failed to find Action {0}, ignore it; write one of {known}", known = ACTIONS.join(", "))]
    UnknownAction(String),
    #[error("proportion and drf with hierarchy enabled conflicts; leave one of them out")]
    Conflict,
}

const ACTIONS: [&str; 8] =
    ["enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle", "gangpreempt", "gangreclaim"];
/// Plugins that are known and do nothing here.
const INERT: [(&str, &str); 9] = [
    ("tdm", "revocable zones are not known"),
    ("task-topology", "tasks are not placed by task-topology annotations"),
    ("usage", "measured load is not known"),
    ("rescheduling", "running pods are not moved"),
    ("deviceshare", "devices are counted by their resource names; vGPU annotations are not read"),
    ("extender", "no HTTP callbacks are made"),
    ("resource-strategy-fit", "use binpack or nodeorder"),
    ("nodegroup-limits", "limits of node groups are not known"),
    ("capacity-card", "cards are counted by their resource names"),
];

impl Policy {
    /// Reads a scheduler configuration; what it does not say is as Volcano's plugins would have it.
    pub fn read(file: &Value) -> Result<(Policy, Vec<Warning>), PolicyError> {
        let mut reading = Reading { policy: Policy::bare(), has_refusals: false, warnings: Vec::new() };
        reading.actions(text(file, "actions"))?;
        let mut has_tree_drf = false;
        for (tier, plugins) in list(file, "tiers").enumerate() {
            reading.tier(plugins);
            for plugin in list(plugins, "plugins") {
                has_tree_drf |= text(plugin, "name") == "drf" && is_set(plugin, "enableHierarchy", false);
                reading.plugin(plugin, &format!("tiers[{tier}]"));
            }
        }
        if reading.policy.victims.verdicts.is_empty() {
            let verdict = Verdict { whole_gangs: true, by_priority: false, by_share: false };
            reading.policy.victims.verdicts.push(verdict);
        }
        reading.starving(file);
        match reading.policy.sharing {
            Sharing::Proportion if has_tree_drf => return Err(PolicyError::Conflict),
            Sharing::Free if has_tree_drf => reading.policy.sharing = Sharing::Paths,
            _ => {}
        }
        reading.configurations(file);
        if file.get("metrics").is_some_and(|metrics| !metrics.is_null()) {
            reading.warn("metrics".to_owned(), "measured load is not known");
        }
        Ok((reading.policy, reading.warnings))
    }

    /// With no action and no plugin.
    fn bare() -> Policy {
        let victims = Victims {
            verdicts: Vec::new(),
            spares_system: false,
            keeps_budgets: false,
            keeps_cooldown: false,
            runtime_min: 0,
        };
        Policy {
            enqueues: false,
            preempts: false,
            reclaims: false,
            order: Vec::new(),
            sharing: Sharing::Free,
            overcommit: None,
            keeps_quotas: false,
            has_node_groups: false,
            knows_topology: false,
            knows_numa: false,
            weights: Weights::default(),
            victims,
            patience: None,
            patience_decides: false,
            reserve_after: 0,
            ripe_after: RIPE_AFTER,
        }
    }
}

struct Reading {
    policy: Policy,
    /// A tier that was read has a plugin that may keep gangs out.
    has_refusals: bool,
    warnings: Vec<Warning>,
}

impl Reading {
    fn warn(&mut self, path: String, message: &str) {
        self.warnings.push(Warning { path, message: message.to_owned() });
    }

    fn actions(&mut self, actions: &str) -> Result<(), PolicyError> {
        for action in actions.split(',').map(str::trim).filter(|action| !action.is_empty()) {
            let policy = &mut self.policy;
            match action {
                "enqueue" => policy.enqueues = true,
                // Pods that ask for nothing are always placed.
                "allocate" | "backfill" => {}
                "preempt" | "gangpreempt" => policy.preempts = true,
                "reclaim" | "gangreclaim" => policy.reclaims = true,
                "shuffle" => self.warn("actions".to_owned(), "shuffle: running pods are not moved"),
                unknown => return Err(PolicyError::UnknownAction(unknown.to_owned())),
            }
        }
        Ok(())
    }

    /// What a tier says as a whole, of victims and of who may start.
    fn tier(&mut self, tier: &Value) {
        let has = |names: &[&str], switch: &str| {
            list(tier, "plugins").any(|one| names.contains(&text(one, "name")) && is_set(one, switch, true))
        };
        let votes = |name: &str| has(&[name], "enablePreemptable");
        let verdict = Verdict { whole_gangs: !votes("gang"), by_priority: votes("priority"), by_share: votes("drf") };
        if ["gang", "priority", "drf", "conformance", "pdb", "cdp"].into_iter().any(votes) {
            self.policy.victims.verdicts.push(verdict);
        }
        // The first tier with a vote for it decides, but one against it in the same tier or before is heard first.
        let refuses = has(&["overcommit", "proportion", "capacity", "resourcequota"], "enableJobEnqueued");
        self.has_refusals |= refuses;
        self.policy.patience_decides |= has(&["sla"], "enableJobEnqueued") && !self.has_refusals;
    }

    /// TIER-5: here a gang evicts for its minimum only, which is what all agree on where `gang` has a say.
    fn starving(&mut self, file: &Value) {
        let says = |name: &str, tier: &Value| {
            list(tier, "plugins").any(|one| text(one, "name") == name && is_set(one, "enableJobStarving", true))
        };
        let mut tiers = list(file, "tiers");
        let first = tiers.find(|tier| says("gang", tier) || says("priority", tier));
        if self.policy.preempts && first.is_some_and(|tier| !says("gang", tier)) {
            self.warn("tiers".to_owned(), "priority: only a gang's minimum evicts others, not what it wants beyond it");
        }
    }

    fn plugin(&mut self, plugin: &Value, tier: &str) {
        let name = text(plugin, "name");
        let arguments = &plugin["arguments"];
        let orders = is_set(plugin, "enableJobOrder", true);
        let policy = &mut self.policy;
        let order = match name {
            "priority" => Some(Order::Priority),
            "gang" => Some(Order::Gang),
            "drf" => Some(Order::Drf),
            "sla" => Some(Order::Sla),
            _ => None,
        };
        policy.order.extend(order.filter(|_| orders));
        match name {
            "priority" | "gang" | "drf" => {}
            "conformance" => policy.victims.spares_system = true,
            "pdb" => policy.victims.keeps_budgets = true,
            "cdp" => policy.victims.keeps_cooldown = true,
            "sla" => {
                policy.patience = time::parse_duration(argument(arguments, "sla-waiting-time")).map(|d| d.as_secs())
            }
            "overcommit" => policy.overcommit = Some(overcommit(arguments)),
            "proportion" => policy.sharing = Sharing::Proportion,
            "capacity" => policy.sharing = Sharing::Capacity { is_tree: is_set(plugin, "enableHierarchy", false) },
            "resourcequota" => policy.keeps_quotas = true,
            "nodegroup" => policy.has_node_groups = true,
            "numa-aware" => policy.knows_numa = true,
            "network-topology-aware" => {
                policy.knows_topology = true;
                policy.weights.topology = number(arguments, "weight", 1);
                policy.weights.fill_fading = fill_fading(arguments);
            }
            "binpack" => binpack(&mut policy.weights, arguments),
            "nodeorder" => node_order(&mut policy.weights, arguments),
            "predicates" => self.predicates(arguments, tier),
            other => {
                let inert = INERT.iter().find(|(known, _)| *known == other).map(|(_, why)| *why);
                let path = format!("{tier}.{other}");
                self.warn(path, inert.unwrap_or("no such plugin; it is left out"));
            }
        }
    }

    /// The filters are always on: a pod that a node cannot run is not sent there.
    fn predicates(&mut self, arguments: &Value, tier: &str) {
        for (key, value) in arguments.as_object().into_iter().flatten() {
            let is_off = value == false || value == "false";
            if is_off && key.ends_with("Enable") {
                self.warn(format!("{tier}.predicates.{key}"), "this filter cannot be turned off");
            }
        }
    }

    fn configurations(&mut self, file: &Value) {
        for configuration in list(file, "configurations") {
            let name = text(configuration, "name");
            for (key, value) in configuration["arguments"].as_object().into_iter().flatten() {
                match (name, key.as_str()) {
                    ("gangpreempt" | "gangreclaim", "allowWholeBundle") => {
                        let may_be_whole = !(value == false || value == "false");
                        let verdicts = self.policy.victims.verdicts.iter_mut();
                        verdicts.for_each(|verdict| verdict.whole_gangs &= may_be_whole);
                    }
                    ("enqueue" | "allocate" | "backfill" | "preempt" | "reclaim", "predicateErrorCacheEnable") => {}
                    _ => self.warn(format!("configurations.{name}.{key}"), "this argument has no effect"),
                }
            }
        }
    }
}

fn is_set(plugin: &Value, key: &str, default: bool) -> bool {
    plugin.get(key).and_then(Value::as_bool).unwrap_or(default)
}

fn argument<'a>(arguments: &'a Value, key: &str) -> &'a str {
    arguments.get(key).and_then(Value::as_str).unwrap_or("")
}

/// Numbers come as numbers or as text.
fn number(arguments: &Value, key: &str, default: i64) -> i64 {
    match arguments.get(key) {
        Some(Value::Number(number)) => number.as_i64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    }
    .unwrap_or(default)
}

fn fraction(arguments: &Value, key: &str) -> Option<f64> {
    match arguments.get(key) {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    }
}

fn fill_fading(arguments: &Value) -> i64 {
    let switch = arguments.get("hypernode.binpack.normal-pod.enable");
    if switch.is_some_and(|switch| *switch == false || *switch == "false") {
        return 0;
    }
    let fading = fraction(arguments, "hypernode.binpack.normal-pod.fading");
    fading
        .filter(|fading| (0.001..=1.0).contains(fading))
        .map_or(FILL_FADING, |fading| (fading * 1000.0).round() as i64)
}

fn overcommit(arguments: &Value) -> i64 {
    let factor = fraction(arguments, "overcommit-factor");
    let factor = factor.filter(|factor| (1.0..1e6).contains(factor)).unwrap_or(1.2);
    (factor * 1000.0).round() as i64
}

fn binpack(weights: &mut Weights, arguments: &Value) {
    weights.binpack = number(arguments, "binpack.weight", 1);
    for name in ["cpu", "memory"] {
        weights.binpack_resources.insert(name.to_owned(), number(arguments, &format!("binpack.{name}"), 1).max(0));
    }
    for name in argument(arguments, "binpack.resources").split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let weight = number(arguments, &format!("binpack.resources.{name}"), 1).max(0);
        weights.binpack_resources.insert(name.to_owned(), weight);
    }
}

fn node_order(weights: &mut Weights, arguments: &Value) {
    let read = |name: &str, default| number(arguments, &format!("{name}.weight"), default);
    weights.least = read("leastrequested", 1);
    weights.most = read("mostrequested", 0);
    weights.balanced = read("balancedresource", 1);
    weights.node_affinity = read("nodeaffinity", 2);
    weights.pod_affinity = read("podaffinity", 2);
    weights.taint = read("tainttoleration", 3);
    weights.spread = read("podtopologyspread", 2);
}
