//! `ssh`: a key pair that all pods of the Job share, and a list of where they are (spec/volcano.md 5.3).

use super::{FINGERPRINT, Place, hosts};
use crate::job::fingerprint::fingerprint;
use crate::job::template::{each_container, push, set_mark};
use crate::job::volcano::resources::{Life, Wanted};
use crate::job::volcano::round::Round;
use serde_json::{Value, json};
use std::fmt::Write;
use volley_api::kube::text;
use volley_api::volcano::arguments::{Arguments, Flag, Kind};
use volley_api::volcano::types::job_spec;

const DEFAULT_PATH: &str = "/root/.ssh";
const DEFAULT_PORT: i64 = 22;
pub const FLAGS: &[Flag] = &[
    ("ssh-key-file-path", Kind::Text, DEFAULT_PATH),
    ("ssh-private-key", Kind::Text, ""),
    ("ssh-public-key", Kind::Text, ""),
    ("ssh-port", Kind::Number, "22"),
];
/// Files of the Secret.
const FILES: [&str; 4] = ["id_rsa", "id_rsa.pub", "authorized_keys", "config"];

fn secret_name(job: &str) -> String {
    format!("{job}-ssh")
}

/// Whether the Job's Secret is to be made now, with a key that the user has not given.
pub fn wants_key(job: &Value, objects: &[Value]) -> bool {
    if !matches!(text(job, "status.state.phase"), "Pending" | "Running") {
        return false;
    }
    let Ok(spec) = job_spec(job) else { return false };
    let words = spec.plugins.get("ssh").map_or(&[][..], Vec::as_slice);
    if !spec.plugins.contains_key("ssh") && !spec.plugins.contains_key("mpi") {
        return false;
    }
    let name = secret_name(text(job, "metadata.name"));
    let exists = objects.iter().any(|object| text(object, "kind") == "Secret" && text(object, "metadata.name") == name);
    !exists && Arguments::read(FLAGS, words).text("ssh-private-key").is_empty()
}

pub fn wanted(round: &Round, arguments: &Arguments) -> Result<Wanted, String> {
    let name = secret_name(round.head.name());
    let config = config(round, arguments);
    let given = (arguments.text("ssh-private-key").to_owned(), arguments.text("ssh-public-key").to_owned());
    let exists = round
        .seen
        .objects
        .iter()
        .any(|object| text(object, "kind") == "Secret" && text(object, "metadata.name") == name);
    let (private, public) = match round.seen.key {
        _ if !given.0.is_empty() => given,
        Some(key) => (key.private.clone(), key.public.clone()),
        None if exists => given,
        None => return Err("no SSH key pair could be made".to_owned()),
    };
    let mut object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": round.head.owned(&name), "type": "Opaque",
        "stringData": { "id_rsa": private, "id_rsa.pub": public, "authorized_keys": public, "config": config },
    });
    set_mark(&mut object, "annotations", FINGERPRINT, format!("{:x}", fingerprint(&config)));
    // SSH-4: upstream does not tell of pods that came later.
    let kept = (!round.settings.is_strict).then_some("stringData");
    Ok(Wanted { object, life: Life::Version, kept })
}

fn config(round: &Round, arguments: &Arguments) -> String {
    let port = match arguments.number("ssh-port") {
        port @ 1..=65535 => port,
        _ => DEFAULT_PORT,
    };
    let mut text = "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n".to_owned();
    for host in round.spec.tasks.iter().flat_map(|task| hosts(round, task)) {
        let short = host.split('.').next().unwrap_or_default();
        let _ = write!(text, "Host {short}\n  HostName {host}\n  Port {port}\n");
    }
    text
}

pub fn edit(place: &Place, pod: &mut Value) -> Result<(), String> {
    let name = secret_name(place.round.head.name());
    let path = place.arguments.text("ssh-key-file-path");
    // The server insists on 0600; elsewhere another user must be able to read the files.
    let mode = if path == DEFAULT_PATH { 0o600 } else { 0o644 };
    let items: Vec<Value> = FILES.iter().map(|file| json!({ "key": file, "path": format!(".ssh/{file}") })).collect();
    let source = json!({ "secretName": name, "items": items, "defaultMode": mode });
    push(&mut pod["spec"], "volumes", json!({ "name": name, "secret": source }));
    each_container(pod, |container| {
        push(container, "volumeMounts", json!({ "name": name, "mountPath": path, "subPath": ".ssh" }));
    });
    Ok(())
}
