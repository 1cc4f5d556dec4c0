//! People as W&B's clients manage them: teams and their members, users, service accounts, one's own keys.
//!
//! What they do is done by the routes of `rest`, `teams` and `keyring`. There is no mail: who is invited is in the team.

use super::graphql::{ApiKey, Entity, User};
use super::store::NewUser;
use super::{Caller, User as UserRow, keyring, rest, store, teams};
use crate::Shared;
use crate::fault::{Fault, Result};
use crate::graphql::Asked as _;
use crate::graphql::scalars::DateTime;
use crate::ids;
use crate::run::graphql::mutation::SuccessPayload;
use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use jiff::Timestamp;
use volley_plan::people::{Deed, Role};

/// How many names are tried for somebody whose name is taken.
const NAMES_MAX: usize = 100;
/// Longer descriptions make no better names.
const NAME_LENGTH_MAX: usize = 40;

#[derive(InputObject)]
pub struct CreateTeamInput {
    team_name: String,
    team_admin_user_name: Option<String>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateTeamPayload {
    entity: Option<Entity>,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct CreateInviteInput {
    entity_name: String,
    email: Option<String>,
    username: Option<String>,
    admin: Option<bool>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct CreateInvitePayload {
    invite: Option<Invite>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct Invite {
    id: ID,
    name: String,
    email: Option<String>,
    created_at: DateTime,
    to_user: Option<User>,
}

#[derive(InputObject)]
pub struct DeleteInviteInput {
    id: Option<String>,
    entity_name: Option<String>,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct CreateServiceAccountInput {
    entity_name: String,
    description: String,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct CreateUserInput {
    email: String,
    admin: Option<bool>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct UserPayload {
    user: Option<User>,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct GenerateApiKeyInput {
    description: Option<String>,
    client_mutation_id: Option<String>,
}

#[derive(SimpleObject)]
pub struct GenerateApiKeyPayload {
    api_key: Option<ApiKey>,
    client_mutation_id: Option<String>,
}

#[derive(InputObject)]
pub struct DeleteApiKeyInput {
    id: String,
    client_mutation_id: Option<String>,
}

#[derive(Default)]
pub struct PeopleMutation;

#[Object]
impl PeopleMutation {
    async fn create_team(&self, ctx: &Context<'_>, input: CreateTeamInput) -> Result<Option<CreateTeamPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let admin = input.team_admin_user_name.as_deref();
        let id = teams::make(shared, caller, &input.team_name, admin).await?;
        let entity = store::entity_by_id(&shared.database, id).await?.map(Entity);
        Ok(Some(CreateTeamPayload { entity, client_mutation_id: input.client_mutation_id }))
    }

    async fn create_invite(&self, ctx: &Context<'_>, input: CreateInviteInput) -> Result<Option<CreateInvitePayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let team = teams::expect_team(shared, caller, Deed::ManagePeople, &input.entity_name).await?;
        let named = input.username.as_deref().or(input.email.as_deref());
        let named = named.ok_or_else(|| Fault::bad("an invitation is for a username or an email address"))?;
        let user = find(shared, named).await?.ok_or_else(|| Fault::missing(format!("user `{named}`")))?;
        if store::role_in(&shared.database, team.id, user.id).await?.is_some() {
            return Err(Fault::conflict(format!("`{}` is in `{}` already", user.username, team.name)));
        }
        let role = if input.admin == Some(true) { Role::Admin } else { Role::Member };
        teams::place(shared, caller, &team, &user, role).await?;
        let invite = Invite {
            id: ids::encode("User", user.id),
            name: user.username.clone(),
            email: input.email,
            created_at: DateTime(Timestamp::now().as_microsecond()),
            to_user: Some(User(user)),
        };
        Ok(Some(CreateInvitePayload { invite: Some(invite), client_mutation_id: input.client_mutation_id }))
    }

    /// Takes a member out of a team; its id is that of the list of members.
    async fn delete_invite(&self, ctx: &Context<'_>, input: DeleteInviteInput) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let team = input.entity_name.as_deref().unwrap_or_default();
        let team = teams::expect_team(shared, caller, Deed::ManagePeople, team).await?;
        let missing = || Fault::missing(format!("the member of `{}`", team.name));
        let id = input.id.as_deref().and_then(|id| ids::decode("User", id)).ok_or_else(missing)?;
        let user = store::user_by_id(&shared.database, id).await?.ok_or_else(missing)?;
        store::role_in(&shared.database, team.id, user.id).await?.ok_or_else(missing)?;
        teams::take_out(shared, caller, &team, &user).await?;
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }

    /// A team's admins may make these; a key for it is made at `/api/v1/keys`, because a key is shown once.
    async fn create_service_account(
        &self,
        ctx: &Context<'_>,
        input: CreateServiceAccountInput,
    ) -> Result<Option<UserPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let team = teams::expect_team(shared, caller, Deed::ManagePeople, &input.entity_name).await?;
        let username = free_name(shared, &format!("{}-{}", team.name, input.description)).await?;
        let new = NewUser { username: &username, email: None, is_admin: false, is_service: true };
        let id = rest::make(shared, caller, &new, None).await?;
        let user = store::user_by_id(&shared.database, id).await?.ok_or_else(|| Fault::missing("the account"))?;
        teams::place(shared, caller, &team, &user, Role::Member).await?;
        Ok(Some(UserPayload { user: Some(User(user)), client_mutation_id: input.client_mutation_id }))
    }

    async fn create_user(&self, ctx: &Context<'_>, input: CreateUserInput) -> Result<Option<UserPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        caller.must(Deed::Administer, caller.user.entity_id, "users")?;
        let Some((name, _)) = input.email.split_once('@').filter(|(name, host)| !name.is_empty() && !host.is_empty())
        else {
            return Err(Fault::bad(format!("`{}` is no email address", input.email)));
        };
        if find(shared, &input.email).await?.is_some() {
            return Err(Fault::conflict(format!("there is a user with the address `{}`", input.email)));
        }
        let username = free_name(shared, name).await?;
        let is_admin = input.admin == Some(true);
        let new = NewUser { username: &username, email: Some(&input.email), is_admin, is_service: false };
        let id = rest::make(shared, caller, &new, None).await?;
        let user = store::user_by_id(&shared.database, id).await?.map(User);
        Ok(Some(UserPayload { user, client_mutation_id: input.client_mutation_id }))
    }

    /// A key of one's own. Its name in this answer, and nowhere else, is the key: that is where clients look for it.
    async fn generate_api_key(
        &self,
        ctx: &Context<'_>,
        input: GenerateApiKeyInput,
    ) -> Result<Option<GenerateApiKeyPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        caller.must_be_whole()?;
        let name = input.description.as_deref().filter(|name| !name.is_empty()).unwrap_or("key");
        let made = keyring::make(shared, caller, &caller.user, name, None).await?;
        let api_key = ApiKey { id: ids::encode("ApiKey", made.id), name: made.key, description: Some(name.to_owned()) };
        Ok(Some(GenerateApiKeyPayload { api_key: Some(api_key), client_mutation_id: input.client_mutation_id }))
    }

    async fn delete_api_key(&self, ctx: &Context<'_>, input: DeleteApiKeyInput) -> Result<Option<SuccessPayload>> {
        let (shared, caller) = (ctx.shared(), ctx.caller());
        let id = ids::decode("ApiKey", &input.id).ok_or_else(|| Fault::missing("the key"))?;
        let owner = owner_of_key(shared, caller, id).await?.ok_or_else(|| Fault::missing("the key"))?;
        keyring::withdraw(shared, caller, &owner, id).await?;
        Ok(SuccessPayload::yes(input.client_mutation_id))
    }
}

/// Whose key it is, for the owner and for who administers the server.
async fn owner_of_key(shared: &Shared, caller: &Caller, key: i64) -> Result<Option<UserRow>> {
    let Some(owner) = store::owner_of_key(&shared.database, key).await? else {
        return Ok(None);
    };
    let is_open = caller.is_self(owner) || caller.asker.is_admin;
    Ok(store::user_by_id(&shared.database, owner).await?.filter(|_| is_open))
}

/// Somebody by name or address, who was not deleted.
async fn find(shared: &Shared, named: &str) -> Result<Option<UserRow>> {
    let found = match named.contains('@') {
        true => store::user_by_email(&shared.database, named).await?,
        false => store::user_by_name(&shared.database, named).await?,
    };
    Ok(found.filter(|user| user.deleted_at.is_none()))
}

/// A name that nobody has, made of words that people chose for something else.
async fn free_name(shared: &Shared, words: &str) -> Result<String> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c.to_ascii_lowercase() } else { '-' };
    let base: String = words.chars().map(plain).take(NAME_LENGTH_MAX).collect();
    for number in 1..=NAMES_MAX {
        let name = if number == 1 { base.clone() } else { format!("{base}-{number}") };
        if store::entity_by_name(&shared.database, &name).await?.is_none() {
            return Ok(name);
        }
    }
    Err(Fault::conflict(format!("`{base}` and the names like it are taken")))
}
