//! From a request to a transport: what exec, attach and port-forward ask for, and the protocol both sides speak.
//!
//! `agree` answers 101 or the error that clients expect (spec K-EXEC-1, K-EXEC-2, K-SPDY-1); `Agreed::transport` waits for the
//! connection behind the answer and is spawned by the caller.

use super::channels::{Protocol, Version};
use super::session::Wants;
use super::{Io, Transport, spdy, websocket};
use crate::apiserver::request::Query;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use volley_api::kube::status::ApiError;

const STREAM_PROTOCOL: &str = "x-stream-protocol-version";
const SPDY: &str = "SPDY/3.1";
/// Ports of one request over channels; two channels each, numbered by a byte.
const PORTS_MAX: usize = 64;
/// Words of a command and bytes of it all are bounded by the request's head; this bounds what is copied.
const COMMAND_WORDS_MAX: usize = 4096;

/// What a connection is upgraded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// exec and attach.
    Command,
    PortForward,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Spdy(spdy::Version),
    Channels(Protocol),
    Tunnel,
}

/// SPDY stream protocols by purpose; v5 is not spoken over SPDY (spec K-SPDY-1).
const SPDY_COMMAND: &[(&str, spdy::Version)] = &[
    ("v4.channel.k8s.io", spdy::Version::V4),
    ("v3.channel.k8s.io", spdy::Version::V3),
    ("v2.channel.k8s.io", spdy::Version::V2),
    ("channel.k8s.io", spdy::Version::V1),
];
const SPDY_FORWARD: &[(&str, spdy::Version)] = &[("portforward.k8s.io", spdy::Version::V1)];

const WEBSOCKET_COMMAND: &[(&str, Choice)] = &[
    ("v5.channel.k8s.io", Choice::Channels(Protocol::binary(Version::V5))),
    ("v4.channel.k8s.io", Choice::Channels(Protocol::binary(Version::V4))),
    ("v4.base64.channel.k8s.io", Choice::Channels(Protocol::base64(Version::V4))),
    ("channel.k8s.io", Choice::Channels(Protocol::binary(Version::V1))),
    ("base64.channel.k8s.io", Choice::Channels(Protocol::base64(Version::V1))),
    ("", Choice::Channels(Protocol::binary(Version::V1))),
];
const WEBSOCKET_FORWARD: &[(&str, Choice)] = &[
    ("SPDY/3.1+portforward.k8s.io", Choice::Tunnel),
    ("v4.channel.k8s.io", Choice::Channels(Protocol::binary(Version::V4))),
    ("v4.base64.channel.k8s.io", Choice::Channels(Protocol::base64(Version::V4))),
    ("", Choice::Channels(Protocol::binary(Version::V4))),
];

/// An agreement with the client: the answer to send, and what comes after it.
#[derive(Debug)]
pub struct Agreed {
    pub response: Response<()>,
    choice: Choice,
}

impl Agreed {
    /// Waits until the 101 is sent and the connection is ours.
    pub async fn transport(self, upgrade: OnUpgrade) -> hyper::Result<Transport> {
        let io: Io = Box::new(TokioIo::new(upgrade.await?));
        Ok(match self.choice {
            Choice::Spdy(version) => Transport::Spdy { io, version },
            Choice::Channels(protocol) => Transport::Channels { io, protocol },
            Choice::Tunnel => Transport::Tunnel { io },
        })
    }

    /// Splits the answer off, so that it can be returned while the rest is spawned.
    pub fn answer(&mut self) -> Response<()> {
        std::mem::take(&mut self.response)
    }
}

/// Chooses the protocol of an upgrade from the request's headers.
pub fn agree(purpose: Purpose, headers: &HeaderMap) -> Result<Agreed, ApiError> {
    if !tokens(headers, CONNECTION.as_str()).any(|token| token.eq_ignore_ascii_case("upgrade")) {
        return Err(required());
    }
    let wanted: Vec<&str> = tokens(headers, UPGRADE.as_str()).collect();
    if wanted.iter().any(|token| token.eq_ignore_ascii_case("websocket")) {
        return agree_websocket(purpose, headers);
    }
    if wanted.iter().any(|token| token.eq_ignore_ascii_case(SPDY)) {
        return agree_spdy(purpose, headers);
    }
    Err(required())
}

fn required() -> ApiError {
    ApiError::bad_request("Upgrade request required")
}

fn forbidden(message: String) -> ApiError {
    ApiError::new(403, "Forbidden", message)
}

