//! Code that runs in a base image without being built into one: mounted from a claim, or fetched before the start.

use super::environment::Given;
use super::identity::{main_container, push};
use super::order::{Code, CodeSource, Order, Station};
use super::secrets::env_entry;
use super::{Refusal, walk};
use serde_json::{Value, json};

pub const FOLDER: &str = "/mnt/wandb";
const VOLUME: &str = "wandb-source-code-volume";
const FETCHER: &str = "wandb-source-code-init";
/// The verb of our own program that fetches code into a folder.
pub const FETCH_VERB: &str = "fetch";

/// Installs what the code asks for, then becomes the command that follows.
const INSTALL: &str = "if [ -f requirements.txt ]; then pip install -q -r requirements.txt; \
    elif [ -f pyproject.toml ]; then pip install -q .; \
    elif [ -f requirements.frozen.txt ]; then \
    while read -r line; do pip install -q \"$line\" || echo \"could not install $line\" >&2; done < requirements.frozen.txt; fi; \
    exec \"$@\"";

pub fn mount(workload: &mut Value, order: &Order, station: &Station) -> Result<(), Refusal> {
    let Some(code) = &order.code else { return Ok(()) };
    check(&code.source)?;
    let script = fetch_script(code);
    for template in walk::templates(workload) {
        let main = main_container(workload, &template.place.pointer, order.image.as_ref());
        let Some(spec) = workload.pointer_mut(&format!("{}/spec", template.place.pointer)) else { continue };
        let mut entry = json!({ "name": VOLUME, "mountPath": FOLDER });
        match &code.claim {
            Some((claim, folder)) => {
                push(spec, "volumes", json!({ "name": VOLUME, "persistentVolumeClaim": { "claimName": claim } }));
                entry["subPath"] = json!(folder);
            }
            None => {
                push(spec, "volumes", json!({ "name": VOLUME, "emptyDir": {} }));
                push(spec, "initContainers", fetcher(code, &script, order, station));
            }
        }
        for container in walk::containers_mut(spec, &["containers"]) {
            push(container, "volumeMounts", entry.clone());
        }
        if let Some(container) = spec["containers"].get_mut(main) {
            container["workingDir"] = json!(folder(order));
        }
    }
    Ok(())
}

pub fn folder(order: &Order) -> String {
    match order.spec.overrides.working_dir.as_deref().map(|folder| folder.trim_matches('/')) {
        None | Some("") => FOLDER.to_owned(),
        Some(folder) => format!("{FOLDER}/{folder}"),
    }
}

/// What stands against code that is to be fetched: another source, or one that git must not be asked for (J-7, K-44).
pub fn check(source: &CodeSource) -> Result<(), Refusal> {
    match source {
        CodeSource::Artifact { .. } => Ok(()),
        CodeSource::Repository { remote, .. } if !is_allowed_remote(remote) => {
            let hint = "use an https or ssh remote";
            Err(Refusal::new("J-7", "job", format!("git remote `{remote}` is not allowed"), hint))
        }
        CodeSource::Repository { commit, .. } if !is_commit(commit) => {
            let hint = "make the job again with the commit's number, which never means another one";
            Err(Refusal::new("J-7", "job", format!("`{commit}` is not a commit of git"), hint))
        }
        CodeSource::Repository { .. } => Ok(()),
        CodeSource::Other(kind) => {
            let hint = "only code artifacts and git repositories can be mounted; build an image instead";
            Err(Refusal::new("K-44", "job", format!("a job whose source is `{kind}` has no code to mount"), hint))
        }
    }
}

fn is_commit(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| letter.is_ascii_hexdigit())
}

/// What the fetching container runs; its arguments are words of their own, so that nothing in them is read by a shell.
fn fetch_script(code: &Code) -> Vec<String> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    match (&code.source, code.fetcher.program.as_deref()) {
        (CodeSource::Artifact { id, .. }, Some(program)) => words(&[program, FETCH_VERB, FOLDER, "artifact", id]),
        (CodeSource::Repository { remote, commit }, Some(program)) => {
            words(&[program, FETCH_VERB, FOLDER, "git", remote, commit])
        }
        (CodeSource::Artifact { id, reference }, None) => {
            let script = "wandb artifact get --root /mnt/wandb \"$1\" && chmod -R a+rwX /mnt/wandb";
            words(&["sh", "-c", script, "sh", reference.as_deref().unwrap_or(id)])
        }
        (CodeSource::Repository { remote, commit }, None) => {
            let script = "git init -q /mnt/wandb && cd /mnt/wandb && git fetch -q --depth 1 -- \"$1\" \"$2\" \
                && git checkout -q FETCH_HEAD && chmod -R a+rwX .";
            words(&["sh", "-c", script, "sh", remote, commit])
        }
        // Refused before.
        (CodeSource::Other(_), _) => Vec::new(),
    }
}

/// https, ssh and `user@host:path`; nothing that git would read as an option or another program.
pub fn is_allowed_remote(remote: &str) -> bool {
    let is_short = remote.split_once('@').is_some_and(|(user, rest)| {
        let is_word = |text: &str| !text.is_empty() && !text.contains([':', '/']);
        rest.split_once(':').is_some_and(|(host, path)| is_word(user) && is_word(host) && !path.is_empty())
    });
    let is_url = remote.starts_with("https://") || remote.starts_with("ssh://");
    (is_url || is_short) && !remote.starts_with('-') && !remote.contains(char::is_whitespace) && !remote.contains("::")
}

fn fetcher(code: &Code, script: &[String], order: &Order, station: &Station) -> Value {
    json!({
        "name": FETCHER, "image": code.fetcher.image, "command": script,
        "volumeMounts": [{ "name": VOLUME, "mountPath": FOLDER }],
        "env": [{ "name": "WANDB_BASE_URL", "value": station.base_url }, env_entry("WANDB_API_KEY", &Given::ApiKey, order)],
    })
}

/// A command behind the installing of what the code asks for; where there is none it is the image's own.
pub fn installing<T: From<&'static str>>(command: Vec<T>) -> Vec<T> {
    if command.is_empty() {
        return command;
    }
    let mut words: Vec<T> = ["sh", "-c", INSTALL, "sh"].map(T::from).into();
    words.extend(command);
    words
}

/// Where nobody chose the base image, what the code requires is installed before the command starts (K-43).
pub fn install_first(workload: &mut Value, order: &Order) {
    if !order.code.as_ref().is_some_and(|code| code.is_default_base) {
        return;
    }
    for template in walk::templates(workload) {
        let main = main_container(workload, &template.place.pointer, order.image.as_ref());
        let container = workload.pointer_mut(&format!("{}/spec/containers/{main}", template.place.pointer));
        let Some(container) = container else { continue };
        let command = container.get("command").and_then(Value::as_array).cloned().unwrap_or_default();
        if !command.is_empty() {
            container["command"] = Value::Array(installing(command));
        }
    }
}
