//! What clients do to collections: link artifacts into them, rename, describe, tag and delete them.

use super::Tag;
use super::collection::{ArtifactCollection, ArtifactCollectionMembership};
use super::input::{LinkArtifactInput, LinkArtifactPayload, TagInput};
use crate::artifact::members::{self, Member};
use crate::artifact::{Artifact as Record, Collection, expect, expect_collection, store};
use crate::events;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::project::{self, Path};
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use jiff::Timestamp;
use volley_plan::people::Deed;

/// A collection has no more tags than this.
const TAGS_MAX: usize = 100;

#[derive(InputObject)]
pub struct UnlinkArtifactInput {
    #[graphql(name = "artifactID")]
    artifact_id: ID,
    #[graphql(name = "artifactPortfolioID")]
    portfolio_id: ID,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct UnlinkArtifactPayload {
    #[graphql(name = "artifactID")]
    artifact_id: ID,
    success: bool,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct UpdateArtifactSequenceInput {
    #[graphql(name = "artifactSequenceID")]
    id: ID,
    name: Option<String>,
    description: Option<String>,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct UpdateArtifactPortfolioInput {
    #[graphql(name = "artifactPortfolioID")]
    id: ID,
    name: Option<String>,
    description: Option<String>,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct MoveArtifactSequenceInput {
    #[graphql(name = "artifactSequenceID")]
    id: ID,
    destination_artifact_type_name: String,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct DeleteArtifactSequenceInput {
    #[graphql(name = "artifactSequenceID")]
    id: ID,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct DeleteArtifactPortfolioInput {
    #[graphql(name = "artifactPortfolioID")]
    id: ID,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct CreateArtifactCollectionTagAssignmentsInput {
    entity_name: String,
    project_name: String,
    artifact_collection_name: String,
    tags: Vec<TagInput>,
    #[graphql(name = "clientMutationID")]
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct DeleteArtifactCollectionTagAssignmentsInput {
    entity_name: String,
    project_name: String,
    artifact_collection_name: String,
    tags: Vec<TagInput>,
    #[graphql(name = "clientMutationID")]
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct CollectionTagsPayload {
    tags: Vec<Tag>,
    success: bool,
}

#[derive(SimpleObject)]
pub struct ArtifactCollectionPayload {
    artifact_collection: Option<ArtifactCollection>,
    client_mutation_id: Option<String>,
}

#[derive(Default)]
pub struct PortfolioMutation;

#[Object]
impl PortfolioMutation {
    /// Makes an artifact a member of a portfolio, which is made if there is none of that name.
    async fn link_artifact(&self, ctx: &Context<'_>, input: LinkArtifactInput) -> Result<Option<LinkArtifactPayload>> {
        let shared = ctx.shared();
        let artifact = linked(ctx, &input).await?;
        let (portfolio, is_new) = portfolio_for(ctx, &artifact, &input).await?;
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        let version = members::link(&mut write, portfolio.id, artifact.id, now).await?;
        let aliases = input.aliases.into_iter().flatten().map(|alias| alias.alias);
        for alias in aliases.chain(["latest".to_owned()]) {
            store::set_alias(&mut write, portfolio.id, &alias, artifact.id).await?;
        }
        let body = serde_json::json!({ "collection": portfolio.name, "version": version, "is_new": is_new });
        let id = artifact.global_id();
        let event = events::Event { entity: portfolio.entity_id, kind: "artifact.linked", subject: &id, body };
        events::record(&mut write, event, now).await?;
        write.commit().await?;
        shared.news.announce();
        let member = Member { artifact, version, at: now.as_microsecond() };
        Ok(Some(LinkArtifactPayload {
            version_index: i32::try_from(version).ok(),
            artifact_membership: Some(ArtifactCollectionMembership { collection: portfolio, member }),
        }))
    }

    async fn unlink_artifact(
        &self,
        ctx: &Context<'_>,
        input: UnlinkArtifactInput,
    ) -> Result<Option<UnlinkArtifactPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let portfolio = expect_collection(shared, caller, Deed::Curate, &input.portfolio_id).await?;
        let artifact = expect(shared, caller, Deed::See, &input.artifact_id).await?;
        if !portfolio.is_portfolio {
            return Err(Fault::bad("an artifact cannot be unlinked from its own collection; hint: delete it instead"));
        }
        let mut write = shared.database.write().await?;
        members::unlink(&mut write, portfolio.id, artifact.id).await?;
        write.commit().await?;
        let UnlinkArtifactInput { artifact_id, client_mutation_id, .. } = input;
        Ok(Some(UnlinkArtifactPayload { artifact_id, success: true, client_mutation_id }))
    }

    async fn update_artifact_sequence(
        &self,
        ctx: &Context<'_>,
        input: UpdateArtifactSequenceInput,
    ) -> Result<Option<ArtifactCollectionPayload>> {
        edit(ctx, &input.id, (input.name, input.description), None, input.client_mutation_id).await
    }

    async fn update_artifact_portfolio(
        &self,
        ctx: &Context<'_>,
        input: UpdateArtifactPortfolioInput,
    ) -> Result<Option<ArtifactCollectionPayload>> {
        edit(ctx, &input.id, (input.name, input.description), None, input.client_mutation_id).await
    }

    async fn move_artifact_sequence(
        &self,
        ctx: &Context<'_>,
        input: MoveArtifactSequenceInput,
    ) -> Result<Option<ArtifactCollectionPayload>> {
        let kind = Some(input.destination_artifact_type_name);
        edit(ctx, &input.id, (None, None), kind, input.client_mutation_id).await
    }

    async fn delete_artifact_sequence(
        &self,
        ctx: &Context<'_>,
        input: DeleteArtifactSequenceInput,
    ) -> Result<Option<ArtifactCollectionPayload>> {
        delete(ctx, &input.id, input.client_mutation_id).await
    }

    async fn delete_artifact_portfolio(
        &self,
        ctx: &Context<'_>,
        input: DeleteArtifactPortfolioInput,
    ) -> Result<Option<ArtifactCollectionPayload>> {
        delete(ctx, &input.id, input.client_mutation_id).await
    }

    async fn create_artifact_collection_tag_assignments(
        &self,
        ctx: &Context<'_>,
        input: CreateArtifactCollectionTagAssignmentsInput,
    ) -> Result<Option<CollectionTagsPayload>> {
        let place = Path::of(&input.entity_name, &input.project_name);
        retag(ctx, place, &input.artifact_collection_name, |tags| {
            for tag in input.tags {
                if !tags.contains(&tag.tag_name) {
                    tags.push(tag.tag_name);
                }
            }
        })
        .await
    }

    async fn delete_artifact_collection_tag_assignments(
        &self,
        ctx: &Context<'_>,
        input: DeleteArtifactCollectionTagAssignmentsInput,
    ) -> Result<Option<CollectionTagsPayload>> {
        let place = Path::of(&input.entity_name, &input.project_name);
        retag(ctx, place, &input.artifact_collection_name, |tags| {
            tags.retain(|tag| !input.tags.iter().any(|gone| gone.tag_name == *tag));
        })
        .await
    }
}

/// The artifact of a request to link, named by its id or by the one that the client gave it.
async fn linked(ctx: &Context<'_>, input: &LinkArtifactInput) -> Result<Record> {
    let (shared, caller) = (ctx.shared(), ctx.caller());
    let missing = || Fault::missing("the artifact");
    if let Some(id) = &input.artifact_id {
        return expect(shared, caller, Deed::See, id).await;
    }
    let client_id = input.client_id.as_ref().ok_or_else(missing)?;
    let found = store::by_client_id(&shared.database, client_id).await?;
    found.filter(|artifact| caller.may_see(artifact.entity_id)).ok_or_else(missing)
}

async fn portfolio_for(ctx: &Context<'_>, artifact: &Record, input: &LinkArtifactInput) -> Result<(Collection, bool)> {
    let (shared, caller) = (ctx.shared(), ctx.caller());
    if let Some(id) = &input.artifact_portfolio_id {
        return Ok((expect_collection(shared, caller, Deed::Log, id).await?, false));
    }
    let name = input.artifact_portfolio_name.as_deref().filter(|name| crate::artifact::is_name(name));
    let name = name.ok_or_else(|| Fault::bad(crate::artifact::NAME_HINT))?;
    let path = Path { entity: input.entity_name.as_deref(), project: input.project_name.as_deref() };
    let project = project::ensure(shared, caller, path).await?;
    let home = store::collection_by_id(&shared.database, artifact.collection_id).await?;
    let home = home.ok_or_else(|| Fault::missing("the artifact's collection"))?;
    let kind = store::type_by_id(&shared.database, home.type_id).await?;
    let kind = kind.ok_or_else(|| Fault::missing("the artifact's type"))?;
    let is_new = store::collection_by_name(&shared.database, project.id, name).await?.is_none();
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let type_id = store::ensure_type(&mut write, project.id, &kind.name, now).await?;
    let portfolio = store::ensure_portfolio(&mut write, (project.id, type_id), name, now).await?;
    write.commit().await?;
    if !portfolio.is_portfolio {
        return Err(Fault::conflict(format!("`{name}` holds artifacts of its own, so none can be linked to it")));
    }
    if portfolio.type_id != type_id {
        return Err(Fault::conflict(format!("`{name}` holds artifacts of another type than `{}`", kind.name)));
    }
    Ok((portfolio, is_new))
}

async fn edit(
    ctx: &Context<'_>,
    id: &str,
    (name, description): (Option<String>, Option<String>),
    kind: Option<String>,
    client_mutation_id: Option<String>,
) -> Result<Option<ArtifactCollectionPayload>> {
    let shared = ctx.shared();
    let found = expect_collection(shared, ctx.caller(), Deed::Curate, id).await?;
    if name.as_deref().is_some_and(|name| !crate::artifact::is_name(name)) {
        return Err(Fault::bad(crate::artifact::NAME_HINT));
    }
    let taken = match name.as_deref().filter(|name| *name != found.name) {
        Some(name) => store::collection_by_name(&shared.database, found.project_id, name).await?,
        None => None,
    };
    if let Some(taken) = taken {
        return Err(Fault::conflict(format!("a collection `{}` exists already", taken.name)));
    }
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let kind = match kind {
        Some(kind) => Some(store::ensure_type(&mut write, found.project_id, &kind, now).await?),
        None => None,
    };
    let edit = store::CollectionEdit { name: name.as_deref(), description: description.as_deref(), kind, tags: None };
    store::edit_collection(&mut write, found.id, &edit, now).await?;
    write.commit().await?;
    payload(ctx, found.id, client_mutation_id).await
}

async fn delete(
    ctx: &Context<'_>,
    id: &str,
    client_mutation_id: Option<String>,
) -> Result<Option<ArtifactCollectionPayload>> {
    let (shared, caller) = (ctx.shared(), ctx.caller());
    let found = expect_collection(shared, caller, Deed::Curate, id).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    store::delete_collection(&mut write, found.id, now).await?;
    events::audit(&mut write, caller, "collection.delete", &found.name, now).await?;
    write.commit().await?;
    payload(ctx, found.id, client_mutation_id).await
}

async fn payload(
    ctx: &Context<'_>,
    id: i64,
    client_mutation_id: Option<String>,
) -> Result<Option<ArtifactCollectionPayload>> {
    let now = store::collection_by_id(&ctx.shared().database, id).await?;
    let artifact_collection = now.map(ArtifactCollection::from);
    Ok(Some(ArtifactCollectionPayload { artifact_collection, client_mutation_id }))
}

async fn retag(
    ctx: &Context<'_>,
    place: Path<'_>,
    name: &str,
    change: impl FnOnce(&mut Vec<String>),
) -> Result<Option<CollectionTagsPayload>> {
    let shared = ctx.shared();
    let project = project::expect(shared, ctx.caller(), Deed::Curate, place).await?;
    let found = store::collection_by_name(&shared.database, project.id, name).await?;
    let found = found.ok_or_else(|| Fault::missing(format!("collection `{name}`")))?;
    let mut tags = found.tag_list();
    change(&mut tags);
    if tags.len() > TAGS_MAX {
        return Err(Fault::bad(format!("a collection has no more than {TAGS_MAX} tags")));
    }
    let text = serde_json::to_string(&tags).map_err(Fault::internal)?;
    let edit = store::CollectionEdit { name: None, description: None, kind: None, tags: Some(&text) };
    let mut write = shared.database.write().await?;
    store::edit_collection(&mut write, found.id, &edit, Timestamp::now()).await?;
    write.commit().await?;
    let tags = tags.into_iter().map(|tag| Tag::of("ArtifactCollection", found.id, tag)).collect();
    Ok(Some(CollectionTagsPayload { tags, success: true }))
}
