//! `GET /api/v1/audit`: who did what, when and from where. All of it for who administers the server; an entity's for its
//! admins.

use super::store;
use crate::Shared;
use crate::args;
use crate::fault::{Fault, Result};
use crate::graphql::scalars::date_text;
use crate::http::auth::Known;
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use volley_plan::people::Deed;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1000;

#[derive(Deserialize)]
pub struct Wanted {
    entity: Option<String>,
    user: Option<String>,
    deed: Option<String>,
    /// Entries older than the one with this number.
    before: Option<i64>,
    limit: Option<usize>,
}

/// Newest first.
pub async fn list(
    State(shared): State<Shared>,
    Known(caller): Known,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    match &wanted.entity {
        None => caller.must(Deed::Administer, caller.user.entity_id, "the audit log of the whole server")?,
        Some(name) => {
            let missing = || Fault::missing(format!("entity `{name}`"));
            let entity = store::entity_by_name(&shared.database, name).await?.ok_or_else(missing)?;
            caller.must(Deed::ManagePeople, entity.id, format!("entity `{name}`"))?;
        }
    }
    // What concerns an entity is named by it: `team`, `team/queue`, `team/project/run`.
    let sql = "SELECT a.*, u.username FROM audit a LEFT JOIN users u ON u.id = a.user_id WHERE a.id < $1 \
               AND ($2 IS NULL OR a.subject = $2 OR SUBSTR(a.subject, 1, LENGTH($2) + 1) = $2 || '/') \
               AND ($3 IS NULL OR u.username = $3) AND ($4 IS NULL OR a.deed = $4) ORDER BY a.id DESC LIMIT $5";
    let limit = wanted.limit.unwrap_or(LIMIT_DEFAULT).min(LIMIT_MAX);
    let args = args![wanted.before.unwrap_or(i64::MAX), wanted.entity, wanted.user, wanted.deed, limit];
    let mut entries = Vec::new();
    for row in shared.database.all(sql, args).await? {
        entries.push(json!({
            "id": row.get::<i64>("id")?,
            "at": date_text(row.get("at")?),
            "user": row.get::<Option<String>>("username")?,
            "deed": row.get::<String>("deed")?,
            "subject": row.get::<String>("subject")?,
            "detail": row.get::<String>("detail")?,
            "address": row.get::<Option<String>>("address")?,
        }));
    }
    Ok(Json(entries.into()))
}
