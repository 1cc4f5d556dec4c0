//! Calls on a cluster's API: JSON in, JSON out.

use crate::runner::Failure;
use http::{Method, Request, header};
use kube::api::{ApiResource, DynamicObject};
use kube::core::Resource;
use kube::{Client, Error};
use serde_json::{Value, json};
use volley_client::part;
use volley_turns::calls::answered;

/// Who is named as the writer of fields.
const MANAGER: &str = "volley-agent";

/// A kind, as the cluster serves it.
#[derive(Debug, Clone)]
pub struct Kind {
    pub resource: ApiResource,
    pub is_namespaced: bool,
}

impl Kind {
    pub fn new(api_version: &str, kind: &str, plural: &str) -> Kind {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Kind { resource, is_namespaced: true }
    }

    fn all(&self, namespace: &str) -> String {
        DynamicObject::url_path(&self.resource, self.is_namespaced.then_some(namespace))
    }

    fn one(&self, namespace: &str, name: &str) -> String {
        format!("{}/{}", self.all(namespace), part(name))
    }
}

/// The keys that sign a cluster's tokens, as one name.
pub fn signer(keys: &Value) -> Option<String> {
    let mut names: Vec<&str> = keys["keys"].as_array()?.iter().filter_map(|key| key["kid"].as_str()).collect();
    names.sort_unstable();
    (!names.is_empty()).then(|| names.join(" "))
}

/// The HTTP status of a refusal; 0 when no answer came.
pub fn code(error: &Error) -> u16 {
    match error {
        Error::Api(status) => status.code,
        _ => 0,
    }
}

/// A refusal that asking again will not change, in the server's own words (K-27).
pub fn refusal(error: Error, what: &str) -> Failure {
    match &error {
        Error::Api(status) if (400..500).contains(&status.code) && !matches!(status.code, 401 | 408 | 409 | 429) => {
            let reason = if status.reason.is_empty() { "refused" } else { status.reason.as_str() };
            Failure::Refused(format!(
                "the cluster refuses {what}: {} ({} {reason})",
                status.message.trim_end_matches('.'),
                status.code
            ))
        }
        _ => Failure::from(error),
    }
}

fn request(method: Method, path: &str, body: Option<(&Value, &str)>) -> Result<Request<Vec<u8>>, Error> {
    let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    let mut bytes = Vec::new();
    if let Some((object, content_type)) = body {
        request = request.header(header::CONTENT_TYPE, content_type);
        bytes = serde_json::to_vec(object).map_err(Error::SerdeError)?;
    }
    request.body(bytes).map_err(Error::HttpError)
}

pub async fn ask(client: &Client, request: Request<Vec<u8>>) -> Result<Value, Error> {
    answered(client.request(request), |words| Error::Service(words.into())).await
}

/// The object, if it is there.
pub async fn get(client: &Client, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Value>, Error> {
    match ask(client, request(Method::GET, &kind.one(namespace, name), None)?).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if code(&error) == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes an object; fields that the cluster does not know are refused (K-28).
pub async fn create(client: &Client, kind: &Kind, namespace: &str, object: &Value) -> Result<Value, Error> {
    let path = format!("{}?fieldManager={MANAGER}&fieldValidation=Strict", kind.all(namespace));
    ask(client, request(Method::POST, &path, Some((object, "application/json")))?).await
}

pub async fn patch(client: &Client, kind: &Kind, object: &Value, patch: &Value) -> Result<Option<Value>, Error> {
    let (namespace, name) = place(object);
    let path = format!("{}?fieldManager={MANAGER}", kind.one(namespace, name));
    match ask(client, request(Method::PATCH, &path, Some((patch, "application/merge-patch+json")))?).await {
        Ok(object) => Ok(Some(object)),
        Err(error) if code(&error) == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Deletes the object with its dependents before it: ours has a finalizer, so they would otherwise outlive it.
pub async fn delete(client: &Client, kind: &Kind, object: &Value) -> Result<(), Error> {
    let (namespace, name) = place(object);
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground",
        "preconditions": { "uid": object["metadata"]["uid"] } });
    let body = Some((&options, "application/json"));
    match ask(client, request(Method::DELETE, &kind.one(namespace, name), body)?).await {
        Ok(_) => Ok(()),
        // Gone already, or another object has its name by now (L-37).
        Err(error) if matches!(code(&error), 404 | 409) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes everything of a kind that a selector finds.
pub async fn delete_all(client: &Client, kind: &Kind, namespace: &str, selector: &str) -> Result<(), Error> {
    let path = format!("{}?labelSelector={}", kind.all(namespace), part(selector));
    let options = json!({ "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background" });
    match ask(client, request(Method::DELETE, &path, Some((&options, "application/json")))?).await {
        Ok(_) => Ok(()),
        Err(error) if code(&error) == 404 => Ok(()),
        Err(error) => Err(error),
    }
}

/// Namespace and name.
pub fn place(object: &Value) -> (&str, &str) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_known_by_its_keys_in_whatever_order_they_come() {
        let keys =
            |names: &[&str]| json!({ "keys": names.iter().map(|name| json!({ "kid": name })).collect::<Vec<_>>() });
        assert_eq!(signer(&keys(&["b", "a"])), signer(&keys(&["a", "b"])));
        assert_ne!(signer(&keys(&["a"])), signer(&keys(&["b"])));
        assert_eq!((signer(&keys(&[])), signer(&Value::Null)), (None, None));
    }
}
