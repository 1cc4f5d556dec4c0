//! `/api/v1`: users, teams, members and keys. W&B's schema has no words for most of this.

use super::store::{self, NewUser};
use super::{Entity, User, keys};
use crate::Shared;
use crate::events::audit;
use crate::fault::{Fault, Result};
use crate::http::auth::Known;
use crate::people::Caller;
use axum::extract::{Path, State};
use axum::routing::{delete, get, post, put};
use axum::{Json, Router};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use volley_plan::people::{Deed, Role};

pub fn router() -> Router<Shared> {
    Router::new()
        .route("/api/v1/users", post(create_user))
        .route("/api/v1/teams", post(create_team))
        .route("/api/v1/teams/{team}/members/{user}", put(set_member).delete(remove_member))
        .route("/api/v1/keys", get(list_keys).post(create_key))
        .route("/api/v1/keys/{id}", delete(revoke_key))
}

#[derive(Deserialize)]
struct UserWanted {
    username: String,
    email: Option<String>,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    service: bool,
}

/// The new user's key is in the answer, and nowhere else.
async fn create_user(
    State(shared): State<Shared>,
    Known(caller): Known,
    Json(wanted): Json<UserWanted>,
) -> Result<Json<Value>> {
    caller.must(Deed::Administer, caller.user.entity_id, "users")?;
    check_free(&shared, &wanted.username).await?;
    let now = Timestamp::now();
    let key = keys::new_key();
    let mut write = shared.database.write().await?;
    let new = NewUser {
        username: &wanted.username,
        email: wanted.email.as_deref(),
        is_admin: wanted.admin,
        is_service: wanted.service,
    };
    let user = store::create_user(&mut write, &new, now).await?;
    store::add_key(&mut write, user, "first", &key, now).await?;
    audit(&mut write, &caller, "user.create", &wanted.username, now).await?;
    write.commit().await?;
    Ok(Json(json!({ "username": wanted.username, "key": key })))
}

#[derive(Deserialize)]
struct TeamWanted {
    name: String,
}

/// Whoever makes a team is its first admin.
async fn create_team(
    State(shared): State<Shared>,
    Known(caller): Known,
    Json(wanted): Json<TeamWanted>,
) -> Result<Json<Value>> {
    caller.must(Deed::Administer, caller.user.entity_id, "teams")?;
    check_free(&shared, &wanted.name).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let team = store::create_entity(&mut write, &wanted.name, true, now).await?;
    store::set_role(&mut write, team, caller.user.id, Role::Admin).await?;
    audit(&mut write, &caller, "team.create", &wanted.name, now).await?;
    write.commit().await?;
    Ok(Json(json!({ "name": wanted.name })))
}

#[derive(Deserialize)]
struct RoleWanted {
    role: String,
}

async fn set_member(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((team, user)): Path<(String, String)>,
    Json(wanted): Json<RoleWanted>,
) -> Result<Json<Value>> {
    let (team, user) = expect_member(&shared, &caller, &team, &user).await?;
    let role = Role::named(&wanted.role);
    let role =
        role.ok_or_else(|| Fault::bad(format!("`{}` is no role; hint: viewer, member or admin", wanted.role)))?;
    let mut write = shared.database.write().await?;
    store::set_role(&mut write, team.id, user.id, role).await?;
    audit(
        &mut write,
        &caller,
        "member.set",
        &format!("{}/{} {}", team.name, user.username, role.name()),
        Timestamp::now(),
    )
    .await?;
    write.commit().await?;
    Ok(Json(json!({ "team": team.name, "user": user.username, "role": role.name() })))
}

async fn remove_member(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((team, user)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let (team, user) = expect_member(&shared, &caller, &team, &user).await?;
    let mut write = shared.database.write().await?;
    store::remove_role(&mut write, team.id, user.id).await?;
    audit(&mut write, &caller, "member.remove", &format!("{}/{}", team.name, user.username), Timestamp::now()).await?;
    write.commit().await?;
    Ok(Json(json!({ "team": team.name, "user": user.username })))
}

async fn expect_member(shared: &Shared, caller: &Caller, team: &str, user: &str) -> Result<(Entity, User)> {
    let missing = || Fault::missing(format!("team `{team}`"));
    let entity =
        store::entity_by_name(&shared.database, team).await?.filter(|entity| entity.is_team).ok_or_else(missing)?;
    caller.must(Deed::ManagePeople, entity.id, format!("team `{team}`"))?;
    let user =
        store::user_by_name(&shared.database, user).await?.ok_or_else(|| Fault::missing(format!("user `{user}`")))?;
    Ok((entity, user))
}

async fn list_keys(State(shared): State<Shared>, Known(caller): Known) -> Result<Json<Value>> {
    let keys = store::keys_of(&shared.database, caller.user.id).await?;
    let told = |key: store::Key| json!({ "id": key.id, "name": key.name, "begins": key.hint });
    Ok(Json(Value::from_iter(keys.into_iter().map(told))))
}

#[derive(Deserialize)]
struct KeyWanted {
    name: String,
}

/// A further key of the caller's own, shown this once.
async fn create_key(
    State(shared): State<Shared>,
    Known(caller): Known,
    Json(wanted): Json<KeyWanted>,
) -> Result<Json<Value>> {
    let now = Timestamp::now();
    let key = keys::new_key();
    let mut write = shared.database.write().await?;
    let id = store::add_key(&mut write, caller.user.id, &wanted.name, &key, now).await?;
    audit(&mut write, &caller, "key.create", &wanted.name, now).await?;
    write.commit().await?;
    Ok(Json(json!({ "id": id, "name": wanted.name, "key": key })))
}

async fn revoke_key(State(shared): State<Shared>, Known(caller): Known, Path(id): Path<i64>) -> Result<Json<Value>> {
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    if !store::revoke_key(&mut write, caller.user.id, id, now).await? {
        return Err(Fault::missing("the key"));
    }
    audit(&mut write, &caller, "key.revoke", &id.to_string(), now).await?;
    write.commit().await?;
    Ok(Json(json!({ "id": id })))
}

/// Users and teams share their names: both name an entity, which is a part of URLs and ids.
async fn check_free(shared: &Shared, name: &str) -> Result<()> {
    let is_name =
        (1..=64).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
    if !is_name {
        return Err(Fault::bad(format!("`{name}` cannot be a name; hint: 1 to 64 letters, digits, `-`, `_` and `.`")));
    }
    match store::entity_by_name(&shared.database, name).await? {
        Some(_) => Err(Fault::conflict(format!("the name `{name}` is taken"))),
        None => Ok(()),
    }
}
