//! Conditions on nodes and on other pods, read once from their JSON: node selector terms, tolerations, host ports,
//! (anti-)affinity to pods, and topology spread.

use super::strings::Labels;
use serde_json::{Value, json};
use std::fmt;
use volley_api::kube::selector::LabelSelector;
use volley_api::kube::{at, text};

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In,
    NotIn,
    Exists,
    DoesNotExist,
    Greater,
    Less,
    /// Validation refuses other operators; one that comes in all the same holds nowhere.
    Unknown,
}

impl Operator {
    fn read(text: &str) -> Operator {
        match text {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            "Gt" => Operator::Greater,
            "Lt" => Operator::Less,
            _ => Operator::Unknown,
        }
    }

    fn holds(&self, found: Option<&str>, values: &[String]) -> bool {
        let is_listed = found.is_some_and(|found| values.iter().any(|value| value == found));
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = values.first().and_then(|value| number(value));
        let compared = found.and_then(number).zip(bound);
        match self {
            Operator::In => is_listed,
            Operator::NotIn => !is_listed,
            Operator::Exists => found.is_some(),
            Operator::DoesNotExist => found.is_none(),
            Operator::Greater => compared.is_some_and(|(found, bound)| found > bound),
            Operator::Less => compared.is_some_and(|(found, bound)| found < bound),
            Operator::Unknown => false,
        }
    }
}

/// One condition on a label, or on the node's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    pub key: String,
    operator: Operator,
    pub values: Vec<String>,
}

impl Wish {
    fn read(expression: &Value) -> Wish {
        let operator = Operator::read(text(expression, "operator"));
        let values = list(expression, "values").filter_map(Value::as_str).map(str::to_owned).collect();
        Wish { key: text(expression, "key").to_owned(), operator, values }
    }

    pub fn equals(key: &str, value: &str) -> Wish {
        Wish { key: key.to_owned(), operator: Operator::In, values: vec![value.to_owned()] }
    }

    /// The values of which it asks for one.
    pub fn listed(&self) -> Option<&[String]> {
        (self.operator == Operator::In).then_some(&self.values)
    }

    pub fn holds(&self, found: Option<&str>) -> bool {
        self.operator.holds(found, &self.values)
    }
}

/// A node selector term: all of its conditions must hold; one without conditions matches no node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTerm {
    pub labels: Vec<Wish>,
    fields: Vec<Wish>,
}

impl NodeTerm {
    pub fn read(term: &Value) -> NodeTerm {
        let wishes = |key| list(term, key).map(Wish::read).collect();
        NodeTerm { labels: wishes("matchExpressions"), fields: wishes("matchFields") }
    }

    /// A term of a storage class's `allowedTopologies`.
    pub fn of_topology(term: &Value) -> NodeTerm {
        let wish = |expression: &Value| {
            let values = list(expression, "values").filter_map(Value::as_str).map(str::to_owned).collect();
            Wish { key: text(expression, "key").to_owned(), operator: Operator::In, values }
        };
        NodeTerm { labels: list(term, "matchLabelExpressions").map(wish).collect(), fields: Vec::new() }
    }

    /// A label selector over nodes; one without conditions means them all.
    pub fn of_selector(selector: &Value) -> NodeTerm {
        let equal = at(selector, "matchLabels").and_then(Value::as_object).into_iter().flatten();
        let equal = equal.map(|(key, value)| Wish::equals(key, value.as_str().unwrap_or_default()));
        let mut labels: Vec<Wish> = equal.chain(list(selector, "matchExpressions").map(Wish::read)).collect();
        if labels.is_empty() {
            labels.push(Wish { key: String::new(), operator: Operator::DoesNotExist, values: Vec::new() });
        }
        NodeTerm { labels, fields: Vec::new() }
    }

    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        let is_empty = self.labels.is_empty() && self.fields.is_empty();
        let field = |wish: &Wish| wish.holds(Some(name).filter(|_| wish.key == "metadata.name"));
        !is_empty && self.labels.iter().all(|wish| wish.holds(labels.get(&wish.key))) && self.fields.iter().all(field)
    }
}

/// Reads the terms of a required node selector; `None` when nothing is required.
pub fn required_terms(selector: Option<&Value>) -> Option<Vec<NodeTerm>> {
    let terms = selector?.get("nodeSelectorTerms")?.as_array()?;
    Some(terms.iter().map(NodeTerm::read).collect())
}

/// Labels of a volume that say where it is, new and old; several values are joined by two underscores.
const WHERE: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

/// Where a volume can be used: by its affinity, and by its labels on nodes that have any of those.
pub fn volume_terms(volume: &Value) -> Option<Vec<NodeTerm>> {
    let affinity = at(volume, "spec.nodeAffinity.required.nodeSelectorTerms").and_then(Value::as_array);
    let labels = at(volume, "metadata.labels");
    let wish = |key: &&str| {
        let value = labels?.get(*key)?.as_str()?;
        Some(json!({"key": key, "operator": "In", "values": value.split("__").collect::<Vec<_>>()}))
    };
    let wishes: Vec<Value> = WHERE.iter().filter_map(wish).collect();
    if wishes.is_empty() {
        return Some(affinity?.iter().map(NodeTerm::read).collect());
    }
    let nowhere = WHERE.iter().map(|key| json!({"key": key, "operator": "DoesNotExist"})).collect();
    let terms = affinity.cloned().unwrap_or_else(|| vec![json!({})]);
    let joined = terms.iter().flat_map(|term| [&wishes, &nowhere].map(|more| also(term, more)));
    Some(joined.map(|term| NodeTerm::read(&term)).collect())
}

