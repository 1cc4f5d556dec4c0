//! What stands in the volumes that the node writes itself: config maps, secrets, the downward API, and their mixture.

use super::downward::{Surroundings, field, resource};
use super::environment::{ConfigError, Sources, find};
use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, KeyToPath, Pod, Volume};
use std::collections::BTreeMap;

const MODE_DEFAULT: i32 = 0o644;
/// A token is valid for an hour when its projection does not say.
const TOKEN_SECONDS_DEFAULT: i64 = 3600;

/// The files of one volume by their path in it, and the tokens that the shell has to ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Payload {
    pub files: BTreeMap<String, File>,
    pub tokens: Vec<TokenNeed>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub content: Vec<u8>,
    pub mode: i32,
}

/// A service account token that belongs at `path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenNeed {
    pub path: String,
    /// Empty for the API server's own.
    pub audience: String,
    pub expiration_seconds: i64,
    pub mode: i32,
}

/// The content of a volume that the node writes; `None` for all other kinds of volumes.
pub fn payload(pod: &Pod, volume: &Volume, sources: &Sources) -> Result<Option<Payload>, ConfigError> {
    let mut payload = Payload::default();
    if let Some(source) = &volume.config_map {
        let mode = source.default_mode.unwrap_or(MODE_DEFAULT);
        payload.add_config_map(sources, &source.name, source.optional, Keys::new(source.items.as_deref(), mode))?;
    } else if let Some(source) = &volume.secret {
        let (name, mode) = (source.secret_name.as_deref().unwrap_or_default(), source.default_mode);
        let keys = Keys::new(source.items.as_deref(), mode.unwrap_or(MODE_DEFAULT));
        payload.add_secret(sources, name, source.optional, keys)?;
    } else if let Some(source) = &volume.downward_api {
        let mode = source.default_mode.unwrap_or(MODE_DEFAULT);
        payload.add_downward(pod, &sources.around, source.items.as_deref(), mode)?;
    } else if let Some(source) = &volume.projected {
        let mode = source.default_mode.unwrap_or(MODE_DEFAULT);
        for part in source.sources.as_deref().unwrap_or_default() {
            payload.add_projection(pod, part, mode, sources)?;
        }
    } else {
        return Ok(None);
    }
    Ok(Some(payload))
}

/// Which keys go where.
#[derive(Clone, Copy)]
struct Keys<'a> {
    items: Option<&'a [KeyToPath]>,
    mode: i32,
}

impl<'a> Keys<'a> {
    fn new(items: Option<&'a [KeyToPath]>, mode: i32) -> Self {
        Keys { items: items.filter(|items| !items.is_empty()), mode }
    }
}

impl Payload {
    fn add_projection(
        &mut self,
        pod: &Pod,
        part: &k8s_openapi::api::core::v1::VolumeProjection,
        mode: i32,
        sources: &Sources,
    ) -> Result<(), ConfigError> {
        if let Some(source) = &part.config_map {
            self.add_config_map(sources, &source.name, source.optional, Keys::new(source.items.as_deref(), mode))
        } else if let Some(source) = &part.secret {
            self.add_secret(sources, &source.name, source.optional, Keys::new(source.items.as_deref(), mode))
        } else if let Some(source) = &part.downward_api {
            self.add_downward(pod, &sources.around, source.items.as_deref(), mode)
        } else if let Some(source) = &part.service_account_token {
            self.tokens.push(TokenNeed {
                path: source.path.clone(),
                audience: source.audience.clone().unwrap_or_default(),
                expiration_seconds: source.expiration_seconds.unwrap_or(TOKEN_SECONDS_DEFAULT),
                mode,
            });
            Ok(())
        } else {
            Err(ConfigError("the volume projects a source of a kind that is not supported".to_owned()))
        }
    }

    fn add_config_map(
        &mut self,
        sources: &Sources,
        name: &str,
        optional: Option<bool>,
        keys: Keys,
    ) -> Result<(), ConfigError> {
        let Some(map) = find(&sources.config_maps, "configmap", name, optional)? else { return Ok(()) };
        let mut content: BTreeMap<&str, &[u8]> = BTreeMap::new();
        content.extend(map.data.iter().flatten().map(|(key, text)| (key.as_str(), text.as_bytes())));
        content.extend(map.binary_data.iter().flatten().map(|(key, bytes)| (key.as_str(), bytes.0.as_slice())));
        self.add(&content, keys, "configmap references non-existent config", optional)
    }

