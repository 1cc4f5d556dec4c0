//! How a container engine (Docker or Podman) is spoken with: the body that creates a container, and what its answers mean.

use super::container::Request;
use crate::agent::exit::Exit;
use crate::agent::state::State;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use volley_api::kube::text;

/// The devices that a container was given.
pub const GPUS: &str = "volley.dev/gpus";

/// What a container has beside its request: known only where it runs.
#[derive(Debug, Clone, Default)]
pub struct Filled {
    pub environment: BTreeMap<String, String>,
    pub gpus: Vec<String>,
    /// The folder with the launch's code.
    pub source: Option<String>,
}

/// The body of `POST /containers/create`.
pub fn body(request: &Request, filled: &Filled) -> Value {
    let mut host = request.host.clone();
    if !filled.gpus.is_empty() {
        host["DeviceRequests"] = json!([{ "Driver": "nvidia", "DeviceIDs": filled.gpus, "Capabilities": [["gpu"]] }]);
    }
    if let (Some(source), Some(folder)) = (&filled.source, request.code_folder) {
        let mut binds = host["Binds"].as_array().cloned().unwrap_or_default();
        binds.push(json!(format!("{source}:{folder}")));
        host["Binds"] = Value::Array(binds);
    }
    let mut labels = request.labels.clone();
    if !filled.gpus.is_empty() {
        labels.insert(GPUS.to_owned(), json!(filled.gpus.join(",")));
    }
    let variables: Vec<String> = filled.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut body = Map::new();
    body.extend(request.own.clone());
    body.extend([
        ("Image".to_owned(), json!(request.image)),
        ("Env".to_owned(), json!(variables)),
        ("Labels".to_owned(), Value::Object(labels)),
        ("HostConfig".to_owned(), host),
    ]);
    // What is left out is the image's own.
    if !request.entry_point.is_empty() {
        body.insert("Entrypoint".to_owned(), json!(request.entry_point));
    }
    if !request.command.is_empty() {
        body.insert("Cmd".to_owned(), json!(request.command));
    }
    if let Some(folder) = &request.working_dir {
        body.insert("WorkingDir".to_owned(), json!(folder));
    }
    Value::Object(body)
}

/// A container's state, as `GET /containers/{id}/json` tells it; none before it was started.
pub fn state(container: &Value) -> Option<State> {
    match text(container, "State.Status") {
        "" | "created" | "configured" | "initialized" => None,
        "running" | "paused" | "restarting" => Some(State::Running),
        "removing" | "stopping" => Some(State::Stopping),
        // "exited", "stopped", "dead".
        _ if exit(container).is_success() => Some(State::Finished),
        _ => Some(State::Failed),
    }
}

pub fn exit(container: &Value) -> Exit {
    let state = &container["State"];
    Exit { code: state["ExitCode"].as_i64().unwrap_or(1), is_out_of_memory: state["OOMKilled"] == true }
}

/// The GPUs that containers hold which have not ended.
pub fn gpus_held<'a>(containers: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let is_over = |container: &Value| state(container).is_some_and(State::is_final);
    let held = containers.filter(|container| !is_over(container));
    held.flat_map(|container| {
        let devices = container["Config"]["Labels"][GPUS].as_str().unwrap_or_default();
        devices.split(',').filter(|device| !device.is_empty()).map(str::to_owned)
    })
    .collect()
}

/// The repository and the tag or digest of an image, as a pull is asked for them.
pub fn pulled(image: &str) -> (String, String) {
    if let Some((name, digest)) = image.split_once('@') {
        return (name.to_owned(), digest.to_owned());
    }
    match image.rsplit_once(':') {
        // A colon before a slash belongs to a port.
        Some((name, tag)) if !tag.contains('/') => (name.to_owned(), tag.to_owned()),
        _ => (image.to_owned(), "latest".to_owned()),
    }
}

/// The registry of an image, as keys are kept by it.
pub fn registry(image: &str) -> &str {
    match image.split_once('/') {
        Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => host,
        _ => "https://index.docker.io/v1/",
    }
}

#[cfg(test)]
mod tests {
    use super::super::container;
    use super::super::fixtures::{order, station};
    use super::*;

    // C-4, C-5, C-7, C-10, C-11
    #[test]
    fn a_request_becomes_the_engines_body() {
        let mut order = order(json!({"gpus": 1, "memory": "1g"}));
        order.spec.overrides.entry_point = vec!["python".into(), "t.py".into()];
        order.spec.overrides.args = vec!["--a b".into()];
        let mut request = container::render(&order, &station(), &mut Vec::new()).unwrap();
        request.code_folder = Some("/mnt/wandb");
        let filled = Filled {
            environment: BTreeMap::from([("WANDB_API_KEY".into(), "k".into())]),
            gpus: vec!["3".into()],
            source: Some("/w/source".into()),
        };
        let body = body(&request, &filled);
        assert_eq!(body["Entrypoint"], json!(["python", "t.py"]));
        assert_eq!(body["Cmd"], json!(["--a b"]));
        assert_eq!(body["Env"], json!(["WANDB_API_KEY=k"]));
        assert_eq!(body["HostConfig"]["Memory"], 1 << 30);
        assert_eq!(body["HostConfig"]["DeviceRequests"][0]["DeviceIDs"], json!(["3"]));
        assert_eq!(body["HostConfig"]["Binds"], json!(["/w/source:/mnt/wandb"]));
        assert_eq!(body["Labels"]["volley.dev/gpus"], "3");
        assert_eq!(body["Labels"]["volley.dev/attempt"], "1");
        let plain = order_of_an_image();
        assert!(plain.get("Entrypoint").is_none() && plain.get("Cmd").is_none() && plain.get("WorkingDir").is_none());
    }

    fn order_of_an_image() -> Value {
        body(&container::render(&order(json!({})), &station(), &mut Vec::new()).unwrap(), &Filled::default())
    }

    // C-9
    #[test]
    fn a_containers_state_is_read_off_its_answer() {
        let told = |status: &str, code: i64| json!({"State": {"Status": status, "ExitCode": code}});
        assert_eq!(state(&told("created", 0)), None);
        assert_eq!(state(&told("configured", 0)), None);
        assert_eq!(state(&told("running", 0)), Some(State::Running));
        assert_eq!(state(&told("exited", 0)), Some(State::Finished));
        assert_eq!(state(&told("exited", 3)), Some(State::Failed));
        let killed = json!({"State": {"Status": "exited", "ExitCode": 137, "OOMKilled": true}});
        assert!(exit(&killed).reason("it", &[]).contains("memory"));
    }

    // C-11
    #[test]
    fn gpus_are_held_until_a_container_has_ended() {
        let with = |status: &str, gpus: &str| json!({"State": {"Status": status, "ExitCode": 0}, "Config": {"Labels": {GPUS: gpus}}});
        let all = [with("created", "0"), with("running", "1,2"), with("exited", "3"), json!({})];
        assert_eq!(gpus_held(all.iter()), ["0", "1", "2"]);
    }

    // C-6
    #[test]
    fn an_image_is_pulled_by_repository_and_tag() {
        let split = |image: &str| {
            let (name, tag) = pulled(image);
            format!("{name} {tag}")
        };
        assert_eq!(split("a/b"), "a/b latest");
        assert_eq!(split("h:5000/a/b"), "h:5000/a/b latest");
        assert_eq!(split("h:5000/a/b:v1"), "h:5000/a/b v1");
        assert_eq!(split("a@sha256:12"), "a sha256:12");
        assert_eq!((registry("h:5000/a"), registry("a/b")), ("h:5000", "https://index.docker.io/v1/"));
    }
}
