//! Bytes in and out by signed URLs.
//!
//! The first part of a key says what the bytes are, and so what is noted when they have arrived.

use crate::Shared;
use crate::blobs::{Access, Stored};
use crate::fault::{Fault, Result};
use crate::{artifact, file};
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use object_store::GetRange;
use serde::Deserialize;

#[derive(Deserialize)]
pub struct Permission {
    until: i64,
    sign: String,
}

fn check(shared: &Shared, access: Access, key: &str, permission: &Permission) -> Result<()> {
    let is_permitted = shared.blobs.is_permitted(access, key, permission.until, &permission.sign, Timestamp::now());
    is_permitted.then_some(()).ok_or_else(|| Fault::new(StatusCode::FORBIDDEN, "this link is not valid, or no longer"))
}

pub async fn receive(
    State(shared): State<Shared>,
    Path(key): Path<String>,
    Query(permission): Query<Permission>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    check(&shared, Access::Write, &key, &permission)?;
    let stored = shared.blobs.put(&key, body.into_data_stream()).await.map_err(Fault::internal)?;
    check_promise(&headers, &stored)?;
    let parts: Vec<&str> = key.split('/').collect();
    match parts[..] {
        ["files", _run, file] => file::store::note_stored(&shared.database, file, &stored).await?,
        ["artifacts", artifact, md5] => artifact::store::note_blob(&shared.database, artifact, md5, &stored).await?,
        _ => (),
    }
    let mut response = Response::new(Body::empty());
    let tag = HeaderValue::from_str(&format!("\"{}\"", crate::people::keys::hex(&stored.md5)));
    response.headers_mut().insert(header::ETAG, tag.expect("hexadecimal"));
    allow_any_origin(&mut response);
    Ok(response)
}

/// Whoever says what the bytes should be must have sent those.
fn check_promise(headers: &HeaderMap, stored: &Stored) -> Result<()> {
    let promised = headers.get(HeaderName::from_static("content-md5")).and_then(|value| value.to_str().ok());
    match promised {
        Some(promised) if promised != STANDARD.encode(stored.md5) => {
            Err(Fault::bad("the bytes do not have the MD5 that Content-MD5 promises; hint: send them again"))
        }
        _ => Ok(()),
    }
}

pub async fn send(
    State(shared): State<Shared>,
    Path(key): Path<String>,
    Query(permission): Query<Permission>,
    headers: HeaderMap,
) -> Result<Response> {
    check(&shared, Access::Read, &key, &permission)?;
    respond(&shared, &key, &headers).await
}

/// The bytes of a key, or the range of them that was asked for.
pub async fn respond(shared: &Shared, key: &str, headers: &HeaderMap) -> Result<Response> {
    let range = headers.get(header::RANGE).and_then(|value| range(value.to_str().ok()?));
    let got = shared.blobs.get(key, range.clone()).await.map_err(|error| match error.is_missing() {
        true => Fault::missing("this file"),
        false => Fault::internal(error),
    })?;
    let total = got.meta.size;
    let sent = got.range.clone();
    let mut response = Response::new(Body::from_stream(got.into_stream()));
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    fields.insert(header::CONTENT_LENGTH, (sent.end - sent.start).into());
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    // What users uploaded must never run as a page of this server.
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    fields.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    if range.is_some() {
        let text = format!("bytes {}-{}/{total}", sent.start, sent.end.saturating_sub(1));
        fields.insert(header::CONTENT_RANGE, HeaderValue::from_str(&text).expect("numbers"));
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    allow_any_origin(&mut response);
    Ok(response)
}

pub async fn options() -> Response {
    let mut response = Response::new(Body::empty());
    allow_any_origin(&mut response);
    response
}

/// The URL is the permission, so who asks does not matter.
fn allow_any_origin(response: &mut Response) {
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
}

/// One range; several at once, or nonsense, means the whole.
fn range(text: &str) -> Option<GetRange> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => Some(GetRange::Bounded(first..last + 1)),
        (Ok(first), Err(_)) if last.is_empty() => Some(GetRange::Offset(first)),
        (Err(_), Ok(last)) if first.is_empty() => Some(GetRange::Suffix(last)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // ART-16
    #[test]
    fn a_range_is_read_in_its_three_forms() {
        assert_eq!(range("bytes=2-5"), Some(GetRange::Bounded(2..6)));
        assert_eq!(range("bytes=2-"), Some(GetRange::Offset(2)));
        assert_eq!(range("bytes=-5"), Some(GetRange::Suffix(5)));
        for nonsense in ["bytes=5-2", "bytes=a-b", "lines=1-2", "bytes=1-2,4-5"] {
            assert_eq!(range(nonsense), None, "{nonsense}");
        }
    }
}
