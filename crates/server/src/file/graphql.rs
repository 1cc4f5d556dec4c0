//! Files in the schema: those of runs, and those of artifacts, which look the same to clients.

use super::{File as Record, clean, store};
use crate::Shared;
use crate::artifact::graphql::Artifact;
use crate::blobs::Access;
use crate::connection;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::{after, cursor, cut, length};
use crate::graphql::scalars::{DateTime, Int64};
use crate::ids;
use crate::project::Path;
use crate::run::graphql::mutation::SuccessPayload;
use crate::run::{self, Run as RunRecord};
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use jiff::Timestamp;
use std::sync::Arc;
use volley_plan::people::Deed;

/// One request uploads no more files than this.
const FILES_MAX: usize = 10_000;

#[derive(Default, SimpleObject)]
#[graphql(complex)]
pub struct File {
    pub id: ID,
    pub name: String,
    pub display_name: Option<String>,
    pub direct_url: Option<String>,
    pub size_bytes: Option<Int64>,
    pub mimetype: Option<String>,
    pub updated_at: Option<DateTime>,
    pub md5: Option<String>,
    pub digest: Option<String>,
    pub storage_path: Option<String>,
    pub upload_url: Option<String>,
    pub upload_headers: Option<Vec<String>>,
    pub upload_multipart_urls: Option<UploadMultipartUrls>,
    pub artifact: Option<Artifact>,
}

#[async_graphql::ComplexObject]
impl File {
    async fn url(&self, upload: Option<bool>) -> Option<&str> {
        match upload {
            Some(true) => self.upload_url.as_deref(),
            _ => self.direct_url.as_deref(),
        }
    }
}

impl File {
    /// The URL to upload to is a permission to write, so only those who may write get it.
    fn of_run(shared: &Shared, file: Record, may_write: bool) -> File {
        let key = store::key(file.run_id, file.id);
        let now = Timestamp::now();
        File {
            id: ids::encode("File", file.id),
            direct_url: Some(url(shared, Access::Read, &key, now)),
            upload_url: may_write.then(|| url(shared, Access::Write, &key, now)),
            upload_headers: Some(Vec::new()),
            display_name: Some(file.name.clone()),
            name: file.name,
            size_bytes: Some(Int64(file.size)),
            mimetype: Some("application/octet-stream".to_owned()),
            updated_at: Some(DateTime(file.updated_at)),
            digest: file.md5.clone(),
            md5: file.md5,
            ..File::default()
        }
    }
}

tokio::task_local! {
    /// What the client that is being answered calls the server, where that is an address.
    pub static CALLED: Option<String>;
}

/// An absolute URL by which whoever has it may read or write the bytes.
pub fn url(shared: &Shared, access: Access, key: &str, now: Timestamp) -> String {
    let called = CALLED.try_with(Clone::clone).ok().flatten();
    let server = called.as_deref().unwrap_or(&shared.public_url);
    format!("{server}{}", shared.blobs.signed_path(access, key, now))
}

#[derive(SimpleObject)]
pub struct UploadMultipartUrls {
    #[graphql(name = "uploadID")]
    pub upload_id: String,
    pub upload_url_parts: Vec<UploadUrlPart>,
}

#[derive(SimpleObject)]
pub struct UploadUrlPart {
    pub part_number: Int64,
    pub upload_url: String,
}

connection!(FileConnection, FileEdge, Option<File>, total_count: Option<i32>, upload_headers: Vec<String>);

pub struct RunFiles(pub Arc<RunRecord>);

