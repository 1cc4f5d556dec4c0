//! The API server: HTTP in, the store below, Status errors and watches out.
//!
//! Reading order: `catalogue` (what is served) → `request`, `call` (what is asked) → `write`, `delete`, `list`, `watch` (the
//! verbs, the same for all kinds) → `strategy`, `admission` (where kinds differ) → `serve`, `auth` (the doors).

pub mod catalogue;
pub mod request;
pub mod call;
pub mod object;
pub mod answer;
pub mod write;
pub mod patch_words;
pub mod strategy;
pub mod admission;
pub mod addresses;
pub mod delete;
pub mod list;
pub mod tables;
pub mod watch;
pub mod custom;
pub mod subresource;
pub mod reviews;
pub mod node_door;
pub mod sessions;
pub mod usage;
pub mod discovery;
pub mod openapi;
pub mod documents;
pub mod auth;
pub mod tokens;
pub mod neighbour;
pub mod metrics;
pub mod bootstrap;
pub mod local;
pub mod kubeconfig;
pub mod serve;
pub mod pki;
pub mod gzip;

use crate::store::{CommitError, Store, Write};
use addresses::Addresses;
use answer::Answer;
use bytes::Bytes;
use call::Call;
use catalogue::{Catalogue, Resource};
use futures::FutureExt;
use http::{HeaderMap, Method, Request};
use hyper::upgrade::OnUpgrade;
use jiff::Timestamp;
use object::{Meta, Stored};
use parking_lot::RwLock;
use request::{Form, Query, ResourcePath, negotiate};
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokens::Tokens;
use tokio_util::sync::CancellationToken;
use volley_api::kube::status::ApiError;
use volley_api::kubeflow;
use volley_plan::access::{Rules, User};

/// Requests other than watches end after this long, or after their `timeout` if that is less (spec K-HTTP-3).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest body (spec K-CT-8).
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Subresources that answer with a stream of their own, whatever the client accepts (spec K-CT-2).
const STREAMED: &[&str] = &["log", "exec", "attach", "portforward"];

/// The first two octets of the net that services get their addresses from.
const SERVICE_NET: [u8; 2] = [10, 96];

/// The API server. One per process; shared by connections, controllers and in-process clients.
pub struct ApiServer {
    pub store: Arc<Store<Meta>>,
    catalogue: RwLock<Arc<Catalogue>>,
    /// Serialises changes of the catalogue.
    customs_lock: tokio::sync::Mutex<()>,
    rules: RwLock<Arc<Rules>>,
    rules_stale: AtomicBool,
    pub(crate) addresses: Addresses,
    pub tokens: Tokens,
    admin_token: String,
    pub ca_pem: String,
    address: RwLock<String>,
    pub metrics: metrics::Metrics,
    /// What the scheduler counts.
    pub scheduling: Arc<volley_scheduler::metrics::Metrics>,
    node: OnceLock<Arc<dyn node_door::NodeDoor>>,
    /// What training jobs are held to.
    training: kubeflow::Rules,
    /// Ends what is served on upgraded connections, which nobody else holds.
    pub(crate) sessions: CancellationToken,
}

impl ApiServer {
    /// Opens the server on a store, with the keys of its home; nothing listens yet.
    pub async fn open(store: Arc<Store<Meta>>, pki: &pki::Pki, training: kubeflow::Rules) -> Arc<ApiServer> {
        let catalogue = Catalogue::new(|name| store.bucket(name), &[]);
        let server = Arc::new(ApiServer {
            addresses: Addresses::new(SERVICE_NET),
            store,
            catalogue: RwLock::new(Arc::new(catalogue)),
            customs_lock: Default::default(),
            rules: RwLock::new(Arc::new(Rules::default())),
            rules_stale: AtomicBool::new(true),
            tokens: Tokens::new(&pki.token_key),
            admin_token: pki.admin_token.clone(),
            ca_pem: pki.ca_pem.clone(),
            address: RwLock::new(String::new()),
            metrics: metrics::Metrics::default(),
            scheduling: Arc::default(),
            node: OnceLock::new(),
            training,
            sessions: CancellationToken::new(),
        });
        server.refresh_customs().await;
        server.learn_addresses();
        server
    }

