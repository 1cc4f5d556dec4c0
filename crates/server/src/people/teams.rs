//! `/api/v1/teams`: teams, who is in them, and how much they may run at a time.

use super::rest::{LIST_MAX, QuotaWanted, check_free, expect_user};
use super::store;
use super::{Caller, Entity, User};
use crate::Shared;
use crate::events::audit;
use crate::fault::{Fault, Result};
use crate::http::auth::Known;
use crate::http::body::Sent;
use crate::project;
use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use volley_plan::people::{Deed, Role};

/// The teams that the caller may see.
pub async fn list(State(shared): State<Shared>, Known(caller): Known) -> Result<Json<Value>> {
    let mut told = Vec::new();
    let teams = store::teams(&shared.database, LIST_MAX).await?;
    for team in teams.iter().filter(|team| caller.may_see(team.id)) {
        told.push(describe(&shared, team).await?);
    }
    Ok(Json(told.into()))
}

pub async fn show(State(shared): State<Shared>, Known(caller): Known, Path(team): Path<String>) -> Result<Json<Value>> {
    let team = expect_team(&shared, &caller, Deed::See, &team).await?;
    describe(&shared, &team).await.map(Json)
}

async fn describe(shared: &Shared, team: &Entity) -> Result<Value> {
    let members = store::members(&shared.database, team.id).await?;
    let members: Map<String, Value> = members.into_iter().map(|(user, role)| (user, role.into())).collect();
    let quota = store::quota_of(&shared.database, team.id).await?;
    Ok(json!({ "name": team.name, "members": members, "quota": { "jobs": quota.jobs, "gpus": quota.gpus } }))
}

#[derive(Deserialize)]
pub struct TeamWanted {
    name: String,
}

/// Whoever makes a team is its first admin.
pub async fn create(
    State(shared): State<Shared>,
    Known(caller): Known,
    Sent(wanted): Sent<TeamWanted>,
) -> Result<Json<Value>> {
    make(&shared, &caller, &wanted.name, None).await?;
    Ok(Json(json!({ "name": wanted.name })))
}

/// Makes a team whose first admin is the one named, or the caller.
pub async fn make(shared: &Shared, caller: &Caller, name: &str, admin: Option<&str>) -> Result<i64> {
    caller.must(Deed::Administer, caller.user.entity_id, "teams")?;
    check_free(shared, name).await?;
    let admin = match admin {
        Some(admin) => expect_user(shared, caller, admin).await?.id,
        None => caller.user.id,
    };
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    let team = store::create_entity(&mut write, name, true, now).await?;
    store::set_role(&mut write, team, admin, Role::Admin).await?;
    audit(&mut write, caller, "team.create", name, now).await?;
    write.commit().await?;
    Ok(team)
}

/// A team goes when nothing is left in it but what nobody would miss; its name is free again.
pub async fn delete(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(team): Path<String>,
) -> Result<Json<Value>> {
    let team = expect_team(&shared, &caller, Deed::Administer, &team).await?;
    let projects = project::store::of_entity(&shared.database, team.id, 0, LIST_MAX).await?;
    let mut write = shared.database.write().await?;
    for project in projects {
        if !project::store::is_empty(&mut write, project.id).await? {
            let message = format!(
                "team `{}` has runs, sweeps, queues or artifacts in project `{}`; hint: delete those first",
                team.name, project.name
            );
            return Err(Fault::conflict(message));
        }
        project::store::delete(&mut write, project.id).await?;
    }
    store::delete_team(&mut write, team.id).await?;
    audit(&mut write, &caller, "team.delete", &team.name, Timestamp::now()).await?;
    write.commit().await?;
    Ok(Json(json!({ "name": team.name })))
}

#[derive(Deserialize)]
pub struct RoleWanted {
    role: String,
}

pub async fn set_member(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((team, user)): Path<(String, String)>,
    Sent(wanted): Sent<RoleWanted>,
) -> Result<Json<Value>> {
    let team = expect_team(&shared, &caller, Deed::ManagePeople, &team).await?;
    let role = Role::named(&wanted.role);
    let role =
        role.ok_or_else(|| Fault::bad(format!("`{}` is no role; hint: viewer, member or admin", wanted.role)))?;
    let found = store::user_by_name(&shared.database, &user).await?.filter(|user| user.deleted_at.is_none());
    let user = found.ok_or_else(|| Fault::missing(format!("user `{user}`")))?;
    place(&shared, &caller, &team, &user, role).await?;
    Ok(Json(json!({ "team": team.name, "user": user.username, "role": role.name() })))
}

/// Gives somebody a role, in a team whose people the caller manages.
pub async fn place(shared: &Shared, caller: &Caller, team: &Entity, user: &User, role: Role) -> Result<()> {
    let mut write = shared.database.write().await?;
    store::set_role(&mut write, team.id, user.id, role).await?;
    let subject = format!("{}/{} {}", team.name, user.username, role.name());
    audit(&mut write, caller, "member.set", &subject, Timestamp::now()).await?;
    write.commit().await?;
    Ok(())
}

pub async fn remove_member(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path((team, user)): Path<(String, String)>,
) -> Result<Json<Value>> {
    let team = expect_team(&shared, &caller, Deed::ManagePeople, &team).await?;
    let found = store::user_by_name(&shared.database, &user).await?;
    let user = found.ok_or_else(|| Fault::missing(format!("user `{user}`")))?;
    take_out(&shared, &caller, &team, &user).await?;
    Ok(Json(json!({ "team": team.name, "user": user.username })))
}

/// Takes somebody out of a team whose people the caller manages.
pub async fn take_out(shared: &Shared, caller: &Caller, team: &Entity, user: &User) -> Result<()> {
    let mut write = shared.database.write().await?;
    store::remove_role(&mut write, team.id, user.id).await?;
    audit(&mut write, caller, "member.remove", &format!("{}/{}", team.name, user.username), Timestamp::now()).await?;
    write.commit().await?;
    Ok(())
}

/// Only who administers the server: a team's own admins would only ever raise it.
pub async fn set_quota(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(team): Path<String>,
    Sent(wanted): Sent<QuotaWanted>,
) -> Result<Json<Value>> {
    let team = expect_team(&shared, &caller, Deed::Administer, &team).await?;
    let quota = wanted.read()?;
    let mut write = shared.database.write().await?;
    store::set_quota(&mut write, team.id, quota).await?;
    audit(&mut write, &caller, "quota.set", &team.name, Timestamp::now()).await?;
    write.commit().await?;
    Ok(Json(json!({ "name": team.name, "quota": { "jobs": quota.jobs, "gpus": quota.gpus } })))
}

pub async fn expect_team(shared: &Shared, caller: &Caller, deed: Deed, name: &str) -> Result<Entity> {
    let team = store::entity_by_name(&shared.database, name).await?.filter(|entity| entity.is_team);
    let team = team.ok_or_else(|| Fault::missing(format!("team `{name}`")))?;
    caller.must(deed, team.id, format!("team `{name}`"))?;
    Ok(team)
}
