//! How a project leads to its artifacts.

use super::Artifact;
use super::collection::{
    ArtifactCollection, ArtifactCollectionConnection, ArtifactCollectionMembership, ArtifactType,
    ArtifactTypeConnection, membership, page as collection_page, search_collections,
};
use crate::artifact::{split_name, store};
use crate::fault::Result;
use crate::graphql::Asked as _;
use crate::graphql::page::{self, cursor};
use crate::graphql::scalars::JsonText;
use crate::graphql::search::Search;
use crate::project::Project as ProjectRecord;
use async_graphql::{Context, Object};
use std::sync::Arc;

pub struct ProjectArtifacts(pub Arc<ProjectRecord>);

impl ProjectArtifacts {
    async fn member(
        &self,
        ctx: &Context<'_>,
        name: &str,
        alias: Option<&str>,
    ) -> Result<Option<ArtifactCollectionMembership>> {
        let (collection, named) = split_name(name);
        let found = store::collection_by_name(&ctx.shared().database, self.0.id, collection).await?;
        match found {
            Some(collection) => membership(ctx, collection, alias.unwrap_or(named)).await,
            None => Ok(None),
        }
    }
}

#[Object]
impl ProjectArtifacts {
    async fn artifact(
        &self,
        ctx: &Context<'_>,
        name: String,
        #[graphql(name = "artifactTypeName")] _kind: Option<String>,
    ) -> Result<Option<Artifact>> {
        Ok(self.member(ctx, &name, None).await?.map(|member| Artifact(member.member.artifact)))
    }

    async fn artifact_collection_membership(
        &self,
        ctx: &Context<'_>,
        name: String,
        alias_name: Option<String>,
    ) -> Result<Option<ArtifactCollectionMembership>> {
        self.member(ctx, &name, alias_name.as_deref()).await
    }

    async fn artifact_type(&self, ctx: &Context<'_>, name: String) -> Result<Option<ArtifactType>> {
        Ok(store::type_by_name(&ctx.shared().database, self.0.id, &name).await?.map(ArtifactType))
    }

    async fn artifact_types(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        #[graphql(name = "includeAll")] _include_all: Option<bool>,
    ) -> Result<Option<ArtifactTypeConnection>> {
        let seen = page::after(after.as_deref());
        let types = store::types(&ctx.shared().database, self.0.id).await?;
        let (types, has_more) =
            page::cut(types.into_iter().filter(|kind| kind.id > seen).collect(), page::length(first));
        let nodes = types.into_iter().map(|kind| (cursor(kind.id), Some(ArtifactType(kind)))).collect();
        Ok(Some(ArtifactTypeConnection::page(nodes, has_more)))
    }

    async fn artifact_collection(&self, ctx: &Context<'_>, name: String) -> Result<Option<ArtifactCollection>> {
        let found = store::collection_by_name(&ctx.shared().database, self.0.id, &name).await?;
        Ok(found.map(ArtifactCollection::from))
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
        let found = search_collections(ctx, self.0.id, None, &search).await?;
        Ok(Some(collection_page(found, first, after)))
    }
}
