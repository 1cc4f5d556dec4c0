//! The doors: routes, who knocks, how large a body may be, what an error looks like.

pub mod auth;
mod blob;
pub mod body;
mod fallback;
mod health;

use crate::fault::Fault;
use crate::graphql::Sender;
use crate::graphql::root::{self, Schema};
use crate::graphql::serve::execute;
use crate::{Shared, events, people, run};
use auth::Known;
use axum::Router;
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post, put};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// `wandb verify` sends ten megabytes in one variable; one history line may have as many.
pub const BODY_MAX: usize = 64 << 20;

pub async fn serve(listener: TcpListener, shared: Shared, stop: CancellationToken) {
    let router = router(shared);
    let served = axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await }).await;
    if let Err(error) = served {
        tracing::error!(%error, "the server stopped listening");
    }
}

fn router(shared: Shared) -> Router {
    let schema = root::schema();
    Router::new()
        .route(
            "/graphql",
            post(move |state, caller, headers, body| graphql(schema.clone(), state, caller, headers, body)),
        )
        .route("/files/{entity}/{project}/{run}/file_stream", post(run::stream::receive))
        .route("/api/v1/events", get(events::stream::follow))
        .route("/artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{digest}/{*name}", get(fallback::second))
        .route("/artifacts/{entity}/{digest}", get(fallback::first))
        .merge(people::rest::router())
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .merge(
            Router::new()
                .route("/blobs/{*key}", put(blob::receive).get(blob::send).options(blob::options))
                .layer(DefaultBodyLimit::disable()),
        )
        .route("/ready", get(health::ready))
        // Without this answer clients export their telemetry here.
        .route("/sdk/otel/v1/{*kind}", any(not_found))
        .fallback(not_found)
        .with_state(shared)
}

async fn graphql(
    schema: Schema,
    State(shared): State<Shared>,
    Known(caller): Known,
    headers: HeaderMap,
    sent: bytes::Bytes,
) -> Result<Response, Fault> {
    let sent = body::plain(&headers, sent)?;
    let answer = execute(&schema, &shared, caller, Sender::of(&headers), &sent).await?;
    Ok(json(answer.status, answer.body))
}

async fn not_found() -> Fault {
    Fault::missing("this path")
}

pub fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        // Both forms: GraphQL's, which clients show, and the one of plain endpoints.
        let body = serde_json::json!({ "errors": [{ "message": self.message }], "error": self.message });
        json(self.status, body.to_string().into_bytes())
    }
}
