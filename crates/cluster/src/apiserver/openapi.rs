//! OpenAPI documents: version 3 per group version and version 2 for all (spec K 5).
//!
//! A document is built when it is asked for and not kept: it is large, and clients cache it under its hash. Shapes come
//! from the table of built-in types, sentences at run time from `k8s-openapi`, custom schemas from their definitions.

mod enums;
mod paths;
mod schemas;

use serde_json::{Map, Value, json};

/// One served resource, as the documents need it.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    pub subresources: &'a [&'a str],
    pub verbs: &'a [&'a str],
    /// The `openAPIV3Schema` of a custom kind.
    pub schema: Option<&'a Value>,
}

/// The two spellings of the same facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    /// Where schemas stand in the document.
    fn schemas_at(self) -> &'static str {
        match self {
            Dialect::V2 => "/definitions",
            Dialect::V3 => "/components/schemas",
        }
    }

    fn reference(self, name: &str) -> Value {
        json!({"$ref": format!("#{}/{name}", self.schemas_at())})
    }
}

/// The document of one group version; `resources` are those of that group version.
pub fn v3(group: &str, version: &str, resources: &[Resource]) -> Value {
    let mine: Vec<Resource> = resources.iter().filter(|r| r.group == group && r.version == version).copied().collect();
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths_of(Dialect::V3, &mine),
        "components": {"schemas": schemas::of(Dialect::V3, &mine)},
    })
}

/// The Swagger 2.0 document of everything that is served.
pub fn v2(resources: &[Resource]) -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths_of(Dialect::V2, resources),
        "definitions": schemas::of(Dialect::V2, resources),
    })
}

fn paths_of(dialect: Dialect, resources: &[Resource]) -> Map<String, Value> {
    let mut all = Map::new();
    for resource in resources {
        paths::add(dialect, resource, &mut all);
    }
    all
}

#[cfg(test)]
mod tests;
