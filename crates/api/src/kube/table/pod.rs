//! The row of a pod: one status word out of phase, conditions and container states.

use super::Cell::{Labels, Made, TextOr, Timed};
use super::cell::{self, NONE, count, list, text_or};
use super::{Column, Printer};
use crate::kube::{at, text, time};
use jiff::Timestamp;
use serde_json::Value;

const TEMPLATE: &str = "template.spec.containers";
const ROOM: &str = "Node on which room is being made for the pod.";

pub(super) const PRINTERS: &[Printer] = &[
    Printer::of("", "Pod").columns(&[
        Column::NAME,
        Column::text("Ready", "How many of the containers are ready.", Made(ready)),
        Column::text(
            "Status",
            "What the containers of the pod are doing, in one word.",
            Made(|pod| Summary::of(pod).status.into()),
        ),
        Column::text("Restarts", "How often containers were started again, and when last.", Timed(restarts)),
        Column::AGE,
        Column::text("IP", "Address of the pod.", Made(address)).wide(),
        Column::text("Node", "Node that the pod is bound to.", TextOr("spec.nodeName", NONE)).wide(),
        Column::text("Nominated Node", ROOM, TextOr("status.nominatedNodeName", NONE)).wide(),
        Column::text("Readiness Gates", "How many of the readiness gates are met.", Made(readiness_gates)).wide(),
    ]),
    Printer::of("", "PodTemplate").columns(&[
        Column::NAME,
        Column::text(
            "Containers",
            "Names of the containers of the template.",
            Made(|template| cell::containers(template, TEMPLATE, "name")),
        ),
        Column::text(
            "Images",
            "Images of the containers of the template.",
            Made(|template| cell::containers(template, TEMPLATE, "image")),
        ),
        Column::text("Pod Labels", "Labels that pods of the template carry.", Labels("template.metadata.labels")),
    ]),
];

fn ready(pod: &Value) -> Value {
    let seen = Summary::of(pod);
    format!("{}/{}", seen.ready, seen.total).into()
}

fn restarts(pod: &Value, now: Timestamp) -> Value {
    let restarts = Summary::of(pod).restarts;
    match restarts.last {
        Some(last) if restarts.count != 0 => format!("{} ({} ago)", restarts.count, time::age(Some(last), now)).into(),
        _ => restarts.count.to_string().into(),
    }
}

fn address(pod: &Value) -> Value {
    let ip = list(pod, "status.podIPs").first().map_or("", |ip| text(ip, "ip"));
    cell::or(ip, NONE).into()
}

fn readiness_gates(pod: &Value) -> Value {
    let gates = list(pod, "spec.readinessGates");
    let met = gates.iter().filter(|gate| cell::condition(pod, text(gate, "conditionType")) == Some("True")).count();
    if gates.is_empty() { NONE.into() } else { format!("{met}/{}", gates.len()).into() }
}

#[derive(Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, container: &Value) {
        self.count += count(container, "restartCount");
        self.last = self.last.max(time::parse(text(container, "lastState.terminated.finishedAt")));
    }
}

struct Summary {
    status: String,
    ready: usize,
    total: usize,
    restarts: Restarts,
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let sidecars = list(pod, "spec.initContainers").iter().filter(|c| is_sidecar(c)).count();
        let mut seen = Summary {
            status: start_status(pod).to_owned(),
            ready: 0,
            total: list(pod, "spec.containers").len() + sidecars,
            restarts: Restarts::default(),
        };
        let is_blocked = seen.read_init_containers(pod);
        if !is_blocked || cell::condition(pod, "Initialized") == Some("True") {
            seen.read_containers(pod);
        }
        let is_finished = matches!(text(pod, "status.phase"), "Succeeded" | "Failed");
        if cell::is_deleting(pod) && text(pod, "status.reason") == "NodeLost" {
            seen.status = "Unknown".to_owned();
        } else if cell::is_deleting(pod) && !is_finished {
            seen.status = "Terminating".to_owned();
        }
        seen
    }

    /// Goes through the init containers up to the first that is not done; true when there is one.
    ///
    /// Restarts of ordinary init containers count only while the pod is held up by one.
    fn read_init_containers(&mut self, pod: &Value) -> bool {
        let declared = list(pod, "spec.initContainers");
        let mut of_sidecars = Restarts::default();
        for (index, container) in list(pod, "status.initContainerStatuses").iter().enumerate() {
            let name = text(container, "name");
            let has_sidecar_role = declared.iter().any(|c| text(c, "name") == name && is_sidecar(c));
            self.restarts.add(container);
            if has_sidecar_role {
                of_sidecars.add(container);
            }
            if at(container, "state.terminated.exitCode").and_then(Value::as_i64) == Some(0) {
                continue;
            }
            if has_sidecar_role && cell::flag(container, "started") {
                self.ready += usize::from(cell::flag(container, "ready"));
                continue;
            }
            self.status = init_status(container, index, declared.len());
            if cell::condition(pod, "Initialized") == Some("True") {
                self.restarts = of_sidecars;
            }
            return true;
        }
        self.restarts = of_sidecars;
        false
    }

    /// The container with the lowest index that waits or has ended names the status, so this goes backwards.
    fn read_containers(&mut self, pod: &Value) {
        let (mut has_running, mut error) = (false, None);
        for container in list(pod, "status.containerStatuses").iter().rev() {
            self.restarts.add(container);
            let waiting = text(container, "state.waiting.reason");
            if !waiting.is_empty() {
                self.status = waiting.to_owned();
            } else if let Some(ended) = at(container, "state.terminated") {
                self.status = ended_status(ended);
                if count(ended, "exitCode") != 0 {
                    error = Some(self.status.clone());
                }
            } else if cell::flag(container, "ready") && at(container, "state.running").is_some() {
                has_running = true;
                self.ready += 1;
            }
        }
        if self.status != "Completed" {
            return;
        }
        // "Completed" would hide containers that still run or that have failed.
        if has_running && cell::condition(pod, "Ready") == Some("True") {
            self.status = "Running".to_owned();
        } else if let Some(error) = error {
            self.status = error;
        } else if has_running {
            self.status = "NotReady".to_owned();
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    text(container, "restartPolicy") == "Always"
}

fn start_status(pod: &Value) -> &str {
    let is_gated = |c: &Value| text(c, "type") == "PodScheduled" && text(c, "reason") == "SchedulingGated";
    if list(pod, "status.conditions").iter().any(is_gated) {
        return "SchedulingGated";
    }
    text_or(pod, "status.reason", text(pod, "status.phase"))
}

fn ended_status(ended: &Value) -> String {
    let (reason, signal) = (text(ended, "reason"), count(ended, "signal"));
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", count(ended, "exitCode"))
    }
}

fn init_status(container: &Value, index: usize, total: usize) -> String {
    let waiting = text(container, "state.waiting.reason");
    if let Some(ended) = at(container, "state.terminated") {
        format!("Init:{}", ended_status(ended))
    } else if !waiting.is_empty() && waiting != "PodInitializing" {
        format!("Init:{waiting}")
    } else {
        format!("Init:{index}/{total}")
    }
}
