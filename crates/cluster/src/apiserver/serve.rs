//! The doors: TLS and plain HTTP on one port, and the in-process door for `kube::Client`.

use super::answer::{self, Answer, Body};
use super::gzip;
use super::neighbour;
use super::pki::Pki;
use super::tokens::CREDENTIAL_ID;
use super::{ApiServer, BODY_BYTES_MAX};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use volley_api::kube::status::ApiError;
use volley_plan::access::User;

/// Streams of one HTTP/2 connection: Go clients keep every watch of a process on one.
const STREAMS_MAX: u32 = 2000;
/// A client has this long to finish its TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection (a handshake record).
const TLS_FIRST_BYTE: u8 = 0x16;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("failed to listen on {address}")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error("the server's certificate is not usable")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A bound port, not yet answering.
pub struct Door {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl Door {
    pub async fn bind(address: SocketAddr, pki: &Pki) -> Result<Door, ServeError> {
        let listener = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
        Ok(Door { listener, tls: TlsAcceptor::from(Arc::new(tls_config(pki)?)) })
    }

    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until `stop` is cancelled; open connections then get a moment to finish.
    pub async fn serve(self, server: Arc<ApiServer>, stop: CancellationToken) {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => {
                    server.sessions.cancel();
                    return;
                }
            };
            match accepted {
                Ok((stream, peer)) => {
                    let (server, tls, stop) = (server.clone(), self.tls.clone(), stop.clone());
                    tokio::spawn(async move { connection(server, tls, stream, peer, stop).await });
                }
                Err(error) => {
                    // Out of file handles, most likely: wait for some to come back rather than spin.
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

async fn connection(
    server: Arc<ApiServer>,
    tls: TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
    stop: CancellationToken,
) {
    let _ = stream.set_nodelay(true);
    let mut first = [0u8; 1];
    let seen = tokio::time::timeout(HANDSHAKE_TIMEOUT, stream.peek(&mut first)).await;
    match seen {
        Ok(Ok(1)) if first[0] == TLS_FIRST_BYTE => {
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.accept(stream)).await else { return };
            let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
            let user = certificate.and_then(|der| certificate_user(der.as_ref())).map(Arc::new);
            let proof = user.map_or(Proof::None, Proof::Certificate);
            requests(server, TokioIo::new(stream), proof, stop).await;
        }
        // Plain HTTP is for this machine only (spec K-HTTP-2): nothing secret crosses a network unencrypted.
        Ok(Ok(1)) if peer.ip().is_loopback() => {
            let Ok(local) = stream.local_addr() else { return };
            let proof = Proof::Neighbour(Arc::new(Neighbour { peer, local, is_own: OnceCell::new() }));
            requests(server, TokioIo::new(stream), proof, stop).await;
        }
        _ => {}
    }
}

/// What a connection itself says of its other end.
#[derive(Clone)]
pub enum Proof {
    Certificate(Arc<User>),
    /// Plain HTTP from this machine; who it is has not been asked yet.
    Neighbour(Arc<Neighbour>),
    /// Plain HTTP from a process of the user who runs the server.
    OwnUser,
    None,
}

/// The two ends of a plain loopback connection, and whose the other one is once that was asked.
pub struct Neighbour {
    peer: SocketAddr,
    local: SocketAddr,
    is_own: OnceCell<bool>,
}

impl Proof {
    /// Asks the kernel about a neighbour, once per connection and only for requests that bring no proof themselves: it
    /// reads the tables of all sockets and processes, which takes milliseconds.
    async fn settled(self, headers: &http::HeaderMap) -> Proof {
        let Proof::Neighbour(neighbour) = self else { return self };
        if headers.contains_key("authorization") {
            return Proof::None;
        }
        let (peer, local) = (neighbour.peer, neighbour.local);
        let ask = || async move {
            let asked = tokio::task::spawn_blocking(move || neighbour::is_own(peer, local)).await;
            asked.unwrap_or(false)
        };
        if *neighbour.is_own.get_or_init(ask).await { Proof::OwnUser } else { Proof::None }
    }
}

async fn requests<S>(server: Arc<ApiServer>, io: TokioIo<S>, proof: Proof, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (server, proof) = (server.clone(), proof.clone());
        async move { Ok::<_, Infallible>(respond(server, request, proof).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(STREAMS_MAX).initial_stream_window_size(1 << 20);
    let connection = builder.serve_connection_with_upgrades(io, service);
    tokio::pin!(connection);
    tokio::select! {
        // A client that goes away mid-answer is not news.
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(Duration::from_millis(200), connection).await;
        }
    }
}

async fn respond(server: Arc<ApiServer>, request: Request<Incoming>, proof: Proof) -> Answer {
    let (parts, body) = request.into_parts();
    let user = match server.authenticate(&parts.headers, &proof.settled(&parts.headers).await) {
        Ok(user) => user,
        Err(error) => return answer::error(&error),
    };
    let body = match read_body(body).await {
        Ok(body) => body,
        Err(error) => return answer::error(&error),
    };
    let gzip = gzip::is_accepted(&parts.headers);
    let answer = server.handle(Request::from_parts(parts, body), user).await;
    if gzip { gzip::compressed(answer) } else { answer }
}

async fn read_body<B>(body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {BODY_BYTES_MAX}"),
        )),
        Err(_) => Err(ApiError::bad_request("the body of the request ended early")),
    }
}

fn tls_config(pki: &Pki) -> Result<rustls::ServerConfig, ServeError> {
    let certificate = |e: &dyn std::error::Error| ServeError::Certificate(e.to_string().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(pki.ca_pem.as_bytes()).flatten() {
        roots.add(ca).map_err(|e| certificate(&e))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|e| certificate(&e))?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pki.server_cert_pem.as_bytes()).flatten().collect();
    let key = PrivateKeyDer::from_pem_slice(pki.server_key_pem.as_bytes()).map_err(|e| certificate(&e))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| certificate(&e))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|e| certificate(&e))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// CN is the user, each O a group (spec K-AUTH-1).
fn certificate_user(der: &[u8]) -> Option<User> {
    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|part| part.as_str().ok()).map(str::to_owned);
    let mut user = User::authenticated(name, groups);
    let digest: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={digest}")]);
    Some(user)
}

/// The server as a tower service: the same answers as over a socket, without one.
#[derive(Clone)]
pub struct InProcess {
    server: Arc<ApiServer>,
    user: Arc<User>,
}

impl InProcess {
    pub fn new(server: Arc<ApiServer>, user: User) -> InProcess {
        InProcess { server, user: Arc::new(user) }
    }

    /// A `kube::Client` that talks to this server without a socket.
    pub fn client(self) -> kube::Client {
        kube::Client::new(self, "default")
    }
}

impl<B> tower::Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (server, user) = (self.server.clone(), self.user.clone());
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            Ok(match read_body(body).await {
                Ok(body) => server.handle(Request::from_parts(parts, body), user).await,
                Err(error) => answer::error(&error),
            })
        })
    }
}
