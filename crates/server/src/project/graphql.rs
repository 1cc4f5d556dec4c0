//! Projects in the schema. Each noun adds the fields by which a project leads to it.

use super::{Path, Project as Record, store};
use crate::artifact::graphql::project::ProjectArtifacts;
use crate::connection;
use crate::events;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::{after, cursor, cut, length};
use crate::graphql::scalars::{DateTime, Json, JsonText};
use crate::people::graphql::{Entity, User};
use crate::people::{self};
use crate::queue::graphql::ProjectQueues;
use crate::run::graphql::mutation::SuccessPayload;
use crate::run::graphql::project::ProjectRuns;
use crate::sweep::graphql::ProjectSweeps;
use crate::{ids, project};
use async_graphql::{Context, ID, InputObject, MergedObject, Object, SimpleObject};
use jiff::Timestamp;
use std::sync::Arc;
use volley_plan::people::Deed;

#[derive(MergedObject)]
pub struct Project(ProjectItself, ProjectRuns, ProjectQueues, ProjectSweeps, ProjectArtifacts);

impl Project {
    pub fn new(record: Record) -> Project {
        let record = Arc::new(record);
        Project(
            ProjectItself(record.clone()),
            ProjectRuns(record.clone()),
            ProjectQueues(record.clone()),
            ProjectSweeps(record.clone()),
            ProjectArtifacts(record),
        )
    }
}

pub struct ProjectItself(Arc<Record>);

#[Object]
impl ProjectItself {
    async fn id(&self) -> ID {
        ids::encode("Project", self.0.id)
    }
    async fn internal_id(&self) -> ID {
        ID(self.0.id.to_string())
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn entity_name(&self) -> &str {
        &self.0.entity
    }
    async fn entity(&self, ctx: &Context<'_>) -> Result<Entity> {
        let entity = people::store::entity_by_id(&ctx.shared().database, self.0.entity_id).await?;
        let gone = || Fault::missing("the entity");
        entity.map(Entity).ok_or_else(gone)
    }
    async fn created_at(&self) -> DateTime {
        DateTime(self.0.created_at)
    }
    async fn updated_at(&self) -> Option<DateTime> {
        Some(DateTime(self.0.created_at))
    }
    /// Any type of artifact may be linked anywhere.
    async fn allow_all_artifact_types_in_registry(&self) -> Option<bool> {
        Some(true)
    }
    async fn repo(&self) -> Option<&str> {
        None
    }
    async fn docker_image(&self) -> Option<&str> {
        None
    }
    async fn is_benchmark(&self) -> bool {
        false
    }
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }
    async fn access(&self) -> Option<&str> {
        // A registry is one for everybody in its entity unless it was made otherwise.
        self.0.access.as_deref().or(self.0.is_registry().then_some("PRIVATE"))
    }
    async fn views(&self) -> Option<JsonText> {
        self.0.views.clone().map(JsonText)
    }
    async fn read_only(&self) -> Option<bool> {
        Some(false)
    }
    async fn user(&self, ctx: &Context<'_>) -> Result<Option<User>> {
        let Some(id) = self.0.user_id else {
            return Ok(None);
        };
        Ok(people::store::user_by_id(&ctx.shared().database, id).await?.map(User))
    }
    /// There are no saved views; clients that ask find none.
    async fn all_views(
        &self,
        #[graphql(name = "viewType")] _kind: Option<String>,
        #[graphql(name = "viewName")] _name: Option<String>,
        #[graphql(name = "first")] _first: Option<i32>,
        #[graphql(name = "after")] _after: Option<String>,
    ) -> Option<ViewConnection> {
        Some(ViewConnection::page(Vec::new(), false))
    }
}

/// A report; the type exists because clients list them.
#[derive(SimpleObject)]
pub struct View {
    id: ID,
    name: String,
    display_name: Option<String>,
    description: Option<String>,
    user: Option<User>,
    spec: Option<JsonText>,
    created_at: DateTime,
    updated_at: Option<DateTime>,
}

connection!(ViewConnection, ViewEdge, Option<View>);

connection!(ProjectConnection, ProjectEdge, Option<Project>);

#[derive(Default)]
pub struct ProjectQuery;

#[Object]
impl ProjectQuery {
    async fn project(
        &self,
        ctx: &Context<'_>,
        name: Option<String>,
        entity_name: Option<String>,
    ) -> Result<Option<Project>> {
        find(ctx, name, entity_name).await
    }

    async fn model(
        &self,
        ctx: &Context<'_>,
        name: Option<String>,
        entity_name: Option<String>,
    ) -> Result<Option<Project>> {
        find(ctx, name, entity_name).await
    }

    async fn models(
        &self,
        ctx: &Context<'_>,
        entity_name: Option<String>,
        first: Option<i32>,
        #[graphql(name = "after")] from: Option<String>,
    ) -> Result<Option<ProjectConnection>> {
        let name = entity_name.unwrap_or_else(|| ctx.caller().user.entity.clone());
        let entity = people::store::entity_by_name(&ctx.shared().database, &name).await?;
        let Some(entity) = entity.filter(|entity| ctx.caller().may_see(entity.id)) else {
            return Ok(None);
        };
        let length = length(first);
        let rows = store::of_entity(&ctx.shared().database, entity.id, after(from.as_deref()), length + 1).await?;
        let (rows, has_more) = cut(rows, length);
        let nodes = rows.into_iter().map(|row| (cursor(row.id), Some(Project::new(row)))).collect();
        Ok(Some(ProjectConnection::page(nodes, has_more)))
    }
}

