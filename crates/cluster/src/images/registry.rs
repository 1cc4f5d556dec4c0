//! The registry protocol: manifests and blobs over HTTP, with tokens, mirrors and plain-http hosts.
//!
//! A `Session` belongs to one pull: one repository and one credential. It asks each endpoint in turn (mirrors first,
//! then the registry itself) and gives back verified manifests or open blob streams; `download` puts those on disk.

use super::auth::Credential;
use super::challenge::{self, Challenge, TokenAnswer};
use super::digest::Digest;
use super::error::{ImageError, RequestFault};
use super::manifest::ACCEPTED;
use super::reference::{DEFAULT_REGISTRY, Reference};
use futures::StreamExt;
use parking_lot::Mutex;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RANGE, WWW_AUTHENTICATE};
use reqwest::{Client, Method, Response, StatusCode, Url};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Manifests and image configurations are small; this is the limit of the reference registry.
pub const DOCUMENT_SIZE_MAX: u64 = 4 << 20;
/// Token answers and error bodies.
const ANSWER_SIZE_MAX: u64 = 1 << 20;
/// Requests for a document before its error is final.
const ATTEMPTS_MAX: u32 = 4;
/// Tokens kept; a node talks to a few repositories at a time.
const TOKENS_MAX: usize = 256;
/// No token is trusted for longer, whatever its server says.
const TOKEN_LIFE_MAX: Duration = Duration::from_secs(3600);
const REDIRECTS_MAX: usize = 10;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const USER_AGENT: &str = concat!("volley/", env!("CARGO_PKG_VERSION"));

/// How registries are reached; read from the cluster's configuration.
#[derive(Debug, Clone)]
pub struct RegistryConfig {
    /// By registry host as written in references, such as `docker.io` or `localhost:5000`.
    pub hosts: BTreeMap<String, HostConfig>,
    /// The first pause between attempts; each further one is twice as long, up to `backoff_max`.
    pub backoff: Duration,
    pub backoff_max: Duration,
    /// A connection that gives no byte for this long is given up and resumed.
    pub stall: Duration,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostConfig {
    /// Base addresses asked before the registry itself, such as `http://mirror:5000`. They get no credentials.
    pub mirrors: Vec<String>,
    /// Speak http; loopback registries do without being told.
    pub plain_http: bool,
    /// Take any certificate.
    pub skip_verify: bool,
    /// Further certificate authorities, PEM.
    pub ca_files: Vec<PathBuf>,
}

impl Default for RegistryConfig {
    fn default() -> RegistryConfig {
        RegistryConfig {
            hosts: BTreeMap::new(),
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(10),
            stall: Duration::from_secs(60),
        }
    }
}

impl RegistryConfig {
    /// The pause before attempt number `attempt` (from 1).
    pub fn pause(&self, attempt: u32) -> Duration {
        self.backoff.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(self.backoff_max)
    }
}

/// The door to all registries: connections and tokens are shared between pulls.
pub struct Registry {
    config: RegistryConfig,
    clients: Mutex<BTreeMap<String, Client>>,
    tokens: Mutex<BTreeMap<TokenKey, Token>>,
}

type TokenKey = (String, String, Option<Credential>);

#[derive(Clone)]
struct Token {
    header: String,
    until: Instant,
}

/// One place that serves a repository.
#[derive(Debug, Clone)]
struct Endpoint {
    base: String,
    is_mirror: bool,
}

/// One repository, as one user.
#[derive(Clone)]
pub struct Session {
    registry: Arc<Registry>,
    reference: Reference,
    credential: Option<Credential>,
}

/// A manifest or index as served, checked against its digest.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub bytes: Vec<u8>,
    pub digest: Digest,
    pub content_type: String,
}

impl Registry {
    pub fn new(config: RegistryConfig) -> Arc<Registry> {
        Arc::new(Registry { config, clients: Mutex::default(), tokens: Mutex::default() })
    }

    pub fn config(&self) -> &RegistryConfig {
        &self.config
    }

    pub fn session(self: &Arc<Registry>, reference: &Reference, credential: Option<Credential>) -> Session {
        Session { registry: self.clone(), reference: reference.clone(), credential }
    }

