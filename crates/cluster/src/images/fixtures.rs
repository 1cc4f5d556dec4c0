//! For the tests: layers and images built by hand, and a registry on loopback that can misbehave on request.

mod layer;

pub use layer::Layer;

use super::digest::Digest;
use super::flight::OnProgress;
use super::inflate::Compression;
use super::reference::Reference;
use super::registry::RegistryConfig;
use super::store::{Options, Store};
use base64::Engine;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RANGE, WWW_AUTHENTICATE};
use http::{Request, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub const OCI_MANIFEST: &str = super::manifest::OCI_MANIFEST;
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

pub fn compress(bytes: &[u8], compression: Compression) -> Vec<u8> {
    match compression {
        Compression::None => bytes.to_vec(),
        Compression::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("in memory");
            encoder.finish().expect("in memory")
        }
        Compression::Zstd => zstd::stream::encode_all(bytes, 1).expect("in memory"),
    }
}

/// An image's documents and blobs.
#[derive(Clone, Default)]
pub struct TestImage {
    pub manifest: Vec<u8>,
    pub media_type: String,
    pub config: Vec<u8>,
    pub layers: Vec<Vec<u8>>,
    pub diff_ids: Vec<Digest>,
}

impl TestImage {
    pub fn new(layers: Vec<Vec<u8>>, compression: Compression) -> TestImage {
        TestImage::of_type(OCI_MANIFEST, layers, compression)
    }

    pub fn of_type(media_type: &str, layers: Vec<Vec<u8>>, compression: Compression) -> TestImage {
        let diff_ids: Vec<Digest> = layers.iter().map(|layer| Digest::of(layer)).collect();
        let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids},
            "config": {"Entrypoint": ["/bin/app"], "Cmd": ["serve"], "Env": ["A=1"], "WorkingDir": "/w", "User": "7:8",
            "ExposedPorts": {"80/tcp": {}}, "StopSignal": "SIGINT", "Volumes": {"/data": {}}, "Labels": {"l": "v"}}});
        let config = config.to_string().into_bytes();
        let layers: Vec<Vec<u8>> = layers.iter().map(|layer| compress(layer, compression)).collect();
        let mut image = TestImage { manifest: Vec::new(), media_type: media_type.to_owned(), config, layers, diff_ids };
        image.manifest = image.compose().to_string().into_bytes();
        image
    }

    fn compose(&self) -> Value {
        let describe = |bytes: &Vec<u8>| json!({"mediaType": "x", "digest": Digest::of(bytes), "size": bytes.len()});
        let layers: Vec<Value> = self.layers.iter().map(describe).collect();
        json!({"schemaVersion": 2, "mediaType": self.media_type, "config": describe(&self.config), "layers": layers})
    }

    pub fn digest(&self) -> Digest {
        Digest::of(&self.manifest)
    }

    pub fn blob(&self, at: usize) -> Digest {
        Digest::of(&self.layers[at])
    }
}

/// Two layers: the second deletes, replaces and hides.
pub fn small_image(compression: Compression) -> TestImage {
    let base = Layer::default().folder("etc", 0o755).file("etc/name", "base").file("etc/gone", "x").tar();
    let top = Layer::default().file("etc/name", "top").file("etc/.wh.gone", "").tar();
    TestImage::new(vec![base, top], compression)
}

/// How the registry treats the next request for a blob.
#[derive(Clone, Copy)]
pub enum Fault {
    Status(u16),
    /// Breaks the connection after so many bytes.
    Cut(usize),
    /// Sends so many bytes and then nothing.
    Hang(usize),
    Corrupt,
    NoRange,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Door {
    Open,
    Basic,
    Token,
}

struct State {
    manifests: BTreeMap<String, (String, Vec<u8>)>,
    blobs: BTreeMap<String, Vec<u8>>,
    faults: BTreeMap<String, VecDeque<Fault>>,
    requests: Vec<String>,
    door: Door,
    /// Whether the token server gives tokens to anybody.
    is_public: bool,
}

/// A registry on loopback; it ends with the runtime.
#[derive(Clone)]
pub struct TestRegistry {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    stop: Arc<tokio::task::JoinHandle<()>>,
}

type Answer = Response<StreamBody<BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>>>;

impl TestRegistry {
    pub async fn start() -> TestRegistry {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let state = Arc::new(Mutex::new(State {
            manifests: BTreeMap::new(),
            blobs: BTreeMap::new(),
            faults: BTreeMap::new(),
            requests: Vec::new(),
            door: Door::Open,
            is_public: true,
        }));
        let shared = state.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = shared.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let answer = answer(&state, &request, address);
                        async move { Ok::<_, std::convert::Infallible>(answer) }
                    });
                    // A client that hangs up is part of the tests.
                    drop(
                        hyper::server::conn::http1::Builder::new()
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                });
            }
        });
        TestRegistry { address, state, stop: Arc::new(task) }
    }

    /// Nothing listens any more.
    pub fn shut(&self) {
        self.stop.abort();
    }

    pub fn reference(&self, name: &str) -> Reference {
        Reference::parse(&format!("{}/{name}", self.address)).expect("well formed")
    }

    pub fn push(&self, name: &str, image: &TestImage) -> Reference {
        let reference = self.reference(name);
        let mut state = self.state.lock();
        for blob in image.layers.iter().chain([&image.config]) {
            state.blobs.insert(Digest::of(blob).to_string(), blob.clone());
        }
        for selector in [reference.selector(), image.digest().as_str()] {
            let key = format!("{}:{selector}", reference.repository());
            state.manifests.insert(key, (image.media_type.clone(), image.manifest.clone()));
        }
        reference
    }

    pub fn push_document(&self, name: &str, media_type: &str, bytes: Vec<u8>) -> Reference {
        let reference = self.reference(name);
        let key = format!("{}:{}", reference.repository(), reference.selector());
        self.state.lock().manifests.insert(key, (media_type.to_owned(), bytes));
        reference
    }

    pub fn fault(&self, blob: &Digest, faults: &[Fault]) {
        self.state.lock().faults.insert(blob.to_string(), faults.iter().copied().collect());
    }

    pub fn close_door(&self, door: Door, is_public: bool) {
        let mut state = self.state.lock();
        (state.door, state.is_public) = (door, is_public);
    }

    /// The requests so far that hold a text.
    pub fn requests(&self, part: &str) -> Vec<String> {
        self.state.lock().requests.iter().filter(|request| request.contains(part)).cloned().collect()
    }
}

