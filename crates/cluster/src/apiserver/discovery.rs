//! Discovery: what is served, in the legacy and in the aggregated form (spec K 4). Documents are encoded once.

use super::ApiServer;
use super::answer::{self, Answer, Body};
use super::catalogue::{Catalogue, Resource, api_version};
use super::request::accepted;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, VARY};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The Kubernetes release whose behaviour is matched; build metadata says who answers (spec K-DISC-6).
const KUBERNETES: (&str, &str, &str) = ("1", "35", "v1.35.0+volley.");

pub fn version() -> Value {
    let (major, minor, prefix) = KUBERNETES;
    json!({
        "major": major, "minor": minor, "gitVersion": git_version(prefix),
        "gitCommit": "unknown", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none", "compiler": "rustc", "platform": format!("linux/{}", arch()),
    })
}

/// `v1.35.0+volley.0.1.0`, also the node's kubelet version.
pub fn kubelet_version() -> String {
    git_version(KUBERNETES.2)
}

fn git_version(prefix: &str) -> String {
    format!("{prefix}{}", env!("CARGO_PKG_VERSION"))
}

/// The machine's architecture as Kubernetes spells it.
pub fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

impl ApiServer {
    /// Answers a discovery path, or says that it is none.
    pub fn discovery(&self, path: &str, headers: &HeaderMap) -> Option<Answer> {
        let catalogue = self.catalogue();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let accept = headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if let (["api"] | ["apis"], Some(version)) = (parts.as_slice(), aggregated_version(accept)) {
            let body =
                cached(&catalogue, &format!("{path}#{version}"), || aggregated(&catalogue, parts[0] == "api", version));
            return Some(aggregated_answer(body, version, headers));
        }
        let document = match parts.as_slice() {
            ["api"] => json!({"kind": "APIVersions", "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": self.address()}]}),
            ["apis"] => {
                let groups = catalogue.groups.iter().filter(|(group, _)| !group.is_empty());
                let groups: Vec<Value> = groups.map(|(group, versions)| api_group(group, versions)).collect();
                json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
            }
            ["apis", group] => {
                let (group, versions) = catalogue.groups.iter().find(|(g, _)| &**g == *group && !g.is_empty())?;
                let mut document = api_group(group, versions);
                document["kind"] = "APIGroup".into();
                document["apiVersion"] = "v1".into();
                document
            }
            ["api", version] if catalogue.serves("", version) => resource_list(&catalogue, "", version),
            ["apis", group, version] if !group.is_empty() && catalogue.serves(group, version) => {
                resource_list(&catalogue, group, version)
            }
            _ => return None,
        };
        Some(answer::bytes(200, document.to_string().into()))
    }
}

fn cached(catalogue: &Catalogue, key: &str, make: impl FnOnce() -> Value) -> Bytes {
    if let Some(bytes) = catalogue.documents.lock().get(key) {
        return bytes.clone();
    }
    let bytes = Bytes::from(make().to_string());
    catalogue.documents.lock().insert(key.to_owned(), bytes.clone());
    bytes
}

/// `v2` or `v2beta1` when the client asks for the aggregated form (spec K-DISC-3).
fn aggregated_version(accept: &str) -> Option<&'static str> {
    accepted(accept)
        .filter(|media| {
            media.parameter("as") == "APIGroupDiscoveryList" && media.parameter("g") == "apidiscovery.k8s.io"
        })
        .find_map(|media| match media.parameter("v") {
            "v2" => Some("v2"),
            "v2beta1" => Some("v2beta1"),
            _ => None,
        })
}

fn aggregated_answer(body: Bytes, version: &str, headers: &HeaderMap) -> Answer {
    let tag = format!("\"{}\"", hash(&body));
    let unchanged = headers.get("if-none-match").is_some_and(|value| value.as_bytes() == tag.as_bytes());
    let mut answer = answer::bytes(200, body);
    if unchanged {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        *answer.body_mut() = Body::Whole(None);
    }
    let content = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    let headers = answer.headers_mut();
    for (name, text) in [(CONTENT_TYPE, content.as_str()), (VARY, "Accept"), (CACHE_CONTROL, "public"), (ETAG, &tag)] {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    }
    answer
}

