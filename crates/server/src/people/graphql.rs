//! People in the schema: the viewer, users, entities, keys.

use super::{Entity as EntityRow, User as UserRow, store};
use crate::artifact::graphql::collection::ArtifactCollectionConnection;
use crate::artifact::graphql::registry;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::page::PageInfo;
use crate::graphql::scalars::{DateTime, Int64, JsonText};
use crate::ids;
use crate::project::graphql::{Project, ProjectConnection};
use crate::project::{self, Path};
use crate::queue::graphql::DefaultResourceConfig;
use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use volley_plan::people::Role;

/// As many as somebody looks through.
const USERS_MAX: usize = 100;

#[derive(Default)]
pub struct PeopleQuery;

#[Object]
impl PeopleQuery {
    async fn viewer(&self, ctx: &Context<'_>) -> Option<User> {
        Some(User(ctx.caller().user.clone()))
    }

    async fn entity(&self, ctx: &Context<'_>, name: Option<String>) -> Result<Option<Entity>> {
        let name = name.unwrap_or_else(|| ctx.caller().user.entity.clone());
        let entity = store::entity_by_name(&ctx.shared().database, &name).await?;
        Ok(entity.filter(|entity| ctx.caller().may_see(entity.id)).map(Entity))
    }

    /// Every entity is an organization of its own.
    async fn organization(&self, ctx: &Context<'_>, name: String) -> Result<Option<Organization>> {
        let entity = store::entity_by_name(&ctx.shared().database, &name).await?;
        Ok(entity.filter(|entity| ctx.caller().may_see(entity.id)).map(Organization))
    }

    /// By the beginning or end of a name or address; only yourself unless you administer the server.
    async fn users(&self, ctx: &Context<'_>, query: Option<String>) -> Result<Option<UserConnection>> {
        let caller = ctx.caller();
        let part = query.unwrap_or_else(|| caller.user.username.clone());
        let mut found = store::users_like(&ctx.shared().database, &part, USERS_MAX).await?;
        found.retain(|user| caller.asker.is_admin || caller.is_self(user.id));
        Ok(Some(UserConnection { edges: found.into_iter().map(|user| UserEdge { node: Some(User(user)) }).collect() }))
    }
}

#[derive(Clone)]
pub struct User(pub UserRow);

