//! An artifact's manifest: which files it has, by their digests.

use crate::fault::{Fault, Result};
use crate::file::clean;
use crate::people::keys::hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// How a manifest that says everything is named.
pub const NAME: &str = "wandb_manifest.json";

#[derive(Deserialize)]
pub struct Manifest {
    #[serde(default)]
    pub contents: BTreeMap<String, Entry>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    pub digest: String,
    #[serde(default)]
    pub size: i64,
    #[serde(default, rename = "ref")]
    pub reference: Option<String>,
    #[serde(default, rename = "birthArtifactID")]
    pub birth_artifact_id: Option<String>,
}

/// Reads a manifest; names that lead out of the artifact are refused, because clients write them to disk.
pub fn read(bytes: &[u8]) -> Result<Manifest> {
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|error| Fault::bad(format!("the artifact's manifest cannot be read: {error}")))?;
    for name in manifest.contents.keys() {
        clean(name)?;
    }
    Ok(manifest)
}

/// The digest that clients give an artifact with these contents.
pub fn digest(manifest: &Manifest) -> String {
    let mut md5 = Md5::new();
    md5.update(b"wandb-artifact-manifest-v1\n");
    for (name, entry) in &manifest.contents {
        md5.update(format!("{name}:{}\n", entry.digest).as_bytes());
    }
    hex(&md5.finalize())
}

/// One manifest of several; where two name the same file, the later one counts.
pub fn merge(parts: &[impl AsRef<[u8]>]) -> Result<Vec<u8>> {
    let mut whole = serde_json::Map::new();
    let mut contents = serde_json::Map::new();
    for part in parts {
        let read: serde_json::Map<String, Value> = serde_json::from_slice(part.as_ref())
            .map_err(|error| Fault::bad(format!("the artifact's manifest cannot be read: {error}")))?;
        for (key, value) in read {
            match (key.as_str(), value) {
                ("contents", Value::Object(entries)) => contents.extend(entries),
                (_, value) => drop(whole.insert(key, value)),
            }
        }
    }
    whole.insert("contents".to_owned(), Value::Object(contents));
    serde_json::to_vec(&whole).map_err(Fault::internal)
}

/// The hexadecimal form of a digest that clients send in base64; nothing if it is no MD5.
pub fn hex_of(digest: &str) -> Option<String> {
    let bytes = STANDARD.decode(digest).ok()?;
    (bytes.len() == 16).then(|| hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    // ART-5
    #[test]
    fn parts_become_one_manifest_in_which_the_last_word_counts() {
        let parts = [
            r#"{"version":1,"contents":{"a":{"digest":"1"},"b":{"digest":"2"}}}"#,
            r#"{"version":1,"contents":{"b":{"digest":"3"}}}"#,
        ];
        let whole: Value = serde_json::from_slice(&merge(&parts).unwrap()).unwrap();
        assert_eq!(whole, serde_json::json!({"version":1,"contents":{"a":{"digest":"1"},"b":{"digest":"3"}}}));
        assert!(merge(&["[]"]).is_err());
    }

    #[test]
    fn a_manifest_is_read_and_one_that_leads_out_is_refused() {
        let text = r#"{"version":1,"contents":{"a/b":{"digest":"1B2M2Y8AsgTpgAmY7PhCfg==","size":3,"birthArtifactID":"x"},
            "r":{"digest":"e","ref":"s3://b/k","size":1,"extra":{}}}}"#;
        let manifest = read(text.as_bytes()).unwrap();
        assert_eq!(hex_of(&manifest.contents["a/b"].digest).as_deref(), Some("d41d8cd98f00b204e9800998ecf8427e"));
        assert_eq!(manifest.contents["r"].reference.as_deref(), Some("s3://b/k"));
        assert_eq!(hex_of("e"), None);
        assert!(read(br#"{"contents":{"../x":{"digest":"e"}}}"#).is_err());
        assert!(read(b"nonsense").is_err());
    }
}
