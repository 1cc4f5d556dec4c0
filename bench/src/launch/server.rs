//! `volley server` as its own process, and how its clients ask.

use crate::postgres::Postgres;
use crate::process::resident_mb;
use crate::wire::{Access, Connection, Protocol};
use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where the server keeps its tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Store {
    Sqlite,
    Postgres,
}

impl Store {
    pub fn name(self) -> &'static str {
        match self {
            Store::Sqlite => "SQLite",
            Store::Postgres => "PostgreSQL",
        }
    }
}

/// A running server; dropping it kills it.
pub struct Launch {
    child: Child,
    pub access: Access,
    pub home: PathBuf,
    pub store: Store,
    // After the server, which uses it.
    pub postgres: Option<Postgres>,
}

impl Drop for Launch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Launch {
    pub async fn start(program: &Path, home: &Path, store: Store) -> Result<Launch> {
        fs::create_dir_all(home)?;
        let postgres = match store {
            Store::Sqlite => None,
            Store::Postgres => Some(Postgres::start("fsync=on")),
        };
        let mut command = Command::new(program);
        command.arg("--home").arg(home).args(["server", "--listen", "127.0.0.1:0"]);
        command.args(postgres.as_ref().map(|postgres| format!("--database={}", postgres.url())));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let mut said = BufReader::new(child.stderr.take().context("its words are piped")?);
        let mut line = String::new();
        said.read_line(&mut line)?;
        let address = line.trim().strip_prefix("listening on http://").with_context(|| format!("it said `{line}`"))?;
        let address = address.parse()?;
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let key = fs::read_to_string(home.join("server/api-key"))?;
        Ok(Launch { child, access: Access::with_key(address, key.trim()), home: home.to_owned(), store, postgres })
    }

    pub fn resident_mb(&self) -> Result<f64> {
        resident_mb(self.child.id())
    }

    pub async fn connect(&self) -> Result<Connection> {
        self.access.connect(Protocol::Http1).await
    }
}

impl Connection {
    pub async fn graphql(&mut self, query: &str, variables: Value) -> Result<Bytes> {
        let body = json!({ "query": query, "variables": variables }).to_string();
        self.call(Method::POST, "/graphql", Bytes::from(body)).await
    }

    pub async fn read(&mut self, query: &str, variables: Value) -> Result<Value> {
        let mut answer: Value = serde_json::from_slice(&self.graphql(query, variables).await?)?;
        Ok(answer["data"].take())
    }
}
