//! The CustomResourceDefinitions of the training jobs: they take what the reference's take, and print the same columns.
//!
//! Applied to any cluster; what a schema cannot say is said by `validate`, at admission or by the controller.

use super::kinds::{Kind, Row};
use super::{GROUP, MANAGED_BY_KUEUE, MANAGED_HERE, Rules};
use crate::kube::schema::structural;
use serde_json::{Map, Value, json};

const TEMPLATE: &str = "io.k8s.api.core.v1.PodTemplateSpec";
const METRIC: &str = "io.k8s.api.autoscaling.v2.MetricSpec";

/// The kinds of plain fields.
#[derive(Debug, Clone, Copy)]
enum Plain {
    Text,
    Flag,
    Number,
    LongNumber,
    Time,
}

impl Plain {
    fn schema(self) -> Value {
        match self {
            Plain::Text => json!({ "type": "string" }),
            Plain::Flag => json!({ "type": "boolean" }),
            Plain::Number => json!({ "type": "integer", "format": "int32" }),
            Plain::LongNumber => json!({ "type": "integer", "format": "int64" }),
            Plain::Time => json!({ "type": "string", "format": "date-time" }),
        }
    }
}

type Fields = &'static [(&'static str, Plain)];

const RUN_POLICY: Fields = &[
    ("cleanPodPolicy", Plain::Text),
    ("ttlSecondsAfterFinished", Plain::Number),
    ("activeDeadlineSeconds", Plain::LongNumber),
    ("backoffLimit", Plain::Number),
];
const SCHEDULING_POLICY: Fields =
    &[("minAvailable", Plain::Number), ("priorityClass", Plain::Text), ("scheduleTimeoutSeconds", Plain::Number)];
const ELASTIC_BOUNDS: Fields =
    &[("minReplicas", Plain::Number), ("maxReplicas", Plain::Number), ("maxRestarts", Plain::Number)];
const ELASTIC_TORCH: Fields = &[
    ("rdzvBackend", Plain::Text),
    ("rdzvHost", Plain::Text),
    ("rdzvPort", Plain::Number),
    ("rdzvId", Plain::Text),
    ("standalone", Plain::Flag),
    ("nProcPerNode", Plain::Number),
];
const CONDITION: Fields = &[
    ("type", Plain::Text),
    ("status", Plain::Text),
    ("reason", Plain::Text),
    ("message", Plain::Text),
    ("lastUpdateTime", Plain::Time),
    ("lastTransitionTime", Plain::Time),
];
const REPLICA_STATUS: Fields =
    &[("active", Plain::Number), ("succeeded", Plain::Number), ("failed", Plain::Number), ("selector", Plain::Text)];
const STATUS_TIMES: Fields =
    &[("startTime", Plain::Time), ("completionTime", Plain::Time), ("lastReconcileTime", Plain::Time)];

/// What a kind's spec has besides replicas and run policy.
fn own_fields(kind: Kind) -> Fields {
    match kind {
        Kind::PyTorch => &[("nprocPerNode", Plain::Text)],
        Kind::TensorFlow => &[("successPolicy", Plain::Text), ("enableDynamicWorker", Plain::Flag)],
        Kind::Mpi => {
            &[("slotsPerWorker", Plain::Number), ("cleanPodPolicy", Plain::Text), ("mainContainer", Plain::Text)]
        }
        Kind::XgBoost | Kind::Paddle | Kind::Jax => &[],
    }
}

/// The definition of a kind, ready to be applied.
pub fn definition(row: &Row, rules: Rules) -> Value {
    let mut subresources = json!({ "status": {} });
    if let Some([spec, status, selector]) = row.scale() {
        subresources["scale"] =
            json!({ "specReplicasPath": spec, "statusReplicasPath": status, "labelSelectorPath": selector });
    }
    let columns =
        row.columns().map(|(name, kind, path)| json!({ "name": name, "type": kind, "jsonPath": path })).to_vec();
    let text = Plain::Text.schema();
    let schema = json!({
        "type": "object",
        "properties": {
            "apiVersion": text, "kind": text, "metadata": { "type": "object" },
            "spec": spec(row, rules), "status": status(),
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{GROUP}", row.plural) },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": row.name, "listKind": format!("{}List", row.name),
                "plural": row.plural, "singular": row.singular,
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": subresources,
                "additionalPrinterColumns": columns, "schema": { "openAPIV3Schema": schema },
            }],
        },
    })
}