fn agree_spdy(purpose: Purpose, headers: &HeaderMap) -> Result<Agreed, ApiError> {
    let offered: Vec<&str> = tokens(headers, STREAM_PROTOCOL).collect();
    if offered.is_empty() {
        return Err(ApiError::bad_request("unable to upgrade: X-Stream-Protocol-Version is required"));
    }
    let spoken = match purpose {
        Purpose::Command => SPDY_COMMAND,
        Purpose::PortForward => SPDY_FORWARD,
    };
    let chosen = offered.iter().find_map(|offer| spoken.iter().find(|(name, _)| name == offer));
    let Some((name, version)) = chosen else {
        let accepted: Vec<&str> = spoken.iter().map(|(name, _)| *name).collect();
        return Err(forbidden(format!(
            "unable to upgrade: unable to negotiate protocol: client supports [{}], server accepts [{}]",
            offered.join(" "),
            accepted.join(" ")
        )));
    };
    let mut response = switching(SPDY);
    response.headers_mut().insert(STREAM_PROTOCOL, HeaderValue::from_static(name));
    Ok(Agreed { response, choice: Choice::Spdy(*version) })
}

fn agree_websocket(purpose: Purpose, headers: &HeaderMap) -> Result<Agreed, ApiError> {
    let is_known_version = tokens(headers, SEC_WEBSOCKET_VERSION.as_str()).any(|version| version == "13");
    let key = tokens(headers, SEC_WEBSOCKET_KEY.as_str()).next();
    let Some(key) = key.filter(|_| is_known_version) else {
        return Err(ApiError::bad_request("the WebSocket handshake needs version 13 and a key"));
    };
    let offered: Vec<&str> = tokens(headers, SEC_WEBSOCKET_PROTOCOL.as_str()).collect();
    let offers = if offered.is_empty() { &[""][..] } else { &offered[..] };
    let spoken = match purpose {
        Purpose::Command => WEBSOCKET_COMMAND,
        Purpose::PortForward => WEBSOCKET_FORWARD,
    };
    let chosen = offers.iter().find_map(|offer| spoken.iter().find(|(name, _)| name == offer));
    let Some((name, choice)) = chosen else {
        return Err(forbidden(format!(
            "unable to upgrade: requested protocol(s) are not supported: [{}]",
            offers.join(" ")
        )));
    };
    let mut response = switching("websocket");
    let accept = HeaderValue::from_str(&websocket::accept_key(key)).expect("base64 is a valid header");
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    if !name.is_empty() {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name));
    }
    Ok(Agreed { response, choice: *choice })
}

fn switching(protocol: &'static str) -> Response<()> {
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(protocol));
    response
}

/// The comma-separated values of all headers of a name, in order.
fn tokens<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

/// `PodExecOptions` and `PodAttachOptions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOptions {
    /// Empty when the client leaves the choice to us.
    pub container: String,
    /// Empty for attach.
    pub command: Vec<String>,
    pub wants: Wants,
}

