//! An artifact's manifest: which files it has, by their digests.

use crate::fault::{Fault, Result};
use crate::file::clean;
use crate::people::keys::hex;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;

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

/// The hexadecimal form of a digest that clients send in base64; nothing if it is no MD5.
pub fn hex_of(digest: &str) -> Option<String> {
    let bytes = STANDARD.decode(digest).ok()?;
    (bytes.len() == 16).then(|| hex(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

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
