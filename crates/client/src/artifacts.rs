//! Artifacts by their id: what they are called, what is in them and where that is.

use crate::{Client, Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A file of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// With the folders that it is in.
    pub name: String,
    /// As the manifest has it.
    pub digest: String,
    pub size: u64,
    /// It lies elsewhere, at this URL.
    pub reference: Option<String>,
}

impl Entry {
    /// Whether these bytes are the file.
    pub fn is(&self, bytes: &[u8]) -> bool {
        STANDARD.encode(Md5::digest(bytes)) == self.digest
    }
}

impl Client {
    /// `entity/project/name:version` of an artifact that can be read.
    pub async fn artifact_reference(&self, id: &str) -> Result<Option<String>> {
        let query = "query ArtifactName($id: ID!) { artifact(id: $id) { state versionIndex artifactSequence { name project \
            { name entityName } } } }";
        let answer = self.graphql(query, json!({ "id": id })).await?;
        let artifact = &answer["artifact"];
        let sequence = &artifact["artifactSequence"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let parts = (
            text(&sequence["project"]["entityName"]),
            text(&sequence["project"]["name"]),
            text(&sequence["name"]),
            artifact["versionIndex"].as_i64(),
        );
        let (Some(entity), Some(project), Some(name), Some(version)) = parts else { return Ok(None) };
        Ok((artifact["state"] == "COMMITTED").then(|| format!("{entity}/{project}/{name}:v{version}")))
    }

    /// What is in an artifact, or nothing where it is gone.
    pub async fn artifact_entries(&self, id: &str) -> Result<Option<Vec<Entry>>> {
        let query =
            "query ArtifactManifest($id: ID!) { artifact(id: $id) { state currentManifest { file { directUrl } } } }";
        let answer = self.graphql(query, json!({ "id": id })).await?;
        let artifact = &answer["artifact"];
        let url = artifact["currentManifest"]["file"]["directUrl"].as_str();
        let (Some(url), true) = (url, artifact["state"] == "COMMITTED") else { return Ok(None) };
        let bytes = self.download(url).await?;
        let strange = |error: serde_json::Error| Error::Strange { url: self.url().to_owned(), what: error.to_string() };
        let manifest: Value = serde_json::from_slice(&bytes).map_err(strange)?;
        let entry = |(name, entry): (&String, &Value)| Entry {
            name: name.clone(),
            digest: entry["digest"].as_str().unwrap_or_default().to_owned(),
            size: entry["size"].as_u64().unwrap_or(0),
            reference: entry["ref"].as_str().map(str::to_owned),
        };
        Ok(Some(manifest["contents"].as_object().into_iter().flatten().map(entry).collect()))
    }

    /// Where files of an artifact are, by their names.
    pub async fn artifact_urls(&self, id: &str, names: &[&str]) -> Result<BTreeMap<String, String>> {
        let query = "query ArtifactFiles($id: ID!, $names: [String!], $first: Int!) { artifact(id: $id) \
            { files(names: $names, first: $first) { edges { node { name directUrl } } } } }";
        let answer = self.graphql(query, json!({ "id": id, "names": names, "first": names.len() })).await?;
        let edges = answer["artifact"]["files"]["edges"].as_array().into_iter().flatten();
        let url = |edge: &Value| {
            let text = |name: &str| edge["node"][name].as_str().map(str::to_owned);
            Some((text("name")?, text("directUrl")?))
        };
        Ok(edges.filter_map(url).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_digest() {
        let entry = Entry { name: "a".into(), digest: "CY9rzUYh03PK3k6DJie09g==".into(), size: 4, reference: None };
        assert!(entry.is(b"test") && !entry.is(b"Test"));
    }
}
