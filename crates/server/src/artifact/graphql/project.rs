//! How a project leads to its artifacts.

use super::Artifact;
use super::collection::{
    ArtifactCollection, ArtifactCollectionConnection, ArtifactCollectionMembership, ArtifactSequence, ArtifactType,
    ArtifactTypeConnection, membership, page,
};
use crate::artifact::{split_name, store};
use crate::fault::Result;
use crate::graphql::Asked as _;
use crate::graphql::page::cursor;
use crate::graphql::scalars::JsonText;
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
        Ok(self.member(ctx, &name, None).await?.map(|member| Artifact(member.artifact)))
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
        #[graphql(name = "first")] _first: Option<i32>,
        #[graphql(name = "after")] _after: Option<String>,
    ) -> Result<Option<ArtifactTypeConnection>> {
        let types = store::types(&ctx.shared().database, self.0.id).await?;
        let nodes = types.into_iter().map(|kind| (cursor(kind.id), Some(ArtifactType(kind)))).collect();
        Ok(Some(ArtifactTypeConnection::page(nodes, false)))
    }

    async fn artifact_collection(&self, ctx: &Context<'_>, name: String) -> Result<Option<ArtifactCollection>> {
        let found = store::collection_by_name(&ctx.shared().database, self.0.id, &name).await?;
        Ok(found.map(|collection| ArtifactSequence(collection).into()))
    }

    async fn artifact_collections(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
        #[graphql(name = "filters")] _filters: Option<JsonText>,
        #[graphql(name = "order")] _order: Option<String>,
    ) -> Result<Option<ArtifactCollectionConnection>> {
        page(ctx, self.0.id, None, first, after).await.map(Some)
    }
}
