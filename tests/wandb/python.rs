//! What W&B's package does, on both databases.

use crate::support::{Engine, KEY, Running, USER, succeed, told};

/// One test on each engine.
macro_rules! on_both {
    ($($(#[$note:meta])* $name:ident => $check:expr;)*) => {
        mod sqlite {
            $($(#[$note])* #[test] fn $name() { ($check)(&super::Running::start(super::Engine::Sqlite)); })*
        }
        mod postgres {
            $($(#[$note])* #[test] fn $name() { ($check)(&super::Running::start(super::Engine::Postgres)); })*
        }
    };
}

on_both! {
    // AUTH-1, AUTH-3, AUTH-4
    login_prints_the_user_and_a_wrong_key_the_servers_message => super::login;
    // RUN-1 to RUN-9, FS-1 to FS-11, FILE-1 to FILE-6, PUB-1 to PUB-9
    a_run_is_logged_and_read_back => |running: &super::Running| drop(running.script("run.py"));
    // RUN-8, RUN-9
    a_run_is_resumed_and_an_offline_one_synced => super::resume;
    // QUE-1 to QUE-10, PUSH-1 to PUSH-8
    queues_are_made_filled_and_deleted => |running: &super::Running| drop(running.script("queues.py"));
    // ART-1 to ART-18, JOB-1 to JOB-4
    artifacts_and_jobs_are_made_and_read => super::artifacts;
    // SWP-1 to SWP-4
    a_sweep_is_searched_by_an_agent => |running: &super::Running| drop(running.script("sweep.py"));
    // HTTP-2, HTTP-6, FEAT-4: W&B's own check of a server.
    the_server_passes_wandb_verify => |running: &super::Running| drop(super::succeed(running.client("wandb").args(["verify", "--host", &running.url])));
    // AGT-1 to AGT-14
    a_launch_agent_runs_what_was_launched => |running: &super::Running| drop(running.script("launch.py"));
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

fn artifacts(running: &Running) {
    running.script("artifact.py");
    let create = ["job", "create", "-p", "jobs", "-e", USER, "-n", "hello", "image", "busybox:1"];
    let said = succeed(running.client("wandb").args(create));
    assert!(said.contains("Created job"), "{said}");
    let said = succeed(running.client("wandb").args(create));
    assert!(said.contains("No changes"), "{said}");
    let said = succeed(running.client("wandb").args(["job", "list", "-p", "jobs", "-e", USER]));
    assert!(said.contains("hello"), "{said}");
    let said = succeed(running.client("wandb").args(["job", "describe", "alice/jobs/hello:latest"]));
    assert!(said.contains("busybox:1"), "{said}");
}