    fn add_secret(
        &mut self,
        sources: &Sources,
        name: &str,
        optional: Option<bool>,
        keys: Keys,
    ) -> Result<(), ConfigError> {
        let Some(secret) = find(&sources.secrets, "secret", name, optional)? else { return Ok(()) };
        let content = secret.data.iter().flatten().map(|(key, bytes)| (key.as_str(), bytes.0.as_slice())).collect();
        self.add(&content, keys, "references non-existent secret", optional)
    }

    fn add(
        &mut self,
        content: &BTreeMap<&str, &[u8]>,
        keys: Keys,
        missing: &str,
        optional: Option<bool>,
    ) -> Result<(), ConfigError> {
        let Some(items) = keys.items else {
            for (key, bytes) in content {
                self.files.insert((*key).to_owned(), File { content: bytes.to_vec(), mode: keys.mode });
            }
            return Ok(());
        };
        for item in items {
            match content.get(item.key.as_str()) {
                Some(bytes) => {
                    let file = File { content: bytes.to_vec(), mode: item.mode.unwrap_or(keys.mode) };
                    self.files.insert(item.path.clone(), file);
                }
                None if optional == Some(true) => {}
                None => return Err(ConfigError(format!("{missing} key: {}", item.key))),
            }
        }
        Ok(())
    }

    fn add_downward(
        &mut self,
        pod: &Pod,
        around: &Surroundings,
        items: Option<&[DownwardAPIVolumeFile]>,
        mode: i32,
    ) -> Result<(), ConfigError> {
        for item in items.unwrap_or_default() {
            let text = match (&item.field_ref, &item.resource_field_ref) {
                (Some(reference), _) => field(pod, around, &reference.field_path),
                (None, Some(reference)) => resource(pod, None, around, reference),
                (None, None) => Ok(String::new()),
            };
            let content = text.map_err(ConfigError)?.into_bytes();
            self.files.insert(item.path.clone(), File { content, mode: item.mode.unwrap_or(mode) });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(volume: Value) -> Result<Option<Payload>, String> {
        let pod = json!({"metadata": {"name": "p", "labels": {"a": "1"}}, "spec": {"containers": []}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let map = serde_json::from_value(json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "Aw=="}})).unwrap();
        let sources = Sources { config_maps: BTreeMap::from([("m".to_owned(), map)]), ..Sources::default() };
        let mut volume = volume;
        volume["name"] = json!("v");
        let volume: Volume = serde_json::from_value(volume).unwrap();
        payload(&pod, &volume, &sources).map_err(|error| error.to_string())
    }

    fn files(payload: &Payload) -> Vec<String> {
        let text = |file: &File| format!("{:?} {:o}", String::from_utf8_lossy(&file.content), file.mode);
        payload.files.iter().map(|(path, file)| format!("{path} {}", text(file))).collect()
    }

    #[test]
    fn other_volumes_have_no_payload() {
        assert_eq!(check(json!({"emptyDir": {}})), Ok(None));
    }

    // K-VOL-1
    #[test]
    fn a_config_map_gives_a_file_per_key_or_the_keys_named() {
        let all = check(json!({"configMap": {"name": "m", "defaultMode": 0o600}})).unwrap().unwrap();
        assert_eq!(files(&all), ["a \"1\" 600", "b \"2\" 600", "c \"\\u{3}\" 600"]);
        let some = json!([{"key": "b", "path": "x/y", "mode": 0o400}]);
        let some = check(json!({"configMap": {"name": "m", "items": some}})).unwrap().unwrap();
        assert_eq!(files(&some), ["x/y \"2\" 400"]);
    }

    #[test]
    fn what_is_missing_is_named_unless_it_is_optional() {
        assert_eq!(check(json!({"configMap": {"name": "no"}})), Err("configmap \"no\" not found".to_owned()));
        assert_eq!(check(json!({"secret": {"secretName": "no"}})), Err("secret \"no\" not found".to_owned()));
        assert_eq!(check(json!({"secret": {"secretName": "no", "optional": true}})), Ok(Some(Payload::default())));
        let items = json!([{"key": "z", "path": "z"}]);
        let error = check(json!({"configMap": {"name": "m", "items": items}}));
        assert_eq!(error, Err("configmap references non-existent config key: z".to_owned()));
    }

    // K-POD-4
    #[test]
    fn the_usual_token_volume_asks_for_a_token_and_holds_certificate_and_namespace() {
        let sources = json!([
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        ]);
        let payload = check(json!({"projected": {"sources": sources}})).unwrap().unwrap();
        assert_eq!(files(&payload), ["ca.crt \"1\" 644", "labels \"a=\\\"1\\\"\" 644", "namespace \"default\" 644"]);
        let token = TokenNeed { path: "token".into(), audience: String::new(), expiration_seconds: 3607, mode: 0o644 };
        assert_eq!(payload.tokens, [token]);
    }
}
