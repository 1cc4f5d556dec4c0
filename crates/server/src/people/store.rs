//! People in the database.

use super::{Caller, Entity, User, Way, keys};
use crate::args;
use crate::database::{Database, Result, Row, Write};
use jiff::Timestamp;
use std::collections::BTreeMap;
use volley_plan::people::quota::Quota;
use volley_plan::people::{Asker, EntityId, Role, UserId};

const USERS: &str = "SELECT u.*, e.name AS entity FROM users u JOIN entities e ON e.id = u.entity_id";
/// How stale `used_at` may be; noting every use would make every request a write.
const USED_AT_GRAIN_US: i64 = 60_000_000;

pub struct NewUser<'a> {
    pub username: &'a str,
    pub email: Option<&'a str>,
    pub is_admin: bool,
    pub is_service: bool,
}

/// Whom a key belongs to, unless it was revoked, has run out, or its owner was deleted.
pub async fn caller_by_key(database: &Database, key: &str, now: Timestamp) -> Result<Option<Caller>> {
    let sql = "SELECT u.*, e.name AS entity, k.id AS way_id, k.used_at, k.expires_at AS key_expires_at FROM api_keys k \
         JOIN users u ON u.id = k.user_id JOIN entities e ON e.id = u.entity_id \
         WHERE k.digest = $1 AND k.revoked_at IS NULL AND u.deleted_at IS NULL";
    // The time is looked at here: a statement that names it is never the same, and could not be remembered.
    let Some(row) = database.maybe(sql, args![keys::digest(key)]).await? else {
        return Ok(None);
    };
    if row.get::<Option<i64>>("key_expires_at")?.is_some_and(|at| at <= now.as_microsecond()) {
        return Ok(None);
    }
    let used_at: Option<i64> = row.get("used_at")?;
    if used_at.is_none_or(|at| at + USED_AT_GRAIN_US < now.as_microsecond()) {
        let mut write = database.write().await?;
        write.run("UPDATE api_keys SET used_at = $1 WHERE id = $2", args![now, row.get::<i64>("way_id")?]).await?;
        write.commit().await?;
    }
    caller(database, &row, Way::Key(row.get("way_id")?)).await.map(Some)
}

/// Whom a session belongs to; using it keeps it alive.
pub async fn caller_by_session(database: &Database, token: &str, now: Timestamp) -> Result<Option<Caller>> {
    let sql = "SELECT u.*, e.name AS entity, s.id AS way_id, s.used_at FROM sessions s JOIN users u ON u.id = s.user_id \
         JOIN entities e ON e.id = u.entity_id WHERE s.digest = $1 AND s.expires_at > $2 AND s.used_at > $3 \
         AND u.deleted_at IS NULL";
    let args = args![keys::digest(token), now, now - super::sessions::IDLE_MAX];
    let Some(row) = database.maybe(sql, args).await? else {
        return Ok(None);
    };
    if row.get::<i64>("used_at")? + USED_AT_GRAIN_US < now.as_microsecond() {
        let mut write = database.write().await?;
        write.run("UPDATE sessions SET used_at = $1 WHERE id = $2", args![now, row.get::<i64>("way_id")?]).await?;
        write.commit().await?;
    }
    caller(database, &row, Way::Session(row.get("way_id")?)).await.map(Some)
}

/// The same caller as it is now, for what goes on for long; nothing if it may no longer come in.
pub async fn caller_again(database: &Database, before: &Caller, now: Timestamp) -> Result<Option<Caller>> {
    let (sql, id) = match before.way {
        Way::Key(id) => (
            "SELECT u.*, e.name AS entity FROM api_keys k JOIN users u ON u.id = k.user_id JOIN entities e \
             ON e.id = u.entity_id WHERE k.id = $1 AND k.revoked_at IS NULL AND u.deleted_at IS NULL \
             AND (k.expires_at IS NULL OR k.expires_at > $2)",
            id,
        ),
        Way::Session(id) => (
            "SELECT u.*, e.name AS entity FROM sessions s JOIN users u ON u.id = s.user_id JOIN entities e \
             ON e.id = u.entity_id WHERE s.id = $1 AND s.expires_at > $2 AND u.deleted_at IS NULL",
            id,
        ),
        // A launch follows nothing.
        Way::Launch(_) => return Ok(None),
    };
    let Some(row) = database.maybe(sql, args![id, now]).await? else {
        return Ok(None);
    };
    let again = caller(database, &row, before.way).await?;
    Ok(Some(Caller { address: before.address, ..again }))
}

