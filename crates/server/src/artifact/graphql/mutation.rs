//! What clients do to artifacts.

use super::Artifact;
use super::collection::ArtifactType;
use super::files::ArtifactManifest;
use super::input::*;
use crate::artifact::manifest::hex_of;
use crate::artifact::{Artifact as Record, Collection, NAME_HINT, commit, expect, is_name, members, multipart, store};
use crate::blobs::Access;
use crate::database::Write;
use crate::events;
use crate::fault::{Fault, Result};
use crate::file::graphql::{File, FileConnection, url};
use crate::graphql::Asked as _;
use crate::graphql::page::cursor;
use crate::project::{self, Path};
use crate::run::graphql::mutation::SuccessPayload;
use crate::{Shared, ids, run};
use async_graphql::{Context, ID, Object};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use std::collections::BTreeSet;
use volley_plan::people::Deed;

#[derive(Default)]
pub struct ArtifactMutation;

#[Object]
impl ArtifactMutation {
    async fn create_artifact_type(
        &self,
        ctx: &Context<'_>,
        input: CreateArtifactTypeInput,
    ) -> Result<Option<CreateArtifactTypePayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let project = project::ensure(shared, caller, Path::of(&input.entity_name, &input.project_name)).await?;
        let mut write = shared.database.write().await?;
        let id = store::ensure_type(&mut write, project.id, &input.name, Timestamp::now()).await?;
        write.commit().await?;
        Ok(Some(CreateArtifactTypePayload { artifact_type: ArtifactType::by_id(ctx, id).await? }))
    }

    async fn create_artifact(
        &self,
        ctx: &Context<'_>,
        input: CreateArtifactInput,
    ) -> Result<Option<CreateArtifactPayload>> {
        let artifact = create(ctx, &input).await?;
        Ok(Some(CreateArtifactPayload { artifact: Artifact(artifact) }))
    }

    async fn create_artifact_manifest(
        &self,
        ctx: &Context<'_>,
        input: CreateArtifactManifestInput,
    ) -> Result<Option<ArtifactManifestPayload>> {
        let shared = ctx.shared();
        let artifact = expect_pending(ctx, &input.artifact_id).await?;
        let kind = input.kind.unwrap_or(ArtifactManifestType::Full);
        // Several runs may each send a part of the same artifact's manifest.
        let name = match kind {
            ArtifactManifestType::Full => input.name,
            ArtifactManifestType::Patch | ArtifactManifestType::Incremental => {
                format!("{}@{}", input.name, input.run_name)
            }
        };
        let base = match &input.base_artifact_id {
            Some(base) => Some(expect(shared, ctx.caller(), Deed::See, base).await?.id),
            None => None,
        };
        let mut write = shared.database.write().await?;
        let id = store::ensure_manifest(&mut write, artifact.id, &name, kind.name(), &input.digest).await?;
        if let Some(base) = base {
            store::set_base(&mut write, artifact.id, base).await?;
        }
        write.commit().await?;
        Ok(Some(ArtifactManifestPayload { artifact_manifest: ArtifactManifest::new(ctx, id, input.digest) }))
    }

    async fn update_artifact_manifest(
        &self,
        ctx: &Context<'_>,
        input: UpdateArtifactManifestInput,
    ) -> Result<Option<ArtifactManifestPayload>> {
        let missing = || Fault::missing("the manifest");
        let id = ids::decode("ArtifactManifest", &input.artifact_manifest_id).ok_or_else(missing)?;
        let (artifact, digest) = store::manifest_by_id(&ctx.shared().database, id).await?.ok_or_else(missing)?;
        // Of an artifact that may not be seen, there is no manifest either.
        let hidden = |fault: Fault| if fault.status == http::StatusCode::NOT_FOUND { missing() } else { fault };
        expect_pending(ctx, &ids::encode("Artifact", artifact)).await.map_err(hidden)?;
        let digest = input.digest.unwrap_or(digest);
        let mut write = ctx.shared().database.write().await?;
        store::set_manifest_digest(&mut write, id, &digest).await?;
        write.commit().await?;
        Ok(Some(ArtifactManifestPayload { artifact_manifest: ArtifactManifest::new(ctx, id, digest) }))
    }

    /// One entry for each file, in the same order; no URL where the bytes are here already.
    async fn create_artifact_files(
        &self,
        ctx: &Context<'_>,
        input: CreateArtifactFilesInput,
    ) -> Result<Option<CreateArtifactFilesPayload>> {
        let mut nodes = Vec::new();
        for (at, spec) in input.artifact_files.into_iter().enumerate() {
            let artifact = expect_pending(ctx, &spec.artifact_id).await?;
            nodes.push((cursor(at), Some(upload(ctx, artifact, spec).await?)));
        }
        Ok(Some(CreateArtifactFilesPayload { files: FileConnection::page(nodes, false, None, Vec::new()) }))
    }

    async fn complete_multipart_upload_artifact(
        &self,
        ctx: &Context<'_>,
        input: CompleteMultipartUploadArtifactInput,
    ) -> Result<Option<CompleteMultipartUploadArtifactPayload>> {
        let artifact = expect_pending(ctx, &input.artifact_id).await?;
        let parts = input.completed_parts.iter().map(|part| part.part_number.0).collect();
        let digest = multipart::complete(ctx.shared(), &artifact, &input.upload_id, parts).await?;
        Ok(Some(CompleteMultipartUploadArtifactPayload { digest: Some(digest) }))
    }

    async fn commit_artifact(
        &self,
        ctx: &Context<'_>,
        input: CommitArtifactInput,
    ) -> Result<Option<CommitArtifactPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let artifact = expect(shared, caller, Deed::Log, &input.artifact_id).await?;
        commit::commit(shared, caller, &artifact).await?;
        Ok(Some(CommitArtifactPayload { artifact: reload(shared, artifact.id).await? }))
    }

    async fn use_artifact(&self, ctx: &Context<'_>, input: UseArtifactInput) -> Result<Option<UseArtifactPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let artifact = expect(shared, caller, Deed::See, &input.artifact_id).await?;
        let path = Path::of(&input.entity_name, &input.project_name);
        let run = run::expect(shared, caller, Deed::Log, path, &input.run_name).await?;
        let mut write = shared.database.write().await?;
        store::note_use(&mut write, artifact.id, run.id, input.used_as.as_deref()).await?;
        write.commit().await?;
        Ok(Some(UseArtifactPayload { artifact: Artifact(artifact) }))
    }

    async fn update_artifact(
        &self,
        ctx: &Context<'_>,
        input: UpdateArtifactInput,
    ) -> Result<Option<UpdateArtifactPayload>> {
        let shared = ctx.shared();
        let artifact = expect(shared, ctx.caller(), Deed::Log, &input.artifact_id).await?;
        let mut tags = artifact.tag_list();
        tags.retain(|tag| !input.tags_to_delete.iter().flatten().any(|gone| gone.tag_name == *tag));
        for tag in input.tags_to_add.into_iter().flatten() {
            if !tags.contains(&tag.tag_name) {
                tags.push(tag.tag_name);
            }
        }
        let edit = store::Edit {
            description: input.description.as_deref(),
            metadata: input.metadata.as_ref().map(|text| text.0.as_str()),
            tags: Some(&list(&tags)?),
            ttl: input.ttl_duration_seconds.map(|ttl| ttl.0),
        };
        let known = store::aliases_of(&shared.database, artifact.id).await?;
        let mut write = shared.database.write().await?;
        store::edit(&mut write, artifact.id, &edit, Timestamp::now()).await?;
        if let Some(wanted) = input.aliases {
            for old in known.into_iter().filter(|old| old.collection_id == artifact.collection_id) {
                if !wanted.iter().any(|alias| alias.alias == old.alias) {
                    store::drop_alias(&mut write, old.collection_id, &old.alias, artifact.id).await?;
                }
            }
            set_aliases(&mut write, &artifact, wanted.into_iter().map(|alias| alias.alias)).await?;
        }
        write.commit().await?;
        Ok(Some(UpdateArtifactPayload { artifact: reload(shared, artifact.id).await? }))
    }

    async fn delete_artifact(
        &self,
        ctx: &Context<'_>,
        input: DeleteArtifactInput,
    ) -> Result<Option<DeleteArtifactPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let artifact = expect(shared, caller, Deed::Curate, &input.artifact_id).await?;
        let has_aliases = !store::aliases_of(&shared.database, artifact.id).await?.is_empty();
        if has_aliases && !input.delete_aliases.unwrap_or(false) {
            return Err(Fault::conflict("the artifact has aliases; hint: delete it with delete_aliases=True"));
        }
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        store::mark_deleted(&mut write, artifact.id, now).await?;
        events::audit(&mut write, caller, "artifact.delete", &input.artifact_id, now).await?;
        write.commit().await?;
        Ok(Some(DeleteArtifactPayload { artifact: reload(shared, artifact.id).await? }))
    }

    async fn add_aliases(&self, ctx: &Context<'_>, input: AddAliasesInput) -> Result<Option<SuccessPayload>> {
        let shared = ctx.shared();
        let artifact = expect(shared, ctx.caller(), Deed::See, &input.artifact_id).await?;
        let places = places(ctx, &artifact, input.aliases).await?;
        let mut write = shared.database.write().await?;
        for (collection, alias) in places {
            store::set_alias(&mut write, collection, &alias, artifact.id).await?;
        }
        write.commit().await?;
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }

    async fn delete_aliases(&self, ctx: &Context<'_>, input: DeleteAliasesInput) -> Result<Option<SuccessPayload>> {
        let shared = ctx.shared();
        let artifact = expect(shared, ctx.caller(), Deed::See, &input.artifact_id).await?;
        let places = places(ctx, &artifact, input.aliases).await?;
        let mut write = shared.database.write().await?;
        for (collection, alias) in places {
            store::drop_alias(&mut write, collection, &alias, artifact.id).await?;
        }
        write.commit().await?;
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }
}

