//! OpenAPI over HTTP: the index, the documents behind their hashes, and the empty v2 protobuf (spec K 5).

use super::ApiServer;
use super::answer::{self, Answer, Body};
use super::catalogue::{Catalogue, api_version};
use super::discovery::hash;
use super::openapi;
use super::request::Query;
use super::usage;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, LOCATION};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

/// The content type that kubectl parses; with `@` instead of the dot it would not (spec K-OAPI-6).
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

impl ApiServer {
    pub fn openapi(&self, path: &str, query: &Query, headers: &HeaderMap) -> Option<Answer> {
        let catalogue = self.catalogue();
        match path.strip_prefix("/openapi/")? {
            "v2" => Some(v2(&catalogue, headers)),
            "v3" => Some(answer::bytes(200, index(&catalogue).to_string().into())),
            rest => {
                let name = rest.strip_prefix("v3/")?;
                let (group, version) = group_version(name)?;
                catalogue.serves(group, version).then(|| v3(&catalogue, name, query))
            }
        }
    }
}

/// `api/v1` or `apis/<group>/<version>`.
fn group_version(name: &str) -> Option<(&str, &str)> {
    match name.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => Some(("", *version)),
        ["apis", group, version] => Some((*group, *version)),
        _ => None,
    }
}

fn names(catalogue: &Catalogue) -> Vec<(String, String)> {
    let mut names = Vec::new();
    for (group, versions) in &catalogue.groups {
        for version in versions {
            let root = if group.is_empty() { "api" } else { "apis" };
            names.push((format!("{root}/{}", api_version(group, version)), tag(catalogue, group, version)));
        }
    }
    names
}

/// A tag that changes when the document would: cheap, so that the index does not build every document.
fn tag(catalogue: &Catalogue, group: &str, version: &str) -> String {
    let mut text = format!("{}/{group}/{version}", env!("CARGO_PKG_VERSION"));
    for resource in catalogue.of(group, version) {
        text.push_str(&resource.plural);
        if let Some(custom) = &resource.custom {
            text.push_str(&custom.source.to_string());
        }
    }
    hash(text.as_bytes())
}

fn index(catalogue: &Catalogue) -> Value {
    let entry = |(name, tag): (String, String)| {
        let url = format!("/openapi/v3/{name}?hash={tag}");
        (name, json!({"serverRelativeURL": url}))
    };
    json!({"paths": names(catalogue).into_iter().map(entry).collect::<Map<String, Value>>()})
}

fn resources<'a>(catalogue: &'a Catalogue, group: &str, version: &str) -> Vec<openapi::Resource<'a>> {
    let rows = catalogue.of(group, version).into_iter();
    rows.map(|row| openapi::Resource {
        group: &row.group,
        version: &row.version,
        kind: &row.kind,
        plural: &row.plural,
        namespaced: row.namespaced,
        subresources: &row.subresources,
        verbs: row.verbs,
        schema: row.custom.as_ref().map(|custom| &custom.source).or_else(|| usage::schema(&row.kind)),
    })
    .collect()
}

/// The document of one group version, immutable under its hash (spec K-OAPI-2).
fn v3(catalogue: &Catalogue, name: &str, query: &Query) -> Answer {
    let (group, version) = group_version(name).unwrap_or_default();
    let tag = tag(catalogue, group, version);
    let asked = query.text("hash");
    if !asked.is_empty() && asked != tag {
        let mut answer = answer::text(301, "");
        if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{name}?hash={tag}")) {
            answer.headers_mut().insert(LOCATION, location);
        }
        return answer;
    }
    let body = Bytes::from(openapi::v3(group, version, &resources(catalogue, group, version)).to_string());
    let mut answer = answer::bytes(200, body);
    let headers = answer.headers_mut();
    if !asked.is_empty() {
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable"));
    }
    if let Ok(value) = HeaderValue::from_str(&format!("\"{tag}\"")) {
        headers.insert(ETAG, value);
    }
    answer
}

fn v2(catalogue: &Catalogue, headers: &HeaderMap) -> Answer {
    let accept = headers.get("accept").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.contains("proto-openapi") {
        let mut answer = answer::bytes(200, Bytes::new());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(V2_PROTOBUF));
        return answer;
    }
    let mut all = Vec::new();
    for (group, versions) in &catalogue.groups {
        for version in versions {
            all.extend(resources(catalogue, group, version));
        }
    }
    let body = Bytes::from(openapi::v2(&all).to_string());
    let tag = format!("\"{}\"", hash(&body));
    let mut answer = answer::bytes(200, body);
    if headers.get("if-none-match").is_some_and(|value| value.as_bytes() == tag.as_bytes()) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        *answer.body_mut() = Body::Whole(None);
    }
    if let Ok(value) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(ETAG, value);
    }
    answer
}
