//! `/api/v1/users`: W&B's schema has no words for most of this.

use super::store::{self, Edit, NewKey, NewUser};
use super::{Caller, User, keys};
use crate::Shared;
use crate::events::audit;
use crate::fault::{Fault, Result};
use crate::graphql::scalars::date_text;
use crate::http::auth::Known;
use crate::http::body::Sent;
use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use volley_plan::people::Deed;
use volley_plan::people::quota::Quota;

/// A server of more people than this needs a directory, not a list.
pub const LIST_MAX: usize = 10_000;

fn told(user: &User) -> Value {
    json!({
        "username": user.username,
        "email": user.email,
        "admin": user.is_admin,
        "service": user.is_service,
        "deleted": user.deleted_at.map(date_text),
    })
}

/// A list of people is not for strangers: whoever does not administer the server finds himself in it.
pub async fn list(State(shared): State<Shared>, Known(caller): Known) -> Result<Json<Value>> {
    if !caller.asker.is_admin {
        return Ok(Json(json!([told(&caller.user)])));
    }
    let users = store::users(&shared.database, LIST_MAX).await?;
    Ok(Json(users.iter().map(told).collect()))
}

pub async fn show(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(username): Path<String>,
) -> Result<Json<Value>> {
    let user = expect_user(&shared, &caller, &username).await?;
    let Quota { jobs, gpus } = store::quota_of(&shared.database, user.entity_id).await?;
    let mut value = told(&user);
    value["quota"] = json!({ "jobs": jobs, "gpus": gpus });
    let mut teams = serde_json::Map::new();
    for entity in store::entities_of(&shared.database, &user).await?.into_iter().filter(|entity| entity.is_team) {
        let role = store::role_in(&shared.database, entity.id, user.id).await?;
        teams.insert(entity.name, role.map(|role| role.name()).into());
    }
    value["teams"] = Value::Object(teams);
    Ok(Json(value))
}

#[derive(Deserialize)]
pub struct UserWanted {
    username: String,
    email: Option<String>,
    #[serde(default)]
    admin: bool,
    #[serde(default)]
    service: bool,
}

/// The new user's key is in the answer, and nowhere else.
pub async fn create(
    State(shared): State<Shared>,
    Known(caller): Known,
    Sent(wanted): Sent<UserWanted>,
) -> Result<Json<Value>> {
    caller.must(Deed::Administer, caller.user.entity_id, "users")?;
    let key = keys::new_key();
    let new = NewUser {
        username: &wanted.username,
        email: wanted.email.as_deref(),
        is_admin: wanted.admin,
        is_service: wanted.service,
    };
    make(&shared, &caller, &new, Some(&key)).await?;
    Ok(Json(json!({ "username": wanted.username, "key": key })))
}

/// Makes a user, with a first key if one is given, for a caller who may.
pub async fn make(shared: &Shared, caller: &Caller, new: &NewUser<'_>, key: Option<&str>) -> Result<i64> {
    check_free(shared, new.username).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let user = store::create_user(&mut write, new, now).await?;
    if let Some(key) = key {
        store::add_key(&mut write, &NewKey { user, name: "first", key, expires_at: None }, now).await?;
    }
    audit(&mut write, caller, "user.create", new.username, now).await?;
    write.commit().await?;
    Ok(user)
}

#[derive(Deserialize)]
pub struct UserEdit {
    email: Option<String>,
    admin: Option<bool>,
}

pub async fn edit(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(username): Path<String>,
    Sent(wanted): Sent<UserEdit>,
) -> Result<Json<Value>> {
    let user = expect_user(&shared, &caller, &username).await?;
    let mut write = shared.database.write().await?;
    if let Some(admin) = wanted.admin {
        caller.must(Deed::Administer, caller.user.entity_id, "who administers the server")?;
        if !admin {
            check_not_last(&mut write, &user).await?;
        }
    }
    let edit = Edit { email: wanted.email.as_deref(), is_admin: wanted.admin, password: None };
    store::edit_user(&mut write, user.id, &edit).await?;
    audit(&mut write, &caller, "user.edit", &user.username, Timestamp::now()).await?;
    write.commit().await?;
    Ok(Json(json!({ "username": user.username })))
}

pub async fn delete(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(username): Path<String>,
) -> Result<Json<Value>> {
    caller.must(Deed::Administer, caller.user.entity_id, "users")?;
    let user = expect_user(&shared, &caller, &username).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    check_not_last(&mut write, &user).await?;
    store::delete_user(&mut write, user.id, now).await?;
    audit(&mut write, &caller, "user.delete", &user.username, now).await?;
    write.commit().await?;
    Ok(Json(json!({ "username": user.username })))
}

#[derive(Deserialize)]
pub struct QuotaWanted {
    jobs: Option<i64>,
    gpus: Option<i64>,
}

impl QuotaWanted {
    pub fn read(&self) -> Result<Quota> {
        match [self.jobs, self.gpus].into_iter().flatten().any(|most| most < 0) {
            true => Err(Fault::bad("a quota is 0 or more; hint: leave it out for none")),
            false => Ok(Quota { jobs: self.jobs, gpus: self.gpus }),
        }
    }
}

/// Replaces the quota as a whole: a number that is left out is no limit.
pub async fn set_quota(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(username): Path<String>,
    Sent(wanted): Sent<QuotaWanted>,
) -> Result<Json<Value>> {
    caller.must(Deed::Administer, caller.user.entity_id, "quotas")?;
    let user = expect_user(&shared, &caller, &username).await?;
    let quota = wanted.read()?;
    let mut write = shared.database.write().await?;
    store::set_quota(&mut write, user.entity_id, quota).await?;
    audit(&mut write, &caller, "quota.set", &user.username, Timestamp::now()).await?;
    write.commit().await?;
    Ok(Json(json!({ "username": user.username, "quota": { "jobs": quota.jobs, "gpus": quota.gpus } })))
}

/// The user, for itself and for who administers the server; for others it does not exist.
pub async fn expect_user(shared: &Shared, caller: &Caller, username: &str) -> Result<User> {
    let is_open = caller.user.username == username || caller.asker.is_admin;
    let user = store::user_by_name(&shared.database, username).await?.filter(|user| user.deleted_at.is_none());
    user.filter(|_| is_open).ok_or_else(|| Fault::missing(format!("user `{username}`")))
}

async fn check_not_last(write: &mut crate::database::Write, user: &User) -> Result<()> {
    if user.is_admin && store::other_admins(write, user.id).await? == 0 {
        return Err(Fault::conflict("nobody else administers the server; hint: make somebody else an admin first"));
    }
    Ok(())
}

/// Users and teams share their names: both name an entity, which is a part of URLs and ids.
pub async fn check_free(shared: &Shared, name: &str) -> Result<()> {
    let is_name =
        (1..=64).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
    // `.` and `..` would lead elsewhere in a path.
    if !is_name || name.bytes().all(|c| c == b'.') {
        return Err(Fault::bad(format!("`{name}` cannot be a name; hint: 1 to 64 letters, digits, `-`, `_` and `.`")));
    }
    match store::entity_by_name(&shared.database, name).await? {
        Some(_) => Err(Fault::conflict(format!("the name `{name}` is taken"))),
        None => Ok(()),
    }
}
