//! `volley server` as its own process, and lean clients of it: one connection each, nothing parsed that need not be.

use crate::postgres::Postgres;
use crate::process::resident_mb;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tokio::net::TcpStream;

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
    address: String,
    key: String,
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
        let address = address.to_owned();
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        let key = fs::read_to_string(home.join("server/api-key"))?.trim().to_owned();
        Ok(Launch { child, address, key, home: home.to_owned(), store, postgres })
    }

    pub fn resident_mb(&self) -> Result<f64> {
        resident_mb(self.child.id())
    }

    pub async fn connect(&self) -> Result<Client> {
        let stream = TcpStream::connect(&self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Client { sender, authorization: format!("Bearer {}", self.key) })
    }
}

pub struct Client {
    sender: http1::SendRequest<Full<Bytes>>,
    authorization: String,
}

impl Client {
    pub async fn open(&mut self, method: Method, path: &str, body: Bytes) -> Result<Response<Incoming>> {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let request = request.header("host", "localhost").header("authorization", &self.authorization);
        self.sender.ready().await?;
        Ok(self.sender.send_request(request.body(Full::new(body))?).await?)
    }

    pub async fn call(&mut self, method: Method, path: &str, body: Bytes) -> Result<Bytes> {
        let answer = self.open(method, path, body).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&bytes));
        }
        Ok(bytes)
    }

    pub async fn graphql(&mut self, query: &str, variables: Value) -> Result<Bytes> {
        let body = json!({ "query": query, "variables": variables }).to_string();
        self.call(Method::POST, "/graphql", Bytes::from(body)).await
    }

    pub async fn read(&mut self, query: &str, variables: Value) -> Result<Value> {
        let mut answer: Value = serde_json::from_slice(&self.graphql(query, variables).await?)?;
        Ok(answer["data"].take())
    }
}
