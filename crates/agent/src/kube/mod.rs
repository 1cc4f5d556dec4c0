//! The Kubernetes runner: any kind, by discovery, on the agent's own cluster or on one that a queue names.

pub mod calls;
mod deeds;
mod sight;
mod view;
mod watch;

use crate::attempt::Attempt;
use crate::runner::{Done, Failure, Log, Runner, Sight, Tails};
use calls::Kind;
use futures::future::BoxFuture;
use http::Request;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::{Client, Config, discovery};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock, Weak};
use tokio::sync::watch as channel;
use tokio::task::AbortHandle;
use view::{Row, View};
use volley_api::kube::text;
use volley_api::volcano;
use volley_client::part;
use volley_plan::agent::life::Deed;
use volley_plan::launch::kubernetes::Manifests;
use volley_plan::logs::sources::{self, Run, Source, Wanted};

/// Asks for a look at an item, by its key.
pub type Wake = Arc<dyn Fn(&str) + Send + Sync>;

/// What every cluster is used with.
#[derive(Clone)]
pub struct Terms {
    pub wake: Wake,
    /// The agent's own namespace, which is watched alone where more is not allowed.
    pub namespace: Option<String>,
    /// Makes the namespace of a workload where there is none: the embedded cluster has nobody else who would.
    pub makes_namespaces: bool,
}

/// One cluster.
pub struct Cluster {
    client: Client,
    name: OnceLock<String>,
    view: View,
    wake: Wake,
    namespace: Option<String>,
    makes_namespaces: bool,
    kinds: Mutex<BTreeMap<(String, String), Watched>>,
}

/// A kind that is watched.
#[derive(Clone)]
struct Watched {
    kind: Kind,
    row: Row,
    seen: channel::Receiver<bool>,
    _task: Arc<Task>,
}

