//! A tiny HTTP/1.1 client over plain TCP, so that tests see every byte of an answer and can send what no library would.
//!
//! One connection per request, `Connection: close`; bodies with a length or in chunks.

use crate::harness::{PATIENCE, stage};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    pub code: u16,
    headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }

    /// Code, reason and message of a Status.
    #[track_caller]
    pub fn status(&self) -> (u16, String, String) {
        let status = self.json();
        assert_eq!(status["kind"], "Status", "{}", self.body);
        assert_eq!(status["code"].as_u64(), Some(u64::from(self.code)), "{}", self.body);
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        (self.code, text("reason"), text("message"))
    }

    /// The object of a successful answer.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert!(self.code < 300, "{}: {}", self.code, self.body);
        self.json()
    }
}

/// A request as it will be written.
pub struct Request {
    address: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A request with the admin's token.
pub fn request(method: &str, path: &str) -> Request {
    own(method, path).header("Authorization", &format!("Bearer {}", stage().token))
}

/// A request without credentials. From this process it would be the admin's own; as from a web page it is nobody's.
pub fn anonymous(method: &str, path: &str) -> Request {
    own(method, path).header("Origin", "https://example.com")
}

/// A request that only the connection proves: it comes from the user who runs the server.
pub fn own(method: &str, path: &str) -> Request {
    Request {
        address: stage().address.clone(),
        method: method.into(),
        path: path.into(),
        headers: Vec::new(),
        body: Vec::new(),
    }
}

impl Request {
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn body(mut self, content_type: &str, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        if content_type.is_empty() { self } else { self.header("Content-Type", content_type) }
    }

    /// Sends it to another server than the stage's.
    pub fn at(mut self, address: &str) -> Request {
        address.clone_into(&mut self.address);
        self
    }

    pub fn json(self, body: &Value) -> Request {
        self.body("application/json", body.to_string())
    }

    fn open(&self) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", self.method, self.path, self.address);
        if !self.body.is_empty() {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        head += "Connection: close\r\n";
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        stream.write_all(head.as_bytes()).expect("the server reads");
        // A server may answer and close before it has read a body that is too large.
        let _ = stream.write_all(&self.body);
        BufReader::new(stream)
    }

    #[track_caller]
    pub fn send(&self) -> Answer {
        let mut reader = self.open();
        let (code, headers) = head(&mut reader);
        let mut answer = Answer { code, headers, body: String::new() };
        let bytes = if answer.header("transfer-encoding") == "chunked" {
            let mut all = Vec::new();
            while let Some(chunk) = chunk(&mut reader) {
                all.extend(chunk);
            }
            all
        } else {
            let length = answer.header("content-length").parse().unwrap_or(0);
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("the body is as long as announced");
            body
        };
        answer.body = String::from_utf8_lossy(&bytes).into_owned();
        answer
    }

    /// Opens a stream of JSON lines.
    #[track_caller]
    pub fn stream(&self) -> Stream {
        let mut reader = self.open();
        let (code, headers) = head(&mut reader);
        let answer = Answer { code, headers, body: String::new() };
        assert_eq!(code, 200, "the stream opens");
        assert_eq!(answer.header("transfer-encoding"), "chunked");
        Stream { reader, rest: Vec::new() }
    }
}

fn head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).expect("an answer comes in time");
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.unwrap_or_else(|| panic!("no status line: {line:?}"));
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("headers come in time");
        let Some((name, value)) = line.trim_end().split_once(':') else { return (code, headers) };
        headers.push((name.to_owned(), value.trim().to_owned()));
    }
}

fn chunk(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = String::new();
    reader.read_line(&mut line).expect("a chunk comes in time");
    let length = usize::from_str_radix(line.trim(), 16).ok()?;
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes).expect("the chunk is whole");
    bytes.truncate(length);
    (length > 0).then_some(bytes)
}

/// An open watch.
pub struct Stream {
    reader: BufReader<TcpStream>,
    rest: Vec<u8>,
}

impl Stream {
    /// The next event, or none when the server has ended the stream.
    #[track_caller]
    pub fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).expect("an event is JSON"));
            }
            self.rest.extend(chunk(&mut self.reader)?);
        }
    }

    /// Type and name of the next event.
    #[track_caller]
    pub fn event(&mut self) -> (String, Value) {
        let event = self.next().expect("the stream goes on");
        (event["type"].as_str().unwrap_or_default().to_owned(), event["object"].clone())
    }
}

#[track_caller]
pub fn get(path: &str) -> Answer {
    request("GET", path).send()
}

#[track_caller]
pub fn post(path: &str, body: &Value) -> Answer {
    request("POST", path).json(body).send()
}

#[track_caller]
pub fn put(path: &str, body: &Value) -> Answer {
    request("PUT", path).json(body).send()
}

#[track_caller]
pub fn delete(path: &str) -> Answer {
    request("DELETE", path).send()
}

/// A patch; `form` is `merge`, `json`, `strategic` or `apply`.
#[track_caller]
pub fn patch(form: &str, path: &str, body: &Value) -> Answer {
    let media = match form {
        "merge" => "application/merge-patch+json",
        "json" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => panic!("no such patch: {other}"),
    };
    request("PATCH", path).body(media, body.to_string()).send()
}
