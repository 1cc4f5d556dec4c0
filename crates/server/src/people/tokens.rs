//! Credentials of launches: what a workload is given instead of anybody's API key.
//!
//! They look like API keys to W&B's clients, and begin with letters that no key of ours has. What they open is decided by
//! `plan::people::scope`; they run out with the attempt that they were made for. Only digests are kept.

use super::keys::{KEY_LENGTH, digest, hex};
use super::store::user;
use super::{Caller, User, Way};
use crate::args;
use crate::database::{Database, Result, Row, Write};
use jiff::Timestamp;
use rand::RngExt as _;
use std::collections::BTreeMap;
use volley_plan::people::scope::{RunId, Scope};
use volley_plan::people::{Asker, EntityId, UserId};
use volley_plan::queue::spec::is_scheduler;

/// Keys are hexadecimal, so none begins like this.
const PREFIX: &str = "run_";

pub fn is_token(key: &str) -> bool {
    key.rsplit('-').next().is_some_and(|bare| bare.starts_with(PREFIX))
}

fn new_token() -> String {
    let mut bytes = [0u8; (KEY_LENGTH - PREFIX.len()) / 2];
    rand::rng().fill(&mut bytes);
    format!("{PREFIX}{}", hex(&bytes))
}

/// Makes one for an attempt. Those of earlier attempts open nothing any more, and go.
pub async fn make(write: &mut Write, item: i64, attempt: i64, now: Timestamp) -> Result<String> {
    let token = new_token();
    write.run("DELETE FROM run_tokens WHERE item_id = $1 AND attempt <> $2", args![item, attempt]).await?;
    let sql = "INSERT INTO run_tokens (digest, item_id, attempt, created_at) VALUES ($1, $2, $3, $4)";
    write.run(sql, args![digest(&token), item, attempt, now]).await?;
    Ok(token)
}

/// Whose launch it is of, while that lasts: it acts for whoever submitted the launch, on its run alone.
pub async fn caller(database: &Database, token: &str) -> Result<Option<Caller>> {
    let sql = "SELECT u.*, e.name AS entity, i.id AS item, i.spec, h.id AS run_project, h.entity_id AS run_entity, \
               r.name AS run FROM run_tokens t JOIN items i ON i.id = t.item_id AND i.attempt = t.attempt \
               JOIN runs r ON r.id = i.run_id JOIN projects h ON h.id = r.project_id JOIN users u ON u.id = i.user_id \
               JOIN entities e ON e.id = u.entity_id WHERE t.digest = $1 AND i.state IN ('CLAIMED', 'RUNNING') \
               AND u.deleted_at IS NULL";
    let row = database.maybe(sql, args![digest(token)]).await?;
    row.map(|row| read(&row)).transpose()
}

fn read(row: &Row) -> Result<Caller> {
    let user = User { is_admin: false, ..user(row)? };
    let spec = serde_json::from_str(&row.get::<String>("spec")?).unwrap_or_default();
    let scope = Scope {
        entity: EntityId(row.get("run_entity")?),
        run: RunId { project: row.get("run_project")?, name: row.get("run")? },
        is_scheduler: is_scheduler(&spec),
    };
    let asker = Asker { user: UserId(user.id), is_admin: false, roles: BTreeMap::new(), scope: Some(scope) };
    Ok(Caller { user, asker, way: Way::Launch(row.get("item")?), address: None })
}

#[cfg(test)]
mod tests {
    use super::super::keys::{is_acceptable, new_key};
    use super::*;

    // AUTH-2
    #[test]
    fn a_token_looks_like_a_key_to_clients_and_like_none_of_ours() {
        let token = new_token();
        assert!(is_acceptable(&token) && is_acceptable(&format!("local-{token}")), "{token}");
        assert!(is_token(&token) && is_token(&format!("local-{token}")) && !is_token(&new_key()));
        assert_ne!(token, new_token());
        assert_eq!(digest(&token), digest(&format!("local-{token}")));
    }
}