    fn endpoints(&self, registry: &str) -> Vec<Endpoint> {
        let host = self.config.hosts.get(registry).cloned().unwrap_or_default();
        let scheme = if host.plain_http || is_loopback(registry) { "http" } else { "https" };
        let name = if registry == DEFAULT_REGISTRY { "registry-1.docker.io" } else { registry };
        let mirrors = host.mirrors.iter().map(|mirror| {
            let base = if mirror.contains("://") { mirror.clone() } else { format!("https://{mirror}") };
            Endpoint { base: base.trim_end_matches('/').to_owned(), is_mirror: true }
        });
        mirrors.chain([Endpoint { base: format!("{scheme}://{name}"), is_mirror: false }]).collect()
    }

    /// The connections for a registry; made once, since reading the certificates takes milliseconds.
    fn client(&self, registry: &str) -> Result<Client, ImageError> {
        if let Some(client) = self.clients.lock().get(registry) {
            return Ok(client.clone());
        }
        let host = self.config.hosts.get(registry).cloned().unwrap_or_default();
        let mut builder = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(self.config.stall)
            .redirect(reqwest::redirect::Policy::limited(REDIRECTS_MAX));
        for path in &host.ca_files {
            let bytes = std::fs::read(path).map_err(|error| ImageError::file("read", path, error))?;
            let found = reqwest::Certificate::from_pem_bundle(&bytes)
                .map_err(|error| ImageError::malformed(path.display().to_string(), error))?;
            builder = builder.tls_certs_merge(found);
        }
        if host.skip_verify {
            builder = builder.danger_accept_invalid_certs(true);
        } else if is_loopback(registry) || host.plain_http {
            // Machines without any certificate still reach their plain-http registries.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| ImageError::malformed("the TLS configuration", chain(&error)))?;
        self.clients.lock().insert(registry.to_owned(), client.clone());
        Ok(client)
    }
}

/// Registries on this machine speak http, as Docker and containerd assume too.
fn is_loopback(registry: &str) -> bool {
    let (host, port) = match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port),
        _ => (registry, ""),
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = bare == "localhost" || bare.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    is_local && port != "443"
}

impl Session {
    pub fn config(&self) -> &RegistryConfig {
        &self.registry.config
    }

    /// Fetches a manifest or index by tag or digest; a digest is checked against the bytes.
    pub async fn manifest(&self, selector: &str) -> Result<Fetched, ImageError> {
        let expected = Digest::parse(selector).ok();
        let accept = ACCEPTED.join(", ");
        let path = format!("manifests/{selector}");
        let (bytes, content_type, header) = self.document(&path, Some(&accept)).await?;
        let digest = Digest::of(&bytes);
        let promised = expected.or_else(|| header.and_then(|header| Digest::parse(&header).ok()));
        match promised {
            Some(promised) if promised != digest => Err(ImageError::Corrupt {
                what: format!("manifest of {}", self.reference),
                expected: promised.to_string(),
                actual: digest.to_string(),
            }),
            Some(_) | None => Ok(Fetched { bytes, digest, content_type }),
        }
    }

    /// Fetches a small blob into memory, such as the image's configuration, and checks it.
    pub async fn small_blob(&self, digest: &Digest) -> Result<Vec<u8>, ImageError> {
        let (bytes, _, _) = self.document(&format!("blobs/{digest}"), None).await?;
        let actual = Digest::of(&bytes);
        match actual == *digest {
            true => Ok(bytes),
            false => Err(ImageError::Corrupt {
                what: "blob".to_owned(),
                expected: digest.to_string(),
                actual: actual.to_string(),
            }),
        }
    }