/// The collections of aliases that are to be changed: the artifact's own, or portfolios that it was linked to.
async fn places(
    ctx: &Context<'_>,
    artifact: &Record,
    aliases: Vec<ArtifactCollectionAliasInput>,
) -> Result<Vec<(i64, String)>> {
    let (shared, caller) = (ctx.shared(), ctx.caller());
    let linked = members::portfolios_of(&shared.database, artifact.id).await?;
    let mut places = Vec::new();
    for alias in aliases {
        let name = &alias.artifact_collection_name;
        let path = Path::of(&alias.entity_name, &alias.project_name);
        let project = project::expect(shared, caller, Deed::Log, path).await?;
        let found = store::collection_by_name(&shared.database, project.id, name).await?;
        let is_member = |id: i64| id == artifact.collection_id || linked.iter().any(|(own, _, _)| own.id == id);
        let found = found.filter(|found| is_member(found.id));
        let found = found.ok_or_else(|| Fault::missing(format!("the artifact in the collection `{name}`")))?;
        places.push((found.id, alias.alias));
    }
    Ok(places)
}

async fn create(ctx: &Context<'_>, input: &CreateArtifactInput) -> Result<Record> {
    let (shared, caller) = (ctx.shared(), ctx.caller());
    let project = project::ensure(shared, caller, Path::of(&input.entity_name, &input.project_name)).await?;
    let first = input.artifact_collection_names.as_ref().and_then(|names| names.first());
    let name = input.artifact_collection_name.as_ref().or(first).filter(|name| is_name(name));
    let name = name.ok_or_else(|| Fault::bad(NAME_HINT))?;
    let client_id = input.client_id.as_ref().map(|id| id.as_str());
    if let Some(client_id) = client_id
        && let Some(known) = store::by_client_id(&shared.database, client_id).await?
    {
        // The same artifact once more, perhaps with less said about it than the first time.
        caller.must(Deed::Log, known.entity_id, "the artifact")?;
        return Ok(known);
    }
    check_region(input)?;
    let run = match &input.run_name {
        Some(name) => {
            caller.must_log(&project, name)?;
            run::store::by_name(&shared.database, project.id, name).await?.map(|run| run.id)
        }
        None => None,
    };
    let aliases: Vec<&str> = input.aliases.iter().flatten().map(|alias| alias.alias.as_str()).collect();
    let tags: Vec<&str> = input.tags.iter().flatten().map(|tag| tag.tag_name.as_str()).collect();
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let kind = store::ensure_type(&mut write, project.id, &input.artifact_type_name, now).await?;
    let collection = store::ensure_collection(&mut write, project.id, kind, name, now).await?;
    check_collection(&collection, kind, input)?;
    if let Some(id) = input.distributed_id.as_deref()
        && let Some(known) = store::distributed(&mut write, collection.id, id).await?
    {
        return Ok(known);
    }
    // What several runs fill together has no digest yet that says anything.
    let is_whole = input.distributed_id.is_none();
    if is_whole
        && input.enable_digest_deduplication.unwrap_or(false)
        && let Some(same) = same_content(&mut write, collection.id, input).await?
    {
        log_again(&mut write, &same, Again { run, aliases: &aliases, tags: &tags }, now).await?;
        write.commit().await?;
        return Ok(reload(shared, same.id).await?.0);
    }
    let new = store::NewArtifact {
        collection: collection.id,
        client_id,
        digest: &input.digest,
        description: input.description.as_deref(),
        metadata: input.metadata.as_ref().map(|text| text.0.as_str()),
        ttl: input.ttl_duration_seconds.map(|ttl| ttl.0).filter(|ttl| *ttl > 0),
        run,
        user: caller.user.id,
        history_step: input.history_step.map(|step| step.0),
        wanted: &list(&aliases)?,
        tags: &list(&tags)?,
        distributed_id: input.distributed_id.as_deref(),
    };
    let id = store::insert(&mut write, &new, now).await?;
    write.commit().await?;
    Ok(reload(shared, id).await?.0)
}