#[Object]
impl RunFiles {
    async fn file_count(&self, ctx: &Context<'_>) -> Result<Option<i32>> {
        let count = store::count(&ctx.shared().database, self.0.id).await?;
        Ok(Some(i32::try_from(count).unwrap_or(i32::MAX)))
    }

    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn files(
        &self,
        ctx: &Context<'_>,
        names: Option<Vec<Option<String>>>,
        first: Option<i32>,
        #[graphql(name = "after")] from: Option<String>,
        pattern: Option<String>,
        #[graphql(name = "upload")] _upload: Option<bool>,
    ) -> Result<Option<FileConnection>> {
        let names: Vec<String> = names
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .map(|name| name.trim_start_matches("./").to_owned())
            .collect();
        let length = length(first);
        let after = after(from.as_deref());
        let wanted = store::Wanted { names: &names, pattern: pattern.as_deref(), after, limit: length + 1 };
        let shared = ctx.shared();
        let (rows, has_more) = cut(store::list(&shared.database, self.0.id, &wanted).await?, length);
        let total = store::count(&shared.database, self.0.id).await?;
        let may_write = ctx.caller().must_for(Deed::Log, &self.0).is_ok();
        let nodes = rows.into_iter().map(|row| (cursor(row.id), Some(File::of_run(shared, row, may_write)))).collect();
        Ok(Some(FileConnection::page(nodes, has_more, i32::try_from(total).ok(), Vec::new())))
    }
}

#[derive(InputObject)]
pub struct CreateRunFilesInput {
    entity_name: String,
    project_name: String,
    run_name: String,
    files: Vec<String>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateRunFilesPayload {
    #[graphql(name = "runID")]
    run_id: ID,
    upload_headers: Vec<String>,
    files: Vec<RunFileUpload>,
}

#[derive(SimpleObject)]
pub struct RunFileUpload {
    name: String,
    upload_url: Option<String>,
}

#[derive(InputObject)]
pub struct MarkRunFilesUploadedInput {
    entity_name: String,
    project_name: String,
    run_name: String,
    files: Vec<String>,
}

#[derive(InputObject)]
pub struct DeleteFilesInput {
    files: Vec<ID>,
    project_id: Option<i32>,
}

#[derive(Default)]
pub struct FileMutation;

#[Object]
impl FileMutation {
    /// One URL for each name, in the same order and spelling, or the client drops them all.
    async fn create_run_files(
        &self,
        ctx: &Context<'_>,
        input: CreateRunFilesInput,
    ) -> Result<Option<CreateRunFilesPayload>> {
        let shared = ctx.shared();
        if input.files.len() > FILES_MAX {
            return Err(Fault::bad(format!("more than {FILES_MAX} files in one request")));
        }
        let path = Path::of(&input.entity_name, &input.project_name);
        let run = run::expect(shared, ctx.caller(), Deed::Log, path, &input.run_name).await?;
        let now = Timestamp::now();
        let mut write = shared.database.write().await?;
        let mut files = Vec::new();
        for name in input.files {
            let id = store::ensure(&mut write, run.id, clean(&name)?, now).await?;
            let upload_url = Some(url(shared, Access::Write, &store::key(run.id, id), now));
            files.push(RunFileUpload { name, upload_url });
        }
        write.commit().await?;
        Ok(Some(CreateRunFilesPayload { run_id: run.global_id(), upload_headers: Vec::new(), files }))
    }

    async fn mark_run_files_uploaded(
        &self,
        ctx: &Context<'_>,
        input: MarkRunFilesUploadedInput,
    ) -> Result<Option<SuccessPayload>> {
        let shared = ctx.shared();
        let path = Path::of(&input.entity_name, &input.project_name);
        let run = run::expect(shared, ctx.caller(), Deed::Log, path, &input.run_name).await?;
        let mut write = shared.database.write().await?;
        store::show(&mut write, run.id, &input.files, Timestamp::now()).await?;
        write.commit().await?;
        Ok(SuccessPayload::yes(None))
    }

    async fn delete_files(&self, ctx: &Context<'_>, input: DeleteFilesInput) -> Result<Option<SuccessPayload>> {
        let shared = ctx.shared();
        for id in &input.files {
            let number = ids::decode("File", id);
            let found = match number {
                Some(number) => store::by_id(&shared.database, number).await?,
                None => None,
            };
            // What may not be seen is passed over like what is gone.
            let Some((file, entity)) = found.filter(|(_, entity)| ctx.caller().may_see(*entity)) else {
                continue;
            };
            ctx.caller().must(Deed::Curate, entity, "the file")?;
            let mut write = shared.database.write().await?;
            store::delete(&mut write, file.id).await?;
            write.commit().await?;
            shared.blobs.delete(&store::key(file.run_id, file.id)).await.map_err(Fault::internal)?;
        }
        Ok(SuccessPayload::yes(None))
    }
}
