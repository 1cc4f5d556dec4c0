//! The doors: routes, who knocks, how large a body may be, what an error looks like.

pub mod auth;
pub mod blob;
pub mod body;
mod fallback;
mod health;
mod page;
pub mod limits;
mod openapi;
mod routes;

use crate::Shared;
use crate::fault::Fault;
use crate::graphql::Sender;
use crate::graphql::serve::execute;
use auth::Recognised;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
pub use routes::BODY_MAX;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

pub async fn serve(listener: TcpListener, shared: Shared, stop: CancellationToken) {
    let service = routes::router(shared).into_make_service_with_connect_info::<SocketAddr>();
    let served = axum::serve(listener, service).with_graceful_shutdown(async move { stop.cancelled().await }).await;
    if let Err(error) = served {
        tracing::error!(%error, "the server stopped listening");
    }
}

async fn graphql(
    State(shared): State<Shared>,
    Recognised(caller): Recognised,
    headers: HeaderMap,
    sent: bytes::Bytes,
) -> Result<Response, Fault> {
    let sent = body::plain(&headers, sent)?;
    let answer = execute(&shared.schema, &shared, caller, Sender::of(&headers), &sent).await?;
    Ok(json(answer.status, answer.body))
}

async fn not_found() -> Fault {
    Fault::missing("this path")
}

async fn not_allowed() -> Fault {
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not take this method")
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
        let mut response = json(self.status, body.to_string().into_bytes());
        if let Some(seconds) = self.retry_after_s {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