fn check_collection(collection: &Collection, kind: i64, input: &CreateArtifactInput) -> Result<()> {
    let name = &collection.name;
    if collection.is_portfolio {
        return Err(Fault::conflict(format!(
            "`{name}` is a portfolio; hint: log the artifact elsewhere and link it here"
        )));
    }
    if collection.type_id != kind {
        return Err(Fault::conflict(format!(
            "the collection `{name}` holds artifacts of another type than `{}`",
            input.artifact_type_name
        )));
    }
    Ok(())
}

fn check_region(input: &CreateArtifactInput) -> Result<()> {
    match input.storage_region.as_deref() {
        None | Some("" | "default") => Ok(()),
        Some(region) => {
            Err(Fault::bad(format!("there is no storage region `{region}`; hint: leave it out, there is one store")))
        }
    }
}

/// The version that holds this content already: the newest one; any, when a version is logged that was read before, which
/// a client tells by giving it no id of its own.
async fn same_content(write: &mut Write, collection: i64, input: &CreateArtifactInput) -> Result<Option<Record>> {
    let latest = store::latest_locked(write, collection).await?;
    let latest = latest.filter(|latest| latest.digest == input.digest);
    Ok(match (latest, &input.client_id) {
        (None, None) => store::with_digest(write, collection, &input.digest).await?,
        (latest, _) => latest,
    })
}

