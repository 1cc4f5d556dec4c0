//! Speaks to a control plane over HTTP: ours, and in `launch` W&B's as well.
//!
//! The command line uses it for people and queues, the agent for leases, reports and logs; both follow `events`.

pub mod artifacts;
pub mod events;
pub mod items;
pub mod jobs;
pub mod launch;
pub mod people;

use reqwest::{Method, Response, StatusCode, header};
use serde_json::{Value, json};
use std::time::Duration;

/// A server on this machine or the next answers at once; one far away within seconds.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Of an answer that is not a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{url}` is not the URL of a server\nhint: such as http://127.0.0.1:8080")]
    Url { url: String },
    #[error("failed to reach the server at {url}")]
    Connect { url: String, source: reqwest::Error },
    #[error("{message}")]
    Refused { status: StatusCode, message: String, retry_after_s: Option<u64> },
    #[error("the server at {url} answered something else than was asked for: {what}")]
    Strange { url: String, what: String },
}

impl Error {
    /// Whether asking again later can help.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Connect { .. } => true,
            Error::Refused { status, .. } => status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS,
            Error::Url { .. } | Error::Strange { .. } => false,
        }
    }

    pub fn is_missing(&self) -> bool {
        matches!(self, Error::Refused { status: StatusCode::NOT_FOUND, .. })
    }
}

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Without a slash at the end.
    url: String,
    key: String,
}

impl Client {
    pub fn new(url: &str, key: &str) -> Result<Client> {
        let wrong = || Error::Url { url: url.to_owned() };
        let is_url = url.starts_with("http://") || url.starts_with("https://");
        is_url.then_some(()).ok_or_else(wrong)?;
        let http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).build();
        let http = http.map_err(|source| Error::Connect { url: url.to_owned(), source })?;
        Ok(Client { http, url: url.trim_end_matches('/').to_owned(), key: key.trim().to_owned() })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// A GraphQL request; what comes back is its `data`.
    pub async fn graphql(&self, query: &str, variables: Value) -> Result<Value> {
        let body = json!({ "query": query, "variables": variables });
        let mut answer = self.ask(Method::POST, "/graphql", Some(&body)).await?;
        Ok(answer["data"].take())
    }

    pub async fn get(&self, path: &str) -> Result<Value> {
        self.ask(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// With fields of its own in the head.
    pub async fn post_with(&self, path: &str, body: &Value, fields: &[(&'static str, &str)]) -> Result<Value> {
        self.ask_with(Method::POST, path, Some(body), fields).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask(Method::PUT, path, Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Result<Value> {
        self.ask(Method::PATCH, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Result<Value> {
        self.ask(Method::DELETE, path, None).await
    }

    /// Bytes to a URL that carries its own permission.
    pub async fn upload(&self, url: &str, bytes: Vec<u8>) -> Result<()> {
        let request = self.http.put(url).timeout(ANSWER_TIMEOUT).body(bytes);
        let answer = request.send().await.map_err(|source| self.lost(source))?;
        self.accepted(answer).await.map(drop)
    }

    /// The bytes of a URL that carries its own permission.
    pub async fn download(&self, url: &str) -> Result<Vec<u8>> {
        let answer = self.http.get(url).timeout(ANSWER_TIMEOUT).send().await.map_err(|source| self.lost(source))?;
        let bytes = self.accepted(answer).await?.bytes().await.map_err(|source| self.lost(source))?;
        Ok(bytes.to_vec())
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        self.ask_with(method, path, body, &[]).await
    }

    async fn ask_with(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        fields: &[(&'static str, &str)],
    ) -> Result<Value> {
        let mut request = self.http.request(method, format!("{}{path}", self.url)).timeout(ANSWER_TIMEOUT);
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, "application/json").body(body.to_string());
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let answer = request.basic_auth("api", Some(&self.key)).send().await.map_err(|source| self.lost(source))?;
        let bytes = self.accepted(answer).await?.bytes().await.map_err(|source| self.lost(source))?;
        let strange = |error: serde_json::Error| Error::Strange { url: self.url.clone(), what: error.to_string() };
        serde_json::from_slice(&bytes).map_err(strange)
    }

    /// An answer without a limit to how long it is read.
    async fn stream(&self, path: &str, fields: &[(&'static str, String)]) -> Result<Response> {
        let mut request = self.http.get(format!("{}{path}", self.url)).basic_auth("api", Some(&self.key));
        for (name, value) in fields {
            request = request.header(*name, value);
        }
        let answer = request.send().await.map_err(|source| self.lost(source))?;
        self.accepted(answer).await
    }

    fn lost(&self, source: reqwest::Error) -> Error {
        // The URL is ours to tell, and may hold a signature.
        Error::Connect { url: self.url.clone(), source: source.without_url() }
    }

    async fn accepted(&self, answer: Response) -> Result<Response> {
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let retry_after = answer.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let bytes = answer.bytes().await.unwrap_or_default();
        let told: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let message = told["errors"][0]["message"].as_str().or_else(|| told["error"].as_str());
        let message = message.map_or_else(|| format!("the server answered {status}"), worded);
        Err(Error::Refused { status, message, retry_after_s: retry_after })
    }
}

/// What to do is on a line of its own on the command line.
fn worded(message: &str) -> String {
    message.replacen("; hint: ", "\nhint: ", 1)
}

/// A part of a path.
pub fn part(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_how_to_speak() {
        assert!(Client::new("127.0.0.1:8080", "k").is_err());
        assert_eq!(part("a b/..%"), "a%20b%2F%2E%2E%25");
    }

    #[test]
    fn what_to_do_is_a_line_of_its_own() {
        assert_eq!(worded("no such queue; hint: make one"), "no such queue\nhint: make one");
    }
}