fn object(fields: &[Fields], more: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let plain = fields.iter().copied().flatten().map(|(name, kind)| ((*name).to_owned(), kind.schema()));
    let more = more.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    json!({ "type": "object", "properties": plain.chain(more).collect::<Map<_, _>>() })
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn map(values: Value) -> Value {
    json!({ "type": "object", "additionalProperties": values })
}

fn builtin(name: &str) -> Value {
    structural::named(name).expect("the table of built-in types has all of Kubernetes' own")
}

fn spec(row: &Row, rules: Rules) -> Value {
    // Not an enum: the reference stores any word here, and `validate` says more than a schema could.
    let mut replica =
        object(&[&[("replicas", Plain::Number), ("restartPolicy", Plain::Text)]], [("template", builtin(TEMPLATE))]);
    if !rules.is_strict {
        // Or the server would drop such an entry before anybody could refuse it (PT-ADM-15).
        replica["nullable"] = json!(true);
    }
    let elastic = match row.kind {
        Kind::PyTorch => Some(elastic_policy(&[ELASTIC_BOUNDS, ELASTIC_TORCH])),
        Kind::Paddle => Some(elastic_policy(&[ELASTIC_BOUNDS])),
        Kind::TensorFlow | Kind::Mpi | Kind::XgBoost | Kind::Jax => None,
    };
    let mut fields = vec![own_fields(row.kind)];
    if !rules.is_strict {
        // Where the first generation had them (PT-ADM-12).
        fields.push(RUN_POLICY);
    }
    let parts = [(row.replica_specs, map(replica)), ("runPolicy", run_policy(rules))];
    let mut spec = object(&fields, parts.into_iter().chain(elastic.map(|elastic| ("elasticPolicy", elastic))));
    spec["required"] = json!([row.replica_specs]);
    spec
}

fn run_policy(rules: Rules) -> Value {
    let path = "spec.runPolicy.schedulingPolicy.queue";
    let rule = json!([{ "rule": "self == oldSelf", "message": format!("{path} is immutable") }]);
    let queue = json!({ "type": "string", "x-kubernetes-validations": rule });
    let amount = structural::named("io.k8s.api.core.v1.ResourceRequirements");
    let amount = amount.and_then(|schema| schema.pointer("/properties/limits").cloned()).unwrap_or_default();
    let scheduling = object(&[SCHEDULING_POLICY], [("queue", queue), ("minResources", amount)]);
    let suspend = json!({ "type": "boolean", "default": false });
    // The reference's webhook refuses others, so a cluster without webhooks must know them (PT-ADM-11).
    let manager = json!({ "type": "string", "enum": [MANAGED_HERE, MANAGED_BY_KUEUE] });
    let parts = [("managedBy", manager), ("suspend", suspend), ("schedulingPolicy", scheduling)];
    let mut policy = object(&[RUN_POLICY], parts);
    if !rules.is_strict {
        // The reference means to refuse this and does not (PT-ADM-11a).
        let rule = "has(self.managedBy) == has(oldSelf.managedBy) && \
            (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)";
        policy["x-kubernetes-validations"] =
            json!([{ "rule": rule, "message": "field is immutable", "fieldPath": ".managedBy" }]);
        // The published Python client cannot read a job without one (PT-DEF-6).
        policy["default"] = json!({});
    }
    policy
}

fn elastic_policy(fields: &[Fields]) -> Value {
    let setting = object(&[&[("key", Plain::Text), ("value", Plain::Text)]], []);
    let settings = (fields.len() > 1).then(|| ("rdzvConf", list(setting)));
    object(fields, [("metrics", list(builtin(METRIC)))].into_iter().chain(settings))
}

fn status() -> Value {
    let mut condition = object(&[CONDITION], []);
    condition["required"] = json!(["type", "status"]);
    let label_selector = builtin("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector");
    let replica = object(&[REPLICA_STATUS], [("labelSelector", label_selector)]);
    object(&[STATUS_TIMES], [("conditions", list(condition)), ("replicaStatuses", map(replica))])
}
