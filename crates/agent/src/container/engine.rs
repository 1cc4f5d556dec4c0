//! A container engine's own API, over its socket: Docker's, which Podman speaks as well.

use super::auth;
use crate::runner::Log;
use futures::stream::{BoxStream, try_unfold};
use futures::{StreamExt as _, TryStreamExt as _};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use volley_client::part;
use volley_plan::launch::engine::pulled;

/// Of an answer that is not a stream.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A line of a stream of JSON; longer ones are not the engine's.
const LINE_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("the container engine at {place} does not answer")]
    Connect { place: String, source: reqwest::Error },
    #[error("{message}")]
    Refused { status: StatusCode, message: String },
    #[error("the container engine answered something strange: {0}")]
    Strange(String),
}

impl EngineError {
    pub fn is_missing(&self) -> bool {
        matches!(self, EngineError::Refused { status: StatusCode::NOT_FOUND, .. })
    }

    /// Whether asking again can help.
    pub fn is_passing(&self) -> bool {
        match self {
            EngineError::Connect { .. } => true,
            EngineError::Refused { .. } | EngineError::Strange(_) => false,
        }
    }
}

pub type Result<T> = std::result::Result<T, EngineError>;

#[derive(Debug, Clone)]
pub struct Engine {
    http: reqwest::Client,
    base: String,
    /// For people.
    place: String,
}

/// Where engines are looked for, the first that is there is used.
fn places(environment: &BTreeMap<String, String>) -> Vec<String> {
    let named = ["DOCKER_HOST", "CONTAINER_HOST"].iter().filter_map(|name| environment.get(*name).cloned());
    let own = environment.get("XDG_RUNTIME_DIR").into_iter();
    let own =
        own.flat_map(|folder| ["docker.sock", "podman/podman.sock"].map(|name| format!("unix://{folder}/{name}")));
    let usual = ["/var/run/docker.sock", "/run/podman/podman.sock"].map(|path| format!("unix://{path}"));
    let named: Vec<String> = named.filter(|place| !place.is_empty()).collect();
    if named.is_empty() { own.chain(usual).collect() } else { named }
}

impl Engine {
    /// The engine of this machine, or why there is none.
    pub fn find(environment: &BTreeMap<String, String>) -> std::result::Result<Engine, String> {
        let places = places(environment);
        for place in &places {
            let builder = reqwest::Client::builder();
            let (builder, base) = match (place.strip_prefix("unix://"), place.strip_prefix("tcp://")) {
                (Some(path), _) if PathBuf::from(path).exists() => {
                    (builder.unix_socket(PathBuf::from(path)), "http://engine".to_owned())
                }
                (Some(_), _) => continue,
                (None, Some(host)) => (builder, format!("http://{host}")),
                (None, None) => return Err(format!("`{place}` is no place of a container engine; hint: unix:///PATH")),
            };
            let http = builder.build().map_err(|error| format!("failed to speak with `{place}`: {error}"))?;
            return Ok(Engine { http, base, place: place.clone() });
        }
        let hint = "start Docker or Podman (`systemctl start podman.socket`), or set DOCKER_HOST";
        Err(format!("no container engine is on this machine: there is none of {}; hint: {hint}", places.join(", ")))
    }

    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response> {
        let lost = |source: reqwest::Error| EngineError::Connect { place: self.place.clone(), source };
        let answer = request.send().await.map_err(lost)?;
        let status = answer.status();
        // 304: it is so already.
        if status.is_success() || status == StatusCode::NOT_MODIFIED {
            return Ok(answer);
        }
        let bytes = answer.bytes().await.unwrap_or_default();
        let told: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = told["message"].as_str().or_else(|| told["cause"].as_str());
        let message = text.map_or_else(|| format!("the container engine answered {status}"), str::to_owned);
        Err(EngineError::Refused { status, message })
    }

    async fn json(&self, request: RequestBuilder) -> Result<Value> {
        let answer = self.send(request.timeout(ANSWER_TIMEOUT)).await?;
        let lost = |source: reqwest::Error| EngineError::Connect { place: self.place.clone(), source };
        let bytes = answer.bytes().await.map_err(lost)?;
        serde_json::from_slice(&bytes).map_err(|error| EngineError::Strange(error.to_string()))
    }

    /// All containers that have this label.
    pub async fn labelled(&self, label: &str) -> Result<Vec<Value>> {
        let filters = json!({ "label": [label] }).to_string();
        let path = format!("/containers/json?all=true&filters={}", part(&filters));
        let list = self.json(self.ask(Method::GET, &path)).await?;
        Ok(list.as_array().cloned().unwrap_or_default())
    }

