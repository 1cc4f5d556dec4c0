//! How a run leads to the artifacts that it made and used.

use super::{Artifact, ArtifactConnection, InputArtifactConnection};
use crate::artifact::{Artifact as Record, store};
use crate::fault::Result;
use crate::graphql::Asked as _;
use crate::graphql::page::{after, cursor, cut, length};
use crate::run::Run as RunRecord;
use async_graphql::{Context, Object};
use std::sync::Arc;

pub struct RunArtifacts(pub Arc<RunRecord>);

#[Object]
impl RunArtifacts {
    async fn output_artifacts(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Result<Option<ArtifactConnection>> {
        let made = store::made_by_run(&ctx.shared().database, self.0.id).await?;
        Ok(Some(page(made, first, after.as_deref())))
    }

    async fn input_artifacts(
        &self,
        ctx: &Context<'_>,
        first: Option<i32>,
        after: Option<String>,
    ) -> Result<Option<InputArtifactConnection>> {
        let mut used = store::used_by_run(&ctx.shared().database, self.0.id).await?;
        used.retain(|artifact| ctx.caller().may_see(artifact.entity_id));
        let ArtifactConnection { edges, page_info, total_count } = page(used, first, after.as_deref());
        Ok(Some(InputArtifactConnection { total_count, page_info, edges }))
    }
}

fn page(all: Vec<Record>, first: Option<i32>, from: Option<&str>) -> ArtifactConnection {
    let total = i32::try_from(all.len()).unwrap_or(i32::MAX);
    let seen = after(from);
    let rest: Vec<Record> = all.into_iter().filter(|artifact| artifact.id > seen).collect();
    let (rows, has_more) = cut(rest, length(first));
    let nodes = rows.into_iter().map(|row| (cursor(row.id), Some(Artifact(row)))).collect();
    ArtifactConnection::page(nodes, has_more, total)
}
