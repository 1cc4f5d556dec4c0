//! Artifact downloads by digest, which clients try when a direct URL fails.

use super::auth::Recognised;
use super::blob::respond;
use crate::Shared;
use crate::artifact::store;
use crate::fault::{Fault, Result};
use crate::people::Caller;
use crate::{ids, people};
use axum::extract::{Path, State};
use axum::response::Response;
use http::HeaderMap;

type Second = (String, String, String, String, String, String, String);

pub async fn second(
    State(shared): State<Shared>,
    Recognised(caller): Recognised,
    Path((_region, entity, _project, _collection, birth, digest, _name)): Path<Second>,
    headers: HeaderMap,
) -> Result<Response> {
    let first = ids::decode("Artifact", &birth).unwrap_or(0);
    send(&shared, &caller, &entity, &digest, first, &headers).await
}

pub async fn first(
    State(shared): State<Shared>,
    Recognised(caller): Recognised,
    Path((entity, digest)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response> {
    send(&shared, &caller, &entity, &digest, 0, &headers).await
}

async fn send(
    shared: &Shared,
    caller: &Caller,
    entity: &str,
    digest: &str,
    first: i64,
    headers: &HeaderMap,
) -> Result<Response> {
    let missing = || Fault::missing("this file");
    let entity = people::store::entity_by_name(&shared.database, entity).await?.ok_or_else(missing)?;
    if !caller.may_see(entity.id) {
        return Err(missing());
    }
    let home = store::home_of_blob(&shared.database, entity.id, digest, first).await?.ok_or_else(missing)?;
    respond(shared, &store::blob_key(home, digest), headers).await
}
