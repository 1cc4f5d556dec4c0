//! Compression of large answers for clients that ask for it (spec K-HTTP-5). Watches and logs are never compressed.

use super::answer::{Answer, Body, Pieces};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::StreamExt;
use http::header::{CONTENT_ENCODING, VARY};
use http::{HeaderMap, HeaderValue, Response};
use std::io::Write;

/// Bodies above this size are worth compressing.
const GZIP_BYTES_MIN: usize = 128 * 1024;

pub fn is_accepted(headers: &HeaderMap) -> bool {
    headers.get("accept-encoding").and_then(|value| value.to_str().ok()).is_some_and(|value| value.contains("gzip"))
}

pub fn compressed(answer: Answer) -> Answer {
    let (mut parts, body) = answer.into_parts();
    let body = match body {
        Body::Whole(Some(bytes)) if bytes.len() > GZIP_BYTES_MIN => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            // Writing into memory cannot fail.
            let _ = encoder.write_all(&bytes);
            Body::Whole(encoder.finish().ok().map(Bytes::from))
        }
        Body::Pieces(pieces) => Body::Pieces(packed(pieces)),
        other => return Response::from_parts(parts, other),
    };
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(parts, body)
}

/// The same pieces through one encoder; what it holds back goes out with the next piece or at the end.
fn packed(pieces: Pieces) -> Pieces {
    let state = (pieces, Some(GzEncoder::new(Vec::new(), Compression::fast())));
    Box::pin(futures::stream::unfold(state, |(mut pieces, encoder)| async move {
        let mut encoder = encoder?;
        loop {
            match pieces.next().await {
                Some(piece) => {
                    let _ = encoder.write_all(&piece);
                    let ready = std::mem::take(encoder.get_mut());
                    if !ready.is_empty() {
                        return Some((Bytes::from(ready), (pieces, Some(encoder))));
                    }
                }
                None => return encoder.finish().ok().map(|rest| (Bytes::from(rest), (pieces, None))),
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::answer;
    use http_body_util::BodyExt;
    use std::io::Read;

    async fn unpacked(answer: Answer) -> String {
        assert_eq!(answer.headers().get(CONTENT_ENCODING), Some(&HeaderValue::from_static("gzip")));
        let packed = answer.into_body().collect().await.expect("a body").to_bytes();
        let mut text = String::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut text).expect("gzip");
        text
    }

    // K-HTTP-5
    #[tokio::test]
    async fn large_answers_are_packed_whole_or_in_pieces() {
        let text = "volley ".repeat(40_000);
        assert_eq!(unpacked(compressed(answer::bytes(200, text.clone().into()))).await, text);
        let pieces: Vec<Bytes> = text.as_bytes().chunks(50_000).map(Bytes::copy_from_slice).collect();
        assert_eq!(unpacked(compressed(answer::pieces(futures::stream::iter(pieces)))).await, text);
        let small = compressed(answer::bytes(200, "small".into()));
        assert!(small.headers().get(CONTENT_ENCODING).is_none());
        let watch = compressed(answer::stream(futures::stream::iter([Bytes::from(text)])));
        assert!(watch.headers().get(CONTENT_ENCODING).is_none());
    }
}
