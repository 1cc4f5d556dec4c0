//! Clusters as their agents see them: told by an agent whenever something changed, shown to whoever may see its entity.
//!
//! Several agents may use one cluster; it is shown once, as it was told last. Whose work a pod is, is added here: what runs
//! for a queue that the caller may not see is only somebody's.

use crate::args;
use crate::database::{Database, Row};
use crate::events::{self, Event};
use crate::fault::{Fault, Result};
use crate::graphql::scalars::date_text;
use crate::http::auth::Known;
use crate::http::body::Sent;
use crate::people::{self, Entity};
use crate::queue::told::{self, Teller};
use crate::queue::{Queue, items, store as queues};
use crate::{Shared, ids};
use axum::Json;
use axum::extract::{Path, Query, State};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_plan::people::Deed;
use volley_plan::queue::item::ORPHANED_AFTER;

/// Clusters that are shown at once.
const CLUSTERS_MAX: usize = 20;
/// What waits in a queue, as far as it is listed.
const WAITING_MAX: usize = 20;

#[derive(Deserialize)]
pub struct Told {
    /// Names the cluster, whoever tells of it.
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    picture: Value,
}

pub async fn tell(
    State(shared): State<Shared>,
    Known(caller): Known,
    Path(agent): Path<String>,
    Sent(told): Sent<Told>,
) -> Result<Json<Value>> {
    let agent = super::expect(&shared, &caller, Deed::Serve, &agent).await?;
    if !told.picture.is_object() {
        return Err(Fault::bad("a picture of a cluster is an object"));
    }
    let (now, body) = (Timestamp::now(), told.picture.to_string());
    let mut write = shared.database.write().await?;
    let known = write.maybe("SELECT body FROM clusters WHERE agent_id = $1", args![agent.id]).await?;
    let is_news = known.map(|row| row.get::<String>("body")).transpose()?.is_none_or(|known| known != body);
    let sql = "INSERT INTO clusters (agent_id, cluster, at, body) VALUES ($1, $2, $3, $4) \
               ON CONFLICT (agent_id) DO UPDATE SET cluster = excluded.cluster, at = excluded.at, body = excluded.body";
    write.run(sql, args![agent.id, told.cluster, now, body]).await?;
    if is_news {
        let subject = ids::encode("LaunchAgent", agent.id);
        let event = Event { entity: agent.entity_id, kind: "cluster.changed", subject: &subject, body: json!({}) };
        events::record(&mut write, event, now).await?;
    }
    write.commit().await?;
    shared.news.announce();
    Ok(Json(json!({ "ok": true })))
}

#[derive(Deserialize)]
pub struct Wanted {
    entity: Option<String>,
}

/// The clusters of the entities that the caller may see, and what waits in their queues.
pub async fn list(
    State(shared): State<Shared>,
    Known(caller): Known,
    Query(wanted): Query<Wanted>,
) -> Result<Json<Value>> {
    let database = &shared.database;
    let mut entities = match &wanted.entity {
        Some(name) => people::store::entity_by_name(database, name).await?.into_iter().collect(),
        None => people::store::entities_of(database, &caller.user).await?,
    };
    entities.retain(|entity: &Entity| caller.may_see(entity.id));
    let now = Timestamp::now();
    let mut work = Work::default();
    let mut seen: Vec<Value> = Vec::new();
    for entity in &entities {
        for queue in queues::of_entity(database, entity.id).await? {
            if queue.is_open_to(&caller, Deed::See) {
                work.learn(database, &entity.name, &queue).await?;
            }
        }
        for row in of_entity(database, entity.id).await? {
            seen.push(shown(&row, now)?);
        }
    }
    // A cluster is shown as it was told last, by an agent that lives if there is one.
    seen.sort_by_key(|one| (one["is_live"] != true, std::cmp::Reverse(one["at"].to_string())));
    let mut clusters: Vec<Value> = Vec::new();
    for one in seen {
        match clusters.iter_mut().find(|known| known["cluster"] == one["cluster"]) {
            Some(known) => known["agents"].as_array_mut().expect("made below").push(one["agents"][0].clone()),
            None => clusters.push(one),
        }
    }
    clusters.truncate(CLUSTERS_MAX);
    for cluster in &mut clusters {
        work.name(&mut cluster["picture"]);
    }
    Ok(Json(json!({ "clusters": clusters, "queued": work.queued })))
}