    pub fn catalogue(&self) -> Arc<Catalogue> {
        self.catalogue.read().clone()
    }

    /// `host:port` that clients reach us at.
    pub fn address(&self) -> String {
        self.address.read().clone()
    }

    pub fn set_address(&self, address: &str) {
        *self.address.write() = address.to_owned();
    }

    /// The rules of access, brought up to date if a role or binding changed since the last question.
    pub fn rules(&self) -> Arc<Rules> {
        if self.rules_stale.load(Ordering::Acquire) {
            // Whoever finds the flag lowered waits here for the rules that go with it.
            let mut rules = self.rules.write();
            if self.rules_stale.swap(false, Ordering::AcqRel) {
                *rules = Arc::new(self.rules_as_stored());
            }
        }
        self.rules.read().clone()
    }

    fn rules_as_stored(&self) -> Rules {
        let plurals = ["roles", "rolebindings", "clusterroles", "clusterrolebindings"];
        let listings = plurals.map(|plural| {
            let bucket = self.store.bucket(&catalogue::bucket_name("rbac.authorization.k8s.io", plural));
            self.store.list(&bucket, "").entries
        });
        let objects: Vec<Value> = listings.iter().flatten().map(|stored| object::parse(stored)).collect();
        Rules::new(&objects)
    }

    /// Commits writes and lets the rest of the server know; the first entry is returned.
    pub async fn commit(
        &self,
        resource: &Resource,
        writes: Vec<Write<Meta>>,
    ) -> Result<Arc<Stored>, CommitError<Meta>> {
        let entries = self.store.commit(writes).await?;
        match (&*resource.group, &*resource.plural) {
            ("apiextensions.k8s.io", _) => self.refresh_customs().await,
            ("rbac.authorization.k8s.io", _) => self.rules_stale.store(true, Ordering::Release),
            _ => {}
        }
        // A CRD's status is written by the refresh; its answer shows what is stored now.
        let current = entries.into_iter().next().expect("a commit has at least one write");
        if &*resource.group == "apiextensions.k8s.io" {
            return Ok(self.store.get(&resource.bucket, &current.key).unwrap_or(current));
        }
        Ok(current)
    }

    /// An object as it is stored: events are kept in the core form (spec K-EVT-1), autoscalers in their newer version.
    fn stored_form(&self, resource: &Resource, object: Value) -> Value {
        match object::Convert::of(resource) {
            Some(convert) => (convert.to_stored)(&object),
            None => object,
        }
    }

