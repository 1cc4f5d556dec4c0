//! What is in an entity's registries: projects whose collections are searched all at once.

use super::collection::{
    ArtifactCollectionConnection, ArtifactCollectionMembership, page, search_collections, search_members,
};
use crate::artifact::members::Member;
use crate::artifact::{Collection, fields};
use crate::connection;
use crate::fault::Result;
use crate::graphql::Asked as _;
use crate::graphql::scalars::JsonText;
use crate::graphql::search::{Found, Search};
use crate::project::{self, graphql::Project, graphql::ProjectConnection};
use async_graphql::{Context, Enum, QueryPathSegment};

/// An entity with more projects than this is not searched to its end.
const PROJECTS_MAX: usize = 10_000;

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
pub enum ArtifactCollectionType {
    Portfolio,
    Sequence,
}

connection!(EntityMembershipConnection, EntityMembershipEdge, Option<ArtifactCollectionMembership>);

/// What a client asks of an entity: which projects, which collections in them, which versions in those.
#[derive(Default)]
pub struct Wanted {
    pub projects: Option<JsonText>,
    pub collections: Option<JsonText>,
    pub versions: Option<JsonText>,
    pub order: Option<String>,
    pub first: Option<i32>,
    pub after: Option<String>,
}

/// Whether the entity whose field this is was reached as an organization, and so stands for its registries alone.
pub fn is_organization(ctx: &Context<'_>) -> bool {
    let parent = ctx.path_node.and_then(|node| node.parent);
    parent.is_some_and(|parent| matches!(parent.segment, QueryPathSegment::Name("orgEntity")))
}

async fn projects_of(ctx: &Context<'_>, entity: i64, search: &Search) -> Result<Found<project::Project>> {
    let mut all = project::store::of_entity(&ctx.shared().database, entity, 0, PROJECTS_MAX).await?;
    all.retain(|project| project.is_registry() || !is_organization(ctx));
    Ok(search.apply(all, fields::of_project, |project| (project.id, 0)))
}

pub async fn projects(ctx: &Context<'_>, entity: i64, wanted: Wanted) -> Result<ProjectConnection> {
    let search = Search::read(wanted.projects.as_ref(), wanted.order.as_deref())?;
    let found = projects_of(ctx, entity, &search).await?;
    let (rows, has_more) = found.page(wanted.first, wanted.after.as_deref());
    let nodes = rows.into_iter().map(|(cursor, row)| (cursor, Some(Project::new(row)))).collect();
    Ok(ProjectConnection::page(nodes, has_more))
}

async fn found_collections(ctx: &Context<'_>, entity: i64, wanted: &Wanted) -> Result<Vec<Collection>> {
    let projects = Search::read(wanted.projects.as_ref(), None)?;
    let search = Search::read(wanted.collections.as_ref(), None)?;
    let mut found = Vec::new();
    for project in projects_of(ctx, entity, &projects).await?.into_rows() {
        found.extend(search_collections(ctx, project.id, None, &search).await?.into_rows());
    }
    Ok(found)
}

pub async fn collections(
    ctx: &Context<'_>,
    entity: i64,
    types: Option<Vec<ArtifactCollectionType>>,
    wanted: Wanted,
) -> Result<ArtifactCollectionConnection> {
    let mut found = found_collections(ctx, entity, &wanted).await?;
    found.retain(|collection| {
        let own =
            if collection.is_portfolio { ArtifactCollectionType::Portfolio } else { ArtifactCollectionType::Sequence };
        types.as_ref().is_none_or(|types| types.contains(&own))
    });
    let order = Search::read(None, wanted.order.as_deref())?;
    let field = |collection: &Collection, field: &str| fields::of_collection(collection, None, field);
    let found = order.apply(found, field, |collection| (collection.id, 0));
    Ok(page(found, wanted.first, wanted.after))
}

pub async fn memberships(ctx: &Context<'_>, entity: i64, wanted: Wanted) -> Result<EntityMembershipConnection> {
    let search = Search::read(wanted.versions.as_ref(), None)?;
    let mut found = Vec::new();
    for collection in found_collections(ctx, entity, &wanted).await? {
        let members = search_members(ctx, &collection, &search).await?;
        found.extend(members.into_rows().into_iter().map(|member| (collection.clone(), member)));
    }
    let order = Search::read(None, wanted.order.as_deref())?;
    let field = |(_, member): &(Collection, Member), field: &str| fields::of_member(member, &[], field);
    let found = order.apply(found, field, |(collection, member)| (collection.id, member.version));
    let (rows, has_more) = found.page(wanted.first, wanted.after.as_deref());
    let node = |(cursor, (collection, member))| (cursor, Some(ArtifactCollectionMembership { collection, member }));
    Ok(EntityMembershipConnection::page(rows.into_iter().map(node).collect(), has_more))
}
