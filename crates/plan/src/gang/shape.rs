//! What a pod asks of a node. Pods that ask for the same share one shape, so that a gang of thousands is fitted once.

use super::amounts::{Amounts, Names, PODS};
use super::objects::ClaimKey;
use super::terms::{HostPort, NodeTerm, PodTerm, Spread, Toleration, Wish, host_ports, list, required_terms};
use crate::control::quota::usage;
use serde_json::{Value, json};
use volley_api::kube::{at, text};

#[derive(Debug, Clone, Default)]
pub struct Shape {
    pub request: Amounts,
    /// It asks for no resource at all (SCH-31).
    pub is_best_effort: bool,
    pub selector: Vec<Wish>,
    pub required: Option<Vec<NodeTerm>>,
    pub preferred: Vec<(i64, NodeTerm)>,
    pub tolerations: Vec<Toleration>,
    pub ports: Vec<HostPort>,
    /// Names of claims in the pod's namespace.
    pub claims: Vec<String>,
    /// Of those, the ones that are made for the pod, with its name.
    pub made_claims: Vec<(String, String)>,
    /// Names by which it knows its claims for devices.
    pub device_claims: Vec<String>,
    pub near: Vec<PodTerm>,
    pub apart: Vec<PodTerm>,
    /// Positive weights attract, negative ones repel.
    pub leanings: Vec<(i64, PodTerm)>,
    pub spread: Vec<Spread>,
    pub namespace: String,
    /// What tells apart which nodes suit it and which it likes, however much it asks for.
    pub site: String,
    /// How many pods have it.
    pub uses: usize,
}

impl Shape {
    /// Whether it matters to it which pods are where.
    pub fn is_related(&self) -> bool {
        !(self.near.is_empty() && self.apart.is_empty() && self.leanings.is_empty() && self.spread.is_empty())
    }

    pub fn claim_keys(&self) -> impl Iterator<Item = ClaimKey> {
        self.claims.iter().map(|name| (self.namespace.clone(), name.clone()))
    }
}

/// What tells shapes apart, as text.
pub fn key(pod: &Value) -> String {
    let spec = |path: &str| at(pod, path).filter(|value| !value.is_null());
    let affinity = spec("spec.affinity");
    let is_related = spec("spec.topologySpreadConstraints").is_some()
        || affinity.is_some_and(|affinity| affinity.get("podAffinity").or(affinity.get("podAntiAffinity")).is_some());
    let claims = claims(pod);
    let place = (is_related || !claims.0.is_empty()).then(|| text(pod, "metadata.namespace"));
    // Label keys in terms are looked up among the pod's own labels.
    let labels = is_related.then(|| &pod["metadata"]["labels"]);
    let requests: Vec<(String, String)> =
        usage("", "pods", pod).into_iter().map(|(name, amount)| (name, amount.to_string())).collect();
    let ports: Vec<String> = host_ports(pod).iter().map(ToString::to_string).collect();
    let rest = ["spec.nodeSelector", "spec.tolerations", "spec.topologySpreadConstraints"].map(spec);
    json!([requests, ports, claims, device_claims(pod), place, labels, affinity, rest]).to_string()
}

pub fn read(pod: &Value, names: &mut Names) -> Shape {
    let mut request = vec![0; PODS + 1];
    for (name, amount) in usage("", "pods", pod) {
        if let Some(name) = name.strip_prefix("requests.").filter(|_| !amount.is_zero()) {
            names.set(&mut request, name, amount);
        }
    }
    let is_best_effort = request.iter().all(|amount| *amount == 0);
    request[PODS] = 1000;
    let selector = at(pod, "spec.nodeSelector").and_then(Value::as_object).into_iter().flatten();
    let node = at(pod, "spec.affinity.nodeAffinity");
    let required = node.and_then(|node| required_terms(node.get("requiredDuringSchedulingIgnoredDuringExecution")));
    let preferred = node.into_iter().flat_map(|node| list(node, "preferredDuringSchedulingIgnoredDuringExecution"));
    let weight = |term: &Value| term.get("weight").and_then(Value::as_i64).unwrap_or(0);
    let terms = |which: &str| {
        let path = format!("spec.affinity.{which}.requiredDuringSchedulingIgnoredDuringExecution");
        list(pod, &path).map(|term| PodTerm::read(term, pod)).collect()
    };
    let leanings = |which: &str, sign: i64| -> Vec<(i64, PodTerm)> {
        let path = format!("spec.affinity.{which}.preferredDuringSchedulingIgnoredDuringExecution");
        list(pod, &path).map(|term| (sign * weight(term), PodTerm::read(&term["podAffinityTerm"], pod))).collect()
    };
    let (claims, made_claims) = claims(pod);
    Shape {
        request,
        is_best_effort,
        selector: selector.map(|(key, value)| Wish::equals(key, value.as_str().unwrap_or_default())).collect(),
        required,
        preferred: preferred.map(|term| (weight(term), NodeTerm::read(&term["preference"]))).collect(),
        tolerations: list(pod, "spec.tolerations").map(Toleration::read).collect(),
        ports: host_ports(pod),
        claims,
        made_claims,
        device_claims: device_claims(pod),
        near: terms("podAffinity"),
        apart: terms("podAntiAffinity"),
        leanings: [leanings("podAffinity", 1), leanings("podAntiAffinity", -1)].concat(),
        spread: list(pod, "spec.topologySpreadConstraints").map(|spread| Spread::read(spread, pod)).collect(),
        namespace: text(pod, "metadata.namespace").to_owned(),
        site: site_key(pod),
        uses: 0,
    }
}

fn site_key(pod: &Value) -> String {
    let claims = claims(pod);
    let place = (!claims.0.is_empty()).then(|| text(pod, "metadata.namespace"));
    let asked = ["spec.nodeSelector", "spec.tolerations", "spec.affinity.nodeAffinity"].map(|path| at(pod, path));
    json!([claims, device_claims(pod), place, asked]).to_string()
}

/// All claims that the pod uses, and those of them that are made for it, with its name.
fn claims(pod: &Value) -> (Vec<String>, Vec<(String, String)>) {
    let name = text(pod, "metadata.name");
    let (mut all, mut made) = (Vec::new(), Vec::new());
    for volume in list(pod, "spec.volumes") {
        let named = text(volume, "persistentVolumeClaim.claimName");
        if !named.is_empty() {
            all.push(named.to_owned());
        }
        if volume.get("ephemeral").is_some() {
            made.push((format!("{name}-{}", text(volume, "name")), name.to_owned()));
        }
    }
    all.extend(made.iter().map(|(claim, _)| claim.clone()));
    (all, made)
}

fn device_claims(pod: &Value) -> Vec<String> {
    list(pod, "spec.resourceClaims").map(|claim| text(claim, "name").to_owned()).collect()
}
