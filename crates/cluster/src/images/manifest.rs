//! Manifests, indexes and image configurations, in both the OCI and the Docker spelling. Pure.
//!
//! `read` turns a manifest's bytes into a typed document; `pick` chooses the machine's platform from an index.

use super::digest::Digest;
use super::error::ImageError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const OCI_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub const OCI_LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// What registries are told that we understand.
pub const ACCEPTED: [&str; 4] = [OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST];

/// Layers in an image; overlayfs and Docker stop near this number.
pub const LAYERS_MAX: usize = 127;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Platform {
    pub os: String,
    pub architecture: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    pub config: Descriptor,
    #[serde(default)]
    pub layers: Vec<Descriptor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub media_type: String,
    #[serde(default)]
    pub manifests: Vec<Descriptor>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    Index(Index),
    Manifest(Manifest),
}

/// The image's own file: what to run and the uncompressed layers' digests.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ConfigFile {
    #[serde(default)]
    pub architecture: String,
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub config: Option<ImageConfig>,
    pub rootfs: RootFs,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RootFs {
    pub diff_ids: Vec<Digest>,
}

/// How the image wants to be run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ImageConfig {
    #[serde(deserialize_with = "or_default")]
    pub entrypoint: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub cmd: Vec<String>,
    /// `NAME=value`, in the image's order.
    #[serde(deserialize_with = "or_default")]
    pub env: Vec<String>,
    #[serde(rename = "WorkingDir")]
    pub workdir: String,
    /// `user[:group]`, names or numbers; names are looked up inside the image.
    pub user: String,
    #[serde(deserialize_with = "or_default")]
    pub labels: BTreeMap<String, String>,
    #[serde(rename = "ExposedPorts", deserialize_with = "keys")]
    pub exposed: Vec<String>,
    pub stop_signal: String,
    #[serde(deserialize_with = "keys")]
    pub volumes: Vec<String>,
}

/// Docker writes `null` for empty lists.
fn or_default<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// Sets are maps to empty objects on the wire.
fn keys<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let map = Option::<BTreeMap<String, serde_json::Value>>::deserialize(from)?;
    Ok(map.unwrap_or_default().into_keys().collect())
}

/// Reads a manifest or an index; the shape decides where the media type is missing.
pub fn read(bytes: &[u8], content_type: &str) -> Result<Document, ImageError> {
    let malformed = |error: serde_json::Error| ImageError::malformed("the manifest", error);
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(malformed)?;
    let declared = value.get("mediaType").and_then(|kind| kind.as_str()).unwrap_or_default();
    let kind = if declared.is_empty() { content_type.split(';').next().unwrap_or_default().trim() } else { declared };
    let is_index = matches!(kind, OCI_INDEX | DOCKER_LIST);
    let is_manifest = matches!(kind, OCI_MANIFEST | DOCKER_MANIFEST);
    if is_index || (!is_manifest && value.get("manifests").is_some()) {
        return serde_json::from_value(value).map(Document::Index).map_err(malformed);
    }
    if value.get("schemaVersion").and_then(|version| version.as_u64()) == Some(1) {
        return Err(ImageError::MediaType("application/vnd.docker.distribution.manifest.v1+json".to_owned()));
    }
    if !is_manifest && value.get("config").is_none() {
        return Err(ImageError::MediaType(kind.to_owned()));
    }
    let manifest: Manifest = serde_json::from_value(value).map_err(malformed)?;
    if manifest.layers.len() > LAYERS_MAX {
        return Err(ImageError::malformed("the manifest", format!("more than {LAYERS_MAX} layers")));
    }
    Ok(Document::Manifest(manifest))
}

/// Reads an image configuration and checks that it speaks of the manifest's layers.
pub fn read_config(bytes: &[u8], manifest: &Manifest) -> Result<ConfigFile, ImageError> {
    let config: ConfigFile =
        serde_json::from_slice(bytes).map_err(|error| ImageError::malformed("the image configuration", error))?;
    let (ids, layers) = (config.rootfs.diff_ids.len(), manifest.layers.len());
    match ids == layers {
        true => Ok(config),
        false => Err(ImageError::malformed("the image", format!("{layers} layers but {ids} diff ids"))),
    }
}

impl Platform {
    /// This machine, in the words of image indexes.
    pub fn of_this_machine() -> Platform {
        let (architecture, variant) = match std::env::consts::ARCH {
            "x86_64" => ("amd64", ""),
            "aarch64" => ("arm64", "v8"),
            "x86" => ("386", ""),
            "arm" => ("arm", "v7"),
            "powerpc64" => ("ppc64le", ""),
            other => (other, ""),
        };
        Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: variant.to_owned() }
    }

    /// How well an offer fits: exact variants beat those left open; `None` does not run here.
    fn fit(&self, offered: &Platform) -> Option<u8> {
        let same = self.os == offered.os && self.architecture == offered.architecture;
        match (same, offered.variant == self.variant, offered.variant.is_empty()) {
            (false, _, _) => None,
            (true, true, _) => Some(2),
            (true, false, true) => Some(1),
            // amd64 variants above the baseline may use instructions that the machine lacks; arm's older ones run.
            (true, false, false) => (self.architecture == "arm" && offered.variant < self.variant).then_some(0),
        }
    }

    fn text(&self) -> String {
        let parts = [self.os.as_str(), self.architecture.as_str(), self.variant.as_str()];
        parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join("/")
    }
}

