//! A server for one test, and clients that know its address and key.

use crate::postgres::Postgres;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;
use volley_server::http::limits::Rates;
use volley_server::{Server, Settings};

/// Generous, because machines that build are busy; a test that waits longer has found a fault.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const KEY: &str = "0123456789abcdef0123456789abcdef01234567";
pub const USER: &str = "alice";

#[derive(Clone, Copy, Debug)]
pub enum Engine {
    Sqlite,
    Postgres,
}

/// Which of W&B's packages; each has an environment of its own.
#[derive(Clone, Copy, Debug)]
pub enum Client {
    Newest,
    /// From about a year and a half before the newest.
    Older,
}

pub struct Running {
    /// The package that `client` and `script` use.
    pub uses: Client,
    server: Option<Server>,
    pub url: String,
    pub home: TempDir,
    runtime: tokio::runtime::Runtime,
    // After the server, which closes its connections first.
    _postgres: Option<Postgres>,
}

impl Running {
    pub fn start(engine: Engine) -> Running {
        Running::start_with(engine, Rates::default())
    }

    pub fn start_with(engine: Engine, rates: Rates) -> Running {
        Running::start_in(engine, |settings| settings.rates = rates)
    }

    /// A server whose settings are changed before it starts.
    pub fn start_in(engine: Engine, change: impl FnOnce(&mut Settings)) -> Running {
        let home = tempfile::tempdir().expect("a folder");
        let postgres = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(Postgres::start("fsync=off")),
        };
        let mut settings = Settings {
            folder: home.path().join("server"),
            listen: ([127, 0, 0, 1], 0).into(),
            database: postgres.as_ref().map(Postgres::url),
            blobs: None,
            aws: Default::default(),
            public_url: None,
            first_user: USER.to_owned(),
            first_key: Some(KEY.to_owned()),
            rates: Rates::default(),
            events: Default::default(),
        };
        change(&mut settings);
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let server = runtime.block_on(Server::start(settings)).expect("the server starts");
        Running {
            uses: Client::Newest,
            url: server.url().to_owned(),
            server: Some(server),
            home,
            runtime,
            _postgres: postgres,
        }
    }

    pub fn start_for(engine: Engine, uses: Client) -> Running {
        let mut running = Running::start(engine);
        running.uses = uses;
        running
    }

    /// Runs a program of W&B's environment in a clean home; its output is shown if it fails.
    pub fn client(&self, program: &str) -> Command {
        self.client_of(self.uses, program)
    }

    fn client_of(&self, client: Client, program: &str) -> Command {
        let venv = match client {
            Client::Newest => ".cache/wandb",
            Client::Older => ".cache/wandb-older",
        };
        let bin = repository().join(venv).join("bin");
        let home = self.home.path().join("client");
        std::fs::create_dir_all(&home).expect("a home for the client");
        let mut command = Command::new(bin.join(program));
        command
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", &home)
            .env("WANDB_BASE_URL", &self.url)
            .env("WANDB_API_KEY", KEY)
            .env("WANDB_X_DISABLE_VIEWER", "false")
            .env("LANG", "C.UTF-8")
            .current_dir(&home);
        command
    }

    /// Runs one of the scripts beside this file.
    pub fn script(&self, name: &str) -> String {
        self.script_of(self.uses, name)
    }

    pub fn script_of(&self, client: Client, name: &str) -> String {
        let path = repository().join("tests/wandb").join(name);
        succeed(self.client_of(client, "python").arg(path))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }
}

pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}; hint: make setup"));
    let told = told(&output);
    assert!(output.status.success(), "{command:?} ended with {}:\n{told}", output.status);
    told
}

pub fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
