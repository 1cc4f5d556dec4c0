//! Collections, their types and their members in the schema.
//!
//! An `ArtifactSequence` has versions of its own, an `ArtifactPortfolio` has artifacts that were linked to it.

#![expect(clippy::duplicated_attributes, reason = "several fields of the interface have arguments of the same name")]

use super::{Artifact, ArtifactAlias, ArtifactAliasConnection, ArtifactDigestAlgorithm, TagConnection, files};
use crate::artifact::members::{self, Member};
use crate::artifact::{Collection, Type, fields, split_name, store, version_of};
use crate::connection;
use crate::fault::{Fault, Result};
use crate::file::graphql::FileConnection;
use crate::graphql::Asked as _;
use crate::graphql::page::PageInfo;
use crate::graphql::scalars::{DateTime, JsonText};
use crate::graphql::search::{Found, Search};
use crate::ids;
use crate::project::graphql::Project;
use crate::project::store as projects;
use async_graphql::{Context, Enum, ID, Interface, Object};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashMap;

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactCollectionState {
    Ready,
    Deleted,
}

#[derive(Interface)]
#[graphql(
    field(name = "id", ty = "ID"),
    field(name = "name", ty = "&str"),
    field(name = "state", ty = "Option<ArtifactCollectionState>"),
    field(name = "description", ty = "Option<&str>"),
    field(name = "created_at", ty = "DateTime"),
    field(name = "updated_at", ty = "Option<DateTime>"),
    field(name = "project", ty = "Option<Project>"),
    field(name = "default_artifact_type", ty = "ArtifactType"),
    field(name = "tags", ty = "Option<TagConnection>", arg(name = "first", ty = "Option<i32>")),
    field(
        name = "aliases",
        ty = "Option<ArtifactAliasConnection>",
        arg(name = "first", ty = "Option<i32>"),
        arg(name = "after", ty = "Option<String>")
    ),
    field(
        name = "artifacts",
        ty = "Option<VersionedArtifactConnection>",
        arg(name = "first", ty = "Option<i32>"),
        arg(name = "after", ty = "Option<String>"),
        arg(name = "order", ty = "Option<String>"),
        arg(name = "filters", ty = "Option<JsonText>")
    ),
    field(
        name = "artifact_membership",
        ty = "Option<ArtifactCollectionMembership>",
        arg(name = "alias_name", ty = "String")
    )
)]
pub enum ArtifactCollection {
    ArtifactSequence(ArtifactSequence),
    ArtifactPortfolio(ArtifactPortfolio),
}

#[derive(Clone)]
pub struct ArtifactSequence(pub Collection);

#[derive(Clone)]
pub struct ArtifactPortfolio(pub Collection);

connection!(ArtifactCollectionConnection, ArtifactCollectionEdge, Option<ArtifactCollection>, total_count: i32);

impl From<Collection> for ArtifactCollection {
    fn from(collection: Collection) -> ArtifactCollection {
        match collection.is_portfolio {
            true => ArtifactPortfolio(collection).into(),
            false => ArtifactSequence(collection).into(),
        }
    }
}

impl ArtifactSequence {
    pub async fn by_id(ctx: &Context<'_>, id: i64) -> Result<ArtifactSequence> {
        let found = store::collection_by_id(&ctx.shared().database, id).await?;
        found.map(ArtifactSequence).ok_or_else(|| Fault::missing("the collection"))
    }
}