/// The entry of an index for a platform; an entry without one fits only when it is alone.
pub fn pick<'a>(index: &'a Index, wanted: &Platform) -> Result<&'a Descriptor, ImageError> {
    let mut best: Option<(u8, &Descriptor)> = None;
    for entry in &index.manifests {
        let fit = match &entry.platform {
            Some(platform) => wanted.fit(platform),
            None => (index.manifests.len() == 1).then_some(0),
        };
        if let Some(fit) = fit
            && best.is_none_or(|(found, _)| fit > found)
        {
            best = Some((fit, entry));
        }
    }
    best.map(|(_, entry)| entry).ok_or_else(|| {
        let mut offered: Vec<String> =
            index.manifests.iter().filter_map(|entry| entry.platform.as_ref()).map(Platform::text).collect();
        // BuildKit's attestations call themselves unknown/unknown.
        offered.retain(|platform| platform != "unknown/unknown");
        ImageError::Platform { wanted: wanted.text(), offered: offered.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(architecture: &str, variant: &str) -> Descriptor {
        let platform = Platform { os: "linux".into(), architecture: architecture.into(), variant: variant.into() };
        Descriptor {
            media_type: OCI_MANIFEST.into(),
            digest: Digest::of(format!("{architecture}{variant}").as_bytes()),
            size: 1,
            platform: Some(platform),
            annotations: BTreeMap::new(),
        }
    }

    fn platform(architecture: &str, variant: &str) -> Platform {
        entry(architecture, variant).platform.expect("set above")
    }

    #[test]
    fn the_best_platform_of_an_index_is_picked() {
        let index = Index {
            schema_version: 2,
            media_type: String::new(),
            manifests: vec![
                entry("amd64", "v3"),
                entry("amd64", ""),
                entry("arm", "v6"),
                entry("arm", "v7"),
                entry("arm64", "v8"),
            ],
        };
        assert_eq!(pick(&index, &platform("amd64", "")).expect("amd64"), &index.manifests[1]);
        assert_eq!(pick(&index, &platform("arm", "v7")).expect("v7"), &index.manifests[3]);
        assert_eq!(pick(&index, &platform("arm64", "v8")).expect("v8"), &index.manifests[4]);
        let error = pick(&index, &platform("riscv64", "")).expect_err("none").to_string();
        assert_eq!(
            error,
            "no match for platform in manifest: linux/riscv64 is not among linux/amd64/v3, linux/amd64, linux/arm/v6, \
             linux/arm/v7, linux/arm64/v8: not found"
        );
    }

    #[test]
    fn documents_are_told_apart_by_media_type_or_shape() {
        let digest = Digest::of(b"");
        let config = json!({"digest": digest, "size": 2});
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": []}).to_string();
        assert!(matches!(read(manifest.as_bytes(), DOCKER_MANIFEST), Ok(Document::Manifest(_))));
        assert!(matches!(read(manifest.as_bytes(), ""), Ok(Document::Manifest(_))));
        let index = json!({"schemaVersion": 2, "manifests": []}).to_string();
        assert!(matches!(read(index.as_bytes(), "application/json"), Ok(Document::Index(_))));
        let old = json!({"schemaVersion": 1, "fsLayers": []}).to_string();
        assert!(matches!(read(old.as_bytes(), ""), Err(ImageError::MediaType(_))));
        assert!(matches!(read(b"{", ""), Err(ImageError::Malformed { .. })));
    }

    #[test]
    fn configurations_forgive_nulls_and_check_the_number_of_layers() {
        let digest = Digest::of(b"");
        let manifest: Manifest =
            serde_json::from_value(json!({"schemaVersion": 2, "config": {"digest": digest, "size": 2}}))
                .expect("manifest");
        let text = json!({"config": {"Entrypoint": null, "Cmd": ["sh"], "ExposedPorts": {"80/tcp": {}}, "Volumes": null,
            "WorkingDir": "/w", "User": "1:2", "Labels": {"a": "b"}, "StopSignal": "SIGINT"}, "rootfs": {"diff_ids": []}});
        let file = read_config(text.to_string().as_bytes(), &manifest).expect("config");
        let config = file.config.expect("present");
        assert_eq!(
            (config.cmd, config.exposed, config.workdir),
            (vec!["sh".to_owned()], vec!["80/tcp".to_owned()], "/w".to_owned())
        );
        let more = json!({"rootfs": {"diff_ids": [digest]}}).to_string();
        assert!(read_config(more.as_bytes(), &manifest).is_err());
    }
}
