//! Calls on the API: binds, evictions, patches. Each ends within a time limit, so that one that hangs is one that failed.

use crate::kinds::{KINDS, PODS, Presence, Row};
use http::{Method, Request};
use jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};
use std::time::Duration;
use volley_api::kube::time;
use volley_plan::gang::Member;
use volley_plan::gang::objects::Key;

/// A server that has not answered by then is asked again.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Who is named as the writer of fields.
const MANAGER: &str = "volley-scheduler";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Why a call came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status; 0 when no answer came.
    pub code: u16,
    /// The server's own words, which is what users know.
    pub words: String,
}

impl Refusal {
    /// What it was about has gone or changed: there is nothing to tell, the next look sees it as it is.
    pub fn is_stale(&self) -> bool {
        matches!(self.code, 404 | 409)
    }
}

#[derive(Clone)]
pub struct Calls {
    client: Client,
}

impl Calls {
    pub fn new(client: Client) -> Calls {
        Calls { client }
    }

    async fn call(&self, method: Method, path: &str, content: &str, body: &Value) -> Result<Value, Refusal> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let uri = format!("{path}{separator}fieldManager={MANAGER}");
        let request = Request::builder().method(method).uri(uri).header("Content-Type", content);
        let request = request.body(body.to_string().into_bytes());
        let request = request.map_err(|error| Refusal { code: 0, words: error.to_string() })?;
        match tokio::time::timeout(CALL_TIMEOUT, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(Refusal { code: status.code, words: status.message.clone() }),
            Ok(Err(error)) => Err(Refusal { code: 0, words: error.to_string() }),
            Err(_) => Err(Refusal { code: 0, words: format!("no answer within {CALL_TIMEOUT:?}") }),
        }
    }

    /// Binds the pod, if it still is the one with this uid (SCH-40).
    pub async fn bind(&self, pod: &Member, node: &str) -> Result<(), Refusal> {
        let path = format!("{}/binding", KINDS[PODS].path(&pod.key.namespace, &pod.key.name));
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": &*pod.key.namespace, "name": &*pod.key.name, "uid": &*pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        });
        self.call(Method::POST, &path, "application/json", &body).await.map(drop)
    }

    /// Notes on the pod that it is evicted, and why (UI-4).
    pub async fn mark_evicted(&self, pod: &Member, message: &str) -> Result<(), Refusal> {
        let path = format!("{}/status", KINDS[PODS].path(&pod.key.namespace, &pod.key.name));
        let now = time::seconds(Timestamp::now());
        let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now});
        let conditions = json!([
            condition("DisruptionTarget", "True", "PreemptionByScheduler"),
            condition("Ready", "False", "Evict")
        ]);
        let patch = json!({"metadata": {"uid": &*pod.uid}, "status": {"conditions": conditions}});
        self.call(Method::PATCH, &path, STRATEGIC, &patch).await.map(drop)
    }

    /// Deletes the pod with its own grace; what is left of it, if it goes later.
    pub async fn delete_pod(&self, pod: &Member) -> Result<Option<Value>, Refusal> {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": &*pod.uid}});
        let path = KINDS[PODS].path(&pod.key.namespace, &pod.key.name);
        let answer = self.call(Method::DELETE, &path, "application/json", &options).await?;
        let is_going = answer["kind"] != "Status" && !answer["metadata"]["deletionTimestamp"].is_null();
        Ok(is_going.then_some(answer))
    }

    /// A merge patch on an object's metadata or spec.
    pub async fn patch(&self, row: Row, key: &Key, patch: &Value) -> Result<Value, Refusal> {
        self.call(Method::PATCH, &KINDS[row].path(&key.namespace, &key.name), MERGE, patch).await
    }

    /// A merge patch on a status. Where a definition says otherwise than Volcano's about the status' own resource, the
    /// first call leaves it as it was, and the other one follows.
    pub async fn patch_status(&self, row: Row, key: &Key, patch: &Value) -> Result<Value, Refusal> {
        let main = KINDS[row].path(&key.namespace, &key.name);
        let own = format!("{main}/status");
        let (first, second) = if KINDS[row].has_status() { (&own, &main) } else { (&main, &own) };
        let is_defined = KINDS[row].presence == Presence::Defined;
        // Joins lists of conditions by their types, so that nobody's is lost; definitions do not know it.
        let content = if KINDS[row].presence == Presence::Switched { STRATEGIC } else { MERGE };
        match self.call(Method::PATCH, first, content, patch).await {
            Ok(answer) if is_defined && !has_taken(&answer, patch) => {
                self.call(Method::PATCH, second, MERGE, patch).await
            }
            Err(Refusal { code: 404, .. }) if is_defined => self.call(Method::PATCH, second, MERGE, patch).await,
            other => other,
        }
    }

    pub async fn create_event(&self, namespace: &str, event: &Value) -> Result<(), Refusal> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        self.call(Method::POST, &path, "application/json", event).await.map(drop)
    }

    pub async fn patch_event(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), Refusal> {
        let path = format!("/api/v1/namespaces/{namespace}/events/{name}");
        self.call(Method::PATCH, &path, MERGE, patch).await.map(drop)
    }
}

/// Whether what a write returned has the status that a merge patch asks for.
fn has_taken(answer: &Value, patch: &Value) -> bool {
    fn is_in(answer: &Value, patch: &Value) -> bool {
        match patch {
            Value::Object(patch) => patch.iter().all(|(key, value)| is_in(&answer[key.as_str()], value)),
            other => answer == other,
        }
    }
    patch.get("status").is_none_or(|status| is_in(&answer["status"], status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_that_was_left_as_it_was_is_noticed() {
        let answer = json!({"metadata": {"name": "g"}, "status": {"phase": "Inqueue", "allocated": {"cpu": "1"}}});
        for (patch, taken) in [
            (json!({"metadata": {"annotations": {"a": "b"}}}), true),
            (json!({"status": {"phase": "Inqueue"}}), true),
            (json!({"status": {"allocated": {"cpu": "1", "memory": null}}}), true),
            (json!({"status": {"phase": "Running"}}), false),
            (json!({"status": {"conditions": [{"type": "Scheduled"}]}}), false),
        ] {
            assert_eq!(has_taken(&answer, &patch), taken, "{patch}");
        }
    }
}