    /// Opens a blob's stream from a byte on. The answer's status says whether the registry honoured the offset.
    pub async fn blob(&self, digest: &Digest, from: u64) -> Result<Response, ImageError> {
        let range = (from > 0).then(|| format!("bytes={from}-"));
        let mut last = None;
        for endpoint in self.registry.endpoints(self.reference.registry()) {
            match self.ask(&endpoint, &format!("blobs/{digest}"), None, range.as_deref()).await {
                Ok(response) => return Ok(response),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(ImageError::Interrupted))
    }

    /// Fetches a small document with retries; gives its bytes, type and promised digest.
    async fn document(
        &self,
        path: &str,
        accept: Option<&str>,
    ) -> Result<(Vec<u8>, String, Option<String>), ImageError> {
        let mut attempt = 1;
        loop {
            match self.document_once(path, accept).await {
                Err(error) if error.is_transient() && attempt < ATTEMPTS_MAX => {
                    tokio::time::sleep(self.registry.config.pause(attempt)).await;
                    attempt += 1;
                }
                done => return done,
            }
        }
    }

    async fn document_once(
        &self,
        path: &str,
        accept: Option<&str>,
    ) -> Result<(Vec<u8>, String, Option<String>), ImageError> {
        let mut last = None;
        for endpoint in self.registry.endpoints(self.reference.registry()) {
            let answer = match self.ask(&endpoint, path, accept, None).await {
                Ok(response) => {
                    let header = |name: &str| {
                        response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
                    };
                    let (kind, promised) = (header(CONTENT_TYPE.as_str()), header("docker-content-digest"));
                    body(response, DOCUMENT_SIZE_MAX, path)
                        .await
                        .map(|bytes| (bytes, kind.unwrap_or_default(), promised))
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(ImageError::Interrupted))
    }

    /// One GET with authorization: a 401 is answered once with what the registry asks for.
    async fn ask(
        &self,
        endpoint: &Endpoint,
        path: &str,
        accept: Option<&str>,
        range: Option<&str>,
    ) -> Result<Response, ImageError> {
        let client = self.registry.client(self.reference.registry())?;
        let mut url = format!("{}/v2/{}/{path}", endpoint.base, self.reference.repository());
        if endpoint.is_mirror {
            url.push_str(&format!("?ns={}", self.reference.registry()));
        }
        let key =
            (endpoint.base.clone(), self.reference.repository().to_owned(), self.credential_for(endpoint).cloned());
        let mut authorization = self.cached(&key);
        // A kept token may have been withdrawn meanwhile: only the answer to a fresh one is final.
        let mut is_fresh = false;
        loop {
            let mut request = client.request(Method::GET, &url);
            for (name, value) in [(ACCEPT, accept), (RANGE, range), (AUTHORIZATION, authorization.as_deref())] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            let response = request.send().await.map_err(|error| failed("Get", &url, &error))?;
            if response.status() != StatusCode::UNAUTHORIZED || is_fresh {
                return self.judge(response, &url).await;
            }
            let challenges: Vec<&str> =
                response.headers().get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
            let Some(challenge) = challenge::parse(&challenges) else {
                return self.judge(response, &url).await;
            };
            authorization = Some(self.authorize(&client, challenge, &key).await?);
            is_fresh = true;
        }
    }

    /// Credentials are for the registry that the user named, never for its mirrors.
    fn credential_for(&self, endpoint: &Endpoint) -> Option<&Credential> {
        self.credential.as_ref().filter(|_| !endpoint.is_mirror)
    }

    fn cached(&self, key: &TokenKey) -> Option<String> {
        if let Some(token) = key.2.as_ref().and_then(|credential| credential.registry_token.as_ref()) {
            return Some(format!("Bearer {token}"));
        }
        let tokens = self.registry.tokens.lock();
        tokens.get(key).filter(|token| token.until > Instant::now()).map(|token| token.header.clone())
    }

    async fn authorize(&self, client: &Client, challenge: Challenge, key: &TokenKey) -> Result<String, ImageError> {
        let (header, life) = match (challenge, &key.2) {
            (Challenge::Basic, None) => {
                return Err(ImageError::Denied("the registry asks for a user and a password".to_owned()));
            }
            (Challenge::Basic, Some(credential)) => (basic(credential), TOKEN_LIFE_MAX),
            (Challenge::Bearer { realm, service, scope }, credential) => {
                let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.reference.repository()));
                let asked = TokenRequest { realm, service, scope, credential: credential.as_ref() };
                let (token, life) = asked.send(client).await?;
                (format!("Bearer {token}"), life)
            }
        };
        let until = Instant::now() + life.min(TOKEN_LIFE_MAX);
        self.keep(key, Token { header: header.clone(), until });
        Ok(header)
    }

    fn keep(&self, key: &TokenKey, token: Token) {
        let mut tokens = self.registry.tokens.lock();
        if tokens.len() >= TOKENS_MAX {
            tokens.clear();
        }
        tokens.insert(key.clone(), token);
    }

    /// Turns a status into the error that users know, or passes a good answer on.
    async fn judge(&self, response: Response, url: &str) -> Result<Response, ImageError> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let registry = self.reference.registry().to_owned();
        match status {
            StatusCode::NOT_FOUND => Err(ImageError::NotFound(self.reference.to_string())),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let text = body(response, ANSWER_SIZE_MAX, "error").await.unwrap_or_default();
                Err(ImageError::Denied(server_message(&text)))
            }
            StatusCode::TOO_MANY_REQUESTS => Err(ImageError::TooManyRequests { registry }),
            status => Err(ImageError::Status { method: "GET", url: url.to_owned(), status: status.as_u16() }),
        }
    }
}

