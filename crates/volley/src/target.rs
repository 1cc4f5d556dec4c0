//! Which cluster a verb speaks to, and how: the kubeconfig is found here, requests are sent here, and what a user is told
//! when nothing answers is worded here.
//!
//! Objects are plain JSON, as everywhere: a type would drop the fields that it does not know.

use crate::home::Home;
use crate::status;
use anyhow::{Context, Error, Result, anyhow, bail};
use clap::Args;
use futures::io::AsyncBufRead;
use http::{Method, Request, Uri, header};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;
use volley_api::kube::names::path_segment;

/// Longer than any working network takes, and short enough for somebody who waits.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// What stays as it is in a value of a query.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Options of verbs that speak to a cluster.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct TargetArgs {
    /// The kubeconfig [default: $KUBECONFIG, else the volley that runs here, else ~/.kube/config]
    #[arg(short = 'k', long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context in it [default: the current one]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// The address of the API server, in place of the kubeconfig's
    #[arg(short = 's', long = "master", alias = "server", value_name = "URL")]
    master: Option<String>,
}

/// Where a verb looks for namespaced objects.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub struct NamespaceArgs {
    /// The namespace [default: the context's, else default]
    #[arg(short = 'n', long, value_name = "NAME")]
    pub namespace: Option<String>,
}

/// A kind of object in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resource {
    pub api_version: &'static str,
    pub plural: &'static str,
}

/// A cluster to speak to.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    /// The context's.
    pub namespace: String,
    address: String,
    /// Where the address is from.
    origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    File(PathBuf),
    /// `$KUBECONFIG`, which may name several files.
    Variable(String),
    Running(PathBuf),
    Option,
}

/// Does a verb's work, which needs no more than one thread.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(work)
}

impl TargetArgs {
    pub async fn connect(&self, home: &Home) -> Result<Cluster> {
        let (mut origin, found) = self.find(home)?;
        let mut config = match found {
            Some(kubeconfig) => self.config(kubeconfig, &origin).await?,
            None => Config::new(Uri::from_static("https://localhost")),
        };
        if let Some(master) = &self.master {
            config.cluster_url = master.parse().with_context(|| format!("`{master}` is not an address"))?;
            origin = Origin::Option;
        }
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A followed log may be silent for hours.
        config.read_timeout = None;
        let (namespace, address) = (config.default_namespace.clone(), config.cluster_url.to_string());
        let client = Client::try_from(config).map_err(|error| anyhow!("{}: {}", origin, root_cause(&error)))?;
        Ok(Cluster { client, namespace, address: address.trim_end_matches('/').to_owned(), origin })
    }

    /// Whether somebody said which cluster is meant.
    pub fn is_named(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || self.master.is_some()
    }

    /// A client for whoever does more than a verb.
    pub async fn client(&self, home: &Home) -> Result<Client> {
        self.connect(home).await.map(|cluster| cluster.client)
    }

    async fn config(&self, kubeconfig: Kubeconfig, origin: &Origin) -> Result<Config> {
        let mut names: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
        names.sort();
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(|error| {
            let names = if names.is_empty() { "no contexts".to_owned() } else { names.join(", ") };
            anyhow!("{origin} cannot be used: {error}\nhint: it has {names}; --context chooses one")
        })
    }

    /// The kubeconfig that is meant; none when an address is all that is given.
    fn find(&self, home: &Home) -> Result<(Origin, Option<Kubeconfig>)> {
        let read = |origin: Origin, path: &PathBuf| match Kubeconfig::read_from(path) {
            Ok(kubeconfig) => Ok((origin, Some(kubeconfig))),
            Err(error) => Err(anyhow!("`{}` cannot be used: {}", path.display(), root_cause(&error))),
        };
        if let Some(path) = &self.kubeconfig {
            return read(Origin::File(path.clone()), path);
        }
        if let Some(listed) = std::env::var_os("KUBECONFIG").filter(|listed| !listed.is_empty()) {
            let listed = listed.to_string_lossy().into_owned();
            let kubeconfig = Kubeconfig::from_env();
            let kubeconfig = kubeconfig.map_err(|error| anyhow!("KUBECONFIG (`{listed}`): {}", root_cause(&error)))?;
            return Ok((Origin::Variable(listed), kubeconfig));
        }
        if status::of(home)?.is_some() {
            return read(Origin::Running(home.folder().to_owned()), &home.kubeconfig());
        }
        let own = std::env::home_dir().unwrap_or_default().join(".kube/config");
        if own.exists() {
            return read(Origin::File(own.clone()), &own);
        }
        if self.master.is_some() {
            return Ok((Origin::Option, None));
        }
        bail!(
            "no cluster is known: volley does not run in `{}`, KUBECONFIG is not set and `{}` is not there\n\
             hint: `volley up` starts one; --kubeconfig names another",
            home.folder().display(),
            own.display()
        )
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::File(path) => write!(out, "`{}`", path.display()),
            Origin::Variable(listed) => write!(out, "KUBECONFIG (`{listed}`)"),
            Origin::Running(folder) => write!(out, "the kubeconfig of `{}`", folder.display()),
            Origin::Option => write!(out, "--master"),
        }
    }
}