    /// Answers any request. `user` is who the connection or its headers proved to be.
    pub async fn handle(self: &Arc<Self>, request: Request<Bytes>, user: Arc<User>) -> Answer {
        let started = std::time::Instant::now();
        let method = request.method().clone();
        let limit = self.time_limit(&request);
        // A panic is a bug of ours; it costs its request, never the connection that others share.
        let work = std::panic::AssertUnwindSafe(self.route(request, user)).catch_unwind();
        let mut answer = match tokio::time::timeout(limit, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_panic)) => answer::error(&ApiError::internal("the request met a fault of the server; see its log")),
            Err(_) => answer::error(&ApiError::new(
                504,
                "Timeout",
                "Timeout: request did not complete within the allotted timeout",
            )),
        };
        self.metrics.request(method.as_str(), answer.status().as_u16(), started.elapsed());
        if let Ok(id) = http::HeaderValue::from_str(&uuid::Uuid::new_v4().to_string()) {
            answer.headers_mut().insert("audit-id", id);
        }
        answer
    }

    fn time_limit(&self, request: &Request<Bytes>) -> Duration {
        let query = Query::parse(request.uri().query().unwrap_or_default());
        let asked = volley_api::kube::time::parse_duration(query.text("timeout"));
        asked
            .and_then(|asked| Duration::try_from(asked).ok())
            .map_or(REQUEST_TIMEOUT, |asked| REQUEST_TIMEOUT.min(asked))
    }

    async fn route(self: &Arc<Self>, request: Request<Bytes>, user: Arc<User>) -> Answer {
        let path = request.uri().path().to_owned();
        let user = match self.impersonated(request.headers(), user) {
            Ok(user) => user,
            Err(error) => return answer::error(&error),
        };
        let Some(target) = ResourcePath::parse(&path) else {
            return self.path_request(&path, &request, &user);
        };
        match self.resource_request(target, request, user).await {
            Ok(answer) => answer,
            Err(error) => answer::error(&error),
        }
    }

    /// Paths that are not of a resource: health, version, discovery, OpenAPI, metrics.
    fn path_request(&self, path: &str, request: &Request<Bytes>, user: &User) -> Answer {
        let verb = request.method().as_str().to_lowercase();
        let asked = volley_plan::access::Request::Path { verb: &verb, path };
        if self.rules().allowed(user, &asked).is_none() {
            return answer::error(&volley_plan::access::forbidden(user, &asked));
        }
        let query = Query::parse(request.uri().query().unwrap_or_default());
        match path.trim_end_matches('/') {
            "/livez" => health("livez", None, &query),
            "/healthz" | "/readyz" => {
                health(path.trim_matches('/'), self.store.failure().map(ToString::to_string), &query)
            }
            "/version" => answer::value(200, &discovery::version(), Form::JSON),
            "/metrics" => answer::text(200, self.metrics.render(self) + &self.scheduling.render()),
            "" => answer::value(200, &self.paths(), Form::JSON),
            "/.well-known/openid-configuration" => answer::value(200, &self.tokens.openid(&self.address()), Form::JSON),
            "/openid/v1/jwks" => answer::value(200, &self.tokens.jwks(), Form::JSON),
            other => self
                .discovery(other, request.headers())
                .or_else(|| self.openapi(other, &query, request.headers()))
                .unwrap_or_else(answer::no_page),
        }
    }

    fn paths(&self) -> Value {
        let mut paths: Vec<String> =
            ["/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", "/readyz", "/version", "/api", "/apis"]
                .iter()
                .map(ToString::to_string)
                .collect();
        for (group, versions) in &self.catalogue().groups {
            paths.extend(versions.iter().map(|version| match &**group {
                "" => format!("/api/{version}"),
                group => format!("/apis/{group}/{version}"),
            }));
        }
        paths.sort();
        serde_json::json!({"paths": paths})
    }

    async fn resource_request(
        self: &Arc<Self>,
        path: ResourcePath,
        request: Request<Bytes>,
        user: Arc<User>,
    ) -> Result<Answer, ApiError> {
        let catalogue = self.catalogue();
        let Some(resource) = catalogue.get(&path.group, &path.version, &path.plural).cloned() else {
            let known = catalogue.groups.iter().any(|(group, _)| **group == *path.group);
            return if known { Err(ApiError::unknown_resource()) } else { Ok(answer::no_page()) };
        };
        let (mut parts, body) = request.into_parts();
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let verb = verb(&parts.method, &path, &query)?;
        check_scope(&resource, &path, verb)?;
        self.authorize(&user, verb, &path, &query)?;
        let form = if STREAMED.contains(&&*path.subresource) {
            // To connect is to change something, also where a WebSocket can only begin with a GET.
            if path.subresource != "log" {
                self.authorize(&user, "create", &path, &query)?;
            }
            Form::JSON
        } else {
            negotiate(&header(&parts.headers, "accept"), true)?
        };
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        let upgrade = upgrade.map(|connection| call::Upgrade { headers: parts.headers.clone(), connection });
        let header = |name: &str| header(&parts.headers, name);
        let mut call = Call {
            resource,
            path,
            query,
            user,
            now: Timestamp::now(),
            accept: header("accept"),
            content_type: header("content-type"),
            user_agent: header("user-agent"),
            body,
            via: "",
            reserved: None,
            warnings: Vec::new(),
            upgrade,
        };
        call.warnings.extend(deprecation(&call.resource));
        if verb == "watch" && call.resource.role != catalogue::Role::Answered {
            let warnings = std::mem::take(&mut call.warnings);
            let mut answer = self.watch(call, form)?;
            answer::warn(&mut answer, &warnings);
            return Ok(answer);
        }
        // What was odd about a request is told even when something else about it was wrong.
        let mut answer = self.verb(verb, &mut call, form).await.unwrap_or_else(|error| answer::error(&error));
        answer::warn(&mut answer, &call.warnings);
        Ok(answer)
    }

    /// Runs one verb on one resource or subresource.
    async fn verb(self: &Arc<Self>, verb: &str, call: &mut Call, form: Form) -> Result<Answer, ApiError> {
        let subresource = call.path.subresource.clone();
        if !subresource.is_empty() && !call.resource.has(&subresource) {
            return Err(subresource::absent(&call.resource, &subresource));
        }
        if !matches!(subresource.as_str(), "" | "status" | "finalize" | "ephemeralcontainers")
            || call.resource.role == catalogue::Role::Answered
        {
            return self.other_subresource(verb, call, form).await;
        }
        let written = match verb {
            "get" => return self.get(call, form),
            "list" => return self.list(call, form).await,
            "delete" if subresource.is_empty() => return self.delete(call, form).await,
            "deletecollection" if call.resource.verbs.contains(&"deletecollection") => {
                return self.delete_collection(call, form).await;
            }
            "create" if subresource.is_empty() && call.path.name.is_empty() => {
                let written = self.create(call).await?;
                if call.resource.is("", "namespaces") && call.query.get("dryRun").is_none() {
                    self.fill_new_namespace(&written.name()).await;
                }
                written
            }
            "update" => self.update(call).await?,
            "patch" => self.patch(call).await?,
            _ => return Err(ApiError::method_not_allowed()),
        };
        let code = if written.created { 201 } else { 200 };
        match written.bytes(&call.resource).filter(|_| form == Form::JSON) {
            Some(bytes) => Ok(answer::bytes(code, bytes)),
            None => Ok(self.object_answer(code, &call.resource, &written.into_object(&call.resource), form, call)),
        }
    }
}

