//! Credentials of the registries that a launch pulls from, out of Docker's own file: whoever has run `docker login` where the
//! agent is gives its launches a pull secret, with the entries that they need and no others (K-25).

use super::order::Order;
use serde_json::{Map, Value, json};

const DEFAULT: &str = "docker.io";

/// What the pull secret of a launch holds; nothing where no registry of its images is known.
pub fn pull_config(docker: &Value, order: &Order) -> Option<String> {
    let known = docker["auths"].as_object()?;
    let mut images: Vec<&str> = order.image.iter().map(String::as_str).collect();
    gather(&order.config, &mut images);
    let mut auths = Map::new();
    for image in images {
        let registry = registry(image);
        let entry = known.iter().find(|(name, entry)| host(name) == registry && has_login(entry));
        auths.extend(entry.map(|(name, entry)| (name.clone(), entry.clone())));
    }
    (!auths.is_empty()).then(|| json!({ "auths": auths }).to_string())
}

/// An entry without one points to a helper program, which a cluster does not have.
fn has_login(entry: &Value) -> bool {
    ["auth", "password", "identitytoken", "registrytoken"].iter().any(|field| entry[*field].is_string())
}

fn gather<'a>(config: &'a Value, images: &mut Vec<&'a str>) {
    match config {
        Value::Object(fields) => {
            images.extend(fields.get("image").and_then(Value::as_str));
            fields.values().for_each(|value| gather(value, images));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, images)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (),
    }
}

/// The registry of an image: what stands before the first slash, if it looks like a host.
fn registry(image: &str) -> &str {
    let first = image.split_once('/').map_or("", |(first, _)| first);
    let is_host = first.contains(['.', ':']) || first == "localhost";
    if is_host { host(first) } else { DEFAULT }
}

/// The host of an entry, which may be written as a URL.
fn host(name: &str) -> &str {
    let name = name.split_once("://").map_or(name, |(_, rest)| rest);
    match name.split('/').next().unwrap_or(name) {
        "index.docker.io" | "registry-1.docker.io" => DEFAULT,
        host => host,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::order;
    use super::*;

    // K-25
    #[test]
    fn a_launch_gets_the_credentials_of_its_own_registries_only() {
        let docker = json!({ "auths": {
            "https://index.docker.io/v1/": { "auth": "aHVi" },
            "registry.example:5000": { "auth": "bWluZQ==" },
            "other.example": { "auth": "b3RoZXI=" },
            "helped.example": {},
        }});
        let pulled = |image: &str, config: Value| {
            let mut order = order(config);
            order.image = Some(image.to_owned());
            pull_config(&docker, &order).map(|text| serde_json::from_str::<Value>(&text).unwrap())
        };
        let mine = json!({ "auths": { "registry.example:5000": { "auth": "bWluZQ==" } } });
        assert_eq!(pulled("registry.example:5000/team/train:1", json!({})), Some(mine));
        let hub = json!({ "auths": { "https://index.docker.io/v1/": { "auth": "aHVi" } } });
        assert_eq!(pulled("library/python", json!({})), Some(hub.clone()));
        assert_eq!(pulled("python:3", json!({})), Some(hub));
        let both = pulled("registry.example:5000/a", json!({"spec": [{"image": "other.example/b@sha256:0"}]})).unwrap();
        assert_eq!(both["auths"].as_object().map(Map::len), Some(2));
        for unknown in ["helped.example/a", "registry.example/a", "localhost/a"] {
            assert_eq!(pulled(unknown, json!({})), None, "{unknown}");
        }
    }
}