impl Resource {
    /// The path of all objects of this kind, in a namespace or everywhere.
    pub fn all(self, namespace: Option<&str>) -> Result<String> {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let Some(namespace) = namespace else { return Ok(format!("/{root}/{}/{}", self.api_version, self.plural)) };
        let namespace = checked("namespace", namespace)?;
        Ok(format!("/{root}/{}/namespaces/{namespace}/{}", self.api_version, self.plural))
    }

    /// The path of one object.
    pub fn one(self, namespace: Option<&str>, name: &str) -> Result<String> {
        Ok(format!("{}/{}", self.all(namespace)?, checked("name", name)?))
    }
}

/// A name that stays one part of a path.
fn checked<'a>(what: &str, name: &'a str) -> Result<&'a str> {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#'));
    match path_segment(name).is_empty() && is_plain && !name.is_empty() {
        true => Ok(name),
        false => bail!("`{name}` cannot be a {what}"),
    }
}

/// A query's value, escaped.
pub fn escaped(value: &str) -> String {
    utf8_percent_encode(value, QUERY).to_string()
}

impl Cluster {
    pub fn namespace<'a>(&'a self, wanted: &'a NamespaceArgs) -> &'a str {
        wanted.namespace.as_deref().unwrap_or(&self.namespace)
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.call(Method::GET, path, None).await
    }

    /// The object, or `None` when there is none or the cluster does not know its kind.
    pub async fn find(&self, path: &str) -> Result<Option<Value>> {
        match self.client.request(request(Method::GET, path, None, "application/json")?).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(self.explain(path, error)),
        }
    }

    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut list = self.get(path).await?;
        // Objects in a list leave out what the list says once.
        let kind = list["kind"].as_str().unwrap_or_default().trim_end_matches("List").to_owned();
        let api_version = list["apiVersion"].take();
        let Value::Array(mut items) = list["items"].take() else { return Ok(Vec::new()) };
        for item in &mut items {
            item["kind"] = Value::from(kind.as_str());
            item["apiVersion"] = api_version.clone();
        }
        Ok(items)
    }

    pub async fn create(&self, path: &str, object: &Value) -> Result<Value> {
        self.call(Method::POST, path, Some((object, "application/json"))).await
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.call(Method::PATCH, path, Some((patch, "application/merge-patch+json"))).await
    }

    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value> {
        self.call(Method::DELETE, path, Some((options, "application/json"))).await
    }

    /// The table that kubectl would show.
    pub async fn table(&self, path: &str) -> Result<Value> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
        let answer = self.client.request(request(Method::GET, path, None, accept)?).await;
        answer.map_err(|error| self.explain(path, error))
    }

    /// A log, as it comes.
    pub async fn stream(&self, path: &str) -> Result<impl AsyncBufRead + use<>> {
        let answer = self.client.request_stream(request(Method::GET, path, None, "*/*")?).await;
        answer.map_err(|error| self.explain(path, error))
    }

    async fn call(&self, method: Method, path: &str, body: Option<(&Value, &str)>) -> Result<Value> {
        let answer = self.client.request(request(method, path, body, "application/json")?).await;
        answer.map_err(|error| self.explain(path, error))
    }

    fn explain(&self, path: &str, error: kube::Error) -> Error {
        let kube::Error::Api(status) = error else {
            let hint = match &self.origin {
                Origin::Running(_) => "hint: `volley status` tells how it is".to_owned(),
                origin => format!("hint: the address is from {origin}; `volley up` starts a cluster here"),
            };
            return anyhow!("the cluster at {} does not answer: {}\n{hint}", self.address, root_cause(&error));
        };
        let is_named = status.details.as_ref().is_some_and(|details| !details.name.is_empty());
        match status.code {
            404 if !is_named => anyhow!(
                "the cluster at {} does not serve {}\nhint: the definitions of that kind are not installed there",
                self.address,
                path.split('?').next().unwrap_or_default()
            ),
            401 => anyhow!("the cluster at {} does not know this user: {}", self.address, status.message),
            _ => anyhow!("{}", status.message),
        }
    }
}

fn request(method: Method, path: &str, body: Option<(&Value, &str)>, accept: &str) -> Result<Request<Vec<u8>>> {
    let mut request = Request::builder().method(method).uri(path).header(header::ACCEPT, accept);
    let mut bytes = Vec::new();
    if let Some((object, content_type)) = body {
        request = request.header(header::CONTENT_TYPE, content_type);
        bytes = serde_json::to_vec(object)?;
    }
    Ok(request.body(bytes)?)
}

/// What failed in the end: the layers above it only pass it on.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: Resource = Resource { api_version: "batch.volcano.sh/v1alpha1", plural: "jobs" };

    #[test]
    fn paths_are_those_of_the_api() {
        let pods = Resource { api_version: "v1", plural: "pods" };
        assert_eq!(pods.all(None).unwrap(), "/api/v1/pods");
        assert_eq!(JOBS.one(Some("a"), "b").unwrap(), "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/b");
    }

    #[test]
    fn a_name_cannot_lead_elsewhere() {
        for name in ["", ".", "..", "a/b", "a?b", "a#b", "a%2fb", "a b", "ü"] {
            assert!(JOBS.one(Some("default"), name).is_err(), "{name}");
            assert!(JOBS.all(Some(name)).is_err(), "{name}");
        }
    }
}