/// The term with further wishes.
fn also(term: &Value, more: &Vec<Value>) -> Value {
    let mut term = term.clone();
    let own = term["matchExpressions"].as_array().into_iter().flatten();
    term["matchExpressions"] = own.chain(more).cloned().collect();
    term
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
}

impl Taint {
    pub fn read(taint: &Value) -> Taint {
        let part = |key| text(taint, key).to_owned();
        Taint { key: part("key"), value: part("value"), effect: part("effect") }
    }

    /// `PreferNoSchedule` is only a wish.
    pub fn is_wish(&self) -> bool {
        self.effect == "PreferNoSchedule"
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toleration {
    key: String,
    value: String,
    effect: String,
    operator: Operator,
}

impl Toleration {
    pub fn read(toleration: &Value) -> Toleration {
        let part = |key| text(toleration, key).to_owned();
        let operator = match text(toleration, "operator") {
            "" | "Equal" => Operator::In,
            other => Operator::read(other),
        };
        Toleration { key: part("key"), value: part("value"), effect: part("effect"), operator }
    }

    pub fn tolerates(&self, taint: &Taint) -> bool {
        let has_key = self.key == taint.key || (self.key.is_empty() && self.operator == Operator::Exists);
        let has_effect = self.effect.is_empty() || self.effect == taint.effect;
        has_key && has_effect && self.operator.holds(Some(&taint.value), std::slice::from_ref(&self.value))
    }
}

/// A port of the machine that a container asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    protocol: String,
    address: String,
    pub port: u64,
}

impl HostPort {
    pub fn clashes_with(&self, other: &HostPort) -> bool {
        let is_any = |address: &str| matches!(address, "" | "0.0.0.0");
        let is_same_address = self.address == other.address || is_any(&self.address) || is_any(&other.address);
        self.port == other.port && self.protocol == other.protocol && is_same_address
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}:{}", self.protocol, self.address, self.port)
    }
}

pub fn host_ports(pod: &Value) -> Vec<HostPort> {
    let sidecars = list(pod, "spec.initContainers").filter(|init| text(init, "restartPolicy") == "Always");
    let ports = list(pod, "spec.containers").chain(sidecars).flat_map(|container| list(container, "ports"));
    let host_port = |port| {
        let number = at(port, "hostPort").and_then(Value::as_u64).filter(|number| *number > 0)?;
        let protocol = Some(text(port, "protocol")).filter(|protocol| !protocol.is_empty()).unwrap_or("TCP");
        Some(HostPort { protocol: protocol.to_owned(), address: text(port, "hostIP").to_owned(), port: number })
    };
    ports.filter_map(host_port).collect()
}

/// Which other pods are meant, and over which label of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodTerm {
    pub selector: LabelSelector,
    /// Of these namespaces, or of those whose labels match.
    pub namespaces: Vec<String>,
    pub namespace_selector: Option<LabelSelector>,
    pub key: String,
}

impl PodTerm {
    pub fn read(term: &Value, pod: &Value) -> PodTerm {
        let mut namespaces: Vec<String> =
            list(term, "namespaces").filter_map(Value::as_str).map(str::to_owned).collect();
        let other = at(term, "namespaceSelector").filter(|selector| !selector.is_null());
        if namespaces.is_empty() && other.is_none() {
            namespaces.push(text(pod, "metadata.namespace").to_owned());
        }
        PodTerm {
            selector: selector(term, pod),
            namespaces,
            namespace_selector: other.map(|selector| read_selector(Some(selector))),
            key: text(term, "topologyKey").to_owned(),
        }
    }
}

/// How evenly pods must be spread over the values of a label of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    pub term: PodTerm,
    pub skew_max: i64,
    pub is_hard: bool,
    pub domains_min: i64,
    pub ignores_affinity: bool,
    pub honours_taints: bool,
}

impl Spread {
    pub fn read(constraint: &Value, pod: &Value) -> Spread {
        let number = |key| constraint.get(key).and_then(Value::as_i64).unwrap_or(1);
        Spread {
            term: PodTerm::read(constraint, pod),
            skew_max: number("maxSkew"),
            is_hard: text(constraint, "whenUnsatisfiable") != "ScheduleAnyway",
            domains_min: number("minDomains"),
            ignores_affinity: text(constraint, "nodeAffinityPolicy") == "Ignore",
            honours_taints: text(constraint, "nodeTaintsPolicy") == "Honor",
        }
    }
}

/// The term's `labelSelector`, with `matchLabelKeys` filled in from the pod's own labels.
fn selector(term: &Value, pod: &Value) -> LabelSelector {
    let mut selector = at(term, "labelSelector").cloned().unwrap_or_default();
    let mut join = |keys: &str, operator: &str| {
        for key in list(term, keys).filter_map(Value::as_str) {
            let label = pod["metadata"]["labels"][key].as_str();
            if let Some(value) = label.filter(|_| selector.is_object()) {
                let wish = json!({ "key": key, "operator": operator, "values": [value] });
                let mut wishes = list(&selector, "matchExpressions").cloned().collect::<Vec<_>>();
                wishes.push(wish);
                selector["matchExpressions"] = json!(wishes);
            }
        }
    };
    join("matchLabelKeys", "In");
    join("mismatchLabelKeys", "NotIn");
    read_selector(Some(&selector))
}

/// A selector that cannot be read selects nothing: validation has refused it before.
pub fn read_selector(selector: Option<&Value>) -> LabelSelector {
    LabelSelector::from_object(selector).unwrap_or_else(|_| LabelSelector::nothing())
}

pub fn list<'a>(object: &'a Value, path: &str) -> impl Iterator<Item = &'a Value> {
    at(object, path).and_then(Value::as_array).into_iter().flatten()
}
