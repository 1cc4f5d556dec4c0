//! One HTTP/1.1 request over plain TCP, for the API server, a registry and servers in pods.
//!
//! A refused or broken connection is a value, because some tests kill the other side.

use serde_json::Value;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

pub struct Request<'a> {
    pub address: &'a str,
    pub method: &'a str,
    pub path: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
}

pub fn get(address: &str, path: &str) -> io::Result<Answer> {
    Request { address, method: "GET", path, headers: &[], body: b"" }.send()
}

impl Request<'_> {
    pub fn send(&self) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let (method, path, address, length) = (self.method, self.path, self.address, self.body.len());
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
        head += &format!("Content-Length: {length}\r\n");
        for (name, value) in self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all((head + "\r\n").as_bytes())?;
        stream.write_all(self.body)?;
        read_answer(&mut BufReader::new(stream))
    }
}

fn read_answer(reader: &mut impl BufRead) -> io::Result<Answer> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let code = code.ok_or_else(|| io::Error::other(format!("no status line: {line:?}")))?;
    let mut answer = Answer { code, headers: Vec::new(), body: Vec::new() };
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        answer.headers.push((name.to_owned(), value.trim().to_owned()));
    }
    if answer.header("transfer-encoding") == "chunked" {
        while let Some(chunk) = read_chunk(reader)? {
            answer.body.extend(chunk);
        }
    } else if let Ok(length) = answer.header("content-length").parse::<usize>() {
        answer.body = vec![0; length];
        reader.read_exact(&mut answer.body)?;
    } else {
        reader.read_to_end(&mut answer.body)?;
    }
    Ok(answer)
}

fn read_chunk(reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok((length > 0).then_some(bytes))
}
