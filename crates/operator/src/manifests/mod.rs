//! What a real cluster needs to run the operator, as objects for `kubectl apply`: definitions, roles, a Deployment.
//!
//! `volley operator manifests` prints them, and the files in `deploy/` are what it prints.

mod deployment;
mod roles;

pub use roles::{Grant, lacking};
use serde_json::{Map, Value, json};
use volley_api::kubeflow::kinds::ROWS;
use volley_api::kubeflow::{self, Rules};
use volley_api::volcano;

/// The name of everything that is not one of many.
pub const NAME: &str = "volley-operator";
pub const NAMESPACE: &str = "volley-system";
/// Where the Deployment's pods answer probes.
pub const PROBE_PORT: u16 = 8081;

/// Where the operator goes, and from which image it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub namespace: String,
    pub image: String,
}

impl Default for Place {
    fn default() -> Place {
        Place { namespace: NAMESPACE.to_owned(), image: concat!("volley:", env!("CARGO_PKG_VERSION")).to_owned() }
    }
}

/// Objects that are applied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Definitions,
    /// And the namespace that they are in.
    Roles,
    Deployment,
}

/// In the order in which they are to be applied.
pub const PARTS: [Part; 3] = [Part::Definitions, Part::Roles, Part::Deployment];

impl Part {
    /// Its file in `deploy/`. kubectl applies a folder by name, so the names have the order.
    pub fn file(self) -> &'static str {
        match self {
            Part::Definitions => "1-crds.yaml",
            Part::Roles => "2-rbac.yaml",
            Part::Deployment => "3-deployment.yaml",
        }
    }

    pub fn objects(self, place: &Place) -> Vec<Value> {
        match self {
            Part::Definitions => definitions(),
            Part::Roles => roles::objects(place),
            Part::Deployment => vec![deployment::object(place)],
        }
    }
}

/// The definitions of all kinds that the operator looks after.
pub fn definitions() -> Vec<Value> {
    // Names are judged by the controller: whether a digit may come first depends on the cluster (PT-DEC-7).
    let rules = Rules { is_strict: false, accepts_digit_names: true };
    let mut all = volcano::definition::definitions();
    all.extend(ROWS.iter().map(|row| kubeflow::definition::definition(row, rules)));
    for definition in &mut all {
        definition["metadata"]["labels"] = labels();
    }
    all
}

/// Every kind that is defined, by apiVersion and plural.
pub fn kinds() -> Vec<(String, String)> {
    let volcano =
        volcano::kinds::KINDS.iter().map(|row| (format!("{}/{}", row.group, row.version), row.plural.to_owned()));
    let training = ROWS.iter().map(|row| (kubeflow::API_VERSION.to_owned(), row.plural.to_owned()));
    volcano.chain(training).collect()
}

/// The labels of every object, by which they are found and removed.
fn labels() -> Value {
    json!({ "app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "volley" })
}

fn metadata(name: &str, namespace: Option<&str>) -> Value {
    let mut metadata = Map::from_iter([("name".to_owned(), json!(name)), ("labels".to_owned(), labels())]);
    if let Some(namespace) = namespace {
        metadata.insert("namespace".to_owned(), json!(namespace));
    }
    Value::Object(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What kubectl writes into an annotation, all annotations together (client-side apply).
    const ANNOTATIONS_MAX: usize = 262_144;

    #[test]
    fn every_object_fits_into_the_annotation_of_a_plain_apply() {
        for part in PARTS {
            for object in part.objects(&Place::default()) {
                let size = serde_json::to_string(&object).unwrap().len();
                // Some room for the annotation's own name and the newline.
                assert!(size < ANNOTATIONS_MAX - 1024, "{}: {size} bytes", object["metadata"]["name"]);
            }
        }
    }

    #[test]
    fn there_is_a_definition_for_every_kind() {
        assert_eq!(definitions().len(), volcano::kinds::KINDS.len() + ROWS.len());
    }

    #[test]
    fn everything_is_in_the_namespace_that_was_asked_for() {
        let place = Place { namespace: "elsewhere".to_owned(), image: "registry/volley:1".to_owned() };
        let text: String =
            PARTS.iter().flat_map(|part| part.objects(&place)).map(|object| object.to_string()).collect();
        assert!(text.contains("elsewhere") && text.contains("registry/volley:1"));
        assert!(!text.contains(NAMESPACE));
    }
}