/// The fields that both kinds of collection have.
macro_rules! collection {
    ($name:ident { $($more:tt)* }) => {
        #[Object]
        impl $name {
            async fn id(&self) -> ID {
                ids::encode("ArtifactCollection", self.0.id)
            }
            async fn name(&self) -> &str {
                &self.0.name
            }
            async fn state(&self) -> Option<ArtifactCollectionState> {
                Some(if self.0.is_deleted { ArtifactCollectionState::Deleted } else { ArtifactCollectionState::Ready })
            }
            async fn description(&self) -> Option<&str> {
                self.0.description.as_deref()
            }
            async fn created_at(&self) -> DateTime {
                DateTime(self.0.created_at)
            }
            async fn updated_at(&self) -> Option<DateTime> {
                Some(DateTime(self.0.updated_at))
            }
            async fn project(&self, ctx: &Context<'_>) -> Result<Option<Project>> {
                Ok(projects::by_id(&ctx.shared().database, self.0.project_id).await?.map(Project::new))
            }
            async fn default_artifact_type(&self, ctx: &Context<'_>) -> Result<ArtifactType> {
                ArtifactType::by_id(ctx, self.0.type_id).await
            }
            async fn tags(&self, #[graphql(name = "first")] _first: Option<i32>) -> Option<TagConnection> {
                Some(TagConnection::of(self.0.id, self.0.tag_list()))
            }
            async fn aliases(
                &self,
                ctx: &Context<'_>,
                first: Option<i32>,
                #[graphql(name = "after")] from: Option<String>,
            ) -> Result<Option<ArtifactAliasConnection>> {
                let aliases = store::aliases_in(&ctx.shared().database, self.0.id).await?;
                let found = Search::read(None, None)?.apply(aliases, |_, _| None, |alias| (alias.id, 0));
                let (rows, has_more) = found.page(first, from.as_deref());
                let nodes = rows.into_iter().map(|(cursor, alias)| (cursor, Some(ArtifactAlias(alias)))).collect();
                Ok(Some(ArtifactAliasConnection::page(nodes, has_more)))
            }
            async fn artifacts(
                &self,
                ctx: &Context<'_>,
                first: Option<i32>,
                #[graphql(name = "after")] from: Option<String>,
                order: Option<String>,
                filters: Option<JsonText>,
            ) -> Result<Option<VersionedArtifactConnection>> {
                let search = Search::read(filters.as_ref(), order.as_deref().or(Some(NEWEST_FIRST)))?;
                versions(ctx, &self.0, &search, first, from).await.map(Some)
            }
            async fn artifact_membership(
                &self,
                ctx: &Context<'_>,
                alias_name: String,
            ) -> Result<Option<ArtifactCollectionMembership>> {
                membership(ctx, self.0.clone(), &alias_name).await
            }
            $($more)*
        }
    };
}

collection!(ArtifactSequence {
    async fn latest_artifact(&self, ctx: &Context<'_>) -> Result<Option<Artifact>> {
        Ok(store::latest(&ctx.shared().database, self.0.id).await?.map(Artifact))
    }
    async fn digest_algorithm(&self) -> ArtifactDigestAlgorithm {
        ArtifactDigestAlgorithm::Md5
    }
});
collection!(ArtifactPortfolio {});

/// Without an order, people want to see the newest first.
const NEWEST_FIRST: &str = "-version_index";

/// The version that an alias or `vN` names.
pub async fn membership(
    ctx: &Context<'_>,
    collection: Collection,
    alias: &str,
) -> Result<Option<ArtifactCollectionMembership>> {
    let database = &ctx.shared().database;
    let found = match version_of(alias) {
        Some(version) => members::by_version(database, &collection, version).await?,
        None => members::by_alias(database, &collection, alias).await?,
    };
    Ok(found.map(|member| ArtifactCollectionMembership { collection, member }))
}

/// A collection's members that pass, with the aliases that filters may ask for.
pub async fn search_members(ctx: &Context<'_>, collection: &Collection, search: &Search) -> Result<Found<Member>> {
    let database = &ctx.shared().database;
    let mut aliases: HashMap<i64, Vec<String>> = HashMap::new();
    for alias in store::aliases_in(database, collection.id).await? {
        aliases.entry(alias.artifact_id).or_default().push(alias.alias);
    }
    let all = members::all(database, collection).await?;
    let field = |member: &Member, field: &str| {
        let own = aliases.get(&member.artifact.id).map_or(&[][..], Vec::as_slice);
        fields::of_member(member, own, field)
    };
    Ok(search.apply(all, field, |member| (member.version, 0)))
}

async fn versions(
    ctx: &Context<'_>,
    collection: &Collection,
    search: &Search,
    first: Option<i32>,
    from: Option<String>,
) -> Result<VersionedArtifactConnection> {
    let found = search_members(ctx, collection, search).await?;
    let total_count = found.total();
    let (rows, has_next_page) = found.page(first, from.as_deref());
    let end_cursor = rows.last().map(|(cursor, _)| cursor.clone());
    let edge = |(cursor, member): (String, Member)| VersionedArtifactEdge {
        version: format!("v{}", member.version),
        node: Artifact(member.artifact),
        cursor,
    };
    let edges = rows.into_iter().map(edge).collect();
    Ok(VersionedArtifactConnection { total_count, page_info: PageInfo { has_next_page, end_cursor }, edges })
}

#[derive(async_graphql::SimpleObject)]
pub struct VersionedArtifactConnection {
    total_count: i32,
    page_info: PageInfo,
    edges: Vec<VersionedArtifactEdge>,
}

#[derive(async_graphql::SimpleObject)]
pub struct VersionedArtifactEdge {
    version: String,
    node: Artifact,
    cursor: String,
}

