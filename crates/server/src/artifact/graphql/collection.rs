//! Collections, their types and their members in the schema.
//!
//! Every collection here is an `ArtifactSequence`; `ArtifactPortfolio` exists because clients name it.

#![expect(clippy::duplicated_attributes, reason = "several fields of the interface have arguments of the same name")]

use super::{
    Artifact, ArtifactAlias, ArtifactAliasConnection, ArtifactAliasEdge, ArtifactDigestAlgorithm, TagConnection, files,
};
use crate::artifact::{Artifact as Record, Collection, Type, store, version_of};
use crate::connection;
use crate::fault::{Fault, Result};
use crate::file::graphql::FileConnection;
use crate::graphql::Asked as _;
use crate::graphql::page::{PageInfo, after, cursor, cut, length};
use crate::graphql::scalars::{DateTime, JsonText};
use crate::ids;
use crate::project::graphql::Project;
use crate::project::store as projects;
use async_graphql::{Context, Enum, ID, Interface, Object};

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
                Some(ArtifactCollectionState::Ready)
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
                Some(TagConnection { edges: Vec::new() })
            }
            async fn aliases(
                &self,
                ctx: &Context<'_>,
                #[graphql(name = "first")] _first: Option<i32>,
                #[graphql(name = "after")] _after: Option<String>,
            ) -> Result<Option<ArtifactAliasConnection>> {
                let aliases = store::aliases_in(&ctx.shared().database, self.0.id).await?;
                let edges = aliases.into_iter().map(|alias| ArtifactAliasEdge { node: Some(ArtifactAlias(alias)) }).collect();
                Ok(Some(ArtifactAliasConnection { page_info: PageInfo::last(), edges }))
            }
            async fn artifacts(
                &self,
                ctx: &Context<'_>,
                first: Option<i32>,
                #[graphql(name = "after")] from: Option<String>,
                order: Option<String>,
                #[graphql(name = "filters")] _filters: Option<JsonText>,
            ) -> Result<Option<VersionedArtifactConnection>> {
                versions(ctx, &self.0, first, from, order).await.map(Some)
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

/// The version that an alias or `vN` names.
pub async fn membership(
    ctx: &Context<'_>,
    collection: Collection,
    alias: &str,
) -> Result<Option<ArtifactCollectionMembership>> {
    let database = &ctx.shared().database;
    let found = match version_of(alias) {
        Some(version) => store::by_version(database, collection.id, version).await?,
        None => store::by_alias(database, collection.id, alias).await?,
    };
    Ok(found.map(|artifact| ArtifactCollectionMembership { collection, artifact }))
}

async fn versions(
    ctx: &Context<'_>,
    collection: &Collection,
    first: Option<i32>,
    from: Option<String>,
    order: Option<String>,
) -> Result<VersionedArtifactConnection> {
    let mut all = store::versions(&ctx.shared().database, collection.id).await?;
    let total = i32::try_from(all.len()).unwrap_or(i32::MAX);
    // Without an order, people want to see the newest first.
    if order.is_none_or(|order| order.starts_with('-')) {
        all.reverse();
    }
    let seen = usize::try_from(after(from.as_deref())).unwrap_or(0);
    let rest: Vec<_> = all.into_iter().enumerate().skip(seen).collect();
    let (rows, has_more) = cut(rest, length(first));
    let end_cursor = rows.last().map(|(at, _)| cursor(at + 1));
    let edge = |(at, artifact): (usize, Record)| VersionedArtifactEdge {
        version: format!("v{}", artifact.version.unwrap_or(0)),
        node: Artifact(artifact),
        cursor: cursor(at + 1),
    };
    let edges = rows.into_iter().map(edge).collect();
    let page_info = PageInfo { has_next_page: has_more, end_cursor };
    Ok(VersionedArtifactConnection { total_count: total, page_info, edges })
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
    pub artifact: Record,
}

#[Object]
impl ArtifactCollectionMembership {
    async fn id(&self) -> ID {
        ids::encode("ArtifactCollectionMembership", self.artifact.id)
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.artifact.created_at)
    }
    async fn version_index(&self) -> Option<i32> {
        self.artifact.version.and_then(|version| i32::try_from(version).ok())
    }
    async fn aliases(&self, ctx: &Context<'_>) -> Result<Vec<ArtifactAlias>> {
        let aliases = store::aliases_of(&ctx.shared().database, self.artifact.id).await?;
        let own = aliases.into_iter().filter(|alias| alias.collection_id == self.collection.id);
        Ok(own.map(ArtifactAlias).collect())
    }
    async fn artifact(&self) -> Option<Artifact> {
        Some(Artifact(self.artifact.clone()))
    }
    async fn artifact_collection(&self) -> Option<ArtifactCollection> {
        Some(ArtifactSequence(self.collection.clone()).into())
    }
    async fn files(
        &self,
        ctx: &Context<'_>,
        names: Option<Vec<String>>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Result<Option<FileConnection>> {
        files::page(ctx, &self.artifact, names, first, after).await.map(Some)
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
        Ok(own.map(|collection| ArtifactSequence(collection).into()))
    }
    async fn artifact_collections(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        #[graphql(name = "filters")] _filters: Option<JsonText>,
        #[graphql(name = "order")] _order: Option<String>,
    ) -> Result<Option<ArtifactCollectionConnection>> {
        page(ctx, self.0.project_id, Some(self.0.id), first, after).await.map(Some)
    }
}

pub async fn page(
    ctx: &Context<'_>,
    project: i64,
    kind: Option<i64>,
    first: Option<i32>,
    from: Option<String>,
) -> Result<ArtifactCollectionConnection> {
    let length = length(first);
    let rows = store::collections_of(&ctx.shared().database, project, kind, after(from.as_deref()), length + 1).await?;
    let (rows, has_more) = cut(rows, length);
    let total = i32::try_from(rows.len()).unwrap_or(i32::MAX);
    let nodes = rows.into_iter().map(|row| (cursor(row.id), Some(ArtifactSequence(row).into()))).collect();
    Ok(ArtifactCollectionConnection::page(nodes, has_more, total))
}
