//! What the world does to the pretend cluster between two looks of a controller: a script is a list of turns.

use super::cluster::{Cluster, Refusal};
use crate::control::Propagation;
use serde_json::{Value, json};
use volley_api::kube::text;

/// One thing that happens. Pods are meant by their place in the order of names; a turn that makes no sense for the pod
/// that is there, or for none, changes nothing.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// A pod that waits gets a node and runs, unless a gate holds it.
    Start(usize),
    /// A running pod's first container ends with this code, and the pod with it.
    End(usize, i32),
    /// A pod that waits starts and fails before anybody looks.
    Fall(usize),
    /// The node puts a running pod out: it fails without word of its containers.
    PutOut(usize),
    /// A running pod's container has been restarted in place so often.
    RestartInPlace(usize, i32),
    /// Somebody deletes a pod.
    Delete(usize),
    /// A pod's object is gone at once, with its node.
    Vanish(usize),
    /// Pods that are being deleted have stopped, and are gone.
    Reap,
    /// The scheduler puts all PodGroups into a phase.
    Groups(&'static str),
    /// Seconds pass.
    Pass(i64),
    /// Somebody changes an object.
    Edit { kind: String, name: String, patch: Value },
    /// Somebody makes an object.
    Make(Value),
}

impl Cluster {
    pub fn happen(&mut self, turn: &Turn) -> Result<(), Refusal> {
        match turn {
            Turn::Start(index) => self.with_pod(*index, is_startable, Cluster::start_pod),
            Turn::End(index, code) => self.with_pod(*index, is_running, |cluster, name| cluster.end_pod(name, *code)),
            Turn::Fall(index) => self.with_pod(*index, is_startable, |cluster, name| {
                cluster.start_pod(name)?;
                cluster.end_pod(name, 1)
            }),
            Turn::PutOut(index) => self.with_pod(*index, is_running, |cluster, name| {
                cluster.edit("Pod", name, &json!({"status": {"phase": "Failed", "reason": "Evicted"}}))
            }),
            Turn::RestartInPlace(index, times) => {
                self.with_pod(*index, is_running, |cluster, name| cluster.restart_container(name, *times))
            }
            Turn::Delete(index) => {
                self.with_pod(*index, |_| true, |cluster, name| cluster.delete("Pod", name, Propagation::Background))
            }
            Turn::Vanish(index) => self.with_pod(*index, |_| true, Cluster::vanish),
            Turn::Reap => {
                let is_going = |pod: &Value| !text(pod, "metadata.deletionTimestamp").is_empty();
                self.objects.retain(|(kind, _), object| kind != "Pod" || !is_going(object));
                Ok(())
            }
            Turn::Groups(phase) => {
                let patch = json!({"status": {"phase": phase}});
                self.names("PodGroup").iter().try_for_each(|name| self.edit("PodGroup", name, &patch))
            }
            Turn::Pass(seconds) => {
                self.second += seconds;
                Ok(())
            }
            Turn::Edit { kind, name, patch } if self.find(kind, name).is_some() => self.edit(kind, name, patch),
            Turn::Edit { .. } => Ok(()),
            Turn::Make(object) => self.insert(object.clone()).map(drop),
        }
    }

    fn with_pod(
        &mut self,
        index: usize,
        is_meant: impl Fn(&Value) -> bool,
        deed: impl Fn(&mut Cluster, &str) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let name = self.names("Pod").get(index).cloned();
        match name.filter(|name| self.find("Pod", name).is_some_and(&is_meant)) {
            Some(name) => deed(self, &name),
            None => Ok(()),
        }
    }

    /// Puts a pod on the node, running and ready.
    pub fn start_pod(&mut self, name: &str) -> Result<(), Refusal> {
        let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": self.now().to_string()}]);
        let status = json!({"phase": "Running", "conditions": ready});
        self.edit("Pod", name, &json!({"spec": {"nodeName": "n"}, "status": status}))
    }

    /// Ends a pod's first container with this exit code, and the pod with it.
    pub fn end_pod(&mut self, name: &str, code: i32) -> Result<(), Refusal> {
        let phase = if code == 0 { "Succeeded" } else { "Failed" };
        let end = json!({"terminated": {"exitCode": code, "finishedAt": self.now().to_string()}});
        let container = self.container_status(name, end, 0);
        let ready = json!([{"type": "Ready", "status": "False"}]);
        let status = json!({"phase": phase, "conditions": ready, "containerStatuses": [container]});
        self.edit("Pod", name, &json!({ "status": status }))
    }

    fn restart_container(&mut self, name: &str, times: i32) -> Result<(), Refusal> {
        let container = self.container_status(name, json!({"running": {}}), times);
        self.edit("Pod", name, &json!({"status": {"containerStatuses": [container]}}))
    }

    fn container_status(&self, pod: &str, state: Value, restarts: i32) -> Value {
        let first = self.find("Pod", pod).map_or("", |pod| text(&pod["spec"]["containers"][0], "name"));
        let is_ready = state.get("running").is_some();
        json!({"name": first, "image": "", "imageID": "", "ready": is_ready, "restartCount": restarts, "state": state})
    }

    fn vanish(&mut self, name: &str) -> Result<(), Refusal> {
        self.objects.remove(&("Pod".to_owned(), name.to_owned()));
        Ok(())
    }

    /// A world that means well, once: gangs are let in, pods that go are gone, those that can start do, those that run
    /// end well, and a minute passes.
    pub fn go_well(&mut self) -> Result<(), Refusal> {
        self.happen(&Turn::Reap)?;
        self.happen(&Turn::Groups("Inqueue"))?;
        for name in self.names("Pod") {
            let pod = self.find("Pod", &name);
            if pod.is_some_and(is_running) {
                self.end_pod(&name, 0)?;
            } else if pod.is_some_and(is_startable) {
                self.start_pod(&name)?;
            }
        }
        self.happen(&Turn::Pass(60))
    }
}

fn is_startable(pod: &Value) -> bool {
    let is_held = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
    let is_going = !text(pod, "metadata.deletionTimestamp").is_empty();
    matches!(text(pod, "status.phase"), "" | "Pending") && !is_held && !is_going
}

fn is_running(pod: &Value) -> bool {
    text(pod, "status.phase") == "Running"
}