async fn caller(database: &Database, row: &Row, way: Way) -> Result<Caller> {
    let user = user(row)?;
    let asker = Asker {
        user: UserId(user.id),
        is_admin: user.is_admin,
        roles: roles_of(database, user.id).await?,
        scope: None,
    };
    Ok(Caller { user, asker, way, address: None })
}

async fn roles_of(database: &Database, user: i64) -> Result<BTreeMap<EntityId, Role>> {
    let rows = database.all("SELECT entity_id, role FROM members WHERE user_id = $1", args![user]).await?;
    let mut roles = BTreeMap::new();
    for row in rows {
        if let Some(role) = Role::named(&row.get::<String>("role")?) {
            roles.insert(EntityId(row.get("entity_id")?), role);
        }
    }
    Ok(roles)
}

pub async fn user_by_id(database: &Database, id: i64) -> Result<Option<User>> {
    let row = database.maybe(sqlx::AssertSqlSafe(format!("{USERS} WHERE u.id = $1")), args![id]).await?;
    row.map(|row| user(&row)).transpose()
}

pub async fn user_by_name(database: &Database, username: &str) -> Result<Option<User>> {
    let row = database.maybe(sqlx::AssertSqlSafe(format!("{USERS} WHERE u.username = $1")), args![username]).await?;
    row.map(|row| user(&row)).transpose()
}

pub async fn user_by_email(database: &Database, email: &str) -> Result<Option<User>> {
    let sql = format!("{USERS} WHERE LOWER(u.email) = $1 AND u.deleted_at IS NULL ORDER BY u.id LIMIT 1");
    let row = database.maybe(sqlx::AssertSqlSafe(sql), args![email.to_lowercase()]).await?;
    row.map(|row| user(&row)).transpose()
}

/// Users whose name or address begins or ends so; one that is just so comes first.
pub async fn users_like(database: &Database, part: &str, limit: usize) -> Result<Vec<User>> {
    let part = part.to_lowercase();
    let sql = format!(
        "{USERS} WHERE u.deleted_at IS NULL AND (SUBSTR(LOWER(u.username), 1, CAST($2 AS INTEGER)) = $1 OR SUBSTR(LOWER(u.email), 1, CAST($2 AS INTEGER)) = $1 \
         OR SUBSTR(LOWER(u.username), LENGTH(u.username) - CAST($2 AS INTEGER) + 1) = $1 OR SUBSTR(LOWER(u.email), LENGTH(u.email) - CAST($2 AS INTEGER) + 1) = $1) \
         ORDER BY CASE WHEN LOWER(u.username) = $1 OR LOWER(u.email) = $1 THEN 0 ELSE 1 END, u.username LIMIT $3"
    );
    let length = part.chars().count();
    database.all(sqlx::AssertSqlSafe(sql), args![part, length, limit]).await?.iter().map(user).collect()
}

pub async fn owner_of_key(database: &Database, key: i64) -> Result<Option<i64>> {
    let row = database.maybe("SELECT user_id FROM api_keys WHERE id = $1 AND revoked_at IS NULL", args![key]).await?;
    row.map(|row| row.get("user_id")).transpose()
}

pub async fn has_users(database: &Database) -> Result<bool> {
    Ok(database.maybe("SELECT id FROM users LIMIT 1", args![]).await?.is_some())
}

pub async fn entity_by_id(database: &Database, id: i64) -> Result<Option<Entity>> {
    let row = database.maybe("SELECT * FROM entities WHERE id = $1", args![id]).await?;
    row.map(|row| entity(&row)).transpose()
}

pub async fn entity_by_name(database: &Database, name: &str) -> Result<Option<Entity>> {
    let row = database.maybe("SELECT * FROM entities WHERE name = $1", args![name]).await?;
    row.map(|row| entity(&row)).transpose()
}

/// A user's own entity first, then the teams.
pub async fn entities_of(database: &Database, user: &User) -> Result<Vec<Entity>> {
    let sql = "SELECT e.* FROM entities e JOIN members m ON m.entity_id = e.id WHERE m.user_id = $1 \
               ORDER BY e.is_team, e.name";
    database.all(sql, args![user.id]).await?.iter().map(entity).collect()
}

pub struct Key {
    pub id: i64,
    pub name: String,
    pub hint: String,
    pub created_at: i64,
    pub used_at: Option<i64>,
    pub expires_at: Option<i64>,
}

pub async fn keys_of(database: &Database, user: i64) -> Result<Vec<Key>> {
    let sql = "SELECT * FROM api_keys WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id";
    let key = |row: &Row| {
        Ok(Key {
            id: row.get("id")?,
            name: row.get("name")?,
            hint: row.get("hint")?,
            created_at: row.get("created_at")?,
            used_at: row.get("used_at")?,
            expires_at: row.get("expires_at")?,
        })
    };
    database.all(sql, args![user]).await?.iter().map(key).collect()
}