impl ApiServer {
    /// A namespace has its account by the time its creator hears of it: the next request may be a pod.
    async fn fill_new_namespace(&self, name: &str) {
        if let Err(error) = self.fill_namespace(name).await {
            tracing::debug!(%error, name, "a new namespace is left to its controller");
        }
    }
}

/// What the users of a deprecated kind or version are told (spec K-ADM-8).
fn deprecation(resource: &Resource) -> Option<String> {
    match &resource.custom {
        Some(custom) => custom.deprecation.clone(),
        None if resource.is("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
        }
        None if resource.is("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
        None => None,
    }
}

/// Whether a path is one of its resource: in a namespace, on all of them, or outside (spec K 14.2).
fn check_scope(resource: &Resource, path: &ResourcePath, verb: &str) -> Result<(), ApiError> {
    let in_namespace = !path.namespace.is_empty();
    if in_namespace && !resource.namespaced {
        return Err(ApiError::unknown_resource());
    }
    if !resource.namespaced || in_namespace {
        return Ok(());
    }
    match verb {
        _ if !path.name.is_empty() => Err(ApiError::unknown_resource()),
        "create" | "deletecollection" => Err(ApiError::method_not_allowed()),
        _ => Ok(()),
    }
}

/// `ok`, or what is wrong; the server is alive as long as it answers, and ready as long as it can write.
fn health(name: &str, failure: Option<String>, query: &Query) -> Answer {
    match failure {
        Some(why) => answer::text(500, format!("[+]ping ok\n[-]store failed: {why}\n{name} check failed\n")),
        None if query.get("verbose").is_some() => {
            answer::text(200, format!("[+]ping ok\n[+]store ok\n{name} check passed\n"))
        }
        None => answer::text(200, "ok"),
    }
}

fn header(headers: &HeaderMap, name: &str) -> String {
    let all: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
    all.join(",")
}

/// The verb that access rules know for a method and path.
fn verb(method: &Method, path: &ResourcePath, query: &Query) -> Result<&'static str, ApiError> {
    let on_list = path.name.is_empty();
    Ok(match *method {
        Method::GET | Method::HEAD if on_list && (path.watch || query.flag("watch")) => "watch",
        Method::GET | Method::HEAD if path.watch => "watch",
        Method::GET | Method::HEAD if on_list => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT if !on_list => "update",
        Method::PATCH if !on_list => "patch",
        Method::DELETE if on_list => "deletecollection",
        Method::DELETE => "delete",
        _ => return Err(ApiError::method_not_allowed()),
    })
}
