//! Which control plane a verb speaks to, and as whom.
//!
//! In this order: `--server` and VOLLEY_API_KEY, W&B's own two variables, what `volley login` kept in the home, and the
//! server that `volley up` runs in this home.

use crate::home::{Home, write_private};
use crate::status;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use std::fs;
use volley_client::Client;

/// Options of every verb that speaks to a control plane.
#[derive(Debug, Clone, Default, Args)]
pub struct Remote {
    /// The server to speak to [default: the one of `volley login`, or of `volley up`]
    #[arg(long, env = "VOLLEY_SERVER", value_name = "URL", global = true)]
    pub server: Option<String>,
    /// The user or team whose things are meant [default: your own]
    #[arg(short, long, env = "WANDB_ENTITY", value_name = "NAME", global = true)]
    pub entity: Option<String>,
}

/// Where one is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Login {
    pub url: String,
    pub key: String,
}

/// A client that was recognised, and the entity that is meant.
pub struct Session {
    pub client: Client,
    pub username: String,
    pub entity: String,
}

impl Remote {
    /// As the environment has it, for verbs whose options are a cluster's.
    pub fn of_environment() -> Remote {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Remote { server: variable("VOLLEY_SERVER"), entity: variable("WANDB_ENTITY") }
    }

    /// Does something with the server.
    pub fn with<T>(&self, home: &Home, work: impl AsyncFnOnce(Session) -> Result<T>) -> Result<T> {
        let login = self.login(home)?;
        run(async {
            let client = Client::new(&login.url, &login.key)?;
            let (username, own) = client.viewer().await.map_err(|error| told(error, &login.url))?;
            work(Session { client, username, entity: self.entity.clone().unwrap_or(own) }).await
        })
    }

    pub fn login(&self, home: &Home) -> Result<Login> {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let kept = [kept(home)?, own(home)?];
        let url = self.server.clone().or_else(|| variable("WANDB_BASE_URL"));
        let key = variable("VOLLEY_API_KEY").or_else(|| variable("WANDB_API_KEY"));
        match (url, key) {
            (Some(url), Some(key)) => Ok(Login { url, key }),
            (Some(url), None) => {
                let same = |login: &Login| login.url.trim_end_matches('/') == url.trim_end_matches('/');
                let found = kept.into_iter().flatten().find(same);
                found.ok_or_else(|| anyhow!("there is no key for {url}\nhint: `volley login {url}`"))
            }
            (None, _) => kept.into_iter().flatten().next().ok_or_else(|| {
                anyhow!("no server is known\nhint: `volley login URL` for one that runs, `volley up` to start one here")
            }),
        }
    }
}

/// Runs what waits for a server.
pub fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A failure to reach a server says how to start one.
pub fn told(error: volley_client::Error, url: &str) -> anyhow::Error {
    let hint = match &error {
        volley_client::Error::Connect { .. } => format!("\nhint: does it run? `curl {url}/healthz`"),
        volley_client::Error::Refused { status, .. } if status.as_u16() == 401 => {
            format!("\nhint: `volley login {url}` with another key")
        }
        _ => String::new(),
    };
    anyhow!(error).context(format!("{url} does not let you in{hint}"))
}

fn kept(home: &Home) -> Result<Option<Login>> {
    let path = home.login();
    match fs::read_to_string(&path) {
        Ok(text) => {
            let read = serde_json::from_str(&text);
            read.map(Some).with_context(|| format!("`{}` is broken\nhint: `volley login` again", path.display()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read `{}`", path.display())),
    }
}

pub fn keep(home: &Home, login: &Login) -> Result<()> {
    home.create()?;
    write_private(&home.login(), &(serde_json::to_string_pretty(login)? + "\n"))
}

/// The server that runs in this home, as its first user.
pub fn own(home: &Home) -> Result<Option<Login>> {
    let Ok(key) = fs::read_to_string(home.server().join("api-key")) else { return Ok(None) };
    let Some(status) = status::of(home)? else { return Ok(None) };
    let part = status.parts.into_iter().find(|part| part.name == "server");
    Ok(part.map(|part| Login { url: part.address, key: key.trim().to_owned() }))
}

/// `entity/project/run`, of which the first two may be left out.
pub fn run_path<'a>(session: &'a Session, project: Option<&'a str>, written: &'a str) -> Result<[&'a str; 3]> {
    let parts: Vec<&str> = written.split('/').collect();
    let no_project = || anyhow!("`{written}` does not say which project\nhint: PROJECT/{written}, or --project");
    match parts[..] {
        [entity, project, run] => Ok([entity, project, run]),
        [project, run] => Ok([&session.entity, project, run]),
        [run] => Ok([&session.entity, project.ok_or_else(no_project)?, run]),
        _ => bail!("`{written}` is not the path of a run\nhint: ENTITY/PROJECT/RUN"),
    }
}