#[derive(Clone)]
pub struct ArtifactCollectionMembership {
    pub collection: Collection,
    pub member: Member,
}

#[Object]
impl ArtifactCollectionMembership {
    async fn id(&self) -> ID {
        ID(STANDARD.encode(format!("ArtifactCollectionMembership:{}:{}", self.collection.id, self.member.artifact.id)))
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.member.at)
    }
    async fn version_index(&self) -> Option<i32> {
        i32::try_from(self.member.version).ok()
    }
    async fn aliases(&self, ctx: &Context<'_>) -> Result<Vec<ArtifactAlias>> {
        let aliases = store::aliases_of(&ctx.shared().database, self.member.artifact.id).await?;
        let own = aliases.into_iter().filter(|alias| alias.collection_id == self.collection.id);
        Ok(own.map(ArtifactAlias).collect())
    }
    async fn artifact(&self) -> Option<Artifact> {
        Some(Artifact(self.member.artifact.clone()))
    }
    async fn artifact_collection(&self) -> Option<ArtifactCollection> {
        Some(self.collection.clone().into())
    }
    async fn files(
        &self,
        ctx: &Context<'_>,
        names: Option<Vec<String>>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Result<Option<FileConnection>> {
        files::page(ctx, &self.member.artifact, names, first, after).await.map(Some)
    }
}

pub struct ArtifactType(pub Type);

connection!(ArtifactTypeConnection, ArtifactTypeEdge, Option<ArtifactType>);

impl ArtifactType {
    pub async fn by_id(ctx: &Context<'_>, id: i64) -> Result<ArtifactType> {
        let found = store::type_by_id(&ctx.shared().database, id).await?;
        found.map(ArtifactType).ok_or_else(|| Fault::missing("the artifact type"))
    }
}

#[Object]
impl ArtifactType {
    async fn id(&self) -> ID {
        ids::encode("ArtifactType", self.0.id)
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn artifact_collection(&self, ctx: &Context<'_>, name: String) -> Result<Option<ArtifactCollection>> {
        let found = store::collection_by_name(&ctx.shared().database, self.0.project_id, &name).await?;
        let own = found.filter(|collection| collection.type_id == self.0.id);
        Ok(own.map(ArtifactCollection::from))
    }
    /// Nothing where the collection is a portfolio: older clients tell the two apart by this.
    async fn artifact_sequence(&self, ctx: &Context<'_>, name: String) -> Result<Option<ArtifactSequence>> {
        let found = store::collection_by_name(&ctx.shared().database, self.0.project_id, &name).await?;
        let own = found.filter(|collection| collection.type_id == self.0.id && !collection.is_portfolio);
        Ok(own.map(ArtifactSequence))
    }
    async fn artifact(&self, ctx: &Context<'_>, name: String) -> Result<Option<Artifact>> {
        let (collection, alias) = split_name(&name);
        let found = store::collection_by_name(&ctx.shared().database, self.0.project_id, collection).await?;
        let found = match found.filter(|collection| collection.type_id == self.0.id) {
            Some(collection) => membership(ctx, collection, alias).await?,
            None => None,
        };
        Ok(found.map(|found| Artifact(found.member.artifact)))
    }
    async fn artifact_collections(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        filters: Option<JsonText>,
        order: Option<String>,
    ) -> Result<Option<ArtifactCollectionConnection>> {
        let search = Search::read(filters.as_ref(), order.as_deref())?;
        let found = search_collections(ctx, self.0.project_id, Some(self.0.id), &search).await?;
        Ok(Some(page(found, first, after)))
    }
}

pub async fn search_collections(
    ctx: &Context<'_>,
    project: i64,
    kind: Option<i64>,
    search: &Search,
) -> Result<Found<Collection>> {
    let database = &ctx.shared().database;
    let types = store::types(database, project).await?;
    let all = store::collections_of(database, project, kind).await?;
    let kind_of = |collection: &Collection| types.iter().find(|kind| kind.id == collection.type_id);
    let field = |collection: &Collection, field: &str| fields::of_collection(collection, kind_of(collection), field);
    Ok(search.apply(all, field, |collection| (collection.id, 0)))
}

pub fn page(found: Found<Collection>, first: Option<i32>, from: Option<String>) -> ArtifactCollectionConnection {
    let total = found.total();
    let (rows, has_more) = found.page(first, from.as_deref());
    let nodes = rows.into_iter().map(|(cursor, row)| (cursor, Some(row.into()))).collect();
    ArtifactCollectionConnection::page(nodes, has_more, total)
}
