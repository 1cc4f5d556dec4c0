//! What a request asks for: its path, its query and the form of answer it accepts (spec K 2, 3.1).

use percent_encoding::percent_decode_str;
use volley_api::kube::status::ApiError;

/// A path below `/api` or `/apis`, taken apart but not yet looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: String,
    pub plural: String,
    pub name: String,
    pub subresource: String,
    /// `/api/v1/watch/…` (spec K-WATCH-10).
    pub watch: bool,
}

/// Parts of a namespace's own path that are not resources in it.
const NAMESPACE_SUBRESOURCES: &[&str] = &["status", "finalize"];

impl ResourcePath {
    /// `None` for paths that are not of a resource: discovery, health and so on.
    pub fn parse(path: &str) -> Option<ResourcePath> {
        let decoded: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let mut parts = decoded.iter().map(String::as_str).peekable();
        let mut found = ResourcePath::default();
        match parts.next()? {
            "api" => found.version = parts.next()?.to_owned(),
            "apis" => {
                found.group = parts.next()?.to_owned();
                found.version = parts.next()?.to_owned();
            }
            _ => return None,
        }
        if parts.peek() == Some(&"watch") {
            parts.next();
            found.watch = true;
        }
        let rest: Vec<&str> = parts.collect();
        let in_namespace = rest.len() >= 3 && rest[0] == "namespaces" && !NAMESPACE_SUBRESOURCES.contains(&rest[2]);
        let rest = if in_namespace {
            found.namespace = rest[1].to_owned();
            &rest[2..]
        } else {
            &rest[..]
        };
        found.plural = (*rest.first()?).to_owned();
        found.name = rest.get(1).copied().unwrap_or_default().to_owned();
        found.subresource = rest.get(2..).unwrap_or_default().join("/");
        Some(found)
    }
}

/// The query, in order, decoded; `+` is a blank and repeated names stay (spec K-HTTP-6, K-HTTP-7).
#[derive(Debug, Clone, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(query: &str) -> Query {
        let decode = |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let pairs = query.split('&').filter(|pair| !pair.is_empty()).map(|pair| match pair.split_once('=') {
            Some((name, value)) => (decode(name), decode(value)),
            None => (decode(pair), String::new()),
        });
        Query(pairs.collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The value, or `""` when it is absent.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Absent, `0` and `false` are false; anything else, even empty, is true.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A whole number, or the 400 that a client expects for a value that is none.
    pub fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let parsed = text
            .parse()
            .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")));
        parsed.map(Some)
    }
}

/// What an answer is reduced to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    Object,
    Table,
    Partial,
    PartialList,
}

/// The form of the answer: view and spelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub view: View,
    pub yaml: bool,
}

impl Form {
    pub const JSON: Form = Form { view: View::Object, yaml: false };
}

/// One entry of an Accept header: media type and its parameters in lower case names.
pub struct Media<'a> {
    pub kind: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Media<'a> {
    pub fn parse(text: &'a str) -> Media<'a> {
        let mut parts = text.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        Media { kind, parameters: parts.filter_map(|part| part.split_once('=')).collect() }
    }

    pub fn parameter(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value.trim())
    }
}

/// Entries of an Accept header in the client's order; an empty header accepts JSON.
pub fn accepted(header: &str) -> impl Iterator<Item = Media<'_>> {
    let header = if header.trim().is_empty() { "application/json" } else { header };
    header.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(Media::parse)
}

/// The first entry that we can answer (spec K 3.1, K-CT-1). Protobuf is answered in JSON: all its clients take it.
pub fn negotiate(header: &str, reducible: bool) -> Result<Form, ApiError> {
    for media in accepted(header) {
        let yaml = match media.kind {
            "application/json" | "*/*" | "application/*" | "application/vnd.kubernetes.protobuf" => false,
            "application/yaml" => true,
            _ => continue,
        };
        let meta_v1 = matches!(media.parameter("g"), "" | "meta.k8s.io") && matches!(media.parameter("v"), "" | "v1");
        let view = match media.parameter("as") {
            "" => View::Object,
            "Table" if reducible && meta_v1 => View::Table,
            "PartialObjectMetadata" if reducible && meta_v1 => View::Partial,
            "PartialObjectMetadataList" if reducible && meta_v1 => View::PartialList,
            _ => continue,
        };
        return Ok(Form { view, yaml });
    }
    // Plain text is asked for by browsers and curl scripts; the reference answers JSON there too.
    if header.contains("text/") {
        return Ok(Form::JSON);
    }
    Err(ApiError::new(
        406,
        "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fall_apart_into_their_parts() {
        let path = |text: &str| {
            let p = ResourcePath::parse(text).expect("a resource path");
            format!("{}|{}|{}|{}|{}|{}|{}", p.group, p.version, p.namespace, p.plural, p.name, p.subresource, p.watch)
        };
        assert_eq!(path("/api/v1/pods"), "|v1||pods|||false");
        assert_eq!(path("/api/v1/namespaces/a/pods/p/log"), "|v1|a|pods|p|log|false");
        assert_eq!(path("/api/v1/namespaces/a"), "|v1||namespaces|a||false");
        assert_eq!(path("/api/v1/namespaces/a/status"), "|v1||namespaces|a|status|false");
        assert_eq!(path("/apis/apps/v1/namespaces/a/deployments/d/scale"), "apps|v1|a|deployments|d|scale|false");
        assert_eq!(path("/api/v1/watch/namespaces/a/pods"), "|v1|a|pods|||true");
        assert_eq!(ResourcePath::parse("/api/v1"), None);
        assert_eq!(ResourcePath::parse("/healthz"), None);
    }

    // K-HTTP-6 K-HTTP-7
    #[test]
    fn queries_follow_the_reference_rules() {
        let query = Query::parse("&limit=500&watch&follow=True&a=0&b=FALSE&command=ls&command=-l+x&sel=a%3Db");
        assert!(query.flag("watch") && query.flag("follow"));
        assert!(!query.flag("a") && !query.flag("b") && !query.flag("absent"));
        assert_eq!(query.all("command").collect::<Vec<_>>(), ["ls", "-l x"]);
        assert_eq!(query.text("sel"), "a=b");
        assert_eq!(query.number("limit"), Ok(Some(500)));
        assert_eq!(query.number("sel").unwrap_err().code, 400);
    }

    // K-CT-1
    #[test]
    fn the_first_acceptable_entry_wins() {
        let view = |header: &str, reducible| negotiate(header, reducible).map(|f| (f.view, f.yaml)).map_err(|e| e.code);
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(view(table, true), Ok((View::Table, false)));
        assert_eq!(view(table, false), Ok((View::Object, false)));
        assert_eq!(
            view("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", true),
            Ok((View::Object, false))
        );
        assert_eq!(view("", true), Ok((View::Object, false)));
        assert_eq!(view("application/vnd.kubernetes.protobuf, */*", true), Ok((View::Object, false)));
        assert_eq!(view("application/yaml", true), Ok((View::Object, true)));
        assert_eq!(view("application/xml", true), Err(406));
        let partial =
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
        assert_eq!(view(partial, true), Ok((View::Partial, false)));
    }
}
