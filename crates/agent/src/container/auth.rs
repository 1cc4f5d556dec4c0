//! Keys of registries, as `docker login` and `podman login` keep them, in the form in which an engine wants them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use volley_plan::launch::engine::registry;

fn files() -> Vec<PathBuf> {
    let folder = |name: &str, below: &str| std::env::var_os(name).map(|folder| PathBuf::from(folder).join(below));
    let all = [
        folder("REGISTRY_AUTH_FILE", ""),
        folder("DOCKER_CONFIG", "config.json"),
        folder("XDG_RUNTIME_DIR", "containers/auth.json"),
        folder("HOME", ".docker/config.json"),
    ];
    all.into_iter().flatten().collect()
}

/// User and password by registry; helpers that keep them elsewhere are not asked.
fn keys(file: &Value) -> Map<String, Value> {
    let entry = |(host, entry): (&String, &Value)| {
        let text = String::from_utf8(STANDARD.decode(entry["auth"].as_str()?).ok()?).ok()?;
        let (user, password) = text.split_once(':')?;
        Some((host.clone(), json!({ "username": user, "password": password, "serveraddress": host })))
    };
    file["auths"].as_object().into_iter().flatten().filter_map(entry).collect()
}

fn known() -> Map<String, Value> {
    let mut all = Map::new();
    for path in files() {
        let file = std::fs::read(path).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        for (host, key) in file.iter().flat_map(keys) {
            all.entry(host).or_insert(key);
        }
    }
    all
}

/// For one image.
pub fn header(image: &str) -> String {
    URL_SAFE.encode(known().remove(registry(image)).unwrap_or_else(|| json!({})).to_string())
}

/// For a build, which may use several.
pub fn all() -> String {
    URL_SAFE.encode(Value::Object(known()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    // B-21
    #[test]
    fn keys_are_read_as_login_writes_them() {
        let file = json!({"auths": {"h:5000": {"auth": STANDARD.encode("me:a:b")}, "other": {}}});
        let keys = keys(&file);
        assert_eq!(keys.len(), 1);
        assert_eq!(keys["h:5000"], json!({"username": "me", "password": "a:b", "serveraddress": "h:5000"}));
    }
}
