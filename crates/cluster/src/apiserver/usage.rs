//! `metrics.k8s.io`: what the node and its pods use, for `kubectl top` and those who scale by it. Answered, never stored.

use super::ApiServer;
use super::answer::{self, Answer};
use super::call::Call;
use super::node_door::Usage;
use super::object::{self, partial};
use super::request::{Form, View};
use serde_json::{Value, json};
use std::sync::LazyLock;
use volley_api::kube::quantity::Quantity;
use volley_api::kube::schema::{StructRef, json as schemas};
use volley_api::kube::selector::{FieldSelector, LabelSelector};
use volley_api::kube::status::ApiError;
use volley_api::kube::{text, time};
use volley_plan::agent::picture::GPU_USAGE;

pub const GROUP: &str = "metrics.k8s.io";

/// The two kinds as schemas: no library of ours has them.
static SCHEMAS: LazyLock<[(&str, Value); 2]> = LazyLock::new(|| {
    let string = || json!({"type": "string"});
    let usage = || json!({"type": "object", "additionalProperties": {"type": "string"}});
    let container = json!({"type": "object", "properties": {"name": string(), "usage": usage()}});
    let kind = |(name, what): (&str, Value)| {
        let mut schema = json!({"type": "object", "properties": {
            "apiVersion": string(), "kind": string(), "metadata": {"type": "object"},
            "timestamp": {"type": "string", "format": "date-time"}, "window": string(),
        }});
        schema["properties"][name] = what;
        schema
    };
    let containers = json!({"type": "array", "items": container});
    [("NodeMetrics", kind(("usage", usage()))), ("PodMetrics", kind(("containers", containers)))]
});

pub fn schema(kind: &str) -> Option<&'static Value> {
    SCHEMAS.iter().find(|(name, _)| *name == kind).map(|(_, schema)| schema)
}

pub fn shape(kind: &str) -> Option<StructRef> {
    Some(schemas::root(schema(kind)?, &format!("io.k8s.metrics.v1beta1.{kind}")))
}

impl ApiServer {
    pub fn resource_usage(&self, verb: &str, call: &Call, form: Form) -> Result<Answer, ApiError> {
        let all = match &*call.resource.kind {
            "NodeMetrics" => self.node_metrics(call),
            _ => self.pod_metrics(call),
        };
        let resource = &call.resource;
        match verb {
            "get" => {
                let name = object::key(&call.path.namespace, &call.path.name);
                let missing = || ApiError::not_found(GROUP, &resource.singular, &name);
                let mut found = all.into_iter().find(|one| text(one, "metadata.name") == call.path.name);
                let found = found.as_mut().ok_or_else(missing)?;
                found["kind"] = (*resource.kind).into();
                found["apiVersion"] = resource.api_version().into();
                Ok(self.object_answer(200, resource, found, form, call))
            }
            "list" => self.usage_list(call, all, form),
            _ => Err(ApiError::method_not_allowed()),
        }
    }

    fn usage_list(&self, call: &Call, mut all: Vec<Value>, form: Form) -> Result<Answer, ApiError> {
        let refused = |error: volley_api::kube::selector::SelectorError| ApiError::bad_request(error.0);
        let labels = LabelSelector::parse(call.query.text("labelSelector")).map_err(refused)?;
        let fields = FieldSelector::parse(call.query.text("fieldSelector")).map_err(refused)?;
        let kind = &call.resource.kind;
        all.retain(|one| {
            labels.matches(one["metadata"]["labels"].as_object()) && fields.matches_object(GROUP, kind, one)
        });
        let items = |kind: &str, api_version: &str, items: Vec<Value>| json!({"kind": kind, "apiVersion": api_version, "metadata": {}, "items": items});
        let list = match form.view {
            View::Object => items(&call.resource.list_kind, &call.resource.api_version(), all),
            View::Partial | View::PartialList => {
                items("PartialObjectMetadataList", "meta.k8s.io/v1", all.iter().map(partial).collect())
            }
            View::Table => {
                let mut table = self.table(&call.resource, json!({}));
                table["rows"] = all.iter().map(|one| self.row(&call.resource, one, call)).collect();
                table
            }
        };
        Ok(answer::value(200, &list, form))
    }

    fn node_metrics(&self, call: &Call) -> Vec<Value> {
        let Some(node) = self.node.get() else { return Vec::new() };
        let (stored, usage) = (self.local("usage").get("", "nodes", "", node.name()), node.usage());
        let (Some(stored), Some(usage)) = (stored, usage) else { return Vec::new() };
        let mut metrics = measured(&stored, &usage, call);
        metrics["usage"] = amounts(&usage);
        if let Some(gpus) = node.gpu_usage() {
            metrics["metadata"]["annotations"] = json!({ GPU_USAGE: gpus });
        }
        vec![metrics]
    }

    fn pod_metrics(&self, call: &Call) -> Vec<Value> {
        let Some(node) = self.node.get() else { return Vec::new() };
        let mut all = Vec::new();
        for pod in self.local("usage").list("", "pods", &call.path.namespace) {
            let used = node.pod_usage(text(&pod, "metadata.uid"));
            // Containers are measured one after the other; the pod was measured when the first one was.
            let Some(first) = used.values().min_by_key(|usage| usage.at) else { continue };
            let mut metrics = measured(&pod, first, call);
            let containers = used.iter().map(|(name, usage)| json!({"name": name, "usage": amounts(usage)}));
            metrics["containers"] = containers.collect();
            all.push(metrics);
        }
        all
    }
}

/// What both kinds begin with: the object's name and labels, and when it was measured.
fn measured(object: &Value, usage: &Usage, call: &Call) -> Value {
    let mut metadata = json!({"name": object["metadata"]["name"], "creationTimestamp": time::seconds(call.now)});
    for key in ["namespace", "labels"] {
        if let Some(value) = object["metadata"].get(key) {
            metadata[key] = value.clone();
        }
    }
    let window = time::duration_text(usage.window);
    json!({"metadata": metadata, "timestamp": time::seconds(usage.at), "window": window})
}

fn amounts(usage: &Usage) -> Value {
    let memory = Quantity::bytes(i64::try_from(usage.memory_bytes).unwrap_or(i64::MAX));
    json!({"cpu": format!("{}n", usage.cpu_nanocores), "memory": format!("{}Ki", memory.value() / 1024)})
}