async fn of_entity(database: &Database, entity: i64) -> Result<Vec<Row>> {
    let sql = "SELECT c.*, a.name AS agent, a.hostname AS host, a.heartbeat_at AS heard, a.status AS status FROM clusters c \
               JOIN agents a ON a.id = c.agent_id JOIN projects p ON p.id = a.project_id WHERE p.entity_id = $1 \
               ORDER BY c.at DESC LIMIT $2";
    Ok(database.all(sql, args![entity, CLUSTERS_MAX]).await?)
}

fn shown(row: &Row, now: Timestamp) -> Result<Value> {
    let heard: i64 = row.get("heard")?;
    let is_heard = heard > (now - ORPHANED_AFTER).as_microsecond();
    let is_live = is_heard && row.get::<String>("status")? != "KILLED";
    let picture: Value = serde_json::from_str(&row.get::<String>("body")?).unwrap_or_default();
    let agent = json!({ "name": row.get::<String>("agent")?, "host": row.get::<String>("host")?, "is_live": is_live });
    Ok(json!({
        "cluster": row.get::<String>("cluster")?,
        "at": date_text(row.get("at")?),
        "is_live": is_live,
        "agents": [agent],
        "picture": picture,
    }))
}

/// The work that the caller may see: by the key that its pods have, and what is still queued.
#[derive(Default)]
struct Work {
    by_key: BTreeMap<String, Value>,
    queued: Vec<Value>,
}

impl Work {
    async fn learn(&mut self, database: &Database, entity: &str, queue: &Queue) -> Result<()> {
        for item in items::held(database, queue.id).await? {
            let run = told::run_of(&item, entity);
            let run = run.map(|(entity, project, name)| json!({ "entity": entity, "project": project, "name": name }));
            let id = ids::encode("RunQueueItem", item.id);
            let name = item.spec()["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned);
            let known = json!({ "id": id.as_str(), "queue": queue.name, "entity": entity, "user": item.author, "run": run,
                "name": name, "attempt": item.life.attempt + 1 });
            self.by_key.insert(item.key.clone(), known);
        }
        let waiting = items::first_waiting(database, queue.id, WAITING_MAX).await?;
        if !waiting.is_empty() {
            let teller = Teller::new(database, queue, None).await?;
            for item in waiting {
                self.queued.push(teller.waiting(&item).await?);
            }
        }
        Ok(())
    }

    /// Puts in place of an item's key whose work it is; what the caller may not see keeps no name.
    fn name(&self, picture: &mut Value) {
        let pods = |node: &mut Value| node["pods"].as_array_mut().map(std::mem::take);
        for node in picture["nodes"].as_array_mut().into_iter().flatten() {
            let named = pods(node).unwrap_or_default().into_iter().map(|pod| self.named(pod));
            node["pods"] = named.collect();
        }
        let waiting = picture["waiting"].as_array_mut().map(std::mem::take).unwrap_or_default();
        picture["waiting"] = waiting.into_iter().map(|gang| self.named(gang)).collect();
        if let Some(events) = picture["events"].as_array_mut() {
            events.retain(|event| event["item"].as_str().is_none_or(|key| self.by_key.contains_key(key)));
        }
    }

    fn named(&self, mut pod: Value) -> Value {
        let Some(key) = pod["item"].as_str() else { return pod };
        match self.by_key.get(key) {
            Some(known) => pod["work"] = known.clone(),
            None => {
                let mut bare = Map::from_iter([("is_hidden".to_owned(), json!(true))]);
                for field in ["gpus", "pods", "since"] {
                    bare.insert(field.to_owned(), pod[field].take());
                }
                return Value::Object(bare);
            }
        }
        pod
    }
}
