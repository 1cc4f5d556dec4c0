//! No key where it does not belong: not in manifests, Secrets, events, notes, logs, process lists, environments or cores.
//!
//! The agent is known to the server by a key of its own, so that what is found says whose it is.

use crate::chaos::{KINDS, make_queues};
use crate::site::{Site, until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use volley_client::items::Item;

/// Goes on until it is stopped, or the test says so.
const LONG: &str = "echo up; trap 'exit 0' TERM; while ! test -e /ledger/go; do sleep 0.05; done";

/// Everything that the cluster tells to whoever may read all of it, with what Secrets hold in plain words.
fn objects(site: &Site) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for kind in site.kubectl(&["api-resources", "--verbs=list", "-o", "name"], "").lines() {
        let text = site.kubectl(&["get", kind, "-A", "-o", "json"], "");
        if kind == "secrets" {
            let list: Value = serde_json::from_str(&text).unwrap();
            for secret in list["items"].as_array().unwrap() {
                for held in secret["data"].as_object().into_iter().flatten().filter_map(|(_, held)| held.as_str()) {
                    let plain = STANDARD.decode(held).unwrap();
                    all.push((format!("{}", secret["metadata"]["name"]), String::from_utf8_lossy(&plain).into_owned()));
                }
            }
        }
        all.push((kind.to_owned(), text));
    }
    all
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
}

fn has(bytes: &[u8], key: &str) -> bool {
    let forms = [key.to_owned(), STANDARD.encode(key), STANDARD.encode(format!("api:{key}"))];
    forms.iter().any(|form| bytes.windows(form.len()).any(|window| window == form.as_bytes()))
}

/// The command lines and environments of all processes but those that were given the key.
fn processes(own: &[u32]) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        all.push((format!("command line of {pid}"), fs::read(entry.path().join("cmdline")).unwrap_or_default()));
        if !own.contains(&pid) {
            all.push((format!("environment of {pid}"), fs::read(entry.path().join("environ")).unwrap_or_default()));
        }
    }
    all
}

// K-39, L-36, K-63
#[test]
fn no_key_is_found_in_manifests_secrets_events_logs_or_processes() {
    let mut site = Site::start();
    make_queues(&site);
    let made = site.runtime.block_on(site.client.post("/api/v1/keys", &json!({ "name": "agent" }))).unwrap();
    let agent_key = made["key"].as_str().unwrap().to_owned();
    let url = site.client.url().to_owned();
    site.add_agent_with(&KINDS, &url, &agent_key);
    let bystander = r#"{"spec":{"restartPolicy":"Never","terminationGracePeriodSeconds":0}}"#;
    let sleep = ["--image=host", "--restart=Never", "--overrides", bystander, "--command", "--", "sleep", "1000"];
    site.kubectl(&[&["run", "bystander"][..], &sleep].concat(), "");

    let told = "printenv WANDB_API_KEY >/ledger/token-$VOLLEY_ATTEMPT; echo told";
    let good = site.submit("jobs", "good", told);
    let bad = site.submit("gangs", "bad", "echo broken; exit 3");
    let stopped = site.submit("torch", "stopped", LONG);
    let running = site.submit("jobs", "running", LONG);
    site.until_item(&stopped, "it runs", |item| item.state == "RUNNING");
    site.stop(&stopped);
    site.until_item(&running, "it runs", |item| item.state == "RUNNING");
    let ends = [(&good, "finished"), (&bad, "failed"), (&stopped, "stopped")];
    let items: Vec<Item> = ends
        .iter()
        .map(|(id, end)| {
            let item = site.until_end(id);
            assert_eq!(item.end.as_deref(), Some(*end), "{item:#?}");
            item
        })
        .collect();

    let token = fs::read_to_string(site.ledger.join("token-1")).unwrap().trim().to_owned();
    assert!(token != site.key && token != agent_key, "the workload has a credential of its own");
    let over = volley_client::Client::new(&url, &token).unwrap();
    assert!(site.runtime.block_on(over.viewer()).is_err(), "which ends with its item");

    let own = [site.agents[0].pid()];
    let mut places: Vec<(String, Vec<u8>)> = processes(&own);
    places.extend(objects(&site).into_iter().map(|(name, text)| (name, text.into_bytes())));
    for item in &items {
        let told = site.runtime.block_on(site.client.get(&format!("/api/v1/items/{}", volley_client::part(&item.id))));
        places.push((format!("item {}", item.number), told.unwrap().to_string().into_bytes()));
        places.push((format!("console {}", item.number), site.lines(item).join("\n").into_bytes()));
    }
    let mut found = Vec::new();
    files(site.folder.path(), &mut found);
    assert!(
        found.iter().any(|path| path.ends_with("volley.db")) && found.iter().any(|path| path.ends_with("agent-0.log"))
    );
    // The first user's own copy, which nobody else may read.
    found.retain(|path| !path.ends_with("server/api-key"));
    places.extend(found.iter().map(|path| (path.display().to_string(), fs::read(path).unwrap_or_default())));
    assert!(places.len() > 100, "little was looked at: {}", places.len());
    for (whose, key) in [("the agent's", &agent_key), ("the user's", &site.key)] {
        let leaks: Vec<&String> = places.iter().filter(|(_, bytes)| has(bytes, key)).map(|(name, _)| name).collect();
        assert!(leaks.is_empty(), "{whose} key is in {leaks:?}");
    }
    // Those that have ended leave no Secret behind; the one that runs owns its own.
    fs::write(site.ledger.join("go"), "").unwrap();
    site.until_end(&running);
    site.until_no_secret();
    site.kubectl(&["delete", "pod", "bystander", "--wait=true"], "");
}

