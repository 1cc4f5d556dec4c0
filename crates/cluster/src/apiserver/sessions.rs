//! What clients do with a running pod: logs, exec, attach and port-forward (spec K 18), between a request and the node.
//!
//! Everything that can be refused is refused before the connection is upgraded; then a task of its own serves the session until
//! either side is done or the server stops.

use super::ApiServer;
use super::answer::{self, Answer, Body};
use super::call::{Call, Upgrade};
use super::node_door::{NodeDoor, Place};
use super::object::{self, Meta};
use crate::store::{Bucket, Store};
use crate::streams::container::{self, LogRun};
use crate::streams::forward::{Target, run_port_forward};
use crate::streams::logs::options::LogOptions;
use crate::streams::logs::reader::{self, LogReader};
use crate::streams::session::run_exec;
use crate::streams::upgrade::{Agreed, CommandOptions, Purpose, agree, forward_ports};
use crate::streams::{StreamError, Transport};
use futures::{StreamExt, stream};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use volley_api::kube::status::ApiError;
use volley_api::kube::text;
use volley_plan::node::pretended_nodes::is_pretended;

impl ApiServer {
    /// Sets the node, once; who asks before is told that nothing runs yet.
    pub fn set_node(&self, node: Arc<dyn NodeDoor>) {
        let _only_the_first_counts = self.node.set(node);
    }

    pub fn node(&self) -> Option<&Arc<dyn NodeDoor>> {
        self.node.get()
    }

    /// `pods/log` (spec K-LOG-1 to 3).
    pub async fn log(&self, call: &Call) -> Result<Answer, ApiError> {
        let options = LogOptions::parse(&call.query, &call.path.name)?;
        let pod = self.stored(call)?;
        let name = container::choose(&pod, &options.container)?;
        if text(&pod, "spec.nodeName").is_empty() {
            return Ok(answer::text(200, ""));
        }
        let node = self.node_of(&pod);
        if node.is_none() && !self.is_on_pretended_node(&pod) {
            return Err(not_started(name, &call.path.name));
        }
        let run = container::log_run(&pod, name, options.previous)?;
        let place = place(&pod, name);
        let Some(node) = node else {
            // What runs without a process says nothing, and ends when its status says so.
            let end = self.end_of_run(call, place, run);
            let silence = stream::once(async move {
                if options.follow {
                    end.await
                }
            })
            .filter_map(|()| async { None });
            return Ok(answer::text_stream(silence));
        };
        let missing = || ApiError::bad_request(format!("unable to retrieve container logs for {}", run.id));
        let path = node.log(&place, run.attempt).ok_or_else(missing)?;
        let read = options.read(call.now);
        let opened = tokio::task::spawn_blocking(move || LogReader::open(&path, &read)).await;
        let opened = opened.map_err(|error| ApiError::internal(error.to_string()))?;
        let log = opened.map_err(|error| ApiError::internal(format!("failed to read the container's log: {error}")))?;
        if !options.follow {
            return Ok(answer::text_stream(reader::stream(log, None)));
        }
        let ended = CancellationToken::new();
        let (end, told) = (self.end_of_run(call, place, run), ended.clone());
        // The task that waits for the container's end goes with the answer.
        let end = AbortOnDropHandle::new(tokio::spawn(async move {
            end.await;
            told.cancel();
        }));
        let pieces = reader::stream(log, Some(ended)).map(move |piece| {
            let _kept = &end;
            piece
        });
        Ok(answer::text_stream(pieces))
    }