fn answer(state: &Mutex<State>, request: &Request<Incoming>, address: SocketAddr) -> Answer {
    let mut state = state.lock();
    let header =
        |name| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let (path, range, authorization) = (request.uri().path().to_owned(), header(RANGE), header(AUTHORIZATION));
    state.requests.push(format!("{path} {range}").trim().to_owned());
    let right = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode("user:secret"));
    if path == "/token" {
        return match authorization == right || (authorization.is_empty() && state.is_public) {
            true => plain(StatusCode::OK, "application/json", br#"{"token":"good","expires_in":300}"#.to_vec()),
            false => plain(StatusCode::UNAUTHORIZED, "application/json", b"{}".to_vec()),
        };
    }
    let (is_allowed, challenge) = match state.door {
        Door::Open => (true, String::new()),
        Door::Basic => (authorization == right, "Basic realm=\"test\"".to_owned()),
        Door::Token => {
            (authorization == "Bearer good", format!("Bearer realm=\"http://{address}/token\",service=\"test\""))
        }
    };
    if !is_allowed {
        let mut refused =
            plain(StatusCode::UNAUTHORIZED, "application/json", br#"{"errors":[{"code":"UNAUTHORIZED"}]}"#.to_vec());
        refused.headers_mut().insert(WWW_AUTHENTICATE, challenge.parse().expect("ascii"));
        return refused;
    }
    let missing =
        || plain(StatusCode::NOT_FOUND, "application/json", br#"{"errors":[{"code":"MANIFEST_UNKNOWN"}]}"#.to_vec());
    let rest = path.trim_start_matches("/v2/");
    if let Some((repository, selector)) = rest.split_once("/manifests/") {
        return match state.manifests.get(&format!("{repository}:{selector}")) {
            Some((kind, bytes)) => plain(StatusCode::OK, kind, bytes.clone()),
            None => missing(),
        };
    }
    let digest = rest.rsplit('/').next().unwrap_or_default().to_owned();
    let fault = state.faults.get_mut(&digest).and_then(VecDeque::pop_front);
    match state.blobs.get(&digest) {
        Some(blob) => blob_answer(blob.clone(), &range, fault),
        None => missing(),
    }
}

fn blob_answer(mut blob: Vec<u8>, range: &str, fault: Option<Fault>) -> Answer {
    let from =
        range.strip_prefix("bytes=").and_then(|range| range.trim_end_matches('-').parse::<usize>().ok()).unwrap_or(0);
    let from = if matches!(fault, Some(Fault::NoRange)) { 0 } else { from };
    let status = if from > 0 { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let rest = blob.split_off(from);
    let kind = "application/octet-stream";
    match fault {
        Some(Fault::Status(code)) => plain(StatusCode::from_u16(code).expect("a status"), kind, Vec::new()),
        Some(Fault::Corrupt) => plain(status, kind, rest.iter().map(|byte| byte ^ 1).collect()),
        Some(Fault::NoRange) | None => plain(status, kind, rest),
        Some(Fault::Cut(count)) => {
            let head = futures::stream::iter([Ok(Frame::data(Bytes::from(rest[..count].to_vec())))]);
            // The pause lets the bytes out before the connection breaks.
            let cut = futures::stream::once(async {
                tokio::task::yield_now().await;
                Err(std::io::Error::other("cut"))
            });
            streamed(status, kind, head.chain(cut).boxed())
        }
        Some(Fault::Hang(count)) => {
            let head = futures::stream::iter([Ok(Frame::data(Bytes::from(rest[..count].to_vec())))]);
            streamed(status, kind, head.chain(futures::stream::pending()).boxed())
        }
    }
}

fn plain(status: StatusCode, kind: &str, bytes: Vec<u8>) -> Answer {
    streamed(status, kind, futures::stream::iter([Ok(Frame::data(Bytes::from(bytes)))]).boxed())
}

fn streamed(
    status: StatusCode,
    kind: &str,
    frames: BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>,
) -> Answer {
    Response::builder().status(status).header(CONTENT_TYPE, kind).body(StreamBody::new(frames)).expect("well formed")
}

/// A provider for TLS, as the program installs it at its start.
pub fn install_tls() {
    // A second test in the same process finds it installed.
    drop(rustls::crypto::ring::default_provider().install_default());
}

pub fn options() -> Options {
    install_tls();
    let registries =
        RegistryConfig { backoff: Duration::ZERO, backoff_max: Duration::ZERO, ..RegistryConfig::default() };
    Options {
        registries,
        platform: super::manifest::Platform {
            os: "linux".into(),
            architecture: "amd64".into(),
            variant: String::new(),
        },
        ..Options::default()
    }
}

pub async fn store(root: &Path) -> Store {
    Store::open(root, options()).await.expect("opens")
}

pub fn quiet() -> OnProgress {
    Arc::new(|_| ())
}

/// The names below a folder, sorted.
pub fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
