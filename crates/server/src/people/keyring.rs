//! `/api/v1/keys`: one's own API keys, and those of others for who administers the server.

use super::rest::expect_user;
use super::store::{self, NewKey};
use super::{User, keys};
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
    if wanted.name.is_empty() || wanted.name.chars().count() > NAME_MAX {
        return Err(Fault::bad(format!("a key's name has 1 to {NAME_MAX} characters")));
    }
    if wanted.expires_days.is_some_and(|days| !(1..=DAYS_MAX).contains(&days)) {
        return Err(Fault::bad(format!("a key runs out after 1 to {DAYS_MAX} days; hint: leave it out for never")));
    }
    if store::keys_of(&shared.database, user.id).await?.len() >= KEYS_MAX {
        return Err(Fault::conflict(format!("{KEYS_MAX} keys are enough; hint: revoke some")));
    }
    let now = Timestamp::now();
    let expires_at = wanted.expires_days.map(|days| now + SignedDuration::from_hours(24 * days));
    let key = keys::new_key();
    let mut write = shared.database.write().await?;
    let new = NewKey { user: user.id, name: &wanted.name, key: &key, expires_at };
    let id = store::add_key(&mut write, &new, now).await?;
    audit(&mut write, &caller, "key.create", &format!("{}/{}", user.username, wanted.name), now).await?;
    write.commit().await?;
    let expires = expires_at.map(|at| date_text(at.as_microsecond()));
    Ok(Json(json!({ "id": id, "name": wanted.name, "key": key, "expires": expires })))
}

pub async fn revoke(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(id): Path<i64>,
    Query(whose): Query<Whose>,
) -> Result<Json<Value>> {
    let user = owner(&shared, &caller, whose.user.as_deref()).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    if !store::revoke_key(&mut write, user.id, id, now).await? {
        return Err(Fault::missing("the key"));
    }
    audit(&mut write, &caller, "key.revoke", &format!("{}/{id}", user.username), now).await?;
    write.commit().await?;
    Ok(Json(json!({ "id": id })))
}

async fn owner(shared: &Shared, caller: &Caller, named: Option<&str>) -> Result<User> {
    match named {
        Some(name) => expect_user(shared, caller, name).await,
        None => Ok(caller.user.clone()),
    }
}