struct TokenRequest<'a> {
    realm: String,
    service: Option<String>,
    scope: String,
    credential: Option<&'a Credential>,
}

impl TokenRequest<'_> {
    async fn send(self, client: &Client) -> Result<(String, Duration), ImageError> {
        let mut url =
            Url::parse(&self.realm).map_err(|error| ImageError::Token(format!("{:?}: {error}", self.realm)))?;
        let refresh = self.credential.and_then(|credential| credential.identity_token.as_deref());
        let request = match refresh {
            Some(token) => {
                let mut pairs =
                    vec![("grant_type", "refresh_token"), ("refresh_token", token), ("client_id", "volley")];
                pairs.extend(self.service.as_deref().map(|service| ("service", service)));
                pairs.push(("scope", &self.scope));
                let mut scratch = url.clone();
                scratch.query_pairs_mut().clear().extend_pairs(pairs);
                let form = scratch.query().unwrap_or_default().to_owned();
                client.post(url.clone()).header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(form)
            }
            None => {
                let mut query = url.query_pairs_mut();
                query.extend_pairs(self.service.as_deref().map(|service| ("service", service)));
                query.append_pair("scope", &self.scope);
                drop(query);
                let request = client.get(url.clone());
                match self.credential {
                    Some(credential) => request.header(AUTHORIZATION, basic(credential)),
                    None => request,
                }
            }
        };
        let response = request.send().await.map_err(|error| failed("Get", url.as_str(), &error))?;
        let status = response.status();
        let bytes = body(response, ANSWER_SIZE_MAX, "token").await?;
        match status {
            status if status.is_success() => {}
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => return Err(ImageError::Denied(server_message(&bytes))),
            StatusCode::TOO_MANY_REQUESTS => {
                return Err(ImageError::TooManyRequests { registry: url.host_str().unwrap_or_default().to_owned() });
            }
            status if status.is_server_error() => {
                return Err(ImageError::Status { method: "GET", url: url.to_string(), status: status.as_u16() });
            }
            status => return Err(ImageError::Token(format!("unexpected status from {url}: {status}"))),
        }
        let answer: TokenAnswer =
            serde_json::from_slice(&bytes).map_err(|error| ImageError::Token(format!("{url}: {error}")))?;
        answer.token().ok_or_else(|| ImageError::Token(format!("{url}: no token in the answer")))
    }
}

fn basic(credential: &Credential) -> String {
    use base64::Engine;
    let pair = format!("{}:{}", credential.username, credential.password);
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
}

/// Reads a bounded body.
async fn body(response: Response, limit: u64, what: &str) -> Result<Vec<u8>, ImageError> {
    let url = response.url().to_string();
    let mut stream = response.bytes_stream();
    let mut bytes = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| failed("Get", &url, &error))?;
        if bytes.len() as u64 + chunk.len() as u64 > limit {
            return Err(ImageError::TooLarge { what: what.to_owned(), limit });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The registry's own words, if its body holds any.
fn server_message(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let first = &value["errors"][0];
    match (first["code"].as_str(), first["message"].as_str()) {
        (Some("UNAUTHORIZED"), _) | (None, None) => {
            "server message: insufficient_scope: authorization failed".to_owned()
        }
        (code, message) => {
            format!("server message: {}: {}", code.unwrap_or("DENIED"), message.unwrap_or("access denied"))
        }
    }
}

/// Names what went wrong below HTTP.
pub fn failed(method: &'static str, url: &str, error: &reqwest::Error) -> ImageError {
    let text = chain(error);
    let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default();
    let fault = if error.is_timeout() {
        RequestFault::Timeout
    } else if text.contains("dns error") || text.contains("failed to lookup address") {
        RequestFault::NoSuchHost(host)
    } else if has_kind(error, std::io::ErrorKind::ConnectionRefused) {
        RequestFault::Refused
    } else if text.contains("certificate") || text.contains("InvalidCertificate") {
        RequestFault::Tls(innermost(error))
    } else {
        RequestFault::Other(innermost(error))
    };
    ImageError::Request { method, url: url.to_owned(), fault }
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

fn chain(error: &(dyn Error + 'static)) -> String {
    causes(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

fn has_kind(error: &(dyn Error + 'static), kind: std::io::ErrorKind) -> bool {
    causes(error).any(|cause| cause.downcast_ref::<std::io::Error>().is_some_and(|cause| cause.kind() == kind))
}
