//! The CustomResourceDefinitions of Volcano's kinds: they take what the reference's take, and print the same columns.
//!
//! Fields are written in a small notation, `name:type`, one line per object. What a schema cannot say is said by
//! `validate`, at admission or by the controller.

use super::kinds::{KINDS, Kind};
use crate::kube::schema::structural;
use serde_json::{Map, Value, json};

const JOB: &str = "schedulerName:text63 minAvailable:count queue:text maxRetry:count ttlSecondsAfterFinished:count \
    priorityClassName:text minSuccess:some runningEstimate:text";
const TASK: &str = "name:label replicas:count minAvailable:count maxRetry:int32 topologyPolicy:numa";
const POLICY: &str = "action:text event:text events:texts exitCode:int32 timeout:text";
const TOPOLOGY: &str = "mode:mode highestTierAllowed:tier highestTierName:text";
const PARTITIONS: &str = "totalPartitions:some partitionSize:some minPartitions:count";
const JOB_STATUS: &str = "minAvailable:int32 pending:int32 running:int32 succeeded:int32 failed:int32 terminating:int32 \
    unknown:int32 version:int32 retryCount:int32 runningDuration:text controlledResources:textmap";
const STATE: &str = "phase:text reason:text message:text lastTransitionTime:time";
const TARGET: &str = "apiVersion:text kind:text name:text uid:text controller:flag blockOwnerDeletion:flag";
const CRON: &str = "schedule:text timeZone:text startingDeadlineSeconds:int64 concurrencyPolicy:text suspend:flag \
    successfulJobsHistoryLimit:int32 failedJobsHistoryLimit:int32";
const REFERENCE: &str =
    "apiVersion:text kind:text name:text namespace:text uid:text resourceVersion:text fieldPath:text";
const GROUP: &str = "minMember:int32 minTaskMember:countmap queue:text priorityClassName:text minResources:amounts";
const SUB_GROUP: &str = "name:text subGroupSize:int32 minSubGroups:int32 matchLabelKeys:texts";
const GROUP_CONDITION: &str =
    "type:text status:text transitionID:text lastTransitionTime:time reason:text message:text";
const GROUP_STATUS: &str = "phase:text running:int32 succeeded:int32 failed:int32";
const QUEUE: &str = "weight:weight capability:amounts deserved:amounts reclaimable:flag parent:text priority:count type:text \
    dequeueStrategy:dequeue";
const QUEUE_STATUS: &str =
    "state:text allocated:amounts pending:int32 running:int32 unknown:int32 inqueue:int32 completed:int32";

/// A rule over a list needs a bound by which its cost is known; no switch has so many ports.
const MEMBERS_MAX: usize = 10_000;
/// Longer than anybody writes. What a rule may cost depends on it: of twice as many characters, for so many members, a
/// kube-apiserver (1.36) refuses the whole definition.
const PATTERN_MAX: usize = 512;

/// The definitions, ready to be applied.
pub fn definitions() -> Vec<Value> {
    KINDS.iter().map(definition).collect()
}

fn builtin(name: &str) -> Value {
    let found = structural::named(&format!("io.k8s.api.core.v1.{name}"));
    found.expect("the table of built-in types has all of Kubernetes' own")
}

fn definition(row: &Kind) -> Value {
    let column = |column: &super::kinds::Column| {
        let mut made = json!({ "name": column.name, "type": column.kind, "jsonPath": column.path });
        // A server leaves out what is zero, and an apply that has it would find a difference for ever.
        if column.priority != 0 {
            made["priority"] = json!(column.priority);
        }
        made
    };
    let mut version = json!({
        "name": row.version, "served": true, "storage": true, "schema": { "openAPIV3Schema": root(row) },
    });
    if !row.columns.is_empty() {
        version["additionalPrinterColumns"] = row.columns.iter().map(column).collect();
    }
    if row.has_status {
        version["subresources"] = json!({ "status": {} });
    }
    let mut names = json!({
        "kind": row.kind, "listKind": format!("{}List", row.kind), "plural": row.plural,
        "singular": row.kind.to_lowercase(),
    });
    if !row.short_names.is_empty() {
        names["shortNames"] = json!(row.short_names);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{}.{}", row.plural, row.group) },
        "spec": {
            "group": row.group, "names": names, "versions": [version],
            "scope": if row.is_namespaced { "Namespaced" } else { "Cluster" },
        },
    })
}