    pub async fn inspect(&self, id: &str) -> Result<Option<Value>> {
        match self.json(self.ask(Method::GET, &format!("/containers/{}/json", part(id)))).await {
            Ok(container) => Ok(Some(container)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes a container; gives its id.
    pub async fn create(&self, name: &str, platform: Option<&str>, body: &Value) -> Result<String> {
        let platform = platform.map(|platform| format!("&platform={}", part(platform))).unwrap_or_default();
        let path = format!("/containers/create?name={}{platform}", part(name));
        let made =
            self.json(self.ask(Method::POST, &path).header("content-type", "application/json").body(body.to_string()));
        let made = made.await?;
        made["Id"]
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| EngineError::Strange("a container without an id".to_owned()))
    }

    pub async fn start(&self, id: &str) -> Result<()> {
        let path = format!("/containers/{}/start", part(id));
        self.send(self.ask(Method::POST, &path).timeout(ANSWER_TIMEOUT)).await.map(drop)
    }

    /// Asks it to end and ends it after the grace; returns when it has ended.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<()> {
        let path = format!("/containers/{}/stop?t={}", part(id), grace.as_secs());
        gone_is_fine(self.send(self.ask(Method::POST, &path).timeout(grace + ANSWER_TIMEOUT)).await)
    }

    pub async fn remove(&self, id: &str) -> Result<()> {
        let path = format!("/containers/{}?force=true&v=true", part(id));
        gone_is_fine(self.send(self.ask(Method::DELETE, &path).timeout(ANSWER_TIMEOUT)).await)
    }

    pub async fn has_image(&self, image: &str) -> Result<bool> {
        match self.json(self.ask(Method::GET, &format!("/images/{image}/json"))).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether the image is where those who run it look for it: in its registry, or on this machine. An engine that cannot
    /// ask a registry (Podman's has no such call) pushes what it has.
    pub async fn is_published(&self, image: &str, is_pushed: bool) -> Result<bool> {
        if !is_pushed {
            return self.has_image(image).await;
        }
        let request = self.ask(Method::GET, &format!("/distribution/{image}/json"));
        let request = request.header("X-Registry-Auth", auth::header(image));
        match self.json(request).await {
            Ok(_) => Ok(true),
            Err(EngineError::Refused { .. } | EngineError::Strange(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub async fn pull(&self, image: &str, platform: Option<&str>) -> Result<()> {
        let (name, tag) = pulled(image);
        let platform = platform.map(|platform| format!("&platform={}", part(platform))).unwrap_or_default();
        let path = format!("/images/create?fromImage={}&tag={}{platform}", part(&name), part(&tag));
        let request = self.ask(Method::POST, &path).header("X-Registry-Auth", auth::header(image));
        self.work(request).await.map(drop)
    }

    pub async fn push(&self, image: &str) -> Result<()> {
        let (name, tag) = pulled(image);
        let path = format!("/images/{name}/push?tag={}", part(&tag));
        self.work(self.ask(Method::POST, &path).header("X-Registry-Auth", auth::header(image))).await.map(drop)
    }

    /// Builds an image out of a tar archive; gives what the engine said.
    pub async fn build(&self, image: &str, options: &[(&str, &str)], archive: Vec<u8>) -> Result<Vec<String>> {
        let options = options.iter().map(|(name, value)| format!("&{name}={}", part(value))).collect::<String>();
        let path = format!("/build?t={}&rm=true&forcerm=true{options}", part(image));
        let request = self.ask(Method::POST, &path).header("content-type", "application/x-tar");
        self.work(request.header("X-Registry-Config", auth::all()).body(archive)).await
    }

    /// Work that the engine tells of as it goes; an error may come at its end.
    async fn work(&self, request: RequestBuilder) -> Result<Vec<String>> {
        let mut steps = lines(self.send(request).await?);
        let mut said = Vec::new();
        while let Some(step) = steps.next().await {
            let step = step.map_err(|error| EngineError::Strange(error.to_string()))?;
            if let Some(error) = step["error"].as_str().or_else(|| step["errorDetail"]["message"].as_str()) {
                let message = [said.join(""), error.to_owned()].concat();
                return Err(EngineError::Refused { status: StatusCode::UNPROCESSABLE_ENTITY, message });
            }
            said.extend(step["stream"].as_str().map(str::to_owned));
        }
        Ok(said)
    }

    /// What happens to containers from now on.
    pub async fn events(&self) -> Result<BoxStream<'static, io::Result<Value>>> {
        let filters = json!({ "type": ["container"] }).to_string();
        let path = format!("/events?filters={}", part(&filters));
        Ok(lines(self.send(self.ask(Method::GET, &path)).await?))
    }

    /// What a container says and said, each line with its time before it.
    pub async fn logs(&self, id: &str, since: Option<i64>) -> Result<Log> {
        let since = since.map(|since| format!("&since={since}")).unwrap_or_default();
        let path = format!("/containers/{}/logs?follow=true&stdout=true&stderr=true&timestamps=true{since}", part(id));
        let answer = self.send(self.ask(Method::GET, &path)).await?;
        let stream = answer.bytes_stream().map_err(io::Error::other).boxed();
        let frames = Frames { stream, rest: Vec::new() };
        Ok(Box::pin(try_unfold(frames, Frames::next).into_async_read()))
    }
}

fn gone_is_fine(done: Result<Response>) -> Result<()> {
    match done {
        Err(error) if !error.is_missing() => Err(error),
        _ => Ok(()),
    }
}

/// JSON values, one a line.
fn lines(answer: Response) -> BoxStream<'static, io::Result<Value>> {
    let stream = answer.bytes_stream().map_err(io::Error::other).boxed();
    try_unfold(
        (stream, Vec::new()),
        |(mut stream, mut rest): (BoxStream<'static, io::Result<bytes::Bytes>>, Vec<u8>)| async move {
            loop {
                if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    if line.trim_ascii().is_empty() {
                        continue;
                    }
                    let value: Value = serde_json::from_slice(&line).map_err(io::Error::other)?;
                    return Ok(Some((value, (stream, rest))));
                }
                if rest.len() > LINE_BYTES_MAX {
                    return Err(io::Error::other("a line without an end"));
                }
                match stream.next().await {
                    Some(bytes) => rest.extend_from_slice(&bytes?),
                    // The last one may have no end of line.
                    None if !rest.trim_ascii().is_empty() => rest.push(b'\n'),
                    None => return Ok(None),
                }
            }
        },
    )
    .boxed()
}

/// Both streams of a container in one: each frame has eight bytes before it, of which the last four are its length.
struct Frames {
    stream: BoxStream<'static, io::Result<bytes::Bytes>>,
    rest: Vec<u8>,
}

const HEAD: usize = 8;

impl Frames {
    async fn next(mut self) -> io::Result<Option<(Vec<u8>, Frames)>> {
        loop {
            if let Some(frame) = take_frame(&mut self.rest)? {
                return Ok(Some((frame, self)));
            }
            match self.stream.next().await {
                Some(bytes) => self.rest.extend_from_slice(&bytes?),
                None => return Ok(None),
            }
        }
    }
}

fn take_frame(rest: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let Some((head, body)) = rest.split_first_chunk::<HEAD>() else { return Ok(None) };
    if head[0] > 2 || head[1..4] != [0, 0, 0] {
        return Err(io::Error::other("the engine's log is not in frames"));
    }
    let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
    if body.len() < length {
        return Ok(None);
    }
    let frame = body[..length].to_vec();
    rest.drain(..HEAD + length);
    Ok(Some(frame))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_in_any_pieces() {
        let mut rest = b"\x01\0\0\0\0\0\0\x03abc\x02\0\0\0\0\0\0\x01".to_vec();
        assert_eq!(take_frame(&mut rest).unwrap(), Some(b"abc".to_vec()));
        assert_eq!(take_frame(&mut rest).unwrap(), None);
        rest.push(b'd');
        assert_eq!(take_frame(&mut rest).unwrap(), Some(b"d".to_vec()));
        assert_eq!(take_frame(&mut rest).unwrap(), None);
        assert!(take_frame(&mut b"no frames here".to_vec()).is_err());
    }

    // C-10
    #[test]
    fn the_engine_that_is_named_goes_before_those_that_are_usual() {
        let variables = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let named: BTreeMap<_, _> =
            variables(&[("DOCKER_HOST", "unix:///no/such.sock"), ("XDG_RUNTIME_DIR", "/run/user/1")]);
        assert_eq!(places(&named), ["unix:///no/such.sock"]);
        let error = Engine::find(&named).unwrap_err();
        assert!(error.contains("unix:///no/such.sock") && error.contains("hint"), "{error}");
        let usual = places(&variables(&[("XDG_RUNTIME_DIR", "/run/user/1")]));
        assert_eq!(usual[1], "unix:///run/user/1/podman/podman.sock");
        assert_eq!(usual.last().unwrap(), "unix:///run/podman/podman.sock");
        assert!(Engine::find(&variables(&[("DOCKER_HOST", "ssh://h")])).unwrap_err().contains("ssh://h"));
    }
}