/// A tag that changes when the document does.
pub fn hash(body: &[u8]) -> String {
    Sha256::digest(body).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn api_group(group: &str, versions: &[Box<str>]) -> Value {
    let versions: Vec<Value> =
        versions.iter().map(|v| json!({"groupVersion": api_version(group, v), "version": v})).collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions.first()})
}

/// Verbs of a subresource and the kind that it speaks, when that is another one.
fn subresource(name: &str) -> (&'static [&'static str], Option<(&'static str, &'static str, &'static str)>) {
    match name {
        "scale" => (&["get", "patch", "update"], Some(("autoscaling", "v1", "Scale"))),
        "eviction" => (&["create"], Some(("policy", "v1", "Eviction"))),
        "token" => (&["create"], Some(("authentication.k8s.io", "v1", "TokenRequest"))),
        "binding" => (&["create"], Some(("", "v1", "Binding"))),
        "finalize" => (&["update"], None),
        "log" => (&["get"], None),
        "exec" => (&["create", "get"], Some(("", "v1", "PodExecOptions"))),
        "attach" => (&["create", "get"], Some(("", "v1", "PodAttachOptions"))),
        "portforward" => (&["create", "get"], Some(("", "v1", "PodPortForwardOptions"))),
        _ => (&["get", "patch", "update"], None),
    }
}

fn resource_list(catalogue: &Catalogue, group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for resource in catalogue.of(group, version) {
        let mut entry = json!({"name": resource.plural, "singularName": resource.singular,
            "namespaced": resource.namespaced, "kind": resource.kind, "verbs": resource.verbs});
        if !resource.short_names.is_empty() {
            entry["shortNames"] = json!(resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = json!(resource.categories);
        }
        resources.push(entry);
        for name in &resource.subresources {
            let (verbs, kind) = subresource(name);
            let mut entry = json!({"name": format!("{}/{name}", resource.plural), "singularName": "",
                "namespaced": resource.namespaced, "kind": resource.kind, "verbs": verbs});
            if let Some((group, version, kind)) = kind {
                entry["kind"] = kind.into();
                if !group.is_empty() {
                    entry["group"] = group.into();
                    entry["version"] = version.into();
                }
            }
            resources.push(entry);
        }
    }
    let mut list =
        json!({"kind": "APIResourceList", "groupVersion": api_version(group, version), "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

/// `/api` or `/apis` in one document (spec K-DISC-1).
fn aggregated(catalogue: &Catalogue, core: bool, version: &str) -> Value {
    let groups = catalogue.groups.iter().filter(|(group, _)| group.is_empty() == core);
    let items: Vec<Value> = groups
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|v| {
                    let resources: Vec<Value> =
                        catalogue.of(group, v).into_iter().map(|r| aggregated_resource(r)).collect();
                    json!({"version": v, "freshness": "Current", "resources": resources})
                })
                .collect();
            let metadata = if core { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"), "metadata": {}, "items": items})
}

fn aggregated_resource(resource: &Resource) -> Value {
    // Empty group and version mean "as the enclosing one"; custom resources write them out.
    let own = |kind: &str| match &resource.custom {
        Some(_) => json!({"group": resource.group, "version": resource.version, "kind": kind}),
        None => json!({"group": "", "version": "", "kind": kind}),
    };
    let mut entry = Map::new();
    entry.insert("resource".into(), (*resource.plural).into());
    entry.insert("responseKind".into(), own(&resource.kind));
    entry.insert("scope".into(), if resource.namespaced { "Namespaced" } else { "Cluster" }.into());
    entry.insert("singularResource".into(), (*resource.singular).into());
    entry.insert("verbs".into(), json!(resource.verbs));
    if !resource.short_names.is_empty() {
        entry.insert("shortNames".into(), json!(resource.short_names));
    }
    if !resource.categories.is_empty() {
        entry.insert("categories".into(), json!(resource.categories));
    }
    let subresources: Vec<Value> = resource
        .subresources
        .iter()
        .map(|name| {
            let (verbs, kind) = subresource(name);
            let kind = match kind {
                Some((group, version, kind)) => json!({"group": group, "version": version, "kind": kind}),
                None => own(&resource.kind),
            };
            json!({"subresource": name, "responseKind": kind, "verbs": verbs})
        })
        .collect();
    if !subresources.is_empty() {
        entry.insert("subresources".into(), subresources.into());
    }
    Value::Object(entry)
}