/// All users, those that were deleted last.
pub async fn users(database: &Database, limit: usize) -> Result<Vec<User>> {
    let sql = sqlx::AssertSqlSafe(format!("{USERS} ORDER BY u.deleted_at IS NOT NULL, u.username LIMIT $1"));
    database.all(sql, args![limit]).await?.iter().map(user).collect()
}

pub async fn teams(database: &Database, limit: usize) -> Result<Vec<Entity>> {
    let sql = "SELECT * FROM entities WHERE is_team = 1 ORDER BY name LIMIT $1";
    database.all(sql, args![limit]).await?.iter().map(entity).collect()
}

/// The names of an entity's people, with their roles.
pub async fn members(database: &Database, entity: i64) -> Result<Vec<(String, String)>> {
    let sql = "SELECT u.username, m.role FROM members m JOIN users u ON u.id = m.user_id \
               WHERE m.entity_id = $1 AND u.deleted_at IS NULL ORDER BY u.username";
    let rows = database.all(sql, args![entity]).await?;
    rows.iter().map(|row| Ok((row.get("username")?, row.get("role")?))).collect()
}

/// The same, as users, those who came last behind.
pub async fn member_users(database: &Database, entity: i64) -> Result<Vec<(User, Option<Role>)>> {
    let sql = "SELECT u.*, e.name AS entity, m.role FROM members m JOIN users u ON u.id = m.user_id \
               JOIN entities e ON e.id = u.entity_id WHERE m.entity_id = $1 AND u.deleted_at IS NULL ORDER BY u.id";
    let rows = database.all(sql, args![entity]).await?;
    rows.iter().map(|row| Ok((user(row)?, Role::named(&row.get::<String>("role")?)))).collect()
}

/// What an entity's files and artifacts weigh.
pub async fn bytes_of(database: &Database, entity: i64) -> Result<i64> {
    let sql = "SELECT CAST((SELECT COALESCE(SUM(f.size), 0) FROM files f JOIN runs r ON r.id = f.run_id \
               JOIN projects p ON p.id = r.project_id WHERE p.entity_id = $1) \
               + (SELECT COALESCE(SUM(a.size), 0) FROM artifacts a JOIN collections c ON c.id = a.collection_id \
               JOIN projects p ON p.id = c.project_id WHERE p.entity_id = $1) AS BIGINT) AS n";
    database.maybe(sql, args![entity]).await?.map_or(Ok(0), |row| row.get("n"))
}

/// Deletes a team whose projects are gone.
pub async fn delete_team(write: &mut Write, team: i64) -> Result<()> {
    write.run("DELETE FROM resource_configs WHERE entity_id = $1", args![team]).await?;
    write.run("DELETE FROM quotas WHERE entity_id = $1", args![team]).await?;
    write.run("DELETE FROM members WHERE entity_id = $1", args![team]).await?;
    write.run("DELETE FROM entities WHERE id = $1", args![team]).await?;
    Ok(())
}

pub async fn role_in(database: &Database, entity: i64, user: i64) -> Result<Option<Role>> {
    let sql = "SELECT role FROM members WHERE entity_id = $1 AND user_id = $2";
    let row = database.maybe(sql, args![entity, user]).await?;
    Ok(row.map(|row| row.get::<String>("role")).transpose()?.as_deref().and_then(Role::named))
}

pub async fn quota_of(database: &Database, entity: i64) -> Result<Quota> {
    let row = database.maybe("SELECT jobs, gpus FROM quotas WHERE entity_id = $1", args![entity]).await?;
    row.map_or(Ok(Quota::default()), |row| Ok(Quota { jobs: row.get("jobs")?, gpus: row.get("gpus")? }))
}

/// What waited because of a quota is told anew when an agent next asks.
pub async fn set_quota(write: &mut Write, entity: i64, quota: Quota) -> Result<()> {
    let sql = "INSERT INTO quotas (entity_id, jobs, gpus) VALUES ($1, $2, $3) \
               ON CONFLICT (entity_id) DO UPDATE SET jobs = excluded.jobs, gpus = excluded.gpus";
    write.run(sql, args![entity, quota.jobs, quota.gpus]).await?;
    write.run("DELETE FROM quotas WHERE jobs IS NULL AND gpus IS NULL", args![]).await?;
    write.run("UPDATE items SET waiting = NULL WHERE waiting IS NOT NULL", args![]).await?;
    Ok(())
}