// R-7
#[test]
fn a_core_of_the_agent_cannot_hold_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home").display().to_string();
    // No server answers there: it waits, with its key in hand.
    let url = format!("http://127.0.0.1:{}", crate::site::free_port());
    let words = ["--home", &home, "agent", "-q", "q", "--url", &url];
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_volley")]).args(words);
    let log = fs::File::create(folder.path().join("log")).unwrap();
    command.current_dir(folder.path()).env("VOLLEY_API_KEY", "a".repeat(40)).env("HOME", folder.path()).stderr(log);
    let mut agent = command.spawn().unwrap();
    until("it has begun", || {
        fs::read_to_string(folder.path().join("log")).unwrap().contains("does not answer").then_some(())
    });
    assert!(Command::new("kill").args(["-ABRT", &agent.id().to_string()]).status().unwrap().success());
    let status = agent.wait().unwrap();
    assert!(status.signal() == Some(6) && !status.core_dumped(), "{status:?}");
    assert!(
        !fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .any(|entry| entry.file_name().to_string_lossy().contains("core"))
    );
}

// M-9, K-1, K-3, K-7
#[test]
fn what_a_submitter_may_not_ask_for_is_refused_audited_and_never_made() {
    let mut site = Site::start();
    make_queues(&site);
    let url = site.client.url().to_owned();
    site.add_agent(&KINDS, &url);
    let container = json!({ "env": [{ "name": "STOLEN", "value": "${WANDB_API_KEY}" }],
        "securityContext": { "privileged": true } });
    let override_ = json!({ "spec": { "template": { "spec": { "serviceAccountName": "cluster-admin",
        "volumes": [{ "name": "root", "hostPath": { "path": "/" } }], "containers": [container] } } } });
    let id = site.submit_with("jobs", "loose", &json!({ "resource_args": { "kubernetes": override_ } }));
    let item = site.until_end(&id);
    assert_eq!(item.end.as_deref(), Some("failed"), "{item:#?}");
    let error = item.error.clone().unwrap();
    for word in ["WANDB_API_KEY", "hostPath", "securityContext", "serviceAccountName"] {
        assert!(error.message.contains(word), "{word}: {}", error.message);
    }
    assert_eq!(error.stage, "agent");
    let audit = site.runtime.block_on(site.client.get("/api/v1/audit?deed=item.refuse")).unwrap();
    let entry = &audit[0];
    assert_eq!(audit.as_array().unwrap().len(), 1, "{audit}");
    let subject = format!("{}/jobs/{}", site.entity, item.id);
    assert_eq!(
        (entry["user"].as_str(), entry["subject"].as_str()),
        (Some(site.entity.as_str()), Some(subject.as_str()))
    );
    assert!(entry["detail"].as_str().unwrap().contains("hostPath"), "{entry}");
    for kind in ["pods", "jobs.batch", "secrets"] {
        assert_eq!(site.kubectl(&["get", kind, "-n", &site.namespace, "-o", "name"], ""), "", "nothing was made");
    }
}
