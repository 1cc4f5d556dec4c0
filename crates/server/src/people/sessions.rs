//! Sessions, for pages: a cookie that scripts cannot read, got by a one-time link, a password or a key.
//!
//! A cookie is sent by browsers whoever asks for the request, so what changes something must also carry a header that
//! foreign pages cannot set (`http::auth`).

use super::store::{self, Edit};
use super::{Caller, User, Way, keys, password};
use crate::database::Write;
use crate::events::audit;
use crate::fault::{Fault, Result};
use crate::graphql::scalars::date_text;
use crate::http::auth::{Address, COOKIE, Known};
use crate::http::body::Sent;
use crate::{Shared, args, database};
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{HeaderValue, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

/// A session that was not used for this long has ended.
pub const IDLE_MAX: SignedDuration = SignedDuration::from_hours(14 * 24);
/// However much it is used, one signs in again after this.
const LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);
/// Long enough to be sent to somebody; it works once.
const LINK_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

#[derive(Deserialize)]
pub struct SignIn {
    username: Option<String>,
    password: Option<String>,
    key: Option<String>,
    token: Option<String>,
}

/// Who signs in is told nothing of why it failed: not whether the user exists, nor whether it has a password.
pub async fn sign_in(State(shared): State<Shared>, address: Address, Sent(wanted): Sent<SignIn>) -> Result<Response> {
    shared.limits.attempt(address.0)?;
    let now = Timestamp::now();
    let user = match wanted {
        SignIn { token: Some(token), .. } => by_link(&shared, &token, now).await?,
        SignIn { key: Some(key), .. } => {
            store::caller_by_key(&shared.database, &key, now).await?.map(|caller| caller.user)
        }
        SignIn { username: Some(username), password: Some(password), .. } => {
            by_password(&shared, &username, password).await?
        }
        _ => return Err(Fault::bad("send `username` and `password`, or `key`, or `token`")),
    };
    let Some(user) = user else {
        return Err(Fault::new(StatusCode::UNAUTHORIZED, "this does not sign in; hint: ask for a new sign-in link"));
    };
    shared.limits.forgive(address.0);
    let told = Json(json!({ "username": user.username, "entity": user.entity }));
    with_cookie(&shared, user, address, told.into_response()).await
}

#[derive(Deserialize)]
pub struct Token {
    token: String,
}

/// The link itself: a browser that opens it is signed in and led to the page.
pub async fn follow_link(
    State(shared): State<Shared>,
    address: Address,
    Query(Token { token }): Query<Token>,
) -> Result<Response> {
    shared.limits.attempt(address.0)?;
    let Some(user) = by_link(&shared, &token, Timestamp::now()).await? else {
        let told = "this link was used already, or is too old; hint: `volley user link` makes a new one";
        return Err(Fault::new(StatusCode::UNAUTHORIZED, told));
    };
    shared.limits.forgive(address.0);
    with_cookie(&shared, user, address, Redirect::to("/").into_response()).await
}

async fn with_cookie(shared: &Shared, user: User, address: Address, mut response: Response) -> Result<Response> {
    let now = Timestamp::now();
    let token = keys::new_key();
    let mut write = shared.database.write().await?;
    write.run("DELETE FROM sessions WHERE expires_at <= $1 OR used_at <= $2", args![now, now - IDLE_MAX]).await?;
    let sql = "INSERT INTO sessions (user_id, digest, created_at, used_at, expires_at) VALUES ($1, $2, $3, $3, $4) \
               RETURNING id";
    let id = write.one(sql, args![user.id, keys::digest(&token), now, now + LIFETIME]).await?.get("id")?;
    let asker = volley_plan::people::Asker {
        user: volley_plan::people::UserId(user.id),
        is_admin: user.is_admin,
        roles: std::collections::BTreeMap::new(),
        scope: None,
    };
    let caller = Caller { user, asker, way: Way::Session(id), address: address.0 };
    audit(&mut write, &caller, "session.create", &caller.user.username, now).await?;
    write.commit().await?;
    response.headers_mut().insert(header::SET_COOKIE, cookie(shared, &token, LIFETIME.as_secs()));
    // Neither a link nor a cookie may stay in a cache or travel on as a referrer.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    Ok(response)
}

