//! The reference server: hyper and rustls as our server uses them, and nothing behind them.
//!
//! It answers any request with as many bytes as a pod has, and `/stream/N` with N lines of that size.

use anyhow::Result;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{CertificateParams, KeyPair};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// As our server allows.
const STREAMS_MAX: u32 = 2000;

/// The same line, again and again.
struct Lines {
    line: Bytes,
    left: usize,
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
        self.left = left;
        Poll::Ready(Some(Ok(Frame::data(self.line.clone()))))
    }
}

async fn answer(request: Request<Incoming>, line: Bytes) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let lines = request.uri().path().strip_prefix("/stream/").and_then(|count| count.parse().ok());
    request.into_body().collect().await?;
    Ok(Response::new(match lines {
        Some(left) => Lines { line, left }.boxed(),
        None => Full::new(line).boxed(),
    }))
}

/// Serves until killed; prints a kubeconfig for it, then `---`.
pub async fn serve() -> Result<()> {
    let key = KeyPair::generate()?;
    let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
    let certificate = params.self_signed(&key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            rustls_pki_types::PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let tls = TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let pem = |text: String| STANDARD.encode(text);
    println!(
        "clusters:\n- cluster:\n    server: https://{}\n    certificate-authority-data: {ca}\nusers:\n- user:\n    \
         client-certificate-data: {ca}\n    client-key-data: {}\n---",
        listener.local_addr()?,
        pem(key.serialize_pem()),
        ca = pem(certificate.pem()),
    );
    let mut line = crate::measure::pod("hello").to_vec();
    line.push(b'\n');
    let line = Bytes::from(line);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (tls, line) = (tls.clone(), line.clone());
        tokio::spawn(async move {
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(move |request| answer(request, line.clone()));
            let mut builder = auto::Builder::new(TokioExecutor::new());
            builder.http2().max_concurrent_streams(STREAMS_MAX).initial_stream_window_size(1 << 20);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