fn root(row: &Kind) -> Value {
    let parts = match row.kind {
        "Job" => vec![("spec", job()), ("status", job_status())],
        "CronJob" => vec![("spec", cron()), ("status", cron_status())],
        "PodGroup" => vec![("spec", group()), ("status", group_status())],
        "Queue" => vec![("spec", queue()), ("status", queue_status())],
        "HyperNode" => vec![("spec", hyper_node()), ("status", hyper_node_status())],
        _ => vec![("target", object(TARGET, []))],
    };
    let fields = if row.kind == "Command" {
        "apiVersion:text kind:text action:text reason:text message:text"
    } else {
        "apiVersion:text kind:text"
    };
    object(fields, parts.into_iter().chain([("metadata", json!({ "type": "object" }))]))
}

/// An object with these plain fields and more.
fn object(fields: &str, more: impl IntoIterator<Item = (&'static str, Value)>) -> Value {
    let plain = fields.split_whitespace().filter_map(|field| field.split_once(':'));
    let plain = plain.map(|(name, kind)| (name.to_owned(), plain_schema(kind)));
    let more = more.into_iter().map(|(name, schema)| (name.to_owned(), schema));
    json!({ "type": "object", "properties": plain.chain(more).collect::<Map<_, _>>() })
}

fn plain_schema(kind: &str) -> Value {
    let number = |least: i64| json!({ "type": "integer", "format": "int32", "minimum": least });
    let words = |words: &[&str]| json!({ "type": "string", "enum": words });
    let map = |values: Value| json!({ "type": "object", "additionalProperties": values });
    match kind {
        "text63" => json!({ "type": "string", "maxLength": 63 }),
        "label" => json!({ "type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" }),
        "mount" => json!({ "type": "string", "minLength": 1, "pattern": "^[^:]+$" }),
        "texts" => list(json!({ "type": "string" })),
        "textmap" => map(json!({ "type": "string" })),
        "countmap" => map(json!({ "type": "integer", "format": "int32" })),
        "amounts" => {
            map(json!({ "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true }))
        }
        "int32" => json!({ "type": "integer", "format": "int32" }),
        "int64" | "tier" => json!({ "type": "integer", "format": "int64" }),
        "count" => number(0),
        "some" => number(1),
        "weight" => json!({ "type": "integer", "format": "int32", "minimum": 1, "maximum": 65535, "default": 1 }),
        "flag" => json!({ "type": "boolean" }),
        "time" => json!({ "type": "string", "format": "date-time" }),
        "mode" => words(&["hard", "soft"]),
        "member" => words(&["Node", "HyperNode"]),
        "numa" => words(&["none", "best-effort", "restricted", "single-numa-node"]),
        "dequeue" => words(&["fifo", "traverse"]),
        _ => json!({ "type": "string" }),
    }
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn job() -> Value {
    let policies = || list(object(POLICY, []));
    let topology = || ("networkTopology", object(TOPOLOGY, []));
    let depends = object("name:texts", [("iteration", json!({ "type": "string", "enum": ["any", "all"] }))]);
    let task = [
        ("template", builtin("PodTemplateSpec")),
        ("policies", policies()),
        ("dependsOn", depends),
        ("partitionPolicy", object(PARTITIONS, [topology()])),
    ];
    let volume =
        object("mountPath:mount volumeClaimName:text", [("volumeClaim", builtin("PersistentVolumeClaimSpec"))]);
    let plugin = json!({ "type": "array", "items": { "type": "string" }, "nullable": true });
    let fields = [
        ("tasks", list(object(TASK, task))),
        ("policies", policies()),
        ("volumes", list(volume)),
        ("plugins", json!({ "type": "object", "additionalProperties": plugin })),
        topology(),
    ];
    object(JOB, fields)
}

fn job_status() -> Value {
    let phases = json!({ "type": "object", "additionalProperties": { "type": "integer", "format": "int32" } });
    let tasks = json!({ "type": "object", "additionalProperties": object("", [("phase", phases)]) });
    let conditions = list(object("status:text lastTransitionTime:time", []));
    object(JOB_STATUS, [("state", object(STATE, [])), ("taskStatusCount", tasks), ("conditions", conditions)])
}

fn cron() -> Value {
    let metadata = object("labels:textmap annotations:textmap", []);
    object(CRON, [("jobTemplate", object("", [("metadata", metadata), ("spec", job())]))])
}

fn cron_status() -> Value {
    object("lastScheduleTime:time lastSuccessfulTime:time", [("active", list(object(REFERENCE, [])))])
}

fn label_selector() -> Value {
    let expression = list(object("key:text operator:text values:texts", []));
    object("matchLabels:textmap", [("matchExpressions", expression)])
}

fn group() -> Value {
    let topology = || ("networkTopology", object(TOPOLOGY, []));
    let sub_group = object(SUB_GROUP, [("labelSelector", label_selector()), topology()]);
    object(GROUP, [("subGroupPolicy", list(sub_group)), topology()])
}

fn group_status() -> Value {
    object(GROUP_STATUS, [("conditions", list(object(GROUP_CONDITION, [])))])
}

fn queue() -> Value {
    let side = || {
        let lists = "requiredDuringSchedulingIgnoredDuringExecution:texts preferredDuringSchedulingIgnoredDuringExecution:texts";
        object(lists, [])
    };
    let affinity = object("", [("nodeGroupAffinity", side()), ("nodeGroupAntiAffinity", side())]);
    let clusters = list(object("name:text weight:int32 capacity:amounts", []));
    let guarantee = object("resource:amounts", []);
    object(QUEUE, [("guarantee", guarantee), ("affinity", affinity), ("extendClusters", clusters)])
}

fn queue_status() -> Value {
    object(QUEUE_STATUS, [("reservation", object("nodes:texts resource:amounts", []))])
}

/// ADM-54: at least one member, each chosen in exactly one way, by labels only if it is a node.
fn hyper_node() -> Value {
    const WAYS: [&str; 3] = ["exactMatch", "regexMatch", "labelMatch"];
    let mut name = object("name:text", []);
    name["required"] = json!(["name"]);
    name["properties"]["name"] = json!({ "type": "string", "minLength": 1, "maxLength": 253 });
    let mut pattern = object("pattern:text", []);
    pattern["required"] = json!(["pattern"]);
    pattern["properties"]["pattern"] = json!({ "type": "string", "minLength": 1, "maxLength": PATTERN_MAX });
    // A pattern that is none cannot be asked, which is an error of the rule and so a refusal.
    let rule = "''.matches(self.pattern) in [true, false]";
    pattern["x-kubernetes-validations"] = json!([{ "rule": rule, "message": "is not a regular expression" }]);
    let ways = [("exactMatch", name), ("regexMatch", pattern), ("labelMatch", label_selector())];
    let mut selector = object("", ways);
    selector["oneOf"] = WAYS.iter().map(|way| json!({ "required": [way] })).collect();
    let mut member = object("type:member", [("selector", selector)]);
    member["required"] = json!(["type", "selector"]);
    let rule = "self.type == 'Node' || !has(self.selector.labelMatch)";
    let message = "only nodes are chosen by labelMatch";
    member["x-kubernetes-validations"] = json!([{ "rule": rule, "message": message }]);
    let members = json!({ "type": "array", "items": member, "minItems": 1, "maxItems": MEMBERS_MAX });
    let mut spec = object("tier:count tierName:text", [("members", members)]);
    spec["required"] = json!(["tier", "members"]);
    spec
}

fn hyper_node_status() -> Value {
    let fields = "type:text status:text reason:text message:text lastTransitionTime:time observedGeneration:int64";
    object("nodeCount:int64", [("conditions", list(object(fields, [])))])
}