fn cookie(shared: &Shared, token: &str, seconds: i64) -> HeaderValue {
    let secure = if shared.public_url.starts_with("https://") { "; Secure" } else { "" };
    let text = format!("{COOKIE}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::from_str(&text).expect("hexadecimal and words")
}

async fn by_password(shared: &Shared, username: &str, password: String) -> Result<Option<User>> {
    let user = store::user_by_name(&shared.database, username).await?.filter(|user| user.deleted_at.is_none());
    let kept = match &user {
        Some(user) => kept_password(&shared.database, user.id).await?,
        None => None,
    };
    let is_right = password::is_right(password, kept).await?;
    Ok(user.filter(|_| is_right))
}

async fn kept_password(database: &database::Database, user: i64) -> database::Result<Option<String>> {
    let row = database.maybe("SELECT password FROM users WHERE id = $1", args![user]).await?;
    row.map_or(Ok(None), |row| row.get("password"))
}

/// A link works once: whoever deletes its row has used it.
async fn by_link(shared: &Shared, token: &str, now: Timestamp) -> Result<Option<User>> {
    let mut write = shared.database.write().await?;
    let sql = "DELETE FROM links WHERE digest = $1 AND expires_at > $2 RETURNING user_id";
    let row = write.maybe(sql, args![keys::digest(token), now]).await?;
    write.commit().await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let user = store::user_by_id(&shared.database, row.get("user_id")?).await?;
    Ok(user.filter(|user| user.deleted_at.is_none()))
}

/// The secret of a new link.
pub async fn add_link(write: &mut Write, user: i64, now: Timestamp) -> database::Result<String> {
    let token = keys::new_key();
    write.run("DELETE FROM links WHERE expires_at <= $1", args![now]).await?;
    let sql = "INSERT INTO links (digest, user_id, expires_at) VALUES ($1, $2, $3)";
    write.run(sql, args![keys::digest(&token), user, now + LINK_LIFETIME]).await?;
    Ok(token)
}

pub fn link_url(public_url: &str, token: &str) -> String {
    format!("{public_url}/signin?token={token}")
}

/// A link for oneself, or for another if one administers the server.
pub async fn create_link(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(username): Path<String>,
) -> Result<Json<Value>> {
    let user = super::rest::expect_user(&shared, &caller, &username).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let token = add_link(&mut write, user.id, now).await?;
    audit(&mut write, &caller, "link.create", &user.username, now).await?;
    write.commit().await?;
    let until = date_text((now + LINK_LIFETIME).as_microsecond());
    Ok(Json(json!({ "url": link_url(&shared.public_url, &token), "expires": until })))
}

pub async fn show(State(shared): State<Shared>, Known(caller): Known) -> Result<Json<Value>> {
    let teams = store::entities_of(&shared.database, &caller.user).await?;
    let mut roles = serde_json::Map::new();
    for entity in teams {
        let role = caller.asker.roles.get(&volley_plan::people::EntityId(entity.id));
        roles.insert(entity.name, role.map(|role| role.name()).into());
    }
    let User { username, entity, is_admin, .. } = &caller.user;
    Ok(Json(json!({ "username": username, "entity": entity, "admin": is_admin, "roles": roles })))
}

/// Ends the session that the request came by; a key is not a session and stays.
pub async fn sign_out(State(shared): State<Shared>, Known(caller): Known) -> Result<Response> {
    let Way::Session(id) = caller.way else {
        return Err(Fault::bad("there is no session to end: the request came with a key; hint: revoke the key"));
    };
    let mut write = shared.database.write().await?;
    write.run("DELETE FROM sessions WHERE id = $1", args![id]).await?;
    audit(&mut write, &caller, "session.end", &caller.user.username, Timestamp::now()).await?;
    write.commit().await?;
    let mut response = Json(json!({ "username": caller.user.username })).into_response();
    response.headers_mut().insert(header::SET_COOKIE, cookie(&shared, "", 0));
    Ok(response)
}

#[derive(Deserialize)]
pub struct NewPassword {
    password: String,
    /// Which one's own needs, unless there was none: a session that was left open must not become an account.
    current: Option<String>,
}

/// Other sessions end with the old password.
pub async fn set_password(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(username): Path<String>,
    Sent(wanted): Sent<NewPassword>,
) -> Result<Json<Value>> {
    let user = super::rest::expect_user(&shared, &caller, &username).await?;
    password::check(&wanted.password)?;
    let kept = kept_password(&shared.database, user.id).await?;
    if user.id == caller.user.id && kept.is_some() {
        shared.limits.attempt(caller.address)?;
        let is_right = password::is_right(wanted.current.unwrap_or_default(), kept).await?;
        is_right.then_some(()).ok_or_else(|| Fault::new(StatusCode::FORBIDDEN, "the current password is another"))?;
        shared.limits.forgive(caller.address);
    }
    let hash = password::hash(wanted.password).await?;
    let mut write = shared.database.write().await?;
    store::edit_user(&mut write, user.id, &Edit { password: Some(&hash), ..Edit::default() }).await?;
    let own = if let Way::Session(id) = caller.way { id } else { 0 };
    write.run("DELETE FROM sessions WHERE user_id = $1 AND id <> $2", args![user.id, own]).await?;
    audit(&mut write, &caller, "password.set", &user.username, Timestamp::now()).await?;
    write.commit().await?;
    Ok(Json(json!({ "username": user.username })))
}
