//! Requests by hand, for what W&B's clients do not do.

use crate::support::{PATIENCE, Running};
use serde_json::Value;
use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;

pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {} {}", self.status, self.body))
    }
}

/// Sends a request; the answer is read as it comes.
pub fn open(running: &Running, key: &str, head: &str, body: &str) -> BufReader<TcpStream> {
    let address = running.url.strip_prefix("http://").expect("plain HTTP");
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let text = format!(
        "{head} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).expect("the request is sent");
    BufReader::new(stream)
}

pub fn send(running: &Running, key: &str, head: &str, body: &str) -> Answer {
    let mut text = String::new();
    open(running, key, head, body).read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, body: body.to_owned() }
}

pub fn graphql(running: &Running, key: &str, query: &str) -> Answer {
    send(running, key, "POST /graphql", &serde_json::json!({ "query": query }).to_string())
}