    fn end_of_run(&self, call: &Call, place: Place, run: LogRun<'_>) -> impl Future<Output = ()> + Send + 'static {
        let (store, bucket, key) = (self.store.clone(), call.resource.bucket.clone(), self.key(call));
        let run = run.id.to_owned();
        async move {
            until_changed(&store, &bucket, &key, |pod| {
                text(pod, "metadata.uid") != place.pod_uid || !container::is_running(pod, &place.container, &run)
            })
            .await;
        }
    }

    /// `pods/exec` and `pods/attach` (spec K-EXEC-1, K-EXEC-2).
    pub fn command(&self, call: &mut Call) -> Result<Answer, ApiError> {
        let options = CommandOptions::parse(&call.query)?;
        let is_exec = call.path.subresource == "exec";
        let pod = self.stored(call)?;
        let name = container::choose(&pod, &options.container)?;
        let node = self.node_for(&pod)?;
        if is_exec && options.command.is_empty() {
            return Err(ApiError::bad_request("you must specify at least one command for the container"));
        }
        let place = place(&pod, name);
        if !node.is_running(&place) {
            // The words of the reference's node, whose answers are handed on as they are.
            return Ok(answer::text(500, format!("container not found ({name:?})")));
        }
        let is_stdin_once = container::spec(&pod, name)["stdinOnce"] == true;
        self.session(call, Purpose::Command, move |transport| async move {
            let CommandOptions { wants, command, .. } = options;
            run_exec(transport, wants, &command, |streams| match is_exec {
                true => node.exec(&place, command.clone(), streams),
                false => node.attach(&place, is_stdin_once, streams),
            })
            .await
        })
    }

    /// `pods/portforward` (spec K-SPDY-4, K-PF-1).
    pub fn port_forward(&self, call: &mut Call) -> Result<Answer, ApiError> {
        let ports = forward_ports(&call.query)?;
        let pod = self.stored(call)?;
        let node = self.node_for(&pod)?;
        let uid = text(&pod, "metadata.uid").to_owned();
        let target = Target { pod: call.path.name.clone(), uid: uid.clone() };
        self.session(call, Purpose::PortForward, move |transport| async move {
            run_port_forward(transport, target, &ports, |port| node.connect(&uid, port)).await
        })
    }

    /// Answers with the upgrade and serves what comes after it.
    fn session<R>(
        &self,
        call: &mut Call,
        purpose: Purpose,
        serve: impl FnOnce(Transport) -> R + Send + 'static,
    ) -> Result<Answer, ApiError>
    where
        R: Future<Output = Result<(), StreamError>> + Send,
    {
        let required = || ApiError::bad_request("Upgrade request required");
        let Upgrade { headers, connection } = call.upgrade.take().ok_or_else(required)?;
        let mut agreed: Agreed = agree(purpose, &headers)?;
        let answer = agreed.answer().map(|()| Body::Whole(None));
        let (stop, what) = (self.sessions.clone(), call.path.subresource.clone());
        let session = async move {
            match agreed.transport(connection).await {
                Ok(transport) => serve(transport).await,
                Err(error) => Err(StreamError::Connection(std::io::Error::other(error))),
            }
        };
        tokio::spawn(async move {
            if let Some(Err(error)) = stop.run_until_cancelled(session).await {
                tracing::debug!(error = &error as &dyn std::error::Error, what, "a session ended early");
            }
        });
        Ok(answer)
    }

    /// The node, if the pod is on it.
    fn node_of(&self, pod: &Value) -> Option<Arc<dyn NodeDoor>> {
        self.node.get().filter(|node| text(pod, "spec.nodeName") == node.name()).cloned()
    }

    fn is_on_pretended_node(&self, pod: &Value) -> bool {
        let node = self.local("sessions").get("", "nodes", "", text(pod, "spec.nodeName"));
        node.is_some_and(|node| is_pretended(&node))
    }

    fn node_for(&self, pod: &Value) -> Result<Arc<dyn NodeDoor>, ApiError> {
        let (name, node) = (text(pod, "metadata.name"), text(pod, "spec.nodeName"));
        if node.is_empty() {
            return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
        }
        let elsewhere = || ApiError::internal(format!("pod {name} is bound to node {node}, which is not running here"));
        self.node_of(pod).ok_or_else(elsewhere)
    }
}

fn place(pod: &Value, container: &str) -> Place {
    Place { pod_uid: text(pod, "metadata.uid").to_owned(), container: container.to_owned() }
}

fn not_started(container: &str, pod: &str) -> ApiError {
    ApiError::bad_request(format!("container {container:?} in pod {pod:?} is waiting to start: ContainerCreating"))
}

/// Waits until an object is gone or `is_so` holds for it.
async fn until_changed(store: &Store<Meta>, bucket: &Bucket, key: &str, is_so: impl Fn(&Value) -> bool) {
    loop {
        // Taken before the object is looked at, so that the watch begins no later than what was seen.
        let seen = store.revision();
        match store.get(bucket, key) {
            Some(stored) if !is_so(&object::parse(&stored)) => {}
            Some(_) | None => return,
        }
        let Ok(mut watch) = store.watch(bucket, seen) else { continue };
        // A watch that fell behind has perhaps missed the change.
        while let Ok(events) = watch.next().await {
            if events.iter().any(|event| *event.entry.key == *key) {
                break;
            }
        }
    }
}
