//! The health check of gRPC (`grpc.health.v1.Health/Check`) over plain HTTP/2.
//!
//! Its two messages are so small that they are written and read by hand: a name in, one number out.

use super::dial::dial;
use super::seconds;
use bytes::{Buf, Bytes};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use percent_encoding::percent_decode_str;
use std::convert::Infallible;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use volley_plan::node::handlers::AGENT_VERSION;

/// gRPC waits so long before it connects again.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);
/// An answer has seven bytes.
const ANSWER_BYTES_MAX: usize = 4096;
const DEADLINE_EXCEEDED: u32 = 4;
const UNIMPLEMENTED: u32 = 12;

const CODES: [&str; 17] = [
    "OK", "Canceled", "Unknown", "InvalidArgument", "DeadlineExceeded", "NotFound", "AlreadyExists",
    "PermissionDenied", "ResourceExhausted", "FailedPrecondition", "Aborted", "OutOfRange", "Unimplemented",
    "Internal", "Unavailable", "DataLoss", "Unauthenticated",
];

/// What came back: the health of the service, or gRPC's code and message.
enum Reply {
    Health(u64),
    Refusal(u32, String),
}

pub async fn check(host: &str, port: u16, service: &str, timeout: Duration) -> Result<String, String> {
    let deadline = Instant::now() + timeout;
    let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut is_connected = false;
    let reply = timeout_at(deadline, async {
        loop {
            is_connected = false;
            if let Ok(stream) = dial(host, port).await {
                is_connected = true;
                if let Ok(reply) = ask(stream, &authority, service).await {
                    return reply;
                }
            }
            // Like gRPC's own clients, it tries again until the time is up.
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    });
    let reply = reply.await;
    let late = format!("timeout: health rpc did not complete within {}", seconds(timeout));
    match reply {
        Ok(Reply::Health(1)) => Ok("service healthy".to_owned()),
        Ok(Reply::Health(health)) => Err(format!("service unhealthy (responded with {:?})", health_name(health))),
        Ok(Reply::Refusal(UNIMPLEMENTED, message)) => Err(format!(
            "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {message}"
        )),
        Ok(Reply::Refusal(DEADLINE_EXCEEDED, _)) => Err(late),
        Ok(Reply::Refusal(code, message)) => {
            let name = usize::try_from(code).ok().and_then(|code| CODES.get(code)).copied();
            let name = name.map_or_else(|| format!("Code({code})"), str::to_owned);
            Err(format!("error: health rpc probe failed: rpc error: code = {name} desc = {message}"))
        }
        Err(_) if is_connected => Err(late),
        Err(_) => Err(format!(
            "timeout: failed to connect service {authority:?} within {}: context deadline exceeded",
            seconds(timeout)
        )),
    }
}

fn health_name(health: u64) -> String {
    let names = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];
    let name = usize::try_from(health).ok().and_then(|health| names.get(health));
    name.map_or_else(|| health.to_string(), |name| (*name).to_owned())
}

async fn ask(stream: tokio::net::TcpStream, authority: &str, service: &str) -> Result<Reply, hyper::Error> {
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let drive = async {
        // What ends the connection ends the request too, with the same error.
        let _ = connection.await;
        std::future::pending::<Infallible>().await
    };
    let exchange = async {
        let response = sender.send_request(request(authority, service)).await?;
        if response.status() != 200 {
            return Ok(not_grpc(response.status()));
        }
        if let Some(refusal) = refusal(response.headers()) {
            return Ok(refusal);
        }
        let Ok(body) = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await else {
            return Ok(Reply::Refusal(13, "the answer could not be read".to_owned()));
        };
        let refusal = body.trailers().and_then(refusal);
        Ok(refusal.unwrap_or_else(|| Reply::Health(health(body.to_bytes()))))
    };
    tokio::select! {
        result = exchange => result,
        never = drive => match never {},
    }
}

fn request(authority: &str, service: &str) -> Request<Full<Bytes>> {
    let mut message = Vec::new();
    if !service.is_empty() {
        // Field 1, of variable length.
        message.push(0x0a);
        put_number(&mut message, service.len());
        message.extend_from_slice(service.as_bytes());
    }
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes();
    let body = [&[0][..], &length, &message].concat();
    Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", format!("kube-probe/{AGENT_VERSION}"))
        .body(Full::new(Bytes::from(body)))
        .expect("an address and fixed headers make a request")
}

fn put_number(bytes: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// What gRPC's clients make of an answer that is not gRPC's.
fn not_grpc(status: http::StatusCode) -> Reply {
    let code = match status.as_u16() {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => UNIMPLEMENTED,
        429 | 502..=504 => 14,
        _ => 2,
    };
    let reason = status.canonical_reason().unwrap_or_default();
    let message = format!("unexpected HTTP status code received from server: {} ({reason})", status.as_u16());
    Reply::Refusal(code, message)
}

fn refusal(headers: &HeaderMap) -> Option<Reply> {
    let code: u32 = headers.get("grpc-status")?.to_str().ok()?.parse().ok()?;
    let message = headers.get("grpc-message").and_then(|message| message.to_str().ok()).unwrap_or_default();
    (code != 0).then(|| Reply::Refusal(code, percent_decode_str(message).decode_utf8_lossy().into_owned()))
}

/// Field 1 of the answer, behind the five bytes of its frame; one that is not there is zero.
fn health(mut body: Bytes) -> u64 {
    if body.remaining() < 7 || body[5] != 0x08 {
        return 0;
    }
    body.advance(6);
    u64::from(body.get_u8())
}