/// A watch ends with the last who uses it.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cluster {
    pub fn new(client: Client, terms: &Terms) -> Arc<Cluster> {
        let cluster = Arc::new(Cluster {
            client,
            name: OnceLock::new(),
            view: View::default(),
            wake: terms.wake.clone(),
            namespace: terms.namespace.clone(),
            makes_namespaces: terms.makes_namespaces,
            kinds: Mutex::default(),
        });
        cluster.watch(Kind::new("v1", "Pod", "pods"), Row::Pod);
        cluster.watch(Kind::new("v1", "Secret", "secrets"), Row::Helper);
        cluster.watch(Kind::new("v1", "Event", "events"), Row::Event);
        cluster.watch(Kind::new(volcano::SCHEDULING, "PodGroup", "podgroups"), Row::Group);
        cluster.watch(Kind::new("batch/v1", "Job", "jobs"), Row::Workload);
        cluster
    }

    fn watch(self: &Arc<Self>, kind: Kind, row: Row) -> Watched {
        let (told, seen) = channel::channel(false);
        let own = Arc::downgrade(self);
        let followed = kind.clone();
        let following = async move {
            let Some(cluster) = Weak::upgrade(&own) else { return };
            watch::follow(cluster, followed, row, told).await;
            // What is not served has been seen.
            std::future::pending::<()>().await;
        };
        let task = Arc::new(Task(tokio::spawn(following).abort_handle()));
        let watched = Watched { kind: kind.clone(), row, seen, _task: task };
        self.kinds.lock().insert((kind.resource.api_version, kind.resource.kind), watched.clone());
        watched
    }

    /// The kind of an object, watched from now on (K-37, K-71).
    async fn kind_of(self: &Arc<Self>, object: &Value) -> Result<Watched, Failure> {
        let (version, name) = (text(object, "apiVersion"), text(object, "kind"));
        let known = |cluster: &Cluster| cluster.kinds.lock().get(&(version.to_owned(), name.to_owned())).cloned();
        if let Some(watched) = known(self) {
            return Ok(watched);
        }
        let (resource, is_namespaced) = self.discover(version, name).await?;
        // Another visit may have asked for it meanwhile.
        Ok(known(self).unwrap_or_else(|| self.watch(Kind { resource, is_namespaced }, Row::Workload)))
    }

    async fn discover(&self, version: &str, name: &str) -> Result<(kube::api::ApiResource, bool), Failure> {
        let (group, plain) = version.split_once('/').unwrap_or(("", version));
        let wanted = GroupVersionKind::gvk(group, plain, name);
        match discovery::pinned_kind(&self.client, &wanted).await {
            Ok((resource, able)) => Ok((resource, able.scope == discovery::Scope::Namespaced)),
            Err(error @ kube::Error::Discovery(_)) => Err(unknown_kind(version, name, &error)),
            Err(error) if calls::code(&error) == 404 => Err(unknown_kind(version, name, &error)),
            Err(error) => Err(Failure::from(error)),
        }
    }

    /// A kind that is not watched: only its path is needed.
    async fn plain_kind(&self, object: &Value) -> Result<Kind, Failure> {
        let (version, name) = (text(object, "apiVersion"), text(object, "kind"));
        if let Some(watched) = self.kinds.lock().get(&(version.to_owned(), name.to_owned())) {
            return Ok(watched.kind.clone());
        }
        let (resource, is_namespaced) = self.discover(version, name).await?;
        Ok(Kind { resource, is_namespaced })
    }

    /// The same for every agent of a cluster, however each calls it; nothing for one who may read neither name.
    async fn name(&self) -> Result<Option<String>, Failure> {
        if let Some(name) = self.name.get() {
            return Ok(Some(name.clone()));
        }
        let name = match self.told("/api/v1/namespaces/kube-system").await? {
            Some(namespace) => Some(text(&namespace, "metadata.uid").to_owned()).filter(|uid| !uid.is_empty()),
            // Every account of a pod may read which keys sign its tokens, and no two clusters have the same.
            None => self.told("/openid/v1/jwks").await?.as_ref().and_then(calls::signer),
        };
        Ok(name.map(|name| self.name.get_or_init(|| name).clone()))
    }

    /// What there is at a path, or null; nothing to one who may not read it.
    async fn told(&self, path: &str) -> Result<Option<Value>, Failure> {
        let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        match calls::ask(&self.client, request).await {
            Ok(told) => Ok(Some(told)),
            Err(error) if calls::code(&error) == 404 => Ok(Some(Value::Null)),
            Err(error) if calls::code(&error) == 403 => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns when all that is decided by has been listed; events and groups only say more.
    async fn seen(&self) {
        let is_needed = |watched: &&Watched| matches!(watched.row, Row::Workload | Row::Pod | Row::Helper);
        let all: Vec<channel::Receiver<bool>> =
            self.kinds.lock().values().filter(is_needed).map(|watched| watched.seen.clone()).collect();
        for mut seen in all {
            // The sender lives as long as the watch.
            let _ = seen.wait_for(|seen| *seen).await;
        }
    }

    /// Watches the kinds that pods of an item belong to, where nothing else says what its workload is.
    async fn watch_owners(self: &Arc<Self>, key: &str) -> Done {
        self.seen().await;
        for (version, kind) in self.view.owners(key) {
            match self.kind_of(&json!({ "apiVersion": version, "kind": kind })).await {
                Ok(_) | Err(Failure::Refused(_)) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Forgets the watches, which refer to the cluster.
    pub fn close(&self) {
        self.kinds.lock().clear();
    }
}

fn unknown_kind(version: &str, name: &str, error: &kube::Error) -> Failure {
    Failure::Refused(format!(
        "the cluster has no kind `{name}` of `{version}` ({error}); hint: install its operator, or `volley operator manifests`"
    ))
}

/// All clusters that items run on: the agent's own, and those that queues name by a kubeconfig.
pub struct KubeRunner {
    own: Option<Arc<Cluster>>,
    named: Mutex<BTreeMap<(Option<String>, Option<String>), Arc<Cluster>>>,
    terms: Terms,
}

impl KubeRunner {
    pub fn new(own: Option<Client>, terms: Terms) -> KubeRunner {
        KubeRunner { own: own.map(|client| Cluster::new(client, &terms)), named: Mutex::default(), terms }
    }

    fn known(&self, manifests: &Manifests) -> Option<Arc<Cluster>> {
        match (&manifests.config_file, &manifests.context) {
            (None, None) if self.own.is_some() => self.own.clone(),
            (file, context) => self.named.lock().get(&(file.clone(), context.clone())).cloned(),
        }
    }

    async fn cluster(&self, manifests: &Manifests) -> Result<Arc<Cluster>, Failure> {
        if let Some(cluster) = self.known(manifests) {
            return Ok(cluster);
        }
        let (file, context) = (manifests.config_file.clone(), manifests.context.clone());
        let client = connect(file.as_deref(), context.as_deref()).await.map_err(Failure::Refused)?;
        let cluster = Cluster::new(client, &self.terms);
        Ok(self.named.lock().entry((file, context)).or_insert(cluster).clone())
    }

    /// Where something of an item was seen, else the agent's own.
    fn holder(&self, key: &str) -> Option<Arc<Cluster>> {
        let named = self.named.lock();
        named.values().find(|cluster| cluster.view.has(key)).or(self.own.as_ref()).cloned()
    }

    /// Where an attempt is, as far as it is known: by its manifests, or by what is there of one that is refused now.
    fn known_place(&self, attempt: &Attempt) -> Option<Arc<Cluster>> {
        match attempt.manifests() {
            Ok(manifests) => self.known(manifests),
            Err(_) => self.holder(&attempt.key),
        }
    }

    async fn place(&self, attempt: &Attempt) -> Result<Arc<Cluster>, Failure> {
        match attempt.manifests() {
            Ok(manifests) => self.cluster(manifests).await,
            Err(refused) => self.holder(&attempt.key).ok_or(refused),
        }
    }

    /// The agent's own cluster, where it has one.
    pub fn own_client(&self) -> Option<Client> {
        self.own.as_ref().map(|cluster| cluster.client.clone())
    }

    /// What that cluster is called.
    pub async fn own_name(&self) -> Option<String> {
        self.own.as_ref()?.name().await.ok().flatten()
    }

    /// Whether something of this item is there.
    pub fn has(&self, key: &str) -> bool {
        let named = self.named.lock();
        self.own.iter().chain(named.values()).any(|cluster| cluster.view.has(key))
    }

    pub fn close(&self) {
        self.own.iter().for_each(|cluster| cluster.close());
        self.named.lock().values().for_each(|cluster| cluster.close());
    }
}

/// A client by a kubeconfig: the named one, else the usual one, else a pod's own account (K-10, K-11).
pub async fn connect(file: Option<&str>, context: Option<&str>) -> Result<Client, String> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match file {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(|error| format!("kubeconfig `{file}`: {error}"))?;
            let mut names: Vec<String> = read.contexts.iter().map(|context| context.name.clone()).collect();
            names.sort();
            let made = Config::from_custom_kubeconfig(read, &options).await;
            made.map_err(|error| format!("kubeconfig `{file}`: {error}; its contexts are {}", names.join(", ")))?
        }
        None if context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(|error| format!("the usual kubeconfig: {error}"))?
        }
        None => Config::infer().await.map_err(|error| format!("no cluster is known: {error}"))?,
    };
    // A followed log may be silent for hours.
    config.read_timeout = None;
    Client::try_from(config).map_err(|error| format!("the cluster's client: {error}"))
}

impl Runner for KubeRunner {
    fn ready<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Done> {
        Box::pin(async move {
            let cluster = self.place(attempt).await?;
            match attempt.manifests() {
                Ok(manifests) => drop(cluster.kind_of(&manifests.workload).await?),
                Err(_) => cluster.watch_owners(&attempt.key).await?,
            }
            cluster.seen().await;
            Ok(())
        })
    }

    fn site<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Option<String>, Failure>> {
        Box::pin(async move { self.cluster(attempt.manifests()?).await?.name().await })
    }

    fn observe(&self, attempt: &Attempt, tails: Tails<'_>) -> Sight {
        let cluster = self.known_place(attempt);
        cluster.map(|cluster| sight::of(&cluster.view.around(&attempt.key), attempt, tails)).unwrap_or_default()
    }

    fn act<'a>(&'a self, attempt: &'a Attempt, deed: &'a Deed) -> BoxFuture<'a, Done> {
        Box::pin(async move {
            let cluster = self.place(attempt).await?;
            deeds::act(&cluster, attempt, deed).await
        })
    }

    fn sources(&self, attempt: &Attempt, read: &BTreeSet<Run>) -> Vec<Source> {
        let cluster = self.known_place(attempt);
        let Some(around) = cluster.map(|cluster| cluster.view.around(&attempt.key)) else { return Vec::new() };
        let Some(workload) = sight::present(&around, attempt) else { return Vec::new() };
        let pods: Vec<Value> = sight::own_pods(&around, attempt).cloned().collect();
        sources::find(workload, &pods, &Wanted::default(), read).sources
    }

    fn open<'a>(
        &'a self,
        attempt: &'a Attempt,
        source: &'a Source,
        since: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Log, Failure>> {
        Box::pin(async move {
            let cluster = self.place(attempt).await?;
            let namespace = match attempt.manifests() {
                Ok(manifests) => manifests.namespace.clone(),
                Err(refused) => {
                    let around = cluster.view.around(&attempt.key);
                    let workload = sight::present(&around, attempt).ok_or(refused)?;
                    text(workload, "metadata.namespace").to_owned()
                }
            };
            let mut path = format!(
                "/api/v1/namespaces/{}/pods/{}/log?timestamps=true&follow=true&container={}",
                part(&namespace),
                part(&source.pod),
                part(&source.run.container)
            );
            if source.is_previous {
                path += "&previous=true";
            }
            if let Some(since) = since {
                path += &format!("&sinceTime={}", part(since));
            }
            let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            let stream = cluster.client.request_stream(request).await?;
            Ok(Box::pin(stream) as Log)
        })
    }
}
