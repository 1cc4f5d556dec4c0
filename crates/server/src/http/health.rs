//! `GET /ready`: whether requests can be answered, which is whether the database answers.

use crate::Shared;
use crate::args;
use crate::fault::Fault;
use axum::extract::State;
use http::StatusCode;

pub async fn ready(State(shared): State<Shared>) -> Result<&'static str, Fault> {
    let answer = shared.database.maybe("SELECT 1 AS one", args![]).await;
    answer.map(|_| "ok\n").map_err(|_| Fault::new(StatusCode::SERVICE_UNAVAILABLE, "the database does not answer"))
}
