//! Putting work into a queue. Both mutations come here, so both refuse the same.

use super::{Queue, items, job, limits, quota, store};
use crate::Shared;
use crate::args;
use crate::database::{self, Dialect, Write};
use crate::fault::{Fault, Result};
use crate::people::Caller;
use crate::project;
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use volley_plan::people::Deed;
use volley_plan::queue::spec::{self, Push, Refusal, Resolved, Template};
use volley_plan::queue::template;

pub struct Asked<'a> {
    pub spec: &'a str,
    pub values: Option<&'a str>,
    pub priority: Option<i64>,
    /// The same key by the same user within a day is the same submission.
    pub key: Option<&'a str>,
}

/// As long as somebody may go on trying to send the same submission.
const KEY_LIFE: SignedDuration = SignedDuration::from_hours(24);

pub async fn push(shared: &Shared, caller: &Caller, queue: &Queue, asked: &Asked<'_>) -> Result<(i64, Resolved)> {
    let template = template_of(shared, queue).await?;
    let prior = match spec::resumed_run(asked.spec) {
        Some(run) => items::of_run(&shared.database, queue.id, &run).await?,
        None => None,
    };
    let push = Push {
        prior,
        spec: asked.spec,
        values: asked.values,
        priority: asked.priority,
        author: &caller.user.username,
        may_override: queue.is_open_to(caller, Deed::ManageQueue),
    };
    let resolved = spec::resolve(&template, &push).map_err(|refusal| match refusal {
        Refusal::Resource => Fault::new(StatusCode::NOT_FOUND, refusal.to_string()),
        other => Fault::bad(other.to_string()),
    })?;
    // Its run could not be made later.
    if let Some(name) = resolved.spec["project"].as_str().filter(|name| !name.is_empty()) {
        project::check_name(name)?;
    }
    job::check(shared, caller, &resolved.spec).await?;
    let now = Timestamp::now();
    let mut write = shared.database.write().await?;
    if let Some(known) = known(&mut write, caller.user.id, asked.key, now).await? {
        return Ok((known, resolved));
    }
    if !limits::is_room_to_wait(&mut write, queue).await? {
        let message =
            format!("queue `{}` is full; hint: try again when some of what waits has been started", queue.name);
        return Err(Fault::conflict(message));
    }
    let id = items::insert(&mut write, queue, &resolved, caller.user.id, now).await?;
    quota::note(&mut write, queue, (id, &resolved.spec), caller.user.id, now).await?;
    if let Some(key) = asked.key {
        let sql = "INSERT INTO submissions (user_id, key, item_id, created_at) VALUES ($1, $2, $3, $4)";
        write.run(sql, args![caller.user.id, key, id, now]).await?;
    }
    write.commit().await?;
    shared.news.announce();
    Ok((id, resolved))
}

/// The item that a submission with this key made before.
async fn known(write: &mut Write, user: i64, key: Option<&str>, now: Timestamp) -> database::Result<Option<i64>> {
    let Some(key) = key else {
        return Ok(None);
    };
    if write.dialect() == Dialect::Postgres {
        // Two that are sent at once wait for each other by the user's row.
        write.all("SELECT id FROM users WHERE id = $1 FOR UPDATE", args![user]).await?;
    }
    write.run("DELETE FROM submissions WHERE created_at < $1", args![now - KEY_LIFE]).await?;
    let sql = "SELECT item_id FROM submissions WHERE user_id = $1 AND key = $2";
    write.maybe(sql, args![user, key]).await?.map(|row| row.get("item_id")).transpose()
}

pub async fn template_of(shared: &Shared, queue: &Queue) -> Result<Template> {
    let config = match queue.config_id {
        Some(id) => store::config_by_id(&shared.database, id).await?,
        None => None,
    };
    let has_priorities = queue.has_priorities();
    let Some(config) = config else {
        return Ok(Template { has_priorities, ..Template::default() });
    };
    Ok(Template {
        resource: Some(config.resource),
        config: serde_json::from_str(&config.config).unwrap_or_default(),
        variables: template::declare(&config.variables).unwrap_or_default(),
        has_priorities,
    })
}
