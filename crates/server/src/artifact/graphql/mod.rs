//! Artifacts in the schema.

pub mod collection;
pub mod files;
pub mod input;
pub mod mutation;
pub mod project;
pub mod portfolio;
pub mod registry;
pub mod run;

use super::{Artifact as Record, find, members, store};
use crate::connection;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::{PAGE_MAX, PageInfo, cursor, cut, length};
use crate::graphql::scalars::{DateTime, Int64, JsonText};
use crate::people;
use crate::people::graphql::User;
use crate::run::graphql::{Run, RunConnection};
use crate::run::search::Condition;
use crate::run::store as runs;
use crate::{file::graphql::FileConnection, ids};
use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject, Union};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use collection::{ArtifactCollection, ArtifactCollectionMembership, ArtifactSequence, ArtifactType};
use files::ArtifactManifest;

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactState {
    Pending,
    Committed,
    Deleted,
    GarbageCollected,
    PendingDeletion,
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactDigestAlgorithm {
    #[graphql(name = "MANIFEST_MD5")]
    Md5,
    #[graphql(name = "MANIFEST_XXH128")]
    Xxh128,
}

/// How clients read "no time to live of its own".
const TTL_INHERITED: i64 = -2;

#[derive(Clone)]
pub struct Artifact(pub Record);

connection!(ArtifactConnection, ArtifactEdge, Option<Artifact>, total_count: i32);

#[derive(SimpleObject)]
pub struct InputArtifactConnection {
    total_count: i32,
    page_info: PageInfo,
    edges: Vec<ArtifactEdge>,
}

#[Object]
impl Artifact {
    async fn id(&self) -> ID {
        self.0.global_id()
    }
    async fn state(&self) -> ArtifactState {
        match self.0.state.as_str() {
            "COMMITTED" => ArtifactState::Committed,
            "DELETED" => ArtifactState::Deleted,
            _ => ArtifactState::Pending,
        }
    }
    async fn digest(&self) -> &str {
        &self.0.digest
    }
    async fn digest_algorithm(&self) -> ArtifactDigestAlgorithm {
        ArtifactDigestAlgorithm::Md5
    }
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }
    async fn metadata(&self) -> Option<JsonText> {
        self.0.metadata.clone().map(JsonText)
    }
    async fn version_index(&self) -> Option<i32> {
        self.0.version.and_then(|version| i32::try_from(version).ok())
    }
    async fn commit_hash(&self) -> Option<String> {
        Some(format!("{:016x}", self.0.id))
    }
    async fn size(&self) -> Int64 {
        Int64(self.0.size)
    }
    async fn file_count(&self) -> Int64 {
        Int64(self.0.file_count)
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> Option<DateTime> {
        Some(DateTime(self.0.updated_at))
    }
    async fn history_step(&self) -> Option<Int64> {
        self.0.history_step.map(Int64)
    }
    async fn ttl_duration_seconds(&self) -> Option<Int64> {
        Some(Int64(self.0.ttl.unwrap_or(TTL_INHERITED)))
    }
    async fn ttl_is_inherited(&self) -> bool {
        self.0.ttl.is_none_or(|ttl| ttl == TTL_INHERITED)
    }
    async fn tags(&self) -> Vec<Tag> {
        self.0.tag_list().into_iter().map(|name| Tag::of("Artifact", self.0.id, name)).collect()
    }
    async fn aliases(&self, ctx: &Context<'_>) -> Result<Vec<ArtifactAlias>> {
        let aliases = store::aliases_of(&ctx.shared().database, self.0.id).await?;
        Ok(aliases.into_iter().map(ArtifactAlias).collect())
    }
    async fn artifact_type(&self, ctx: &Context<'_>) -> Result<ArtifactType> {
        let sequence = ArtifactSequence::by_id(ctx, self.0.collection_id).await?;
        ArtifactType::by_id(ctx, sequence.0.type_id).await
    }
    async fn artifact_sequence(&self, ctx: &Context<'_>) -> Result<ArtifactSequence> {
        ArtifactSequence::by_id(ctx, self.0.collection_id).await
    }
    async fn artifact_memberships(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "first")] _first: Option<i32>,
    ) -> Result<Option<ArtifactMembershipConnection>> {
        let home = ArtifactSequence::by_id(ctx, self.0.collection_id).await?.0;
        let mut places = vec![(home, self.0.version.unwrap_or(0), self.0.created_at)];
        places.extend(members::portfolios_of(&ctx.shared().database, self.0.id).await?);
        places.retain(|(collection, _, _)| ctx.caller().may_see(collection.entity_id));
        let edge = |(collection, version, at)| {
            let member = members::Member { artifact: self.0.clone(), version, at };
            ArtifactMembershipEdge { node: Some(ArtifactCollectionMembership { collection, member }) }
        };
        Ok(Some(ArtifactMembershipConnection {
            page_info: PageInfo::last(),
            edges: places.into_iter().map(edge).collect(),
        }))
    }
    async fn current_manifest(&self, ctx: &Context<'_>) -> Result<Option<ArtifactManifest>> {
        let found = store::manifest_of(&ctx.shared().database, self.0.id).await?;
        Ok(found.map(|(id, digest)| ArtifactManifest::new(ctx, id, digest).to_read()))
    }
    async fn files(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        names: Option<Vec<String>>,
    ) -> Result<Option<FileConnection>> {
        files::page(ctx, &self.0, names, first, after).await.map(Some)
    }
    async fn files_by_manifest_entries(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "storageLayout")] _layout: String,
        #[graphql(name = "manifestVersion")] _version: String,
        entries: Option<Vec<ArtifactManifestEntryInput>>,
        #[graphql(name = "storageRegion")] _region: Option<String>,
    ) -> Result<Option<FileConnection>> {
        let names = entries.unwrap_or_default().into_iter().map(|entry| entry.name).collect();
        files::page(ctx, &self.0, Some(names), i32::try_from(PAGE_MAX).ok(), None).await.map(Some)
    }
    async fn used_by(&self, ctx: &Context<'_>, first: Option<i32>) -> Result<Option<RunConnection>> {
        let database = &ctx.shared().database;
        let users = store::users_of(database, self.0.id).await?.into_iter();
        let seen = users.filter(|(_, entity)| ctx.caller().may_see(*entity)).map(|(run, _)| run).collect();
        // W&B's clients ask without a length, and cannot ask for a second page.
        let (ids, has_more) = cut(seen, first.map_or(usize::MAX, |first| length(Some(first))));
        let mut nodes = Vec::new();
        for ids in ids.chunks(PAGE_MAX) {
            let found = runs::with_ids(database, ids, Condition::everything()).await?;
            nodes.extend(found.into_iter().map(|run| (cursor(run.id), Run::new(run))));
        }
        Ok(Some(RunConnection::page(nodes, has_more)))
    }
    async fn created_by(&self, ctx: &Context<'_>) -> Result<Option<ArtifactCreator>> {
        let database = &ctx.shared().database;
        if let Some(run) = self.0.run_id
            && let Some(run) = runs::by_id(database, run).await?
        {
            return Ok(Some(ArtifactCreator::Run(Box::new(Run::new(run)))));
        }
        Ok(people::store::user_by_id(database, self.0.user_id).await?.map(|user| ArtifactCreator::User(User(user))))
    }
}