#[Object]
impl User {
    async fn id(&self) -> ID {
        ids::encode("User", self.0.id)
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn username(&self) -> Option<&str> {
        Some(&self.0.username)
    }
    /// Only for the user itself and administrators.
    async fn email(&self, ctx: &Context<'_>) -> Option<&str> {
        self.is_open_to(ctx).then_some(self.0.email.as_deref()).flatten()
    }
    async fn admin(&self) -> Option<bool> {
        Some(self.0.is_admin)
    }
    async fn entity(&self) -> Option<&str> {
        Some(&self.0.entity)
    }
    async fn flags(&self) -> Option<JsonText> {
        Some(JsonText("{}".into()))
    }
    async fn deleted_at(&self) -> Option<DateTime> {
        self.0.deleted_at.map(DateTime)
    }
    async fn account_type(&self) -> Option<&str> {
        Some(if self.0.is_service { "SERVICE" } else { "USER" })
    }
    async fn teams(&self, ctx: &Context<'_>) -> Result<Option<EntityConnection>> {
        let entities = store::entities_of(&ctx.shared().database, &self.0).await?;
        let seen = entities.into_iter().filter(|entity| ctx.caller().may_see(entity.id));
        let edges = seen.map(|entity| EntityEdge { node: Some(Entity(entity)) }).collect();
        Ok(Some(EntityConnection { edges, page_info: PageInfo::last() }))
    }
    async fn api_keys(&self, ctx: &Context<'_>) -> Result<Option<ApiKeyConnection>> {
        if !self.is_open_to(ctx) {
            return Ok(None);
        }
        let keys = store::keys_of(&ctx.shared().database, self.0.id).await?;
        let edge = |key: store::Key| {
            let description = Some(format!("{}…", key.hint));
            ApiKeyEdge { node: Some(ApiKey { id: ids::encode("ApiKey", key.id), name: key.name, description }) }
        };
        Ok(Some(ApiKeyConnection { edges: keys.into_iter().map(edge).collect() }))
    }
    async fn organizations(&self, ctx: &Context<'_>) -> Result<Vec<Organization>> {
        let entities = store::entities_of(&ctx.shared().database, &self.0).await?;
        Ok(entities.into_iter().filter(|entity| ctx.caller().may_see(entity.id)).map(Organization).collect())
    }
    async fn photo_url(&self) -> Option<&str> {
        None
    }
}

impl User {
    fn is_open_to(&self, ctx: &Context<'_>) -> bool {
        ctx.caller().is_self(self.0.id) || ctx.caller().asker.is_admin
    }
}

#[derive(SimpleObject)]
pub struct UserConnection {
    edges: Vec<UserEdge>,
}

#[derive(SimpleObject)]
pub struct UserEdge {
    node: Option<User>,
}

#[derive(SimpleObject)]
pub struct ApiKey {
    pub id: ID,
    pub name: String,
    pub description: Option<String>,
}

#[derive(SimpleObject)]
pub struct ApiKeyConnection {
    edges: Vec<ApiKeyEdge>,
}

#[derive(SimpleObject)]
pub struct ApiKeyEdge {
    node: Option<ApiKey>,
}

#[derive(SimpleObject)]
pub struct EntityConnection {
    edges: Vec<EntityEdge>,
    page_info: PageInfo,
}

#[derive(SimpleObject)]
pub struct EntityEdge {
    node: Option<Entity>,
}

#[derive(Clone)]
pub struct Entity(pub EntityRow);

#[Object]
impl Entity {
    async fn id(&self) -> ID {
        ids::encode("Entity", self.0.id)
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn is_team(&self) -> bool {
        self.0.is_team
    }
    async fn entity_type(&self, ctx: &Context<'_>) -> Option<&str> {
        Some(match self.0.is_team {
            _ if registry::is_organization(ctx) => "organization",
            true => "team",
            false => "user",
        })
    }
    async fn organization(&self) -> Option<Organization> {
        Some(Organization(self.0.clone()))
    }
    async fn project(&self, ctx: &Context<'_>, name: Option<String>) -> Result<Option<Project>> {
        let path = Path { entity: Some(&self.0.name), project: name.as_deref() };
        Ok(project::find(ctx.shared(), ctx.caller(), path).await?.map(Project::new))
    }
    async fn projects(
        &self,
        ctx: &Context<'_>,
        filters: Option<JsonText>,
        after: Option<String>,
        first: Option<i32>,
        order: Option<String>,
    ) -> Result<Option<ProjectConnection>> {
        let wanted = registry::Wanted { projects: filters, order, first, after, ..registry::Wanted::default() };
        registry::projects(ctx, self.0.id, wanted).await.map(Some)
    }
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn artifact_collections(
        &self,
        ctx: &Context<'_>,
        project_filters: Option<JsonText>,
        filters: Option<JsonText>,
        collection_types: Option<Vec<registry::ArtifactCollectionType>>,
        after: Option<String>,
        first: Option<i32>,
        order: Option<String>,
    ) -> Result<Option<ArtifactCollectionConnection>> {
        let (projects, collections) = (project_filters, filters);
        let wanted = registry::Wanted { projects, collections, order, first, after, ..registry::Wanted::default() };
        registry::collections(ctx, self.0.id, collection_types, wanted).await.map(Some)
    }
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn artifact_memberships(
        &self,
        ctx: &Context<'_>,
        project_filters: Option<JsonText>,
        collection_filters: Option<JsonText>,
        filters: Option<JsonText>,
        after: Option<String>,
        first: Option<i32>,
        order: Option<String>,
    ) -> Result<Option<registry::EntityMembershipConnection>> {
        let (projects, collections, versions) = (project_filters, collection_filters, filters);
        let wanted = registry::Wanted { projects, collections, versions, order, first, after };
        registry::memberships(ctx, self.0.id, wanted).await.map(Some)
    }
    async fn user(&self, ctx: &Context<'_>) -> Result<Option<User>> {
        if self.0.is_team {
            return Ok(None);
        }
        Ok(store::user_by_name(&ctx.shared().database, &self.0.name).await?.map(User))
    }
    async fn xxhash_digests_enabled(&self) -> bool {
        false
    }
    async fn default_resource_config(&self, ctx: &Context<'_>, id: ID) -> Result<Option<DefaultResourceConfig>> {
        let number = ids::decode("DefaultResourceConfig", &id).ok_or_else(|| Fault::missing("the resource config"))?;
        DefaultResourceConfig::of_entity(ctx, self.0.id, number).await
    }
    async fn default_resource_configs(&self, ctx: &Context<'_>) -> Result<Option<Vec<DefaultResourceConfig>>> {
        DefaultResourceConfig::all_of_entity(ctx, self.0.id).await.map(Some)
    }
    async fn code_saving_enabled(&self) -> Option<bool> {
        Some(true)
    }
    async fn read_only(&self) -> Option<bool> {
        Some(false)
    }
    async fn read_only_admin(&self) -> bool {
        false
    }
    /// Whether the name could still be taken.
    async fn available(&self) -> Option<bool> {
        Some(false)
    }
    async fn photo_url(&self) -> Option<&str> {
        None
    }
    async fn limits(&self) -> Option<JsonText> {
        Some(JsonText("{}".into()))
    }
    async fn private_only(&self) -> bool {
        true
    }
    async fn storage_bytes(&self, ctx: &Context<'_>) -> Result<Int64> {
        Ok(Int64(store::bytes_of(&ctx.shared().database, self.0.id).await?))
    }
    async fn default_access(&self) -> &str {
        "PRIVATE"
    }
    async fn is_paid(&self) -> Option<bool> {
        Some(false)
    }
    /// Those who came last behind: a client that makes a service account looks for it there.
    async fn members(&self, ctx: &Context<'_>) -> Result<Vec<Member>> {
        let members = store::member_users(&ctx.shared().database, self.0.id).await?;
        Ok(members.into_iter().map(|(user, role)| Member { user: User(user), role }).collect())
    }
}

/// Somebody in a team.
pub struct Member {
    user: User,
    role: Option<Role>,
}

#[Object]
impl Member {
    async fn id(&self) -> Option<ID> {
        Some(ids::encode("User", self.user.0.id))
    }
    async fn admin(&self) -> Option<bool> {
        Some(self.role == Some(Role::Admin))
    }
    async fn pending(&self) -> Option<bool> {
        Some(false)
    }
    async fn email(&self, ctx: &Context<'_>) -> Option<&str> {
        self.user.is_open_to(ctx).then_some(self.user.0.email.as_deref()).flatten()
    }
    async fn username(&self) -> Option<&str> {
        Some(&self.user.0.username)
    }
    async fn name(&self) -> &str {
        &self.user.0.name
    }
    async fn photo_url(&self) -> Option<&str> {
        None
    }
    async fn account_type(&self) -> Option<&str> {
        Some(if self.user.0.is_service { "SERVICE" } else { "USER" })
    }
    /// Never told again: a key is kept as a digest.
    async fn api_key(&self) -> Option<&str> {
        None
    }
}

/// An entity as the owner of registries.
pub struct Organization(pub EntityRow);

#[Object]
impl Organization {
    async fn id(&self) -> ID {
        ids::encode("Organization", self.0.id)
    }
    async fn name(&self) -> &str {
        &self.0.name
    }
    async fn org_entity(&self) -> Option<Entity> {
        Some(Entity(self.0.clone()))
    }
    async fn advanced_registry_features(&self) -> Option<AdvancedRegistryFeatures> {
        Some(AdvancedRegistryFeatures { advanced_search: false })
    }
    async fn core_weave_organization_id(&self) -> Option<&str> {
        None
    }
    async fn feature_flags(&self, #[graphql(name = "rampIDType")] _kind: RampIdType) -> Vec<Option<RampFeatureFlag>> {
        Vec::new()
    }
}

#[derive(SimpleObject)]
pub struct AdvancedRegistryFeatures {
    advanced_search: bool,
}

#[derive(Enum, Clone, Copy, PartialEq, Eq)]
#[graphql(name = "RampIDType")]
pub enum RampIdType {
    #[graphql(name = "OrgName")]
    Org,
    #[graphql(name = "UserName")]
    UserName,
    #[graphql(name = "EntityName")]
    Entity,
    #[graphql(name = "Username")]
    Username,
}

#[derive(SimpleObject)]
pub struct RampFeatureFlag {
    ramp_key: String,
    is_enabled: bool,
}
