//! Answers: bodies that are whole or streamed, Status errors, warnings, and the headers that every answer has.

use super::request::Form;
use bytes::Bytes;
use futures::Stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body::Frame;
use serde_json::Value;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use volley_api::kube::status::ApiError;

/// A response body.
pub enum Body {
    Whole(Option<Bytes>),
    /// A large answer in pieces, which may be compressed.
    Pieces(Pieces),
    /// Events that are flushed one by one.
    Stream(Pieces),
}

pub type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Pieces(stream) | Body::Stream(stream) => {
                stream.as_mut().poll_next(cx).map(|piece| piece.map(|b| Ok(Frame::data(b))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> http_body::SizeHint {
        match self {
            Body::Whole(bytes) => http_body::SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Body::Pieces(_) | Body::Stream(_) => http_body::SizeHint::default(),
        }
    }
}

pub type Answer = Response<Body>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

fn with(code: StatusCode, content_type: HeaderValue, body: Body) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = code;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    answer
}

/// Encoded JSON as it is.
pub fn bytes(code: u16, body: Bytes) -> Answer {
    with(StatusCode::from_u16(code).unwrap_or_default(), JSON, Body::Whole(Some(body)))
}

/// A JSON value in the form that was asked for.
pub fn value(code: u16, value: &Value, form: Form) -> Answer {
    if form.yaml {
        let text = serde_saphyr::to_string(value).unwrap_or_default();
        let body = Body::Whole(Some(text.into()));
        return with(
            StatusCode::from_u16(code).unwrap_or_default(),
            HeaderValue::from_static("application/yaml"),
            body,
        );
    }
    bytes(code, value.to_string().into())
}

pub fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    with(StatusCode::OK, JSON, Body::Stream(Box::pin(pieces)))
}

pub fn pieces(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    with(StatusCode::OK, JSON, Body::Pieces(Box::pin(pieces)))
}

/// Plain text as it comes, such as a log (spec K-CT-2).
pub fn text_stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Answer {
    with(StatusCode::OK, HeaderValue::from_static("text/plain"), Body::Stream(Box::pin(pieces)))
}

pub fn text(code: u16, body: impl Into<Bytes>) -> Answer {
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    with(StatusCode::from_u16(code).unwrap_or_default(), plain, Body::Whole(Some(body.into())))
}

/// Errors are JSON Status objects whatever was accepted (spec K-CT-3).
pub fn error(error: &ApiError) -> Answer {
    let mut answer = bytes(error.code, error.to_status().to_string().into());
    // A client that is told to wait does so by itself; one that met a disruption budget is to be told instead.
    let seconds = error.details["retryAfterSeconds"].as_u64();
    let seconds = seconds.or((error.code == 429 && error.details.is_null()).then_some(1));
    if let Some(seconds) = seconds {
        answer.headers_mut().insert("retry-after", HeaderValue::from(seconds));
    }
    answer
}

/// The answer to an unknown path (spec K 14.2).
pub fn no_page() -> Answer {
    text(404, "404 page not found\n")
}

/// `Success`, with details (spec K-DEL-1).
pub fn success(code: u16, details: Value) -> Answer {
    let mut status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    if !details.is_null() {
        status["details"] = details;
    } else {
        status["code"] = code.into();
    }
    bytes(code, status.to_string().into())
}

/// Adds one `Warning` header per text (spec K-HTTP-9).
pub fn warn(answer: &mut Answer, warnings: &[String]) {
    for warning in warnings {
        let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"").replace(['\n', '\r'], " ");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
            answer.headers_mut().append(HeaderName::from_static("warning"), value);
        }
    }
}
