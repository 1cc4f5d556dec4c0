//! Bodies of requests: unpacked if they were sent compressed, and read with errors in our own words.

use super::BODY_MAX;
use crate::fault::Fault;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use http::{HeaderMap, StatusCode, header};
use serde::de::DeserializeOwned;
use std::io::Read as _;

/// A JSON body; an empty one has no fields.
pub struct Sent<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Sent<T>, Fault> {
        let refused = |refusal: BytesRejection| Fault::new(refusal.status(), refusal.body_text());
        let bytes = Bytes::from_request(request, state).await.map_err(refused)?;
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        let read = serde_json::from_slice(&bytes);
        read.map(Sent).map_err(|error| Fault::bad(format!("the body is not what is taken here: {error}")))
    }
}

pub fn plain(headers: &HeaderMap, body: Bytes) -> Result<Bytes, Fault> {
    let encoding = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("identity");
    match encoding {
        "identity" | "" => Ok(body),
        "gzip" => unpack(&body, BODY_MAX),
        other => {
            Err(Fault::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("the encoding `{other}` is not understood")))
        }
    }
}

fn unpack(packed: &[u8], most: usize) -> Result<Bytes, Fault> {
    let mut body = Vec::new();
    // One byte more than is allowed, to tell a body that just fits from one that does not.
    let limit = u64::try_from(most).expect("fits") + 1;
    let read = MultiGzDecoder::new(packed).take(limit).read_to_end(&mut body);
    read.map_err(|error| Fault::bad(format!("the body is not gzip: {error}")))?;
    if body.len() > most {
        return Err(Fault::new(StatusCode::PAYLOAD_TOO_LARGE, format!("the body unpacks to more than {most} bytes")));
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn packed(length: usize) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&vec![b'x'; length]).unwrap();
        encoder.finish().unwrap().into()
    }

    // HTTP-3
    #[test]
    fn a_compressed_body_is_unpacked_but_not_without_end() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        assert_eq!(plain(&headers, packed(100)).unwrap().len(), 100);
        let bomb = unpack(&packed(1001), 1000).unwrap_err();
        assert!(unpack(&packed(1000), 1000).is_ok());
        assert_eq!(bomb.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert!(plain(&headers, Bytes::from_static(b"no gzip")).is_err());
    }
}
