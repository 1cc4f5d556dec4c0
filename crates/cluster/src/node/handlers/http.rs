//! One GET over HTTP/1.1: no proxy, no check of certificates, no kept connections, redirects on the same host only.

use super::OUTPUT_BYTES_MAX;
use super::dial::{dial, go_text};
use ::http::header::{CONNECTION, HOST, HeaderName, HeaderValue, LOCATION};
use ::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use reqwest::Url;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::convert::Infallible;
use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

/// Go's bound.
const REDIRECTS_MAX: usize = 10;
/// Of an answer's head; a probe's is small.
const HEAD_BYTES_MAX: usize = 64 << 10;

pub struct Answer {
    pub status: u16,
    pub body: String,
}

pub async fn get(url: &str, headers: &[(String, String)], timeout: Duration) -> Result<Answer, String> {
    let deadline = Instant::now() + timeout;
    let mut target = Target::parse(url).map_err(|error| format!("parse {url:?}: {error}"))?;
    let headers = header_map(headers)?;
    for _ in 0..REDIRECTS_MAX {
        let failed = |why: String| format!("Get {:?}: {why}", target.text);
        let late = |_| "context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned();
        let fetched = timeout_at(deadline, target.fetch(&headers, deadline)).await;
        match fetched.map_err(late).map_err(failed)?.map_err(failed)? {
            Fetched::Answer(answer) => return Ok(answer),
            Fetched::Redirect(next) => target = next,
        }
    }
    Err(format!("Get {:?}: stopped after {REDIRECTS_MAX} redirects", target.text))
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes());
        let key = key.map_err(|_| format!("net/http: invalid header field name {name:?}"))?;
        let value = HeaderValue::from_str(value);
        let value = value.map_err(|_| format!("net/http: invalid header field value for {name:?}"))?;
        map.append(key, value);
    }
    map.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(map)
}

/// A URL, also as it was written: Go shows and sends a port even where it is the scheme's own.
struct Target {
    url: Url,
    text: String,
    authority: String,
}

enum Fetched {
    Answer(Answer),
    Redirect(Target),
}

impl Target {
    fn parse(text: &str) -> Result<Target, String> {
        let url = Url::parse(text).map_err(|error| error.to_string())?;
        let rest = text.split_once("://").map_or("", |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
        Ok(Target { url, text: text.to_owned(), authority })
    }

    /// Where the answer sends us, if a probe goes there: not to another host.
    fn redirect(&self, response: &Response<Incoming>) -> Option<Target> {
        let is_redirect = matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308);
        let location = response.headers().get(LOCATION).filter(|_| is_redirect)?.to_str().ok()?;
        let url = self.url.join(location).ok()?;
        let is_same = url.host_str() == self.url.host_str() && matches!(url.scheme(), "http" | "https");
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let authority = format!("{}{port}", url.host_str().unwrap_or_default());
        is_same.then(|| Target { text: url.to_string(), url, authority })
    }

    async fn fetch(&self, headers: &HeaderMap, deadline: Instant) -> Result<Fetched, String> {
        let host = self.url.host_str().unwrap_or_default();
        let stream = dial(host, self.url.port_or_known_default().unwrap_or(80)).await?;
        let route =
            stream.local_addr().and_then(|own| Ok(format!("{own}->{}", stream.peer_addr()?))).unwrap_or_default();
        // Go names both ends when a connection breaks.
        let name_ends = |why: String| why.replacen("read: ", &format!("read tcp {route}: read: "), 1);
        if self.url.scheme() == "http" {
            return self.ask(stream, headers, deadline).await.map_err(name_ends);
        }
        let plain = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(plain).map_err(|error| error.to_string())?;
        let stream = TlsConnector::from(unchecked_tls()).connect(name, stream).await;
        let stream = stream.map_err(|error| name_ends(tls_text(&error)))?;
        self.ask(stream, headers, deadline).await.map_err(name_ends)
    }

    async fn ask<S>(&self, stream: S, headers: &HeaderMap, deadline: Instant) -> Result<Fetched, String>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http1::Builder::new();
        let handshake = builder.max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| hyper_text(&error))?;
        let drive = async {
            // What ends the connection ends the request too, with the same error.
            let _ = connection.await;
            std::future::pending::<Infallible>().await
        };
        let exchange = async {
            let response = sender.send_request(self.request(headers)?).await.map_err(|error| hyper_text(&error))?;
            match self.redirect(&response) {
                Some(next) => Ok(Fetched::Redirect(next)),
                None => read(response, deadline).await.map(Fetched::Answer),
            }
        };
        tokio::select! {
            result = exchange => result,
            never = drive => match never {},
        }
    }

    fn request(&self, headers: &HeaderMap) -> Result<Request<Empty<Bytes>>, String> {
        let query = self.url.query().map(|query| format!("?{query}")).unwrap_or_default();
        let request = Request::get(format!("{}{query}", self.url.path())).body(Empty::new());
        let mut request = request.map_err(|error| error.to_string())?;
        *request.headers_mut() = headers.clone();
        if !headers.contains_key(HOST) {
            let host = HeaderValue::from_str(&self.authority).map_err(|error| error.to_string())?;
            request.headers_mut().insert(HOST, host);
        }
        Ok(request)
    }
}

/// The beginning of the body; the rest is not waited for.
async fn read(response: Response<Incoming>, deadline: Instant) -> Result<Answer, String> {
    let status = response.status().as_u16();
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while bytes.len() < OUTPUT_BYTES_MAX {
        let late =
            |_| "context deadline exceeded (Client.Timeout or context cancellation while reading body)".to_owned();
        match timeout_at(deadline, body.frame()).await.map_err(late)? {
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..])),
            Some(Err(error)) => return Err(hyper_text(&error)),
            None => break,
        }
    }
    bytes.truncate(OUTPUT_BYTES_MAX);
    Ok(Answer { status, body: String::from_utf8_lossy(&bytes).into_owned() })
}

fn hyper_text(error: &hyper::Error) -> String {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    match cause {
        Some(cause) => format!("read: {}", go_text(cause)),
        None if error.is_incomplete_message() || error.is_closed() => "EOF".to_owned(),
        None => format!("net/http: HTTP/1.x transport connection broken: {error}"),
    }
}

fn tls_text(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidMessage(_)) => "http: server gave HTTP response to HTTPS client".to_owned(),
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(other) => format!("tls: {other}"),
        None if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => format!("read: {}", go_text(error)),
    }
}

/// A probe asks whether a program lives, not who it is.
#[derive(Debug)]
struct Unchecked(rustls::crypto::CryptoProvider);

fn unchecked_tls() -> Arc<ClientConfig> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    let make = || {
        let provider = rustls::crypto::ring::default_provider();
        let builder = ClientConfig::builder_with_provider(Arc::new(provider.clone()));
        let builder = builder.with_safe_default_protocol_versions().expect("ring knows the default versions");
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(Unchecked(provider)));
        Arc::new(builder.with_no_client_auth())
    };
    CONFIG.get_or_init(make).clone()
}

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