/// What may be changed of a user; what is left out stays.
#[derive(Default)]
pub struct Edit<'a> {
    pub email: Option<&'a str>,
    pub is_admin: Option<bool>,
    /// A password's hash.
    pub password: Option<&'a str>,
}

pub async fn edit_user(write: &mut Write, user: i64, edit: &Edit<'_>) -> Result<()> {
    let sql = "UPDATE users SET email = COALESCE($2, email), is_admin = COALESCE($3, is_admin), \
               password = COALESCE($4, password) WHERE id = $1";
    write.run(sql, args![user, edit.email, edit.is_admin, edit.password]).await?;
    Ok(())
}

/// A user goes; what it made stays, and its name is never given to another.
pub async fn delete_user(write: &mut Write, user: i64, now: Timestamp) -> Result<()> {
    write.run("UPDATE users SET deleted_at = $2, password = NULL WHERE id = $1", args![user, now]).await?;
    let sql = "UPDATE api_keys SET revoked_at = $2 WHERE user_id = $1 AND revoked_at IS NULL";
    write.run(sql, args![user, now]).await?;
    write.run("DELETE FROM sessions WHERE user_id = $1", args![user]).await?;
    write.run("DELETE FROM links WHERE user_id = $1", args![user]).await?;
    write.run("DELETE FROM members WHERE user_id = $1", args![user]).await?;
    Ok(())
}

/// How many could still administer the server if this one could not.
pub async fn other_admins(write: &mut Write, user: i64) -> Result<i64> {
    let sql = "SELECT COUNT(*) AS n FROM users WHERE is_admin = 1 AND deleted_at IS NULL AND id <> $1";
    write.one(sql, args![user]).await?.get("n")
}

pub async fn create_entity(write: &mut Write, name: &str, is_team: bool, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO entities (name, is_team, created_at) VALUES ($1, $2, $3) RETURNING id";
    write.one(sql, args![name, is_team, now]).await?.get("id")
}

/// A user with an entity of its own, in which it is the admin.
pub async fn create_user(write: &mut Write, new: &NewUser<'_>, now: Timestamp) -> Result<i64> {
    let entity = create_entity(write, new.username, false, now).await?;
    let sql = "INSERT INTO users (username, name, email, is_admin, is_service, entity_id, created_at) \
               VALUES ($1, $1, $2, $3, $4, $5, $6) RETURNING id";
    let args = args![new.username, new.email, new.is_admin, new.is_service, entity, now];
    let user = write.one(sql, args).await?.get("id")?;
    set_role(write, entity, user, Role::Admin).await?;
    Ok(user)
}

pub async fn set_role(write: &mut Write, entity: i64, user: i64, role: Role) -> Result<()> {
    let sql = "INSERT INTO members (entity_id, user_id, role) VALUES ($1, $2, $3) \
               ON CONFLICT (entity_id, user_id) DO UPDATE SET role = excluded.role";
    write.run(sql, args![entity, user, role.name()]).await?;
    Ok(())
}

pub async fn remove_role(write: &mut Write, entity: i64, user: i64) -> Result<()> {
    write.run("DELETE FROM members WHERE entity_id = $1 AND user_id = $2", args![entity, user]).await?;
    Ok(())
}

/// A key as it is asked for.
pub struct NewKey<'a> {
    pub user: i64,
    pub name: &'a str,
    pub key: &'a str,
    pub expires_at: Option<Timestamp>,
}

pub async fn add_key(write: &mut Write, new: &NewKey<'_>, now: Timestamp) -> Result<i64> {
    let sql = "INSERT INTO api_keys (user_id, name, digest, hint, created_at, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
    let args = args![new.user, new.name, keys::digest(new.key), keys::hint(new.key), now, new.expires_at];
    write.one(sql, args).await?.get("id")
}

pub async fn revoke_key(write: &mut Write, user: i64, key: i64, now: Timestamp) -> Result<bool> {
    let sql = "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL";
    Ok(write.run(sql, args![now, key, user]).await? > 0)
}

pub(super) fn user(row: &Row) -> Result<User> {
    Ok(User {
        id: row.get("id")?,
        username: row.get("username")?,
        name: row.get("name")?,
        email: row.get("email")?,
        is_admin: row.is("is_admin")?,
        is_service: row.is("is_service")?,
        entity_id: row.get("entity_id")?,
        entity: row.get("entity")?,
        deleted_at: row.get("deleted_at")?,
    })
}

fn entity(row: &Row) -> Result<Entity> {
    Ok(Entity { id: row.get("id")?, name: row.get("name")?, is_team: row.is("is_team")? })
}
