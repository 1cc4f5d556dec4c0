//! Jobs: artifacts of type `job`, with one file that says what runs.

use crate::{Client, Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use serde_json::{Value, json};

const FILE: &str = "wandb-job.json";
/// Jobs of a project that are listed.
const JOBS_MAX: i64 = 1000;

/// Where a job is kept, and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct JobPath<'a> {
    pub entity: &'a str,
    pub project: &'a str,
    /// With a version or an alias behind a colon, or without.
    pub name: &'a str,
}

impl Client {
    pub async fn jobs(&self, entity: &str, project: &str) -> Result<Vec<Value>> {
        let query = "query Jobs($entity: String!, $project: String!, $first: Int!) { project(name: $project, entityName: $entity) \
            { artifactType(name: \"job\") { artifactCollections(first: $first) { edges { node { name description createdAt \
            updatedAt aliases(first: 100) { edges { node { alias } } } artifacts(first: 1) { edges { node { versionIndex } } } } } } } } }";
        let mut answer =
            self.graphql(query, json!({ "entity": entity, "project": project, "first": JOBS_MAX })).await?;
        let edges = answer["project"]["artifactType"]["artifactCollections"]["edges"].take();
        let told = |edge: &Value| {
            let node = &edge["node"];
            let aliases = node["aliases"]["edges"].as_array().into_iter().flatten();
            let aliases: Vec<&Value> = aliases.map(|edge| &edge["node"]["alias"]).collect();
            json!({ "name": node["name"], "project": project, "aliases": aliases, "created": node["createdAt"],
                "description": node["description"] })
        };
        Ok(edges.as_array().into_iter().flatten().map(told).collect())
    }

    /// The job's own file, and the version that it is of.
    pub async fn job(&self, path: JobPath<'_>) -> Result<Option<(i64, Value)>> {
        let query = "query Job($entity: String!, $project: String!, $name: String!, $files: [String!]) { project(name: $project, \
            entityName: $entity) { artifact(name: $name) { versionIndex artifactType { name } files(names: $files) \
            { edges { node { directUrl } } } } } }";
        let name = if path.name.contains(':') { path.name.to_owned() } else { format!("{}:latest", path.name) };
        let variables = json!({ "entity": path.entity, "project": path.project, "name": name, "files": [FILE] });
        let answer = self.graphql(query, variables).await?;
        let artifact = &answer["project"]["artifact"];
        let Some(url) = artifact["files"]["edges"][0]["node"]["directUrl"].as_str() else { return Ok(None) };
        let bytes = self.download(url).await?;
        let strange = |error: serde_json::Error| Error::Strange { url: self.url().to_owned(), what: error.to_string() };
        let job = serde_json::from_slice(&bytes).map_err(strange)?;
        Ok(Some((artifact["versionIndex"].as_i64().unwrap_or(0), job)))
    }

    /// A new version of a job, unless it is the same as the last; gives the version.
    pub async fn create_job(&self, path: JobPath<'_>, job: &Value, aliases: &[String]) -> Result<i64> {
        let bytes = job.to_string().into_bytes();
        let digest = STANDARD.encode(Md5::digest(&bytes));
        let JobPath { entity, project, name } = path;
        let query = "mutation CreateArtifact($input: CreateArtifactInput!) { createArtifact(input: $input) { artifact { id state versionIndex } } }";
        let aliases: Vec<Value> =
            aliases.iter().map(|alias| json!({ "artifactCollectionName": name, "alias": alias })).collect();
        let input = json!({ "entityName": entity, "projectName": project, "artifactTypeName": "job",
            "artifactCollectionName": name, "digest": digest, "digestAlgorithm": "MANIFEST_MD5",
            "metadata": "{\"_partial\": true}", "aliases": aliases, "enableDigestDeduplication": true });
        let made = self.graphql(query, json!({ "input": input })).await?;
        let artifact = &made["createArtifact"]["artifact"];
        let id = artifact["id"].as_str().unwrap_or_default();
        if artifact["state"] == "COMMITTED" {
            return Ok(artifact["versionIndex"].as_i64().unwrap_or(0));
        }
        self.upload_job(path, id, &digest, bytes).await?;
        let query = "mutation CommitArtifact($id: ID!) { commitArtifact(input: {artifactID: $id}) { artifact { versionIndex } } }";
        let answer = self.graphql(query, json!({ "id": id })).await?;
        Ok(answer["commitArtifact"]["artifact"]["versionIndex"].as_i64().unwrap_or(0))
    }

    async fn upload_job(&self, path: JobPath<'_>, id: &str, digest: &str, bytes: Vec<u8>) -> Result<()> {
        let query = "mutation CreateArtifactFiles($files: [CreateArtifactFileSpecInput!]!) { createArtifactFiles(input: \
            {artifactFiles: $files}) { files { edges { node { uploadUrl } } } } }";
        let size = bytes.len();
        let files = json!([{ "artifactID": id, "name": FILE, "md5": digest }]);
        let answer = self.graphql(query, json!({ "files": files })).await?;
        if let Some(url) = answer["createArtifactFiles"]["files"]["edges"][0]["node"]["uploadUrl"].as_str() {
            self.upload(url, bytes).await?;
        }
        let contents = json!({ FILE: { "digest": digest, "size": size, "birthArtifactID": id } });
        let manifest = json!({ "version": 1, "storagePolicy": "wandb-storage-policy-v1",
            "storagePolicyConfig": { "storageLayout": "V2" }, "contents": contents })
        .to_string()
        .into_bytes();
        let query = "mutation CreateArtifactManifest($input: CreateArtifactManifestInput!) { createArtifactManifest(input: $input) \
            { artifactManifest { file { uploadUrl } } } }";
        let input = json!({ "artifactID": id, "name": "wandb_manifest.json", "digest": STANDARD.encode(Md5::digest(&manifest)),
            "entityName": path.entity, "projectName": path.project, "runName": "", "type": "FULL" });
        let answer = self.graphql(query, json!({ "input": input })).await?;
        let url =
            answer["createArtifactManifest"]["artifactManifest"]["file"]["uploadUrl"].as_str().unwrap_or_default();
        self.upload(url, manifest).await
    }
}