struct Again<'a> {
    run: Option<i64>,
    aliases: &'a [&'a str],
    tags: &'a [&'a str],
}

/// A run logs what is there already: it is the run's as well, under these aliases and tags too.
async fn log_again(write: &mut Write, same: &Record, again: Again<'_>, now: Timestamp) -> Result<()> {
    set_aliases(write, same, again.aliases.iter().map(|alias| (*alias).to_owned())).await?;
    if let Some(run) = again.run.filter(|run| same.run_id != Some(*run)) {
        store::note_maker(write, same.id, run).await?;
    }
    if !again.tags.is_empty() {
        let mut tags: BTreeSet<String> = serde_json::from_str(&same.tags).unwrap_or_default();
        tags.extend(again.tags.iter().map(|tag| (*tag).to_owned()));
        let tags = serde_json::to_string(&tags).map_err(Fault::internal)?;
        store::edit(write, same.id, &store::Edit { tags: Some(&tags), ..store::Edit::default() }, now).await?;
    }
    Ok(())
}

async fn upload(ctx: &Context<'_>, artifact: Record, spec: CreateArtifactFileSpecInput) -> Result<File> {
    let shared = ctx.shared();
    let name = crate::file::clean(&spec.name)?.to_owned();
    let md5 = hex_of(&spec.md5)
        .ok_or_else(|| Fault::bad(format!("`{}` of file `{name}` is not the base64 of an MD5", spec.md5)))?;
    let key = store::blob_key(artifact.id, &md5);
    let is_here = store::has_blob(&shared.database, artifact.id, &md5).await?;
    let upload_url = (!is_here).then(|| url(shared, Access::Write, &key, Timestamp::now()));
    let parts: Vec<i64> = spec.upload_parts_input.iter().flatten().map(|part| part.part_number.0).collect();
    let upload_multipart_urls = match is_here || parts.is_empty() {
        true => None,
        false => Some(multipart::begin(shared, &artifact, &md5, &parts)?),
    };
    Ok(File {
        id: ID(STANDARD.encode(format!("ArtifactFile:{}:{name}", artifact.id))),
        display_name: Some(name.clone()),
        name,
        upload_url,
        upload_multipart_urls,
        upload_headers: Some(vec![format!("Content-MD5:{}", spec.md5)]),
        md5: Some(spec.md5.clone()),
        digest: Some(spec.md5),
        storage_path: Some(key),
        artifact: Some(Artifact(artifact)),
        ..File::default()
    })
}

async fn set_aliases(write: &mut Write, artifact: &Record, aliases: impl Iterator<Item = String>) -> Result<()> {
    for alias in aliases {
        store::set_alias(write, artifact.collection_id, &alias, artifact.id).await?;
    }
    Ok(())
}

/// An artifact that can still be filled.
async fn expect_pending(ctx: &Context<'_>, id: &str) -> Result<Record> {
    let artifact = expect(ctx.shared(), ctx.caller(), Deed::Log, id).await?;
    match artifact.state.as_str() {
        "PENDING" => Ok(artifact),
        _ => Err(Fault::conflict("the artifact was committed or deleted, so it cannot be changed")),
    }
}

async fn reload(shared: &Shared, id: i64) -> Result<Artifact> {
    store::by_id(&shared.database, id).await?.map(Artifact).ok_or_else(|| Fault::missing("the artifact"))
}

fn list<T: serde::Serialize>(items: &[T]) -> Result<String> {
    serde_json::to_string(items).map_err(Fault::internal)
}
