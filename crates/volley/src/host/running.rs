//! What the control socket asks of the running parts.

use crate::control::Saved;
use crate::home::Home;
use crate::host::agent::Agent;
use crate::host::operator::Operator;
use crate::image::map::{self, MapRow};
use crate::image::work::{self, ImageAsk, Listed, OnStep, Users};
use crate::settings::Settings;
use crate::status::{Count, NodeStatus, PartStatus, Process, Status};
use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde_json::Value;
use std::iter;
use std::path::PathBuf;
use std::sync::Arc;
use volley_cluster::Cluster;
use volley_cluster::apiserver::ApiServer;
use volley_cluster::images::reference::{ImageMap, Source, resolve};
use volley_cluster::images::store::Image;
use volley_cluster::node::{GpuHolding, Node, mode_word};
use volley_operator::health::Health;
use volley_server::{Pulse, Server};

pub struct Running {
    home: Home,
    started: Timestamp,
    /// The image maps that the start was given.
    maps: Vec<ImageMap>,
    cluster: Arc<ApiServer>,
    node: Option<Arc<Node>>,
    operator: Option<Arc<Health>>,
    server: Option<Pulse>,
    agent: Option<Arc<volley_agent::health::Health>>,
    client: kube::Client,
}

impl Running {
    pub fn new(
        home: &Home,
        settings: &Settings,
        cluster: &Cluster,
        (operator, server, agent): (Option<&Operator>, Option<&Server>, Option<&Agent>),
    ) -> Running {
        Running {
            home: home.clone(),
            started: Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default(),
            maps: settings.node.image_maps.clone(),
            cluster: cluster.server().clone(),
            node: cluster.node().cloned(),
            operator: operator.map(Operator::health),
            server: server.map(Server::pulse),
            agent: agent.map(Agent::health),
            client: cluster.client("status"),
        }
    }

    pub async fn status(&self) -> Status {
        let process = Process {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            kubeconfig: self.home.kubeconfig(),
        };
        let cluster = PartStatus {
            name: "cluster".to_owned(),
            health: self.read("/readyz").await.unwrap_or_else(|error| error.to_string()),
            address: format!("https://{}", self.cluster.address()),
            aside: Vec::new(),
        };
        let operator = self.operator.as_ref().map(|health| PartStatus {
            name: "operator".to_owned(),
            health: health.words(),
            address: "in this process".to_owned(),
            aside: health.held().into_values().collect(),
        });
        let server = match &self.server {
            Some(pulse) => Some(PartStatus {
                name: "server".to_owned(),
                health: pulse.health().await,
                address: pulse.url().to_owned(),
                aside: Vec::new(),
            }),
            None => None,
        };
        let agent = self.agent.as_ref().map(|health| PartStatus {
            name: "agent".to_owned(),
            health: health.words(),
            address: "in this process".to_owned(),
            aside: Vec::new(),
        });
        Status {
            running: true,
            home: self.home.folder().to_owned(),
            process: Some(process),
            parts: iter::once(cluster).chain(operator).chain(server).chain(agent).collect(),
            node: self.node_status().await,
        }
    }

    async fn node_status(&self) -> Option<NodeStatus> {
        let node = self.node.as_ref()?;
        let (capabilities, lacks) = node.runtime();
        let gpus = node.gpus();
        Some(NodeStatus {
            health: self.node_health().await,
            runtime: mode_word(capabilities.mode).to_owned(),
            cgroups: capabilities.cgroups.clone(),
            lacks,
            gpus: Count { held: gpus.iter().filter(|gpu| !gpu.holders.is_empty()).count(), total: gpus.len() },
            pods_running: node.pods_running(),
        })
    }

    /// `ok`, or why the node takes no pods.
    async fn node_health(&self) -> String {
        let nodes = self.items("/api/v1/nodes").await.unwrap_or_default();
        let conditions = nodes.iter().filter_map(|node| node["status"]["conditions"].as_array()).flatten();
        let ready = conditions.clone().find(|condition| condition["type"] == "Ready");
        match ready {
            Some(ready) if ready["status"] == "True" => "ok".to_owned(),
            Some(ready) => ready["message"].as_str().unwrap_or("not ready").to_owned(),
            None => "not registered yet".to_owned(),
        }
    }

    async fn read(&self, path: &str) -> Result<String> {
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(self.client.request_text(request).await?)
    }

    async fn items(&self, path: &str) -> Result<Vec<Value>> {
        let mut list: Value = serde_json::from_str(&self.read(path).await?)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => bail!("{path} gave no list"),
        }
    }

    pub async fn backup(&self, file: PathBuf) -> Result<Saved> {
        let (store, target) = (self.cluster.store.clone(), file.clone());
        // Reading and writing all of it takes a while: not on a thread that answers clients.
        let verified = tokio::task::spawn_blocking(move || store.backup(&target)).await??;
        Ok(Saved { file, revision: verified.revision, objects: verified.objects, bytes: verified.bytes })
    }

    pub async fn work_on_images(&self, question: ImageAsk, on_step: OnStep) -> Result<Vec<Listed>> {
        let Some(node) = &self.node else {
            let store = work::open(&self.home).await?;
            return work::perform(&self.home, &store, &Users::new(), question, on_step).await;
        };
        let users = self.image_users(node).await?;
        work::perform(&self.home, node.images(), &users, question, on_step).await
    }

    /// Which pods need which image, whether they run from it or are about to.
    async fn image_users(&self, node: &Node) -> Result<Users> {
        let pods = self.items("/api/v1/pods").await.context("failed to list the pods")?;
        let maps = node.image_maps();
        let mut users = Users::new();
        for image in node.images().list().await? {
            let names: Vec<String> = pods.iter().filter(|pod| needs(pod, &image, &maps)).map(pod_name).collect();
            if !names.is_empty() {
                users.insert(image.id, names);
            }
        }
        Ok(users)
    }

    /// Takes in what `volley image map` has kept; the maps that hold now.
    pub fn read_maps(&self) -> Result<Vec<MapRow>> {
        let kept = map::kept(&self.home)?;
        if let Some(node) = &self.node {
            node.set_image_maps([self.maps.clone(), kept.clone()].concat());
        }
        Ok(map::rows(&self.maps, &kept))
    }

    pub fn gpus(&self) -> Result<Vec<GpuHolding>> {
        match &self.node {
            Some(node) => Ok(node.gpus()),
            None => bail!("volley runs without a node\nhint: start it without --no-node"),
        }
    }
}

/// Whether a pod that has not ended runs from this image, or names it.
fn needs(pod: &Value, image: &Image, maps: &[ImageMap]) -> bool {
    let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
    let all = |part: &str, lists: [&str; 3], field: &str| -> Vec<String> {
        let entries = lists.iter().filter_map(|list| pod[part][list].as_array()).flatten();
        entries.filter_map(|entry| entry[field].as_str()).map(str::to_owned).collect()
    };
    let statuses = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let runs = all("status", statuses, "imageID").iter().any(|id| id.ends_with(image.digest.as_str()));
    let named = all("spec", ["containers", "initContainers", "ephemeralContainers"], "image");
    let names = named.iter().any(|written| match resolve(written, maps) {
        Ok(Source::Image(reference)) => reference == image.reference || reference.digest() == Some(&image.digest),
        Ok(Source::Host) | Err(_) => false,
    });
    !has_ended && (runs || names)
}

fn pod_name(pod: &Value) -> String {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}
