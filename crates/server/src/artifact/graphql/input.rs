//! What clients send to change artifacts, and what they get back.

use super::collection::{ArtifactCollectionMembership, ArtifactType};
use super::files::ArtifactManifest;
use super::{Artifact, ArtifactDigestAlgorithm};
use crate::file::graphql::FileConnection;
use crate::graphql::scalars::{Int64, JsonText};
use async_graphql::{Enum, ID, InputObject, SimpleObject};

#[derive(InputObject)]
pub struct ArtifactAliasInput {
    pub artifact_collection_name: String,
    pub alias: String,
}

#[derive(InputObject)]
pub struct TagInput {
    pub tag_name: String,
    pub tag_category_name: Option<String>,
    pub attributes: Option<JsonText>,
}

#[derive(InputObject)]
pub struct CreateArtifactTypeInput {
    pub entity_name: String,
    pub project_name: String,
    pub name: String,
    pub description: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateArtifactTypePayload {
    pub artifact_type: ArtifactType,
}

#[derive(InputObject)]
pub struct CreateArtifactInput {
    pub entity_name: String,
    pub project_name: String,
    pub artifact_type_name: String,
    pub artifact_collection_name: Option<String>,
    pub artifact_collection_names: Option<Vec<String>>,
    pub run_name: Option<String>,
    pub digest: String,
    pub digest_algorithm: ArtifactDigestAlgorithm,
    pub description: Option<String>,
    pub labels: Option<JsonText>,
    pub metadata: Option<JsonText>,
    pub aliases: Option<Vec<ArtifactAliasInput>>,
    pub tags: Option<Vec<TagInput>>,
    pub ttl_duration_seconds: Option<Int64>,
    pub history_step: Option<Int64>,
    pub enable_digest_deduplication: Option<bool>,
    #[graphql(name = "distributedID")]
    pub distributed_id: Option<String>,
    #[graphql(name = "clientID")]
    pub client_id: Option<ID>,
    #[graphql(name = "sequenceClientID")]
    pub sequence_client_id: Option<ID>,
    pub storage_region: Option<String>,
    pub client_mutation_id: Option<String>,
}

/// Four payloads have the same form.
macro_rules! artifact_payload {
    ($($name:ident),*) => {$(
        #[derive(SimpleObject)]
        pub struct $name {
            pub artifact: Artifact,
        }
    )*};
}

artifact_payload!(
    CreateArtifactPayload, CommitArtifactPayload, UseArtifactPayload, UpdateArtifactPayload, DeleteArtifactPayload
);

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactManifestType {
    Full,
    Patch,
    Incremental,
}

impl ArtifactManifestType {
    pub fn name(self) -> &'static str {
        match self {
            ArtifactManifestType::Full => "FULL",
            ArtifactManifestType::Patch => "PATCH",
            ArtifactManifestType::Incremental => "INCREMENTAL",
        }
    }
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactStorageLayout {
    V1,
    V2,
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum CompleteMultipartAction {
    Complete,
}

#[derive(InputObject)]
pub struct CreateArtifactManifestInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    #[graphql(name = "baseArtifactID")]
    pub base_artifact_id: Option<ID>,
    pub name: String,
    pub digest: String,
    pub entity_name: String,
    pub project_name: String,
    pub run_name: String,
    #[graphql(name = "type")]
    pub kind: Option<ArtifactManifestType>,
}

#[derive(SimpleObject)]
pub struct ArtifactManifestPayload {
    pub artifact_manifest: ArtifactManifest,
}

#[derive(InputObject)]
pub struct UpdateArtifactManifestInput {
    #[graphql(name = "artifactManifestID")]
    pub artifact_manifest_id: ID,
    pub digest: Option<String>,
    #[graphql(name = "baseArtifactID")]
    pub base_artifact_id: Option<ID>,
}

#[derive(InputObject)]
pub struct UploadPartsInput {
    pub part_number: Int64,
    #[graphql(name = "hexMD5")]
    pub hex_md5: String,
}

#[derive(InputObject)]
pub struct CreateArtifactFileSpecInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    pub name: String,
    pub md5: String,
    pub digest: Option<String>,
    pub mimetype: Option<String>,
    #[graphql(name = "artifactManifestID")]
    pub artifact_manifest_id: Option<ID>,
    pub upload_parts_input: Option<Vec<UploadPartsInput>>,
}

#[derive(InputObject)]
pub struct CreateArtifactFilesInput {
    pub artifact_files: Vec<CreateArtifactFileSpecInput>,
    pub storage_layout: Option<ArtifactStorageLayout>,
    pub digest_algorithm: Option<ArtifactDigestAlgorithm>,
    #[graphql(name = "cloudRegionID")]
    pub cloud_region_id: Option<ID>,
    pub client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateArtifactFilesPayload {
    pub files: FileConnection,
}

#[derive(InputObject)]
pub struct CompleteMultipartUploadArtifactInput {
    pub complete_multipart_action: CompleteMultipartAction,
    pub completed_parts: Vec<UploadPartsInput>,
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    pub storage_path: String,
    #[graphql(name = "uploadID")]
    pub upload_id: String,
}

#[derive(SimpleObject)]
pub struct CompleteMultipartUploadArtifactPayload {
    pub digest: Option<String>,
}

#[derive(InputObject)]
pub struct CommitArtifactInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
}

#[derive(InputObject)]
pub struct UseArtifactInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    pub entity_name: String,
    pub project_name: String,
    pub run_name: String,
    pub used_as: Option<String>,
    pub artifact_entity_name: Option<String>,
    pub artifact_project_name: Option<String>,
    pub client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct UpdateArtifactInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    pub description: Option<String>,
    pub labels: Option<JsonText>,
    pub metadata: Option<JsonText>,
    pub aliases: Option<Vec<ArtifactAliasInput>>,
    pub tags_to_add: Option<Vec<TagInput>>,
    pub tags_to_delete: Option<Vec<TagInput>>,
    pub ttl_duration_seconds: Option<Int64>,
    pub client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct DeleteArtifactInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    pub delete_aliases: Option<bool>,
    pub client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct LinkArtifactInput {
    pub artifact_portfolio_name: Option<String>,
    #[graphql(name = "artifactPortfolioID")]
    pub artifact_portfolio_id: Option<ID>,
    pub entity_name: Option<String>,
    pub project_name: Option<String>,
    pub aliases: Option<Vec<ArtifactAliasInput>>,
    #[graphql(name = "artifactID")]
    pub artifact_id: Option<ID>,
    #[graphql(name = "clientID")]
    pub client_id: Option<ID>,
    pub client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct LinkArtifactPayload {
    pub version_index: Option<i32>,
    pub artifact_membership: Option<ArtifactCollectionMembership>,
}

#[derive(InputObject)]
pub struct ArtifactCollectionAliasInput {
    pub entity_name: String,
    pub project_name: String,
    pub artifact_collection_name: String,
    pub alias: String,
}

#[derive(InputObject)]
pub struct AddAliasesInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    pub aliases: Vec<ArtifactCollectionAliasInput>,
    pub client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct DeleteAliasesInput {
    #[graphql(name = "artifactID")]
    pub artifact_id: ID,
    pub aliases: Vec<ArtifactCollectionAliasInput>,
    pub client_mutation_id: Option<String>,
}