#[derive(Union)]
pub enum ArtifactCreator {
    Run(Box<Run>),
    User(User),
}

#[derive(SimpleObject)]
pub struct ArtifactMembershipConnection {
    page_info: PageInfo,
    edges: Vec<ArtifactMembershipEdge>,
}

#[derive(SimpleObject)]
pub struct ArtifactMembershipEdge {
    node: Option<ArtifactCollectionMembership>,
}

#[derive(InputObject)]
pub struct ArtifactManifestEntryInput {
    name: String,
    digest: String,
    #[graphql(name = "birthArtifactID")]
    birth_artifact_id: Option<ID>,
    #[graphql(name = "ref")]
    reference: Option<String>,
    size: Option<Int64>,
}

#[derive(SimpleObject)]
pub struct Tag {
    id: ID,
    name: String,
    tag_category_name: Option<String>,
}

impl Tag {
    /// A tag has no life of its own here; its id says of what it is.
    fn of(kind: &str, number: i64, name: String) -> Tag {
        Tag { id: ID(STANDARD.encode(format!("Tag:{kind}:{number}:{name}"))), name, tag_category_name: None }
    }
}

impl TagConnection {
    fn of(collection: i64, names: Vec<String>) -> TagConnection {
        let edge = |name| TagEdge { node: Tag::of("ArtifactCollection", collection, name) };
        TagConnection { edges: names.into_iter().map(edge).collect() }
    }
}

#[derive(SimpleObject)]
pub struct TagConnection {
    edges: Vec<TagEdge>,
}

#[derive(SimpleObject)]
pub struct TagEdge {
    node: Tag,
}

pub struct ArtifactAlias(pub store::Alias);

#[Object]
impl ArtifactAlias {
    async fn id(&self) -> ID {
        ids::encode("ArtifactAlias", self.0.id)
    }
    async fn alias(&self) -> &str {
        &self.0.alias
    }
    async fn artifact_collection(&self, ctx: &Context<'_>) -> Result<Option<ArtifactCollection>> {
        let found = store::collection_by_id(&ctx.shared().database, self.0.collection_id).await?;
        Ok(found.map(ArtifactCollection::from))
    }
}

connection!(ArtifactAliasConnection, ArtifactAliasEdge, Option<ArtifactAlias>);

#[derive(SimpleObject)]
#[graphql(name = "ClientIDMapping")]
pub struct ClientIdMapping {
    #[graphql(name = "serverID")]
    server_id: ID,
}

#[derive(Default)]
pub struct ArtifactQuery;

#[Object]
impl ArtifactQuery {
    async fn artifact(&self, ctx: &Context<'_>, id: ID) -> Result<Option<Artifact>> {
        Ok(find(ctx.shared(), ctx.caller(), &id).await?.map(Artifact))
    }

    async fn artifact_collection(&self, ctx: &Context<'_>, id: ID) -> Result<Option<ArtifactCollection>> {
        let number = ids::decode("ArtifactCollection", &id).ok_or_else(|| Fault::missing("the collection"))?;
        let found = store::collection_by_id(&ctx.shared().database, number).await?;
        let seen = found.filter(|collection| ctx.caller().may_see(collection.entity_id));
        Ok(seen.filter(|collection| !collection.is_deleted).map(ArtifactCollection::from))
    }

    #[graphql(name = "clientIDMapping")]
    async fn client_id_mapping(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "clientID")] client_id: ID,
    ) -> Result<Option<ClientIdMapping>> {
        let found = store::by_client_id(&ctx.shared().database, &client_id).await?;
        let seen = found.filter(|artifact| ctx.caller().may_see(artifact.entity_id));
        Ok(seen.map(|artifact| ClientIdMapping { server_id: artifact.global_id() }))
    }
}
