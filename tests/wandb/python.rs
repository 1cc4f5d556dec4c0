//! What W&B's package does, on both databases.

use crate::support::{Client, Engine, KEY, Running, USER, succeed, told};

/// One test on each engine with the newest package, and one with the older package. The scripts name the rules.
macro_rules! on_all {
    ($($name:ident => $check:expr;)*) => {
        mod sqlite {
            use super::{Engine, Running, resume, script};
            $(#[test] fn $name() { $check(&Running::start(Engine::Sqlite)); })*
        }
        mod postgres {
            use super::{Engine, Running, resume, script};
            $(#[test] fn $name() { $check(&Running::start(Engine::Postgres)); })*
        }
        mod older {
            use super::{Client, Engine, Running, resume, script};
            $(#[test] fn $name() { $check(&Running::start_for(Engine::Sqlite, Client::Older)); })*
        }
    };
}

fn script(name: &'static str) -> impl Fn(&Running) {
    move |running| drop(running.script(name))
}

// AUTH-1, AUTH-3, AUTH-4
#[test]
fn login_prints_the_user_and_a_wrong_key_the_servers_message() {
    for client in [Client::Newest, Client::Older] {
        login(&Running::start_for(Engine::Sqlite, client));
    }
}

on_all! {
    a_run_is_logged_and_read_back => script("run.py");
    a_run_is_resumed_and_an_offline_one_synced => resume;
    queues_are_made_filled_and_deleted => script("queues.py");
    artifacts_are_made_and_read => script("artifact.py");
    artifacts_are_linked_and_collections_changed => script("portfolios.py");
    a_sweep_is_searched_by_an_agent => script("sweep.py");
    teams_users_and_keys_are_managed => script("people.py");
    a_launch_agent_runs_what_was_launched => script("launch.py");
}

// RUN-6, AUTH-6
#[test]
fn runs_are_rewound_forked_and_shared() {
    Running::start(Engine::Sqlite).script("branch.py");
}

// FS-2, PUB-3, PUB-4, PUB-5
#[test]
fn a_hundred_thousand_rows_are_all_there() {
    Running::start(Engine::Sqlite).script("many.py");
}

// SWP-3, LA-W-5
#[test]
fn sweeps_are_searched_by_every_method_and_stopped_early() {
    Running::start(Engine::Sqlite).script("sweeps.py");
}

#[test]
fn jobs_come_from_images_and_repositories_and_are_launched() {
    Running::start(Engine::Sqlite).script("jobs.py");
}

// HTTP-2, HTTP-6, FEAT-4: W&B's own check of a server.
#[test]
fn the_server_passes_wandb_verify() {
    for client in [Client::Newest, Client::Older] {
        let running = Running::start_for(Engine::Sqlite, client);
        succeed(running.client("wandb").args(["verify", "--host", &running.url]));
    }
}

fn login(running: &Running) {
    let said = succeed(running.client("wandb").args(["login", "--relogin", "--verify", "--host", &running.url, KEY]));
    assert!(said.contains(USER), "{said}");
    let wrong = running
        .client("wandb")
        .env("WANDB_API_KEY", "f".repeat(40))
        .args(["login", "--verify", "--host", &running.url])
        .output();
    let wrong = wrong.expect("wandb runs");
    assert!(told(&wrong).contains("not known to this server"), "{}", told(&wrong));
}

fn resume(running: &Running) {
    running.script("resume.py");
    let offline = running.home.path().join("client/wandb");
    let folder = std::fs::read_dir(&offline)
        .expect("the offline run left a folder")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("offline-run-")))
        .expect("an offline run");
    succeed(running.client("wandb").arg("sync").arg(folder));
    running.script("synced.py");
}
