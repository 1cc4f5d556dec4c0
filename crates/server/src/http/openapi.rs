//! `GET /api/v1/openapi.json`: the document, made of the table of routes.

use super::json;
use super::routes::{Door, Route, all};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json as value};

pub async fn document() -> Response {
    json(StatusCode::OK, made().to_string().into_bytes())
}

fn made() -> Value {
    let mut paths = Map::new();
    for route in all() {
        let path = paths.entry(path(&route)).or_insert_with(|| value!({}));
        path[route.verb.word()] = operation(&route);
    }
    value!({
        "openapi": "3.1.0",
        "info": {
            "title": "Volley",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The control plane. GraphQL has the nouns of W&B; this is what GraphQL does badly, and people.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": { "type": "http", "scheme": "basic", "description": "any user name; the password is an API key" },
                "bearer": { "type": "http", "scheme": "bearer", "description": "an API key" },
                "session": { "type": "apiKey", "in": "cookie", "name": super::auth::COOKIE,
                    "description": "what changes something also needs the header X-Volley-Page" },
                "signature": { "type": "apiKey", "in": "query", "name": "sign", "description": "URLs that are handed out" },
            },
            "schemas": { "Fault": { "type": "object", "properties": { "error": { "type": "string" } } } },
        },
    })
}

/// A path that takes the rest is written as one parameter, since the format knows no other.
fn path(route: &Route) -> String {
    route.path.replace("{*", "{")
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = names(route.path)
        .map(|name| value!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }))
        .collect();
    parameters.extend(fields(route.query).map(|(name, kind, is_required)| {
        value!({ "name": name, "in": "query", "required": is_required, "schema": { "type": kind } })
    }));
    let security = match route.door {
        Door::Open => value!([]),
        Door::Known => value!([{ "key": [] }, { "bearer": [] }, { "session": [] }]),
        Door::Signed => value!([{ "signature": [] }]),
    };
    let fault = value!({ "application/json": { "schema": { "$ref": "#/components/schemas/Fault" } } });
    let mut operation = value!({
        "summary": route.summary,
        "parameters": parameters,
        "security": security,
        "responses": {
            "200": { "description": "done" },
            "default": { "description": "what went wrong", "content": fault },
        },
    });
    if !route.body.is_empty() {
        let properties: Map<String, Value> =
            fields(route.body).map(|(name, kind, _)| (name.to_owned(), value!({ "type": kind }))).collect();
        let required: Vec<&str> =
            fields(route.body).filter(|(_, _, is_required)| *is_required).map(|(name, _, _)| name).collect();
        let schema = value!({ "type": "object", "properties": properties, "required": required });
        operation["requestBody"] =
            value!({ "required": true, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

/// The parameters in a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| Some(part.strip_prefix('{')?.strip_suffix('}')?.trim_start_matches('*')))
}

/// `name: type?` of a table's line.
fn fields(text: &str) -> impl Iterator<Item = (&str, &str, bool)> {
    text.split(", ").filter_map(|field| {
        let (name, kind) = field.split_once(": ")?;
        Some((name, kind.trim_end_matches('?'), !kind.ends_with('?')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_once_with_its_parameters() {
        let document = made();
        for route in all() {
            let operation = &document["paths"][path(&route)][route.verb.word()];
            assert_eq!(operation["summary"], route.summary, "{} {}", route.verb.word(), route.path);
            let parameters = operation["parameters"].as_array().unwrap();
            assert!(names(route.path).all(|name| parameters.iter().any(|one| one["name"] == name)));
        }
        let paths = document["paths"].as_object().unwrap();
        let operations: usize = paths.values().map(|path| path.as_object().unwrap().len()).sum();
        assert_eq!(operations, all().len(), "no two routes are the same");
    }

    #[test]
    fn what_a_body_must_have_is_told_from_what_it_may_have() {
        let document = made();
        let body = &document["paths"]["/api/v1/keys"]["post"]["requestBody"]["content"]["application/json"]["schema"];
        assert_eq!(body["required"], value!(["name"]));
        assert_eq!(body["properties"]["expires_days"]["type"], "integer");
    }
}
