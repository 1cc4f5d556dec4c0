//! Artifacts: versioned sets of files, among them jobs.
//!
//! A project has types, a type has collections, a collection has versions with movable aliases. An artifact is made, its
//! files and then its manifest are uploaded, and it is committed; only then it is a version.

pub mod commit;
mod fields;
pub mod graphql;
pub mod manifest;
pub mod members;
pub mod multipart;
pub mod store;

use crate::Shared;
use crate::fault::{Fault, Result};
use crate::ids;
use crate::people::Caller;
use async_graphql::ID;
use volley_plan::people::Deed;

#[derive(Clone, Debug)]
pub struct Collection {
    pub id: i64,
    pub project_id: i64,
    pub entity_id: i64,
    pub type_id: i64,
    pub name: String,
    pub description: Option<String>,
    /// Its members are linked to it from other collections.
    pub is_portfolio: bool,
    pub is_deleted: bool,
    /// A JSON list.
    pub tags: String,
    pub created_at: i64,
    pub updated_at: i64,
}

impl Collection {
    pub fn tag_list(&self) -> Vec<String> {
        serde_json::from_str(&self.tags).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub struct Type {
    pub id: i64,
    pub project_id: i64,
    pub name: String,
    pub description: Option<String>,
    pub created_at: i64,
}

#[derive(Clone, Debug)]
pub struct Artifact {
    pub id: i64,
    pub collection_id: i64,
    pub entity_id: i64,
    pub digest: String,
    /// `PENDING`, `COMMITTED` or `DELETED`.
    pub state: String,
    pub version: Option<i64>,
    pub description: Option<String>,
    pub metadata: Option<String>,
    pub ttl: Option<i64>,
    pub size: i64,
    pub file_count: i64,
    pub run_id: Option<i64>,
    pub user_id: i64,
    pub history_step: Option<i64>,
    /// A JSON list.
    pub wanted: String,
    /// A JSON list.
    pub tags: String,
    /// What its manifest adds to, if it does not say everything itself.
    pub base_id: Option<i64>,
    pub created_at: i64,
    pub updated_at: i64,
}

impl Artifact {
    pub fn global_id(&self) -> ID {
        ids::encode("Artifact", self.id)
    }

    pub fn is_committed(&self) -> bool {
        self.state == "COMMITTED"
    }

    pub fn tag_list(&self) -> Vec<String> {
        serde_json::from_str(&self.tags).unwrap_or_default()
    }
}

/// A name as clients write it: `collection:alias`, where the alias may be a version or missing.
pub fn split_name(name: &str) -> (&str, &str) {
    let (collection, alias) = name.rsplit_once(':').unwrap_or((name, "latest"));
    (collection, if alias.is_empty() { "latest" } else { alias })
}

pub const NAME_HINT: &str = "a collection's name has 1 to 128 characters without `/` and `:`";

pub fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.chars().count()) && !name.contains(['/', ':']) && !name.chars().any(char::is_control)
}

/// `v3` is a version, anything else an alias.
pub fn version_of(alias: &str) -> Option<i64> {
    alias.strip_prefix('v')?.parse().ok()
}

pub async fn find(shared: &Shared, caller: &Caller, id: &str) -> Result<Option<Artifact>> {
    let Some(number) = ids::decode("Artifact", id) else {
        return Ok(None);
    };
    let artifact = store::by_id(&shared.database, number).await?;
    Ok(artifact.filter(|artifact| caller.may_see(artifact.entity_id)))
}

pub async fn expect(shared: &Shared, caller: &Caller, deed: Deed, id: &str) -> Result<Artifact> {
    let artifact = find(shared, caller, id).await?.ok_or_else(|| Fault::missing("the artifact"))?;
    caller.must(deed, artifact.entity_id, "the artifact")?;
    Ok(artifact)
}

/// A collection that the caller may do this to, by its global id.
pub async fn expect_collection(shared: &Shared, caller: &Caller, deed: Deed, id: &str) -> Result<Collection> {
    let missing = || Fault::missing("the collection");
    let number = ids::decode("ArtifactCollection", id).ok_or_else(missing)?;
    let found = store::collection_by_id(&shared.database, number).await?;
    let found = found.filter(|found| !found.is_deleted && caller.may_see(found.entity_id)).ok_or_else(missing)?;
    caller.must(deed, found.entity_id, "the collection")?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    // ART-11
    #[test]
    fn a_name_without_an_alias_means_the_latest() {
        assert_eq!(split_name("data:v3"), ("data", "v3"));
        assert_eq!(split_name("data"), ("data", "latest"));
        assert_eq!(split_name("data:"), ("data", "latest"));
        assert_eq!(version_of("v3"), Some(3));
        assert_eq!(version_of("vx"), None);
        assert_eq!(version_of("best"), None);
    }
}