impl CommandOptions {
    pub fn parse(query: &Query) -> Result<CommandOptions, ApiError> {
        let tty = query.flag("tty");
        // A terminal has one output, so the reference drops stderr there.
        let wants = Wants {
            stdin: query.flag("stdin"),
            stdout: query.flag("stdout"),
            stderr: query.flag("stderr") && !tty,
            tty,
        };
        if !wants.stdin && !wants.stdout && !wants.stderr {
            return Err(ApiError::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
        }
        let command: Vec<String> = query.all("command").map(str::to_owned).collect();
        if command.len() > COMMAND_WORDS_MAX {
            return Err(ApiError::bad_request(format!("a command has at most {COMMAND_WORDS_MAX} words")));
        }
        Ok(CommandOptions { container: query.text("container").to_owned(), command, wants })
    }
}

/// The `ports` of a port-forward; only channels need them, where at least one is required.
pub fn forward_ports(query: &Query) -> Result<Vec<u16>, ApiError> {
    let mut ports = Vec::new();
    for text in query.all("ports").flat_map(|value| value.split(',')) {
        let parsed = text.trim().parse::<u16>();
        let port = parsed.map_err(|_| ApiError::bad_request(format!("unable to parse {text:?} as a port")))?;
        if port == 0 {
            return Err(ApiError::bad_request(format!("port {text:?} must be > 0")));
        }
        ports.push(port);
    }
    if ports.len() > PORTS_MAX {
        return Err(ApiError::bad_request(format!("at most {PORTS_MAX} ports can be forwarded at once")));
    }
    Ok(ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    fn websocket(protocols: &[&str]) -> HeaderMap {
        let mut all = headers(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "websocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ]);
        for protocol in protocols {
            all.append("sec-websocket-protocol", HeaderValue::from_str(protocol).unwrap());
        }
        all
    }

    fn spdy(protocols: &[&str]) -> HeaderMap {
        let mut all = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        for protocol in protocols {
            all.append("x-stream-protocol-version", HeaderValue::from_str(protocol).unwrap());
        }
        all
    }

    // K-EXEC-1
    #[test]
    fn request_without_an_upgrade_is_told_so() {
        for given in [
            headers(&[]),
            headers(&[("upgrade", "websocket")]),
            headers(&[("connection", "upgrade"), ("upgrade", "h2c")]),
        ] {
            let error = agree(Purpose::Command, &given).unwrap_err();
            assert_eq!((error.code, error.message.as_str()), (400, "Upgrade request required"));
        }
    }

    // K-EXEC-2
    #[test]
    fn first_offer_that_we_speak_is_chosen() {
        let kube_rs = websocket(&["v5.channel.k8s.io, v4.channel.k8s.io"]);
        let agreed = agree(Purpose::Command, &kube_rs).unwrap();
        assert_eq!(agreed.response.status(), 101);
        assert_eq!(agreed.response.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
        assert_eq!(agreed.response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        // K-PF-1
        let agreed = agree(Purpose::PortForward, &kube_rs).unwrap();
        assert_eq!(agreed.response.headers()["sec-websocket-protocol"], "v4.channel.k8s.io");
        // K-SPDY-5
        let agreed = agree(Purpose::PortForward, &websocket(&["SPDY/3.1+portforward.k8s.io"])).unwrap();
        assert_eq!(agreed.choice, Choice::Tunnel);
        let none = agree(Purpose::Command, &websocket(&[])).unwrap();
        assert!(!none.response.headers().contains_key("sec-websocket-protocol"));
    }

    // K-SPDY-1
    #[test]
    fn spdy_is_answered_with_v4_even_when_v5_is_offered() {
        let agreed =
            agree(Purpose::Command, &spdy(&["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io"])).unwrap();
        assert_eq!(agreed.response.headers()["x-stream-protocol-version"], "v4.channel.k8s.io");
        assert_eq!(agreed.response.headers()["upgrade"], "SPDY/3.1");
        assert_eq!(agreed.choice, Choice::Spdy(spdy::Version::V4));
        let forward = agree(Purpose::PortForward, &spdy(&["portforward.k8s.io"])).unwrap();
        assert_eq!(forward.response.headers()["x-stream-protocol-version"], "portforward.k8s.io");
    }

    // K-EXEC-2 K-SPDY-1
    #[test]
    fn nothing_in_common_is_forbidden() {
        assert_eq!(agree(Purpose::Command, &websocket(&["v9.channel.k8s.io"])).unwrap_err().code, 403);
        let error = agree(Purpose::PortForward, &spdy(&["a", "b"])).unwrap_err();
        assert_eq!(error.code, 403);
        assert_eq!(
            error.message,
            "unable to upgrade: unable to negotiate protocol: client supports [a b], server accepts [portforward.k8s.io]"
        );
        assert_eq!(agree(Purpose::Command, &spdy(&[])).unwrap_err().code, 400);
    }

    // K-EXEC-1
    #[test]
    fn options_are_read_and_a_terminal_excludes_stderr() {
        let query =
            Query::parse("command=sh&command=-c&command=a+b&container=c&stdin=true&stdout=true&stderr=true&tty=true");
        let options = CommandOptions::parse(&query).unwrap();
        assert_eq!(options.command, ["sh", "-c", "a b"]);
        assert_eq!(options.wants, Wants { stdin: true, stdout: true, stderr: false, tty: true });
        assert_eq!(CommandOptions::parse(&Query::parse("command=ls")).unwrap_err().code, 400);
    }

    // K-PF-1
    #[test]
    fn ports_are_read_from_repeated_or_joined_values() {
        assert_eq!(forward_ports(&Query::parse("ports=80&ports=81,82")), Ok(vec![80, 81, 82]));
        assert_eq!(forward_ports(&Query::parse("")), Ok(vec![]));
        for bad in ["ports=0", "ports=x", "ports=", "ports=70000"] {
            assert_eq!(forward_ports(&Query::parse(bad)).unwrap_err().code, 400);
        }
    }
}
