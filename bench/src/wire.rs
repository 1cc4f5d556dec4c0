//! Lean clients: one connection each, HTTP/1.1 or HTTP/2, over TLS or plain, nothing parsed that need not be.

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http1 => "HTTP/1.1",
            Protocol::Http2 => "HTTP/2",
        }
    }
}

/// Where a server is and how it knows us.
#[derive(Clone)]
pub struct Access {
    address: SocketAddr,
    way: Way,
}

#[derive(Clone)]
enum Way {
    /// TLS, with a client's certificate.
    Certificate(Box<ClientConfig>),
    /// Plain HTTP, with what the header `Authorization` says.
    Header(String),
}

impl Access {
    pub fn from_kubeconfig(text: &str) -> Result<Access> {
        let value: serde_json::Value = serde_saphyr::from_str(text)?;
        let cluster = &value["clusters"][0]["cluster"];
        let user = &value["users"][0]["user"];
        let pem = |field: &serde_json::Value| -> Result<Vec<u8>> {
            Ok(STANDARD.decode(field.as_str().context("the kubeconfig embeds its keys")?)?)
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem(&cluster["certificate-authority-data"])?) {
            roots.add(certificate?)?;
        }
        let chain =
            CertificateDer::pem_slice_iter(&pem(&user["client-certificate-data"])?).collect::<Result<_, _>>()?;
        let key = PrivateKeyDer::from_pem_slice(&pem(&user["client-key-data"])?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        let server = cluster["server"].as_str().and_then(|server| server.strip_prefix("https://"));
        Ok(Access { address: server.context("an https server")?.parse()?, way: Way::Certificate(Box::new(tls)) })
    }

    pub fn with_key(address: SocketAddr, key: &str) -> Access {
        Access { address, way: Way::Header(format!("Bearer {key}")) }
    }

    pub async fn connect(&self, protocol: Protocol) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, authorization) = match &self.way {
            Way::Header(value) => (Sender::open(stream, protocol).await?, Some(value.clone())),
            Way::Certificate(tls) => {
                let mut tls = (**tls).clone();
                tls.alpn_protocols = match protocol {
                    Protocol::Http1 => vec![b"http/1.1".to_vec()],
                    Protocol::Http2 => vec![b"h2".to_vec()],
                };
                let name = ServerName::from(self.address.ip());
                let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
                (Sender::open(stream, protocol).await?, None)
            }
        };
        Ok(Connection { sender, authorization })
    }
}

/// One connection; requests follow each other on it, streams of HTTP/2 run beside each other.
pub struct Connection {
    sender: Sender,
    authorization: Option<String>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    async fn open(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, protocol: Protocol) -> Result<Sender> {
        let stream = TokioIo::new(stream);
        Ok(match protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Protocol::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(1 << 20).initial_connection_window_size(16 << 20);
                let (sender, connection) = builder.handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        })
    }
}

impl Connection {
    /// For requests beside each other, which HTTP/2 alone has.
    pub fn twin(&self) -> Result<Connection> {
        match &self.sender {
            Sender::Http1(_) => bail!("requests of HTTP/1.1 follow each other"),
            Sender::Http2(sender) => {
                Ok(Connection { sender: Sender::Http2(sender.clone()), authorization: self.authorization.clone() })
            }
        }
    }

    /// Sends a request and hands out the answer when its head is there.
    pub async fn open(&mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let uri = match &self.sender {
            Sender::Http1(_) => path.to_owned(),
            Sender::Http2(_) => format!("https://localhost{path}"),
        };
        let mut request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header("authorization", authorization);
        }
        let request = request.header("host", "localhost").header("user-agent", "bench/1").body(Full::new(body))?;
        Ok(match &mut self.sender {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        })
    }

    /// Sends a request and reads the whole answer, which must be good.
    pub async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let answer = self.open(method, path, body).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }
}
