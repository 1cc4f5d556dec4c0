//! `/api/v1/keys`: one's own API keys, those of one's team's service accounts, and all for who administers the server.

use super::rest::expect_user;
use super::store::{self, NewKey};
use super::{Entity, User, keys};
use crate::Shared;
use crate::events::audit;
use crate::fault::{Fault, Result};
use crate::graphql::scalars::date_text;
use crate::http::auth::Known;
use crate::http::body::Sent;
use crate::people::Caller;
use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use volley_plan::people::Deed;

/// As many as a person can keep apart, and a program that makes one a day for years.
const KEYS_MAX: usize = 1000;
const NAME_MAX: usize = 128;
/// Ten years; whoever wants longer wants no end.
const DAYS_MAX: i64 = 3650;

#[derive(Deserialize)]
pub struct Whose {
    user: Option<String>,
}

pub async fn list(
    State(shared): State<Shared>,
    Known(caller): Known,
    Query(whose): Query<Whose>,
) -> Result<Json<Value>> {
    let user = owner(&shared, &caller, whose.user.as_deref()).await?;
    let keys = store::keys_of(&shared.database, user.id).await?;
    let told = |key: store::Key| {
        json!({
            "id": key.id,
            "name": key.name,
            "begins": key.hint,
            "created": date_text(key.created_at),
            "used": key.used_at.map(date_text),
            "expires": key.expires_at.map(date_text),
        })
    };
    Ok(Json(keys.into_iter().map(told).collect()))
}

#[derive(Deserialize)]
pub struct KeyWanted {
    name: String,
    expires_days: Option<i64>,
    user: Option<String>,
}

/// A further key, shown this once.
pub async fn create(
    State(shared): State<Shared>,
    Known(caller): Known,
    Sent(wanted): Sent<KeyWanted>,
) -> Result<Json<Value>> {
    let user = owner(&shared, &caller, wanted.user.as_deref()).await?;
    let made = make(&shared, &caller, &user, &wanted.name, wanted.expires_days).await?;
    let expires = made.expires_at.map(|at| date_text(at.as_microsecond()));
    Ok(Json(json!({ "id": made.id, "name": wanted.name, "key": made.key, "expires": expires })))
}

pub struct Made {
    pub id: i64,
    pub key: String,
    pub expires_at: Option<Timestamp>,
}

/// Makes a key for a user whose keys the caller may make.
pub async fn make(
    shared: &Shared,
    caller: &Caller,
    user: &User,
    name: &str,
    expires_days: Option<i64>,
) -> Result<Made> {
    if name.is_empty() || name.chars().count() > NAME_MAX {
        return Err(Fault::bad(format!("a key's name has 1 to {NAME_MAX} characters")));
    }
    if expires_days.is_some_and(|days| !(1..=DAYS_MAX).contains(&days)) {
        return Err(Fault::bad(format!("a key runs out after 1 to {DAYS_MAX} days; hint: leave it out for never")));
    }
    if store::keys_of(&shared.database, user.id).await?.len() >= KEYS_MAX {
        return Err(Fault::conflict(format!("{KEYS_MAX} keys are enough; hint: revoke some")));
    }
    let now = Timestamp::now();
    let expires_at = expires_days.map(|days| now + SignedDuration::from_hours(24 * days));
    let key = keys::new_key();
    let mut write = shared.database.write().await?;
    let new = NewKey { user: user.id, name, key: &key, expires_at };
    let id = store::add_key(&mut write, &new, now).await?;
    audit(&mut write, caller, "key.create", &format!("{}/{name}", user.username), now).await?;
    write.commit().await?;
    Ok(Made { id, key, expires_at })
}

pub async fn revoke(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<i64>,
    Query(whose): Query<Whose>,
) -> Result<Json<Value>> {
    let user = owner(&shared, &caller, whose.user.as_deref()).await?;
    withdraw(&shared, &caller, &user, id).await?;
    Ok(Json(json!({ "id": id })))
}

/// Revokes a key of a user whose keys the caller may revoke.
pub async fn withdraw(shared: &Shared, caller: &Caller, user: &User, id: i64) -> Result<()> {
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    if !store::revoke_key(&mut write, user.id, id, now).await? {
        return Err(Fault::missing("the key"));
    }
    audit(&mut write, caller, "key.revoke", &format!("{}/{id}", user.username), now).await?;
    write.commit().await?;
    Ok(())
}

async fn owner(shared: &Shared, caller: &Caller, named: Option<&str>) -> Result<User> {
    let Some(name) = named else {
        return Ok(caller.user.clone());
    };
    match store::user_by_name(&shared.database, name).await? {
        Some(user) if is_own_service(shared, caller, &user).await? => Ok(user),
        _ => expect_user(shared, caller, name).await,
    }
}

/// Whether it is a service account of teams that the caller manages, all of them: its keys open no others.
async fn is_own_service(shared: &Shared, caller: &Caller, user: &User) -> Result<bool> {
    let mut teams = store::entities_of(&shared.database, user).await?;
    teams.retain(|entity| entity.is_team);
    let is_managed = |team: &Entity| caller.must(Deed::ManagePeople, team.id, "").is_ok();
    let is_there = user.is_service && user.deleted_at.is_none() && !user.is_admin;
    Ok(is_there && !teams.is_empty() && teams.iter().all(is_managed))
}