async fn find(ctx: &Context<'_>, name: Option<String>, entity: Option<String>) -> Result<Option<Project>> {
    let path = Path { entity: entity.as_deref(), project: name.as_deref() };
    Ok(project::find(ctx.shared(), ctx.caller(), path).await?.map(Project::new))
}

#[derive(InputObject)]
pub struct UpsertModelInput {
    id: Option<String>,
    name: Option<String>,
    entity_name: Option<String>,
    description: Option<String>,
    repo: Option<String>,
    access: Option<String>,
    framework: Option<String>,
    docker: Option<String>,
    views: Option<JsonText>,
    is_benchmark: Option<bool>,
    is_published: Option<bool>,
    linked_benchmark: Option<ID>,
    owner: Option<ID>,
    client_mutation_id: Option<String>,
    allow_all_artifact_types_in_registry: Option<bool>,
    artifact_types: Option<Vec<ArtifactTypeInput>>,
    docker_image: Option<String>,
    icon: Option<Json>,
    rate_limits: Option<Json>,
}

#[derive(InputObject)]
pub struct ArtifactTypeInput {
    name: String,
    description: Option<String>,
}

#[derive(InputObject)]
pub struct RenameProjectInput {
    entity_name: String,
    old_project_name: String,
    new_project_name: String,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct RenameProjectPayload {
    project: Option<Project>,
    inserted: Option<bool>,
}

#[derive(InputObject)]
pub struct DeleteModelInput {
    id: Option<String>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct UpsertModelPayload {
    project: Option<Project>,
    model: Option<Project>,
    inserted: Option<bool>,
}

#[derive(Default)]
pub struct ProjectMutation;

#[Object]
impl ProjectMutation {
    async fn upsert_model(&self, ctx: &Context<'_>, input: UpsertModelInput) -> Result<Option<UpsertModelPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let by_id = match input.id.as_deref().and_then(|id| ids::decode("Project", id)) {
            Some(id) => store::by_id(&shared.database, id).await?.filter(|found| caller.may_see(found.entity_id)),
            None => None,
        };
        let (entity, name) = match &by_id {
            Some(found) => (Some(found.entity.clone()), Some(found.name.clone())),
            None => (input.entity_name.clone(), input.name.clone()),
        };
        let path = Path { entity: entity.as_deref(), project: name.as_deref() };
        let inserted = project::find(shared, caller, path).await?.is_none();
        let made = project::ensure(shared, caller, path).await?;
        caller.must(Deed::Curate, made.entity_id, format!("project `{}`", made.name))?;
        let views = input.views.as_ref().map(|views| views.0.as_str());
        let edit = store::Edit { description: input.description.as_deref(), access: input.access.as_deref(), views };
        let mut write = shared.database.write().await?;
        store::edit(&mut write, made.id, &edit).await?;
        for kind in input.artifact_types.iter().flatten() {
            crate::artifact::store::ensure_type(&mut write, made.id, &kind.name, Timestamp::now()).await?;
        }
        write.commit().await?;
        let now = store::by_id(&shared.database, made.id).await?.unwrap_or(made);
        Ok(Some(UpsertModelPayload {
            project: Some(Project::new(now.clone())),
            model: Some(Project::new(now)),
            inserted: Some(inserted),
        }))
    }
    async fn rename_project(
        &self,
        ctx: &Context<'_>,
        input: RenameProjectInput,
    ) -> Result<Option<RenameProjectPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let path = Path::of(&input.entity_name, &input.old_project_name);
        let found = project::expect(shared, caller, Deed::Curate, path).await?;
        let name = &input.new_project_name;
        project::check_name(name)?;
        if found.name == project::REGISTRY || name == project::REGISTRY {
            return Err(Fault::bad(format!("`{}` holds the entity's queues and keeps its name", project::REGISTRY)));
        }
        let taken = store::by_name(&shared.database, found.entity_id, name).await?;
        if taken.is_some_and(|taken| taken.id != found.id) {
            return Err(Fault::conflict(format!("project `{name}` exists already in `{}`", found.entity)));
        }
        let mut write = shared.database.write().await?;
        store::rename(&mut write, found.id, name).await?;
        events::audit(&mut write, caller, "project.rename", &format!("{}/{name}", found.entity), Timestamp::now())
            .await?;
        write.commit().await?;
        let project = store::by_id(&shared.database, found.id).await?.map(Project::new);
        Ok(Some(RenameProjectPayload { project, inserted: Some(false) }))
    }

    /// Deletes a project that has neither runs nor queues; what is in them is not thrown away by accident.
    async fn delete_model(&self, ctx: &Context<'_>, input: DeleteModelInput) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let missing = || Fault::missing("the project");
        let id = input.id.as_deref().and_then(|id| ids::decode("Project", id)).ok_or_else(missing)?;
        let found = store::by_id(&shared.database, id).await?.filter(|found| caller.may_see(found.entity_id));
        let found = found.ok_or_else(missing)?;
        caller.must(Deed::Curate, found.entity_id, format!("project `{}`", found.name))?;
        let mut write = shared.database.write().await?;
        if !store::is_free_of_work(&mut write, found.id).await? {
            let message = format!("project `{}` has runs, sweeps or queues; hint: delete those first", found.name);
            return Err(Fault::conflict(message));
        }
        store::delete(&mut write, found.id).await?;
        events::audit(
            &mut write,
            caller,
            "project.delete",
            &format!("{}/{}", found.entity, found.name),
            Timestamp::now(),
        )
        .await?;
        write.commit().await?;
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }
}
